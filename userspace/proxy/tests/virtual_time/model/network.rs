//! Messages under way and alarms, in order of time.

use std::{cmp::Reverse, collections::BinaryHeap, time::Duration};

/// Reproducible random numbers.
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(super) fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    pub(super) fn percent(&mut self, n: u64) -> bool {
        self.below(100) < n
    }

    pub(super) fn ms(&mut self, from: u64, to: u64) -> Duration {
        Duration::from_millis(from + self.below(to - from))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Node {
    Caller,
    Proxy,
    Peer(usize),
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Event {
    /// The caller starts a call.
    Place(usize),
    /// A peer is found dead, or alive again.
    Health(usize, bool),
    /// A timer of the caller, for one of its transactions.
    CallerTimer(String),
    /// A timer of a peer.
    PeerTimer(usize, String),
    /// A message arrives.
    Deliver { from: Node, to: Node, text: String },
}

pub(super) struct Network {
    events: BinaryHeap<Reverse<(Duration, u64, Event)>>,
    order: u64,
    random: Random,
    pub(super) loss_percent: u64,
}

impl Network {
    pub(super) fn new(random: Random) -> Self {
        Self { events: BinaryHeap::new(), order: 0, random, loss_percent: 0 }
    }

    pub(super) fn at(&mut self, at: Duration, event: Event) {
        self.order += 1;
        self.events.push(Reverse((at, self.order, event)));
    }

    /// Sends a message: it may be lost or come twice, and overtake or be overtaken.
    pub(super) fn send(&mut self, now: Duration, from: Node, to: Node, text: String) {
        if self.random.percent(self.loss_percent) {
            return;
        }
        if self.random.percent(3) {
            let delay = self.random.ms(1, 400);
            self.at(now + delay, Event::Deliver { from, to, text: text.clone() });
        }
        let delay = if self.random.percent(10) { self.random.ms(1, 300) } else { self.random.ms(1, 20) };
        self.at(now + delay, Event::Deliver { from, to, text });
    }

    pub(super) fn next(&self) -> Option<Duration> {
        self.events.peek().map(|Reverse((at, ..))| *at)
    }

    pub(super) fn pop(&mut self, now: Duration) -> Option<Event> {
        if self.next()? > now {
            return None;
        }
        self.events.pop().map(|Reverse((.., event))| event)
    }
}
