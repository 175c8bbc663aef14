//! Why calls went where they went, as data: the workers' records with names in place of numbers.

use crate::{configure::Checked, roster::Roster};
use proxy::journal::{AttemptRecord, End, Outcome, Record};
use serde::Serialize;
use std::time::{Duration, SystemTime};

/// An answer: what all workers remember.
#[derive(Clone, Debug, Serialize, utoipa::ToSchema)]
pub struct Calls {
    /// Calls that each worker remembers.
    pub remembered: usize,
    /// Those asked for, oldest first.
    pub calls: Vec<CallStory>,
}

/// One call.
#[derive(Clone, Debug, Serialize, utoipa::ToSchema)]
pub struct CallStory {
    /// Call-ID, cut off where it is very long.
    pub call_id: String,
    /// Worker that owns it.
    pub worker: usize,
    /// Listener it arrived at.
    pub listener: String,
    /// Who sent it.
    pub from: String,
    /// When, in milliseconds since 1970.
    pub at_unix_ms: u64,
    /// Peers that were tried, in order.
    pub attempts: Vec<AttemptStory>,
    /// What the sender got; none while the call is being set up.
    pub outcome: Option<String>,
    /// Milliseconds from the arrival to the outcome.
    pub took_ms: Option<f64>,
}

/// One attempt.
#[derive(Clone, Debug, Serialize, utoipa::ToSchema)]
pub struct AttemptStory {
    /// Peer.
    pub peer: String,
    /// Its region.
    pub region: Option<String>,
    /// Why it was chosen.
    pub why: String,
    /// Milliseconds after the call's arrival.
    pub after_ms: f64,
    /// Status of its first response, and milliseconds from the attempt to it.
    pub first_response: Option<(u16, f64)>,
    /// How the attempt ended.
    pub result: String,
    /// Milliseconds from the attempt to its end.
    pub took_ms: Option<f64>,
}

/// Tells the stories of records, which are of one worker.
pub fn stories(
    (config, roster): (&Checked, &Roster),
    worker: usize,
    records: &[Record],
    now: Duration,
) -> Vec<CallStory> {
    let boot = boot(now);
    records.iter().map(|record| story((config, roster), worker, record, boot)).collect()
}

/// When the node's clock began, after 1970; `now` is what it shows.
pub(super) fn boot(now: Duration) -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().saturating_sub(now)
}

fn story((config, roster): (&Checked, &Roster), worker: usize, record: &Record, boot: Duration) -> CallStory {
    let mut previous = None;
    let attempts =
        record.attempts.iter().map(|a| attempt((config, roster), record, a, previous.replace(a))).collect();
    CallStory {
        call_id: String::from_utf8_lossy(&record.call_id).into_owned(),
        worker,
        listener: config.listener_name(record.listener),
        from: record.remote.to_string(),
        at_unix_ms: (boot + record.at).as_millis() as u64,
        attempts,
        outcome: record.outcome.map(|(outcome, _)| match outcome {
            Outcome::Peer(status) => format!("{status} from the peer"),
            Outcome::Unknown => "not known, forwarded without state".to_owned(),
            Outcome::Node(status, reason) => format!("{status} {reason}, by this node"),
        }),
        took_ms: record.outcome.map(|(_, at)| ms(record.at, at)),
    }
}

fn attempt(
    (config, roster): (&Checked, &Roster),
    record: &Record,
    a: &AttemptRecord,
    previous: Option<&AttemptRecord>,
) -> AttemptStory {
    let peer = |a: &AttemptRecord| roster.get(a.peer);
    let name = |a: &AttemptRecord| peer(a).map_or_else(|| a.peer.0.to_string(), |p| p.name.clone());
    // A peer asked at the same moment as the one before it is a branch of a parallel fork.
    let why = match previous {
        Some(p) if p.at == a.at => format!("{}, in parallel with {}", a.why.label(), name(p)),
        Some(p) => format!("{}, after {}: {}", a.why.label(), name(p), result(p)),
        None => a.why.label().to_owned(),
    };
    AttemptStory {
        peer: name(a),
        region: peer(a).and_then(|p| config.region_name(p.region)).map(str::to_owned),
        why,
        after_ms: ms(record.at, a.at),
        first_response: a.first.map(|(status, at)| (status, ms(a.at, at))),
        result: result(a),
        took_ms: a.end.map(|(_, at)| ms(a.at, at)),
    }
}

fn result(a: &AttemptRecord) -> String {
    match a.end.map(|(end, _)| end) {
        None => "under way".to_owned(),
        Some(End::Status(status)) => status.to_string(),
        Some(End::Silence) => "no response in time".to_owned(),
        Some(End::NoFinal) => "no final response in time".to_owned(),
        Some(End::Unreachable) => "not reachable (ICMP)".to_owned(),
        Some(End::NoMediaPort) => "not sent: no media port".to_owned(),
        Some(End::PeerDied) => "the peer became UNHEALTHY".to_owned(),
        Some(End::Lost) => "answered by another peer, cancelled".to_owned(),
        Some(End::Stateless) => "forwarded without state".to_owned(),
    }
}

fn ms(from: Duration, to: Duration) -> f64 {
    (to.saturating_sub(from).as_micros() as f64) / 1000.0
}
