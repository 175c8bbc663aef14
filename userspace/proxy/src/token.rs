//! The cookie in the user part of this node's Record-Route entries.
//!
//! It comes back in the Route set of every request within the dialog and proves, without any state,
//! that this node put the dialog through: a sender who was never given one cannot have requests
//! forwarded to addresses of its choice. It names the peer that took the call and the caller's tag, so
//! that the direction of a request is known. The worker need not be named: the Call-ID does that.
//!
//! The key outlives a restart, and nodes that stand in for each other share it.

use core::hash::Hasher;
use routing::{PeerId, Table, fnv1a};
use sip::{
    Request,
    branch::{parse_hex, write_hex},
};
use siphasher::sip::SipHasher24;

/// Key of the cookies.
pub type TokenKey = [u8; 16];

/// Length of a cookie's text.
pub(crate) const LEN: usize = 1 + 8 + 4 + 16;

/// What a cookie says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    /// [`routing::PeerName::hash`] of the peer that the dialog's first request was sent to.
    pub(crate) peer: u32,
    /// Hash of the caller's tag.
    pub(crate) caller: u16,
    pub(crate) kind: TokenKind,
}

/// How requests within the dialog are handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum TokenKind {
    /// With state.
    Stateful = b'f',
    /// With state, and with the dialog's media.
    Anchored = b'a',
    /// Without state.
    Stateless = b'l',
}

impl Token {
    /// For a request that goes to this peer.
    pub(crate) fn new(peer: Option<PeerId>, request: &Request<'_>, kind: TokenKind, table: &Table) -> Self {
        let peer = peer.and_then(|id| table.peer(id)).map_or(0, |p| p.name.hash());
        Self { peer, caller: tag_hash(request.from_tag), kind }
    }

    /// Whether a request within the dialog comes from the caller.
    pub(crate) fn is_from_caller(self, request: &Request<'_>) -> bool {
        self.caller == tag_hash(request.from_tag)
    }

    /// Its text, valid for one Call-ID.
    pub(crate) fn write(self, key: &TokenKey, call_id: &[u8]) -> [u8; LEN] {
        let mut text = [0; LEN];
        text[0] = self.kind as u8;
        write_hex(&mut text[1..9], self.peer);
        write_hex(&mut text[9..13], self.caller.into());
        let mac = self.mac(key, call_id);
        write_hex(&mut text[13..21], (mac >> 32) as u32);
        write_hex(&mut text[21..], mac as u32);
        text
    }

    /// Reads a text; `None` where this node, or one with the same key, did not write it for this call.
    pub(crate) fn read(text: &[u8], key: &TokenKey, call_id: &[u8]) -> Option<Self> {
        if text.len() != LEN {
            return None;
        }
        let kinds = [TokenKind::Stateful, TokenKind::Anchored, TokenKind::Stateless];
        let kind = kinds.into_iter().find(|kind| *kind as u8 == text[0])?;
        let token = Self { peer: parse_hex(&text[1..9])?, caller: parse_hex(&text[9..13])? as u16, kind };
        let mac = u64::from(parse_hex(&text[13..21])?) << 32 | u64::from(parse_hex(&text[21..])?);
        (token.mac(key, call_id) == mac).then_some(token)
    }

    /// Whether requests within the dialog are forwarded without state.
    pub(crate) fn is_stateless(self) -> bool {
        self.kind == TokenKind::Stateless
    }

    fn mac(self, key: &TokenKey, call_id: &[u8]) -> u64 {
        let mut hasher = SipHasher24::new_with_key(key);
        hasher.write_u32(self.peer);
        hasher.write_u16(self.caller);
        hasher.write_u8(self.kind as u8);
        hasher.write(call_id);
        hasher.finish()
    }
}

/// Tells the two tags of a dialog apart; needs no key, since the cookie is authenticated.
pub(crate) fn tag_hash(tag: Option<&[u8]>) -> u16 {
    let hash = fnv1a(tag.unwrap_or_default());
    (hash ^ (hash >> 16)) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cookie_is_good_for_its_call_and_key_only() {
        let token = Token { peer: 0xdead_beef, caller: 7, kind: TokenKind::Stateless };
        let text = token.write(&[1; 16], b"call");
        assert_eq!(Token::read(&text, &[1; 16], b"call"), Some(token));
        assert_eq!(Token::read(&text, &[1; 16], b"other"), None);
        assert_eq!(Token::read(&text, &[2; 16], b"call"), None);
        for i in 0..LEN {
            let mut forged = text;
            forged[i] ^= 1;
            assert_eq!(Token::read(&forged, &[1; 16], b"call"), None, "byte {i}");
        }
        assert_eq!(Token::read(&text[1..], &[1; 16], b"call"), None);
    }
}
