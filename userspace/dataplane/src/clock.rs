//! CLOCK_MONOTONIC, the clock that the XDP program stamps packets with.

use std::time::Duration;

/// Time since boot, without suspension.
pub fn monotonic() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs() as u32)
}

/// Low 32 bits of the time in nanoseconds, as in a packet's tag.
pub fn stamp(now: Duration) -> u32 {
    now.as_nanos() as u32
}
