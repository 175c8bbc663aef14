//! The lock-free cell: one writer replaces a whole value, readers see one whole value.

use arc_swap::{ArcSwap, Cache};
use std::sync::Arc;

/// A published value.
#[derive(Debug, Default)]
pub struct Snapshot<T>(Arc<ArcSwap<T>>);

impl<T> Snapshot<T> {
    /// Replaces the value. Readers take it up with their next batch; the old one is freed when the
    /// last of them has.
    pub fn publish(&self, value: T) {
        self.0.store(Arc::new(value));
    }

    /// The current value.
    pub fn load(&self) -> Arc<T> {
        self.0.load_full()
    }

    /// A reader for one thread.
    pub fn reader(&self) -> Reader<T> {
        Reader(Cache::new(Arc::clone(&self.0)))
    }
}

/// Reads a [`Snapshot`]: one atomic load while nothing changes, no lock, no written cache line.
#[derive(Debug)]
pub struct Reader<T>(Cache<Arc<ArcSwap<T>>, Arc<T>>);

impl<T> Reader<T> {
    /// The current value; call once per batch, so that a batch sees one value.
    pub fn load(&mut self) -> &Arc<T> {
        self.0.load()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_see_whole_values_in_order() {
        let cell = Snapshot::<(u64, u64)>::default();
        let writer = {
            let cell = Snapshot(Arc::clone(&cell.0));
            std::thread::spawn(move || (1..=50_000).for_each(|n| cell.publish((n, !n))))
        };
        let mut reader = cell.reader();
        let mut last = 0;
        while last < 50_000 {
            let (n, check) = **reader.load();
            assert!(n >= last, "went back from {last} to {n}");
            assert!(n == 0 || check == !n, "torn");
            last = n;
        }
        writer.join().unwrap();
    }
}
