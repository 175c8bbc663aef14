//! The configuration as the rest of the program uses it.

use super::schema::XdpMode;
use exchange::sources::Prefix;
use health::Policy;
use routing::{Fork, ListenerId, PeerId, RegionId, ServiceId};
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
    /// Most transactions of each worker.
    pub max_transactions: usize,
    /// Unix socket for status.
    pub status_socket: PathBuf,
    /// File with the key of the Record-Route cookies.
    pub key_file: PathBuf,
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
    /// Peers of all services, by [`PeerId`].
    pub peers: Vec<PeerConfig>,
    /// Allowed source prefixes besides the peers' own addresses.
    pub allow: Vec<(Prefix, Option<RegionId>)>,
    /// Media ports.
    pub media_ports: RangeInclusive<u16>,
    /// Silence that ends a media session.
    pub media_timeout: Duration,
    /// Core of the control thread.
    pub control_core: Option<usize>,
    /// Workers.
    pub workers: Vec<WorkerConfig>,
    /// What is allowed but probably not meant.
    pub warnings: Vec<String>,
}

/// An interface.
#[derive(Clone, Debug)]
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
#[derive(Clone, Debug)]
pub struct ListenerConfig {
    /// Name.
    pub name: String,
    /// Local address.
    pub address: SocketAddr,
    /// Media address.
    pub media: IpAddr,
    /// Where new requests go.
    pub service: Option<ServiceId>,
}

/// A service.
#[derive(Clone, Debug)]
pub struct ServiceConfig {
    /// Name.
    pub name: String,
    /// Listener that requests to its peers leave by.
    pub egress: ListenerId,
    /// Whether media is anchored.
    pub anchor_media: bool,
    /// How a new call is offered.
    pub fork: Fork,
    /// Forward without transactions.
    pub stateless: bool,
    /// Silence of an attempt.
    pub attempt_timeout: Duration,
    /// Time for all attempts.
    pub call_budget: Duration,
    /// How its peers are judged.
    pub policy: Policy,
    /// Its peers.
    pub peers: Vec<PeerId>,
}

/// A peer.
#[derive(Clone, Debug)]
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
}

/// A worker.
#[derive(Clone, Debug, Default)]
pub struct WorkerConfig {
    /// Core and the line that names it.
    pub core: Option<(usize, usize)>,
    /// Queues: interface, queue, line.
    pub queues: Vec<(usize, u32, usize)>,
}
