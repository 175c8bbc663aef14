//! The four transaction state machines of RFC 3261 section 17 with RFC 6026, without IO.
//!
//! Each is told of events with the current time and says what to do; [`next_deadline`] of each says
//! when it wants to be called again. Time is a [`Duration`] since a fixed start. Messages are not
//! kept here: whoever holds the machine holds the bytes.
//!
//! [`next_deadline`]: InviteClient::next_deadline

mod client;
mod invite_client;
mod invite_server;
mod server;
#[cfg(test)]
mod tests;

pub use client::{Client, ClientState};
pub use invite_client::{InviteClient, InviteClientState};
pub use invite_server::{InviteServer, InviteServerState};
pub use server::{Server, ServerState};

use core::time::Duration;

/// Time since the node's start.
pub type Time = Duration;

/// Base timers of RFC 3261 17.1.1.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timers {
    /// Estimated round-trip time.
    pub t1: Duration,
    /// Longest retransmission interval of non-INVITE requests and INVITE responses.
    pub t2: Duration,
    /// Longest life of a message in the network.
    pub t4: Duration,
}

impl Default for Timers {
    fn default() -> Self {
        Self { t1: Duration::from_millis(500), t2: Duration::from_secs(4), t4: Duration::from_secs(5) }
    }
}

impl Timers {
    /// 64 × T1: timers B, F, H, J, L and M.
    pub fn timeout(&self) -> Duration {
        self.t1 * 64
    }

    /// Timer D: over 32 s on unreliable transports.
    pub fn timer_d(&self) -> Duration {
        self.timeout().max(Duration::from_secs(32))
    }
}

/// What a transaction wants done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Nothing.
    Nothing,
    /// Send the kept message again.
    Resend,
    /// Pass the response on.
    Forward,
    /// Acknowledge the response (RFC 3261 17.1.1.3) and pass it on.
    AckAndForward,
    /// Acknowledge a retransmitted final response.
    Ack,
    /// No final response came in time.
    TimedOut,
    /// The transaction is over and can be forgotten.
    Terminated,
}
