//! INVITE server transaction (RFC 3261 17.2.1, RFC 6026 7.1 and 8.5), over UDP.

use super::{Action, Time, Timers};
use core::time::Duration;

/// State of an INVITE server transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InviteServerState {
    /// No final response sent.
    Proceeding,
    /// A final response other than 2xx was sent and is repeated until its ACK comes.
    Completed,
    /// The ACK came; further ones are absorbed.
    Confirmed,
    /// A 2xx was sent; the caller's retransmissions are absorbed, further 2xx pass.
    Accepted,
    /// Over.
    Terminated,
}

/// An INVITE received.
#[derive(Clone, Debug)]
pub struct InviteServer {
    state: InviteServerState,
    /// Timer G.
    resend_at: Option<Time>,
    interval: Duration,
    /// Timer H, then I; L after a 2xx.
    over_at: Option<Time>,
    timers: Timers,
}

impl InviteServer {
    /// For an INVITE that arrived now.
    pub fn new(timers: Timers) -> Self {
        Self {
            state: InviteServerState::Proceeding,
            resend_at: None,
            interval: timers.t1,
            over_at: None,
            timers,
        }
    }

    /// Current state.
    pub fn state(&self) -> InviteServerState {
        self.state
    }

    /// The INVITE came again.
    pub fn on_retransmission(&self) -> Action {
        match self.state {
            InviteServerState::Proceeding | InviteServerState::Completed => Action::Resend,
            _ => Action::Nothing,
        }
    }

    /// An ACK of this transaction came. Whether it was expected: a 2xx's ACK has another branch.
    pub fn on_ack(&mut self, now: Time) -> bool {
        match self.state {
            InviteServerState::Completed => {
                self.state = InviteServerState::Confirmed;
                self.resend_at = None;
                self.over_at = Some(now + self.timers.t4);
                true
            }
            InviteServerState::Confirmed => true,
            _ => false,
        }
    }

    /// A response with this status is to be sent; whether the state allows it.
    pub fn on_send(&mut self, now: Time, status: u16) -> bool {
        match (self.state, status) {
            (InviteServerState::Proceeding, 100..200) => true,
            (InviteServerState::Proceeding, 200..300) => {
                self.state = InviteServerState::Accepted;
                self.over_at = Some(now + self.timers.timeout());
                true
            }
            (InviteServerState::Proceeding, _) => {
                self.state = InviteServerState::Completed;
                self.resend_at = Some(now + self.timers.t1);
                self.over_at = Some(now + self.timers.timeout());
                true
            }
            (InviteServerState::Accepted, 200..300) => true,
            _ => false,
        }
    }

    /// Time has passed.
    pub fn on_timer(&mut self, now: Time) -> Action {
        if self.over_at.is_some_and(|at| at <= now) {
            self.state = InviteServerState::Terminated;
            self.resend_at = None;
            self.over_at = None;
            return Action::Terminated;
        }
        if self.resend_at.is_some_and(|at| at <= now) {
            self.interval = (self.interval * 2).min(self.timers.t2);
            self.resend_at = Some(now + self.interval);
            return Action::Resend;
        }
        Action::Nothing
    }

    /// When to call [`InviteServer::on_timer`] next.
    pub fn next_deadline(&self) -> Option<Time> {
        self.resend_at.into_iter().chain(self.over_at).min()
    }
}
