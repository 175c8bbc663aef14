//! The file as written. See docs/configuration.md for every key.

use serde::Deserialize;
use std::net::{IpAddr, SocketAddr};
use toml::Spanned;

/// The whole file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct File {
    /// `[node]`
    pub node: Node,
    /// `[dataplane]`
    #[serde(default)]
    pub dataplane: Dataplane,
    /// `[pinning]`
    pub pinning: Option<Pinning>,
    /// `[media]`
    pub media: Option<Media>,
    /// `[[region]]`
    #[serde(default)]
    pub region: Vec<Region>,
    /// `[[interface]]`
    #[serde(default)]
    pub interface: Vec<Interface>,
    /// `[[listener]]`
    pub listener: Vec<Listener>,
    /// `[[service]]`
    #[serde(default)]
    pub service: Vec<Service>,
    /// `[[allow]]`
    #[serde(default)]
    pub allow: Vec<Allow>,
}

/// `[node]`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Node {
    /// Name of the node.
    pub name: String,
    /// The region it belongs to.
    pub region: Option<Spanned<String>>,
    /// Unix socket for `strowger status`.
    pub status_socket: Option<String>,
    /// File with the key of the Record-Route cookies.
    pub key_file: Option<String>,
}

/// `[dataplane]`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dataplane {
    /// Backend.
    #[serde(default)]
    pub backend: Backend,
    /// XDP mode.
    #[serde(default)]
    pub xdp_mode: XdpMode,
    /// Entries of each AF_XDP ring.
    pub ring_size: Option<Spanned<u32>>,
    /// Most SIP transactions of each worker.
    pub max_transactions: Option<Spanned<u32>>,
}

/// How packets get in and out.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Backend {
    /// AF_XDP where there are interfaces in the file, else kernel sockets.
    #[default]
    Auto,
    /// AF_XDP.
    Afxdp,
    /// Kernel sockets.
    Udp,
}

/// XDP mode.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum XdpMode {
    /// The best the driver can do.
    #[default]
    Auto,
    /// Native and zero-copy.
    ZeroCopy,
    /// Native and copying.
    Copy,
    /// Generic.
    Generic,
}

/// `[pinning]`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pinning {
    /// Core of the control thread.
    pub control: Option<Spanned<usize>>,
    /// `[[pinning.worker]]`
    pub worker: Vec<Worker>,
}

/// `[[pinning.worker]]`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Worker {
    /// Its core.
    pub core: Option<Spanned<usize>>,
    /// Its receive queues, as `interface:queue`.
    #[serde(default)]
    pub queues: Vec<Spanned<String>>,
}

/// `[media]`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Media {
    /// `first-last`
    pub ports: Spanned<String>,
    /// Seconds of silence that end a session.
    pub timeout_s: Option<Spanned<u64>>,
}

/// `[[region]]`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Region {
    /// Name.
    pub name: Spanned<String>,
}

/// `[[interface]]`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Interface {
    /// Name in this file.
    pub name: Spanned<String>,
    /// Device name.
    pub device: Spanned<String>,
    /// VLAN id.
    pub vlan: Option<Spanned<u16>>,
    /// XDP mode, if not that of `[dataplane]`.
    pub xdp_mode: Option<XdpMode>,
}

/// `[[listener]]`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Listener {
    /// Name.
    pub name: Spanned<String>,
    /// Local address and port.
    pub address: Spanned<SocketAddr>,
    /// Address for media on this side, if not the same.
    pub media_address: Option<Spanned<IpAddr>>,
    /// Service that new requests go to.
    pub service: Option<Spanned<String>>,
}

/// `[[service]]`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Service {
    /// Name.
    pub name: Spanned<String>,
    /// Listener that requests to its peers leave by.
    pub listener: Spanned<String>,
    /// Whether media runs through this node.
    #[serde(default)]
    pub media: MediaMode,
    /// How a new call is offered to the peers.
    #[serde(default)]
    pub fork: ForkMode,
    /// Whether this node keeps transactions.
    #[serde(default)]
    pub state: StateMode,
    /// Silence of an attempt after which the next peer is tried.
    pub attempt_timeout_ms: Option<Spanned<u64>>,
    /// Time for all attempts of a call.
    pub call_budget_ms: Option<Spanned<u64>>,
    /// Health probes.
    pub probe: Option<Probe>,
    /// `[[service.peer]]`
    pub peer: Vec<Peer>,
}

/// Media anchoring.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum MediaMode {
    /// Through this node.
    Anchor,
    /// SDP untouched.
    #[default]
    Off,
}

/// How a new call is offered.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum ForkMode {
    /// To one peer after the other.
    #[default]
    Sequential,
    /// To all peers of the best region and priority at once.
    Parallel,
}

/// Whether this node keeps transactions.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum StateMode {
    /// Yes: it retries, and answers retransmissions.
    #[default]
    Stateful,
    /// No: every message is forwarded as it comes (RFC 3261 16.11).
    Stateless,
}

/// `[service.probe]`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Probe {
    /// Time between probes.
    pub interval_ms: Option<Spanned<u64>>,
    /// Random part of it, in percent.
    pub jitter_percent: Option<Spanned<u8>>,
    /// How long a probe may take.
    pub timeout_ms: Option<Spanned<u64>>,
    /// Failures in a row that make a peer UNHEALTHY.
    pub fall: Option<Spanned<u32>>,
    /// Successes in a row that bring it back.
    pub rise: Option<Spanned<u32>>,
    /// Failed calls in a row that make it UNHEALTHY; 0: none do.
    pub passive_fall: Option<Spanned<u32>>,
}

/// `[[service.peer]]`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Peer {
    /// Name.
    pub name: Spanned<String>,
    /// Address and port.
    pub address: Spanned<SocketAddr>,
    /// Region.
    pub region: Option<Spanned<String>>,
    /// Zone within the region.
    pub zone: Option<String>,
    /// Lower is tried first.
    #[serde(default)]
    pub priority: u16,
    /// Share among peers of one priority.
    #[serde(default = "one")]
    pub weight: u16,
}

fn one() -> u16 {
    1
}

/// `[[allow]]`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Allow {
    /// Source prefix, `address/length`.
    pub prefix: Spanned<String>,
    /// Region of the sources.
    pub region: Option<Spanned<String>>,
}
