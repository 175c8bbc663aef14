//! A relayed RTP packet costs no allocation: the whole way from frame to frame, counted by the allocator.

use dataplane::{
    backend::{Figures, Io, Outgoing},
    plan::PortSlices,
    worker::{Arrival, Desk, Verdict},
};
use exchange::{
    Exchange,
    sources::{AllowList, Prefix},
};
use packet::{Headers, ethernet::Mac, frame};
use proxy::{Config, Engine, Timers};
use routing::{Listener, ListenerId, Peer, PeerId, PeerState, Service, ServiceId, Table, Upstream};
use std::{
    alloc::{GlobalAlloc, Layout, System},
    net::{IpAddr, SocketAddr},
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(ptr, layout) }
    }
    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `realloc`.
        unsafe { System.realloc(ptr, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Keeps the last SIP message sent.
#[derive(Default)]
struct Last {
    message: Vec<u8>,
    figures: Figures,
}

impl Io for Last {
    fn send(&mut self, outgoing: &Outgoing<'_>) {
        self.message = outgoing.payload.to_vec();
    }
    fn media_ports(&mut self, _in_use: bool, _address: IpAddr, _ports: media::PortPair) {}
    fn stamp(&mut self, _seen_at: Option<u32>) {}
    fn figures(&mut self) -> &mut Figures {
        &mut self.figures
    }
}

fn at(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn desk() -> Desk {
    let exchange = Exchange::new(1, 1).unwrap();
    exchange.allow.publish(AllowList(vec![Prefix { address: at("0.0.0.0:0").ip(), length: 0 }]));
    let listener = |address, upstream| Listener::new(String::new(), at(address), at(address).ip(), upstream);
    let mut table = Table {
        generation: 1,
        listeners: vec![
            listener("192.0.2.1:5060", Upstream::Service(ServiceId(0))),
            listener("198.51.100.1:5060", Upstream::None),
        ],
        services: vec![Service {
            name: String::new(),
            egress: ListenerId(1),
            peers: vec![PeerId(0)],
            attempt_timeout: Duration::from_secs(2),
            call_budget: Duration::from_secs(16),
            anchor_media: true,
        }],
        peers: vec![Peer {
            name: String::new(),
            address: at("198.51.100.11:5060"),
            region: None,
            zone: None,
            priority: 0,
            weight: 1,
            state: PeerState::Healthy,
        }],
        ..Table::default()
    };
    table.index();
    exchange.table.publish(table);
    let ports = 20_000..=20_999;
    let engine = Engine::new(Config {
        worker: 0,
        workers: 1,
        seeds: [1; 4],
        rng_seed: 1,
        timers: Timers::default(),
        max_transactions: 100,
        media_ports: ports.clone(),
        media_timeout: Duration::from_secs(60),
    });
    Desk::new(0, engine, exchange, PortSlices::new(&ports, 1))
}

#[test]
fn a_relayed_packet_allocates_nothing() {
    let mut desk = desk();
    let mut io = Last::default();
    let now = Duration::from_secs(1);
    let sdp = "v=0\r\nc=IN IP4 192.0.2.10\r\nm=audio 4000 RTP/AVP 8\r\n";
    let invite = format!(
        "INVITE sip:b@x SIP/2.0\r\nVia: SIP/2.0/UDP 192.0.2.10;branch=z9hG4bK1\r\nFrom: <sip:a@x>;tag=1\r\nTo: <sip:b@x>\r\n\
         Call-ID: 1\r\nCSeq: 1 INVITE\r\nContent-Type: application/sdp\r\nContent-Length: {}\r\n\r\n{sdp}",
        sdp.len()
    );
    let arrival =
        |local, remote| Arrival { local: at(local), remote: at(remote), tos: 0, seen_at: 0, checked: true };
    desk.process(now, &arrival("192.0.2.1:5060", "192.0.2.10:5060"), invite.as_bytes(), &mut io);
    let forwarded = String::from_utf8(io.message.clone()).unwrap();
    let port: u16 = forwarded.split("m=audio ").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
    let local = SocketAddr::new(at("198.51.100.1:0").ip(), port);

    // A received frame of 214 bytes: G.711, 20 ms.
    let headers = |source, destination| Headers {
        destination_mac: Mac([2; 6]),
        source_mac: Mac([4; 6]),
        vlan: None,
        source,
        destination,
        tos: 0xb8,
    };
    let rtp = [0x80u8; 172];
    let sum = packet::checksum::Sum::new().add_bytes(&rtp);
    let mut received = vec![0; 42 + rtp.len()];
    received[42..].copy_from_slice(&rtp);
    frame::write(&mut received, &headers(at("198.51.100.11:6000"), local), rtp.len(), sum);
    let mut out = vec![0; received.len()];

    let mut relay_one = || {
        let datagram = frame::parse(&received).unwrap();
        let arrival = Arrival {
            local: datagram.destination,
            remote: datagram.source,
            tos: datagram.tos,
            seen_at: 0,
            checked: true,
        };
        let verdict = desk.process(now, &arrival, &received[datagram.payload.clone()], &mut io);
        let Verdict::Relay(relay) = verdict else { panic!("not relayed") };
        out[42..].copy_from_slice(&received[datagram.payload.clone()]);
        frame::write(&mut out, &headers(relay.from, relay.to), datagram.payload.len(), datagram.payload_sum);
        io.figures.latency.saturating_record(1234);
    };
    relay_one();
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    for _ in 0..10_000 {
        relay_one();
    }
    assert_eq!(ALLOCATIONS.load(Ordering::Relaxed) - before, 0);
    let relayed = frame::parse(&out).unwrap();
    assert_eq!(relayed.destination, at("192.0.2.10:4000"));
}
