//! Forwarding without transaction state (RFC 3261 16.11, requirement E8): the ACK of a 2xx, and
//! everything on a route that says so, whose upstream does its own retries.
//!
//! All copies of a request, its CANCEL and its ACK take the same way, because peer and branch follow
//! from what they have in common. The branch also proves to a response that this node sent the request;
//! only for clients of RFC 3261, whose own branch tells a transaction.

use crate::{
    context::{Hop, Route},
    engine::{Engine, Incoming},
    forward::{self, Forward},
    inbound::Inbound,
    journal::{End, Outcome},
    report::Counter,
    request::{Arrived, Decision},
    token::TokenKind,
    turn::Turn,
};
use core::net::SocketAddr;
use packet::DropReason;
use routing::{Listener, ListenerId, select};
use sip::{
    HeaderName, Message, Method,
    branch::Branch,
    scan::{CSeq, uri},
};

/// Slots of branches without transaction; the low half is the listener that the request came in by.
const STATELESS: u32 = 0xffff_0000;

impl Engine {
    pub(crate) fn forward_stateless(
        &mut self,
        incoming: &Incoming<'_>,
        inbound: &Inbound<'_, '_>,
        arrived: &Arrived<'_>,
        decision: &Decision,
        turn: &mut Turn<'_>,
    ) {
        let request = &inbound.request;
        let hash = arrived.key;
        let new_call = request.method == Method::Invite && request.to_tag.is_none();
        let record = new_call
            .then(|| self.journal.open(request.call_id, incoming.listener, incoming.remote, turn.now));
        let hop = match decision.route {
            Route::Dialog(hop) => Some(hop),
            Route::Service(id) => turn.table.service(id).and_then(|service| {
                let choice = select(turn.table, service, &[], (hash >> 32) as u32)?;
                if new_call {
                    self.tally.count(Counter::Calls);
                    self.tally.peer(choice.peer).attempts += 1;
                    self.journal.attempt(record, choice.peer, choice.why, turn.now);
                    self.journal.end(record, Some(choice.peer), End::Stateless, turn.now);
                    self.journal.outcome(record, Outcome::Unknown, turn.now);
                }
                let to = turn.table.peer(choice.peer)?.address;
                Some(Hop { egress: service.egress, to, peer: Some(choice.peer) })
            }),
        };
        let Some(hop) = hop else { return self.tally.drop(DropReason::NoListener) };
        let (Some(ingress), Some(egress)) =
            (turn.table.listener(incoming.listener), turn.table.listener(hop.egress))
        else {
            return;
        };
        let slot = STATELESS | u32::from(incoming.listener.0);
        let branch =
            Branch { worker: self.config.worker, slot, nonce: hash as u32, routing: decision.routing };
        let forward = Forward {
            remote: incoming.remote,
            ingress,
            egress,
            branch,
            in_dialog: decision.route.is_dialog(),
            breadth: request.breadth(),
            record_route: forward::cookie(decision.route, hop, request, TokenKind::Stateless, turn.table),
            media: decision.media,
            sender: decision.sender,
        };
        self.tally.count(Counter::Stateless);
        let mut message = core::mem::take(&mut self.buffer);
        // Only an offer needs ports that may not be there; what is forwarded here has none.
        if self.write_forwarded(inbound, &forward, &mut message, turn).is_ok() {
            self.send(turn, egress.address, hop.to, &message);
        }
        self.buffer = message;
    }

    /// A response whose branch has no transaction; `false`: it is none that this node asked for.
    pub(crate) fn respond_stateless(&mut self, m: &Message<'_>, branch: Branch, turn: &mut Turn<'_>) -> bool {
        let Some((to, listener)) = self.stateless_way_back(m, branch, turn) else { return false };
        self.tally.count(Counter::Stateless);
        let mut message = core::mem::take(&mut self.buffer);
        self.edits.clear();
        forward::pop_via(m, &mut self.edits);
        self.edits.write(m.bytes, &mut message);
        self.send(turn, listener.address, to, &message);
        self.buffer = message;
        true
    }

    fn stateless_way_back<'t>(
        &mut self,
        m: &Message<'_>,
        branch: Branch,
        turn: &mut Turn<'t>,
    ) -> Option<(SocketAddr, &'t Listener)> {
        if branch.slot & STATELESS != STATELESS {
            return None;
        }
        let via = forward::second_via(m)?;
        let cseq = CSeq::parse(m.value(HeaderName::CSeq)?)?;
        if self.keys.rfc3261_transaction(&via, cseq.method, cseq.name) as u32 != branch.nonce {
            return None;
        }
        // This node marked that Via when the request came (RFC 3261 18.2.2, RFC 3581).
        let ip = uri::ip(via.received.map_or(via.host, |r| r.trim_ascii()))?;
        let rport = via.rport.flatten().and_then(sip::scan::number).and_then(|n| u16::try_from(n).ok());
        let to = SocketAddr::new(ip, rport.or(via.port).unwrap_or(5060));
        if !turn.out.may_reach(to.ip()) {
            self.tally.count(Counter::ForbiddenNextHops);
            return None;
        }
        Some((to, turn.table.listener(ListenerId(branch.slot as u16))?))
    }
}
