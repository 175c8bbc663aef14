//! When to look at what again: a timer wheel of three levels.
//!
//! Adding and taking cost the same whatever the number of entries. An entry may be stale (its owner
//! gone, or its deadline moved later); whoever handles it checks. Each owner keeps at most a few
//! entries, since a new one is queued only for an earlier deadline.

use alloc::{collections::VecDeque, vec::Vec};
use core::time::Duration;
use sip::transaction::Time;

/// Something with a deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    /// A context: slot and serial number.
    Context(u32, u32),
    /// A call with media: its key.
    Call(u64),
    /// A probe: client slot and nonce.
    Probe(u32, u32),
}

const SLOTS: usize = 256;
const BITS: u32 = SLOTS.trailing_zeros();
/// Ticks of 1 ms, slots of 256 ms, slots of 65.5 s; what is later yet waits in the last slot.
const LEVELS: usize = 3;

#[derive(Clone, Copy, Debug)]
struct Entry {
    /// Milliseconds, rounded up: an entry is never early.
    at: u64,
    due: Due,
}

#[derive(Default)]
struct Level {
    slots: Vec<Vec<Entry>>,
    occupied: [u64; SLOTS / 64],
}

impl Level {
    fn add(&mut self, slot: usize, entry: Entry) {
        if self.slots.is_empty() {
            self.slots.resize_with(SLOTS, Vec::new);
        }
        self.slots[slot].push(entry);
        self.occupied[slot / 64] |= 1 << (slot % 64);
    }

    fn take(&mut self, slot: usize) -> Vec<Entry> {
        self.occupied[slot / 64] &= !(1 << (slot % 64));
        self.slots.get_mut(slot).map(core::mem::take).unwrap_or_default()
    }

    /// First occupied slot from `from` on.
    fn first(&self, from: usize) -> Option<usize> {
        let mut word = from / 64;
        let mut bits = self.occupied.get(word)? & (!0 << (from % 64));
        loop {
            if bits != 0 {
                return Some(word * 64 + bits.trailing_zeros() as usize);
            }
            word += 1;
            bits = *self.occupied.get(word)?;
        }
    }
}

/// All deadlines of a worker.
#[derive(Default)]
pub(crate) struct Agenda {
    /// The tick up to which everything was taken out of the wheel.
    cursor: u64,
    levels: [Level; LEVELS],
    ready: VecDeque<Due>,
}

impl Agenda {
    pub(crate) fn add(&mut self, at: Time, due: Due) {
        let at = at.as_micros().div_ceil(1000) as u64;
        self.place(Entry { at, due });
    }

    fn place(&mut self, entry: Entry) {
        if entry.at <= self.cursor {
            return self.ready.push_back(entry.due);
        }
        for (level, wheel) in (0u32..).zip(&mut self.levels) {
            let shift = level * BITS;
            let (now, then) = (self.cursor >> shift, entry.at >> shift);
            // On the lowest level within the same round only, so that a slot is one tick.
            let fits = if level == 0 { now >> BITS == then >> BITS } else { then - now < SLOTS as u64 };
            if fits || level as usize == LEVELS - 1 {
                let slot = if fits { then } else { now + SLOTS as u64 - 1 };
                return wheel.add(slot as usize % SLOTS, entry);
            }
        }
    }

    /// Takes the next entry that is due.
    pub(crate) fn pop(&mut self, now: Time) -> Option<Due> {
        if self.ready.is_empty() {
            self.advance(now.as_millis() as u64);
        }
        self.ready.pop_front()
    }

    /// Moves everything up to a tick out of the wheel, in order.
    fn advance(&mut self, to: u64) {
        while self.cursor < to {
            let from = (self.cursor + 1) as usize % SLOTS;
            let round_ends = self.cursor | (SLOTS as u64 - 1);
            let next = if from == 0 { None } else { self.levels[0].first(from) };
            match next.map(|slot| (self.cursor & !(SLOTS as u64 - 1)) + slot as u64) {
                Some(tick) if tick <= to => {
                    self.cursor = tick;
                    self.empty_tick();
                }
                _ if round_ends < to => {
                    self.cursor = round_ends + 1;
                    self.descend();
                    self.empty_tick();
                }
                _ => self.cursor = to,
            }
        }
    }

    fn empty_tick(&mut self) {
        let entries = self.levels[0].take(self.cursor as usize % SLOTS);
        self.ready.extend(entries.into_iter().map(|e| e.due));
    }

    /// A round of the lowest level begins: brings down what belongs to it.
    fn descend(&mut self) {
        for level in (1..LEVELS).rev() {
            let shift = BITS * level as u32;
            if self.cursor.trailing_zeros() >= shift {
                let slot = (self.cursor >> shift) as usize % SLOTS;
                for entry in self.levels[level].take(slot) {
                    self.place(entry);
                }
            }
        }
    }

    /// When to call [`Agenda::pop`] next: not later than the first entry is due.
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        if !self.ready.is_empty() {
            return Some(Time::ZERO);
        }
        let firsts = (0u32..).zip(&self.levels).filter_map(|(level, wheel)| {
            let shift = level * BITS;
            let now = self.cursor >> shift;
            let base = now & !(SLOTS as u64 - 1);
            let here = (now - base) as usize;
            // Slots at or before this one belong to the next round; the lowest level has none there.
            let ahead = wheel.first(here + 1).map(|slot| base + slot as u64);
            let slot = ahead.or_else(|| Some(base + SLOTS as u64 + wheel.first(0)? as u64));
            slot.map(|slot| Duration::from_millis(slot << shift))
        });
        // A slot of an upper level that begins sooner may hold something sooner.
        firsts.min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    #[test]
    fn every_entry_comes_once_in_order_and_never_early() {
        let mut agenda = Agenda::default();
        let mut now = MS(123_456);
        let mut state = 1u64;
        let mut random = |n: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % n
        };
        let mut waiting = alloc::collections::BTreeMap::new();
        let (mut id, mut last) = (0, Duration::ZERO);
        for round in 0..20_000 {
            for _ in 0..random(4) {
                let scale = [300, 3_000, 70_000, 400_000, 40_000_000][random(5) as usize];
                let at = now + MS(random(scale)) + Duration::from_micros(random(1000));
                waiting.insert(id, at);
                agenda.add(at, Due::Call(id));
                id += 1;
            }
            now += MS(random(if round % 100 == 0 { 100_000 } else { 50 }));
            let promised = agenda.next_deadline();
            while let Some(Due::Call(id)) = agenda.pop(now) {
                let at = waiting.remove(&id).expect("once");
                assert!(at <= now, "{at:?} at {now:?}");
                assert!(promised.is_some_and(|p| p <= at + MS(1)), "{promised:?} promised, {at:?} due");
                last = at;
            }
            let late = waiting.values().filter(|at| **at + MS(1) <= now).count();
            assert_eq!(late, 0, "round {round}");
        }
        assert!(last > Duration::ZERO && id > 10_000);
        now += MS(80_000_000);
        while let Some(Due::Call(id)) = agenda.pop(now) {
            waiting.remove(&id).expect("once");
        }
        assert!(waiting.is_empty());
        assert_eq!(agenda.next_deadline(), None);
    }
}
