//! Cuts a byte stream (TCP, TLS) into messages (RFC 3261 18.3, 7.5; RFC 5626 4.4.1).
//!
//! A message ends where its Content-Length says and nowhere else: not at a segment's end, not at an
//! empty line within the body. A stream that breaks this cannot be found back into; it is closed.

use crate::Message;

/// Limits of one stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most bytes from the start line to the empty line.
    pub head: usize,
    /// Most bytes of a body.
    pub body: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { head: 16 * 1024, body: 64 * 1024 }
    }
}

/// What the front of the received bytes is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame {
    /// A message of this many bytes.
    Message(usize),
    /// A ping of this many bytes (double CRLF), to be answered with a pong (one CRLF).
    Ping(usize),
    /// This many bytes that mean nothing: a pong, or line ends and NULs before a message.
    Filler(usize),
    /// Not whole yet.
    Incomplete,
}

/// Why a stream must be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// The start line and headers exceed [`Limits::head`].
    HeadTooLong,
    /// The body exceeds [`Limits::body`].
    BodyTooLong,
    /// No Content-Length, several that differ, or one that is no number.
    NoLength,
    /// The bytes start with no SIP message.
    NotSip,
}

/// Finds the end of messages. Remembers how far it has looked, so that a message that arrives byte by
/// byte is not searched from its start each time.
#[derive(Clone, Debug, Default)]
pub struct Framer {
    limits: Limits,
    searched: usize,
}

impl Framer {
    /// With limits.
    pub fn new(limits: Limits) -> Self {
        Self { limits, searched: 0 }
    }

    /// Looks at the received bytes that were not consumed yet. Consume what is returned before the next
    /// call; after [`Frame::Incomplete`] call again with more bytes behind the same ones.
    ///
    /// # Errors
    /// The stream is broken.
    pub fn next(&mut self, bytes: &[u8]) -> Result<Frame, Broken> {
        let filler = bytes.iter().take_while(|b| matches!(b, b'\r' | b'\n' | 0)).count();
        if filler > 0 {
            self.searched = 0;
            return Ok(match bytes {
                [b'\r', b'\n', b'\r', b'\n', ..] => Frame::Ping(4),
                // The second half of a ping may be on its way.
                b"\r" | b"\r\n" | b"\r\n\r" => Frame::Incomplete,
                _ => Frame::Filler(filler),
            });
        }
        if bytes.is_empty() {
            return Ok(Frame::Incomplete);
        }
        let Some(head) = self.head(bytes) else {
            return self.unfinished(bytes);
        };
        if head > self.limits.head {
            return Err(Broken::HeadTooLong);
        }
        let body = content_length(&bytes[..head])?;
        if body > self.limits.body {
            return Err(Broken::BodyTooLong);
        }
        if bytes.len() < head + body {
            return Ok(Frame::Incomplete);
        }
        self.searched = 0;
        Ok(Frame::Message(head + body))
    }

    /// Length of start line, headers and empty line, once they are there.
    fn head(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut at = self.searched.min(bytes.len());
        loop {
            let newline = at + memchr::memchr(b'\n', &bytes[at..])?;
            match &bytes[newline + 1..] {
                [b'\n', ..] => return Some(newline + 2),
                [b'\r', b'\n', ..] => return Some(newline + 3),
                // The line behind this one has not begun, or may turn out to be empty: look here again.
                [] | [b'\r'] => {
                    self.searched = newline;
                    return None;
                }
                _ => at = newline + 1,
            }
            self.searched = at;
        }
    }

    fn unfinished(&self, bytes: &[u8]) -> Result<Frame, Broken> {
        if bytes.len() > self.limits.head {
            return Err(Broken::HeadTooLong);
        }
        // Garbage is found out at its first line end, not at the limit.
        if memchr::memchr(b'\n', bytes).is_some() && !has_start_line(bytes) {
            return Err(Broken::NotSip);
        }
        Ok(Frame::Incomplete)
    }
}

/// Whether the first line is a request line or a status line, as far as framing cares.
fn has_start_line(bytes: &[u8]) -> bool {
    let end = memchr::memchr(b'\n', bytes).unwrap_or(bytes.len());
    let line = bytes[..end].trim_ascii_end();
    let starts = line.get(..4).is_some_and(|s| s.eq_ignore_ascii_case(b"SIP/"));
    let version = memchr::memrchr(b' ', line).map_or(&[][..], |space| &line[space + 1..]);
    starts || version.get(..4).is_some_and(|v| v.eq_ignore_ascii_case(b"SIP/"))
}

/// On a stream Content-Length is mandatory (RFC 3261 20.14).
fn content_length(head: &[u8]) -> Result<usize, Broken> {
    let message = Message::parse(head).map_err(|_| Broken::NotSip)?;
    match message.content_length() {
        Ok(Some(length)) => Ok(length as usize),
        Ok(None) | Err(_) => Err(Broken::NoLength),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::{vec, vec::Vec};

    const ONE: &[u8] = b"MESSAGE sip:a@b SIP/2.0\r\nl: 5\r\n\r\nhe\r\n\r";
    const TWO: &[u8] = b"SIP/2.0 200 OK\r\nContent-Length :\r\n 0\r\n\r\n";

    /// All frames of a stream that arrives in pieces of this size, and what is left.
    fn cut(stream: &[u8], piece: usize) -> Result<(Vec<Frame>, usize), Broken> {
        let (mut framer, mut held, mut frames) = (Framer::default(), Vec::new(), Vec::new());
        for chunk in stream.chunks(piece) {
            held.extend_from_slice(chunk);
            loop {
                let frame = framer.next(&held)?;
                let used = match frame {
                    Frame::Message(n) | Frame::Ping(n) | Frame::Filler(n) => n,
                    Frame::Incomplete => break,
                };
                held.drain(..used);
                frames.push(frame);
            }
        }
        Ok((frames, held.len()))
    }

    #[test]
    fn messages_are_found_however_they_arrive() {
        let mut stream = Vec::new();
        for part in [ONE, b"\r\n\r\n", TWO, ONE, b"\r\n\0", TWO, &ONE[..20]] {
            stream.extend_from_slice(part);
        }
        for piece in 1..=stream.len() {
            let (frames, left) = cut(&stream, piece).unwrap();
            let messages: Vec<_> = frames.iter().filter(|f| matches!(f, Frame::Message(_))).collect();
            let (one, two) = (Frame::Message(ONE.len()), Frame::Message(TWO.len()));
            assert_eq!(messages, [&one, &two, &one, &two], "pieces of {piece}");
            assert_eq!(frames.iter().filter(|f| **f == Frame::Ping(4)).count(), 1, "pieces of {piece}");
            assert_eq!(left, 20);
        }
    }

    #[test]
    fn a_broken_stream_is_closed() {
        let request = |headers: &str| alloc::format!("INFO sip:a@b SIP/2.0\r\n{headers}\r\n");
        for (stream, broken) in [
            (request("From: a\r\n"), Broken::NoLength),
            (request("l: -1\r\n"), Broken::NoLength),
            (request("l:\r\n"), Broken::NoLength),
            (request("l: 4294967297\r\n"), Broken::NoLength),
            (request("l: 1\r\nContent-Length: 2\r\n"), Broken::NoLength),
            (request("l: 70000\r\n"), Broken::BodyTooLong),
            ("GET / HTTP/1.1\r\n".into(), Broken::NotSip),
            (alloc::format!("INFO sip:{} SIP/2.0\r\n", "a".repeat(20_000)), Broken::HeadTooLong),
            ("x".repeat(20_000), Broken::HeadTooLong),
        ] {
            assert_eq!(cut(stream.as_bytes(), 7).unwrap_err(), broken, "{stream:.60}");
        }
        assert_eq!(cut(b"\r\n", 1).unwrap(), (vec![], 2), "a pong or half a ping");
    }
}
