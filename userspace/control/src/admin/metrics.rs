//! Metrics for Prometheus, in the OpenMetrics text format. Labels come from the configuration, from DNS
//! and from closed lists, never from packets.

use super::{api::Surroundings, status};
use crate::controller::Controller;
use exchange::counters::Gauge as BoardGauge;
use media::Class;
use packet::DropReason;
use prometheus_client::{
    encoding::{EncodeMetric, MetricEncoder, NoLabelSet, text::encode},
    metrics::{MetricType, counter::Counter, family::Family, gauge::Gauge, info::Info},
    registry::Registry,
};
use proxy::{
    Counter as NodeCounter, Tally,
    report::{Buckets, JITTER_BOUNDS, LOSS_BOUNDS, MediaTally},
};
use std::{fmt, sync::atomic::AtomicU64};

type Labels = Vec<(&'static str, String)>;
type Counters = Family<Labels, Counter>;
type Gauges = Family<Labels, Gauge<f64, AtomicU64>>;

/// A registry that is filled, shown once and thrown away.
struct Page(Registry);

impl Page {
    fn counter(&mut self, name: &str, help: &str, rows: impl IntoIterator<Item = (Labels, u64)>) {
        let family = Counters::default();
        for (labels, value) in rows {
            family.get_or_create(&labels).inc_by(value);
        }
        self.0.register(name, help.trim_end_matches('.'), family);
    }

    fn histogram(&mut self, name: &str, help: &str, (bounds, units): (&[u32], f64), counted: &Buckets) {
        self.0.register(name, help, Counted::new(bounds, units, counted));
    }

    fn gauge(&mut self, name: &str, help: &str, rows: impl IntoIterator<Item = (Labels, f64)>) {
        let family = Gauges::default();
        for (labels, value) in rows {
            family.get_or_create(&labels).set(value);
        }
        self.0.register(name, help.trim_end_matches('.'), family);
    }
}

/// A histogram that was counted elsewhere.
#[derive(Debug)]
struct Counted {
    sum: f64,
    buckets: Vec<(f64, u64)>,
}

impl Counted {
    /// Bounds and sum are in whole units, of which so many make one of what is shown.
    fn new(bounds: &[u32], units: f64, counted: &Buckets) -> Self {
        let bounds = bounds.iter().map(|b| f64::from(*b) / units).chain([f64::MAX]);
        Self { sum: counted.sum as f64 / units, buckets: bounds.zip(counted.counts).collect() }
    }
}

impl EncodeMetric for Counted {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> Result<(), fmt::Error> {
        let count = self.buckets.iter().map(|(_, n)| n).sum();
        encoder.encode_histogram::<NoLabelSet>(self.sum, count, &self.buckets, None)
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Histogram
    }
}

/// All metrics as text.
pub fn expose(controller: &Controller, around: &Surroundings<'_>) -> String {
    let mut page = Page(Registry::with_prefix("strowger"));
    let version = vec![("version", env!("CARGO_PKG_VERSION").to_owned())];
    page.0.register("build", "Version of the program", Info::new(version));
    let sum = status::tally(around.exchange);
    node(&mut page, controller, &sum, around);
    peers(&mut page, controller, &sum, around);
    health(&mut page, controller, around);
    packets(&mut page, around);
    let mut text = String::new();
    match encode(&mut text, &page.0) {
        Ok(()) => text,
        Err(_) => "# EOF\n".to_owned(),
    }
}

fn one(value: f64) -> [(Labels, f64); 1] {
    [(Labels::new(), value)]
}

fn quantiles(times: &status::Latency) -> [(Labels, f64); 4] {
    let quantiles = [("0.5", times.p50), ("0.99", times.p99), ("0.999", times.p999), ("1", times.max)];
    quantiles.map(|(q, us)| (vec![("quantile", q.to_owned())], us / 1e6))
}

fn node(page: &mut Page, controller: &Controller, sum: &Tally, around: &Surroundings<'_>) {
    let latency = status::latency(around.exchange);
    for counter in NodeCounter::ALL {
        page.counter(counter.label(), counter.help(), [(Labels::new(), sum.counters[*counter as usize])]);
    }
    let drops =
        DropReason::ALL.iter().map(|r| (vec![("reason", r.label().to_owned())], sum.drops[*r as usize]));
    page.counter("dropped_packets", "Packets dropped, by reason", drops);
    media(page, &sum.media);
    page.gauge(
        "latency_seconds",
        "Time in the node since the start, from the XDP program to the hand-over for sending",
        quantiles(&latency),
    );
    page.gauge(
        "publication_seconds",
        "Time from a change to the use of the peer table that it led to",
        quantiles(&status::publication(around.exchange)),
    );
    page.counter(
        "latency_packets",
        "Packets whose time in the node was measured",
        [(Labels::new(), latency.count)],
    );
    let uptime = around.now.saturating_sub(around.started).as_secs_f64();
    page.gauge("uptime_seconds", "Time since the start", one(uptime));
    page.gauge(
        "table_generation",
        "Generation of the published peer table",
        one(controller.generation().into()),
    );
    let ready = status::not_ready(controller, around.exchange).is_empty();
    page.gauge("ready", "Whether upstreams should send calls here", one(f64::from(u8::from(ready))));
    for gauge in BoardGauge::ALL {
        let rows = around.exchange.boards.iter().enumerate();
        let rows = rows.map(|(i, board)| (vec![("worker", i.to_string())], board.gauge(gauge) as f64));
        page.gauge(&format!("worker_{}", gauge.label()), gauge.help(), rows.collect::<Vec<_>>());
    }
}

fn media(page: &mut Page, media: &MediaTally) {
    let packets = Class::ALL
        .iter()
        .map(|c| (vec![("class", c.label().to_owned())], media.packets[*c as usize]))
        .collect::<Vec<_>>();
    page.counter("media_packets", "Media packets relayed, by what they are (RFC 7983)", packets);
    page.counter("media_bytes", "Bytes of relayed media, UDP payload", [(Labels::new(), media.bytes)]);
    page.counter(
        "media_rtp_expected",
        "RTP packets of ended streams that ought to have come, by their numbers",
        [(Labels::new(), media.expected)],
    );
    page.counter("media_rtp_lost", "Those of them that did not", [(Labels::new(), media.lost)]);
    page.histogram(
        "media_jitter_seconds",
        "Interarrival jitter of ended streams, each direction (RFC 3550)",
        (&JITTER_BOUNDS, 1e6),
        &media.jitter,
    );
    page.histogram(
        "media_loss_ratio",
        "Part of the RTP packets that did not come, of ended streams, each direction",
        (&LOSS_BOUNDS, 1e4),
        &media.loss,
    );
}

fn peers(page: &mut Page, controller: &Controller, sum: &Tally, around: &Surroundings<'_>) {
    let peers = status::peers(controller, sum, around.now);
    let labels = |p: &status::PeerStatus| -> Labels {
        vec![
            ("peer", p.name.clone()),
            ("service", p.service.clone()),
            ("region", p.region.clone().unwrap_or_default()),
        ]
    };
    let gauge = |page: &mut Page, name: &str, help: &str, value: &dyn Fn(&status::PeerStatus) -> f64| {
        page.gauge(name, help, peers.iter().map(|p| (labels(p), value(p))).collect::<Vec<_>>());
    };
    gauge(page, "peer_state", "State of a peer: 0 UNKNOWN, 1 HEALTHY, 2 UNHEALTHY", &|p| state(p.state));
    gauge(page, "peer_admission", "The operator's word: 0 enabled, 1 drained, 2 disabled", &|p| match p
        .admission
    {
        "drained" => 1.0,
        "disabled" => 2.0,
        _ => 0.0,
    });
    gauge(page, "peer_share", "Part of the weight in force, 0 to 1", &|p| f64::from(p.share) / 100.0);
    gauge(page, "peer_active_calls", "Calls in progress whose media is relayed", &|p| p.active as f64);
    let counter = |page: &mut Page, name: &str, help: &str, value: &dyn Fn(&status::PeerStatus) -> u64| {
        page.counter(name, help, peers.iter().map(|p| (labels(p), value(p))).collect::<Vec<_>>());
    };
    counter(page, "peer_attempts", "Call attempts sent to a peer", &|p| p.attempts);
    counter(page, "peer_answered", "Attempts answered with 2xx", &|p| p.answered);
    counter(page, "peer_failed", "Attempts that failed so that another peer was tried", &|p| p.failed);
    let measured = peers.iter().filter_map(|p| Some((labels(p), p.probe_rtt_us? as f64 / 1e6)));
    page.gauge(
        "peer_probe_rtt_seconds",
        "Round-trip time of the latest answered probe",
        measured.collect::<Vec<_>>(),
    );
}

fn state(label: &str) -> f64 {
    match label {
        "HEALTHY" => 1.0,
        "UNHEALTHY" => 2.0,
        _ => 0.0,
    }
}

fn health(page: &mut Page, controller: &Controller, around: &Surroundings<'_>) {
    let health = status::health(controller, around.now);
    let sources = health.sources.iter().map(|s| (vec![("source", s.name.clone())], state(s.state)));
    page.gauge("source_state", "State of a health source: 0 UNKNOWN, 1 HEALTHY, 2 UNHEALTHY", sources);
    let labels =
        |c: &status::CompositeStatus| vec![("composite", c.name.clone()), ("mode", c.mode.to_owned())];
    let composites = health.composites.iter().map(|c| (labels(c), state(c.state)));
    page.gauge("composite_state", "State of a composite: 0 UNKNOWN, 1 HEALTHY, 2 UNHEALTHY", composites);
    let avoided = health.composites.iter().map(|c| (labels(c), f64::from(u8::from(c.avoided))));
    page.gauge(
        "composite_avoided",
        "Whether new calls avoid the composite's region; in shadow mode, whether they would",
        avoided,
    );
    let transitions = controller.history.counts().map(|(kind, to, count)| {
        let to =
            if kind == crate::history::Kind::Dns || kind == crate::history::Kind::Config { "" } else { to };
        ((kind.label(), to), count)
    });
    let mut summed = std::collections::BTreeMap::new();
    transitions.for_each(|(key, count)| *summed.entry(key).or_insert(0) += count);
    let rows = summed
        .into_iter()
        .map(|((kind, to), count)| (vec![("kind", kind.to_owned()), ("to", to.to_owned())], count));
    page.counter(
        "transitions",
        "Changes of state, by what changed and the new state",
        rows.collect::<Vec<_>>(),
    );
    let names = status::names(controller, around.now);
    let labels = |n: &status::NameStatus| vec![("name", n.name.clone())];
    page.gauge(
        "dns_servers",
        "Servers of a name in force",
        names.iter().map(|n| (labels(n), n.servers as f64)),
    );
    page.gauge(
        "dns_stale_seconds",
        "Time that a name's servers have been in force beyond what DNS vouches for",
        names.iter().map(|n| (labels(n), n.stale_s.unwrap_or_default())),
    );
    page.counter("dns_queries", "Look-ups of a name", names.iter().map(|n| (labels(n), n.queries)));
    page.counter(
        "dns_failures",
        "Look-ups of a name that failed",
        names.iter().map(|n| (labels(n), n.failures)),
    );
}

fn packets(page: &mut Page, around: &Surroundings<'_>) {
    let verdicts = around.xdp.iter().flat_map(|x| {
        x.verdicts.iter().map(|(verdict, count)| {
            (vec![("interface", x.interface.clone()), ("verdict", (*verdict).to_owned())], *count)
        })
    });
    page.counter("xdp_packets", "Packets seen by the XDP program, by verdict", verdicts);
    let modes = around
        .xdp
        .iter()
        .map(|x| (vec![("interface", x.interface.clone()), ("mode", x.mode.to_owned())], 1.0));
    page.gauge("xdp_mode", "How the XDP program is attached", modes);
}
