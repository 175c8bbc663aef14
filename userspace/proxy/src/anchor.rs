//! Puts this node's media addresses and ports into SDP (requirement G1).

use crate::{
    calls::{self, MediaRef},
    engine::Engine,
    report::Counter,
    turn::Turn,
};
use core::{
    fmt::{self, Write as _},
    net::IpAddr,
    ops::Range,
};
use media::{
    NoPort, Side, Streams,
    branch::{Description, Role},
    sdp::{self, Broken, Sdp, Sink, part::Part},
};
use sip::{Edits, HeaderName, Message, Span, StartLine};

/// What is to be done with the body of a message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Described {
    pub(crate) media: MediaRef,
    /// Who sent the message, and from where.
    pub(crate) sender: Side,
    pub(crate) host: IpAddr,
    pub(crate) kind: Kind,
}

/// What kind of message carries the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A request, by its method.
    Request,
    /// A response; to a request that carried an offer or not.
    Response { offered: bool },
}

/// Changes to a body that begins somewhere in a message.
struct BodyEdits<'a> {
    edits: &'a mut Edits,
    base: usize,
}

impl Sink for BodyEdits<'_> {
    fn replace(&mut self, range: Range<usize>, text: fmt::Arguments<'_>) {
        let span = Span::new(self.base + range.start, self.base + range.end);
        let _ = self.edits.replace(span, b"").write_fmt(text);
    }
}

impl Engine {
    /// Whether SDP that ought to be anchored can be; asked before a request is taken.
    pub(crate) fn check_sdp(&self, m: &Message<'_>) -> Result<(), Broken> {
        match session_description(m) {
            Some((_, body)) if !self.config.media.pass_broken && describes(m) => sdp::scan(body).map(drop),
            _ => Ok(()),
        }
    }

    /// Learns from the body of a message where its sender receives media, and edits the body so that its
    /// reader sends to this node instead.
    ///
    /// # Errors
    /// There is no port for an offer that can be refused.
    pub(crate) fn anchor_body(
        &mut self,
        m: &Message<'_>,
        described: Described,
        turn: &mut Turn<'_>,
    ) -> Result<(), NoPort> {
        let Some((part, body)) = session_description(m) else { return Ok(()) };
        let Some(sdp) = self.readable(body) else { return Ok(()) };
        let Described { media, sender, host, kind } = described;
        let Self { calls, streams, tally, edits, config, .. } = self;
        let Some(branch) = calls.get_mut(&media.call).and_then(|c| c.find(media)) else {
            return Ok(());
        };
        let open = branch.media.has_offer_of(sender.other());
        let Some(role) = role(m, kind, open) else { return Ok(()) };
        // ICE leads past this node where it is kept, and then all of the description must (RFC 8839).
        if sdp.ice && config.media.keep_ice && role != Role::Answer {
            return Ok(());
        }
        let table = turn.table;
        let local = branch.listeners.map(|id| table.listener(id).map_or(&[][..], |l| &l.media));
        let description = Description { sdp: &sdp, role, sender, host };
        let note = &mut |s: &Streams, event| calls::note(s, event, tally, turn.out);
        let shown = branch.media.describe(turn.now, &description, local, streams, note)?;
        let base = m.body.start as usize;
        sdp::rewrite(body, &sdp, &shown, &mut BodyEdits { edits, base: base + part.range.start });
        let growth = edits.growth(m.body);
        if let Some(length) = part.content_length.filter(|_| growth != 0) {
            let of_part = part.range.len() as i64 + growth;
            let _ =
                write!(edits.replace(Span::new(base + length.start, base + length.end), b""), "{of_part}");
        }
        let length = i64::from(m.body.end - m.body.start) + edits.growth(m.body);
        for header in m.all(HeaderName::ContentLength).filter(|_| growth != 0) {
            let _ = write!(edits.replace(header.value(), b""), "{length}");
        }
        Ok(())
    }

    /// SDP that can be anchored, and is to be.
    fn readable(&mut self, body: &[u8]) -> Option<Sdp> {
        match sdp::scan(body) {
            Ok(sdp) => Some(sdp),
            Err(_) => {
                self.tally.count(Counter::SdpUnreadable);
                None
            }
        }
    }
}

/// The session description in a message's body, where it may be changed.
fn session_description<'a>(m: &Message<'a>) -> Option<(Part, &'a [u8])> {
    let body = m.body();
    if body.is_empty() || m.value(HeaderName::ContentEncoding).is_some() {
        return None;
    }
    let part = sdp::part::find(m.value(HeaderName::ContentType)?, body)?;
    let text = &body[part.range.clone()];
    Some((part, text))
}

/// Whether a request has an offer or answer, if it has SDP (RFC 3261 13.1, RFC 3262, RFC 3311).
fn describes(m: &Message<'_>) -> bool {
    let StartLine::Request { name, .. } = m.start else { return false };
    matches!(m.text(name), b"INVITE" | b"ACK" | b"PRACK" | b"UPDATE")
}

/// Whether a request has an offer in it that its response answers.
pub(crate) fn has_offer(m: &Message<'_>) -> bool {
    describes(m) && session_description(m).is_some()
}

/// What SDP in a message is (RFC 3264, RFC 6337 section 2).
///
/// `open`: the other side has offered and waits for an answer.
fn role(m: &Message<'_>, kind: Kind, open: bool) -> Option<Role> {
    match (kind, m.start) {
        (Kind::Request, StartLine::Request { name, .. }) => match m.text(name) {
            b"INVITE" | b"UPDATE" => Some(Role::Offer),
            b"ACK" => Some(Role::Answer),
            b"PRACK" if open => Some(Role::Answer),
            b"PRACK" => Some(Role::Offer),
            _ => None,
        },
        (Kind::Response { offered }, StartLine::Response { status: 101..300 }) => {
            Some(if offered { Role::Answer } else { Role::FirmOffer })
        }
        _ => None,
    }
}
