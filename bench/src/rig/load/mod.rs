//! What is sent, and how it is known again when it comes back.

pub mod message;
pub mod mix;
pub mod stream;
pub mod talk;

use packet::{Headers, checksum::Sum, ethernet::Mac, frame};
use std::net::SocketAddr;

/// Numbers and time of a packet, carried where whoever forwards it leaves it alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Flow, from zero.
    pub flow: u32,
    /// Number within it.
    pub number: u32,
    /// When it left, in nanoseconds of the monotonic clock.
    pub left_at: u64,
}

impl Stamp {
    /// Digits of its text.
    pub const DIGITS: usize = 32;

    /// Of a load with so many flows that take turns.
    pub fn turn(sequence: u64, flows: usize, left_at: u64) -> Self {
        let flows = flows as u64;
        Self { flow: (sequence % flows) as u32, number: (sequence / flows) as u32, left_at }
    }

    /// As hexadecimal digits.
    pub fn digits(self) -> [u8; Self::DIGITS] {
        let number = u128::from(self.flow) << 96 | u128::from(self.number) << 64 | u128::from(self.left_at);
        std::array::from_fn(|i| b"0123456789abcdef"[(number >> (124 - 4 * i)) as usize & 15])
    }

    /// From text that begins with them.
    pub fn from_digits(text: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(text.get(..Self::DIGITS)?).ok()?;
        let part = |range: std::ops::Range<usize>| u64::from_str_radix(&text[range], 16).ok();
        Some(Self { flow: part(0..8)? as u32, number: part(8..16)? as u32, left_at: part(16..32)? })
    }
}

/// A load of the rig.
pub trait Load: Send {
    /// Flows whose packets are numbered, each on its own.
    fn flows(&self) -> usize;

    /// The frame to send as the `sequence`th one.
    fn next(&mut self, sequence: u64, left_at: u64) -> &[u8];

    /// What the system last said against it, if anything.
    fn refusal(&self) -> Option<String> {
        None
    }

    /// Looks at a frame that came in, and may answer it. The stamp of what is complete with it.
    fn take(&mut self, frame: &[u8], answers: &mut Answers) -> Option<Stamp>;
}

/// Frames to be sent in answer to others. Their buffers are used again.
#[derive(Debug)]
pub struct Answers {
    ends: Ends,
    frames: Vec<Vec<u8>>,
    used: usize,
}

/// MAC addresses of the client and of the system.
#[derive(Clone, Copy, Debug)]
pub struct Ends {
    /// The generator's.
    pub client: Mac,
    /// The system's.
    pub system: Mac,
}

impl Ends {
    /// Headers of what the client sends.
    pub fn headers(self, source: SocketAddr, destination: SocketAddr) -> Headers {
        let Self { client: source_mac, system: destination_mac } = self;
        Headers { destination_mac, source_mac, vlan: None, source, destination, tos: 0xb8 }
    }
}

impl Answers {
    /// None yet.
    pub fn new(ends: Ends) -> Self {
        Self { ends, frames: Vec::new(), used: 0 }
    }

    /// Adds a datagram with the payload that `write` appends.
    pub fn add(&mut self, source: SocketAddr, destination: SocketAddr, write: impl FnOnce(&mut Vec<u8>)) {
        if self.used == self.frames.len() {
            self.frames.push(Vec::new());
        }
        let frame = &mut self.frames[self.used];
        self.used += 1;
        seal(frame, &self.ends.headers(source, destination), write);
    }

    /// Takes all of them.
    pub fn drain(&mut self) -> impl Iterator<Item = &[u8]> {
        self.frames.iter().take(std::mem::take(&mut self.used)).map(Vec::as_slice)
    }
}

/// Makes a frame of a payload.
fn seal(frame: &mut Vec<u8>, headers: &Headers, write: impl FnOnce(&mut Vec<u8>)) {
    let start = frame::headers_len(headers);
    frame.clear();
    frame.resize(start, 0);
    write(frame);
    let payload = &frame[start..];
    let (len, sum) = (payload.len(), Sum::new().add_bytes(payload));
    frame::write(frame, headers, len, sum);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_is_read_as_it_was_written() {
        let stamp = Stamp { flow: 1, number: 0xdead_beef, left_at: 0x0123_4567_89ab_cdef };
        assert_eq!(Stamp::from_digits(&stamp.digits()), Some(stamp));
        assert_eq!(Stamp::from_digits(b"0123"), None);
    }
}
