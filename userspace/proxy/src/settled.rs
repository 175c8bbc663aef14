//! Transactions that only wait for repetitions, oldest first. RFC 3261 has them wait for 32 s; where that would
//! leave no room for new ones, those that have waited longest make it.

use crate::{
    context::{Contexts, current},
    waiting::ContextRef,
};
use alloc::collections::VecDeque;
use sip::transaction::Time;

/// The queue. It may name contexts that are gone.
#[derive(Default)]
pub(crate) struct Settled {
    queue: VecDeque<(Time, ContextRef)>,
}

impl Settled {
    /// A context has nothing more to do.
    pub(crate) fn add(&mut self, now: Time, context: ContextRef, contexts: &Contexts) {
        // Those at the front go first, so the queue stays about as long as there are settled contexts.
        while self
            .queue
            .front()
            .is_some_and(|(_, (id, serial))| current(contexts, *id as usize, *serial).is_none())
        {
            self.queue.pop_front();
        }
        self.queue.push_back((now, context));
    }

    /// Takes the oldest one that settled at `until` or before.
    pub(crate) fn take(&mut self, until: Time, contexts: &Contexts) -> Option<usize> {
        while let Some((at, (id, serial))) = self.queue.front().copied() {
            if at > until {
                return None;
            }
            self.queue.pop_front();
            if current(contexts, id as usize, serial).is_some() {
                return Some(id as usize);
            }
        }
        None
    }
}
