//! Which contexts may wait for which peer, so that a peer's death is acted upon without a look at every
//! transaction of the worker.

use alloc::vec::Vec;
use routing::PeerId;

/// A context, by slot and serial number.
pub(crate) type ContextRef = (u32, u32);

/// Lists of contexts by peer. A list may name contexts that wait no longer; whoever reads it checks.
#[derive(Default)]
pub(crate) struct Waiting {
    lists: Vec<List>,
}

#[derive(Default)]
struct List {
    contexts: Vec<ContextRef>,
    /// Length at which those that wait no longer are taken out.
    tidy_at: usize,
}

/// A list shorter than this is not worth tidying.
const SHORT: usize = 64;

impl Waiting {
    /// A context begins to wait for a peer. `waits` tells whether another one still does.
    pub(crate) fn add(&mut self, peer: PeerId, context: ContextRef, waits: impl Fn(ContextRef) -> bool) {
        let index = usize::from(peer.0);
        if index >= self.lists.len() {
            self.lists.resize_with(index + 1, List::default);
        }
        let list = &mut self.lists[index];
        if list.contexts.len() >= list.tidy_at.max(SHORT) {
            list.contexts.retain(|context| waits(*context));
            // Twice what is left: each entry is looked at a few times in its life, however many there are.
            list.tidy_at = list.contexts.len() * 2;
        }
        list.contexts.push(context);
    }

    /// Takes all that may wait for a peer.
    pub(crate) fn take(&mut self, peer: PeerId) -> Vec<ContextRef> {
        self.lists.get_mut(usize::from(peer.0)).map(core::mem::take).unwrap_or_default().contexts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_stays_as_short_as_what_waits() {
        let mut waiting = Waiting::default();
        for n in 0..100_000 {
            // Only the latest ten still wait.
            waiting.add(PeerId(3), (n, 0), |(id, _)| id + 10 > n);
        }
        let list = waiting.take(PeerId(3));
        assert!(list.len() <= SHORT + 1 && list.ends_with(&[(99_998, 0), (99_999, 0)]), "{}", list.len());
        assert!(waiting.take(PeerId(3)).is_empty() && waiting.take(PeerId(7)).is_empty());
    }
}
