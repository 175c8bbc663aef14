//! CSeq (RFC 3261 20.16).

use crate::Method;

/// Sequence number and method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CSeq<'a> {
    /// Number, below 2^31 (RFC 3261 8.1.1.5).
    pub number: u32,
    /// Method.
    pub method: Method,
    /// Its name.
    pub name: &'a [u8],
}

impl<'a> CSeq<'a> {
    /// Reads a value.
    pub fn parse(value: &'a [u8]) -> Option<Self> {
        let space = value.iter().position(|b| b.is_ascii_whitespace())?;
        let number = super::number(&value[..space]).filter(|n| *n < 1 << 31)?;
        let name = value[space..].trim_ascii();
        let valid = !name.is_empty() && name.iter().all(|b| crate::message::is_token(*b));
        valid.then(|| Self { number, method: Method::from_bytes(name), name })
    }
}
