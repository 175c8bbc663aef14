//! Finding peers by DNS (RFC 3263, RFC 2782): [`names`] keeps what is known of every name, without IO;
//! [`ask`] asks.

pub mod ask;
pub mod names;

pub use ask::Resolver;
pub use names::{Names, Status};

use crate::configure::{DiscoverConfig, schema::Lookup};
use serde::{Deserialize, Serialize};
use std::{net::SocketAddr, time::Duration};

/// Something to ask DNS.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Question {
    /// Domain name.
    pub name: String,
    /// Labels before it in an SRV lookup; none: the name's own addresses are asked.
    pub label: Option<String>,
    /// Whether NAPTR records say which SRV records count.
    pub naptr: bool,
    /// Port of addresses without SRV.
    pub port: u16,
    /// Whether IPv4 addresses are wanted, else IPv6.
    pub ipv4: bool,
}

impl Question {
    /// Of a service's configuration.
    pub fn new(discover: &DiscoverConfig, ipv4: bool) -> Self {
        Self {
            name: discover.name.clone(),
            label: (discover.lookup != Lookup::Address).then(|| discover.label.clone()),
            naptr: discover.lookup == Lookup::Naptr,
            port: discover.port,
            ipv4,
        }
    }

    /// As shown to people: the name that is asked first.
    pub fn shown(&self) -> String {
        match &self.label {
            Some(label) if !self.naptr => format!("{label}.{}", self.name),
            _ => self.name.clone(),
        }
    }
}

/// A server that DNS names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    /// Its host name.
    pub host: String,
    /// Its address.
    pub address: SocketAddr,
    /// Lower is tried first.
    pub priority: u16,
    /// Share within a priority.
    pub weight: u16,
}

impl Answer {
    /// Servers that are all known.
    pub fn whole(targets: Vec<Target>, ttl: Duration) -> Self {
        Self::Targets { targets, ttl, failed: Vec::new() }
    }
}

/// What DNS says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// These servers, for so long.
    Targets {
        /// The servers.
        targets: Vec<Target>,
        /// How long DNS vouches for them.
        ttl: Duration,
        /// Hosts whose addresses nobody could tell: what was known of them stays.
        failed: Vec<String>,
    },
    /// The service is decidedly not there (RFC 2782: target `.`), for so long.
    Absent(Duration),
    /// The name does not exist, or has no such record.
    Negative,
    /// No answer, or one that says nothing about the name.
    Failed(String),
}
