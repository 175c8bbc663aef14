//! What is sent: frames that carry the number of their flow, their own, and the time they left at, in a
//! place where whoever forwards them leaves it alone.

use super::Flow;
use packet::{Headers, checksum::Sum, ethernet::Mac, frame};

/// Numbers and time of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Flow, from zero.
    pub flow: u32,
    /// Number within it.
    pub number: u32,
    /// When it left, in nanoseconds of the monotonic clock.
    pub left_at: u64,
}

/// A kind of load.
pub enum Load {
    /// G.711 RTP of 20 ms.
    Rtp,
    /// INVITEs of distinct calls, 670 bytes each.
    Invite,
}

/// Frames of a load for any number of flows.
pub struct Frames {
    load: Load,
    frames: Vec<Vec<u8>>,
    headers: Vec<Headers>,
    start: usize,
}

/// Where RTP carries the stamp: behind its header.
const RTP_STAMP: usize = 12;
/// Before the stamp in an INVITE, as hexadecimal text.
const CALL_ID: &[u8] = b"Call-ID: ";
const BRANCH: &[u8] = b"branch=z9hG4bK";
/// Size of an INVITE.
const INVITE_LEN: usize = 670;

impl Frames {
    /// For these flows, between two MAC addresses.
    pub fn new(load: Load, flows: &[Flow], source_mac: Mac, destination_mac: Mac) -> Self {
        let headers: Vec<_> = flows
            .iter()
            .map(|flow| Headers {
                destination_mac,
                source_mac,
                vlan: None,
                source: flow.from,
                destination: flow.to,
                tos: 0xb8,
            })
            .collect();
        let start = headers.first().map_or(0, frame::headers_len);
        let one = |flow: &Flow| {
            let payload = match load {
                Load::Rtp => lab::rtp::packet(0),
                Load::Invite => invite(flow),
            };
            [vec![0; start], payload].concat()
        };
        Self { frames: flows.iter().map(one).collect(), load, headers, start }
    }

    /// Number of flows.
    pub fn flows(&self) -> usize {
        self.frames.len()
    }

    /// Length of a frame on the wire.
    pub fn frame_len(&self) -> usize {
        self.frames.first().map_or(0, Vec::len)
    }

    /// The next frame of a flow.
    pub fn next(&mut self, stamp: Stamp) -> &[u8] {
        let flow = stamp.flow as usize;
        let (bytes, start) = (&mut self.frames[flow], self.start);
        let payload = &mut bytes[start..];
        match self.load {
            Load::Rtp => {
                payload[2..4].copy_from_slice(&(stamp.number as u16).to_be_bytes());
                payload[4..8].copy_from_slice(&stamp.number.wrapping_mul(160).to_be_bytes());
                payload[RTP_STAMP..RTP_STAMP + 4].copy_from_slice(&stamp.flow.to_be_bytes());
                payload[RTP_STAMP + 4..RTP_STAMP + 8].copy_from_slice(&stamp.number.to_be_bytes());
                payload[RTP_STAMP + 8..RTP_STAMP + 16].copy_from_slice(&stamp.left_at.to_be_bytes());
            }
            Load::Invite => {
                let text = hex(stamp);
                for marker in [BRANCH, CALL_ID] {
                    if let Some(at) = find(payload, marker) {
                        payload[at..at + text.len()].copy_from_slice(&text);
                    }
                }
            }
        }
        let (len, sum) = (payload.len(), Sum::new().add_bytes(payload));
        frame::write(bytes, &self.headers[flow], len, sum);
        bytes
    }

    /// The stamp of a payload that came back.
    pub fn read(&self, payload: &[u8]) -> Option<Stamp> {
        match self.load {
            Load::Rtp => {
                let word = |at: usize| Some(u32::from_be_bytes(*payload.get(at..)?.first_chunk::<4>()?));
                let left_at = u64::from_be_bytes(*payload.get(RTP_STAMP + 8..)?.first_chunk::<8>()?);
                Some(Stamp { flow: word(RTP_STAMP)?, number: word(RTP_STAMP + 4)?, left_at })
            }
            Load::Invite => {
                // An answer to one, such as 100, is not the INVITE.
                payload.strip_prefix(b"INVITE ")?;
                let at = find(payload, CALL_ID)?;
                let text = std::str::from_utf8(payload.get(at..at + 32)?).ok()?;
                let part = |range: std::ops::Range<usize>| u64::from_str_radix(&text[range], 16).ok();
                Some(Stamp { flow: part(0..8)? as u32, number: part(8..16)? as u32, left_at: part(16..32)? })
            }
        }
    }
}

/// Behind a marker.
fn find(payload: &[u8], marker: &[u8]) -> Option<usize> {
    Some(memchr::memmem::find(payload, marker)? + marker.len())
}

fn hex(stamp: Stamp) -> [u8; 32] {
    let number = u128::from(stamp.flow) << 96 | u128::from(stamp.number) << 64 | u128::from(stamp.left_at);
    std::array::from_fn(|i| b"0123456789abcdef"[(number >> (124 - 4 * i)) as usize & 15])
}

fn invite(flow: &Flow) -> Vec<u8> {
    let zeros = "0".repeat(32);
    let Flow { from, to } = flow;
    let text = |padding: usize| {
        format!(
            "INVITE sip:+4930123456@{to} SIP/2.0\r\nVia: SIP/2.0/UDP {from};rport;branch=z9hG4bK{zeros}\r\n\
             Max-Forwards: 70\r\nFrom: <sip:+4989654321@{from}>;tag=1c2d3e\r\nTo: <sip:+4930123456@{to}>\r\n\
             Call-ID: {zeros}\r\nCSeq: 1 INVITE\r\nContact: <sip:+4989654321@{from}>\r\n\
             User-Agent: {}\r\nContent-Length: 0\r\n\r\n",
            "u".repeat(padding)
        )
    };
    text(INVITE_LEN.saturating_sub(text(0).len())).into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_is_read_as_it_was_written() {
        let flow = |port| Flow { from: ([192, 0, 2, 10], port).into(), to: ([192, 0, 2, 1], 5060).into() };
        for load in [Load::Rtp, Load::Invite] {
            let mut frames = Frames::new(load, &[flow(1), flow(2)], Mac([2; 6]), Mac([4; 6]));
            let stamp = Stamp { flow: 1, number: 0xdead_beef, left_at: 0x0123_4567_89ab_cdef };
            let bytes = frames.next(stamp).to_vec();
            let datagram = frame::parse(&bytes).expect("a good frame");
            assert_eq!(datagram.source.port(), 2);
            assert_eq!(frames.read(&bytes[datagram.payload]), Some(stamp));
        }
    }
}
