//! Puts this node's media address and ports into SDP (requirement G1).

use crate::engine::Engine;
use core::fmt::Write as _;
use media::{
    Side, Target,
    sdp::{self, Place},
};
use routing::Listener;
use sip::{HeaderName, Message, Span};

impl Engine {
    /// Learns from the body of a message sent by `sender` where it receives media, and edits the body
    /// so that its reader, on the side of listener `shown`, sends to this node instead.
    pub(crate) fn anchor_body(&mut self, m: &Message<'_>, call: u64, sender: Side, shown: &Listener) {
        if self.dialogs.is_empty() || m.body().is_empty() {
            return;
        }
        let is_sdp = m
            .value(HeaderName::ContentType)
            .is_some_and(|t| t.get(..15).is_some_and(|name| name.eq_ignore_ascii_case(b"application/sdp")));
        if !is_sdp {
            return;
        }
        let Some(session) = self.dialogs.get(&call).map(|d| d.session) else { return };
        let Some(audio) = sdp::scan(m.body()) else { return };
        let Some((_, ports)) = self.media.local(session, sender.other()) else { return };
        self.media.set_target(session, sender, audio.rtp.map(|rtp| Target::new(rtp, audio.rtcp_port)));
        let base = m.body.start as usize;
        for (range, place) in &audio.places {
            let edits = self.edits.replace(Span::new(base + range.start, base + range.end), b"");
            let _ = match place {
                Place::Connection => edits.write_str(&shown.media_text),
                Place::NewConnectionLine => write!(edits, "\r\nc=IN {}", shown.media_text),
                Place::Port => write!(edits, "{}", ports.rtp()),
                Place::Rtcp { address: false } => write!(edits, "{}", ports.rtcp()),
                Place::Rtcp { address: true } => write!(edits, "{} IN {}", ports.rtcp(), shown.media_text),
            };
        }
        let length = i64::from(m.body.end - m.body.start) + self.edits.growth(m.body);
        for header in m.all(HeaderName::ContentLength) {
            self.edits.replace(header.value(), b"");
            let _ = write!(self.edits, "{length}");
        }
    }
}
