//! A response context (RFC 3261 16.2): one server transaction and the client transactions it led to.

use crate::calls::{BranchName, MediaRef};
use alloc::{boxed::Box, sync::Arc, vec::Vec};
use arrayvec::ArrayVec;
use core::net::SocketAddr;
use media::Side;
use routing::{ListenerId, PeerId, ServiceId, Table};
use sip::transaction::{
    Action, Client, InviteClient, InviteClientState, InviteServer, InviteServerState, Server, Time,
};
use slab::Slab;

/// Most peers that one call tries.
pub(crate) const MAX_ATTEMPTS: usize = 16;

/// The server transaction, by method.
pub(crate) enum ServerMachine {
    Invite(InviteServer),
    Other(Server),
}

impl ServerMachine {
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        match self {
            Self::Invite(s) => s.next_deadline(),
            Self::Other(s) => s.next_deadline(),
        }
    }

    /// A response is to be sent; whether the state allows it.
    pub(crate) fn on_send(&mut self, now: Time, status: u16) -> bool {
        match self {
            Self::Invite(s) => s.on_send(now, status),
            Self::Other(s) => s.on_send(now, status),
        }
    }

    pub(crate) fn on_timer(&mut self, now: Time) -> Action {
        match self {
            Self::Invite(s) => s.on_timer(now),
            Self::Other(s) => s.on_timer(now),
        }
    }
}

/// A client transaction, by method.
pub(crate) enum ClientMachine {
    Invite(InviteClient),
    Other(Client),
}

impl ClientMachine {
    pub(crate) fn is_pending(&self) -> bool {
        match self {
            Self::Invite(c) => c.is_pending(),
            Self::Other(c) => c.is_pending(),
        }
    }

    pub(crate) fn next_deadline(&self) -> Option<Time> {
        match self {
            Self::Invite(c) => c.next_deadline(),
            Self::Other(c) => c.next_deadline(),
        }
    }

    pub(crate) fn on_timer(&mut self, now: Time) -> Action {
        match self {
            Self::Invite(c) => c.on_timer(now),
            Self::Other(c) => c.on_timer(now),
        }
    }

    pub(crate) fn on_response(&mut self, now: Time, status: u16) -> Action {
        match self {
            Self::Invite(c) => c.on_response(now, status),
            Self::Other(c) => c.on_response(now, status),
        }
    }
}

/// One request sent on to one target.
pub(crate) struct Attempt {
    pub(crate) machine: ClientMachine,
    /// Slot and nonce of the branch.
    pub(crate) slot: u32,
    pub(crate) peer: Option<PeerId>,
    pub(crate) from: SocketAddr,
    pub(crate) to: SocketAddr,
    /// The request as sent: retransmitted, and the model of its ACK and CANCEL. Once acknowledged, the
    /// ACK.
    pub(crate) message: Box<[u8]>,
    /// When silence counts as failure.
    pub(crate) silent_at: Option<Time>,
    /// Timer C (RFC 3261 16.6 step 11).
    pub(crate) timer_c: Option<Time>,
    /// The call went elsewhere; a late provisional is cancelled, a late 2xx still passes.
    pub(crate) abandoned: bool,
    /// It lost against another attempt; its CANCEL says so.
    pub(crate) answered_elsewhere: bool,
    /// The peer was known to be dead already when it was tried: only its own silence fails it.
    pub(crate) last_resort: bool,
    /// CANCEL is to be sent once allowed.
    pub(crate) cancel_wanted: bool,
    /// The CANCEL's own transaction and message.
    pub(crate) cancel: Option<(Client, Box<[u8]>)>,
    /// When a cancelled INVITE is held to be over although no final response came (RFC 3261 9.1).
    pub(crate) give_up_at: Option<Time>,
}

impl Attempt {
    /// Whether this attempt may still give the call an answer.
    pub(crate) fn is_live(&self) -> bool {
        !self.abandoned && self.machine.is_pending()
    }

    pub(crate) fn next_deadline(&self) -> Option<Time> {
        let cancel = self.cancel.as_ref().and_then(|(c, _)| c.next_deadline());
        let pending = self.machine.is_pending();
        let judged = self.silent_at.into_iter().chain(self.timer_c).filter(|_| pending && !self.abandoned);
        let judged = judged.chain(self.give_up_at.filter(|_| pending));
        judged.chain(self.machine.next_deadline()).chain(cancel).min()
    }

    /// Whether the table calls its peer dead that was not so when it was tried.
    pub(crate) fn has_died(&self, table: &Table) -> bool {
        !self.last_resort && is_dead(self.peer, table)
    }

    pub(crate) fn is_over(&self) -> bool {
        // A pending one without deadline of its own waits for its timer C or the end of its CANCEL.
        !self.machine.is_pending()
            && self.machine.next_deadline().is_none()
            && self.cancel.as_ref().is_none_or(|(c, _)| c.next_deadline().is_none())
    }

    /// Whether the peer has been heard at all.
    pub(crate) fn is_silent(&self) -> bool {
        match &self.machine {
            ClientMachine::Invite(c) => c.state() == InviteClientState::Calling,
            ClientMachine::Other(c) => c.state() == sip::transaction::ClientState::Trying,
        }
    }
}

/// Whether the table calls a peer dead.
pub(crate) fn is_dead(peer: Option<PeerId>, table: &Table) -> bool {
    peer.and_then(|id| table.peer(id)).is_some_and(routing::Peer::is_dead)
}

/// Where the request goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// A new call or request: to peers of a service, one after the other.
    Service(ServiceId),
    /// Within a dialog: to one place only.
    Dialog(Hop),
}

impl Route {
    pub(crate) fn is_dialog(self) -> bool {
        matches!(self, Self::Dialog(_))
    }
}

/// One next hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hop {
    pub(crate) egress: ListenerId,
    pub(crate) to: SocketAddr,
    pub(crate) peer: Option<PeerId>,
}

/// The best final response of a fork so far, ready to be sent (RFC 3261 16.7 step 6).
pub(crate) struct Best {
    pub(crate) status: u16,
    pub(crate) message: Vec<u8>,
}

/// One request and all that came of it.
pub(crate) struct Context {
    /// Slot in the engine's table.
    pub(crate) id: usize,
    /// Key of the server transaction.
    pub(crate) key: u64,
    /// Key of requests that are the same by another way; none within a dialog.
    pub(crate) merge_key: Option<u64>,
    /// Key of the call.
    pub(crate) call: u64,
    /// Distinguishes this context from an earlier one in the same slot.
    pub(crate) serial: u32,
    pub(crate) server: ServerMachine,
    pub(crate) ingress: ListenerId,
    /// Local address that responses are sent from.
    pub(crate) local: SocketAddr,
    /// Where the request came from.
    pub(crate) remote: SocketAddr,
    /// Where responses go.
    pub(crate) reply_to: SocketAddr,
    pub(crate) request: Arc<[u8]>,
    pub(crate) route: Route,
    /// Which end of the call sent the request.
    pub(crate) sender: Side,
    pub(crate) is_bye: bool,
    /// Hash of what the request was routed by.
    pub(crate) routing: u32,
    /// How many branches this request may still have at one time (RFC 5393).
    pub(crate) breadth: u32,
    /// Hash of the caller's tag, where the request and its responses may describe media.
    pub(crate) media_caller: Option<u16>,
    /// And, within a dialog, hash of the callee's tag.
    pub(crate) media_dialog: Option<u16>,
    /// The request had an offer in it, of media that it may describe.
    pub(crate) offered: bool,
    /// Record in the journal.
    pub(crate) record: Option<u64>,
    /// Latest response sent, for retransmissions.
    pub(crate) last_response: Vec<u8>,
    pub(crate) attempts: Vec<Attempt>,
    pub(crate) tried: ArrayVec<PeerId, MAX_ATTEMPTS>,
    /// A peer kept silent or answered 408, for the answer when none is left (requirement E4).
    pub(crate) timed_out: bool,
    pub(crate) best: Option<Best>,
    pub(crate) budget_until: Time,
    /// The caller cancelled.
    pub(crate) cancelled: bool,
    /// A final response forbids further attempts.
    pub(crate) closed: bool,
    /// A final response was sent upstream.
    pub(crate) answered: bool,
    /// It waits for repetitions only.
    pub(crate) settled: bool,
    /// Earliest deadline in the agenda.
    pub(crate) queued: Option<Time>,
}

/// Contexts by slot. One is taken out while it is worked on.
pub(crate) type Contexts = Slab<Option<Box<Context>>>;

/// The context in a slot, if it is still the one with this serial number.
pub(crate) fn current(contexts: &Contexts, id: usize, serial: u32) -> Option<&Context> {
    contexts.get(id)?.as_deref().filter(|c| c.serial == serial)
}

impl Context {
    /// The media that messages of an attempt may describe.
    pub(crate) fn media_of(&self, slot: u32) -> Option<MediaRef> {
        let branch = self.media_dialog.map_or(BranchName::Attempt(slot), BranchName::Dialog);
        Some(MediaRef { call: self.call, caller: self.media_caller?, branch })
    }

    pub(crate) fn is_invite(&self) -> bool {
        matches!(self.server, ServerMachine::Invite(_))
    }

    /// A new call, as counted: an INVITE outside a dialog.
    pub(crate) fn is_new_call(&self) -> bool {
        self.is_invite() && matches!(self.route, Route::Service(_))
    }

    pub(crate) fn next_deadline(&self) -> Option<Time> {
        let attempts = self.attempts.iter().filter_map(Attempt::next_deadline);
        attempts.chain(self.server.next_deadline()).min()
    }

    pub(crate) fn is_over(&self) -> bool {
        let server_over = match &self.server {
            ServerMachine::Invite(s) => s.state() == InviteServerState::Terminated,
            ServerMachine::Other(s) => s.state() == sip::transaction::ServerState::Terminated,
        };
        server_over && self.attempts.iter().all(Attempt::is_over)
    }

    /// Whether nothing is left to do but to meet repetitions.
    pub(crate) fn has_settled(&self) -> bool {
        let server = match &self.server {
            ServerMachine::Invite(s) => {
                matches!(s.state(), InviteServerState::Accepted | InviteServerState::Confirmed)
            }
            ServerMachine::Other(s) => s.state() == sip::transaction::ServerState::Completed,
        };
        let cancelling = |a: &Attempt| a.cancel.as_ref().is_some_and(|(c, _)| c.is_pending());
        server && !self.attempts.iter().any(|a| a.machine.is_pending() || cancelling(a))
    }

    /// Gives back what is needed only until a final response: the request, and the attempts' messages
    /// that can be neither repeated nor acknowledged any more.
    pub(crate) fn shrink(&mut self) {
        if !self.answered || self.attempts.iter().any(|a| a.machine.is_pending()) {
            return;
        }
        self.request = Arc::default();
        let succeeded = |a: &&mut Attempt| match &a.machine {
            ClientMachine::Invite(c) => c.state() == InviteClientState::Accepted,
            ClientMachine::Other(_) => true,
        };
        for attempt in self.attempts.iter_mut().filter(succeeded) {
            attempt.message = Box::default();
        }
        if let ServerMachine::Invite(server) = &self.server
            && server.state() == InviteServerState::Accepted
        {
            self.last_response = Vec::new();
        }
    }

    /// Whether an attempt waits for a peer that the table calls dead.
    pub(crate) fn waits_for_dead_peer(&self, table: &Table) -> bool {
        !self.answered && self.attempts.iter().any(|a| a.is_live() && a.has_died(table))
    }

    /// Whether an attempt waits for this peer.
    pub(crate) fn waits_for(&self, peer: PeerId) -> bool {
        !self.answered && self.attempts.iter().any(|a| a.peer == Some(peer) && a.is_live())
    }

    /// What a retransmitted request calls for.
    pub(crate) fn on_retransmission(&self) -> Action {
        match &self.server {
            ServerMachine::Invite(s) => s.on_retransmission(),
            ServerMachine::Other(s) => s.on_retransmission(),
        }
    }
}
