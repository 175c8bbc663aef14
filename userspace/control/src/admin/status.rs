//! The node's state as data: the same for the API, the command line, the page and the demo.

use super::api::Surroundings;
use crate::{
    configure::{Checked, ServiceConfig},
    controller::Controller,
    history::Event,
    roster::Member,
};
use exchange::{
    Exchange,
    counters::{Gauge, latency_histogram},
};
use hdrhistogram::Histogram;
use health::ProbeKind;
use media::Class;
use packet::DropReason;
use proxy::{Counter, Tally, report::MediaTally};
use routing::{Peer, PeerId, RegionId, Service, ServiceId, Table, Upstream};
use serde::Serialize;
use std::{collections::BTreeMap, time::Duration};
use utoipa::ToSchema;

/// Transitions shown with the status.
const EVENTS: usize = 256;

/// Everything about a node.
#[derive(Clone, Debug, Serialize, ToSchema)]
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
    /// The operator drains the node.
    pub draining: bool,
    /// Whether upstreams should send calls here.
    pub ready: bool,
    /// Regions.
    pub regions: Vec<RegionStatus>,
    /// Services.
    pub services: Vec<ServiceStatus>,
    /// Peers.
    pub peers: Vec<PeerStatus>,
    /// Sources and composites.
    pub health: HealthStatus,
    /// Names that DNS is asked for.
    pub names: Vec<NameStatus>,
    /// Workers.
    pub workers: Vec<WorkerStatus>,
    /// XDP programs.
    pub xdp: Vec<XdpStatus>,
    /// Counters of all workers.
    pub counters: BTreeMap<&'static str, u64>,
    /// Media.
    pub media: MediaStatus,
    /// Dropped packets by reason; reasons that never happened are left out.
    pub drops: BTreeMap<&'static str, u64>,
    /// Time from the XDP program to the hand-over for sending, in microseconds.
    pub latency_us: Latency,
    /// Time from a change to the use of the table that it led to, by any worker, in microseconds.
    pub publication_us: Latency,
    /// Latest transitions, oldest first.
    pub events: Vec<Event>,
}

/// A region.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct RegionStatus {
    /// Name.
    pub name: String,
    /// Whether it is the node's own.
    pub local: bool,
    /// Peers in it.
    pub peers: usize,
    /// Peers that take calls.
    pub available: usize,
    /// Services whose new calls avoid it, by the verdict of an enforced composite.
    pub avoided_by: Vec<String>,
}

/// A service.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct ServiceStatus {
    /// Name.
    pub name: String,
    /// Listeners whose new requests go to it.
    pub listeners: Vec<String>,
    /// Peers.
    pub peers: usize,
    /// Peers that take calls.
    pub available: usize,
    /// Whether upstreams are told to send calls.
    pub takes_calls: bool,
    /// Worst-case time to notice a dead peer, by configuration.
    pub detection_bound_ms: u64,
}

/// What was counted of media since the start.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct MediaStatus {
    /// Packets relayed, by what they are.
    pub packets: BTreeMap<&'static str, u64>,
    /// Bytes of their UDP payloads.
    pub bytes: u64,
    /// RTP packets of ended streams that ought to have come, by their numbers.
    pub expected: u64,
    /// Those that did not.
    pub lost: u64,
}

impl MediaStatus {
    fn of(media: &MediaTally) -> Self {
        Self {
            packets: Class::ALL.iter().map(|c| (c.label(), media.packets[*c as usize])).collect(),
            bytes: media.bytes,
            expected: media.expected,
            lost: media.lost,
        }
    }
}

/// A peer.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct PeerStatus {
    /// Name.
    pub name: String,
    /// Service.
    pub service: String,
    /// Region.
    pub region: Option<String>,
    /// Zone.
    pub zone: Option<String>,
    /// Address.
    pub address: String,
    /// Lower is tried first.
    pub priority: u16,
    /// Share among peers of one priority.
    pub weight: u16,
    /// Part of the weight in force, in percent: less than 100 during the slow start.
    pub share: u8,
    /// State.
    pub state: &'static str,
    /// The operator's word: `enabled`, `drained` or `disabled`.
    pub admission: &'static str,
    /// `options`, or `passive`: judged by calls alone.
    pub probe: &'static str,
    /// Seconds in this state.
    pub since_s: f64,
    /// Failed probes or calls in a row.
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

/// Sources and composites.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct HealthStatus {
    /// Sources.
    pub sources: Vec<SourceStatus>,
    /// Composites.
    pub composites: Vec<CompositeStatus>,
}

/// A source.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct SourceStatus {
    /// Name.
    pub name: String,
    /// Service that it watches.
    pub service: String,
    /// In this region.
    pub region: Option<String>,
    /// State.
    pub state: &'static str,
    /// Seconds in this state.
    pub since_s: f64,
    /// HEALTHY peers.
    pub healthy: u32,
    /// UNHEALTHY peers.
    pub unhealthy: u32,
    /// UNKNOWN peers.
    pub unknown: u32,
    /// Least share of HEALTHY peers, in percent.
    pub min_percent: u8,
    /// Least number of HEALTHY peers.
    pub min_healthy: u32,
}

/// A composite.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct CompositeStatus {
    /// Name.
    pub name: String,
    /// `enforce` or `shadow`.
    pub mode: &'static str,
    /// Region that new calls leave.
    pub region: Option<String>,
    /// State.
    pub state: &'static str,
    /// Seconds in this state.
    pub since_s: f64,
    /// Whether new calls avoid the region; in shadow mode, whether they would.
    pub avoided: bool,
    /// Seconds until they come back, where the hold-down runs.
    pub back_in_s: Option<f64>,
}

/// A name that DNS is asked for.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct NameStatus {
    /// The name.
    pub name: String,
    /// Servers in force.
    pub servers: usize,
    /// What the latest answer was.
    pub latest: &'static str,
    /// Seconds that the servers have been in force beyond what DNS vouches for.
    pub stale_s: Option<f64>,
    /// Seconds to the next look-up.
    pub next_s: f64,
    /// Look-ups made.
    pub queries: u64,
    /// Those that failed.
    pub failures: u64,
}

/// A worker.
#[derive(Clone, Debug, Serialize, ToSchema)]
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
#[derive(Clone, Debug, Serialize, ToSchema)]
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
#[derive(Clone, Debug, Serialize, ToSchema)]
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
pub fn collect(controller: &Controller, around: Surroundings<'_>) -> Status {
    let Surroundings { now, started, exchange, xdp } = around;
    let config = &controller.config;
    let sum = tally(exchange);
    Status {
        node: config.name.clone(),
        version: env!("CARGO_PKG_VERSION"),
        backend: if config.afxdp { "afxdp" } else { "udp" },
        uptime_s: now.saturating_sub(started).as_secs_f64(),
        generation: controller.generation(),
        draining: controller.draining,
        ready: not_ready(controller, exchange).is_empty(),
        regions: regions(controller, exchange),
        services: services(controller, exchange),
        peers: peers(controller, &sum, now),
        health: health(controller, now),
        names: names(controller, now),
        workers: workers(config, exchange),
        xdp,
        counters: Counter::ALL.iter().map(|c| (c.label(), sum.counters[*c as usize])).collect(),
        media: MediaStatus::of(&sum.media),
        drops: DropReason::ALL
            .iter()
            .map(|r| (r.label(), sum.drops[*r as usize]))
            .filter(|(_, n)| *n > 0)
            .collect(),
        latency_us: latency(exchange),
        publication_us: publication(exchange),
        events: controller.history.latest(EVENTS).cloned().collect(),
    }
}

/// What all workers counted together.
pub(super) fn tally(exchange: &Exchange) -> Tally {
    let mut sum = Tally::default();
    exchange.boards.iter().for_each(|board| board.add_to(&mut sum));
    sum
}

/// How long packets were in the node.
pub(super) fn latency(exchange: &Exchange) -> Latency {
    let mut times = latency_histogram();
    exchange.boards.iter().for_each(|board| board.add_latency_to(&mut times));
    percentiles(&times)
}

/// How long workers took to take up new tables.
pub(super) fn publication(exchange: &Exchange) -> Latency {
    let mut times = latency_histogram();
    exchange.boards.iter().for_each(|board| board.add_publication_to(&mut times));
    percentiles(&times)
}

fn percentiles(times: &Histogram<u64>) -> Latency {
    let us = |q: f64| times.value_at_quantile(q) as f64 / 1000.0;
    Latency {
        count: times.len(),
        p50: us(0.5),
        p99: us(0.99),
        p999: us(0.999),
        max: times.max() as f64 / 1000.0,
    }
}

/// Why upstreams should not send calls here; empty: they should.
pub fn not_ready(controller: &Controller, exchange: &Exchange) -> Vec<String> {
    let mut reasons = Vec::new();
    if controller.draining {
        reasons.push("the node is drained".to_owned());
    }
    let table = exchange.table.load();
    for listener in &table.listeners {
        let Upstream::Service(id) = listener.upstream else { continue };
        if let Some(service) = table.service(id).filter(|s| !controller.draining && !table.takes_calls(s)) {
            reasons.push(format!(
                "listener {}: no peer of service {} is available in a region in use",
                listener.name, service.name
            ));
        }
    }
    reasons
}

/// All regions.
pub fn regions(controller: &Controller, exchange: &Exchange) -> Vec<RegionStatus> {
    let table = exchange.table.load();
    let config = &controller.config;
    let region = |(id, name): (RegionId, &String)| {
        let members = || controller.roster.present().filter(move |(_, member)| member.region == Some(id));
        let services = config.services.iter().zip(&table.services);
        let avoiding = services.filter(|(s, planned)| !s.removed && planned.is_region_down(Some(id)));
        RegionStatus {
            name: name.clone(),
            local: config.local_region == Some(id),
            peers: members().count(),
            available: members().filter(|(peer, _)| is_available(&table, *peer)).count(),
            avoided_by: avoiding.map(|(s, _)| s.name.clone()).collect(),
        }
    };
    (0u8..).map(RegionId).zip(&config.regions).map(region).collect()
}

fn is_available(table: &Table, peer: PeerId) -> bool {
    table.peer(peer).is_some_and(Peer::is_available)
}

fn services(controller: &Controller, exchange: &Exchange) -> Vec<ServiceStatus> {
    let table = exchange.table.load();
    let config = &controller.config;
    let service = |(id, (s, planned)): (ServiceId, (&ServiceConfig, &Service))| ServiceStatus {
        name: s.name.clone(),
        listeners: config
            .listeners
            .iter()
            .filter(|l| l.service == Some(id))
            .map(|l| l.name.clone())
            .collect(),
        peers: planned.peers.len(),
        available: planned.peers.iter().filter(|peer| is_available(&table, **peer)).count(),
        takes_calls: table.takes_calls(planned),
        detection_bound_ms: health::bound::detection(&s.policy).as_millis() as u64,
    };
    let both = config.services.iter().zip(&table.services);
    (0u16..).map(ServiceId).zip(both).filter(|(_, (s, _))| !s.removed).map(service).collect()
}

/// All peers.
pub fn peers(controller: &Controller, sum: &Tally, now: Duration) -> Vec<PeerStatus> {
    let config = &controller.config;
    let peer = |(id, p): (PeerId, &Member)| {
        let service = config.service(p.service)?;
        let details = controller.observer.details(id)?;
        let tally = sum.peers.get(usize::from(id.0)).copied().unwrap_or_default();
        Some(PeerStatus {
            name: p.name.clone(),
            service: service.name.clone(),
            region: config.region_name(p.region).map(str::to_owned),
            zone: p.zone.clone(),
            address: p.address.to_string(),
            priority: p.priority,
            weight: p.weight,
            share: details.share,
            state: details.state.label(),
            admission: details.admission.label(),
            probe: match service.policy.kind {
                ProbeKind::Options => "options",
                ProbeKind::Passive => "passive",
            },
            since_s: now.saturating_sub(details.since).as_secs_f64(),
            failures: details.failures,
            successes: details.successes,
            probe_rtt_us: details.rtt.map(|r| r.as_micros() as u64),
            detection_bound_ms: health::bound::detection(&service.policy).as_millis() as u64,
            attempts: tally.attempts,
            answered: tally.answered,
            failed: tally.failed,
            active: tally.active,
        })
    };
    controller.roster.present().filter_map(peer).collect()
}

/// Sources and composites.
pub fn health(controller: &Controller, now: Duration) -> HealthStatus {
    let config = &controller.config;
    let age = |since: Duration| now.saturating_sub(since).as_secs_f64();
    let sources =
        config.health.sources.iter().zip(controller.judge.sources()).map(|(s, judged)| SourceStatus {
            name: s.name.clone(),
            service: config.service(s.service).map_or_else(String::new, |s| s.name.clone()),
            region: config.region_name(s.region).map(str::to_owned),
            state: judged.state.label(),
            since_s: age(judged.since),
            healthy: judged.members.healthy,
            unhealthy: judged.members.unhealthy,
            unknown: judged.members.unknown,
            min_percent: s.threshold.min_percent,
            min_healthy: s.threshold.min_healthy,
        });
    let composites = config.health.composites.iter().zip(controller.judge.composites());
    let composites = composites.map(|(c, (judged, verdict))| CompositeStatus {
        name: c.name.clone(),
        mode: if c.enforced { "enforce" } else { "shadow" },
        region: config.region_name(c.region).map(str::to_owned),
        state: judged.state.label(),
        since_s: age(judged.since),
        avoided: verdict.is_down(),
        back_in_s: verdict.deadline().map(|at| at.saturating_sub(now).as_secs_f64()),
    });
    HealthStatus { sources: sources.collect(), composites: composites.collect() }
}

/// Names that DNS is asked for.
pub fn names(controller: &Controller, now: Duration) -> Vec<NameStatus> {
    let name = |s: crate::discover::Status| NameStatus {
        name: s.question.shown(),
        servers: s.targets,
        latest: s.latest,
        stale_s: s.stale_for.map(|d| d.as_secs_f64()),
        next_s: s.next_in.as_secs_f64(),
        queries: s.queries,
        failures: s.failures,
    };
    controller.names.status(now).into_iter().map(name).collect()
}

fn workers(config: &Checked, exchange: &Exchange) -> Vec<WorkerStatus> {
    let worker = |(i, board): (usize, &exchange::counters::WorkerBoard)| WorkerStatus {
        worker: i,
        core: config.workers.get(i).and_then(|w| w.core).map(|(core, _)| core),
        calls: board.counter(Counter::Calls),
        sip_received: board.counter(Counter::SipReceived),
        media_relayed: board.counter(Counter::MediaRelayed),
        gauges: Gauge::ALL.iter().map(|g| (g.label(), board.gauge(*g))).collect(),
    };
    exchange.boards.iter().enumerate().map(worker).collect()
}
