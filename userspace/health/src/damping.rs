//! A hold-down that doubles for whoever falls again soon after coming back, so that what flaps does not
//! flap traffic.

use crate::Time;
use core::time::Duration;

/// Longest hold-down that doubling leads to; a configured longer one stands.
const LONGEST: Duration = Duration::from_secs(15 * 60);
/// A stay of this many hold-downs ends the doubling.
const STABLE: u32 = 10;

/// The hold-down in force.
#[derive(Clone, Debug)]
pub(crate) struct Damping {
    base: Duration,
    doubled: u32,
    back_since: Option<Time>,
}

impl Damping {
    pub(crate) fn new(base: Duration) -> Self {
        Self { base, doubled: 0, back_since: None }
    }

    /// How long it must have been fit again before it is used.
    pub(crate) fn hold_down(&self) -> Duration {
        let doubled = self.base.saturating_mul(1 << self.doubled.min(16));
        doubled.min(LONGEST.max(self.base))
    }

    /// It fell.
    pub(crate) fn on_fall(&mut self, now: Time) {
        let Some(since) = self.back_since.take() else { return };
        let soon = now.saturating_sub(since) < self.hold_down() * STABLE;
        self.doubled = if soon { self.doubled + 1 } else { 0 };
    }

    /// It came back.
    pub(crate) fn on_return(&mut self, now: Time) {
        self.back_since = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: fn(u64) -> Duration = Duration::from_secs;

    #[test]
    fn doubles_for_who_falls_soon_and_forgives_who_stays() {
        let mut damping = Damping::new(S(60));
        damping.on_fall(S(0));
        assert_eq!(damping.hold_down(), S(60), "a first fall is none too many");
        let mut now = S(0);
        for expected in [120, 240, 480, 900, 900] {
            damping.on_return(now);
            now += S(30);
            damping.on_fall(now);
            assert_eq!(damping.hold_down(), S(expected));
        }
        damping.on_return(now);
        damping.on_fall(now + S(9000));
        assert_eq!(damping.hold_down(), S(60));
        assert_eq!(Damping::new(S(3600)).hold_down(), S(3600));
    }
}
