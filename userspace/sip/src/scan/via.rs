//! Via (RFC 3261 20.42, RFC 3581).

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
    /// Whether a parameter has no name, or one that is no token.
    pub malformed: bool,
}

impl<'a> Via<'a> {
    /// Reads the first Via of a header value, in one pass.
    pub fn parse(value: &'a [u8]) -> Option<Self> {
        let mut reader = Reader { text: value, at: 0 };
        let transport = reader.sent_protocol()?;
        let (host, port) = reader.sent_by()?;
        let mut via = Self {
            transport,
            host,
            port,
            branch: None,
            rport: None,
            received: None,
            text: value,
            len: value.len(),
            more: false,
            malformed: false,
        };
        loop {
            match reader.peek() {
                Some(b';') => {
                    let (name, value) = super::params::one(value, &mut reader.at);
                    via.param(name, value);
                }
                Some(b',') => {
                    via.len = reader.at;
                    via.text = &value[..reader.at];
                    via.more = true;
                    return Some(via);
                }
                Some(_) => return None,
                None => return Some(via),
            }
        }
    }

    /// Takes one parameter; the first of a name counts.
    fn param(&mut self, name: &'a [u8], value: Option<&'a [u8]>) {
        match name {
            n if n.eq_ignore_ascii_case(b"branch") => {
                self.branch = self.branch.or(value.filter(|b| !b.is_empty()));
            }
            n if n.eq_ignore_ascii_case(b"rport") => self.rport = self.rport.or(Some(value)),
            n if n.eq_ignore_ascii_case(b"received") => self.received = self.received.or(value),
            n => self.malformed |= n.is_empty() || crate::message::token_len(n) < n.len(),
        }
    }
}

struct Reader<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    /// Whether there was any.
    fn skip_blanks(&mut self) -> bool {
        let start = self.at;
        while self.peek().is_some_and(|b| b.is_ascii_whitespace()) {
            self.at += 1;
        }
        self.at > start
    }

    fn token(&mut self) -> &'a [u8] {
        let start = self.at;
        self.at += crate::message::token_len(&self.text[start..]);
        &self.text[start..self.at]
    }

    /// The transport; the version is not judged: another one is answered 505 by whoever reads the
    /// request line, over this very Via.
    fn sent_protocol(&mut self) -> Option<&'a [u8]> {
        const USUAL: &[u8] = b"SIP/2.0/UDP ";
        if self.text.starts_with(USUAL) {
            self.at = USUAL.len();
            self.skip_blanks();
            return Some(&self.text[USUAL.len() - 4..USUAL.len() - 1]);
        }
        self.skip_blanks();
        if !self.token().eq_ignore_ascii_case(b"SIP") {
            return None;
        }
        self.slash()?;
        if self.token().is_empty() {
            return None;
        }
        self.slash()?;
        let transport = self.token();
        (!transport.is_empty() && self.skip_blanks()).then_some(transport)
    }

    fn slash(&mut self) -> Option<()> {
        self.skip_blanks();
        if self.peek() != Some(b'/') {
            return None;
        }
        self.at += 1;
        self.skip_blanks();
        Some(())
    }

    /// Host and port, up to the first parameter, the next Via or the end.
    fn sent_by(&mut self) -> Option<(&'a [u8], Option<u16>)> {
        let start = self.at;
        let rest = &self.text[start..];
        self.at += crate::bytes::find(rest, [b';', b',']).unwrap_or(rest.len());
        super::uri::split_host_port(&self.text[start..self.at])
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
