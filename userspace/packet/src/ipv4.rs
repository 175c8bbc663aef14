//! IPv4 without options (RFC 791).

use crate::{DropReason, checksum::Sum, udp};
use core::net::Ipv4Addr;

/// Length of the header.
pub const LEN: usize = 20;
const DONT_FRAGMENT: u8 = 0x40;

/// What the header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Source address.
    pub source: Ipv4Addr,
    /// Destination address.
    pub destination: Ipv4Addr,
    /// DSCP and ECN.
    pub tos: u8,
    /// Bytes behind the header, by its total length field.
    pub payload_len: usize,
}

/// Reads and verifies the header at the start of `bytes`.
///
/// # Errors
/// The reason to drop the packet.
#[inline(always)]
pub fn parse(bytes: &[u8]) -> Result<Header, DropReason> {
    let h: &[u8; LEN] = bytes.first_chunk().ok_or(DropReason::FrameTruncated)?;
    if h[0] != 0x45 || h[9] != udp::PROTOCOL || u16::from_be_bytes([h[6], h[7]]) & 0x3fff != 0 {
        return Err(DropReason::FrameUnexpected);
    }
    let total = usize::from(u16::from_be_bytes([h[2], h[3]]));
    if total < LEN || total > bytes.len() {
        return Err(DropReason::FrameTruncated);
    }
    if Sum::new().add_bytes(h).fold() != [0xff, 0xff] {
        return Err(DropReason::ChecksumIp);
    }
    Ok(Header {
        source: Ipv4Addr::new(h[12], h[13], h[14], h[15]),
        destination: Ipv4Addr::new(h[16], h[17], h[18], h[19]),
        tos: h[1],
        payload_len: total - LEN,
    })
}

/// Writes a header for UDP, with checksum and the don't-fragment bit (so an identification of zero
/// is right, RFC 6864 4.1).
#[inline(always)]
pub fn write(out: &mut [u8], header: &Header, ttl: u8) {
    let total = (LEN + header.payload_len) as u16;
    let start = u16::from_be_bytes([0x45, header.tos]);
    let flags = u16::from_be_bytes([DONT_FRAGMENT, 0]);
    let rest = u16::from_be_bytes([ttl, udp::PROTOCOL]);
    // Summed from the values: to read back what was written in smaller pieces would stall the core.
    let sum = [start, total, flags, rest].into_iter().fold(Sum::new(), Sum::add_word);
    let sum = sum.add_addresses(header.source.into(), header.destination.into()).checksum();
    let h = &mut out[..LEN];
    h[..2].copy_from_slice(&start.to_be_bytes());
    h[2..4].copy_from_slice(&total.to_be_bytes());
    h[4..6].copy_from_slice(&[0, 0]);
    h[6..8].copy_from_slice(&flags.to_be_bytes());
    h[8..10].copy_from_slice(&rest.to_be_bytes());
    h[12..16].copy_from_slice(&header.source.octets());
    h[16..20].copy_from_slice(&header.destination.octets());
    h[10..12].copy_from_slice(&sum);
}
