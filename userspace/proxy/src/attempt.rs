//! The life of one attempt: its timers, its end, its CANCEL (requirements E2, E3, E5).

use crate::{
    context::{Attempt, ClientMachine, Context, ServerMachine},
    engine::{ClientSlot, Engine},
    forward,
    journal::End,
    report::{Counter, Outbox},
    turn::Turn,
};
use alloc::vec::Vec;
use core::{net::SocketAddr, time::Duration};
use routing::Table;
use sip::{
    branch::Branch,
    transaction::{Action, Client, Time},
};

/// Timer C: how long a peer may ring (RFC 3261 16.6 step 11: more than three minutes).
pub(crate) const TIMER_C: Duration = Duration::from_secs(181);
/// Why a branch is cancelled that lost against another one (RFC 3326): no missed call on its phone.
const ANSWERED_ELSEWHERE: &[u8] = b"Reason: SIP;cause=200;text=\"Call completed elsewhere\"\r\n";

impl Engine {
    /// Everything of a context whose time has come.
    pub(crate) fn context_timers(&mut self, context: &mut Context, turn: &mut Turn<'_>) {
        if context.server.on_timer(turn.now) == Action::Resend {
            self.send(turn, context.local, context.reply_to, &context.last_response);
        }
        let mut failed = false;
        for i in 0..context.attempts.len() {
            if let Some(end) = self.attempt_timers(&mut context.attempts[i], turn) {
                self.journal.end(context.record, context.attempts[i].peer, end, turn.now);
                self.count_failure(context, i);
                failed = true;
            }
        }
        if !failed || context.answered {
            return;
        }
        context.timed_out = true;
        match &mut context.server {
            // A non-INVITE's upstream has given up by now and must not get a 408 (RFC 4320 4.2).
            ServerMachine::Other(server) => server.abandon(),
            ServerMachine::Invite(_) => self.go_on_again(context, turn),
        }
    }

    /// Timers of one attempt; how it has just failed.
    fn attempt_timers(&mut self, attempt: &mut Attempt, turn: &mut Turn<'_>) -> Option<End> {
        if let Some((cancel, message)) = &mut attempt.cancel
            && cancel.on_timer(turn.now) == Action::Resend
        {
            self.send(turn, attempt.from, attempt.to, message);
        }
        let live = attempt.is_live();
        let unheard = if attempt.is_silent() { End::Silence } else { End::NoFinal };
        let given_up = attempt.machine.is_pending() && attempt.give_up_at.is_some_and(|at| at <= turn.now);
        if let (ClientMachine::Invite(client), true) = (&mut attempt.machine, given_up) {
            client.give_up();
        }
        match attempt.machine.on_timer(turn.now) {
            Action::Resend if !attempt.abandoned => {
                self.send(turn, attempt.from, attempt.to, &attempt.message);
            }
            Action::TimedOut => {
                if live {
                    self.count_lost(attempt);
                }
                return live.then_some(unheard);
            }
            _ => {}
        }
        if live && given_up {
            return Some(unheard);
        }
        let silent = attempt.silent_at.is_some_and(|at| at <= turn.now) && attempt.is_silent();
        let rang_out = attempt.timer_c.is_some_and(|at| at <= turn.now);
        if !live || !(silent || rang_out) {
            return None;
        }
        if silent {
            self.count_lost(attempt);
        }
        self.abandon(attempt, turn);
        Some(unheard)
    }

    /// The network says that a request did not arrive (RFC 3261 16.9, 18.4): the attempt has failed, if
    /// nothing was heard of its peer yet. The branch, quoted from the request, proves that it was ours.
    pub fn on_unreachable(
        &mut self,
        now: Time,
        branch: Branch,
        to: SocketAddr,
        table: &Table,
        out: &mut dyn Outbox,
    ) {
        let turn = &mut Turn { now, table, out };
        let mut matched = false;
        match self.clients.get(branch.slot as usize) {
            Some(ClientSlot::Probe(probe)) if probe.nonce == branch.nonce => {
                matched = true;
                self.on_probe_due(branch.slot, branch.nonce, turn);
            }
            Some(ClientSlot::Attempt { context, nonce, .. }) if *nonce == branch.nonce => {
                let id = *context;
                self.with_context(id, turn, |engine, context, turn| {
                    let silent =
                        |a: &Attempt| a.slot == branch.slot && a.is_live() && a.is_silent() && a.to == to;
                    if let Some(i) = context.attempts.iter().position(silent) {
                        matched = true;
                        engine.attempt_unreachable(context, i, turn);
                    }
                });
            }
            _ => {}
        }
        self.tally.count(if matched { Counter::Unreachable } else { Counter::IcmpIgnored });
    }

    fn attempt_unreachable(&mut self, context: &mut Context, i: usize, turn: &mut Turn<'_>) {
        let attempt = &mut context.attempts[i];
        self.journal.end(context.record, attempt.peer, End::Unreachable, turn.now);
        self.count_lost(attempt);
        self.abandon(attempt, turn);
        self.count_failure(context, i);
        self.go_on_again(context, turn);
    }

    fn count_lost(&mut self, attempt: &Attempt) {
        if let Some(peer) = attempt.peer {
            self.tally.peer(peer).lost += 1;
        }
    }

    pub(crate) fn count_alive(&mut self, attempt: &Attempt) {
        if let Some(peer) = attempt.peer {
            self.tally.peer(peer).alive += 1;
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

    /// The call was answered elsewhere.
    pub(crate) fn lose(&mut self, attempt: &mut Attempt, turn: &mut Turn<'_>) {
        attempt.answered_elsewhere = true;
        self.abandon(attempt, turn);
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
        let timers = self.config.timers;
        // The final response may be lost more than once: it is waited for, but not for ever (9.1).
        attempt.give_up_at = Some(turn.now + timers.timeout());
        let mut message = Vec::new();
        let headers = if attempt.answered_elsewhere { ANSWERED_ELSEWHERE } else { b"" };
        if forward::derive(&attempt.message, b"CANCEL", None, headers, &mut message).is_some() {
            self.send(turn, attempt.from, attempt.to, &message);
            attempt.cancel = Some((Client::new(turn.now, timers), message.into_boxed_slice()));
        }
    }
}
