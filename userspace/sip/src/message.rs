//! A SIP message as an index over its bytes (RFC 3261 section 7 and 25).
//!
//! [`Message::parse`] finds the start line, the headers and the body. It reads no header value: that
//! is left to [`crate::scan`], for the headers that are needed.

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

/// Headers that are read somewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderName {
    /// Via, v
    Via,
    /// From, f
    From,
    /// To, t
    To,
    /// Call-ID, i
    CallId,
    /// CSeq
    CSeq,
    /// Max-Forwards
    MaxForwards,
    /// Route
    Route,
    /// Record-Route
    RecordRoute,
    /// Contact, m
    Contact,
    /// Content-Length, l
    ContentLength,
    /// Content-Type, c
    ContentType,
    /// Proxy-Require
    ProxyRequire,
    /// Max-Breadth (RFC 5393)
    MaxBreadth,
    /// Retry-After
    RetryAfter,
    /// WWW-Authenticate or Proxy-Authenticate
    Challenge,
    /// Proxy-Authorization
    ProxyAuthorization,
    /// Every other header.
    Other,
}

impl HeaderName {
    /// Reads a name, in long or compact form and any case (RFC 3261 7.3.3).
    pub fn from_bytes(name: &[u8]) -> Self {
        // Length and first letter leave one candidate.
        let Some(first) = name.first() else { return Self::Other };
        let (candidate, kind): (&[u8], Self) = match (name.len(), first | 0x20) {
            (1, _) => return Self::from_compact(*first),
            (2, b't') => (b"to", Self::To),
            (3, b'v') => (b"via", Self::Via),
            (4, b'f') => (b"from", Self::From),
            (4, b'c') => (b"cseq", Self::CSeq),
            (5, b'r') => (b"route", Self::Route),
            (7, b'c') if name[1] | 0x20 == b'a' => (b"call-id", Self::CallId),
            (7, b'c') => (b"contact", Self::Contact),
            (11, b'r') => (b"retry-after", Self::RetryAfter),
            (11, b'm') => (b"max-breadth", Self::MaxBreadth),
            (12, b'm') => (b"max-forwards", Self::MaxForwards),
            (12, b'c') => (b"content-type", Self::ContentType),
            (12, b'r') => (b"record-route", Self::RecordRoute),
            (13, b'p') => (b"proxy-require", Self::ProxyRequire),
            (14, b'c') => (b"content-length", Self::ContentLength),
            (16, b'w') => (b"www-authenticate", Self::Challenge),
            (18, b'p') => (b"proxy-authenticate", Self::Challenge),
            (19, b'p') => (b"proxy-authorization", Self::ProxyAuthorization),
            _ => return Self::Other,
        };
        if is_token_in_any_case(name, candidate) { kind } else { Self::Other }
    }

    fn from_compact(name: u8) -> Self {
        match name.to_ascii_lowercase() {
            b'v' => Self::Via,
            b'f' => Self::From,
            b't' => Self::To,
            b'i' => Self::CallId,
            b'm' => Self::Contact,
            b'l' => Self::ContentLength,
            b'c' => Self::ContentType,
            _ => Self::Other,
        }
    }
}

/// One header line. Offsets are kept in 16 bits: a message's head ends within its first 64 KiB.
#[derive(Clone, Copy, Debug)]
pub struct Header {
    /// Which.
    pub name: HeaderName,
    line: [u16; 2],
    value: [u16; 2],
}

impl Header {
    /// The whole line, with folded continuations and its line end.
    pub fn line(&self) -> Span {
        Span { start: self.line[0].into(), end: self.line[1].into() }
    }

    /// The value without surrounding white space.
    pub fn value(&self) -> Span {
        Span { start: self.value[0].into(), end: self.value[1].into() }
    }
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
        if bytes.first().is_none_or(|b| is_blank(*b) || *b == 0)
            && bytes.iter().all(|b| is_blank(*b) || *b == 0)
        {
            return Err(ParseError::KeepAlive);
        }
        let mut lone_cr = false;
        let first = take_line(bytes, 0, &mut lone_cr);
        let (line, mut at) = first.unwrap_or((Span::new(0, bytes.len()), bytes.len()));
        let (start, clean) = start_line(bytes, line).ok_or(ParseError::NotSip)?;
        self.bytes = bytes;
        self.start = start;
        self.headers_end = bytes.len();
        self.body = Span::new(bytes.len(), bytes.len());
        self.defect = (!clean).then_some(Defect::BadStartLine);
        loop {
            let Some((line, mut next)) = take_line(bytes, at, &mut lone_cr) else {
                self.note(Defect::Unterminated);
                break;
            };
            if line.start == line.end {
                self.headers_end = at;
                self.body = Span::new(next, bytes.len());
                break;
            }
            // Lines that start with white space continue this one (RFC 3261 7.3.1).
            while matches!(bytes.get(next), Some(b' ' | b'\t')) {
                match take_line(bytes, next, &mut lone_cr) {
                    Some((_, behind)) => next = behind,
                    None => break,
                }
            }
            self.index_header(at, next);
            at = next;
        }
        if lone_cr {
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

    fn index_header(&mut self, start: usize, end: usize) {
        let line = &self.bytes[start..end];
        let name = token_len(line);
        let mut at = name;
        while matches!(line.get(at), Some(b' ' | b'\t')) {
            at += 1;
        }
        if name == 0 || line.get(at) != Some(&b':') {
            return self.note(Defect::BadHeaderLine);
        }
        at += 1;
        let mut stop = line.len();
        while at < stop && is_blank(line[stop - 1]) {
            stop -= 1;
        }
        while at < stop && is_blank(line[at]) {
            at += 1;
        }
        if end > usize::from(u16::MAX) {
            return self.note(Defect::TooManyHeaders);
        }
        let header = Header {
            name: HeaderName::from_bytes(&line[..name]),
            line: [start as u16, end as u16],
            value: [(start + at) as u16, (start + stop) as u16],
        };
        if self.headers.try_push(header).is_err() {
            self.note(Defect::TooManyHeaders);
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

/// Whether a token is a given one of the same length, in lower case, eight bytes at a time. Good for
/// letters and hyphens: no other character of a token becomes one of them in lower case.
fn is_token_in_any_case(token: &[u8], lower: &[u8]) -> bool {
    const CASE: u64 = u64::from_ne_bytes([0x20; 8]);
    let (words, tail) = token.as_chunks::<8>();
    let (lower_words, lower_tail) = lower.as_chunks::<8>();
    let same =
        |(word, lower): (&[u8; 8], &[u8; 8])| u64::from_ne_bytes(*word) | CASE == u64::from_ne_bytes(*lower);
    words.iter().zip(lower_words).all(same) && tail.iter().zip(lower_tail).all(|(b, l)| b | 0x20 == *l)
}

/// White space of a header line, its end included.
fn is_blank(b: u8) -> bool {
    matches!(b, b' ' | b'\t' | b'\r' | b'\n')
}

/// Length of the token that the text starts with.
pub(crate) fn token_len(text: &[u8]) -> usize {
    let mut len = 0;
    while len < text.len() && is_token(text[len]) {
        len += 1;
    }
    len
}

/// The line at `at` without its end (CRLF or LF), and where the next one starts.
///
/// A CR that ends no line is noted: the next parser on the way might take it for a line end, and see
/// headers that this one did not.
fn take_line(bytes: &[u8], at: usize, lone_cr: &mut bool) -> Option<(Span, usize)> {
    let mut from = at;
    loop {
        let end = from + memchr::memchr2(b'\r', b'\n', bytes.get(from..)?)?;
        if bytes[end] == b'\n' {
            return Some((Span::new(at, end), end + 1));
        }
        if bytes.get(end + 1) == Some(&b'\n') {
            return Some((Span::new(at, end), end + 2));
        }
        *lone_cr = true;
        from = end + 1;
    }
}

/// Reads the first line; whether nothing but the line was on it.
fn start_line(bytes: &[u8], line: Span) -> Option<(StartLine, bool)> {
    let whole = &bytes[line.range()];
    if whole.len() >= 11 && whole[..7].eq_ignore_ascii_case(b"SIP/2.0") && whole[7] == b' ' {
        let digits = &whole[8..];
        let status = crate::scan::number(&digits[..3])? as u16;
        let delimited = digits.get(3).is_none_or(|b| *b == b' ');
        let response = StartLine::Response { status };
        return (delimited && (100..700).contains(&status)).then_some((response, true));
    }
    let text = whole.trim_ascii_end();
    let first = memchr::memchr(b' ', text)?;
    let last = memchr::memrchr(b' ', text)?;
    let name = &text[..first];
    let version = &text[last + 1..];
    if first == last || name.is_empty() || !name.iter().all(|b| is_token(*b)) {
        return None;
    }
    if version.len() < 4 || !version[..4].eq_ignore_ascii_case(b"SIP/") {
        return None;
    }
    let base = line.start as usize;
    let request = StartLine::Request {
        method: Method::from_bytes(name),
        name: Span::new(base, base + first),
        uri: Span::new(base + first + 1, base + last),
        version: Span::new(base + last + 1, base + text.len()),
    };
    Some((request, text.len() == whole.len()))
}

/// A character of `token` (RFC 3261 25.1).
#[inline]
pub fn is_token(b: u8) -> bool {
    const TOKEN: [bool; 256] = {
        let mut table = [false; 256];
        let mut b = 0;
        while b < 256 {
            let c = b as u8;
            table[b] = c.is_ascii_alphanumeric()
                || matches!(c, b'-' | b'.' | b'!' | b'%' | b'*' | b'_' | b'+' | b'`' | b'\'' | b'~');
            b += 1;
        }
        table
    };
    TOKEN[usize::from(b)]
}

#[cfg(test)]
#[path = "message_tests.rs"]
mod tests;
