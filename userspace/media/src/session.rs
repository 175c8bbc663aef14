//! Media sessions of one worker: ports, learned sources, and the relay decision per packet.
//!
//! A session has two sides, each with a local pair of ports (RTP even, RTCP the next). A packet's
//! local port finds session and side by an array index; what comes in on one side leaves by the
//! other. Nothing here allocates after construction.

use alloc::{boxed::Box, collections::VecDeque, vec, vec::Vec};
use core::{
    net::{IpAddr, SocketAddr},
    ops::RangeInclusive,
    time::Duration,
};

/// Time since the node's start.
pub type Time = Duration;

/// A session of this worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SessionId(u32);

/// Which end of a call a side faces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The one who sent the INVITE.
    Caller,
    /// The one who answered it.
    Callee,
}

impl Side {
    /// The other one.
    pub fn other(self) -> Self {
        match self {
            Self::Caller => Self::Callee,
            Self::Callee => Self::Caller,
        }
    }
}

/// The even RTP port of a pair; RTCP is the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortPair(u16);

impl PortPair {
    /// RTP port.
    pub fn rtp(self) -> u16 {
        self.0
    }

    /// RTCP port.
    pub fn rtcp(self) -> u16 {
        self.0 + 1
    }
}

/// Where a packet leaves: from a local address to a remote one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Relay {
    /// Local address that it is sent from.
    pub from: SocketAddr,
    /// Remote address that it is sent to.
    pub to: SocketAddr,
}

/// Where signalling says that a side receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// RTP.
    pub rtp: SocketAddr,
    /// RTCP.
    pub rtcp: SocketAddr,
}

impl Target {
    /// From the RTP address and the port of `a=rtcp`, if any.
    pub fn new(rtp: SocketAddr, rtcp_port: Option<u16>) -> Self {
        let port = rtcp_port.unwrap_or_else(|| rtp.port().wrapping_add(1));
        Self { rtp, rtcp: SocketAddr::new(rtp.ip(), port) }
    }
}

/// Why a media packet is not relayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The port belongs to no session.
    NoSession,
    /// The source is not the learned one.
    WrongSource,
    /// The other side has given no address yet.
    NoDestination,
}

/// Counters of one side, of what came in there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// Packets relayed.
    pub packets: u64,
    /// Packets refused for their source.
    pub refused: u64,
}

#[derive(Clone, Debug)]
struct Leg {
    local: IpAddr,
    ports: PortPair,
    target: Option<Target>,
    /// Source of the first RTP (0) and RTCP (1) packet: symmetric RTP (RFC 4961).
    learned: [Option<SocketAddr>; 2],
    received: Received,
}

#[derive(Clone, Debug)]
struct Session {
    legs: [Leg; 2],
    last_packet: Time,
}

/// Owner of a port pair.
#[derive(Clone, Copy)]
struct Owner {
    session: u32,
    side: Side,
}

/// All sessions of a worker.
pub struct Sessions {
    first_port: u16,
    owners: Box<[Option<Owner>]>,
    /// Free pairs, the longest unused first, so that a port rests before it is used again.
    free: VecDeque<u16>,
    sessions: Vec<Option<Session>>,
    free_sessions: Vec<u32>,
}

impl Sessions {
    /// For the worker's slice of the media ports; an odd first port is left out.
    pub fn new(ports: RangeInclusive<u16>) -> Self {
        let first_port = ports.start().saturating_add(ports.start() % 2);
        let pairs = (usize::from(*ports.end()) + 1).saturating_sub(usize::from(first_port)) / 2;
        Self {
            first_port,
            owners: vec![None; pairs].into_boxed_slice(),
            free: (0..pairs as u16).collect(),
            sessions: vec![const { None }; pairs / 2],
            free_sessions: (0..(pairs / 2) as u32).rev().collect(),
        }
    }

    /// Sessions that exist.
    pub fn len(&self) -> usize {
        self.sessions.len() - self.free_sessions.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Opens a session between two local addresses; `None` when all ports are in use.
    pub fn open(&mut self, now: Time, caller_side: IpAddr, callee_side: IpAddr) -> Option<SessionId> {
        if self.free.len() < 2 {
            return None;
        }
        let slot = self.free_sessions.pop()?;
        let mut leg = |local, side| {
            let pair = self.free.pop_front().unwrap_or_default();
            self.owners[usize::from(pair)] = Some(Owner { session: slot, side });
            let ports = PortPair(self.first_port + pair * 2);
            Leg { local, ports, target: None, learned: [None; 2], received: Received::default() }
        };
        let legs = [leg(caller_side, Side::Caller), leg(callee_side, Side::Callee)];
        self.sessions[slot as usize] = Some(Session { legs, last_packet: now });
        Some(SessionId(slot))
    }

    /// Closes a session and frees its ports. Closing twice does nothing.
    pub fn close(&mut self, id: SessionId) {
        let Some(session) = self.sessions.get_mut(id.0 as usize).and_then(Option::take) else { return };
        for leg in session.legs {
            let pair = (leg.ports.0 - self.first_port) / 2;
            self.owners[usize::from(pair)] = None;
            self.free.push_back(pair);
        }
        self.free_sessions.push(id.0);
    }

    /// Local address and ports of a side.
    pub fn local(&self, id: SessionId, side: Side) -> Option<(IpAddr, PortPair)> {
        let leg = &self.session(id)?.legs[side as usize];
        Some((leg.local, leg.ports))
    }

    /// Signalling says where a side receives. A new address makes the source be learned anew;
    /// `None` (hold) leaves both as they are.
    pub fn set_target(&mut self, id: SessionId, side: Side, target: Option<Target>) {
        let Some(session) = self.sessions.get_mut(id.0 as usize).and_then(Option::as_mut) else { return };
        let leg = &mut session.legs[side as usize];
        if target.is_some() && target != leg.target {
            leg.target = target;
            leg.learned = [None; 2];
        }
    }

    /// Counters of a side.
    pub fn received(&self, id: SessionId, side: Side) -> Option<Received> {
        Some(self.session(id)?.legs[side as usize].received)
    }

    /// When the last packet of a session came, or when it was opened.
    pub fn last_packet(&self, id: SessionId) -> Option<Time> {
        Some(self.session(id)?.last_packet)
    }

    /// Decides where a packet goes that came from `source` to the local port `port`.
    ///
    /// # Errors
    /// The reason not to relay it.
    #[inline]
    pub fn relay(&mut self, now: Time, port: u16, source: SocketAddr) -> Result<Relay, Refusal> {
        let offset = port.wrapping_sub(self.first_port);
        let owner = self.owners.get(usize::from(offset / 2)).copied().flatten().ok_or(Refusal::NoSession)?;
        let kind = usize::from(offset % 2);
        let session = self.sessions[owner.session as usize].as_mut().ok_or(Refusal::NoSession)?;
        let [caller, callee] = &mut session.legs;
        let (inward, outward) = match owner.side {
            Side::Caller => (caller, callee),
            Side::Callee => (callee, caller),
        };
        if *inward.learned[kind].get_or_insert(source) != source {
            inward.received.refused += 1;
            return Err(Refusal::WrongSource);
        }
        session.last_packet = now;
        inward.received.packets += 1;
        let signalled = outward.target.map(|t| if kind == 0 { t.rtp } else { t.rtcp });
        let to = outward.learned[kind].or(signalled).ok_or(Refusal::NoDestination)?;
        Ok(Relay { from: SocketAddr::new(outward.local, outward.ports.0 + kind as u16), to })
    }

    fn session(&self, id: SessionId) -> Option<&Session> {
        self.sessions.get(id.0 as usize)?.as_ref()
    }
}

#[cfg(test)]
#[path = "session_tests.rs"]
mod tests;
