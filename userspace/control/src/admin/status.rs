//! The node's state as data: the same for `strowger status`, its `--json`, and the demo.

use crate::{
    configure::Checked,
    observe::{Event, Observer},
};
use exchange::{
    Exchange,
    counters::{Gauge, latency_histogram},
};
use packet::DropReason;
use proxy::{Counter, PeerTally, Tally};
use routing::{PeerId, PeerState};
use serde::Serialize;
use std::{collections::BTreeMap, time::Duration};

/// Everything about a node.
#[derive(Clone, Debug, Serialize)]
pub struct Status {
    /// Name of the node.
    pub node: String,
    /// Version of the program.
    pub version: &'static str,
    /// `afxdp` or `udp`.
    pub backend: &'static str,
    /// Seconds since the start.
    pub uptime_s: f64,
    /// Generation of the published peer table.
    pub generation: u32,
    /// Regions.
    pub regions: Vec<RegionStatus>,
    /// Peers.
    pub peers: Vec<PeerStatus>,
    /// Workers.
    pub workers: Vec<WorkerStatus>,
    /// XDP programs.
    pub xdp: Vec<XdpStatus>,
    /// Counters of all workers.
    pub counters: BTreeMap<&'static str, u64>,
    /// Dropped packets by reason; reasons that never happened are left out.
    pub drops: BTreeMap<&'static str, u64>,
    /// Time from the XDP program to the hand-over for sending, in microseconds.
    pub latency_us: Latency,
    /// Latest health transitions, oldest first.
    pub events: Vec<Event>,
}

/// A region.
#[derive(Clone, Debug, Serialize)]
pub struct RegionStatus {
    /// Name.
    pub name: String,
    /// Whether it is the node's own.
    pub local: bool,
    /// Peers in it.
    pub peers: usize,
    /// Peers that take calls.
    pub available: usize,
}

/// A peer.
#[derive(Clone, Debug, Serialize)]
pub struct PeerStatus {
    /// Name.
    pub name: String,
    /// Service.
    pub service: String,
    /// Region.
    pub region: Option<String>,
    /// Address.
    pub address: String,
    /// State.
    pub state: &'static str,
    /// Seconds in this state.
    pub since_s: f64,
    /// Failed probes in a row.
    pub failures: u32,
    /// Successful probes in a row.
    pub successes: u32,
    /// Round-trip time of the latest answered probe.
    pub probe_rtt_us: Option<u64>,
    /// Worst-case time to notice its death, by configuration.
    pub detection_bound_ms: u64,
    /// Call attempts.
    pub attempts: u64,
    /// Attempts answered with 2xx.
    pub answered: u64,
    /// Attempts that failed so that another peer was tried.
    pub failed: u64,
    /// Calls in progress whose media is relayed.
    pub active: u64,
}

/// A worker.
#[derive(Clone, Debug, Serialize)]
pub struct WorkerStatus {
    /// Index.
    pub worker: usize,
    /// Core.
    pub core: Option<usize>,
    /// New calls.
    pub calls: u64,
    /// SIP messages received.
    pub sip_received: u64,
    /// Media packets relayed.
    pub media_relayed: u64,
    /// Gauges.
    pub gauges: BTreeMap<&'static str, u64>,
}

/// The XDP program of an interface.
#[derive(Clone, Debug, Serialize)]
pub struct XdpStatus {
    /// Name of the interface in the configuration.
    pub interface: String,
    /// Device.
    pub device: String,
    /// `native` or `generic`.
    pub mode: &'static str,
    /// Packets by verdict; verdicts that never happened are left out.
    pub verdicts: BTreeMap<&'static str, u64>,
}

/// Percentiles, in microseconds.
#[derive(Clone, Debug, Serialize)]
pub struct Latency {
    /// Packets measured.
    pub count: u64,
    /// Median.
    pub p50: f64,
    /// 99th percentile.
    pub p99: f64,
    /// 99.9th percentile.
    pub p999: f64,
    /// Longest.
    pub max: f64,
}

/// Puts the status together.
pub fn collect(
    config: &Checked,
    observer: &Observer,
    exchange: &Exchange,
    xdp: Vec<XdpStatus>,
    now: Duration,
    started: Duration,
) -> Status {
    let mut sum = Tally::default();
    let mut latency = latency_histogram();
    for board in &exchange.boards {
        board.add_to(&mut sum);
        board.add_latency_to(&mut latency);
    }
    let us = |q: f64| latency.value_at_quantile(q) as f64 / 1000.0;
    let peers: Vec<_> =
        (0u16..).zip(&config.peers).map(|(i, p)| peer(config, observer, PeerId(i), p, &sum, now)).collect();
    Status {
        node: config.name.clone(),
        version: env!("CARGO_PKG_VERSION"),
        backend: if config.afxdp { "afxdp" } else { "udp" },
        uptime_s: now.saturating_sub(started).as_secs_f64(),
        generation: exchange.table.load().generation,
        regions: regions(config, observer),
        peers,
        workers: workers(config, exchange),
        xdp,
        counters: Counter::ALL.iter().map(|c| (c.label(), sum.counters[*c as usize])).collect(),
        drops: DropReason::ALL
            .iter()
            .map(|r| (r.label(), sum.drops[*r as usize]))
            .filter(|(_, n)| *n > 0)
            .collect(),
        latency_us: Latency {
            count: latency.len(),
            p50: us(0.5),
            p99: us(0.99),
            p999: us(0.999),
            max: latency.max() as f64 / 1000.0,
        },
        events: observer.events.iter().cloned().collect(),
    }
}

fn regions(config: &Checked, observer: &Observer) -> Vec<RegionStatus> {
    let members = |i: usize| {
        (0u16..)
            .zip(&config.peers)
            .filter(move |(_, p)| p.region.is_some_and(|r| usize::from(r.0) == i))
            .map(|(id, _)| PeerId(id))
    };
    let region = |(i, name): (usize, &String)| RegionStatus {
        name: name.clone(),
        local: config.local_region.is_some_and(|r| usize::from(r.0) == i),
        peers: members(i).count(),
        available: members(i).filter(|id| observer.state(*id) != PeerState::Unhealthy).count(),
    };
    config.regions.iter().enumerate().map(region).collect()
}

fn peer(
    config: &Checked,
    observer: &Observer,
    id: PeerId,
    p: &crate::configure::PeerConfig,
    sum: &Tally,
    now: Duration,
) -> PeerStatus {
    let service = &config.services[usize::from(p.service.0)];
    let (since, (failures, successes), rtt) = observer.details(id);
    let tally = sum.peers.get(usize::from(id.0)).copied().unwrap_or(PeerTally::default());
    PeerStatus {
        name: p.name.clone(),
        service: service.name.clone(),
        region: p.region.and_then(|r| config.regions.get(usize::from(r.0)).cloned()),
        address: p.address.to_string(),
        state: observer.state(id).label(),
        since_s: now.saturating_sub(since).as_secs_f64(),
        failures,
        successes,
        probe_rtt_us: rtt.map(|r| r.as_micros() as u64),
        detection_bound_ms: health::bound::detection(&service.policy).as_millis() as u64,
        attempts: tally.attempts,
        answered: tally.answered,
        failed: tally.failed,
        active: tally.active,
    }
}

fn workers(config: &Checked, exchange: &Exchange) -> Vec<WorkerStatus> {
    let worker = |(i, board): (usize, &exchange::counters::WorkerBoard)| {
        let mut own = Tally::default();
        board.add_to(&mut own);
        let counter = |c: Counter| own.counters[c as usize];
        WorkerStatus {
            worker: i,
            core: config.workers.get(i).and_then(|w| w.core).map(|(core, _)| core),
            calls: counter(Counter::Calls),
            sip_received: counter(Counter::SipReceived),
            media_relayed: counter(Counter::MediaRelayed),
            gauges: Gauge::ALL.iter().map(|g| (g.label(), board.gauge(*g))).collect(),
        }
    };
    exchange.boards.iter().enumerate().map(worker).collect()
}
