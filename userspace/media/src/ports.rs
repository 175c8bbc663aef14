//! Port pairs of one local address: had and given back in constant time, and rested in between.

use crate::Time;
use alloc::collections::VecDeque;
use core::time::Duration;

/// The even RTP port of a pair; RTCP is the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortPair(u16);

impl PortPair {
    pub(crate) fn new(rtp: u16) -> Self {
        Self(rtp)
    }

    /// RTP port.
    pub fn rtp(self) -> u16 {
        self.0
    }

    /// RTCP port.
    pub fn rtcp(self) -> u16 {
        self.0 + 1
    }
}

/// Why no port pair can be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoPort {
    /// Every pair is in use.
    AllInUse,
    /// Every pair that is not in use was given back so lately that packets of its old call may come.
    Resting,
    /// The node has no media address of that name.
    NoAddress,
}

/// Pairs by number, from zero.
#[derive(Debug)]
pub(crate) struct Pool {
    ready: VecDeque<u16>,
    /// Given back, the longest ago first.
    resting: VecDeque<(u16, Time)>,
    rest: Duration,
}

impl Pool {
    /// All of `pairs`, in an order that nobody outside can guess.
    pub(crate) fn new(pairs: u16, rest: Duration, mut seed: u64) -> Self {
        let mut ready: VecDeque<u16> = (0..pairs).collect();
        for i in (1..ready.len()).rev() {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ready.swap(i, (seed >> 33) as usize % (i + 1));
        }
        Self { ready, resting: VecDeque::with_capacity(usize::from(pairs)), rest }
    }

    pub(crate) fn take(&mut self, now: Time) -> Result<u16, NoPort> {
        // At least as many wake up as are taken, so that nobody ever waits for a long queue.
        for _ in 0..2 {
            match self.resting.front() {
                Some((pair, since)) if *since + self.rest <= now => {
                    self.ready.push_back(*pair);
                    self.resting.pop_front();
                }
                _ => break,
            }
        }
        let none = if self.resting.is_empty() { NoPort::AllInUse } else { NoPort::Resting };
        self.ready.pop_front().ok_or(none)
    }

    pub(crate) fn give_back(&mut self, now: Time, pair: u16) {
        self.resting.push_back((pair, now));
    }

    /// Undoes a [`Pool::take`] of which nobody was told.
    pub(crate) fn put_back(&mut self, pair: u16) {
        self.ready.push_front(pair);
    }

    /// Pairs that are not in use.
    pub(crate) fn unused(&self) -> usize {
        self.ready.len() + self.resting.len()
    }

    pub(crate) fn resting(&self) -> usize {
        self.resting.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn pairs_rest_and_all_come_back() {
        let mut pool = Pool::new(3, SECOND * 5, 7);
        let mut taken: alloc::vec::Vec<_> = (0..3).map(|_| pool.take(SECOND).unwrap()).collect();
        assert_eq!(pool.take(SECOND), Err(NoPort::AllInUse));
        taken.sort_unstable();
        assert_eq!(taken, [0, 1, 2]);
        pool.give_back(SECOND, 1);
        assert_eq!(pool.take(SECOND * 5), Err(NoPort::Resting));
        assert_eq!((pool.unused(), pool.resting()), (1, 1));
        assert_eq!(pool.take(SECOND * 6), Ok(1));
    }

    #[test]
    fn a_hundred_thousand_times_taken_and_given_back_every_pair_is_there() {
        let mut pool = Pool::new(100, SECOND, 1);
        for n in 0..100_000u32 {
            let now = Duration::from_millis(u64::from(n) * 50);
            let pair = pool.take(now).unwrap();
            pool.give_back(now, pair);
        }
        assert_eq!(pool.unused(), 100);
    }
}
