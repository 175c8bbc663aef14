//! Attempts: one peer after the other until one answers (requirements E1 to E5, E12).
//!
//! Named for INVITE, for which most of it is; other requests take the same way with fewer turns.

use crate::{
    context::{Attempt, ClientMachine, Context, Hop, Route, ServerMachine},
    engine::Engine,
    forward,
    report::{Counter, Report},
    request::{PEER_DOWN, local_tag},
    turn::Turn,
};
use alloc::vec::Vec;
use core::time::Duration;
use routing::{Table, select};
use sip::{
    Message,
    respond::{self, Response},
    transaction::{Action, Client},
};

/// Timer C: how long a peer may ring (RFC 3261 16.6 step 11: more than three minutes).
pub(crate) const TIMER_C: Duration = Duration::from_secs(181);

impl Engine {
    /// Sends the request to the next peer, or answers it when there is none left.
    pub(crate) fn next_attempt(&mut self, context: &mut Context, m: &Message<'_>, turn: &mut Turn<'_>) {
        let hop = if context.cancelled || turn.now >= context.budget_until {
            None
        } else {
            self.next_hop(context, turn.table)
        };
        match hop {
            Some((hop, timeout)) => {
                let silent_at = timeout.map(|t| (turn.now + t).min(context.budget_until));
                self.send_attempt(context, m, &hop, silent_at, turn);
            }
            None => self.exhausted(context, m, turn),
        }
    }

    /// The next target, and how long its silence is borne.
    fn next_hop(&mut self, context: &mut Context, table: &Table) -> Option<(Hop, Option<Duration>)> {
        let service = match context.route {
            Route::Dialog(hop) => {
                let bearable = context.is_invite().then(|| self.config.timers.t1 * 8);
                return context.attempts.is_empty().then_some((hop, bearable));
            }
            Route::Service(id) => table.service(id)?,
        };
        let choice = select(table, service, &context.tried, self.rng.next_u32())?;
        let peer = table.peer(choice.peer)?;
        if let Some(last) = context.tried.last().and_then(|id| table.peer(*id)) {
            self.tally.count(Counter::Retries);
            if last.region != peer.region {
                self.tally.count(Counter::RetriesOtherRegion);
            }
        }
        context.tried.try_push(choice.peer).ok()?;
        if context.is_invite() {
            self.tally.peer(choice.peer).attempts += 1;
        }
        let hop = Hop { egress: service.egress, to: peer.address, peer: Some(choice.peer) };
        Some((hop, context.is_invite().then_some(service.attempt_timeout)))
    }

    /// No peer is left: the upstream gets an answer that starts no retry storm (requirement E4).
    pub(crate) fn exhausted(&mut self, context: &mut Context, m: &Message<'_>, turn: &mut Turn<'_>) {
        if context.answered || context.attempts.iter().any(Attempt::is_live) {
            return;
        }
        let can_serve = match context.route {
            Route::Service(id) => turn.table.service(id).is_some_and(|s| turn.table.can_serve(s)),
            Route::Dialog(_) => true,
        };
        let (status, reason) = match context.failures {
            _ if context.cancelled => (487, "Request Terminated"),
            _ if !can_serve => (503, "No Peer Available"),
            f if f.timeout && context.is_invite() => (408, "Request Timeout"),
            _ => (500, "No Peer Took The Request"),
        };
        if context.is_new_call() {
            self.tally.count(if context.cancelled { Counter::CallsCancelled } else { Counter::CallsFailed });
            self.close_dialog(context.call, turn);
        }
        self.respond(context, m, status, reason, turn);
    }

    /// Gives up on attempts to peers that are known to be dead now.
    pub(crate) fn leave_dead_peers(&mut self, context: &mut Context, turn: &mut Turn<'_>) {
        for i in 0..context.attempts.len() {
            if context.attempts[i].is_live() && context.attempts[i].has_died(turn.table) {
                self.abandon(&mut context.attempts[i], turn);
                self.count_failure(context, i);
            }
        }
        context.failures.timeout = true;
        let request = context.request.clone();
        let Ok(m) = Message::parse(&request) else { return };
        match context.route {
            Route::Service(_) => self.next_attempt(context, &m, turn),
            Route::Dialog(_) => {
                self.tally.count(Counter::DialogsLost);
                self.respond(context, &m, 481, PEER_DOWN, turn);
                self.close_dialog(context.call, turn);
            }
        }
    }

    /// Everything of a context whose time has come.
    pub(crate) fn context_timers(&mut self, context: &mut Context, turn: &mut Turn<'_>) {
        let resend = match &mut context.server {
            ServerMachine::Invite(s) => s.on_timer(turn.now) == Action::Resend,
            ServerMachine::Other(s) => s.on_timer(turn.now) == Action::Resend,
        };
        if resend {
            self.send(turn, context.local, context.reply_to, &context.last_response);
        }
        let mut failed = false;
        for i in 0..context.attempts.len() {
            if self.attempt_timers(&mut context.attempts[i], turn) {
                self.count_failure(context, i);
                failed = true;
            }
        }
        if !failed || context.answered {
            return;
        }
        context.failures.timeout = true;
        let request = context.request.clone();
        let Ok(m) = Message::parse(&request) else { return };
        match &mut context.server {
            // A non-INVITE's upstream has given up by now and must not get a 408 (RFC 4320 4.2).
            ServerMachine::Other(server) => server.abandon(),
            ServerMachine::Invite(_) => self.next_attempt(context, &m, turn),
        }
    }

    /// Timers of one attempt; whether it has just failed.
    fn attempt_timers(&mut self, attempt: &mut Attempt, turn: &mut Turn<'_>) -> bool {
        let mut cancel_over = false;
        if let Some((cancel, message)) = &mut attempt.cancel {
            match cancel.on_timer(turn.now) {
                Action::Resend => self.send(turn, attempt.from, attempt.to, message),
                Action::TimedOut => cancel_over = true,
                _ => {}
            }
        }
        let live = attempt.is_live();
        let action = match &mut attempt.machine {
            ClientMachine::Invite(client) => {
                if cancel_over {
                    client.give_up();
                }
                client.on_timer(turn.now)
            }
            ClientMachine::Other(client) => client.on_timer(turn.now),
        };
        match action {
            Action::Resend if !attempt.abandoned => {
                self.send(turn, attempt.from, attempt.to, &attempt.message);
            }
            Action::TimedOut => {
                if live {
                    self.report_silence(attempt, turn);
                }
                return live;
            }
            _ => {}
        }
        if live && cancel_over {
            return true;
        }
        let silent = attempt.silent_at.is_some_and(|at| at <= turn.now) && attempt.is_silent();
        let rang_out = attempt.timer_c.is_some_and(|at| at <= turn.now);
        if !live || !(silent || rang_out) {
            return false;
        }
        if silent {
            self.report_silence(attempt, turn);
        }
        self.abandon(attempt, turn);
        true
    }

    fn report_silence(&mut self, attempt: &Attempt, turn: &mut Turn<'_>) {
        if let Some(peer) = attempt.peer {
            turn.out.report(Report::CallFailed(peer));
        }
    }

    pub(crate) fn count_failure(&mut self, context: &Context, attempt: usize) {
        if let (true, Some(peer)) = (context.is_new_call(), context.attempts[attempt].peer) {
            self.tally.peer(peer).failed += 1;
        }
    }

    /// The call goes elsewhere. The attempt stays, for late responses (requirement E12).
    pub(crate) fn abandon(&mut self, attempt: &mut Attempt, turn: &mut Turn<'_>) {
        attempt.abandoned = true;
        if let ClientMachine::Invite(client) = &mut attempt.machine {
            client.stop_resending();
            if client.can_cancel() {
                self.send_cancel(attempt, turn);
            }
        }
    }

    /// The caller cancels (requirement E5): no further attempt; CANCEL goes to whoever has answered
    /// provisionally, and to the others once they do (RFC 3261 9.1).
    pub(crate) fn cancel(&mut self, context: &mut Context, turn: &mut Turn<'_>) {
        if context.answered || context.cancelled || !context.is_invite() {
            return;
        }
        context.cancelled = true;
        for attempt in context.attempts.iter_mut().filter(|a| a.is_live()) {
            self.cancel_attempt(attempt, turn);
        }
    }

    /// Cancels now or, where no provisional response has come yet, later.
    pub(crate) fn cancel_attempt(&mut self, attempt: &mut Attempt, turn: &mut Turn<'_>) {
        match &attempt.machine {
            ClientMachine::Invite(client) if client.can_cancel() => self.send_cancel(attempt, turn),
            ClientMachine::Invite(_) => attempt.cancel_wanted = true,
            ClientMachine::Other(_) => {}
        }
    }

    pub(crate) fn send_cancel(&mut self, attempt: &mut Attempt, turn: &mut Turn<'_>) {
        if attempt.cancel.is_some() {
            return;
        }
        let mut message = Vec::new();
        if forward::derive(&attempt.message, b"CANCEL", None, &mut message).is_some() {
            self.send(turn, attempt.from, attempt.to, &message);
            attempt.cancel = Some((Client::new(turn.now, self.config.timers), message.into_boxed_slice()));
        }
    }

    /// Answers a request ourselves, with state: the answer is repeated as the transaction demands.
    pub(crate) fn respond(
        &mut self,
        context: &mut Context,
        m: &Message<'_>,
        status: u16,
        reason: &str,
        turn: &mut Turn<'_>,
    ) {
        let tag = local_tag(context.key);
        let to_tag = if status == 100 { &[][..] } else { &tag };
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
        let allowed = match &mut context.server {
            ServerMachine::Invite(s) => s.on_send(turn.now, status),
            ServerMachine::Other(s) => s.on_send(turn.now, status),
        };
        if allowed {
            context.answered |= status >= 200;
            context.last_response.clear();
            context.last_response.extend_from_slice(message);
        } else if !(context.is_invite() && (200..300).contains(&status)) {
            return self.tally.drop(packet::DropReason::SipAbsorbed);
        }
        self.send(turn, context.local, context.reply_to, message);
    }
}
