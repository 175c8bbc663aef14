//! The Internet checksum (RFC 1071) as a running sum that can be continued and reused.

use core::net::IpAddr;

/// Bytes summed at a time.
const BLOCK: usize = 32;

/// A ones' complement sum not yet folded or inverted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum(u64);

impl Sum {
    /// The sum of nothing.
    pub const fn new() -> Self {
        Self(0)
    }

    /// Adds bytes that start at an even offset of the summed data; an odd last byte is padded with zero.
    #[inline]
    #[must_use]
    pub fn add_bytes(self, bytes: &[u8]) -> Self {
        // Sums of native words of any even length have the right value after folding, up to byte order
        // (RFC 1071, 2 B), if what is carried out comes in again at the other end.
        let mut sum = self;
        let (blocks, rest) = bytes.as_chunks::<BLOCK>();
        // Each lane is wide enough never to carry, so that no addition waits for the one before it.
        let mut lanes = [0u64; BLOCK / 4];
        for block in blocks {
            for (lane, word) in lanes.iter_mut().zip(block.as_chunks::<4>().0) {
                *lane += u64::from(u32::from_ne_bytes(*word));
            }
        }
        sum = sum.add(lanes.iter().sum());
        let (words, mut rest) = rest.as_chunks::<8>();
        for word in words {
            sum = sum.add(u64::from_ne_bytes(*word));
        }
        if let Some((word, behind)) = rest.split_first_chunk::<4>() {
            sum = sum.add(u32::from_ne_bytes(*word).into());
            rest = behind;
        }
        if let Some((word, behind)) = rest.split_first_chunk::<2>() {
            sum = sum.add(u16::from_ne_bytes(*word).into());
            rest = behind;
        }
        if let [last] = rest {
            sum = sum.add(u16::from_ne_bytes([*last, 0]).into());
        }
        sum
    }

    /// Adds another sum, of data at an even offset.
    #[inline]
    #[must_use]
    pub fn add_sum(self, other: Self) -> Self {
        self.add(other.0)
    }

    /// Adds one 16-bit word given in host order.
    #[inline]
    #[must_use]
    pub fn add_word(self, word: u16) -> Self {
        self.add(word.to_be().into())
    }

    /// With end-around carry.
    #[inline]
    fn add(self, word: u64) -> Self {
        let (sum, carry) = self.0.overflowing_add(word);
        Self(sum + u64::from(carry))
    }

    /// Adds the pseudo header of UDP (RFC 768, RFC 8200 8.1): addresses, protocol and UDP length.
    #[inline]
    #[must_use]
    pub fn add_pseudo_header(self, source: IpAddr, destination: IpAddr, udp_len: u16) -> Self {
        self.add_addresses(source, destination).add_word(u16::from(crate::udp::PROTOCOL)).add_word(udp_len)
    }

    /// Adds two addresses.
    #[inline]
    pub(crate) fn add_addresses(self, source: IpAddr, destination: IpAddr) -> Self {
        self.add_address(source).add_address(destination)
    }

    #[inline]
    fn add_address(self, address: IpAddr) -> Self {
        match address {
            IpAddr::V4(a) => self.add(u32::from_ne_bytes(a.octets()).into()),
            IpAddr::V6(a) => self.add_bytes(&a.octets()),
        }
    }

    /// Folded to 16 bits, as bytes for the wire, not inverted.
    #[inline]
    pub fn fold(self) -> [u8; 2] {
        fold(self.0).to_ne_bytes()
    }

    /// The checksum for the header field: folded and inverted.
    #[inline]
    pub fn checksum(self) -> [u8; 2] {
        (!fold(self.0)).to_ne_bytes()
    }
}

#[inline]
fn fold(mut sum: u64) -> u16 {
    sum = (sum & 0xffff_ffff) + (sum >> 32);
    sum = (sum & 0xffff_ffff) + (sum >> 32);
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    sum as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sums byte pairs one by one, as RFC 1071 words it.
    fn naive(bytes: &[u8]) -> u16 {
        let mut sum = 0u32;
        for pair in bytes.chunks(2) {
            sum += u32::from(u16::from_be_bytes([pair[0], *pair.get(1).unwrap_or(&0)]));
            sum = (sum & 0xffff) + (sum >> 16);
        }
        sum as u16
    }

    #[test]
    fn agrees_with_the_plain_definition_at_every_length() {
        let mut data = [0u8; 1500];
        let mut seed = 12345u32;
        for b in &mut data {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            *b = (seed >> 24) as u8;
        }
        for len in 0..data.len() {
            assert_eq!(Sum::new().add_bytes(&data[..len]).fold(), naive(&data[..len]).to_be_bytes(), "{len}");
        }
        let ones = [0xffu8; 1500];
        assert_eq!(Sum::new().add_bytes(&ones).fold(), naive(&ones).to_be_bytes());
    }

    #[test]
    fn continues_over_even_parts() {
        let data = b"an even cut here, odd end";
        let parts = Sum::new().add_bytes(&data[..8]).add_bytes(&data[8..]);
        assert_eq!(parts.fold(), Sum::new().add_bytes(data).fold());
    }
}
