//! When to probe whom: every peer at its service's interval, jittered, never all at once.

use health::Policy;
use routing::PeerId;
use std::{cmp::Reverse, collections::BinaryHeap, time::Duration};

/// The plan of all probes.
pub struct Schedule {
    due: BinaryHeap<Reverse<(Duration, PeerId)>>,
    policies: Vec<Policy>,
    random: u64,
}

impl Schedule {
    /// First probes are spread over the first interval, at most one second.
    pub fn new(now: Duration, policies: Vec<Policy>, seed: u64) -> Self {
        let mut schedule = Self { due: BinaryHeap::new(), policies, random: seed | 1 };
        let count = schedule.policies.len().max(1) as u32;
        for i in 0..schedule.policies.len() {
            let spread = schedule.policies[i].interval.min(Duration::from_secs(1));
            schedule.due.push(Reverse((now + spread * i as u32 / count, PeerId(i as u16))));
        }
        schedule
    }

    /// Takes the next peer to probe, and plans its following probe.
    pub fn pop(&mut self, now: Duration) -> Option<(PeerId, Duration)> {
        let Reverse((at, peer)) = *self.due.peek()?;
        if at > now {
            return None;
        }
        self.due.pop();
        let policy = self.policies[usize::from(peer.0)];
        // From the planned time, so that delays do not add up; but not into the past.
        let next = (at + self.jittered(&policy)).max(now);
        self.due.push(Reverse((next, peer)));
        Some((peer, policy.timeout))
    }

    /// When the next probe is due.
    pub fn next(&self) -> Option<Duration> {
        self.due.peek().map(|Reverse((at, _))| *at)
    }

    fn jittered(&mut self, policy: &Policy) -> Duration {
        // xorshift64: only spreads load, nothing depends on its quality.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let part = (self.random >> 11) as f64 / (1u64 << 53) as f64 * 2.0 - 1.0;
        policy.interval.mul_f64(1.0 + part * f64::from(policy.jitter_percent) / 100.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thousand_peers_are_probed_on_time_and_never_in_a_burst() {
        let policy = Policy {
            interval: Duration::from_secs(5),
            jitter_percent: 20,
            timeout: Duration::from_secs(1),
            fall: 3,
            rise: 2,
            passive_fall: 0,
        };
        let mut schedule = Schedule::new(Duration::ZERO, vec![policy; 1000], 42);
        let mut last = vec![None; 1000];
        let mut busiest = 0;
        for tick in 0..60_000u64 {
            let now = Duration::from_millis(tick);
            let mut burst = 0;
            while let Some((peer, _)) = schedule.pop(now) {
                burst += 1;
                if let Some(before) = last[usize::from(peer.0)].replace(now) {
                    let gap: Duration = now - before;
                    assert!((3_998..=6_002).contains(&gap.as_millis()), "{gap:?}");
                }
            }
            busiest = busiest.max(burst);
        }
        assert!(last.iter().all(Option::is_some));
        assert!(busiest < 20, "{busiest} probes in one millisecond");
    }
}
