//! Names of headers, and where a header line's parts lie (RFC 3261 7.3).

use crate::{Span, message::token_len};

/// Headers that are read somewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderName {
    /// Via, v
    Via,
    /// From, f
    From,
    /// To, t
    To,
    /// Call-ID, i
    CallId,
    /// CSeq
    CSeq,
    /// Max-Forwards
    MaxForwards,
    /// Route
    Route,
    /// Record-Route
    RecordRoute,
    /// Contact, m
    Contact,
    /// Content-Length, l
    ContentLength,
    /// Content-Type, c
    ContentType,
    /// Content-Encoding, e
    ContentEncoding,
    /// Proxy-Require
    ProxyRequire,
    /// Max-Breadth (RFC 5393)
    MaxBreadth,
    /// Retry-After
    RetryAfter,
    /// WWW-Authenticate or Proxy-Authenticate
    Challenge,
    /// Proxy-Authorization
    ProxyAuthorization,
    /// Every other header.
    Other,
}

impl HeaderName {
    /// Reads a name, in long or compact form and any case (RFC 3261 7.3.3).
    pub fn from_bytes(name: &[u8]) -> Self {
        // Length and first letter leave one candidate.
        let Some(first) = name.first() else { return Self::Other };
        let (same, kind) = match (name.len(), first | 0x20) {
            (1, _) => return Self::from_compact(*first),
            (2, b't') => (is(name, b"to"), Self::To),
            (3, b'v') => (is(name, b"via"), Self::Via),
            (4, b'f') => (is(name, b"from"), Self::From),
            (4, b'c') => (is(name, b"cseq"), Self::CSeq),
            (5, b'r') => (is(name, b"route"), Self::Route),
            (7, b'c') if name[1] | 0x20 == b'a' => (is(name, b"call-id"), Self::CallId),
            (7, b'c') => (is(name, b"contact"), Self::Contact),
            (11, b'r') => (is(name, b"retry-after"), Self::RetryAfter),
            (11, b'm') => (is(name, b"max-breadth"), Self::MaxBreadth),
            (12, b'm') => (is(name, b"max-forwards"), Self::MaxForwards),
            (12, b'c') => (is(name, b"content-type"), Self::ContentType),
            (12, b'r') => (is(name, b"record-route"), Self::RecordRoute),
            (13, b'p') => (is(name, b"proxy-require"), Self::ProxyRequire),
            (14, b'c') => (is(name, b"content-length"), Self::ContentLength),
            (16, b'c') => (is(name, b"content-encoding"), Self::ContentEncoding),
            (16, b'w') => (is(name, b"www-authenticate"), Self::Challenge),
            (18, b'p') => (is(name, b"proxy-authenticate"), Self::Challenge),
            (19, b'p') => (is(name, b"proxy-authorization"), Self::ProxyAuthorization),
            _ => return Self::Other,
        };
        if same { kind } else { Self::Other }
    }

    fn from_compact(name: u8) -> Self {
        match name.to_ascii_lowercase() {
            b'v' => Self::Via,
            b'f' => Self::From,
            b't' => Self::To,
            b'i' => Self::CallId,
            b'm' => Self::Contact,
            b'l' => Self::ContentLength,
            b'c' => Self::ContentType,
            b'e' => Self::ContentEncoding,
            _ => Self::Other,
        }
    }
}

/// Whether a token is a given one in lower case, a word at a time. Good for letters and hyphens: no
/// other character of a token becomes one of them in lower case.
#[inline(always)]
fn is<const N: usize>(token: &[u8], lower: &[u8; N]) -> bool {
    let Ok(token) = <&[u8; N]>::try_from(token) else { return false };
    if N < 8 {
        return token.iter().zip(lower).all(|(b, l)| b | 0x20 == *l);
    }
    let word = |text: &[u8; N], at: usize| {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&text[at..at + 8]);
        u64::from_ne_bytes(bytes)
    };
    let same = |at| word(token, at) | u64::from_ne_bytes([0x20; 8]) == word(lower, at);
    // The last word overlaps the one before it.
    same(0) && same(N - 8) && (N <= 16 || same(8))
}

/// One header line. Offsets are kept in 16 bits: a message's head ends within its first 64 KiB.
#[derive(Clone, Copy, Debug)]
pub struct Header {
    /// Which.
    pub name: HeaderName,
    line: [u16; 2],
    value: [u16; 2],
}

/// Why a line is no header.
pub(crate) enum NoHeader {
    /// Without colon, or with a bad name.
    Malformed,
    /// Behind the first 64 KiB of the message.
    TooFar,
}

impl Header {
    /// Reads the line from `start` to `end`, its folded continuations included; its line end lies between
    /// `end` and `next`.
    #[inline(always)]
    pub(crate) fn read(bytes: &[u8], start: usize, end: usize, next: usize) -> Result<Self, NoHeader> {
        if next > usize::from(u16::MAX) {
            return Err(NoHeader::TooFar);
        }
        let line = &bytes[start..end];
        let colon = crate::bytes::find(line, [b':']).ok_or(NoHeader::Malformed)?;
        let mut name = &line[..colon];
        while let [rest @ .., b' ' | b'\t'] = name {
            name = rest;
        }
        let kind = HeaderName::from_bytes(name);
        // A known name is made of the right characters.
        if kind == HeaderName::Other && (name.is_empty() || token_len(name) < name.len()) {
            return Err(NoHeader::Malformed);
        }
        let mut value = &line[colon + 1..];
        while let [rest @ .., b' ' | b'\t' | b'\r' | b'\n'] = value {
            value = rest;
        }
        let stop = start + colon + 1 + value.len();
        while let [b' ' | b'\t' | b'\r' | b'\n', rest @ ..] = value {
            value = rest;
        }
        Ok(Self {
            name: kind,
            line: [start as u16, next as u16],
            value: [(stop - value.len()) as u16, stop as u16],
        })
    }

    /// The whole line, with folded continuations and its line end.
    pub fn line(&self) -> Span {
        Span { start: self.line[0].into(), end: self.line[1].into() }
    }

    /// The value without surrounding white space.
    pub fn value(&self) -> Span {
        Span { start: self.value[0].into(), end: self.value[1].into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_any_case_and_nothing_else() {
        for (name, kind) in [
            ("To", HeaderName::To),
            ("VIA", HeaderName::Via),
            ("call-ID", HeaderName::CallId),
            ("Contact", HeaderName::Contact),
            ("RETRY-AFTER", HeaderName::RetryAfter),
            ("Content-Length", HeaderName::ContentLength),
            ("WWW-Authenticate", HeaderName::Challenge),
            ("proxy-Authenticate", HeaderName::Challenge),
            ("Proxy-authorization", HeaderName::ProxyAuthorization),
            ("V", HeaderName::Via),
        ] {
            assert_eq!(HeaderName::from_bytes(name.as_bytes()), kind, "{name}");
            for i in 0..name.len() {
                let mut other = name.as_bytes().to_vec();
                other[i] = b'!';
                assert_eq!(HeaderName::from_bytes(&other), HeaderName::Other, "{name}, byte {i}");
            }
        }
    }
}
