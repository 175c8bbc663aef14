//! A set of SIP status codes.

/// Status codes from 100 to 699.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Statuses([u64; Self::WORDS]);

impl Statuses {
    const WORDS: usize = 11;

    /// No code.
    pub const NONE: Self = Self([0; Self::WORDS]);

    /// Answers to OPTIONS that are no success unless configured otherwise (requirement C3): 408 and 5xx,
    /// but not 501, which is an answer to the method and not about the peer.
    pub fn failing_probe() -> Self {
        let mut set = Self::NONE;
        set.add(408);
        (500..600).filter(|code| *code != 501).for_each(|code| set.add(code));
        set
    }

    /// Adds a code; others than 100 to 699 do not exist.
    pub fn add(&mut self, code: u16) {
        if (100..700).contains(&code) {
            self.0[usize::from(code / 64)] |= 1 << (code % 64);
        }
    }

    /// Takes a code out.
    pub fn remove(&mut self, code: u16) {
        if let Some(word) = self.0.get_mut(usize::from(code / 64)) {
            *word &= !(1 << (code % 64));
        }
    }

    /// Whether a code is in the set.
    pub fn contains(&self, code: u16) -> bool {
        self.0.get(usize::from(code / 64)).is_some_and(|word| word >> (code % 64) & 1 == 1)
    }
}

impl core::fmt::Debug for Statuses {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_set().entries((100..700).filter(|code| self.contains(*code))).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::Statuses;

    #[test]
    fn holds_what_was_added_and_nothing_else() {
        let set = Statuses::failing_probe();
        for (code, failing) in [
            (200, false),
            (302, false),
            (404, false),
            (405, false),
            (408, true),
            (480, false),
            (500, true),
            (501, false),
            (503, true),
            (504, true),
            (603, false),
            (0, false),
            (u16::MAX, false),
        ] {
            assert_eq!(set.contains(code), failing, "{code}");
        }
        let mut set = Statuses::NONE;
        (0..=u16::MAX).for_each(|code| set.add(code));
        assert_eq!((0..=u16::MAX).filter(|code| set.contains(*code)).count(), 600);
        set.remove(699);
        set.remove(u16::MAX);
        assert!(!set.contains(699) && set.contains(698));
    }
}
