//! The state machine of one peer.

use core::time::Duration;

/// Time since the node's start.
pub type Time = Duration;

/// How a service's peers are judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Time between two probes of a peer.
    pub interval: Duration,
    /// Random part of the interval, in percent, either way.
    pub jitter_percent: u8,
    /// How long a probe may take.
    pub timeout: Duration,
    /// Failures in a row that make a peer UNHEALTHY.
    pub fall: u32,
    /// Successes in a row that make it HEALTHY again.
    pub rise: u32,
    /// Failed calls in a row that make a peer UNHEALTHY; 0: calls are no evidence.
    pub passive_fall: u32,
}

/// State of a peer (requirement C1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Newly configured, no verdict yet.
    Unknown,
    /// Fit for calls.
    Healthy,
    /// Not fit for calls.
    Unhealthy,
}

impl State {
    /// As shown to people.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Unknown => "UNKNOWN",
            Self::Healthy => "HEALTHY",
            Self::Unhealthy => "UNHEALTHY",
        }
    }
}

/// What was learned of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// A probe was answered with this status.
    ProbeAnswered(u16),
    /// A probe was not answered in time.
    ProbeTimedOut,
    /// A call attempt got an answer that shows the peer works.
    CallAnswered,
    /// A call attempt failed: silence, 503, or the network says unreachable.
    CallFailed,
    /// 503 with Retry-After: not to be used for this long.
    RetryAfter(Duration),
}

/// A change of state and the numbers behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transition {
    /// State before.
    pub from: State,
    /// State after.
    pub to: State,
    /// The evidence that tipped it.
    pub cause: Evidence,
    /// Failures in a row.
    pub failures: u32,
    /// Successes in a row.
    pub successes: u32,
}

/// Judgement of one peer.
#[derive(Clone, Debug)]
pub struct PeerHealth {
    policy: Policy,
    state: State,
    failures: u32,
    successes: u32,
    call_failures: u32,
    held_until: Option<Time>,
}

/// Longest time that a Retry-After may hold a peer down.
pub const MAX_HOLD: Duration = Duration::from_secs(300);

impl PeerHealth {
    /// A peer without evidence.
    pub fn new(policy: Policy) -> Self {
        Self { policy, state: State::Unknown, failures: 0, successes: 0, call_failures: 0, held_until: None }
    }

    /// Current state.
    pub fn state(&self) -> State {
        self.state
    }

    /// Failures and successes in a row, for people.
    pub fn counts(&self) -> (u32, u32) {
        (self.failures, self.successes)
    }

    /// Whether an answer to OPTIONS shows a working peer (requirement C3): any final response but
    /// 408, 503, 504 and other 5xx; 501 is an answer to the method, not about the peer.
    pub fn is_success(status: u16) -> bool {
        match status {
            408 => false,
            501 => true,
            _ => !(500..600).contains(&status),
        }
    }

    /// Takes evidence; a change of state is returned once.
    pub fn on_evidence(&mut self, now: Time, evidence: Evidence) -> Option<Transition> {
        let to = match evidence {
            Evidence::ProbeAnswered(status) if Self::is_success(status) => self.on_success(now),
            Evidence::ProbeAnswered(_) | Evidence::ProbeTimedOut => self.on_failure(),
            Evidence::CallAnswered => {
                // Answered calls refute call failures only: an UNHEALTHY peer comes back by probes.
                self.call_failures = 0;
                None
            }
            Evidence::CallFailed => self.on_call_failure(),
            Evidence::RetryAfter(hold) => self.on_retry_after(now, hold),
        };
        let (from, to) = (self.state, to?);
        if from == to {
            return None;
        }
        self.state = to;
        Some(Transition { from, to, cause: evidence, failures: self.failures, successes: self.successes })
    }

    fn on_success(&mut self, now: Time) -> Option<State> {
        self.failures = 0;
        if self.held_until.is_some_and(|until| now < until) {
            return None;
        }
        self.held_until = None;
        self.successes = self.successes.saturating_add(1);
        // A first answer settles UNKNOWN; coming back from UNHEALTHY takes `rise` of them.
        let needed = if self.state == State::Unhealthy { self.policy.rise } else { 1 };
        if self.successes < needed {
            return None;
        }
        self.call_failures = 0;
        Some(State::Healthy)
    }

    fn on_failure(&mut self) -> Option<State> {
        self.successes = 0;
        self.failures = self.failures.saturating_add(1);
        (self.failures >= self.policy.fall).then_some(State::Unhealthy)
    }

    fn on_call_failure(&mut self) -> Option<State> {
        self.call_failures = self.call_failures.saturating_add(1);
        let enough = self.policy.passive_fall > 0 && self.call_failures >= self.policy.passive_fall;
        if !enough {
            return None;
        }
        self.successes = 0;
        self.failures = self.failures.max(1);
        Some(State::Unhealthy)
    }

    fn on_retry_after(&mut self, now: Time, hold: Duration) -> Option<State> {
        self.successes = 0;
        self.held_until = Some(now + hold.min(MAX_HOLD));
        Some(State::Unhealthy)
    }
}

#[cfg(test)]
#[path = "peer_tests.rs"]
mod tests;
