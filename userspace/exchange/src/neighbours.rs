//! Next hops: by which interface and to which MAC address packets to an address leave.

use hashbrown::HashMap;
use packet::ethernet::Mac;
use std::net::IpAddr;

/// Where packets to an address leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NextHop {
    /// Index of the interface in the configuration.
    pub interface: u8,
    /// MAC address of the next hop.
    pub mac: Mac,
}

/// Resolved next hops by destination address.
#[derive(Clone, Debug, Default)]
pub struct NextHops(pub HashMap<IpAddr, NextHop, ahash::RandomState>);

impl NextHops {
    /// The next hop to an address, if it is resolved.
    #[inline]
    pub fn get(&self, address: IpAddr) -> Option<NextHop> {
        self.0.get(&address).copied()
    }
}
