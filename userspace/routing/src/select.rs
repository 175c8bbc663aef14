//! The choice of a peer: local region first, then the other; within it the lowest priority, then a
//! zone not tried yet, then by weight (RFC 2782). Unhealthy peers only when nothing else is left.

use crate::{Peer, PeerId, PeerState, Service, Table};

/// Why a peer was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// Available in the local region (or the service has no regions).
    Local,
    /// No peer of the local region is left.
    OtherRegion,
    /// No available peer is left anywhere: fail open.
    LastResort,
}

impl Why {
    /// As shown to people.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::OtherRegion => "other region",
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

/// Picks the next peer for a call that has `tried` some already; `None` when all were tried.
///
/// `roll` is a uniformly random number: it decides within a priority by weight.
pub fn select(table: &Table, service: &Service, tried: &[PeerId], roll: u32) -> Option<Choice> {
    [Why::Local, Why::OtherRegion, Why::LastResort]
        .into_iter()
        .find_map(|why| pick(table, service, tried, roll, why).map(|peer| Choice { peer, why }))
}

fn pick(table: &Table, service: &Service, tried: &[PeerId], roll: u32, why: Why) -> Option<PeerId> {
    let candidates = || {
        service
            .peers
            .iter()
            .filter_map(|id| Some((*id, table.peer(*id)?)))
            .filter(|(id, peer)| !tried.contains(id) && belongs(table, peer, why))
    };
    let priority = candidates().map(|(_, peer)| peer.priority).min()?;
    let best = || candidates().filter(move |(_, peer)| peer.priority == priority);
    let tried_zone = |peer: &Peer| {
        peer.zone.is_some()
            && tried
                .iter()
                .filter_map(|id| table.peer(*id))
                .any(|t| t.zone == peer.zone && t.region == peer.region)
    };
    let fresh_zone = best().any(|(_, peer)| !tried_zone(peer));
    let pool = || best().filter(move |(_, peer)| !fresh_zone || !tried_zone(peer));
    by_weight(pool, roll)
}

fn belongs(table: &Table, peer: &Peer, why: Why) -> bool {
    let local = peer.region.is_none() || table.local_region.is_none() || peer.region == table.local_region;
    match why {
        Why::Local => peer.state != PeerState::Unhealthy && local,
        Why::OtherRegion => peer.state != PeerState::Unhealthy && !local,
        Why::LastResort => peer.state == PeerState::Unhealthy,
    }
}

/// Weighted draw. A weight of zero counts as a hundredth of a weight of one,
/// so that it has a very small chance beside others and every chance alone (RFC 2782).
fn by_weight<'a, I>(pool: impl Fn() -> I, roll: u32) -> Option<PeerId>
where
    I: Iterator<Item = (PeerId, &'a Peer)>,
{
    const UNIT: u64 = 100;
    let share = |peer: &Peer| (u64::from(peer.weight) * UNIT).max(1);
    let total: u64 = pool().map(|(_, peer)| share(peer)).sum();
    let mut point = (u64::from(roll) * total) >> 32;
    for (id, peer) in pool() {
        match point.checked_sub(share(peer)) {
            Some(rest) => point = rest,
            None => return Some(id),
        }
    }
    None
}

#[cfg(test)]
#[path = "select_tests.rs"]
mod tests;
