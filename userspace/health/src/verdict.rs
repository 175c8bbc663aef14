//! What traffic does about the state of a region: it leaves at once, and comes back with patience
//! (requirement D9).

use crate::{State, Time, damping::Damping};
use core::time::Duration;

/// How traffic returns to a region that is HEALTHY again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failback {
    /// When it has been HEALTHY this long; longer for a region that keeps falling.
    HoldDown(Duration),
    /// By the operator's word only.
    Sticky,
}

/// The verdict on a region that is in force.
#[derive(Clone, Debug)]
pub struct Verdict {
    failback: Failback,
    damping: Damping,
    down: bool,
    back_at: Option<Time>,
}

impl Verdict {
    /// In force: fit for calls, until there is evidence to the contrary.
    pub fn new(failback: Failback) -> Self {
        let base = match failback {
            Failback::HoldDown(base) => base,
            Failback::Sticky => Duration::ZERO,
        };
        Self { failback, damping: Damping::new(base), down: false, back_at: None }
    }

    /// Whether new calls avoid the region.
    pub fn is_down(&self) -> bool {
        self.down
    }

    /// When [`Verdict::on_time`] has something to do.
    pub fn deadline(&self) -> Option<Time> {
        self.back_at
    }

    /// The region's state is this now; whether the verdict changed. UNKNOWN moves nothing, in neither
    /// direction.
    pub fn on_state(&mut self, now: Time, state: State) -> bool {
        match (state, self.down) {
            (State::Unhealthy, false) => {
                self.down = true;
                self.damping.on_fall(now);
                true
            }
            (State::Unhealthy | State::Unknown, true) => {
                self.back_at = None;
                false
            }
            (State::Healthy, true) if self.failback != Failback::Sticky => {
                self.back_at.get_or_insert(now + self.damping.hold_down());
                self.on_time(now)
            }
            _ => false,
        }
    }

    /// Time has passed; whether the verdict changed.
    pub fn on_time(&mut self, now: Time) -> bool {
        if self.back_at.is_none_or(|at| now < at) {
            return false;
        }
        self.back(now);
        true
    }

    /// The operator sends traffic back; whether the verdict changed.
    pub fn release(&mut self, now: Time) -> bool {
        let was_down = self.down;
        self.back(now);
        was_down
    }

    fn back(&mut self, now: Time) {
        self.down = false;
        self.back_at = None;
        self.damping.on_return(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use State::{Healthy, Unhealthy, Unknown};

    const S: fn(u64) -> Duration = Duration::from_secs;

    #[test]
    fn leaves_at_once_and_returns_after_the_hold_down() {
        let mut verdict = Verdict::new(Failback::HoldDown(S(60)));
        assert!(!verdict.on_state(S(0), Unknown) && !verdict.is_down());
        assert!(verdict.on_state(S(1), Unhealthy) && verdict.is_down());
        assert!(!verdict.on_state(S(10), Healthy));
        assert_eq!(verdict.deadline(), Some(S(70)));
        assert!(!verdict.on_time(S(69)) && verdict.on_time(S(70)) && !verdict.is_down());
    }

    #[test]
    fn unknown_moves_nothing() {
        let mut verdict = Verdict::new(Failback::HoldDown(S(60)));
        verdict.on_state(S(0), Healthy);
        assert!(!verdict.on_state(S(1), Unknown) && !verdict.is_down());
        verdict.on_state(S(2), Unhealthy);
        verdict.on_state(S(3), Healthy);
        assert!(!verdict.on_state(S(30), Unknown));
        assert!(!verdict.on_time(S(1000)) && verdict.is_down(), "no return while UNKNOWN");
        verdict.on_state(S(1000), Healthy);
        assert_eq!(verdict.deadline(), Some(S(1060)), "the hold-down begins anew");
    }

    #[test]
    fn a_sticky_one_waits_for_the_operator() {
        let mut verdict = Verdict::new(Failback::Sticky);
        verdict.on_state(S(0), Unhealthy);
        verdict.on_state(S(1), Healthy);
        assert!(verdict.is_down() && verdict.deadline().is_none());
        assert!(verdict.release(S(2)) && !verdict.is_down() && !verdict.release(S(3)));
    }

    #[test]
    fn without_hold_down_it_returns_at_once() {
        let mut verdict = Verdict::new(Failback::HoldDown(Duration::ZERO));
        verdict.on_state(S(0), Unhealthy);
        assert!(verdict.on_state(S(1), Healthy) && !verdict.is_down());
    }

    #[test]
    fn who_flaps_every_half_minute_moves_traffic_four_times_in_half_an_hour_at_most() {
        for hold_down in [20, 60] {
            let mut verdict = Verdict::new(Failback::HoldDown(S(hold_down)));
            let mut moves = 0;
            for second in 0..1800 {
                let state = if second / 30 % 2 == 0 { Unhealthy } else { Healthy };
                moves += u32::from(verdict.on_state(S(second), state) || verdict.on_time(S(second)));
            }
            assert!((1..=4).contains(&moves), "{moves} moves");
        }
    }
}
