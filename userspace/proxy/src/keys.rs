//! Keyed hashes: which worker owns a call, and which transaction a request belongs to.
//!
//! The keys are random per start, so that nobody outside can aim for collisions. All workers of a
//! node share them.

use core::hash::{BuildHasher, Hasher};
use sip::{HeaderName, Message, Method, StartLine, branch, scan};

/// Hashes with the node's keys.
#[derive(Clone)]
pub struct Keys(pub(crate) ahash::RandomState);

impl Keys {
    /// From random seeds.
    pub fn new(seeds: [u64; 4]) -> Self {
        Self(ahash::RandomState::with_seeds(seeds[0], seeds[1], seeds[2], seeds[3]))
    }

    /// Key of a call, by its Call-ID.
    pub fn call(&self, call_id: &[u8]) -> u64 {
        self.hash(&[call_id])
    }

    /// Worker that owns a call.
    pub fn owner(call: u64, workers: u8) -> u8 {
        // The high bits choose the worker, so that the low ones stay good for hash tables.
        ((u128::from(call) * u128::from(workers)) >> 64) as u8
    }

    /// Hash of several parts, with their boundaries.
    pub fn hash(&self, parts: &[&[u8]]) -> u64 {
        let mut hasher = self.0.build_hasher();
        for part in parts {
            hasher.write_usize(part.len());
            hasher.write(part);
        }
        hasher.finish()
    }

    /// Key of the server transaction that a request belongs to (RFC 3261 17.2.3). ACK and CANCEL give
    /// the key of their INVITE.
    pub(crate) fn transaction(&self, m: &Message<'_>, via: &scan::Via<'_>, method: Method) -> u64 {
        let method_name = match m.start {
            StartLine::Request { name, .. } => m.text(name),
            StartLine::Response { .. } => b"",
        };
        match via.branch {
            Some(branch) if branch::is_rfc3261(branch) => self.rfc3261_transaction(via, method, method_name),
            _ => self.rfc2543_transaction(m, invite_for(method, method_name)),
        }
    }

    /// The same from a Via alone: a response gives the key of its request, if that was of RFC 3261.
    pub(crate) fn rfc3261_transaction(&self, via: &scan::Via<'_>, method: Method, name: &[u8]) -> u64 {
        let port = via.port.unwrap_or(5060).to_be_bytes();
        let branch = via.branch.unwrap_or_default();
        self.hash(&[branch, via.host, &port, invite_for(method, name)])
    }

    /// Without the magic cookie the headers that stay equal tell a transaction.
    fn rfc2543_transaction(&self, m: &Message<'_>, method_name: &[u8]) -> u64 {
        let value = |name| m.value(name).unwrap_or_default();
        let uri = match m.start {
            StartLine::Request { uri, .. } => m.text(uri),
            StartLine::Response { .. } => b"",
        };
        let cseq = scan::CSeq::parse(value(HeaderName::CSeq)).map_or(0, |c| c.number).to_be_bytes();
        let parts = [
            uri,
            value(HeaderName::From),
            value(HeaderName::CallId),
            &cseq,
            value(HeaderName::Via),
            method_name,
        ];
        self.hash(&parts)
    }
}

/// ACK and CANCEL belong to an INVITE.
fn invite_for(method: Method, name: &[u8]) -> &[u8] {
    if matches!(method, Method::Ack | Method::Cancel) { b"INVITE" } else { name }
}

/// A hasher for keys that are hashes already.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AlreadyHashed(u64);

impl Hasher for AlreadyHashed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for b in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*b);
        }
    }

    fn write_u64(&mut self, n: u64) {
        self.0 = n;
    }
}

/// A map whose keys come from [`Keys`].
pub(crate) type KeyMap<V> = hashbrown::HashMap<u64, V, core::hash::BuildHasherDefault<AlreadyHashed>>;
