//! Attempts: one peer after the other until one answers (requirements E1 to E5, E12).
//!
//! Named for INVITE, for which most of it is; other requests take the same way with fewer turns.

use crate::{
    context::{Attempt, ClientMachine, Context, Hop, Route, ServerMachine},
    engine::Engine,
    forward,
    report::{Counter, Outbox, Report},
    request::{PEER_DOWN, local_tag},
};
use alloc::vec::Vec;
use core::time::Duration;
use routing::{Table, select};
use sip::{
    Message,
    respond::{self, Response},
    transaction::{Action, Client, Time},
};

/// Timer C: how long a peer may ring (RFC 3261 16.6 step 11: more than three minutes).
pub(crate) const TIMER_C: Duration = Duration::from_secs(181);

impl Engine {
    /// Sends the request to the next peer, or answers it when there is none left.
    pub(crate) fn next_attempt(
        &mut self,
        now: Time,
        context: &mut Context,
        m: &Message<'_>,
        table: &Table,
        out: &mut dyn Outbox,
    ) {
        let hop = if context.cancelled || now >= context.budget_until {
            None
        } else {
            self.next_hop(context, table)
        };
        match hop {
            Some((hop, timeout)) => {
                let silent_at = timeout.map(|t| (now + t).min(context.budget_until));
                self.send_attempt(now, context, m, &hop, silent_at, table, out);
            }
            None => self.exhausted(now, context, m, table, out),
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
    pub(crate) fn exhausted(
        &mut self,
        now: Time,
        context: &mut Context,
        m: &Message<'_>,
        table: &Table,
        out: &mut dyn Outbox,
    ) {
        if context.answered || context.attempts.iter().any(Attempt::is_live) {
            return;
        }
        let can_serve = match context.route {
            Route::Service(id) => table.service(id).is_some_and(|s| table.can_serve(s)),
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
            self.close_dialog(context.call, out);
        }
        self.respond(now, context, m, status, reason, out);
    }

    /// Gives up on attempts to peers that are known to be dead now.
    pub(crate) fn leave_dead_peers(
        &mut self,
        now: Time,
        context: &mut Context,
        table: &Table,
        out: &mut dyn Outbox,
    ) {
        let mut rang = false;
        for i in 0..context.attempts.len() {
            if context.attempts[i].is_live() && context.attempts[i].is_dead(table) {
                rang |= context.attempts[i].rang;
                self.abandon(now, &mut context.attempts[i], out);
                self.count_failure(context, i);
            }
        }
        context.failures.timeout = true;
        let request = context.request.clone();
        let Ok(m) = Message::parse(&request) else { return };
        match context.route {
            Route::Service(_) if !rang => self.next_attempt(now, context, &m, table, out),
            // A phone rang already: the caller redials, this node does not ring another one.
            Route::Service(_) => self.exhausted(now, context, &m, table, out),
            Route::Dialog(_) => {
                self.tally.count(Counter::DialogsLost);
                self.respond(now, context, &m, 481, PEER_DOWN, out);
                self.close_dialog(context.call, out);
            }
        }
    }

    /// Everything of a context whose time has come.
    pub(crate) fn context_timers(
        &mut self,
        now: Time,
        context: &mut Context,
        table: &Table,
        out: &mut dyn Outbox,
    ) {
        let resend = match &mut context.server {
            ServerMachine::Invite(s) => s.on_timer(now) == Action::Resend,
            ServerMachine::Other(s) => s.on_timer(now) == Action::Resend,
        };
        if resend {
            self.send(out, context.local, context.reply_to, &context.last_response);
        }
        let mut failed = false;
        for i in 0..context.attempts.len() {
            if self.attempt_timers(now, &mut context.attempts[i], out) {
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
            ServerMachine::Invite(_) if context.attempts.iter().any(|a| a.abandoned && a.rang) => {
                self.exhausted(now, context, &m, table, out);
            }
            ServerMachine::Invite(_) => self.next_attempt(now, context, &m, table, out),
        }
    }

    /// Timers of one attempt; whether it has just failed.
    fn attempt_timers(&mut self, now: Time, attempt: &mut Attempt, out: &mut dyn Outbox) -> bool {
        let mut cancel_over = false;
        if let Some((cancel, message)) = &mut attempt.cancel {
            match cancel.on_timer(now) {
                Action::Resend => self.send(out, attempt.from, attempt.to, message),
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
                client.on_timer(now)
            }
            ClientMachine::Other(client) => client.on_timer(now),
        };
        match action {
            Action::Resend if !attempt.abandoned => {
                self.send(out, attempt.from, attempt.to, &attempt.message);
            }
            Action::TimedOut => {
                if live {
                    self.report_silence(attempt, out);
                }
                return live;
            }
            _ => {}
        }
        if live && cancel_over {
            return true;
        }
        let silent = attempt.silent_at.is_some_and(|at| at <= now) && attempt.is_silent();
        let rang_out = attempt.timer_c.is_some_and(|at| at <= now);
        if !live || !(silent || rang_out) {
            return false;
        }
        if silent {
            self.report_silence(attempt, out);
        }
        self.abandon(now, attempt, out);
        true
    }

    fn report_silence(&mut self, attempt: &Attempt, out: &mut dyn Outbox) {
        if let Some(peer) = attempt.peer {
            out.report(Report::CallFailed(peer));
        }
    }

    pub(crate) fn count_failure(&mut self, context: &Context, attempt: usize) {
        if let (true, Some(peer)) = (context.is_new_call(), context.attempts[attempt].peer) {
            self.tally.peer(peer).failed += 1;
        }
    }

    /// The call goes elsewhere. The attempt stays, for late responses (requirement E12).
    pub(crate) fn abandon(&mut self, now: Time, attempt: &mut Attempt, out: &mut dyn Outbox) {
        attempt.abandoned = true;
        if let ClientMachine::Invite(client) = &mut attempt.machine {
            client.stop_resending();
            if client.can_cancel() {
                self.send_cancel(now, attempt, out);
            }
        }
    }

    /// The caller cancels (requirement E5): no further attempt; CANCEL goes to whoever has answered
    /// provisionally, and to the others once they do (RFC 3261 9.1).
    pub(crate) fn cancel(&mut self, now: Time, context: &mut Context, out: &mut dyn Outbox) {
        if context.answered || context.cancelled || !context.is_invite() {
            return;
        }
        context.cancelled = true;
        for attempt in context.attempts.iter_mut().filter(|a| a.is_live()) {
            self.cancel_attempt(now, attempt, out);
        }
    }

    /// Cancels now or, where no provisional response has come yet, later.
    pub(crate) fn cancel_attempt(&mut self, now: Time, attempt: &mut Attempt, out: &mut dyn Outbox) {
        match &attempt.machine {
            ClientMachine::Invite(client) if client.can_cancel() => self.send_cancel(now, attempt, out),
            ClientMachine::Invite(_) => attempt.cancel_wanted = true,
            ClientMachine::Other(_) => {}
        }
    }

    pub(crate) fn send_cancel(&mut self, now: Time, attempt: &mut Attempt, out: &mut dyn Outbox) {
        if attempt.cancel.is_some() {
            return;
        }
        let mut message = Vec::new();
        if forward::derive(&attempt.message, b"CANCEL", None, &mut message).is_some() {
            self.send(out, attempt.from, attempt.to, &message);
            attempt.cancel = Some((Client::new(now, self.config.timers), message.into_boxed_slice()));
        }
    }

    /// Answers a request ourselves, with state: the answer is repeated as the transaction demands.
    pub(crate) fn respond(
        &mut self,
        now: Time,
        context: &mut Context,
        m: &Message<'_>,
        status: u16,
        reason: &str,
        out: &mut dyn Outbox,
    ) {
        let tag = local_tag(context.key);
        let to_tag = if status == 100 { &[][..] } else { &tag };
        let response = Response { status, reason, to_tag, headers: b"" };
        let mut buffer = core::mem::take(&mut self.buffer);
        respond::write(m, context.remote, &response, &mut buffer);
        self.deliver(now, context, status, &buffer, out);
        self.buffer = buffer;
    }

    /// Sends a response upstream if the server transaction allows it. A 2xx to INVITE always passes:
    /// whoever answered must be acknowledged or hung up on (RFC 3261 16.7 step 5).
    pub(crate) fn deliver(
        &mut self,
        now: Time,
        context: &mut Context,
        status: u16,
        message: &[u8],
        out: &mut dyn Outbox,
    ) {
        let allowed = match &mut context.server {
            ServerMachine::Invite(s) => s.on_send(now, status),
            ServerMachine::Other(s) => s.on_send(now, status),
        };
        if allowed {
            context.answered |= status >= 200;
            context.last_response.clear();
            context.last_response.extend_from_slice(message);
        } else if !(context.is_invite() && (200..300).contains(&status)) {
            return self.tally.drop(packet::DropReason::SipAbsorbed);
        }
        self.send(out, context.local, context.reply_to, message);
    }
}
