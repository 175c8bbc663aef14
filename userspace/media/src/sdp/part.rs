//! The SDP in a SIP body: all of it, or one part of several (RFC 2046 5.1).

use core::ops::Range;

/// Where in a body SDP stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The SDP.
    pub range: Range<usize>,
    /// Value of the part's own Content-Length.
    pub content_length: Option<Range<usize>>,
}

/// Finds the SDP that describes the session; `None` where there is none, or none that may be changed:
/// signed, encrypted and encoded bodies are left alone (RFC 5853).
pub fn find(content_type: &[u8], body: &[u8]) -> Option<Part> {
    let essence = essence(content_type);
    if essence.eq_ignore_ascii_case(b"application/sdp") {
        return (!body.is_empty()).then_some(Part { range: 0..body.len(), content_length: None });
    }
    let (kind, subtype) = split_once(essence, b'/')?;
    if !kind.eq_ignore_ascii_case(b"multipart")
        || [&b"signed"[..], b"encrypted"].iter().any(|s| subtype.eq_ignore_ascii_case(s))
    {
        return None;
    }
    parts(body, boundary(content_type)?).find_map(|range| sdp_part(body, range))
}

/// The type without its parameters.
fn essence(content_type: &[u8]) -> &[u8] {
    split_once(content_type, b';').map_or(content_type, |(essence, _)| essence).trim_ascii()
}

/// Longest boundary (RFC 2046 5.1.1).
const MAX_BOUNDARY: usize = 70;

fn boundary(content_type: &[u8]) -> Option<&[u8]> {
    let parameters = split_once(content_type, b';')?.1;
    // A quoted value may hold a semicolon; a boundary cannot.
    let value = parameters.split(|b| *b == b';').find_map(|parameter| {
        let (name, value) = split_once(parameter, b'=')?;
        name.trim_ascii().eq_ignore_ascii_case(b"boundary").then_some(value.trim_ascii())
    })?;
    let value = value.strip_prefix(b"\"").and_then(|v| v.strip_suffix(b"\"")).unwrap_or(value);
    (1..=MAX_BOUNDARY).contains(&value.len()).then_some(value)
}

/// The ranges between delimiter lines.
fn parts<'a>(body: &'a [u8], boundary: &'a [u8]) -> impl Iterator<Item = Range<usize>> + 'a {
    let mut at = delimiter(body, 0, boundary).map(|d| d.end);
    core::iter::from_fn(move || {
        let start = at?;
        let next = delimiter(body, start, boundary);
        at = next.as_ref().map(|d| d.end);
        Some(start..next?.start)
    })
}

/// The next delimiter with the line end that belongs to it before, and the rest of its line.
fn delimiter(body: &[u8], from: usize, boundary: &[u8]) -> Option<Range<usize>> {
    let mut at = from;
    loop {
        let found = at + memchr::memmem::find(body.get(at..)?, boundary)?;
        let behind = found + boundary.len();
        at = behind;
        let dashes = found.checked_sub(2).filter(|start| *start >= from && body[*start..found] == *b"--");
        let Some(start) = dashes else { continue };
        let before = &body[..start];
        if start > 0 && !before.ends_with(b"\n") {
            continue;
        }
        let line = memchr::memchr(b'\n', &body[behind..]).map_or(body.len(), |n| behind + n + 1);
        // Longer boundaries that begin like this one are others.
        if !body[behind..line].trim_ascii().iter().all(|b| *b == b'-') {
            continue;
        }
        let break_len = if before.ends_with(b"\r\n") { 2 } else { usize::from(before.ends_with(b"\n")) };
        // The break before a delimiter may be the one behind the last delimiter or the headers.
        return Some((start - break_len).max(from)..line);
    }
}

fn sdp_part(body: &[u8], range: Range<usize>) -> Option<Part> {
    let mut at = range.start;
    let mut is_sdp = false;
    let mut content_length = None;
    while at < range.end {
        let rest = &body[at..range.end];
        let len = memchr::memchr(b'\n', rest).map_or(rest.len(), |n| n + 1);
        let line = rest[..len].trim_ascii_end();
        let start = at;
        at += len;
        if line.is_empty() {
            return (is_sdp && at < range.end).then_some(Part { range: at..range.end, content_length });
        }
        let Some((name, value)) = split_once(line, b':') else { continue };
        let name = name.trim_ascii_end();
        if name.eq_ignore_ascii_case(b"Content-Type") {
            is_sdp = essence(value).eq_ignore_ascii_case(b"application/sdp");
        } else if name.eq_ignore_ascii_case(b"Content-Length") {
            let digits = value.trim_ascii();
            let end = start + line.len();
            content_length = Some(end - digits.len()..end);
        } else if name.eq_ignore_ascii_case(b"Content-Transfer-Encoding") {
            let plain = [&b"binary"[..], b"8bit", b"7bit"];
            if !plain.iter().any(|p| value.trim_ascii().eq_ignore_ascii_case(p)) {
                return None;
            }
        } else if name.eq_ignore_ascii_case(b"Content-Disposition")
            && !essence(value).eq_ignore_ascii_case(b"session")
        {
            // A description of something else, such as an early session (RFC 3959).
            return None;
        }
    }
    None
}

fn split_once(text: &[u8], at: u8) -> Option<(&[u8], &[u8])> {
    let i = memchr::memchr(at, text)?;
    Some((&text[..i], &text[i + 1..]))
}
