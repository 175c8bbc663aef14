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
    /// `[admin]`
    pub admin: Option<Admin>,
    /// `[dns]`
    pub dns: Option<Dns>,
    /// `[health]`
    #[serde(default)]
    pub health: Health,
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
    /// File that the last known good state is kept in.
    pub state_file: Option<String>,
    /// Calls per second of the whole deployment.
    pub load_cps: Option<u32>,
}

/// `[admin]`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Admin {
    /// Loopback address of the HTTP port: status page, metrics, readiness, the API without its verbs.
    pub http: Option<Spanned<SocketAddr>>,
}

/// `[dns]`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dns {
    /// Servers to ask; the system's without them.
    #[serde(default)]
    pub servers: Vec<Spanned<String>>,
    /// How long a server may take.
    pub timeout_ms: Option<Spanned<u64>>,
    /// Answers are used at least this long.
    pub ttl_floor_s: Option<Spanned<u64>>,
    /// And at most this long.
    pub ttl_ceiling_s: Option<Spanned<u64>>,
    /// How long a name must be gone before its peers go.
    pub negative_grace_s: Option<Spanned<u64>>,
}

/// `[health]`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Health {
    /// Program to run on every transition, with its arguments.
    pub command: Option<Spanned<Vec<String>>>,
    /// How long it may run.
    pub command_timeout_ms: Option<Spanned<u64>>,
    /// `[[health.policy]]`
    #[serde(default)]
    pub policy: Vec<HealthPolicy>,
    /// `[[health.source]]`
    #[serde(default)]
    pub source: Vec<Source>,
    /// `[[health.composite]]`
    #[serde(default)]
    pub composite: Vec<Composite>,
}

/// `[[health.policy]]`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HealthPolicy {
    /// Name.
    pub name: Spanned<String>,
    /// Least share of HEALTHY peers.
    pub min_percent: Option<Spanned<u8>>,
    /// Least number of HEALTHY peers.
    pub min_healthy: Option<Spanned<u32>>,
}

/// `[[health.source]]`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// Name.
    pub name: Spanned<String>,
    /// Service that it watches.
    pub service: Spanned<String>,
    /// In this region; without it in all.
    pub region: Option<Spanned<String>>,
    /// By this policy.
    pub policy: Option<Spanned<String>>,
}

/// `[[health.composite]]`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Composite {
    /// Name.
    pub name: Spanned<String>,
    /// Sources that must be HEALTHY.
    #[serde(default)]
    pub sources: Vec<Spanned<String>>,
    /// Composites that must be HEALTHY.
    #[serde(default)]
    pub composites: Vec<Spanned<String>>,
    /// Whether it has consequences.
    pub mode: CompositeMode,
    /// Region that new calls leave when it is UNHEALTHY.
    pub region: Option<Spanned<String>>,
    /// Services whose calls do; without them those of all.
    #[serde(default)]
    pub services: Vec<Spanned<String>>,
    /// How calls come back.
    #[serde(default)]
    pub failback: FailbackMode,
    /// How long it must be HEALTHY before they do.
    pub hold_down_s: Option<Spanned<u64>>,
}

/// Whether a composite has consequences.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum CompositeMode {
    /// No: it is computed, logged and counted.
    Shadow,
    /// Yes.
    Enforce,
}

/// How calls come back to a region.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum FailbackMode {
    /// After the region has been HEALTHY for a time.
    #[default]
    HoldDown,
    /// At once.
    Immediate,
    /// By the operator's word.
    Sticky,
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
    /// How long a worker without work looks for some before it sleeps, in microseconds.
    pub spin_us: Option<Spanned<u32>>,
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
    /// Seconds of silence that end a call's media.
    pub timeout_s: Option<Spanned<u64>>,
    /// The same for a call on hold.
    pub hold_timeout_s: Option<Spanned<u64>>,
    /// Seconds that a pair of ports rests before it is used again.
    pub rest_s: Option<Spanned<u64>>,
    /// Who may send.
    #[serde(default)]
    pub source: SourceMode,
    /// How long after the first packet a better source may take over.
    pub learning_ms: Option<Spanned<u64>>,
    /// Traffic class of relayed packets, if not their own.
    pub dscp: Option<Spanned<u8>>,
    /// What becomes of ICE.
    #[serde(default)]
    pub ice: IceMode,
    /// What becomes of a description that cannot be read.
    #[serde(default)]
    pub broken_sdp: BrokenMode,
}

/// Who may send media.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum SourceMode {
    /// Whoever comes first and fits best.
    #[default]
    Learn,
    /// The address in the SDP.
    Strict,
}

/// What becomes of ICE.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum IceMode {
    /// It is taken out.
    #[default]
    Strip,
    /// Such a description stays as it is, and its media does not run through this node.
    Keep,
}

/// What becomes of a description that cannot be read.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum BrokenMode {
    /// It is refused with 488.
    #[default]
    Reject,
    /// It passes untouched.
    Pass,
}

/// `[[region]]`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Region {
    /// Name.
    pub name: Spanned<String>,
    /// Calls per second that it can carry.
    pub capacity_cps: Option<u32>,
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
    /// Several of them, for more ports or for both families.
    pub media_addresses: Option<Vec<Spanned<IpAddr>>>,
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
    /// What a 5xx other than 503 and 504 to a new call means.
    pub on_5xx: Option<Spanned<ServerErrorMode>>,
    /// Whether peers are tried although all are UNHEALTHY.
    #[serde(default = "yes")]
    pub fail_open: bool,
    /// Health probes.
    pub probe: Option<Probe>,
    /// `[[service.peer]]`
    #[serde(default)]
    pub peer: Vec<Peer>,
    /// `[[service.discover]]`
    #[serde(default)]
    pub discover: Vec<Discover>,
}

/// What a 5xx means.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum ServerErrorMode {
    /// It is the answer.
    #[default]
    Pass,
    /// The next peer is tried.
    Retry,
    /// The same, and it counts as a failed call.
    Failure,
}

/// `[[service.discover]]`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Discover {
    /// Domain name.
    pub name: Spanned<String>,
    /// What is asked.
    #[serde(default)]
    pub lookup: Lookup,
    /// Labels before the name in an SRV lookup.
    pub label: Option<String>,
    /// Port of addresses without SRV.
    #[serde(default = "sip_port")]
    pub port: u16,
    /// Region of the peers.
    pub region: Option<Spanned<String>>,
    /// Added to their priorities.
    #[serde(default)]
    pub priority: u16,
    /// Whether media of their calls runs through this node, where the service leaves it to them.
    #[serde(default)]
    pub anchor: bool,
}

/// How a name leads to peers.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Hash)]
#[serde(rename_all = "kebab-case")]
pub enum Lookup {
    /// SRV records, then the addresses of their targets.
    #[default]
    Srv,
    /// NAPTR records, which name the SRV records; SRV where there are none.
    Naptr,
    /// The name's own addresses.
    Address,
}

/// Media anchoring.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum MediaMode {
    /// Through this node.
    Anchor,
    /// Through this node for peers that say so.
    Marked,
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
    /// What shows that a peer lives.
    #[serde(default)]
    pub kind: ProbeMode,
    /// Time between probes.
    pub interval_ms: Option<Spanned<u64>>,
    /// Time between probes of a peer that has been UNHEALTHY for long.
    pub max_interval_ms: Option<Spanned<u64>>,
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
    /// Answers to OPTIONS that are no success.
    pub failing: Option<Vec<Spanned<u16>>>,
    /// How long a recovering peer must stay fit before it is HEALTHY.
    pub hold_down_ms: Option<Spanned<u64>>,
    /// Time in which it gets its full share of calls again.
    pub slow_start_ms: Option<Spanned<u64>>,
    /// Time between trial calls of an UNHEALTHY peer that is not probed.
    pub trial_interval_ms: Option<Spanned<u64>>,
}

/// What shows that a peer lives.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum ProbeMode {
    /// Answers to OPTIONS, and calls.
    #[default]
    Options,
    /// Calls alone.
    Passive,
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
    /// Whether media of its calls runs through this node, where the service leaves it to its peers.
    #[serde(default)]
    pub anchor: bool,
}

fn one() -> u16 {
    1
}

fn yes() -> bool {
    true
}

fn sip_port() -> u16 {
    5060
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
