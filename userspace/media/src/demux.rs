//! What a packet on a media port is, by its first bytes (RFC 7983, RFC 5761).

/// Class of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Class {
    /// RTP or SRTP.
    Rtp,
    /// RTCP or SRTCP.
    Rtcp,
    /// STUN (RFC 8489).
    Stun,
    /// DTLS (RFC 5764).
    Dtls,
    /// ZRTP (RFC 6189).
    Zrtp,
    /// TURN channel data (RFC 8656).
    Turn,
    /// Of a stream that is not RTP, such as T.38.
    Other,
}

impl Class {
    /// All classes in order.
    pub const ALL: [Self; 7] =
        [Self::Rtp, Self::Rtcp, Self::Stun, Self::Dtls, Self::Zrtp, Self::Turn, Self::Other];

    /// As shown to people and in metrics.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Rtp => "rtp",
            Self::Rtcp => "rtcp",
            Self::Stun => "stun",
            Self::Dtls => "dtls",
            Self::Zrtp => "zrtp",
            Self::Turn => "turn",
            Self::Other => "other",
        }
    }
}

/// Class of a packet on a port of an RTP stream; `None`: none of them, or shorter than it says itself.
///
/// Nothing behind the headers is looked at, and no padding: in SRTP both are encrypted.
#[inline]
pub fn classify(packet: &[u8]) -> Option<Class> {
    match *packet.first()? {
        128..=191 => rtp_or_rtcp(packet),
        // Type and length, cookie, transaction id; before RFC 5389 the id took the cookie's place.
        0..=3 => (packet.len() >= 20).then_some(Class::Stun),
        16..=19 => (packet.len() >= 12).then_some(Class::Zrtp),
        20..=63 => (packet.len() >= 13).then_some(Class::Dtls),
        64..=79 => (packet.len() >= 4).then_some(Class::Turn),
        _ => None,
    }
}

#[inline]
fn rtp_or_rtcp(packet: &[u8]) -> Option<Class> {
    let header: &[u8; 8] = packet.first_chunk()?;
    // RFC 5761 section 4.
    if (192..=223).contains(&header[1]) {
        let words = usize::from(u16::from_be_bytes([header[2], header[3]]));
        return ((words + 1) * 4 <= packet.len()).then_some(Class::Rtcp);
    }
    let sources = usize::from(header[0] & 0x0f);
    let mut len = 12 + 4 * sources;
    if header[0] & 0x10 != 0 {
        let words = packet.get(len + 2..len + 4)?;
        len += 4 + 4 * usize::from(u16::from_be_bytes([words[0], words[1]]));
    }
    (len <= packet.len()).then_some(Class::Rtp)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_first_byte_has_its_class() {
        for first in 0..=255u8 {
            let mut packet = [0u8; 200];
            packet[0] = first;
            let expected = match first {
                0..=3 => Some(Class::Stun),
                16..=19 => Some(Class::Zrtp),
                20..=63 => Some(Class::Dtls),
                64..=79 => Some(Class::Turn),
                128..=191 => Some(Class::Rtp),
                _ => None,
            };
            assert_eq!(classify(&packet), expected, "{first}");
            packet[1] = 200;
            let expected = if expected == Some(Class::Rtp) { Some(Class::Rtcp) } else { expected };
            assert_eq!(classify(&packet), expected, "{first}");
        }
    }

    #[test]
    fn lengths_are_checked_before_each_step() {
        assert_eq!(classify(&[]), None);
        for len in 1..12 {
            assert_eq!(classify(&[0x80; 12][..len]), None, "{len}");
        }
        let rtp = |first: u8, rest: &[u8]| {
            let mut packet = alloc::vec![first, 8];
            packet.extend_from_slice(&[0; 10]);
            packet.extend_from_slice(rest);
            classify(&packet)
        };
        assert_eq!(rtp(0x80, &[]), Some(Class::Rtp));
        // Fifteen contributing sources in twelve bytes.
        assert_eq!(rtp(0x8f, &[]), None);
        assert_eq!(rtp(0x8f, &[0; 60]), Some(Class::Rtp));
        // An extension that is not there, and one that ends behind the packet.
        assert_eq!(rtp(0x90, &[]), None);
        assert_eq!(rtp(0x90, &[0xbe, 0xde, 0, 1]), None);
        assert_eq!(rtp(0x90, &[0xbe, 0xde, 0, 1, 0xf0, 0, 0, 0]), Some(Class::Rtp));
        assert_eq!(rtp(0x90, &[0xbe, 0xde, 0xff, 0xff]), None);
        // Padding is the receiver's business: in SRTP its length is encrypted.
        assert_eq!(rtp(0xa0, &[0xff]), Some(Class::Rtp));
        // RTCP longer than its datagram.
        assert_eq!(classify(&[0x80, 201, 0, 1, 1, 2, 3, 4]), Some(Class::Rtcp));
        assert_eq!(classify(&[0x80, 201, 0, 2, 1, 2, 3, 4]), None);
    }
}
