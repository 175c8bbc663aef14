//! When to probe whom: every peer at its own interval, jittered, never all at once.

use routing::PeerId;
use std::{cmp::Reverse, collections::BinaryHeap, time::Duration};

/// The plan of all probes.
pub struct Schedule {
    due: BinaryHeap<Reverse<(Duration, PeerId, u32)>>,
    /// By number of the peer: the plan in force. What was planned under an older one is void.
    plans: Vec<u32>,
    random: u64,
}

impl Schedule {
    /// An empty one.
    pub fn new(seed: u64) -> Self {
        Self { due: BinaryHeap::new(), plans: Vec::new(), random: seed | 1 }
    }

    /// Begins to probe peers, spread over a time.
    pub fn start(&mut self, now: Duration, peers: &[PeerId], spread: Duration) {
        for (i, peer) in (0u32..).zip(peers) {
            self.plan(*peer, now + spread * i / peers.len() as u32);
        }
    }

    /// Stops probing a peer.
    pub fn stop(&mut self, peer: PeerId) {
        *self.plan_of(peer) += 1;
    }

    /// Plans the next probe of a peer, in place of the one planned before.
    pub fn plan(&mut self, peer: PeerId, at: Duration) {
        let plan = self.plan_of(peer);
        *plan += 1;
        let entry = (at, peer, *plan);
        self.due.push(Reverse(entry));
    }

    /// Takes the next peer to probe, and plans its following probe: `interval` gives the time between
    /// them and its random part in percent; none: no more probes.
    pub fn pop(
        &mut self,
        now: Duration,
        interval: impl Fn(PeerId) -> Option<(Duration, u8)>,
    ) -> Option<PeerId> {
        loop {
            let Reverse((at, peer, plan)) = *self.due.peek()?;
            if at > now {
                return None;
            }
            self.due.pop();
            if *self.plan_of(peer) != plan {
                continue;
            }
            let Some((interval, jitter_percent)) = interval(peer) else { continue };
            // From the planned time, so that delays do not add up; but not into the past.
            let next = (at + self.jittered(interval, jitter_percent)).max(now);
            self.due.push(Reverse((next, peer, plan)));
            return Some(peer);
        }
    }

    /// When the next probe is due.
    pub fn next(&self) -> Option<Duration> {
        self.due.peek().map(|Reverse((at, ..))| *at)
    }

    fn plan_of(&mut self, peer: PeerId) -> &mut u32 {
        let index = usize::from(peer.0);
        if index >= self.plans.len() {
            self.plans.resize(index + 1, 0);
        }
        &mut self.plans[index]
    }

    fn jittered(&mut self, interval: Duration, percent: u8) -> Duration {
        // xorshift64: only spreads load, nothing depends on its quality.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let part = (self.random >> 11) as f64 / (1u64 << 53) as f64 * 2.0 - 1.0;
        interval.mul_f64(1.0 + part * f64::from(percent) / 100.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: fn(PeerId) -> Option<(Duration, u8)> = |_| Some((Duration::from_secs(5), 20));

    #[test]
    fn a_thousand_peers_are_probed_on_time_and_never_in_a_burst() {
        let mut schedule = Schedule::new(42);
        let peers: Vec<_> = (0..1000).map(PeerId).collect();
        schedule.start(Duration::ZERO, &peers, Duration::from_secs(5));
        let mut last = vec![None; 1000];
        let mut busiest = 0;
        for tick in 0..60_000u64 {
            let now = Duration::from_millis(tick);
            let mut burst = 0;
            while let Some(peer) = schedule.pop(now, INTERVAL) {
                burst += 1;
                if let Some(before) = last[usize::from(peer.0)].replace(now) {
                    let gap: Duration = now - before;
                    assert!((3_998..=6_002).contains(&gap.as_millis()), "{gap:?}");
                }
            }
            busiest = busiest.max(burst);
        }
        assert!(last.iter().all(Option::is_some));
        assert!(busiest < 10, "{busiest} probes in one millisecond");
    }

    #[test]
    fn a_new_plan_voids_the_old_one() {
        let mut schedule = Schedule::new(1);
        let ms = Duration::from_millis;
        schedule.start(ms(0), &[PeerId(0), PeerId(1)], ms(100));
        schedule.stop(PeerId(1));
        assert_eq!(schedule.pop(ms(60), INTERVAL), Some(PeerId(0)));
        assert_eq!(schedule.pop(ms(60), INTERVAL), None);
        schedule.plan(PeerId(0), ms(61));
        assert_eq!(schedule.pop(ms(61), INTERVAL), Some(PeerId(0)));
        let mut count = 0;
        (0..7_000).for_each(|t| count += u32::from(schedule.pop(ms(t), INTERVAL).is_some()));
        assert!((1..=2).contains(&count), "{count} probes in seven seconds");
    }
}
