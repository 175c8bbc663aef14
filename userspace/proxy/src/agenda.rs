//! When to look at what again: a heap of deadlines.
//!
//! An entry may be stale (its owner gone, or its deadline moved later); whoever handles it checks.
//! Each owner keeps at most a few entries, since a new one is queued only for an earlier deadline.

use alloc::collections::BinaryHeap;
use core::cmp::Reverse;
use sip::transaction::Time;

/// Something with a deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Due {
    /// A context: slot and serial number.
    Context(usize, u32),
    /// A dialog: its key.
    Dialog(u64),
    /// A probe: client slot and nonce.
    Probe(u32, u32),
}

/// All deadlines of a worker.
#[derive(Default)]
pub(crate) struct Agenda(BinaryHeap<Reverse<(Time, Due)>>);

impl Agenda {
    pub(crate) fn add(&mut self, at: Time, due: Due) {
        self.0.push(Reverse((at, due)));
    }

    /// Takes the next entry that is due.
    pub(crate) fn pop(&mut self, now: Time) -> Option<Due> {
        let Reverse((at, _)) = self.0.peek()?;
        if *at > now {
            return None;
        }
        self.0.pop().map(|Reverse((_, due))| due)
    }

    pub(crate) fn next_deadline(&self) -> Option<Time> {
        self.0.peek().map(|Reverse((at, _))| *at)
    }
}
