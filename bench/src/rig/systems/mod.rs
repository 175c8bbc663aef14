//! The systems under test, each as its own manual recommends, all on one core.

pub mod echo;
pub mod forwarder;
pub mod kamailio;
pub mod rtpengine;
pub mod strowger;
pub mod thread;

use super::Flow;
use anyhow::{Context as _, Result};
use std::{fs, path::PathBuf, time::Duration};

/// A running one; ended when dropped.
pub trait System {
    /// Where the load goes.
    fn flows(&self) -> Vec<Flow>;

    /// Where requests without state go.
    ///
    /// # Panics
    /// It has no flows.
    fn signalling(&self) -> Flow {
        self.flows()[0]
    }

    /// Processor time of its threads so far. What soft interrupts use on its behalf is in it where they interrupt
    /// one of its threads.
    ///
    /// # Errors
    /// It is gone.
    fn time(&self) -> Result<Duration>;

    /// Whether it may be damaged or still busy after overload, so that it must be started again.
    fn has_memory(&self) -> bool {
        true
    }
}

/// Processor time of all threads of a process so far.
fn time_of(process: u32) -> Result<Duration> {
    let tasks = fs::read_dir(format!("/proc/{process}/task"))?;
    tasks.map(|task| lab::process::thread_time(&task?.path())).sum()
}

/// Resident memory of a process, in bytes; what it shares with others counts in part (proportional set size).
fn memory_of(process: u32) -> Result<u64> {
    let text = fs::read_to_string(PathBuf::from("/proc").join(process.to_string()).join("smaps_rollup"))?;
    let line = text.lines().find_map(|l| l.strip_prefix("Pss:")).context("no Pss in smaps_rollup")?;
    Ok(line.trim().trim_end_matches(" kB").parse::<u64>()? * 1024)
}
