use super::*;

const ACCESS: &str = "192.0.2.1";
const CORE: &str = "198.51.100.1";
const MS: fn(u64) -> Time = Duration::from_millis;

fn ip(s: &str) -> IpAddr {
    s.parse().unwrap()
}
fn at(s: &str) -> SocketAddr {
    s.parse().unwrap()
}

fn settings() -> Settings {
    Settings {
        ports: 20_001..=20_100,
        addresses: vec![ip(ACCESS), ip(CORE), ip("2001:db8::1")],
        rest: Duration::from_secs(5),
        learning: MS(250),
        strict: false,
        seed: 1,
        on_memory: |_, _| {},
    }
}

const RTP: [u8; 20] = [0x80, 8, 0, 1, 0, 0, 0, 160, 0, 0, 0, 1, 1, 2, 3, 4, 5, 6, 7, 8];

struct Call {
    s: Streams,
    id: StreamId,
    caller: SocketAddr,
    callee: SocketAddr,
}

impl Call {
    fn with(settings: &Settings) -> Self {
        let mut s = Streams::new(settings);
        let id = s.open(Time::ZERO, ip(ACCESS), ip(CORE)).unwrap();
        let local = |side| {
            let (ip, ports) = s.local(id, side).unwrap();
            SocketAddr::new(ip, ports.rtp())
        };
        let (caller, callee) = (local(Side::Caller), local(Side::Callee));
        Self { s, id, caller, callee }
    }

    fn new() -> Self {
        let mut call = Self::with(&settings());
        call.place(Side::Caller, "192.0.2.50:4000");
        call
    }

    fn place(&mut self, side: Side, address: &str) {
        self.s.set_place(self.id, side, Place::At(Target::new(at(address), None)), false);
    }

    /// Sends to a side at a time; where it goes.
    fn send(&mut self, ms: u64, side: Side, source: &str) -> Result<SocketAddr, Refusal> {
        let local = if side == Side::Caller { self.caller } else { self.callee };
        self.s.relay(MS(ms), local, at(source), &RTP).map(|(relay, _)| relay.to)
    }
}

#[test]
fn relays_both_ways_to_signalled_then_learned_addresses() {
    let mut c = Call::new();
    assert_eq!((c.caller.port() % 2, c.callee.port() % 2), (0, 0));
    // The callee speaks first: early media goes to the address in the offer.
    let early = c.s.relay(Time::ZERO, c.callee, at("198.51.100.11:6000"), &RTP).unwrap();
    assert_eq!(early, (Relay { from: c.caller, to: at("192.0.2.50:4000") }, Class::Rtp));
    // The caller's NAT shows another port: from now on packets go there.
    let up = c.s.relay(Time::ZERO, c.caller, at("192.0.2.50:41234"), &RTP).unwrap().0;
    assert_eq!(up, Relay { from: c.callee, to: at("198.51.100.11:6000") });
    assert_eq!(c.send(1, Side::Callee, "198.51.100.11:6000"), Ok(at("192.0.2.50:41234")));
    let report = c.s.report(c.id, Side::Callee).unwrap();
    assert_eq!((report.received.packets, report.received.bytes), (2, 40));
    assert_eq!((report.learned, report.last), (Some(at("198.51.100.11:6000")), MS(1)));
    assert_eq!(c.s.last_packet(c.id), Some(MS(1)));
}

#[test]
fn rtcp_takes_the_next_port() {
    let mut c = Call::new();
    let rtcp = [0x80, 200, 0, 1, 0, 0, 0, 1];
    let local = SocketAddr::new(c.callee.ip(), c.callee.port() + 1);
    let (relay, class) = c.s.relay(Time::ZERO, local, at("198.51.100.11:6001"), &rtcp).unwrap();
    let from = SocketAddr::new(c.caller.ip(), c.caller.port() + 1);
    assert_eq!((relay, class), (Relay { from, to: at("192.0.2.50:4001") }, Class::Rtcp));
    assert_eq!(Target::new(at("192.0.2.1:10"), Some(99)).rtcp, at("192.0.2.1:99"));
}

#[test]
fn a_better_source_takes_over_within_the_window_and_none_after_it() {
    let mut c = Call::new();
    c.place(Side::Callee, "198.51.100.11:6000");
    c.s.set_host(c.id, Side::Caller, ip("203.0.113.5"));
    // Known fault B68: somebody sprays while the source is learned.
    assert!(c.send(0, Side::Caller, "203.0.113.66:9999").is_ok());
    assert!(c.send(10, Side::Caller, "203.0.113.5:1024").is_ok(), "where the signalling comes from");
    assert_eq!(c.send(20, Side::Caller, "203.0.113.66:9999"), Err(Refusal::WrongSource));
    assert!(c.send(30, Side::Caller, "192.0.2.50:5000").is_ok(), "the address of the SDP");
    assert!(c.send(40, Side::Caller, "192.0.2.50:4000").is_ok(), "and its port");
    assert_eq!(c.send(50, Side::Caller, "192.0.2.50:5000"), Err(Refusal::WrongSource));

    let mut late = Call::new();
    late.place(Side::Callee, "198.51.100.11:6000");
    assert!(late.send(0, Side::Caller, "203.0.113.66:9999").is_ok());
    assert_eq!(late.send(251, Side::Caller, "192.0.2.50:4000"), Err(Refusal::WrongSource));
    assert_eq!(late.s.report(late.id, Side::Caller).unwrap().received.refused, 1);
}

#[test]
fn strict_takes_the_signalled_address_and_no_other() {
    let mut c = Call::with(&Settings { strict: true, ..settings() });
    c.place(Side::Callee, "198.51.100.11:6000");
    assert_eq!(c.send(0, Side::Caller, "192.0.2.50:4000"), Err(Refusal::WrongSource), "none signalled yet");
    c.place(Side::Caller, "192.0.2.50:4000");
    assert_eq!(c.send(1, Side::Caller, "192.0.2.50:4002"), Err(Refusal::WrongSource));
    assert!(c.send(2, Side::Caller, "192.0.2.50:4000").is_ok());
    c.place(Side::Caller, "192.0.2.50:5000");
    assert_eq!(c.send(3, Side::Caller, "192.0.2.50:4000"), Err(Refusal::WrongSource));
    assert!(c.send(4, Side::Caller, "192.0.2.50:5000").is_ok());
}

#[test]
fn signalling_moves_a_stream_and_the_old_source_cannot_hold_it() {
    let mut c = Call::new();
    c.place(Side::Callee, "198.51.100.11:6000");
    assert!(c.send(0, Side::Caller, "192.0.2.50:4000").is_ok());
    c.place(Side::Caller, "192.0.2.60:5000");
    assert_eq!(c.send(1000, Side::Callee, "198.51.100.11:6000"), Ok(at("192.0.2.60:5000")));
    // Packets still under way from the old address.
    assert!(c.send(1010, Side::Caller, "192.0.2.50:4000").is_ok());
    assert_eq!(c.send(1020, Side::Callee, "198.51.100.11:6000"), Ok(at("192.0.2.60:5000")));
    assert!(c.send(1030, Side::Caller, "192.0.2.60:5000").is_ok());
    assert_eq!(c.send(1040, Side::Caller, "192.0.2.50:4000"), Err(Refusal::WrongSource));
}

#[test]
fn a_new_description_lets_the_known_host_change_its_port_once() {
    let mut c = Call::new();
    c.place(Side::Callee, "198.51.100.11:6000");
    assert!(c.send(0, Side::Caller, "192.0.2.50:41000").is_ok());
    assert_eq!(c.send(1000, Side::Caller, "192.0.2.50:42000"), Err(Refusal::WrongSource));
    let same = Place::At(Target::new(at("192.0.2.50:4000"), None));
    c.s.set_place(c.id, Side::Caller, same, true);
    assert_eq!(c.send(2000, Side::Caller, "203.0.113.66:42000"), Err(Refusal::WrongSource));
    assert!(c.send(2010, Side::Caller, "192.0.2.50:42000").is_ok());
    assert_eq!(c.send(2020, Side::Callee, "198.51.100.11:6000"), Ok(at("192.0.2.50:42000")));
    assert_eq!(c.send(3000, Side::Caller, "192.0.2.50:43000"), Err(Refusal::WrongSource));
}

#[test]
fn on_hold_nothing_is_sent_and_afterwards_it_goes_where_it_went() {
    let mut c = Call::new();
    c.place(Side::Callee, "198.51.100.11:6000");
    assert!(c.send(0, Side::Caller, "192.0.2.50:41000").is_ok());
    c.s.set_place(c.id, Side::Caller, Place::Held, true);
    assert_eq!(c.send(10, Side::Callee, "198.51.100.11:6000"), Err(Refusal::NoDestination));
    assert_eq!(c.send(20, Side::Caller, "192.0.2.50:41000"), Ok(at("198.51.100.11:6000")), "its music");
    assert_eq!(c.send(30, Side::Callee, "198.51.100.11:6000"), Err(Refusal::NoDestination));
    c.place(Side::Caller, "192.0.2.50:4000");
    assert_eq!(c.send(40, Side::Callee, "198.51.100.11:6000"), Ok(at("192.0.2.50:41000")));
}

#[test]
fn an_address_that_cannot_be_reached_is_none() {
    let mut c = Call::new();
    let own = c.callee;
    for bad in [own, at("[2001:db8::5]:4000")] {
        c.s.set_place(c.id, Side::Callee, Place::At(Target::new(bad, None)), false);
        assert_eq!(c.send(0, Side::Caller, "192.0.2.50:4000"), Err(Refusal::NoDestination), "{bad}");
    }
    c.s.set_place(c.id, Side::Callee, Place::Unknown, false);
    assert!(c.send(1, Side::Callee, "198.51.100.11:6000").is_ok());
    assert_eq!(c.send(2, Side::Caller, "192.0.2.50:4000"), Ok(at("198.51.100.11:6000")));
}

#[test]
fn refusals_teach_nothing() {
    let mut c = Call::new();
    c.place(Side::Callee, "198.51.100.11:6000");
    let mut send = |packet: &[u8]| c.s.relay(Time::ZERO, c.caller, at("203.0.113.66:1"), packet).map(|_| ());
    assert_eq!(send(&RTP[..11]), Err(Refusal::Malformed));
    assert_eq!(send(&[0x40; 3]), Err(Refusal::Malformed));
    assert_eq!(send(b"random"), Err(Refusal::Malformed));
    assert!(c.send(0, Side::Caller, "192.0.2.50:4000").is_ok());
    let empty = c.s.relay(MS(9), c.caller, at("192.0.2.50:4000"), &[]).map(|_| ());
    assert_eq!((empty, c.s.last_packet(c.id)), (Err(Refusal::KeepAlive), Some(MS(9))));
    for address in ["192.0.2.1:0", "192.0.2.1:20000", "192.0.2.1:20001", "192.0.2.1:20101", "192.0.2.2:20010"]
    {
        let refused = c.s.relay(Time::ZERO, at(address), at("192.0.2.50:4000"), &RTP);
        assert_eq!(refused.unwrap_err(), Refusal::NoSession, "{address}");
    }
    c.s.set_opaque(c.id, true);
    assert!(c.s.relay(Time::ZERO, c.caller, at("192.0.2.50:4000"), b"fax").is_ok());
}

#[test]
fn ports_run_out_on_either_side_and_nothing_leaks() {
    let mut s = Streams::new(&settings());
    let all: Vec<_> = (0..49).map(|_| s.open(Time::ZERO, ip(ACCESS), ip(CORE)).unwrap()).collect();
    assert_eq!(s.open(Time::ZERO, ip(ACCESS), ip(CORE)), Err(NoPort::AllInUse));
    assert_eq!(s.open(Time::ZERO, ip("2001:db8::1"), ip(CORE)), Err(NoPort::AllInUse));
    assert_eq!(s.open(Time::ZERO, ip(ACCESS), ip("192.0.2.200")), Err(NoPort::AllInUse));
    assert_eq!(s.open(Time::ZERO, ip("192.0.2.200"), ip(CORE)), Err(NoPort::NoAddress));
    assert_eq!((s.len(), s.ports()), (49, (98, 0, 147)));
    for id in &all {
        s.close(MS(1000), *id);
        s.close(MS(1000), *id);
    }
    assert_eq!((s.len(), s.ports()), (0, (0, 98, 147)));
    assert_eq!(s.open(MS(5999), ip(ACCESS), ip(CORE)), Err(NoPort::Resting));
    assert!(s.open(MS(6000), ip(ACCESS), ip(CORE)).is_ok());
}

#[test]
fn a_hundred_thousand_set_ups_leave_every_port_free_and_no_packet_goes_astray() {
    let mut s = Streams::new(&Settings { rest: Duration::ZERO, ..settings() });
    let mut open = alloc::collections::VecDeque::new();
    for n in 0..100_000u64 {
        let now = MS(n);
        let id = s.open(now, ip(ACCESS), ip(CORE)).unwrap();
        let address = SocketAddr::new(ip("198.51.100.77"), 1024 + (n % 60_000) as u16);
        s.set_place(id, Side::Callee, Place::At(Target::new(address, None)), true);
        let (local, ports) = s.local(id, Side::Caller).unwrap();
        open.push_back((id, SocketAddr::new(local, ports.rtp()), address));
        if n % 100 == 0 {
            for (_, local, address) in &open {
                assert_eq!(s.relay(now, *local, at("192.0.2.50:4000"), &RTP).unwrap().0.to, *address);
            }
        }
        if open.len() > 40 {
            let (id, ..) = open.pop_front().unwrap();
            s.close(now, id);
        }
    }
    for (id, ..) in open {
        s.close(MS(100_000), id);
    }
    let (in_use, _, all) = s.ports();
    assert_eq!((s.len(), in_use, all), (0, 0, 147));
}

#[test]
fn a_hundred_thousand_streams_at_one_time_in_little_memory() {
    const { assert!(STREAM_BYTES <= 640) };
    let host = |n: u8| IpAddr::from([198, 18, 0, n]);
    let mut s = Streams::new(&Settings {
        ports: 1024..=65_535,
        addresses: (1..=8).map(host).collect(),
        ..settings()
    });
    for n in 0..100_000u32 {
        let side = |first: u8| s.roomiest((first..first + 4).map(host)).unwrap();
        let (caller, callee) = (side(1), side(5));
        s.open(Time::ZERO, caller, callee).unwrap_or_else(|why| panic!("{n}: {why:?}"));
    }
    assert_eq!(s.len(), 100_000);
}
