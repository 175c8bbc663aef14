//! Packets one way: each that comes out at the far end counts.

use super::{Answers, Ends, Load, Stamp, message};
use crate::rig::Flow;
use packet::{Headers, checksum::Sum, frame};

/// What they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// G.711 RTP of 20 ms.
    Rtp,
    /// INVITEs of distinct calls, 670 bytes each.
    Invite,
}

/// Packets of any number of flows, which take turns.
pub struct Stream {
    kind: Kind,
    frames: Vec<Vec<u8>>,
    headers: Vec<Headers>,
    start: usize,
}

/// Where RTP carries the stamp: behind its header.
const RTP_STAMP: usize = 12;
/// Before the stamp in an INVITE.
const CALL_ID: &[u8] = b"Call-ID: ";
const BRANCH: &[u8] = b"branch=z9hG4bK";

impl Stream {
    /// For these flows.
    pub fn new(kind: Kind, flows: &[Flow], ends: Ends) -> Self {
        let headers: Vec<_> = flows.iter().map(|flow| ends.headers(flow.from, flow.to)).collect();
        let start = headers.first().map_or(0, frame::headers_len);
        let one = |flow: &Flow| {
            let payload = match kind {
                Kind::Rtp => lab::rtp::packet(0),
                Kind::Invite => message::plain_invite(*flow),
            };
            [vec![0; start], payload].concat()
        };
        Self { frames: flows.iter().map(one).collect(), kind, headers, start }
    }
}

impl Load for Stream {
    fn flows(&self) -> usize {
        self.frames.len()
    }

    fn next(&mut self, sequence: u64, left_at: u64) -> &[u8] {
        let stamp = Stamp::turn(sequence, self.frames.len(), left_at);
        let flow = stamp.flow as usize;
        let (bytes, start) = (&mut self.frames[flow], self.start);
        let payload = &mut bytes[start..];
        match self.kind {
            Kind::Rtp => {
                payload[2..4].copy_from_slice(&(stamp.number as u16).to_be_bytes());
                payload[4..8].copy_from_slice(&stamp.number.wrapping_mul(160).to_be_bytes());
                payload[RTP_STAMP..RTP_STAMP + 4].copy_from_slice(&stamp.flow.to_be_bytes());
                payload[RTP_STAMP + 4..RTP_STAMP + 8].copy_from_slice(&stamp.number.to_be_bytes());
                payload[RTP_STAMP + 8..RTP_STAMP + 16].copy_from_slice(&stamp.left_at.to_be_bytes());
            }
            Kind::Invite => {
                let text = stamp.digits();
                for marker in [BRANCH, CALL_ID] {
                    if let Some(at) = behind(payload, marker) {
                        payload[at..at + text.len()].copy_from_slice(&text);
                    }
                }
            }
        }
        let (len, sum) = (payload.len(), Sum::new().add_bytes(payload));
        frame::write(bytes, &self.headers[flow], len, sum);
        bytes
    }

    fn take(&mut self, bytes: &[u8], _: &mut Answers) -> Option<Stamp> {
        let payload = &bytes[frame::parse(bytes).ok()?.payload];
        match self.kind {
            Kind::Rtp => {
                let word = |at: usize| Some(u32::from_be_bytes(*payload.get(at..)?.first_chunk::<4>()?));
                let left_at = u64::from_be_bytes(*payload.get(RTP_STAMP + 8..)?.first_chunk::<8>()?);
                Some(Stamp { flow: word(RTP_STAMP)?, number: word(RTP_STAMP + 4)?, left_at })
            }
            Kind::Invite => {
                // An answer to one, such as 100, is not the INVITE.
                payload.strip_prefix(b"INVITE ")?;
                Stamp::from_digits(payload.get(behind(payload, CALL_ID)?..)?)
            }
        }
    }
}

/// Where the text behind a marker begins.
fn behind(payload: &[u8], marker: &[u8]) -> Option<usize> {
    Some(memchr::memmem::find(payload, marker)? + marker.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use packet::ethernet::Mac;

    #[test]
    fn what_comes_back_is_known_again() {
        let flow = |port| Flow { from: ([192, 0, 2, 10], port).into(), to: ([192, 0, 2, 1], 5060).into() };
        let ends = Ends { client: Mac([2; 6]), system: Mac([4; 6]) };
        for kind in [Kind::Rtp, Kind::Invite] {
            let mut stream = Stream::new(kind, &[flow(1), flow(2)], ends);
            let bytes = stream.next(7, 99).to_vec();
            assert_eq!(frame::parse(&bytes).expect("a good frame").source.port(), 2);
            let stamp = stream.take(&bytes, &mut Answers::new(ends));
            assert_eq!(stamp, Some(Stamp { flow: 1, number: 3, left_at: 99 }));
        }
    }
}
