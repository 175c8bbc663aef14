//! What health does to calls: the operator's word, given-up regions, trial calls, 5xx policies.

use crate::world::{ACCESS, Sent, World, assert_sent, brief, request, respond, respond_with};
use routing::{Admission, PeerState, ServerError, Trial};

/// Places a call; the INVITEs that were sent for it.
fn invite(w: &mut World, call: &str) -> Vec<Sent> {
    let sent = w.caller_sends(&request("INVITE", call));
    sent.into_iter().filter(|s| s.text.starts_with("INVITE")).collect()
}

fn addressee(sent: &Sent) -> String {
    brief(std::slice::from_ref(sent)).remove(0).1
}

/// Peer that a new call goes to first.
fn first_peer(w: &mut World, call: &str) -> String {
    let sent = invite(w, call);
    assert_eq!(sent.len(), 1, "one peer at a time");
    addressee(&sent[0])
}

#[test]
fn drained_peers_get_no_new_calls_and_disabled_ones_nothing() {
    let mut w = World::new();
    assert_eq!(first_peer(&mut w, "a"), "p0");
    assert_sent(&w.change(|t| t.peers[0].admission = Admission::Drained), &[]);
    assert_eq!(first_peer(&mut w, "b"), "p1", "drained: new calls go elsewhere, those under way stay");
    let sent = w.change(|t| t.peers[0].admission = Admission::Disabled);
    assert_sent(&sent, &[("INVITE", "p1")]);
    w.change(|t| t.peers.iter_mut().for_each(|p| p.admission = Admission::Drained));
    let sent = w.caller_sends(&request("INVITE", "c"));
    assert_sent(&sent, &[("100", "caller"), ("503", "caller")]);
}

#[test]
fn a_given_up_region_is_left_although_its_peers_live() {
    let mut w = World::new();
    w.change(|t| t.services[0].regions_down = 1);
    assert_eq!(first_peer(&mut w, "a"), "p2");
    // The other region fails, too: the survivors are the last resort.
    let sent = invite(&mut w, "b");
    let sent = w.peer_sends(2, &respond(&sent[0], 503));
    let sent = w.peer_sends(3, &respond(&sent[1], 503));
    assert_sent(&sent, &[("ACK", "p3"), ("INVITE", "p0")]);
    // With both given up their peers decide.
    w.change(|t| t.services[0].regions_down = 3);
    assert_eq!(first_peer(&mut w, "c"), "p0");
}

#[test]
fn one_call_tries_an_unhealthy_peer_and_is_completed_by_another_one() {
    let mut w = World::new();
    w.change(|t| {
        t.peers[1].state = PeerState::Unhealthy;
        t.peers[1].trial = Some(Trial::new());
    });
    let trial = invite(&mut w, "a");
    assert_eq!(addressee(&trial[0]), "p1");
    assert_eq!(first_peer(&mut w, "b"), "p0", "the others keep away from it");
    let sent = w.peer_sends(1, &respond(&trial[0], 503));
    assert_sent(&sent, &[("ACK", "p1"), ("INVITE", "p0")]);
    assert_eq!(w.evidence(1), (0, 1));
}

#[test]
fn a_drained_node_says_so_to_probes_and_to_callers_it_cannot_serve() {
    let mut w = World::new();
    let own = request("OPTIONS", "o").replace("sip:bob@example.com SIP", &format!("sip:{} SIP", ACCESS));
    assert_sent(&w.caller_sends(&own), &[("200", "caller")]);
    w.change(|t| t.draining = true);
    let sent = w.caller_sends(&own.replace("z9hG4bKo", "z9hG4bKp"));
    assert_sent(&sent, &[("503", "caller")]);
    assert!(sent[0].text.contains("\r\nRetry-After: 5\r\n"), "{}", sent[0].text);
    w.change(|t| t.draining = false);
    w.change(|t| t.services[0].regions_down = 3);
    let sent = w.caller_sends(&own.replace("z9hG4bKo", "z9hG4bKq"));
    assert_sent(&sent, &[("503", "caller")]);
    // Calls are tried all the same, and get 503 when nobody takes them: without Retry-After.
    let mut last = invite(&mut w, "c").remove(0);
    for n in 0..3 {
        last = w.peer_sends(n, &respond(&last, 503))[1].clone();
    }
    let sent = w.peer_sends(3, &respond_with(&last, 503, "Retry-After: 20\r\n", ""));
    assert_sent(&sent, &[("ACK", "p3"), ("503", "caller")]);
    assert!(!sent[1].text.contains("Retry-After"), "{}", sent[1].text);
}

#[test]
fn without_fail_open_a_call_nobody_can_take_is_refused_at_once() {
    let mut w = World::new();
    w.change(|t| {
        t.services[0].fail_open = false;
        t.peers.iter_mut().for_each(|p| p.state = PeerState::Unhealthy);
    });
    assert_sent(&w.caller_sends(&request("INVITE", "c")), &[("100", "caller"), ("503", "caller")]);
}

#[test]
fn what_a_server_error_means_is_a_matter_of_policy() {
    let outcome = |policy| {
        let mut w = World::new();
        w.change(|t| t.services[0].server_error = policy);
        let sent = invite(&mut w, "c");
        let sent = w.peer_sends(0, &respond(&sent[0], 500));
        (addressee(&sent[1]), w.evidence(0))
    };
    assert_eq!(outcome(ServerError::Pass), ("caller".to_owned(), (1, 0)));
    assert_eq!(outcome(ServerError::Retry), ("p1".to_owned(), (1, 0)));
    assert_eq!(outcome(ServerError::Failure), ("p1".to_owned(), (0, 1)));
}
