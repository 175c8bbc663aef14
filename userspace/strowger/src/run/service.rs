//! The control thread's loop: whatever happens is told to the controller, which judges.

use super::{
    Origin, complete_pinning,
    plan::{kernel_indices, plan, privileges_hint},
    steering::Programs,
};
use anyhow::{Context as _, Result, bail};
use control::{
    admin::{
        api::{self, Asked, Reloaded, Reply, Request, Surroundings},
        explain::{self, CallStory},
        http::Servers,
        media::{self, MediaCalls, MediaStory},
        status::XdpStatus,
    },
    configure::{self, Checked},
    controller::Controller,
    discover::{Answer, Question, Resolver},
    icmp::{IcmpWatch, Unreachable},
    keep::Kept,
    key,
    links::Link,
    next_hop::NextHopKeeper,
};
use dataplane::{Node, clock, pin, privileges, program::Program};
use exchange::{
    Exchange,
    errands::{Errand, Notice},
};
use proxy::{Report, journal};
use std::{
    collections::HashMap,
    net::IpAddr,
    path::PathBuf,
    sync::Arc,
    thread::{self, JoinHandle},
    time::Duration,
};
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::{mpsc, oneshot},
    time::sleep,
};

/// How often neighbours in use are confirmed.
const CONFIRM: Duration = Duration::from_secs(10);
/// Kernel table changes are gathered this long before they are read.
const GATHER: Duration = Duration::from_millis(5);
/// How often the workers' counters are read for evidence.
const READ: Duration = Duration::from_millis(50);
/// How often a lost worker is looked for, and the state saved if it changed.
const WATCH: Duration = Duration::from_millis(200);

/// What DNS said, and what it was asked.
type Answered = (Question, Answer);

/// The control thread's state.
pub(super) struct Service {
    controller: Controller,
    exchange: Arc<Exchange>,
    node: Node,
    started: Duration,
    links: HashMap<String, Link>,
    file: PathBuf,
    questions: Questions,
    resolver: Option<Resolver>,
    answers: (mpsc::Sender<Answered>, mpsc::Receiver<Answered>),
    keeper: StateKeeper,
}

impl Service {
    pub(super) fn start(config: Checked, origin: Origin, links: HashMap<String, Link>) -> Result<Self> {
        let started = clock::monotonic();
        let exchange = Exchange::new(config.workers.len())?;
        let key = key::load_or_create(&config.key_file)
            .with_context(|| format!("key file {}", config.key_file.display()))?;
        let plan = plan(&config, &links, key);
        let kept = origin.kept.as_ref().map(|k| &k.names[..]).unwrap_or_default();
        let mut controller =
            Controller::new(started, config, Arc::clone(&exchange), kept, started.as_nanos() as u64);
        let prepare = |programs: &mut [Program]| {
            let mut programs = Programs::new(programs, &controller.config);
            programs.steer(&controller.config)?;
            controller.tell_sources(&mut programs);
            Ok(())
        };
        let node = Node::start(&plan, &exchange, prepare);
        let mut node = node.with_context(|| privileges_hint(&controller.config))?;
        if node.programs.is_empty() {
            controller.tell_sources(&mut Programs::new(&mut node.programs, &controller.config));
        }
        if let Some(core) = controller.config.control_core
            && !pin::pin(core)
        {
            tracing::warn!(core, "cannot pin the control thread");
        }
        let mut service = Self {
            controller,
            exchange,
            node,
            started,
            links,
            file: origin.file,
            questions: Questions::default(),
            resolver: None,
            answers: mpsc::channel(256),
            keeper: StateKeeper::new(origin.state_file, origin.text),
        };
        service.make_resolver();
        Ok(service)
    }

    pub(super) async fn run(mut self) -> Result<()> {
        let (asking, mut asked) = mpsc::channel(64);
        let config = &self.controller.config;
        let servers = Servers::start(&config.status_socket, config.http, &asking)
            .await
            .with_context(|| format!("status socket {}", config.status_socket.display()))?;
        let exchange = Arc::clone(&self.exchange);
        let mut hops = self.next_hops().await?;
        let icmp = IcmpWatch::open();
        if let Err(error) = privileges::keep_only(privileges::CONTROL) {
            tracing::warn!(%error, "cannot give up privileges");
        }
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut hang_up = signal(SignalKind::hangup())?;
        let mut confirm = tokio::time::interval(CONFIRM);
        let mut read = tokio::time::interval(READ);
        read.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut watch = tokio::time::interval(WATCH);
        let (name, workers) = (&self.controller.config.name, self.controller.config.workers.len());
        tracing::info!(node = name, workers, "ready");
        loop {
            self.controller.probe_due(clock::monotonic());
            self.ask_dns();
            let mut wanted = self.take_notices();
            wanted.extend(self.controller.take_new_addresses());
            if let (false, Some(hops)) = (wanted.is_empty(), &mut hops) {
                let mut new = false;
                wanted.into_iter().for_each(|address| new |= hops.want(address));
                if new {
                    refresh(hops).await;
                }
            }
            let until_due = self.until_due();
            tokio::select! {
                _ = terminate.recv() => break,
                _ = interrupt.recv() => break,
                _ = hang_up.recv() => drop(self.reload(false)),
                () = exchange.reports.arrived() => {}
                () = sleep(until_due) => self.on_due(),
                _ = read.tick() => self.on_time(),
                Some(asked) = asked.recv() => self.on_question(asked),
                Some((question, answer)) = self.answers.1.recv() => self.on_dns(&question, answer),
                lost = icmp.next() => self.on_unreachable(lost),
                () = changed(&mut hops) => if let Some(hops) = &mut hops { sleep(GATHER).await; refresh(hops).await; },
                _ = confirm.tick() => if let Some(hops) = &mut hops { hops.confirm().await; refresh(hops).await; },
                _ = watch.tick() => {
                    if !self.node.is_running() { bail!("a worker ended, see the log"); }
                    self.keeper.save_if_changed(&self.controller, &self.file);
                }
            }
        }
        tracing::info!("stopping");
        drop(servers);
        self.keeper.finish(&self.controller, &self.file);
        self.node.stop();
        Ok(())
    }

    /// The keeper of next hops, with all peers wanted from the start; none for kernel sockets.
    async fn next_hops(&mut self) -> Result<Option<NextHopKeeper>> {
        if !self.controller.config.afxdp {
            return Ok(None);
        }
        let indices = kernel_indices(&self.controller.config, &self.links);
        let mut hops = NextHopKeeper::new(indices, Arc::clone(&self.exchange))
            .context("cannot watch routes and neighbours")?;
        for address in self.controller.take_new_addresses() {
            hops.want(address);
        }
        hops.confirm().await;
        refresh(&mut hops).await;
        Ok(Some(hops))
    }

    fn until_due(&self) -> Duration {
        let due = [self.controller.next_probe(), self.controller.deadline()].into_iter().flatten().min();
        due.map_or(WATCH, |at| at.saturating_sub(clock::monotonic()))
    }

    /// Tells the controller something, now.
    fn tell<T>(&mut self, tell: impl FnOnce(&mut Controller, Duration, &mut Programs<'_>) -> T) -> T {
        let mut programs = Programs::new(&mut self.node.programs, &self.controller.config);
        tell(&mut self.controller, clock::monotonic(), &mut programs)
    }

    fn on_time(&mut self) {
        self.tell(|controller, now, programs| controller.on_time(now, programs));
    }

    /// The sleep is over: for a probe alone nothing more is to be done here.
    fn on_due(&mut self) {
        if self.controller.deadline().is_some_and(|at| at <= clock::monotonic()) {
            self.on_time();
        }
    }

    /// A request did not arrive: its worker judges whether that still matters.
    fn on_unreachable(&self, lost: Unreachable) {
        let Unreachable { branch, to } = lost;
        if let Some(worker) = self.exchange.errands.get(usize::from(branch.worker)) {
            worker.send(Errand::Unreachable { branch, to });
        }
    }

    /// Takes what workers report; the addresses among it that they cannot reach.
    fn take_notices(&mut self) -> Vec<IpAddr> {
        let now = clock::monotonic();
        let mut unresolved = Vec::new();
        let mut reports: Vec<Report> = Vec::new();
        while let Some(notice) = self.exchange.reports.take() {
            match notice {
                Notice::Peer(report) => reports.push(report),
                Notice::Unresolved(address) => unresolved.push(address),
                Notice::Media { question, worker, now, calls } => {
                    let known = (&self.controller.config, &self.controller.roster);
                    let stories = media::stories(known, worker, &calls, now);
                    self.questions.on_answer(question, Stories::Media(stories));
                }
                Notice::Explained { question, worker, records } => {
                    let known = (&self.controller.config, &self.controller.roster);
                    let stories = explain::stories(known, worker, &records, now);
                    self.questions.on_answer(question, Stories::Calls(stories));
                }
            }
        }
        if !reports.is_empty() {
            self.tell(|controller, now, programs| controller.on_reports(now, reports, programs));
        }
        unresolved
    }

    /// The system's or the configured DNS servers; none where no service needs them.
    fn make_resolver(&mut self) {
        let config = &self.controller.config;
        let needed = config.services.iter().any(|s| !s.discover.is_empty());
        self.resolver = needed
            .then(|| Resolver::new(&config.dns))
            .and_then(|made| made.inspect_err(|error| tracing::error!(error, "cannot ask DNS")).ok());
    }

    fn ask_dns(&mut self) {
        for question in self.controller.due_names(clock::monotonic()) {
            // Nobody to ask is a failure like others: it is tried again ever more slowly.
            let Some(resolver) = self.resolver.clone() else {
                self.on_dns(&question, Answer::Failed("no DNS server is known".to_owned()));
                continue;
            };
            let answers = self.answers.0.clone();
            tokio::spawn(async move {
                let answer = resolver.ask(&question).await;
                let _ = answers.send((question, answer)).await;
            });
        }
    }

    fn on_dns(&mut self, question: &Question, answer: Answer) {
        let tell = |controller: &mut Controller, now, programs: &mut Programs<'_>| {
            controller.on_answer(now, question, answer, programs)
        };
        self.keeper.changed |= self.tell(tell);
    }

    fn on_question(&mut self, asked: Asked) {
        match asked.request {
            Request::Explain(calls) => {
                let errand = |question| Errand::Explain { question, calls: calls.clone() };
                let none = Stories::Calls(Vec::new());
                self.questions.ask_workers(&self.exchange, (errand, none), asked.reply);
            }
            Request::Media(call_id, count) => {
                let call_id: Option<Arc<[u8]>> = call_id.map(|id| id.as_bytes().into());
                let errand = |question| Errand::Media { question, call_id: call_id.clone(), count };
                let none = Stories::Media(Vec::new());
                self.questions.ask_workers(&self.exchange, (errand, none), asked.reply);
            }
            Request::Reload { dry } => drop(asked.reply.send(self.reload(dry))),
            request => {
                let around = Surroundings {
                    now: clock::monotonic(),
                    started: self.started,
                    exchange: &self.exchange,
                    xdp: xdp(&self.controller.config, &self.node.programs),
                };
                let mut programs = Programs::new(&mut self.node.programs, &self.controller.config);
                let _ = asked.reply.send(api::answer(&request, &mut self.controller, &mut programs, around));
            }
        }
    }

    /// Reads the file again and takes it up, whole or not at all.
    fn reload(&mut self, dry: bool) -> Reply {
        let read = configure::read(&self.file).and_then(|text| {
            let config = configure::parse(&self.file.display().to_string(), &text)?;
            Ok((text, config))
        });
        let (text, mut config) = match read {
            Ok(read) => read,
            Err(error) => {
                tracing::error!(%error, "the configuration stays as it is");
                return Reply::error(422, error.to_string());
            }
        };
        complete_pinning(&mut config, &self.links);
        if !dry {
            config.warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
        }
        let compared = if dry {
            self.controller.compare(&mut config)
        } else {
            let dns = config.dns != self.controller.config.dns || self.resolver.is_none();
            let reloaded = self.tell(|controller, now, programs| controller.reload(now, config, programs));
            if dns && reloaded.is_ok() {
                self.make_resolver();
            }
            reloaded
        };
        match compared {
            Ok(changes) => {
                if !dry {
                    changes.iter().for_each(|change| tracing::info!(change, "configuration"));
                    self.keeper.take_text(text);
                }
                Reply::json(200, &Reloaded { applied: !dry, changes })
            }
            Err(settings) => {
                let settings = settings.join("; ");
                tracing::error!(settings, "the configuration stays as it is: these settings need a restart");
                Reply::error(409, format!("these settings need a restart: {settings}"))
            }
        }
    }
}

fn xdp(config: &Checked, programs: &[Program]) -> Vec<XdpStatus> {
    let status = |(interface, program): (&configure::InterfaceConfig, &Program)| XdpStatus {
        interface: interface.name.clone(),
        device: interface.device.clone(),
        mode: program.attached.label(),
        verdicts: program
            .verdicts()
            .unwrap_or_default()
            .into_iter()
            .filter(|(_, n)| *n > 0)
            .map(|(v, n)| (v.label(), n))
            .collect(),
    };
    config.interfaces.iter().zip(programs).map(status).collect()
}

/// Questions to the workers that are not answered by all yet, by number.
#[derive(Default)]
struct Questions {
    open: HashMap<u64, Open>,
    next: u64,
}

struct Open {
    reply: oneshot::Sender<Reply>,
    stories: Stories,
    missing: usize,
}

/// What workers answer: one of them, or several together.
enum Stories {
    Calls(Vec<CallStory>),
    Media(Vec<MediaStory>),
}

impl Stories {
    fn join(&mut self, other: Self) {
        match (self, other) {
            (Self::Calls(all), Self::Calls(more)) => all.extend(more),
            (Self::Media(all), Self::Media(more)) => all.extend(more),
            (all, other) => *all = other,
        }
    }

    fn reply(self) -> Reply {
        match self {
            Self::Calls(mut calls) => {
                calls.sort_by_key(|story| story.at_unix_ms);
                Reply::json(200, &explain::Calls { remembered: journal::CAPACITY, calls })
            }
            Self::Media(mut calls) => {
                calls.sort_by_key(|story| story.since_unix_ms);
                Reply::json(200, &MediaCalls { calls })
            }
        }
    }
}

impl Questions {
    /// Asks all workers; the answer is whole when the last of them has told what it knows.
    fn ask_workers(
        &mut self,
        exchange: &Exchange,
        (errand, stories): (impl Fn(u64) -> Errand, Stories),
        reply: oneshot::Sender<Reply>,
    ) {
        // Whoever asked earlier may be gone by now.
        self.open.retain(|_, open| !open.reply.is_closed());
        self.next += 1;
        let question = self.next;
        let missing = exchange.errands.iter().filter(|worker| worker.send(errand(question))).count();
        self.open.insert(question, Open { reply, stories, missing });
    }

    fn on_answer(&mut self, question: u64, stories: Stories) {
        let Some(open) = self.open.get_mut(&question) else { return };
        open.stories.join(stories);
        open.missing = open.missing.saturating_sub(1);
        if open.missing > 0 {
            return;
        }
        if let Some(done) = self.open.remove(&question) {
            let _ = done.reply.send(done.stories.reply());
        }
    }
}

/// Writes the last known good state, beside the loop and one file at a time.
struct StateKeeper {
    path: PathBuf,
    text: String,
    changed: bool,
    writing: Option<JoinHandle<()>>,
}

impl StateKeeper {
    fn new(path: PathBuf, text: String) -> Self {
        Self { path, text, changed: true, writing: None }
    }

    fn take_text(&mut self, text: String) {
        self.text = text;
        self.changed = true;
    }

    fn save_if_changed(&mut self, controller: &Controller, file: &std::path::Path) {
        if !self.changed || self.writing.as_ref().is_some_and(|w| !w.is_finished()) {
            return;
        }
        self.changed = false;
        let kept = Kept {
            file: file.display().to_string(),
            text: self.text.clone(),
            names: controller.names.known().map(|(q, targets)| (q.clone(), targets.to_vec())).collect(),
        };
        let path = self.path.clone();
        // A thread of its own, without privileges: the disk may take its time.
        let write = move || {
            let written =
                privileges::keep_only(&[]).map_err(std::io::Error::other).and_then(|()| kept.write(&path));
            if let Err(error) = written {
                tracing::error!(path = %path.display(), %error, "cannot keep the last good state");
            }
        };
        self.writing = thread::Builder::new().name("state-writer".to_owned()).spawn(write).ok();
    }

    fn finish(&mut self, controller: &Controller, file: &std::path::Path) {
        self.wait();
        self.save_if_changed(controller, file);
        self.wait();
    }

    fn wait(&mut self) {
        if let Some(writing) = self.writing.take() {
            let _ = writing.join();
        }
    }
}

async fn changed(hops: &mut Option<NextHopKeeper>) {
    match hops {
        Some(hops) => hops.changed().await,
        None => std::future::pending().await,
    }
}

async fn refresh(hops: &mut NextHopKeeper) {
    if let Err(error) = hops.refresh().await {
        tracing::warn!(%error, "cannot read routes and neighbours");
    }
}
