//! `name-addr` and `addr-spec` (RFC 3261 20.10): From, To, Contact, Route.

use super::Params;
use crate::bytes;

/// An address with its header parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NameAddr<'a> {
    /// The URI, without angle brackets.
    pub uri: &'a [u8],
    /// Everything behind the URI: header parameters.
    pub rest: &'a [u8],
}

impl<'a> NameAddr<'a> {
    /// Reads one item (not a list).
    ///
    /// `None` where the grammar of RFC 3261 20.10 is not met: quotes or brackets without their
    /// partner, blanks inside the brackets, anything but parameters behind them, a display name that would need quotes, or a bare URI with
    /// a `?` or comma.
    pub fn parse(item: &'a [u8]) -> Option<Self> {
        let item = item.trim_ascii();
        let Some(open) = super::find_unquoted(item, b'<') else {
            // Without brackets, parameters belong to the header.
            let end = bytes::find(item, [b';']).unwrap_or(item.len());
            let uri = item[..end].trim_ascii();
            let bare = !uri.iter().any(|b| matches!(b, b'?' | b',' | b'"' | b'>') || b.is_ascii_whitespace());
            return (!uri.is_empty() && bare).then_some(Self { uri, rest: &item[end..] });
        };
        if !is_display_name(&item[..open]) {
            return None;
        }
        let close = open + bytes::find(&item[open..], [b'>'])?;
        let uri = &item[open + 1..close];
        let blank = |b: Option<&u8>| b.is_none_or(u8::is_ascii_whitespace);
        if blank(uri.first()) || blank(uri.last()) {
            return None;
        }
        let rest = &item[close + 1..];
        let parameters = rest.trim_ascii_start().first().is_none_or(|b| *b == b';');
        parameters.then_some(Self { uri, rest })
    }

    /// The `tag` parameter.
    pub fn tag(&self) -> Option<&'a [u8]> {
        Params::new(self.rest).get(b"tag").flatten().filter(|t| !t.is_empty())
    }
}

/// A quoted string or tokens with blanks between them; other characters above ASCII are borne.
fn is_display_name(text: &[u8]) -> bool {
    let text = text.trim_ascii();
    if let Some(quoted) = text.strip_prefix(b"\"") {
        let mut escaped = false;
        let end = quoted.iter().position(|b| {
            let ends = *b == b'"' && !escaped;
            escaped = *b == b'\\' && !escaped;
            ends
        });
        return end.is_some_and(|end| end + 1 == quoted.len());
    }
    text.iter().all(|b| crate::message::is_token(*b) || b.is_ascii_whitespace() || !b.is_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brackets_quotes_and_bare_forms() {
        let parse = |s: &'static [u8]| NameAddr::parse(s).map(|a| (a.uri, a.tag()));
        assert_eq!(parse(b"<sip:a@b;x=y>;tag=1"), Some((&b"sip:a@b;x=y"[..], Some(&b"1"[..]))));
        assert_eq!(
            parse(br#""Q <\"> ;tag=no" <sip:a@b> ; TAG = z"#),
            Some((&b"sip:a@b"[..], Some(&b"z"[..])))
        );
        assert_eq!(parse(b"sip:a@b;tag=2"), Some((&b"sip:a@b"[..], Some(&b"2"[..]))));
        assert_eq!(parse(b"\"\"<sip:a@b>"), Some((&b"sip:a@b"[..], None)));
        for bad in [
            &b"<sip:a@b"[..],
            b"\"Mr. J. User <sip:j.user@example.com>",
            b"\"W, T\" < sip:a@b >",
            b"Bell, Alexander <sip:a@b>;tag=43",
            b"sip:a@b?Route=%3Csip:c%3E",
            b"<>",
            b"<sip:a@b> tag=1",
        ] {
            assert_eq!(parse(bad), None, "{bad:?}");
        }
        assert_eq!(parse(b""), None);
    }
}
