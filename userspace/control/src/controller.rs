//! The control thread's judgement and what follows from it: evidence and commands come in, a new table
//! and new maps go out. No socket and no clock: [`Controller`] is told the time and what happened.

use crate::{
    assemble::{self, Source},
    command::Hook,
    configure::Checked,
    discover::{Answer, Names, Question, Target},
    history::{History, Kind},
    judge::Judge,
    observe::Observer,
    probe::Schedule,
    roster::{Member, Roster, Update},
};
use exchange::{Exchange, errands::Errand, sources::Prefix};
use health::State;
use proxy::Report;
use routing::{Admission, PeerId, RegionId, ServiceId};
use std::{
    collections::{HashMap, HashSet},
    net::IpAddr,
    sync::Arc,
    time::Duration,
};

/// First probes of new peers are spread over one interval, but over this at most.
const FIRST_PROBES: Duration = Duration::from_secs(1);

/// What carries the allow-list and the table's generation beside the workers: the XDP programs.
pub trait Steering {
    /// Lets a source in, or says something new about it.
    ///
    /// # Errors
    /// What the kernel says.
    fn allow(&mut self, prefix: Prefix, source: Source) -> Result<(), String>;
    /// Keeps a source out.
    ///
    /// # Errors
    /// What the kernel says.
    fn forbid(&mut self, prefix: Prefix) -> Result<(), String>;
    /// The table's generation.
    ///
    /// # Errors
    /// What the kernel says.
    fn set_epoch(&mut self, generation: u32) -> Result<(), String>;
}

/// Judges, and sees to it that the workers know.
pub struct Controller {
    /// The configuration in force.
    pub config: Checked,
    /// Who the peers are.
    pub roster: Roster,
    /// How they are.
    pub observer: Observer,
    /// How regions are.
    pub judge: Judge,
    /// What DNS says.
    pub names: Names,
    /// What changed when.
    pub history: History,
    /// The operator drains this node.
    pub draining: bool,
    exchange: Arc<Exchange>,
    schedule: Schedule,
    hook: Hook,
    sources: HashMap<Prefix, Source>,
    told: u64,
    /// Worker that sends the next probe: all take turns, so that each path is tried.
    prober: usize,
    /// Addresses whose next hops are wanted and were not asked for yet.
    new_addresses: Vec<IpAddr>,
    generation: u32,
}

impl Controller {
    /// For a configuration; `kept` is what an earlier run knew of names. The first table is published.
    pub fn new(
        now: Duration,
        config: Checked,
        exchange: Arc<Exchange>,
        kept: &[(Question, Vec<Target>)],
        seed: u64,
    ) -> Self {
        let mut controller = Self {
            judge: Judge::new(now, &config, None),
            names: Names::new(config.dns.clone()),
            roster: Roster::default(),
            observer: Observer::default(),
            history: History::new(1),
            draining: false,
            exchange,
            schedule: Schedule::new(seed),
            hook: Hook::default(),
            sources: HashMap::new(),
            told: 0,
            prober: 0,
            new_addresses: Vec::new(),
            generation: 0,
            config,
        };
        controller.want_names(now);
        kept.iter().for_each(|(question, targets)| controller.names.restore(now, question, targets.clone()));
        controller.call_the_roll(now);
        controller.evaluate(now);
        controller.publish_table(now);
        controller
    }

    /// Generation of the table in force.
    pub fn generation(&self) -> u32 {
        self.generation
    }

    /// Addresses of new peers, whose next hops will be needed.
    pub fn take_new_addresses(&mut self) -> Vec<IpAddr> {
        std::mem::take(&mut self.new_addresses)
    }

    /// Sends the probes that are due.
    pub fn probe_due(&mut self, now: Duration) {
        while let Some(peer) = self.schedule.pop(now, |peer| self.observer.probe_interval(peer)) {
            let Some(policy) = self.observer.policy(peer) else { continue };
            let worker = self.prober;
            self.prober = (self.prober + 1) % self.exchange.errands.len();
            let errand = Errand::Probe { peer, timeout: policy.timeout };
            if !self.exchange.errands[worker].send(errand) {
                tracing::error!(worker, "the worker takes no errands");
            }
        }
    }

    /// When the next probe is due.
    pub fn next_probe(&self) -> Option<Duration> {
        self.schedule.next()
    }

    /// When [`Controller::on_time`] has something to do besides reading counters.
    pub fn deadline(&self) -> Option<Duration> {
        [self.observer.deadline(), self.judge.deadline(), self.names.next()].into_iter().flatten().min()
    }

    /// Takes workers' reports.
    pub fn on_reports(
        &mut self,
        now: Duration,
        reports: impl IntoIterator<Item = Report>,
        steering: &mut dyn Steering,
    ) {
        let mut matters = false;
        for report in reports {
            matters |= self.observer.on_report(now, report, &self.roster, &mut self.history);
        }
        // Most reports only confirm what is known.
        if matters {
            self.settle(now, true, steering);
        }
    }

    /// Time has passed: reads what the workers counted, ends hold-downs, starts trials.
    pub fn on_time(&mut self, now: Duration, steering: &mut dyn Steering) {
        let mut matters = self.observer.read_calls(now, &self.exchange, &self.roster, &mut self.history);
        matters |= self.observer.on_time(now, &self.roster, &mut self.history);
        matters |= self.judge.on_time(now, &self.config, &mut self.history);
        for peer in self.observer.take_suspects() {
            self.schedule.plan(peer, now);
        }
        if matters {
            self.settle(now, true, steering);
        } else {
            // The end of a shadow's hold-down moves nothing, and is told all the same.
            self.tell(now);
        }
    }

    /// Names to ask DNS for now.
    pub fn due_names(&mut self, now: Duration) -> Vec<Question> {
        self.names.due(now)
    }

    /// DNS has answered; whether the servers changed.
    pub fn on_answer(
        &mut self,
        now: Duration,
        question: &Question,
        answer: Answer,
        steering: &mut dyn Steering,
    ) -> bool {
        let changed = self.names.on_answer(now, question, answer, &mut self.history);
        if changed {
            self.call_the_roll(now);
        }
        // Even without a change it may settle what was UNKNOWN.
        self.settle(now, changed, steering);
        changed
    }

    /// The operator says something about peers.
    pub fn admit(
        &mut self,
        now: Duration,
        peers: &[PeerId],
        admission: Admission,
        steering: &mut dyn Steering,
    ) {
        let mut matters = false;
        for peer in peers {
            let name = self.roster.get(*peer).map_or("", |member| &member.name);
            matters |= self.observer.admit(*peer, admission, name, &mut self.history);
        }
        if admission == Admission::Open && matters {
            // A disabled peer was not probed: what is known of it is old.
            peers.iter().for_each(|peer| self.schedule.plan(*peer, now));
        }
        self.settle(now, matters, steering);
    }

    /// The operator drains the node, or ends that.
    pub fn drain_node(&mut self, now: Duration, draining: bool, steering: &mut dyn Steering) {
        let before = std::mem::replace(&mut self.draining, draining);
        if before != draining {
            let word = |draining| if draining { "draining" } else { "in service" };
            let name = self.config.name.clone();
            self.history.note(Kind::Operator, &name, word(before), word(draining), "command".to_owned());
        }
        self.settle(now, before != draining, steering);
    }

    /// The operator sends traffic back to the region of a composite; `false`: there is no such composite.
    pub fn release(&mut self, now: Duration, composite: &str, steering: &mut dyn Steering) -> bool {
        let released = self.judge.release(now, composite, &self.config, &mut self.history);
        self.settle(now, released == Some(true), steering);
        released.is_some()
    }

    /// What another configuration would change, a line each. It is made fit to be taken up.
    ///
    /// # Errors
    /// Settings that need a restart.
    pub fn compare(&self, config: &mut Checked) -> Result<Vec<String>, Vec<String>> {
        let restart = config.needs_restart(&self.config);
        if !restart.is_empty() {
            return Err(restart);
        }
        config.keep_numbers(&self.config);
        Ok(config.changes(&self.config))
    }

    /// Takes up another configuration, whole or not at all; what changed, a line each.
    ///
    /// # Errors
    /// Settings that need a restart.
    pub fn reload(
        &mut self,
        now: Duration,
        mut config: Checked,
        steering: &mut dyn Steering,
    ) -> Result<Vec<String>, Vec<String>> {
        let changes = self.compare(&mut config)?;
        let judge = Judge::new(now, &config, Some((&self.judge, &self.config)));
        self.judge = judge;
        self.config = config;
        self.want_names(now);
        self.call_the_roll(now);
        // Their next probes were planned by the old interval, or not at all.
        let changed = self.observer.set_policies(&self.config, &self.roster);
        self.schedule.start(now, &changed, FIRST_PROBES);
        let name = self.config.name.clone();
        let to = format!("{} changes", changes.len());
        self.history.note(Kind::Config, &name, "in force", &to, changes.join("; "));
        self.settle(now, true, steering);
        Ok(changes)
    }

    fn want_names(&mut self, now: Duration) {
        let questions =
            self.config.services.iter().flat_map(|s| s.discover.iter().map(|d| Question::new(d, s.ipv4)));
        let questions: HashSet<_> = questions.collect();
        self.names.want(now, self.config.dns.clone(), questions);
    }

    /// Who the peers are now.
    fn call_the_roll(&mut self, now: Duration) {
        let mut wanted: Vec<_> = self.config.peers.clone();
        let mut taken: HashSet<String> = wanted.iter().map(|m| m.name.clone()).collect();
        for (id, service) in (0u16..).map(ServiceId).zip(&self.config.services) {
            for discover in &service.discover {
                let targets = self.names.targets(&Question::new(discover, service.ipv4));
                for target in targets {
                    let several = targets.iter().filter(|t| t.host == target.host).count() > 1;
                    let name = name_of(target, several, &service.name, &mut taken);
                    wanted.push(Member {
                        name,
                        service: id,
                        address: target.address,
                        region: discover.region,
                        zone: None,
                        priority: discover.priority.saturating_add(target.priority),
                        anchor: discover.anchor,
                        weight: target.weight,
                    });
                }
            }
        }
        let update = self.roster.update(now, wanted);
        self.apply(now, &update);
    }

    fn apply(&mut self, now: Duration, update: &Update) {
        self.observer.join(now, &update.joined, &self.config, &self.roster);
        self.observer.leave(now, &update.left);
        let intervals = update.joined.iter().filter_map(|id| Some(self.observer.policy(*id)?.interval));
        let spread = intervals.min().unwrap_or_default();
        self.schedule.start(now, &update.joined, spread.min(FIRST_PROBES));
        update.left.iter().for_each(|id| self.schedule.stop(*id));
        let addresses = update.joined.iter().filter_map(|id| self.roster.get(*id));
        self.new_addresses.extend(addresses.map(|member| member.address.ip()));
        if update.refused > 0 {
            tracing::error!(refused = update.refused, "too many peers, these are left out");
        }
    }

    fn evaluate(&mut self, now: Duration) -> bool {
        let parts = (&self.config, &self.roster, &self.observer);
        let resolving = |service, region| is_resolving(&self.config, &self.names, service, region);
        self.judge.evaluate(now, parts, resolving, &mut self.history)
    }

    /// Judges anew, and publishes if anything changed that matters to routing.
    fn settle(&mut self, now: Duration, matters: bool, steering: &mut dyn Steering) {
        let matters = self.evaluate(now) | matters;
        self.tell(now);
        if !matters {
            return;
        }
        self.publish_table(now);
        self.tell_sources(steering);
    }

    /// Runs the operator's program for every new transition, and has DNS asked about peers that fell.
    fn tell(&mut self, now: Duration) {
        let total = self.history.total();
        let new = (total - self.told) as usize;
        self.told = total;
        for event in self.history.latest(new) {
            self.hook.run(&self.config.health.command, self.config.health.command_timeout, event);
            if event.kind != Kind::Peer || event.to != State::Unhealthy.label() {
                continue;
            }
            // Perhaps DNS knows better by now.
            let fallen = self.roster.named(&event.name).and_then(|id| self.roster.get(id));
            let Some((peer, service)) = fallen.and_then(|p| Some((p, self.config.service(p.service)?)))
            else {
                continue;
            };
            for discover in service.discover.iter().filter(|d| d.region == peer.region) {
                self.names.hurry(now, &Question::new(discover, service.ipv4));
            }
        }
    }

    /// A new generation: to the workers.
    fn publish_table(&mut self, now: Duration) {
        self.generation += 1;
        self.history.generation = self.generation + 1;
        let parts = (&self.roster, &self.observer, &self.judge);
        let generation = (self.generation, now);
        self.exchange.table.publish(assemble::table(&self.config, parts, generation, self.draining));
        for errands in &self.exchange.errands {
            errands.send(Errand::Look);
        }
    }

    /// Who may send: to the workers, and what changed of it to the XDP programs, with the generation.
    pub fn tell_sources(&mut self, steering: &mut dyn Steering) {
        let sources = assemble::sources(&self.config, &self.roster, &self.observer);
        let (mut result, mut same) = (Ok(()), sources.len() == self.sources.len());
        for (prefix, source) in &sources {
            let known = self.sources.get(prefix);
            same &= known.is_some();
            if known != Some(source) {
                result = result.and(steering.allow(*prefix, *source));
            }
        }
        for prefix in self.sources.keys().filter(|p| !sources.contains_key(p)) {
            result = result.and(steering.forbid(*prefix));
        }
        if let Err(error) = result.and(steering.set_epoch(self.generation)) {
            tracing::error!(error, "cannot update the XDP program's maps");
        }
        if !same {
            self.exchange.allow.publish(assemble::allow_list(&sources));
        }
        self.sources = sources;
    }
}

/// Whether a service has peers in a region of which nothing was ever learned.
fn is_resolving(config: &Checked, names: &Names, service: ServiceId, region: Option<RegionId>) -> bool {
    let Some(service) = config.service(service) else { return false };
    let mut in_region = service.discover.iter().filter(|d| region.is_none() || d.region == region);
    in_region.any(|d| names.is_unknown(&Question::new(d, service.ipv4)))
}

/// A name of its own for a server that DNS names: its host, with its address where the host has several,
/// with its port and service where another peer has the name already.
fn name_of(target: &Target, several: bool, service: &str, taken: &mut HashSet<String>) -> String {
    let host = &target.host;
    let with_address = format!("{host}/{}", target.address.ip());
    let with_port = format!("{host}/{}", target.address);
    let with_service = format!("{host}/{}@{service}", target.address);
    let candidates = [(!several).then(|| host.clone()), Some(with_address), Some(with_port)];
    let free = candidates.into_iter().flatten().find(|name| !taken.contains(name));
    let name = free.unwrap_or(with_service);
    taken.insert(name.clone());
    name
}

#[cfg(test)]
#[path = "controller_tests.rs"]
mod tests;
