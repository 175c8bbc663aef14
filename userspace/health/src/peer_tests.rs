extern crate std;
use super::*;
use Evidence::{CallAnswered, CallFailed, ProbeAnswered, ProbeTimedOut, RetryAfter};
use State::{Healthy, Unhealthy, Unknown};

const POLICY: Policy = Policy {
    interval: Duration::from_secs(1),
    jitter_percent: 20,
    timeout: Duration::from_millis(500),
    fall: 3,
    rise: 2,
    passive_fall: 2,
};

/// Applies evidence one second apart and compares the state after each.
fn run(steps: &[(Evidence, State)]) {
    let mut peer = PeerHealth::new(POLICY);
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
        (CallFailed, Healthy),
        (CallAnswered, Healthy),
        (CallFailed, Healthy),
        (CallFailed, Unhealthy),
        (CallAnswered, Unhealthy),
        (ProbeAnswered(200), Unhealthy),
        (ProbeAnswered(200), Healthy),
        (CallFailed, Healthy),
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
    let mut peer = PeerHealth::new(POLICY);
    peer.on_evidence(Duration::ZERO, RetryAfter(Duration::from_secs(86_400)));
    for second in [301, 302] {
        peer.on_evidence(Duration::from_secs(second), ProbeAnswered(200));
    }
    assert_eq!(peer.state(), Healthy, "a hold is capped");
}

#[test]
fn success_codes() {
    for (status, success) in [
        (200, true),
        (302, true),
        (404, true),
        (405, true),
        (408, false),
        (480, true),
        (500, false),
        (501, true),
        (503, false),
        (504, false),
        (603, true),
    ] {
        assert_eq!(PeerHealth::is_success(status), success, "{status}");
    }
}

#[test]
fn measured_detection_never_exceeds_the_bound() {
    let bound = crate::bound::detection(&POLICY);
    // Death at any moment between two answered probes, with every jitter.
    for phase in 0..120 {
        for jitter in [80, 100, 120] {
            let step = POLICY.interval.mul_f64(f64::from(jitter) / 100.0);
            let death = step.mul_f64(f64::from(phase) / 120.0);
            let mut peer = PeerHealth::new(POLICY);
            peer.on_evidence(Duration::ZERO, ProbeAnswered(200));
            let noticed = (1u32..)
                .map(|n| step * n + POLICY.timeout)
                .find(|t| peer.on_evidence(*t, ProbeTimedOut).is_some());
            assert!(noticed.unwrap() - death <= bound);
        }
    }
}
