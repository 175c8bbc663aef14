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
    /// Where its text starts; it ends where that of the next one, in the order of the calls, starts.
    text: u32,
}

/// Edits of one message. Kept and cleared between messages, so that it stops allocating.
#[derive(Debug, Default)]
pub struct Edits {
    edits: Vec<Edit>,
    text: Vec<u8>,
    /// Scratch space: the order of places, where it is not that of the calls.
    order: Vec<u32>,
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
    #[inline]
    pub fn replace(&mut self, span: Span, text: &[u8]) -> &mut Self {
        let start = self.text.len() as u32;
        self.edits.push(Edit { at: span.start, remove: span.end - span.start, text: start });
        self.push(text)
    }

    /// Inserts before a byte. Insertions at one place stay in the order of the calls.
    #[inline]
    pub fn insert(&mut self, at: usize, text: &[u8]) -> &mut Self {
        self.replace(Span::new(at, at), text)
    }

    /// Removes a span.
    pub fn remove(&mut self, span: Span) {
        self.replace(span, b"");
    }

    /// Appends to the latest edit's text.
    #[inline]
    pub fn push(&mut self, text: &[u8]) -> &mut Self {
        self.text.extend_from_slice(text);
        self
    }

    /// Appends a number to the latest edit's text.
    pub fn push_decimal(&mut self, n: u32) -> &mut Self {
        crate::respond::push_decimal(&mut self.text, n);
        self
    }

    /// The text of an edit.
    #[inline]
    fn text_of(&self, i: usize) -> &[u8] {
        let end = self.edits.get(i + 1).map_or(self.text.len(), |next| next.text as usize);
        &self.text[self.edits[i].text as usize..end]
    }

    /// Length by which the part of the message inside `within` changes.
    pub fn growth(&self, within: Span) -> i64 {
        let inside = |e: &Edit| e.at >= within.start && e.at + e.remove <= within.end;
        self.edits
            .iter()
            .enumerate()
            .filter(|(_, e)| inside(e))
            .map(|(i, e)| self.text_of(i).len() as i64 - i64::from(e.remove))
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
        out.reserve(original.len() + self.text.len());
        let mut copied = 0;
        let mut apply = |edits: &Self, i: usize| {
            let edit = &edits.edits[i];
            let at = (edit.at as usize).clamp(copied, original.len());
            out.extend_from_slice(&original[copied..at]);
            out.extend_from_slice(edits.text_of(i));
            copied = (at + edit.remove as usize).min(original.len());
        };
        if self.edits.is_sorted_by_key(|e| e.at) {
            (0..self.edits.len()).for_each(|i| apply(self, i));
        } else {
            // Stable: insertions at one place keep their order. Lists are short and almost sorted.
            let mut order = core::mem::take(&mut self.order);
            order.clear();
            order.extend(0..self.edits.len() as u32);
            order.sort_by_key(|i| self.edits[*i as usize].at);
            order.iter().for_each(|i| apply(self, *i as usize));
            self.order = order;
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
