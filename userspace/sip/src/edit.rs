//! A changed copy of a message: an ordered list of edits whose length is known before the one write.
//!
//! Bytes that no edit touches leave as they came.

use crate::Span;
use alloc::vec::Vec;
use core::fmt;

#[derive(Clone, Copy, Debug)]
struct Edit {
    at: u32,
    remove: u32,
    text: Span,
}

/// Edits of one message. Kept and cleared between messages, so that it stops allocating.
#[derive(Debug, Default)]
pub struct Edits {
    edits: Vec<Edit>,
    text: Vec<u8>,
}

impl Edits {
    /// No edits.
    pub fn new() -> Self {
        Self::default()
    }

    /// Forgets all edits, keeps the memory.
    pub fn clear(&mut self) {
        self.edits.clear();
        self.text.clear();
    }

    /// Replaces a span; further text is appended with [`Edits::push`] or `write!`.
    pub fn replace(&mut self, span: Span, text: &[u8]) -> &mut Self {
        let start = self.text.len();
        self.edits.push(Edit {
            at: span.start,
            remove: span.end - span.start,
            text: Span::new(start, start),
        });
        self.push(text)
    }

    /// Inserts before a byte. Insertions at one place stay in the order of the calls.
    pub fn insert(&mut self, at: usize, text: &[u8]) -> &mut Self {
        self.replace(Span::new(at, at), text)
    }

    /// Removes a span.
    pub fn remove(&mut self, span: Span) {
        self.replace(span, b"");
    }

    /// Appends to the latest edit's text.
    pub fn push(&mut self, text: &[u8]) -> &mut Self {
        self.text.extend_from_slice(text);
        if let Some(edit) = self.edits.last_mut() {
            edit.text.end = self.text.len() as u32;
        }
        self
    }

    /// Appends a number to the latest edit's text.
    pub fn push_decimal(&mut self, n: u32) -> &mut Self {
        crate::respond::push_decimal(&mut self.text, n);
        self.push(b"")
    }

    /// Length by which the part of the message inside `within` changes.
    pub fn growth(&self, within: Span) -> i64 {
        let inside = |e: &&Edit| e.at >= within.start && e.at + e.remove <= within.end;
        self.edits
            .iter()
            .filter(inside)
            .map(|e| i64::from(e.text.end - e.text.start) - i64::from(e.remove))
            .sum()
    }

    /// Length of the changed message.
    pub fn len_of(&self, original: &[u8]) -> usize {
        let all = Span::new(0, original.len());
        (original.len() as i64 + self.growth(all)).max(0) as usize
    }

    /// Writes the changed message to `out`, replacing what it held.
    ///
    /// Overlapping edits would be a fault of the caller; the later one then loses its removal.
    pub fn write(&mut self, original: &[u8], out: &mut Vec<u8>) {
        out.clear();
        out.reserve(self.len_of(original));
        // Stable: insertions at one place keep their order. Lists are short and almost sorted.
        if !self.edits.is_sorted_by_key(|e| e.at) {
            self.edits.sort_by_key(|e| e.at);
        }
        let mut copied = 0;
        for edit in &self.edits {
            let at = (edit.at as usize).clamp(copied, original.len());
            out.extend_from_slice(&original[copied..at]);
            out.extend_from_slice(&self.text[edit.text.range()]);
            copied = (at + edit.remove as usize).min(original.len());
        }
        out.extend_from_slice(&original[copied..]);
    }
}

impl fmt::Write for Edits {
    fn write_str(&mut self, s: &str) -> fmt::Result {
        self.push(s.as_bytes());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_apply_in_place_order_whatever_the_call_order() {
        let original = b"0123456789";
        let mut edits = Edits::new();
        edits.replace(Span::new(7, 9), b"X");
        edits.insert(2, b"a").push(b"b");
        edits.insert(2, b"c");
        edits.remove(Span::new(0, 1));
        edits.insert(10, b"end");
        let mut out = Vec::new();
        assert_eq!(edits.len_of(original), b"1abc23456X9end".len());
        edits.write(original, &mut out);
        assert_eq!(out, b"1abc23456X9end");
        assert_eq!(edits.growth(Span::new(7, 10)), 2);
    }
}
