//! A request arrives: is it sound, is it new, and where does it go (RFC 3261 16.3 to 16.5)?

use crate::{
    anchor,
    calls::{BranchName, MediaRef},
    context::{Context, Route, ServerMachine, is_dead},
    engine::{Engine, Incoming},
    inbound::Inbound,
    journal::Outcome,
    loops,
    report::Counter,
    token::{Token, TokenKind, tag_hash},
    turn::Turn,
};
use alloc::{boxed::Box, vec::Vec};
use arrayvec::ArrayVec;
use core::net::SocketAddr;
use media::Side;
use packet::DropReason;
use routing::{Anchoring, ListenerId, ServiceId, Table, Upstream};
use sip::{
    Fault, HeaderName, Message, Method, Request, StartLine,
    respond::{self, Response},
    scan::{NameAddr, Uri, Via},
    transaction::{Action, InviteServer, Server},
};

/// Reason phrase of the 481 that ends a dialog with a dead peer.
pub(crate) const PEER_DOWN: &str = "Peer Of This Dialog Is Down";

/// What must be readable of a request before it can be answered at all.
pub(crate) struct Arrived<'a> {
    pub(crate) method: Method,
    pub(crate) via: Via<'a>,
    /// Key of its transaction.
    pub(crate) key: u64,
    /// Key of its call.
    pub(crate) call: u64,
}

/// An answer that this node gives itself.
pub(crate) struct Reject {
    status: u16,
    reason: &'static str,
    headers: Vec<u8>,
    /// The dialog that the request belongs to is over, and its media, if that runs through this node.
    ends_dialog: bool,
    ends_media: Option<MediaRef>,
}

impl Reject {
    pub(crate) fn new(status: u16, reason: &'static str) -> Self {
        Self { status, reason, headers: Vec::new(), ends_dialog: false, ends_media: None }
    }

    /// For a dialog that ends with this answer.
    fn ending(status: u16, reason: &'static str, ends_media: Option<MediaRef>) -> Self {
        Self { ends_dialog: true, ends_media, ..Self::new(status, reason) }
    }

    fn of_fault(fault: Fault, m: &Message<'_>) -> Self {
        let mut reject = Self::new(fault.status, fault.reason);
        if fault.status == 420 {
            for header in m.all(HeaderName::ProxyRequire) {
                for part in [b"Unsupported: ", m.text(header.value()), b"\r\n"] {
                    reject.headers.extend_from_slice(part);
                }
            }
        }
        reject
    }
}

/// Where a sound request goes.
pub(crate) struct Decision {
    pub(crate) route: Route,
    /// Which end of a call sent it.
    pub(crate) sender: Side,
    /// Hash of what this was decided by.
    pub(crate) routing: u32,
    /// Forward it without state.
    pub(crate) stateless: bool,
    /// Key of requests that are the same by another way; none within a dialog.
    merge_key: Option<u64>,
    /// The media of a dialog that runs through this node.
    pub(crate) media: Option<MediaRef>,
}

impl Engine {
    pub(crate) fn on_request(
        &mut self,
        incoming: &Incoming<'_>,
        m: &Message<'_>,
        call: u64,
        turn: &mut Turn<'_>,
    ) {
        let Some(arrived) = self.arrived(m, call) else {
            return self.tally.drop(DropReason::SipUnanswerable);
        };
        let known = self.by_key.get(&arrived.key).copied();
        match (arrived.method, known) {
            (Method::Ack, known) => self.on_ack(incoming, m, &arrived, known, turn),
            (Method::Cancel, Some(id)) => self.on_cancel(incoming, m, &arrived, id, turn),
            (_, Some(id)) => self.on_retransmission(id, turn),
            (_, None) => self.on_new_request(incoming, m, &arrived, turn),
        }
    }

    fn arrived<'a>(&self, m: &Message<'a>, call: u64) -> Option<Arrived<'a>> {
        let method = m.method()?;
        let via = Via::parse(m.value(HeaderName::Via)?)?;
        let key = self.keys.transaction(m, &via, method);
        Some(Arrived { method, via, key, call })
    }

    fn on_retransmission(&mut self, id: usize, turn: &mut Turn<'_>) {
        self.tally.drop(DropReason::SipRetransmission);
        self.with_context(id, turn, |engine, context, turn| {
            if context.on_retransmission() == Action::Resend && !context.last_response.is_empty() {
                engine.send(turn, context.local, context.reply_to, &context.last_response);
            }
        });
    }

    fn on_ack(
        &mut self,
        incoming: &Incoming<'_>,
        m: &Message<'_>,
        arrived: &Arrived<'_>,
        known: Option<usize>,
        turn: &mut Turn<'_>,
    ) {
        let mut absorbed = false;
        if let Some(id) = known {
            self.with_context(id, turn, |_, context, turn| {
                if let ServerMachine::Invite(server) = &mut context.server {
                    absorbed = server.on_ack(turn.now);
                }
            });
        }
        if absorbed {
            return;
        }
        // The ACK of an answer that this node gave without keeping state carries the tag it gave.
        let to_tag = m.value(HeaderName::To).and_then(NameAddr::parse).and_then(|to| to.tag());
        if to_tag == Some(&local_tag(arrived.key)[..]) {
            return;
        }
        let inbound = Inbound::read(m, arrived.via, turn.table, &self.config.token_key);
        let decided = inbound.ok().and_then(|inbound| {
            let decision = self.decide_ack(incoming, &inbound, arrived.call, turn)?;
            Some((inbound, decision))
        });
        match decided {
            // An ACK that a 2xx asked for is a transaction of its own and gets no answer.
            Some((inbound, decision)) => self.forward_stateless(incoming, &inbound, arrived, &decision, turn),
            None => self.tally.drop(DropReason::SipStrayAck),
        }
    }

    fn on_new_request(
        &mut self,
        incoming: &Incoming<'_>,
        m: &Message<'_>,
        arrived: &Arrived<'_>,
        turn: &mut Turn<'_>,
    ) {
        // Answered whatever its Max-Forwards: it need not be forwarded (RFC 3261 16.3 step 3).
        if arrived.method == Method::Options && is_for_this_node(m, turn.table) {
            return self.answer(incoming, m, arrived, &own_options(incoming, turn.table), turn);
        }
        let read = Inbound::read(m, arrived.via, turn.table, &self.config.token_key);
        let decided = read.map_err(|fault| Reject::of_fault(fault, m)).and_then(|inbound| {
            let decision = self.decide(incoming, &inbound, arrived.call, turn)?;
            Ok((inbound, decision))
        });
        match decided {
            Ok((inbound, decision)) if decision.stateless => {
                self.forward_stateless(incoming, &inbound, arrived, &decision, turn);
            }
            Ok((inbound, decision)) => self.start(incoming, &inbound, arrived, &decision, turn),
            Err(reject) => self.refuse(incoming, m, arrived, &reject, turn),
        }
    }

    fn refuse(
        &mut self,
        incoming: &Incoming<'_>,
        m: &Message<'_>,
        arrived: &Arrived<'_>,
        reject: &Reject,
        turn: &mut Turn<'_>,
    ) {
        self.tally.count(Counter::RequestsRejected);
        if arrived.method == Method::Invite {
            let call_id = m.value(HeaderName::CallId).unwrap_or_default();
            let record = self.journal.open(call_id, incoming.listener, incoming.remote, turn.now);
            self.journal.outcome(Some(record), Outcome::Node(reject.status, reject.reason), turn.now);
        }
        if reject.ends_dialog {
            self.tally.count(Counter::DialogsLost);
            if let Some(media) = reject.ends_media {
                self.close_media(media, turn);
            }
        }
        self.answer(incoming, m, arrived, reject, turn);
    }

    /// Where a sound request goes.
    fn decide(
        &mut self,
        incoming: &Incoming<'_>,
        inbound: &Inbound<'_, '_>,
        call: u64,
        turn: &mut Turn<'_>,
    ) -> Result<Decision, Reject> {
        let Inbound { m, request, routes } = inbound;
        let routing = self.keys.routing(incoming, m, request, routes);
        if loops::is_loop(m, turn.table, routing) {
            self.tally.count(Counter::Loops);
            return Err(Reject::new(482, "Loop Detected"));
        }
        // A CANCEL belongs to a transaction here, or to none (RFC 3261 16.10).
        let stateless_dialog = request.to_tag.is_some() && routes.token.is_some_and(Token::is_stateless);
        let stateless_route = stateless_service(incoming.listener, turn.table).is_some();
        if request.method == Method::Cancel && !stateless_dialog && !stateless_route {
            return Err(Reject::new(481, "Call Does Not Exist"));
        }
        if let (Some(_), Some(token)) = (request.to_tag, routes.token) {
            let decision = self.decide_in_dialog(incoming, inbound, (token, routing, call), turn)?;
            if let Route::Dialog(hop) = decision.route
                && is_dead(hop.peer, turn.table)
            {
                return Err(Reject::ending(481, PEER_DOWN, decision.media));
            }
            if decision.media.is_some() {
                self.check_sdp(m).map_err(|broken| Reject::new(488, broken.reason()))?;
            }
            return Ok(decision);
        }
        // Nothing proves that the dialog is ours: it may go where new requests go, and nowhere else.
        if request.to_tag.is_some() {
            self.tally.count(Counter::UnprovenDialogs);
        } else if request.method == Method::Bye && !stateless_route {
            return Err(Reject::new(481, "Call Does Not Exist"));
        }
        let Some(Upstream::Service(id)) = turn.table.listener(incoming.listener).map(|l| l.upstream) else {
            return Err(match request.to_tag {
                Some(_) => Reject::new(481, "No Route Entry Of This Node"),
                None => Reject::new(403, "No Route For New Requests Here"),
            });
        };
        let stateless = stateless_route && can_be_stateless(request);
        let merge_key = (!stateless && request.to_tag.is_none()).then(|| self.keys.merged(request));
        if merge_key.is_some_and(|key| self.is_merged(key)) {
            self.tally.count(Counter::Merged);
            return Err(Reject::new(482, "Merged Request"));
        }
        let service = turn.table.service(id);
        if request.method == Method::Invite && service.is_some_and(|s| s.anchoring == Anchoring::All) {
            self.check_sdp(m).map_err(|broken| Reject::new(488, broken.reason()))?;
        }
        let route = Route::Service(id);
        Ok(Decision { route, sender: Side::Caller, routing, stateless, merge_key, media: None })
    }

    /// Where an ACK goes that belongs to no transaction here: on within its dialog or, on a stateless
    /// route, after its INVITE.
    fn decide_ack(
        &mut self,
        incoming: &Incoming<'_>,
        inbound: &Inbound<'_, '_>,
        call: u64,
        turn: &mut Turn<'_>,
    ) -> Option<Decision> {
        let routing = self.keys.routing(incoming, inbound.m, &inbound.request, &inbound.routes);
        if let Some(token) = inbound.routes.token {
            return self.decide_in_dialog(incoming, inbound, (token, routing, call), turn).ok();
        }
        let id = stateless_service(incoming.listener, turn.table)?;
        let route = Route::Service(id);
        let sender = Side::Caller;
        Some(Decision { route, sender, routing, stateless: true, merge_key: None, media: None })
    }

    fn decide_in_dialog(
        &mut self,
        incoming: &Incoming<'_>,
        inbound: &Inbound<'_, '_>,
        (token, routing, call): (Token, u32, u64),
        turn: &mut Turn<'_>,
    ) -> Result<Decision, Reject> {
        let (hop, sender) = self.dialog_hop(incoming, inbound, token, turn)?;
        let request = &inbound.request;
        let anchored = token.kind == TokenKind::Anchored;
        Ok(Decision {
            route: Route::Dialog(hop),
            sender,
            routing,
            stateless: token.is_stateless() && can_be_stateless(request),
            merge_key: None,
            media: anchored.then(|| Self::media_of_dialog(call, request, sender)),
        })
    }

    /// Creates the context and makes the first attempt.
    fn start(
        &mut self,
        incoming: &Incoming<'_>,
        inbound: &Inbound<'_, '_>,
        arrived: &Arrived<'_>,
        decision: &Decision,
        turn: &mut Turn<'_>,
    ) {
        let Inbound { m, request, .. } = inbound;
        if !self.has_room(turn) {
            return self.refuse(incoming, m, arrived, &Reject::new(503, "Too Many Transactions"), turn);
        }
        let is_invite = request.method == Method::Invite;
        let timers = self.config.timers;
        self.serial = self.serial.wrapping_add(1);
        let budget = match decision.route {
            Route::Service(id) => {
                turn.table.service(id).map_or(core::time::Duration::ZERO, |s| s.call_budget)
            }
            Route::Dialog(_) => timers.timeout(),
        };
        let media_caller = media_caller(request, decision, turn.table);
        let mut context = Context {
            id: 0,
            key: arrived.key,
            merge_key: decision.merge_key,
            call: arrived.call,
            serial: self.serial,
            server: if is_invite {
                ServerMachine::Invite(InviteServer::new(timers))
            } else {
                ServerMachine::Other(Server::new(timers))
            },
            ingress: incoming.listener,
            local: incoming.local,
            remote: incoming.remote,
            reply_to: respond::reply_address(&arrived.via, incoming.remote),
            request: m.bytes.into(),
            route: decision.route,
            sender: decision.sender,
            is_bye: request.method == Method::Bye,
            routing: decision.routing,
            breadth: request.breadth(),
            media_caller,
            media_dialog: decision.media.map(|media| match media.branch {
                BranchName::Dialog(tag) => tag,
                BranchName::Attempt(_) => 0,
            }),
            offered: media_caller.is_some() && anchor::has_offer(m),
            record: None,
            last_response: Vec::new(),
            attempts: Vec::new(),
            tried: ArrayVec::new(),
            timed_out: false,
            best: None,
            budget_until: turn.now + budget,
            cancelled: false,
            closed: false,
            answered: false,
            settled: false,
            queued: None,
        };
        if is_invite {
            self.respond(&mut context, m, 100, "Trying", turn);
        }
        if context.is_new_call() {
            self.tally.count(Counter::Calls);
            let record = self.journal.open(request.call_id, incoming.listener, incoming.remote, turn.now);
            context.record = Some(record);
        }
        if let (Some(media), Route::Dialog(hop), true) = (decision.media, decision.route, context.offered) {
            self.reopen_media(media, request, (decision.sender, incoming.listener, hop), turn.now);
        }
        let entry = self.contexts.vacant_entry();
        let id = entry.key();
        context.id = id;
        entry.insert(Some(Box::new(context)));
        self.by_key.insert(arrived.key, id);
        if let Some(key) = decision.merge_key {
            self.by_merge.insert(key, id);
        }
        self.with_context(id, turn, |engine, context, turn| engine.go_on(context, inbound, turn));
    }

    /// Answers without keeping state; a retransmission gets the same answer (RFC 3261 8.2.7).
    pub(crate) fn answer(
        &mut self,
        incoming: &Incoming<'_>,
        m: &Message<'_>,
        arrived: &Arrived<'_>,
        reject: &Reject,
        turn: &mut Turn<'_>,
    ) {
        let tag = local_tag(arrived.key);
        let response =
            Response { status: reject.status, reason: reject.reason, to_tag: &tag, headers: &reject.headers };
        let mut buffer = core::mem::take(&mut self.buffer);
        respond::write(m, incoming.remote, &response, &mut buffer);
        self.send(turn, incoming.local, respond::reply_address(&arrived.via, incoming.remote), &buffer);
        self.buffer = buffer;
    }

    fn on_cancel(
        &mut self,
        incoming: &Incoming<'_>,
        m: &Message<'_>,
        arrived: &Arrived<'_>,
        id: usize,
        turn: &mut Turn<'_>,
    ) {
        self.answer(incoming, m, arrived, &Reject::new(200, "OK"), turn);
        self.with_context(id, turn, |engine, context, turn| engine.cancel(context, turn));
    }
}

/// Hash of the caller's tag, where a request may describe the media of a call.
fn media_caller(request: &Request<'_>, decision: &Decision, table: &Table) -> Option<u16> {
    let Route::Service(id) = decision.route else { return Some(decision.media?.caller) };
    let anchors = table.service(id).is_some_and(|s| s.anchoring != Anchoring::Off);
    (anchors && request.method == Method::Invite).then(|| tag_hash(request.from_tag))
}

/// The service of a listener whose requests are forwarded without state.
fn stateless_service(listener: ListenerId, table: &Table) -> Option<ServiceId> {
    match table.listener(listener)?.upstream {
        Upstream::Service(id) => table.service(id).filter(|s| s.stateless).map(|_| id),
        Upstream::None => None,
    }
}

/// Without a branch of RFC 3261 nothing tells the way back; such a request gets a transaction.
fn can_be_stateless(request: &Request<'_>) -> bool {
    request.via.branch.is_some_and(sip::branch::is_rfc3261)
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
    if service.is_some_and(|s| !table.takes_calls(s)) {
        // Long enough to spare both sides, short enough not to delay a return.
        let headers = b"Retry-After: 5\r\n".to_vec();
        return Reject { headers, ..Reject::new(503, "No Peer Available") };
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
