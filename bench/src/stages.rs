//! The stages that the benches measure, as plain functions over prepared input.

use dataplane::{
    backend::memory::MemoryIo,
    plan::PortSlices,
    worker::{Arrival, Desk, Verdict},
};
use exchange::{
    Exchange,
    sources::{AllowList, Prefix},
};
use media::PortPair;
use packet::{Headers, checksum::Sum, ethernet::Mac, frame};
use proxy::{Config, Engine, Incoming, MediaConfig, Outbox, Report, Timers};
use routing::{
    Anchoring, Choice, Listener, ListenerId, Peer, PeerId, PeerState, RegionId, Service, ServiceId, Table,
    Upstream,
};
use sip::{HeaderName, Message, scan};
use std::{
    net::{IpAddr, SocketAddr},
    time::Duration,
};

fn at(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}

fn headers(source: SocketAddr, destination: SocketAddr) -> Headers {
    Headers {
        destination_mac: Mac([2; 6]),
        source_mac: Mac([4; 6]),
        vlan: None,
        source,
        destination,
        tos: 0xb8,
    }
}

/// A received frame of G.711 RTP: 214 bytes.
pub fn rtp_frame(source: SocketAddr, destination: SocketAddr) -> Vec<u8> {
    let payload = [0x80u8; 172];
    let mut out = vec![0; 42 + payload.len()];
    out[42..].copy_from_slice(&payload);
    frame::write(&mut out, &headers(source, destination), payload.len(), Sum::new().add_bytes(&payload));
    out
}

/// Reads a frame, verifies its checksums and writes the headers of the relayed one over it.
///
/// # Panics
/// If the frame is bad.
#[inline(never)]
pub fn view_and_rewrite(bytes: &mut [u8]) {
    let datagram = frame::parse(bytes).expect("a good frame");
    frame::write(
        bytes,
        &headers(datagram.source, datagram.destination),
        datagram.payload.len(),
        datagram.payload_sum,
    );
}

/// An INVITE of 670 bytes, with SDP.
pub fn invite() -> Vec<u8> {
    let sdp = "v=0\r\no=- 1 1 IN IP4 192.0.2.10\r\ns=-\r\nc=IN IP4 192.0.2.10\r\nt=0 0\r\nm=audio 4000 RTP/AVP 8 0 101\r\na=rtpmap:8 PCMA/8000\r\na=rtpmap:101 telephone-event/8000\r\n";
    let text = |padding: usize| {
        format!(
            "INVITE sip:+4930123456@carrier.example.net SIP/2.0\r\nVia: SIP/2.0/UDP 192.0.2.10:5060;rport;branch=z9hG4bK1a2b3c4d\r\n\
             Max-Forwards: 70\r\nFrom: <sip:+4989654321@carrier.example.net>;tag=1c2d3e\r\nTo: <sip:+4930123456@carrier.example.net>\r\n\
             Call-ID: 8f7e6d5c4b3a@192.0.2.10\r\nCSeq: 1 INVITE\r\nContact: <sip:+4989654321@192.0.2.10:5060>\r\n\
             User-Agent: {}\r\nContent-Type: application/sdp\r\nContent-Length: {}\r\n\r\n{sdp}",
            "u".repeat(padding),
            sdp.len()
        )
    };
    let padding = 670usize.saturating_sub(text(0).len());
    text(padding).into_bytes()
}

/// Indexes a message and reads what a proxy must read of it.
///
/// # Panics
/// If the message is bad.
#[inline(never)]
pub fn parse_sip(bytes: &[u8]) -> u32 {
    let m = Message::parse(bytes).expect("a SIP message");
    let value = |name| m.value(name).unwrap_or_default();
    let via = scan::Via::parse(value(HeaderName::Via)).expect("a Via");
    let from = scan::NameAddr::parse(value(HeaderName::From)).expect("a From");
    let to = scan::NameAddr::parse(value(HeaderName::To)).expect("a To");
    let cseq = scan::CSeq::parse(value(HeaderName::CSeq)).expect("a CSeq");
    let hops = scan::number(value(HeaderName::MaxForwards)).unwrap_or(70);
    cseq.number + hops + via.len as u32 + from.tag().map_or(0, <[u8]>::len) as u32 + to.uri.len() as u32
}

/// A table with peers in two regions.
pub fn table(peers: u16) -> Table {
    let listener =
        |address, upstream| Listener::new(String::new(), at(address), vec![at(address).ip()], upstream);
    let peer = |n: u16| Peer {
        region: Some(RegionId((n % 2) as u8)),
        state: PeerState::Healthy,
        ..Peer::new(String::new(), SocketAddr::from(([198, 51, (n >> 8) as u8, n as u8], 5060)))
    };
    let mut table = Table {
        generation: 1,
        listeners: vec![
            listener("192.0.2.1:5060", Upstream::Service(ServiceId(0))),
            listener("198.18.0.1:5060", Upstream::None),
        ],
        services: vec![Service {
            anchoring: Anchoring::All,
            ..Service::new(String::new(), ListenerId(1), (0..peers).map(PeerId).collect())
        }],
        peers: (0..peers).map(peer).collect(),
        local_region: Some(RegionId(0)),
        ..Table::default()
    };
    table.index();
    table
}

/// Picks a peer and looks it up by its address.
#[inline(never)]
pub fn table_lookup(table: &Table, roll: u32) -> Option<(Choice, PeerId)> {
    let choice = routing::select(table, &table.services[0], &[], roll)?;
    Some((choice, table.peer_at(table.peer(choice.peer)?.address)?))
}

/// One engine that forwards the same request again and again, without sockets.
pub struct Forwarder {
    engine: Engine,
    table: Table,
    out: Discard,
    request: Vec<u8>,
    now: Duration,
}

/// Takes messages like a backend does, by copying them into a frame.
#[derive(Default)]
struct Discard {
    frame: Vec<u8>,
    sent: u64,
}

impl Outbox for Discard {
    fn send(&mut self, _from: SocketAddr, _to: SocketAddr, message: &[u8]) {
        self.frame.clear();
        self.frame.extend_from_slice(message);
        self.sent += 1;
    }
    fn may_reach(&mut self, _address: IpAddr) -> bool {
        true
    }
    fn report(&mut self, _report: Report) {}
    fn media_ports(&mut self, _in_use: bool, _address: IpAddr, _ports: PortPair) {}
}

impl Forwarder {
    /// Forwards the INVITE of 670 bytes on a stateless route: parsed, routed and edited.
    pub fn invite() -> Self {
        Self::with(invite())
    }

    /// Forwards a BYE of such a call, by its route set.
    ///
    /// # Panics
    /// If the INVITE is not forwarded.
    pub fn bye() -> Self {
        let mut forwarder = Self::invite();
        forwarder.one();
        let sent = String::from_utf8_lossy(&forwarder.out.frame).into_owned();
        let routes: Vec<_> = sent.lines().filter_map(|l| l.strip_prefix("Record-Route: ")).collect();
        let routes: String = routes.iter().rev().map(|entry| format!("Route: {entry}\r\n")).collect();
        assert!(!routes.is_empty(), "the INVITE carries Record-Route");
        let bye = format!(
            "BYE sip:+4930123456@198.51.0.0:5060 SIP/2.0\r\nVia: SIP/2.0/UDP 192.0.2.10:5060;rport;branch=z9hG4bK5e6f7a8b\r\n\
             Max-Forwards: 70\r\n{routes}From: <sip:+4989654321@carrier.example.net>;tag=1c2d3e\r\n\
             To: <sip:+4930123456@carrier.example.net>;tag=4f5a6b\r\nCall-ID: 8f7e6d5c4b3a@192.0.2.10\r\nCSeq: 2 BYE\r\n\
             Content-Length: 0\r\n\r\n"
        );
        forwarder.request = bye.into_bytes();
        forwarder
    }

    fn with(request: Vec<u8>) -> Self {
        let mut table = table(4);
        table.services[0].stateless = true;
        table.services[0].anchoring = Anchoring::Off;
        Self { engine: engine(), table, out: Discard::default(), request, now: Duration::from_secs(1) }
    }

    /// One request in, one out.
    ///
    /// # Panics
    /// If it is not forwarded.
    #[inline(never)]
    pub fn one(&mut self) {
        let incoming = Incoming {
            listener: ListenerId(0),
            local: self.table.listeners[0].address,
            remote: SocketAddr::from(([192, 0, 2, 10], 5060)),
            datagram: &self.request,
        };
        let sent = self.out.sent;
        self.engine.on_sip(self.now, &incoming, &self.table, &mut self.out);
        assert_eq!(self.out.sent, sent + 1, "one message leaves");
    }

    /// The latest message sent.
    pub fn sent(&self) -> &[u8] {
        &self.out.frame
    }
}

/// Many calls that are never answered, on one engine.
pub struct Load {
    engine: Engine,
    table: Table,
    out: Discard,
    now: Duration,
}

impl Load {
    /// With room for so many transactions.
    pub fn new(most: usize) -> Self {
        let mut table = table(4);
        table.services[0].anchoring = Anchoring::Off;
        let engine = Engine::new(Config { max_transactions: most, ..config() });
        Self { engine, table, out: Discard::default(), now: Duration::from_secs(1) }
    }

    /// Places one more call.
    pub fn place(&mut self, n: usize) {
        let invite = String::from_utf8_lossy(&invite())
            .replace("branch=z9hG4bK1a2b3c4d", &format!("branch=z9hG4bK{n}"))
            .replace("8f7e6d5c4b3a@", &format!("{n}@"));
        let incoming = Incoming {
            listener: ListenerId(0),
            local: self.table.listeners[0].address,
            remote: SocketAddr::from(([192, 0, 2, 10], 5060)),
            datagram: invite.as_bytes(),
        };
        self.engine.on_sip(self.now, &incoming, &self.table, &mut self.out);
    }

    /// A peer that no call waits for becomes UNHEALTHY; how long the worker takes to see to it.
    pub fn other_peer_dies(&mut self) -> Duration {
        self.table.peers[1].state = PeerState::Unhealthy;
        self.table.generation += 1;
        self.table.index();
        let start = std::time::Instant::now();
        self.engine.on_table(self.now, &self.table, &mut self.out);
        start.elapsed()
    }

    /// Lets time pass.
    pub fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some(next) = self.engine.next_deadline().filter(|at| *at <= end) {
            self.now = self.now.max(next);
            self.engine.on_timer(self.now, &self.table, &mut self.out);
        }
        self.now = end;
    }

    /// Transactions that exist.
    pub fn transactions(&self) -> usize {
        self.engine.transactions()
    }

    /// Requests that were refused.
    pub fn refused(&self) -> u64 {
        self.engine.tally.counters[proxy::Counter::RequestsRejected as usize]
    }
}

fn engine() -> Engine {
    Engine::new(config())
}

fn config() -> Config {
    Config {
        worker: 0,
        workers: 1,
        seeds: [1; 4],
        token_key: [7; 16],
        rng_seed: 1,
        timers: Timers::default(),
        max_transactions: 200_000,
        media: MediaConfig::new(20_000..=20_999, vec![at("192.0.2.1:0").ip(), at("198.18.0.1:0").ip()]),
    }
}

/// A worker with one call, whose media is relayed.
pub struct Relay {
    desk: Desk,
    io: MemoryIo,
    received: Vec<u8>,
    out: Vec<u8>,
}

impl Relay {
    /// With a call set up.
    ///
    /// # Panics
    /// If it cannot be.
    pub fn new() -> Self {
        let exchange = Exchange::new(1).expect("an event descriptor");
        exchange.allow.publish(AllowList::new([Prefix { address: at("0.0.0.0:0").ip(), length: 0 }]));
        exchange.table.publish(table(1));
        let ports = 20_000..=20_999;
        let mut desk = Desk::new(0, engine(), exchange, PortSlices::new(&ports, 1), None);
        let mut io = MemoryIo::default();
        let arrival = Arrival {
            local: at("192.0.2.1:5060"),
            remote: at("192.0.2.10:5060"),
            tos: 0,
            seen_at: 0,
            checked: true,
        };
        desk.process(Duration::from_secs(1), &arrival, &invite(), &mut io);
        let forwarded = io
            .sent
            .iter()
            .map(|s| String::from_utf8_lossy(&s.payload).into_owned())
            .find(|t| t.starts_with("INVITE"));
        let forwarded = forwarded.expect("the INVITE is forwarded");
        let port =
            forwarded.split("m=audio ").nth(1).and_then(|r| r.split(' ').next()).and_then(|p| p.parse().ok());
        let local = SocketAddr::new(at("198.18.0.1:0").ip(), port.expect("a media port"));
        let received = rtp_frame(at("198.51.0.0:6000"), local);
        Self { desk, io, out: vec![0; received.len()], received }
    }

    /// One packet from received frame to frame to send, copied into another frame.
    ///
    /// # Panics
    /// If it is not relayed.
    #[inline(never)]
    pub fn one(&mut self) {
        let datagram = frame::parse(&self.received).expect("a good frame");
        let arrival = Arrival {
            local: datagram.destination,
            remote: datagram.source,
            tos: datagram.tos,
            seen_at: 0,
            checked: true,
        };
        let payload = &self.received[datagram.payload.clone()];
        let verdict = self.desk.process(Duration::from_secs(1), &arrival, payload, &mut self.io);
        let Verdict::Relay(relay, _) = verdict else { panic!("not relayed") };
        self.out[42..].copy_from_slice(payload);
        frame::write(&mut self.out, &headers(relay.from, relay.to), payload.len(), datagram.payload_sum);
    }
}

/// Many streams, and packets for any of them in no order.
pub struct Streams {
    streams: media::Streams,
    /// Last byte of the address, and port: small, so that the choice itself misses no cache.
    locals: Vec<(u8, u16)>,
    packet: Vec<u8>,
    random: u32,
}

impl Streams {
    /// With so many streams, their sources known.
    ///
    /// # Panics
    /// If they cannot be opened.
    pub fn new(count: usize) -> Self {
        let host = |n: u8| IpAddr::from([198, 18, 0, n]);
        let config = MediaConfig::new(1024..=65_535, (1..=8).map(host).collect());
        let settings = media::relay::Settings { on_memory: dataplane::large_pages, ..config.settings };
        let mut streams = media::Streams::new(&settings);
        let (source, there) = (at("198.51.100.9:4000"), at("198.51.100.10:4000"));
        let mut locals = Vec::with_capacity(count);
        let packet = rtp_frame(source, there)[42..].to_vec();
        for n in 0..count {
            let pair = (n % 4) as u8;
            let id = streams.open(Duration::ZERO, host(1 + pair), host(5 + pair)).expect("a port");
            let target = media::relay::Place::At(media::relay::Target::new(there, None));
            streams.set_place(id, media::Side::Callee, target, false);
            let (ip, ports) = streams.local(id, media::Side::Caller).expect("a stream");
            let local = SocketAddr::new(ip, ports.rtp());
            streams.relay(Duration::ZERO, local, source, &packet).expect("relayed");
            locals.push((1 + pair, local.port()));
        }
        Self { streams, locals, packet, random: 1 }
    }

    /// A batch of packets, each for a random stream, as a worker takes them.
    ///
    /// # Panics
    /// If one is not relayed.
    #[inline(never)]
    pub fn batch(&mut self) {
        let mut batch = [SocketAddr::from(([198, 18, 0, 1], 0)); BATCH];
        for local in &mut batch {
            self.random = self.random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let (host, port) =
                self.locals[((u64::from(self.random) * self.locals.len() as u64) >> 32) as usize];
            *local = SocketAddr::from(([198, 18, 0, host], port));
        }
        batch.iter().filter_map(|local| self.streams.place_of(*local)).for_each(dataplane::fetch);
        let source = at_source();
        for local in batch {
            self.streams.relay(Duration::from_secs(1), local, source, &self.packet).expect("relayed");
        }
    }
}

/// Packets of a batch.
pub const BATCH: usize = 64;

fn at_source() -> SocketAddr {
    SocketAddr::from(([198, 51, 100, 9], 4000))
}

impl Relay {
    /// The frame to send that the latest packet made.
    pub fn sent(&self) -> &[u8] {
        &self.out
    }
}

impl Default for Relay {
    fn default() -> Self {
        Self::new()
    }
}
