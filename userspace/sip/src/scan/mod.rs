//! Readers of header values. Each takes the value's bytes and gives slices of them.

pub mod address;
pub mod cseq;
pub mod params;
pub mod uri;
pub mod via;

use crate::bytes;
pub use address::NameAddr;
pub use cseq::CSeq;
pub use params::Params;
pub use uri::{Scheme, Uri};
pub use via::Via;

/// A table of letters, digits and further characters.
pub(crate) const fn class(further: &[u8]) -> [bool; 256] {
    let mut table = [false; 256];
    let mut b = 0;
    while b < 256 {
        table[b] = (b as u8).is_ascii_alphanumeric();
        b += 1;
    }
    let mut i = 0;
    while i < further.len() {
        table[further[i] as usize] = true;
        i += 1;
    }
    table
}

/// An unsigned decimal number of one to nine digits, surrounded by nothing.
pub fn number(text: &[u8]) -> Option<u32> {
    if text.is_empty() || text.len() > 9 {
        // Leading zeros may be many (RFC 4475 3.1.1.1), the value may not.
        let significant = text.iter().position(|b| *b != b'0')?;
        return if significant > 0 && text.len() < 64 {
            number(&text[significant..])
        } else {
            ten_digits(text)
        };
    }
    text.iter().try_fold(0u32, |n, b| b.is_ascii_digit().then(|| n * 10 + u32::from(b - b'0')))
}

fn ten_digits(text: &[u8]) -> Option<u32> {
    let [head @ .., last] = text else { return None };
    if head.len() != 9 || !last.is_ascii_digit() {
        return None;
    }
    number(head)?.checked_mul(10)?.checked_add(u32::from(last - b'0'))
}

/// Splits a comma-separated list, minding quoted strings and angle brackets; items are trimmed.
pub fn list(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(value);
    core::iter::from_fn(move || {
        let text = rest?;
        let (item, tail) = match list_end(text) {
            Some(comma) => (&text[..comma], Some(&text[comma + 1..])),
            None => (text, None),
        };
        rest = tail;
        Some(item.trim_ascii())
    })
}

/// Where the first item of a comma-separated list ends: its comma, if there is one.
pub fn list_end(text: &[u8]) -> Option<usize> {
    find_unquoted(text, b',')
}

/// First `wanted` outside quoted strings and angle brackets.
#[inline]
pub(crate) fn find_unquoted(text: &[u8], wanted: u8) -> Option<usize> {
    let at = bytes::find(text, [wanted])?;
    // Most values hold neither quotes nor brackets before it.
    match bytes::find(&text[..at], [b'"', b'<']) {
        None => Some(at),
        Some(_) => find_among_quotes(text, wanted),
    }
}

fn find_among_quotes(text: &[u8], wanted: u8) -> Option<usize> {
    let (mut quoted, mut escaped, mut angle) = (false, false, false);
    for (i, b) in text.iter().enumerate() {
        match b {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            _ if quoted => {}
            b'<' if wanted != b'<' => angle = true,
            b'>' => angle = false,
            b if *b == wanted && !angle => return Some(i),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn numbers() {
        for (text, value) in [
            (&b"0"[..], Some(0)),
            (b"0068", Some(68)),
            (b"00000000000000000000005", Some(5)),
            (b"4294967295", Some(u32::MAX)),
            (b"4294967296", None),
            (b"99999999999", None),
            (b"", None),
            (b"+1", None),
            (b"1 2", None),
            (b"0000000000000", None),
        ] {
            assert_eq!(number(text), value, "{text:?}");
        }
    }

    #[test]
    fn lists_mind_quotes_and_brackets() {
        let items: Vec<_> = list(br#""a, \"b" <sip:x,y@z> , <sip:q>;p="1,2",last"#).collect();
        assert_eq!(items, [&br#""a, \"b" <sip:x,y@z>"#[..], br#"<sip:q>;p="1,2""#, b"last"]);
    }
}
