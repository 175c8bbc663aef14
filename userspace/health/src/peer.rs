//! The state machine of one peer (requirements C1 to C5).

use crate::{State, Statuses, Time, damping::Damping};
use core::time::Duration;

/// Where evidence of a peer comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeKind {
    /// OPTIONS, and calls.
    Options,
    /// Calls alone: the peer never answers OPTIONS. While UNHEALTHY single calls try it.
    Passive,
}

/// How a service's peers are judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Where evidence comes from.
    pub kind: ProbeKind,
    /// Time between two probes of a peer.
    pub interval: Duration,
    /// The same for a peer that has been UNHEALTHY for long: the interval doubles up to this.
    pub max_interval: Duration,
    /// Random part of the interval, in percent, either way.
    pub jitter_percent: u8,
    /// How long a probe may take.
    pub timeout: Duration,
    /// Answers to OPTIONS that are no success.
    pub failing: Statuses,
    /// Failed probes in a row that make a peer UNHEALTHY.
    pub fall: u32,
    /// Successful probes in a row that bring it back.
    pub rise: u32,
    /// Failed calls in a row that make a peer UNHEALTHY; 0: calls are no evidence.
    pub passive_fall: u32,
    /// How long a recovering peer must stay fit before it is HEALTHY; longer for one that keeps falling.
    pub hold_down: Duration,
    /// Time in which a peer that came back gets its full share of calls again.
    pub slow_start: Duration,
    /// Time between two trial calls of an UNHEALTHY peer that is not probed.
    pub trial_interval: Duration,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            kind: ProbeKind::Options,
            interval: Duration::from_secs(5),
            max_interval: Duration::from_secs(20),
            jitter_percent: 20,
            timeout: Duration::from_secs(1),
            failing: Statuses::failing_probe(),
            fall: 3,
            rise: 2,
            passive_fall: 3,
            hold_down: Duration::ZERO,
            slow_start: Duration::ZERO,
            trial_interval: Duration::from_secs(30),
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
    /// Calls since the latest such report: answers that show a working peer, and failures (silence, 503,
    /// or the network says unreachable).
    Calls {
        /// Answered.
        answered: u32,
        /// Failed.
        failed: u32,
    },
    /// 503 with Retry-After: not to be used for this long.
    RetryAfter(Duration),
}

/// What tipped a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Evidence.
    Evidence(Evidence),
    /// It has been fit for the whole hold-down.
    HoldDownOver,
    /// Nothing was heard of it for so long that the old judgement means nothing.
    NoTraffic,
}

/// A change of state and the numbers behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transition {
    /// State before.
    pub from: State,
    /// State after.
    pub to: State,
    /// What tipped it.
    pub cause: Cause,
    /// Failures in a row.
    pub failures: u32,
    /// Successes in a row.
    pub successes: u32,
}

/// Longest time that a Retry-After may hold a peer down.
pub const MAX_HOLD: Duration = Duration::from_secs(300);
/// An UNHEALTHY peer without probes that no call tried for this long is UNKNOWN again.
pub const FORGOTTEN_AFTER: Duration = Duration::from_secs(600);
/// Steps of the slow start.
const RAMP_STEPS: u32 = 10;

/// Judgement of one peer.
#[derive(Clone, Debug)]
pub struct PeerHealth {
    policy: Policy,
    state: State,
    failures: u32,
    successes: u32,
    call_failures: u32,
    held_until: Option<Time>,
    damping: Damping,
    /// Fit again, and HEALTHY from then on unless something happens.
    back_at: Option<Time>,
    /// Start of the slow start.
    ramp_from: Option<Time>,
    /// Steps of it that are over.
    ramp_steps: u32,
    /// When the next trial call may be made.
    trial_at: Option<Time>,
    trials: u32,
    heard_at: Time,
}

impl PeerHealth {
    /// A peer without evidence.
    pub fn new(policy: Policy, now: Time) -> Self {
        Self {
            policy,
            state: State::Unknown,
            failures: 0,
            successes: 0,
            call_failures: 0,
            held_until: None,
            damping: Damping::new(policy.hold_down),
            back_at: None,
            ramp_from: None,
            ramp_steps: 0,
            trial_at: None,
            trials: 0,
            heard_at: now,
        }
    }

    /// Judges by another policy from now on; whether it is another one. The state stays: a new policy is
    /// no evidence.
    pub fn set_policy(&mut self, policy: Policy) -> bool {
        let other = policy != self.policy;
        if other {
            self.policy = policy;
            self.damping = Damping::new(policy.hold_down);
        }
        other
    }

    /// What it is judged by.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Current state.
    pub fn state(&self) -> State {
        self.state
    }

    /// Failures and successes in a row, for people.
    pub fn counts(&self) -> (u32, u32) {
        (self.failures.max(self.call_failures), self.successes)
    }

    /// Share of its weight that it gets, in percent: less than 100 during the slow start.
    pub fn share(&self) -> u8 {
        match self.ramp_from {
            None => 100,
            Some(_) => ((self.ramp_steps + 1) * 100 / RAMP_STEPS) as u8,
        }
    }

    /// How many trial calls were allowed so far; each new number allows one more.
    pub fn trials(&self) -> u32 {
        self.trials
    }

    /// Time to the next probe, without jitter; none where OPTIONS are not sent.
    pub fn probe_interval(&self) -> Option<Duration> {
        let policy = &self.policy;
        if policy.kind == ProbeKind::Passive {
            return None;
        }
        // A peer that has begun to answer is not kept waiting.
        let waits = self.state == State::Unhealthy && self.successes == 0;
        let doublings = if waits { self.failures.saturating_sub(policy.fall).min(16) } else { 0 };
        Some(policy.interval.saturating_mul(1 << doublings).min(policy.max_interval.max(policy.interval)))
    }

    /// When [`PeerHealth::on_time`] has something to do.
    pub fn deadline(&self) -> Option<Time> {
        let forgotten = self.is_tried_by_calls().then(|| self.heard_at + FORGOTTEN_AFTER);
        [self.back_at, self.ramp_step(), self.trial_at, forgotten].into_iter().flatten().min()
    }

    /// Takes evidence; a change of state is returned once.
    pub fn on_evidence(&mut self, now: Time, evidence: Evidence) -> Option<Transition> {
        self.heard_at = now;
        let to = match evidence {
            Evidence::ProbeAnswered(status) if !self.policy.failing.contains(status) => self.on_success(now),
            Evidence::ProbeAnswered(_) | Evidence::ProbeTimedOut => self.on_failure(),
            Evidence::Calls { answered, failed } => self.on_calls(now, answered, failed),
            Evidence::RetryAfter(hold) => self.on_retry_after(now, hold),
        };
        self.turn(now, to?, Cause::Evidence(evidence))
    }

    /// Time has passed; a change of state is returned once.
    pub fn on_time(&mut self, now: Time) -> Option<Transition> {
        while self.ramp_step().is_some_and(|at| now >= at) {
            self.ramp_steps += 1;
            if self.ramp_steps + 1 >= RAMP_STEPS {
                self.ramp_from = None;
            }
        }
        if self.back_at.is_some_and(|at| now >= at) {
            return self.turn(now, State::Healthy, Cause::HoldDownOver);
        }
        if self.is_tried_by_calls() && now >= self.heard_at + FORGOTTEN_AFTER {
            return self.turn(now, State::Unknown, Cause::NoTraffic);
        }
        if self.trial_at.is_some_and(|at| now >= at) {
            self.trials += 1;
            self.trial_at = Some(now + self.policy.trial_interval);
        }
        None
    }

    fn is_tried_by_calls(&self) -> bool {
        self.policy.kind == ProbeKind::Passive && self.state == State::Unhealthy
    }

    /// When the slow start's next step is due.
    fn ramp_step(&self) -> Option<Time> {
        let step = self.policy.slow_start / (RAMP_STEPS - 1);
        Some(self.ramp_from? + step * (self.ramp_steps + 1))
    }

    fn turn(&mut self, now: Time, to: State, cause: Cause) -> Option<Transition> {
        let from = self.state;
        if from == to {
            return None;
        }
        self.state = to;
        self.back_at = None;
        self.ramp_from = None;
        self.trial_at = None;
        match (from, to) {
            (State::Unhealthy, State::Healthy) => {
                self.damping.on_return(now);
                self.ramp_from = (self.policy.slow_start > Duration::ZERO).then_some(now);
                self.ramp_steps = 0;
            }
            (_, State::Unhealthy) => {
                self.damping.on_fall(now);
                if self.policy.kind == ProbeKind::Passive {
                    let at = now + self.policy.trial_interval;
                    self.trial_at = Some(self.held_until.map_or(at, |until| until.max(now)));
                }
            }
            _ => {}
        }
        Some(Transition { from, to, cause, failures: self.counts().0, successes: self.successes })
    }

    fn on_success(&mut self, now: Time) -> Option<State> {
        self.failures = 0;
        if self.held_until.is_some_and(|until| now < until) {
            return None;
        }
        self.held_until = None;
        self.successes = self.successes.saturating_add(1);
        if self.state != State::Unhealthy {
            // A first answer settles UNKNOWN.
            return Some(State::Healthy);
        }
        let needed = if self.policy.kind == ProbeKind::Passive { 1 } else { self.policy.rise };
        if self.successes < needed {
            return None;
        }
        self.call_failures = 0;
        let back_at = *self.back_at.get_or_insert(now + self.damping.hold_down());
        (now >= back_at).then_some(State::Healthy)
    }

    fn on_failure(&mut self) -> Option<State> {
        self.successes = 0;
        self.back_at = None;
        self.failures = self.failures.saturating_add(1);
        (self.failures >= self.policy.fall).then_some(State::Unhealthy)
    }

    fn on_calls(&mut self, now: Time, answered: u32, failed: u32) -> Option<State> {
        match (answered, failed) {
            (0, 0) => return None,
            (0, failed) => self.call_failures = self.call_failures.saturating_add(failed),
            // Nobody knows which came last: mostly failures are no proof of a working peer.
            (answered, failed) if failed > answered => {}
            _ => {
                self.call_failures = 0;
                let settles = self.state == State::Unknown || self.is_tried_by_calls();
                // An UNHEALTHY peer that is probed comes back by probes.
                return if settles { self.on_success(now) } else { None };
            }
        }
        if self.policy.passive_fall == 0 || self.call_failures < self.policy.passive_fall {
            return None;
        }
        self.successes = 0;
        self.back_at = None;
        Some(State::Unhealthy)
    }

    fn on_retry_after(&mut self, now: Time, hold: Duration) -> Option<State> {
        self.successes = 0;
        self.back_at = None;
        let until = now + hold.min(MAX_HOLD);
        self.held_until = Some(until);
        if self.is_tried_by_calls() {
            self.trial_at = Some(until);
        }
        Some(State::Unhealthy)
    }
}

#[cfg(test)]
#[path = "peer_tests.rs"]
mod tests;
