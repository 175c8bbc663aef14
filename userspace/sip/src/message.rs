//! A SIP message as an index over its bytes (RFC 3261 section 7 and 25).
//!
//! [`Message::parse`] finds the start line, the headers and the body. It reads no header value: that
//! is left to [`crate::scan`], for the headers that are needed.

use crate::{
    bytes::LineEnds,
    header::{Header, HeaderName, NoHeader},
};
use arrayvec::ArrayVec;
use core::ops::Range;

/// Most header lines of a message; more are refused.
pub const MAX_HEADERS: usize = 128;

/// A range of bytes of the message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// First byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
}

impl Span {
    /// A span from byte offsets.
    pub fn new(start: usize, end: usize) -> Self {
        Self { start: start as u32, end: end as u32 }
    }

    /// As a range for slicing.
    pub fn range(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }
}

/// Methods that a proxy treats differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Method {
    /// INVITE
    Invite,
    /// ACK
    Ack,
    /// BYE
    Bye,
    /// CANCEL
    Cancel,
    /// OPTIONS
    Options,
    /// REGISTER
    Register,
    /// Every other, extension methods included. Method names are case-sensitive.
    Other,
}

impl Method {
    /// Reads a method name.
    pub fn from_bytes(name: &[u8]) -> Self {
        match name {
            b"INVITE" => Self::Invite,
            b"ACK" => Self::Ack,
            b"BYE" => Self::Bye,
            b"CANCEL" => Self::Cancel,
            b"OPTIONS" => Self::Options,
            b"REGISTER" => Self::Register,
            _ => Self::Other,
        }
    }
}

/// First line of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartLine {
    /// A request.
    Request {
        /// Method.
        method: Method,
        /// Its name.
        name: Span,
        /// Request-URI.
        uri: Span,
        /// SIP-Version.
        version: Span,
    },
    /// A response.
    Response {
        /// Status code, 100 to 699.
        status: u16,
    },
}

/// Why bytes are no SIP message that could be answered or forwarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParseError {
    /// Only line ends, spaces or NULs: a keep-alive.
    KeepAlive,
    /// The first line is neither a request nor a status line.
    NotSip,
}

/// What is wrong with a message whose start line could be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Defect {
    /// White space behind the request line (RFC 4475 3.1.2.10).
    BadStartLine,
    /// A header line without colon, with a bad name, or with a CR inside.
    BadHeaderLine,
    /// More than [`MAX_HEADERS`], or more than 64 KiB of them.
    TooManyHeaders,
    /// No empty line behind the headers.
    Unterminated,
    /// Content-Length is no number, or contradicts another one.
    BadContentLength,
    /// Content-Length says more than the datagram holds (RFC 3261 18.3).
    BodyTruncated,
}

/// An indexed message.
#[derive(Debug)]
pub struct Message<'a> {
    /// The message's bytes; what follows Content-Length in the datagram is cut off.
    pub bytes: &'a [u8],
    /// First line.
    pub start: StartLine,
    /// Header lines in order.
    pub headers: ArrayVec<Header, MAX_HEADERS>,
    /// Where the empty line behind the headers starts.
    pub headers_end: usize,
    /// The body.
    pub body: Span,
    /// The first defect found, if any; the message is indexed as far as possible all the same.
    pub defect: Option<Defect>,
}

impl<'a> Message<'a> {
    /// Indexes one datagram.
    ///
    /// # Errors
    /// The datagram starts with no SIP start line. All other faults are in [`Message::defect`], since
    /// a faulty request may still be answered.
    #[inline]
    pub fn parse(datagram: &'a [u8]) -> Result<Self, ParseError> {
        let mut message = Self::unread(datagram);
        message.read()?;
        Ok(message)
    }

    /// A message that [`Message::read`] has still to index: in two steps it is made in its place, and
    /// not moved there.
    #[inline]
    pub fn unread(datagram: &'a [u8]) -> Self {
        Self {
            bytes: datagram,
            start: StartLine::Response { status: 0 },
            headers: ArrayVec::new_const(),
            headers_end: 0,
            body: Span { start: 0, end: 0 },
            defect: None,
        }
    }

    /// Indexes an unread message.
    ///
    /// # Errors
    /// As [`Message::parse`].
    pub fn read(&mut self) -> Result<(), ParseError> {
        // Leading line ends are allowed (RFC 3261 7.5).
        let skipped = self.bytes.iter().take_while(|b| matches!(b, b'\r' | b'\n')).count();
        let bytes = &self.bytes[skipped..];
        let filler = |b: &u8| matches!(b, b' ' | b'\t' | b'\r' | b'\n' | 0);
        if bytes.first().is_none_or(filler) && bytes.iter().all(filler) {
            return Err(ParseError::KeepAlive);
        }
        let mut ends = LineEnds::new(bytes);
        let (end, mut at) = ends.next().unwrap_or((bytes.len(), bytes.len()));
        let (start, clean) = start_line(&bytes[..end]).ok_or(ParseError::NotSip)?;
        self.bytes = bytes;
        self.start = start;
        self.headers_end = bytes.len();
        self.body = Span::new(bytes.len(), bytes.len());
        self.defect = (!clean).then_some(Defect::BadStartLine);
        loop {
            let Some((mut end, mut next)) = ends.next() else {
                self.note(Defect::Unterminated);
                break;
            };
            if end == at {
                self.headers_end = at;
                self.body = Span::new(next, bytes.len());
                break;
            }
            // Lines that start with white space continue this one (RFC 3261 7.3.1).
            while matches!(bytes.get(next), Some(b' ' | b'\t')) {
                match ends.next() {
                    Some(continued) => (end, next) = continued,
                    None => break,
                }
            }
            self.index_header(at, end, next);
            at = next;
        }
        if ends.lone_cr {
            self.note(Defect::BadHeaderLine);
        }
        self.cut_body();
        Ok(())
    }

    /// The bytes of a span.
    pub fn text(&self, span: Span) -> &'a [u8] {
        self.bytes.get(span.range()).unwrap_or_default()
    }

    /// The body.
    pub fn body(&self) -> &'a [u8] {
        self.text(self.body)
    }

    /// All headers of a name, in order.
    pub fn all(&self, name: HeaderName) -> impl Iterator<Item = &Header> {
        self.headers.iter().filter(move |h| h.name == name)
    }

    /// The first header of a name.
    pub fn first(&self, name: HeaderName) -> Option<&Header> {
        self.headers.iter().find(|h| h.name == name)
    }

    /// The value of the first header of a name.
    pub fn value(&self, name: HeaderName) -> Option<&'a [u8]> {
        self.first(name).map(|h| self.text(h.value()))
    }

    /// What Content-Length says, where it stands.
    ///
    /// # Errors
    /// [`Defect::BadContentLength`].
    pub fn content_length(&self) -> Result<Option<u32>, Defect> {
        let mut length = None;
        for header in self.all(HeaderName::ContentLength) {
            match crate::scan::number(self.text(header.value())) {
                Some(n) if length.is_none_or(|seen| seen == n) => length = Some(n),
                _ => return Err(Defect::BadContentLength),
            }
        }
        Ok(length)
    }

    /// Method of a request.
    pub fn method(&self) -> Option<Method> {
        match self.start {
            StartLine::Request { method, .. } => Some(method),
            StartLine::Response { .. } => None,
        }
    }

    fn note(&mut self, defect: Defect) {
        self.defect.get_or_insert(defect);
    }

    #[inline(always)]
    fn index_header(&mut self, start: usize, end: usize, next: usize) {
        match Header::read(self.bytes, start, end, next) {
            Ok(header) if self.headers.try_push(header).is_ok() => {}
            Ok(_) | Err(NoHeader::TooFar) => self.note(Defect::TooManyHeaders),
            Err(NoHeader::Malformed) => self.note(Defect::BadHeaderLine),
        }
    }

    /// Applies Content-Length; without one a datagram's body goes to its end (RFC 3261 18.3).
    fn cut_body(&mut self) {
        let length = match self.content_length() {
            Ok(Some(length)) => length,
            Ok(None) => return,
            Err(defect) => return self.note(defect),
        };
        let available = (self.body.end - self.body.start) as usize;
        if length as usize > available {
            return self.note(Defect::BodyTruncated);
        }
        self.body.end = self.body.start + length;
        self.bytes = &self.bytes[..self.body.end as usize];
    }
}

/// Length of the token that the text starts with.
pub(crate) fn token_len(text: &[u8]) -> usize {
    let mut len = 0;
    while len < text.len() && is_token(text[len]) {
        len += 1;
    }
    len
}

/// Reads the first line; whether nothing but the line was on it.
fn start_line(whole: &[u8]) -> Option<(StartLine, bool)> {
    if whole.len() >= 11 && whole[..7].eq_ignore_ascii_case(b"SIP/2.0") && whole[7] == b' ' {
        let digits = &whole[8..];
        let status = crate::scan::number(&digits[..3])? as u16;
        let delimited = digits.get(3).is_none_or(|b| *b == b' ');
        let response = StartLine::Response { status };
        return (delimited && (100..700).contains(&status)).then_some((response, true));
    }
    let text = whole.trim_ascii_end();
    let first = crate::bytes::find(text, [b' '])?;
    let last = memchr::memrchr(b' ', text)?;
    let name = &text[..first];
    let version = &text[last + 1..];
    if first == last || name.is_empty() || !name.iter().all(|b| is_token(*b)) {
        return None;
    }
    if version.len() < 4 || !version[..4].eq_ignore_ascii_case(b"SIP/") {
        return None;
    }
    let request = StartLine::Request {
        method: Method::from_bytes(name),
        name: Span::new(0, first),
        uri: Span::new(first + 1, last),
        version: Span::new(last + 1, text.len()),
    };
    Some((request, text.len() == whole.len()))
}

/// A character of `token` (RFC 3261 25.1).
#[inline]
pub fn is_token(b: u8) -> bool {
    const TOKEN: [bool; 256] = crate::scan::class(b"-.!%*_+`'~");
    TOKEN[usize::from(b)]
}

#[cfg(test)]
#[path = "message_tests.rs"]
mod tests;
