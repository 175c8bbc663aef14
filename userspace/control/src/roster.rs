//! Who the peers are: those in the file and those that DNS knows, with numbers that stay.
//!
//! Calls, counters and records refer to a peer by its number. A peer that leaves keeps its number for an
//! hour, so that its calls can end, and only then somebody else gets it.

pub use crate::configure::PeerConfig as Member;
use exchange::MAX_PEERS;
use routing::{PeerId, ServiceId};
use std::{collections::HashMap, net::SocketAddr, time::Duration};

/// How long the number of a peer that left is not given to another one.
const KEPT: Duration = Duration::from_secs(3600);

/// What makes a peer the same one: its address, seen from its service's listener.
type Key = (ServiceId, SocketAddr);

struct Slot {
    member: Member,
    left_at: Option<Duration>,
}

/// What an update changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Update {
    /// Peers that are new, or here again.
    pub joined: Vec<PeerId>,
    /// Peers that are gone.
    pub left: Vec<PeerId>,
    /// Peers whose name, region, zone, priority or weight is another one.
    pub changed: Vec<PeerId>,
    /// Peers for which there is no room.
    pub refused: usize,
}

impl Update {
    /// Whether nothing changed.
    pub fn is_empty(&self) -> bool {
        self.joined.is_empty() && self.left.is_empty() && self.changed.is_empty()
    }
}

/// All peers, by number.
#[derive(Default)]
pub struct Roster {
    slots: Vec<Slot>,
    by_key: HashMap<Key, PeerId>,
}

impl Roster {
    /// Makes these the peers. Of several with the same address in one service the first counts.
    pub fn update(&mut self, now: Duration, wanted: Vec<Member>) -> Update {
        let mut update = Update::default();
        let mut seen = vec![false; self.slots.len()];
        let mut new = Vec::new();
        for member in wanted {
            let key = (member.service, member.address);
            match self.by_key.get(&key) {
                Some(id) => {
                    let index = usize::from(id.0);
                    if std::mem::replace(&mut seen[index], true) {
                        continue;
                    }
                    let slot = &mut self.slots[index];
                    if slot.left_at.take().is_some() {
                        update.joined.push(*id);
                    } else if slot.member != member {
                        update.changed.push(*id);
                    }
                    slot.member = member;
                }
                None => new.push((key, member)),
            }
        }
        for (index, slot) in self.slots.iter_mut().enumerate() {
            if !seen[index] && slot.left_at.is_none() {
                slot.left_at = Some(now);
                update.left.push(PeerId(index as u16));
            }
        }
        for (key, member) in new {
            if self.by_key.contains_key(&key) {
                continue;
            }
            match self.place(now, member) {
                Some(id) => update.joined.push(id),
                None => update.refused += 1,
            }
        }
        update
    }

    fn place(&mut self, now: Duration, member: Member) -> Option<PeerId> {
        let key = (member.service, member.address);
        let slot = Slot { member, left_at: None };
        let free = |s: &Slot| s.left_at.is_some_and(|at| now >= at + KEPT);
        let index = if self.slots.len() < MAX_PEERS / 2 {
            self.slots.push(slot);
            self.slots.len() - 1
        } else if let Some(index) = self.slots.iter().position(free) {
            let old = std::mem::replace(&mut self.slots[index], slot);
            self.by_key.remove(&(old.member.service, old.member.address));
            index
        } else if self.slots.len() < MAX_PEERS {
            self.slots.push(slot);
            self.slots.len() - 1
        } else {
            return None;
        };
        let id = PeerId(index as u16);
        self.by_key.insert(key, id);
        Some(id)
    }

    /// All numbers ever given, those of peers that left among them.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether there was never a peer.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// A peer, gone or not.
    pub fn get(&self, id: PeerId) -> Option<&Member> {
        self.slots.get(usize::from(id.0)).map(|slot| &slot.member)
    }

    /// Whether it is a peer now.
    pub fn is_present(&self, id: PeerId) -> bool {
        self.slots.get(usize::from(id.0)).is_some_and(|slot| slot.left_at.is_none())
    }

    /// All numbers with their peers, those that left among them.
    pub fn all(&self) -> impl Iterator<Item = (PeerId, &Member)> {
        (0u16..).map(PeerId).zip(self.slots.iter().map(|slot| &slot.member))
    }

    /// The peers of now.
    pub fn present(&self) -> impl Iterator<Item = (PeerId, &Member)> {
        self.all().filter(|(id, _)| self.is_present(*id))
    }

    /// The peer of a name.
    pub fn named(&self, name: &str) -> Option<PeerId> {
        self.present().find(|(_, member)| member.name == name).map(|(id, _)| id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(n: u16) -> Member {
        Member {
            name: format!("p{n}"),
            service: ServiceId(0),
            address: ([192, 0, (n >> 8) as u8, n as u8], 5060).into(),
            region: None,
            zone: None,
            priority: 0,
            weight: 1,
            anchor: false,
        }
    }

    fn ids(ids: &[u16]) -> Vec<PeerId> {
        ids.iter().copied().map(PeerId).collect()
    }

    #[test]
    fn numbers_stay_with_their_peers() {
        let mut roster = Roster::default();
        let now = Duration::from_secs(1);
        assert_eq!(roster.update(now, vec![member(1), member(2), member(1)]).joined, ids(&[0, 1]));
        assert!(roster.update(now, vec![member(2), member(1)]).is_empty(), "the order means nothing");
        let update = roster.update(now, vec![member(3), member(2)]);
        assert_eq!((update.joined, update.left), (ids(&[2]), ids(&[0])));
        assert_eq!(roster.get(PeerId(0)).unwrap().name, "p1", "remembered, for its calls");
        assert!(!roster.is_present(PeerId(0)) && roster.named("p1").is_none());
        let update = roster.update(now, vec![member(1), Member { weight: 9, ..member(2) }]);
        assert_eq!((update.joined, update.left, update.changed), (ids(&[0]), ids(&[2]), ids(&[1])));
        let other_service = Member { service: ServiceId(1), ..member(1) };
        assert_eq!(roster.update(now, vec![member(1), member(2), other_service]).joined, ids(&[3]));
    }

    #[test]
    fn numbers_are_used_again_when_they_must_and_never_early() {
        let mut roster = Roster::default();
        let all = |range: std::ops::Range<u16>| range.map(member).collect::<Vec<_>>();
        let full = MAX_PEERS as u16;
        assert_eq!(roster.update(Duration::ZERO, all(0..full)).joined.len(), MAX_PEERS);
        let update = roster.update(Duration::ZERO, all(1..full + 1));
        assert_eq!((update.left, update.refused), (ids(&[0]), 1), "the number of the one that left is kept");
        let update = roster.update(KEPT, all(1..full + 1));
        assert_eq!((update.joined, update.refused), (ids(&[0]), 0));
    }
}
