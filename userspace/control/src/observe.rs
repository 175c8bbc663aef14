//! Evidence comes in, judgement goes out: the health of every peer, and the operator's word about it.

use crate::{
    configure::Checked,
    history::{History, Kind},
    roster::Roster,
};
use exchange::Exchange;
use health::{Evidence, PeerHealth, Policy, State, Transition, peer::Cause};
use proxy::Report;
use routing::{Admission, PeerId, PeerState, Trial};
use std::time::Duration;

/// Health of all peers, by number.
#[derive(Default)]
pub struct Observer {
    peers: Vec<Observed>,
    /// Peers that just fell by calls: a probe now tells more.
    suspects: Vec<PeerId>,
}

struct Observed {
    health: PeerHealth,
    admission: Admission,
    since: Duration,
    rtt: Option<Duration>,
    /// Requests answered and lost, as counted by all workers, that were evidence already.
    counted: (u64, u64),
    /// The leave that is out.
    trial: Option<Trial>,
}

/// What people see of a peer's health.
#[derive(Clone, Copy, Debug)]
pub struct Details {
    /// State.
    pub state: State,
    /// The operator's word.
    pub admission: Admission,
    /// Since when it is in this state.
    pub since: Duration,
    /// Failures in a row.
    pub failures: u32,
    /// Successes in a row.
    pub successes: u32,
    /// Round-trip time of the latest answered probe.
    pub rtt: Option<Duration>,
    /// Part of its weight in force, in percent.
    pub share: u8,
}

impl Observer {
    /// Takes notice of peers that joined: UNKNOWN, as the operator left them.
    pub fn join(&mut self, now: Duration, joined: &[PeerId], config: &Checked, roster: &Roster) {
        for id in joined {
            let health = PeerHealth::new(policy(config, roster, *id), now);
            match self.peers.get_mut(usize::from(id.0)) {
                Some(observed) => {
                    (observed.health, observed.since, observed.rtt) = (health, now, None);
                    observed.trial = None;
                }
                None => self.peers.push(Observed {
                    health,
                    admission: Admission::Open,
                    since: now,
                    rtt: None,
                    counted: (0, 0),
                    trial: None,
                }),
            }
        }
    }

    /// Forgets what is known of peers that left: nothing is due for them any more.
    pub fn leave(&mut self, now: Duration, left: &[PeerId]) {
        for id in left {
            if let Some(observed) = self.peers.get_mut(usize::from(id.0)) {
                observed.health = PeerHealth::new(Policy::default(), now);
                observed.trial = None;
            }
        }
    }

    /// Judges by the policies of another configuration from now on; the peers for which they differ.
    pub fn set_policies(&mut self, config: &Checked, roster: &Roster) -> Vec<PeerId> {
        let mut changed = Vec::new();
        for (id, _) in roster.present() {
            if let Some(observed) = self.peers.get_mut(usize::from(id.0))
                && observed.health.set_policy(policy(config, roster, id))
            {
                changed.push(id);
            }
        }
        changed
    }

    /// Takes a worker's report; whether routing must know.
    pub fn on_report(
        &mut self,
        now: Duration,
        report: Report,
        roster: &Roster,
        history: &mut History,
    ) -> bool {
        let (peer, evidence) = match report {
            Report::Probe { peer, answer: Some((status, rtt)) } => {
                if let Some(observed) = self.peers.get_mut(usize::from(peer.0)) {
                    observed.rtt = Some(rtt);
                }
                (peer, Evidence::ProbeAnswered(status))
            }
            Report::Probe { peer, answer: None } => (peer, Evidence::ProbeTimedOut),
            Report::RetryAfter(peer, hold) => (peer, Evidence::RetryAfter(hold)),
        };
        self.work(peer, now, roster, history, |health| health.on_evidence(now, evidence))
    }

    /// Reads what the workers counted of calls since the last time; whether routing must know.
    pub fn read_calls(
        &mut self,
        now: Duration,
        exchange: &Exchange,
        roster: &Roster,
        history: &mut History,
    ) -> bool {
        let mut matters = false;
        for (peer, _) in roster.present() {
            let Some(observed) = self.peers.get_mut(usize::from(peer.0)) else { continue };
            let sum = exchange.boards.iter().fold((0, 0), |(answered, lost), board| {
                let (a, l) = board.evidence(peer);
                (answered + a, lost + l)
            });
            if sum == observed.counted {
                continue;
            }
            let new = |now: u64, before: u64| now.saturating_sub(before).min(u32::MAX.into()) as u32;
            let evidence = Evidence::Calls {
                answered: new(sum.0, observed.counted.0),
                failed: new(sum.1, observed.counted.1),
            };
            observed.counted = sum;
            let before = observed.health.state();
            matters |= self.work(peer, now, roster, history, |health| health.on_evidence(now, evidence));
            if before != State::Unhealthy && self.state(peer) == State::Unhealthy {
                self.suspects.push(peer);
            }
        }
        matters
    }

    /// Peers that fell by calls since this was asked last.
    pub fn take_suspects(&mut self) -> Vec<PeerId> {
        std::mem::take(&mut self.suspects)
    }

    /// Time has passed; whether routing must know.
    pub fn on_time(&mut self, now: Duration, roster: &Roster, history: &mut History) -> bool {
        let due =
            |(_, observed): &(PeerId, &Observed)| observed.health.deadline().is_some_and(|at| at <= now);
        let due: Vec<_> = (0u16..).map(PeerId).zip(&self.peers).filter(due).map(|(id, _)| id).collect();
        let mut matters = false;
        for peer in due.into_iter().filter(|id| roster.is_present(*id)) {
            matters |= self.work(peer, now, roster, history, |health| health.on_time(now));
        }
        matters
    }

    /// The operator says something about a peer; whether routing must know.
    pub fn admit(&mut self, peer: PeerId, admission: Admission, name: &str, history: &mut History) -> bool {
        let Some(observed) = self.peers.get_mut(usize::from(peer.0)) else { return false };
        let before = std::mem::replace(&mut observed.admission, admission);
        if before == admission {
            return false;
        }
        history.note(Kind::Operator, name, before.label(), admission.label(), "command".to_owned());
        true
    }

    /// Lets a peer's health take something in; notes a transition. Whether routing must know.
    fn work(
        &mut self,
        peer: PeerId,
        now: Duration,
        roster: &Roster,
        history: &mut History,
        work: impl FnOnce(&mut PeerHealth) -> Option<Transition>,
    ) -> bool {
        let Some(observed) = self.peers.get_mut(usize::from(peer.0)) else { return false };
        let health = &mut observed.health;
        let before = (health.share(), health.trials());
        let transition = work(health);
        let mut matters = health.share() != before.0;
        if health.trials() != before.1 {
            observed.trial = Some(Trial::new());
            matters = true;
        }
        if let Some(transition) = transition {
            observed.since = now;
            if transition.to != State::Unhealthy {
                observed.trial = None;
            }
            matters = true;
            let name = roster.get(peer).map_or("", |member| member.name.as_str());
            history.note(
                Kind::Peer,
                name,
                transition.from.label(),
                transition.to.label(),
                describe(&transition),
            );
        }
        matters
    }

    /// State of a peer.
    pub fn state(&self, peer: PeerId) -> State {
        self.peers.get(usize::from(peer.0)).map_or(State::Unknown, |p| p.health.state())
    }

    /// The same for routing.
    pub fn peer_state(&self, peer: PeerId) -> PeerState {
        match self.state(peer) {
            State::Healthy => PeerState::Healthy,
            State::Unhealthy => PeerState::Unhealthy,
            State::Unknown => PeerState::Unknown,
        }
    }

    /// The operator's word about a peer.
    pub fn admission(&self, peer: PeerId) -> Admission {
        self.peers.get(usize::from(peer.0)).map_or(Admission::Open, |p| p.admission)
    }

    /// Part of a peer's weight in force, in percent.
    pub fn share(&self, peer: PeerId) -> u8 {
        self.peers.get(usize::from(peer.0)).map_or(100, |p| p.health.share())
    }

    /// Leave for a trial call to a peer.
    pub fn trial(&self, peer: PeerId) -> Option<Trial> {
        self.peers.get(usize::from(peer.0))?.trial.clone()
    }

    /// Time between two probes of a peer, and its random part in percent; none: it is not probed.
    pub fn probe_interval(&self, peer: PeerId) -> Option<(Duration, u8)> {
        let observed = self.peers.get(usize::from(peer.0))?;
        if observed.admission == Admission::Disabled {
            return None;
        }
        Some((observed.health.probe_interval()?, observed.health.policy().jitter_percent))
    }

    /// The policy that a peer is judged by.
    pub fn policy(&self, peer: PeerId) -> Option<&Policy> {
        Some(self.peers.get(usize::from(peer.0))?.health.policy())
    }

    /// When [`Observer::on_time`] has something to do.
    pub fn deadline(&self) -> Option<Duration> {
        self.peers.iter().filter_map(|p| p.health.deadline()).min()
    }

    /// What people see.
    pub fn details(&self, peer: PeerId) -> Option<Details> {
        let observed = self.peers.get(usize::from(peer.0))?;
        let (failures, successes) = observed.health.counts();
        Some(Details {
            state: observed.health.state(),
            admission: observed.admission,
            since: observed.since,
            failures,
            successes,
            rtt: observed.rtt,
            share: observed.health.share(),
        })
    }
}

/// The policy of a peer's service.
fn policy(config: &Checked, roster: &Roster, peer: PeerId) -> Policy {
    let service = roster.get(peer).and_then(|member| config.service(member.service));
    service.map_or_else(Policy::default, |s| s.policy)
}

fn describe(transition: &Transition) -> String {
    let cause = match transition.cause {
        Cause::Evidence(Evidence::ProbeAnswered(status)) => format!("probe answered {status}"),
        Cause::Evidence(Evidence::ProbeTimedOut) => "probe timed out".to_owned(),
        Cause::Evidence(Evidence::Calls { answered, failed }) => {
            format!("{answered} calls answered, {failed} failed")
        }
        Cause::Evidence(Evidence::RetryAfter(hold)) => format!("503 with Retry-After: {}", hold.as_secs()),
        Cause::HoldDownOver => "hold-down over".to_owned(),
        Cause::NoTraffic => "no traffic".to_owned(),
    };
    format!("{cause}; {} failures, {} successes in a row", transition.failures, transition.successes)
}
