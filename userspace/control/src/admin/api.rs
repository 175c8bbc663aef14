//! Questions and commands, answered by the control thread between two of its steps.

use super::{
    metrics,
    status::{self, XdpStatus},
};
use crate::controller::{Controller, Steering};
use exchange::{Exchange, errands::Calls};
use routing::{Admission, PeerId};
use serde::Serialize;
use std::time::Duration;
use tokio::sync::oneshot;

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Everything.
    Status,
    /// All peers.
    Peers,
    /// One peer.
    Peer(String),
    /// Regions.
    Regions,
    /// Sources and composites.
    Health,
    /// Names that DNS is asked for.
    Names,
    /// The latest transitions.
    Events(usize),
    /// What became of calls.
    Explain(Calls),
    /// Media of calls in progress: of one Call-ID, or of so many calls of each worker.
    Media(Option<String>, usize),
    /// Counters and gauges for Prometheus.
    Metrics,
    /// Whether upstreams should send calls here.
    Ready,
    /// Whether the node works at all.
    Alive,
    /// The operator's word about a peer.
    AdmitPeer(String, Admission),
    /// The same about all peers of a region.
    AdmitRegion(String, Admission),
    /// Drains the node, or ends that.
    DrainNode(bool),
    /// Sends calls back to the region of a composite.
    Release(String),
    /// Reads the configuration again; dry: only says what would change.
    Reload {
        /// Changes nothing.
        dry: bool,
    },
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// HTTP status.
    pub status: u16,
    /// Type of the body.
    pub content_type: &'static str,
    /// Body.
    pub body: String,
}

/// Why a request was not met.
#[derive(Clone, Debug, Serialize, utoipa::ToSchema)]
pub struct Error {
    /// In words.
    pub error: String,
}

/// That a command was carried out.
#[derive(Clone, Debug, Serialize, utoipa::ToSchema)]
pub struct Done {
    /// What was done.
    pub done: String,
}

/// Whether upstreams should send calls here.
#[derive(Clone, Debug, Serialize, utoipa::ToSchema)]
pub struct Readiness {
    /// Whether they should.
    pub ready: bool,
    /// Why not.
    pub reasons: Vec<String>,
}

/// What a reload changed, or would change.
#[derive(Clone, Debug, Serialize, utoipa::ToSchema)]
pub struct Reloaded {
    /// Whether it is in force.
    pub applied: bool,
    /// What differs, a line each: `+` new, `-` gone, `~` changed.
    pub changes: Vec<String>,
}

/// A request and the way to answer it.
#[derive(Debug)]
pub struct Asked {
    /// What is asked.
    pub request: Request,
    /// Takes the answer.
    pub reply: oneshot::Sender<Reply>,
}

impl Reply {
    /// As JSON.
    pub fn json(status: u16, body: &impl Serialize) -> Self {
        let body = serde_json::to_string(body).unwrap_or_else(|e| format!("{{\"error\":\"{e}\"}}"));
        Self { status, content_type: "application/json", body }
    }

    /// A refusal.
    pub fn error(status: u16, error: impl Into<String>) -> Self {
        Self::json(status, &Error { error: error.into() })
    }
}

/// What the node adds to an answer, besides what the controller knows.
pub struct Surroundings<'a> {
    /// Now.
    pub now: Duration,
    /// When the node started.
    pub started: Duration,
    /// Shared with the workers.
    pub exchange: &'a Exchange,
    /// XDP programs.
    pub xdp: Vec<XdpStatus>,
}

/// Answers a question that the control thread can answer alone. [`Request::Explain`],
/// [`Request::Media`] and [`Request::Reload`] are none: they need the workers, and the file.
pub fn answer(
    request: &Request,
    controller: &mut Controller,
    steering: &mut dyn Steering,
    around: Surroundings<'_>,
) -> Reply {
    let now = around.now;
    match request {
        Request::Status => Reply::json(200, &status::collect(controller, around)),
        Request::Peers => Reply::json(200, &status::peers(controller, &status::tally(around.exchange), now)),
        Request::Peer(name) => {
            let peers = status::peers(controller, &status::tally(around.exchange), now);
            match peers.into_iter().find(|p| p.name == *name) {
                Some(peer) => Reply::json(200, &peer),
                None => no_such("peer", name),
            }
        }
        Request::Regions => Reply::json(200, &status::regions(controller, around.exchange)),
        Request::Health => Reply::json(200, &status::health(controller, now)),
        Request::Names => Reply::json(200, &status::names(controller, now)),
        Request::Events(count) => {
            Reply::json(200, &controller.history.latest(*count).cloned().collect::<Vec<_>>())
        }
        Request::Metrics => Reply {
            status: 200,
            content_type: "application/openmetrics-text; version=1.0.0; charset=utf-8",
            body: metrics::expose(controller, &around),
        },
        Request::Ready => {
            let reasons = status::not_ready(controller, around.exchange);
            let ready = Readiness { ready: reasons.is_empty(), reasons };
            Reply::json(if ready.ready { 200 } else { 503 }, &ready)
        }
        Request::Alive => Reply::json(200, &Done { done: "alive".to_owned() }),
        Request::AdmitPeer(name, admission) => match controller.roster.named(name) {
            Some(peer) => {
                controller.admit(now, &[peer], *admission, steering);
                done(format!("peer {name} is {}", admission.label()))
            }
            None => no_such("peer", name),
        },
        Request::AdmitRegion(name, admission) => {
            let Some(i) = controller.config.regions.iter().position(|r| r == name) else {
                return no_such("region", name);
            };
            let of_region =
                controller.roster.present().filter(|(_, m)| m.region.is_some_and(|r| usize::from(r.0) == i));
            let peers: Vec<PeerId> = of_region.map(|(id, _)| id).collect();
            controller.admit(now, &peers, *admission, steering);
            done(format!("{} peers of region {name} are {}", peers.len(), admission.label()))
        }
        Request::DrainNode(draining) => {
            controller.drain_node(now, *draining, steering);
            done(format!("the node is {}", if *draining { "draining" } else { "in service" }))
        }
        Request::Release(name) => match controller.release(now, name, steering) {
            true => done(format!("calls go to the region of composite {name} again")),
            false => no_such("composite", name),
        },
        Request::Explain(_) | Request::Media(..) | Request::Reload { .. } => {
            Reply::error(500, "not answered here")
        }
    }
}

fn done(what: String) -> Reply {
    Reply::json(200, &Done { done: what })
}

fn no_such(kind: &str, name: &str) -> Reply {
    Reply::error(404, format!("there is no {kind} \"{name}\""))
}
