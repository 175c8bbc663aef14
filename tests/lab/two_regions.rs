//! The laboratory of the demo and of most tests: a carrier, one strowger node, and two regions with
//! two peers each behind a router.
//!
//! ```text
//! carrier 192.0.2.10 ── 192.0.2.1 node 198.18.0.1 ── router ─┬─ region A 198.51.100.11, .12
//!                                                            └─ region B 203.0.113.11, .12
//! ```

use crate::{
    Namespace, StrowgerNode,
    node::Scratch,
    sipp::{self, RunningSipp, Sipp},
    veth,
};
use anyhow::{Context as _, Result};
use rustix::process::Signal;
use std::{collections::BTreeMap, net::SocketAddr, time::Duration};

/// The configuration that goes with this laboratory.
pub const CONFIG: &str = include_str!("../../examples/two-regions.toml");

/// Peers: name, region A or B, address.
pub const PEERS: [(&str, char, &str); 4] = [
    ("a1", 'A', "198.51.100.11:5060"),
    ("a2", 'A', "198.51.100.12:5060"),
    ("b1", 'B', "203.0.113.11:5060"),
    ("b2", 'B', "203.0.113.12:5060"),
];

/// Address of the node on the carrier's side.
pub const NODE: &str = "192.0.2.1:5060";

/// The laboratory; processes first, so that they end before their namespaces go.
#[derive(Debug)]
pub struct TwoRegions {
    peers: BTreeMap<&'static str, RunningSipp>,
    /// The node, once started.
    pub node: Option<StrowgerNode>,
    /// The carrier's namespace.
    pub carrier: Namespace,
    /// The node's namespace.
    pub node_space: Namespace,
    /// The router's namespace.
    pub router: Namespace,
    regions: [Namespace; 2],
    /// Directory of all files.
    pub scratch: Scratch,
}

/// The configuration without media through the node: for many calls, whose audio would only slow the peers
/// down.
pub fn quiet() -> String {
    CONFIG.replace("media = \"anchor\"", "media = \"off\"")
}

/// The configuration with peer a1 always tried first.
pub fn a1_first() -> String {
    CONFIG.replace("name = \"a2\"", "name = \"a2\"\npriority = 1")
}

/// Waits until a node finds all peers healthy.
///
/// # Errors
/// It does not within ten seconds.
pub fn wait_healthy(node: &StrowgerNode) -> Result<()> {
    PEERS
        .iter()
        .try_for_each(|(peer, _, _)| node.wait_for(peer, "HEALTHY", Duration::from_secs(10)).map(drop))
}

impl TwoRegions {
    /// Makes namespaces and links; `queues`: receive queues of the node's interfaces.
    ///
    /// # Errors
    /// Not root, or tools are missing.
    pub fn new(queues: u32) -> Result<Self> {
        let [carrier, node, router, a, b] = ["carrier", "node", "router", "a", "b"].map(Namespace::new);
        let (carrier, node, router, a, b) = (carrier?, node?, router?, a?, b?);
        veth((&node, "access"), (&carrier, "eth"), queues)?;
        veth((&node, "core"), (&router, "node"), queues)?;
        veth((&router, "a"), (&a, "eth"), 1)?;
        veth((&router, "b"), (&b, "eth"), 1)?;
        carrier.address("eth", "192.0.2.10/24")?;
        node.address("access", "192.0.2.1/24")?;
        node.address("core", "198.18.0.1/24")?;
        router.address("node", "198.18.0.254/24")?;
        router.address("a", "198.51.100.1/24")?;
        router.address("b", "203.0.113.1/24")?;
        router.sysctl("net.ipv4.ip_forward=1")?;
        for (region, net, gateway) in [(&a, "198.51.100", "198.51.100.1"), (&b, "203.0.113", "203.0.113.1")] {
            region.address("eth", &format!("{net}.11/24"))?;
            region.address("eth", &format!("{net}.12/24"))?;
            region.route("default", gateway)?;
        }
        node.route("default", "198.18.0.254")?;
        let scratch = Scratch::new()?;
        sipp::write_capture(&scratch.path().join("audio.pcap"), &sipp::audio(100))?;
        Ok(Self {
            peers: BTreeMap::new(),
            node: None,
            carrier,
            node_space: node,
            router,
            regions: [a, b],
            scratch,
        })
    }

    /// Starts the node with a configuration.
    ///
    /// # Errors
    /// It does not start.
    pub fn start_node(&mut self, config: &str) -> Result<&StrowgerNode> {
        let node = StrowgerNode::start(&self.node_space, &self.scratch.path().join("node"), config)?;
        Ok(self.node.insert(node))
    }

    /// Starts the node with a configuration and waits until it finds all peers healthy.
    ///
    /// # Errors
    /// It does not start, or a peer is not well.
    pub fn start_healthy(&mut self, config: &str) -> Result<&StrowgerNode> {
        let node = self.start_node(config)?;
        wait_healthy(node)?;
        Ok(node)
    }

    /// The node.
    ///
    /// # Panics
    /// If none was started.
    pub fn running(&self) -> &StrowgerNode {
        self.node.as_ref().expect("a started node")
    }

    /// Starts a peer with a scenario and arguments.
    ///
    /// # Errors
    /// SIPp does not start, or there is no such peer.
    ///
    /// # Panics
    /// If there is no such peer.
    pub fn start_peer(&mut self, name: &'static str, scenario: &str, args: &[&str]) -> Result<()> {
        let (_, region, address) = PEERS.iter().find(|(n, _, _)| *n == name).expect("a peer of PEERS");
        let args = args.iter().map(|a| (*a).to_owned()).collect();
        let sipp = Sipp { scenario, local: address.parse()?, remote: None, args };
        let running = sipp.start(self.region(*region), self.scratch.path())?;
        self.peers.insert(name, running);
        Ok(())
    }

    /// Starts all four peers, answering calls and echoing media.
    ///
    /// # Errors
    /// SIPp does not start.
    pub fn start_all_peers(&mut self) -> Result<()> {
        PEERS.iter().try_for_each(|(name, _, _)| self.start_peer(name, sipp::ANSWER, &["-rtp_echo"]))
    }

    /// Stops a peer in its tracks: its sockets stay open, and nobody reads them.
    ///
    /// # Errors
    /// It is not running.
    pub fn freeze_peer(&mut self, name: &str) -> Result<()> {
        self.peers.get_mut(name).context("a running peer")?.process().signal(Signal::STOP)
    }

    /// Takes the link to a region down, or up again.
    ///
    /// # Errors
    /// There is no such link.
    pub fn set_link(&self, region: char, state: &str) -> Result<()> {
        self.router.ip(&["link", "set", "dev", &region.to_ascii_lowercase().to_string(), state]).map(drop)
    }

    /// Kills a peer.
    pub fn kill_peer(&mut self, name: &str) {
        if let Some(mut peer) = self.peers.remove(name) {
            peer.process().kill();
        }
    }

    /// A running peer.
    pub fn peer(&mut self, name: &str) -> Option<&mut RunningSipp> {
        self.peers.get_mut(name)
    }

    /// A region's namespace.
    pub fn region(&self, region: char) -> &Namespace {
        &self.regions[usize::from(region == 'B')]
    }

    /// Starts a caller in the carrier's namespace.
    ///
    /// # Errors
    /// SIPp does not start.
    pub fn start_caller(&self, scenario: &str, port: u16, args: &[&str]) -> Result<RunningSipp> {
        let args = args.iter().map(|a| (*a).to_owned()).collect();
        let sipp = Sipp {
            scenario,
            local: SocketAddr::new("192.0.2.10".parse()?, port),
            remote: Some(NODE.parse()?),
            args,
        };
        sipp.start(&self.carrier, self.scratch.path())
    }
}
