//! Via (RFC 3261 20.42, RFC 3581).

use super::Params;

/// One Via value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Via<'a> {
    /// Transport, as written.
    pub transport: &'a [u8],
    /// Host of sent-by, IPv6 references without brackets.
    pub host: &'a [u8],
    /// Port of sent-by.
    pub port: Option<u16>,
    /// `branch`
    pub branch: Option<&'a [u8]>,
    /// `rport`: `Some(None)` where the client asks for it (RFC 3581).
    pub rport: Option<Option<&'a [u8]>>,
    /// `received`
    pub received: Option<&'a [u8]>,
    /// Its whole text.
    pub text: &'a [u8],
    /// Bytes of the header value that this Via takes, without the comma behind it.
    pub len: usize,
    /// Whether another Via follows in the same header.
    pub more: bool,
    /// Whether a parameter has no name.
    pub malformed: bool,
}

impl<'a> Via<'a> {
    /// Reads the first Via of a header value.
    pub fn parse(value: &'a [u8]) -> Option<Self> {
        let comma = super::list_end(value);
        let text = &value[..comma.unwrap_or(value.len())];
        let first = memchr::memchr(b'/', text)?;
        let second = first + 1 + memchr::memchr(b'/', &text[first + 1..])?;
        let sip = text[..first].trim_ascii().eq_ignore_ascii_case(b"SIP");
        // Another version is answered 505 by whoever reads the request line, over this very Via.
        let version = text[first + 1..second].trim_ascii();
        if !sip || version.is_empty() || !version.iter().all(|b| crate::message::is_token(*b)) {
            return None;
        }
        let after = text[second + 1..].trim_ascii_start();
        let space = after.iter().position(|b| b.is_ascii_whitespace())?;
        let transport = &after[..space];
        if transport.is_empty() || !transport.iter().all(|b| crate::message::is_token(*b)) {
            return None;
        }
        let sent_by = &after[space..];
        let end = memchr::memchr(b';', sent_by).unwrap_or(sent_by.len());
        let (host, port) = super::uri::split_host_port(&sent_by[..end])?;
        let mut parsed = Self {
            transport,
            host,
            port,
            branch: None,
            rport: None,
            received: None,
            text,
            len: text.len(),
            more: comma.is_some(),
            malformed: false,
        };
        Params::new(&sent_by[end..]).for_each(|(name, value)| parsed.param(name, value));
        Some(parsed)
    }

    /// Takes one parameter; the first of a name counts.
    fn param(&mut self, name: &'a [u8], value: Option<&'a [u8]>) {
        match name {
            n if n.eq_ignore_ascii_case(b"branch") => {
                self.branch = self.branch.or(value.filter(|b| !b.is_empty()));
            }
            n if n.eq_ignore_ascii_case(b"rport") => self.rport = self.rport.or(Some(value)),
            n if n.eq_ignore_ascii_case(b"received") => self.received = self.received.or(value),
            n => self.malformed |= n.is_empty(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spaces_lists_and_parameters() {
        let v = Via::parse(
            b"SIP / 2.0 / UDP  192.0.2.2 : 5070 ; branch = z9hG4bKx;rport , SIP/2.0/TCP b;branch=y",
        )
        .unwrap();
        assert_eq!((v.transport, v.host, v.port), (&b"UDP"[..], &b"192.0.2.2"[..], Some(5070)));
        assert_eq!((v.branch, v.rport, v.more), (Some(&b"z9hG4bKx"[..]), Some(None), true));
        let v = Via::parse(b"SIP/2.0/UDP [2001:db8::9];received=[2001:db8::1];branch=q").unwrap();
        assert_eq!((v.host, v.received), (&b"2001:db8::9"[..], Some(&b"[2001:db8::1]"[..])));
        for bad in [
            &b""[..],
            b"SIP/2.0/UDP",
            b"SIP/2.0/UDP ;branch=x",
            b"SIP/ /UDP a",
            b"HTTP/2.0/UDP a",
            b"SIP/2.0/UDP a:x",
        ] {
            assert_eq!(Via::parse(bad), None, "{bad:?}");
        }
    }
}
