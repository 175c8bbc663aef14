//! Systems side by side under one load: the highest rate without loss, latency at half of it, and the processor
//! time at one rate for all.

use super::Effort;
use crate::rig::{
    RECEIVER, Rig,
    account::Account,
    generator::Trial,
    load::{
        Ends, Load,
        mix::Mix,
        stream::{Kind, Stream},
        talk::{Talk, Topic},
    },
    measure::{Bout, Cost, Outcome, Start},
    systems::{
        System,
        echo::Echo,
        forwarder::Forwarder,
        kamailio::{Kamailio, Part},
        rtpengine,
        strowger::{Node, Setup},
    },
};
use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};

/// One of them.
pub struct Contest {
    /// Short name.
    pub name: &'static str,
    /// What the load is.
    pub title: &'static str,
    /// What is counted.
    pub unit: &'static str,
    /// Where the search for the highest rate begins.
    from: f64,
    /// Rate at which costs are compared.
    common: f64,
    load: fn(&dyn System, Ends) -> Box<dyn Load>,
    systems: Vec<(&'static str, Box<Start<'static>>)>,
}

/// What was measured of a system.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Figures {
    /// Name of the system.
    pub system: String,
    /// At its highest rate without loss.
    pub best: Option<Outcome>,
    /// At half that rate.
    pub half: Option<Outcome>,
    /// At the rate that is the same for all, if it bears that.
    pub cost: Option<Cost>,
}

/// A contest and its figures.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Standing {
    /// Short name.
    pub name: String,
    /// What the load is.
    pub title: String,
    /// What is counted.
    pub unit: String,
    /// Of each system; the first one is what the others are held against.
    pub figures: Vec<Figures>,
}

/// Names of those that a quick run has and that are drawn.
pub const MAIN: [&str; 3] = ["rtp", "invite", "calls"];
/// Names of systems that take part in more than contests.
pub const STROWGER: &str = "strowger";
/// See [`STROWGER`].
pub const KAMAILIO: &str = "Kamailio tm + dispatcher";
/// See [`STROWGER`].
pub const RTPENGINE: &str = "rtpengine";

fn boxed(system: impl System + 'static) -> Box<dyn System> {
    Box::new(system)
}

fn echo(flows: usize) -> (&'static str, Box<Start<'static>>) {
    ("bare AF_XDP echo", Box::new(move |rig: &Rig| Ok(boxed(Echo::start(rig, flows)?))))
}

fn node(name: &'static str, setup: impl Fn() -> Setup + 'static) -> (&'static str, Box<Start<'static>>) {
    (name, Box::new(move |rig: &Rig| Ok(boxed(Node::start(rig, &setup())?))))
}

fn forwarder(flows: usize) -> (&'static str, Box<Start<'static>>) {
    ("UDP forwarder", Box::new(move |rig: &Rig| Ok(boxed(Forwarder::start(rig, flows)?))))
}

fn rtpengine(calls: usize) -> (&'static str, Box<Start<'static>>) {
    (RTPENGINE, Box::new(move |rig: &Rig| Ok(boxed(rtpengine::Relay::start(rig, calls)?))))
}

fn kamailio(name: &'static str, part: Part) -> (&'static str, Box<Start<'static>>) {
    (name, Box::new(move |rig: &Rig| Ok(boxed(Kamailio::start(rig, part, &[RECEIVER])?))))
}

fn stateful() -> Vec<(&'static str, Box<Start<'static>>)> {
    vec![
        node(STROWGER, Setup::default),
        node("strowger, kernel sockets", || Setup { dataplane: SOCKETS, ..Setup::default() }),
        kamailio(KAMAILIO, Part::Stateful),
    ]
}

const SOCKETS: &str = "backend = \"udp\"";
const SPINNING: &str = "spin_us = 1000";
const GENERIC: &str = "xdp_mode = \"generic\"";

fn rtp(system: &dyn System, ends: Ends) -> Box<dyn Load> {
    Box::new(Stream::new(Kind::Rtp, &system.flows(), ends))
}

fn invites(system: &dyn System, ends: Ends) -> Box<dyn Load> {
    Box::new(Stream::new(Kind::Invite, &system.flows(), ends))
}

fn talk(topic: Topic, system: &dyn System, ends: Ends) -> Box<dyn Load> {
    Box::new(Talk::new(topic, system.signalling(), ends))
}

fn mix(system: &dyn System, ends: Ends) -> Box<dyn Load> {
    Box::new(Mix {
        media: Box::new(Stream::new(Kind::Rtp, &system.flows(), ends)),
        signalling: Box::new(Stream::new(Kind::Invite, &[system.signalling()], ends)),
    })
}

fn better(one: Option<Account>, other: Option<Account>) -> Option<Account> {
    one.into_iter().chain(other).max_by(|a, b| a.rate().total_cmp(&b.rate()))
}

/// All of them.
pub fn all() -> Vec<Contest> {
    let calls = |calls| move || Setup { calls, ..Setup::default() };
    let relays = |flows| vec![echo(flows), node(STROWGER, calls(flows)), rtpengine(flows)];
    let contest = |name, title, unit, (from, common), load, systems| Contest {
        name,
        title,
        unit,
        from,
        common,
        load,
        systems,
    };
    vec![
        contest(
            "rtp",
            "RTP, G.711 of 20 ms, 100 flows",
            "packets/s",
            (50_000.0, 200_000.0),
            rtp,
            vec![
                echo(100),
                node(STROWGER, calls(100)),
                node("strowger, spinning", || Setup { calls: 100, dataplane: SPINNING, ..Setup::default() }),
                node("strowger, generic XDP", || Setup {
                    calls: 100,
                    dataplane: GENERIC,
                    ..Setup::default()
                }),
                node("strowger, kernel sockets", || Setup {
                    calls: 100,
                    dataplane: SOCKETS,
                    ..Setup::default()
                }),
                forwarder(100),
                rtpengine(100),
            ],
        ),
        contest("rtp-1", "RTP, one flow", "packets/s", (50_000.0, 200_000.0), rtp, relays(1)),
        contest("rtp-2000", "RTP, 2,000 flows", "packets/s", (50_000.0, 200_000.0), rtp, relays(2_000)),
        contest(
            "invite",
            "INVITEs of distinct calls, 670 bytes, forwarded without state",
            "packets/s",
            (20_000.0, 15_000.0),
            invites,
            vec![
                echo(1),
                node(STROWGER, || Setup { state: "stateless", ..Setup::default() }),
                node("strowger, kernel sockets", || Setup {
                    state: "stateless",
                    dataplane: SOCKETS,
                    ..Setup::default()
                }),
                forwarder(1),
                kamailio("Kamailio forward()", Part::Forward),
            ],
        ),
        contest(
            "calls",
            "complete calls with transactions: INVITE, 100, 180, 200, ACK, BYE, 200",
            "calls/s",
            (1_000.0, 2_000.0),
            |system, ends| talk(Topic::Call, system, ends),
            stateful(),
        ),
        contest(
            "options",
            "OPTIONS storm, answered by the system itself",
            "requests/s",
            (10_000.0, 30_000.0),
            |system, ends| talk(Topic::Options, system, ends),
            stateful(),
        ),
        contest(
            "register",
            "REGISTER storm, answered by a registrar behind the system",
            "requests/s",
            (2_000.0, 10_000.0),
            |system, ends| talk(Topic::Register, system, ends),
            stateful(),
        ),
        contest(
            "mix",
            "95 % RTP of 100 calls, 5 % INVITEs without state",
            "packets/s",
            (50_000.0, 200_000.0),
            mix,
            vec![echo(100), node(STROWGER, calls(100))],
        ),
    ]
}

impl Contest {
    /// Whether a quick run has it.
    pub fn is_quick(&self) -> bool {
        MAIN.contains(&self.name)
    }

    /// How often the highest rate of each system is searched for.
    pub fn searches(&self, effort: Effort) -> usize {
        if self.is_quick() { effort.searches } else { 1 }
    }

    /// Systems whose name contains this.
    fn chosen(&self, only: &str) -> impl Iterator<Item = &(&'static str, Box<Start<'static>>)> {
        self.systems.iter().filter(move |(name, _)| name.contains(only))
    }

    /// Has all systems take part whose name contains `only`, one after the other; `tell` hears of each at once.
    ///
    /// Where the highest rate is searched for more than once, all have their turn before any has its next:
    /// a shared machine has good and bad minutes. The best one counts.
    ///
    /// # Errors
    /// One does not start.
    pub fn hold(&self, effort: Effort, only: &str, mut tell: impl FnMut(&Figures)) -> Result<Standing> {
        let chosen: Vec<_> = self.chosen(only).collect();
        let context = |name: &str| format!("{}: {name}", self.name);
        let mut best: Vec<Option<Account>> = chosen.iter().map(|_| None).collect();
        for _ in 1..self.searches(effort) {
            for ((name, start), best) in chosen.iter().zip(&mut best) {
                let mut bout = Bout::new(1, start, &self.load).with_context(|| context(name))?;
                let found = bout.highest(self.from, effort.trial).with_context(|| context(name))?;
                *best = better(best.take(), found);
            }
        }
        let mut figures = Vec::new();
        for ((name, start), best) in chosen.iter().zip(best) {
            let measured = self.measure(name, start, effort, best).with_context(|| context(name))?;
            tell(&measured);
            figures.push(measured);
        }
        Ok(Standing {
            name: self.name.to_owned(),
            title: self.title.to_owned(),
            unit: self.unit.to_owned(),
            figures,
        })
    }

    /// One trial of each system; `tell` hears what came of it, and what part of the time its threads were busy.
    ///
    /// # Errors
    /// One does not start.
    pub fn sustain(&self, only: &str, trial: Trial, mut tell: impl FnMut(&str, &Outcome, f64)) -> Result<()> {
        for (name, start) in self.chosen(only) {
            let mut bout = Bout::new(1, start, &self.load)?;
            let (account, time) = bout.timed(trial)?;
            tell(name, &Outcome::from(&account), time.as_secs_f64() / trial.length.as_secs_f64());
        }
        Ok(())
    }

    /// `known`: the best that a search has found before.
    fn measure(
        &self,
        name: &str,
        start: &Start<'_>,
        effort: Effort,
        known: Option<Account>,
    ) -> Result<Figures> {
        let mut bout = Bout::new(1, start, &self.load)?;
        let best = better(bout.highest(self.from, effort.trial)?, known);
        let mut half = None;
        let mut cost = None;
        if let Some(best) = &best {
            half = Some(Outcome::from(&bout.usual(Trial::new(best.rate() / 2.0, effort.trial))?));
            if best.rate() >= self.common {
                cost = Some(bout.cost(self.common, effort.long)?);
            }
        }
        Ok(Figures { system: name.to_owned(), best: best.as_ref().map(Outcome::from), half, cost })
    }
}
