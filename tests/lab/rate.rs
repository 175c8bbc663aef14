//! Packets at a rate, by plain sockets, through the laboratory of two regions.

use crate::{TwoRegions, ends::bind, sessions::ENDS};
use anyhow::Result;
use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

/// Measures something while peer a1 answers calls and takes their media.
pub(crate) fn while_answering<T>(lab: &TwoRegions, measure: impl FnOnce() -> Result<T>) -> Result<T> {
    let done = AtomicBool::new(false);
    let (callee, _sink) =
        lab.region('A').enter(|| -> Result<_> { Ok((bind(ENDS.callee)?, bind(ENDS.callee_media)?)) })??;
    thread::scope(|scope| {
        let answering = scope.spawn(|| ENDS.answer(&callee, &done));
        let measured = measure();
        done.store(true, Ordering::Relaxed);
        answering.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        measured
    })
}

/// Sends `rate` packets a second by `send` for a time; how many, and how long it took.
pub(crate) fn pace(rate: u64, length: Duration, mut send: impl FnMut() -> bool) -> (u64, Duration) {
    const BURST: u64 = 32;
    let start = Instant::now();
    let total = rate * length.as_millis() as u64 / 1000;
    let mut sent = 0;
    for n in 0..total {
        if n.is_multiple_of(BURST) {
            let due = start + Duration::from_nanos(n * 1_000_000_000 / rate);
            while Instant::now() < due {
                std::hint::spin_loop();
            }
        }
        sent += u64::from(send());
        // A sender that cannot keep up is stopped, not left running.
        if start.elapsed() > length * 2 {
            break;
        }
    }
    (sent, start.elapsed())
}
