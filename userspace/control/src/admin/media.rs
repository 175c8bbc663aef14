//! Calls in progress whose media runs through this node, as data.

use super::explain::boot;
use crate::{configure::Checked, roster::Roster};
use media::relay::LegReport;
use proxy::calls::MediaReport;
use serde::Serialize;
use std::time::Duration;

/// An answer: what all workers have.
#[derive(Clone, Debug, Serialize, utoipa::ToSchema)]
pub struct MediaCalls {
    /// Those asked for, the oldest first.
    pub calls: Vec<MediaStory>,
}

/// One dialog with media.
#[derive(Clone, Debug, Serialize, utoipa::ToSchema)]
pub struct MediaStory {
    /// Call-ID.
    pub call_id: String,
    /// Worker that owns it.
    pub worker: usize,
    /// When it began, in milliseconds since 1970.
    pub since_unix_ms: u64,
    /// The peer that it goes to.
    pub peer: Option<String>,
    /// `setup`, `active` or `hold`.
    pub state: &'static str,
    /// Its streams.
    pub streams: Vec<StreamStory>,
}

/// One stream.
#[derive(Clone, Debug, Serialize, utoipa::ToSchema)]
pub struct StreamStory {
    /// Number of its m-line, from 0.
    pub number: usize,
    /// What comes from the caller.
    pub caller: LegStory,
    /// What comes from the callee.
    pub callee: LegStory,
}

/// One side of a stream.
#[derive(Clone, Debug, Serialize, utoipa::ToSchema)]
pub struct LegStory {
    /// Listener on that side.
    pub listener: String,
    /// Local RTP address.
    pub local: String,
    /// RTP address that the side's SDP names.
    pub signalled: Option<String>,
    /// Where its RTP really comes from.
    pub source: Option<String>,
    /// Packets relayed.
    pub packets: u64,
    /// Bytes relayed.
    pub bytes: u64,
    /// RTP packets that did not arrive here, by their numbers.
    pub lost: u32,
    /// RTP packets that ought to have.
    pub expected: u32,
    /// Interarrival jitter in milliseconds (RFC 3550 6.4.1).
    pub jitter_ms: f64,
    /// Packets refused because they came from elsewhere.
    pub refused: u32,
    /// Seconds since the latest packet, or since the stream was opened.
    pub silent_s: f64,
}

/// Tells what a worker knew at a time.
pub fn stories(
    (config, roster): (&Checked, &Roster),
    worker: usize,
    calls: &[MediaReport],
    now: Duration,
) -> Vec<MediaStory> {
    let boot = boot(now);
    let story = |call: &MediaReport| {
        let leg = |side: usize, leg: &LegReport| LegStory {
            listener: config.listener_name(call.listeners[side]),
            local: leg.local.to_string(),
            signalled: leg.signalled.map(|a| a.to_string()),
            source: leg.learned.map(|a| a.to_string()),
            packets: leg.received.packets,
            bytes: leg.received.bytes,
            lost: leg.received.lost,
            expected: leg.received.expected,
            jitter_ms: f64::from(leg.received.jitter_us) / 1000.0,
            refused: leg.received.refused,
            silent_s: (now.saturating_sub(leg.last).as_millis() as f64) / 1000.0,
        };
        let stream = |(number, [caller, callee]): &(usize, [LegReport; 2])| StreamStory {
            number: *number,
            caller: leg(0, caller),
            callee: leg(1, callee),
        };
        MediaStory {
            call_id: String::from_utf8_lossy(&call.call_id).into_owned(),
            worker,
            since_unix_ms: (boot + call.since).as_millis() as u64,
            peer: call.peer.and_then(|id| roster.get(id)).map(|p| p.name.clone()),
            state: match (call.answered, call.held) {
                (false, _) => "setup",
                (true, true) => "hold",
                (true, false) => "active",
            },
            streams: call.streams.iter().map(stream).collect(),
        }
    };
    calls.iter().map(story).collect()
}
