//! The rig that whole systems are measured on: a generator and sink of our own on one end of a veth pair,
//! the system under test on the other, every packet numbered and stamped.
//!
//! ```text
//! client: generator and sink, core 0 ── veth ── node: system under test, core 1
//! ```
//!
//! The load is open-loop: packets leave by the clock, whatever becomes of those before them, so that a
//! system that falls behind shows it in loss and latency.

pub mod account;
pub mod generator;
pub mod load;
pub mod measure;
mod sampler;
pub mod search;
pub mod systems;

use anyhow::{Context as _, Result};
use dataplane::port::Port;
use lab::{Namespace, veth};
use load::Ends;
use packet::ethernet::Mac;
use std::net::{IpAddr, SocketAddr};
use xdp_abi::MediaRange;

/// Addresses of the client: one that sends, one that receives.
pub const SENDER: &str = "192.0.2.10:40000";
/// See [`SENDER`].
pub const RECEIVER: &str = "192.0.2.11:40002";
/// Address of the system under test.
pub const SYSTEM: &str = "192.0.2.1";
/// Core of generator and sink.
pub const CLIENT_CORE: usize = 0;
/// Core of the system under test.
pub const SYSTEM_CORE: usize = 1;
/// Entries of all AF_XDP rings.
pub const RING: u32 = 16_384;

/// Further addresses of it in 192.0.2.0/24, for media of many calls; the first half faces the caller.
pub const MEDIA_HOSTS: std::ops::Range<u8> = 100..112;
/// SIP address of the system under test.
pub const LISTENER: &str = "192.0.2.1:5060";

/// One of the rig's addresses with port.
///
/// # Panics
/// It is none.
pub fn socket(text: &str) -> SocketAddr {
    text.parse().expect("an address and port")
}

/// One of the rig's addresses.
///
/// # Panics
/// It is none.
pub fn address(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

/// Both namespaces.
#[derive(Debug)]
pub struct Rig {
    /// Where the load comes from, and where it ends.
    pub client: Namespace,
    /// Where the system under test runs.
    pub system: Namespace,
    queues: u32,
}

/// A stream of packets: from one of the client's addresses to one of the system's.
#[derive(Clone, Copy, Debug)]
pub struct Flow {
    /// Source.
    pub from: SocketAddr,
    /// Destination.
    pub to: SocketAddr,
}

impl Rig {
    /// Makes them, with so many queues of the wire on either side.
    ///
    /// # Errors
    /// Not root, or tools are missing.
    pub fn new(queues: u32) -> Result<Self> {
        let (client, system) = (Namespace::new("client")?, Namespace::new("system")?);
        veth((&system, "wire"), (&client, "wire"), queues)?;
        client.address("wire", "192.0.2.10/24")?;
        client.address("wire", "192.0.2.11/24")?;
        system.address("wire", "192.0.2.1/24")?;
        for host in MEDIA_HOSTS {
            system.address("wire", &format!("192.0.2.{host}/24"))?;
        }
        // Each end knows the other one's MAC address.
        lab::namespace::run(client.command("ping").args(["-c1", "-W2", "-q", SYSTEM])).ok();
        Ok(Self { client, system, queues })
    }

    /// MAC addresses of both ends.
    ///
    /// # Errors
    /// `ip` is missing.
    pub fn ends(&self) -> Result<Ends> {
        Ok(Ends { client: Self::mac(&self.client)?, system: Self::mac(&self.system)? })
    }

    fn mac(end: &Namespace) -> Result<Mac> {
        let text = end.ip(&["-j", "link", "show", "dev", "wire"])?;
        let value: serde_json::Value = serde_json::from_str(&text)?;
        let address = value[0]["address"].as_str().context("a MAC address")?;
        let mut mac = [0; 6];
        for (byte, text) in mac.iter_mut().zip(address.split(':')) {
            *byte = u8::from_str_radix(text, 16)?;
        }
        Ok(Mac(mac))
    }

    /// The client's socket: what comes to its media ports arrives here.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn client_port(&self) -> Result<Port> {
        let range = MediaRange { first: 40_000, last: 49_999 };
        let steered = [SENDER, RECEIVER].map(|end| (socket(end).ip(), range));
        Ok(self.client.enter(|| Port::open("wire", self.queues, &steered, RING))??)
    }
}
