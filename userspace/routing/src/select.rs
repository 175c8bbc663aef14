//! The choice of a peer: local region first, then the other; within it the lowest priority, then a
//! zone not tried yet, then by weight (RFC 2782). Peers of a region that is given up, and UNHEALTHY
//! peers, only when nothing else is left.
//!
//! The order is planned when a table is made, so that the choice of a call's first peer takes the same
//! time whatever the number of peers.

use crate::{Peer, PeerId, PeerState, RegionId, Service, Table};
use alloc::vec::Vec;

/// Why a peer was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Why {
    /// UNHEALTHY, but it may be tried by one call.
    Trial,
    /// Available in the local region (or the service has no regions).
    Local,
    /// No peer of the local region is left.
    OtherRegion,
    /// Only regions are left whose verdict is UNHEALTHY; this peer of them is available.
    RegionDown,
    /// No available peer is left anywhere: fail open.
    LastResort,
}

impl Why {
    /// As shown to people.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Trial => "trial of an unhealthy peer",
            Self::Local => "local",
            Self::OtherRegion => "other region",
            Self::RegionDown => "last resort, its region is unhealthy",
            Self::LastResort => "last resort",
        }
    }
}

/// A chosen peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The peer.
    pub peer: PeerId,
    /// Why this one.
    pub why: Why,
}

/// The order in which a service's peers are tried.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    groups: Vec<Group>,
    /// Peers that may be tried by one call.
    trials: Vec<PeerId>,
    sound: bool,
}

/// Peers of one priority that are tried for the same reason.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Group {
    why: Why,
    priority: u16,
    /// Each with the sum of all shares up to it.
    members: Vec<(PeerId, u64)>,
    /// The shares cut into as many equal parts as there are members, and the first member of each part: where
    /// to begin the search.
    starts: Vec<u32>,
    zoned: bool,
}

impl Plan {
    pub(crate) fn new(peers: &[Peer], local: Option<RegionId>, service: &Service) -> Self {
        let of = |id: &PeerId| peers.get(usize::from(id.0)).map(|peer| (*id, peer));
        let members = || service.peers.iter().filter_map(of);
        // With every region given up there is none to be preferred.
        let open = members().any(|(_, p)| p.is_available() && !service.is_region_down(p.region));
        let why = |peer: &Peer| {
            if peer.is_withdrawn() {
                return None;
            }
            if peer.state == PeerState::Unhealthy {
                return service.fail_open.then_some(Why::LastResort);
            }
            Some(if open && service.is_region_down(peer.region) {
                Why::RegionDown
            } else if peer.region.is_none() || local.is_none() || peer.region == local {
                Why::Local
            } else {
                Why::OtherRegion
            })
        };
        let mut planned: Vec<_> =
            members().filter_map(|(id, peer)| Some((why(peer)?, peer.priority, id, peer))).collect();
        planned.sort_by_key(|(why, priority, ..)| (*why, *priority));
        let mut plan = Self::default();
        for (why, priority, id, peer) in planned {
            if plan.groups.last().is_none_or(|g| (g.why, g.priority) != (why, priority)) {
                plan.groups.push(Group {
                    why,
                    priority,
                    members: Vec::new(),
                    starts: Vec::new(),
                    zoned: false,
                });
            }
            if let Some(group) = plan.groups.last_mut() {
                let before = group.members.last().map_or(0, |(_, sum)| *sum);
                group.members.push((id, before + share(peer)));
                group.zoned |= peer.zone.is_some();
            }
        }
        plan.groups.iter_mut().for_each(Group::index);
        plan.trials =
            members().filter(|(_, p)| p.trial.is_some() && !p.is_withdrawn()).map(|(id, _)| id).collect();
        plan.sound = open;
        plan
    }

    /// The groups in the order of trying: why, priority, and the peers with the part of the calls that
    /// each gets, 0 to 1.
    pub fn groups(&self) -> impl Iterator<Item = (Why, u16, Vec<(PeerId, f64)>)> {
        self.groups.iter().map(|group| {
            let total = group.members.last().map_or(1, |(_, sum)| *sum) as f64;
            let mut before = 0;
            let parts = group.members.iter().map(|(id, sum)| {
                let part = (sum - core::mem::replace(&mut before, *sum)) as f64 / total;
                (*id, part)
            });
            (group.why, group.priority, parts.collect())
        })
    }

    /// Whether a peer is available in a region that is not given up.
    pub(crate) fn is_sound(&self) -> bool {
        self.sound
    }
}

/// Picks the next peer for a call that has `tried` some already; `None` when all were tried.
///
/// `roll` is a uniformly random number: it decides within a priority by weight.
pub fn select(table: &Table, service: &Service, tried: &[PeerId], roll: u32) -> Option<Choice> {
    let plan = &service.plan;
    let trial = |id: &&PeerId| {
        let leave = table.peer(**id).and_then(|peer| peer.trial.as_ref());
        !tried.contains(id) && leave.is_some_and(|leave| leave.take())
    };
    if let Some(peer) = plan.trials.iter().find(trial) {
        return Some(Choice { peer: *peer, why: Why::Trial });
    }
    plan.groups
        .iter()
        .find_map(|group| group.pick(table, tried, roll).map(|peer| Choice { peer, why: group.why }))
}

impl Group {
    fn index(&mut self) {
        let (count, total) = (self.members.len() as u64, self.members.last().map_or(0, |(_, sum)| *sum));
        let mut at = 0;
        self.starts = (0..count)
            .map(|part| {
                while self.members[at].1 * count <= part * total {
                    at += 1;
                }
                at as u32
            })
            .collect();
    }

    /// The member whose share a roll falls into.
    fn member_at(&self, roll: u32) -> Option<PeerId> {
        let point = draw(roll, self.members.last()?.1);
        let part = draw(roll, self.starts.len() as u64) as usize;
        let start = *self.starts.get(part)? as usize;
        // The first member of the next part may hold the end of this one.
        let end = self.starts.get(part + 1).map_or(self.members.len(), |end| *end as usize + 1);
        let within = self.members.get(start..end)?;
        let at = within.partition_point(|(_, sum)| *sum <= point);
        within.get(at).map(|(id, _)| *id)
    }

    fn pick(&self, table: &Table, tried: &[PeerId], roll: u32) -> Option<PeerId> {
        if tried.is_empty() {
            return self.member_at(roll);
        }
        let left = || {
            let untried = self.members.iter().filter(|(id, _)| !tried.contains(id));
            untried.filter_map(|(id, _)| Some((*id, table.peer(*id)?)))
        };
        let tried_zone = |peer: &Peer| {
            peer.zone.is_some()
                && tried
                    .iter()
                    .filter_map(|id| table.peer(*id))
                    .any(|t| t.zone == peer.zone && t.region == peer.region)
        };
        let fresh_zone = self.zoned && left().any(|(_, peer)| !tried_zone(peer));
        let pool = || left().filter(move |(_, peer)| !fresh_zone || !tried_zone(peer));
        let mut point = draw(roll, pool().map(|(_, peer)| share(peer)).sum());
        for (id, peer) in pool() {
            match point.checked_sub(share(peer)) {
                Some(rest) => point = rest,
                None => return Some(id),
            }
        }
        None
    }
}

/// A point below `total`, as far along as the roll.
fn draw(roll: u32, total: u64) -> u64 {
    ((u128::from(roll) * u128::from(total)) >> 32) as u64
}

/// Weight in force. A weight of zero counts as a hundredth of a weight of one, so that it has a very
/// small chance beside others and every chance alone (RFC 2782).
fn share(peer: &Peer) -> u64 {
    const UNIT: u64 = 100;
    (u64::from(peer.weight) * UNIT).max(1) * u64::from(peer.share.clamp(1, 100))
}

#[cfg(test)]
#[path = "select_tests.rs"]
mod tests;
