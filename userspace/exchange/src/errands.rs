//! What control asks of workers, and what workers tell control.

use crate::bell::Bell;
use crossbeam_queue::ArrayQueue;
use proxy::Report;
use routing::PeerId;
use std::{io, net::IpAddr, time::Duration};
use tokio::sync::Notify;

/// Something a worker does for the control thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Errand {
    /// Send one OPTIONS probe.
    Probe {
        /// To this peer.
        peer: PeerId,
        /// And wait this long.
        timeout: Duration,
    },
    /// Take up the newest snapshots at once, although no packet comes.
    Look,
    /// End the worker's loop.
    Stop,
}

const ERRANDS: usize = 4096;
const REPORTS: usize = 65_536;

/// Errands of one worker.
#[derive(Debug)]
pub struct Errands {
    queue: ArrayQueue<Errand>,
    /// Rung for errands and for packets handed over.
    pub bell: Bell,
}

impl Errands {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self { queue: ArrayQueue::new(ERRANDS), bell: Bell::new()? })
    }

    /// Queues an errand and wakes the worker; `false`: its queue is full, the worker is stuck.
    pub fn send(&self, errand: Errand) -> bool {
        let queued = self.queue.push(errand).is_ok();
        self.bell.ring();
        queued
    }

    /// Takes the next errand.
    pub fn take(&self) -> Option<Errand> {
        self.queue.pop()
    }

    /// Whether none is queued.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }
}

/// What a worker tells the control thread.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Notice {
    /// Evidence about a peer.
    Peer(Report),
    /// A packet had to take the slow path: the next hop of this address is not known.
    Unresolved(IpAddr),
}

/// Notices of all workers.
#[derive(Debug)]
pub struct Reports {
    queue: ArrayQueue<Notice>,
    arrived: Notify,
}

impl Reports {
    pub(crate) fn new() -> Self {
        Self { queue: ArrayQueue::new(REPORTS), arrived: Notify::new() }
    }

    /// Queues a notice and wakes the control thread; `false`: the queue is full and the notice lost.
    pub fn send(&self, notice: Notice) -> bool {
        let queued = self.queue.push(notice).is_ok();
        self.arrived.notify_one();
        queued
    }

    /// Takes the next notice.
    pub fn take(&self) -> Option<Notice> {
        self.queue.pop()
    }

    /// Waits for a notice sent since the last wait.
    pub async fn arrived(&self) {
        self.arrived.notified().await;
    }
}
