//! What belongs to an established call: in-dialog routing (requirement E7), and its end.

use crate::{
    context::{Context, Hop},
    engine::{Engine, Incoming},
    inbound::Inbound,
    report::Counter,
    request::Reject,
    token::Token,
    turn::Turn,
};
use core::net::SocketAddr;
use media::Side;
use sip::scan::Uri;

impl Engine {
    /// Next hop of an in-dialog request, and which end sent it.
    ///
    /// Only a Route entry of this node with an authentic cookie opens the way, and only to addresses
    /// that may send to this node themselves: nobody can use it as an open relay.
    pub(crate) fn dialog_hop(
        &mut self,
        incoming: &Incoming<'_>,
        inbound: &Inbound<'_, '_>,
        token: Token,
        turn: &mut Turn<'_>,
    ) -> Result<(Hop, Side), Reject> {
        let Inbound { request, routes, .. } = inbound;
        let table = turn.table;
        let sender = if token.is_from_caller(request) { Side::Caller } else { Side::Callee };
        let is_own = |to: &SocketAddr| table.listener_at(*to).is_some();
        let named = Uri::parse(routes.target(request)).and_then(|u| u.socket_addr());
        // A peer that names itself by a host name, or not at all, is known by the cookie.
        let by_cookie = || {
            let peer = table.peer_named(token.peer).filter(|_| sender == Side::Caller)?;
            Some(table.peer(peer)?.address)
        };
        let to = match named.filter(|to| !is_own(to)).or_else(by_cookie) {
            Some(to) => to,
            None if named.is_some() => return Err(Reject::new(481, "Call Does Not Exist")),
            None => return Err(Reject::new(502, "Next Hop Is No IP Address")),
        };
        if !turn.out.may_reach(to.ip()) {
            self.tally.count(Counter::ForbiddenNextHops);
            return Err(Reject::new(403, "Next Hop Not Allowed"));
        }
        let hop = Hop { egress: routes.own.unwrap_or(incoming.listener), to, peer: table.peer_at(to) };
        Ok((hop, sender))
    }

    /// The dialog of a request is over.
    pub(crate) fn end_dialog(&mut self, context: &Context, turn: &mut Turn<'_>) {
        if let Some(media) = context.media_of(0) {
            self.close_media(media, turn);
        }
    }
}
