//! The peer table: all that workers need to know of the configuration and of health, in one snapshot.
//!
//! The control thread assembles a new table for every change and publishes it whole; a worker reads
//! one table per batch, so it never sees a mix of two generations.

use alloc::{format, string::String, vec::Vec};
use core::{
    net::{IpAddr, SocketAddr},
    time::Duration,
};

/// A peer; the index into [`Table::peers`], stable for the life of a configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PeerId(pub u16);

/// A region; the index into [`Table::regions`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RegionId(pub u8);

/// A service; the index into [`Table::services`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ServiceId(pub u16);

/// A SIP listener; the index into [`Table::listeners`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ListenerId(pub u16);

/// Health of a peer, as far as routing needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum PeerState {
    /// No evidence yet. Counts as available: UNKNOWN moves nothing.
    Unknown = 0,
    /// Answers.
    Healthy = 1,
    /// Does not answer, or answers that it cannot serve.
    Unhealthy = 2,
}

impl PeerState {
    /// As shown to people.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Unknown => "UNKNOWN",
            Self::Healthy => "HEALTHY",
            Self::Unhealthy => "UNHEALTHY",
        }
    }
}

/// One SIP server that takes calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Name from the configuration.
    pub name: String,
    /// Where it listens.
    pub address: SocketAddr,
    /// Region it is in, if regions matter to its service.
    pub region: Option<RegionId>,
    /// Zone within the region.
    pub zone: Option<String>,
    /// Lower is tried first (RFC 2782).
    pub priority: u16,
    /// Share among peers of one priority (RFC 2782).
    pub weight: u16,
    /// Health.
    pub state: PeerState,
}

impl Peer {
    /// FNV-1a of the name: names a peer across changes of the configuration and restarts, in few bytes.
    pub fn name_hash(&self) -> u32 {
        fnv1a(self.name.as_bytes())
    }
}

/// FNV-1a: the same on every node and after every restart. Nothing must rest on it being hard to hit.
pub fn fnv1a(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, b| (hash ^ u32::from(*b)).wrapping_mul(0x0100_0193))
}

/// Whether a new call is offered to one peer after the other or to several at once (RFC 3261 16.6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fork {
    /// One after the other.
    #[default]
    Sequential,
    /// To all available peers of the best region and priority at once; to the next such group when all
    /// of these failed.
    Parallel,
}

/// A group of peers that serve the same calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    /// Name from the configuration.
    pub name: String,
    /// Listener whose address calls to these peers come from.
    pub egress: ListenerId,
    /// Its peers.
    pub peers: Vec<PeerId>,
    /// Silence of an attempt after which the next peer is tried.
    pub attempt_timeout: Duration,
    /// Time for all attempts of a call together.
    pub call_budget: Duration,
    /// Whether media runs through this node.
    pub anchor_media: bool,
    /// How a new call is offered.
    pub fork: Fork,
    /// Forward without transaction state (RFC 3261 16.11): the upstream does the retries.
    pub stateless: bool,
}

impl Service {
    /// One with the defaults of requirements E2 and E12, sequential, stateful, its media left alone.
    pub fn new(name: String, egress: ListenerId, peers: Vec<PeerId>) -> Self {
        Self {
            name,
            egress,
            peers,
            attempt_timeout: Duration::from_secs(2),
            call_budget: Duration::from_secs(16),
            anchor_media: false,
            fork: Fork::Sequential,
            stateless: false,
        }
    }
}

/// Where requests that arrive on a listener go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Upstream {
    /// To a peer of this service.
    Service(ServiceId),
    /// Nowhere: the listener takes responses and in-dialog requests only.
    None,
}

/// One local SIP address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listener {
    /// Name from the configuration.
    pub name: String,
    /// Local address and port.
    pub address: SocketAddr,
    /// Address that media on this side uses.
    pub media: IpAddr,
    /// Route of new requests.
    pub upstream: Upstream,
    /// `host:port` as Via and Record-Route show it.
    pub sent_by: String,
    /// The start of a Via of this listener, up to its branch.
    pub via: String,
    /// The end of a Record-Route line of this listener, from the `@` on.
    pub record_route: String,
    /// `IP4 address` or `IP6 address` of [`Listener::media`], as SDP shows it.
    pub media_text: String,
}

impl Listener {
    /// A listener with its texts made once, so that no packet needs formatting.
    pub fn new(name: String, address: SocketAddr, media: IpAddr, upstream: Upstream) -> Self {
        let family = if media.is_ipv4() { "IP4" } else { "IP6" };
        Self {
            name,
            address,
            media,
            upstream,
            sent_by: format!("{address}"),
            via: format!("Via: SIP/2.0/UDP {address};branch="),
            record_route: format!("@{address};lr>\r\n"),
            media_text: format!("{family} {media}"),
        }
    }
}

/// Everything a worker needs to route, immutable.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    /// Raised by one with every published table.
    pub generation: u32,
    /// Listeners.
    pub listeners: Vec<Listener>,
    /// Services.
    pub services: Vec<Service>,
    /// Peers.
    pub peers: Vec<Peer>,
    /// Names of the regions.
    pub regions: Vec<String>,
    /// The region this node belongs to.
    pub local_region: Option<RegionId>,
    /// Filled by [`Table::index`].
    pub index: Index,
}

/// Peers sorted for look-ups.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Index {
    by_address: Vec<(SocketAddr, PeerId)>,
    by_name: Vec<(u32, PeerId)>,
}

impl Table {
    /// Builds the look-up index; call after the last change of `peers`.
    pub fn index(&mut self) {
        let peers = || (0u16..).map(PeerId).zip(&self.peers);
        let mut by_address: Vec<_> = peers().map(|(id, p)| (p.address, id)).collect();
        let mut by_name: Vec<_> = peers().map(|(id, p)| (p.name_hash(), id)).collect();
        by_address.sort_unstable();
        by_name.sort_unstable();
        self.index = Index { by_address, by_name };
    }

    /// A peer.
    pub fn peer(&self, id: PeerId) -> Option<&Peer> {
        self.peers.get(usize::from(id.0))
    }

    /// A service.
    pub fn service(&self, id: ServiceId) -> Option<&Service> {
        self.services.get(usize::from(id.0))
    }

    /// A listener.
    pub fn listener(&self, id: ListenerId) -> Option<&Listener> {
        self.listeners.get(usize::from(id.0))
    }

    /// The listener with this local address.
    pub fn listener_at(&self, address: SocketAddr) -> Option<ListenerId> {
        self.listeners.iter().position(|l| l.address == address).map(|i| ListenerId(i as u16))
    }

    /// The listener whose address a text starts with as this node writes it, and what comes behind.
    pub fn listener_written<'a>(&self, text: &'a [u8]) -> Option<(ListenerId, &'a [u8])> {
        let ids = (0u16..).map(ListenerId);
        ids.zip(&self.listeners).find_map(|(id, l)| Some((id, text.strip_prefix(l.sent_by.as_bytes())?)))
    }

    /// The peer with this address.
    pub fn peer_at(&self, address: SocketAddr) -> Option<PeerId> {
        let index = &self.index.by_address;
        index.binary_search_by(|(a, _)| a.cmp(&address)).ok().map(|i| index[i].1)
    }

    /// The peer with this [`Peer::name_hash`].
    pub fn peer_named(&self, hash: u32) -> Option<PeerId> {
        let index = &self.index.by_name;
        index.binary_search_by(|(h, _)| h.cmp(&hash)).ok().map(|i| index[i].1)
    }

    /// Whether any peer of a service may take calls.
    pub fn can_serve(&self, service: &Service) -> bool {
        service.peers.iter().any(|id| self.peer(*id).is_some_and(|p| p.state != PeerState::Unhealthy))
    }
}
