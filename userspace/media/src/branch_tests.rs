use super::*;
use crate::{relay::Settings, sdp::scan};
use alloc::{format, vec, vec::Vec};
use core::{net::SocketAddr, time::Duration};

const LOCAL: [&[IpAddr]; 2] = [&[IpAddr::V4(core::net::Ipv4Addr::new(192, 0, 2, 1))], &[CORE]];
const CORE: IpAddr = IpAddr::V4(core::net::Ipv4Addr::new(198, 51, 100, 1));
const RTP: [u8; 12] = [0x80, 8, 0, 1, 0, 0, 0, 160, 0, 0, 0, 1];

/// A dialog, and how many streams were opened and closed.
struct World {
    streams: Streams,
    branch: Branch,
    opened: usize,
    closed: usize,
    version: u32,
}

impl World {
    fn new(ports: u16) -> Self {
        let settings = Settings {
            ports: 20_000..=20_000 + ports - 1,
            addresses: vec![LOCAL[0][0], CORE],
            rest: Duration::ZERO,
            learning: Duration::ZERO,
            strict: false,
            seed: 1,
            on_memory: |_, _| {},
        };
        Self { streams: Streams::new(&settings), branch: Branch::default(), opened: 0, closed: 0, version: 0 }
    }

    /// A description with these media lines, from 192.0.2.50 or 198.51.100.11.
    fn say(&mut self, sender: Side, role: Role, media: &str) -> Result<Vec<Shown>, NoPort> {
        let host = if sender == Side::Caller { "192.0.2.50" } else { "198.51.100.11" };
        self.version += 1;
        let body = format!("v=0\no=- 1 {} IN IP4 x\nc=IN IP4 {host}\n{media}", self.version);
        let sdp = scan(body.as_bytes()).unwrap();
        let description = Description { sdp: &sdp, role, sender, host: host.parse().unwrap() };
        let (opened, closed) = (&mut self.opened, &mut self.closed);
        let mut count = |_: &Streams, event| match event {
            StreamEvent::Opened(_) => *opened += 1,
            StreamEvent::Closing(_) => *closed += 1,
        };
        let shown = self.branch.describe(Time::ZERO, &description, LOCAL, &mut self.streams, &mut count)?;
        Ok(shown.into_iter().collect())
    }

    fn refuse(&mut self, by: Side) {
        self.branch.refuse_offer(Time::ZERO, by, &mut self.streams, &mut |_, _| {});
    }

    /// Where what the callee sends to the first stream goes.
    fn heard_by_caller(&mut self) -> Option<SocketAddr> {
        let (_, id) = self.branch.streams().next()?;
        let (ip, ports) = self.streams.local(id, Side::Callee)?;
        let local = SocketAddr::new(ip, ports.rtp());
        let source = "198.51.100.11:6000".parse().unwrap();
        self.streams.relay(Time::ZERO, local, source, &RTP).ok().map(|(relay, _)| relay.to)
    }
}

fn at(text: &str) -> Option<SocketAddr> {
    Some(text.parse().unwrap())
}

const AUDIO: &str = "m=audio 4000 RTP/AVP 8\n";
const ANSWER: &str = "m=audio 6000 RTP/AVP 8\n";

#[test]
fn the_first_offer_counts_at_once_and_later_ones_when_they_are_answered() {
    let mut w = World::new(20);
    w.say(Side::Caller, Role::Offer, AUDIO).unwrap();
    assert_eq!(w.heard_by_caller(), at("192.0.2.50:4000"), "early media");
    w.say(Side::Callee, Role::Answer, ANSWER).unwrap();
    w.say(Side::Callee, Role::Answer, ANSWER).unwrap();
    w.say(Side::Caller, Role::Offer, "m=audio 5000 RTP/AVP 8\n").unwrap();
    assert_eq!(w.heard_by_caller(), at("192.0.2.50:4000"));
    w.refuse(Side::Caller);
    assert_eq!(w.heard_by_caller(), at("192.0.2.50:4000"), "the offer was refused");
    w.say(Side::Caller, Role::Offer, "m=audio 5000 RTP/AVP 8\n").unwrap();
    w.say(Side::Callee, Role::Answer, ANSWER).unwrap();
    assert_eq!(w.heard_by_caller(), at("192.0.2.50:5000"));
    assert_eq!((w.opened, w.closed), (1, 0));
}

#[test]
fn a_late_offer_is_answered_by_the_ack() {
    let mut w = World::new(20);
    w.say(Side::Callee, Role::FirmOffer, ANSWER).unwrap();
    assert!(w.branch.has_offer_of(Side::Callee));
    w.say(Side::Caller, Role::Answer, AUDIO).unwrap();
    assert_eq!((w.heard_by_caller(), w.branch.has_offer_of(Side::Callee)), (at("192.0.2.50:4000"), false));
}

#[test]
fn two_offers_at_one_time_are_told_apart() {
    let mut w = World::new(20);
    w.say(Side::Caller, Role::Offer, AUDIO).unwrap();
    w.say(Side::Callee, Role::Answer, ANSWER).unwrap();
    w.say(Side::Caller, Role::Offer, "m=audio 5000 RTP/AVP 8\n").unwrap();
    w.say(Side::Callee, Role::Offer, "m=audio 6666 RTP/AVP 8\n").unwrap();
    w.refuse(Side::Callee);
    w.say(Side::Callee, Role::Answer, ANSWER).unwrap();
    assert_eq!(w.heard_by_caller(), at("192.0.2.50:5000"));
}

#[test]
fn an_answer_to_an_offer_that_was_left_alone_is_left_alone() {
    let mut w = World::new(20);
    assert_eq!(w.say(Side::Callee, Role::Answer, ANSWER).unwrap(), [Shown::Untouched]);
    assert_eq!(w.streams.len(), 0);
}

#[test]
fn declined_and_removed_streams_give_their_ports_back() {
    let mut w = World::new(20);
    let shown = w.say(Side::Caller, Role::Offer, &format!("{AUDIO}m=video 4002 RTP/AVP 31\n")).unwrap();
    assert!(shown.iter().all(|s| matches!(s, Shown::At { .. })));
    let shown = w.say(Side::Callee, Role::Answer, &format!("{ANSWER}m=video 0 RTP/AVP 31\n")).unwrap();
    assert_eq!((shown[1], w.opened, w.closed, w.streams.len()), (Shown::Untouched, 2, 1, 1));
    // Added again, refused: gone again. Added again, taken.
    w.say(Side::Caller, Role::Offer, &format!("{AUDIO}m=video 4002 RTP/AVP 31\n")).unwrap();
    w.refuse(Side::Caller);
    assert_eq!(w.streams.len(), 1);
    w.say(Side::Caller, Role::Offer, &format!("{AUDIO}m=video 4002 RTP/AVP 31\n")).unwrap();
    w.say(Side::Callee, Role::Answer, &format!("{ANSWER}m=video 6002 RTP/AVP 31\n")).unwrap();
    assert_eq!(w.streams.len(), 2);
    // Removed: only when that is agreed.
    w.say(Side::Callee, Role::Offer, "m=audio 0 RTP/AVP 8\nm=video 6002 RTP/AVP 31\n").unwrap();
    assert_eq!(w.streams.len(), 2);
    w.say(Side::Caller, Role::Answer, "m=audio 0 RTP/AVP 8\nm=video 4002 RTP/AVP 31\n").unwrap();
    assert_eq!(w.streams.len(), 1);
    let (opened, closed) = (&mut w.opened, &mut w.closed);
    w.branch.close(Time::ZERO, &mut w.streams, &mut |_, _| *closed += 1);
    assert_eq!((w.streams.len(), *opened), (0, 4));
}

#[test]
fn audio_and_fax_offered_for_one_port_share_it_whichever_is_taken() {
    let both = "m=audio 4000 RTP/AVP 8\nm=image 4000 udptl t38\n";
    for (answer, taken) in [
        ("m=audio 0 RTP/AVP 8\nm=image 6000 udptl t38\n", 1),
        ("m=audio 6000 RTP/AVP 8\nm=image 0 udptl t38\n", 0),
    ] {
        let mut w = World::new(20);
        let offered = w.say(Side::Caller, Role::Offer, both).unwrap();
        assert_eq!((offered[0], w.opened), (offered[1], 1));
        let shown = w.say(Side::Callee, Role::Answer, answer).unwrap();
        assert!(matches!(shown[taken], Shown::At { .. }));
        assert_eq!((w.opened, w.closed, w.streams.len()), (1, 0, 1));
        let (_, id) = w.branch.streams().next().unwrap();
        let (ip, ports) = w.streams.local(id, Side::Callee).unwrap();
        let local = SocketAddr::new(ip, ports.rtp());
        let fax = w.streams.relay(Time::ZERO, local, at("198.51.100.11:6000").unwrap(), b"fax");
        assert_eq!(fax.is_ok(), taken == 1, "{answer}");
    }
}

#[test]
fn a_bundled_answer_runs_over_the_ports_of_the_first_stream() {
    let mut w = World::new(20);
    w.say(Side::Caller, Role::Offer, &format!("{AUDIO}m=video 4002 RTP/AVP 31\n")).unwrap();
    let shown = w.say(Side::Callee, Role::Answer, &format!("{ANSWER}m=video 6000 RTP/AVP 31\n")).unwrap();
    assert_eq!((shown[0], w.streams.len()), (shown[1], 1));
    // From now on both sides name one port.
    let shown = w.say(Side::Callee, Role::Offer, &format!("{ANSWER}m=video 6000 RTP/AVP 31\n")).unwrap();
    assert_eq!((shown[0], w.streams.len()), (shown[1], 1));
    let shown = w.say(Side::Caller, Role::Answer, &format!("{AUDIO}m=video 4000 RTP/AVP 31\n")).unwrap();
    assert_eq!((shown[0], w.streams.len()), (shown[1], 1));
}

#[test]
fn hold_is_known_by_its_directions() {
    let mut w = World::new(20);
    w.say(Side::Caller, Role::Offer, AUDIO).unwrap();
    w.say(Side::Callee, Role::Answer, ANSWER).unwrap();
    assert!(!w.branch.is_held());
    w.say(Side::Caller, Role::Offer, &format!("{AUDIO}a=sendonly\n")).unwrap();
    assert!(!w.branch.is_held(), "not answered yet");
    w.say(Side::Callee, Role::Answer, &format!("{ANSWER}a=recvonly\n")).unwrap();
    assert!(w.branch.is_held());
    w.say(Side::Caller, Role::Offer, AUDIO).unwrap();
    w.say(Side::Callee, Role::Answer, ANSWER).unwrap();
    assert!(!w.branch.is_held());
}

#[test]
fn without_ports_an_offer_fails_whole_and_one_that_cannot_fail_is_declined() {
    let mut w = World::new(2);
    let two = format!("{AUDIO}m=video 4002 RTP/AVP 31\n");
    assert_eq!(w.say(Side::Caller, Role::Offer, &two), Err(NoPort::AllInUse));
    assert_eq!((w.streams.len(), w.streams.ports().0), (0, 0), "the first stream is given back, too");
    let shown = w.say(Side::Caller, Role::FirmOffer, &two).unwrap();
    assert!(matches!(shown[..], [Shown::At { .. }, Shown::Declined]));
}
