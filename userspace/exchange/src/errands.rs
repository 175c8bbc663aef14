//! What control asks of workers, and what workers tell control.

use crate::bell::Bell;
use crossbeam_queue::ArrayQueue;
use proxy::{Report, calls::MediaReport, journal::Record};
use routing::PeerId;
use sip::branch::Branch;
use std::{
    io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};
use tokio::sync::Notify;

/// Something a worker does for the control thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Errand {
    /// Send one OPTIONS probe.
    Probe {
        /// To this peer.
        peer: PeerId,
        /// And wait this long.
        timeout: Duration,
    },
    /// Tell what became of calls.
    Explain {
        /// Number of the question, for the answer.
        question: u64,
        /// Which calls.
        calls: Calls,
    },
    /// Tell about media.
    Media {
        /// Number of the question, for the answer.
        question: u64,
        /// Of the call with this Call-ID; else of any.
        call_id: Option<Arc<[u8]>>,
        /// Of so many dialogs at most.
        count: usize,
    },
    /// The network says that a request did not arrive.
    Unreachable {
        /// Its branch.
        branch: Branch,
        /// Where it did not arrive.
        to: SocketAddr,
    },
    /// Take up the newest snapshots at once, although no packet comes.
    Look,
    /// End the worker's loop.
    Stop,
}

/// Which calls to tell about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Calls {
    /// Those of a Call-ID.
    Of(Arc<[u8]>),
    /// The latest ones.
    Latest(usize),
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
#[derive(Clone, Debug)]
pub enum Notice {
    /// Evidence about a peer.
    Peer(Report),
    /// A packet had to take the slow path: the next hop of this address is not known.
    Unresolved(IpAddr),
    /// A worker's answer to [`Errand::Explain`].
    Explained {
        /// Number of the question.
        question: u64,
        /// Worker.
        worker: usize,
        /// What it knows.
        records: Vec<Record>,
    },
    /// A worker's answer to [`Errand::Media`].
    Media {
        /// Number of the question.
        question: u64,
        /// Worker.
        worker: usize,
        /// When it was asked.
        now: Duration,
        /// What it knows.
        calls: Vec<MediaReport>,
    },
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
