//! Reading.

use super::{
    Broken, Connection, MAX_STREAMS, Sdp, Stream,
    line::{self, Media, lines},
};
use arrayvec::ArrayVec;

/// Reads a body.
///
/// Lines that matter to nobody here may be as they please; blank lines are skipped.
///
/// # Errors
/// What keeps it from being anchored.
pub fn scan(body: &[u8]) -> Result<Sdp, Broken> {
    if !body.starts_with(b"v=") {
        return Err(Broken::NoVersion);
    }
    let mut sdp = Sdp { streams: ArrayVec::new(), origin: 0, ice: false };
    let mut session = Session::default();
    // First format of the stream that is read.
    let mut format: &[u8] = b"";
    for line in lines(body) {
        let Some((letter, _, value)) = line.field() else { continue };
        match (letter, sdp.streams.last_mut()) {
            (b'o', None) => sdp.origin = hash(value),
            (b'c', None) => session.connection = Some(line::connection(value)?.0),
            (b'a', None) => session.attribute(value, &mut sdp.ice),
            (b'c', Some(stream)) if !stream.own_connection => {
                stream.connection = line::connection(value)?.0;
                stream.own_connection = true;
            }
            (b'a', Some(stream)) => attribute(stream, value, format, &mut sdp.ice),
            (b'm', _) => {
                let media = line::media(value)?;
                format = media.format;
                if sdp.streams.try_push(session.stream(&media)?).is_err() {
                    return Err(Broken::TooManyStreams);
                }
            }
            _ => {}
        }
    }
    // Said last, since a media level connection line comes after its m-line.
    let lost = |s: &Stream| s.port != 0 && s.udp && !s.own_connection && session.connection.is_none();
    if sdp.streams.iter().any(lost) { Err(Broken::NoConnection) } else { Ok(sdp) }
}

/// What the lines before the first m-line say for all streams.
struct Session {
    connection: Option<Connection>,
    flows: bool,
}

impl Default for Session {
    fn default() -> Self {
        Self { connection: None, flows: true }
    }
}

impl Session {
    fn attribute(&mut self, value: &[u8], ice: &mut bool) {
        *ice |= line::is_ice(value);
        if let Some(flows) = flows(value) {
            self.flows = flows;
        }
    }

    fn stream(&self, media: &Media<'_>) -> Result<Stream, Broken> {
        let first = media.transport.split(|b| *b == b'/').next().unwrap_or_default();
        let udp = !first.eq_ignore_ascii_case(b"TCP");
        if media.count != 1 && media.port != 0 && udp {
            return Err(Broken::PortCount);
        }
        Ok(Stream {
            port: media.port,
            udp,
            rtp: media.transport.split(|b| *b == b'/').any(|p| p.eq_ignore_ascii_case(b"RTP")),
            connection: self.connection.unwrap_or(Connection::Unspecified),
            own_connection: false,
            rtcp: None,
            rtcp_mux: false,
            flows: self.flows,
            clock_rate: static_clock_rate(media.format),
        })
    }
}

fn attribute(stream: &mut Stream, value: &[u8], format: &[u8], ice: &mut bool) {
    *ice |= line::is_ice(value);
    if let Some(flows) = flows(value) {
        stream.flows = flows;
    } else if value.trim_ascii_end() == b"rtcp-mux" {
        stream.rtcp_mux = true;
    } else if let Some(value) = value.strip_prefix(b"rtcp:") {
        stream.rtcp = line::rtcp(value).map(|(port, _)| port);
    } else if let Some(value) = value.strip_prefix(b"rtpmap:") {
        // `96 opus/48000/2`
        let mapped = value.strip_prefix(format).and_then(|rest| rest.strip_prefix(b" "));
        let rate = mapped.and_then(|encoding| encoding.trim_ascii_end().split(|b| *b == b'/').nth(1));
        if let Some(rate) = rate.and_then(line::number).filter(|rate| (1000..=1_000_000).contains(rate)) {
            stream.clock_rate = rate;
        }
    }
}

/// Whether media flows both ways, by a direction attribute.
fn flows(attribute: &[u8]) -> Option<bool> {
    match attribute.trim_ascii_end() {
        b"sendrecv" => Some(true),
        b"sendonly" | b"recvonly" | b"inactive" => Some(false),
        _ => None,
    }
}

/// Clock rate in Hz of a payload type (RFC 3551 section 6); 8000 where only `a=rtpmap` tells.
fn static_clock_rate(format: &[u8]) -> u32 {
    match line::number::<u8>(format) {
        Some(6) => 16_000,
        Some(10 | 11) => 44_100,
        Some(14 | 25 | 26 | 28 | 31..=34) => 90_000,
        Some(16) => 11_025,
        Some(17) => 22_050,
        _ => 8_000,
    }
}

/// FNV-1a: told apart must be only the versions of one sender.
fn hash(text: &[u8]) -> u32 {
    text.iter().fold(0x811c_9dc5, |hash, b| (hash ^ u32::from(*b)).wrapping_mul(0x0100_0193))
}

const _: () = assert!(MAX_STREAMS <= u8::MAX as usize);
