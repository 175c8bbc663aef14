//! Non-INVITE server transaction (RFC 3261 17.2.2), over UDP.

use super::{Action, Time, Timers};

/// State of a non-INVITE server transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerState {
    /// No response sent.
    Trying,
    /// A provisional response was sent.
    Proceeding,
    /// A final response was sent and is repeated for every retransmission.
    Completed,
    /// Over.
    Terminated,
}

/// A request other than INVITE and ACK received.
#[derive(Clone, Debug)]
pub struct Server {
    state: ServerState,
    /// Timer J.
    over_at: Option<Time>,
    timers: Timers,
}

impl Server {
    /// For a request that arrived now.
    pub fn new(timers: Timers) -> Self {
        Self { state: ServerState::Trying, over_at: None, timers }
    }

    /// Current state.
    pub fn state(&self) -> ServerState {
        self.state
    }

    /// The request came again.
    pub fn on_retransmission(&self) -> Action {
        match self.state {
            ServerState::Proceeding | ServerState::Completed => Action::Resend,
            _ => Action::Nothing,
        }
    }

    /// A response with this status is to be sent; whether the state allows it.
    pub fn on_send(&mut self, now: Time, status: u16) -> bool {
        match (self.state, status) {
            (ServerState::Trying | ServerState::Proceeding, 100..200) => {
                self.state = ServerState::Proceeding;
                true
            }
            (ServerState::Trying | ServerState::Proceeding, _) => {
                self.state = ServerState::Completed;
                self.over_at = Some(now + self.timers.timeout());
                true
            }
            _ => false,
        }
    }

    /// No response will be sent any more: ends now.
    pub fn abandon(&mut self) {
        self.state = ServerState::Terminated;
        self.over_at = None;
    }

    /// Time has passed.
    pub fn on_timer(&mut self, now: Time) -> Action {
        if self.over_at.is_some_and(|at| at <= now) {
            self.abandon();
            return Action::Terminated;
        }
        Action::Nothing
    }

    /// When to call [`Server::on_timer`] next.
    pub fn next_deadline(&self) -> Option<Time> {
        self.over_at
    }
}
