//! Packets that belong to another worker: a bounded ring of filled buffers for every ordered pair of
//! workers, and a ring of empty ones back. Order within a pair is kept; nothing is allocated.

use crossbeam_queue::ArrayQueue;
use std::net::SocketAddr;

/// Packets in flight between two workers at most.
const DEPTH: usize = 1024;
/// Largest payload that fits a parcel; larger ones arrive by kernel sockets and are allocated.
const SIZE: usize = 2048;

/// A packet handed over.
#[derive(Debug)]
pub struct Parcel {
    /// Local address it arrived at.
    pub local: SocketAddr,
    /// Its sender.
    pub remote: SocketAddr,
    /// DSCP and ECN.
    pub tos: u8,
    /// Low 32 bits of the monotonic clock in nanoseconds when it arrived.
    pub seen_at: u32,
    /// Its payload.
    pub payload: Vec<u8>,
}

#[derive(Debug)]
struct Lane {
    filled: ArrayQueue<Box<Parcel>>,
    empty: ArrayQueue<Box<Parcel>>,
}

impl Lane {
    fn new() -> Self {
        let lane = Self { filled: ArrayQueue::new(DEPTH), empty: ArrayQueue::new(DEPTH) };
        let nowhere = SocketAddr::from(([0, 0, 0, 0], 0));
        for _ in 0..DEPTH {
            let parcel = Parcel {
                local: nowhere,
                remote: nowhere,
                tos: 0,
                seen_at: 0,
                payload: Vec::with_capacity(SIZE),
            };
            let _ = lane.empty.push(Box::new(parcel));
        }
        lane
    }
}

/// All lanes of a node.
#[derive(Debug)]
pub struct Handover {
    workers: usize,
    /// Lane from `i` to `j` at `i * workers + j`; the diagonal is empty.
    lanes: Vec<Option<Lane>>,
}

impl Handover {
    pub(crate) fn new(workers: usize) -> Self {
        let lanes = (0..workers * workers).map(|i| (i / workers != i % workers).then(Lane::new)).collect();
        Self { workers, lanes }
    }

    /// Hands a packet over: `fill` writes it into an empty parcel. `false`: the lane is full.
    pub fn send(&self, from: usize, to: usize, fill: impl FnOnce(&mut Parcel)) -> bool {
        let Some(lane) = self.lane(from, to) else { return false };
        let Some(mut parcel) = lane.empty.pop() else { return false };
        fill(&mut parcel);
        lane.filled.push(parcel).is_ok()
    }

    /// Takes the next packet that `from` handed to `to`, lets it be used and gives the parcel back.
    pub fn receive(&self, from: usize, to: usize, take: impl FnOnce(&mut Parcel)) -> bool {
        let Some(lane) = self.lane(from, to) else { return false };
        let Some(mut parcel) = lane.filled.pop() else { return false };
        take(&mut parcel);
        if parcel.payload.capacity() > SIZE {
            parcel.payload = Vec::with_capacity(SIZE);
        }
        let _ = lane.empty.push(parcel);
        true
    }

    /// Whether nothing waits for worker `to`.
    pub fn is_empty(&self, to: usize) -> bool {
        (0..self.workers).filter_map(|from| self.lane(from, to)).all(|lane| lane.filled.is_empty())
    }

    fn lane(&self, from: usize, to: usize) -> Option<&Lane> {
        self.lanes.get(from * self.workers + to)?.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_order_is_bounded_and_gives_parcels_back() {
        let handover = Handover::new(2);
        for round in 0..3u16 {
            for n in 0..DEPTH as u16 {
                assert!(handover.send(0, 1, |p| p.tos = (n % 251) as u8), "round {round}");
            }
            assert!(!handover.send(0, 1, |_| {}));
            assert!(handover.is_empty(0) && !handover.is_empty(1));
            for n in 0..DEPTH as u16 {
                assert!(handover.receive(0, 1, |p| assert_eq!(p.tos, (n % 251) as u8)));
            }
            assert!(!handover.receive(0, 1, |_| {}));
        }
        assert!(!handover.send(0, 0, |_| {}));
    }

    #[test]
    fn loses_and_reorders_nothing_between_threads() {
        let handover = std::sync::Arc::new(Handover::new(2));
        let sender = {
            let handover = std::sync::Arc::clone(&handover);
            std::thread::spawn(move || {
                for n in 0..200_000u32 {
                    while !handover.send(0, 1, |p| p.seen_at = n) {
                        std::thread::yield_now();
                    }
                }
            })
        };
        let mut next = 0;
        while next < 200_000 {
            if !handover.receive(0, 1, |p| assert_eq!(p.seen_at, next)) {
                std::thread::yield_now();
                continue;
            }
            next += 1;
        }
        sender.join().unwrap();
    }
}
