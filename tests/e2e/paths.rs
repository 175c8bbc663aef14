//! The ways packets take: several workers, IPv6, VLANs, fragments, kernel sockets, a crash, sources that
//! may not send.

use anyhow::{Context as _, Result, ensure};
use lab::{
    Namespace, StrowgerNode, TwoRegions,
    node::Scratch,
    process::eventually,
    rtp::{MediaCall, stream},
    sipp::{self, RunningSipp, Sipp},
    two_regions::{self, NODE},
    veth,
};
use std::{
    net::{SocketAddr, UdpSocket},
    time::{Duration, Instant},
};

const SOON: Duration = Duration::from_secs(10);

fn address(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}

/// One call with a second of checked media from a namespace.
fn checked_call(space: &Namespace, local: &str, node: &str, extra: &str) -> Result<()> {
    let (local, node) = (address(local), address(node));
    let result = space.enter(|| -> Result<_> {
        let mut calls = vec![MediaCall::place_with(local, node, 1, extra)?];
        stream(&mut calls, Duration::from_secs(1))?;
        calls.remove(0).hang_up()
    })??;
    ensure!(result.sent == 50 && result.echoed == 50 && result.wrong == 0, "{result:?}");
    Ok(())
}

fn two_regions(queues: u32, config: &str) -> Result<TwoRegions> {
    let mut lab = TwoRegions::new(queues)?;
    lab.start_all_peers()?;
    lab.start_healthy(config)?;
    Ok(lab)
}

#[test]
fn two_workers_share_the_calls_of_one_trunk() -> Result<()> {
    let one = "[pinning]\ncontrol = 0\n\n[[pinning.worker]]\ncore = 1\nqueues = [\"access:0\", \"core:0\"]";
    let two = "[pinning]\n[[pinning.worker]]\ncore = 0\nqueues = [\"access:0\", \"core:0\"]\n[[pinning.worker]]\ncore = 1\nqueues = [\"access:1\", \"core:1\"]";
    ensure!(two_regions::CONFIG.contains(one), "the example changed");
    let lab = two_regions(2, &two_regions::CONFIG.replace(one, two))?;
    let node = lab.node.as_ref().context("a node")?;
    // One SIPp, so one address and port: all signalling arrives on one queue.
    let mut caller = lab.start_caller(sipp::CALL, 5070, &["-r", "20", "-m", "80", "-d", "2200"])?;
    let calls = caller.wait(Duration::from_secs(40))?;
    ensure!(calls.successful == 80 && calls.failed == 0, "{calls:?} {}", caller.errors());
    let status = node.status()?;
    let of = |worker: usize, what: &str| status["workers"][worker][what].as_u64().unwrap_or_default();
    ensure!(
        of(0, "calls") >= 20 && of(1, "calls") >= 20,
        "calls by worker: {} and {}",
        of(0, "calls"),
        of(1, "calls")
    );
    ensure!(of(0, "calls") + of(1, "calls") == 80);
    ensure!(of(0, "media_relayed") > 0 && of(1, "media_relayed") > 0, "media follows its call");
    ensure!(node.counter("handed_over") > 0 && node.drops("handover_full") == 0);
    ensure!(
        node.drops("sip_stray_response") == 0 && node.drops("media_no_session") <= 4,
        "{}",
        status["drops"]
    );
    Ok(())
}

#[test]
fn calls_in_both_directions() -> Result<()> {
    let mut lab = TwoRegions::new(1)?;
    lab.start_all_peers()?;
    let trunk = "\n[[service]]\nname = \"trunk\"\nlistener = \"access\"\nmedia = \"anchor\"\n[[service.peer]]\nname = \"carrier\"\naddress = \"192.0.2.10:5080\"\n";
    let core = "name = \"core\"\naddress = \"198.18.0.1:5060\"";
    let config = two_regions::CONFIG.replace(core, &format!("{core}\nservice = \"trunk\"")) + trunk;
    let carrier = Sipp {
        scenario: sipp::ANSWER,
        local: address("192.0.2.10:5080"),
        remote: None,
        args: vec!["-rtp_echo".into()],
    };
    let _carrier = carrier.start(&lab.carrier, lab.scratch.path())?;
    let node = lab.start_node(&config)?;
    for peer in ["a1", "carrier"] {
        node.wait_for(peer, "HEALTHY", SOON)?;
    }
    checked_call(&lab.carrier, "192.0.2.10:0", NODE, "")?;
    checked_call(lab.region('B'), "203.0.113.12:0", "198.18.0.1:5060", "")?;
    ensure!(lab.running().attempts("carrier") == 1, "the second call went to the carrier");
    Ok(())
}

#[test]
fn invites_in_fragments_arrive_and_leave_in_fragments() -> Result<()> {
    let lab = two_regions(1, two_regions::CONFIG)?;
    // 1,800 bytes in two fragments, 3 kB in three, 8 kB in six.
    for size in [1300, 2700, 7500] {
        let padding = format!("X-Padding: {}\r\n", "p".repeat(size));
        checked_call(&lab.carrier, "192.0.2.10:0", NODE, &padding)?;
    }
    let node = lab.node.as_ref().context("a node")?;
    let status = node.status()?;
    ensure!(status["xdp"][0]["verdicts"]["pass_fragment"].as_u64() >= Some(11), "{}", status["xdp"]);
    ensure!(
        node.counter("slow_path_received") >= 3 && node.counter("slow_path_sent") >= 3,
        "{}",
        status["counters"]
    );
    Ok(())
}

#[test]
fn sources_outside_the_allow_list_cost_nothing() -> Result<()> {
    let lab = two_regions(1, two_regions::CONFIG)?;
    lab.carrier.address("eth", "192.0.2.16/24")?;
    let options = "OPTIONS sip:192.0.2.1:5060 SIP/2.0\r\nVia: SIP/2.0/UDP 192.0.2.10:5099;branch=z9hG4bKo;rport\r\n\
                   From: <sip:a@b>;tag=1\r\nTo: <sip:192.0.2.1>\r\nCall-ID: o\r\nCSeq: 1 OPTIONS\r\nContent-Length: 0\r\n\r\n";
    let answer_to = |local: &str| {
        lab.carrier.enter(|| -> Result<bool> {
            let socket = UdpSocket::bind(local)?;
            socket.set_read_timeout(Some(Duration::from_millis(500)))?;
            socket.send_to(options.as_bytes(), NODE)?;
            let mut buffer = [0; 2000];
            Ok(socket.recv(&mut buffer).is_ok_and(|len| buffer[..len].starts_with(b"SIP/2.0 200 ")))
        })
    };
    ensure!(answer_to("192.0.2.10:5099")??, "an allowed source gets an answer");
    ensure!(!answer_to("192.0.2.16:5099")??, "one past the range gets none");
    let status = lab.node.as_ref().context("a node")?.status()?;
    ensure!(status["xdp"][0]["verdicts"]["drop_not_allowed"] == 1, "{}", status["xdp"]);
    Ok(())
}

#[test]
fn a_sender_that_leaves_checksums_to_absent_hardware_is_understood() -> Result<()> {
    let lab = two_regions(1, two_regions::CONFIG)?;
    lab::namespace::run(lab.carrier.command("ethtool").args(["-K", "eth", "tx", "on"]))?;
    checked_call(&lab.carrier, "192.0.2.10:0", NODE, "")?;
    let node = lab.node.as_ref().context("a node")?;
    ensure!(node.counter("checksum_partial") > 50, "the senders left no checksum unfinished");
    ensure!(node.drops("checksum_udp") == 0);
    Ok(())
}

#[test]
fn a_killed_node_leaves_nothing_attached_and_the_kernel_answers() -> Result<()> {
    let mut lab = two_regions(1, two_regions::CONFIG)?;
    let attached =
        |lab: &TwoRegions| lab.node_space.ip(&["link", "show", "dev", "access"]).map(|t| t.contains("xdp"));
    ensure!(attached(&lab)?, "the program is attached while the node runs");
    let refused = |lab: &TwoRegions| {
        lab.carrier.enter(|| -> Result<bool> {
            let socket = UdpSocket::bind("192.0.2.10:0")?;
            socket.connect(NODE)?;
            socket.set_read_timeout(Some(Duration::from_millis(300)))?;
            socket.send(b"OPTIONS sip:x SIP/2.0\r\n\r\n")?;
            Ok(socket.recv(&mut [0; 100]).is_err_and(|e| e.kind() == std::io::ErrorKind::ConnectionRefused))
        })?
    };
    lab.node.as_mut().context("a node")?.kill();
    eventually("the program is gone", SOON, || attached(&lab).is_ok_and(|a| !a))?;
    ensure!(refused(&lab)?, "the kernel answers with port unreachable");
    // And it starts again at once, and stops without a trace.
    let node = lab.start_node(two_regions::CONFIG)?;
    node.wait_for("a1", "HEALTHY", SOON)?;
    checked_call(&lab.carrier, "192.0.2.10:0", NODE, "")?;
    lab.node.as_mut().context("a node")?.stop()?;
    ensure!(!attached(&lab)?, "a clean stop detaches");
    ensure!(refused(&lab)?);
    Ok(())
}

/// A caller and a peer on either side of a node, by one link each.
struct Line {
    _peer: RunningSipp,
    node: StrowgerNode,
    caller: Namespace,
    _spaces: [Namespace; 2],
    _scratch: Scratch,
}

/// Addresses of a [`Line`]: caller, node's sides, peer.
struct Ends {
    caller: &'static str,
    access: &'static str,
    core: &'static str,
    peer: &'static str,
    prefix: u8,
}

fn socket(ip: &str, port: u16) -> SocketAddr {
    SocketAddr::new(ip.parse().expect("an address"), port)
}

fn line(ends: &Ends, mode: &str) -> Result<Line> {
    let (caller, node, peer) = (Namespace::new("caller")?, Namespace::new("node")?, Namespace::new("peer")?);
    veth((&node, "access"), (&caller, "eth"), 1)?;
    veth((&node, "core"), (&peer, "eth"), 1)?;
    let with = |ip: &str| format!("{ip}/{}", ends.prefix);
    caller.address("eth", &with(ends.caller))?;
    node.address("access", &with(ends.access))?;
    node.address("core", &with(ends.core))?;
    peer.address("eth", &with(ends.peer))?;
    let config = format!(
        "[node]\nname = \"line\"\nstatus_socket = \"@dir@/status.sock\"\n[dataplane]\nxdp_mode = \"{mode}\"\n[media]\nports = \"20000-20999\"\n\
         [[interface]]\nname = \"access\"\ndevice = \"access\"\n[[interface]]\nname = \"core\"\ndevice = \"core\"\n\
         [[listener]]\nname = \"access\"\naddress = \"{}\"\nservice = \"s\"\n[[listener]]\nname = \"core\"\naddress = \"{}\"\n\
         [[service]]\nname = \"s\"\nlistener = \"core\"\nmedia = \"anchor\"\nprobe = {{ interval_ms = 300, timeout_ms = 200 }}\n\
         [[service.peer]]\nname = \"p\"\naddress = \"{}\"\n[[allow]]\nprefix = \"{}\"\n",
        socket(ends.access, 5060),
        socket(ends.core, 5060),
        socket(ends.peer, 5060),
        with(ends.caller),
    );
    let scratch = Scratch::new()?;
    let sipp = Sipp {
        scenario: sipp::ANSWER,
        local: socket(ends.peer, 5060),
        remote: None,
        args: vec!["-rtp_echo".into()],
    };
    let running = sipp.start(&peer, scratch.path())?;
    let started = StrowgerNode::start(&node, &scratch.path().join("node"), &config)?;
    started.wait_for("p", "HEALTHY", SOON)?;
    Ok(Line { _peer: running, node: started, caller, _spaces: [node, peer], _scratch: scratch })
}

const IPV4: Ends = Ends {
    caller: "192.0.2.10",
    access: "192.0.2.1",
    core: "198.51.100.1",
    peer: "198.51.100.11",
    prefix: 24,
};

fn call_over(ends: &Ends, mode: &str) -> Result<Line> {
    let line = line(ends, mode)?;
    checked_call(
        &line.caller,
        &socket(ends.caller, 0).to_string(),
        &socket(ends.access, 5060).to_string(),
        "",
    )?;
    let sent = line.node.counter("slow_path_sent");
    ensure!(sent <= 6, "{sent} packets left by the kernel");
    Ok(line)
}

#[test]
fn ipv6() -> Result<()> {
    let ends = Ends {
        caller: "2001:db8:1::10",
        access: "2001:db8:1::1",
        core: "2001:db8:2::1",
        peer: "2001:db8:2::11",
        prefix: 64,
    };
    call_over(&ends, "auto").map(drop)
}

#[test]
fn ipv4_on_one_side_and_ipv6_on_the_other() -> Result<()> {
    // The prefix length fits both families, since each link has one subnet only.
    let ends = Ends { core: "2001:db8:2::1", peer: "2001:db8:2::11", ..IPV4 };
    call_over(&ends, "auto").map(drop)
}

#[test]
fn generic_mode() -> Result<()> {
    let line = call_over(&IPV4, "generic")?;
    ensure!(line.node.status()?["xdp"][0]["mode"] == "generic");
    Ok(())
}

#[test]
fn a_peer_in_the_same_subnet_gets_its_own_mac() -> Result<()> {
    let [switch, node, caller, peer] = ["switch", "node", "caller", "peer"].map(Namespace::new);
    let (switch, node, caller, peer) = (switch?, node?, caller?, peer?);
    switch.ip(&["link", "add", "name", "br", "type", "bridge"])?;
    switch.ip(&["link", "set", "dev", "br", "up"])?;
    let ends = [
        (&node, "lan", "192.0.2.1/24", "p1"),
        (&caller, "eth", "192.0.2.10/24", "p2"),
        (&peer, "eth", "192.0.2.20/24", "p3"),
    ];
    for (space, device, ip, port) in ends {
        veth((space, device), (&switch, port), 1)?;
        switch.ip(&["link", "set", "dev", port, "master", "br"])?;
        space.address(device, ip)?;
    }
    let scratch = Scratch::new()?;
    let sipp = Sipp {
        scenario: sipp::ANSWER,
        local: address("192.0.2.20:5060"),
        remote: None,
        args: vec!["-rtp_echo".into()],
    };
    let _peer = sipp.start(&peer, scratch.path())?;
    let started =
        StrowgerNode::start(&node, &scratch.path().join("node"), include_str!("../../examples/lab.toml"))?;
    started.wait_for("pbx1", "HEALTHY", SOON)?;
    checked_call(&caller, "192.0.2.10:0", "192.0.2.1:5060", "")
}

#[test]
fn threads_are_pinned_and_keep_only_the_privileges_they_need() -> Result<()> {
    let lab = two_regions(1, two_regions::CONFIG)?;
    let node = lab.node.as_ref().context("a node")?;
    // CAP_NET_ADMIN is bit 12, CAP_BPF bit 39.
    let control = format!("{:016x}", 1u64 << 39 | 1 << 12);
    let capabilities = node.threads("CapPrm")?;
    let expected = [("strowger", control.as_str()), ("worker-0", "0000000000000000")];
    // It lives for a moment, and gives up its own first.
    let lasting = |(name, _): &&(String, String)| name != "state-writer";
    let got: Vec<_> =
        capabilities.iter().filter(lasting).map(|(n, caps)| (n.as_str(), caps.as_str())).collect();
    ensure!(got == expected, "{got:?}");
    let cores: Vec<_> = node.threads("Cpus_allowed_list")?.iter().filter(lasting).cloned().collect();
    ensure!(cores == [("strowger".into(), "0".into()), ("worker-0".into(), "1".into())], "{cores:?}");
    // With so little it still follows health into the maps, and neighbours.
    checked_call(&lab.carrier, "192.0.2.10:0", NODE, "")
}

#[test]
fn zero_copy_where_the_driver_has_none_is_refused_by_name() -> Result<()> {
    let mut lab = TwoRegions::new(1)?;
    let config = format!("{}\n[dataplane]\nxdp_mode = \"zero-copy\"\n", two_regions::CONFIG);
    let error = lab.start_node(&config).err().context("it started")?.to_string();
    ensure!(error.contains("interface access, queue 0: ") && error.contains("Bind"), "{error}");
    let link = lab.node_space.ip(&["link", "show", "dev", "access"])?;
    ensure!(!link.contains("xdp"), "half attached: {link}");
    Ok(())
}

#[test]
fn the_program_alone_loads_and_unloads_any_number_of_times() -> Result<()> {
    let (space, other) = (Namespace::new("a")?, Namespace::new("b")?);
    veth((&space, "lan"), (&other, "eth"), 1)?;
    space.address("lan", "192.0.2.1/24")?;
    other.address("eth", "192.0.2.2/24")?;
    // In a mount namespace of its own, so that the pins and their file system go with it.
    let strowger = lab::node::binary()?;
    let script = format!(
        "set -e; s={} ; $s xdp load lan; $s xdp load lan --mode generic; touch @dir@/loaded; \
         while [ ! -e @dir@/sent ]; do sleep 0.05; done; $s xdp status lan; $s xdp unload lan; $s xdp unload lan; $s xdp status lan",
        strowger.display()
    );
    let scratch = Scratch::new()?;
    let mut command = space.command("unshare");
    command.args(["--mount", "sh", "-c", &script.replace("@dir@", &scratch.path().display().to_string())]);
    let output = std::thread::spawn(move || lab::namespace::run(&mut command));
    eventually("the program is loaded", SOON, || {
        scratch.path().join("loaded").exists() || output.is_finished()
    })?;
    other.enter(|| UdpSocket::bind("192.0.2.2:0")?.send_to(b"passes", "192.0.2.1:9"))??;
    std::fs::write(scratch.path().join("sent"), "")?;
    let output = output.join().expect("the thread")?;
    ensure!(
        output.contains("native mode, 1 receive queue(s)") && output.contains("lan: already loaded"),
        "{output}"
    );
    let passed =
        output.lines().filter_map(|l| l.trim().strip_prefix("pass_no_service")).any(|n| n.trim() != "0");
    ensure!(passed, "the datagram was not counted: {output}");
    ensure!(output.contains("lan: unloaded") && output.contains("lan: not loaded"), "{output}");
    ensure!(output.trim_end().ends_with("lan: no XDP program attached, 1 receive queue(s)"), "{output}");
    Ok(())
}

#[test]
fn a_missing_privilege_is_explained() -> Result<()> {
    let space = Namespace::new("plain")?;
    let other = Namespace::new("other")?;
    veth((&space, "lan"), (&other, "eth"), 1)?;
    space.address("lan", "192.0.2.1/24")?;
    let scratch = Scratch::new()?;
    let config = include_str!("../../examples/lab.toml");
    let started = StrowgerNode::start_unprivileged(&space, &scratch.path().join("node"), config);
    let error = started.err().context("it started")?.to_string();
    ensure!(
        error.contains("AF_XDP needs root, or CAP_NET_ADMIN") && error.contains("backend = \"udp\""),
        "{error}"
    );
    Ok(())
}

#[test]
fn a_next_hop_that_moves_to_another_mac_is_followed() -> Result<()> {
    let lab = two_regions(1, two_regions::CONFIG)?;
    lab.router.ip(&["link", "set", "dev", "node", "address", "02:00:00:00:99:01"])?;
    // What a router taking over an address does: announce it.
    lab.router.enter(|| UdpSocket::bind("198.18.0.254:0")?.send_to(b"x", "198.18.0.1:9"))??;
    let node = lab.node.as_ref().context("a node")?;
    eventually("probes pass again", SOON, || {
        let rtt = |peer| node.peer(peer).is_some_and(|p| p["failures"] == 0 && p["state"] == "HEALTHY");
        ["a1", "a2", "b1", "b2"].into_iter().all(rtt)
    })?;
    checked_call(&lab.carrier, "192.0.2.10:0", NODE, "")
}

#[test]
fn a_burst_beyond_the_rings_is_counted_and_reception_goes_on() -> Result<()> {
    let small = format!("{}\n[dataplane]\nring_size = 64\n", two_regions::CONFIG);
    let lab = two_regions(1, &small)?;
    lab.carrier.enter(|| -> Result<()> {
        let socket = UdpSocket::bind("192.0.2.10:0")?;
        for _ in 0..200_000 {
            // A full send buffer is no fault here.
            let _ = socket.send_to(b"no SIP at all", NODE);
        }
        Ok(())
    })??;
    let node = lab.node.as_ref().context("a node")?;
    let status = node.status()?;
    let steered = status["xdp"][0]["verdicts"]["steer_sip"].as_u64().unwrap_or_default();
    node.check_invariants()?;
    eventually("every steered packet is accounted for", SOON, || {
        let lost = node
            .status()
            .ok()
            .and_then(|s| s["workers"][0]["gauges"]["kernel_drops"].as_u64())
            .unwrap_or_default();
        node.drops("sip_not_sip") + lost + 100 >= steered
    })?;
    checked_call(&lab.carrier, "192.0.2.10:0", NODE, "")
}

#[test]
fn a_spinning_worker_stays_awake_while_packets_come_and_sleeps_afterwards() -> Result<()> {
    // Longer than the 20 ms between two packets of the call, shorter than what lies between probes.
    let lab = two_regions(1, &format!("{}\n[dataplane]\nspin_us = 30000\n", two_regions::CONFIG))?;
    let node = lab.node.as_ref().context("a node")?;
    let busy = node.busy_while(|| checked_call(&lab.carrier, "192.0.2.10:0", NODE, ""))?;
    ensure!(busy > 0.7, "busy for {busy:.2} of a call");
    let idle = node.busy_while(|| {
        std::thread::sleep(Duration::from_secs(2));
        Ok(())
    })?;
    ensure!(idle < 0.5, "busy for {idle:.2} of the time behind it");
    node.check_invariants()
}

#[test]
fn calls_go_on_under_a_flood_of_garbage() -> Result<()> {
    let lab = two_regions(1, two_regions::CONFIG)?;
    let node = lab.node.as_ref().context("a node")?;
    let mut caller = lab.start_caller(sipp::CALL, 5070, &["-r", "20", "-m", "100", "-d", "500"])?;
    let garbage: [&[u8]; 5] = [
        b"\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"INVITE sip:x SIP/2.0\r\n\r\n",
        b"SIP/2.0 200 OK\r\nVia: SIP/2.0/UDP 192.0.2.1:5060;branch=z9hG4bK-sw000000000000000001\r\nCSeq: 1 INVITE\r\n\r\n",
        &[0xff; 1400],
    ];
    let sent = lab.carrier.enter(|| -> Result<u64> {
        let socket = UdpSocket::bind("192.0.2.10:0")?;
        let start = Instant::now();
        let mut sent = 0;
        // Some 50,000 a second for five seconds.
        while start.elapsed() < Duration::from_secs(5) {
            for junk in garbage.iter().cycle().take(50) {
                sent += u64::from(socket.send_to(junk, NODE).is_ok());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(sent)
    })??;
    let calls = caller.wait(Duration::from_secs(40))?;
    ensure!(calls.successful == 100 && calls.failed == 0, "{calls:?} {}", caller.errors());
    let drops = ["sip_keep_alive", "sip_not_sip", "sip_unanswerable", "sip_stray_response"];
    let counted: u64 = drops.iter().map(|reason| node.drops(reason)).sum();
    let lost = node.status()?["workers"][0]["gauges"]["kernel_drops"].as_u64().unwrap_or_default();
    ensure!(counted + lost >= sent, "{sent} sent, {counted} counted, {lost} lost in the ring");
    node.check_invariants()
}

#[test]
fn a_link_that_goes_down_and_up_carries_calls_again() -> Result<()> {
    let lab = two_regions(1, two_regions::CONFIG)?;
    let node = lab.node.as_ref().context("a node")?;
    lab.router.ip(&["link", "set", "dev", "node", "down"])?;
    node.wait_for("b2", "UNHEALTHY", SOON)?;
    lab.router.ip(&["link", "set", "dev", "node", "up"])?;
    two_regions::wait_healthy(node)?;
    checked_call(&lab.carrier, "192.0.2.10:0", NODE, "")
}

#[test]
fn kernel_sockets_without_privileges() -> Result<()> {
    let space = Namespace::new("udp")?;
    let scratch = Scratch::new()?;
    let sipp = Sipp {
        scenario: sipp::ANSWER,
        local: address("127.0.0.3:5060"),
        remote: None,
        args: vec!["-rtp_echo".into()],
    };
    let _peer = sipp.start(&space, scratch.path())?;
    let node = StrowgerNode::start_unprivileged(
        &space,
        &scratch.path().join("node"),
        include_str!("../../examples/udp.toml"),
    )?;
    node.wait_for("pbx1", "HEALTHY", SOON)?;
    checked_call(&space, "127.0.0.10:0", "127.0.0.1:5060", "")?;
    ensure!(node.status()?["backend"] == "udp");
    ensure!(node.status()?["xdp"].as_array().is_some_and(Vec::is_empty));
    Ok(())
}
