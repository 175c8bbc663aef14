//! What must hold for every session description and every packet on a media port.

use media::{
    Side, Streams,
    branch::{Branch, Description, Role},
    demux::classify,
    sdp::{self, Connection, Sdp, Shown, Sink, part},
};
use std::{
    fmt::{self, Write as _},
    net::IpAddr,
    ops::Range,
    time::Duration,
};

/// Changes in ascending order, applied at once.
struct Changed<'a> {
    body: &'a [u8],
    out: Vec<u8>,
    copied: usize,
}

impl Sink for Changed<'_> {
    fn replace(&mut self, range: Range<usize>, text: fmt::Arguments<'_>) {
        assert!(range.start >= self.copied && range.end <= self.body.len(), "{range:?} is out of order");
        self.out.extend_from_slice(&self.body[self.copied..range.start]);
        let mut written = String::new();
        write!(written, "{text}").expect("text");
        self.out.extend_from_slice(written.as_bytes());
        self.copied = range.end;
    }
}

/// Lines that anchoring does not own, as they stand.
fn foreign(body: &[u8]) -> Vec<&[u8]> {
    let owned = |line: &&[u8]| {
        [
            &b"m="[..],
            b"c=",
            b"a=rtcp:",
            b"a=candidate",
            b"a=remote-candidates",
            b"a=end-of-candidates",
            b"a=ice-",
        ]
        .iter()
        .any(|start| line.starts_with(start))
    };
    // What follows the last line end is a line only if it holds something.
    let lines = body.split_inclusive(|b| *b == b'\n');
    lines.filter(|line| !owned(line)).map(|line| line.strip_suffix(b"\n").unwrap_or(line)).collect()
}

/// What an m-line says besides its port.
fn beside_port(line: &[u8]) -> Vec<&[u8]> {
    let digits = |part: &[u8]| part.iter().take_while(|b| b.is_ascii_digit()).count();
    let parts = line.split(|b| *b == b' ').enumerate();
    parts.map(|(i, part)| if i == 1 { &part[digits(part)..] } else { part }).collect()
}

fn media_lines(body: &[u8]) -> Vec<Vec<&[u8]>> {
    let lines = body.split(|b| *b == b'\n').map(|l| l.strip_suffix(b"\r").unwrap_or(l));
    lines.filter(|l| l.starts_with(b"m=")).map(beside_port).collect()
}

/// Any body is read or refused. One that is read can be shown with other addresses: it then says these, and
/// everything else as before, byte for byte.
///
/// # Panics
/// If not.
pub fn sdp_property(body: &[u8]) {
    for kind in [&b"multipart/mixed;boundary=b"[..], b"application/sdp"] {
        if let Some(found) = part::find(kind, body) {
            assert!(found.range.end <= body.len() && found.range.start <= found.range.end);
        }
    }
    let Ok(described) = sdp::scan(body) else { return };
    for (family, ip) in ["198.51.100.1", "2001:db8::1"].iter().enumerate() {
        let ip: IpAddr = ip.parse().expect("an address");
        shown_at(body, &described, ip, family as u16);
    }
    offered(&described);
}

fn shown_at(body: &[u8], described: &Sdp, ip: IpAddr, family: u16) {
    let mut streams = Streams::new(&settings(ip));
    let mut expected = Vec::new();
    let mut show = |stream: &sdp::Stream| {
        if !stream.is_relayed() {
            return Shown::Untouched;
        }
        let id = streams.open(Duration::ZERO, ip, ip).expect("a port");
        let (ip, ports) = streams.local(id, Side::Caller).expect("a stream");
        expected.push(ports.rtp());
        Shown::At { ip, ports }
    };
    let shown: Vec<Shown> = described.streams.iter().map(&mut show).collect();
    let mut changed = Changed { body, out: Vec::new(), copied: 0 };
    sdp::rewrite(body, described, &shown, &mut changed);
    let Changed { mut out, copied, .. } = changed;
    out.extend_from_slice(&body[copied..]);
    if expected.is_empty() {
        assert_eq!(out, body, "nothing to show, nothing to change");
        return;
    }
    // A last line without an end gets one where another one follows now.
    let whole = body.ends_with(b"\n");
    let text = |line: &'_ [u8]| line.strip_suffix(b"\r").filter(|_| !whole).unwrap_or(line).to_vec();
    let kept = |body: &[u8]| foreign(body).into_iter().map(text).collect::<Vec<_>>();
    assert_eq!(kept(&out), kept(body), "foreign lines, family {family}");
    assert_eq!(media_lines(&out), media_lines(body), "m-lines besides their ports");
    let again = sdp::scan(&out).expect("what was changed can be read");
    assert!(!again.ice, "ICE is gone");
    let mut ports = expected.into_iter();
    for (before, after) in described.streams.iter().zip(&again.streams) {
        assert_eq!((before.udp, before.rtp, before.flows), (after.udp, after.rtp, after.flows));
        if !before.is_relayed() {
            assert_eq!((before.port, before.address()), (after.port, after.address()), "not ours to change");
            continue;
        }
        assert_eq!(Some(after.port), ports.next());
        match before.connection {
            Connection::Unspecified => {
                assert_eq!(after.connection, Connection::Unspecified, "hold stays hold")
            }
            _ => assert_eq!(after.connection, Connection::At(ip)),
        }
    }
}

fn settings(ip: IpAddr) -> media::relay::Settings {
    proxy::MediaConfig::new(20_000..=20_099, vec![ip]).settings
}

/// Offered, answered in kind, offered again by the other side and refused, closed: no port is left.
fn offered(described: &Sdp) {
    let ip: IpAddr = "198.51.100.1".parse().expect("an address");
    let mut streams = Streams::new(&settings(ip));
    let mut branch = Branch::default();
    let (now, local) = (Duration::from_secs(1), [&[ip][..], &[ip][..]]);
    let none = &mut |_: &Streams, _| {};
    let turns = [
        (Role::Offer, Side::Caller),
        (Role::Answer, Side::Callee),
        (Role::Offer, Side::Callee),
        (Role::Answer, Side::Callee),
        (Role::FirmOffer, Side::Caller),
    ];
    for (role, sender) in turns {
        let description = Description { sdp: described, role, sender, host: ip };
        let shown = branch.describe(now, &description, local, &mut streams, none).expect("ports enough");
        assert_eq!(shown.len(), described.streams.len());
    }
    branch.refuse_offer(now, Side::Caller, &mut streams, none);
    branch.close(now, &mut streams, none);
    assert_eq!((streams.len(), streams.ports().0), (0, 0), "a port is left");
}

/// Any packet on a media port is told apart or refused, and one that is relayed is counted.
///
/// # Panics
/// If not.
pub fn packet_property(packet: &[u8]) {
    let class = classify(packet);
    let ip: IpAddr = "198.51.100.1".parse().expect("an address");
    let mut streams = Streams::new(&settings(ip));
    let id = streams.open(Duration::ZERO, ip, ip).expect("a port");
    let (ip, ports) = streams.local(id, Side::Caller).expect("a stream");
    let target = media::relay::Target::new(([192, 0, 2, 7], 4000).into(), None);
    streams.set_place(id, Side::Callee, media::relay::Place::At(target), false);
    for _ in 0..3 {
        let source = ([192, 0, 2, 9], 4000).into();
        let relayed = streams.relay(Duration::from_secs(1), (ip, ports.rtp()).into(), source, packet);
        assert_eq!(relayed.is_ok(), class.is_some(), "{relayed:?} {class:?}");
    }
    let received = streams.report(id, Side::Caller).expect("a stream").received;
    assert_eq!(received.packets, if class.is_some() { 3 } else { 0 });
    assert!(received.lost <= received.expected);
}
