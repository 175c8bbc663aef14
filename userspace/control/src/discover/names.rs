//! What is known of every name, and when to ask again (requirements B3, B5).
//!
//! A failed look-up changes nothing but the time of the next one: the latest good answer stays in force
//! (RFC 8767). A name that does not exist any more keeps its servers for a time of grace.

use super::{Answer, Question, Target};
use crate::{
    configure::DnsConfig,
    history::{History, Kind},
};
use std::{
    collections::{BTreeMap, HashSet},
    time::Duration,
};

/// Wait after the first failure; doubled with each further one, up to the ceiling.
const FIRST_RETRY: Duration = Duration::from_secs(1);
/// After a peer failed its name is asked again within this time, whatever the TTL.
const AFTER_FAILURE: Duration = Duration::from_secs(30);

/// All names that services want.
#[derive(Debug)]
pub struct Names {
    config: DnsConfig,
    entries: BTreeMap<Question, Entry>,
}

#[derive(Debug, Default)]
struct Entry {
    targets: Vec<Target>,
    /// There was an answer, or the state of an earlier run.
    known: bool,
    /// Asked, not answered yet.
    asking: bool,
    next_at: Duration,
    failures: u32,
    stale_since: Option<Duration>,
    negative_since: Option<Duration>,
    queries: u64,
    failed_queries: u64,
    latest: &'static str,
}

/// A name, as shown.
#[derive(Clone, Debug)]
pub struct Status {
    /// The question.
    pub question: Question,
    /// Servers in force.
    pub targets: usize,
    /// What the latest answer was.
    pub latest: &'static str,
    /// How long the servers have been in force beyond what DNS vouches for.
    pub stale_for: Option<Duration>,
    /// Time to the next look-up.
    pub next_in: Duration,
    /// Look-ups made.
    pub queries: u64,
    /// Those that failed.
    pub failures: u64,
}

impl Names {
    /// None yet.
    pub fn new(config: DnsConfig) -> Self {
        Self { config, entries: BTreeMap::new() }
    }

    /// Wants these names, and no others.
    pub fn want(&mut self, now: Duration, config: DnsConfig, questions: HashSet<Question>) {
        self.config = config;
        self.entries.retain(|question, _| questions.contains(question));
        for question in questions {
            self.entries.entry(question).or_insert_with(|| Entry { next_at: now, ..Entry::default() });
        }
    }

    /// Takes over what an earlier run knew; it is stale until an answer comes.
    pub fn restore(&mut self, now: Duration, question: &Question, targets: Vec<Target>) {
        if let Some(entry) = self.entries.get_mut(question).filter(|e| !e.known) {
            *entry = Entry { targets, known: true, stale_since: Some(now), ..std::mem::take(entry) };
        }
    }

    /// Names to ask now; an answer is owed for each.
    pub fn due(&mut self, now: Duration) -> Vec<Question> {
        let mut due = Vec::new();
        for (question, entry) in self.entries.iter_mut().filter(|(_, e)| !e.asking && e.next_at <= now) {
            entry.asking = true;
            entry.queries += 1;
            due.push(question.clone());
        }
        due
    }

    /// When a name is due next.
    pub fn next(&self) -> Option<Duration> {
        self.entries.values().filter(|e| !e.asking).map(|e| e.next_at).min()
    }

    /// An answer; whether the servers changed.
    pub fn on_answer(
        &mut self,
        now: Duration,
        question: &Question,
        answer: Answer,
        history: &mut History,
    ) -> bool {
        let Some(entry) = self.entries.get_mut(question) else { return false };
        entry.asking = false;
        let config = &self.config;
        let within = |ttl: Duration| now + ttl.clamp(config.ttl_floor, config.ttl_ceiling);
        let before = (entry.latest, entry.targets.len());
        let (failed, negative) = (matches!(answer, Answer::Failed(_)), matches!(answer, Answer::Negative));
        let (latest, targets) = match answer {
            Answer::Targets { mut targets, ttl, failed } => {
                entry.next_at = within(if failed.is_empty() { ttl } else { config.ttl_floor });
                // One host that cannot be looked up costs the others nothing, and keeps what it had.
                targets.extend(entry.targets.iter().filter(|t| failed.contains(&t.host)).cloned());
                (if failed.is_empty() { "answered" } else { "answered in part" }, Some(targets))
            }
            Answer::Absent(ttl) => {
                entry.next_at = within(ttl);
                ("service absent", Some(Vec::new()))
            }
            Answer::Negative => {
                entry.next_at = within(config.ttl_floor);
                let since = *entry.negative_since.get_or_insert(now);
                let over = !entry.known || now >= since + config.negative_grace;
                ("no such name", over.then(Vec::new))
            }
            Answer::Failed(error) => {
                let wait = FIRST_RETRY.saturating_mul(1 << entry.failures.min(10));
                entry.next_at = now + wait.min(config.ttl_ceiling);
                entry.failures += 1;
                entry.failed_queries += 1;
                if entry.failures == 1 {
                    tracing::warn!(name = question.shown(), error, "DNS does not answer");
                }
                ("failed", None)
            }
        };
        entry.latest = latest;
        if !failed {
            entry.failures = 0;
        }
        if !failed && !negative {
            entry.negative_since = None;
        }
        let changed = match targets {
            Some(targets) => {
                entry.known = true;
                entry.stale_since = None;
                let changed = entry.targets != targets;
                entry.targets = targets;
                changed
            }
            None => {
                entry.stale_since.get_or_insert(now);
                false
            }
        };
        if changed || before.0 != latest {
            let shown = |latest: &str, targets| format!("{latest}, {targets} servers");
            let from = if before.0.is_empty() { "never asked" } else { before.0 };
            let cause = if changed { "new answer" } else { "the servers stay" };
            history.note(
                Kind::Dns,
                &question.shown(),
                &shown(from, before.1),
                &shown(latest, entry.targets.len()),
                cause.to_owned(),
            );
        }
        changed
    }

    /// A peer that this name led to failed: perhaps DNS knows better by now.
    pub fn hurry(&mut self, now: Duration, question: &Question) {
        if let Some(entry) = self.entries.get_mut(question) {
            entry.next_at = entry.next_at.min(now + self.config.ttl_floor.min(AFTER_FAILURE));
        }
    }

    /// Servers of a name.
    pub fn targets(&self, question: &Question) -> &[Target] {
        self.entries.get(question).map_or(&[], |entry| &entry.targets)
    }

    /// Whether nothing was ever learned of a name.
    pub fn is_unknown(&self, question: &Question) -> bool {
        self.entries.get(question).is_none_or(|entry| !entry.known)
    }

    /// All names and what is known of them, to be kept for the next run.
    pub fn known(&self) -> impl Iterator<Item = (&Question, &[Target])> {
        self.entries.iter().filter(|(_, e)| e.known).map(|(question, e)| (question, &e.targets[..]))
    }

    /// All names, for people.
    pub fn status(&self, now: Duration) -> Vec<Status> {
        let status = |(question, e): (&Question, &Entry)| Status {
            question: question.clone(),
            targets: e.targets.len(),
            latest: if e.latest.is_empty() { "not answered yet" } else { e.latest },
            stale_for: e.stale_since.map(|since| now.saturating_sub(since)),
            next_in: e.next_at.saturating_sub(now),
            queries: e.queries,
            failures: e.failed_queries,
        };
        self.entries.iter().map(status).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: fn(u64) -> Duration = Duration::from_secs;

    fn question() -> Question {
        Question {
            name: "example.com".to_owned(),
            label: Some("_sip._udp".to_owned()),
            naptr: false,
            port: 5060,
            ipv4: true,
        }
    }

    fn targets(hosts: &[u8]) -> Vec<Target> {
        let target = |n: &u8| Target {
            host: format!("h{n}"),
            address: ([192, 0, 2, *n], 5060).into(),
            priority: 1,
            weight: 1,
        };
        hosts.iter().map(target).collect()
    }

    struct World {
        names: Names,
        history: History,
    }

    impl World {
        fn new() -> Self {
            let config = DnsConfig {
                servers: Vec::new(),
                timeout: S(2),
                ttl_floor: S(5),
                ttl_ceiling: S(60),
                negative_grace: S(300),
            };
            let mut names = Names::new(config.clone());
            names.want(S(0), config, HashSet::from([question()]));
            Self { names, history: History::default() }
        }

        /// Asks when it is due and is answered at once; the time, and whether the servers changed.
        fn step(&mut self, answer: Answer) -> (u64, bool) {
            let at = self.names.next().expect("a time to ask");
            assert_eq!(self.names.due(at), [question()]);
            assert!(self.names.due(at).is_empty() && self.names.next().is_none(), "asked once");
            (at.as_secs(), self.names.on_answer(at, &question(), answer, &mut self.history))
        }

        fn hosts(&self) -> usize {
            self.names.targets(&question()).len()
        }
    }

    #[test]
    fn ttls_are_kept_within_floor_and_ceiling() {
        let mut w = World::new();
        let answer = |ttl| Answer::whole(targets(&[1]), S(ttl));
        assert_eq!(w.step(answer(0)), (0, true));
        assert_eq!(w.step(answer(30)), (5, false));
        assert_eq!(w.step(answer(86_400)), (35, false));
        assert_eq!(w.step(answer(1)).0, 95);
    }

    #[test]
    fn failures_keep_the_servers_and_are_asked_again_ever_more_slowly() {
        let mut w = World::new();
        assert!(w.names.is_unknown(&question()));
        w.step(Answer::whole(targets(&[1, 2]), S(60)));
        let mut times = Vec::new();
        for _ in 0..8 {
            let (at, changed) = w.step(Answer::Failed("SERVFAIL".to_owned()));
            times.push(at);
            assert!(!changed && w.hosts() == 2);
        }
        assert_eq!(times, [60, 61, 63, 67, 75, 91, 123, 183], "1, 2, 4 ... and at last every 60 seconds");
        assert_eq!(w.names.status(S(200))[0].stale_for, Some(S(140)));
        assert!(w.step(Answer::whole(targets(&[2]), S(60))).1);
        assert_eq!(w.names.status(S(300))[0].stale_for, None);
    }

    #[test]
    fn a_host_that_cannot_be_looked_up_keeps_what_it_had_and_costs_the_others_nothing() {
        let mut w = World::new();
        w.step(Answer::whole(targets(&[1, 2]), S(60)));
        let part = Answer::Targets { targets: targets(&[2, 3]), ttl: S(60), failed: vec!["h1".to_owned()] };
        let (_, changed) = w.step(part);
        let hosts: Vec<_> = w.names.targets(&question()).iter().map(|t| t.host.clone()).collect();
        assert_eq!((changed, hosts), (true, ["h2", "h3", "h1"].map(str::to_owned).to_vec()));
        assert_eq!(w.names.next(), Some(S(65)), "asked again soon");
        assert!(w.step(Answer::whole(targets(&[3]), S(60))).1 && w.hosts() == 1);
    }

    #[test]
    fn a_name_that_vanished_keeps_its_servers_for_the_time_of_grace() {
        let mut w = World::new();
        w.step(Answer::whole(targets(&[1]), S(5)));
        let mut gone_at = None;
        while gone_at.is_none() {
            let (at, changed) = w.step(Answer::Negative);
            gone_at = changed.then_some(at);
        }
        assert_eq!((gone_at, w.hosts()), (Some(305), 0));
        // A failure in between proves nothing about the name, nor does it prolong the grace.
        let mut w = World::new();
        w.step(Answer::whole(targets(&[1]), S(5)));
        w.step(Answer::Negative);
        w.step(Answer::Failed("timeout".to_owned()));
        while w.hosts() > 0 {
            gone_at = Some(w.step(Answer::Negative).0);
        }
        assert_eq!(gone_at, Some(306));
    }

    #[test]
    fn a_service_that_is_decidedly_absent_goes_at_once_and_an_unknown_name_is_settled() {
        let mut w = World::new();
        w.step(Answer::whole(targets(&[1]), S(5)));
        assert!(w.step(Answer::Absent(S(60))).1 && w.hosts() == 0);
        let mut w = World::new();
        assert!(!w.step(Answer::Negative).1 && !w.names.is_unknown(&question()));
    }

    #[test]
    fn the_state_of_an_earlier_run_counts_until_an_answer_comes() {
        let mut w = World::new();
        w.names.restore(S(0), &question(), targets(&[7]));
        assert!(!w.names.is_unknown(&question()) && w.hosts() == 1);
        assert!(!w.step(Answer::Failed("timeout".to_owned())).1 && w.hosts() == 1);
        assert!(w.step(Answer::whole(targets(&[1]), S(60))).1);
        w.names.restore(S(2), &question(), targets(&[7]));
        assert_eq!(w.names.targets(&question()), targets(&[1]), "never over an answer");
    }

    #[test]
    fn after_a_failed_peer_its_name_is_asked_soon() {
        let mut w = World::new();
        w.step(Answer::whole(targets(&[1]), S(60)));
        w.names.hurry(S(10), &question());
        assert_eq!(w.names.next(), Some(S(15)));
        w.names.hurry(S(11), &question());
        assert_eq!(w.names.next(), Some(S(15)), "not put off");
    }

    #[test]
    fn transitions_are_noted_once() {
        let mut w = World::new();
        for _ in 0..3 {
            w.step(Answer::whole(targets(&[1]), S(60)));
        }
        w.step(Answer::Failed("x".to_owned()));
        w.step(Answer::Failed("x".to_owned()));
        let notes: Vec<_> = w.history.latest(9).map(|e| (e.from.as_str(), e.to.as_str())).collect();
        assert_eq!(
            notes,
            [("never asked, 0 servers", "answered, 1 servers"), ("answered, 1 servers", "failed, 1 servers")]
        );
    }
}
