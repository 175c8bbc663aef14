//! The Route set of a request, read once: our own entries on top, what comes behind them, and strict
//! routers on either side (RFC 3261 16.4, 16.6 step 6).

use crate::token::{self, Token, TokenKey};
use arrayvec::ArrayVec;
use routing::{ListenerId, Table};
use sip::{
    Edits, Fault, HeaderName, Message, Request, Span,
    scan::{NameAddr, Uri, list},
};

/// Most Route entries of a request.
const MAX_ROUTES: usize = 32;

/// What a Route set says.
#[derive(Debug, Default)]
pub(crate) struct RouteSet<'a> {
    entries: ArrayVec<Span, MAX_ROUTES>,
    /// Entries on top that are ours and go.
    own_entries: usize,
    /// Our last entry: the listener that the request leaves by.
    pub(crate) own: Option<ListenerId>,
    /// What our entries say about the dialog, if any of them is authentic.
    pub(crate) token: Option<Token>,
    /// URI of the first entry that is not ours.
    pub(crate) next: Option<&'a [u8]>,
    /// That one is a strict router: it wants to be the Request-URI.
    strict: bool,
    /// A strict router sent this: the Request-URI is ours, the last entry is the real one.
    restored: Option<&'a [u8]>,
}

impl<'a> RouteSet<'a> {
    /// Reads the Route headers and the Request-URI.
    ///
    /// # Errors
    /// 400 for too many entries or one that cannot be read.
    pub(crate) fn read(
        m: &Message<'a>,
        request: &Request<'a>,
        table: &Table,
        key: &TokenKey,
    ) -> Result<Self, Fault> {
        let mut set = Self::default();
        for header in m.all(HeaderName::Route) {
            let value = m.text(header.value());
            for item in list(value).filter(|item| !item.is_empty()) {
                let start =
                    header.value().start as usize + (item.as_ptr() as usize - value.as_ptr() as usize);
                let span = Span::new(start, start + item.len());
                let pushed = set.entries.try_push(span);
                pushed.map_err(|_| Fault { status: 400, reason: "Too Many Routes" })?;
            }
        }
        if set.entries.is_empty() {
            return Ok(set);
        }
        set.take_restored(m, request, table, key)?;
        for i in 0..set.entries.len() {
            let entry = m.text(set.entries[i]);
            if let Some((listener, cookie)) = own_entry(entry, table) {
                set.own_entries += 1;
                set.own = Some(listener);
                // All our entries of a dialog carry the same cookie.
                if set.token.is_none() {
                    set.token = Token::read(cookie, key, request.call_id);
                }
                continue;
            }
            let uri = entry_uri(entry)?;
            let parsed = Uri::parse(uri);
            let own = parsed.and_then(|u| table.listener_at(u.socket_addr()?));
            let (Some(listener), Some(parsed)) = (own, parsed) else {
                set.next = Some(uri);
                set.strict = parsed.is_some_and(|u| u.params().get(b"lr").is_none());
                break;
            };
            set.own_entries += 1;
            set.own = Some(listener);
            let token = || Token::read(parsed.user?, key, request.call_id);
            set.token = set.token.or_else(token);
        }
        Ok(set)
    }

    /// A Request-URI that this node put into Record-Route was put there by a strict router.
    fn take_restored(
        &mut self,
        m: &Message<'a>,
        request: &Request<'a>,
        table: &Table,
        key: &TokenKey,
    ) -> Result<(), Fault> {
        let token = request.uri.user.and_then(|user| Token::read(user, key, request.call_id));
        let own = request.uri.socket_addr().and_then(|address| table.listener_at(address));
        if let (Some(token), Some(own), Some(last)) = (token, own, self.entries.last()) {
            self.restored = Some(entry_uri(m.text(*last))?);
            self.entries.pop();
            self.token = Some(token);
            self.own = Some(own);
        }
        Ok(())
    }

    /// Where the request goes by its route set: the next entry, else the Request-URI.
    pub(crate) fn target(&self, request: &Request<'a>) -> &'a [u8] {
        self.next.or(self.restored).unwrap_or(request.uri_text)
    }

    /// The Route entries that remain, for a hash.
    pub(crate) fn remaining<'m>(&'m self, m: &'m Message<'a>) -> impl Iterator<Item = &'a [u8]> + 'm {
        self.entries.iter().skip(self.own_entries).map(|span| m.text(*span))
    }

    /// Makes the message leave with what remains. `followed`: its next hop is the next entry, and not a
    /// peer that this node chose and that may make of the entries what it likes.
    pub(crate) fn edit(&self, m: &Message<'a>, uri: Span, followed: bool, edits: &mut Edits) {
        if self.entries.is_empty() && self.restored.is_none() {
            return;
        }
        // A strict router becomes the Request-URI, which moves to the end of the set.
        let strict = self.strict && followed;
        let gone = self.own_entries + usize::from(strict);
        let kept = self.entries.get(gone..).unwrap_or_default();
        let mut last_line = m.headers_end;
        for header in m.all(HeaderName::Route) {
            last_line = header.line().end as usize;
            let inside = |s: &&Span| s.start >= header.value().start && s.end <= header.value().end;
            let (first, last) = (kept.iter().find(inside), kept.iter().rfind(inside));
            let (Some(first), Some(last)) = (first, last) else {
                edits.remove(header.line());
                continue;
            };
            for (from, to) in [(header.value().start, first.start), (last.end, header.value().end)] {
                if from < to {
                    edits.remove(Span { start: from, end: to });
                }
            }
        }
        let leaves_with = self.restored.unwrap_or_else(|| m.text(uri));
        match (strict, self.next) {
            (true, Some(next)) => {
                edits.replace(uri, next);
                edits.insert(last_line, b"Route: <").push(leaves_with).push(b">\r\n");
            }
            _ if self.restored.is_some() => drop(edits.replace(uri, leaves_with)),
            _ => {}
        }
    }
}

/// An entry exactly as this node writes it, which most of ours are: its listener and its cookie.
fn own_entry<'a>(entry: &'a [u8], table: &Table) -> Option<(ListenerId, &'a [u8])> {
    let (cookie, rest) = entry.strip_prefix(b"<sip:")?.split_at_checked(token::LEN)?;
    let (listener, b";lr>") = table.listener_written(rest.strip_prefix(b"@")?)? else { return None };
    Some((listener, cookie))
}

fn entry_uri(item: &[u8]) -> Result<&[u8], Fault> {
    NameAddr::parse(item).map(|a| a.uri).ok_or(Fault { status: 400, reason: "Bad Route" })
}
