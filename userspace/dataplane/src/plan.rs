//! What to start: the checked configuration as the data path needs it.

use packet::ethernet::Mac;
use std::{net::SocketAddr, ops::RangeInclusive, time::Duration};

/// How packets get in and out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackendKind {
    /// AF_XDP sockets and the XDP program.
    AfXdp,
    /// Kernel UDP sockets, without privileges.
    Udp,
}

/// How the XDP program is attached and the sockets are bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XdpMode {
    /// The best the driver can do.
    Auto,
    /// Native XDP, zero-copy sockets.
    ZeroCopy,
    /// Native XDP, copying sockets.
    Copy,
    /// Generic XDP: any driver, slow.
    Generic,
}

/// One interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InterfacePlan {
    /// Device name.
    pub device: String,
    /// Its index in the kernel.
    pub index: u32,
    /// Its MAC address.
    pub mac: Mac,
    /// Its MTU in bytes.
    pub mtu: usize,
    /// VLAN id of its packets; `None`: untagged.
    pub vlan: Option<u16>,
    /// XDP mode.
    pub mode: XdpMode,
}

/// One worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerPlan {
    /// Core it is pinned to.
    pub core: Option<usize>,
    /// Its receive queues: index of the interface, and the queue.
    pub queues: Vec<(usize, u32)>,
}

/// Media of a node.
#[derive(Clone, Debug)]
pub struct MediaPlan {
    /// How it is anchored; its ports are cut into a slice for each worker.
    pub config: proxy::MediaConfig,
    /// Traffic class of relayed packets: DSCP; `None`: that of the received packet.
    pub dscp: Option<u8>,
}

/// A whole node.
#[derive(Clone, Debug)]
pub struct NodePlan {
    /// Backend.
    pub backend: BackendKind,
    /// Interfaces; empty for kernel sockets.
    pub interfaces: Vec<InterfacePlan>,
    /// Workers.
    pub workers: Vec<WorkerPlan>,
    /// SIP listeners.
    pub listeners: Vec<SocketAddr>,
    /// Media.
    pub media: MediaPlan,
    /// Most transactions of each worker.
    pub max_transactions: usize,
    /// Key of the Record-Route cookies.
    pub token_key: proxy::TokenKey,
    /// Entries of each AF_XDP ring; a power of two.
    pub ring_size: u32,
    /// How long a worker without work looks for some before it sleeps; not with kernel sockets, whose packets
    /// only an event announces.
    pub spin: Duration,
}

/// The media ports as slices, one for each worker: a port names its owner.
#[derive(Clone, Debug)]
pub struct PortSlices {
    first: u16,
    last: u16,
    per_worker: u16,
    workers: u16,
}

impl PortSlices {
    /// Cuts a range into slices of whole pairs.
    pub fn new(ports: &RangeInclusive<u16>, workers: usize) -> Self {
        let workers = workers.max(1) as u16;
        let first = ports.start().saturating_add(ports.start() % 2);
        let per_worker = (ports.end().saturating_sub(first).saturating_add(1) / workers) & !1;
        Self { first, last: *ports.end(), per_worker, workers }
    }

    /// The slice of a worker.
    pub fn of(&self, worker: usize) -> RangeInclusive<u16> {
        if self.per_worker == 0 {
            // An empty range: no media on this worker.
            return RangeInclusive::new(1, 0);
        }
        let start = self.first + self.per_worker * worker as u16;
        start..=start + (self.per_worker - 1)
    }

    /// The worker that owns a port; `None` outside the range.
    #[inline]
    pub fn owner(&self, port: u16) -> Option<usize> {
        if port < self.first || port > self.last || self.per_worker == 0 {
            return None;
        }
        let worker = (port - self.first) / self.per_worker;
        (worker < self.workers).then_some(usize::from(worker))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_port_of_a_slice_names_its_worker() {
        for (range, workers) in
            [(20_000..=20_099, 2), (20_001..=20_100, 3), (1_024..=65_535, 7), (10..=11, 2)]
        {
            let slices = PortSlices::new(&range, workers);
            for worker in 0..workers {
                for port in slices.of(worker) {
                    assert_eq!(slices.owner(port), Some(worker));
                    assert!(range.contains(&port));
                }
            }
            assert_eq!(slices.owner(range.start() - 1), None);
        }
    }
}
