//! An address and port in few bytes, of either family.

use core::net::{IpAddr, Ipv6Addr, SocketAddr};

/// An address, IPv4-mapped where it is of IPv4, and a port; port 0: none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Endpoint {
    ip: [u8; 16],
    port: u16,
}

impl Endpoint {
    /// No endpoint.
    pub(crate) const NONE: Self = Self { ip: [0; 16], port: 0 };

    #[inline]
    pub(crate) fn get(self) -> Option<SocketAddr> {
        if self.port == 0 {
            return None;
        }
        let ip = Ipv6Addr::from(self.ip);
        let ip = ip.to_ipv4_mapped().map_or(IpAddr::V6(ip), IpAddr::V4);
        Some(SocketAddr::new(ip, self.port))
    }
}

impl From<SocketAddr> for Endpoint {
    #[inline]
    fn from(address: SocketAddr) -> Self {
        let ip = match address.ip() {
            IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
            IpAddr::V6(ip) => ip.octets(),
        };
        Self { ip, port: address.port() }
    }
}

impl From<Option<SocketAddr>> for Endpoint {
    fn from(address: Option<SocketAddr>) -> Self {
        address.map_or(Self::NONE, Self::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_families_come_back_and_none_is_none() {
        for text in ["192.0.2.1:5", "[2001:db8::1]:65535", "0.0.0.0:1", "[::]:2"] {
            let address: SocketAddr = text.parse().unwrap();
            assert_eq!(Endpoint::from(address).get(), Some(address));
        }
        assert_eq!(Endpoint::from(None).get(), None);
    }
}
