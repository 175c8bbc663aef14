//! The lines of a body, and the values that both reading and rewriting must find.

use super::{Broken, Connection};
use core::{net::IpAddr, ops::Range};

/// One line without its end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line<'a> {
    /// Offset of its first byte in the body.
    pub(super) start: usize,
    /// Offset behind its line end.
    pub(super) end: usize,
    pub(super) text: &'a [u8],
}

impl<'a> Line<'a> {
    /// Type letter, and the value with its offset; `None` for what is no `x=` line.
    pub(super) fn field(&self) -> Option<(u8, usize, &'a [u8])> {
        match self.text {
            [letter, b'=', value @ ..] => Some((*letter, self.start + 2, value)),
            _ => None,
        }
    }
}

/// All lines; CRLF, LF and a missing last line end are accepted.
pub(super) fn lines(body: &[u8]) -> impl Iterator<Item = Line<'_>> {
    let mut at = 0;
    core::iter::from_fn(move || {
        let rest = body.get(at..).filter(|r| !r.is_empty())?;
        let start = at;
        let len = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
        at = (at + len + 1).min(body.len());
        let text = rest[..len].strip_suffix(b"\r").unwrap_or(&rest[..len]);
        Some(Line { start, end: at, text })
    })
}

/// The parts of a media line's value.
pub(super) struct Media<'a> {
    pub(super) port: u16,
    /// Where the port stands, within the value.
    pub(super) port_range: Range<usize>,
    /// `port/count`.
    pub(super) count: u16,
    pub(super) transport: &'a [u8],
    /// The first format.
    pub(super) format: &'a [u8],
}

/// Reads `media port[/count] transport format ...`.
pub(super) fn media(value: &[u8]) -> Result<Media<'_>, Broken> {
    let blank = memchr::memchr(b' ', value).filter(|at| *at > 0).ok_or(Broken::MediaLine)?;
    let start = blank + 1;
    let mut tokens = value[start..].split(|b| *b == b' ');
    let (port, transport) = tokens.next().zip(tokens.next()).ok_or(Broken::MediaLine)?;
    let digits = port.iter().take_while(|b| b.is_ascii_digit()).count();
    let count = match &port[digits..] {
        [] => 1,
        [b'/', count @ ..] => number(count).ok_or(Broken::MediaLine)?,
        _ => return Err(Broken::MediaLine),
    };
    if transport.is_empty() {
        return Err(Broken::MediaLine);
    }
    Ok(Media {
        port: number(&port[..digits]).ok_or(Broken::MediaLine)?,
        port_range: start..start + digits,
        count,
        transport,
        format: tokens.next().unwrap_or_default().trim_ascii_end(),
    })
}

/// Reads `IN IP4 address`; where `IP4 address` stands, within the value.
pub(super) fn connection(value: &[u8]) -> Result<(Connection, Range<usize>), Broken> {
    const NET: &[u8] = b"IN ";
    let text = value.trim_ascii_end();
    let rest = text.strip_prefix(NET).ok_or(Broken::Connection)?;
    let address =
        rest.strip_prefix(b"IP4 ").or_else(|| rest.strip_prefix(b"IP6 ")).ok_or(Broken::Connection)?;
    let host = address.split(|b| *b == b'/').next().unwrap_or_default();
    let place = NET.len()..text.len();
    let text = core::str::from_utf8(host).map_err(|_| Broken::Connection)?;
    let connection = match text.parse::<IpAddr>() {
        Ok(ip) if ip.is_unspecified() => Connection::Unspecified,
        Ok(ip) if ip.is_multicast() => Connection::Multicast,
        Ok(ip) => Connection::At(ip),
        Err(_) if is_name(host) => Connection::Name,
        Err(_) => return Err(Broken::Connection),
    };
    Ok((connection, place))
}

/// Whether it may be a host name: an address with a slip of the pen is none.
fn is_name(host: &[u8]) -> bool {
    host.iter().any(u8::is_ascii_alphabetic)
        && host.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_'))
}

/// Port of an `a=rtcp` value, and whether an address stands behind it.
pub(super) fn rtcp(value: &[u8]) -> Option<(u16, bool)> {
    let value = value.trim_ascii_end();
    let digits = value.iter().take_while(|b| b.is_ascii_digit()).count();
    Some((number(&value[..digits])?, value.len() > digits))
}

/// Whether an attribute belongs to ICE (RFC 8839, RFC 8840, RFC 9429).
pub(super) fn is_ice(attribute: &[u8]) -> bool {
    let name = attribute.split(|b| *b == b':').next().unwrap_or_default();
    name.starts_with(b"ice-") || matches!(name, b"candidate" | b"remote-candidates" | b"end-of-candidates")
}

pub(super) fn number<T: core::str::FromStr>(digits: &[u8]) -> Option<T> {
    // A sign is no digit.
    let text = core::str::from_utf8(digits).ok()?;
    if digits.first()?.is_ascii_digit() { text.parse().ok() } else { None }
}
