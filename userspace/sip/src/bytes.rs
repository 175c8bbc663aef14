//! Searches within a message, sixteen bytes at a time.
//!
//! SIP's texts are short: what a search costs before and after its loop decides. These are made to be
//! inlined; for long texts `memchr` is faster.

use wide::u8x16;

const LANES: usize = 16;

/// A bit for each byte that is one of those wanted.
#[inline(always)]
fn matches<const N: usize>(chunk: &[u8; LANES], wanted: [u8; N]) -> u32 {
    let chunk = u8x16::new(*chunk);
    let equal = wanted.map(|byte| chunk.simd_eq(u8x16::splat(byte)));
    equal.into_iter().reduce(|all, one| all | one).map_or(0, u8x16::to_bitmask)
}

/// The first byte that is one of those wanted.
#[inline(always)]
pub(crate) fn find<const N: usize>(text: &[u8], wanted: [u8; N]) -> Option<usize> {
    let mut at = 0;
    while let Some(chunk) = text.get(at..).and_then(<[u8]>::first_chunk) {
        let found = matches(chunk, wanted);
        if found != 0 {
            return Some(at + found.trailing_zeros() as usize);
        }
        at += LANES;
    }
    // What is left over is looked at together with bytes that were looked at already.
    match text.last_chunk::<LANES>() {
        Some(chunk) => {
            let found = matches(chunk, wanted);
            (found != 0).then(|| text.len() - LANES + found.trailing_zeros() as usize)
        }
        None => text.iter().position(|byte| wanted.contains(byte)),
    }
}

/// Finds the line ends of a text one after the other (CRLF, or LF alone).
pub(crate) struct LineEnds<'a> {
    text: &'a [u8],
    /// Where the chunk starts that `found` is of.
    chunk: usize,
    /// CRs and LFs of the chunk that were not looked at yet.
    found: u32,
    /// Whether a CR was seen that ends no line. The next parser on the way might take it for a line
    /// end, and see headers that this one did not.
    pub(crate) lone_cr: bool,
}

impl<'a> LineEnds<'a> {
    pub(crate) fn new(text: &'a [u8]) -> Self {
        let mut ends = Self { text, chunk: 0, found: 0, lone_cr: false };
        ends.found = ends.look();
        ends
    }

    #[inline(always)]
    fn look(&self) -> u32 {
        let rest = self.text.get(self.chunk..).unwrap_or_default();
        match rest.first_chunk() {
            Some(chunk) => matches(chunk, [b'\r', b'\n']),
            None => {
                let mut chunk = [0; LANES];
                chunk[..rest.len()].copy_from_slice(rest);
                matches(&chunk, [b'\r', b'\n'])
            }
        }
    }

    /// The end of the line, and where the next one starts.
    #[inline(always)]
    pub(crate) fn next(&mut self) -> Option<(usize, usize)> {
        loop {
            while self.found == 0 {
                self.chunk += LANES;
                if self.chunk >= self.text.len() {
                    return None;
                }
                self.found = self.look();
            }
            let end = self.chunk + self.found.trailing_zeros() as usize;
            self.found &= self.found - 1;
            if self.text[end] == b'\n' {
                return Some((end, end + 1));
            }
            if self.text.get(end + 1) != Some(&b'\n') {
                self.lone_cr = true;
                continue;
            }
            // The LF of this CR is in this chunk or the first byte of the next.
            if self.found == 0 {
                self.chunk += LANES;
                self.found = self.look();
            }
            self.found &= self.found - 1;
            return Some((end, end + 2));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    /// Texts of all lengths up to 70 over a small alphabet, from a fixed seed.
    fn texts() -> impl Iterator<Item = Vec<u8>> {
        let mut seed = 1u32;
        (0..7000).map(move |n| {
            let mut byte = || {
                seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                b"\r\nabcdefghijklmnopqrstuvwxyz:;=,"[(seed >> 27) as usize]
            };
            (0..n % 70).map(|_| byte()).collect()
        })
    }

    #[test]
    fn finds_what_a_plain_search_finds() {
        for text in texts() {
            assert_eq!(find(&text, [b':']), text.iter().position(|b| *b == b':'));
            assert_eq!(find(&text, [b';', b',']), text.iter().position(|b| matches!(b, b';' | b',')));
        }
    }

    #[test]
    fn lines_end_where_a_plain_search_says() {
        for text in texts() {
            let mut ends = LineEnds::new(&text);
            let mut lone = false;
            for (lf, _) in text.iter().enumerate().filter(|(_, b)| **b == b'\n') {
                let end = if lf > 0 && text[lf - 1] == b'\r' { lf - 1 } else { lf };
                assert_eq!(ends.next(), Some((end, lf + 1)), "{text:?}");
            }
            assert_eq!(ends.next(), None, "{text:?}");
            for (i, _) in text.iter().enumerate().filter(|(_, b)| **b == b'\r') {
                lone |= text.get(i + 1) != Some(&b'\n');
            }
            assert_eq!(ends.lone_cr, lone, "{text:?}");
        }
    }
}
