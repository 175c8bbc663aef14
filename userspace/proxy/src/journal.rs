//! What became of the latest calls, for `strowger explain`: a ring of records, written once per
//! attempt, never per packet.

use crate::context::MAX_ATTEMPTS;
use alloc::vec::Vec;
use arrayvec::ArrayVec;
use core::{mem, net::SocketAddr};
use routing::{ListenerId, PeerId, Why};
use sip::transaction::Time;

/// Calls remembered by each worker.
pub const CAPACITY: usize = 2048;
/// Bytes of a Call-ID that are kept.
pub const CALL_ID: usize = 96;

/// One new request outside a dialog, and all that was done about it.
///
/// Laid out so that a call with one attempt takes the first [`RECORD_HEAD`] bytes only.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub struct Record {
    /// Number of the record, counted up by its worker.
    pub number: u64,
    /// When it arrived.
    pub at: Time,
    /// Who sent it.
    pub remote: SocketAddr,
    /// Where it arrived.
    pub listener: ListenerId,
    /// Call-ID, cut off at [`CALL_ID`].
    pub call_id: ArrayVec<u8, CALL_ID>,
    /// What the sender got, and when.
    pub outcome: Option<(Outcome, Time)>,
    /// Attempts in order.
    pub attempts: ArrayVec<AttemptRecord, MAX_ATTEMPTS>,
}

/// Bytes of a [`Record`] up to the end of its first attempt; the list has its length before it.
pub const RECORD_HEAD: usize =
    mem::offset_of!(Record, attempts) + align_of::<AttemptRecord>() + size_of::<AttemptRecord>();

/// One peer that was tried.
#[derive(Clone, Debug)]
pub struct AttemptRecord {
    /// The peer.
    pub peer: PeerId,
    /// Why this one.
    pub why: Why,
    /// When it was asked.
    pub at: Time,
    /// Its first response.
    pub first: Option<(u16, Time)>,
    /// How the attempt ended; none while it is under way.
    pub end: Option<(End, Time)>,
}

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// With a final response.
    Status(u16),
    /// No response at all in time.
    Silence,
    /// Provisional responses, but no final one in time (timer C, or a CANCEL without effect).
    NoFinal,
    /// The network says that the peer cannot be reached.
    Unreachable,
    /// There was no port for its media: the request was not sent.
    NoMediaPort,
    /// Its peer became UNHEALTHY meanwhile.
    PeerDied,
    /// Another attempt was answered.
    Lost,
    /// Forwarded without state: what came of it is not known here.
    Stateless,
}

/// What the sender of a request got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A peer's final response.
    Peer(u16),
    /// An answer of this node.
    Node(u16, &'static str),
    /// Not known here: the request was forwarded without state.
    Unknown,
}

/// The ring.
pub(crate) struct Journal {
    records: Vec<Record>,
    written: u64,
}

impl Default for Journal {
    /// With room for all records: it never grows while calls come in.
    fn default() -> Self {
        Self { records: Vec::with_capacity(CAPACITY), written: 0 }
    }
}

impl Journal {
    /// Starts a record; its number.
    pub(crate) fn open(&mut self, call_id: &[u8], listener: ListenerId, remote: SocketAddr, at: Time) -> u64 {
        let number = self.written;
        self.written += 1;
        // A record used again is overwritten where it is filled, not as a whole: it is large.
        match self.records.get_mut(number as usize % CAPACITY) {
            Some(slot) => {
                (slot.number, slot.listener, slot.remote, slot.at) = (number, listener, remote, at);
                slot.call_id.clear();
                slot.attempts.clear();
                slot.outcome = None;
            }
            None => self.records.push(Record {
                number,
                at,
                remote,
                listener,
                call_id: ArrayVec::new(),
                outcome: None,
                attempts: ArrayVec::new(),
            }),
        }
        if let Some(record) = self.record(Some(number)) {
            let _ = record.call_id.try_extend_from_slice(&call_id[..call_id.len().min(CALL_ID)]);
        }
        number
    }

    /// Where in memory the next record will lie, if it was used before.
    #[inline]
    pub(crate) fn place_of_next(&self) -> Option<*const u8> {
        self.records.get(self.written as usize % CAPACITY).map(|record| core::ptr::from_ref(record).cast())
    }

    fn record(&mut self, number: Option<u64>) -> Option<&mut Record> {
        let number = number?;
        self.records.get_mut(number as usize % CAPACITY).filter(|r| r.number == number)
    }

    pub(crate) fn attempt(&mut self, number: Option<u64>, peer: PeerId, why: Why, at: Time) {
        if let Some(record) = self.record(number) {
            let _ = record.attempts.try_push(AttemptRecord { peer, why, at, first: None, end: None });
        }
    }

    fn of_peer(&mut self, number: Option<u64>, peer: Option<PeerId>) -> Option<&mut AttemptRecord> {
        self.record(number)?.attempts.iter_mut().find(|a| Some(a.peer) == peer)
    }

    pub(crate) fn response(&mut self, number: Option<u64>, peer: Option<PeerId>, status: u16, at: Time) {
        if let Some(attempt) = self.of_peer(number, peer) {
            attempt.first.get_or_insert((status, at));
        }
    }

    /// The first end counts: what comes afterwards changes nothing for the call.
    pub(crate) fn end(&mut self, number: Option<u64>, peer: Option<PeerId>, end: End, at: Time) {
        if let Some(attempt) = self.of_peer(number, peer) {
            attempt.end.get_or_insert((end, at));
        }
    }

    pub(crate) fn outcome(&mut self, number: Option<u64>, outcome: Outcome, at: Time) {
        if let Some(record) = self.record(number) {
            record.outcome.get_or_insert((outcome, at));
        }
    }

    /// Records of a Call-ID, oldest first.
    pub(crate) fn of_call(&self, call_id: &[u8]) -> Vec<Record> {
        let wanted = &call_id[..call_id.len().min(CALL_ID)];
        let mut found: Vec<_> = self.records.iter().filter(|r| &r.call_id[..] == wanted).cloned().collect();
        found.sort_by_key(|r| r.number);
        found
    }

    /// The latest records, oldest first.
    pub(crate) fn latest(&self, count: usize) -> Vec<Record> {
        let first = self.written.saturating_sub(count as u64);
        let mut found: Vec<_> = self.records.iter().filter(|r| r.number >= first).cloned().collect();
        found.sort_by_key(|r| r.number);
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::time::Duration;

    #[test]
    fn the_ring_forgets_the_oldest_and_never_mixes_calls() {
        let mut journal = Journal::default();
        let remote = "192.0.2.1:5060".parse().unwrap();
        let open = |n: usize, journal: &mut Journal| {
            journal.open(
                alloc::format!("call{n}").as_bytes(),
                ListenerId(0),
                remote,
                Duration::from_millis(n as u64),
            )
        };
        let first = open(0, &mut journal);
        for n in 1..=CAPACITY {
            open(n, &mut journal);
        }
        journal.attempt(Some(first), PeerId(0), Why::Local, Duration::ZERO);
        assert!(journal.of_call(b"call0").is_empty());
        assert!(journal.of_call(b"call2048")[0].attempts.is_empty(), "its slot was the first call's");
        assert_eq!(journal.latest(2).iter().map(|r| r.number).collect::<Vec<_>>(), [2047, 2048]);
        assert_eq!(journal.latest(10_000).len(), CAPACITY);
    }
}
