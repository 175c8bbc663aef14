//! The judgement of a group of peers: how many of them must be fit (requirement D1).

use crate::State;

/// What a group needs to be HEALTHY; both conditions must hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Threshold {
    /// Least share of HEALTHY peers, 0 to 100 percent.
    pub min_percent: u8,
    /// Least number of HEALTHY peers.
    pub min_healthy: u32,
}

impl Default for Threshold {
    fn default() -> Self {
        Self { min_percent: 60, min_healthy: 1 }
    }
}

/// How many members of a group are in which state. Drained and disabled peers are no members.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Members {
    /// HEALTHY ones.
    pub healthy: u32,
    /// UNHEALTHY ones.
    pub unhealthy: u32,
    /// UNKNOWN ones.
    pub unknown: u32,
    /// The group is not complete: its name has not been resolved yet.
    pub incomplete: bool,
}

impl Members {
    /// Counts one more.
    pub fn add(&mut self, state: State) {
        match state {
            State::Healthy => self.healthy += 1,
            State::Unhealthy => self.unhealthy += 1,
            State::Unknown => self.unknown += 1,
        }
    }

    /// All of them.
    pub fn total(&self) -> u32 {
        self.healthy + self.unhealthy + self.unknown
    }
}

impl Threshold {
    /// HEALTHY or UNHEALTHY as soon as that is certain whatever the UNKNOWN members turn out to be.
    pub fn judge(&self, members: &Members) -> State {
        if members.incomplete && members.total() == 0 {
            return State::Unknown;
        }
        if self.met_by(members.healthy, members.total()) {
            State::Healthy
        } else if self.met_by(members.healthy + members.unknown, members.total()) {
            State::Unknown
        } else {
            State::Unhealthy
        }
    }

    /// In whole numbers: no rounding decides.
    fn met_by(&self, healthy: u32, total: u32) -> bool {
        u64::from(healthy) * 100 >= u64::from(self.min_percent) * u64::from(total)
            && healthy >= self.min_healthy
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use State::{Healthy, Unhealthy, Unknown};

    fn judge(min_percent: u8, min_healthy: u32, healthy: u32, unhealthy: u32, unknown: u32) -> State {
        let members = Members { healthy, unhealthy, unknown, incomplete: false };
        Threshold { min_percent, min_healthy }.judge(&members)
    }

    #[test]
    fn both_conditions_must_hold() {
        let default = |n, h| judge(60, 1, h, n - h, 0);
        assert_eq!(
            [default(5, 3), default(5, 2), default(3, 2), default(3, 1)],
            [Healthy, Unhealthy, Healthy, Unhealthy]
        );
        assert_eq!(
            [default(10, 6), default(10, 5), default(1, 1), default(1, 0)],
            [Healthy, Unhealthy, Healthy, Unhealthy]
        );
        assert_eq!([judge(0, 1, 1, 9, 0), judge(0, 1, 0, 10, 0)], [Healthy, Unhealthy]);
        let both = |n, h| judge(75, 3, h, n - h, 0);
        assert_eq!(
            [both(4, 3), both(4, 2), both(3, 2), both(2, 2)],
            [Healthy, Unhealthy, Unhealthy, Unhealthy]
        );
        assert_eq!(judge(60, 1, 0, 0, 0), Unhealthy, "known to be empty");
        assert_eq!(judge(0, 0, 0, 0, 0), Healthy);
        let unresolved = Members { incomplete: true, ..Members::default() };
        assert_eq!(Threshold::default().judge(&unresolved), Unknown);
    }

    #[test]
    fn unknown_members_matter_only_while_the_result_depends_on_them() {
        assert_eq!(judge(60, 1, 3, 0, 2), Healthy);
        assert_eq!(judge(60, 1, 0, 3, 2), Unhealthy);
        assert_eq!(judge(60, 1, 2, 1, 2), Unknown);
        assert_eq!(judge(60, 1, 0, 0, 5), Unknown);
    }

    #[test]
    fn percentages_are_exact() {
        for total in 1..=200u32 {
            for percent in 0..=100u8 {
                for healthy in 0..=total {
                    let met = healthy * 100 >= u32::from(percent) * total;
                    let expected = if met { Healthy } else { Unhealthy };
                    assert_eq!(judge(percent, 0, healthy, total - healthy, 0), expected);
                }
            }
        }
    }
}
