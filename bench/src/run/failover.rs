//! One of two peers dies under load, without a word.

use super::contest::{KAMAILIO, STROWGER};
use crate::rig::{
    RECEIVER, Rig,
    generator::Trial,
    load::{
        Answers,
        talk::{Talk, Topic},
    },
    measure::pinned,
    socket,
    systems::{
        System,
        kamailio::{Kamailio, Part},
        strowger::{Node, Setup},
    },
};
use anyhow::{Result, ensure};
use dataplane::clock;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The peer that dies.
const MORTAL: &str = "192.0.2.11:40004";
/// Calls a second.
pub const RATE: f64 = 500.0;
/// How long it goes well, and how long it is looked at afterwards.
const BEFORE: Duration = Duration::from_secs(4);
/// See [`BEFORE`].
const AFTER: Duration = Duration::from_secs(12);
/// Longer than a call may look for another peer.
const PATIENCE: Duration = Duration::from_secs(8);

/// What became of the calls.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Failover {
    /// Name of the system.
    pub system: String,
    /// Calls that were begun after the death.
    pub calls: u64,
    /// Of them, how many did not come to their end.
    pub failed: u64,
    /// INVITEs that were sent to the dead peer, repetitions included.
    pub to_dead: u64,
    /// From the death to the last of them, in milliseconds.
    pub last_to_dead_ms: f64,
    /// From INVITE to the end of a call, in milliseconds: 99th percentile.
    pub p99_ms: f64,
    /// Longest.
    pub max_ms: f64,
}

/// Has it happen to strowger and to Kamailio with their shortest reasonable probes: every half second, and every
/// second, which is the least that Kamailio's dispatcher does.
///
/// # Errors
/// One does not start, or calls fail before anything died.
pub fn measure() -> Result<Vec<Failover>> {
    let strowger = |rig: &Rig| -> Result<Box<dyn System>> {
        let peers = vec![socket(RECEIVER), socket(MORTAL)];
        Ok(Box::new(Node::start(rig, &Setup { peers, probe_ms: 500, ..Setup::default() })?))
    };
    let kamailio = |rig: &Rig| -> Result<Box<dyn System>> {
        Ok(Box::new(Kamailio::start(rig, Part::Stateful, &[RECEIVER, MORTAL])?))
    };
    Ok(vec![one(STROWGER, strowger)?, one(KAMAILIO, kamailio)?])
}

fn one(name: &str, start: impl Fn(&Rig) -> Result<Box<dyn System>>) -> Result<Failover> {
    let rig = Rig::new(1)?;
    let mut port = rig.client_port()?;
    let ends = rig.ends()?;
    let system = start(&rig)?;
    let mut talk = Talk::new(Topic::Call, system.signalling(), ends);
    let mut answers = Answers::new(ends);
    let trial = |length, settle| Trial { rate: RATE, length, settle };
    let before = pinned(&mut port, &mut talk, &mut answers, trial(BEFORE, Duration::from_millis(500)));
    ensure!(
        before.lost() == 0,
        "{name}: {} of {} calls fail with all peers alive",
        before.lost(),
        before.sent
    );
    talk.dead = Some(socket(MORTAL));
    let death = clock::monotonic();
    let after = pinned(&mut port, &mut talk, &mut answers, trial(AFTER, PATIENCE));
    let last = talk.last_to_dead.map_or(Duration::ZERO, |at| at.saturating_sub(death));
    let millis = |q| after.latency.value_at_quantile(q) as f64 / 1e6;
    Ok(Failover {
        system: name.to_owned(),
        calls: after.sent,
        failed: after.lost(),
        to_dead: talk.to_dead,
        last_to_dead_ms: last.as_secs_f64() * 1000.0,
        p99_ms: millis(0.99),
        max_ms: millis(1.0),
    })
}
