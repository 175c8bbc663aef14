//! Rewriting.

use super::{
    Connection, Sdp,
    line::{self, Line, lines},
};
use crate::ports::PortPair;
use core::{fmt, net::IpAddr, ops::Range};

/// What a body is to show of a stream in place of its sender's own address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    /// What it showed.
    Untouched,
    /// Port 0: it cannot be had.
    Declined,
    /// An address and ports of this node.
    At {
        /// Address.
        ip: IpAddr,
        /// Ports.
        ports: PortPair,
    },
}

/// Takes the changes to a body, in ascending order.
pub trait Sink {
    /// The bytes of this range give way to a text.
    fn replace(&mut self, range: Range<usize>, text: fmt::Arguments<'_>);
}

/// An address as SDP shows it.
struct Address(IpAddr);

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let family = if self.0.is_ipv4() { "IP4" } else { "IP6" };
        write!(f, "{family} {}", self.0)
    }
}

/// An address, or the unspecified one of its family: on hold stays on hold (RFC 3264 8.4).
fn as_before(connection: Connection, ip: IpAddr) -> IpAddr {
    match (connection, ip) {
        (Connection::Unspecified, IpAddr::V4(_)) => core::net::Ipv4Addr::UNSPECIFIED.into(),
        (Connection::Unspecified, IpAddr::V6(_)) => core::net::Ipv6Addr::UNSPECIFIED.into(),
        _ => ip,
    }
}

/// Changes a body that [`super::scan`] has read. `shown` has one entry for each of its streams.
///
/// Changed are the connection lines and `a=rtcp` of the streams shown elsewhere, their ports, the
/// session's connection line where no other stream needs it, and ICE attributes, which go: they would
/// lead past this node (RFC 8839). Where no stream is shown elsewhere, nothing is.
pub fn rewrite(body: &[u8], sdp: &Sdp, shown: &[Shown], sink: &mut impl Sink) {
    let plan = Plan::new(sdp, shown);
    if !plan.touches {
        return;
    }
    let mut at = Cursor { stream: None, connection_due: None, connection_seen: false };
    for line in lines(body) {
        plan.line(&line, &mut at, sink);
    }
    if body.ends_with(b"\n") {
        at.insert_connection(body.len(), sink);
    } else if let Some(ip) = at.connection_due {
        let line_end = if body.ends_with(b"\r") { "\n" } else { "\r\n" };
        sink.replace(body.len()..body.len(), format_args!("{line_end}c=IN {}", Address(ip)));
    }
}

struct Plan<'a> {
    sdp: &'a Sdp,
    shown: &'a [Shown],
    touches: bool,
    /// Address for the session's connection line; `None`: it stays.
    session: Option<IpAddr>,
}

/// Where in the body the reading is.
struct Cursor {
    stream: Option<usize>,
    /// A connection line with this address belongs behind the m-line and its title.
    connection_due: Option<IpAddr>,
    connection_seen: bool,
}

impl Cursor {
    fn insert_connection(&mut self, at: usize, sink: &mut impl Sink) {
        if let Some(ip) = self.connection_due.take() {
            sink.replace(at..at, format_args!("c=IN {}\r\n", Address(ip)));
        }
    }
}

impl<'a> Plan<'a> {
    fn new(sdp: &'a Sdp, shown: &'a [Shown]) -> Self {
        let address = |shown: &Shown| match shown {
            Shown::At { ip, .. } => Some(*ip),
            _ => None,
        };
        let leaning = |i: usize| sdp.streams.get(i).is_some_and(|s| !s.own_connection);
        let needed = |(i, shown): (usize, &Shown)| {
            *shown == Shown::Untouched && leaning(i) && sdp.streams[i].port != 0
        };
        let first = shown.iter().enumerate().filter(|(i, _)| leaning(*i)).find_map(|(_, s)| address(s));
        let any = shown.iter().find_map(address);
        Self {
            sdp,
            shown,
            touches: shown.iter().any(|s| *s != Shown::Untouched),
            session: first.or(any).filter(|_| !shown.iter().enumerate().any(needed)),
        }
    }

    fn shown(&self, at: &Cursor) -> Option<Shown> {
        self.shown.get(at.stream?).copied()
    }

    fn line(&self, line: &Line<'_>, at: &mut Cursor, sink: &mut impl Sink) {
        let field = line.field();
        // The title stands between the media and the connection line (RFC 8866 section 5).
        if !matches!(field, Some((b'i', ..))) && at.stream.is_some() {
            at.insert_connection(line.start, sink);
        }
        let Some((letter, start, value)) = field else { return };
        match letter {
            b'm' => self.media(start, value, at, sink),
            b'c' => self.connection(start, value, at, sink),
            b'a' if line::is_ice(value) => sink.replace(line.start..line.end, format_args!("")),
            b'a' => self.attribute(start, value, at, sink),
            _ => {}
        }
    }

    fn media(&self, start: usize, value: &[u8], at: &mut Cursor, sink: &mut impl Sink) {
        let index = at.stream.map_or(0, |i| i + 1);
        *at = Cursor { stream: Some(index), connection_due: None, connection_seen: false };
        let Ok(media) = line::media(value) else { return };
        let place = start + media.port_range.start..start + media.port_range.end;
        match self.shown(at) {
            Some(Shown::At { ip, ports }) => {
                sink.replace(place, format_args!("{}", ports.rtp()));
                let leaning = self.sdp.streams.get(index).filter(|s| !s.own_connection);
                at.connection_due =
                    leaning.filter(|_| self.session != Some(ip)).map(|s| as_before(s.connection, ip));
            }
            Some(Shown::Declined) => sink.replace(place, format_args!("0")),
            _ => {}
        }
    }

    fn connection(&self, start: usize, value: &[u8], at: &mut Cursor, sink: &mut impl Sink) {
        let address = match (at.stream, self.shown(at)) {
            (None, _) => self.session,
            // More than one connection line is for layered multicast only; the first one counts.
            (Some(_), Some(Shown::At { ip, .. })) if !at.connection_seen => Some(ip),
            _ => None,
        };
        at.connection_seen = true;
        let (Some(ip), Ok((connection, place))) = (address, line::connection(value)) else { return };
        let ip = as_before(connection, ip);
        sink.replace(start + place.start..start + place.end, format_args!("{}", Address(ip)));
    }

    fn attribute(&self, start: usize, value: &[u8], at: &Cursor, sink: &mut impl Sink) {
        const RTCP: &[u8] = b"rtcp:";
        let Some(Shown::At { ip, ports }) = self.shown(at) else { return };
        let Some((port, has_address)) = value.strip_prefix(RTCP).and_then(line::rtcp) else { return };
        let stream = at.stream.and_then(|i| self.sdp.streams.get(i));
        // With multiplexing it may name the port of RTP itself (RFC 5761 5.1.3).
        let muxed = stream.is_some_and(|s| s.rtcp_mux && s.port == port);
        let port = if muxed { ports.rtp() } else { ports.rtcp() };
        let place = start + RTCP.len()..start + value.trim_ascii_end().len();
        if has_address {
            sink.replace(place, format_args!("{port} IN {}", Address(ip)));
        } else {
            sink.replace(place, format_args!("{port}"));
        }
    }
}
