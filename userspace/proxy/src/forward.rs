//! Messages that leave: a forwarded request (RFC 3261 16.6), and the ACK and CANCEL made from it.

use crate::{
    anchor::{Described, Kind},
    calls::MediaRef,
    context::{Attempt, ClientMachine, Context, Hop, Route, current, is_dead},
    engine::{ClientSlot, Engine},
    inbound::Inbound,
    token::{self, Token, TokenKind},
    turn::Turn,
};
use alloc::vec::Vec;
use core::net::SocketAddr;
use media::{NoPort, Side};
use routing::{Listener, Table};
use sip::{
    Edits, HeaderName, Message, Method, Request, Span, StartLine,
    branch::Branch,
    respond::ViaMarks,
    scan::{CSeq, Via},
    transaction::{Client, InviteClient, Time},
};

/// What a forwarded request needs besides the request itself.
pub(crate) struct Forward<'a> {
    pub(crate) remote: SocketAddr,
    pub(crate) ingress: &'a Listener,
    pub(crate) egress: &'a Listener,
    pub(crate) branch: Branch,
    /// The next hop follows from the Route set.
    pub(crate) in_dialog: bool,
    /// Max-Breadth.
    pub(crate) breadth: u32,
    /// Cookie of the Record-Route entries, if this node stays in the dialog's path.
    pub(crate) record_route: Option<Token>,
    /// What the body may describe.
    pub(crate) media: Option<MediaRef>,
    pub(crate) sender: Side,
}

/// How one attempt is made.
pub(crate) struct Plan {
    pub(crate) hop: Hop,
    /// When silence counts as failure.
    pub(crate) silent_at: Option<Time>,
    pub(crate) breadth: u32,
}

impl Engine {
    /// Sends the request to one target as a new client transaction.
    ///
    /// # Errors
    /// There is no port for its media; nothing was sent.
    pub(crate) fn send_attempt(
        &mut self,
        context: &mut Context,
        inbound: &Inbound<'_, '_>,
        plan: &Plan,
        turn: &mut Turn<'_>,
    ) -> Result<(), NoPort> {
        let hop = plan.hop;
        let (Some(ingress), Some(egress)) =
            (turn.table.listener(context.ingress), turn.table.listener(hop.egress))
        else {
            return Ok(());
        };
        let nonce = self.rng.next_u32();
        let slot =
            self.clients.insert(ClientSlot::Attempt { context: context.id, serial: context.serial, nonce })
                as u32;
        let request = &inbound.request;
        let media = self.open_media(context, request, (hop, slot), turn);
        let kind = if media.is_some() { TokenKind::Anchored } else { TokenKind::Stateful };
        let forward = Forward {
            remote: context.remote,
            ingress,
            egress,
            branch: Branch { worker: self.config.worker, slot, nonce, routing: context.routing },
            in_dialog: context.route.is_dialog(),
            breadth: plan.breadth,
            record_route: cookie(context.route, hop, request, kind, turn.table),
            media,
            sender: context.sender,
        };
        let mut message = Vec::new();
        if let Err(why) = self.write_forwarded(inbound, &forward, &mut message, turn) {
            self.clients.try_remove(slot as usize);
            if let (Some(media), Route::Service(_)) = (media, context.route) {
                self.close_media(media, turn);
            }
            return Err(why);
        }
        self.send(turn, egress.address, hop.to, &message);
        let timers = self.config.timers;
        let machine = if context.is_invite() {
            ClientMachine::Invite(InviteClient::new(turn.now, timers))
        } else {
            ClientMachine::Other(Client::new(turn.now, timers))
        };
        if let Some(peer) = hop.peer {
            self.waiting.add(peer, (context.id as u32, context.serial), |(id, serial)| {
                current(&self.contexts, id as usize, serial).is_some_and(|c| c.waits_for(peer))
            });
        }
        // Most requests have one attempt: no room is kept for more.
        context.attempts.reserve_exact(1);
        context.attempts.push(Attempt {
            machine,
            slot,
            peer: hop.peer,
            from: egress.address,
            to: hop.to,
            message: message.into_boxed_slice(),
            silent_at: plan.silent_at,
            timer_c: None,
            abandoned: false,
            answered_elsewhere: false,
            last_resort: is_dead(hop.peer, turn.table),
            cancel_wanted: false,
            cancel: None,
            give_up_at: None,
        });
        Ok(())
    }

    /// Writes the request as it leaves; everything not named here stays as it came.
    ///
    /// # Errors
    /// There is no port for an offer in it.
    pub(crate) fn write_forwarded(
        &mut self,
        inbound: &Inbound<'_, '_>,
        forward: &Forward<'_>,
        message: &mut Vec<u8>,
        turn: &mut Turn<'_>,
    ) -> Result<(), NoPort> {
        let Inbound { m, request, routes } = inbound;
        let StartLine::Request { uri, .. } = m.start else { return Ok(()) };
        self.edits.clear();
        // In the order that headers mostly stand in, so that the edits need no sorting.
        push_via(m, request, forward, &mut self.edits);
        if let Some(token) = forward.record_route {
            let cookie = token.write(&self.config.token_key, request.call_id);
            record_route(m, forward, &cookie, &mut self.edits);
        }
        lower_max_forwards(m, request, &mut self.edits);
        routes.edit(m, uri, forward.in_dialog, &mut self.edits);
        set_max_breadth(m, request, forward.breadth, &mut self.edits);
        if let Some(media) = forward.media {
            let (sender, host) = (forward.sender, forward.remote.ip());
            self.anchor_body(m, Described { media, sender, host, kind: Kind::Request }, turn)?;
        }
        self.edits.write(m.bytes, message);
        Ok(())
    }
}

/// The cookie of a request outside a dialog that may make one, so that this node must stay in its path.
pub(crate) fn cookie(
    route: Route,
    hop: Hop,
    request: &Request<'_>,
    kind: TokenKind,
    table: &Table,
) -> Option<Token> {
    let makes_dialog = !route.is_dialog() && matches!(request.method, Method::Invite | Method::Other);
    makes_dialog.then(|| Token::new(hop.peer, request, kind, table))
}

/// Our Via on top, and what the server adds to the one below (RFC 3261 18.2.1, RFC 3581).
fn push_via(m: &Message<'_>, request: &Request<'_>, forward: &Forward<'_>, edits: &mut Edits) {
    let Some(header) = m.first(HeaderName::Via) else { return };
    edits.insert(header.line().start as usize, forward.egress.via.as_bytes());
    edits.push(&forward.branch.to_bytes()).push(b"\r\n");
    let via = &request.via;
    let text = m.text(header.value());
    ViaMarks::of(via, forward.remote).edit(&text[..via.len], header.value().start as usize, edits);
}

fn lower_max_forwards(m: &Message<'_>, request: &Request<'_>, edits: &mut Edits) {
    match (m.first(HeaderName::MaxForwards), request.max_forwards) {
        (Some(header), Some(hops)) => {
            edits.replace(header.value(), b"").push_decimal(hops - 1);
        }
        _ => drop(edits.insert(m.headers_end, b"Max-Forwards: 70\r\n")),
    }
}

/// Every forwarded request carries it (RFC 5393 5.3.3).
fn set_max_breadth(m: &Message<'_>, request: &Request<'_>, breadth: u32, edits: &mut Edits) {
    if request.max_breadth == Some(breadth) {
        return;
    }
    match m.first(HeaderName::MaxBreadth) {
        Some(header) => drop(edits.replace(header.value(), b"").push_decimal(breadth)),
        None => {
            edits.insert(m.headers_end, b"Max-Breadth: ").push_decimal(breadth).push(b"\r\n");
        }
    }
}

/// Two entries where the request changes sides, so that each side sees an address it can reach.
fn record_route(m: &Message<'_>, forward: &Forward<'_>, cookie: &[u8; token::LEN], edits: &mut Edits) {
    let last_via = || m.all(HeaderName::Via).last().map_or(m.headers_end, |h| h.line().end as usize);
    let at = m.first(HeaderName::RecordRoute).map_or_else(last_via, |h| h.line().start as usize);
    let mut entry = |listener: &Listener| {
        edits.insert(at, b"Record-Route: <sip:").push(cookie).push(listener.record_route.as_bytes());
    };
    entry(forward.egress);
    if forward.ingress.address != forward.egress.address {
        entry(forward.ingress);
    }
}

/// Takes the topmost Via off a response.
pub(crate) fn pop_via(m: &Message<'_>, edits: &mut Edits) {
    let Some(header) = m.first(HeaderName::Via) else { return };
    let value = m.text(header.value());
    match Via::parse(value) {
        Some(via) if via.more => {
            let start = header.value().start as usize;
            let rest = &value[via.len + 1..];
            let blanks = rest.len() - rest.trim_ascii_start().len();
            edits.remove(Span::new(start, start + via.len + 1 + blanks));
        }
        _ => edits.remove(header.line()),
    }
}

/// The Via below the topmost one.
pub(crate) fn second_via<'a>(m: &Message<'a>) -> Option<Via<'a>> {
    let mut vias = m.all(HeaderName::Via).map(|h| m.text(h.value()));
    let first = vias.next()?;
    let top = Via::parse(first)?;
    if top.more { Via::parse(first.get(top.len + 1..)?.trim_ascii()) } else { Via::parse(vias.next()?) }
}

/// Makes the ACK of a failed INVITE, or its CANCEL, from the INVITE as sent (RFC 3261 17.1.1.3, 9.1):
/// same Request-URI, top Via, From, Call-ID, CSeq number and Route; To as given or as sent.
pub(crate) fn derive(
    invite: &[u8],
    method: &[u8],
    to: Option<&[u8]>,
    headers: &[u8],
    out: &mut Vec<u8>,
) -> Option<()> {
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
        line(b"Route", m.text(route.value()));
    }
    line(b"From", m.value(HeaderName::From)?);
    line(b"To", to.or(m.value(HeaderName::To))?);
    line(b"Call-ID", m.value(HeaderName::CallId)?);
    line(b"Max-Forwards", b"70");
    out.extend_from_slice(b"CSeq: ");
    sip::respond::push_decimal(out, CSeq::parse(m.value(HeaderName::CSeq)?)?.number);
    for part in [b" ", method, b"\r\n", headers, b"Content-Length: 0\r\n\r\n"] {
        out.extend_from_slice(part);
    }
    Some(())
}
