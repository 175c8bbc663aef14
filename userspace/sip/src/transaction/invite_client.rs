//! INVITE client transaction (RFC 3261 17.1.1, RFC 6026 8.4), over UDP.

use super::{Action, Time, Timers};
use core::time::Duration;

/// State of an INVITE client transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InviteClientState {
    /// Sent, nothing heard.
    Calling,
    /// A provisional response came.
    Proceeding,
    /// A final response other than 2xx came; its retransmissions are acknowledged.
    Completed,
    /// A 2xx came; further ones are passed on.
    Accepted,
    /// Over.
    Terminated,
}

/// An INVITE sent to a peer.
#[derive(Clone, Debug)]
pub struct InviteClient {
    state: InviteClientState,
    /// Timer A.
    resend_at: Option<Time>,
    interval: Duration,
    /// Timer B in Calling, D in Completed, M in Accepted.
    over_at: Option<Time>,
    timers: Timers,
}

impl InviteClient {
    /// For an INVITE that is sent now.
    pub fn new(now: Time, timers: Timers) -> Self {
        Self {
            state: InviteClientState::Calling,
            resend_at: Some(now + timers.t1),
            interval: timers.t1,
            over_at: Some(now + timers.timeout()),
            timers,
        }
    }

    /// Current state.
    pub fn state(&self) -> InviteClientState {
        self.state
    }

    /// Whether a provisional response came and no final one: CANCEL may be sent (RFC 3261 9.1).
    pub fn can_cancel(&self) -> bool {
        self.state == InviteClientState::Proceeding
    }

    /// Whether a final response is still outstanding.
    pub fn is_pending(&self) -> bool {
        matches!(self.state, InviteClientState::Calling | InviteClientState::Proceeding)
    }

    /// A response with this status came.
    pub fn on_response(&mut self, now: Time, status: u16) -> Action {
        use InviteClientState::{Accepted, Calling, Completed, Proceeding, Terminated};
        match (self.state, status) {
            (Calling | Proceeding, 100..200) => {
                self.enter(Proceeding, None);
                Action::Forward
            }
            (Calling | Proceeding, 200..300) => {
                self.enter(Accepted, Some(now + self.timers.timeout()));
                Action::Forward
            }
            (Calling | Proceeding, _) => {
                self.enter(Completed, Some(now + self.timers.timer_d()));
                Action::AckAndForward
            }
            (Accepted, 200..300) => Action::Forward,
            (Completed, 300..) => Action::Ack,
            (Completed | Accepted | Terminated, _) => Action::Nothing,
        }
    }

    /// Time has passed.
    pub fn on_timer(&mut self, now: Time) -> Action {
        if self.over_at.is_some_and(|at| at <= now) {
            let pending = self.is_pending();
            self.enter(InviteClientState::Terminated, None);
            return if pending { Action::TimedOut } else { Action::Terminated };
        }
        if self.resend_at.is_some_and(|at| at <= now) {
            self.interval *= 2;
            self.resend_at = Some(now + self.interval);
            return Action::Resend;
        }
        Action::Nothing
    }

    /// Ends a transaction whose CANCEL got no final response within 64 × T1 (RFC 3261 9.1).
    pub fn give_up(&mut self) {
        self.enter(InviteClientState::Terminated, None);
    }

    /// Stops retransmitting, but keeps listening for late responses until timer B.
    pub fn stop_resending(&mut self) {
        self.resend_at = None;
    }

    /// When to call [`InviteClient::on_timer`] next.
    pub fn next_deadline(&self) -> Option<Time> {
        self.resend_at.into_iter().chain(self.over_at).min()
    }

    fn enter(&mut self, state: InviteClientState, over_at: Option<Time>) {
        self.state = state;
        self.resend_at = None;
        self.over_at = over_at;
    }
}
