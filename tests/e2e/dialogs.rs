//! What SIP says of a proxy, on the XDP path with SIPp on both sides: dialogs, cancellations, forks,
//! redirections, and every kind of request.

use anyhow::{Result, ensure};
use lab::{Script, TwoRegions, process::eventually, sipp, two_regions};
use std::time::Duration;

const SOON: Duration = Duration::from_secs(10);

/// A laboratory whose first peers follow scripts, in the order in which they are tried; the others answer.
fn scripted(scripts: &[(&'static str, String)], change: impl Fn(&str) -> String) -> Result<TwoRegions> {
    let mut lab = TwoRegions::new(1)?;
    for (peer, _, _) in two_regions::PEERS {
        match scripts.iter().find(|(name, _)| *name == peer) {
            Some((_, script)) => lab.start_peer(peer, script, &[])?,
            None => lab.start_peer(peer, sipp::ANSWER, &[])?,
        }
    }
    lab.start_healthy(&change(&two_regions::a1_first()))?;
    Ok(lab)
}

/// Both local peers are asked at once.
fn parallel(config: &str) -> String {
    config
        .replace("media = \"anchor\"", "media = \"anchor\"\nfork = \"parallel\"")
        .replace("\npriority = 1", "")
}

/// One call of each script; both must end as written.
fn converse(lab: &mut TwoRegions, caller: &Script, peer: &'static str) -> Result<()> {
    let mut running = lab.start_caller(&caller.clone().finish(), 5070, &["-m", "1"])?;
    let calls = running.wait(Duration::from_secs(40))?;
    ensure!(calls.successful == 1 && calls.failed == 0, "caller: {calls:?} {}", running.errors());
    // Probes are calls of the peer's, too; a failed conversation shows as a failed one.
    let peer = lab.peer(peer).expect("the peer");
    eventually("the peer's side ends", SOON, || peer.calls().successful > 0)?;
    let calls = peer.calls();
    ensure!(calls.failed == 0, "peer: {calls:?} {}", peer.errors());
    Ok(())
}

fn answered() -> Script {
    Script::caller().send("INVITE", "").optional(100).optional(180).expect(200).send_in_dialog("ACK", 1, "")
}

fn answering() -> Script {
    Script::peer().receive("INVITE").reply_to_invite(180, "").reply_to_invite(200, "").receive("ACK")
}

#[test]
fn every_method_travels_within_a_dialog_in_both_directions() -> Result<()> {
    let mut caller = answered();
    let mut peer = answering();
    for (cseq, method, status) in
        [(2, "UPDATE", 200), (3, "INFO", 200), (4, "MESSAGE", 202), (5, "REFER", 202), (6, "SUBSCRIBE", 200)]
    {
        caller = caller
            .send_in_dialog(method, cseq, "Refer-To: <sip:x@192.0.2.10>\nEvent: refer\n")
            .expect(status);
        peer = peer.receive(method).reply_in_dialog(status);
    }
    // A re-INVITE, and requests from the other side.
    caller = caller.send_in_dialog("INVITE", 7, "").optional(100).expect(200).send_in_dialog("ACK", 7, "");
    peer = peer.receive("INVITE").reply_in_dialog(200).receive("ACK");
    for method in ["NOTIFY", "INFO", "UPDATE"] {
        caller = caller.receive(method).reply_in_dialog(200);
        peer = peer.send_back(method, 100 + method.len() as u32).expect(200);
    }
    caller = caller.send_in_dialog("BYE", 8, "").expect(200);
    peer = peer.receive("BYE").reply_in_dialog(200);
    let mut lab = scripted(&[("a1", peer.finish())], str::to_owned)?;
    converse(&mut lab, &caller, "a1")?;
    ensure!(
        lab.running().attempts("a2") + lab.running().attempts("b1") == 0,
        "all of it went to the dialog's peer"
    );
    ensure!(lab.running().counter("unproven_dialogs") == 0);
    Ok(())
}

#[test]
fn a_peer_hangs_up() -> Result<()> {
    let peer = answering().pause(200).send_back("BYE", 7).expect(200);
    let caller = answered().receive("BYE").reply_in_dialog(200);
    let mut lab = scripted(&[("a1", peer.finish())], str::to_owned)?;
    converse(&mut lab, &caller, "a1")
}

#[test]
fn reliable_provisional_responses_are_acknowledged_through_the_node() -> Result<()> {
    let caller = Script::caller()
        .send("INVITE", "Supported: 100rel\n")
        .optional(100)
        .expect(183)
        .send_in_dialog("PRACK", 2, "RAck: 1 1 INVITE\n")
        .expect(200)
        .expect(200)
        .send_in_dialog("ACK", 1, "")
        .send_in_dialog("BYE", 3, "")
        .expect(200);
    let peer = Script::peer()
        .receive("INVITE")
        .reply_to_invite(183, "Require: 100rel\nRSeq: 1\n")
        .receive("PRACK")
        .reply_in_dialog(200)
        .pause(100)
        .reply_to_invite(200, "")
        .receive("ACK")
        .receive("BYE")
        .reply_in_dialog(200);
    let mut lab = scripted(&[("a1", peer.finish())], str::to_owned)?;
    converse(&mut lab, &caller, "a1")
}

#[test]
fn a_cancel_is_held_back_until_the_peer_is_heard() -> Result<()> {
    let caller =
        Script::caller().send("INVITE", "").expect(100).cancel().expect(200).expect(487).ack_refusal();
    let peer = Script::peer()
        .receive("INVITE")
        .pause(250)
        .reply_to_invite(180, "")
        .receive("CANCEL")
        .reply(200, "")
        .reply_to_invite(487, "")
        .receive("ACK");
    let mut lab = scripted(&[("a1", peer.finish())], str::to_owned)?;
    converse(&mut lab, &caller, "a1")?;
    ensure!(lab.running().counter("calls_cancelled") == 1 && lab.running().counter("retries") == 0);
    Ok(())
}

#[test]
fn a_cancel_that_crosses_the_answer_leaves_the_call_up() -> Result<()> {
    let caller = Script::caller()
        .send("INVITE", "")
        .optional(100)
        .expect(180)
        .cancel()
        .expect(200)
        .expect(200)
        .send_in_dialog("ACK", 1, "")
        .send_in_dialog("BYE", 2, "")
        .expect(200);
    let peer = Script::peer()
        .receive("INVITE")
        .reply_to_invite(180, "")
        .receive("CANCEL")
        .reply(200, "")
        .reply_to_invite(200, "")
        .receive("ACK")
        .receive("BYE")
        .reply_in_dialog(200);
    let mut lab = scripted(&[("a1", peer.finish())], str::to_owned)?;
    converse(&mut lab, &caller, "a1")?;
    ensure!(lab.running().counter("calls_answered") == 1);
    Ok(())
}

#[test]
fn a_peer_that_answers_after_the_call_moved_on_is_not_lost() -> Result<()> {
    // a1 answers after 1 s, when a2 has been asked already (attempt timeout 0.5 s) and rings.
    let late = Script::peer()
        .receive("INVITE")
        .pause(1000)
        .reply_to_invite(200, "")
        .receive("ACK")
        .receive("BYE")
        .reply_in_dialog(200);
    let rings = Script::peer()
        .receive("INVITE")
        .reply_to_invite(180, "")
        .receive("CANCEL")
        .reply(200, "")
        .reply_to_invite(487, "")
        .receive("ACK");
    let mut lab = scripted(&[("a1", late.finish()), ("a2", rings.finish())], str::to_owned)?;
    let caller = answered().send_in_dialog("BYE", 2, "").expect(200);
    converse(&mut lab, &caller, "a1")?;
    ensure!((lab.running().attempts("a1"), lab.running().attempts("a2")) == (1, 1));
    let a2 = lab.peer("a2").expect("a2");
    ensure!(a2.calls().failed == 0, "{}", a2.errors());
    Ok(())
}

#[test]
fn a_peer_that_asks_for_rest_gets_it() -> Result<()> {
    let refuses = Script::peer().receive("INVITE").reply_to_invite(503, "Retry-After: 4\n").receive("ACK");
    let lab = scripted(&[("a1", refuses.finish())], str::to_owned)?;
    let mut caller = lab.start_caller(sipp::CALL, 5070, &["-r", "5", "-m", "15", "-d", "100"])?;
    let calls = caller.wait(Duration::from_secs(30))?;
    ensure!(calls.successful == 15 && calls.failed == 0, "{calls:?} {}", caller.errors());
    // 3 s of calls: only those placed before the 503 was known went to a1, though it answers its probes.
    ensure!(lab.running().attempts("a1") <= 2, "{} attempts at a1", lab.running().attempts("a1"));
    lab.running().wait_for("a1", "HEALTHY", SOON)?;
    Ok(())
}

#[test]
fn a_6xx_ends_a_parallel_fork() -> Result<()> {
    let declines = Script::peer().receive("INVITE").pause(300).reply_to_invite(603, "").receive("ACK");
    let peers = [("a1", sipp::RING.to_owned()), ("a2", declines.finish())];
    let mut lab = scripted(&peers, parallel)?;
    let caller = Script::caller().send("INVITE", "").optional(100).optional(180).expect(603).ack_refusal();
    converse(&mut lab, &caller, "a1")?;
    ensure!((lab.running().attempts("a1"), lab.running().attempts("a2")) == (1, 1));
    ensure!(
        lab.running().counter("retries") == 0
            && lab.running().attempts("b1") + lab.running().attempts("b2") == 0
    );
    Ok(())
}

#[test]
fn the_first_to_answer_a_parallel_fork_gets_the_call() -> Result<()> {
    let peers = [("a1", sipp::RING.to_owned())];
    let mut lab = scripted(&peers, parallel)?;
    let caller = answered().send_in_dialog("BYE", 2, "").expect(200);
    converse(&mut lab, &caller, "a1")?;
    ensure!((lab.running().attempts("a1"), lab.running().attempts("a2")) == (1, 1));
    Ok(())
}

#[test]
fn redirections_are_passed_on_and_not_followed() -> Result<()> {
    for status in [300, 301, 302, 305, 380] {
        let redirects = Script::peer().receive("INVITE").reply_to_invite(status, "").receive("ACK");
        let mut lab = scripted(&[("a1", redirects.finish())], str::to_owned)?;
        let caller = Script::caller().send("INVITE", "").optional(100).expect(status).ack_refusal();
        converse(&mut lab, &caller, "a1")?;
        ensure!(lab.running().attempts("a2") == 0 && lab.running().counter("retries") == 0, "{status}");
    }
    Ok(())
}

#[test]
fn a_dialog_stays_with_its_peer_whatever_becomes_of_the_table() -> Result<()> {
    let peer = answering().receive("INFO").reply_in_dialog(200).receive("BYE").reply_in_dialog(200);
    let mut lab = scripted(&[("a1", peer.finish())], str::to_owned)?;
    let caller = answered()
        .pause(4000)
        .send_in_dialog("INFO", 2, "")
        .expect(200)
        .send_in_dialog("BYE", 3, "")
        .expect(200);
    let before = lab.running().status()?["generation"].as_u64();
    let mut running = lab.start_caller(&caller.finish(), 5070, &["-m", "1"])?;
    eventually("the call is up", SOON, || lab.running().counter("calls_answered") == 1)?;
    // Three other peers die meanwhile.
    for peer in ["a2", "b1", "b2"] {
        lab.kill_peer(peer);
        lab.running().wait_for(peer, "UNHEALTHY", SOON)?;
    }
    ensure!(lab.running().status()?["generation"].as_u64() > before, "the table changed");
    let calls = running.wait(Duration::from_secs(20))?;
    ensure!(calls.successful == 1 && calls.failed == 0, "{calls:?} {}", running.errors());
    Ok(())
}

#[test]
fn requests_outside_dialogs_find_a_peer_and_its_answer_finds_back() -> Result<()> {
    for (method, status) in
        [("MESSAGE", 202), ("SUBSCRIBE", 200), ("REGISTER", 200), ("PUBLISH", 200), ("REFER", 202)]
    {
        let peer = Script::peer().receive(method).reply(status, "");
        let mut lab = scripted(&[("a1", peer.finish())], str::to_owned)?;
        let caller =
            Script::caller().send(method, "Event: presence\nRefer-To: <sip:x@192.0.2.10>\n").expect(status);
        converse(&mut lab, &caller, "a1")?;
    }
    Ok(())
}

#[test]
fn a_stateless_route_carries_calls_and_keeps_no_transaction() -> Result<()> {
    let mut lab = scripted(&[], |config| config.replace("media = \"anchor\"", "state = \"stateless\""))?;
    let mut caller = lab.start_caller(sipp::CALL, 5070, &["-r", "20", "-m", "40", "-d", "300"])?;
    let calls = caller.wait(Duration::from_secs(30))?;
    ensure!(calls.successful == 40 && calls.failed == 0, "{calls:?} {}", caller.errors());
    let status = lab.running().status()?;
    ensure!(status["workers"][0]["gauges"]["transactions"] == 0, "{}", status["workers"]);
    ensure!(lab.running().counter("stateless") >= 40 * 6, "{}", status["counters"]);
    // The upstream's own refusals and retries: what the peer says is passed on.
    lab.kill_peer("a1");
    lab.start_peer("a1", &sipp::refuse(503), &[])?;
    let refused = Script::caller().send("INVITE", "").expect(503).ack_refusal();
    lab.running().wait_for("a1", "HEALTHY", SOON)?;
    converse(&mut lab, &refused, "a1")
}
