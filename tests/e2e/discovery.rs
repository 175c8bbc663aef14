//! Peers found by DNS (requirements B1 to B5, A4), with NSD as the server: every zone of the corpus,
//! weights, changes, failures, and a start without any DNS.

use anyhow::{Context as _, Result, ensure};
use lab::{
    Namespace, StrowgerNode,
    dns::NameServer,
    node::Scratch,
    process::eventually,
    raw::{self, RawPeer},
};
use serde_json::Value;
use std::{
    collections::BTreeMap,
    fs,
    net::{SocketAddr, UdpSocket},
    path::Path,
    time::Duration,
};

const SOON: Duration = Duration::from_secs(10);
const SERVER: &str = "127.0.0.1:5300";
const NODE: &str = "192.0.2.1:5060";

/// A namespace with everything on its loopback device: servers, node, peers and caller.
struct World {
    node: Option<StrowgerNode>,
    server: Option<NameServer>,
    space: Namespace,
    scratch: Scratch,
}

/// A node with kernel sockets whose only service is found by DNS.
fn config(discover: &str) -> String {
    format!(
        "[node]\nname = \"dns\"\nstatus_socket = \"@dir@/status.sock\"\n[dataplane]\nbackend = \"udp\"\n\
         [dns]\nservers = [\"{SERVER}\"]\ntimeout_ms = 300\nttl_floor_s = 1\nttl_ceiling_s = 60\nnegative_grace_s = 3\n\
         [[listener]]\nname = \"access\"\naddress = \"{NODE}\"\nservice = \"voice\"\n\
         [[service]]\nname = \"voice\"\nlistener = \"access\"\nstate = \"stateless\"\n\
         [service.probe]\ninterval_ms = 200\ntimeout_ms = 100\n\
         [[service.discover]]\nname = \"example.com\"\n{discover}\n[[allow]]\nprefix = \"192.0.2.0/24\"\n"
    )
}

/// The start of every zone, with a time to live for what follows.
fn zone(ttl: u32, records: &str) -> String {
    format!(
        "$ORIGIN example.com.\n$TTL {ttl}\n@ IN SOA ns1 root {} 3600 3600 3600 {ttl}\n{records}\n",
        serial()
    )
}

fn serial() -> u32 {
    use std::sync::atomic::{AtomicU32, Ordering};
    static SERIAL: AtomicU32 = AtomicU32::new(1);
    SERIAL.fetch_add(1, Ordering::Relaxed)
}

impl World {
    fn new() -> Result<Self> {
        let space = Namespace::new("dns")?;
        space.ip(&["link", "set", "lo", "up"])?;
        for host in (1..=15).chain([20, 90]) {
            space.address("lo", &format!("192.0.2.{host}/32"))?;
        }
        Ok(Self { node: None, server: None, space, scratch: Scratch::new()? })
    }

    fn serve(&mut self, zone: Option<&str>) -> Result<()> {
        self.server = None;
        let server = NameServer::start(&self.space, self.scratch.path(), SERVER.parse()?, zone)?;
        self.server = Some(server);
        Ok(())
    }

    fn change(&self, zone: &str) -> Result<()> {
        self.server.as_ref().context("a server")?.serve(zone)
    }

    fn start(&mut self, config: &str) -> Result<()> {
        self.node = None;
        self.node = Some(StrowgerNode::start(&self.space, &self.scratch.path().join("node"), config)?);
        Ok(())
    }

    fn node(&self) -> &StrowgerNode {
        self.node.as_ref().expect("a node")
    }

    /// What the node says of its only name.
    fn name(&self) -> Result<Value> {
        Ok(self.node().status()?["names"][0].clone())
    }

    fn wait_for_answer(&self, latest: &str) -> Result<()> {
        let what = format!("the answer is {latest:?}");
        eventually(&what, SOON, || self.name().is_ok_and(|n| n["latest"] == latest))
            .map(drop)
            .with_context(|| self.node().log())
    }

    /// Peers: address, priority, weight.
    fn peers(&self) -> Result<BTreeMap<String, (u64, u64)>> {
        let status = self.node().status()?;
        let row = |p: &Value| {
            let number = |key: &str| p[key].as_u64().unwrap_or_default();
            (p["address"].as_str().unwrap_or_default().to_owned(), (number("priority"), number("weight")))
        };
        Ok(status["peers"].as_array().into_iter().flatten().map(row).collect())
    }

    fn wait_for_peers(&self, addresses: &[&str]) -> Result<()> {
        let holds = || self.peers().is_ok_and(|p| p.keys().map(String::as_str).eq(addresses.iter().copied()));
        eventually(&format!("the peers are {addresses:?}"), SOON, holds)
            .map(drop)
            .with_context(|| self.node().log())
    }

    fn peer(&self, address: &str) -> Result<RawPeer> {
        RawPeer::start(&self.space, address, |request, from| {
            raw::respond(request, from, 200).map(|r| (from, r)).into_iter().collect()
        })
    }

    fn caller(&self) -> Result<UdpSocket> {
        raw::socket(&self.space, "192.0.2.90:5060")
    }
}

fn invite(call: &str) -> Vec<u8> {
    format!(
        "INVITE sip:1@192.0.2.1 SIP/2.0\r\nVia: SIP/2.0/UDP 192.0.2.90:5060;branch=z9hG4bK{call};rport\r\nMax-Forwards: 70\r\n\
         From: <sip:c@192.0.2.90>;tag=f\r\nTo: <sip:1@192.0.2.1>\r\nCall-ID: {call}\r\nCSeq: 1 INVITE\r\n\
         Contact: <sip:c@192.0.2.90>\r\nContent-Length: 0\r\n\r\n"
    )
    .into_bytes()
}

/// The final response to a new call.
fn call(caller: &UdpSocket, id: &str) -> Result<u16> {
    caller.send_to(&invite(id), NODE.parse::<SocketAddr>()?)?;
    loop {
        let answer = raw::receive(caller, Duration::from_secs(3)).context("an answer")?;
        let status = raw::status(&answer).context("a status")?;
        if status >= 200 && answer.windows(id.len()).any(|w| w == id.as_bytes()) {
            return Ok(status);
        }
    }
}

/// Zone of the corpus, further keys of the discovery, latest answer, peers with priority and weight.
type Case = (&'static str, &'static str, &'static str, &'static [(&'static str, u64, u64)]);

const CASES: &[Case] = &[
    ("srv-dot-target", "", "service absent", &[]),
    (
        "srv-weights",
        "",
        "answered",
        &[
            ("192.0.2.11:5060", 10, 60),
            ("192.0.2.12:5060", 10, 30),
            ("192.0.2.13:5060", 10, 10),
            ("192.0.2.14:5060", 10, 0),
            ("192.0.2.15:5060", 20, 100),
        ],
    ),
    (
        "srv-weights",
        "priority = 100",
        "answered",
        &[
            ("192.0.2.11:5060", 110, 60),
            ("192.0.2.12:5060", 110, 30),
            ("192.0.2.13:5060", 110, 10),
            ("192.0.2.14:5060", 110, 0),
            ("192.0.2.15:5060", 120, 100),
        ],
    ),
    ("srv-and-a", "", "answered", &[("192.0.2.21:5070", 0, 0)]),
    ("srv-and-a", "lookup = \"address\"\nport = 5080", "answered", &[("192.0.2.99:5080", 0, 1)]),
    ("srv-sips-only", "label = \"_sips._tcp\"", "answered", &[("192.0.2.31:5061", 0, 0)]),
    ("srv-sips-only", "label = \"_sip._tls\"", "no such name", &[]),
    ("cname-target", "", "answered", &[("192.0.2.41:5060", 0, 0)]),
    ("ttl-zero", "", "answered", &[("192.0.2.51:5060", 0, 0)]),
    ("no-srv-a-only", "", "answered", &[("192.0.2.61:5060", 0, 1)]),
    ("v6-only-target", "", "answered", &[("192.0.2.71:5060", 1, 0)]),
    ("naptr-sips-first", "lookup = \"naptr\"", "answered", &[("192.0.2.81:5060", 0, 0)]),
    ("naptr-junk", "lookup = \"naptr\"", "answered", &[("192.0.2.82:5060", 0, 0)]),
];

#[test]
fn every_zone_leads_to_the_right_peers() -> Result<()> {
    let mut world = World::new()?;
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus/dns");
    let read = |name: &str| fs::read_to_string(corpus.join(format!("{name}.zone")));
    for (name, discover, latest, expected) in CASES {
        world.serve(Some(&read(name)?))?;
        world.start(&config(discover))?;
        world.wait_for_answer(latest).with_context(|| format!("{name} {discover}"))?;
        let expected: BTreeMap<_, _> = expected.iter().map(|(a, p, w)| ((*a).to_owned(), (*p, *w))).collect();
        ensure!(world.peers()? == expected, "{name} {discover}: {:?}", world.peers()?);
    }
    // An answer that needs TCP is whole.
    world.serve(Some(&read("big-answer-tc")?))?;
    world.start(&config(""))?;
    world.wait_for_answer("answered")?;
    ensure!(world.peers()?.len() == 24, "{:?}", world.peers()?);
    // Aliases in a circle end somewhere.
    world.serve(Some(&read("cname-loop")?))?;
    world.start(&config(""))?;
    eventually("the circle is left", SOON, || world.name().is_ok_and(|n| n["latest"] != "not answered yet"))?;
    ensure!(world.peers()?.is_empty(), "{:?}", world.peers()?);
    // And cost the other targets nothing.
    let records = "_sip._udp IN SRV 1 1 5060 l1\nl1 IN CNAME l2\nl2 IN CNAME l1\n_sip._udp IN SRV 2 1 5060 h2\nh2 IN A 192.0.2.2\n";
    world.serve(Some(&zone(60, records)))?;
    world.start(&config(""))?;
    world.wait_for_peers(&["192.0.2.2:5060"])?;
    // TTL 0 means the floor, not a flood.
    world.serve(Some(&read("ttl-zero")?))?;
    world.start(&config(""))?;
    std::thread::sleep(Duration::from_secs(4));
    let queries = world.name()?["queries"].as_u64();
    ensure!(queries.is_some_and(|q| (3..=6).contains(&q)), "{queries:?} look-ups in 4 s with a floor of 1 s");
    Ok(())
}

#[test]
fn ten_thousand_calls_follow_the_weights() -> Result<()> {
    let mut world = World::new()?;
    let zone = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus/dns/srv-weights.zone"))?;
    world.serve(Some(&zone))?;
    let _peers: Vec<_> =
        (11..=15).map(|n| world.peer(&format!("192.0.2.{n}:5060"))).collect::<Result<_>>()?;
    world.start(&config(""))?;
    for peer in ["a", "b", "c", "d", "e"] {
        world.node().wait_for(&format!("{peer}.example.com"), "HEALTHY", SOON)?;
    }
    let caller = world.caller()?;
    let to: SocketAddr = NODE.parse()?;
    for n in 0..10_000u32 {
        caller.send_to(&invite(&format!("w{n}")), to)?;
        if n % 50 == 0 {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    eventually("all calls are counted", SOON, || world.node().counter("calls") == 10_000)?;
    let attempts = |peer: &str| world.node().attempts(&format!("{peer}.example.com")) as f64;
    // Against 60, 30 and 10 %: two degrees of freedom, 9.21 at p = 0.01.
    let total = attempts("a") + attempts("b") + attempts("c");
    let chi: f64 = [("a", 0.6), ("b", 0.3), ("c", 0.1)]
        .iter()
        .map(|(peer, part)| (attempts(peer) - total * part).powi(2) / (total * part))
        .sum();
    ensure!(chi < 9.21, "chi-squared {chi}: {} {} {}", attempts("a"), attempts("b"), attempts("c"));
    ensure!(attempts("d") < 10.0 && attempts("e") == 0.0, "d {}, e {}", attempts("d"), attempts("e"));
    Ok(())
}

#[test]
fn changes_are_picked_up_failures_change_nothing_and_a_vanished_name_has_grace() -> Result<()> {
    let mut world = World::new()?;
    let of = |hosts: &[u8]| {
        let srv: String = hosts.iter().map(|n| format!("_sip._udp IN SRV 1 1 5060 h{n}\n")).collect();
        let a: String = hosts.iter().map(|n| format!("h{n} IN A 192.0.2.{n}\n")).collect();
        zone(1, &(srv + &a))
    };
    let (two, three) = ("192.0.2.2:5060", "192.0.2.3:5060");
    // Nothing is there at the start: calls are refused at once.
    world.serve(Some(&zone(1, "other IN A 192.0.2.9\n")))?;
    let (_first, _second) = (world.peer(two)?, world.peer(three)?);
    world.start(&config("").replace("state = \"stateless\"\n", ""))?;
    world.wait_for_answer("no such name")?;
    let caller = world.caller()?;
    ensure!(call(&caller, "none")? == 503);
    // It appears, with one target of three addresses.
    world.change(&zone(
        1,
        "_sip._udp IN SRV 1 1 5060 h\nh IN A 192.0.2.2\nh IN A 192.0.2.3\nh IN A 192.0.2.4\n",
    ))?;
    world.wait_for_peers(&[two, three, "192.0.2.4:5060"])?;
    world.node().wait_for("h.example.com/192.0.2.2", "HEALTHY", SOON)?;
    world.node().wait_for("h.example.com/192.0.2.4", "UNHEALTHY", SOON)?;
    ensure!(call(&caller, "some")? == 200, "each address is a peer of its own");
    // Changed records.
    world.change(&of(&[2]))?;
    world.wait_for_peers(&[two])?;
    world.change(&of(&[2, 3]))?;
    world.wait_for_peers(&[two, three])?;
    world.node().wait_for("h3.example.com", "HEALTHY", SOON)?;
    // SERVFAIL, then no server at all: what was known stays, and is probed.
    world.serve(None)?;
    world.wait_for_answer("failed")?;
    ensure!(call(&caller, "servfail")? == 200);
    world.server = None;
    std::thread::sleep(Duration::from_secs(4));
    let name = world.name()?;
    ensure!(name["stale_s"].as_f64().is_some_and(|s| s > 2.0) && name["servers"] == 2, "{name}");
    ensure!(call(&caller, "gone")? == 200);
    let metrics = world.node().http("GET", "/metrics")?.1;
    ensure!(metrics.contains("strowger_dns_stale_seconds{name=\"_sip._udp.example.com\"}"), "{metrics}");
    // The server is back, and the name is not: its peers go after the time of grace only.
    world.serve(Some(&zone(1, "other IN A 192.0.2.9\n")))?;
    world.wait_for_answer("no such name")?;
    ensure!(world.peers()?.len() == 2 && call(&caller, "grace")? == 200, "{:?}", world.peers()?);
    world.wait_for_peers(&[])?;
    ensure!(call(&caller, "after")? == 503);
    Ok(())
}

#[test]
fn a_peer_that_left_dns_keeps_its_calls() -> Result<()> {
    let mut world = World::new()?;
    let of = |n: u8| zone(1, &format!("_sip._udp IN SRV 1 1 5060 h{n}\nh{n} IN A 192.0.2.{n}\n"));
    world.serve(Some(&of(2)))?;
    let (old, new) = (world.peer("192.0.2.2:5060")?, world.peer("192.0.2.3:5060")?);
    world.start(&config(""))?;
    world.node().wait_for("h2.example.com", "HEALTHY", SOON)?;
    let caller = world.caller()?;
    ensure!(call(&caller, "dialog")? == 200);
    let seen = |peer: &RawPeer, word: &str| {
        let is = |m: &Vec<u8>| m.starts_with(word.as_bytes()) && m.windows(6).any(|w| w == b"dialog");
        peer.seen().into_iter().find(is)
    };
    let arrived = String::from_utf8(seen(&old, "INVITE").context("the INVITE")?)?;
    let routes: Vec<_> = arrived.lines().filter_map(|l| l.strip_prefix("Record-Route: ")).collect();
    let routes: String = routes.iter().rev().map(|r| format!("Route: {r}\r\n")).collect();
    world.change(&of(3))?;
    world.wait_for_peers(&["192.0.2.3:5060"])?;
    world.node().wait_for("h3.example.com", "HEALTHY", SOON)?;
    ensure!(call(&caller, "another")? == 200);
    ensure!(new.seen().iter().any(|m| m.starts_with(b"INVITE")), "new calls go to the new peer");
    let bye = format!(
        "BYE sip:1@192.0.2.2:5060 SIP/2.0\r\nVia: SIP/2.0/UDP 192.0.2.90:5060;branch=z9hG4bKbye;rport\r\nMax-Forwards: 70\r\n{routes}\
         From: <sip:c@192.0.2.90>;tag=f\r\nTo: <sip:1@192.0.2.1>;tag=raw\r\nCall-ID: dialog\r\nCSeq: 2 BYE\r\nContent-Length: 0\r\n\r\n"
    );
    caller.send_to(bye.as_bytes(), NODE.parse::<SocketAddr>()?)?;
    eventually("the old peer gets its BYE", SOON, || seen(&old, "BYE").is_some()).map(drop)
}

#[test]
fn a_start_without_dns_or_configuration_works_from_the_last_good_state() -> Result<()> {
    let mut world = World::new()?;
    world.serve(Some(&zone(60, "_sip._udp IN SRV 1 1 5060 h2\nh2 IN A 192.0.2.2\n")))?;
    let _peer = world.peer("192.0.2.2:5060")?;
    let config = config("").replace("state = \"stateless\"\n", "");
    world.start(&config)?;
    world.node().wait_for("h2.example.com", "HEALTHY", SOON)?;
    let state = world.node().config_file().with_file_name("status.state");
    eventually("the state is kept", SOON, || {
        fs::read_to_string(&state).is_ok_and(|t| t.contains("192.0.2.2:5060"))
    })?;
    // Everything of the management is gone, and the node is killed.
    world.server = None;
    world.node.as_mut().context("a node")?.kill();
    let started = std::time::Instant::now();
    world.start(&config)?;
    let caller = world.caller()?;
    ensure!(call(&caller, "first")? == 200, "{}", world.node().log());
    ensure!(started.elapsed() < Duration::from_secs(5), "the first call took {:?}", started.elapsed());
    // Not even the configuration is there.
    let file = world.node().config_file();
    world.node.as_mut().context("a node")?.kill();
    fs::remove_file(&file)?;
    let mut command = world.space.command(lab::node::binary()?.to_str().context("a path")?);
    command.arg("run").arg(&file).arg("--last-good").arg(&state).stderr(std::process::Stdio::null());
    let _node = lab::Process::start("strowger", &mut command)?;
    let answers = || {
        caller.send_to(&invite("again"), NODE.parse::<SocketAddr>().expect("an address")).is_ok()
            && raw::receive(&caller, Duration::from_millis(500)).and_then(|a| raw::status(&a)).is_some()
    };
    eventually("calls are taken", SOON, answers)?;
    ensure!(call(&caller, "more")? == 200);
    Ok(())
}
