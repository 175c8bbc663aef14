//! The only meeting place of workers and the control thread: neither names the other, both name this.
//!
//! From control to workers: snapshots ([`snapshot`]) and errands ([`errands`]). From workers to
//! control: reports and addresses to resolve ([`errands`]), counters ([`counters`]). From worker to
//! worker: [`handover`]. Nobody waits for anybody: every queue is bounded, and a full one is counted.
#![forbid(unsafe_code)]

pub mod bell;
pub mod counters;
pub mod errands;
pub mod handover;
pub mod neighbours;
pub mod snapshot;
pub mod sources;

use counters::WorkerBoard;
use errands::{Errands, Reports};
use handover::Handover;
use neighbours::NextHops;
use routing::Table;
use snapshot::Snapshot;
use sources::AllowList;
use std::sync::Arc;

/// Most peers of a node: each has counters from the start, so that peers may come and go.
pub const MAX_PEERS: usize = 16_384;

/// Everything that workers and the control thread share.
#[derive(Debug)]
pub struct Exchange {
    /// The peer table.
    pub table: Snapshot<Table>,
    /// Next hops of addresses in use.
    pub next_hops: Snapshot<NextHops>,
    /// Who may send, for packets that did not pass the XDP program.
    pub allow: Snapshot<AllowList>,
    /// From workers to control.
    pub reports: Reports,
    /// From control to each worker.
    pub errands: Vec<Errands>,
    /// Between workers.
    pub handover: Handover,
    /// What each worker counted.
    pub boards: Vec<WorkerBoard>,
}

impl Exchange {
    /// For a number of workers.
    ///
    /// # Errors
    /// The kernel gave no event descriptor.
    pub fn new(workers: usize) -> std::io::Result<Arc<Self>> {
        let errands = (0..workers).map(|_| Errands::new()).collect::<std::io::Result<_>>()?;
        Ok(Arc::new(Self {
            table: Snapshot::default(),
            next_hops: Snapshot::default(),
            allow: Snapshot::default(),
            reports: Reports::new(),
            errands,
            handover: Handover::new(workers),
            boards: (0..workers).map(|_| WorkerBoard::new(MAX_PEERS)).collect(),
        }))
    }
}
