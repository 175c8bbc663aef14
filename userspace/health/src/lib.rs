//! Whether a peer, a region, a service is fit for calls: pure functions of evidence and time.
//!
//! [`peer`] judges one peer from probes and traffic, [`threshold`] a group of peers, [`composite`] groups
//! of groups; [`verdict`] turns a judgement into what traffic does, and back after an outage. [`bound`]
//! computes the worst-case time to notice a death. No IO, no clock: time is a [`core::time::Duration`]
//! since a fixed start.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod bound;
pub mod composite;
mod damping;
pub mod peer;
pub mod statuses;
pub mod threshold;
pub mod verdict;

pub use composite::{Composite, Composites, Input};
pub use peer::{Evidence, PeerHealth, Policy, ProbeKind, Transition};
pub use statuses::Statuses;
pub use threshold::Threshold;
pub use verdict::{Failback, Verdict};

use core::time::Duration;

/// Time since a fixed start.
pub type Time = Duration;

/// State of a peer, a source or a composite (requirements C1, D1, D2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Evidence is missing, and the judgement still depends on it. Moves nothing.
    Unknown,
    /// Fit for calls.
    Healthy,
    /// Not fit for calls.
    Unhealthy,
}

impl State {
    /// As shown to people.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Unknown => "UNKNOWN",
            Self::Healthy => "HEALTHY",
            Self::Unhealthy => "UNHEALTHY",
        }
    }
}
