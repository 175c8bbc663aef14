//! Evidence comes in, judgement goes out: the health of every peer, and the log of its changes.

use crate::configure::Checked;
use health::{Evidence, PeerHealth, Transition, peer::State};
use proxy::Report;
use routing::{PeerId, PeerState};
use serde::Serialize;
use std::{
    collections::VecDeque,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// Transitions kept for people.
const KEPT: usize = 256;

/// A change of a peer's state, as shown.
#[derive(Clone, Debug, Serialize)]
pub struct Event {
    /// Milliseconds since 1970.
    pub at_unix_ms: u64,
    /// Name of the peer.
    pub peer: String,
    /// State before.
    pub from: &'static str,
    /// State after.
    pub to: &'static str,
    /// What tipped it.
    pub cause: String,
    /// Failures in a row.
    pub failures: u32,
    /// Successes in a row.
    pub successes: u32,
}

/// Health of all peers.
pub struct Observer {
    peers: Vec<Observed>,
    /// The latest changes, oldest first.
    pub events: VecDeque<Event>,
}

struct Observed {
    name: String,
    health: PeerHealth,
    since: Duration,
    rtt: Option<Duration>,
}

impl Observer {
    /// All peers UNKNOWN.
    pub fn new(config: &Checked, now: Duration) -> Self {
        let observed = |p: &crate::configure::PeerConfig| Observed {
            name: p.name.clone(),
            health: PeerHealth::new(config.services[usize::from(p.service.0)].policy),
            since: now,
            rtt: None,
        };
        Self { peers: config.peers.iter().map(observed).collect(), events: VecDeque::new() }
    }

    /// Takes a worker's report; whether a state changed, so that a new table is due.
    pub fn on_report(&mut self, now: Duration, report: Report) -> bool {
        let (peer, evidence) = match report {
            Report::Probe { peer, answer: Some((status, rtt)) } => {
                if let Some(observed) = self.peers.get_mut(usize::from(peer.0)) {
                    observed.rtt = Some(rtt);
                }
                (peer, Evidence::ProbeAnswered(status))
            }
            Report::Probe { peer, answer: None } => (peer, Evidence::ProbeTimedOut),
            Report::CallAnswered(peer) => (peer, Evidence::CallAnswered),
            Report::CallFailed(peer) => (peer, Evidence::CallFailed),
            Report::RetryAfter(peer, hold) => (peer, Evidence::RetryAfter(hold)),
        };
        let Some(observed) = self.peers.get_mut(usize::from(peer.0)) else { return false };
        let Some(transition) = observed.health.on_evidence(now, evidence) else { return false };
        observed.since = now;
        let event = event(&observed.name, &transition);
        tracing::info!(
            peer = event.peer,
            from = event.from,
            to = event.to,
            cause = event.cause,
            failures = event.failures,
            successes = event.successes,
            "health.transition"
        );
        if self.events.len() == KEPT {
            self.events.pop_front();
        }
        self.events.push_back(event);
        true
    }

    /// State of a peer, for routing.
    pub fn state(&self, peer: PeerId) -> PeerState {
        match self.peers.get(usize::from(peer.0)).map(|p| p.health.state()) {
            Some(State::Healthy) => PeerState::Healthy,
            Some(State::Unhealthy) => PeerState::Unhealthy,
            Some(State::Unknown) | None => PeerState::Unknown,
        }
    }

    /// Since when, failures and successes in a row, and the latest probe's round-trip time.
    pub fn details(&self, peer: PeerId) -> (Duration, (u32, u32), Option<Duration>) {
        self.peers
            .get(usize::from(peer.0))
            .map_or((Duration::ZERO, (0, 0), None), |p| (p.since, p.health.counts(), p.rtt))
    }
}

fn event(peer: &str, transition: &Transition) -> Event {
    let cause = match transition.cause {
        Evidence::ProbeAnswered(status) => format!("probe answered {status}"),
        Evidence::ProbeTimedOut => "probe timed out".to_owned(),
        Evidence::CallAnswered => "call answered".to_owned(),
        Evidence::CallFailed => "call failed".to_owned(),
        Evidence::RetryAfter(hold) => format!("503 with Retry-After: {}", hold.as_secs()),
    };
    Event {
        at_unix_ms: unix_ms(),
        peer: peer.to_owned(),
        from: transition.from.label(),
        to: transition.to.label(),
        cause,
        failures: transition.failures,
        successes: transition.successes,
    }
}

fn unix_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_millis() as u64)
}
