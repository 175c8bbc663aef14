//! Requests with their answers: the generator is caller and callee, and what counts is what came to its end.
//!
//! It keeps nothing of a call. Each message says what comes next, and the Call-ID carries number and time.

use super::{
    Answers, Ends, Load, Stamp,
    message::{self, Message},
    seal,
};
use crate::rig::Flow;
use dataplane::clock;
use packet::frame::{self, Datagram};
use std::{net::SocketAddr, time::Duration};

/// What is talked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topic {
    /// INVITE, 100, 180, 200, ACK, BYE, 200.
    Call,
    /// OPTIONS, answered by the system itself.
    Options,
    /// REGISTER, answered by a registrar behind the system.
    Register,
}

impl Topic {
    fn method(self) -> &'static str {
        match self {
            Self::Call => "INVITE",
            Self::Options => "OPTIONS",
            Self::Register => "REGISTER",
        }
    }
}

/// A load of such talks.
#[derive(Debug)]
pub struct Talk {
    topic: Topic,
    flow: Flow,
    ends: Ends,
    frame: Vec<u8>,
    /// A callee that is dead, if any.
    pub dead: Option<SocketAddr>,
    /// Requests of callers that were sent to it.
    pub to_dead: u64,
    /// When the last one was, of the monotonic clock.
    pub last_to_dead: Option<Duration>,
    /// Final answers that were no success, and the last such status line.
    pub refused: (u64, Vec<u8>),
}

impl Talk {
    /// From a caller to the system.
    pub fn new(topic: Topic, flow: Flow, ends: Ends) -> Self {
        Self {
            topic,
            flow,
            ends,
            frame: Vec::new(),
            dead: None,
            to_dead: 0,
            last_to_dead: None,
            refused: (0, Vec::new()),
        }
    }

    /// A request to a callee.
    fn serve(&mut self, datagram: &Datagram, request: Message<'_>, answers: &mut Answers) {
        let here = datagram.destination;
        if self.dead == Some(here) {
            if request.0.starts_with(b"INVITE ") {
                self.to_dead += 1;
                self.last_to_dead = Some(clock::monotonic());
            }
            return;
        }
        let mut answer = |status: &str, contact| {
            answers.add(here, datagram.source, |out| request.answer(out, status, contact));
        };
        if request.0.starts_with(b"INVITE ") {
            answer("180 Ringing", None);
            answer("200 OK", Some(here));
        } else if !request.0.starts_with(b"ACK ") {
            answer("200 OK", None);
        }
    }

    /// An answer to the caller; the stamp if the talk is over.
    fn hear(&mut self, response: Message<'_>, answers: &mut Answers) -> Option<Stamp> {
        let status = response.0.strip_prefix(b"SIP/2.0 ")?;
        if status.starts_with(b"1") {
            return None;
        }
        if !status.starts_with(b"2") {
            let line = response.0.split(|b| *b == b'\r').next().unwrap_or_default();
            self.refused = (self.refused.0 + 1, line.to_vec());
            return None;
        }
        let Flow { from, to } = self.flow;
        if response.cseq_method() == Some(b"INVITE") {
            answers.add(from, to, |out| response.within(out, "ACK", 1, from));
            answers.add(from, to, |out| response.within(out, "BYE", 2, from));
            return None;
        }
        response.stamp()
    }
}

impl Load for Talk {
    fn refusal(&self) -> Option<String> {
        let (count, line) = &self.refused;
        (*count > 0).then(|| format!("{count} answers such as \"{}\"", String::from_utf8_lossy(line)))
    }

    fn flows(&self) -> usize {
        1
    }

    fn next(&mut self, sequence: u64, left_at: u64) -> &[u8] {
        let Self { topic, flow, ends, frame, .. } = self;
        let stamp = Stamp::turn(sequence, 1, left_at);
        seal(frame, &ends.headers(flow.from, flow.to), |out| {
            message::opening(out, topic.method(), *flow, stamp);
        });
        frame
    }

    fn take(&mut self, bytes: &[u8], answers: &mut Answers) -> Option<Stamp> {
        let datagram = frame::parse(bytes).ok()?;
        let message = Message(&bytes[datagram.payload.clone()]);
        if message.0.starts_with(b"SIP/2.0 ") {
            return self.hear(message, answers);
        }
        self.serve(&datagram, message, answers);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use packet::ethernet::Mac;

    /// Caller and callee with nobody between them: what one sends is shown to both.
    #[test]
    fn a_call_comes_to_its_end() {
        let ends = Ends { client: Mac([2; 6]), system: Mac([4; 6]) };
        let flow = Flow { from: ([192, 0, 2, 10], 40_000).into(), to: ([192, 0, 2, 11], 40_002).into() };
        for (topic, frames) in [(Topic::Call, 6), (Topic::Options, 2), (Topic::Register, 2)] {
            let mut talk = Talk::new(topic, flow, ends);
            let mut answers = Answers::new(ends);
            let mut wire = vec![talk.next(5, 77).to_vec()];
            let mut ended = Vec::new();
            let mut seen = 0;
            while let Some(frame) = wire.pop() {
                seen += 1;
                ended.extend(talk.take(&frame, &mut answers));
                wire.extend(answers.drain().map(<[u8]>::to_vec));
            }
            assert_eq!(ended, [Stamp { flow: 0, number: 5, left_at: 77 }]);
            assert_eq!((seen, talk.refused.0), (frames, 0));
        }
    }
}
