//! Who may send, for packets that come by kernel sockets: the same prefixes as in the XDP program's
//! maps (requirement A5).

use std::net::IpAddr;

/// An address prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    /// Its address.
    pub address: IpAddr,
    /// Its length in bits.
    pub length: u8,
}

impl Prefix {
    /// Whether it holds an address of the same family.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                let shift = 32 - u32::from(self.length.min(32));
                u64::from(own.to_bits()) >> shift == u64::from(other.to_bits()) >> shift
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                let shift = 128 - u32::from(self.length.min(128));
                own.to_bits().checked_shr(shift) == other.to_bits().checked_shr(shift)
            }
            _ => false,
        }
    }
}

/// Allow-listed prefixes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllowList(pub Vec<Prefix>);

impl AllowList {
    /// Whether an address may send.
    pub fn allows(&self, address: IpAddr) -> bool {
        self.0.iter().any(|p| p.contains(address))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_of_prefixes() {
        let allow = |prefix: &str, length, address: &str| {
            Prefix { address: prefix.parse().unwrap(), length }.contains(address.parse().unwrap())
        };
        assert!(allow("192.0.2.0", 28, "192.0.2.15"));
        assert!(!allow("192.0.2.0", 28, "192.0.2.16"));
        assert!(allow("0.0.0.0", 0, "203.0.113.255"));
        assert!(allow("::", 0, "2001:db8::1"));
        assert!(!allow("0.0.0.0", 0, "::1"));
        assert!(allow("192.0.2.7", 32, "192.0.2.7"));
        assert!(!allow("2001:db8::", 32, "2001:db9::"));
        assert!(allow("2001:db8::1", 128, "2001:db8::1"));
    }
}
