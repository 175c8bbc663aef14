//! Single messages through the running node, odd ones above all: torture messages, loops, repeated
//! CANCELs, what `strowger explain` tells.

use anyhow::{Context as _, Result, ensure};
use hostile::torture::{Verdict, messages};
use lab::{
    TwoRegions,
    process::eventually,
    raw::{self, RawPeer, Reaction},
    sipp, two_regions,
};
use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

const ANSWER: Duration = Duration::from_secs(2);
/// Silence that shows that nothing will come.
const QUIET: Duration = Duration::from_millis(200);
const CALLER: &str = "192.0.2.10:5060";
const A1: &str = "198.51.100.11:5060";

/// A laboratory whose peer a1 is tried first and is a plain socket.
fn raw_a1(react: impl Fn(&[u8], SocketAddr) -> Reaction + Send + 'static) -> Result<(TwoRegions, RawPeer)> {
    let mut lab = TwoRegions::new(1)?;
    let peer = RawPeer::start(lab.region('A'), A1, react)?;
    for (name, _, _) in &two_regions::PEERS[1..] {
        lab.start_peer(name, sipp::ANSWER, &[])?;
    }
    lab.start_healthy(&two_regions::a1_first())?;
    Ok((lab, peer))
}

/// Answers everything with this status.
fn always(status: u16) -> impl Fn(&[u8], SocketAddr) -> Reaction + Send + 'static {
    move |message, from| raw::respond(message, from, status).map(|r| (from, r)).into_iter().collect()
}

fn invite(branch: &str, call_id: &str, headers: &str) -> String {
    request("INVITE", branch, call_id, headers)
}

fn request(method: &str, branch: &str, call_id: &str, headers: &str) -> String {
    format!(
        "{method} sip:service@192.0.2.1 SIP/2.0\r\nVia: SIP/2.0/UDP {CALLER};branch=z9hG4bK{branch};rport\r\nMax-Forwards: 70\r\n\
         From: <sip:caller@192.0.2.10>;tag=c\r\nTo: <sip:service@192.0.2.1>\r\nCall-ID: {call_id}\r\nCSeq: 1 {method}\r\n\
         Contact: <sip:caller@{CALLER}>\r\n{headers}Content-Length: 0\r\n\r\n"
    )
}

/// The next response other than 100.
fn answer(socket: &std::net::UdpSocket) -> Option<Vec<u8>> {
    loop {
        let message = raw::receive(socket, ANSWER)?;
        if raw::status(&message) != Some(100) {
            return Some(message);
        }
    }
}

/// Call-ID of a message, if it has one.
fn call_id(message: &[u8]) -> Option<Vec<u8>> {
    let m = sip::Message::parse(message).ok()?;
    m.value(sip::HeaderName::CallId).map(<[u8]>::to_vec)
}

/// Topmost Via and method of a request.
fn transaction(message: &[u8]) -> Option<(Vec<u8>, sip::Method)> {
    let m = sip::Message::parse(message).ok()?;
    Some((m.value(sip::HeaderName::Via)?.to_vec(), m.method()?))
}

#[test]
fn every_torture_message_gets_its_verdict_from_the_running_node() -> Result<()> {
    let (mut lab, peer) = raw_a1(always(404))?;
    let node_address: SocketAddr = two_regions::NODE.parse()?;
    let socket = raw::socket(&lab.carrier, CALLER)?;
    // Some name another port in their Via, where their answer goes.
    let other = raw::socket(&lab.carrier, "192.0.2.10:5050")?;
    let next = |wait| raw::receive(&socket, wait).or(raw::receive(&other, wait));
    let dropped = |lab: &TwoRegions| {
        let status = lab.running().status().unwrap_or_default();
        status["drops"].as_object().into_iter().flatten().filter_map(|(_, n)| n.as_u64()).sum::<u64>()
    };
    let mut failures = Vec::new();
    let mut transactions = Vec::new();
    let mut last_call_id = None;
    for (name, message, verdict) in messages() {
        // With its headers more than a datagram holds.
        if name == "X19-invite-64k" {
            continue;
        }
        // Several name the same branch, sender and method: to one node they are the same transaction.
        let transaction = transaction(&message);
        if transaction.is_some() && transactions.contains(&transaction) {
            transactions.clear();
            lab.node.as_mut().context("a node")?.stop()?;
            lab.start_healthy(&two_regions::a1_first())?;
        }
        transactions.push(transaction);
        // Repeated answers and ACKs of earlier messages are no verdict on this one.
        let own = call_id(&message);
        if own.is_some() && own == last_call_id {
            std::thread::sleep(QUIET);
        }
        last_call_id.clone_from(&own);
        let is_own = |m: &[u8]| !m.starts_with(b"ACK ") && call_id(m) == own;
        let (seen, drops) = (peer.seen().iter().filter(|m| is_own(m)).count(), dropped(&lab));
        while next(Duration::ZERO).is_some() {}
        socket.send_to(&message, node_address)?;
        let mut refused = None;
        let mut found = None;
        let sent = Instant::now();
        let decided = eventually(name, ANSWER, || {
            let got = next(Duration::from_millis(1));
            let got = got.filter(|m| is_own(m)).and_then(|m| raw::status(&m));
            refused = refused.or(got.filter(|s| *s != 100));
            found = match refused {
                _ if peer.seen().iter().filter(|m| is_own(m)).count() > seen => Some(Verdict::Forward),
                Some(status) => Some(Verdict::Refuse(status)),
                // Other drops are counted, too: silence is part of this verdict.
                None if sent.elapsed() > QUIET && dropped(&lab) > drops => Some(Verdict::Drop),
                None => None,
            };
            found.is_some()
        });
        if decided.is_err() || found != Some(verdict) {
            failures.push(format!("{name}: expected {verdict:?}, found {found:?}"));
        }
    }
    ensure!(failures.is_empty(), "{failures:#?}");
    lab.running().check_invariants()?;
    // And it still takes calls.
    drop((socket, other));
    let mut caller = lab.start_caller(&sipp::expect(404), 5070, &["-m", "1"])?;
    let calls = caller.wait(Duration::from_secs(20))?;
    ensure!(calls.successful == 1, "{calls:?} {}", caller.errors());
    Ok(())
}

#[test]
fn a_repeated_cancel_gets_the_same_answer() -> Result<()> {
    let (lab, peer) = raw_a1(|message, from| {
        let status = if message.starts_with(b"INVITE") { 180 } else { 200 };
        raw::respond(message, from, status).map(|r| (from, r)).into_iter().collect()
    })?;
    let socket = raw::socket(&lab.carrier, CALLER)?;
    let node_address: SocketAddr = two_regions::NODE.parse()?;
    socket.send_to(invite("c", "cancel", "").as_bytes(), node_address)?;
    ensure!(raw::status(&answer(&socket).context("a 180")?) == Some(180));
    let cancel = request("CANCEL", "c", "cancel", "");
    let mut answers = Vec::new();
    for _ in 0..3 {
        socket.send_to(cancel.as_bytes(), node_address)?;
        answers.push(String::from_utf8_lossy(&answer(&socket).context("an answer to CANCEL")?).into_owned());
    }
    ensure!(
        answers[0].starts_with("SIP/2.0 200 ") && answers.iter().all(|a| *a == answers[0]),
        "{answers:#?}"
    );
    // The node's answers do not wait for the peer to have read its CANCEL; a second one would follow soon.
    let cancels = || peer.seen().iter().filter(|m| m.starts_with(b"CANCEL")).count();
    eventually("a CANCEL reaches the peer", Duration::from_secs(5), || cancels() > 0)?;
    std::thread::sleep(Duration::from_millis(100));
    let cancels = cancels();
    ensure!(cancels == 1, "{cancels} CANCELs reached the peer");
    Ok(())
}

#[test]
fn a_loop_is_cut_and_a_spiral_is_not() -> Result<()> {
    // The peer sends every INVITE back to the node's access side; the second time it refuses.
    let (lab, peer) = raw_a1(|message, from| {
        let text = String::from_utf8_lossy(message).into_owned();
        if text.starts_with("SIP/2.0 ") {
            // The answer to what it sent: passed on, as a proxy would, without its Via.
            let rest = text
                .split_once("\r\nVia: ")
                .and_then(|(start, rest)| Some((start.to_owned(), rest.split_once("\r\n")?.1)));
            return rest
                .map(|(start, rest)| (from, format!("{start}\r\n{rest}").into_bytes()))
                .into_iter()
                .collect();
        }
        if !text.starts_with("INVITE") || text.contains(&format!("Via: SIP/2.0/UDP {A1}")) {
            return raw::respond(message, from, 486).map(|r| (from, r)).into_iter().collect();
        }
        let via = format!("Via: SIP/2.0/UDP {A1};branch=z9hG4bKpeer{}", text.len());
        let again =
            if text.contains("spiral") { text.replacen("sip:service@", "sip:moved@", 1) } else { text };
        let node = two_regions::NODE.parse().expect("an address");
        vec![(node, again.replacen("\r\n", &format!("\r\n{via}\r\n"), 1).into_bytes())]
    })?;
    lab.router.route("192.0.2.0/24", "198.18.0.1")?;
    let socket = raw::socket(&lab.carrier, CALLER)?;
    let node_address: SocketAddr = two_regions::NODE.parse()?;
    socket.send_to(invite("l", "loop", "").as_bytes(), node_address)?;
    let looped = answer(&socket).context("an answer")?;
    ensure!(raw::status(&looped) == Some(482), "{}", String::from_utf8_lossy(&looped));
    ensure!(lab.running().counter("loops") == 1);
    socket.send_to(invite("s", "spiral", "").as_bytes(), node_address)?;
    let spiralled = answer(&socket).context("an answer")?;
    ensure!(raw::status(&spiralled) == Some(486), "{}", String::from_utf8_lossy(&spiralled));
    ensure!(lab.running().counter("loops") == 1, "a spiral is no loop");
    let passes = peer.seen().iter().filter(|m| m.starts_with(b"INVITE")).count();
    ensure!(passes == 3, "{passes} INVITEs at the peer");
    Ok(())
}

#[test]
fn long_and_compact_headers_pass_whole() -> Result<()> {
    let (lab, peer) = raw_a1(always(486))?;
    let socket = raw::socket(&lab.carrier, CALLER)?;
    let node_address: SocketAddr = two_regions::NODE.parse()?;
    // Beyond the MTU both ways.
    let long = "x".repeat(3_000);
    socket.send_to(invite("long", "long", &format!("X-Long: {long}\r\n")).as_bytes(), node_address)?;
    ensure!(raw::status(&answer(&socket).context("an answer to the long one")?) == Some(486));
    let compact = invite("compact", "compact", "k: timer\r\ns: hello\r\n")
        .replace("Via:", "v:")
        .replace("From:", "f:")
        .replace("To:", "t:")
        .replace("Call-ID:", "i:")
        .replace("Contact:", "m:")
        .replace("Content-Length:", "l:");
    socket.send_to(compact.as_bytes(), node_address)?;
    let refused = answer(&socket).context("an answer to the compact one")?;
    ensure!(raw::status(&refused) == Some(486), "{}", String::from_utf8_lossy(&refused));
    let text = |needle: &str| {
        let seen = peer.seen();
        let found = seen.iter().map(|m| String::from_utf8_lossy(m).into_owned());
        found.filter(|m| m.starts_with("INVITE")).find(|m| m.contains(needle))
    };
    ensure!(text(&format!("X-Long: {long}\r\n")).is_some(), "the long header arrives whole");
    let compact = text("i: compact").context("the compact one arrives")?;
    for line in ["f: <sip:caller@192.0.2.10>;tag=c\r\n", "k: timer\r\ns: hello\r\n", "l: 0\r\n"] {
        ensure!(compact.contains(line), "{compact}");
    }
    ensure!(lab.running().counter("slow_path_sent") > 0, "fragments leave by the kernel");
    Ok(())
}

#[test]
fn an_unreachable_peer_costs_a_call_milliseconds() -> Result<()> {
    // Nobody listens at a1 any more. Only ICMP can tell so soon, and the kernel sends one error a second
    // to a host: probes must not use them up.
    let slow = |config: &str| {
        config
            .replace("attempt_timeout_ms = 500", "attempt_timeout_ms = 4000")
            .replace("interval_ms = 500", "interval_ms = 20000")
            .replace("fall = 3", "fall = 30\npassive_fall = 0")
    };
    let mut lab = TwoRegions::new(1)?;
    lab.start_all_peers()?;
    lab.start_healthy(&slow(&two_regions::a1_first()))?;
    lab.kill_peer("a1");
    let socket = raw::socket(&lab.carrier, CALLER)?;
    let mut slowest = Duration::ZERO;
    for n in 0..5 {
        let sent = Instant::now();
        socket.send_to(invite(&format!("u{n}"), &format!("gone{n}"), "").as_bytes(), two_regions::NODE)?;
        // Earlier calls' answers are repeated, since nobody acknowledges them.
        let own = call_id(invite("", &format!("gone{n}"), "").as_bytes());
        let first =
            std::iter::from_fn(|| answer(&socket)).find(|m| call_id(m) == own).context("an answer")?;
        ensure!(raw::status(&first) == Some(180), "{}", String::from_utf8_lossy(&first));
        slowest = slowest.max(sent.elapsed());
        // One error a second.
        std::thread::sleep(Duration::from_millis(1100));
    }
    ensure!(slowest < Duration::from_millis(500), "the slowest call took {slowest:?}");
    ensure!(lab.running().counter("unreachable") >= 5 && lab.running().counter("calls_rescued") == 5);
    Ok(())
}

#[test]
fn explain_tells_why_a_call_went_where_it_went() -> Result<()> {
    let (lab, _peer) = raw_a1(always(503))?;
    let mut caller =
        lab.start_caller(sipp::CALL, 5070, &["-m", "1", "-d", "100", "-cid_str", "story-%u@carrier"])?;
    let calls = caller.wait(Duration::from_secs(20))?;
    ensure!(calls.successful == 1, "{calls:?} {}", caller.errors());
    let strowger = |args: &[&str]| lab.running().cli(&[&["explain"], args].concat());
    let (found, story) = strowger(&["story-1@carrier"])?;
    for part in [
        "call story-1@carrier",
        "at listener access",
        "a1 (region A), chosen: local",
        "503 after",
        "a2 (region A), chosen: local, after a1: 503",
        "200 after",
        "outcome: 200 from the peer",
    ] {
        ensure!(found && story.contains(part), "no {part:?} in\n{story}");
    }
    let (found, latest) = strowger(&["--json", "--last", "5"])?;
    let latest: serde_json::Value = serde_json::from_str(&latest)?;
    ensure!(found && latest["calls"][0]["attempts"][1]["peer"] == "a2", "{latest}");
    let (found, text) = strowger(&["unknown@nowhere"])?;
    ensure!(!found && text.contains("no call with Call-ID unknown@nowhere"), "{text}");
    Ok(())
}
