//! Whether a request is sound as far as a proxy reads it (RFC 3261 16.3, 8.1.1; RFC 4475).
//!
//! What a proxy does not read (Date, Expires, most bodies) is not judged: its reader will.

use crate::{
    HeaderName, Message, Method, StartLine,
    message::Defect,
    scan::{self, CSeq, NameAddr, Scheme, Uri, Via},
};

/// Why a request is refused: the status and the reason phrase of the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Status code.
    pub status: u16,
    /// Reason phrase, saying what is wrong.
    pub reason: &'static str,
}

const fn bad(reason: &'static str) -> Fault {
    Fault { status: 400, reason }
}

/// What a proxy reads of every request.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Method.
    pub method: Method,
    /// Its name.
    pub method_name: &'a [u8],
    /// Request-URI.
    pub uri: Uri<'a>,
    /// Its text.
    pub uri_text: &'a [u8],
    /// Topmost Via.
    pub via: Via<'a>,
    /// Tag of From.
    pub from_tag: Option<&'a [u8]>,
    /// Tag of To: present within a dialog.
    pub to_tag: Option<&'a [u8]>,
    /// Call-ID.
    pub call_id: &'a [u8],
    /// CSeq number.
    pub cseq: u32,
    /// Max-Forwards, where present.
    pub max_forwards: Option<u32>,
    /// Max-Breadth, where present (RFC 5393).
    pub max_breadth: Option<u32>,
}

/// Breadth of a request that names none (RFC 5393 5.3.3.1).
const DEFAULT_BREADTH: u32 = 60;

/// The headers that may stand once only, and must stand (all but the last two).
#[derive(Default)]
struct Singles<'a> {
    from: Option<&'a [u8]>,
    to: Option<&'a [u8]>,
    call_id: Option<&'a [u8]>,
    cseq: Option<&'a [u8]>,
    max_forwards: Option<&'a [u8]>,
    max_breadth: Option<&'a [u8]>,
    repeated: Option<&'static str>,
    proxy_require: bool,
}

impl<'a> Singles<'a> {
    fn gather(m: &Message<'a>) -> Self {
        let mut found = Self::default();
        for header in &m.headers {
            let (slot, reason) = match header.name {
                HeaderName::From => (&mut found.from, "Repeated From"),
                HeaderName::To => (&mut found.to, "Repeated To"),
                HeaderName::CallId => (&mut found.call_id, "Repeated Call-ID"),
                HeaderName::CSeq => (&mut found.cseq, "Repeated CSeq"),
                HeaderName::MaxForwards => (&mut found.max_forwards, "Repeated Max-Forwards"),
                HeaderName::MaxBreadth => (&mut found.max_breadth, "Repeated Max-Breadth"),
                HeaderName::ProxyRequire => {
                    found.proxy_require = true;
                    continue;
                }
                _ => continue,
            };
            if slot.replace(m.text(header.value())).is_some() {
                found.repeated.get_or_insert(reason);
            }
        }
        found
    }
}

impl<'a> Request<'a> {
    /// How many branches it may have at one time (RFC 5393).
    pub fn breadth(&self) -> u32 {
        self.max_breadth.unwrap_or(DEFAULT_BREADTH)
    }

    /// Reads and judges a request whose topmost Via was read already.
    ///
    /// # Errors
    /// The answer that it deserves: 400, 416, 420, 483 or 505 (RFC 3261 16.3 steps 1 to 5). A 420 still
    /// needs its Unsupported header.
    pub fn read(m: &Message<'a>, via: Via<'a>) -> Result<Self, Fault> {
        let StartLine::Request { method, name, uri, version } = m.start else {
            return Err(bad("Not A Request"));
        };
        if !m.text(version).eq_ignore_ascii_case(b"SIP/2.0") {
            return Err(Fault { status: 505, reason: "Version Not Supported" });
        }
        if let Some(defect) = m.defect {
            return Err(bad(defect_reason(defect)));
        }
        if via.malformed || (via.more && !rest_is_sound(m, via)) {
            return Err(bad("Bad Via"));
        }
        let found = Singles::gather(m);
        if let Some(reason) = found.repeated {
            return Err(bad(reason));
        }
        let call_id = found.call_id.filter(|id| !id.is_empty()).ok_or(bad("Missing Call-ID"))?;
        let cseq = CSeq::parse(found.cseq.ok_or(bad("Missing CSeq"))?).ok_or(bad("Bad CSeq"))?;
        if cseq.name != m.text(name) {
            return Err(bad("CSeq Method Differs From Request Line"));
        }
        let from = NameAddr::parse(found.from.ok_or(bad("Missing From"))?).ok_or(bad("Bad From"))?;
        let to = NameAddr::parse(found.to.ok_or(bad("Missing To"))?).ok_or(bad("Bad To"))?;
        let uri_text = m.text(uri);
        let uri = request_uri(uri_text)?;
        if matches!(method, Method::Invite | Method::Register) && !contacts_are_sound(m) {
            return Err(bad("Bad Contact"));
        }
        let number = |value: Option<&[u8]>| value.map(scan::number);
        let max_forwards = match number(found.max_forwards) {
            Some(Some(0)) => return Err(Fault { status: 483, reason: "Too Many Hops" }),
            Some(Some(n @ 1..=255)) => Some(n),
            Some(_) => return Err(bad("Bad Max-Forwards")),
            None => None,
        };
        let max_breadth = match number(found.max_breadth) {
            Some(Some(0)) => return Err(Fault { status: 440, reason: "Max-Breadth Exceeded" }),
            Some(None) => return Err(bad("Bad Max-Breadth")),
            Some(n) => n,
            None => None,
        };
        if found.proxy_require {
            return Err(Fault { status: 420, reason: "Bad Extension" });
        }
        Ok(Self {
            method,
            method_name: cseq.name,
            uri,
            uri_text,
            via,
            from_tag: from.tag(),
            to_tag: to.tag(),
            call_id,
            cseq: cseq.number,
            max_forwards,
            max_breadth,
        })
    }
}

/// A Request-URI has a known scheme and no header part (RFC 3261 19.1.1, RFC 4475 3.1.2.11).
fn request_uri(text: &[u8]) -> Result<Uri<'_>, Fault> {
    let uri = Uri::parse(text).ok_or(bad("Bad Request-URI"))?;
    if uri.scheme == Scheme::Other {
        return Err(Fault { status: 416, reason: "Unsupported URI Scheme" });
    }
    if crate::bytes::find(uri.rest, [b'?']).is_some() {
        return Err(bad("Headers In Request-URI"));
    }
    Ok(uri)
}

/// Contact is `*` or a list of addresses.
fn contacts_are_sound(m: &Message<'_>) -> bool {
    m.all(HeaderName::Contact).all(|header| {
        let value = m.text(header.value());
        value == b"*" || value.is_empty() || scan::list(value).all(|item| NameAddr::parse(item).is_some())
    })
}

/// Whether the Vias behind the topmost one in the same header can be read. Those in further headers
/// are the business of earlier hops.
fn rest_is_sound(m: &Message<'_>, top: Via<'_>) -> bool {
    let value = m.value(HeaderName::Via).unwrap_or_default();
    let rest = value.get(top.len + 1..).unwrap_or_default();
    scan::list(rest).all(|item| Via::parse(item).is_some_and(|via| !via.malformed))
}

fn defect_reason(defect: Defect) -> &'static str {
    match defect {
        Defect::BadStartLine => "Bad Request Line",
        Defect::BadHeaderLine => "Bad Header Line",
        Defect::TooManyHeaders => "Too Many Headers",
        Defect::Unterminated => "No Empty Line After Headers",
        Defect::BadContentLength => "Bad Content-Length",
        Defect::BodyTruncated => "Body Shorter Than Content-Length",
    }
}
