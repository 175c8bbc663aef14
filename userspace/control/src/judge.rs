//! From peers to regions: sources, composites, and the verdicts that traffic obeys (section D of the
//! requirements).

use crate::{
    configure::{Checked, CompositeConfig},
    history::{History, Kind},
    observe::Observer,
    roster::Roster,
};
use health::{State, Verdict, threshold::Members};
use routing::{Admission, RegionId, ServiceId};
use std::time::Duration;

/// States of all sources and composites, and the verdict of every composite.
#[derive(Default)]
pub struct Judge {
    sources: Vec<Judged>,
    composites: Vec<Judged>,
    verdicts: Vec<Verdict>,
}

/// A state and the numbers behind it.
#[derive(Clone, Debug)]
pub struct Judged {
    /// State.
    pub state: State,
    /// Since when.
    pub since: Duration,
    /// Members of a source.
    pub members: Members,
}

impl Judge {
    /// For a configuration: all UNKNOWN, but for those that the one before had by the same name and
    /// settings.
    pub fn new(now: Duration, config: &Checked, before: Option<(&Self, &Checked)>) -> Self {
        let unknown = || Judged { state: State::Unknown, since: now, members: Members::default() };
        let health = &config.health;
        let same_source = |name: &str| {
            let (judge, old) = before?;
            judge.sources.get(old.health.sources.iter().position(|s| s.name == name)?).cloned()
        };
        let same_composite = |composite: &CompositeConfig| {
            let (judge, old) = before?;
            let i = old.health.composites.iter().position(|c| c.name == composite.name)?;
            let kept = old.health.composites[i].failback == composite.failback
                && old.health.composites[i].enforced == composite.enforced;
            let verdict = kept.then(|| judge.verdicts[i].clone());
            Some((judge.composites[i].clone(), verdict))
        };
        let mut judge = Self {
            sources: health.sources.iter().map(|s| same_source(&s.name).unwrap_or_else(unknown)).collect(),
            ..Self::default()
        };
        for composite in &health.composites {
            let (judged, verdict) = same_composite(composite).unwrap_or_else(|| (unknown(), None));
            judge.composites.push(judged);
            judge.verdicts.push(verdict.unwrap_or_else(|| Verdict::new(composite.failback)));
        }
        judge
    }

    /// Computes everything anew from the peers; whether routing must know. `resolving` tells of services
    /// whose names were never resolved.
    pub fn evaluate(
        &mut self,
        now: Duration,
        (config, roster, observer): (&Checked, &Roster, &Observer),
        resolving: impl Fn(ServiceId, Option<RegionId>) -> bool,
        history: &mut History,
    ) -> bool {
        for (source, judged) in config.health.sources.iter().zip(&mut self.sources) {
            let mut members =
                Members { incomplete: resolving(source.service, source.region), ..Members::default() };
            for (id, member) in roster.present() {
                let watched = member.service == source.service
                    && (source.region.is_none() || member.region == source.region);
                if watched && observer.admission(id) == Admission::Open {
                    members.add(observer.state(id));
                }
            }
            let state = source.threshold.judge(&members);
            judged.members = members;
            if let Some(before) = judged.turn(now, state) {
                let cause = format!(
                    "{} of {} peers healthy, {} unknown; needs {} % and {}",
                    members.healthy,
                    members.total(),
                    members.unknown,
                    source.threshold.min_percent,
                    source.threshold.min_healthy
                );
                history.note(Kind::Source, &source.name, before.label(), state.label(), cause);
            }
        }
        let states: Vec<_> = self.sources.iter().map(|s| s.state).collect();
        let results = config.health.tree.evaluate(&states);
        let mut matters = false;
        for (i, (composite, state)) in config.health.composites.iter().zip(results).enumerate() {
            if let Some(before) = self.composites[i].turn(now, state) {
                let mode = if composite.enforced { "enforced" } else { "shadow" };
                history.note(
                    Kind::Composite,
                    &composite.name,
                    before.label(),
                    state.label(),
                    mode.to_owned(),
                );
            }
            let verdict = &mut self.verdicts[i];
            if verdict.on_state(now, state) {
                note_verdict(history, config, composite, verdict.is_down(), "its state");
                matters |= composite.enforced;
            }
        }
        matters
    }

    /// Time has passed; whether routing must know.
    pub fn on_time(&mut self, now: Duration, config: &Checked, history: &mut History) -> bool {
        let mut matters = false;
        for (composite, verdict) in config.health.composites.iter().zip(&mut self.verdicts) {
            if verdict.on_time(now) {
                note_verdict(history, config, composite, false, "hold-down over");
                matters |= composite.enforced;
            }
        }
        matters
    }

    /// The operator sends traffic back to a region; whether routing must know, or none if no composite
    /// has that name.
    pub fn release(
        &mut self,
        now: Duration,
        name: &str,
        config: &Checked,
        history: &mut History,
    ) -> Option<bool> {
        let i = config.health.composites.iter().position(|c| c.name == name)?;
        let composite = &config.health.composites[i];
        if !self.verdicts[i].release(now) {
            return Some(false);
        }
        note_verdict(history, config, composite, false, "command");
        Some(composite.enforced)
    }

    /// When [`Judge::on_time`] has something to do.
    pub fn deadline(&self) -> Option<Duration> {
        self.verdicts.iter().filter_map(Verdict::deadline).min()
    }

    /// Regions that new calls of a service avoid, one bit each.
    pub fn regions_down(&self, service: ServiceId, config: &Checked) -> u64 {
        let composites = config.health.composites.iter().zip(&self.verdicts);
        composites
            .filter(|(c, verdict)| c.enforced && verdict.is_down() && c.services.contains(&service))
            .filter_map(|(c, _)| c.region)
            .fold(0, |bits, region| bits | 1 << region.0.min(63))
    }

    /// Sources, in the order of the configuration.
    pub fn sources(&self) -> &[Judged] {
        &self.sources
    }

    /// Composites, in the order of the configuration, and whether the verdict of each is that calls stay
    /// away.
    pub fn composites(&self) -> impl Iterator<Item = (&Judged, &Verdict)> {
        self.composites.iter().zip(&self.verdicts)
    }
}

impl Judged {
    /// The state is this now; the one before, if that was another.
    fn turn(&mut self, now: Duration, to: State) -> Option<State> {
        if self.state == to {
            return None;
        }
        self.since = now;
        Some(std::mem::replace(&mut self.state, to))
    }
}

/// In use, or avoided: in shadow mode what would be.
fn note_verdict(history: &mut History, config: &Checked, composite: &CompositeConfig, down: bool, why: &str) {
    let Some(region) = config.region_name(composite.region) else { return };
    let words = match (composite.enforced, down) {
        (true, true) => ("in use", "avoided"),
        (true, false) => ("avoided", "in use"),
        (false, true) => ("in use", "would be avoided"),
        (false, false) => ("would be avoided", "in use"),
    };
    history.note(Kind::Region, region, words.0, words.1, format!("composite {}: {why}", composite.name));
}
