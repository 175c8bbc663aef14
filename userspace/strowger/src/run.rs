//! `strowger run`: starts a node and is its control thread until told to stop.

use crate::machine;
use anyhow::{Context as _, Result, bail};
use control::{
    admin::{
        explain::{self, CallStory},
        socket::{self, Asked, Request, StatusSocket},
        status::{self, XdpStatus},
    },
    assemble::{self, Source},
    configure::{self, Checked, schema::XdpMode as ConfigMode},
    icmp::{IcmpWatch, Unreachable},
    key,
    links::Link,
    next_hop::NextHopKeeper,
    observe::Observer,
    probe::Schedule,
};
use dataplane::{
    BackendKind, InterfacePlan, Node, NodePlan, WorkerPlan, XdpMode, clock, pin, privileges,
    program::{Program, ProgramError, is_embedded},
};
use exchange::{
    Exchange,
    errands::{Calls, Errand, Notice},
};
use proxy::journal;
use std::{collections::HashMap, io::IsTerminal as _, net::IpAddr, path::Path, sync::Arc, time::Duration};
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::{mpsc, oneshot},
    time::sleep,
};
use xdp_abi::{AllowValue, MediaRange, NO_PEER, NO_REGION, Settings};

/// How often neighbours in use are confirmed.
const CONFIRM: Duration = Duration::from_secs(10);
/// Kernel table changes are gathered this long before they are read.
const GATHER: Duration = Duration::from_millis(5);
/// How often a lost worker is looked for.
const WATCH: Duration = Duration::from_millis(200);

pub(crate) fn run(file: &Path) -> Result<()> {
    let mut config = configure::load(file)?;
    log_to_stderr();
    let links = machine::links_for(&config)?;
    let problems = machine::problems(&config, &links);
    if !problems.is_empty() {
        bail!("{} does not fit this machine:\n  {}", file.display(), problems.join("\n  "));
    }
    complete_pinning(&mut config, &links);
    for warning in config
        .warnings
        .iter()
        .cloned()
        .chain(machine::sibling_warnings(&config))
        .chain(machine::unserved(&config, &links))
    {
        tracing::warn!("{warning}");
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(Control::start(config, &links)?.run(&links))
}

fn log_to_stderr() {
    let filter = tracing_subscriber::EnvFilter::try_from_default_env().unwrap_or_else(|_| "info".into());
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_target(false)
        .with_ansi(std::io::stderr().is_terminal())
        .init();
}

/// Without a `[pinning]` section one worker serves all queues, on the last core.
fn complete_pinning(config: &mut Checked, links: &HashMap<String, Link>) {
    let [worker] = &mut config.workers[..] else { return };
    if worker.queues.is_empty() && config.afxdp {
        for (i, interface) in config.interfaces.iter().enumerate() {
            let queues = links.get(&interface.device).map_or(1, machine::queues_in_use);
            worker.queues.extend((0..queues).map(|queue| (i, queue, 0)));
        }
        worker.core = worker.core.or(pin::cores().last().map(|core| (*core, 0)));
    }
}

/// The control thread's state.
struct Control {
    config: Checked,
    exchange: Arc<Exchange>,
    node: Node,
    observer: Observer,
    schedule: Schedule,
    sources: Vec<Source>,
    generation: u32,
    started: Duration,
    /// Worker that sends the next probe: all take turns, so that each path is tried.
    prober: usize,
    /// Questions to the workers that are not answered by all yet, by number.
    questions: HashMap<u64, Question>,
    next_question: u64,
}

/// A question to all workers.
struct Question {
    reply: oneshot::Sender<String>,
    stories: Vec<CallStory>,
    missing: usize,
}

impl Control {
    fn start(config: Checked, links: &HashMap<String, Link>) -> Result<Self> {
        let started = clock::monotonic();
        let observer = Observer::new(&config, started);
        let exchange = Exchange::new(config.workers.len(), config.peers.len())?;
        let sources = assemble::sources(&config);
        exchange.allow.publish(assemble::allow_list(&sources));
        exchange.table.publish(assemble::table(&config, &observer, 1));
        let key = key::load_or_create(&config.key_file)
            .with_context(|| format!("key file {}", config.key_file.display()))?;
        let plan = plan(&config, links, key);
        let prepare = |programs: &mut [Program]| fill_maps(&config, &sources, &observer, 1, programs);
        let node = Node::start(&plan, &exchange, prepare).with_context(|| privileges_hint(&config))?;
        if let Some(core) = config.control_core
            && !pin::pin(core)
        {
            tracing::warn!(core, "cannot pin the control thread");
        }
        let policies =
            config.peers.iter().map(|p| config.services[usize::from(p.service.0)].policy).collect();
        let schedule = Schedule::new(started, policies, started.as_nanos() as u64);
        Ok(Self {
            config,
            exchange,
            node,
            observer,
            schedule,
            sources,
            generation: 1,
            started,
            prober: 0,
            questions: HashMap::new(),
            next_question: 0,
        })
    }

    async fn run(mut self, links: &HashMap<String, Link>) -> Result<()> {
        let socket = StatusSocket::bind(&self.config.status_socket)
            .await
            .with_context(|| format!("status socket {}", self.config.status_socket.display()))?;
        let exchange = Arc::clone(&self.exchange);
        let mut hops = self.next_hops(links).await?;
        let icmp = IcmpWatch::open();
        if let Err(error) = privileges::keep_only(privileges::CONTROL) {
            tracing::warn!(%error, "cannot give up privileges");
        }
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut confirm = tokio::time::interval(CONFIRM);
        let mut watch = tokio::time::interval(WATCH);
        let (questions, mut asked) = mpsc::channel(64);
        tracing::info!(node = self.config.name, workers = self.config.workers.len(), "ready");
        loop {
            self.probe_due();
            let unresolved = self.take_notices();
            if let (false, Some(hops)) = (unresolved.is_empty(), &mut hops) {
                let mut new = false;
                unresolved.into_iter().for_each(|address| new |= hops.want(address));
                if new {
                    refresh(hops).await;
                }
            }
            let until_probe = self.until_probe();
            tokio::select! {
                _ = terminate.recv() => break,
                _ = interrupt.recv() => break,
                () = exchange.reports.arrived() => {}
                () = sleep(until_probe) => {}
                client = socket.accept() => if let Ok(client) = client { socket::serve(client, questions.clone()); },
                Some(asked) = asked.recv() => self.on_question(asked),
                lost = icmp.next() => self.on_unreachable(lost),
                () = changed(&mut hops) => if let Some(hops) = &mut hops { sleep(GATHER).await; refresh(hops).await; },
                _ = confirm.tick() => if let Some(hops) = &mut hops { hops.confirm().await; refresh(hops).await; },
                _ = watch.tick() => if !self.node.is_running() { bail!("a worker ended, see the log"); },
            }
        }
        tracing::info!("stopping");
        self.node.stop();
        Ok(())
    }

    /// The keeper of next hops, with all peers wanted from the start; none for kernel sockets.
    async fn next_hops(&self, links: &HashMap<String, Link>) -> Result<Option<NextHopKeeper>> {
        if !self.config.afxdp {
            return Ok(None);
        }
        let mut hops = NextHopKeeper::new(kernel_indices(&self.config, links), Arc::clone(&self.exchange))
            .context("cannot watch routes and neighbours")?;
        for peer in &self.config.peers {
            hops.want(peer.address.ip());
        }
        hops.confirm().await;
        refresh(&mut hops).await;
        Ok(Some(hops))
    }

    fn until_probe(&self) -> Duration {
        self.schedule.next().map_or(WATCH, |at| at.saturating_sub(clock::monotonic()))
    }

    fn probe_due(&mut self) {
        let now = clock::monotonic();
        while let Some((peer, timeout)) = self.schedule.pop(now) {
            let worker = self.prober;
            self.prober = (self.prober + 1) % self.exchange.errands.len();
            if !self.exchange.errands[worker].send(Errand::Probe { peer, timeout }) {
                tracing::error!(worker, "the worker takes no errands");
            }
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
        let mut changed = false;
        while let Some(notice) = self.exchange.reports.take() {
            match notice {
                Notice::Peer(report) => changed |= self.observer.on_report(now, report),
                Notice::Unresolved(address) => unresolved.push(address),
                Notice::Explained { question, worker, records } => {
                    let stories = explain::stories(&self.config, worker, &records, now);
                    self.on_stories(question, stories);
                }
            }
        }
        if changed {
            self.publish();
        }
        unresolved
    }

    fn on_question(&mut self, asked: Asked) {
        // Whoever asked may be gone by now.
        self.questions.retain(|_, question| !question.reply.is_closed());
        match asked.request {
            Request::Status => drop(asked.reply.send(self.status())),
            Request::Explain(calls) => self.ask_workers(&calls, asked.reply),
        }
    }

    /// Asks all workers; the answer is whole when the last of them has told what it knows.
    fn ask_workers(&mut self, calls: &Calls, reply: oneshot::Sender<String>) {
        self.next_question += 1;
        let question = self.next_question;
        let errand = |calls| Errand::Explain { question, calls };
        let asked = self.exchange.errands.iter().filter(|worker| worker.send(errand(calls.clone())));
        let missing = asked.count();
        self.questions.insert(question, Question { reply, stories: Vec::new(), missing });
    }

    fn on_stories(&mut self, question: u64, stories: Vec<CallStory>) {
        let Some(asked) = self.questions.get_mut(&question) else { return };
        asked.stories.extend(stories);
        asked.missing = asked.missing.saturating_sub(1);
        if asked.missing > 0 {
            return;
        }
        if let Some(mut done) = self.questions.remove(&question) {
            done.stories.sort_by_key(|story| story.at_unix_ms);
            let answer = serde_json::json!({ "remembered": journal::CAPACITY, "calls": done.stories });
            let _ = done.reply.send(answer.to_string());
        }
    }

    /// A new generation: to the workers, and to the XDP programs' maps.
    fn publish(&mut self) {
        self.generation += 1;
        self.exchange.table.publish(assemble::table(&self.config, &self.observer, self.generation));
        for errands in &self.exchange.errands {
            errands.send(Errand::Look);
        }
        if let Err(error) = write_health(
            &self.config,
            &self.sources,
            &self.observer,
            self.generation,
            &mut self.node.programs,
        ) {
            tracing::error!(%error, "cannot update the XDP program's maps");
        }
    }

    fn status(&self) -> String {
        let xdp =
            self.config.interfaces.iter().zip(&self.node.programs).map(|(interface, program)| XdpStatus {
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
            });
        let status = status::collect(
            &self.config,
            &self.observer,
            &self.exchange,
            xdp.collect(),
            clock::monotonic(),
            self.started,
        );
        serde_json::to_string(&status).unwrap_or_else(|e| format!("{{\"error\":\"{e}\"}}"))
    }
}

/// Kernel index of the device that routes name, for every configured interface: the device itself, or
/// the VLAN device on it.
fn kernel_indices(config: &Checked, links: &HashMap<String, Link>) -> HashMap<u32, u8> {
    let mut indices = HashMap::new();
    for (i, interface) in (0u8..).zip(&config.interfaces) {
        let Some(link) = links.get(&interface.device) else { continue };
        let index = match interface.vlan {
            None => Some(link.index),
            Some(id) => links.values().find(|l| l.vlan == Some((link.index, id))).map(|l| l.index),
        };
        match index {
            Some(index) => drop(indices.insert(index, i)),
            None => tracing::warn!(
                device = interface.device,
                vlan = interface.vlan,
                "no VLAN device with this id, packets leave by the kernel"
            ),
        }
    }
    indices
}

/// What a start needs, for an error message.
fn privileges_hint(config: &Checked) -> &'static str {
    if config.afxdp && is_embedded() {
        "cannot start (AF_XDP needs root, or CAP_NET_ADMIN, CAP_NET_RAW, CAP_BPF and CAP_PERFMON; backend = \"udp\" needs none of them)"
    } else {
        "cannot start"
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

fn plan(config: &Checked, links: &HashMap<String, Link>, token_key: proxy::TokenKey) -> NodePlan {
    let interface = |i: &configure::InterfaceConfig| {
        let link = links.get(&i.device)?;
        let mode = match i.mode {
            ConfigMode::Auto => XdpMode::Auto,
            ConfigMode::ZeroCopy => XdpMode::ZeroCopy,
            ConfigMode::Copy => XdpMode::Copy,
            ConfigMode::Generic => XdpMode::Generic,
        };
        Some(InterfacePlan {
            device: i.device.clone(),
            index: link.index,
            mac: link.mac,
            mtu: link.mtu,
            vlan: i.vlan,
            mode,
        })
    };
    let worker = |w: &configure::WorkerConfig| WorkerPlan {
        core: w.core.map(|(core, _)| core),
        queues: w.queues.iter().map(|(interface, queue, _)| (*interface, *queue)).collect(),
    };
    NodePlan {
        backend: if config.afxdp { BackendKind::AfXdp } else { BackendKind::Udp },
        interfaces: if config.afxdp {
            config.interfaces.iter().filter_map(interface).collect()
        } else {
            Vec::new()
        },
        workers: config.workers.iter().map(worker).collect(),
        listeners: config.listeners.iter().map(|l| l.address).collect(),
        media_ports: config.media_ports.clone(),
        media_timeout: config.media_timeout,
        max_transactions: config.max_transactions,
        token_key,
        ring_size: config.ring_size,
    }
}

/// Writes all maps of all programs.
fn fill_maps(
    config: &Checked,
    sources: &[Source],
    observer: &Observer,
    generation: u32,
    programs: &mut [Program],
) -> Result<(), ProgramError> {
    for program in programs.iter_mut() {
        for listener in &config.listeners {
            program.add_service(listener.address)?;
            if !config.media_ports.is_empty() {
                let (first, last) = (*config.media_ports.start(), *config.media_ports.end());
                program.add_media(listener.media, MediaRange { first, last })?;
            }
        }
    }
    write_health(config, sources, observer, generation, programs)
}

/// Writes what changes with health: the allow-lists and the generation.
fn write_health(
    config: &Checked,
    sources: &[Source],
    observer: &Observer,
    generation: u32,
    programs: &mut [Program],
) -> Result<(), ProgramError> {
    for (program, interface) in programs.iter_mut().zip(&config.interfaces) {
        for source in sources {
            let value = AllowValue {
                peer: source.peer.map_or(NO_PEER, |p| p.0),
                region: source.region.map_or(NO_REGION, |r| r.0),
                health: source.peer.map_or(0, |p| observer.state(p) as u8),
            };
            program.allow(source.prefix, value)?;
        }
        program.set_settings(Settings { epoch: generation, vlan: interface.vlan.unwrap_or(0), pad: 0 })?;
    }
    Ok(())
}
