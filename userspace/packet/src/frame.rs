//! A whole frame: read and verified in one go, or written in one go.

use crate::{DropReason, checksum::Sum, ethernet, ethernet::Mac, ipv4, ipv6, udp};
use core::{
    net::{IpAddr, SocketAddr},
    ops::Range,
};

/// TTL or hop limit of packets that this node makes.
pub const TTL: u8 = 64;

/// A UDP datagram found in a frame, with all checksums verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// Sender.
    pub source: SocketAddr,
    /// Addressee.
    pub destination: SocketAddr,
    /// DSCP and ECN.
    pub tos: u8,
    /// VLAN id where the frame is tagged.
    pub vlan: Option<u16>,
    /// Where in the frame the payload lies; padding of short frames is outside.
    pub payload: Range<usize>,
    /// Sum of the payload.
    pub payload_sum: Sum,
    /// Whether the checksum was left unfinished by a sender on this machine.
    pub partial_checksum: bool,
}

/// Headers of a frame to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Headers {
    /// MAC of the next hop.
    pub destination_mac: Mac,
    /// MAC of the interface it leaves by.
    pub source_mac: Mac,
    /// VLAN id of that interface.
    pub vlan: Option<u16>,
    /// Sender.
    pub source: SocketAddr,
    /// Addressee, of the same family.
    pub destination: SocketAddr,
    /// DSCP and ECN.
    pub tos: u8,
}

/// Reads and verifies a frame.
///
/// # Errors
/// The reason to drop it. Frames that the XDP program passes to the kernel give
/// [`DropReason::FrameUnexpected`] here: they never arrive unless both disagree.
#[inline(always)]
pub fn parse(frame: &[u8]) -> Result<Datagram, DropReason> {
    let eth = ethernet::parse(frame).ok_or(DropReason::FrameTruncated)?;
    let bytes = &frame[eth.len..];
    let (source, destination, tos, ip_len, payload_len): (IpAddr, IpAddr, u8, usize, usize) =
        match eth.ethertype {
            ethernet::IPV4 => {
                let ip = ipv4::parse(bytes)?;
                (ip.source.into(), ip.destination.into(), ip.tos, ipv4::LEN, ip.payload_len)
            }
            ethernet::IPV6 => {
                let ip = ipv6::parse(bytes)?;
                (ip.source.into(), ip.destination.into(), ip.tos, ipv6::LEN, ip.payload_len)
            }
            _ => return Err(DropReason::FrameUnexpected),
        };
    let udp = udp::parse(&bytes[ip_len..ip_len + payload_len], source, destination)?;
    let start = eth.len + ip_len + udp::LEN;
    Ok(Datagram {
        source: SocketAddr::new(source, udp.source),
        destination: SocketAddr::new(destination, udp.destination),
        tos,
        vlan: eth.vlan,
        payload: start..start + udp.payload_len,
        payload_sum: udp.payload_sum,
        partial_checksum: udp.partial,
    })
}

/// Where a frame says that it goes, taken on trust: for whoever wants to know early what [`parse`] will
/// find. Only frames of plain IPv4 or IPv6 without VLAN tag tell.
#[inline]
pub fn peek_destination(frame: &[u8]) -> Option<SocketAddr> {
    let word = |at: usize| Some(u16::from_be_bytes(*frame.get(at..)?.first_chunk::<2>()?));
    match word(12)? {
        ethernet::IPV4 => {
            let ip = frame.get(ethernet::LEN + 16..)?.first_chunk::<4>()?;
            Some(SocketAddr::new(IpAddr::from(*ip), word(ethernet::LEN + ipv4::LEN + 2)?))
        }
        ethernet::IPV6 => {
            let ip = frame.get(ethernet::LEN + 24..)?.first_chunk::<16>()?;
            Some(SocketAddr::new(IpAddr::from(*ip), word(ethernet::LEN + ipv6::LEN + 2)?))
        }
        _ => None,
    }
}

/// Bytes of headers that [`write`] puts before the payload.
#[inline]
pub fn headers_len(headers: &Headers) -> usize {
    let vlan = if headers.vlan.is_some() { ethernet::VLAN_LEN } else { 0 };
    let ip = if headers.destination.is_ipv4() { ipv4::LEN } else { ipv6::LEN };
    ethernet::LEN + vlan + ip + udp::LEN
}

/// Writes the headers of a datagram to the start of `out`, which holds [`headers_len`] bytes before
/// a payload of `payload_len` bytes with the given sum. Source and destination are of one family;
/// where they are not, the source is replaced by the unspecified address of the destination's.
#[inline(always)]
pub fn write(out: &mut [u8], headers: &Headers, payload_len: usize, payload_sum: Sum) {
    let ip_payload = udp::LEN + payload_len;
    let (ethertype, ip_len) = match headers.destination {
        SocketAddr::V4(_) => (ethernet::IPV4, ipv4::LEN),
        SocketAddr::V6(_) => (ethernet::IPV6, ipv6::LEN),
    };
    let eth_len = ethernet::write(out, headers.destination_mac, headers.source_mac, headers.vlan, ethertype);
    let ip = &mut out[eth_len..];
    let source = match (headers.source.ip(), headers.destination.ip()) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            ipv4::write(
                ip,
                &ipv4::Header { source, destination, tos: headers.tos, payload_len: ip_payload },
                TTL,
            );
            headers.source
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            ipv6::write(
                ip,
                &ipv6::Header { source, destination, tos: headers.tos, payload_len: ip_payload },
                TTL,
            );
            headers.source
        }
        (_, IpAddr::V4(_)) => {
            return write_from_unspecified(out, headers, payload_len, payload_sum, "0.0.0.0");
        }
        (_, IpAddr::V6(_)) => return write_from_unspecified(out, headers, payload_len, payload_sum, "::"),
    };
    udp::write(&mut ip[ip_len..], source, headers.destination, payload_len, payload_sum);
}

#[cold]
fn write_from_unspecified(out: &mut [u8], headers: &Headers, len: usize, sum: Sum, any: &str) {
    let ip = any.parse().unwrap_or(IpAddr::V6(core::net::Ipv6Addr::UNSPECIFIED));
    let source = SocketAddr::new(ip, headers.source.port());
    write(out, &Headers { source, ..*headers }, len, sum);
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use etherparse::PacketBuilder;
    use std::{vec, vec::Vec};

    fn sample(source: &str, destination: &str, vlan: Option<u16>, payload: &[u8]) -> Vec<u8> {
        let headers = Headers {
            destination_mac: Mac([2, 0, 0, 0, 0, 1]),
            source_mac: Mac([2, 0, 0, 0, 0, 2]),
            vlan,
            source: source.parse().unwrap(),
            destination: destination.parse().unwrap(),
            tos: 0xb8,
        };
        let start = headers_len(&headers);
        let mut out = vec![0; start + payload.len()];
        out[start..].copy_from_slice(payload);
        write(&mut out, &headers, payload.len(), Sum::new().add_bytes(payload));
        out
    }

    #[test]
    fn writes_what_etherparse_writes() {
        let payload = b"odd payload";
        let ours = sample("192.0.2.1:5060", "198.51.100.7:5070", None, payload);
        let mut theirs = Vec::new();
        let mut ip =
            etherparse::Ipv4Header::new(0, TTL, etherparse::IpNumber::UDP, [192, 0, 2, 1], [198, 51, 100, 7])
                .unwrap();
        ip.dont_fragment = true;
        ip.dscp = 46.try_into().unwrap();
        PacketBuilder::ethernet2([2, 0, 0, 0, 0, 2], [2, 0, 0, 0, 0, 1])
            .ip(etherparse::IpHeaders::Ipv4(ip, etherparse::Ipv4Extensions::default()))
            .udp(5060, 5070)
            .write(&mut theirs, payload)
            .unwrap();
        assert_eq!(ours, theirs);
        let ours = sample("[2001:db8::1]:5060", "[2001:db8::2]:5070", Some(42), payload);
        let sliced = etherparse::SlicedPacket::from_ethernet(&ours).unwrap();
        let Some(etherparse::TransportSlice::Udp(udp)) = sliced.transport else { panic!("no UDP") };
        assert_eq!(udp.payload(), payload);
        let Some(etherparse::NetSlice::Ipv6(ip)) = sliced.net else { panic!("no IPv6") };
        let expected = udp.to_header().calc_checksum_ipv6(&ip.header().to_header(), payload).unwrap();
        assert_eq!(udp.checksum(), expected);
    }

    #[test]
    fn reads_what_it_wrote() {
        for (source, destination) in
            [("192.0.2.1:1", "192.0.2.2:65535"), ("[2001:db8::1]:9", "[2001:db8::2]:10")]
        {
            for vlan in [None, Some(7)] {
                for len in [0, 1, 2, 700, 1400] {
                    let payload: Vec<u8> = (0..len).map(|i| i as u8).collect();
                    let mut frame = sample(source, destination, vlan, &payload);
                    frame.extend([0xee; 20]);
                    let d = parse(&frame).unwrap();
                    assert_eq!(
                        (d.source, d.destination),
                        (source.parse().unwrap(), destination.parse().unwrap())
                    );
                    assert_eq!((d.vlan, d.tos), (vlan, 0xb8));
                    assert_eq!(peek_destination(&frame), vlan.is_none().then_some(d.destination));
                    assert_eq!(&frame[d.payload], &payload[..]);
                }
            }
        }
    }

    #[test]
    fn every_truncation_and_every_flipped_byte_is_refused_or_harmless() {
        for frame in [
            sample("192.0.2.1:5060", "192.0.2.2:5060", None, b"payload"),
            sample("[2001:db8::1]:5060", "[2001:db8::2]:5060", Some(3), b"payload"),
        ] {
            for cut in 0..frame.len() {
                assert!(parse(&frame[..cut]).is_err(), "cut at {cut}");
                let _ = peek_destination(&frame[..cut]);
            }
            let ip_start = ethernet::parse(&frame).unwrap().len;
            for at in ip_start..frame.len() {
                let mut bad = frame.clone();
                bad[at] ^= 0x55;
                let is_v6 = frame[ip_start] >> 4 == 6;
                // IPv6 sums neither traffic class, flow label nor hop limit.
                let unsummed = is_v6 && (at - ip_start < 4 && at != ip_start || at - ip_start == 7);
                assert_eq!(parse(&bad).is_ok(), unsummed, "byte {at} flipped");
            }
        }
    }

    #[test]
    fn a_checksum_left_to_absent_hardware_is_accepted_and_finished_on_the_way_out() {
        for (source, destination) in
            [("192.0.2.1:5060", "192.0.2.2:5060"), ("[2001:db8::1]:5060", "[2001:db8::2]:5060")]
        {
            let mut frame = sample(source, destination, None, b"from a veth");
            let at = frame.len() - b"from a veth".len() - 2;
            let (from, to): (SocketAddr, SocketAddr) =
                (source.parse().unwrap(), destination.parse().unwrap());
            let pseudo = Sum::new().add_pseudo_header(from.ip(), to.ip(), 8 + 11);
            frame[at..at + 2].copy_from_slice(&pseudo.fold());
            let d = parse(&frame).unwrap();
            assert!(d.partial_checksum);
            let headers = Headers {
                destination_mac: Mac::default(),
                source_mac: Mac::default(),
                vlan: None,
                source: from,
                destination: to,
                tos: 0,
            };
            let mut out = frame.clone();
            write(&mut out, &headers, 11, d.payload_sum);
            assert!(!parse(&out).unwrap().partial_checksum);
        }
    }

    #[test]
    fn udp_checksum_zero_is_no_checksum_in_ipv4_only() {
        let mut v4 = sample("192.0.2.1:5060", "192.0.2.2:5060", None, b"x");
        v4[40..42].copy_from_slice(&[0, 0]);
        assert!(parse(&v4).is_ok());
        let mut v6 = sample("[2001:db8::1]:5060", "[2001:db8::2]:5060", None, b"x");
        v6[60..62].copy_from_slice(&[0, 0]);
        assert_eq!(parse(&v6), Err(DropReason::ChecksumUdp));
    }
}
