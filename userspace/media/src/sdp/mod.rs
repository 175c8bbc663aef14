//! What of an SDP body must change for media to run through this node (RFC 8866, RFC 3264).
//!
//! [`scan`] finds the places; the caller edits them and keeps every other byte. This version anchors
//! the first audio stream of a body; other streams keep their sender's own addresses.

use arrayvec::ArrayVec;
use core::{
    net::{IpAddr, SocketAddr},
    ops::Range,
};

/// Most places to change in one body.
pub const MAX_PLACES: usize = 4;

/// What stands at a place of a body, and so what replaces it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// `IP4 address` or `IP6 address` of a connection line.
    Connection,
    /// An empty place where a whole connection line for the stream belongs.
    NewConnectionLine,
    /// Port of the media line.
    Port,
    /// Value of `a=rtcp` (RFC 3605).
    Rtcp {
        /// Whether an address stands behind the port.
        address: bool,
    },
}

/// The first audio stream of a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Audio {
    /// Where its sender receives RTP; `None` where the stream is declined (port 0) or on hold by an
    /// unspecified address (RFC 3264 8.4).
    pub rtp: Option<SocketAddr>,
    /// Port on which its sender receives RTCP, where `a=rtcp` names one.
    pub rtcp_port: Option<u16>,
    /// Whether port 0 declines the stream: nothing is to be anchored then.
    pub declined: bool,
    /// Byte ranges of the body to replace.
    pub places: ArrayVec<(Range<usize>, Place), MAX_PLACES>,
}

/// Finds the first audio stream; `None` where the body has none, or is no SDP that can be anchored.
pub fn scan(body: &[u8]) -> Option<Audio> {
    if !body.starts_with(b"v=") {
        return None;
    }
    let mut found = Found::default();
    for (start, line) in lines(body) {
        found.line(start, line)?;
    }
    found.audio()
}

/// Which part of the body a line belongs to.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Section {
    #[default]
    Session,
    Audio,
    Other,
}

/// What the lines said.
#[derive(Default)]
struct Found {
    section: Section,
    session_address: Option<(IpAddr, Range<usize>)>,
    port: Option<(u16, Range<usize>)>,
    /// Where the audio section's own connection line would stand.
    after_media_line: usize,
    audio_address: Option<(IpAddr, Range<usize>)>,
    rtcp: Option<(u16, Range<usize>, bool)>,
    other_streams: bool,
}

impl Found {
    /// Reads one line; `None` where it makes the body unusable.
    fn line(&mut self, start: usize, line: &[u8]) -> Option<()> {
        let value = line.get(2..).unwrap_or_default();
        let at = start + 2;
        match line {
            [b'm', b'=', ..] => self.media(at, value)?,
            [b'c', b'=', ..] if self.section == Section::Session => {
                self.session_address = Some(connection(at, value)?);
            }
            [b'c', b'=', ..] if self.section == Section::Audio && self.audio_address.is_none() => {
                self.audio_address = Some(connection(at, value)?);
            }
            [b'a', b'=', ..] if self.section == Section::Audio => {
                if let Some(value) = value.strip_prefix(b"rtcp:") {
                    self.rtcp = rtcp(at + b"rtcp:".len(), value);
                }
            }
            // The title stands between media and connection line (RFC 8866 section 5).
            [b'i', b'=', ..] if self.section == Section::Audio => {}
            _ => return Some(()),
        }
        if self.section == Section::Audio && matches!(line.first(), Some(b'm' | b'i')) {
            self.after_media_line = start + line.len();
        }
        Some(())
    }

    fn media(&mut self, at: usize, value: &[u8]) -> Option<()> {
        const AUDIO: &[u8] = b"audio ";
        if self.port.is_some() || !value.starts_with(AUDIO) {
            self.section = Section::Other;
            self.other_streams = true;
            return Some(());
        }
        self.section = Section::Audio;
        let rest = &value[AUDIO.len()..];
        let digits = rest.iter().take_while(|b| b.is_ascii_digit()).count();
        // `port/count` (RFC 8866 5.14): only a count of one is a single stream.
        let single = rest[digits..].starts_with(b" ") || rest[digits..].starts_with(b"/1 ");
        let start = at + AUDIO.len();
        self.port = Some((number(&rest[..digits])?, start..start + digits));
        single.then_some(())
    }

    fn audio(self) -> Option<Audio> {
        let (port, port_place) = self.port?;
        let ip = self.audio_address.as_ref().or(self.session_address.as_ref()).map(|(ip, _)| *ip)?;
        let declined = port == 0;
        let mut places = ArrayVec::new();
        match (self.session_address, self.audio_address) {
            _ if declined => {}
            (_, Some((_, place))) => places.push((place, Place::Connection)),
            // Other streams without an address of their own still need the session's.
            (Some(_), None) if self.other_streams => {
                places.push((self.after_media_line..self.after_media_line, Place::NewConnectionLine));
            }
            (Some((_, place)), None) => places.push((place, Place::Connection)),
            (None, None) => return None,
        }
        if !declined {
            places.push((port_place, Place::Port));
            if let Some((_, place, address)) = &self.rtcp {
                places.push((place.clone(), Place::Rtcp { address: *address }));
            }
        }
        let reachable = !declined && !ip.is_unspecified();
        Some(Audio {
            rtp: reachable.then_some(SocketAddr::new(ip, port)),
            rtcp_port: self.rtcp.map(|(port, _, _)| port),
            declined,
            places,
        })
    }
}

/// Address of a connection line's value, and where `IP4 address` stands.
fn connection(at: usize, value: &[u8]) -> Option<(IpAddr, Range<usize>)> {
    let value = value.trim_ascii_end();
    let address = value.strip_prefix(b"IN IP4 ").or_else(|| value.strip_prefix(b"IN IP6 "))?;
    let ip = core::str::from_utf8(address).ok()?.parse().ok()?;
    Some((ip, at + b"IN ".len()..at + value.len()))
}

/// Port of an `a=rtcp` value, where the value stands and whether it holds an address.
fn rtcp(at: usize, value: &[u8]) -> Option<(u16, Range<usize>, bool)> {
    let value = value.trim_ascii_end();
    let digits = value.iter().take_while(|b| b.is_ascii_digit()).count();
    Some((number(&value[..digits])?, at..at + value.len(), value.len() > digits))
}

fn number(digits: &[u8]) -> Option<u16> {
    core::str::from_utf8(digits).ok()?.parse().ok()
}

/// Lines with their offsets; CRLF, LF and a missing last line end are accepted.
fn lines(body: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let mut at = 0;
    core::iter::from_fn(move || {
        let rest = body.get(at..).filter(|r| !r.is_empty())?;
        let start = at;
        let len = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
        at += len + 1;
        let line = &rest[..len];
        Some((start, line.strip_suffix(b"\r").unwrap_or(line)))
    })
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
