//! What workers counted, readable by others: each worker writes its own board, nobody else does.

use hdrhistogram::Histogram;
use proxy::{
    Counter, PeerTally, Tally,
    report::{COUNTERS, MEDIA_WORDS, MediaTally},
};
use routing::PeerId;
use std::{
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// Counters of one peer, in one cache line: a call's peer is rarely that of the call before.
#[derive(Debug, Default)]
#[repr(align(64))]
struct PeerBoard([AtomicU64; 6]);

/// Counters of one worker. Aligned, so that no two workers write one cache line.
#[derive(Debug)]
#[repr(align(128))]
pub struct WorkerBoard {
    counters: [AtomicU64; COUNTERS],
    drops: [AtomicU64; packet::drop::COUNT],
    peers: Vec<PeerBoard>,
    media: [AtomicU64; MEDIA_WORDS],
    gauges: [AtomicU64; Gauge::ALL.len()],
    /// Time in the node, in nanoseconds; written a few times a second.
    latency: Mutex<Histogram<u64>>,
    /// Time from a change to the use of the table that it led to, in nanoseconds; written with each table.
    publication: Mutex<Histogram<u64>>,
}

/// Values of the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Gauge {
    /// Transactions that exist.
    Transactions,
    /// Media streams that exist.
    Sessions,
    /// Pairs of media ports in use.
    PortsInUse,
    /// Pairs of media ports that rest before they are used again.
    PortsResting,
    /// Pairs of media ports, all of them.
    Ports,
    /// Generation of the table in use.
    TableGeneration,
    /// Turns of the worker's loop: stands still when the worker does.
    Turns,
    /// Packets that the kernel dropped for want of a free frame or ring slot.
    KernelDrops,
    /// Packet buffers that are lost: always zero, or there is a fault.
    FramesMissing,
}

impl Gauge {
    /// All gauges in order.
    pub const ALL: [Self; 9] = [
        Self::Transactions,
        Self::Sessions,
        Self::PortsInUse,
        Self::PortsResting,
        Self::Ports,
        Self::TableGeneration,
        Self::Turns,
        Self::KernelDrops,
        Self::FramesMissing,
    ];

    /// What it shows, in a sentence.
    pub const fn help(self) -> &'static str {
        match self {
            Self::Transactions => "SIP transactions that exist",
            Self::Sessions => "Media streams that exist",
            Self::PortsInUse => "Pairs of media ports in use",
            Self::PortsResting => "Pairs of media ports that rest before they are used again",
            Self::Ports => "Pairs of media ports, all of them",
            Self::TableGeneration => "Generation of the peer table in use",
            Self::Turns => "Turns of the worker's loop: stands still when the worker does",
            Self::KernelDrops => "Packets that the kernel dropped for want of a free frame or ring slot",
            Self::FramesMissing => "Packet buffers that are lost: always zero, or there is a fault",
        }
    }

    /// Name, as shown to people and in metrics.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Transactions => "transactions",
            Self::Sessions => "media_sessions",
            Self::PortsInUse => "media_ports_in_use",
            Self::PortsResting => "media_ports_resting",
            Self::Ports => "media_ports",
            Self::TableGeneration => "table_generation",
            Self::Turns => "turns",
            Self::KernelDrops => "kernel_drops",
            Self::FramesMissing => "frames_missing",
        }
    }
}

/// Longest time in the node that the histogram tells apart: 10 s.
const MAX_LATENCY: u64 = 10_000_000_000;

/// A histogram for times in the node, in nanoseconds.
///
/// # Panics
/// Never: the bounds are constants that the library accepts.
pub fn latency_histogram() -> Histogram<u64> {
    let mut histogram = Histogram::new_with_bounds(1, MAX_LATENCY, 2).expect("constant bounds");
    histogram.auto(false);
    histogram
}

impl WorkerBoard {
    pub(crate) fn new(peers: usize) -> Self {
        Self {
            counters: std::array::from_fn(|_| AtomicU64::new(0)),
            drops: std::array::from_fn(|_| AtomicU64::new(0)),
            peers: (0..peers).map(|_| PeerBoard::default()).collect(),
            media: std::array::from_fn(|_| AtomicU64::new(0)),
            gauges: std::array::from_fn(|_| AtomicU64::new(0)),
            latency: Mutex::new(latency_histogram()),
            publication: Mutex::new(latency_histogram()),
        }
    }

    /// The worker shows what it counted.
    pub fn publish(&self, tally: &mut Tally) {
        let store = |to: &AtomicU64, value: u64| to.store(value, Ordering::Relaxed);
        self.counters.iter().zip(tally.counters).for_each(|(to, value)| store(to, value));
        self.drops.iter().zip(tally.drops).for_each(|(to, value)| store(to, value));
        self.media.iter().zip(tally.media.words()).for_each(|(to, value)| store(to, value));
        tally.take_touched(|id, peer| {
            let values = [peer.attempts, peer.answered, peer.failed, peer.active, peer.alive, peer.lost];
            if let Some(to) = self.peers.get(usize::from(id.0)) {
                to.0.iter().zip(values).for_each(|(to, value)| store(to, value));
            }
        });
    }

    /// The worker sets a gauge.
    pub fn set(&self, gauge: Gauge, value: u64) {
        self.gauges[gauge as usize].store(value, Ordering::Relaxed);
    }

    /// One of its counters.
    pub fn counter(&self, counter: Counter) -> u64 {
        self.counters[counter as usize].load(Ordering::Relaxed)
    }

    /// What it counted of media.
    pub fn media(&self) -> MediaTally {
        MediaTally::from_words(std::array::from_fn(|i| self.media[i].load(Ordering::Relaxed)))
    }

    /// A gauge's value.
    pub fn gauge(&self, gauge: Gauge) -> u64 {
        self.gauges[gauge as usize].load(Ordering::Relaxed)
    }

    /// The worker adds measured times and clears its own histogram; `false`: somebody reads just now,
    /// try again later.
    pub fn add_latency(&self, measured: &mut Histogram<u64>) -> bool {
        let Ok(mut shared) = self.latency.try_lock() else { return false };
        let _ = shared.add(&*measured);
        measured.reset();
        true
    }

    /// The worker has taken up a table this long after the change that led to it.
    pub fn add_publication(&self, took: Duration) {
        // Somebody who reads just now is not waited for.
        if let Ok(mut times) = self.publication.try_lock() {
            times.saturating_record(took.as_nanos() as u64);
        }
    }

    /// Adds the times that this worker's tables took to others.
    pub fn add_publication_to(&self, times: &mut Histogram<u64>) {
        if let Ok(own) = self.publication.lock() {
            let _ = times.add(&*own);
        }
    }

    /// Adds what this worker counted to a sum.
    pub fn add_to(&self, sum: &mut Tally) {
        let load = |from: &AtomicU64| from.load(Ordering::Relaxed);
        sum.counters.iter_mut().zip(&self.counters).for_each(|(to, from)| *to += load(from));
        sum.drops.iter_mut().zip(&self.drops).for_each(|(to, from)| *to += load(from));
        sum.media.add(&self.media());
        sum.peers.resize(self.peers.len().max(sum.peers.len()), PeerTally::default());
        for (to, from) in sum.peers.iter_mut().zip(&self.peers) {
            to.attempts += load(&from.0[0]);
            to.answered += load(&from.0[1]);
            to.failed += load(&from.0[2]);
            to.active += load(&from.0[3]);
            to.alive += load(&from.0[4]);
            to.lost += load(&from.0[5]);
        }
    }

    /// Requests to a peer that showed it alive, and that were lost on it.
    pub fn evidence(&self, peer: PeerId) -> (u64, u64) {
        let load =
            |i: usize| self.peers.get(usize::from(peer.0)).map_or(0, |p| p.0[i].load(Ordering::Relaxed));
        (load(4), load(5))
    }

    /// Adds the times this worker measured to a sum.
    pub fn add_latency_to(&self, latency: &mut Histogram<u64>) {
        if let Ok(own) = self.latency.lock() {
            let _ = latency.add(&*own);
        }
    }
}
