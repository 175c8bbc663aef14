//! UDP (RFC 768).

use crate::{DropReason, checksum::Sum};
use core::net::{IpAddr, SocketAddr};

/// IP protocol number.
pub const PROTOCOL: u8 = 17;
/// Length of the header.
pub const LEN: usize = 8;

/// What the header says, after its checksum was verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Source port.
    pub source: u16,
    /// Destination port.
    pub destination: u16,
    /// Bytes behind the header.
    pub payload_len: usize,
    /// Sum of the payload, so that a relayed packet need not be summed twice.
    pub payload_sum: Sum,
    /// The checksum was left to hardware that a local packet never met: it holds the sum of the
    /// pseudo header only. The payload is as sure as this machine's memory.
    pub partial: bool,
}

/// Reads and verifies the header at the start of `bytes` (all that IP carries).
///
/// # Errors
/// The reason to drop the packet.
#[inline(always)]
pub fn parse(bytes: &[u8], source: IpAddr, destination: IpAddr) -> Result<Header, DropReason> {
    let h: &[u8; LEN] = bytes.first_chunk().ok_or(DropReason::FrameTruncated)?;
    let word = |at: usize| u16::from_be_bytes([h[at], h[at + 1]]);
    let len = usize::from(word(4));
    if len < LEN || len > bytes.len() {
        return Err(DropReason::FrameTruncated);
    }
    let payload_sum = Sum::new().add_bytes(&bytes[LEN..len]);
    let unsummed = h[6] == 0 && h[7] == 0;
    // Zero means "not summed" in IPv4 and is forbidden in IPv6 (RFC 8200 8.1).
    if unsummed && source.is_ipv6() {
        return Err(DropReason::ChecksumUdp);
    }
    let mut partial = false;
    if !unsummed {
        let pseudo = Sum::new().add_pseudo_header(source, destination, len as u16);
        let all = pseudo.add_bytes(h).add_sum(payload_sum);
        partial = h[6..8] == pseudo.fold();
        if !partial && all.fold() != [0xff, 0xff] {
            return Err(DropReason::ChecksumUdp);
        }
    }
    Ok(Header { source: word(0), destination: word(2), payload_len: len - LEN, payload_sum, partial })
}

/// Writes a header with its checksum; `payload_sum` is the sum of the payload to follow.
#[inline(always)]
pub fn write(
    out: &mut [u8],
    source: SocketAddr,
    destination: SocketAddr,
    payload_len: usize,
    payload_sum: Sum,
) {
    let len = (LEN + payload_len) as u16;
    let sum = Sum::new()
        .add_pseudo_header(source.ip(), destination.ip(), len)
        .add_word(source.port())
        .add_word(destination.port())
        .add_word(len)
        .add_sum(payload_sum)
        .checksum();
    let h = &mut out[..LEN];
    h[..2].copy_from_slice(&source.port().to_be_bytes());
    h[2..4].copy_from_slice(&destination.port().to_be_bytes());
    h[4..6].copy_from_slice(&len.to_be_bytes());
    // A computed zero is sent as all ones: zero means "not summed".
    h[6..8].copy_from_slice(if sum == [0, 0] { &[0xff, 0xff] } else { &sum });
}
