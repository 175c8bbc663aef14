//! Media with some signalling among it, as a carrier's wire looks.

use super::{Answers, Load, Stamp};

/// One packet in so many is signalling.
const SIGNALLING: u64 = 20;

/// Two loads on one wire.
pub struct Mix {
    /// 19 of 20 packets.
    pub media: Box<dyn Load>,
    /// One of 20.
    pub signalling: Box<dyn Load>,
}

impl Load for Mix {
    fn flows(&self) -> usize {
        self.media.flows() + self.signalling.flows()
    }

    fn next(&mut self, sequence: u64, left_at: u64) -> &[u8] {
        let (round, place) = (sequence / SIGNALLING, sequence % SIGNALLING);
        match place {
            0 => self.signalling.next(round, left_at),
            _ => self.media.next(round * (SIGNALLING - 1) + place - 1, left_at),
        }
    }

    fn take(&mut self, frame: &[u8], answers: &mut Answers) -> Option<Stamp> {
        // SIP begins with a letter, RTP with version 2 (RFC 7983 section 7).
        let payload = packet::frame::parse(frame).ok()?.payload;
        if frame.get(payload.start)? & 0xc0 == 0x80 {
            return self.media.take(frame, answers);
        }
        let stamp = self.signalling.take(frame, answers)?;
        Some(Stamp { flow: stamp.flow + self.media.flows() as u32, ..stamp })
    }
}
