//! `;name=value` parameters of headers and URIs.

/// Iterator over parameters: name and, where present, value (quotes kept).
#[derive(Clone, Debug)]
pub struct Params<'a> {
    rest: &'a [u8],
}

impl<'a> Params<'a> {
    /// Over text that starts at or before the first `;`.
    pub fn new(text: &'a [u8]) -> Self {
        let start = super::find_unquoted(text, b';').map_or(text.len(), |i| i + 1);
        Self { rest: &text[start..] }
    }

    /// The first parameter of a name (any case): `Some(None)` where it has no value.
    pub fn get(&self, name: &[u8]) -> Option<Option<&'a [u8]>> {
        self.clone().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}

impl<'a> Iterator for Params<'a> {
    type Item = (&'a [u8], Option<&'a [u8]>);

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let end = super::find_unquoted(self.rest, b';').unwrap_or(self.rest.len());
        let item = &self.rest[..end];
        self.rest = self.rest.get(end + 1..).unwrap_or_default();
        Some(match memchr::memchr(b'=', item) {
            Some(equals) => (item[..equals].trim_ascii(), Some(item[equals + 1..].trim_ascii())),
            None => (item.trim_ascii(), None),
        })
    }
}
