//! Media of calls in virtual time: what SDP shows, where packets go, and that no port is left behind.

use crate::world::{
    CALLER, Sent, World, assert_sent, callees_routes, callers_routes, header, request_with, respond,
    respond_with, sdp,
};
use proxy::Counter;
use routing::{Anchoring, Fork};
use std::{net::SocketAddr, time::Duration};

const MS: fn(u64) -> Duration = Duration::from_millis;
const CONTACT: &str = "Contact: <sip:bob@198.51.100.11:5060>\r\n";
const RTP: [u8; 12] = [0x80, 8, 0, 1, 0, 0, 0, 160, 0, 0, 0, 1];

fn count(w: &World, counter: Counter) -> u64 {
    w.engine.tally.counters[counter as usize]
}

/// Address and port of the n-th stream in a message's SDP.
fn media_of(sent: &Sent, n: usize) -> SocketAddr {
    let body = sent.text.split_once("\r\n\r\n").unwrap().1;
    let ip = body.lines().find_map(|l| l.strip_prefix("c=IN IP4 ")).unwrap();
    let line = body.lines().filter(|l| l.starts_with("m=")).nth(n).unwrap();
    SocketAddr::new(ip.parse().unwrap(), line.split(' ').nth(1).unwrap().parse().unwrap())
}

/// Where a packet goes that comes from `source` to a local address.
fn relayed(w: &mut World, local: SocketAddr, source: &str) -> Option<SocketAddr> {
    let relay = w.engine.on_media(w.now, local, source.parse().unwrap(), &RTP);
    relay.ok().map(|r| r.to)
}

fn to(address: &str) -> Option<SocketAddr> {
    Some(address.parse().unwrap())
}

/// A request within the dialog, from the caller.
fn again(method: &str, call: &str, cseq: u32, routes: &str, body: &str) -> String {
    let request = request_with(method, call, routes, body);
    request
        .replace("To: <sip:bob@example.com>", "To: <sip:bob@example.com>;tag=b")
        .replace("sip:bob@example.com SIP", "sip:bob@198.51.100.11:5060 SIP")
        .replace(&format!("z9hG4bK{call}"), &format!("z9hG4bK{call}{method}{cseq}"))
        .replace("CSeq: 1 ", &format!("CSeq: {cseq} "))
}

/// The same from the callee.
fn back(method: &str, call: &str, cseq: u32, routes: &str, body: &str) -> String {
    again(method, call, cseq, routes, body)
        .replace("From: <sip:alice@example.com>;tag=a", "From: <sip:bob@example.com>;tag=b")
        .replace("To: <sip:bob@example.com>;tag=b", "To: <sip:alice@example.com>;tag=a")
        .replace("sip:bob@198.51.100.11:5060 SIP", &format!("sip:alice@{CALLER} SIP"))
        .replace(&format!("UDP {CALLER}"), "UDP 198.51.100.11:5060")
}

/// A call that p0 has answered: its INVITE as p0 got it, its 200 as the caller got it.
fn answered(w: &mut World, call: &str) -> (Sent, Sent) {
    let sent = w.caller_sends(&request_with("INVITE", call, "", &sdp("192.0.2.10", 4000)));
    assert_sent(&sent, &[("100", "caller"), ("INVITE", "p0")]);
    let ok = w.peer_sends(0, &respond_with(&sent[1], 200, CONTACT, &sdp("198.51.100.11", 6000)));
    assert_sent(&ok, &[("200", "caller")]);
    let ack = again("ACK", call, 1, &callers_routes(&ok[0]), "");
    assert_sent(&w.caller_sends(&ack), &[("ACK", "p0")]);
    (sent[1].clone(), ok[0].clone())
}

fn hang_up(w: &mut World, call: &str, routes: &str) {
    let bye = w.caller_sends(&again("BYE", call, 90, routes, ""));
    assert_sent(&bye, &[("BYE", "p0")]);
    w.peer_sends(0, &respond(&bye[0], 200));
}

/// Everything that ever took a port has given it back.
fn assert_no_port_in_use(w: &mut World) {
    w.pass(Duration::from_secs(200));
    assert_eq!((w.engine.sessions(), w.engine.media_ports().0, w.engine.transactions()), (0, 0, 0));
    assert!(w.engine.media_of(None, 9).is_empty());
    assert_eq!(w.engine.tally.peers.iter().map(|p| p.active).sum::<u64>(), 0);
}

#[test]
fn packets_go_where_the_dialog_says_and_a_new_offer_counts_when_answered() {
    let mut w = World::new();
    let (invite, ok) = answered(&mut w, "c");
    let (callee_side, caller_side) = (media_of(&invite, 0), media_of(&ok, 0));
    assert_eq!(relayed(&mut w, callee_side, "198.51.100.11:6000"), to("192.0.2.10:4000"));
    assert_eq!(relayed(&mut w, caller_side, "192.0.2.10:4000"), to("198.51.100.11:6000"));
    let routes = callers_routes(&ok);
    for (cseq, status, goes_to) in [(2, 488, "192.0.2.10:4000"), (3, 200, "192.0.2.10:4444")] {
        let body = sdp("192.0.2.10", 4444).replace("- 1 1", &format!("- 1 {cseq}"));
        let offer = w.caller_sends(&again("INVITE", "c", cseq, &routes, &body));
        assert_sent(&offer, &[("100", "caller"), ("INVITE", "p0")]);
        assert_eq!(media_of(&offer[1], 0), callee_side, "ports stay");
        let answer = respond_with(&offer[1], status, CONTACT, &sdp("198.51.100.11", 6000));
        let sent = w.peer_sends(0, &answer);
        if status == 200 {
            assert_eq!(media_of(&sent[0], 0), caller_side);
            w.caller_sends(&again("ACK", "c", cseq, &routes, ""));
        }
        assert_eq!(relayed(&mut w, callee_side, "198.51.100.11:6000"), to(goes_to), "after {status}");
    }
    // The callee moves by UPDATE (RFC 3311).
    let update = back("UPDATE", "c", 1, &callees_routes(&invite), &sdp("198.51.100.11", 6666));
    let update = w.peer_sends(0, &update);
    assert_eq!(media_of(&update[0], 0), caller_side);
    w.caller_sends(&respond_with(&update[0], 200, "", &sdp("192.0.2.10", 4444)));
    assert_eq!(relayed(&mut w, caller_side, "192.0.2.10:4444"), to("198.51.100.11:6666"));
    hang_up(&mut w, "c", &routes);
    assert_no_port_in_use(&mut w);
}

#[test]
fn late_offers_are_answered_in_ack_and_prack() {
    let mut w = World::new();
    let sent = w.caller_sends(&request_with("INVITE", "c", "", ""));
    assert_eq!(w.engine.sessions(), 0, "nothing is known of its streams");
    let ok = w.peer_sends(0, &respond_with(&sent[1], 200, CONTACT, &sdp("198.51.100.11", 6000)));
    let caller_side = media_of(&ok[0], 0);
    let ack = again("ACK", "c", 1, &callers_routes(&ok[0]), &sdp("192.0.2.10", 4000));
    let ack = w.caller_sends(&ack);
    let callee_side = media_of(&ack[0], 0);
    assert_eq!(relayed(&mut w, callee_side, "198.51.100.11:6000"), to("192.0.2.10:4000"));
    assert_eq!(relayed(&mut w, caller_side, "192.0.2.10:4000"), to("198.51.100.11:6000"));
    hang_up(&mut w, "c", &callers_routes(&ok[0]));

    let sent = w.caller_sends(&request_with("INVITE", "d", "", ""));
    let reliable = "Require: 100rel\r\nRSeq: 1\r\n";
    let headers = format!("{CONTACT}{reliable}");
    let offer = w.peer_sends(0, &respond_with(&sent[1], 183, &headers, &sdp("198.51.100.11", 6000)));
    let caller_side = media_of(&offer[0], 0);
    let prack = again("PRACK", "d", 2, &callers_routes(&offer[0]), &sdp("192.0.2.10", 4000));
    let prack = w.caller_sends(&prack);
    assert_eq!(relayed(&mut w, media_of(&prack[0], 0), "198.51.100.11:6000"), to("192.0.2.10:4000"));
    assert_eq!(relayed(&mut w, caller_side, "192.0.2.10:4000"), to("198.51.100.11:6000"));
    w.peer_sends(0, &respond(&prack[0], 200));
    w.caller_sends(&again("CANCEL", "d", 1, "", "").replace("z9hG4bKdCANCEL1", "z9hG4bKd"));
    w.peer_sends(0, &respond(&sent[1], 487));
    assert_no_port_in_use(&mut w);
}

#[test]
fn forked_answers_have_a_branch_each_and_the_losers_ports_come_back() {
    let mut w = World::new();
    w.table.services[0].fork = Fork::Parallel;
    w.table.peers[1].priority = 0;
    w.table.index();
    let sent = w.caller_sends(&request_with("INVITE", "c", "", &sdp("192.0.2.10", 4000)));
    assert_eq!(sent.len(), 3);
    let invite = |n: usize| sent.iter().find(|s| s.to == crate::world::peer(n)).unwrap();
    let (a, b) = (media_of(invite(0), 0), media_of(invite(1), 0));
    assert_ne!(a, b);
    let early = |w: &mut World, n: usize, host: &str, tag: &str| {
        let response = respond_with(invite(n), 183, CONTACT, &sdp(host, 6000));
        media_of(&w.peer_sends(n, &response.replace(";tag=b", tag))[0], 0)
    };
    let (for_a, for_b) =
        (early(&mut w, 0, "198.51.100.11", ";tag=b"), early(&mut w, 1, "198.51.100.12", ";tag=other"));
    assert_ne!(for_a, for_b);
    // Each hears what is meant for it, and the caller hears both.
    assert_eq!(relayed(&mut w, for_a, "192.0.2.10:4000"), to("198.51.100.11:6000"));
    assert_eq!(relayed(&mut w, for_b, "192.0.2.10:4000"), to("198.51.100.12:6000"));
    assert_eq!(relayed(&mut w, b, "198.51.100.12:6000"), to("192.0.2.10:4000"));
    let answer = |n: usize, tag: &str| {
        respond_with(invite(n), 200, CONTACT, &sdp("198.51.100.1", 6000)).replace(";tag=b", tag)
    };
    w.peer_sends(1, &answer(1, ";tag=other"));
    assert_eq!(w.engine.sessions(), 2);
    // Both answered: the caller hangs up on one of them, and the other one goes on.
    let late = w.peer_sends(0, &answer(0, ";tag=b"));
    assert_eq!(media_of(&late[0], 0), for_a);
    hang_up(&mut w, "c", &callers_routes(&late[0]));
    assert_eq!((w.engine.sessions(), w.engine.media_of(None, 9).len()), (1, 1));
    assert!(relayed(&mut w, for_b, "192.0.2.10:4000").is_some());
    assert_eq!(relayed(&mut w, for_a, "192.0.2.10:4000"), None);
    assert_no_port_in_use(&mut w);
}

#[test]
fn every_way_in_which_a_call_can_fail_gives_its_ports_back() {
    // Known fault B63: no answer at all, an answer that is none, a caller who gives up.
    let mut w = World::new();
    for (n, status) in [(0, 0), (1, 486), (2, 503), (3, 1)] {
        let call = format!("c{n}");
        let sent = w.caller_sends(&request_with("INVITE", &call, "", &sdp("192.0.2.10", 4000)));
        let mut at = sent[1].clone();
        match status {
            0 => {}
            1 => {
                w.peer_sends(0, &respond(&at, 180));
                let cancel = request_with("CANCEL", &call, "", "");
                w.caller_sends(&cancel);
                w.peer_sends(0, &respond(&at, 487));
            }
            503 => {
                for peer in 0..4 {
                    let next = w.peer_sends(peer, &respond(&at, 503));
                    at = next.iter().find(|s| s.text.starts_with("INVITE")).cloned().unwrap_or(at);
                }
            }
            _ => drop(w.peer_sends(0, &respond(&at, status))),
        }
        if status > 0 {
            assert_eq!(w.engine.sessions(), 0, "{status}: at once");
        }
        w.pass(Duration::from_secs(70));
    }
    assert_no_port_in_use(&mut w);
    assert_eq!(count(&w, Counter::MediaTimeouts), 0);
}

#[test]
fn messages_without_sdp_or_with_other_bodies_touch_no_media() {
    // Known fault B20.
    let mut w = World::new();
    let (invite, ok) = answered(&mut w, "c");
    let routes = callers_routes(&ok);
    for (method, kind, body) in [
        ("INFO", "application/sdp", sdp("192.0.2.77", 7777)),
        ("UPDATE", "application/dtmf-relay", "Signal=5\r\n".to_owned()),
        ("UPDATE", "application/pkcs7-mime", sdp("192.0.2.77", 7777)),
        ("UPDATE", "application/sdp", String::new()),
    ] {
        let text = again(method, "c", 5, &routes, &body).replace("application/sdp", kind);
        let sent = w.caller_sends(&text.replace("UPDATE5", &format!("UPDATE{}", body.len() + kind.len())));
        assert!(sent[0].text.ends_with(&format!("\r\n\r\n{body}")), "{}", sent[0].text);
        w.peer_sends(0, &respond(&sent[0], 200));
    }
    assert_eq!(relayed(&mut w, media_of(&invite, 0), "198.51.100.11:6000"), to("192.0.2.10:4000"));
}

#[test]
fn sdp_within_several_parts_is_found_and_all_lengths_are_right() {
    let mut w = World::new();
    let part = sdp("192.0.2.10", 4000);
    let body = format!(
        "--b1\r\nContent-Type: application/isup;version=x\r\n\r\n\x01\x02\x7f\r\n--b1\r\nContent-Type: application/sdp\r\nContent-Length: {}\r\n\r\n{part}\r\n--b1--\r\n",
        part.len()
    );
    let invite = request_with("INVITE", "c", "", &body).replacen(
        "Content-Type: application/sdp",
        "Content-Type: multipart/mixed;boundary=b1",
        1,
    );
    let sent = w.caller_sends(&invite);
    let (head, body) = sent[1].text.split_once("\r\n\r\n").unwrap();
    assert_eq!(header(head, "Content-Length"), [body.len().to_string()]);
    let (_, shown) =
        body.split_once(&format!("Content-Length: {}\r\n\r\n", header(body, "Content-Length")[0])).unwrap();
    let shown = shown.split("\r\n--b1--").next().unwrap();
    assert_eq!(header(body, "Content-Length"), [shown.len().to_string()]);
    assert!(shown.contains("c=IN IP4 198.18.0.1") && !shown.contains("m=audio 4000"), "{shown}");
    assert!(body.contains("\r\n\r\n\x01\x02\x7f\r\n--b1\r\n"));
}

#[test]
fn broken_descriptions_are_refused_or_pass_by_policy() {
    let body = sdp("192.0.2.10", 4000).replace("m=audio 4000", "m=audio x");
    let invite = request_with("INVITE", "c", "", &body);
    let mut w = World::new();
    let sent = w.caller_sends(&invite);
    assert_sent(&sent, &[("488", "caller")]);
    assert!(sent[0].text.starts_with("SIP/2.0 488 SDP Media Line Not Readable\r\n"));
    let mut w = World::with(|c| c.media.pass_broken = true);
    let sent = w.caller_sends(&invite);
    assert!(sent[1].text.ends_with(&body));
    assert_eq!((count(&w, Counter::SdpUnreadable), w.engine.sessions()), (1, 0));
}

#[test]
fn ice_is_taken_out_or_the_description_is_left_alone() {
    let body =
        sdp("192.0.2.10", 4000) + "a=candidate:1 1 UDP 1 192.0.2.10 4000 typ host\r\na=ice-ufrag:u\r\n";
    let invite = request_with("INVITE", "c", "", &body);
    let sent = World::new().caller_sends(&invite);
    assert!(!sent[1].text.contains("candidate") && !sent[1].text.contains("ice-ufrag"));
    let mut w = World::with(|c| c.media.keep_ice = true);
    let sent = w.caller_sends(&invite);
    assert!(sent[1].text.ends_with(&body));
    // And so is the answer, whatever it says; of a call that never ends nothing stays.
    let answer = sdp("198.51.100.11", 6000);
    let sent = w.peer_sends(0, &respond_with(&sent[1], 200, CONTACT, &answer));
    assert!(sent[0].text.ends_with(&answer));
    assert_eq!(count(&w, Counter::MediaTimeouts), 0);
    assert_no_port_in_use(&mut w);
}

#[test]
fn only_calls_to_marked_peers_are_anchored_where_the_service_says_so() {
    let mut w = World::new();
    w.table.services[0].anchoring = Anchoring::Marked;
    w.table.peers[1].anchor = true;
    w.table.index();
    let body = sdp("192.0.2.10", 4000);
    let sent = w.caller_sends(&request_with("INVITE", "c", "", &body));
    assert!(sent[1].text.ends_with(&body), "p0 is not marked");
    let next = w.peer_sends(0, &respond(&sent[1], 503));
    assert_eq!(next.last().unwrap().to, crate::world::peer(1));
    assert!(!next.last().unwrap().text.ends_with(&body), "p1 is");
    assert_eq!(w.engine.sessions(), 1);
}

#[test]
fn an_offer_without_port_is_refused_with_the_reason_and_the_call_goes_on() {
    let mut w = World::with(|c| c.media.settings.ports = 20_000..=20_001);
    let (_, ok) = answered(&mut w, "c");
    let refused = w.caller_sends(&request_with("INVITE", "d", "", &sdp("192.0.2.10", 4000)));
    assert_sent(&refused, &[("100", "caller"), ("503", "caller")]);
    let two = sdp("192.0.2.10", 4000) + "m=video 4002 RTP/AVP 31\r\n";
    let refused = w.caller_sends(&again("INVITE", "c", 2, &callers_routes(&ok), &two));
    assert_sent(&refused, &[("100", "caller"), ("500", "caller")]);
    assert!(refused[1].text.contains("500 All Media Ports In Use"));
    assert_eq!((count(&w, Counter::MediaExhausted), w.engine.sessions()), (2, 1));
    hang_up(&mut w, "c", &callers_routes(&ok));
    let resting = w.caller_sends(&request_with("INVITE", "e", "", &sdp("192.0.2.10", 4000)));
    assert!(resting[1].text.starts_with("SIP/2.0 503 Unused Media Ports Resting"));
    w.pass(Duration::from_secs(6));
    let sent = w.caller_sends(&request_with("INVITE", "f", "", &sdp("192.0.2.10", 4000)));
    assert_sent(&sent, &[("100", "caller"), ("INVITE", "p0")]);
    assert_no_port_in_use(&mut w);
}

#[test]
fn silence_ends_media_later_on_hold_and_the_next_offer_brings_it_back() {
    let mut w = World::new();
    let (_, ok) = answered(&mut w, "c");
    let routes = callers_routes(&ok);
    let hold = |w: &mut World, cseq: u32, direction: &str| {
        let body = sdp("192.0.2.10", 4000).replace("- 1 1", &format!("- 1 {cseq}")) + direction;
        let sent = w.caller_sends(&again("INVITE", "c", cseq, &routes, &body));
        let answer = sdp("198.51.100.11", 6000).replace("- 1 1", &format!("- 1 {cseq}"));
        let sent = w.peer_sends(0, &respond_with(&sent[1], 200, CONTACT, &answer));
        w.caller_sends(&again("ACK", "c", cseq, &routes, ""));
        sent[0].clone()
    };
    hold(&mut w, 2, "a=sendonly\r\n");
    assert!(w.engine.media_of(Some(b"c"), 9)[0].held);
    w.pass(Duration::from_secs(300));
    assert_eq!((w.engine.sessions(), count(&w, Counter::MediaTimeouts)), (1, 0), "on hold");
    let resumed = hold(&mut w, 3, "");
    w.pass(Duration::from_secs(70));
    assert_eq!((w.engine.sessions(), count(&w, Counter::MediaTimeouts)), (0, 1));
    assert_eq!(relayed(&mut w, media_of(&resumed, 0), "192.0.2.10:4000"), None);
    // A node that was started anew knows as little of the call.
    let back = hold(&mut w, 4, "");
    assert_eq!((w.engine.sessions(), count(&w, Counter::MediaReopened)), (1, 1));
    assert_eq!(relayed(&mut w, media_of(&back, 0), "192.0.2.10:4000"), to("198.51.100.11:6000"));
    hang_up(&mut w, "c", &routes);
    assert_no_port_in_use(&mut w);
}

#[test]
fn many_calls_leave_every_port_free() {
    let mut w = World::with(|c| c.media.settings.ports = 20_000..=20_999);
    for n in 0..20_000u32 {
        let call = format!("n{n}");
        let sent = w.caller_sends(&request_with("INVITE", &call, "", &sdp("192.0.2.10", 4000)));
        assert_sent(&sent, &[("100", "caller"), ("INVITE", "p0")]);
        if n % 3 == 0 {
            w.peer_sends(0, &respond(&sent[1], 486));
        } else {
            let ok = respond_with(&sent[1], 200, CONTACT, &sdp("198.51.100.11", 6000));
            let ok = w.peer_sends(0, &ok);
            hang_up(&mut w, &call, &callers_routes(&ok[0]));
        }
        w.now += MS(20);
        w.engine.on_timer(w.now, &w.table, &mut w.out);
        w.out.sent.clear();
    }
    assert_no_port_in_use(&mut w);
    assert_eq!(count(&w, Counter::MediaExhausted), 0);
}
