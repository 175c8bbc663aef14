//! A request arrives: is it sound, is it new, and where does it go (RFC 3261 16.3 to 16.5)?

use crate::{
    context::{Context, Failures, Route, ServerMachine, is_dead},
    engine::{Engine, Incoming},
    report::Counter,
    turn::Turn,
};
use alloc::{boxed::Box, vec::Vec};
use arrayvec::ArrayVec;
use core::net::SocketAddr;
use media::Side;
use packet::DropReason;
use routing::{Table, Upstream};
use sip::{
    HeaderName, Message, Method, StartLine,
    message::Defect,
    respond::{self, Response},
    scan::{CSeq, NameAddr, Scheme, Uri, Via},
    transaction::{Action, InviteServer, Server},
};

/// Reason phrase of the 481 that ends a dialog with a dead peer.
pub(crate) const PEER_DOWN: &str = "Peer Of This Dialog Is Down";

/// What must be readable of a request before it can be answered at all.
pub(crate) struct Essentials<'a> {
    pub(crate) method: Method,
    pub(crate) via: Via<'a>,
    pub(crate) from_tag: Option<&'a [u8]>,
    pub(crate) to_tag: Option<&'a [u8]>,
    pub(crate) call_id: &'a [u8],
    pub(crate) key: u64,
}

/// An answer that this node gives itself.
pub(crate) struct Reject {
    status: u16,
    reason: &'static str,
    headers: Vec<u8>,
    /// The dialog that the request belongs to is over.
    ends_dialog: bool,
}

impl Reject {
    pub(crate) fn new(status: u16, reason: &'static str) -> Self {
        Self { status, reason, headers: Vec::new(), ends_dialog: false }
    }
}

impl Engine {
    pub(crate) fn on_request(&mut self, incoming: &Incoming<'_>, m: &Message<'_>, turn: &mut Turn<'_>) {
        let Some(essentials) = self.essentials(m) else {
            return self.tally.drop(DropReason::SipUnanswerable);
        };
        let known = self.by_key.get(&essentials.key).copied();
        match (essentials.method, known) {
            (Method::Ack, known) => self.on_ack(incoming, m, &essentials, known, turn),
            (Method::Cancel, known) => self.on_cancel(incoming, m, &essentials, known, turn),
            (_, Some(id)) => self.on_retransmission(id, turn),
            (_, None) => self.on_new_request(incoming, m, &essentials, turn),
        }
    }

    fn essentials<'a>(&self, m: &Message<'a>) -> Option<Essentials<'a>> {
        let method = m.method()?;
        let via = Via::parse(m.value(HeaderName::Via)?)?;
        let from = NameAddr::parse(m.value(HeaderName::From)?)?;
        let to = NameAddr::parse(m.value(HeaderName::To)?)?;
        let call_id = m.value(HeaderName::CallId).filter(|id| !id.is_empty())?;
        m.value(HeaderName::CSeq)?;
        let key = self.keys.transaction(m, &via, method);
        Some(Essentials { method, via, from_tag: from.tag(), to_tag: to.tag(), call_id, key })
    }

    fn on_retransmission(&mut self, id: usize, turn: &mut Turn<'_>) {
        self.tally.drop(DropReason::SipRetransmission);
        self.with_context(turn.now, id, |engine, context| {
            if context.on_retransmission() == Action::Resend && !context.last_response.is_empty() {
                engine.send(turn, context.local, context.reply_to, &context.last_response);
            }
        });
    }

    fn on_ack(
        &mut self,
        incoming: &Incoming<'_>,
        m: &Message<'_>,
        essentials: &Essentials<'_>,
        known: Option<usize>,
        turn: &mut Turn<'_>,
    ) {
        let mut absorbed = false;
        if let Some(id) = known {
            self.with_context(turn.now, id, |_, context| {
                if let ServerMachine::Invite(server) = &mut context.server {
                    absorbed = server.on_ack(turn.now);
                }
            });
        }
        // The ACK of an answer that this node gave without keeping state carries the tag it gave.
        let ours = essentials.to_tag == Some(&local_tag(essentials.key)[..]);
        if !absorbed && !ours {
            self.forward_ack(incoming, m, essentials, turn);
        }
    }

    fn on_new_request(
        &mut self,
        incoming: &Incoming<'_>,
        m: &Message<'_>,
        essentials: &Essentials<'_>,
        turn: &mut Turn<'_>,
    ) {
        // Answered whatever its Max-Forwards: it need not be forwarded (RFC 3261 16.3 step 3).
        if essentials.method == Method::Options && is_for_this_node(m, turn.table) {
            return self.answer(incoming, m, essentials, &own_options(incoming, turn.table), turn);
        }
        let routed = validate(m).and_then(|()| self.decide(incoming, m, essentials, turn.table));
        match routed {
            Ok((route, sender)) => self.start(incoming, m, essentials, (route, sender), turn),
            Err(reject) => {
                self.tally.count(Counter::RequestsRejected);
                if reject.ends_dialog {
                    self.tally.count(Counter::DialogsLost);
                    self.close_dialog(self.keys.call(essentials.call_id), turn);
                }
                self.answer(incoming, m, essentials, &reject, turn);
            }
        }
    }

    /// Where a sound request goes, and which end of a call sent it.
    fn decide(
        &self,
        incoming: &Incoming<'_>,
        m: &Message<'_>,
        essentials: &Essentials<'_>,
        table: &Table,
    ) -> Result<(Route, Side), Reject> {
        if essentials.to_tag.is_some() {
            let (hop, sender) = self.dialog_hop(incoming, m, essentials, table)?;
            if is_dead(hop.peer, table) {
                return Err(Reject { ends_dialog: true, ..Reject::new(481, PEER_DOWN) });
            }
            return Ok((Route::Dialog(hop), sender));
        }
        if essentials.method == Method::Bye {
            return Err(Reject::new(481, "Call Does Not Exist"));
        }
        match table.listener(incoming.listener).map(|l| l.upstream) {
            Some(Upstream::Service(id)) => Ok((Route::Service(id), Side::Caller)),
            _ => Err(Reject::new(403, "No Route For New Requests Here")),
        }
    }

    /// Creates the context and makes the first attempt.
    fn start(
        &mut self,
        incoming: &Incoming<'_>,
        m: &Message<'_>,
        essentials: &Essentials<'_>,
        (route, sender): (Route, Side),
        turn: &mut Turn<'_>,
    ) {
        if self.contexts.len() >= self.config.max_transactions {
            self.tally.count(Counter::RequestsRejected);
            return self.answer(incoming, m, essentials, &Reject::new(503, "Too Many Transactions"), turn);
        }
        let is_invite = essentials.method == Method::Invite;
        let timers = self.config.timers;
        self.serial = self.serial.wrapping_add(1);
        let budget = match route {
            Route::Service(id) => {
                turn.table.service(id).map_or(core::time::Duration::ZERO, |s| s.call_budget)
            }
            Route::Dialog(_) => timers.timeout(),
        };
        let mut context = Context {
            id: 0,
            key: essentials.key,
            call: self.keys.call(essentials.call_id),
            serial: self.serial,
            server: if is_invite {
                ServerMachine::Invite(InviteServer::new(timers))
            } else {
                ServerMachine::Other(Server::new(timers))
            },
            ingress: incoming.listener,
            local: incoming.local,
            remote: incoming.remote,
            reply_to: respond::reply_address(&essentials.via, incoming.remote),
            request: m.bytes.into(),
            route,
            sender,
            is_bye: essentials.method == Method::Bye,
            last_response: Vec::new(),
            attempts: Vec::new(),
            tried: ArrayVec::new(),
            failures: Failures::default(),
            budget_until: turn.now + budget,
            cancelled: false,
            answered: false,
            queued: None,
        };
        if is_invite {
            self.respond(&mut context, m, 100, "Trying", turn);
        }
        if context.is_new_call() {
            self.tally.count(Counter::Calls);
            if !self.open_media(&context, essentials, turn) {
                self.tally.count(Counter::MediaExhausted);
                self.tally.count(Counter::CallsFailed);
                self.respond(&mut context, m, 503, "No Media Port Free", turn);
            }
        }
        let entry = self.contexts.vacant_entry();
        let id = entry.key();
        context.id = id;
        entry.insert(Some(Box::new(context)));
        self.by_key.insert(essentials.key, id);
        self.with_context(turn.now, id, |engine, context| {
            if !context.answered {
                engine.next_attempt(context, m, turn);
            }
        });
    }

    /// Answers without keeping state; a retransmission gets the same answer (RFC 3261 8.2.7).
    pub(crate) fn answer(
        &mut self,
        incoming: &Incoming<'_>,
        m: &Message<'_>,
        essentials: &Essentials<'_>,
        reject: &Reject,
        turn: &mut Turn<'_>,
    ) {
        let tag = local_tag(essentials.key);
        let response =
            Response { status: reject.status, reason: reject.reason, to_tag: &tag, headers: &reject.headers };
        let mut buffer = core::mem::take(&mut self.buffer);
        respond::write(m, incoming.remote, &response, &mut buffer);
        self.send(turn, incoming.local, respond::reply_address(&essentials.via, incoming.remote), &buffer);
        self.buffer = buffer;
    }

    fn on_cancel(
        &mut self,
        incoming: &Incoming<'_>,
        m: &Message<'_>,
        essentials: &Essentials<'_>,
        known: Option<usize>,
        turn: &mut Turn<'_>,
    ) {
        let Some(id) = known else {
            return self.answer(incoming, m, essentials, &Reject::new(481, "Call Does Not Exist"), turn);
        };
        self.answer(incoming, m, essentials, &Reject::new(200, "OK"), turn);
        self.with_context(turn.now, id, |engine, context| engine.cancel(context, turn));
    }
}

/// Request validation (RFC 3261 16.3).
fn validate(m: &Message<'_>) -> Result<(), Reject> {
    let StartLine::Request { name, uri, version, .. } = m.start else { return Ok(()) };
    if !m.text(version).eq_ignore_ascii_case(b"SIP/2.0") {
        return Err(Reject::new(505, "Version Not Supported"));
    }
    if let Some(defect) = m.defect {
        return Err(Reject::new(400, defect_reason(defect)));
    }
    if !vias_are_sound(m) {
        return Err(Reject::new(400, "Bad Via"));
    }
    let cseq = m.value(HeaderName::CSeq).and_then(CSeq::parse).ok_or(Reject::new(400, "Bad CSeq"))?;
    if cseq.name != m.text(name) {
        return Err(Reject::new(400, "CSeq Method Differs From Request Line"));
    }
    let uri = Uri::parse(m.text(uri)).ok_or(Reject::new(400, "Bad Request-URI"))?;
    if uri.scheme == Scheme::Other {
        return Err(Reject::new(416, "Unsupported URI Scheme"));
    }
    match m.value(HeaderName::MaxForwards).map(sip::scan::number) {
        Some(Some(1..=255)) | None => {}
        Some(Some(0)) => return Err(Reject::new(483, "Too Many Hops")),
        Some(_) => return Err(Reject::new(400, "Bad Max-Forwards")),
    }
    if m.first(HeaderName::ProxyRequire).is_some() {
        let mut reject = Reject::new(420, "Bad Extension");
        for header in m.all(HeaderName::ProxyRequire) {
            reject.headers.extend_from_slice(b"Unsupported: ");
            reject.headers.extend_from_slice(m.text(header.value));
            reject.headers.extend_from_slice(b"\r\n");
        }
        return Err(reject);
    }
    Ok(())
}

/// Tag of an answer that this node gives itself: the same for every copy of a request.
pub(crate) fn local_tag(key: u64) -> [u8; 18] {
    let mut tag = *b"sw0000000000000000";
    sip::branch::write_hex(&mut tag[2..10], (key >> 32) as u32);
    sip::branch::write_hex(&mut tag[10..], key as u32);
    tag
}

/// The answer to an OPTIONS for this node: whether it can serve new calls from that side.
fn own_options(incoming: &Incoming<'_>, table: &Table) -> Reject {
    let service = match table.listener(incoming.listener).map(|l| l.upstream) {
        Some(Upstream::Service(id)) => table.service(id),
        _ => None,
    };
    if service.is_some_and(|s| !table.can_serve(s)) {
        return Reject::new(503, "No Peer Available");
    }
    let headers = b"Allow: INVITE, ACK, BYE, CANCEL, OPTIONS, PRACK, UPDATE, INFO, REFER, NOTIFY, SUBSCRIBE, MESSAGE, REGISTER\r\nAccept: application/sdp\r\n";
    Reject { headers: headers.to_vec(), ..Reject::new(200, "OK") }
}

/// Whether the Request-URI is one of our listeners, without a user part.
fn is_for_this_node(m: &Message<'_>, table: &Table) -> bool {
    let StartLine::Request { uri, .. } = m.start else { return false };
    let address: Option<SocketAddr> =
        Uri::parse(m.text(uri)).filter(|u| u.user.is_none()).and_then(|u| u.socket_addr());
    address.is_some_and(|a| table.listener_at(a).is_some())
}

/// Whether every Via of the first header can be read. Those below are the business of earlier hops.
fn vias_are_sound(m: &Message<'_>) -> bool {
    let value = m.value(HeaderName::Via).unwrap_or_default();
    sip::scan::list(value).all(|item| Via::parse(item).is_some_and(|via| !via.malformed))
}

fn defect_reason(defect: Defect) -> &'static str {
    match defect {
        Defect::BadHeaderLine => "Bad Header Line",
        Defect::TooManyHeaders => "Too Many Headers",
        Defect::Unterminated => "No Empty Line After Headers",
        Defect::BadContentLength => "Bad Content-Length",
        Defect::BodyTruncated => "Body Shorter Than Content-Length",
    }
}
