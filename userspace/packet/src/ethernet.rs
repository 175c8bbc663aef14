//! Ethernet II with at most one IEEE 802.1Q tag.

/// Length of the header without a VLAN tag.
pub const LEN: usize = 14;
/// Length that a VLAN tag adds.
pub const VLAN_LEN: usize = 4;
/// EtherType of IPv4.
pub const IPV4: u16 = 0x0800;
/// EtherType of IPv6.
pub const IPV6: u16 = 0x86dd;
/// EtherType of an 802.1Q tag.
pub const VLAN: u16 = 0x8100;

/// A MAC address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Mac(pub [u8; 6]);

impl core::fmt::Display for Mac {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

/// What the Ethernet header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// VLAN id where the frame is tagged.
    pub vlan: Option<u16>,
    /// EtherType behind the tag.
    pub ethertype: u16,
    /// Bytes of header.
    pub len: usize,
}

/// Reads the header; `None` where the frame is too short.
#[inline(always)]
pub fn parse(frame: &[u8]) -> Option<Header> {
    let word = |at: usize| Some(u16::from_be_bytes(*frame.get(at..)?.first_chunk::<2>()?));
    let ethertype = word(12)?;
    if ethertype != VLAN {
        return Some(Header { vlan: None, ethertype, len: LEN });
    }
    Some(Header { vlan: Some(word(14)? & 0x0fff), ethertype: word(16)?, len: LEN + VLAN_LEN })
}

/// Writes the header to the start of `out` and returns its length. `out` holds at least 18 bytes.
#[inline(always)]
pub fn write(out: &mut [u8], destination: Mac, source: Mac, vlan: Option<u16>, ethertype: u16) -> usize {
    out[..6].copy_from_slice(&destination.0);
    out[6..12].copy_from_slice(&source.0);
    match vlan {
        None => {
            out[12..14].copy_from_slice(&ethertype.to_be_bytes());
            LEN
        }
        Some(id) => {
            out[12..14].copy_from_slice(&VLAN.to_be_bytes());
            out[14..16].copy_from_slice(&(id & 0x0fff).to_be_bytes());
            out[16..18].copy_from_slice(&ethertype.to_be_bytes());
            LEN + VLAN_LEN
        }
    }
}
