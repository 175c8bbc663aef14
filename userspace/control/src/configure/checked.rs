//! The configuration as the rest of the program uses it.

use super::schema::{Lookup, XdpMode};
use exchange::sources::Prefix;
use health::{Composites, Failback, Policy, Threshold};
use routing::{Anchoring, Fork, ListenerId, RegionId, ServerError, ServiceId};
use std::{
    net::{IpAddr, SocketAddr},
    ops::RangeInclusive,
    path::PathBuf,
    time::Duration,
};

/// A checked configuration; names are resolved to indices.
#[derive(Clone, Debug)]
pub struct Checked {
    /// Name of the node.
    pub name: String,
    /// Whether packets go by AF_XDP; else by kernel sockets.
    pub afxdp: bool,
    /// Entries of each AF_XDP ring.
    pub ring_size: u32,
    /// How long a worker without work looks for some before it sleeps.
    pub spin: Duration,
    /// Most transactions of each worker.
    pub max_transactions: usize,
    /// Unix socket for status.
    pub status_socket: PathBuf,
    /// File with the key of the Record-Route cookies.
    pub key_file: PathBuf,
    /// File that the last known good state is kept in.
    pub state_file: PathBuf,
    /// Loopback address of the HTTP port.
    pub http: Option<SocketAddr>,
    /// How names are resolved.
    pub dns: DnsConfig,
    /// Names of the regions.
    pub regions: Vec<String>,
    /// Region of the node.
    pub local_region: Option<RegionId>,
    /// Interfaces.
    pub interfaces: Vec<InterfaceConfig>,
    /// Listeners.
    pub listeners: Vec<ListenerConfig>,
    /// Services.
    pub services: Vec<ServiceConfig>,
    /// Peers of all services that stand in the file.
    pub peers: Vec<PeerConfig>,
    /// Sources and composites.
    pub health: HealthConfig,
    /// Allowed source prefixes besides the peers' own addresses.
    pub allow: Vec<(Prefix, Option<RegionId>)>,
    /// Media.
    pub media: MediaSettings,
    /// Core of the control thread.
    pub control_core: Option<usize>,
    /// Workers.
    pub workers: Vec<WorkerConfig>,
    /// What is allowed but probably not meant.
    pub warnings: Vec<String>,
}

impl Checked {
    /// A service.
    pub fn service(&self, id: ServiceId) -> Option<&ServiceConfig> {
        self.services.get(usize::from(id.0))
    }

    /// Name of a listener.
    pub fn listener_name(&self, id: ListenerId) -> String {
        self.listeners.get(usize::from(id.0)).map_or_else(String::new, |l| l.name.clone())
    }

    /// Name of a region.
    pub fn region_name(&self, region: Option<RegionId>) -> Option<&str> {
        self.regions.get(usize::from(region?.0)).map(String::as_str)
    }
}

/// How media is relayed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MediaSettings {
    /// Ports, on every media address; empty: no media.
    pub ports: RangeInclusive<u16>,
    /// Silence that ends a call's media.
    pub timeout: Duration,
    /// The same for a call on hold.
    pub hold_timeout: Duration,
    /// How long a pair of ports rests before it is used again.
    pub rest: Duration,
    /// How long after the first packet a better source may take over.
    pub learning: Duration,
    /// Only the addresses in SDP may send.
    pub strict: bool,
    /// Traffic class of relayed packets; `None`: their own.
    pub dscp: Option<u8>,
    /// Descriptions with ICE are left alone.
    pub keep_ice: bool,
    /// Descriptions that cannot be read pass.
    pub pass_broken: bool,
}

/// How names are resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DnsConfig {
    /// Servers to ask; the system's if there are none.
    pub servers: Vec<SocketAddr>,
    /// How long a server may take.
    pub timeout: Duration,
    /// Least time that an answer is used.
    pub ttl_floor: Duration,
    /// Longest time that it is.
    pub ttl_ceiling: Duration,
    /// How long a name must be gone before its peers go.
    pub negative_grace: Duration,
}

/// Sources and composites.
#[derive(Clone, Debug, Default)]
pub struct HealthConfig {
    /// Sources.
    pub sources: Vec<SourceConfig>,
    /// Composites.
    pub composites: Vec<CompositeConfig>,
    /// What includes what; composites by index.
    pub tree: Composites,
    /// Program to run on transitions, with its arguments; empty: none.
    pub command: Vec<String>,
    /// How long it may run.
    pub command_timeout: Duration,
}

/// One source: a service in a region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceConfig {
    /// Name.
    pub name: String,
    /// Service.
    pub service: ServiceId,
    /// Region; none: all of them.
    pub region: Option<RegionId>,
    /// What it needs.
    pub threshold: Threshold,
}

/// One composite.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompositeConfig {
    /// Name.
    pub name: String,
    /// Region that new calls leave.
    pub region: Option<RegionId>,
    /// Services whose calls do.
    pub services: Vec<ServiceId>,
    /// Whether it has consequences.
    pub enforced: bool,
    /// How calls come back.
    pub failback: Failback,
}

/// Peers of a service that DNS knows.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DiscoverConfig {
    /// Domain name, in lower case, without the dot at the end.
    pub name: String,
    /// What is asked.
    pub lookup: Lookup,
    /// Labels before the name in an SRV lookup.
    pub label: String,
    /// Port of addresses without SRV.
    pub port: u16,
    /// Region of the peers.
    pub region: Option<RegionId>,
    /// Added to their priorities.
    pub priority: u16,
    /// Whether media of their calls is anchored.
    pub anchor: bool,
}

/// An interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InterfaceConfig {
    /// Name in the file.
    pub name: String,
    /// Device.
    pub device: String,
    /// Line in the file, for errors found on the machine.
    pub line: usize,
    /// VLAN id.
    pub vlan: Option<u16>,
    /// XDP mode.
    pub mode: XdpMode,
}

/// A listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenerConfig {
    /// Name.
    pub name: String,
    /// Local address.
    pub address: SocketAddr,
    /// Media addresses.
    pub media: Vec<IpAddr>,
    /// Where new requests go.
    pub service: Option<ServiceId>,
}

/// A service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceConfig {
    /// Name.
    pub name: String,
    /// Listener that requests to its peers leave by.
    pub egress: ListenerId,
    /// Whose media is anchored.
    pub anchoring: Anchoring,
    /// How a new call is offered.
    pub fork: Fork,
    /// Forward without transactions.
    pub stateless: bool,
    /// What 5xx means.
    pub server_error: ServerError,
    /// Whether peers are tried although all are UNHEALTHY.
    pub fail_open: bool,
    /// Silence of an attempt.
    pub attempt_timeout: Duration,
    /// Time for all attempts.
    pub call_budget: Duration,
    /// How its peers are judged.
    pub policy: Policy,
    /// Whether its listener is of IPv4: peers of the other family cannot be reached by it.
    pub ipv4: bool,
    /// Where its further peers are found.
    pub discover: Vec<DiscoverConfig>,
    /// It stands in the file no more; its number is not given to another one, since calls refer to it.
    pub removed: bool,
}

/// A peer: one that stands in the file, or one that DNS names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerConfig {
    /// Name.
    pub name: String,
    /// Its service.
    pub service: ServiceId,
    /// Address.
    pub address: SocketAddr,
    /// Region.
    pub region: Option<RegionId>,
    /// Zone.
    pub zone: Option<String>,
    /// Priority.
    pub priority: u16,
    /// Weight.
    pub weight: u16,
    /// Whether media of its calls is anchored, where its service leaves that to it.
    pub anchor: bool,
}

/// A worker.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkerConfig {
    /// Core and the line that names it.
    pub core: Option<(usize, usize)>,
    /// Queues: interface, queue, line.
    pub queues: Vec<(usize, u32, usize)>,
}
