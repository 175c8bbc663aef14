//! Every transition, for people: logged, counted, and the latest kept (requirement D6).

use serde::Serialize;
use std::{
    collections::{BTreeMap, VecDeque},
    time::{SystemTime, UNIX_EPOCH},
};

/// Transitions kept for people.
const KEPT: usize = 512;

/// What changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// State of a peer.
    Peer,
    /// State of a health source.
    Source,
    /// State of a composite.
    Composite,
    /// Whether new calls avoid a region.
    Region,
    /// The operator's word about a peer or the node.
    Operator,
    /// What DNS says about a name.
    Dns,
    /// The configuration.
    Config,
}

impl Kind {
    /// As shown in metrics.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Peer => "peer",
            Self::Source => "source",
            Self::Composite => "composite",
            Self::Region => "region",
            Self::Operator => "operator",
            Self::Dns => "dns",
            Self::Config => "config",
        }
    }
}

/// A transition, as shown.
#[derive(Clone, Debug, Serialize, utoipa::ToSchema)]
pub struct Event {
    /// Milliseconds since 1970.
    pub at_unix_ms: u64,
    /// What changed.
    pub kind: Kind,
    /// Its name.
    pub name: String,
    /// Before.
    pub from: String,
    /// After.
    pub to: String,
    /// Why, with the numbers behind it.
    pub cause: String,
    /// Generation of the peer table that it led to.
    pub generation: u32,
}

/// The latest transitions, and how many there were of each kind.
#[derive(Debug, Default)]
pub struct History {
    events: VecDeque<Event>,
    counts: BTreeMap<(Kind, String), u64>,
    total: u64,
    /// Generation that the transitions of now lead to.
    pub generation: u32,
}

impl History {
    /// Nothing happened yet; the first table is of this generation.
    pub fn new(generation: u32) -> Self {
        Self { generation, ..Self::default() }
    }

    /// Notes a transition: one line in the log.
    pub fn note(&mut self, kind: Kind, name: &str, from: &str, to: &str, cause: String) {
        let generation = self.generation;
        tracing::info!(kind = kind.label(), name, from, to, cause, generation, "transition");
        *self.counts.entry((kind, to.to_owned())).or_default() += 1;
        self.total += 1;
        if self.events.len() == KEPT {
            self.events.pop_front();
        }
        self.events.push_back(Event {
            at_unix_ms: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_millis() as u64),
            kind,
            name: name.to_owned(),
            from: from.to_owned(),
            to: to.to_owned(),
            cause,
            generation,
        });
    }

    /// The latest ones, oldest first.
    pub fn latest(&self, count: usize) -> impl Iterator<Item = &Event> {
        self.events.iter().skip(self.events.len().saturating_sub(count))
    }

    /// How many there were in all.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// How many there were, by kind and new state.
    pub fn counts(&self) -> impl Iterator<Item = (Kind, &str, u64)> {
        self.counts.iter().map(|((kind, to), count)| (*kind, to.as_str(), *count))
    }
}
