//! A response arrives: whose is it, and what does it mean for the call (RFC 3261 16.7)?

use crate::{
    context::{ClientMachine, Context, Route, ServerMachine},
    engine::{ClientSlot, Engine},
    forward,
    invite::TIMER_C,
    report::{Counter, Report},
    turn::Turn,
};
use alloc::vec::Vec;
use core::time::Duration;
use packet::DropReason;
use sip::{
    HeaderName, Message, Method,
    branch::Branch,
    scan::{CSeq, Via},
    transaction::{Action, Time},
};

impl Engine {
    pub(crate) fn on_response(&mut self, m: &Message<'_>, status: u16, turn: &mut Turn<'_>) {
        let via = m.value(HeaderName::Via).and_then(Via::parse);
        let cseq = m.value(HeaderName::CSeq).and_then(CSeq::parse);
        let (Some(via), Some(cseq), None) = (via, cseq, m.defect) else {
            return self.tally.drop(DropReason::SipBadResponse);
        };
        // A stateful proxy drops responses that match no transaction (RFC 6026 8.9).
        let Some(branch) = via.branch.and_then(Branch::parse).filter(|b| b.worker == self.config.worker)
        else {
            return self.tally.drop(DropReason::SipStrayResponse);
        };
        match self.clients.get(branch.slot as usize) {
            Some(ClientSlot::Probe(probe)) if probe.nonce == branch.nonce => {
                self.on_probe_answer(branch.slot, status, turn);
            }
            Some(ClientSlot::Attempt { context, serial, nonce }) if *nonce == branch.nonce => {
                let (id, serial) = (*context, *serial);
                let current =
                    self.contexts.get(id).and_then(Option::as_ref).is_some_and(|c| c.serial == serial);
                if !current {
                    return self.tally.drop(DropReason::SipStrayResponse);
                }
                self.with_context(turn.now, id, |engine, context| {
                    let index = context.attempts.iter().position(|a| a.slot == branch.slot);
                    match index {
                        Some(i) if cseq.method == Method::Cancel => {
                            engine.on_cancel_answer(turn.now, context, i, status);
                        }
                        Some(i) => engine.on_attempt_answer(context, i, m, status, turn),
                        None => engine.tally.drop(DropReason::SipStrayResponse),
                    }
                });
            }
            _ => self.tally.drop(DropReason::SipStrayResponse),
        }
    }

    fn on_cancel_answer(&mut self, now: Time, context: &mut Context, i: usize, status: u16) {
        if let Some((client, _)) = &mut context.attempts[i].cancel {
            client.on_response(now, status);
        }
    }

    fn on_attempt_answer(
        &mut self,
        context: &mut Context,
        i: usize,
        m: &Message<'_>,
        status: u16,
        turn: &mut Turn<'_>,
    ) {
        let attempt = &mut context.attempts[i];
        let action = match &mut attempt.machine {
            ClientMachine::Invite(client) => client.on_response(turn.now, status),
            ClientMachine::Other(client) => client.on_response(turn.now, status),
        };
        if matches!(action, Action::Ack | Action::AckAndForward) {
            self.send_ack(context, i, m, turn);
        }
        match (action, status) {
            (Action::Forward, 100..200) => self.on_provisional(context, i, m, status, turn),
            (Action::Forward, 200..300) => self.on_success(context, i, m, status, turn),
            (Action::Forward | Action::AckAndForward, _) => {
                self.on_failure(context, i, m, status, turn);
            }
            _ => self.tally.drop(DropReason::SipAbsorbed),
        }
    }

    /// ACK of a final response other than 2xx (RFC 3261 17.1.1.3).
    fn send_ack(&mut self, context: &Context, i: usize, m: &Message<'_>, turn: &mut Turn<'_>) {
        let attempt = &context.attempts[i];
        let mut ack = core::mem::take(&mut self.buffer);
        if forward::derive(&attempt.message, b"ACK", m.value(HeaderName::To), &mut ack).is_some() {
            self.send(turn, attempt.from, attempt.to, &ack);
        }
        self.buffer = ack;
    }

    fn on_provisional(
        &mut self,
        context: &mut Context,
        i: usize,
        m: &Message<'_>,
        status: u16,
        turn: &mut Turn<'_>,
    ) {
        let attempt = &mut context.attempts[i];
        attempt.silent_at = None;
        if status > 100 || attempt.timer_c.is_none() {
            attempt.timer_c =
                matches!(attempt.machine, ClientMachine::Invite(_)).then_some(turn.now + TIMER_C);
        }
        if attempt.abandoned || attempt.cancel_wanted {
            return self.send_cancel(attempt, turn);
        }
        // 100 is hop by hop, and a non-INVITE's provisional responses are of no use (RFC 4320 4.1).
        if status > 100 && context.is_invite() {
            if let Some(peer) = context.attempts[i].peer {
                turn.out.report(Report::CallAnswered(peer));
            }
            self.pass_on(context, m, status, turn);
        }
    }

    fn on_success(
        &mut self,
        context: &mut Context,
        i: usize,
        m: &Message<'_>,
        status: u16,
        turn: &mut Turn<'_>,
    ) {
        let first = !context.answered;
        let peer = context.attempts[i].peer;
        if let Some(peer) = peer {
            turn.out.report(Report::CallAnswered(peer));
        }
        if !context.is_invite() {
            if context.attempts[i].abandoned {
                return self.tally.drop(DropReason::SipAbsorbed);
            }
            self.pass_on(context, m, status, turn);
            if context.is_bye {
                self.close_dialog(context.call, turn);
            }
            return;
        }
        if first && context.is_new_call() {
            self.tally.count(Counter::CallsAnswered);
            if context.tried.len() > 1 {
                self.tally.count(Counter::CallsRescued);
            }
            if let Some(peer) = peer {
                self.tally.peer(peer).answered += 1;
            }
            self.establish(context.call, peer);
        }
        self.pass_on(context, m, status, turn);
        // First 2xx wins, the others are cancelled (RFC 3261 16.7 step 10).
        for j in (0..context.attempts.len()).filter(|j| *j != i) {
            if context.attempts[j].is_live() {
                self.abandon(&mut context.attempts[j], turn);
            }
        }
    }

    fn on_failure(
        &mut self,
        context: &mut Context,
        i: usize,
        m: &Message<'_>,
        status: u16,
        turn: &mut Turn<'_>,
    ) {
        self.report_failure(context, i, m, status, turn);
        let attempt = &context.attempts[i];
        if attempt.abandoned || context.answered {
            return self.tally.drop(DropReason::SipAbsorbed);
        }
        let new = matches!(context.route, Route::Service(_));
        let retryable = match context.server {
            ServerMachine::Invite(_) => matches!(status, 408 | 503 | 504),
            ServerMachine::Other(_) => status == 503,
        };
        if new && retryable {
            match status {
                408 => context.failures.timeout = true,
                _ => context.failures.unavailable = true,
            }
            self.count_failure(context, i);
            let request = context.request.clone();
            let Ok(request) = Message::parse(&request) else { return };
            self.next_attempt(context, &request, turn);
            return;
        }
        if context.is_new_call() {
            let cancelled = context.cancelled && status == 487;
            self.tally.count(if cancelled { Counter::CallsCancelled } else { Counter::CallsRefused });
            self.close_dialog(context.call, turn);
        }
        self.pass_on(context, m, status, turn);
        if context.is_bye && matches!(status, 408 | 481) {
            self.close_dialog(context.call, turn);
        }
    }

    fn report_failure(
        &mut self,
        context: &Context,
        i: usize,
        m: &Message<'_>,
        status: u16,
        turn: &mut Turn<'_>,
    ) {
        let Some(peer) = context.attempts[i].peer else { return };
        if status != 503 {
            return turn.out.report(Report::CallAnswered(peer));
        }
        let digits = |v: &[u8]| v.iter().take_while(|b| b.is_ascii_digit()).count();
        let hold = m.value(HeaderName::RetryAfter).and_then(|v| sip::scan::number(&v[..digits(v)]));
        match hold {
            Some(seconds) => turn.out.report(Report::RetryAfter(peer, Duration::from_secs(seconds.into()))),
            None => turn.out.report(Report::CallFailed(peer)),
        }
    }

    /// Passes a response upstream: without our Via, with our media ports.
    fn pass_on(&mut self, context: &mut Context, m: &Message<'_>, status: u16, turn: &mut Turn<'_>) {
        let mut message: Vec<u8> = core::mem::take(&mut self.buffer);
        self.edits.clear();
        forward::pop_via(m, &mut self.edits);
        let shown = turn.table.listener(context.ingress);
        if let Some(shown) = shown {
            self.anchor_body(m, context.call, context.sender.other(), shown);
        }
        self.edits.write(m.bytes, &mut message);
        self.deliver(context, status, &message, turn);
        self.buffer = message;
    }
}
