//! A response arrives: whose is it, and what does it mean for the call (RFC 3261 16.7)?

use crate::{
    anchor::{Described, Kind},
    attempt::TIMER_C,
    context::{Attempt, ClientMachine, Context, Route, ServerMachine, current},
    engine::{ClientSlot, Engine},
    forward,
    journal::{End, Outcome},
    report::{Counter, Report},
    turn::Turn,
};
use alloc::vec::Vec;
use core::time::Duration;
use packet::DropReason;
use routing::ServerError;
use sip::{
    HeaderName, Message, Method,
    branch::Branch,
    scan::{CSeq, NameAddr, Via},
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
                if current(&self.contexts, id, serial).is_none() {
                    return self.tally.drop(DropReason::SipStrayResponse);
                }
                self.with_context(id, turn, |engine, context, turn| {
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
            _ => {
                if !self.respond_stateless(m, branch, turn) {
                    self.tally.drop(DropReason::SipStrayResponse);
                }
            }
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
        self.journal.response(context.record, attempt.peer, status, turn.now);
        let action = attempt.machine.on_response(turn.now, status);
        if status >= 200 {
            self.journal.end(context.record, attempt.peer, End::Status(status), turn.now);
        }
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

    /// ACK of a final response other than 2xx (RFC 3261 17.1.1.3). From then on the attempt keeps the ACK
    /// in place of the INVITE, which is not needed any more.
    fn send_ack(&mut self, context: &mut Context, i: usize, m: &Message<'_>, turn: &mut Turn<'_>) {
        let attempt = &mut context.attempts[i];
        if !attempt.message.starts_with(b"ACK ") {
            let mut ack = Vec::new();
            let to = m.value(HeaderName::To);
            if forward::derive(&attempt.message, b"ACK", to, b"", &mut ack).is_none() {
                return;
            }
            attempt.message = ack.into_boxed_slice();
        }
        self.send(turn, attempt.from, attempt.to, &attempt.message);
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
            self.count_alive(&context.attempts[i]);
            self.pass_on(context, i, m, status, turn);
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
        self.count_alive(&context.attempts[i]);
        if !context.is_invite() {
            if context.attempts[i].abandoned {
                return self.tally.drop(DropReason::SipAbsorbed);
            }
            self.pass_on(context, i, m, status, turn);
            if context.is_bye {
                self.end_dialog(context, turn);
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
            self.journal.outcome(context.record, Outcome::Peer(status), turn.now);
        }
        self.pass_on(context, i, m, status, turn);
        // First 2xx wins, the others are cancelled (RFC 3261 16.7 step 10).
        for j in (0..context.attempts.len()).filter(|j| *j != i) {
            if context.attempts[j].is_live() {
                self.journal.end(context.record, context.attempts[j].peer, End::Lost, turn.now);
                self.lose(&mut context.attempts[j], turn);
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
        let server_error = match context.route {
            Route::Service(id) => turn.table.service(id).map_or(ServerError::Pass, |s| s.server_error),
            Route::Dialog(_) => ServerError::Pass,
        };
        self.judge_failure(context, i, m, (status, server_error), turn);
        if let (Some(media), Route::Service(_)) = (context.media_of(context.attempts[i].slot), context.route)
        {
            self.close_media(media, turn);
        }
        let attempt = &context.attempts[i];
        if attempt.abandoned || context.answered {
            return self.tally.drop(DropReason::SipAbsorbed);
        }
        let new = matches!(context.route, Route::Service(_));
        let retryable = match context.server {
            ServerMachine::Invite(_) => {
                let elsewhere = server_error != ServerError::Pass && (500..600).contains(&status);
                matches!(status, 408 | 503 | 504) || elsewhere
            }
            ServerMachine::Other(_) => status == 503,
        };
        if new && retryable {
            context.timed_out |= status == 408;
            self.count_failure(context, i);
            return self.go_on_again(context, turn);
        }
        if context.is_bye && matches!(status, 408 | 481) {
            self.end_dialog(context, turn);
        }
        // Final for the whole call, but other branches may still do better (RFC 3261 16.7 step 5).
        context.closed = true;
        let message = self.for_upstream(context, i, m, turn);
        self.offer_best(context, status, m, &message);
        self.buffer = message;
        if status >= 600 {
            for attempt in context.attempts.iter_mut().filter(|a| a.is_live()) {
                self.cancel_attempt(attempt, turn);
            }
        }
        if !context.attempts.iter().any(Attempt::is_live) {
            self.deliver_best(context, turn);
        }
    }

    /// What a failure says about the peer.
    fn judge_failure(
        &mut self,
        context: &Context,
        i: usize,
        m: &Message<'_>,
        (status, server_error): (u16, ServerError),
        turn: &mut Turn<'_>,
    ) {
        let Some(peer) = context.attempts[i].peer else { return };
        match status {
            503 => {
                let digits = |v: &[u8]| v.iter().take_while(|b| b.is_ascii_digit()).count();
                let hold = m.value(HeaderName::RetryAfter).and_then(|v| sip::scan::number(&v[..digits(v)]));
                match hold.map(|seconds| Duration::from_secs(seconds.into())) {
                    Some(hold) => turn.out.report(Report::RetryAfter(peer, hold)),
                    None => self.tally.peer(peer).lost += 1,
                }
            }
            500..600 if server_error == ServerError::Failure => self.tally.peer(peer).lost += 1,
            _ => self.tally.peer(peer).alive += 1,
        }
    }

    /// Passes a response upstream.
    fn pass_on(
        &mut self,
        context: &mut Context,
        i: usize,
        m: &Message<'_>,
        status: u16,
        turn: &mut Turn<'_>,
    ) {
        let media = context.media_of(context.attempts[i].slot).filter(|_| context.is_invite());
        if let (Some(media), 101..300) = (media, status) {
            let to = m.value(HeaderName::To).and_then(NameAddr::parse);
            self.media_heard(media, to.and_then(|to| to.tag()), status >= 200);
        }
        let message = self.for_upstream(context, i, m, turn);
        self.deliver(context, status, &message, turn);
        self.buffer = message;
    }

    /// A response as it goes upstream: without our Via, with our media ports. In the engine's buffer,
    /// which the caller gives back.
    fn for_upstream(&mut self, context: &Context, i: usize, m: &Message<'_>, turn: &mut Turn<'_>) -> Vec<u8> {
        let mut message: Vec<u8> = core::mem::take(&mut self.buffer);
        self.edits.clear();
        forward::pop_via(m, &mut self.edits);
        let attempt = &context.attempts[i];
        if let Some(media) = context.media_of(attempt.slot) {
            let (sender, host) = (context.sender.other(), attempt.to.ip());
            let kind = Kind::Response { offered: context.offered };
            // What a response offers cannot be refused: a stream without port is declined in it.
            let _ = self.anchor_body(m, Described { media, sender, host, kind }, turn);
        }
        self.edits.write(m.bytes, &mut message);
        message
    }
}
