//! Where each media packet goes: the streams of one worker, found by local address and port.
//!
//! Every pair of ports of every media address has a [`Leg`] of its own from the start, so that a packet's
//! local address is an index, and one leg holds all that its packets need: no search, no allocation, and
//! nothing of another leg. A stream is two legs, one to each side of a call. What only signalling and the
//! first packets need is kept apart ([`Signalled`]).

use crate::{
    Side, Time,
    demux::{Class, classify},
    endpoint::Endpoint,
    ports::{NoPort, Pool, PortPair},
    quality::Quality,
};
use alloc::{boxed::Box, vec, vec::Vec};
use core::{
    net::{IpAddr, SocketAddr},
    ops::RangeInclusive,
    time::Duration,
};

/// What a worker's media is made of.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Its slice of the media ports; an odd first port is left out.
    pub ports: RangeInclusive<u16>,
    /// The node's media addresses.
    pub addresses: Vec<IpAddr>,
    /// How long a pair of ports rests before it is used again.
    pub rest: Duration,
    /// How long after the first packet of a stream a better source may take its place.
    pub learning: Duration,
    /// Only the addresses that signalling names may send.
    pub strict: bool,
    /// Seed of the order in which ports are used.
    pub seed: u64,
    /// Hears where the large table will lie, and how long it is in bytes, before it is written: the place
    /// to ask the system for large pages.
    pub on_memory: fn(*const u8, usize),
}

/// A stream of this worker: the leg to the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StreamId(u32);

/// Where a packet leaves: from a local address to a remote one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Relay {
    /// Local address that it is sent from.
    pub from: SocketAddr,
    /// Remote address that it is sent to.
    pub to: SocketAddr,
}

/// Where signalling says that a side receives, and from where it signals.
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

/// What signalling says of where a side receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// There.
    At(Target),
    /// Nowhere for now: on hold by an unspecified address (RFC 3264 8.4).
    Held,
    /// At an address that its first packet will tell.
    Unknown,
}

/// Why a media packet is not relayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The port belongs to no stream.
    NoSession,
    /// The source is not the learned or signalled one.
    WrongSource,
    /// The other side has given no address yet, or is on hold.
    NoDestination,
    /// It is nothing that belongs on a media port.
    Malformed,
    /// An empty datagram that keeps a NAT's hole open (RFC 6263): taken, not passed on.
    KeepAlive,
}

/// What came in on one leg.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// Packets relayed.
    pub packets: u64,
    /// Bytes of their UDP payloads.
    pub bytes: u64,
    /// Packets refused for their source.
    pub refused: u32,
    /// RTP packets that ought to have come, by their numbers.
    pub expected: u32,
    /// RTP packets that did not.
    pub lost: u32,
    /// Interarrival jitter (RFC 3550 6.4.1), in microseconds.
    pub jitter_us: u32,
    /// Synchronization source of its RTP; zero before the first packet.
    pub ssrc: u32,
}

/// One leg as shown to people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LegReport {
    /// Local RTP address.
    pub local: SocketAddr,
    /// RTP address that signalling names.
    pub signalled: Option<SocketAddr>,
    /// Source that RTP came from.
    pub learned: Option<SocketAddr>,
    /// When the latest packet came, or the stream was opened.
    pub last: Time,
    /// What came.
    pub received: Received,
}

/// RTP or RTCP of one leg.
#[derive(Clone, Copy, Debug)]
struct Way {
    /// Who may send: symmetric RTP (RFC 4961).
    source: Endpoint,
    /// Where what comes in here is sent to.
    to: Endpoint,
}

const NO_WAY: Way = Way { source: Endpoint::NONE, to: Endpoint::NONE };

/// All that a packet needs, in the order of its need: an RTP packet that is relayed touches the first two
/// cache lines and no more.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
struct Leg {
    rtp: Way,
    /// The other leg's local RTP port, which packets of this one leave from, and number of its address.
    from_port: u16,
    from_address: u8,
    open: bool,
    /// The other leg.
    partner: u32,
    refused: u32,
    /// Microseconds since the node's start.
    last: u64,
    packets: u64,
    bytes: u64,
    quality: Quality,
    /// Not RTP: any bytes may come.
    opaque: bool,
    rtcp: Way,
}

const _: () = assert!(core::mem::offset_of!(Leg, rtcp) <= 128);

impl Leg {
    const fn closed() -> Self {
        Self {
            rtp: NO_WAY,
            from_port: 0,
            from_address: 0,
            open: false,
            partner: 0,
            refused: 0,
            last: 0,
            packets: 0,
            bytes: 0,
            quality: Quality::new(),
            opaque: false,
            rtcp: NO_WAY,
        }
    }

    fn way(&mut self, rtcp: bool) -> &mut Way {
        if rtcp { &mut self.rtcp } else { &mut self.rtp }
    }
}

/// Who may take the place of a known source, besides a better one within the learning window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Openness {
    /// Nobody.
    #[default]
    Fixed,
    /// Another port of the same host: a new description came, and with it perhaps a new NAT binding.
    SameHost,
    /// Anyone, once: signalling has moved the stream.
    Anyone,
}

/// What signalling says of a leg, and how its source was learned.
#[derive(Clone, Copy, Debug, Default)]
struct Signalled {
    target: Option<Target>,
    held: bool,
    open_to: [Openness; 2],
    /// Where the side's SIP messages come from: a phone behind NAT sends its media from there, too.
    host: Option<IpAddr>,
    /// Until when a better source may take the place of the first one: of RTP, of RTCP.
    window: [Time; 2],
}

impl Signalled {
    fn named(&self, rtcp: bool) -> Option<SocketAddr> {
        self.target.map(|t| if rtcp { t.rtcp } else { t.rtp })
    }

    /// How well a source fits what signalling says.
    fn score(&self, source: SocketAddr, rtcp: bool) -> u8 {
        match self.named(rtcp) {
            Some(named) if named == source => 3,
            Some(named) if named.ip() == source.ip() => 2,
            _ => u8::from(self.host == Some(source.ip())),
        }
    }
}

/// Bytes that a stream takes: two legs.
pub const STREAM_BYTES: usize = 2 * (size_of::<Leg>() + size_of::<Signalled>());

/// All streams of a worker.
#[derive(Debug)]
pub struct Streams {
    first_port: u16,
    /// Pairs of each address.
    pairs: u16,
    addresses: Box<[IpAddr]>,
    pools: Box<[Pool]>,
    legs: Box<[Leg]>,
    signalled: Box<[Signalled]>,
    learning: Duration,
    strict: bool,
    open: usize,
}

impl Streams {
    /// Without any stream.
    pub fn new(settings: &Settings) -> Self {
        let ports = &settings.ports;
        let first_port = ports.start().saturating_add(ports.start() % 2);
        let pairs = ((usize::from(*ports.end()) + 1).saturating_sub(usize::from(first_port)) / 2) as u16;
        let mut addresses = settings.addresses.clone();
        addresses.sort_unstable();
        addresses.dedup();
        let count = addresses.len() * usize::from(pairs);
        let mut legs = Vec::<Leg>::with_capacity(count);
        (settings.on_memory)(legs.as_ptr().cast(), count * size_of::<Leg>());
        legs.resize(count, Leg::closed());
        let pool = |i: usize| Pool::new(pairs, settings.rest, settings.seed.wrapping_add(i as u64));
        Self {
            first_port,
            pairs,
            pools: (0..addresses.len()).map(pool).collect(),
            addresses: addresses.into_boxed_slice(),
            legs: legs.into_boxed_slice(),
            signalled: vec![Signalled::default(); count].into_boxed_slice(),
            learning: settings.learning,
            strict: settings.strict,
            open: 0,
        }
    }

    /// Streams that exist.
    pub fn len(&self) -> usize {
        self.open
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.open == 0
    }

    /// Port pairs: in use, resting, and all.
    pub fn ports(&self) -> (usize, usize, usize) {
        let unused: usize = self.pools.iter().map(Pool::unused).sum();
        let resting = self.pools.iter().map(Pool::resting).sum();
        (self.legs.len() - unused, resting, self.legs.len())
    }

    /// Of several local addresses the one with most ports left.
    pub fn roomiest(&self, among: impl Iterator<Item = IpAddr>) -> Option<IpAddr> {
        among.max_by_key(|ip| self.pool_of(*ip).map(|i| self.pools[i].unused()))
    }

    /// Opens a stream between two local addresses.
    ///
    /// # Errors
    /// Why there is no port.
    pub fn open(&mut self, now: Time, caller_side: IpAddr, callee_side: IpAddr) -> Result<StreamId, NoPort> {
        let caller = self.take(now, caller_side)?;
        let callee = match self.take(now, callee_side) {
            Ok(leg) => leg,
            Err(why) => {
                let (pool, pair) = self.pool_and_pair(caller);
                self.pools[pool].put_back(pair);
                return Err(why);
            }
        };
        for (leg, partner) in [(caller, callee), (callee, caller)] {
            self.legs[leg] = Leg {
                from_port: self.local_of(partner).port(),
                from_address: self.pool_and_pair(partner).0 as u8,
                last: micros(now),
                partner: partner as u32,
                open: true,
                ..Leg::closed()
            };
            self.signalled[leg] = Signalled::default();
        }
        self.open += 1;
        Ok(StreamId(caller as u32))
    }

    fn take(&mut self, now: Time, ip: IpAddr) -> Result<usize, NoPort> {
        let pool = self.pool_of(ip).ok_or(NoPort::NoAddress)?;
        let pair = self.pools[pool].take(now)?;
        Ok(pool * usize::from(self.pairs) + usize::from(pair))
    }

    /// Closes a stream; its ports rest. Closing twice does nothing.
    pub fn close(&mut self, now: Time, id: StreamId) {
        let Some(leg) = self.legs.get(id.0 as usize).filter(|l| l.open) else { return };
        for leg in [id.0 as usize, leg.partner as usize] {
            self.legs[leg] = Leg::closed();
            self.signalled[leg] = Signalled::default();
            let (pool, pair) = self.pool_and_pair(leg);
            self.pools[pool].give_back(now, pair);
        }
        self.open -= 1;
    }

    /// Local address and ports of a side.
    pub fn local(&self, id: StreamId, side: Side) -> Option<(IpAddr, PortPair)> {
        let local = self.local_of(self.leg_of(id, side)?);
        Some((local.ip(), PortPair::new(local.port())))
    }

    /// Whether an address is one of this worker's own media ports.
    fn is_own(&self, address: SocketAddr) -> bool {
        self.index(address).is_some()
    }

    /// Where the SIP messages of a side come from.
    pub fn set_host(&mut self, id: StreamId, side: Side, host: IpAddr) {
        if let Some(leg) = self.leg_of(id, side) {
            self.signalled[leg].host = Some(host);
        }
    }

    /// Signalling says where a side receives. Where that is another place than before, the source is
    /// learned again; where `anew` says that the description is a new one, a new port of the known source
    /// may take over.
    pub fn set_place(&mut self, id: StreamId, side: Side, place: Place, anew: bool) {
        let Some(leg) = self.leg_of(id, side) else { return };
        let ours = self.local_of(leg);
        let target = match place {
            // An address of our own would send packets round in circles; one of another family cannot be
            // reached from here.
            Place::At(t) if self.is_own(t.rtp) || t.rtp.is_ipv4() != ours.is_ipv4() => None,
            Place::At(t) => Some(t),
            Place::Held | Place::Unknown => None,
        };
        let signalled = &mut self.signalled[leg];
        let moved = target.is_some() && target != signalled.target;
        signalled.target = target.or(signalled.target);
        signalled.held = place == Place::Held;
        let partner = self.legs[leg].partner as usize;
        for rtcp in [false, true] {
            let way = self.legs[leg].way(rtcp);
            if moved && self.strict {
                way.source = Endpoint::NONE;
            }
            // The old source may send until the new one does, but gets nothing any more.
            let learned = way.source.get().filter(|_| !moved);
            let open_to = &mut signalled.open_to[usize::from(rtcp)];
            match (moved, anew) {
                (true, _) => *open_to = Openness::Anyone,
                (false, true) if *open_to == Openness::Fixed => *open_to = Openness::SameHost,
                _ => {}
            }
            let named = signalled.named(rtcp).filter(|_| target.is_some());
            let to = if signalled.held { None } else { learned.or(named) };
            self.legs[partner].way(rtcp).to = to.into();
        }
    }

    /// Clock rate in Hz of what a side sends.
    pub fn set_clock_rate(&mut self, id: StreamId, side: Side, rate: u32) {
        if let Some(leg) = self.leg_of(id, side) {
            self.legs[leg].quality.set_clock_rate(rate);
        }
    }

    /// Whether a stream may carry anything, or RTP and what goes with it only.
    pub fn set_opaque(&mut self, id: StreamId, opaque: bool) {
        for side in [Side::Caller, Side::Callee] {
            if let Some(leg) = self.leg_of(id, side) {
                self.legs[leg].opaque = opaque;
            }
        }
    }

    /// What is known of a side.
    pub fn report(&self, id: StreamId, side: Side) -> Option<LegReport> {
        let index = self.leg_of(id, side)?;
        let leg = &self.legs[index];
        Some(LegReport {
            local: self.local_of(index),
            signalled: self.signalled[index].target.map(|t| t.rtp),
            learned: leg.rtp.source.get(),
            last: Duration::from_micros(leg.last),
            received: Received {
                packets: leg.packets,
                bytes: leg.bytes,
                refused: leg.refused,
                expected: leg.quality.expected(),
                lost: leg.quality.lost(),
                jitter_us: leg.quality.jitter_us(),
                ssrc: leg.quality.ssrc(),
            },
        })
    }

    /// When the latest packet of a stream came, or when it was opened.
    pub fn last_packet(&self, id: StreamId) -> Option<Time> {
        let leg = &self.legs[self.leg_of(id, Side::Caller)?];
        Some(Duration::from_micros(leg.last.max(self.legs[leg.partner as usize].last)))
    }

    /// Where the leg of a local address lies in memory, to have it fetched before it is needed.
    #[inline]
    pub fn place_of(&self, local: SocketAddr) -> Option<*const u8> {
        Some(core::ptr::from_ref(self.legs.get(self.index(local)?)?).cast())
    }

    /// Decides where a packet goes that came from `source` to a local address.
    ///
    /// # Errors
    /// The reason not to relay it.
    #[inline(always)]
    pub fn relay(
        &mut self,
        now: Time,
        local: SocketAddr,
        source: SocketAddr,
        packet: &[u8],
    ) -> Result<(Relay, Class), Refusal> {
        let index = self.index(local).ok_or(Refusal::NoSession)?;
        // First ports are even.
        let rtcp = local.port() & 1 == 1;
        let leg = self.legs.get_mut(index).filter(|leg| leg.open).ok_or(Refusal::NoSession)?;
        let class = match classify(packet) {
            _ if leg.opaque => Class::Other,
            Some(class) => class,
            None if packet.is_empty() => Class::Other,
            None => return Err(Refusal::Malformed),
        };
        if leg.way(rtcp).source != Endpoint::from(source) && !self.learn(now, index, rtcp, source) {
            self.legs[index].refused += 1;
            return Err(Refusal::WrongSource);
        }
        let leg = &mut self.legs[index];
        let now = micros(now);
        leg.last = now;
        if packet.is_empty() {
            return Err(Refusal::KeepAlive);
        }
        if class == Class::Rtp {
            leg.quality.add(now, packet);
        }
        let to = leg.way(rtcp).to.get().ok_or(Refusal::NoDestination)?;
        leg.packets += 1;
        leg.bytes += packet.len() as u64;
        let ip = self.addresses[usize::from(leg.from_address)];
        let from = SocketAddr::new(ip, leg.from_port + u16::from(rtcp));
        Ok((Relay { from, to }, class))
    }

    /// A source other than the known one: whether it may send from now on.
    #[cold]
    fn learn(&mut self, now: Time, index: usize, rtcp: bool, source: SocketAddr) -> bool {
        let signalled = &mut self.signalled[index];
        let score = signalled.score(source, rtcp);
        // Port zero is nobody's (RFC 768): there is no way back.
        if self.strict && score < 3 || source.port() == 0 {
            return false;
        }
        let kind = usize::from(rtcp);
        let first = match (self.legs[index].way(rtcp).source.get(), signalled.open_to[kind]) {
            (None, _) | (_, Openness::Anyone) => true,
            (Some(known), Openness::SameHost) if known.ip() == source.ip() => true,
            (Some(known), _) if now < signalled.window[kind] && score > signalled.score(known, rtcp) => false,
            _ => return false,
        };
        if first {
            signalled.window[kind] = now + self.learning;
            signalled.open_to[kind] = Openness::Fixed;
        }
        let held = signalled.held;
        self.legs[index].way(rtcp).source = source.into();
        if !held {
            let partner = self.legs[index].partner as usize;
            self.legs[partner].way(rtcp).to = source.into();
        }
        true
    }

    #[inline]
    fn index(&self, local: SocketAddr) -> Option<usize> {
        let pair = local.port().wrapping_sub(self.first_port) / 2;
        if pair >= self.pairs || local.port() < self.first_port {
            return None;
        }
        Some(self.pool_of(local.ip())? * usize::from(self.pairs) + usize::from(pair))
    }

    #[inline]
    fn pool_of(&self, ip: IpAddr) -> Option<usize> {
        // A handful of addresses: faster than any table.
        self.addresses.iter().position(|a| *a == ip)
    }

    /// Numbers of a leg's address and of its pair of ports.
    fn pool_and_pair(&self, leg: usize) -> (usize, u16) {
        let pairs = usize::from(self.pairs);
        (leg / pairs, (leg % pairs) as u16)
    }

    fn local_of(&self, leg: usize) -> SocketAddr {
        let (pool, pair) = self.pool_and_pair(leg);
        SocketAddr::new(self.addresses[pool], self.first_port + pair * 2)
    }

    fn leg_of(&self, id: StreamId, side: Side) -> Option<usize> {
        let caller = self.legs.get(id.0 as usize).filter(|leg| leg.open)?;
        Some(match side {
            Side::Caller => id.0 as usize,
            Side::Callee => caller.partner as usize,
        })
    }
}

fn micros(time: Time) -> u64 {
    time.as_micros() as u64
}

#[cfg(test)]
#[path = "relay_tests.rs"]
mod tests;
