//! What belongs to an established call: in-dialog routing (requirement E7), and the media that lives
//! and dies with the dialog.

use crate::{
    agenda::Due,
    context::{Context, Hop, Route},
    engine::{Engine, Incoming},
    inbound::Inbound,
    report::Counter,
    request::Reject,
    token::Token,
    turn::Turn,
};
use core::net::SocketAddr;
use media::{SessionId, Side};
use routing::PeerId;
use sip::scan::Uri;

/// Media of a call, by the call's key.
pub(crate) struct Dialog {
    pub(crate) session: SessionId,
    /// Who answered.
    peer: Option<PeerId>,
    answered: bool,
}

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

    /// Opens the media of a new call; whether it may go on. Only running out of ports stops it.
    pub(crate) fn open_media(&mut self, context: &mut Context, turn: &mut Turn<'_>) -> bool {
        let Route::Service(id) = context.route else { return true };
        let Some(service) = turn.table.service(id).filter(|s| s.anchor_media) else { return true };
        // A call that passes this node twice is anchored once.
        if self.dialogs.contains_key(&context.call) {
            return true;
        }
        let (Some(caller), Some(callee)) =
            (turn.table.listener(context.ingress), turn.table.listener(service.egress))
        else {
            return true;
        };
        let Some(session) = self.media.open(turn.now, caller.media, callee.media) else { return false };
        for side in [Side::Caller, Side::Callee] {
            if let Some((address, ports)) = self.media.local(session, side) {
                turn.out.media_ports(true, address, ports);
            }
        }
        context.owns_media = true;
        self.dialogs.insert(context.call, Dialog { session, peer: None, answered: false });
        self.agenda.add(turn.now + self.config.media_timeout, Due::Dialog(context.call));
        true
    }

    /// The call is up.
    pub(crate) fn establish(&mut self, call: u64, peer: Option<PeerId>) {
        let Some(dialog) = self.dialogs.get_mut(&call) else { return };
        dialog.answered = true;
        dialog.peer = peer;
        if let Some(peer) = peer {
            self.tally.peer(peer).active += 1;
        }
    }

    /// The call is over: its ports become free.
    pub(crate) fn close_dialog(&mut self, call: u64, turn: &mut Turn<'_>) {
        let Some(dialog) = self.dialogs.remove(&call) else { return };
        for side in [Side::Caller, Side::Callee] {
            if let Some((address, ports)) = self.media.local(dialog.session, side) {
                turn.out.media_ports(false, address, ports);
            }
        }
        self.media.close(dialog.session);
        if let (true, Some(peer)) = (dialog.answered, dialog.peer) {
            let active = &mut self.tally.peer(peer).active;
            *active = active.saturating_sub(1);
        }
    }

    /// Looks whether a call's media has fallen silent for good.
    pub(crate) fn on_dialog_due(&mut self, call: u64, turn: &mut Turn<'_>) {
        let Some(dialog) = self.dialogs.get(&call) else { return };
        let last = self.media.last_packet(dialog.session).unwrap_or_default();
        let silent_at = last + self.config.media_timeout;
        // Before the answer the INVITE transaction decides, and it always ends.
        if !dialog.answered || silent_at > turn.now {
            let again = silent_at.max(turn.now + self.config.media_timeout / 8);
            return self.agenda.add(again, Due::Dialog(call));
        }
        self.tally.count(Counter::MediaTimeouts);
        self.close_dialog(call, turn);
    }
}
