//! What becomes of the cost of a packet when there is more of something.

use super::Effort;
use crate::rig::{
    Flow, LISTENER, RECEIVER, Rig, SENDER,
    generator::Trial,
    load::{
        Ends, Load,
        stream::{Kind, Stream},
    },
    measure::{Bout, Start},
    socket,
    systems::{
        System,
        echo::Echo,
        strowger::{Node, Setup},
    },
};
use anyhow::Result;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// One series.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Series {
    /// What there is more of.
    pub of: String,
    /// Load, and its rate.
    pub load: String,
    /// Rate, in packets a second.
    pub rate: f64,
    /// For each number of them.
    pub points: Vec<Point>,
}

/// One point.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Point {
    /// How many.
    pub count: usize,
    /// Nanoseconds of the workers' threads for a packet.
    pub strowger_ns: f64,
    /// The same of the bare echo with as many flows, where that makes a difference.
    pub echo_ns: Option<f64>,
}

const RTP_RATE: f64 = 400_000.0;
const SIP_RATE: f64 = 200_000.0;
/// For each worker: the second one shares the core of the generator.
const WORKER_RATE: f64 = 50_000.0;
/// The cost is measured so often, and the least is taken: what disturbs only ever adds.
const TIMES: usize = 3;

fn cost(
    queues: u32,
    start: &Start<'_>,
    kind: Kind,
    flows: Option<usize>,
    rate: f64,
    effort: Effort,
) -> Result<f64> {
    let make = move |system: &dyn System, ends: Ends| -> Box<dyn Load> {
        let flows = flows.map_or_else(|| system.flows(), distinct);
        Box::new(Stream::new(kind, &flows, ends))
    };
    let mut bout = Bout::new(queues, start, &make)?;
    let mut least = f64::INFINITY;
    for _ in 0..TIMES {
        least = least.min(bout.time_of_each(Trial::new(rate, effort.long / 2))?);
    }
    Ok(least)
}

/// SIP from so many ports.
fn distinct(count: usize) -> Vec<Flow> {
    let from = socket(SENDER);
    let from = |n: usize| SocketAddr::new(from.ip(), from.port() + n as u16);
    (0..count).map(|n| Flow { from: from(n), to: socket(LISTENER) }).collect()
}

/// A point for each number; `tell` hears of each at once.
fn each<N>(
    counts: impl IntoIterator<Item = N>,
    mut tell: impl FnMut(&Point),
    one: impl Fn(N) -> Result<Point>,
) -> Result<Vec<Point>> {
    counts.into_iter().map(|count| one(count).inspect(&mut tell)).collect()
}

/// RTP of more and more calls.
///
/// # Errors
/// A system does not start.
pub fn sessions(effort: Effort, tell: impl FnMut(&Point)) -> Result<Series> {
    let points = each([100, 1_000, 10_000, 100_000], tell, |count| {
        let node = |rig: &Rig| -> Result<Box<dyn System>> {
            Ok(Box::new(Node::start(rig, &Setup { calls: count, ..Setup::default() })?))
        };
        let echo = |rig: &Rig| -> Result<Box<dyn System>> { Ok(Box::new(Echo::start(rig, count)?)) };
        let strowger_ns = cost(1, &node, Kind::Rtp, None, RTP_RATE, effort)?;
        let echo_ns = Some(cost(1, &echo, Kind::Rtp, None, RTP_RATE, effort)?);
        Ok(Point { count, strowger_ns, echo_ns })
    })?;
    Ok(Series { of: "calls".into(), load: "RTP, flow after flow".into(), rate: RTP_RATE, points })
}

/// INVITEs without state to more and more peers.
///
/// # Errors
/// The node does not start.
pub fn peers(effort: Effort, tell: impl FnMut(&Point)) -> Result<Series> {
    let points = each([10, 100, 1_000, 10_000], tell, |count| {
        let host = socket(RECEIVER).ip();
        let peers: Vec<_> = (0..count).map(|n| SocketAddr::new(host, 40_000 + n)).collect();
        let node = |rig: &Rig| -> Result<Box<dyn System>> {
            let setup = Setup { state: "stateless", peers: peers.clone(), ..Setup::default() };
            Ok(Box::new(Node::start(rig, &setup)?))
        };
        let strowger_ns = cost(1, &node, Kind::Invite, None, SIP_RATE, effort)?;
        Ok(Point { count: count.into(), strowger_ns, echo_ns: None })
    })?;
    Ok(Series { of: "peers".into(), load: "INVITEs without state".into(), rate: SIP_RATE, points })
}

/// INVITEs without state to one worker and to two, each with a queue of its own and as many packets as the other.
///
/// # Errors
/// The node does not start.
pub fn workers(effort: Effort, tell: impl FnMut(&Point)) -> Result<Series> {
    let points = each([1, 2], tell, |count| {
        let node = |rig: &Rig| -> Result<Box<dyn System>> {
            let setup = Setup { state: "stateless", workers: count as usize, ..Setup::default() };
            Ok(Box::new(Node::start(rig, &setup)?))
        };
        let strowger_ns = cost(count, &node, Kind::Invite, Some(2), WORKER_RATE * f64::from(count), effort)?;
        Ok(Point { count: count as usize, strowger_ns, echo_ns: None })
    })?;
    Ok(Series {
        of: "workers".into(),
        load: "INVITEs without state to each worker".into(),
        rate: WORKER_RATE,
        points,
    })
}
