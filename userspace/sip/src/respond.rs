//! Responses that the node itself makes (RFC 3261 8.2.6).

use crate::{Edits, HeaderName, Message, Span, bytes, scan::NameAddr, scan::Via};
use alloc::vec::Vec;
use arrayvec::{ArrayString, ArrayVec};
use core::{
    fmt::Write as _,
    net::{IpAddr, SocketAddr},
};

/// A response to make.
#[derive(Clone, Copy, Debug)]
pub struct Response<'a> {
    /// Status code.
    pub status: u16,
    /// Reason phrase.
    pub reason: &'a str,
    /// Tag to add to To where the request's has none; empty for a 100.
    pub to_tag: &'a [u8],
    /// Further header lines, each with its line end.
    pub headers: &'a [u8],
}

/// Writes the response to `request`, which came from `remote`, to `out` (cleared before).
pub fn write(request: &Message<'_>, remote: SocketAddr, response: &Response<'_>, out: &mut Vec<u8>) {
    out.clear();
    out.extend_from_slice(b"SIP/2.0 ");
    push_decimal(out, u32::from(response.status));
    out.push(b' ');
    out.extend_from_slice(response.reason.as_bytes());
    out.extend_from_slice(b"\r\n");
    let mut top = true;
    for header in &request.headers {
        let value = request.text(header.value());
        match header.name {
            HeaderName::Via if top => {
                top = false;
                push_top_via(out, value, remote);
            }
            HeaderName::Via => line(out, b"Via: ", value),
            HeaderName::From => line(out, b"From: ", value),
            HeaderName::CallId => line(out, b"Call-ID: ", value),
            HeaderName::CSeq => line(out, b"CSeq: ", value),
            HeaderName::To => {
                out.extend_from_slice(b"To: ");
                out.extend_from_slice(value);
                let tagged = NameAddr::parse(value).is_some_and(|to| to.tag().is_some());
                if !tagged && !response.to_tag.is_empty() {
                    out.extend_from_slice(b";tag=");
                    out.extend_from_slice(response.to_tag);
                }
                out.extend_from_slice(b"\r\n");
            }
            _ => {}
        }
    }
    out.extend_from_slice(response.headers);
    out.extend_from_slice(b"Content-Length: 0\r\n\r\n");
}

/// The client's Via with what RFC 3581 section 4 and RFC 3261 18.2.1 add.
fn push_top_via(out: &mut Vec<u8>, value: &[u8], remote: SocketAddr) {
    out.extend_from_slice(b"Via: ");
    let Some(via) = Via::parse(value) else {
        out.extend_from_slice(value);
        out.extend_from_slice(b"\r\n");
        return;
    };
    let mut edits = Edits::new();
    ViaMarks::of(&via, remote).edit(&value[..via.len], 0, &mut edits);
    let mut first = Vec::new();
    edits.write(&value[..via.len], &mut first);
    out.extend_from_slice(&first);
    out.extend_from_slice(&value[via.len..]);
    out.extend_from_slice(b"\r\n");
}

/// What a server adds to the top Via of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViaMarks {
    received: Option<IpText>,
    rport: Option<u16>,
    /// Offset and length of a `received` that came with the request.
    stale: Option<(usize, usize)>,
}

impl ViaMarks {
    /// For a Via that arrived from `remote`.
    pub fn of(via: &Via<'_>, remote: SocketAddr) -> Self {
        let wants_rport = via.rport == Some(None);
        let source = ip_text(remote.ip());
        let same = source[..] == *via.host || crate::scan::uri::ip(via.host) == Some(remote.ip());
        Self {
            received: (wants_rport || !same || via.received.is_some()).then_some(source),
            rport: wants_rport.then_some(remote.port()),
            stale: via.received.map(|r| (r.as_ptr() as usize - via.text.as_ptr() as usize, r.len())),
        }
    }

    /// Edits them into a message: the value of `rport`, and `received` behind the last parameter, or in
    /// place of one that somebody put there before. `value` is where the Via's text starts in the message.
    pub fn edit(&self, text: &[u8], value: usize, edits: &mut Edits) {
        if let Some(port) = self.rport
            && let Some(at) = valueless_rport(text)
        {
            edits.insert(value + at, b"=").push_decimal(port.into());
        }
        if let Some(ip) = &self.received {
            match self.stale {
                Some((at, len)) => edits.replace(Span::new(value + at, value + at + len), ip),
                None => edits.insert(value + text.trim_ascii_end().len(), b";received=").push(ip),
            };
        }
    }
}

/// An IP address as text; IPv6 bare, as Kamailio, OpenSIPS and the grammar of RFC 3261 write it.
type IpText = ArrayVec<u8, 46>;

fn ip_text(ip: IpAddr) -> IpText {
    let mut text = IpText::new();
    match ip {
        IpAddr::V4(ip) => {
            for (i, octet) in ip.octets().into_iter().enumerate() {
                if i > 0 {
                    text.push(b'.');
                }
                if octet >= 100 {
                    text.push(b'0' + octet / 100);
                }
                if octet >= 10 {
                    text.push(b'0' + octet / 10 % 10);
                }
                text.push(b'0' + octet % 10);
            }
        }
        IpAddr::V6(ip) => {
            let mut shown = ArrayString::<46>::new();
            let _ = write!(shown, "{ip}");
            let _ = text.try_extend_from_slice(shown.as_bytes());
        }
    }
    text
}

/// Where the name of a `rport` parameter without value ends.
fn valueless_rport(via: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        at += bytes::find(&via[at..], [b';'])? + 1;
        let param = &via[at..at + bytes::find(&via[at..], [b';']).unwrap_or(via.len() - at)];
        if param.trim_ascii().eq_ignore_ascii_case(b"rport") {
            let leading = param.len() - param.trim_ascii_start().len();
            return Some(at + leading + b"rport".len());
        }
    }
}

/// Where a response goes (RFC 3261 18.2.2, RFC 3581 section 4).
pub fn reply_address(via: &Via<'_>, remote: SocketAddr) -> SocketAddr {
    match via.rport {
        Some(_) => remote,
        None => SocketAddr::new(remote.ip(), via.port.unwrap_or(5060)),
    }
}

fn line(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    out.extend_from_slice(name);
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

/// Appends a number in decimal.
pub fn push_decimal(out: &mut Vec<u8>, mut n: u32) {
    if n < 100 {
        let digits = [b'0' + (n / 10) as u8, b'0' + (n % 10) as u8];
        return out.extend_from_slice(&digits[usize::from(n < 10)..]);
    }
    let mut digits = [0; 10];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (n % 10) as u8;
        n /= 10;
        if n == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_what_rfc_3261_says_and_marks_the_via() {
        let request = b"OPTIONS sip:a@b SIP/2.0\r\nVia: SIP/2.0/UDP 10.0.0.1;rport;branch=z9hG4bK1, SIP/2.0/UDP c\r\n\
Max-Forwards: 70\r\nTo: <sip:x@y>\r\nFrom: <sip:f@g>;tag=7\r\nCall-ID: id\r\nCSeq: 1 OPTIONS\r\nVia: SIP/2.0/UDP d\r\n\r\n";
        let m = Message::parse(request).unwrap();
        let mut out = Vec::new();
        let r = Response { status: 483, reason: "Too Many Hops", to_tag: b"t", headers: b"" };
        write(&m, "192.0.2.7:777".parse().unwrap(), &r, &mut out);
        let expected = "SIP/2.0 483 Too Many Hops\r\n\
Via: SIP/2.0/UDP 10.0.0.1;rport=777;branch=z9hG4bK1;received=192.0.2.7, SIP/2.0/UDP c\r\n\
To: <sip:x@y>;tag=t\r\nFrom: <sip:f@g>;tag=7\r\nCall-ID: id\r\nCSeq: 1 OPTIONS\r\nVia: SIP/2.0/UDP d\r\nContent-Length: 0\r\n\r\n";
        assert_eq!(core::str::from_utf8(&out).unwrap(), expected);
    }

    #[test]
    fn replies_go_to_the_sent_by_port_unless_rport_is_asked_for() {
        let remote = "192.0.2.7:777".parse().unwrap();
        let reply = |v: &'static [u8]| alloc::format!("{}", reply_address(&Via::parse(v).unwrap(), remote));
        assert_eq!(reply(b"SIP/2.0/UDP host.invalid"), "192.0.2.7:5060");
        assert_eq!(reply(b"SIP/2.0/UDP 192.0.2.7:5080"), "192.0.2.7:5080");
        assert_eq!(reply(b"SIP/2.0/UDP 192.0.2.7:5080;rport"), "192.0.2.7:777");
    }
}
