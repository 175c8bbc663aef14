//! A response context (RFC 3261 16.2): one server transaction and the client transactions it led to.

use alloc::{boxed::Box, sync::Arc, vec::Vec};
use arrayvec::ArrayVec;
use core::net::SocketAddr;
use media::Side;
use routing::{ListenerId, PeerId, PeerState, ServiceId, Table};
use sip::transaction::{Client, InviteClient, InviteClientState, InviteServer, Server, Time};

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
}

/// One request sent on to one target.
pub(crate) struct Attempt {
    pub(crate) machine: ClientMachine,
    /// Slot and nonce of the branch.
    pub(crate) slot: u32,
    pub(crate) peer: Option<PeerId>,
    pub(crate) from: SocketAddr,
    pub(crate) to: SocketAddr,
    /// The request as sent: retransmitted, and the model of its ACK and CANCEL.
    pub(crate) message: Box<[u8]>,
    /// When silence counts as failure.
    pub(crate) silent_at: Option<Time>,
    /// Timer C (RFC 3261 16.6 step 11).
    pub(crate) timer_c: Option<Time>,
    /// The call went elsewhere; a late provisional is cancelled, a late 2xx still passes.
    pub(crate) abandoned: bool,
    /// The peer was known to be dead already when it was tried: only its own silence fails it.
    pub(crate) last_resort: bool,
    /// CANCEL is to be sent once allowed.
    pub(crate) cancel_wanted: bool,
    /// The CANCEL's own transaction and message.
    pub(crate) cancel: Option<(Client, Box<[u8]>)>,
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
        judged.chain(self.machine.next_deadline()).chain(cancel).min()
    }

    /// Whether the table calls its peer dead that was not so when it was tried.
    pub(crate) fn has_died(&self, table: &Table) -> bool {
        !self.last_resort && is_dead(self.peer, table)
    }

    pub(crate) fn is_over(&self) -> bool {
        self.machine.next_deadline().is_none()
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
    peer.and_then(|id| table.peer(id)).is_some_and(|p| p.state == PeerState::Unhealthy)
}

/// Where the request goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// A new call or request: to peers of a service, one after the other.
    Service(ServiceId),
    /// Within a dialog: to one place only.
    Dialog(Hop),
}

/// One next hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hop {
    pub(crate) egress: ListenerId,
    pub(crate) to: SocketAddr,
    pub(crate) peer: Option<PeerId>,
}

/// Why attempts failed, for the answer when none is left (requirement E4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Failures {
    /// Silence or 408.
    pub(crate) timeout: bool,
    /// 503 or 504.
    pub(crate) unavailable: bool,
}

/// One request and all that came of it.
pub(crate) struct Context {
    /// Slot in the engine's table.
    pub(crate) id: usize,
    pub(crate) key: u64,
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
    /// Latest response sent, for retransmissions.
    pub(crate) last_response: Vec<u8>,
    pub(crate) attempts: Vec<Attempt>,
    pub(crate) tried: ArrayVec<PeerId, MAX_ATTEMPTS>,
    pub(crate) failures: Failures,
    pub(crate) budget_until: Time,
    pub(crate) cancelled: bool,
    /// A final response was sent upstream.
    pub(crate) answered: bool,
    /// Earliest deadline in the agenda.
    pub(crate) queued: Option<Time>,
}

impl Context {
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
            ServerMachine::Invite(s) => s.state() == sip::transaction::InviteServerState::Terminated,
            ServerMachine::Other(s) => s.state() == sip::transaction::ServerState::Terminated,
        };
        server_over && self.attempts.iter().all(Attempt::is_over)
    }

    /// Whether an attempt waits for a peer that the table calls dead.
    pub(crate) fn waits_for_dead_peer(&self, table: &Table) -> bool {
        !self.answered && self.attempts.iter().any(|a| a.is_live() && a.has_died(table))
    }

    /// What a retransmitted request calls for.
    pub(crate) fn on_retransmission(&self) -> sip::transaction::Action {
        match &self.server {
            ServerMachine::Invite(s) => s.on_retransmission(),
            ServerMachine::Other(s) => s.on_retransmission(),
        }
    }
}
