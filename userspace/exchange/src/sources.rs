//! Who may send, for packets that come by kernel sockets: the same prefixes as in the XDP program's
//! maps (requirement A5).

use std::net::IpAddr;

/// An address prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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

/// Allow-listed prefixes. Single addresses, of which there may be thousands, are searched by halves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllowList {
    prefixes: Vec<Prefix>,
    hosts: Vec<IpAddr>,
}

impl AllowList {
    /// Of these prefixes.
    pub fn new(all: impl IntoIterator<Item = Prefix>) -> Self {
        let mut list = Self::default();
        for prefix in all {
            match (prefix.address, prefix.length) {
                (IpAddr::V4(_), 32) | (IpAddr::V6(_), 128) => list.hosts.push(prefix.address),
                _ => list.prefixes.push(prefix),
            }
        }
        list.hosts.sort_unstable();
        list.hosts.dedup();
        list
    }

    /// Whether an address may send.
    pub fn allows(&self, address: IpAddr) -> bool {
        self.prefixes.iter().any(|p| p.contains(address)) || self.hosts.binary_search(&address).is_ok()
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

    #[test]
    fn hosts_and_prefixes() {
        let prefix = |address: &str, length| Prefix { address: address.parse().unwrap(), length };
        let hosts = ["192.0.2.9", "192.0.2.3", "192.0.2.9"].map(|host| prefix(host, 32));
        let list =
            AllowList::new(hosts.into_iter().chain([prefix("198.51.100.0", 24), prefix("2001:db8::7", 128)]));
        for (address, allowed) in [
            ("192.0.2.3", true),
            ("192.0.2.9", true),
            ("192.0.2.4", false),
            ("198.51.100.77", true),
            ("2001:db8::7", true),
            ("2001:db8::8", false),
        ] {
            assert_eq!(list.allows(address.parse().unwrap()), allowed, "{address}");
        }
    }
}
