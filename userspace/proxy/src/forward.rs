//! Messages that leave: a forwarded request (RFC 3261 16.6), and the ACK and CANCEL made from it.

use crate::{
    context::{Attempt, ClientMachine, Context, Hop, Route, is_dead},
    engine::{ClientSlot, Engine},
    turn::Turn,
};
use alloc::vec::Vec;
use core::{fmt::Write as _, net::SocketAddr};
use media::Side;
use routing::{Listener, Table};
use sip::{
    Edits, HeaderName, Message, Method, Span, StartLine,
    branch::Branch,
    respond::ViaMarks,
    scan::{CSeq, NameAddr, Uri, Via, list},
    transaction::{Client, InviteClient, Time},
};

/// What a forwarded request needs besides the request itself.
pub(crate) struct Forward<'a> {
    pub(crate) remote: SocketAddr,
    pub(crate) ingress: &'a Listener,
    pub(crate) egress: &'a Listener,
    pub(crate) branch: Branch,
    pub(crate) record_route: bool,
    pub(crate) call: u64,
    pub(crate) sender: Side,
}

impl Engine {
    /// Sends the request to one target as a new client transaction.
    pub(crate) fn send_attempt(
        &mut self,
        context: &mut Context,
        m: &Message<'_>,
        hop: &Hop,
        silent_at: Option<Time>,
        turn: &mut Turn<'_>,
    ) {
        let (Some(ingress), Some(egress)) =
            (turn.table.listener(context.ingress), turn.table.listener(hop.egress))
        else {
            return;
        };
        let nonce = self.rng.next_u32();
        let slot =
            self.clients.insert(ClientSlot::Attempt { context: context.id, serial: context.serial, nonce })
                as u32;
        let forward = Forward {
            remote: context.remote,
            ingress,
            egress,
            branch: Branch { worker: self.config.worker, slot, nonce },
            record_route: matches!(context.route, Route::Service(_)) && makes_dialog(m),
            call: context.call,
            sender: context.sender,
        };
        let mut message = Vec::with_capacity(m.bytes.len() + 512);
        self.write_forwarded(m, &forward, turn.table, &mut message);
        self.send(turn, egress.address, hop.to, &message);
        let timers = self.config.timers;
        let machine = if context.is_invite() {
            ClientMachine::Invite(InviteClient::new(turn.now, timers))
        } else {
            ClientMachine::Other(Client::new(turn.now, timers))
        };
        context.attempts.push(Attempt {
            machine,
            slot,
            peer: hop.peer,
            from: egress.address,
            to: hop.to,
            message: message.into_boxed_slice(),
            silent_at,
            timer_c: None,
            abandoned: false,
            last_resort: is_dead(hop.peer, turn.table),
            cancel_wanted: false,
            cancel: None,
        });
    }

    /// Writes the request as it leaves; everything not named here stays as it came.
    pub(crate) fn write_forwarded(
        &mut self,
        m: &Message<'_>,
        forward: &Forward<'_>,
        table: &Table,
        message: &mut Vec<u8>,
    ) {
        self.edits.clear();
        push_via(m, forward, &mut self.edits);
        lower_max_forwards(m, &mut self.edits);
        strip_own_routes(m, table, Some(&mut self.edits));
        if forward.record_route {
            record_route(m, forward, &mut self.edits);
        }
        self.anchor_body(m, forward.call, forward.sender, forward.egress);
        self.edits.write(m.bytes, message);
    }
}

/// Whether the request may make a dialog, so that this node must stay in its path.
fn makes_dialog(m: &Message<'_>) -> bool {
    matches!(m.method(), Some(Method::Invite | Method::Other))
}

/// Our Via on top, and what the server adds to the one below (RFC 3261 18.2.1, RFC 3581).
fn push_via(m: &Message<'_>, forward: &Forward<'_>, edits: &mut Edits) {
    let Some(header) = m.first(HeaderName::Via) else { return };
    edits.insert(header.line.start as usize, b"Via: SIP/2.0/UDP ");
    edits
        .push(forward.egress.sent_by.as_bytes())
        .push(b";branch=")
        .push(&forward.branch.to_bytes())
        .push(b"\r\n");
    let value = m.text(header.value);
    if let Some(via) = Via::parse(value) {
        ViaMarks::of(&via, forward.remote).edit(&value[..via.len], header.value.start as usize, edits);
    }
}

fn lower_max_forwards(m: &Message<'_>, edits: &mut Edits) {
    match m.first(HeaderName::MaxForwards) {
        Some(header) => {
            let hops = sip::scan::number(m.text(header.value)).unwrap_or(70);
            edits.replace(header.value, b"");
            let _ = write!(edits, "{}", hops.saturating_sub(1));
        }
        None => {
            edits.insert(m.headers_end, b"Max-Forwards: 70\r\n");
        }
    }
}

/// Two entries where the request changes sides, so that each side sees an address it can reach.
fn record_route(m: &Message<'_>, forward: &Forward<'_>, edits: &mut Edits) {
    let last_via = m.all(HeaderName::Via).last().map_or(m.headers_end, |h| h.line.end as usize);
    let at = m.first(HeaderName::RecordRoute).map_or(last_via, |h| h.line.start as usize);
    edits.insert(at, b"Record-Route: <sip:").push(forward.egress.sent_by.as_bytes()).push(b";lr>\r\n");
    if forward.ingress.address != forward.egress.address {
        edits.push(b"Record-Route: <sip:").push(forward.ingress.sent_by.as_bytes()).push(b";lr>\r\n");
    }
}

/// What a Route set says after our own entries are taken off its top.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Stripped<'a> {
    /// Our last entry: the listener that the request leaves by.
    pub(crate) own: Option<routing::ListenerId>,
    /// The first entry that is not ours.
    pub(crate) next: Option<&'a [u8]>,
}

/// Takes our entries off the Route set (RFC 3261 16.4), as edits where wanted.
pub(crate) fn strip_own_routes<'a>(
    m: &Message<'a>,
    table: &Table,
    mut edits: Option<&mut Edits>,
) -> Stripped<'a> {
    let mut stripped = Stripped::default();
    for header in m.all(HeaderName::Route) {
        let value = m.text(header.value);
        let foreign = list(value).find(|item| match own_listener(item, table) {
            Some(id) => {
                stripped.own = Some(id);
                false
            }
            None => true,
        });
        let Some(foreign) = foreign else {
            if let Some(edits) = &mut edits {
                edits.remove(header.line);
            }
            continue;
        };
        let offset = foreign.as_ptr() as usize - value.as_ptr() as usize;
        if let (Some(edits), true) = (&mut edits, offset > 0) {
            let start = header.value.start as usize;
            edits.remove(Span::new(start, start + offset));
        }
        stripped.next = NameAddr::parse(foreign).map(|a| a.uri);
        break;
    }
    stripped
}

fn own_listener(item: &[u8], table: &Table) -> Option<routing::ListenerId> {
    let uri = Uri::parse(NameAddr::parse(item)?.uri)?;
    table.listener_at(uri.socket_addr()?)
}

/// Takes the topmost Via off a response.
pub(crate) fn pop_via(m: &Message<'_>, edits: &mut Edits) {
    let Some(header) = m.first(HeaderName::Via) else { return };
    let value = m.text(header.value);
    match Via::parse(value) {
        Some(via) if via.more => {
            let start = header.value.start as usize;
            let rest = &value[via.len + 1..];
            let blanks = rest.len() - rest.trim_ascii_start().len();
            edits.remove(Span::new(start, start + via.len + 1 + blanks));
        }
        _ => edits.remove(header.line),
    }
}

/// Makes the ACK of a failed INVITE, or its CANCEL, from the INVITE as sent (RFC 3261 17.1.1.3, 9.1):
/// same Request-URI, top Via, From, Call-ID, CSeq number and Route; To as given or as sent.
pub(crate) fn derive(invite: &[u8], method: &[u8], to: Option<&[u8]>, out: &mut Vec<u8>) -> Option<()> {
    let m = Message::parse(invite).ok()?;
    let StartLine::Request { uri, .. } = m.start else { return None };
    out.clear();
    for part in [method, b" ", m.text(uri), b" SIP/2.0\r\nVia: ", m.value(HeaderName::Via)?, b"\r\n"] {
        out.extend_from_slice(part);
    }
    let mut line = |name: &[u8], value: &[u8]| {
        for part in [name, b": ", value, b"\r\n"] {
            out.extend_from_slice(part);
        }
    };
    for route in m.all(HeaderName::Route) {
        line(b"Route", m.text(route.value));
    }
    line(b"From", m.value(HeaderName::From)?);
    line(b"To", to.or(m.value(HeaderName::To))?);
    line(b"Call-ID", m.value(HeaderName::CallId)?);
    line(b"Max-Forwards", b"70");
    out.extend_from_slice(b"CSeq: ");
    sip::respond::push_decimal(out, CSeq::parse(m.value(HeaderName::CSeq)?)?.number);
    for part in [b" ", method, b"\r\nContent-Length: 0\r\n\r\n"] {
        out.extend_from_slice(part);
    }
    Some(())
}
