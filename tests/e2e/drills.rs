//! Failover drills: what dies, under a load of new calls, and none of them is lost (requirements A6, A7,
//! C3 to C8, D4, D5, D9). Each drill prints its figures.

use anyhow::{Context as _, Result, ensure};
use lab::{
    TwoRegions,
    process::eventually,
    sipp::{self, Calls},
    two_regions::{PEERS, a1_first, quiet},
};
use serde_json::Value;
use std::{
    thread::sleep,
    time::{Duration, Instant},
};

/// New calls per second.
const RATE: u64 = 100;
const SOON: Duration = Duration::from_secs(10);
const MS: fn(u64) -> Duration = Duration::from_millis;

/// The example's configuration, made ready for load, with further sections.
fn config(further: &str) -> String {
    format!("{}\n{further}", quiet())
}

/// Both regions enforced, and back in use after two seconds.
const COMPOSITES: &str = r#"
[[health.source]]
name = "voice-a"
service = "voice"
region = "A"
[[health.source]]
name = "voice-b"
service = "voice"
region = "B"
[[health.composite]]
name = "region-a"
sources = ["voice-a"]
region = "A"
mode = "enforce"
hold_down_s = 2
[[health.composite]]
name = "region-b"
sources = ["voice-b"]
region = "B"
mode = "enforce"
hold_down_s = 2
"#;

fn ready(config: &str) -> Result<TwoRegions> {
    let mut lab = TwoRegions::new(1)?;
    lab.start_all_peers()?;
    lab.start_healthy(config)?;
    Ok(lab)
}

/// Places calls for some seconds, and does something to the laboratory after the first of them.
fn under_load<T>(
    lab: &mut TwoRegions,
    seconds: u64,
    act: impl FnOnce(&mut TwoRegions) -> Result<T>,
) -> Result<(Calls, T)> {
    let count = (RATE * seconds).to_string();
    let args = ["-r", &RATE.to_string(), "-m", &count, "-d", "300", "-l", "5000"];
    let mut caller = lab.start_caller(&sipp::quiet_call(), 5070, &args)?;
    sleep(Duration::from_secs(1));
    let done = act(lab)?;
    let calls = caller.wait(Duration::from_secs(seconds + 40))?;
    ensure!(
        calls.placed == RATE * seconds && calls.failed == 0,
        "{calls:?}: {}\n{}",
        caller.errors(),
        lab.running().log()
    );
    Ok((calls, done))
}

/// What `check` says is the worst case for a peer.
fn bound(lab: &TwoRegions) -> Result<Duration> {
    let peer = lab.running().peer("a1").context("a1")?;
    Ok(MS(peer["detection_bound_ms"].as_u64().context("a bound")?))
}

/// Waits until peers are UNHEALTHY; how long it took, within the bound and a bit for looking.
fn noticed(lab: &TwoRegions, peers: &[&str], since: Instant) -> Result<Duration> {
    let bound = bound(lab)?;
    for peer in peers {
        lab.running().wait_for(peer, "UNHEALTHY", SOON)?;
    }
    let took = since.elapsed();
    ensure!(took <= bound + MS(150), "noticed after {took:?}, the bound is {bound:?}");
    Ok(took)
}

fn attempts(lab: &TwoRegions, region: char) -> u64 {
    let of_region = PEERS.iter().filter(|(_, r, _)| *r == region);
    of_region.map(|(peer, _, _)| lab.running().attempts(peer)).sum()
}

/// Attempts in regions A and B within some time.
fn attempts_within(lab: &TwoRegions, time: Duration) -> (u64, u64) {
    let before = (attempts(lab, 'A'), attempts(lab, 'B'));
    sleep(time);
    (attempts(lab, 'A') - before.0, attempts(lab, 'B') - before.1)
}

fn composite(lab: &TwoRegions, name: &str) -> Result<Value> {
    let status = lab.running().status()?;
    let all = status["health"]["composites"].as_array().cloned().unwrap_or_default();
    all.into_iter().find(|c| c["name"] == name).context("the composite")
}

fn report(drill: &str, calls: Calls, noticed: Option<Duration>, bound: Duration) {
    let noticed = noticed.map_or("-".to_owned(), |n| format!("{} ms", n.as_millis()));
    println!(
        "drill: {drill}: {} calls, {} failed; noticed after {noticed}, bound {} ms",
        calls.placed,
        calls.failed,
        bound.as_millis()
    );
}

#[test]
fn a_peer_is_killed_frozen_and_cut_off() -> Result<()> {
    let mut lab = ready(&config(""))?;
    let bound = bound(&lab)?;
    let (calls, took) = under_load(&mut lab, 4, |lab| {
        let since = Instant::now();
        lab.kill_peer("a1");
        noticed(lab, &["a1"], since)
    })?;
    report("a process is killed", calls, Some(took), bound);
    lab.start_peer("a1", sipp::ANSWER, &[])?;
    lab.running().wait_for("a1", "HEALTHY", SOON)?;
    let (calls, took) = under_load(&mut lab, 6, |lab| {
        let since = Instant::now();
        lab.freeze_peer("a2")?;
        noticed(lab, &["a2"], since)
    })?;
    report("a process is frozen", calls, Some(took), bound);
    lab.kill_peer("a2");
    lab.start_peer("a2", sipp::ANSWER, &[])?;
    lab.running().wait_for("a2", "HEALTHY", SOON)?;
    let (calls, took) = under_load(&mut lab, 6, |lab| {
        let since = Instant::now();
        lab.set_link('A', "down")?;
        let took = noticed(lab, &["a1", "a2"], since)?;
        let (a, b) = attempts_within(lab, MS(1000));
        ensure!(a == 0 && b > 80, "with region A dark: {a} attempts there, {b} in B");
        Ok(took)
    })?;
    report("a region's link is cut", calls, Some(took), bound);
    lab.running().check_invariants()
}

#[test]
fn what_options_and_calls_say_is_put_together() -> Result<()> {
    let mut lab = TwoRegions::new(1)?;
    lab.start_all_peers()?;
    lab.kill_peer("a1");
    lab.start_peer("a1", &sipp::unwilling(), &[])?;
    lab.start_node(&a1_first())?;
    lab.running().wait_for("a1", "UNHEALTHY", SOON)?;
    let (calls, ()) = under_load(&mut lab, 2, |_| Ok(()))?;
    ensure!(lab.running().attempts("a1") == 0, "it says that it cannot serve");
    report("OPTIONS 503, calls 200", calls, None, bound(&lab)?);
    // The reverse: alive by OPTIONS, and refuses calls. Calls condemn it, probes bring it back, and each
    // time it is held down for longer.
    let hold = a1_first().replace("rise = 3", "rise = 1\nhold_down_ms = 1000");
    let mut lab = TwoRegions::new(1)?;
    lab.start_all_peers()?;
    lab.kill_peer("a1");
    lab.start_peer("a1", &sipp::refuse(503), &[])?;
    lab.start_healthy(&hold)?;
    let (calls, took) = under_load(&mut lab, 8, |lab| lab.running().wait_for("a1", "UNHEALTHY", SOON))?;
    ensure!(took < MS(1000), "calls condemn it at once, not after {took:?}");
    let falls = lab.running().status()?["events"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|e| e["name"] == "a1" && e["to"] == "UNHEALTHY")
        .count();
    ensure!((2..=4).contains(&falls), "{falls} falls in 8 s: 1 s, 2 s, 4 s of hold-down");
    ensure!(lab.running().attempts("a1") < 60, "few calls paid for that");
    report("OPTIONS 200, calls 503", calls, Some(took), bound(&lab)?);
    Ok(())
}

#[test]
fn a_flapping_peer_does_not_flap_traffic() -> Result<()> {
    let mut lab =
        ready(&config("").replace("rise = 3", "rise = 1\nhold_down_ms = 1500\nslow_start_ms = 2000"))?;
    let (calls, ()) = under_load(&mut lab, 12, |lab| {
        for _ in 0..3 {
            lab.kill_peer("a1");
            sleep(MS(1700));
            lab.start_peer("a1", sipp::ANSWER, &[])?;
            sleep(MS(1300));
        }
        Ok(())
    })?;
    let status = lab.running().status()?;
    let events: Vec<_> =
        status["events"].as_array().into_iter().flatten().filter(|e| e["name"] == "a1").collect();
    let falls = events.iter().filter(|e| e["to"] == "UNHEALTHY").count();
    ensure!((1..=2).contains(&falls), "{falls} falls: {events:?}");
    report("a peer flaps every 3 s", calls, None, bound(&lab)?);
    // It comes back slowly.
    lab.running().wait_for("a1", "HEALTHY", Duration::from_secs(20))?;
    let share = lab.running().peer("a1").and_then(|p| p["share"].as_u64());
    ensure!(share.is_some_and(|s| s < 100), "{share:?}");
    eventually("the whole share", SOON, || lab.running().peer("a1").is_some_and(|p| p["share"] == 100))
        .map(drop)
}

#[test]
fn a_drained_region_empties_and_comes_back_by_command() -> Result<()> {
    let mut lab = ready(&config(""))?;
    let (calls, ()) = under_load(&mut lab, 6, |lab| {
        let told = lab.running().tell(&["drain", "region", "A"])?;
        ensure!(told.contains("2 peers of region A are drained"), "{told}");
        let (a, b) = attempts_within(lab, MS(1000));
        ensure!(a <= 1 && b > 80, "drained: {a} attempts in A, {b} in B");
        lab.running().tell(&["enable", "region", "A"])?;
        let (a, b) = attempts_within(lab, MS(1000));
        ensure!(a > 80 && b <= 1, "enabled: {a} attempts in A, {b} in B");
        lab.running().tell(&["disable", "peer", "a1"])?;
        Ok(())
    })?;
    report("a region is drained and enabled", calls, None, bound(&lab)?);
    let (told, text) = lab.running().cli(&["drain", "peer", "nobody"])?;
    ensure!(!told && text.contains("there is no peer \"nobody\""), "{text}");
    let peer = lab.running().peer("a1").context("a1")?;
    ensure!(peer["admission"] == "disabled", "{peer}");
    Ok(())
}

#[test]
fn a_region_below_its_minimum_is_left_and_used_again_after_the_hold_down() -> Result<()> {
    let mut lab = ready(&config(COMPOSITES))?;
    let (calls, took) = under_load(&mut lab, 10, |lab| {
        let since = Instant::now();
        lab.kill_peer("a1");
        // 50 % of its peers are left, and 60 % are needed.
        let took = noticed(lab, &["a1"], since)?;
        eventually("region A is avoided", SOON, || {
            composite(lab, "region-a").is_ok_and(|c| c["avoided"] == true)
        })?;
        let (a, b) = attempts_within(lab, MS(1000));
        ensure!(a <= 1 && b > 80, "A is UNHEALTHY with a living peer: {a} attempts in A, {b} in B");
        lab.start_peer("a1", sipp::ANSWER, &[])?;
        lab.running().wait_for("a1", "HEALTHY", SOON)?;
        let back = eventually("region A is in use", SOON, || {
            composite(lab, "region-a").is_ok_and(|c| c["avoided"] == false)
        })?;
        ensure!((MS(1700)..MS(2400)).contains(&back), "back after {back:?} of hold-down");
        let (a, b) = attempts_within(lab, MS(1000));
        ensure!(a > 80 && b <= 1, "back: {a} attempts in A, {b} in B");
        Ok(took)
    })?;
    report("a region falls below its minimum and comes back", calls, Some(took), bound(&lab)?);
    Ok(())
}

#[test]
fn when_the_fallback_fails_too_the_region_held_down_is_used_at_once() -> Result<()> {
    let mut lab = ready(&config(COMPOSITES).replace("hold_down_s = 2", "hold_down_s = 600"))?;
    lab.kill_peer("a1");
    eventually("region A is avoided", SOON, || {
        composite(&lab, "region-a").is_ok_and(|c| c["avoided"] == true)
    })?;
    lab.start_peer("a1", sipp::ANSWER, &[])?;
    lab.running().wait_for("a1", "HEALTHY", SOON)?;
    let (calls, ()) = under_load(&mut lab, 6, |lab| {
        lab.kill_peer("b1");
        lab.kill_peer("b2");
        lab.running().wait_for("b2", "UNHEALTHY", SOON)?;
        let (a, b) = attempts_within(lab, MS(1000));
        ensure!(a > 80 && b <= 1, "{a} attempts in A, {b} in B");
        Ok(())
    })?;
    report("the fallback fails while the other region is held down", calls, None, bound(&lab)?);
    // The operator knows better than the hold-down.
    lab.start_peer("b1", sipp::ANSWER, &[])?;
    lab.start_peer("b2", sipp::ANSWER, &[])?;
    lab.running().wait_for("b1", "HEALTHY", SOON)?;
    lab.running().tell(&["release", "region-a"])?;
    ensure!(composite(&lab, "region-a")?["avoided"] == false);
    Ok(())
}

#[test]
fn a_shadow_says_what_would_happen_and_moves_nothing() -> Result<()> {
    let mut lab = ready(&config(COMPOSITES).replace("mode = \"enforce\"", "mode = \"shadow\""))?;
    let (calls, ()) = under_load(&mut lab, 5, |lab| {
        lab.kill_peer("a1");
        eventually("region A would be avoided", SOON, || {
            composite(lab, "region-a").is_ok_and(|c| c["avoided"] == true)
        })?;
        let (a, b) = attempts_within(lab, MS(1000));
        ensure!(a > 80 && b == 0, "{a} attempts in A, {b} in B");
        Ok(())
    })?;
    report("a composite in shadow mode", calls, None, bound(&lab)?);
    let status = lab.running().status()?;
    let told = status["events"]
        .as_array()
        .into_iter()
        .flatten()
        .any(|e| e["kind"] == "region" && e["to"] == "would be avoided");
    ensure!(told, "{}", status["events"]);
    Ok(())
}

#[test]
fn with_all_peers_dead_callers_are_told_at_once_and_served_again_when_one_is_back() -> Result<()> {
    let closed = config("").replace("media = \"off\"", "media = \"off\"\nfail_open = false");
    let mut lab = ready(&closed)?;
    PEERS.iter().for_each(|(peer, _, _)| lab.kill_peer(peer));
    for (peer, _, _) in PEERS {
        lab.running().wait_for(peer, "UNHEALTHY", SOON)?;
    }
    let args = ["-r", "200", "-m", "600", "-rtt_freq", "1", "-trace_rtt"];
    let start = Instant::now();
    let mut caller = lab.start_caller(&sipp::expect(503), 5070, &args)?;
    let calls = caller.wait(Duration::from_secs(20))?;
    ensure!(
        calls.successful == 600 && start.elapsed() < Duration::from_secs(6),
        "{calls:?} {}",
        caller.errors()
    );
    let (_, ready) = http(&lab, "/readyz")?;
    ensure!(
        ready["ready"] == false && ready["reasons"][0].as_str().is_some_and(|r| r.contains("voice")),
        "{ready}"
    );
    lab.start_peer("b2", sipp::ANSWER, &[])?;
    lab.running().wait_for("b2", "HEALTHY", Duration::from_secs(40))?;
    let (calls, ()) = under_load(&mut lab, 2, |_| Ok(()))?;
    report("all peers dead, one is back", calls, None, bound(&lab)?);
    Ok(())
}

#[test]
fn a_peer_that_never_answers_options_is_judged_by_calls() -> Result<()> {
    let passive = a1_first().replace(
        "interval_ms = 500\ntimeout_ms = 300",
        "kind = \"passive\"\npassive_fall = 3\ntrial_interval_ms = 1000",
    );
    let mut lab = TwoRegions::new(1)?;
    lab.start_all_peers()?;
    lab.kill_peer("a1");
    lab.start_node(&passive.replace("media = \"anchor\"", "media = \"off\""))?;
    let (calls, took) = under_load(&mut lab, 8, |lab| {
        lab.running().wait_for("a1", "UNHEALTHY", SOON)?;
        // From then on single calls try it, one a second.
        let before = lab.running().attempts("a1");
        sleep(MS(3000));
        let trials = lab.running().attempts("a1") - before;
        ensure!((2..=4).contains(&trials), "{trials} trial calls in 3 s");
        lab.start_peer("a1", sipp::ANSWER, &[])?;
        lab.running().wait_for("a1", "HEALTHY", SOON)
    })?;
    report("a peer without OPTIONS dies and comes back", calls, None, took);
    let probes = lab.running().status()?["peers"]
        .as_array()
        .into_iter()
        .flatten()
        .any(|p| !p["probe_rtt_us"].is_null());
    ensure!(!probes, "nobody was sent OPTIONS");
    Ok(())
}

/// Reads from the node's socket.
fn http(lab: &TwoRegions, path: &str) -> Result<(u16, Value)> {
    let (status, body) = lab.running().http("GET", path)?;
    Ok((status, serde_json::from_str(&body)?))
}
