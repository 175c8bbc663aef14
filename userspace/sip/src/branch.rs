//! Branches and tags that this node writes.
//!
//! A branch names the worker and the slot of the client transaction, so that a response finds both
//! without a search, holds a random nonce, so that nobody can guess it, and a hash of what the request
//! was routed by, so that a loop is told from a spiral (RFC 3261 16.6 step 8).

/// How every branch of this software begins.
pub const PREFIX: &[u8] = b"z9hG4bK-sw";
const HEX: usize = 2 + 8 + 8 + 8;
/// Length of a branch that this node writes.
pub const LEN: usize = PREFIX.len() + HEX;

/// A branch of this node, taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Branch {
    /// Worker that owns the transaction.
    pub worker: u8,
    /// Slot in that worker's table of client transactions.
    pub slot: u32,
    /// Random part: a slot is used again, a nonce is not.
    pub nonce: u32,
    /// Hash of what the request was routed by.
    pub routing: u32,
}

impl Branch {
    /// Reads a branch; `None` where this node did not write it.
    pub fn parse(text: &[u8]) -> Option<Self> {
        let hex = text.strip_prefix(PREFIX)?;
        if hex.len() != HEX {
            return None;
        }
        Some(Self {
            worker: parse_hex(&hex[..2])? as u8,
            slot: parse_hex(&hex[2..10])?,
            nonce: parse_hex(&hex[10..18])?,
            routing: parse_hex(&hex[18..])?,
        })
    }

    /// The first branch of this node in a piece of a message.
    pub fn find(piece: &[u8]) -> Option<Self> {
        let at = memchr::memmem::find(piece, PREFIX)?;
        Self::parse(piece.get(at..at + LEN)?)
    }

    /// Its text.
    pub fn to_bytes(self) -> [u8; LEN] {
        let mut out = [0; LEN];
        let (prefix, hex) = out.split_at_mut(PREFIX.len());
        prefix.copy_from_slice(PREFIX);
        write_hex(&mut hex[..2], u32::from(self.worker));
        write_hex(&mut hex[2..10], self.slot);
        write_hex(&mut hex[10..18], self.nonce);
        write_hex(&mut hex[18..], self.routing);
        out
    }
}

/// Whether a branch follows RFC 3261 (begins with the magic cookie and has more behind it).
pub fn is_rfc3261(branch: &[u8]) -> bool {
    branch.len() > 7 && branch[..7].eq_ignore_ascii_case(b"z9hG4bK")
}

/// Writes the low digits of a number in lower-case hexadecimal.
pub fn write_hex(out: &mut [u8], n: u32) {
    let len = out.len();
    for (i, digit) in out.iter_mut().enumerate() {
        *digit = b"0123456789abcdef"[(n >> (4 * (len - 1 - i)) & 0xf) as usize];
    }
}

/// Reads a number in lower-case hexadecimal.
pub fn parse_hex(text: &[u8]) -> Option<u32> {
    text.iter().try_fold(0u32, |n, b| {
        let digit = match b {
            b'0'..=b'9' => b - b'0',
            b'a'..=b'f' => b - b'a' + 10,
            _ => return None,
        };
        Some(n << 4 | u32::from(digit))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_its_own_branches_only() {
        let b = Branch { worker: 7, slot: 0xdead_beef, nonce: 1, routing: 0xffff_0000 };
        assert_eq!(Branch::parse(&b.to_bytes()), Some(b));
        assert_eq!(Branch::parse(b"z9hG4bK-sw07deadbeef00000001ffff000"), None);
        assert_eq!(Branch::parse(b"z9hG4bK-sw07DEADBEEF00000001ffff0000"), None);
        assert_eq!(Branch::parse(b"z9hG4bKnashds7"), None);
        assert!(is_rfc3261(b"z9hg4bKx") && !is_rfc3261(b"z9hG4bK") && !is_rfc3261(b"1"));
    }
}
