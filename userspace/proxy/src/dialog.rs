//! What belongs to an established call: in-dialog routing (requirement E7), and the media that lives
//! and dies with the dialog.

use crate::{
    agenda::Due,
    context::{Context, Hop, Route},
    engine::{Engine, Incoming},
    forward::{Forward, strip_own_routes},
    report::Counter,
    request::{Essentials, Reject},
    turn::Turn,
};
use media::{SessionId, Side};
use packet::DropReason;
use routing::{PeerId, Table};
use sip::{Message, StartLine, branch::Branch, scan::Uri};

/// Media of a call, by the call's key.
pub(crate) struct Dialog {
    pub(crate) session: SessionId,
    /// Hash of the caller's tag: tells the direction of later requests.
    caller: u64,
    /// Who answered.
    peer: Option<PeerId>,
    answered: bool,
}

impl Engine {
    /// Next hop of an in-dialog request and which end sent it.
    pub(crate) fn dialog_hop(
        &self,
        incoming: &Incoming<'_>,
        m: &Message<'_>,
        essentials: &Essentials<'_>,
        table: &Table,
    ) -> Result<(Hop, Side), Reject> {
        let StartLine::Request { uri, .. } = m.start else { return Err(Reject::new(400, "Bad Request")) };
        let stripped = strip_own_routes(m, table, None);
        let target = stripped.next.unwrap_or(m.text(uri));
        let to = Uri::parse(target)
            .and_then(|u| u.socket_addr())
            .ok_or(Reject::new(502, "Next Hop Is No IP Address"))?;
        if table.listener_at(to).is_some() {
            return Err(Reject::new(481, "Call Does Not Exist"));
        }
        let peer = table.peer_at(to);
        let by_peer =
            || table.services.iter().find(|s| peer.is_some_and(|p| s.peers.contains(&p))).map(|s| s.egress);
        let egress = stripped.own.or_else(by_peer).unwrap_or(incoming.listener);
        let sender = self.sender(essentials);
        Ok((Hop { egress, to, peer }, sender))
    }

    fn sender(&self, essentials: &Essentials<'_>) -> Side {
        let dialog = self.dialogs.get(&self.keys.call(essentials.call_id));
        let from = self.keys.hash(&[essentials.from_tag.unwrap_or_default()]);
        if dialog.is_none_or(|d| d.caller == from) { Side::Caller } else { Side::Callee }
    }

    /// Forwards the ACK of a 2xx, which is a transaction of its own and gets no answer.
    pub(crate) fn forward_ack(
        &mut self,
        incoming: &Incoming<'_>,
        m: &Message<'_>,
        essentials: &Essentials<'_>,
        turn: &mut Turn<'_>,
    ) {
        let sound = m.defect.is_none() && essentials.to_tag.is_some();
        let Some(Ok((hop, sender))) = sound.then(|| self.dialog_hop(incoming, m, essentials, turn.table))
        else {
            return self.tally.drop(DropReason::SipStrayAck);
        };
        let (Some(ingress), Some(egress)) =
            (turn.table.listener(incoming.listener), turn.table.listener(hop.egress))
        else {
            return;
        };
        // No response can come, so the branch names no slot.
        let branch = Branch { worker: self.config.worker, slot: u32::MAX, nonce: self.rng.next_u32() };
        let call = self.keys.call(essentials.call_id);
        let forward =
            Forward { remote: incoming.remote, ingress, egress, branch, record_route: false, call, sender };
        let mut message = core::mem::take(&mut self.buffer);
        self.write_forwarded(m, &forward, turn.table, &mut message);
        self.send(turn, egress.address, hop.to, &message);
        self.buffer = message;
    }

    /// Opens the media of a new call; whether it may go on. Only running out of ports stops it.
    pub(crate) fn open_media(
        &mut self,
        context: &Context,
        essentials: &Essentials<'_>,
        turn: &mut Turn<'_>,
    ) -> bool {
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
        let caller = self.keys.hash(&[essentials.from_tag.unwrap_or_default()]);
        self.dialogs.insert(context.call, Dialog { session, caller, peer: None, answered: false });
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
