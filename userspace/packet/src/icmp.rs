//! ICMP errors: which of our datagrams did not arrive (RFC 792, RFC 4443).

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The datagram that an error quotes, as far as it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quoted<'a> {
    /// Who sent it.
    pub from: SocketAddr,
    /// Where it did not arrive.
    pub to: SocketAddr,
    /// The beginning of its payload.
    pub payload: &'a [u8],
}

const UDP: u8 = 17;
/// Destination unreachable.
const UNREACHABLE_V4: u8 = 3;
const UNREACHABLE_V6: u8 = 1;
/// Fragmentation needed, and source route failed: the destination may be well.
const NOT_FATAL_V4: [u8; 2] = [4, 5];

/// Reads a packet of a raw ICMPv4 socket, which begins with the IP header. `None`: no error, or none
/// that says that a destination is unreachable (RFC 3261 18.4).
pub fn unreachable_v4(packet: &[u8]) -> Option<Quoted<'_>> {
    let icmp = packet.get(header_len(packet)?..)?;
    let (kind, code) = (*icmp.first()?, *icmp.get(1)?);
    if kind != UNREACHABLE_V4 || NOT_FATAL_V4.contains(&code) {
        return None;
    }
    let quoted = icmp.get(8..)?;
    let address = |at: usize| Some(IpAddr::from(Ipv4Addr::from(*quoted.get(at..)?.first_chunk::<4>()?)));
    let is_first = u16::from_be_bytes(*quoted.get(6..)?.first_chunk()?) & 0x1fff == 0;
    if *quoted.get(9)? != UDP || !is_first {
        return None;
    }
    udp(quoted.get(header_len(quoted)?..)?, address(12)?, address(16)?)
}

/// Reads a packet of a raw ICMPv6 socket, which begins with the ICMP header.
pub fn unreachable_v6(icmp: &[u8]) -> Option<Quoted<'_>> {
    if *icmp.first()? != UNREACHABLE_V6 {
        return None;
    }
    let quoted = icmp.get(8..)?;
    let address = |at: usize| Some(IpAddr::from(Ipv6Addr::from(*quoted.get(at..)?.first_chunk::<16>()?)));
    if *quoted.get(6)? != UDP {
        return None;
    }
    udp(quoted.get(40..)?, address(8)?, address(24)?)
}

fn header_len(packet: &[u8]) -> Option<usize> {
    let first = *packet.first()?;
    let len = usize::from(first & 0xf) * 4;
    (first >> 4 == 4 && len >= 20).then_some(len)
}

fn udp(segment: &[u8], from: IpAddr, to: IpAddr) -> Option<Quoted<'_>> {
    let port = |at: usize| Some(u16::from_be_bytes(*segment.get(at..)?.first_chunk()?));
    Some(Quoted {
        from: SocketAddr::new(from, port(0)?),
        to: SocketAddr::new(to, port(2)?),
        payload: segment.get(8..)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::{vec, vec::Vec};

    fn ipv4(protocol: u8, from: [u8; 4], to: [u8; 4], payload: &[u8]) -> Vec<u8> {
        let mut packet = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, protocol, 0, 0];
        packet.extend_from_slice(&from);
        packet.extend_from_slice(&to);
        packet.extend_from_slice(payload);
        packet
    }

    fn datagram(payload: &[u8]) -> Vec<u8> {
        let mut segment = vec![0x13, 0xc4, 0x13, 0xc6, 0, 0, 0, 0];
        segment.extend_from_slice(payload);
        segment
    }

    #[test]
    fn errors_name_the_datagram_that_did_not_arrive() {
        let quoted = ipv4(17, [192, 0, 2, 1], [198, 51, 100, 7], &datagram(b"INVITE"));
        let error = |kind: u8, code: u8, quoted: &[u8]| {
            let mut icmp = vec![kind, code, 0, 0, 0, 0, 0, 0];
            icmp.extend_from_slice(quoted);
            ipv4(1, [198, 51, 100, 7], [192, 0, 2, 1], &icmp)
        };
        let expected = Quoted {
            from: "192.0.2.1:5060".parse().unwrap(),
            to: "198.51.100.7:5062".parse().unwrap(),
            payload: b"INVITE",
        };
        for code in [0, 1, 2, 3, 13] {
            assert_eq!(unreachable_v4(&error(3, code, &quoted)), Some(expected));
        }
        for (kind, code) in [(3, 4), (3, 5), (0, 0), (8, 0), (11, 0)] {
            assert_eq!(unreachable_v4(&error(kind, code, &quoted)), None);
        }
        let other = ipv4(6, [192, 0, 2, 1], [198, 51, 100, 7], &datagram(b""));
        assert_eq!(unreachable_v4(&error(3, 3, &other)), None);
        // Cut anywhere it is refused or still names the same datagram.
        let whole = error(3, 3, &quoted);
        for end in 0..whole.len() {
            let read = unreachable_v4(&whole[..end]);
            assert!(read.is_none_or(|q| (q.from, q.to) == (expected.from, expected.to)));
        }
    }

    #[test]
    fn the_same_for_ipv6() {
        let mut icmp = vec![1, 4, 0, 0, 0, 0, 0, 0, 0x60, 0, 0, 0, 0, 0, 17, 64];
        icmp.extend_from_slice(&"2001:db8::1".parse::<Ipv6Addr>().unwrap().octets());
        icmp.extend_from_slice(&"2001:db8::7".parse::<Ipv6Addr>().unwrap().octets());
        icmp.extend_from_slice(&datagram(b"OPTIONS"));
        let quoted = unreachable_v6(&icmp).unwrap();
        assert_eq!(quoted.to, "[2001:db8::7]:5062".parse().unwrap());
        assert_eq!(quoted.payload, b"OPTIONS");
        icmp[0] = 2;
        assert_eq!(unreachable_v6(&icmp), None);
    }
}
