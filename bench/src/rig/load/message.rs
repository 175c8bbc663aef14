//! SIP texts of the generator. It reads only what real systems write for it: full header names, one value a line.

use super::Stamp;
use crate::rig::Flow;
use std::{io::Write as _, net::SocketAddr};

/// Size of an INVITE without a body.
const INVITE_LEN: usize = 670;

/// An INVITE without a body whose Call-ID and branch are all zeros, to be filled in.
pub fn plain_invite(flow: Flow) -> Vec<u8> {
    let text = |padding: usize| {
        let mut out = Vec::new();
        request(&mut out, "INVITE", flow, &"0".repeat(Stamp::DIGITS), (&"u".repeat(padding), ""));
        out
    };
    text(INVITE_LEN.saturating_sub(text(0).len()))
}

/// A request that begins something, with a body where it is an INVITE. OPTIONS is for the system itself.
pub fn opening(out: &mut Vec<u8>, method: &str, flow: Flow, stamp: Stamp) {
    let digits = stamp.digits();
    let id = std::str::from_utf8(&digits).unwrap_or_default();
    let body = if method == "INVITE" {
        lab::ua::sdp(flow.from, 1, "m=audio 49152 RTP/AVP 8 0 101\r\n")
    } else {
        String::new()
    };
    request(out, method, flow, id, ("generator", &body));
}

fn request(out: &mut Vec<u8>, method: &str, Flow { from, to }: Flow, id: &str, (agent, body): (&str, &str)) {
    let kind = if body.is_empty() { "" } else { "Content-Type: application/sdp\r\n" };
    let user = if method == "OPTIONS" { "" } else { "+4930123456@" };
    let _ = write!(
        out,
        "{method} sip:{user}{to} SIP/2.0\r\nVia: SIP/2.0/UDP {from};rport;branch=z9hG4bK{id}\r\n\
         Max-Forwards: 70\r\nFrom: <sip:+4989654321@{from}>;tag=1c2d3e\r\nTo: <sip:+4930123456@{to}>\r\n\
         Call-ID: {id}\r\nCSeq: 1 {method}\r\nContact: <sip:+4989654321@{from}>\r\n\
         User-Agent: {agent}\r\n{kind}Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
}

/// A message that came in.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a>(pub &'a [u8]);

impl<'a> Message<'a> {
    /// Lines of its header section, the first one with them.
    fn lines(self) -> impl Iterator<Item = &'a [u8]> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            let end = memchr::memchr(b'\r', rest)?;
            let line = &rest[..end];
            rest = rest.get(end + 2..)?;
            (!line.is_empty()).then_some(line)
        })
    }

    /// First value of a header.
    pub fn header(self, name: &str) -> Option<&'a [u8]> {
        self.lines().find_map(|line| value(line, name))
    }

    /// Method of its CSeq.
    pub fn cseq_method(self) -> Option<&'a [u8]> {
        self.header("CSeq")?.rsplit(|b| *b == b' ').next()
    }

    /// Its stamp.
    pub fn stamp(self) -> Option<Stamp> {
        Stamp::from_digits(self.header("Call-ID")?)
    }

    /// An answer to it.
    pub fn answer(self, out: &mut Vec<u8>, status: &str, contact: Option<SocketAddr>) {
        let _ = write!(out, "SIP/2.0 {status}\r\n");
        for line in self.lines() {
            if ["Via", "From", "To", "Call-ID", "CSeq", "Record-Route"]
                .iter()
                .any(|n| value(line, n).is_some())
            {
                out.extend_from_slice(line);
                if line.starts_with(b"To:") && memchr::memmem::find(line, b";tag=").is_none() {
                    out.extend_from_slice(b";tag=4f5a6b");
                }
                out.extend_from_slice(b"\r\n");
            }
        }
        if let Some(contact) = contact {
            let _ = write!(out, "Contact: <sip:{contact}>\r\n");
        }
        out.extend_from_slice(b"Content-Length: 0\r\n\r\n");
    }

    /// A request in the dialog that it, a 200, set up.
    pub fn within(self, out: &mut Vec<u8>, method: &str, cseq: u32, from: SocketAddr) {
        let contact = self.header("Contact").unwrap_or_default();
        let target =
            contact.strip_prefix(b"<").and_then(|c| c.split(|b| *b == b'>').next()).unwrap_or(contact);
        let id = self.header("Call-ID").unwrap_or_default();
        let _ = write!(out, "{method} ");
        out.extend_from_slice(target);
        let _ = write!(out, " SIP/2.0\r\nVia: SIP/2.0/UDP {from};rport;branch=z9hG4bK{method}");
        out.extend_from_slice(id);
        out.extend_from_slice(b"\r\nMax-Forwards: 70\r\n");
        let mut routes = [&b""[..]; 4];
        let mut count = 0;
        for (route, found) in routes.iter_mut().zip(self.lines().filter_map(|l| value(l, "Record-Route"))) {
            *route = found;
            count += 1;
        }
        // The caller's route set is the reverse (RFC 3261 section 12.1.2).
        for route in routes[..count].iter().rev() {
            out.extend_from_slice(b"Route: ");
            out.extend_from_slice(route);
            out.extend_from_slice(b"\r\n");
        }
        for line in self.lines() {
            if ["From", "To", "Call-ID"].iter().any(|n| value(line, n).is_some()) {
                out.extend_from_slice(line);
                out.extend_from_slice(b"\r\n");
            }
        }
        let _ = write!(out, "CSeq: {cseq} {method}\r\nContent-Length: 0\r\n\r\n");
    }
}

/// Value of a header line with this name.
fn value<'a>(line: &'a [u8], name: &str) -> Option<&'a [u8]> {
    Some(line.strip_prefix(name.as_bytes())?.strip_prefix(b":")?.trim_ascii_start())
}
