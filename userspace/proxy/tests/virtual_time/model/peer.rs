//! A user agent that is called: it answers, refuses, rings for ever or keeps silent.

use super::network::{Event, Network, Node, Random};
use crate::world::{Sent, header, respond_with, sdp};
use std::{collections::BTreeMap, time::Duration};

const T1: Duration = Duration::from_millis(500);
const T2: Duration = Duration::from_secs(4);
const GIVE_UP: Duration = Duration::from_secs(32);

/// What a peer does with a call.
#[derive(Clone, Copy, Debug)]
enum Temper {
    Silent,
    Refuse(u16),
    Answer,
    /// A provisional, then nothing.
    RingForEver,
}

struct Transaction {
    invite: Sent,
    temper: Temper,
    tag: String,
    /// Latest response, repeated for a retransmission.
    last: Option<String>,
    status: u16,
    final_since: Duration,
    interval: Duration,
    acknowledged: bool,
    hung_up: bool,
}

pub(super) struct Peer {
    n: usize,
    random: Random,
    /// By branch.
    transactions: BTreeMap<String, Transaction>,
    serial: u32,
}

impl Peer {
    pub(super) fn new(n: usize, random: Random) -> Self {
        Self { n, random, transactions: BTreeMap::new(), serial: 0 }
    }

    fn reply(&self, now: Duration, text: String, network: &mut Network) {
        network.send(now, Node::Peer(self.n), Node::Proxy, text);
    }

    pub(super) fn receive(&mut self, now: Duration, text: &str, network: &mut Network) {
        let branch = header(text, "Via")[0].to_owned();
        let method = text.split(' ').next().expect("a method");
        let sent = Sent { to: crate::world::peer(self.n), text: text.to_owned() };
        match method {
            "INVITE" => self.on_invite(now, &branch, sent, network),
            "ACK" => self.on_ack(&branch, text),
            "CANCEL" => {
                self.reply(now, respond_with(&sent, 200, "", ""), network);
                if self.transactions.get(&branch).is_some_and(|t| t.status < 200) {
                    self.respond(now, &branch, 487, network);
                }
            }
            _ => {
                let tag = header(text, "To")[0].split(";tag=").nth(1).unwrap_or_default().to_owned();
                if let Some(t) = self.transactions.values_mut().find(|t| t.tag == tag) {
                    t.hung_up = true;
                }
                self.reply(now, respond_with(&sent, 200, "", ""), network);
            }
        }
    }

    fn on_invite(&mut self, now: Duration, branch: &str, invite: Sent, network: &mut Network) {
        if let Some(t) = self.transactions.get(branch) {
            // A 2xx is repeated by its own timer, not for the INVITE.
            if let Some(last) = t.last.clone().filter(|_| !(200..300).contains(&t.status)) {
                self.reply(now, last, network);
            }
            return;
        }
        self.serial += 1;
        let temper = match self.random.below(20) {
            0..4 => Temper::Silent,
            4 => Temper::RingForEver,
            5..12 => Temper::Refuse([408, 503, 504, 404, 486, 500, 603][self.random.below(7) as usize]),
            _ => Temper::Answer,
        };
        let tag = format!("p{}x{}", self.n, self.serial);
        let transaction = Transaction {
            invite,
            temper,
            tag,
            last: None,
            status: 0,
            final_since: Duration::ZERO,
            interval: T1,
            acknowledged: false,
            hung_up: false,
        };
        self.transactions.insert(branch.to_owned(), transaction);
        if !matches!(temper, Temper::Silent) {
            let rings = matches!(temper, Temper::RingForEver) || self.random.percent(60);
            if rings {
                let at = now + self.random.ms(1, 2_500);
                network.at(at, Event::PeerTimer(self.n, format!("ring {branch}")));
            }
            let at = now + self.random.ms(1, 6_000);
            network.at(at, Event::PeerTimer(self.n, format!("decide {branch}")));
        }
    }

    fn on_ack(&mut self, branch: &str, text: &str) {
        let tag = header(text, "To")[0].split(";tag=").nth(1).unwrap_or_default();
        for (known, t) in &mut self.transactions {
            let of_refusal = known == branch && t.status >= 300;
            let of_answer = t.tag == tag && (200..300).contains(&t.status);
            t.acknowledged |= of_refusal || of_answer;
        }
    }

    fn respond(&mut self, now: Duration, branch: &str, status: u16, network: &mut Network) {
        let address = crate::world::peer(self.n);
        let t = self.transactions.get_mut(branch).expect("a transaction");
        let contact = format!("Contact: <sip:bob@{address}>\r\n");
        let body = if status == 200 { sdp("198.51.100.11", 6000) } else { String::new() };
        let text = respond_with(&t.invite, status, &contact, &body)
            .replace(";tag=b\r\n", &format!(";tag={}\r\n", t.tag));
        t.last = Some(text.clone());
        t.status = status;
        if status >= 200 {
            t.final_since = now;
            network.at(now + T1, Event::PeerTimer(self.n, format!("repeat {branch}")));
        }
        self.reply(now, text, network);
    }

    pub(super) fn on_timer(&mut self, now: Duration, key: &str, network: &mut Network) {
        let (what, branch) = key.split_once(' ').expect("a timer");
        let Some(t) = self.transactions.get_mut(branch) else { return };
        match what {
            "ring" if t.status < 200 => self.respond(now, branch, 180, network),
            "decide" if t.status < 200 => match t.temper {
                Temper::Answer => self.respond(now, branch, 200, network),
                Temper::Refuse(status) => self.respond(now, branch, status, network),
                Temper::Silent | Temper::RingForEver => {}
            },
            "repeat" if !t.acknowledged && now < t.final_since + GIVE_UP => {
                t.interval = (t.interval * 2).min(T2);
                let (again, text) = (now + t.interval, t.last.clone().expect("a final response"));
                network.at(again, Event::PeerTimer(self.n, key.to_owned()));
                self.reply(now, text, network);
            }
            _ => {}
        }
    }

    pub(super) fn judge(&self, seed: u64, may_be_found_dead: bool) {
        for (branch, t) in self.transactions.iter().filter(|(_, t)| t.status >= 200) {
            let call = header(&t.invite.text, "Call-ID")[0];
            assert!(
                t.acknowledged,
                "seed {seed} {call}: peer {} got no ACK for its {} ({branch})",
                self.n, t.status
            );
            // A BYE to a peer that is found dead is answered by the node.
            let answered = t.status < 300 && !may_be_found_dead;
            assert!(!answered || t.hung_up, "seed {seed} {call}: an answer at peer {} was lost", self.n);
        }
    }
}
