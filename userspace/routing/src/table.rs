//! The peer table: all that workers need to know of the configuration and of health, in one snapshot.
//!
//! The control thread assembles a new table for every change and publishes it whole; a worker reads
//! one table per batch, so it never sees a mix of two generations.

use crate::select::Plan;
use alloc::{boxed::Box, format, string::String, sync::Arc, vec::Vec};
use core::{
    net::{IpAddr, SocketAddr},
    sync::atomic::{AtomicBool, Ordering},
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

/// The operator's word about a peer; it wins over its state (requirement C8).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Admission {
    /// As its state says.
    #[default]
    Open,
    /// No new calls; dialogs go on.
    Drained,
    /// Nothing at all: dialogs with it are answered as if it were dead.
    Disabled,
}

impl Admission {
    /// As shown to people.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Open => "enabled",
            Self::Drained => "drained",
            Self::Disabled => "disabled",
        }
    }
}

/// Leave for one call to try an UNHEALTHY peer. Whoever takes it first has it, on whatever worker; a new
/// leave is a new value.
#[derive(Clone, Debug)]
pub struct Trial(Arc<AtomicBool>);

impl Trial {
    /// A leave that nobody has taken.
    pub fn new() -> Self {
        Self(Arc::new(AtomicBool::new(true)))
    }

    /// Takes it; `false`: it is gone.
    pub fn take(&self) -> bool {
        self.0.load(Ordering::Relaxed) && self.0.swap(false, Ordering::Relaxed)
    }
}

impl Default for Trial {
    fn default() -> Self {
        Self::new()
    }
}

/// The same leave, not one that looks like it.
impl PartialEq for Trial {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Trial {}

/// One SIP server that takes calls. Laid out so that what a call needs of it is in one cache line.
#[derive(Clone, Debug, PartialEq, Eq)]
#[repr(C, align(64))]
pub struct Peer {
    /// Where it listens.
    pub address: SocketAddr,
    /// Name from the configuration.
    pub name: PeerName,
    /// Region it is in, if regions matter to its service.
    pub region: Option<RegionId>,
    /// Lower is tried first (RFC 2782).
    pub priority: u16,
    /// Share among peers of one priority (RFC 2782).
    pub weight: u16,
    /// Health.
    pub state: PeerState,
    /// The operator's word.
    pub admission: Admission,
    /// Part of its weight in force, in percent: less than 100 while it starts slowly.
    pub share: u8,
    /// Leave for one trial call.
    pub trial: Option<Trial>,
    /// Whether media of calls to it is anchored where its service says [`Anchoring::Marked`].
    pub anchor: bool,
    /// Zone within the region.
    pub zone: Option<String>,
}

/// Name of a peer, with its hash: names a peer across changes of the configuration and restarts, in few bytes.
#[derive(Clone, PartialEq, Eq)]
pub struct PeerName {
    hash: u32,
    text: Box<str>,
}

impl PeerName {
    /// FNV-1a of the name.
    pub fn hash(&self) -> u32 {
        self.hash
    }
}

impl From<String> for PeerName {
    fn from(text: String) -> Self {
        Self { hash: fnv1a(text.as_bytes()), text: text.into_boxed_str() }
    }
}

impl core::ops::Deref for PeerName {
    type Target = str;

    fn deref(&self) -> &str {
        &self.text
    }
}

impl core::fmt::Display for PeerName {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self)
    }
}

impl core::fmt::Debug for PeerName {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        core::fmt::Debug::fmt(&**self, f)
    }
}

impl Peer {
    /// A peer without region and zone, alone in its priority, of unknown health.
    pub fn new(name: String, address: SocketAddr) -> Self {
        Self {
            name: name.into(),
            address,
            region: None,
            zone: None,
            priority: 0,
            weight: 1,
            state: PeerState::Unknown,
            admission: Admission::Open,
            share: 100,
            trial: None,
            anchor: false,
        }
    }

    /// Whether requests to it are in vain.
    pub fn is_dead(&self) -> bool {
        self.state == PeerState::Unhealthy || self.admission == Admission::Disabled
    }

    /// Whether the operator keeps new calls from it.
    pub fn is_withdrawn(&self) -> bool {
        self.admission != Admission::Open
    }

    /// Whether it takes new calls.
    pub fn is_available(&self) -> bool {
        self.state != PeerState::Unhealthy && !self.is_withdrawn()
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

/// Whose media runs through this node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Anchoring {
    /// Nobody's: SDP passes untouched.
    #[default]
    Off,
    /// That of every call.
    All,
    /// That of calls to marked peers.
    Marked,
}

/// What a final response of 5xx to a new call means, other than 503 and 504.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ServerError {
    /// It is the answer.
    #[default]
    Pass,
    /// The next peer is tried.
    Retry,
    /// The next peer is tried, and the answer is evidence against this one.
    Failure,
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
    /// Whose media runs through this node.
    pub anchoring: Anchoring,
    /// How a new call is offered.
    pub fork: Fork,
    /// Forward without transaction state (RFC 3261 16.11): the upstream does the retries.
    pub stateless: bool,
    /// What 5xx means.
    pub server_error: ServerError,
    /// Whether peers are tried although all are UNHEALTHY (requirement D7).
    pub fail_open: bool,
    /// Regions whose enforced verdict is UNHEALTHY, one bit each by [`RegionId`] (requirement D4).
    pub regions_down: u64,
    /// Filled by [`Table::index`].
    pub plan: Plan,
}

impl Service {
    /// Whether new calls avoid a region.
    pub fn is_region_down(&self, region: Option<RegionId>) -> bool {
        region.is_some_and(|r| self.regions_down.checked_shr(r.0.into()).unwrap_or(0) & 1 == 1)
    }

    /// One with the defaults of requirements E2 and E12, sequential, stateful, its media left alone.
    pub fn new(name: String, egress: ListenerId, peers: Vec<PeerId>) -> Self {
        Self {
            name,
            egress,
            peers,
            attempt_timeout: Duration::from_secs(2),
            call_budget: Duration::from_secs(16),
            anchoring: Anchoring::Off,
            fork: Fork::Sequential,
            stateless: false,
            server_error: ServerError::Pass,
            fail_open: true,
            regions_down: 0,
            plan: Plan::default(),
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
    /// Addresses that media on this side uses.
    pub media: Vec<IpAddr>,
    /// Route of new requests.
    pub upstream: Upstream,
    /// `host:port` as Via and Record-Route show it.
    pub sent_by: String,
    /// The start of a Via of this listener, up to its branch.
    pub via: String,
    /// The end of a Record-Route line of this listener, from the `@` on.
    pub record_route: String,
}

impl Listener {
    /// A listener with its texts made once, so that no packet needs formatting.
    pub fn new(name: String, address: SocketAddr, media: Vec<IpAddr>, upstream: Upstream) -> Self {
        Self {
            name,
            address,
            media,
            upstream,
            sent_by: format!("{address}"),
            via: format!("Via: SIP/2.0/UDP {address};branch="),
            record_route: format!("@{address};lr>\r\n"),
        }
    }
}

/// Everything a worker needs to route, immutable.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    /// Raised by one with every published table.
    pub generation: u32,
    /// When what led to this table became known, on the node's monotonic clock.
    pub changed_at: Duration,
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
    /// The operator drains this node: OPTIONS from outside get 503, calls are taken all the same.
    pub draining: bool,
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
    /// Builds the look-up index and the plans; call after the last change of peers and services.
    pub fn index(&mut self) {
        for service in &mut self.services {
            service.plan = Plan::new(&self.peers, self.local_region, service);
        }
        let peers = || (0u16..).map(PeerId).zip(&self.peers);
        let mut by_address: Vec<_> = peers().map(|(id, p)| (p.address, id)).collect();
        let mut by_name: Vec<_> = peers().map(|(id, p)| (p.name.hash(), id)).collect();
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

    /// The peer with this [`PeerName::hash`].
    pub fn peer_named(&self, hash: u32) -> Option<PeerId> {
        let index = &self.index.by_name;
        index.binary_search_by(|(h, _)| h.cmp(&hash)).ok().map(|i| index[i].1)
    }

    /// Whether upstreams should send calls for a service here: the node is not drained, and a peer is
    /// available in a region that is not given up.
    pub fn takes_calls(&self, service: &Service) -> bool {
        !self.draining && service.plan.is_sound()
    }
}
