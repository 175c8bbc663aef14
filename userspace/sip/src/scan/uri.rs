//! SIP URIs (RFC 3261 19.1), as far as a proxy reads them.

use super::Params;
use crate::bytes;
use core::net::{IpAddr, Ipv4Addr, SocketAddr};

/// Scheme of a URI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// `sip:`
    Sip,
    /// `sips:`
    Sips,
    /// `tel:` (RFC 3966)
    Tel,
    /// Any other.
    Other,
}

/// A URI taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Uri<'a> {
    /// Scheme.
    pub scheme: Scheme,
    /// User part, without password handling.
    pub user: Option<&'a [u8]>,
    /// Host, IPv6 references without brackets. Empty for `tel:` and others.
    pub host: &'a [u8],
    /// Port.
    pub port: Option<u16>,
    /// From the first `;` on.
    pub rest: &'a [u8],
}

impl<'a> Uri<'a> {
    /// Reads a URI.
    pub fn parse(text: &'a [u8]) -> Option<Self> {
        let (scheme, rest) = scheme(text)?;
        if bytes::find(rest, [b' ', b'\t', b'\n']).is_some() {
            return None;
        }
        // A user part may hold `;` and `?`, so the `@` is searched first (RFC 4475 3.1.1.9).
        let at = bytes::find(rest, [b'@']);
        if !matches!(scheme, Scheme::Sip | Scheme::Sips) {
            return Some(Self { scheme, user: None, host: b"", port: None, rest: b"" });
        }
        let (user, hostport) = match at {
            Some(at) => (Some(&rest[..at]), &rest[at + 1..]),
            None => (None, rest),
        };
        let end = bytes::find(hostport, [b';', b'?']).unwrap_or(hostport.len());
        let (host, port) = split_host_port(&hostport[..end])?;
        Some(Self { scheme, user, host, port, rest: &hostport[end..] })
    }

    /// URI parameters.
    pub fn params(&self) -> Params<'a> {
        let end = bytes::find(self.rest, [b'?']).unwrap_or(self.rest.len());
        Params::new(&self.rest[..end])
    }

    /// Address and port where the host is an IP address; the port defaults to 5060.
    pub fn socket_addr(&self) -> Option<SocketAddr> {
        Some(SocketAddr::new(ip(self.host)?, self.port.unwrap_or(5060)))
    }
}

/// Reads the scheme; what comes behind its colon.
fn scheme(text: &[u8]) -> Option<(Scheme, &[u8])> {
    if let Some(rest) = text.strip_prefix(b"sip:") {
        return Some((Scheme::Sip, rest));
    }
    let of_scheme = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.');
    let colon = text.iter().position(|b| !of_scheme(b))?;
    let (name, [b':', rest @ ..]) = text.split_at(colon) else { return None };
    let is = |scheme: &[u8]| name.eq_ignore_ascii_case(scheme);
    let scheme = match name.len() {
        0 => return None,
        3 if is(b"sip") => Scheme::Sip,
        4 if is(b"sips") => Scheme::Sips,
        3 if is(b"tel") => Scheme::Tel,
        _ => Scheme::Other,
    };
    Some((scheme, rest))
}

/// A character of a host name or an IPv4 address. The underscore is borne: names in use have it.
const HOST: [bool; 256] = super::class(b"-._");

/// Splits `host[:port]`, taking brackets off an IPv6 reference.
pub(crate) fn split_host_port(text: &[u8]) -> Option<(&[u8], Option<u16>)> {
    let text = text.trim_ascii();
    let (host, rest) = if let Some(inner) = text.strip_prefix(b"[") {
        let close = bytes::find(inner, [b']'])?;
        core::str::from_utf8(&inner[..close]).ok()?.parse::<core::net::Ipv6Addr>().ok()?;
        (&inner[..close], inner[close + 1..].trim_ascii())
    } else {
        let end = text.iter().position(|b| !HOST[usize::from(*b)]).unwrap_or(text.len());
        (&text[..end], text[end..].trim_ascii_start())
    };
    if host.is_empty() {
        return None;
    }
    match rest.strip_prefix(b":") {
        None if rest.is_empty() => Some((host, None)),
        None => None,
        Some(digits) => {
            let port = super::number(digits.trim_ascii()).and_then(|n| u16::try_from(n).ok())?;
            Some((host, Some(port)))
        }
    }
}

/// An IP address literal without brackets.
pub fn ip(host: &[u8]) -> Option<IpAddr> {
    match host.first() {
        Some(b'0'..=b'9') if !host.contains(&b':') => ipv4(host).map(IpAddr::V4),
        _ => core::str::from_utf8(host).ok()?.parse().ok(),
    }
}

/// Four numbers up to 255 without leading zeros: what the standard library reads, without its detours.
fn ipv4(text: &[u8]) -> Option<Ipv4Addr> {
    let (mut address, mut dots, mut octet) = (0u32, 0, 0u32);
    let mut digits = 0;
    for b in text {
        let digit = u32::from(b.wrapping_sub(b'0'));
        if digit <= 9 && (digits == 0 || octet > 0) {
            octet = octet * 10 + digit;
            digits += 1;
            if octet > 255 {
                return None;
            }
        } else if *b == b'.' && digits > 0 {
            address = address << 8 | octet;
            (dots, octet, digits) = (dots + 1, 0, 0);
        } else {
            return None;
        }
    }
    (dots == 3 && digits > 0).then(|| Ipv4Addr::from(address << 8 | octet))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ipv4_literals_as_the_standard_library_reads_them() {
        for text in [
            "192.0.2.1",
            "0.0.0.0",
            "255.255.255.255",
            "1.2.3.256",
            "1.2.3",
            "1.2.3.4.5",
            "01.2.3.4",
            "1..2.3",
            ".1.2.3",
            "1.2.3.",
            "00.0.0.0",
            "1.2.3.4a",
            "1111.1.1.1",
            "",
            "1",
            "2001:db8::1",
            "1::",
            "a.b",
        ] {
            assert_eq!(ip(text.as_bytes()), text.parse().ok(), "{text}");
        }
    }

    #[test]
    fn hosts_ports_and_users() {
        let addr =
            |s: &'static [u8]| Uri::parse(s).and_then(|u| u.socket_addr()).map(|a| alloc::format!("{a}"));
        assert_eq!(addr(b"sip:bob@192.0.2.1:5070;lr").as_deref(), Some("192.0.2.1:5070"));
        assert_eq!(addr(b"sip:[2001:db8::1]").as_deref(), Some("[2001:db8::1]:5060"));
        assert_eq!(addr(b"SIPS:u;p=1?x@192.0.2.1").as_deref(), Some("192.0.2.1:5060"));
        assert_eq!(addr(b"sip:example.com").as_deref(), None);
        assert_eq!(Uri::parse(b"sip:a@host:99999"), None);
        assert_eq!(Uri::parse(b"sip:2001:db8::1"), None);
        assert_eq!(Uri::parse(b"sip:"), None);
        assert_eq!(Uri::parse(b"sip:a@b c"), None);
        assert_eq!(Uri::parse(b"tel:+1555").unwrap().scheme, Scheme::Tel);
        assert_eq!(Uri::parse(b"nobodyKnows:x").unwrap().scheme, Scheme::Other);
        assert_eq!(Uri::parse(b"sip:a@b;lr;x=1").unwrap().params().get(b"LR"), Some(None));
    }
}
