use super::*;
use crate::configure;
use exchange::errands::Errand;
use routing::{PeerState, Why};

/// Remembers what it was told.
#[derive(Default)]
struct Maps {
    allowed: HashMap<Prefix, Source>,
    epoch: u32,
}

impl Steering for Maps {
    fn allow(&mut self, prefix: Prefix, source: Source) -> Result<(), String> {
        self.allowed.insert(prefix, source);
        Ok(())
    }
    fn forbid(&mut self, prefix: Prefix) -> Result<(), String> {
        self.allowed.remove(&prefix).map(drop).ok_or_else(|| format!("{prefix:?} is not there"))
    }
    fn set_epoch(&mut self, generation: u32) -> Result<(), String> {
        self.epoch = generation;
        Ok(())
    }
}

const S: fn(u64) -> Duration = Duration::from_secs;

fn config(peers: &str) -> String {
    format!(
        "[node]\nname = \"n\"\nregion = \"A\"\n[dataplane]\nbackend = \"udp\"\n[[region]]\nname = \"A\"\n[[region]]\nname = \"B\"\n\
         [[listener]]\nname = \"l\"\naddress = \"192.0.2.1:5060\"\nservice = \"s\"\n\
         [[service]]\nname = \"s\"\nlistener = \"l\"\n[service.probe]\ninterval_ms = 1000\n{peers}\n\
         [[service.peer]]\nname = \"a1\"\naddress = \"192.0.2.11:5060\"\nregion = \"A\"\n\
         [[service.peer]]\nname = \"b1\"\naddress = \"192.0.2.21:5060\"\nregion = \"B\"\n"
    )
}

struct World {
    controller: Controller,
    exchange: Arc<Exchange>,
    maps: Maps,
}

impl World {
    fn new(text: &str) -> Self {
        let config = configure::parse("f", text).unwrap();
        let exchange = Exchange::new(2).unwrap();
        let mut controller = Controller::new(S(1), config, Arc::clone(&exchange), &[], 7);
        let mut maps = Maps::default();
        controller.tell_sources(&mut maps);
        Self { controller, exchange, maps }
    }

    fn probe(&mut self, now: Duration, peer: &str, answer: Option<u16>) {
        let peer = self.controller.roster.named(peer).unwrap();
        let answer = answer.map(|status| (status, Duration::from_millis(1)));
        self.controller.on_reports(now, [Report::Probe { peer, answer }], &mut self.maps);
    }

    fn reload(&mut self, now: Duration, text: &str) -> Result<Vec<String>, Vec<String>> {
        self.controller.reload(now, configure::parse("f", text).unwrap(), &mut self.maps)
    }

    /// Name of the peer that a call goes to first, and why.
    fn first(&self) -> (String, Why) {
        let table = self.exchange.table.load();
        let choice = routing::select(&table, &table.services[0], &[], 0).unwrap();
        (table.peer(choice.peer).unwrap().name.to_string(), choice.why)
    }

    /// Probes sent until a time, by peer.
    fn probes(&mut self, from: u64, to: u64) -> HashMap<PeerId, usize> {
        let mut sent = HashMap::new();
        for ms in from..to {
            self.controller.probe_due(Duration::from_millis(ms));
            for errands in &self.exchange.errands {
                while let Some(errand) = errands.take() {
                    if let Errand::Probe { peer, .. } = errand {
                        *sent.entry(peer).or_default() += 1;
                    }
                }
            }
        }
        sent
    }
}

#[test]
fn evidence_becomes_a_table_and_an_epoch() {
    let mut w = World::new(&config(""));
    assert_eq!((w.first(), w.controller.generation(), w.maps.epoch), (("a1".to_owned(), Why::Local), 1, 1));
    (2..5).for_each(|s| w.probe(S(s), "a1", None));
    assert_eq!(
        (w.first(), w.controller.generation(), w.maps.epoch),
        (("b1".to_owned(), Why::OtherRegion), 2, 2)
    );
    let source = w.maps.allowed.values().find(|s| s.peer == w.controller.roster.named("a1")).unwrap();
    assert_eq!((source.state, source.region), (PeerState::Unhealthy, Some(RegionId(0))));
    w.probe(S(6), "b1", None);
    assert_eq!(w.controller.generation(), 2, "what changes no state publishes nothing");
}

#[test]
fn the_table_of_the_first_moment_routes_although_nothing_is_known() {
    let w = World::new(&config(""));
    let table = w.exchange.table.load();
    assert!(
        table.peers.iter().all(|p| p.state == PeerState::Unknown) && table.takes_calls(&table.services[0])
    );
}

#[test]
fn peers_that_left_are_owed_nothing() {
    let passive = "kind = \"passive\"\n";
    let mut w = World::new(&config(passive));
    let peer = w.controller.roster.named("a1").unwrap();
    w.controller.on_reports(S(2), [Report::RetryAfter(peer, S(5))], &mut w.maps);
    assert!(w.controller.deadline().is_some(), "a trial is due");
    let gone = config(passive)
        .replace("[[service.peer]]\nname = \"a1\"\naddress = \"192.0.2.11:5060\"\nregion = \"A\"\n", "");
    assert_eq!(w.reload(S(3), &gone).unwrap().len(), 1);
    assert_eq!(w.controller.deadline(), None, "or the loop would spin");
    assert!(w.maps.allowed.len() == 2, "its calls may go on: {:?}", w.maps.allowed);
    // It comes back as a new one, with its old number.
    w.reload(S(4), &config(passive)).unwrap();
    assert_eq!(
        (w.controller.roster.named("a1"), w.controller.observer.state(peer)),
        (Some(peer), State::Unknown)
    );
}

#[test]
fn probes_follow_the_policy_across_reloads() {
    let mut w = World::new(&config("kind = \"passive\"\n"));
    assert!(w.probes(1_000, 6_000).is_empty(), "never OPTIONS");
    w.reload(S(6), &config("")).unwrap();
    let sent = w.probes(6_000, 16_000);
    assert!(sent.len() == 2 && sent.values().all(|n| (8..=13).contains(n)), "{sent:?}");
    let often = config("").replace("interval_ms = 1000", "interval_ms = 100\ntimeout_ms = 50");
    w.reload(S(16), &often).unwrap();
    let sent = w.probes(16_000, 21_000);
    assert!(sent.values().all(|n| (40..=65).contains(n)), "{sent:?}");
    let peer = w.controller.roster.named("a1").unwrap();
    w.controller.admit(S(21), &[peer], Admission::Disabled, &mut w.maps);
    let sent = w.probes(21_000, 26_000);
    assert!(!sent.contains_key(&peer) && sent.len() == 1, "a disabled peer is left alone: {sent:?}");
    w.controller.admit(S(26), &[peer], Admission::Open, &mut w.maps);
    assert!(w.probes(26_000, 27_000).contains_key(&peer), "and probed at once when enabled");
}

#[test]
fn what_needs_a_restart_changes_nothing() {
    let mut w = World::new(&config(""));
    let other =
        config("").replace("192.0.2.1:5060", "192.0.2.2:5060").replace("name = \"a1\"", "name = \"a9\"");
    let refused = w.reload(S(2), &other).unwrap_err();
    assert!(refused[0].starts_with("listener: "), "{refused:?}");
    assert!(w.controller.roster.named("a1").is_some() && w.controller.generation() == 1);
}

/// Two months of random failures of four peers, told to three nodes at once: one without composites, one
/// with them in shadow mode, one that enforces them.
#[test]
fn a_shadow_changes_nothing_and_the_last_resort_is_the_last() {
    let peers = "[[service.peer]]\nname = \"a2\"\naddress = \"192.0.2.12:5060\"\nregion = \"A\"\n\
                 [[service.peer]]\nname = \"b2\"\naddress = \"192.0.2.22:5060\"\nregion = \"B\"\n";
    let composites = |mode: &str| {
        let of = |region: &str| {
            format!(
                "[[health.source]]\nname = \"{region}\"\nservice = \"s\"\nregion = \"{region}\"\n\
                 [[health.composite]]\nname = \"{region}\"\nsources = [\"{region}\"]\nregion = \"{region}\"\nmode = \"{mode}\"\nfailback = \"immediate\"\n"
            )
        };
        config("hold_down_ms = 5000\n") + peers + &of("A") + &of("B")
    };
    let plain = config("hold_down_ms = 5000\n") + peers;
    let mut worlds =
        [World::new(&plain), World::new(&composites("shadow")), World::new(&composites("enforce"))];
    let mut seed = 3u64;
    let mut random = move |below: u64| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed % below
    };
    let mut alive = [true; 4];
    let mut seen = HashSet::new();
    let mut now = S(10);
    for _ in 0..60_000 {
        let n = random(4) as usize;
        if random(12) == 0 {
            alive[n] = !alive[n];
        }
        now += Duration::from_millis(100 + random(170_000) / (1 + random(100)));
        let answer = (alive[n] && random(50) > 0).then_some(200);
        for w in &mut worlds {
            w.controller.on_time(now, &mut w.maps);
            w.probe(now, ["a1", "b1", "a2", "b2"][n], answer);
        }
        let [plain, shadow, enforced] = worlds.each_ref().map(|w| w.exchange.table.load());
        assert_eq!(shadow.services, plain.services, "the shadow moved something");
        let service = &enforced.services[0];
        let choice = routing::select(&enforced, service, &[], random(1 << 32) as u32).unwrap();
        seen.insert(choice.why.label());
        let usable = |p: &routing::Peer| p.is_available() && !service.is_region_down(p.region);
        let any = |test: &dyn Fn(&routing::Peer) -> bool| enforced.peers.iter().any(test);
        match choice.why {
            Why::LastResort => assert!(!any(&|p| p.is_available()), "a healthy peer was passed over"),
            Why::OtherRegion => assert!(
                !any(&|p| usable(p) && p.region == enforced.local_region) || service.regions_down == 3
            ),
            Why::Local => assert_eq!(enforced.peer(choice.peer).unwrap().region, enforced.local_region),
            // Only where another region is in use, and then that one is the choice.
            Why::RegionDown | Why::Trial => panic!("{:?} as a first choice", choice.why),
        }
    }
    assert_eq!(seen.len(), 3, "every kind of choice was made: {seen:?}");
    let of_regions = worlds[2].controller.history.counts().filter(|(kind, ..)| *kind == Kind::Region);
    let verdicts: u64 = of_regions.map(|(.., count)| count).sum();
    assert!(verdicts > 20, "{verdicts} verdicts");
}
