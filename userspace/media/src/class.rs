//! What a datagram on a media port is, by its first byte (RFC 7983, RFC 9443) and payload type
//! (RFC 5761 section 4).

/// Kind of a media packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// RTP or SRTP.
    Rtp,
    /// RTCP or SRTCP.
    Rtcp,
    /// STUN.
    Stun,
    /// DTLS.
    Dtls,
    /// ZRTP.
    Zrtp,
    /// Something else: UDPTL, TURN channel data, an empty datagram.
    Other,
}

/// Tells the kind of a packet.
pub fn class(payload: &[u8]) -> Class {
    match payload {
        [0..=3, ..] if is_stun(payload) => Class::Stun,
        [16..=19, ..] => Class::Zrtp,
        [20..=63, ..] => Class::Dtls,
        [128..=191, second, ..] if payload.len() >= 8 && (192..=223).contains(second) => Class::Rtcp,
        [128..=191, ..] if payload.len() >= 12 => Class::Rtp,
        _ => Class::Other,
    }
}

/// STUN's magic cookie (RFC 8489 section 5): UDPTL may start with the same byte.
fn is_stun(payload: &[u8]) -> bool {
    payload.len() >= 20 && payload[4..8] == [0x21, 0x12, 0xa4, 0x42]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_first_byte_has_its_class() {
        for first in 0..=255u8 {
            let mut packet = [0u8; 24];
            packet[0] = first;
            let expected = match first {
                16..=19 => Class::Zrtp,
                20..=63 => Class::Dtls,
                128..=191 => Class::Rtp,
                _ => Class::Other,
            };
            assert_eq!(class(&packet), expected, "{first}");
            packet[4..8].copy_from_slice(&[0x21, 0x12, 0xa4, 0x42]);
            assert_eq!(class(&packet) == Class::Stun, first <= 3, "{first}");
        }
        for second in 0..=255u8 {
            let mut packet = [0u8; 12];
            packet[..2].copy_from_slice(&[0x80, second]);
            assert_eq!(class(&packet) == Class::Rtcp, (192..=223).contains(&second), "{second}");
        }
        assert_eq!(class(b""), Class::Other);
        assert_eq!(class(&[0x80; 11]), Class::Other);
    }
}
