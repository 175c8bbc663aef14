//! What became of the packets that were sent.

use hdrhistogram::Histogram;
use std::time::Duration;

/// Longest latency that the histogram tells apart.
const LONGEST: Duration = Duration::from_secs(10);

/// Packets by fate, and how long they took.
#[derive(Clone, Debug)]
pub struct Account {
    /// Sent.
    pub sent: u64,
    /// Not sent because the generator itself had no room: the rate was not reached.
    pub unsent: u64,
    /// Answers that the generator had no room for.
    pub unanswered: u64,
    /// Arrived, each counted once.
    pub arrived: u64,
    /// Arrived once more.
    pub repeated: u64,
    /// Arrived after one of the same flow that was sent later.
    pub late: u64,
    /// From sending to arrival, in nanoseconds.
    pub latency: Histogram<u64>,
    /// Time that it took to send them.
    pub took: Duration,
    flows: Vec<Seen>,
}

/// What was seen of a flow.
#[derive(Clone, Debug, Default)]
struct Seen {
    next: u32,
    /// Numbers that have arrived, one bit each.
    numbers: Vec<u64>,
}

impl Account {
    /// For so many flows.
    ///
    /// # Panics
    /// Never: the bounds are constants that the library accepts.
    pub fn new(flows: usize) -> Self {
        let latency = Histogram::new_with_bounds(1, LONGEST.as_nanos() as u64, 3).expect("constant bounds");
        Self {
            sent: 0,
            unsent: 0,
            unanswered: 0,
            arrived: 0,
            repeated: 0,
            late: 0,
            latency,
            took: Duration::ZERO,
            flows: vec![Seen::default(); flows],
        }
    }

    /// A packet arrived; `false`: it is none of ours.
    pub fn arrive(&mut self, flow: u32, number: u32, latency: u64) -> bool {
        let Some(seen) = self.flows.get_mut(flow as usize) else { return false };
        let (word, bit) = (number as usize / 64, 1 << (number % 64));
        if word >= seen.numbers.len() {
            seen.numbers.resize(word + 64, 0);
        }
        if seen.numbers[word] & bit != 0 {
            self.repeated += 1;
            return true;
        }
        seen.numbers[word] |= bit;
        self.late += u64::from(number < seen.next);
        seen.next = seen.next.max(number + 1);
        self.arrived += 1;
        self.latency.saturating_record(latency);
        true
    }

    /// Sent, but not arrived.
    pub fn lost(&self) -> u64 {
        self.sent.saturating_sub(self.arrived)
    }

    /// Packets a second that were sent.
    pub fn rate(&self) -> f64 {
        self.sent as f64 / self.took.as_secs_f64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_packet_is_counted_once_and_under_its_fate() {
        let mut account = Account::new(2);
        account.sent = 6;
        for (flow, number) in [(0, 0), (0, 2), (0, 1), (0, 2), (1, 0)] {
            assert!(account.arrive(flow, number, 1000));
        }
        assert!(!account.arrive(7, 0, 0));
        assert_eq!((account.arrived, account.repeated, account.late, account.lost()), (4, 1, 1, 2));
        assert_eq!(account.latency.len(), 4);
    }
}
