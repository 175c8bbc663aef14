//! Memory of a call whose media is relayed.

use super::contest::{RTPENGINE, STROWGER};
use crate::rig::{
    Rig,
    systems::{
        rtpengine,
        strowger::{Node, Setup},
    },
};
use anyhow::Result;
use serde::{Deserialize, Serialize};

/// Of one system.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Memory {
    /// Name of the system.
    pub system: String,
    /// Calls that were held.
    pub calls: usize,
    /// Bytes with one call.
    pub idle: u64,
    /// Bytes with all of them.
    pub full: u64,
}

impl Memory {
    /// Bytes of each further call.
    pub fn each(&self) -> f64 {
        self.full.saturating_sub(self.idle) as f64 / self.calls.max(1) as f64
    }
}

/// Measures strowger and rtpengine with the same number of calls.
///
/// # Errors
/// One does not start, or refuses calls.
pub fn measure(calls: usize) -> Result<Vec<Memory>> {
    let strowger = |calls| -> Result<u64> {
        let rig = Rig::new(1)?;
        Node::start(&rig, &Setup { calls, ..Setup::default() })?.memory()
    };
    let rtpengine = |calls| -> Result<u64> {
        let rig = Rig::new(1)?;
        rtpengine::Relay::start(&rig, calls)?.memory()
    };
    Ok(vec![
        Memory { system: STROWGER.into(), calls, idle: strowger(1)?, full: strowger(calls)? },
        Memory { system: RTPENGINE.into(), calls, idle: rtpengine(1)?, full: rtpengine(calls)? },
    ])
}
