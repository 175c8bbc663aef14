//! The peer table and the allow-list from configuration, roster and health.

use crate::{configure::Checked, judge::Judge, observe::Observer, roster::Roster};
use exchange::sources::{AllowList, Prefix};
use routing::{Listener, Peer, PeerId, PeerState, RegionId, Service, ServiceId, Table, Upstream};
use std::{collections::HashMap, time::Duration};

/// Builds a table of the given generation, for a change that became known at a time.
pub fn table(
    config: &Checked,
    (roster, observer, judge): (&Roster, &Observer, &Judge),
    (generation, changed_at): (u32, Duration),
    draining: bool,
) -> Table {
    let upstream = |s: Option<ServiceId>| s.map_or(Upstream::None, Upstream::Service);
    let listener = |l: &crate::configure::ListenerConfig| {
        Listener::new(l.name.clone(), l.address, l.media.clone(), upstream(l.service))
    };
    let mut members = vec![Vec::new(); config.services.len()];
    for (id, member) in roster.present() {
        if let Some(of_service) = members.get_mut(usize::from(member.service.0)) {
            of_service.push(id);
        }
    }
    let service = |((id, s), peers): ((u16, &crate::configure::ServiceConfig), Vec<PeerId>)| Service {
        attempt_timeout: s.attempt_timeout,
        call_budget: s.call_budget,
        anchoring: s.anchoring,
        fork: s.fork,
        stateless: s.stateless,
        server_error: s.server_error,
        fail_open: s.fail_open,
        regions_down: judge.regions_down(ServiceId(id), config),
        ..Service::new(s.name.clone(), s.egress, peers)
    };
    let peer = |(id, member): (PeerId, &crate::roster::Member)| {
        let mut peer = Peer {
            region: member.region,
            zone: member.zone.clone(),
            priority: member.priority,
            weight: member.weight,
            anchor: member.anchor,
            ..Peer::new(member.name.clone(), member.address)
        };
        // Of one that left nothing is known any more but where its calls are.
        if roster.is_present(id) {
            peer.state = observer.peer_state(id);
            peer.admission = observer.admission(id);
            peer.share = observer.share(id);
            peer.trial = observer.trial(id);
        }
        peer
    };
    let mut table = Table {
        generation,
        changed_at,
        listeners: config.listeners.iter().map(listener).collect(),
        services: (0u16..).zip(&config.services).zip(members).map(service).collect(),
        peers: roster.all().map(peer).collect(),
        regions: config.regions.clone(),
        local_region: config.local_region,
        draining,
        index: Default::default(),
    };
    table.index();
    table
}

/// Whom a source prefix belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source {
    /// The peer, where the prefix is a peer's address.
    pub peer: Option<PeerId>,
    /// Its region.
    pub region: Option<RegionId>,
    /// State of the peer.
    pub state: PeerState,
}

/// All allowed sources: the configured prefixes and every peer's own address. A peer that left may send
/// as long as its calls may last.
pub fn sources(config: &Checked, roster: &Roster, observer: &Observer) -> HashMap<Prefix, Source> {
    let host = |ip: std::net::IpAddr| Prefix { address: ip, length: if ip.is_ipv4() { 32 } else { 128 } };
    let prefixes = config
        .allow
        .iter()
        .map(|(prefix, region)| (*prefix, Source { peer: None, region: *region, state: PeerState::Unknown }));
    let peers = roster.all().map(|(id, member)| {
        let state = observer.peer_state(id);
        (host(member.address.ip()), Source { peer: Some(id), region: member.region, state })
    });
    prefixes.chain(peers).collect()
}

/// The same for packets that come by kernel sockets.
pub fn allow_list(sources: &HashMap<Prefix, Source>) -> AllowList {
    AllowList::new(sources.keys().copied())
}
