//! Forks, loops, route sets, cookies and the stateless mode, in virtual time.

use crate::world::{
    CALLER, NOT_ALLOWED, Sent, World, assert_sent, brief, callees_routes, callers_routes, header, request,
    request_with, respond, respond_with,
};
use proxy::{
    Counter,
    journal::{End, Outcome},
};
use routing::{Fork, PeerState};
use std::time::Duration;

fn count(w: &World, counter: Counter) -> u64 {
    w.engine.tally.counters[counter as usize]
}

fn parallel() -> World {
    let mut w = World::new();
    w.table.services[0].fork = Fork::Parallel;
    w.table.peers.iter_mut().for_each(|p| p.priority = 0);
    w.table.index();
    w
}

fn stateless() -> World {
    let mut w = World::new();
    w.table.services[0].stateless = true;
    w.table.services[0].anchoring = routing::Anchoring::Off;
    w
}

/// Places a call that both local peers are offered; what they received, p0's first.
fn fork(w: &mut World) -> [Sent; 2] {
    let mut sent = w.caller_sends(&request("INVITE", "c"));
    assert_eq!(sent.remove(0).text.split("\r\n").next(), Some("SIP/2.0 100 Trying"));
    sent.sort_by_key(|s| s.to);
    assert_sent(&sent, &[("INVITE", "p0"), ("INVITE", "p1")]);
    sent.try_into().expect("two")
}

/// A request within a dialog, with the Route set given.
fn in_dialog(method: &str, routes: &str, uri: &str, tags: (&str, &str)) -> String {
    format!(
        "{method} {uri} SIP/2.0\r\nVia: SIP/2.0/UDP {CALLER};branch=z9hG4bKd{method}\r\nMax-Forwards: 70\r\n{routes}\
         From: <sip:alice@example.com>;tag={}\r\nTo: <sip:bob@example.com>;tag={}\r\nCall-ID: c\r\nCSeq: 9 {method}\r\n\
         Content-Length: 0\r\n\r\n",
        tags.0, tags.1
    )
}

/// A call answered by p0; its 200 as the caller got it.
fn answered(w: &mut World) -> Sent {
    let sent = w.caller_sends(&request("INVITE", "c"));
    let invite = sent.into_iter().find(|s| s.text.starts_with("INVITE")).expect("an INVITE");
    let ok = w.peer_sends(0, &respond(&invite, 200));
    assert_sent(&ok, &[("200", "caller")]);
    ok[0].clone()
}

#[test]
fn a_parallel_fork_rings_all_local_peers_and_the_first_answer_wins() {
    let mut w = parallel();
    let [p0, p1] = fork(&mut w);
    assert_ne!(header(&p0.text, "Via")[0], header(&p1.text, "Via")[0], "distinct branches");
    assert_eq!(header(&p0.text, "Max-Breadth"), ["30"], "two branches share it");
    w.peer_sends(0, &respond(&p0, 180));
    w.peer_sends(1, &respond(&p1, 180));
    let sent = w.peer_sends(1, &respond(&p1, 200));
    assert_sent(&sent, &[("200", "caller"), ("CANCEL", "p0")]);
    assert_eq!(header(&sent[1].text, "Reason"), ["SIP;cause=200;text=\"Call completed elsewhere\""]);
    assert_sent(&w.peer_sends(0, &respond(&p0, 487)), &[("ACK", "p0")]);
    assert_eq!(count(&w, Counter::Retries), 0, "branches are no retries");
    // Both answer at once: the caller gets both and hangs up on one.
    let mut w = parallel();
    let [p0, p1] = fork(&mut w);
    assert_sent(&w.peer_sends(0, &respond(&p0, 200)), &[("200", "caller")]);
    assert_sent(&w.peer_sends(1, &respond(&p1, 200)), &[("200", "caller")]);
}

#[test]
fn a_6xx_ends_a_parallel_fork_and_the_best_refusal_is_passed_on() {
    let mut w = parallel();
    let [p0, p1] = fork(&mut w);
    w.peer_sends(0, &respond(&p0, 180));
    assert_sent(&w.peer_sends(1, &respond(&p1, 603)), &[("ACK", "p1"), ("CANCEL", "p0")]);
    assert_sent(&w.peer_sends(0, &respond(&p0, 487)), &[("ACK", "p0"), ("603", "caller")]);
    // A 2xx that crosses the CANCEL still wins.
    let mut w = parallel();
    let [p0, p1] = fork(&mut w);
    w.peer_sends(0, &respond(&p0, 180));
    w.peer_sends(1, &respond(&p1, 603));
    assert_sent(&w.peer_sends(0, &respond(&p0, 200)), &[("200", "caller")]);
    // Without one, nobody else is asked, and the better refusal is chosen, whichever came first.
    for (first, second, best) in [(486, 302, "302"), (302, 486, "302"), (486, 503, "486"), (503, 404, "404")]
    {
        let mut w = parallel();
        let [p0, p1] = fork(&mut w);
        assert_sent(&w.peer_sends(0, &respond(&p0, first)), &[("ACK", "p0")]);
        assert_sent(&w.peer_sends(1, &respond(&p1, second)), &[("ACK", "p1"), (best, "caller")]);
    }
}

#[test]
fn a_parallel_fork_that_fails_goes_on_in_the_other_region() {
    let mut w = parallel();
    let [p0, p1] = fork(&mut w);
    assert_sent(&w.peer_sends(0, &respond(&p0, 503)), &[("ACK", "p0")]);
    let sent = w.peer_sends(1, &respond(&p1, 503));
    assert_eq!(brief(&sent)[0].0, "ACK");
    let mut names: Vec<_> = brief(&sent[1..]);
    names.sort();
    assert_eq!(names, [("INVITE".into(), "p2".into()), ("INVITE".into(), "p3".into())]);
    // Silence of one branch does not end the other.
    let mut w = parallel();
    let [p0, _] = fork(&mut w);
    w.peer_sends(0, &respond(&p0, 180));
    let sent = w.pass(Duration::from_secs(5));
    assert!(
        sent.iter().all(|s| s.text.starts_with("INVITE") && s.to == crate::world::peer(1)),
        "{:?}",
        brief(&sent)
    );
    assert_sent(&w.peer_sends(0, &respond(&p0, 200)), &[("200", "caller")]);
}

#[test]
fn challenges_of_all_branches_reach_the_caller() {
    let mut w = parallel();
    let [p0, p1] = fork(&mut w);
    let challenge = |realm: &str| format!("Proxy-Authenticate: Digest realm=\"{realm}\", nonce=\"1\"\r\n");
    w.peer_sends(0, &respond_with(&p0, 407, &challenge("one"), ""));
    let sent = w.peer_sends(1, &respond_with(&p1, 407, &challenge("two"), ""));
    assert_sent(&sent, &[("ACK", "p1"), ("407", "caller")]);
    let shown = header(&sent[1].text, "Proxy-Authenticate");
    assert!(shown.len() == 2 && shown[0].contains("one") && shown[1].contains("two"), "{shown:?}");
}

#[test]
fn breadth_limits_a_fork() {
    let mut w = parallel();
    let sent = w.caller_sends(&request_with("INVITE", "c", "Max-Breadth: 1\r\n", ""));
    assert_eq!(sent.len(), 2, "100 and one INVITE: {:?}", brief(&sent));
    assert_eq!(header(&sent[1].text, "Max-Breadth"), ["1"]);
    let sent = w.caller_sends(&request_with("INVITE", "d", "Max-Breadth: 0\r\n", ""));
    assert_sent(&sent, &[("440", "caller")]);
}

#[test]
fn a_caller_cancels_all_branches() {
    let mut w = parallel();
    let [p0, p1] = fork(&mut w);
    w.peer_sends(0, &respond(&p0, 180));
    w.peer_sends(1, &respond(&p1, 180));
    let sent = w.caller_sends(&request("CANCEL", "c"));
    assert_sent(&sent, &[("200", "caller"), ("CANCEL", "p0"), ("CANCEL", "p1")]);
    assert_sent(&w.peer_sends(0, &respond(&p0, 487)), &[("ACK", "p0")]);
    assert_sent(&w.peer_sends(1, &respond(&p1, 487)), &[("ACK", "p1"), ("487", "caller")]);
    assert_eq!(count(&w, Counter::CallsCancelled), 1);
}

#[test]
fn a_loop_ends_with_482_and_a_spiral_goes_on() {
    let mut w = World::new();
    let sent = w.caller_sends(&request("INVITE", "c"));
    // The peer sends it back as it came, one hop further.
    let via = "Via: SIP/2.0/UDP 198.51.100.11:5060;branch=z9hG4bKpeer\r\n";
    let back = sent[1].text.replacen("\r\n", &format!("\r\n{via}"), 1);
    let loops = w.caller_sends(&back);
    assert_sent(&loops, &[("482", "192.0.2.10:5060")]);
    assert!(loops[0].text.contains("482 Loop Detected"));
    // To another user it is routed anew.
    let spiral = back.replace("INVITE sip:bob@", "INVITE sip:carol@").replace("Kpeer", "Kpeer2");
    let sent = w.caller_sends(&spiral);
    assert_eq!(brief(&sent)[1], ("INVITE".to_owned(), "p0".to_owned()));
    assert_eq!(header(&sent[1].text, "Via").len(), 4);
    assert_eq!(count(&w, Counter::Loops), 1);
}

#[test]
fn a_copy_by_another_way_is_refused_while_the_first_is_worked_on() {
    let mut w = World::new();
    let first = w.caller_sends(&request("INVITE", "c"))[1].clone();
    let merged = request("INVITE", "c").replace("z9hG4bKc", "z9hG4bKother");
    let sent = w.caller_sends(&merged);
    assert_sent(&sent, &[("482", "caller")]);
    assert!(sent[0].text.contains("482 Merged Request"));
    // An upstream that got its answer may try again with a new branch.
    w.peer_sends(0, &respond(&first, 486));
    let sent = w.caller_sends(&merged.replace("Kother", "Kthird"));
    assert_sent(&sent, &[("100", "caller"), ("INVITE", "p0")]);
}

#[test]
fn only_dialogs_with_a_cookie_of_this_node_are_routed_by_their_route_set() {
    let mut w = World::new();
    let ok = answered(&mut w);
    let routes = callers_routes(&ok);
    let uri = "sip:bob@198.51.100.11:5060";
    let tags = ("a", "b");
    assert_sent(&w.caller_sends(&in_dialog("INFO", &routes, uri, tags)), &[("INFO", "p0")]);
    // Without a Route entry, or with a forged one, it is no dialog of ours: to a peer, not to its URI.
    let elsewhere = "sip:bob@192.0.2.99:5060";
    let digit = routes.split("<sip:a").nth(1).and_then(|r| r.chars().next()).expect("a cookie");
    let forged = routes.replace(&format!("<sip:a{digit}"), if digit == '0' { "<sip:a1" } else { "<sip:a0" });
    for (method, routes) in [("UPDATE", ""), ("MESSAGE", &forged)] {
        let sent = w.caller_sends(&in_dialog(method, routes, elsewhere, tags));
        assert_sent(&sent, &[(method, "p0")]);
    }
    assert_eq!(count(&w, Counter::UnprovenDialogs), 2);
    // An ACK like that is dropped.
    assert_sent(&w.caller_sends(&in_dialog("ACK", "", elsewhere, tags)), &[]);
    // A cookie does not open the way to everywhere.
    let outside = format!("sip:bob@{NOT_ALLOWED}:5060");
    let sent = w.caller_sends(&in_dialog("BYE", &routes, &outside, tags));
    assert_sent(&sent, &[("403", "caller")]);
    // Nor for another call.
    let other = in_dialog("REFER", &routes, elsewhere, tags).replace("Call-ID: c", "Call-ID: x");
    assert_sent(&w.caller_sends(&other), &[("REFER", "p0")]);
}

#[test]
fn a_cancel_without_its_invite_is_answered_and_not_forwarded() {
    let mut w = World::new();
    let routes = callers_routes(&answered(&mut w));
    let cancel = in_dialog("CANCEL", &routes, "sip:bob@198.51.100.11:5060", ("a", "b"));
    assert_sent(&w.caller_sends(&cancel), &[("481", "caller")]);
    assert_sent(&w.caller_sends(&request("CANCEL", "unknown")), &[("481", "caller")]);
    // A re-INVITE's own is forwarded once the peer was heard.
    let invite = in_dialog("INVITE", &routes, "sip:bob@198.51.100.11:5060", ("a", "b"));
    let sent = w.caller_sends(&invite);
    assert_sent(&sent, &[("100", "caller"), ("INVITE", "p0")]);
    w.peer_sends(0, &respond(&sent[1], 180));
    let cancel = invite.replace("INVITE sip", "CANCEL sip").replace("9 INVITE", "9 CANCEL");
    assert_sent(&w.caller_sends(&cancel), &[("200", "caller"), ("CANCEL", "p0")]);
}

#[test]
fn a_cookie_outlives_a_restart() {
    let mut w = World::new();
    let routes = callers_routes(&answered(&mut w));
    let mut again = World::with(|c| c.seeds = [9, 9, 9, 9]);
    let bye = in_dialog("BYE", &routes, "sip:bob@198.51.100.11:5060", ("a", "b"));
    assert_sent(&again.caller_sends(&bye), &[("BYE", "p0")]);
    assert_eq!(count(&again, Counter::UnprovenDialogs), 0);
}

#[test]
fn a_peer_with_a_host_name_is_found_by_the_cookie() {
    let mut w = World::new();
    let routes = callers_routes(&answered(&mut w));
    let sent = w.caller_sends(&in_dialog("BYE", &routes, "sip:bob@sbc.example.net", ("a", "b")));
    assert_sent(&sent, &[("BYE", "p0")]);
    assert!(sent[0].text.starts_with("BYE sip:bob@sbc.example.net SIP/2.0"));
}

#[test]
fn strict_routers_are_understood_on_either_side() {
    let mut w = World::new();
    let ok = answered(&mut w);
    let entries: Vec<_> = header(&ok.text, "Record-Route").iter().rev().map(|e| (*e).to_owned()).collect();
    let own_uri = entries[0].trim_start_matches('<').trim_end_matches('>').to_owned();
    // One before us: our entry is the Request-URI, the target the last Route.
    let routes = format!("Route: {}\r\nRoute: <sip:bob@198.51.100.11:5060>\r\n", entries[1]);
    let sent = w.caller_sends(&in_dialog("INFO", &routes, &own_uri, ("a", "b")));
    assert_sent(&sent, &[("INFO", "p0")]);
    assert!(sent[0].text.starts_with("INFO sip:bob@198.51.100.11:5060 SIP/2.0\r\n"), "{}", sent[0].text);
    assert!(header(&sent[0].text, "Route").is_empty());
    // One behind us: it wants to be the Request-URI.
    let routes = format!("{}Route: <sip:192.0.2.99>, <sip:192.0.2.98;lr>\r\n", callers_routes(&ok));
    let sent = w.caller_sends(&in_dialog("UPDATE", &routes, "sip:bob@198.51.100.11:5060", ("a", "b")));
    assert_sent(&sent, &[("UPDATE", "192.0.2.99:5060")]);
    assert!(sent[0].text.starts_with("UPDATE sip:192.0.2.99 SIP/2.0\r\n"), "{}", sent[0].text);
    assert_eq!(header(&sent[0].text, "Route"), ["<sip:192.0.2.98;lr>", "<sip:bob@198.51.100.11:5060>"]);
    // A loose one behind us keeps its entry.
    let routes = format!("{}Route: <sip:192.0.2.99;lr>\r\n", callers_routes(&ok));
    let sent = w.caller_sends(&in_dialog("MESSAGE", &routes, "sip:bob@198.51.100.11:5060", ("a", "b")));
    assert_sent(&sent, &[("MESSAGE", "192.0.2.99:5060")]);
    assert_eq!(header(&sent[0].text, "Route"), ["<sip:192.0.2.99;lr>"]);
}

#[test]
fn a_stateless_route_sends_all_of_a_transaction_one_way_and_keeps_nothing() {
    let mut w = stateless();
    w.table.peers.iter_mut().for_each(|p| p.priority = 0);
    w.table.index();
    let invite = request("INVITE", "c");
    let first = w.caller_sends(&invite);
    assert_eq!(first.len(), 1, "no 100: {:?}", brief(&first));
    let again = w.caller_sends(&invite);
    assert_eq!((first[0].to, &first[0].text), (again[0].to, &again[0].text), "a retransmission");
    let branch = header(&first[0].text, "Via")[0].to_owned();
    let cancel = w.caller_sends(&request("CANCEL", "c"));
    assert_eq!((cancel[0].to, header(&cancel[0].text, "Via")[0]), (first[0].to, branch.as_str()));
    let n = (0..4).find(|n| crate::world::peer(*n) == first[0].to).expect("a peer");
    assert_sent(&w.peer_sends(n, &respond(&first[0], 180)), &[("180", "caller")]);
    let refused = w.peer_sends(n, &respond(&first[0], 503));
    assert_sent(&refused, &[("503", "caller")]);
    let ack = request("ACK", "c").replace("To: <sip:bob@example.com>", "To: <sip:bob@example.com>;tag=b");
    let ack = w.caller_sends(&ack);
    assert_eq!((ack[0].to, header(&ack[0].text, "Via")[0]), (first[0].to, branch.as_str()));
    assert_eq!(w.engine.transactions(), 0);
    // A client of RFC 2543 has no branch to find back by: its request gets a transaction.
    let sent = w.caller_sends(&request("INVITE", "old").replace("z9hG4bKold", "1"));
    assert_eq!(brief(&sent)[0].0, "100");
    assert_eq!(w.engine.transactions(), 1);
    // What this node did not ask for does not pass.
    let forged = respond(&first[0], 200).replace("z9hG4bKc", "z9hG4bKforged");
    assert_sent(&w.peer_sends(n, &forged), &[]);
}

#[test]
fn a_stateless_dialog_stays_stateless_in_both_directions() {
    let mut w = stateless();
    let invite = w.caller_sends(&request("INVITE", "c"))[0].clone();
    let ok = w.peer_sends(0, &respond(&invite, 200))[0].clone();
    let bye =
        w.caller_sends(&in_dialog("BYE", &callers_routes(&ok), "sip:bob@198.51.100.11:5060", ("a", "b")));
    assert_sent(&bye, &[("BYE", "p0")]);
    assert_sent(&w.peer_sends(0, &respond(&bye[0], 200)), &[("200", "caller")]);
    let back = in_dialog("INFO", &callees_routes(&invite), &format!("sip:alice@{CALLER}"), ("b", "a"));
    let sent = w.peer_sends(0, &back);
    assert_sent(&sent, &[("INFO", "caller")]);
    assert_eq!(w.engine.transactions(), 0);
}

#[test]
fn the_journal_tells_why_a_call_went_where_it_went() {
    let mut w = World::new();
    let first = w.caller_sends(&request("INVITE", "c"))[1].clone();
    w.now += Duration::from_millis(30);
    let second = w.peer_sends(0, &respond(&first, 503))[1].clone();
    w.set_state(1, PeerState::Unhealthy);
    let third = w.caller_sends(&request("OPTIONS", "unrelated"));
    assert_eq!(third.len(), 1);
    let _ = second;
    let records = w.engine.explain(b"c");
    let [record] = &records[..] else { panic!("{records:?}") };
    let told: Vec<_> =
        record.attempts.iter().map(|a| (a.peer.0, a.why.label(), a.end.map(|e| e.0))).collect();
    assert_eq!(
        told,
        [
            (0, "local", Some(End::Status(503))),
            (1, "local", Some(End::PeerDied)),
            (record.attempts[2].peer.0, "other region", None)
        ]
    );
    assert_eq!(record.attempts[0].first, Some((503, record.at + Duration::from_millis(30))));
    assert_eq!(record.outcome, None);
    // A request that this node refuses is told, too.
    w.caller_sends(&request_with("INVITE", "bad", "Proxy-Require: foo\r\n", ""));
    let records = w.engine.explain(b"bad");
    assert_eq!(records[0].outcome.map(|o| o.0), Some(Outcome::Node(420, "Bad Extension")));
}
