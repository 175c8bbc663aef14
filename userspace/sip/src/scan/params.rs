//! `;name=value` parameters of headers and URIs.

/// Iterator over parameters: name and, where present, value (quotes kept).
#[derive(Clone, Debug)]
pub struct Params<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Params<'a> {
    /// Over text that starts at or before the first `;`.
    pub fn new(text: &'a [u8]) -> Self {
        let at = if text.first() == Some(&b';') { Some(0) } else { super::find_unquoted(text, b';') };
        Self { text, at: at.unwrap_or(text.len()) }
    }

    /// The first parameter of a name (any case): `Some(None)` where it has no value.
    pub fn get(&self, name: &[u8]) -> Option<Option<&'a [u8]>> {
        self.clone().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}

impl<'a> Iterator for Params<'a> {
    type Item = (&'a [u8], Option<&'a [u8]>);

    fn next(&mut self) -> Option<Self::Item> {
        // A comma ends a parameter of a list's item, but here the text is of one item.
        while self.at < self.text.len() && self.text[self.at] != b';' {
            self.at += 1;
        }
        (self.at + 1 < self.text.len()).then(|| one(self.text, &mut self.at))
    }
}

/// What ends a parameter, its name, or a plain value.
const DELIMITER: [bool; 256] = {
    let mut table = [false; 256];
    table[b';' as usize] = true;
    table[b',' as usize] = true;
    table[b'=' as usize] = true;
    table[b'"' as usize] = true;
    table
};

/// Reads the parameter whose `;` is at `at`, and moves `at` behind it: to the next `;`, to a comma
/// outside quotes, or to the end.
pub(crate) fn one<'a>(text: &'a [u8], at: &mut usize) -> (&'a [u8], Option<&'a [u8]>) {
    let start = *at + 1;
    let mut equals = None;
    let mut i = start;
    while let Some(b) = text.get(i) {
        if DELIMITER[usize::from(*b)] {
            match b {
                b'=' => drop(equals.get_or_insert(i)),
                b'"' => i += quoted_len(&text[i..]) - 1,
                _ => break,
            }
        }
        i += 1;
    }
    *at = i.min(text.len());
    match equals {
        Some(equals) => (text[start..equals].trim_ascii(), Some(text[equals + 1..*at].trim_ascii())),
        None => (text[start..*at].trim_ascii(), None),
    }
}

/// Length of the quoted string that the text starts with; to the end where it is not closed.
fn quoted_len(text: &[u8]) -> usize {
    let mut i = 1;
    while i < text.len() {
        match text[i] {
            b'\\' => i += 1,
            b'"' => return i + 1,
            _ => {}
        }
        i += 1;
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn names_values_and_quotes() {
        let all = |text: &'static [u8]| Params::new(text).collect::<Vec<_>>();
        assert_eq!(
            all(b"<x>;a=1 ; B ;c=\"q;\\\",=\" ;d="),
            [(&b"a"[..], Some(&b"1"[..])), (b"B", None), (b"c", Some(b"\"q;\\\",=\"")), (b"d", Some(b"")),]
        );
        assert_eq!(all(b"x"), []);
        assert_eq!(all(b";"), []);
        assert_eq!(all(b";a=\"open;b"), [(&b"a"[..], Some(&b"\"open;b"[..]))]);
        assert_eq!(Params::new(b";LR;x=1").get(b"lr"), Some(None));
    }
}
