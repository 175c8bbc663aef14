//! Loops, spirals and merged requests (RFC 3261 16.3 step 4 and 8.2.2.2, RFC 5393).
//!
//! Each branch that this node writes ends in a hash of all that its routing read. A request that comes
//! back with one of our branches and the same hash would be routed the same way again: a loop. With
//! another hash it is a spiral, and goes on.

use crate::{
    engine::{Engine, Incoming},
    keys::Keys,
    route_set::RouteSet,
};
use core::hash::{BuildHasher, Hasher};
use routing::Table;
use sip::{
    HeaderName, Message, Request,
    branch::Branch,
    scan::{Via, uri},
};

impl Keys {
    /// Hash of everything that decides where a request goes.
    pub(crate) fn routing(
        &self,
        incoming: &Incoming<'_>,
        m: &Message<'_>,
        request: &Request<'_>,
        routes: &RouteSet<'_>,
    ) -> u32 {
        let mut hasher = self.0.build_hasher();
        hasher.write_u64(u64::from(incoming.listener.0) << 32 | u64::from(request.cseq));
        let mut part = |bytes: &[u8]| {
            hasher.write_usize(bytes.len());
            hasher.write(bytes);
        };
        part(request.uri_text);
        part(request.call_id);
        routes.remaining(m).for_each(&mut part);
        for header in m.all(HeaderName::ProxyAuthorization) {
            part(m.text(header.value()));
        }
        hasher.finish() as u32
    }

    /// Key of what makes two requests the same one that came by two ways (RFC 3261 8.2.2.2). With the
    /// Request-URI, since an upstream may fork to several users of this node.
    pub(crate) fn merged(&self, request: &Request<'_>) -> u64 {
        self.hash(&[
            request.from_tag.unwrap_or_default(),
            request.call_id,
            &request.cseq.to_be_bytes(),
            request.uri_text,
            request.method_name,
        ])
    }
}

/// Whether the request has been here before and would be routed as then.
pub(crate) fn is_loop(m: &Message<'_>, table: &Table, routing_hash: u32) -> bool {
    let ours = |via: &Via<'_>| {
        let branch = via.branch.and_then(Branch::parse)?;
        let address = core::net::SocketAddr::new(uri::ip(via.host)?, via.port.unwrap_or(5060));
        table.listener_at(address).map(|_| branch)
    };
    m.all(HeaderName::Via)
        .map(|header| m.text(header.value()))
        // Most Vias are others': one look for the prefix spares reading them.
        .filter(|value| holds_own_branch(value))
        .flat_map(sip::scan::list)
        .filter_map(|item| ours(&Via::parse(item)?))
        .any(|branch| branch.routing == routing_hash)
}

fn holds_own_branch(value: &[u8]) -> bool {
    let starts = memchr::memchr_iter(sip::branch::PREFIX[0], value);
    starts.into_iter().any(|at| value[at..].starts_with(sip::branch::PREFIX))
}

impl Engine {
    /// Whether a copy of this request that came by another way is still being worked on.
    pub(crate) fn is_merged(&self, merge_key: u64) -> bool {
        let context = self.by_merge.get(&merge_key).and_then(|id| self.contexts.get(*id));
        // One that its sender has given up is not in the way of its next attempt.
        context.and_then(Option::as_ref).is_some_and(|c| !c.answered && !c.cancelled)
    }
}
