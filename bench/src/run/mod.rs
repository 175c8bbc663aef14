//! What is measured on the rig, and in which order.

pub mod contest;
pub mod failover;
pub mod memory;
pub mod scaling;

use std::time::Duration;

/// How much time is spent.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Length of one trial.
    pub trial: Duration,
    /// Length of the trials that cost is taken from.
    pub long: Duration,
    /// How often the highest rate is searched for in the contests that are drawn.
    pub searches: usize,
    /// Whether everything is measured, or only what the quick run shows.
    pub full: bool,
}

impl Effort {
    /// A few minutes.
    pub const QUICK: Self =
        Self { trial: Duration::from_millis(400), long: Duration::from_secs(2), searches: 1, full: false };
    /// What the report is made of.
    pub const FULL: Self =
        Self { trial: Duration::from_secs(1), long: Duration::from_secs(4), searches: 2, full: true };
}
