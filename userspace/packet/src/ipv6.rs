//! IPv6 without extension headers (RFC 8200).

use crate::{DropReason, udp};
use core::net::Ipv6Addr;

/// Length of the header.
pub const LEN: usize = 40;

/// What the header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Source address.
    pub source: Ipv6Addr,
    /// Destination address.
    pub destination: Ipv6Addr,
    /// Traffic class: DSCP and ECN.
    pub tos: u8,
    /// Bytes behind the header.
    pub payload_len: usize,
}

/// Reads the header at the start of `bytes`.
///
/// # Errors
/// The reason to drop the packet.
#[inline(always)]
pub fn parse(bytes: &[u8]) -> Result<Header, DropReason> {
    let h: &[u8; LEN] = bytes.first_chunk().ok_or(DropReason::FrameTruncated)?;
    if h[0] >> 4 != 6 || h[6] != udp::PROTOCOL {
        return Err(DropReason::FrameUnexpected);
    }
    let payload_len = usize::from(u16::from_be_bytes([h[4], h[5]]));
    if payload_len > bytes.len() - LEN {
        return Err(DropReason::FrameTruncated);
    }
    let address = |at: usize| {
        let mut octets = [0; 16];
        octets.copy_from_slice(&h[at..at + 16]);
        Ipv6Addr::from(octets)
    };
    Ok(Header { source: address(8), destination: address(24), tos: (h[0] << 4) | (h[1] >> 4), payload_len })
}

/// Writes a header for UDP with flow label zero.
#[inline(always)]
pub fn write(out: &mut [u8], header: &Header, hop_limit: u8) {
    let h = &mut out[..LEN];
    h[..4].copy_from_slice(&[0x60 | (header.tos >> 4), header.tos << 4, 0, 0]);
    h[4..6].copy_from_slice(&(header.payload_len as u16).to_be_bytes());
    h[6] = udp::PROTOCOL;
    h[7] = hop_limit;
    h[8..24].copy_from_slice(&header.source.octets());
    h[24..40].copy_from_slice(&header.destination.octets());
}
