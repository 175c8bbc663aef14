//! Non-INVITE client transaction (RFC 3261 17.1.2), over UDP.

use super::{Action, Time, Timers};
use core::time::Duration;

/// State of a non-INVITE client transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientState {
    /// Sent, nothing heard.
    Trying,
    /// A provisional response came.
    Proceeding,
    /// A final response came; its retransmissions are absorbed.
    Completed,
    /// Over.
    Terminated,
}

/// A request other than INVITE and ACK sent to a peer.
#[derive(Clone, Debug)]
pub struct Client {
    state: ClientState,
    /// Timer E.
    resend_at: Option<Time>,
    interval: Duration,
    /// Timer F, then K.
    over_at: Time,
    timers: Timers,
}

impl Client {
    /// For a request that is sent now.
    pub fn new(now: Time, timers: Timers) -> Self {
        Self {
            state: ClientState::Trying,
            resend_at: Some(now + timers.t1),
            interval: timers.t1,
            over_at: now + timers.timeout(),
            timers,
        }
    }

    /// Current state.
    pub fn state(&self) -> ClientState {
        self.state
    }

    /// Whether a final response is still outstanding.
    pub fn is_pending(&self) -> bool {
        matches!(self.state, ClientState::Trying | ClientState::Proceeding)
    }

    /// A response with this status came.
    pub fn on_response(&mut self, now: Time, status: u16) -> Action {
        match (self.state, status) {
            (ClientState::Trying | ClientState::Proceeding, 100..200) => {
                self.state = ClientState::Proceeding;
                Action::Forward
            }
            (ClientState::Trying | ClientState::Proceeding, _) => {
                self.state = ClientState::Completed;
                self.resend_at = None;
                self.over_at = now + self.timers.t4;
                Action::Forward
            }
            _ => Action::Nothing,
        }
    }

    /// Time has passed.
    pub fn on_timer(&mut self, now: Time) -> Action {
        if self.over_at <= now && self.state != ClientState::Terminated {
            let pending = self.is_pending();
            self.state = ClientState::Terminated;
            self.resend_at = None;
            return if pending { Action::TimedOut } else { Action::Terminated };
        }
        if self.resend_at.is_some_and(|at| at <= now) {
            self.interval = match self.state {
                ClientState::Trying => (self.interval * 2).min(self.timers.t2),
                _ => self.timers.t2,
            };
            self.resend_at = Some(now + self.interval);
            return Action::Resend;
        }
        Action::Nothing
    }

    /// When to call [`Client::on_timer`] next.
    pub fn next_deadline(&self) -> Option<Time> {
        match self.state {
            ClientState::Terminated => None,
            _ => Some(self.resend_at.map_or(self.over_at, |at| at.min(self.over_at))),
        }
    }
}
