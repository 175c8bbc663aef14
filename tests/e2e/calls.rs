//! Calls through the node on the XDP path: complete, with media both ways, and what a failing peer does
//! to them.

use anyhow::{Result, ensure};
use lab::{
    TwoRegions,
    process::eventually,
    rtp::{MediaCall, stream},
    sipp, two_regions,
};
use std::{net::SocketAddr, time::Duration};

const SOON: Duration = Duration::from_secs(10);

fn address(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}

/// A laboratory whose peers are all found healthy.
fn healthy() -> Result<TwoRegions> {
    let mut lab = TwoRegions::new(1)?;
    lab.start_all_peers()?;
    lab.start_healthy(two_regions::CONFIG)?;
    Ok(lab)
}

/// Replaces peer a1 by one with another scenario, gives it all calls of region A, and waits until the
/// node finds it healthy.
fn only_a1(scenario: &str) -> Result<TwoRegions> {
    let mut lab = TwoRegions::new(1)?;
    lab.start_all_peers()?;
    lab.kill_peer("a1");
    lab.start_peer("a1", scenario, &[])?;
    lab.start_healthy(&two_regions::a1_first())?;
    Ok(lab)
}

#[test]
fn calls_complete_with_media_and_go_to_the_local_region() -> Result<()> {
    let mut lab = healthy()?;
    let mut caller = lab.start_caller(sipp::CALL, 5070, &["-r", "20", "-m", "60", "-d", "2500"])?;
    let calls = caller.wait(Duration::from_secs(30))?;
    ensure!(calls.successful == 60 && calls.failed == 0, "{calls:?}: {}", caller.errors());
    let attempts = |peer| lab.running().attempts(peer);
    ensure!(attempts("a1") + attempts("a2") == 60, "all calls stay in region A");
    ensure!(attempts("a1") > 10 && attempts("a2") > 10, "both peers take a share");
    ensure!(lab.running().counter("media_relayed") >= 2 * 60 * 90, "audio ran both ways");
    eventually("all media sessions end with their calls", SOON, || {
        lab.running().status().is_ok_and(|s| s["workers"][0]["gauges"]["media_sessions"] == 0)
    })?;
    let status = lab.running().status()?;
    ensure!(status["drops"]["sip_stray_response"].is_null(), "{}", status["drops"]);
    ensure!(status["xdp"][0]["mode"] == "native", "{}", status["xdp"]);
    lab.running().check_invariants()?;
    lab.node.as_mut().expect("a node").stop()
}

#[test]
fn twenty_four_streams_lose_nothing() -> Result<()> {
    let lab = healthy()?;
    let results = lab.carrier.enter(|| -> Result<_> {
        let mut calls = (0..24)
            .map(|n| MediaCall::place(address("192.0.2.10:0"), address(two_regions::NODE), n))
            .collect::<Result<Vec<_>>>()?;
        stream(&mut calls, Duration::from_secs(4))?;
        calls.into_iter().map(MediaCall::hang_up).collect::<Result<Vec<_>>>()
    })??;
    for (n, result) in results.iter().enumerate() {
        ensure!(result.sent == 200 && result.echoed == 200 && result.wrong == 0, "stream {n}: {result:?}");
    }
    Ok(())
}

#[test]
fn a_retryable_refusal_or_silence_moves_the_call_to_the_next_local_peer() -> Result<()> {
    for status in [408, 503, 504, 0] {
        let scenario = if status == 0 { sipp::SILENT.to_owned() } else { sipp::refuse(status) };
        let lab = only_a1(&scenario)?;
        let mut caller = lab.start_caller(sipp::CALL, 5070, &["-r", "5", "-m", "2", "-d", "500"])?;
        let calls = caller.wait(Duration::from_secs(30))?;
        ensure!(calls.successful == 2 && calls.failed == 0, "{status}: {calls:?} {}", caller.errors());
        let attempts = |peer| lab.running().attempts(peer);
        ensure!(
            (attempts("a1"), attempts("a2")) == (2, 2),
            "{status}: a1 {}, a2 {}",
            attempts("a1"),
            attempts("a2")
        );
        ensure!(attempts("b1") + attempts("b2") == 0, "{status}: the other region was asked");
        ensure!(lab.running().counter("calls_rescued") == 2, "{status}");
    }
    Ok(())
}

#[test]
fn any_other_refusal_is_final() -> Result<()> {
    for status in [404, 486, 500, 603] {
        let lab = only_a1(&sipp::refuse(status))?;
        let mut caller = lab.start_caller(&sipp::expect(status), 5070, &["-m", "1"])?;
        let calls = caller.wait(Duration::from_secs(20))?;
        ensure!(calls.successful == 1, "{status}: {calls:?} {}", caller.errors());
        ensure!(lab.running().counter("retries") == 0, "{status} was retried");
        ensure!(lab.running().counter("calls_refused") == 1, "{status}");
    }
    Ok(())
}

#[test]
fn a_cancel_reaches_the_ringing_peer_and_the_caller_gets_487() -> Result<()> {
    let lab = only_a1(sipp::RING)?;
    let mut caller = lab.start_caller(sipp::CANCEL, 5070, &["-m", "3", "-r", "5"])?;
    let calls = caller.wait(Duration::from_secs(20))?;
    ensure!(calls.successful == 3, "{calls:?} {}", caller.errors());
    ensure!(lab.running().counter("calls_cancelled") == 3);
    ensure!(lab.running().counter("retries") == 0);
    Ok(())
}

#[test]
fn calls_that_ring_at_a_dying_peer_are_answered_by_another() -> Result<()> {
    let mut lab = only_a1(sipp::RING)?;
    let mut caller = lab.start_caller(sipp::CALL, 5070, &["-r", "20", "-m", "20", "-d", "300"])?;
    eventually("all calls ring", SOON, || {
        lab.running().peer("a1").is_some_and(|p| p["attempts"].as_u64() == Some(20))
    })?;
    lab.kill_peer("a1");
    let calls = caller.wait(Duration::from_secs(30))?;
    ensure!(calls.successful == 20 && calls.failed == 0, "{calls:?} {}", caller.errors());
    ensure!(lab.running().counter("calls_rescued") == 20, "{}", lab.running().log());
    Ok(())
}

#[test]
fn a_dying_region_loses_no_new_call_and_is_used_again_when_it_is_back() -> Result<()> {
    let mut lab = healthy()?;
    let mut caller = lab.start_caller(sipp::CALL, 5070, &["-r", "20", "-m", "320", "-d", "1000"])?;
    std::thread::sleep(Duration::from_secs(2));
    let bound = lab.running().peer("a1").and_then(|p| p["detection_bound_ms"].as_u64()).unwrap_or_default();
    let bound = Duration::from_millis(bound);
    for peer in ["a1", "a2"] {
        lab.kill_peer(peer);
        let noticed = lab.running().wait_for(peer, "UNHEALTHY", SOON)?;
        ensure!(noticed <= bound + Duration::from_millis(100), "{peer}: {noticed:?}, bound {bound:?}");
    }
    std::thread::sleep(Duration::from_secs(3));
    lab.start_peer("a1", sipp::ANSWER, &["-rtp_echo"])?;
    lab.running().wait_for("a1", "HEALTHY", SOON)?;
    let attempts = |peer| lab.running().attempts(peer);
    let before = (attempts("a1"), attempts("b1") + attempts("b2"));
    std::thread::sleep(Duration::from_secs(2));
    let after = (attempts("a1"), attempts("b1") + attempts("b2"));
    ensure!(after.0 > before.0 + 20 && after.1 <= before.1 + 1, "back to region A: {before:?} {after:?}");
    let calls = caller.wait(Duration::from_secs(40))?;
    ensure!(
        calls.placed == 320 && calls.failed == 0,
        "{calls:?}: {} {}",
        caller.errors(),
        lab.running().log()
    );
    ensure!(lab.running().counter("calls_answered") == 320);
    lab.running().check_invariants()?;
    Ok(())
}

#[test]
fn a_restart_under_load_is_followed_by_calls_as_before() -> Result<()> {
    let mut lab = healthy()?;
    let mut caller = lab.start_caller(sipp::CALL, 5070, &["-r", "20", "-m", "200", "-d", "300"])?;
    std::thread::sleep(Duration::from_secs(3));
    lab.node.as_mut().expect("a node").stop()?;
    lab.start_node(two_regions::CONFIG)?;
    let calls = caller.wait(Duration::from_secs(60))?;
    // Only calls whose INVITE was with the old process at its end may suffer.
    ensure!(calls.placed == 200 && calls.failed <= 2, "{calls:?} {}", caller.errors());
    ensure!(lab.running().counter("calls_answered") > 100, "the new process took over");
    Ok(())
}
