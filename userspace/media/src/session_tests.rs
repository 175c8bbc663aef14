use super::*;

const ACCESS: &str = "192.0.2.1";
const CORE: &str = "198.51.100.1";

fn ip(s: &str) -> IpAddr {
    s.parse().unwrap()
}
fn at(s: &str) -> SocketAddr {
    s.parse().unwrap()
}

fn open() -> (Sessions, SessionId, u16, u16) {
    let mut sessions = Sessions::new(20_001..=20_100);
    let id = sessions.open(Time::ZERO, ip(ACCESS), ip(CORE)).unwrap();
    sessions.set_target(id, Side::Caller, Some(Target::new(at("192.0.2.50:4000"), None)));
    let caller = sessions.local(id, Side::Caller).unwrap().1.rtp();
    let callee = sessions.local(id, Side::Callee).unwrap().1.rtp();
    (sessions, id, caller, callee)
}

#[test]
fn relays_both_ways_to_signalled_then_learned_addresses() {
    let (mut s, id, caller, callee) = open();
    assert_eq!((caller % 2, callee % 2), (0, 0));
    // The callee speaks first: early media goes to the address in the offer.
    let early = s.relay(Time::ZERO, callee, at("198.51.100.11:6000")).unwrap();
    assert_eq!(early, Relay { from: SocketAddr::new(ip(ACCESS), caller), to: at("192.0.2.50:4000") });
    // The caller's NAT shows another port: from now on packets go there.
    let up = s.relay(Time::ZERO, caller, at("192.0.2.50:41234")).unwrap();
    assert_eq!(up, Relay { from: SocketAddr::new(ip(CORE), callee), to: at("198.51.100.11:6000") });
    assert_eq!(s.relay(Time::ZERO, callee, at("198.51.100.11:6000")).unwrap().to, at("192.0.2.50:41234"));
    assert_eq!(s.received(id, Side::Callee).unwrap().packets, 2);
}

#[test]
fn rtcp_takes_the_next_port() {
    let (mut s, _, caller, callee) = open();
    let relay = s.relay(Time::ZERO, callee + 1, at("198.51.100.11:6001")).unwrap();
    assert_eq!(relay, Relay { from: SocketAddr::new(ip(ACCESS), caller + 1), to: at("192.0.2.50:4001") });
    assert_eq!(Target::new(at("192.0.2.1:10"), Some(99)).rtcp, at("192.0.2.1:99"));
}

#[test]
fn a_later_source_cannot_steal_the_stream_but_signalling_can_move_it() {
    let (mut s, id, caller, _) = open();
    s.set_target(id, Side::Callee, Some(Target::new(at("198.51.100.11:6000"), None)));
    assert!(s.relay(Time::ZERO, caller, at("192.0.2.50:4000")).is_ok());
    assert_eq!(s.relay(Time::ZERO, caller, at("203.0.113.66:4000")), Err(Refusal::WrongSource));
    assert_eq!(s.received(id, Side::Caller).unwrap(), Received { packets: 1, refused: 1 });
    s.set_target(id, Side::Caller, Some(Target::new(at("192.0.2.60:5000"), None)));
    assert!(s.relay(Time::ZERO, caller, at("192.0.2.60:5000")).is_ok());
}

#[test]
fn refusals() {
    let (mut s, _, caller, _) = open();
    assert_eq!(s.relay(Time::ZERO, caller, at("192.0.2.50:4000")), Err(Refusal::NoDestination));
    for port in [0, 19_999, 20_000, 20_090, 20_101, 65_535] {
        assert_eq!(s.relay(Time::ZERO, port, at("192.0.2.50:4000")), Err(Refusal::NoSession), "{port}");
    }
}

#[test]
fn ports_run_out_come_back_and_rest_before_reuse() {
    let mut s = Sessions::new(20_000..=20_007);
    let first = s.open(Time::ZERO, ip(ACCESS), ip(CORE)).unwrap();
    let second = s.open(Time::ZERO, ip(ACCESS), ip(CORE)).unwrap();
    assert_eq!(s.open(Time::ZERO, ip(ACCESS), ip(CORE)), None);
    let first_port = s.local(first, Side::Caller).unwrap().1.rtp();
    s.close(second);
    s.close(second);
    s.close(first);
    assert_eq!(s.len(), 0);
    let third = s.open(Time::ZERO, ip(ACCESS), ip(CORE)).unwrap();
    assert_ne!(s.local(third, Side::Caller).unwrap().1.rtp(), first_port);
    for _ in 0..1000 {
        let id = s.open(Time::ZERO, ip(ACCESS), ip(CORE)).unwrap();
        s.close(id);
    }
    assert_eq!(s.len(), 1);
    assert_eq!(Sessions::new(5..=5).open(Time::ZERO, ip(ACCESS), ip(CORE)), None);
}
