//! The peer table from configuration and health.

use crate::{configure::Checked, observe::Observer};
use exchange::sources::{AllowList, Prefix};
use routing::{Listener, Peer, PeerId, RegionId, Service, Table, Upstream};

/// Builds a table of the given generation.
pub fn table(config: &Checked, observer: &Observer, generation: u32) -> Table {
    let upstream = |s: Option<routing::ServiceId>| s.map_or(Upstream::None, Upstream::Service);
    let listener = |l: &crate::configure::ListenerConfig| {
        Listener::new(l.name.clone(), l.address, l.media, upstream(l.service))
    };
    let mut table = Table {
        generation,
        listeners: config.listeners.iter().map(listener).collect(),
        services: config
            .services
            .iter()
            .map(|s| Service {
                name: s.name.clone(),
                egress: s.egress,
                peers: s.peers.clone(),
                attempt_timeout: s.attempt_timeout,
                call_budget: s.call_budget,
                anchor_media: s.anchor_media,
                fork: s.fork,
                stateless: s.stateless,
            })
            .collect(),
        peers: (0u16..)
            .zip(&config.peers)
            .map(|(i, p)| Peer {
                name: p.name.clone(),
                address: p.address,
                region: p.region,
                zone: p.zone.clone(),
                priority: p.priority,
                weight: p.weight,
                state: observer.state(PeerId(i)),
            })
            .collect(),
        regions: config.regions.clone(),
        local_region: config.local_region,
        index: Default::default(),
    };
    table.index();
    table
}

/// One source prefix and whom it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source {
    /// The prefix.
    pub prefix: Prefix,
    /// The peer, where the prefix is a peer's address.
    pub peer: Option<PeerId>,
    /// Its region.
    pub region: Option<RegionId>,
}

/// All allowed sources: the configured prefixes and every peer's own address.
pub fn sources(config: &Checked) -> Vec<Source> {
    let host = |ip: std::net::IpAddr| Prefix { address: ip, length: if ip.is_ipv4() { 32 } else { 128 } };
    let prefixes =
        config.allow.iter().map(|(prefix, region)| Source { prefix: *prefix, peer: None, region: *region });
    let peers = (0u16..).zip(&config.peers).map(|(i, p)| Source {
        prefix: host(p.address.ip()),
        peer: Some(PeerId(i)),
        region: p.region,
    });
    prefixes.chain(peers).collect()
}

/// The same for packets that come by kernel sockets.
pub fn allow_list(sources: &[Source]) -> AllowList {
    AllowList(sources.iter().map(|s| s.prefix).collect())
}
