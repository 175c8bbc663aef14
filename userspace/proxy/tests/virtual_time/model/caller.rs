//! A user agent that places calls, hangs up, and sometimes cancels (RFC 3261 13, 15, 9).

use super::network::{Event, Network, Node, Random};
use crate::world::{CALLER, Sent, callers_routes, header, request_with, sdp};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

const T1: Duration = Duration::from_millis(500);
const GIVE_UP: Duration = Duration::from_secs(32);

/// A request that is repeated until something is heard.
struct Pending {
    text: String,
    interval: Duration,
    since: Duration,
}

#[derive(Default)]
struct Call {
    /// Statuses of the final responses other than 2xx.
    refusals: BTreeSet<u16>,
    /// Tags of those who answered.
    answers: BTreeSet<String>,
    provisional: bool,
    cancelled: bool,
}

pub(super) struct Caller {
    random: Random,
    calls: BTreeMap<String, Call>,
    /// By transaction: method and Call-ID, and the peer's tag for a BYE.
    pending: BTreeMap<String, Pending>,
}

impl Caller {
    pub(super) fn new(random: Random) -> Self {
        Self { random, calls: BTreeMap::new(), pending: BTreeMap::new() }
    }

    pub(super) fn place(&mut self, now: Duration, call: usize, network: &mut Network) {
        let id = format!("call{call}");
        self.calls.insert(id.clone(), Call::default());
        let text = request_with("INVITE", &id, "", &sdp("192.0.2.10", 4000));
        self.start(now, format!("INVITE {id}"), text, network);
        if self.random.percent(15) {
            let at = now + self.random.ms(5, 9_000);
            network.at(at, Event::CallerTimer(format!("cancel {id}")));
        }
    }

    fn start(&mut self, now: Duration, key: String, text: String, network: &mut Network) {
        network.send(now, Node::Caller, Node::Proxy, text.clone());
        network.at(now + T1, Event::CallerTimer(key.clone()));
        self.pending.insert(key, Pending { text, interval: T1, since: now });
    }

    pub(super) fn on_timer(&mut self, now: Duration, key: &str, network: &mut Network) {
        if let Some(id) = key.strip_prefix("cancel ") {
            return self.cancel(now, id, network);
        }
        let Some(pending) = self.pending.get_mut(key) else { return };
        if now >= pending.since + GIVE_UP {
            self.pending.remove(key);
            return;
        }
        network.send(now, Node::Caller, Node::Proxy, pending.text.clone());
        pending.interval *= 2;
        network.at(now + pending.interval, Event::CallerTimer(key.to_owned()));
    }

    fn cancel(&mut self, now: Duration, id: &str, network: &mut Network) {
        let call = self.calls.get_mut(id).expect("a call");
        if !call.answers.is_empty() || !call.refusals.is_empty() {
            return;
        }
        if !call.provisional {
            // Not before a provisional (9.1).
            network.at(now + T1, Event::CallerTimer(format!("cancel {id}")));
            return;
        }
        call.cancelled = true;
        self.start(now, format!("CANCEL {id}"), request_with("CANCEL", id, "", ""), network);
    }

    pub(super) fn receive(&mut self, now: Duration, text: &str, network: &mut Network) {
        let id = header(text, "Call-ID")[0].to_owned();
        let status: u16 = text["SIP/2.0 ".len()..][..3].parse().expect("a response");
        let method = header(text, "CSeq")[0].split(' ').nth(1).expect("a method").to_owned();
        let to = header(text, "To")[0];
        let tag = to.split(";tag=").nth(1).unwrap_or_default().to_owned();
        assert_eq!(header(text, "Via").len(), 1, "the proxy takes its Via off");
        match method.as_str() {
            "INVITE" => self.on_invite_response(now, &id, status, &tag, text, network),
            "BYE" if status >= 200 => drop(self.pending.remove(&format!("BYE {id} {tag}"))),
            _ if status >= 200 => drop(self.pending.remove(&format!("{method} {id}"))),
            _ => {}
        }
    }

    fn on_invite_response(
        &mut self,
        now: Duration,
        id: &str,
        status: u16,
        tag: &str,
        text: &str,
        network: &mut Network,
    ) {
        self.pending.remove(&format!("INVITE {id}"));
        let call = self.calls.get_mut(id).expect("a call");
        match status {
            100..200 => call.provisional = true,
            200..300 => {
                let sent = Sent { to: CALLER.parse().expect("an address"), text: text.to_owned() };
                let routes = callers_routes(&sent);
                let contact = header(text, "Contact")[0].trim_matches(['<', '>']).to_owned();
                let in_dialog = |method: &str, cseq: u32| {
                    format!(
                        "{method} {contact} SIP/2.0\r\nVia: SIP/2.0/UDP {CALLER};branch=z9hG4bK{id}{method}{tag}\r\n\
                         Max-Forwards: 70\r\n{routes}From: <sip:alice@example.com>;tag=a\r\n\
                         To: <sip:bob@example.com>;tag={tag}\r\nCall-ID: {id}\r\nCSeq: {cseq} {method}\r\nContent-Length: 0\r\n\r\n"
                    )
                };
                network.send(now, Node::Caller, Node::Proxy, in_dialog("ACK", 1));
                if call.answers.insert(tag.to_owned()) {
                    self.start(now, format!("BYE {id} {tag}"), in_dialog("BYE", 2), network);
                }
            }
            _ => {
                call.refusals.insert(status);
                let ack = request_with("ACK", id, "", "")
                    .replace("To: <sip:bob@example.com>", &format!("To: <sip:bob@example.com>;tag={tag}"));
                network.send(now, Node::Caller, Node::Proxy, ack);
            }
        }
    }

    pub(super) fn answered(&self) -> usize {
        self.calls.values().filter(|c| !c.answers.is_empty()).count()
    }

    pub(super) fn judge(&self, seed: u64, calls: usize) {
        assert_eq!(self.calls.len(), calls);
        for (id, call) in &self.calls {
            assert!(
                !call.answers.is_empty() || !call.refusals.is_empty(),
                "seed {seed} {id}: no final response"
            );
            assert!(call.refusals.len() <= 1, "seed {seed} {id}: several refusals {:?}", call.refusals);
            let refused_by_proxy = call.refusals.contains(&487);
            assert!(call.cancelled || !refused_by_proxy, "seed {seed} {id}: 487 without CANCEL");
        }
    }
}
