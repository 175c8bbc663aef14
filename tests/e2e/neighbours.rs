//! Other people's software on either side of the node: Kamailio, with three record-routing proxies in a
//! row, over IPv4, IPv6 and between them; Kamailio with rtpengine; baresip phones.

use anyhow::{Result, ensure};
use lab::{
    Namespace, TwoRegions,
    baresip::{self, Baresip},
    kamailio::{Kamailio, Neighbour},
    process::eventually,
    rtpengine::Rtpengine,
    sipp::{self, RunningSipp, Sipp},
    ua::{Agent, Media, speech},
};
use std::{net::SocketAddr, time::Duration};

const SOON: Duration = Duration::from_secs(10);

fn address(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}

/// Addresses of one side: Kamailio (port 5060) with its users, and the node.
#[derive(Clone, Copy)]
struct Side {
    users: &'static str,
    node: &'static str,
}

const CARRIER: [Side; 2] = [
    Side { users: "192.0.2.10", node: "192.0.2.1" },
    Side { users: "[2001:db8:1::10]", node: "[2001:db8:1::1]" },
];
const REGION: [Side; 2] = [
    Side { users: "198.51.100.11", node: "198.18.0.1" },
    Side { users: "[2001:db8:a::11]", node: "[2001:db8:2::1]" },
];

fn config(carrier: Side, region: Side) -> String {
    format!(
        "[node]\nname = \"between\"\nstatus_socket = \"@dir@/status.sock\"\n[media]\nports = \"20000-20999\"\n\
         [[interface]]\nname = \"access\"\ndevice = \"access\"\n[[interface]]\nname = \"core\"\ndevice = \"core\"\n\
         [[listener]]\nname = \"access\"\naddress = \"{c}:5060\"\nservice = \"region\"\n\
         [[listener]]\nname = \"core\"\naddress = \"{r}:5060\"\nservice = \"carrier\"\n\
         [[service]]\nname = \"region\"\nlistener = \"core\"\nmedia = \"anchor\"\n[service.probe]\ninterval_ms = 300\n\
         [[service.peer]]\nname = \"k2\"\naddress = \"{ru}:5060\"\n\
         [[service]]\nname = \"carrier\"\nlistener = \"access\"\nmedia = \"anchor\"\n[service.probe]\ninterval_ms = 300\n\
         [[service.peer]]\nname = \"k1\"\naddress = \"{cu}:5060\"\n",
        c = carrier.node,
        r = region.node,
        cu = carrier.users,
        ru = region.users,
    )
}

/// SIPp at a port of a side's users; a caller calls its Kamailio.
fn sipp(
    lab: &TwoRegions,
    space: &Namespace,
    side: Side,
    port: u16,
    (scenario, calls): (&str, bool),
) -> Result<RunningSipp> {
    let remote = calls.then(|| address(&format!("{}:5060", side.users)));
    let args: &[&str] = if calls { &["-m", "10", "-r", "10", "-d", "500"] } else { &[] };
    let args = args.iter().map(|a| (*a).to_owned()).collect();
    let local = address(&format!("{}:{port}", side.users));
    Sipp { scenario, local, remote, args }.start(space, lab.scratch.path())
}

fn calls_between(carrier: Side, region: Side) -> Result<()> {
    let mut lab = TwoRegions::new(1)?;
    add_ipv6(&lab)?;
    let at = |side: Side, port: u16| address(&format!("{}:{port}", side.users));
    let node = |side: Side| address(&format!("{}:5060", side.node));
    let neighbour = |side: Side| Neighbour {
        address: at(side, 5060),
        node: node(side),
        user: at(side, 5071),
        rtpengine: false,
    };
    let _k1 = Kamailio::start(&lab.carrier, lab.scratch.path(), neighbour(carrier))?;
    let _k2 = Kamailio::start(lab.region('A'), lab.scratch.path(), neighbour(region))?;
    let _users = [
        sipp(&lab, &lab.carrier, carrier, 5071, (sipp::ANSWER, false))?,
        sipp(&lab, lab.region('A'), region, 5071, (sipp::ANSWER, false))?,
    ];
    lab.start_node(&config(carrier, region))?;
    let running = lab.node.as_ref().expect("a node");
    for peer in ["k1", "k2"] {
        running.wait_for(peer, "HEALTHY", SOON)?;
    }
    for (from, space, side) in [("carrier", &lab.carrier, carrier), ("region", lab.region('A'), region)] {
        let mut caller = sipp(&lab, space, side, 5070, (sipp::CALL, true))?;
        let calls = caller.wait(Duration::from_secs(30))?;
        ensure!(
            calls.successful == 10 && calls.failed == 0,
            "from the {from}: {calls:?} {}",
            caller.errors()
        );
    }
    ensure!(running.counter("calls_answered") == 20, "{}", running.status()?["counters"]);
    ensure!(running.counter("unproven_dialogs") == 0 && running.counter("dialogs_lost") == 0);
    ensure!(running.counter("media_relayed") > 0, "audio ran through the node");
    // Every ACK and BYE found its way: no dialog is left.
    eventually("all calls are over", SOON, || {
        running.status().is_ok_and(|s| s["workers"][0]["gauges"]["media_sessions"] == 0)
    })?;
    running.check_invariants()
}

fn add_ipv6(lab: &TwoRegions) -> Result<()> {
    lab.carrier.address("eth", "2001:db8:1::10/64")?;
    lab.node_space.address("access", "2001:db8:1::1/64")?;
    lab.node_space.address("core", "2001:db8:2::1/64")?;
    lab.router.address("node", "2001:db8:2::254/64")?;
    lab.router.address("a", "2001:db8:a::1/64")?;
    lab.router.sysctl("net.ipv6.conf.all.forwarding=1")?;
    let region = lab.region('A');
    region.address("eth", "2001:db8:a::11/64")?;
    region.route("2001:db8:2::/64", "2001:db8:a::1")?;
    lab.node_space.route("2001:db8:a::/64", "2001:db8:2::254")
}

/// A caller and a callee with media sockets, each with its next hop.
fn talk(
    (space, own, next): (&Namespace, &str, &str),
    (other_space, other, other_next): (&Namespace, &str, &str),
) -> Result<()> {
    let host = |address: &str| address.rsplit_once(':').map(|(h, _)| h.to_owned()).unwrap_or_default();
    let mut caller = Agent::new(space, own, next)?;
    let mut callee = Agent::new(other_space, other, other_next)?;
    let here = Media::new(space, &format!("{}:4000", host(own)))?;
    let there = Media::new(other_space, &format!("{}:6000", host(other)))?;
    for version in 1..=2 {
        let offer = caller.sdp(version, "m=audio 4000 RTP/AVP 8\r\n");
        let answer = callee.sdp(version, "m=audio 6000 RTP/AVP 8\r\n");
        let (offered, answered) = caller.invite(&mut callee, &offer, &answer)?;
        let (to, back) = (answered.media(0)?, offered.media(0)?);
        here.passes(to, &speech(0, 50), &there, back)?;
        there.passes(back, &speech(1000, 50), &here, to)?;
    }
    caller.hang_up(&mut callee)
}

#[test]
fn media_passes_strowger_and_an_rtpengine_of_kamailio() -> Result<()> {
    let mut lab = TwoRegions::new(1)?;
    let region = lab.region('A');
    let _rtpengine = Rtpengine::start(region, lab.scratch.path(), "198.51.100.11".parse()?)?;
    let neighbour = Neighbour {
        address: address("198.51.100.11:5060"),
        node: address("198.18.0.1:5060"),
        user: address("198.51.100.11:5071"),
        rtpengine: true,
    };
    let _kamailio = Kamailio::start(region, lab.scratch.path(), neighbour)?;
    lab.start_node(&config(CARRIER[0], REGION[0]))?;
    let region = lab.region('A');
    lab.running().wait_for("k2", "HEALTHY", SOON)?;
    talk(
        (&lab.carrier, "192.0.2.10:5070", "192.0.2.1:5060"),
        (region, "198.51.100.11:5071", "198.51.100.11:5060"),
    )?;
    lab.running().check_invariants()
}

#[test]
fn media_is_bridged_between_ipv4_and_ipv6() -> Result<()> {
    let mut lab = TwoRegions::new(1)?;
    add_ipv6(&lab)?;
    let quiet = config(CARRIER[0], REGION[1]).replace("interval_ms = 300", "interval_ms = 3600000");
    lab.start_node(&quiet)?;
    let node = "[2001:db8:2::1]:5060";
    talk(
        (&lab.carrier, "192.0.2.10:5070", "192.0.2.1:5060"),
        (lab.region('A'), "[2001:db8:a::11]:5060", node),
    )?;
    talk(
        (lab.region('A'), "[2001:db8:a::11]:5070", node),
        (&lab.carrier, "192.0.2.10:5060", "192.0.2.1:5060"),
    )?;
    lab.running().check_invariants()
}

#[test]
fn two_phones_hear_each_other_exactly() -> Result<()> {
    let mut lab = TwoRegions::new(1)?;
    let quiet = config(CARRIER[0], REGION[0]).replace("interval_ms = 300", "interval_ms = 3600000");
    lab.start_node(&quiet)?;
    let sounds = [1, 2].map(|seed| baresip::noise(seed, 4 * 8000));
    let files = ["caller.wav", "callee.wav"].map(|name| lab.scratch.path().join(name));
    sounds.iter().zip(&files).try_for_each(|(sound, file)| baresip::write_wav(file, sound))?;
    let callee = address("198.51.100.11:5060");
    let mut callee = Baresip::start(lab.region('A'), &lab.scratch, callee, (&files[1], None, 9))?;
    std::thread::sleep(Duration::from_millis(700));
    let target = Some("sip:phone@192.0.2.1:5060");
    let mut caller =
        Baresip::start(&lab.carrier, &lab.scratch, address("192.0.2.10:5070"), (&files[0], target, 8))?;
    for (phone, said) in [(&mut callee, &sounds[0]), (&mut caller, &sounds[1])] {
        let heard = phone.heard(Duration::from_secs(20))?;
        let common = baresip::common(said, &heard);
        // Beginning and end depend on when each of them begins to listen.
        ensure!(common >= 3 * 8000, "{common} of {} samples: {}", said.len(), phone.log());
    }
    ensure!(lab.running().counter("media_relayed") >= 2 * 150);
    lab.running().check_invariants()
}

#[test]
fn calls_pass_kamailio_strowger_and_kamailio_over_ipv4() -> Result<()> {
    calls_between(CARRIER[0], REGION[0])
}

#[test]
fn calls_pass_kamailio_strowger_and_kamailio_over_ipv6() -> Result<()> {
    calls_between(CARRIER[1], REGION[1])
}

#[test]
fn calls_pass_from_ipv4_to_ipv6_and_back() -> Result<()> {
    calls_between(CARRIER[0], REGION[1])
}
