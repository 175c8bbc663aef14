//! An engine in virtual time: what arrives is text, what leaves is text.

use media::PortPair;
use proxy::{Config, Engine, Incoming, MediaConfig, Outbox, Report, Timers};
use routing::{
    Anchoring, Listener, ListenerId, Peer, PeerId, PeerState, RegionId, Service, ServiceId, Table, Upstream,
};
use std::{
    net::{IpAddr, SocketAddr},
    time::Duration,
};

pub(crate) const CALLER: &str = "192.0.2.10:5070";
/// An address outside the allow-list.
pub(crate) const NOT_ALLOWED: &str = "203.0.113.66";
pub(crate) const ACCESS: &str = "192.0.2.1:5060";
const CORE: &str = "198.18.0.1:5060";

/// A message that left.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    pub(crate) to: SocketAddr,
    pub(crate) text: String,
}

#[derive(Default)]
pub(crate) struct Out {
    pub(crate) sent: Vec<Sent>,
    pub(crate) reports: Vec<Report>,
}

impl Outbox for Out {
    fn send(&mut self, _from: SocketAddr, to: SocketAddr, message: &[u8]) {
        self.sent.push(Sent { to, text: String::from_utf8_lossy(message).into_owned() });
    }
    fn report(&mut self, report: Report) {
        self.reports.push(report);
    }
    fn may_reach(&mut self, address: IpAddr) -> bool {
        address != NOT_ALLOWED.parse::<IpAddr>().unwrap()
    }
    fn media_ports(&mut self, _in_use: bool, _address: IpAddr, _ports: PortPair) {}
}

pub(crate) struct World {
    pub(crate) engine: Engine,
    pub(crate) table: Table,
    pub(crate) now: Duration,
    pub(crate) out: Out,
}

/// Address of peer n: 0 and 1 in the local region, 2 and 3 in the other.
pub(crate) fn peer(n: usize) -> SocketAddr {
    SocketAddr::from(([198, 51, 100, 11 + n as u8], 5060))
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with(|_| {})
    }

    pub(crate) fn with(change: impl FnOnce(&mut Config)) -> Self {
        let mut config = Config {
            worker: 0,
            workers: 1,
            seeds: [1, 2, 3, 4],
            token_key: [7; 16],
            rng_seed: 5,
            timers: Timers::default(),
            max_transactions: 100_000,
            media: MediaConfig::new(20_000..=29_999, media_addresses()),
        };
        change(&mut config);
        Self {
            engine: Engine::new(config),
            table: table(),
            now: Duration::from_secs(100),
            out: Out::default(),
        }
    }

    /// A message arrives from the caller's side.
    pub(crate) fn caller_sends(&mut self, text: &str) -> Vec<Sent> {
        self.arrive(0, ACCESS, CALLER.parse().unwrap(), text)
    }

    /// A message arrives from a peer.
    pub(crate) fn peer_sends(&mut self, n: usize, text: &str) -> Vec<Sent> {
        self.arrive(1, CORE, peer(n), text)
    }

    fn arrive(&mut self, listener: u16, local: &str, remote: SocketAddr, text: &str) -> Vec<Sent> {
        let incoming = Incoming {
            listener: ListenerId(listener),
            local: local.parse().unwrap(),
            remote,
            datagram: text.as_bytes(),
        };
        self.engine.on_sip(self.now, &incoming, &self.table, &mut self.out);
        std::mem::take(&mut self.out.sent)
    }

    /// Time passes in steps of 10 ms.
    pub(crate) fn pass(&mut self, time: Duration) -> Vec<Sent> {
        let end = self.now + time;
        while self.now < end {
            self.now += Duration::from_millis(10);
            self.engine.on_timer(self.now, &self.table, &mut self.out);
        }
        std::mem::take(&mut self.out.sent)
    }

    /// A new table is published.
    pub(crate) fn change(&mut self, change: impl FnOnce(&mut Table)) -> Vec<Sent> {
        change(&mut self.table);
        self.table.generation += 1;
        self.table.index();
        self.engine.on_table(self.now, &self.table, &mut self.out);
        std::mem::take(&mut self.out.sent)
    }

    /// What was learned of a peer's calls: answered and lost ones.
    pub(crate) fn evidence(&self, n: usize) -> (u64, u64) {
        self.engine.tally.peers.get(n).map_or((0, 0), |p| (p.alive, p.lost))
    }

    /// A peer's state changes and the new table is published.
    pub(crate) fn set_state(&mut self, n: usize, state: PeerState) -> Vec<Sent> {
        self.change(|table| table.peers[n].state = state)
    }
}

/// The listeners' own addresses.
fn media_addresses() -> Vec<IpAddr> {
    [ACCESS, CORE].iter().filter_map(|a| a.parse().ok()).map(|a: SocketAddr| a.ip()).collect()
}

fn table() -> Table {
    let listener = |name: &str, address: &str, upstream| {
        let address: SocketAddr = address.parse().unwrap();
        Listener::new(name.to_owned(), address, vec![address.ip()], upstream)
    };
    let member = |n: usize| Peer {
        region: Some(RegionId((n / 2) as u8)),
        priority: (n % 2) as u16,
        state: PeerState::Healthy,
        ..Peer::new(format!("p{n}"), peer(n))
    };
    let mut table = Table {
        generation: 1,
        listeners: vec![
            listener("access", ACCESS, Upstream::Service(ServiceId(0))),
            listener("core", CORE, Upstream::None),
        ],
        services: vec![Service {
            anchoring: Anchoring::All,
            ..Service::new("voice".to_owned(), ListenerId(1), (0..4).map(PeerId).collect())
        }],
        peers: (0..4).map(member).collect(),
        regions: vec!["A".to_owned(), "B".to_owned()],
        local_region: Some(RegionId(0)),
        ..Table::default()
    };
    table.index();
    table
}

/// A request of the caller outside a dialog.
pub(crate) fn request(method: &str, call: &str) -> String {
    request_with(method, call, "", "")
}

/// The same with header lines and a body.
pub(crate) fn request_with(method: &str, call: &str, headers: &str, body: &str) -> String {
    let kind = if body.is_empty() { "" } else { "Content-Type: application/sdp\r\n" };
    format!(
        "{method} sip:bob@example.com SIP/2.0\r\nVia: SIP/2.0/UDP {CALLER};branch=z9hG4bK{call};rport\r\nMax-Forwards: 70\r\n\
         From: <sip:alice@example.com>;tag=a\r\nTo: <sip:bob@example.com>\r\nCall-ID: {call}\r\nCSeq: 1 {method}\r\n\
         Contact: <sip:alice@{CALLER}>\r\n{headers}{kind}Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

pub(crate) fn sdp(ip: &str, port: u16) -> String {
    format!("v=0\r\no=- 1 1 IN IP4 {ip}\r\ns=-\r\nc=IN IP4 {ip}\r\nt=0 0\r\nm=audio {port} RTP/AVP 8\r\n")
}

/// A peer's response to a request it received.
pub(crate) fn respond(request: &Sent, status: u16) -> String {
    respond_with(request, status, "", "")
}

/// The same with header lines and a body.
pub(crate) fn respond_with(request: &Sent, status: u16, headers: &str, body: &str) -> String {
    let mut text = format!("SIP/2.0 {status} Text\r\n");
    for line in request.text.split("\r\n").take_while(|l| !l.is_empty()) {
        let copied =
            ["Via:", "From:", "Call-ID:", "CSeq:", "Record-Route:"].iter().any(|n| line.starts_with(n));
        let tag = if status > 100 && !line.contains(";tag=") { ";tag=b" } else { "" };
        match line.starts_with("To:") {
            true => text += &format!("{line}{tag}\r\n"),
            false if copied => text += &format!("{line}\r\n"),
            false => {}
        }
    }
    let kind = if body.is_empty() { "" } else { "Content-Type: application/sdp\r\n" };
    text + &format!("{headers}{kind}Content-Length: {}\r\n\r\n{body}", body.len())
}

/// First lines and addressees, for comparison.
pub(crate) fn brief(sent: &[Sent]) -> Vec<(String, String)> {
    let name = |to: SocketAddr| match (0..4).find(|n| peer(*n) == to) {
        Some(n) => format!("p{n}"),
        None if to == CALLER.parse().unwrap() => "caller".to_owned(),
        None => to.to_string(),
    };
    let first = |text: &str| {
        let line = text.lines().next().unwrap_or_default();
        let words: Vec<_> = line.split(' ').collect();
        if words[0] == "SIP/2.0" { words[1].to_owned() } else { words[0].to_owned() }
    };
    sent.iter().map(|s| (first(&s.text), name(s.to))).collect()
}

/// Compares with pairs such as `("100", "caller")`.
pub(crate) fn assert_sent(sent: &[Sent], expected: &[(&str, &str)]) {
    let brief = brief(sent);
    let brief: Vec<_> = brief.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
    assert_eq!(brief, expected);
}

/// The caller's Route set, from the Record-Route entries of a response or of the request that the peer
/// received.
pub(crate) fn callers_routes(sent: &Sent) -> String {
    header(&sent.text, "Record-Route").iter().rev().map(|entry| format!("Route: {entry}\r\n")).collect()
}

/// The callee's.
pub(crate) fn callees_routes(sent: &Sent) -> String {
    header(&sent.text, "Record-Route").iter().map(|entry| format!("Route: {entry}\r\n")).collect()
}

/// All values of a header.
pub(crate) fn header<'a>(text: &'a str, name: &str) -> Vec<&'a str> {
    let prefix = format!("{name}: ");
    text.lines().filter_map(|l| l.strip_prefix(prefix.as_str())).collect()
}
