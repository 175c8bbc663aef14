//! Calls in virtual time: who gets what, when, and what is left afterwards.

use crate::world::{
    Sent, World, assert_sent, callees_routes, callers_routes, header, request, request_with, respond,
    respond_with, sdp,
};
use proxy::{Counter, Report};
use routing::{PeerId, PeerState};
use std::time::Duration;

const MS: fn(u64) -> Duration = Duration::from_millis;

fn count(w: &World, counter: Counter) -> u64 {
    w.engine.tally.counters[counter as usize]
}

/// Places a call; the INVITE that p0 received.
fn invite(w: &mut World, call: &str) -> Sent {
    let sent = w.caller_sends(&request_with("INVITE", call, "", &sdp("192.0.2.10", 4000)));
    assert_sent(&sent, &[("100", "caller"), ("INVITE", "p0")]);
    sent[1].clone()
}

/// A BYE or another request within the dialog, from the caller.
fn in_dialog(method: &str, call: &str, cseq: u32, routes: &str) -> String {
    format!(
        "{method} sip:bob@{p} SIP/2.0\r\nVia: SIP/2.0/UDP {c};branch=z9hG4bK{call}{method}{cseq}\r\nMax-Forwards: 70\r\n\
         {routes}From: <sip:alice@example.com>;tag=a\r\n\
         To: <sip:bob@example.com>;tag=b\r\nCall-ID: {call}\r\nCSeq: {cseq} {method}\r\nContent-Length: 0\r\n\r\n",
        p = crate::world::peer(0),
        c = crate::world::CALLER,
    )
}

/// A call that p0 has answered.
fn answered(w: &mut World, call: &str) -> Sent {
    let received = invite(w, call);
    let ok = respond_with(
        &received,
        200,
        "Contact: <sip:bob@198.51.100.11:5060>\r\n",
        &sdp("198.51.100.11", 6000),
    );
    let sent = w.peer_sends(0, &ok);
    assert_sent(&sent, &[("200", "caller")]);
    assert_sent(&w.caller_sends(&in_dialog("ACK", call, 1, &callers_routes(&sent[0]))), &[("ACK", "p0")]);
    sent[0].clone()
}

#[test]
fn a_call_is_forwarded_as_rfc_3261_says_and_leaves_nothing_behind() {
    let mut w = World::new();
    let received = invite(&mut w, "c1");
    let vias = header(&received.text, "Via");
    assert_eq!(vias.len(), 2);
    assert!(vias[0].starts_with("SIP/2.0/UDP 198.18.0.1:5060;branch=z9hG4bK-sw"), "{}", vias[0]);
    assert_eq!(vias[1], "SIP/2.0/UDP 192.0.2.10:5070;branch=z9hG4bKc1;rport=5070;received=192.0.2.10");
    let routes = header(&received.text, "Record-Route");
    assert!(routes[0].starts_with("<sip:a") && routes[0].ends_with("@198.18.0.1:5060;lr>"), "{routes:?}");
    assert!(routes[1].starts_with("<sip:a") && routes[1].ends_with("@192.0.2.1:5060;lr>"), "{routes:?}");
    assert_eq!(header(&received.text, "Max-Forwards"), ["69"]);
    assert_eq!(header(&received.text, "Max-Breadth"), ["60"]);
    assert!(received.text.starts_with("INVITE sip:bob@example.com SIP/2.0\r\n"), "the Request-URI stays");
    assert!(
        received.text.contains("c=IN IP4 198.18.0.1\r\n") && !received.text.contains("m=audio 4000"),
        "media is anchored"
    );
    let body = received.text.split("\r\n\r\n").nth(1).unwrap();
    assert_eq!(header(&received.text, "Content-Length"), [body.len().to_string()]);

    let ringing = w.peer_sends(0, &respond(&received, 180));
    assert_sent(&ringing, &[("180", "caller")]);
    assert_eq!(header(&ringing[0].text, "Via").len(), 1);
    let ok = respond_with(
        &received,
        200,
        "Contact: <sip:bob@198.51.100.11:5060>\r\n",
        &sdp("198.51.100.11", 6000),
    );
    let answer = w.peer_sends(0, &ok);
    assert_sent(&answer, &[("200", "caller")]);
    assert!(answer[0].text.contains("c=IN IP4 192.0.2.1\r\n") && !answer[0].text.contains("m=audio 6000"));
    // The peer repeats its 200 until the ACK comes; each passes.
    assert_sent(&w.peer_sends(0, &ok), &[("200", "caller")]);
    let routes = callers_routes(&answer[0]);
    let ack = w.caller_sends(&in_dialog("ACK", "c1", 1, &routes));
    assert_sent(&ack, &[("ACK", "p0")]);
    assert_eq!(header(&ack[0].text, "Route"), Vec::<&str>::new());
    assert_eq!(w.engine.sessions(), 1);

    let bye = w.caller_sends(&in_dialog("BYE", "c1", 2, &routes));
    assert_sent(&bye, &[("BYE", "p0")]);
    assert_sent(&w.peer_sends(0, &respond(&bye[0], 200)), &[("200", "caller")]);
    assert_eq!(w.engine.sessions(), 0, "the ports are free again");
    assert_sent(&w.pass(Duration::from_secs(70)), &[]);
    assert_eq!(w.engine.transactions(), 0);
    assert_eq!((count(&w, Counter::CallsAnswered), count(&w, Counter::Retries)), (1, 0));
}

#[test]
fn retryable_answers_go_to_the_next_local_peer_then_to_the_other_region() {
    for status in [408, 503, 504] {
        let mut w = World::new();
        let first = invite(&mut w, "c");
        let sent = w.peer_sends(0, &respond(&first, status));
        assert_sent(&sent, &[("ACK", "p0"), ("INVITE", "p1")]);
        assert_eq!(
            header(&sent[0].text, "Via")[0],
            header(&first.text, "Via")[0],
            "the ACK has the INVITE's branch"
        );
        assert_ne!(header(&sent[1].text, "Via")[0], header(&first.text, "Via")[0], "the retry has a new one");
        let sent = w.peer_sends(1, &respond(&sent[1], status));
        assert_sent(&sent, &[("ACK", "p1"), ("INVITE", "p2")]);
        let answer = w.peer_sends(2, &respond(&sent[1], 200));
        assert_sent(&answer, &[("200", "caller")]);
        assert_eq!(count(&w, Counter::CallsRescued), 1);
        assert_eq!(count(&w, Counter::RetriesOtherRegion), 1);
    }
}

#[test]
fn every_other_answer_is_final_after_one_attempt() {
    for status in
        (300..700).filter(|s| ![408, 503, 504].contains(s)).step_by(7).chain([404, 486, 487, 500, 603])
    {
        let mut w = World::new();
        let first = invite(&mut w, "c");
        let sent = w.peer_sends(0, &respond(&first, status));
        assert_sent(&sent, &[("ACK", "p0"), (&status.to_string(), "caller")]);
        assert_eq!(w.engine.sessions(), 0);
    }
}

#[test]
fn silence_moves_the_call_and_late_answers_are_treated_as_they_deserve() {
    let mut w = World::new();
    let first = invite(&mut w, "c");
    // Retransmissions at 0.5 and 1.5 s, then the next peer at 2 s.
    assert_sent(&w.pass(MS(1990)), &[("INVITE", "p0"), ("INVITE", "p0")]);
    let second = w.pass(MS(20));
    assert_sent(&second, &[("INVITE", "p1")]);
    assert_eq!(w.evidence(0), (0, 1));
    // A late provisional is not for the caller, and earns a CANCEL.
    let sent = w.peer_sends(0, &respond(&first, 180));
    assert_sent(&sent, &[("CANCEL", "p0")]);
    assert_eq!(header(&sent[0].text, "CSeq"), ["1 CANCEL"]);
    assert_eq!(header(&sent[0].text, "Via"), [header(&first.text, "Via")[0]]);
    assert_sent(&w.peer_sends(1, &respond(&second[0], 200)), &[("200", "caller")]);
    // p0 answered before the CANCEL reached it: the 200 must not vanish.
    assert_sent(&w.peer_sends(0, &respond(&first, 200)), &[("200", "caller")]);
}

#[test]
fn a_late_refusal_of_an_abandoned_attempt_is_acknowledged_and_absorbed() {
    let mut w = World::new();
    let first = invite(&mut w, "c");
    w.pass(MS(2010));
    assert_sent(&w.peer_sends(0, &respond(&first, 486)), &[("ACK", "p0")]);
    assert_sent(&w.peer_sends(0, &respond(&first, 486)), &[("ACK", "p0")]);
}

#[test]
fn a_cancelled_attempt_is_acknowledged_however_late_it_ends() {
    let mut w = World::new();
    let first = invite(&mut w, "c");
    let second = w.pass(MS(2010)).pop().expect("the second attempt");
    let cancel = w.peer_sends(0, &respond(&first, 180)).pop().expect("a CANCEL");
    w.peer_sends(0, &respond(&cancel, 200));
    // The call is over for everybody else long before.
    assert_sent(&w.peer_sends(1, &respond(&second, 486)), &[("ACK", "p1"), ("486", "caller")]);
    w.caller_sends(&request("ACK", "c"));
    w.pass(Duration::from_secs(20));
    assert_sent(&w.peer_sends(0, &respond(&first, 487)), &[("ACK", "p0")]);
    // But not for ever.
    let mut w = World::new();
    let first = invite(&mut w, "c");
    w.pass(MS(2010));
    w.peer_sends(0, &respond(&first, 180));
    w.pass(Duration::from_secs(120));
    assert_eq!(w.engine.transactions(), 0);
}

#[test]
fn when_all_peers_fail_the_caller_gets_an_answer_that_starts_no_storm() {
    // All refuse: 500, not 503.
    let mut w = World::new();
    let mut last = invite(&mut w, "c");
    for n in 0..3 {
        last = w.peer_sends(n, &respond(&last, 503))[1].clone();
    }
    let sent = w.peer_sends(3, &respond_with(&last, 503, "Retry-After: 20\r\n", ""));
    assert_sent(&sent, &[("ACK", "p3"), ("500", "caller")]);
    assert!(!sent[1].text.contains("Retry-After"));
    assert!(w.out.reports.contains(&Report::RetryAfter(PeerId(3), Duration::from_secs(20))));
    // All silent: 408, within the budget.
    let mut w = World::new();
    invite(&mut w, "c");
    let sent = w.pass(Duration::from_secs(9));
    let finals: Vec<_> = sent.iter().filter(|s| s.text.starts_with("SIP/2.0")).cloned().collect();
    assert!(finals.iter().all(|s| s.text.starts_with("SIP/2.0 408 ")) && !finals.is_empty());
    // All known to be dead: tried all the same (fail open), and 503 when that fails, too.
    let mut w = World::new();
    (0..4).for_each(|n| drop(w.set_state(n, PeerState::Unhealthy)));
    let mut last = invite(&mut w, "c");
    for n in 0..3 {
        last = w.peer_sends(n, &respond(&last, 503))[1].clone();
    }
    assert_sent(&w.peer_sends(3, &respond(&last, 503)), &[("ACK", "p3"), ("503", "caller")]);
}

#[test]
fn a_phone_that_rings_at_a_dying_peer_does_not_end_the_call() {
    // The peer says that it fails after all.
    let mut w = World::new();
    let first = invite(&mut w, "c");
    w.peer_sends(0, &respond(&first, 180));
    let sent = w.peer_sends(0, &respond(&first, 503));
    assert_sent(&sent, &[("ACK", "p0"), ("INVITE", "p1")]);
    assert_sent(&w.peer_sends(1, &respond(&sent[1], 180)), &[("180", "caller")]);
    assert_sent(&w.peer_sends(1, &respond(&sent[1], 200)), &[("200", "caller")]);
    // Its death becomes known otherwise; the attempt is cancelled, in case it lives.
    let mut w = World::new();
    let first = invite(&mut w, "c");
    w.peer_sends(0, &respond(&first, 180));
    let sent = w.set_state(0, PeerState::Unhealthy);
    assert_sent(&sent, &[("CANCEL", "p0"), ("INVITE", "p1")]);
    assert_sent(&w.peer_sends(1, &respond(&sent[1], 200)), &[("200", "caller")]);
    assert_sent(&w.peer_sends(0, &respond(&first, 487)), &[("ACK", "p0")]);
    // A phone that nobody picks up is no failure of the peer: by then the call's time is over.
    let mut w = World::new();
    let first = invite(&mut w, "c");
    w.peer_sends(0, &respond(&first, 180));
    let sent = w.pass(Duration::from_secs(182));
    assert_eq!(
        crate::world::brief(&sent)[..2],
        [("CANCEL".to_owned(), "p0".to_owned()), ("408".to_owned(), "caller".to_owned())]
    );
    assert_eq!(count(&w, Counter::Retries), 0);
}

#[test]
fn a_cancel_waits_for_a_provisional_and_is_answered_each_time() {
    let mut w = World::new();
    let first = invite(&mut w, "c");
    let cancel = request("CANCEL", "c");
    assert_sent(&w.caller_sends(&cancel), &[("200", "caller")]);
    assert_sent(&w.caller_sends(&cancel), &[("200", "caller")]);
    let sent = w.peer_sends(0, &respond(&first, 100));
    assert_sent(&sent, &[("CANCEL", "p0")]);
    assert_sent(&w.peer_sends(0, &respond(&sent[0], 200)), &[]);
    let sent = w.peer_sends(0, &respond(&first, 487));
    assert_sent(&sent, &[("ACK", "p0"), ("487", "caller")]);
    assert_eq!(count(&w, Counter::CallsCancelled), 1);
}

#[test]
fn a_cancel_to_a_silent_peer_ends_the_call_without_another_attempt() {
    let mut w = World::new();
    invite(&mut w, "c");
    w.caller_sends(&request("CANCEL", "c"));
    let sent = w.pass(MS(2100));
    assert!(sent.iter().all(|s| !s.text.starts_with("CANCEL")), "no CANCEL before a provisional");
    assert_eq!(crate::world::brief(&sent).last().unwrap().0, "487");
    assert_eq!(count(&w, Counter::Retries), 0);
}

#[test]
fn a_cancel_that_crosses_a_200_leaves_the_call_up() {
    let mut w = World::new();
    let first = invite(&mut w, "c");
    w.peer_sends(0, &respond(&first, 180));
    assert_sent(&w.caller_sends(&request("CANCEL", "c")), &[("200", "caller"), ("CANCEL", "p0")]);
    assert_sent(&w.peer_sends(0, &respond(&first, 200)), &[("200", "caller")]);
    assert_eq!(count(&w, Counter::CallsAnswered), 1);
}

#[test]
fn retransmissions_are_answered_from_state_and_not_forwarded() {
    let mut w = World::new();
    let first = invite(&mut w, "c");
    let again = request_with("INVITE", "c", "", &sdp("192.0.2.10", 4000));
    assert_sent(&w.caller_sends(&again), &[("100", "caller")]);
    w.peer_sends(0, &respond(&first, 180));
    assert_sent(&w.caller_sends(&again), &[("180", "caller")]);
    w.peer_sends(0, &respond(&first, 486));
    assert_sent(&w.caller_sends(&again), &[("486", "caller")]);
    // Unacknowledged, the 486 is repeated by itself until the ACK comes.
    assert_sent(&w.pass(MS(600)), &[("486", "caller")]);
    assert_sent(&w.caller_sends(&request("ACK", "c")), &[]);
    assert_sent(&w.pass(Duration::from_secs(40)), &[]);
    assert_eq!(w.engine.transactions(), 0);
}

#[test]
fn calls_waiting_for_a_peer_move_on_the_moment_it_is_known_to_be_dead() {
    let mut w = World::new();
    invite(&mut w, "c1");
    assert_sent(&w.set_state(0, PeerState::Unhealthy), &[("INVITE", "p1")]);
    // And the next call does not try it.
    let sent = w.caller_sends(&request("INVITE", "c2"));
    assert_sent(&sent, &[("100", "caller"), ("INVITE", "p1")]);
}

#[test]
fn an_icmp_error_moves_a_call_at_once_if_it_is_about_this_call() {
    use sip::branch::Branch;
    let mut w = World::new();
    let first = invite(&mut w, "c");
    let branch = Branch::find(first.text.as_bytes()).expect("our branch");
    let mut report = |branch: Branch, to| {
        w.engine.on_unreachable(w.now, branch, to, &w.table, &mut w.out);
        std::mem::take(&mut w.out.sent)
    };
    // Forged ones move nothing: another branch, another destination.
    assert_sent(&report(Branch { nonce: branch.nonce ^ 1, ..branch }, crate::world::peer(0)), &[]);
    assert_sent(&report(branch, crate::world::peer(1)), &[]);
    let second = report(branch, crate::world::peer(0));
    assert_sent(&second, &[("INVITE", "p1")]);
    assert_eq!(w.evidence(0), (0, 1));
    // A peer that was heard is not given up for it.
    w.peer_sends(1, &respond(&second[0], 180));
    let branch = Branch::find(second[0].text.as_bytes()).expect("our branch");
    w.engine.on_unreachable(w.now, branch, crate::world::peer(1), &w.table, &mut w.out);
    assert_sent(&w.peer_sends(1, &respond(&second[0], 200)), &[("200", "caller")]);
    assert_eq!((count(&w, Counter::Unreachable), count(&w, Counter::IcmpIgnored)), (1, 3));
    // When all are unreachable the caller hears it at once.
    let mut w = World::new();
    let mut sent = vec![invite(&mut w, "d")];
    for _ in 0..4 {
        let last = sent.pop().expect("an INVITE");
        let branch = Branch::find(last.text.as_bytes()).expect("our branch");
        w.engine.on_unreachable(w.now, branch, last.to, &w.table, &mut w.out);
        sent = std::mem::take(&mut w.out.sent);
    }
    assert_sent(&sent, &[("500", "caller")]);
}

#[test]
fn a_last_resort_is_given_its_time_whatever_else_changes() {
    let mut w = World::new();
    (0..4).for_each(|n| drop(w.set_state(n, PeerState::Unhealthy)));
    let first = invite(&mut w, "c");
    assert_sent(&w.set_state(3, PeerState::Unhealthy), &[]);
    assert_sent(&w.peer_sends(0, &respond(&first, 200)), &[("200", "caller")]);
}

#[test]
fn requests_in_a_dialog_with_a_dead_peer_get_an_answer_at_once() {
    let mut w = World::new();
    let routes = callers_routes(&answered(&mut w, "c"));
    // Sent before the death is known: answered when it is.
    assert_sent(&w.caller_sends(&in_dialog("BYE", "c", 2, &routes)), &[("BYE", "p0")]);
    assert_sent(&w.set_state(0, PeerState::Unhealthy), &[("481", "caller")]);
    assert_eq!(w.engine.sessions(), 0);
    // Sent afterwards: answered at once, and nobody else is asked.
    assert_sent(&w.caller_sends(&in_dialog("INVITE", "c", 3, &routes)), &[("481", "caller")]);
    assert_eq!(count(&w, Counter::DialogsLost), 2);
}

#[test]
fn in_dialog_requests_stay_with_their_peer_in_both_directions() {
    let mut w = World::new();
    let ok = answered(&mut w, "c");
    w.table.peers[0].priority = 9;
    w.table.index();
    assert_sent(&w.caller_sends(&in_dialog("INFO", "c", 2, &callers_routes(&ok))), &[("INFO", "p0")]);
    let bye = format!(
        "BYE sip:alice@192.0.2.10:5070 SIP/2.0\r\nVia: SIP/2.0/UDP 198.51.100.11:5060;branch=z9hG4bKx\r\nMax-Forwards: 70\r\n\
         {}From: <sip:bob@example.com>;tag=b\r\n\
         To: <sip:alice@example.com>;tag=a\r\nCall-ID: c\r\nCSeq: 1 BYE\r\nContent-Length: 0\r\n\r\n",
        callees_routes(&ok)
    );
    let sent = w.peer_sends(0, &bye);
    assert_sent(&sent, &[("BYE", "caller")]);
    assert!(
        header(&sent[0].text, "Via")[0].starts_with("SIP/2.0/UDP 192.0.2.1:5060;"),
        "it leaves by the caller's side"
    );
}

#[test]
fn other_methods_are_repeated_answered_and_never_get_a_408() {
    let mut w = World::new();
    let message = request("MESSAGE", "m");
    let sent = w.caller_sends(&message);
    assert_sent(&sent, &[("MESSAGE", "p0")]);
    assert_sent(&w.pass(MS(510)), &[("MESSAGE", "p0")]);
    assert_sent(&w.peer_sends(0, &respond(&sent[0], 202)), &[("202", "caller")]);
    assert_sent(&w.caller_sends(&message), &[("202", "caller")]);
    // Silence: nothing is sent upstream (RFC 4320).
    w.caller_sends(&request("MESSAGE", "n"));
    let sent = w.pass(Duration::from_secs(40));
    assert!(sent.iter().all(|s| s.text.starts_with("MESSAGE")), "{:?}", crate::world::brief(&sent));
    w.pass(Duration::from_secs(40));
    assert_eq!(w.engine.transactions(), 0);
}

#[test]
fn limits_refuse_new_work_with_503() {
    let mut w = World::with(|c| c.max_transactions = 2);
    invite(&mut w, "c1");
    invite(&mut w, "c2");
    assert_sent(&w.caller_sends(&request("INVITE", "c3")), &[("503", "caller")]);
    let mut w = World::with(|c| c.media.settings.ports = 20_000..=20_001);
    invite(&mut w, "c1");
    let sent = w.caller_sends(&request_with("INVITE", "c2", "", &sdp("192.0.2.10", 4000)));
    assert_sent(&sent, &[("100", "caller"), ("503", "caller")]);
    assert!(sent[1].text.contains("All Media Ports In Use"));
}

#[test]
fn transactions_that_have_long_been_answered_make_room() {
    let mut w = World::with(|c| c.max_transactions = 2);
    answered(&mut w, "c1");
    invite(&mut w, "ringing");
    // The answer was sent only now: a repetition of the request may still be on its way.
    assert_sent(&w.caller_sends(&request("INVITE", "c2")), &[("503", "caller")]);
    w.pass(Duration::from_secs(5));
    invite(&mut w, "c3");
    assert_eq!((w.engine.transactions(), count(&w, Counter::TransactionsCut)), (2, 1));
    // What is not answered yet stays.
    w.pass(Duration::from_secs(1));
    assert_sent(&w.caller_sends(&request("INVITE", "c4")), &[("503", "caller")]);
}

#[test]
fn probes_report_answers_and_silence() {
    let mut w = World::new();
    w.engine.probe(w.now, PeerId(2), MS(300), &w.table, &mut w.out);
    let sent = std::mem::take(&mut w.out.sent);
    assert_sent(&sent, &[("OPTIONS", "p2")]);
    w.now += MS(7);
    w.peer_sends(2, &respond(&sent[0], 200));
    assert_eq!(w.out.reports.pop(), Some(Report::Probe { peer: PeerId(2), answer: Some((200, MS(7))) }));
    w.engine.probe(w.now, PeerId(3), MS(300), &w.table, &mut w.out);
    w.pass(MS(310));
    assert_eq!(w.out.reports.pop(), Some(Report::Probe { peer: PeerId(3), answer: None }));
}

#[test]
fn silent_media_ends_its_session() {
    let mut w = World::new();
    answered(&mut w, "c");
    w.pass(Duration::from_secs(59));
    assert_eq!(w.engine.sessions(), 1);
    w.pass(Duration::from_secs(10));
    assert_eq!((w.engine.sessions(), count(&w, Counter::MediaTimeouts)), (0, 1));
}
