//! `name-addr` and `addr-spec` (RFC 3261 20.10): From, To, Contact, Route.

use super::Params;

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
    pub fn parse(item: &'a [u8]) -> Option<Self> {
        let item = item.trim_ascii();
        let Some(open) = super::find_unquoted(item, b'<') else {
            // Without brackets, parameters belong to the header (RFC 3261 20.10).
            let end = memchr::memchr(b';', item).unwrap_or(item.len());
            let uri = item[..end].trim_ascii();
            return (!uri.is_empty()).then_some(Self { uri, rest: &item[end..] });
        };
        let close = open + memchr::memchr(b'>', &item[open..])?;
        Some(Self { uri: item[open + 1..close].trim_ascii(), rest: &item[close + 1..] })
    }

    /// The `tag` parameter.
    pub fn tag(&self) -> Option<&'a [u8]> {
        Params::new(self.rest).get(b"tag").flatten().filter(|t| !t.is_empty())
    }
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
        assert_eq!(parse(b"<sip:a@b"), None);
        assert_eq!(parse(b""), None);
    }
}
