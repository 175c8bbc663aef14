//! The worst-case time from a peer's death to its state being UNHEALTHY.

use crate::Policy;
use core::time::Duration;

/// A peer may die right after it answered a probe; then `fall` probes must go out, each at the
/// longest jittered interval, and the last one must time out.
pub fn detection(policy: &Policy) -> Duration {
    let longest = policy.interval.mul_f64(1.0 + f64::from(policy.jitter_percent) / 100.0);
    longest * policy.fall + policy.timeout
}
