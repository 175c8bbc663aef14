extern crate std;
use super::*;
use Evidence::{Calls, ProbeAnswered, ProbeTimedOut, RetryAfter};
use State::{Healthy, Unhealthy, Unknown};
use std::{vec, vec::Vec};

const S: fn(u64) -> Duration = Duration::from_secs;
const CALL_ANSWERED: Evidence = Calls { answered: 1, failed: 0 };
const CALL_FAILED: Evidence = Calls { answered: 0, failed: 1 };

fn policy() -> Policy {
    Policy { interval: S(1), timeout: Duration::from_millis(500), passive_fall: 2, ..Policy::default() }
}

fn passive() -> Policy {
    Policy { kind: ProbeKind::Passive, ..policy() }
}

/// Applies evidence one second apart and compares the state after each.
fn run(steps: &[(Evidence, State)]) {
    let mut peer = PeerHealth::new(policy(), Duration::ZERO);
    let mut before = Unknown;
    for (i, (evidence, expected)) in steps.iter().enumerate() {
        let transition = peer.on_evidence(Duration::from_secs(i as u64), *evidence);
        assert_eq!(peer.state(), *expected, "step {i}: {evidence:?}");
        assert_eq!(transition.map(|t| (t.from, t.to)), (before != *expected).then_some((before, *expected)));
        before = *expected;
    }
}

#[test]
fn fall_and_rise_count_in_a_row() {
    run(&[
        (ProbeAnswered(200), Healthy),
        (ProbeTimedOut, Healthy),
        (ProbeTimedOut, Healthy),
        (ProbeAnswered(200), Healthy),
        (ProbeTimedOut, Healthy),
        (ProbeAnswered(503), Healthy),
        (ProbeTimedOut, Unhealthy),
        (ProbeAnswered(200), Unhealthy),
        (ProbeTimedOut, Unhealthy),
        (ProbeAnswered(200), Unhealthy),
        (ProbeAnswered(404), Healthy),
    ]);
}

#[test]
fn unknown_leaves_on_the_first_answer_or_on_fall_failures() {
    run(&[(ProbeAnswered(405), Healthy)]);
    run(&[(ProbeTimedOut, Unknown), (ProbeTimedOut, Unknown), (ProbeTimedOut, Unhealthy)]);
}

#[test]
fn calls_can_condemn_but_only_probes_bring_back() {
    run(&[
        (ProbeAnswered(200), Healthy),
        (CALL_FAILED, Healthy),
        (CALL_ANSWERED, Healthy),
        (CALL_FAILED, Healthy),
        (CALL_FAILED, Unhealthy),
        (CALL_ANSWERED, Unhealthy),
        (ProbeAnswered(200), Unhealthy),
        (ProbeAnswered(200), Healthy),
        (CALL_FAILED, Healthy),
    ]);
}

#[test]
fn retry_after_holds_the_peer_down_for_its_time() {
    run(&[
        (ProbeAnswered(200), Healthy),
        (RetryAfter(Duration::from_secs(3)), Unhealthy),
        (ProbeAnswered(200), Unhealthy),
        (ProbeAnswered(200), Unhealthy),
        (ProbeAnswered(200), Unhealthy),
        (ProbeAnswered(200), Healthy),
    ]);
    let mut peer = PeerHealth::new(policy(), Duration::ZERO);
    peer.on_evidence(Duration::ZERO, RetryAfter(Duration::from_secs(86_400)));
    for second in [301, 302] {
        peer.on_evidence(Duration::from_secs(second), ProbeAnswered(200));
    }
    assert_eq!(peer.state(), Healthy, "a hold is capped");
}

#[test]
fn measured_detection_never_exceeds_the_bound() {
    let bound = crate::bound::detection(&policy());
    // Death at any moment between two answered probes, with every jitter.
    for phase in 0..120 {
        for jitter in [80, 100, 120] {
            let step = policy().interval.mul_f64(f64::from(jitter) / 100.0);
            let death = step.mul_f64(f64::from(phase) / 120.0);
            let mut peer = PeerHealth::new(policy(), Duration::ZERO);
            peer.on_evidence(Duration::ZERO, ProbeAnswered(200));
            let noticed = (1u32..)
                .map(|n| step * n + policy().timeout)
                .find(|t| peer.on_evidence(*t, ProbeTimedOut).is_some());
            assert!(noticed.unwrap() - death <= bound);
        }
    }
}

#[test]
fn calls_settle_unknown_and_mixed_reports_prove_nothing() {
    run(&[(CALL_ANSWERED, Healthy), (CALL_FAILED, Healthy), (CALL_FAILED, Unhealthy)]);
    run(&[
        (ProbeAnswered(200), Healthy),
        (CALL_FAILED, Healthy),
        (Calls { answered: 1, failed: 40 }, Healthy),
        (CALL_FAILED, Unhealthy),
    ]);
    run(&[(CALL_FAILED, Unknown), (Calls { answered: 9, failed: 1 }, Healthy), (CALL_FAILED, Healthy)]);
}

#[test]
fn failing_answers_are_a_matter_of_policy() {
    let mut lenient = policy();
    lenient.failing.remove(503);
    lenient.failing.add(404);
    let mut peer = PeerHealth::new(lenient, Duration::ZERO);
    peer.on_evidence(S(0), ProbeAnswered(503));
    assert_eq!(peer.state(), Healthy);
    (1..=3).for_each(|s| _ = peer.on_evidence(S(s), ProbeAnswered(404)));
    assert_eq!(peer.state(), Unhealthy);
}

#[test]
fn a_recovering_peer_is_held_down_and_longer_each_time_it_falls_again() {
    let mut peer = PeerHealth::new(Policy { hold_down: S(10), ..policy() }, Duration::ZERO);
    peer.on_evidence(S(0), ProbeAnswered(200));
    let mut now = 1;
    let mut waited = Vec::new();
    for _ in 0..3 {
        while peer.state() == Healthy {
            peer.on_evidence(S(now), ProbeTimedOut);
            now += 1;
        }
        let fit = now;
        while peer.state() == Unhealthy {
            peer.on_evidence(S(now), ProbeAnswered(200));
            now += 1;
        }
        waited.push(now - 1 - (fit + 1));
    }
    assert_eq!(waited, [10, 20, 40]);

    // A failure during the hold-down begins it anew.
    let mut peer = PeerHealth::new(Policy { hold_down: S(10), ..policy() }, Duration::ZERO);
    (0..3).for_each(|s| _ = peer.on_evidence(S(s), ProbeTimedOut));
    (10..15).for_each(|s| _ = peer.on_evidence(S(s), ProbeAnswered(200)));
    assert_eq!(peer.deadline(), Some(S(21)));
    peer.on_evidence(S(15), ProbeTimedOut);
    assert_eq!((peer.deadline(), peer.on_time(S(21))), (None, None));
}

#[test]
fn slow_start_gives_the_share_back_in_steps() {
    let mut peer = PeerHealth::new(Policy { slow_start: S(90), ..policy() }, Duration::ZERO);
    peer.on_evidence(S(0), ProbeAnswered(200));
    assert_eq!(peer.share(), 100, "a peer that never failed has its share");
    (1..=3).for_each(|s| _ = peer.on_evidence(S(s), ProbeTimedOut));
    (9..=10).for_each(|s| _ = peer.on_evidence(S(s), ProbeAnswered(200)));
    let mut shares = vec![peer.share()];
    let mut times = Vec::new();
    while let Some(at) = peer.deadline() {
        assert_eq!(peer.on_time(at), None);
        shares.push(peer.share());
        times.push(at.as_secs());
    }
    assert_eq!(shares, [10, 20, 30, 40, 50, 60, 70, 80, 90, 100]);
    assert_eq!(times, [20, 30, 40, 50, 60, 70, 80, 90, 100]);
}

#[test]
fn a_peer_without_probes_is_judged_by_calls_and_tried_by_single_ones() {
    let mut peer = PeerHealth::new(passive(), Duration::ZERO);
    assert_eq!(peer.probe_interval(), None);
    peer.on_evidence(S(0), CALL_ANSWERED);
    peer.on_evidence(S(1), Calls { answered: 0, failed: 2 });
    assert_eq!((peer.state(), peer.trials(), peer.deadline()), (Unhealthy, 0, Some(S(31))));
    for trial in 1..=3 {
        let at = peer.deadline().unwrap();
        peer.on_time(at);
        assert_eq!(peer.trials(), trial);
        peer.on_evidence(at + S(1), CALL_FAILED);
        assert_eq!(peer.deadline(), Some(at + S(30)));
    }
    peer.on_time(S(121));
    let back = peer.on_evidence(S(122), CALL_ANSWERED).unwrap();
    assert_eq!((back.from, back.to, peer.deadline()), (Unhealthy, Healthy, None));
}

#[test]
fn a_peer_without_probes_and_traffic_is_unknown_in_the_end() {
    let mut peer = PeerHealth::new(passive(), Duration::ZERO);
    peer.on_evidence(S(0), Calls { answered: 0, failed: 2 });
    let mut last = None;
    while let Some(at) = peer.deadline() {
        last = peer.on_time(at).or(last);
    }
    let last = last.unwrap();
    assert_eq!((last.to, last.cause, peer.trials()), (Unknown, Cause::NoTraffic, 19));
    let held = peer.on_evidence(S(700), RetryAfter(S(5))).map(|t| t.to);
    assert_eq!((held, peer.deadline()), (Some(Unhealthy), Some(S(705))), "a trial when the hold is over");
}

#[test]
fn dead_peers_are_probed_less_often_and_recovering_ones_at_once() {
    let mut peer = PeerHealth::new(policy(), Duration::ZERO);
    let mut intervals = Vec::new();
    for second in 0..10 {
        peer.on_evidence(S(second), ProbeTimedOut);
        intervals.push(peer.probe_interval().unwrap().as_secs());
    }
    assert_eq!(intervals, [1, 1, 1, 2, 4, 8, 16, 20, 20, 20]);
    peer.on_evidence(S(20), ProbeAnswered(200));
    assert_eq!(peer.probe_interval(), Some(S(1)));
}

/// A year of random failures of a probed peer: it never changes faster than fall, rise and hold-down
/// allow, never has more than its share, and is never left waiting for a deadline that passed.
#[test]
fn a_simulated_year_keeps_every_promise() {
    let policy =
        Policy { interval: S(5), hold_down: S(60), slow_start: S(60), passive_fall: 3, ..Policy::default() };
    let mut seed = 7u64;
    let mut random = move |below: u64| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed % below
    };
    let mut peer = PeerHealth::new(policy, Duration::ZERO);
    let (mut now, mut next_probe, mut alive, mut until) = (Duration::ZERO, Duration::ZERO, true, S(3600));
    let (mut fell_at, mut rose_at, mut transitions, mut bad_since) = (None, None, 0, None);
    while now < S(365 * 86_400) {
        now = peer.deadline().map_or(next_probe, |at| at.min(next_probe)).max(now);
        if now >= until {
            alive = !alive;
            until = now + S(1 + random(if alive { 40_000 } else { 900 }));
        }
        let mut transition = peer.on_time(now);
        if now >= next_probe {
            let answered = alive && random(100) > 2;
            if answered {
                bad_since = None;
            } else {
                bad_since.get_or_insert(now);
            }
            let evidence = if answered { ProbeAnswered(200) } else { ProbeTimedOut };
            transition = transition.or(peer.on_evidence(now, evidence));
            next_probe = now + peer.probe_interval().unwrap();
        }
        if random(50) == 0 {
            let calls = if alive { CALL_ANSWERED } else { CALL_FAILED };
            transition = transition.or(peer.on_evidence(now, calls));
        }
        if let Some(t) = transition {
            transitions += 1;
            match t.to {
                Healthy if t.from == Unhealthy => {
                    let down: Duration = now - fell_at.unwrap();
                    assert!(down >= policy.hold_down, "came back after {down:?}");
                    assert_eq!(peer.share(), 10);
                    rose_at = Some(now);
                }
                Unhealthy => {
                    fell_at = Some(now);
                    assert_eq!(peer.share(), 100);
                }
                _ => {}
            }
        }
        if let (Healthy, Some(rose)) = (peer.state(), rose_at) {
            // Not ahead of a straight line, but for rounding in the ninth part of a minute.
            let line = 10 + (now - rose + Duration::from_nanos(10)).as_nanos() * 90 / 60_000_000_000;
            assert!(u128::from(peer.share()) <= line, "{} % after {:?}", peer.share(), now - rose);
        }
        if let Some(since) = bad_since
            && peer.state() == Healthy
        {
            assert!(now - since < crate::bound::detection(&policy), "dead and unnoticed since {since:?}");
        }
        assert!(peer.deadline().is_none_or(|at| at > now), "a deadline of the past");
    }
    assert!(transitions > 1_000, "{transitions} transitions");
}
