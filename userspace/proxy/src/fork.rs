//! Which peers a request is offered to, in which order, and what the upstream gets in the end
//! (RFC 3261 16.5 to 16.7, requirements E1, E4, E6, E12).

use crate::{
    context::{Attempt, Best, Context, Hop, MAX_ATTEMPTS, Route},
    engine::Engine,
    forward::Plan,
    inbound::Inbound,
    journal::{End, Outcome},
    report::Counter,
    request::{PEER_DOWN, local_tag},
    turn::Turn,
};
use alloc::sync::Arc;
use arrayvec::ArrayVec;
use core::time::Duration;
use media::NoPort;
use packet::DropReason;
use routing::{Choice, Fork, Service, Table, select};
use sip::{
    Edits, HeaderName, Message,
    respond::{self, Response},
};

/// A target, and how long its silence is borne.
type Target = (Hop, Option<Duration>);

impl Engine {
    /// Starts the next attempts, or concludes when there is nothing left to try. Does nothing while an
    /// attempt may still be answered.
    pub(crate) fn go_on(&mut self, context: &mut Context, inbound: &Inbound<'_, '_>, turn: &mut Turn<'_>) {
        if context.answered || context.attempts.iter().any(Attempt::is_live) {
            return;
        }
        let over = context.cancelled || context.closed || turn.now >= context.budget_until;
        let targets = if over { ArrayVec::new() } else { self.next_targets(context, turn) };
        if targets.is_empty() {
            return self.conclude(context, inbound.m, turn);
        }
        // Branches at one time share the breadth (RFC 5393 5.3.3).
        let breadth = (context.breadth / targets.len() as u32).max(1);
        let mut exhausted = None;
        for (hop, timeout) in targets {
            let silent_at = timeout.map(|t| (turn.now + t).min(context.budget_until));
            if let Err(why) = self.send_attempt(context, inbound, &Plan { hop, silent_at, breadth }, turn) {
                self.journal.end(context.record, hop.peer, End::NoMediaPort, turn.now);
                exhausted = Some(why);
            }
        }
        if let Some(why) = exhausted.filter(|_| !context.attempts.iter().any(Attempt::is_live)) {
            self.without_ports(context, inbound.m, why, turn);
        }
    }

    /// An offer that no port could be had for: it is refused, and what was there before goes on.
    fn without_ports(&mut self, context: &mut Context, m: &Message<'_>, why: NoPort, turn: &mut Turn<'_>) {
        self.tally.count(Counter::MediaExhausted);
        let reason = match why {
            NoPort::AllInUse => "All Media Ports In Use",
            NoPort::Resting => "Unused Media Ports Resting",
            NoPort::NoAddress => "No Media Address Of This Family",
        };
        self.end_new_call(context, Counter::CallsFailed, turn);
        // Within a dialog, 503 would send the upstream elsewhere.
        let status = if context.route.is_dialog() { 500 } else { 503 };
        self.respond(context, m, status, reason, turn);
    }

    /// The same after a failure, when the request has to be read again.
    pub(crate) fn go_on_again(&mut self, context: &mut Context, turn: &mut Turn<'_>) {
        let request = Arc::clone(&context.request);
        let Ok(m) = Message::parse(&request) else { return };
        match Inbound::again(&m, turn.table, &self.config.token_key) {
            Some(inbound) => self.go_on(context, &inbound, turn),
            None => self.conclude(context, &m, turn),
        }
    }

    /// One target; in a parallel fork all of the same region and priority.
    fn next_targets(&mut self, context: &mut Context, turn: &mut Turn<'_>) -> ArrayVec<Target, MAX_ATTEMPTS> {
        let mut targets = ArrayVec::new();
        let table = turn.table;
        let service = match context.route {
            Route::Dialog(hop) => {
                let bearable = context.is_invite().then(|| self.config.timers.t1 * 8);
                if context.attempts.is_empty() {
                    targets.push((hop, bearable));
                }
                return targets;
            }
            Route::Service(id) => table.service(id),
        };
        let Some(service) = service else { return targets };
        let parallel = service.fork == Fork::Parallel && context.is_invite();
        let room = if parallel { context.breadth as usize } else { 1 };
        let mut group = None;
        while targets.len() < room.min(targets.capacity()) {
            let Some(choice) = select(table, service, &context.tried, self.rng.next_u32()) else { break };
            let Some(peer) = table.peer(choice.peer) else { break };
            let its_group = (choice.why, peer.priority);
            if *group.get_or_insert(its_group) != its_group {
                break;
            }
            self.count_retry(context, choice, table);
            if context.tried.try_push(choice.peer).is_err() {
                break;
            }
            targets.push(self.target(context, service, choice, peer.address, turn));
        }
        targets
    }

    fn target(
        &mut self,
        context: &Context,
        service: &Service,
        choice: Choice,
        to: core::net::SocketAddr,
        turn: &Turn<'_>,
    ) -> Target {
        if context.is_invite() {
            self.tally.peer(choice.peer).attempts += 1;
        }
        self.journal.attempt(context.record, choice.peer, choice.why, turn.now);
        let hop = Hop { egress: service.egress, to, peer: Some(choice.peer) };
        (hop, context.is_invite().then_some(service.attempt_timeout))
    }

    /// A peer that is tried because all earlier ones failed.
    fn count_retry(&mut self, context: &Context, choice: Choice, table: &Table) {
        let Some(last) = context.attempts.last().and_then(|a| table.peer(a.peer?)) else { return };
        self.tally.count(Counter::Retries);
        if table.peer(choice.peer).is_some_and(|peer| peer.region != last.region) {
            self.tally.count(Counter::RetriesOtherRegion);
        }
    }

    /// Nothing is left to try: the upstream gets the best response, or one that starts no retry storm
    /// (requirement E4).
    fn conclude(&mut self, context: &mut Context, m: &Message<'_>, turn: &mut Turn<'_>) {
        if context.best.is_some() {
            return self.deliver_best(context, turn);
        }
        let can_serve = match context.route {
            Route::Service(id) => turn.table.service(id).is_some_and(|s| turn.table.takes_calls(s)),
            Route::Dialog(_) => true,
        };
        let (status, reason) = if context.cancelled {
            (487, "Request Terminated")
        } else if !can_serve {
            (503, "No Peer Available")
        } else if context.timed_out && context.is_invite() {
            (408, "Request Timeout")
        } else if context.route.is_dialog() {
            (500, "Peer Of This Dialog Cannot Be Reached")
        } else {
            (500, "No Peer Took The Request")
        };
        let end = if context.cancelled { Counter::CallsCancelled } else { Counter::CallsFailed };
        self.end_new_call(context, end, turn);
        self.respond(context, m, status, reason, turn);
    }

    /// No branch can do better any more: the best response goes upstream.
    pub(crate) fn deliver_best(&mut self, context: &mut Context, turn: &mut Turn<'_>) {
        let Some(best) = context.best.take() else { return };
        let cancelled = context.cancelled && best.status == 487;
        let end = if cancelled { Counter::CallsCancelled } else { Counter::CallsRefused };
        self.end_new_call(context, end, turn);
        self.journal.outcome(context.record, Outcome::Peer(best.status), turn.now);
        self.deliver(context, best.status, &best.message, turn);
    }

    /// A new call ends without having been answered.
    fn end_new_call(&mut self, context: &Context, counter: Counter, turn: &mut Turn<'_>) {
        if !context.is_new_call() {
            return;
        }
        self.tally.count(counter);
        self.close_unanswered(context, turn);
    }

    /// Keeps a final response other than 2xx if it beats those that came before (RFC 3261 16.7 step 6).
    pub(crate) fn offer_best(&mut self, context: &mut Context, status: u16, m: &Message<'_>, message: &[u8]) {
        let is_challenge = |status| matches!(status, 401 | 407);
        match &mut context.best {
            // The caller needs the challenges of all branches (step 7).
            Some(best) if is_challenge(best.status) && is_challenge(status) => {
                merge_challenges(&mut best.message, m);
            }
            Some(best) if rank(best.status) <= rank(status) => {}
            best => *best = Some(Best { status, message: message.into() }),
        }
    }

    /// Gives up on attempts to peers that are known to be dead now.
    pub(crate) fn leave_dead_peers(&mut self, context: &mut Context, turn: &mut Turn<'_>) {
        for i in 0..context.attempts.len() {
            if context.attempts[i].is_live() && context.attempts[i].has_died(turn.table) {
                self.abandon(&mut context.attempts[i], turn);
                self.journal.end(context.record, context.attempts[i].peer, End::PeerDied, turn.now);
                self.count_failure(context, i);
            }
        }
        context.timed_out = true;
        match context.route {
            Route::Service(_) => self.go_on_again(context, turn),
            Route::Dialog(_) => {
                let request = Arc::clone(&context.request);
                let Ok(m) = Message::parse(&request) else { return };
                self.tally.count(Counter::DialogsLost);
                self.respond(context, &m, 481, PEER_DOWN, turn);
                self.end_dialog(context, turn);
            }
        }
    }

    /// Answers a request ourselves, with state: the answer is repeated as the transaction demands.
    pub(crate) fn respond(
        &mut self,
        context: &mut Context,
        m: &Message<'_>,
        status: u16,
        reason: &'static str,
        turn: &mut Turn<'_>,
    ) {
        let tag = local_tag(context.key);
        let to_tag = if status == 100 { &[][..] } else { &tag };
        if status >= 200 {
            self.journal.outcome(context.record, Outcome::Node(status, reason), turn.now);
        }
        let response = Response { status, reason, to_tag, headers: b"" };
        let mut buffer = core::mem::take(&mut self.buffer);
        respond::write(m, context.remote, &response, &mut buffer);
        self.deliver(context, status, &buffer, turn);
        self.buffer = buffer;
    }

    /// Sends a response upstream if the server transaction allows it. A 2xx to INVITE always passes:
    /// whoever answered must be acknowledged or hung up on (RFC 3261 16.7 step 5).
    pub(crate) fn deliver(
        &mut self,
        context: &mut Context,
        status: u16,
        message: &[u8],
        turn: &mut Turn<'_>,
    ) {
        if context.server.on_send(turn.now, status) {
            let refused = status >= 300 && context.offered && context.route.is_dialog();
            if let Some(media) = context.media_of(0).filter(|_| refused) {
                self.refuse_media(media, context.sender, turn);
            }
            context.answered |= status >= 200;
            context.last_response.clear();
            context.last_response.extend_from_slice(message);
        } else if !(context.is_invite() && (200..300).contains(&status)) {
            return self.tally.drop(DropReason::SipAbsorbed);
        }
        self.send(turn, context.local, context.reply_to, message);
    }
}

/// Order of final responses: 6xx first, else the lowest class; within 4xx those that tell the caller
/// how to do better.
fn rank(status: u16) -> u16 {
    match status {
        600.. => 0,
        401 | 407 | 415 | 420 | 484 => 400,
        400..500 => 401,
        _ => status / 100 * 100,
    }
}

/// Adds the challenges of another response behind those of the best one.
fn merge_challenges(best: &mut alloc::vec::Vec<u8>, other: &Message<'_>) {
    let Ok(m) = Message::parse(best) else { return };
    let at = m.all(HeaderName::Challenge).last().map_or(m.headers_end, |h| h.line().end as usize);
    let mut edits = Edits::new();
    edits.insert(at, b"");
    for header in other.all(HeaderName::Challenge) {
        edits.push(other.text(header.line()));
    }
    let mut merged = alloc::vec::Vec::new();
    edits.write(m.bytes, &mut merged);
    *best = merged;
}

#[cfg(test)]
mod tests {
    use super::rank;

    #[test]
    fn the_best_response_is_chosen_as_rfc_3261_says() {
        let best = |statuses: &[u16]| statuses.iter().copied().min_by_key(|s| rank(*s)).unwrap();
        assert_eq!(best(&[486, 603, 302]), 603);
        assert_eq!(best(&[500, 486, 302]), 302);
        assert_eq!(best(&[404, 407, 486]), 407);
        assert_eq!(best(&[404, 486]), 404, "the first of equals");
        assert_eq!(best(&[580, 501]), 580);
    }
}
