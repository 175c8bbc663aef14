//! Hostile input: a mutator, and the properties that every input must keep. The bodies are plain
//! functions, so that tests run them briefly and fuzzers (`tests/fuzz`) for long.

#![forbid(unsafe_code)]

pub mod description;
pub mod torture;

use dataplane::{
    backend::memory::MemoryIo,
    plan::PortSlices,
    worker::{Arrival, Desk},
};
use exchange::{
    Exchange,
    sources::{AllowList, Prefix},
};
use packet::frame;
use proxy::{Config, Engine, MediaConfig, Timers};
use routing::{
    Anchoring, Listener, ListenerId, Peer, PeerId, PeerState, Service, ServiceId, Table, Upstream,
};
use sip::{
    Edits, Message, Request,
    framer::{Frame, Framer},
    scan,
};
use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

/// Makes bad input of good, reproducibly.
#[derive(Clone, Debug)]
pub struct Mutator(u64);

impl Mutator {
    /// With a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// A number below `n`.
    pub fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 33) as usize % n.max(1)
    }

    /// One to four changes: flipped, replaced, inserted, removed or repeated bytes, or a cut.
    pub fn mutate(&mut self, seed: &[u8]) -> Vec<u8> {
        const TELLING: &[u8] = b"\r\n \t:;,<>@\"\\=/?%[]0\xff";
        let mut bytes = seed.to_vec();
        for _ in 0..=self.below(4) {
            let at = self.below(bytes.len() + 1);
            match self.below(7) {
                0 => bytes.truncate(at),
                1 => bytes.insert(at, TELLING[self.below(TELLING.len())]),
                2 if at < bytes.len() => bytes[at] ^= 1 << self.below(8),
                3 if at < bytes.len() => bytes[at] = self.below(256) as u8,
                4 if at < bytes.len() => drop(bytes.remove(at)),
                5 if at < bytes.len() => bytes[at] = TELLING[self.below(TELLING.len())],
                _ => {
                    let end = (at + self.below(40)).min(bytes.len());
                    let piece = bytes[at..end].to_vec();
                    bytes.splice(at..at, piece);
                }
            }
        }
        bytes
    }
}

/// Any frame is read or refused; what is read can be written again and reads the same.
///
/// # Panics
/// If not.
pub fn frame_property(bytes: &[u8]) {
    let Ok(datagram) = frame::parse(bytes) else { return };
    let payload = &bytes[datagram.payload.clone()];
    let headers = packet::Headers {
        destination_mac: packet::ethernet::Mac([1; 6]),
        source_mac: packet::ethernet::Mac([2; 6]),
        vlan: datagram.vlan,
        source: datagram.source,
        destination: datagram.destination,
        tos: datagram.tos,
    };
    let start = frame::headers_len(&headers);
    let mut out = vec![0; start + payload.len()];
    out[start..].copy_from_slice(payload);
    frame::write(&mut out, &headers, payload.len(), datagram.payload_sum);
    let again = frame::parse(&out).expect("a written frame reads");
    assert_eq!(
        (again.source, again.destination, again.vlan, again.tos),
        (datagram.source, datagram.destination, datagram.vlan, datagram.tos)
    );
    assert_eq!(&out[again.payload], payload);
}

/// Any bytes are indexed or refused; every span lies inside; an empty list of edits changes nothing.
///
/// # Panics
/// If not.
pub fn sip_property(bytes: &[u8]) {
    let Ok(message) = Message::parse(bytes) else { return };
    let mut end = 0;
    for header in &message.headers {
        assert!(header.line().start >= end && header.line().end as usize <= bytes.len(), "lines in order");
        assert!(
            header.value().start >= header.line().start && header.value().end <= header.line().end,
            "values in their lines"
        );
        end = header.line().end;
        let value = message.text(header.value());
        for item in scan::list(value) {
            let _ = scan::NameAddr::parse(item)
                .map(|a| (a.tag(), scan::Uri::parse(a.uri).map(|u| u.socket_addr())));
        }
        if let Some(via) = scan::Via::parse(value) {
            assert!(via.len <= value.len());
        }
        let _ = scan::CSeq::parse(value);
        let _ = scan::number(value);
    }
    if let Some(via) = message.value(sip::HeaderName::Via).and_then(scan::Via::parse) {
        let _ = Request::read(&message, via);
    }
    let mut out = Vec::new();
    Edits::new().write(message.bytes, &mut out);
    assert_eq!(out, message.bytes);
    let _ = media::sdp::scan(message.body());
}

/// A stream is cut into the same messages however it arrives, and every step makes progress.
///
/// # Panics
/// If not.
pub fn stream_property(bytes: &[u8]) {
    let cut = |piece: usize| {
        let (mut framer, mut held, mut frames) = (Framer::default(), Vec::new(), Vec::new());
        for chunk in bytes.chunks(piece) {
            held.extend_from_slice(chunk);
            loop {
                let frame = match framer.next(&held) {
                    Ok(frame) => frame,
                    Err(_) => return (frames, true),
                };
                let used = match frame {
                    Frame::Message(n) => {
                        frames.push(held[..n].to_vec());
                        n
                    }
                    Frame::Ping(n) | Frame::Filler(n) => n,
                    Frame::Incomplete => break,
                };
                assert!(used > 0 && used <= held.len(), "no progress");
                held.drain(..used);
            }
        }
        (frames, false)
    };
    let (whole, broken) = cut(bytes.len().max(1));
    let (pieces, broken_in_pieces) = cut(1 + bytes.len() % 7);
    assert_eq!(whole, pieces, "messages depend on how the stream arrives");
    assert_eq!(broken, broken_in_pieces, "the end depends on how the stream arrives");
}

/// What a worker forwards keeps every header that a proxy does not own, byte for byte and in order.
///
/// # Panics
/// If not, or if the forwarded request cannot be read.
pub fn forward_property(before: &[u8], after: &[u8]) {
    let (before, after) = (lines(before), lines(after));
    // Ours: what a proxy adds, counts or takes off (RFC 3261 16.6), and the length of an edited body.
    let ours = ["via", "v", "max-forwards", "max-breadth", "record-route", "route", "content-length", "l"];
    let theirs = |list: &[(String, Vec<u8>)]| -> Vec<_> {
        list.iter().filter(|(n, _)| !ours.contains(&n.as_str())).cloned().collect()
    };
    assert_eq!(theirs(&before), theirs(&after));
    let vias = |list: &[(String, Vec<u8>)]| list.iter().filter(|(n, _)| n == "via" || n == "v").count();
    assert_eq!(vias(&before) + 1, vias(&after), "one Via more");
}

/// Names in lower case and values of all header lines.
///
/// # Panics
/// If there is no message.
pub fn lines(message: &[u8]) -> Vec<(String, Vec<u8>)> {
    let m = Message::parse(message).expect("a message");
    let line = |h: &sip::header::Header| {
        let line = m.text(h.line());
        let name = line.split(|b| *b == b':').next().unwrap_or_default();
        (String::from_utf8_lossy(name).trim().to_ascii_lowercase(), m.text(h.value()).to_vec())
    };
    m.headers.iter().map(line).collect()
}

/// A worker's judgement without sockets: one access and one core listener, two peers.
pub struct Bench {
    desk: Desk,
    io: MemoryIo,
    now: Duration,
}

/// Access side of a [`Bench`].
pub const ACCESS: &str = "192.0.2.1:5060";
/// Core side of a [`Bench`].
pub const CORE: &str = "198.51.100.1:5060";

impl Default for Bench {
    fn default() -> Self {
        Self::new()
    }
}

impl Bench {
    /// A worker with nothing to do.
    ///
    /// # Panics
    /// Without descriptors.
    pub fn new() -> Self {
        let exchange = Exchange::new(1).expect("an event descriptor");
        let any = |address: &str| Prefix { address: address.parse().expect("an address"), length: 0 };
        exchange.allow.publish(AllowList::new([any("0.0.0.0"), any("::")]));
        exchange.table.publish(table());
        let ports = 20_000..=20_999;
        let engine = Engine::new(Config {
            worker: 0,
            workers: 1,
            seeds: [1, 2, 3, 4],
            token_key: [7; 16],
            rng_seed: 5,
            timers: Timers::default(),
            max_transactions: 10_000,
            media: MediaConfig::new(ports.clone(), media_addresses()),
        });
        let desk = Desk::new(0, engine, Arc::clone(&exchange), PortSlices::new(&ports, 1), None);
        Self { desk, io: MemoryIo::default(), now: Duration::from_secs(1) }
    }

    /// A datagram arrives; what the worker sends because of it.
    pub fn receive(
        &mut self,
        local: SocketAddr,
        remote: SocketAddr,
        datagram: &[u8],
    ) -> Vec<dataplane::backend::memory::Sent> {
        let arrival = Arrival { local, remote, tos: 0, seen_at: 0, checked: false };
        self.desk.begin(self.now, &mut self.io);
        self.desk.process(self.now, &arrival, datagram, &mut self.io);
        let sent = std::mem::take(&mut self.io.sent);
        for request in sent.iter().filter(|s| !s.payload.starts_with(b"SIP/2.0")) {
            // A CANCEL or ACK of the node's own is no copy of what came.
            if request.payload.split(|b| *b == b' ').next()
                == datagram.trim_ascii_start().split(|b| *b == b' ').next()
            {
                forward_property(datagram, &request.payload);
            }
        }
        sent
    }

    /// Time passes; what the worker sends because of it.
    pub fn pass(&mut self, time: Duration) -> Vec<dataplane::backend::memory::Sent> {
        self.now += time;
        self.desk.run_timers(self.now, &mut self.io);
        std::mem::take(&mut self.io.sent)
    }

    /// Everything counted so far: each datagram counts somewhere.
    pub fn counted(&mut self) -> u64 {
        let tally = &self.desk.engine().tally;
        tally.counters.iter().sum::<u64>() + tally.drops.iter().sum::<u64>()
    }

    /// The worker's engine.
    pub fn engine(&mut self) -> &mut Engine {
        self.desk.engine()
    }
}

/// The listeners' own addresses.
fn media_addresses() -> Vec<IpAddr> {
    [ACCESS, CORE].iter().filter_map(|a| a.parse().ok()).map(|a: SocketAddr| a.ip()).collect()
}

fn table() -> Table {
    let listener = |name: &str, address: &str, upstream| {
        let address: SocketAddr = address.parse().expect("an address");
        Listener::new(name.to_owned(), address, vec![address.ip()], upstream)
    };
    let peer = |n: u8| Peer {
        priority: n.into(),
        state: PeerState::Healthy,
        ..Peer::new(format!("p{n}"), ([198, 51, 100, 10 + n], 5060).into())
    };
    let mut table = Table {
        generation: 1,
        listeners: vec![
            listener("access", ACCESS, Upstream::Service(ServiceId(0))),
            listener("core", CORE, Upstream::None),
        ],
        services: vec![Service {
            anchoring: Anchoring::All,
            ..Service::new("voice".to_owned(), ListenerId(1), vec![PeerId(0), PeerId(1)])
        }],
        peers: vec![peer(0), peer(1)],
        ..Table::default()
    };
    table.index();
    table
}
