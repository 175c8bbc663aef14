//! Thousands of calls over a network that loses, repeats, delays and reorders, with callers that cancel
//! and peers that refuse, fall silent, ring for ever and answer late.
//!
//! Everything follows from a seed. A failure names it; `STROWGER_SEED=n cargo test -p proxy model` runs
//! that one alone.

mod caller;
mod network;
mod peer;

use crate::world::{World, header};
use caller::Caller;
use network::{Event, Network, Node, Random};
use peer::Peer;
use routing::{Fork, PeerState};
use std::{collections::HashMap, time::Duration};

const SEEDS: u64 = 48;
const CALLS: usize = 500;
const PEERS: usize = 4;
/// As the world's table says.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(2);

/// What the proxy did for one call at one peer, as seen at the proxy.
#[derive(Debug)]
struct Attempt {
    peer: usize,
    at: Duration,
    branch: String,
    /// Something was heard before the proxy gave the attempt up.
    heard: bool,
    /// A provisional was heard at all.
    provisional: bool,
    /// The table has called its peer dead since.
    found_dead: bool,
    /// Final status, if it came before the attempt was given up.
    status: Option<u16>,
}

/// What the proxy told the caller about one INVITE.
#[derive(Debug, Default)]
struct Told {
    answered: bool,
    refused: Option<u16>,
}

/// Everything, and a judge who watches the proxy's door.
struct Model {
    seed: u64,
    world: World,
    network: Network,
    caller: Caller,
    peers: Vec<Peer>,
    parallel: bool,
    /// Peers are found dead and alive again, all the while.
    peers_die: bool,
    attempts: HashMap<String, Vec<Attempt>>,
    told: HashMap<String, Told>,
}

impl Model {
    fn new(seed: u64) -> Self {
        let mut world = World::with(|c| c.rng_seed = seed);
        let parallel = seed.is_multiple_of(3);
        if parallel {
            world.table.services[0].fork = Fork::Parallel;
            world.table.peers.iter_mut().for_each(|p| p.priority = 0);
            world.table.index();
        }
        let mut random = Random(seed);
        let mut network = Network::new(Random(random.next()));
        // From a perfect network to one that loses every twelfth message. With more, an answer and its ACK
        // would now and then be lost as often as they are repeated.
        network.loss_percent = (seed % 5) * 2;
        let peers = (0..PEERS).map(|n| Peer::new(n, Random(random.next()))).collect();
        let caller = Caller::new(Random(random.next()));
        Self {
            seed,
            world,
            network,
            caller,
            peers,
            parallel,
            peers_die: seed.is_multiple_of(4),
            attempts: HashMap::new(),
            told: HashMap::new(),
        }
    }

    fn run(mut self) {
        if self.peers_die {
            let mut random = Random(self.seed ^ 0xdead);
            for n in 0..PEERS {
                let mut at = self.world.now;
                for flip in 0..10 {
                    at += random.ms(200, 1_500);
                    self.network.at(at, Event::Health(n, flip % 2 == 1));
                }
            }
        }
        for call in 0..CALLS {
            let at = self.world.now + Duration::from_millis(20 * call as u64);
            self.network.at(at, Event::Place(call));
        }
        let mut end = None;
        loop {
            // The network's next event or the proxy's next timer, whichever is sooner.
            let proxy = self.world.engine.next_deadline();
            let Some(next) = proxy.into_iter().chain(self.network.next()).min() else { break };
            self.world.now = self.world.now.max(next);
            let limit = *end.get_or_insert(self.world.now + Duration::from_secs(900));
            assert!(self.world.now < limit, "seed {}: something never ends", self.seed);
            match self.network.pop(self.world.now) {
                Some(event) => self.handle(event),
                None => {
                    let now = self.world.now;
                    self.world.engine.on_timer(now, &self.world.table, &mut self.world.out);
                    self.take_sent();
                }
            }
        }
        self.judge();
    }

    fn handle(&mut self, event: Event) {
        let now = self.world.now;
        match event {
            Event::Place(call) => self.caller.place(now, call, &mut self.network),
            Event::Health(n, alive) => self.health(n, alive),
            Event::CallerTimer(id) => self.caller.on_timer(now, &id, &mut self.network),
            Event::PeerTimer(n, id) => self.peers[n].on_timer(now, &id, &mut self.network),
            Event::Deliver { from, to, text } => match to {
                Node::Caller => self.caller.receive(now, &text, &mut self.network),
                Node::Peer(n) => self.peers[n].receive(now, &text, &mut self.network),
                Node::Proxy => {
                    if let Node::Peer(n) = from {
                        self.watch_response(n, &text);
                    }
                    let sent = match from {
                        Node::Peer(n) => self.world.peer_sends(n, &text),
                        _ => self.world.caller_sends(&text),
                    };
                    self.world.out.sent = sent;
                    self.take_sent();
                }
            },
        }
    }

    /// The peer's health changes in the table; whether it still answers is another matter.
    fn health(&mut self, n: usize, alive: bool) {
        if !alive {
            for attempt in self.attempts.values_mut().flatten().filter(|a| a.peer == n) {
                attempt.found_dead = true;
            }
        }
        let state = if alive { PeerState::Healthy } else { PeerState::Unhealthy };
        self.world.out.sent = self.world.set_state(n, state);
        self.take_sent();
    }

    /// What the proxy sends goes onto the network, past the judge.
    fn take_sent(&mut self) {
        for sent in std::mem::take(&mut self.world.out.sent) {
            let to = match (0..PEERS).find(|n| crate::world::peer(*n) == sent.to) {
                Some(n) => Node::Peer(n),
                None => Node::Caller,
            };
            match to {
                Node::Peer(n) => self.watch_request(n, &sent.text),
                _ => self.watch_answer(&sent.text),
            }
            self.network.send(self.world.now, Node::Proxy, to, sent.text);
        }
    }

    /// One final response for each INVITE, or all 2xx that there are.
    fn watch_answer(&mut self, text: &str) {
        let seed = self.seed;
        let call = header(text, "Call-ID")[0];
        let status: u16 = text["SIP/2.0 ".len()..][..3].parse().expect("a status");
        if !text.contains(" INVITE\r\n") || status < 200 {
            return;
        }
        let told = self.told.entry(call.to_owned()).or_default();
        if status < 300 {
            told.answered = true;
        } else if told.refused != Some(status) {
            assert!(!told.answered, "seed {seed} {call}: {status} after a 2xx");
            assert_eq!(told.refused, None, "seed {seed} {call}: another refusal, {status}");
            told.refused = Some(status);
        }
    }

    fn watch_response(&mut self, n: usize, text: &str) {
        let call = header(text, "Call-ID")[0];
        let status: u16 = text["SIP/2.0 ".len()..][..3].parse().expect("a status");
        let Some(attempts) = self.attempts.get_mut(call) else { return };
        if !text.contains(" INVITE\r\n") {
            return;
        }
        let Some(attempt) = attempts.iter_mut().find(|a| a.peer == n) else { return };
        attempt.provisional |= status < 200;
        attempt.heard |= self.world.now <= attempt.at + ATTEMPT_TIMEOUT;
        if status >= 200 && attempt.heard && !attempt.found_dead {
            attempt.status.get_or_insert(status);
        }
    }

    fn watch_request(&mut self, n: usize, text: &str) {
        let (seed, now) = (self.seed, self.world.now);
        let call = header(text, "Call-ID")[0].to_owned();
        let branch = header(text, "Via")[0].to_owned();
        let attempts = self.attempts.entry(call.clone()).or_default();
        if text.starts_with("CANCEL") {
            let attempt = attempts.iter().find(|a| a.branch == branch).expect("a CANCEL for an attempt");
            assert!(attempt.provisional, "seed {seed} {call}: CANCEL before a provisional");
        }
        if !text.starts_with("INVITE") || attempts.iter().any(|a| a.branch == branch) {
            return;
        }
        assert!(attempts.iter().all(|a| a.peer != n), "seed {seed} {call}: peer {n} is tried twice");
        let failed = |a: &Attempt| match a.status {
            Some(status) => matches!(status, 408 | 503 | 504),
            None if a.found_dead => true,
            None => !a.heard && now >= a.at + ATTEMPT_TIMEOUT,
        };
        let together = |a: &Attempt| self.parallel && a.at == now;
        for a in attempts.iter() {
            assert!(failed(a) || together(a), "seed {seed} {call}: retry at {now:?} after {a:?}");
        }
        let peers = &self.world.table.peers;
        let is_dead = |n: usize| peers[n].state == PeerState::Unhealthy;
        let local_left = (0..2).any(|l| l != n && !is_dead(l) && attempts.iter().all(|a| a.peer != l));
        assert!(n < 2 || !local_left, "seed {seed} {call}: the other region too early");
        attempts.push(Attempt {
            peer: n,
            at: now,
            branch,
            heard: false,
            provisional: false,
            found_dead: false,
            status: None,
        });
    }

    /// All is quiet: what must be true of every call.
    fn judge(&mut self) {
        let seed = self.seed;
        self.caller.judge(seed, CALLS);
        self.peers.iter().for_each(|peer| peer.judge(seed, self.peers_die));
        let answers = self.caller.answered();
        let engine = &self.world.engine;
        assert_eq!(
            (engine.transactions(), engine.sessions()),
            (0, 0),
            "seed {seed}: something outlived its timers"
        );
        assert!(answers > 0, "seed {seed}: the model must answer calls");
    }
}

#[test]
fn every_call_ends_well_whatever_the_network_does() {
    let only = std::env::var("STROWGER_SEED").ok().and_then(|s| s.parse().ok());
    let seeds = only.map_or(1..SEEDS + 1, |seed: u64| seed..seed + 1);
    std::thread::scope(|scope| {
        let half = |odd: u64| {
            let seeds = seeds.clone();
            move || seeds.filter(|s| s % 2 == odd).for_each(|seed| Model::new(seed).run())
        };
        let other = scope.spawn(half(1));
        half(0)();
        other.join().expect("the other half");
    });
}
