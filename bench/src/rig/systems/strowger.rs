//! strowger with one worker on the system's core.

use super::{System, memory_of};
use crate::rig::{
    CLIENT_CORE, Flow, LISTENER, MEDIA_HOSTS, RECEIVER, RING, Rig, SENDER, SYSTEM_CORE, socket,
};
use anyhow::Result;
use lab::{
    StrowgerNode,
    ends::{Dialog, Ends, bind},
    node::Scratch,
};
use std::{
    net::SocketAddr,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

/// Both ends of calls are the client, so that a packet comes in and leaves by one wire, as the echo's do.
const ENDS: Ends = Ends {
    caller: "192.0.2.10:5070",
    caller_media: SENDER,
    callee: "192.0.2.11:5060",
    callee_media: RECEIVER,
    node: LISTENER,
};

/// Where every request is forwarded without state, beside the calls.
const PLAIN: &str = "192.0.2.1:5064";

/// What a node is to do.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Further lines of `[dataplane]`.
    pub dataplane: &'static str,
    /// `state` of its service.
    pub state: &'static str,
    /// Its peers.
    pub peers: Vec<SocketAddr>,
    /// Milliseconds between two probes of a peer.
    pub probe_ms: u32,
    /// Anchored calls that are placed through it.
    pub calls: usize,
    /// Workers: the first on the system's core, a second one on the client's.
    pub workers: usize,
}

impl Default for Setup {
    fn default() -> Self {
        let never = 3_600_000;
        let peers = vec![socket(RECEIVER)];
        Self { dataplane: "", state: "stateful", peers, probe_ms: never, calls: 0, workers: 1 }
    }
}

impl Setup {
    fn config(&self) -> String {
        let Self { dataplane, state, probe_ms, .. } = self;
        let peer = |(n, address): (usize, &SocketAddr)| {
            format!("[[service.peer]]\nname = \"peer{n}\"\naddress = \"{address}\"\n")
        };
        let callee = socket(ENDS.callee);
        let peers = if self.calls > 0 { std::slice::from_ref(&callee) } else { &self.peers[..] };
        let peers: String = peers.iter().enumerate().map(peer).collect();
        let half = MEDIA_HOSTS.len() / 2;
        let side = |skip: usize| {
            let hosts = MEDIA_HOSTS.skip(skip).take(half);
            hosts.map(|host| format!("\"192.0.2.{host}\"")).collect::<Vec<_>>().join(", ")
        };
        let mut media = "off";
        let [mut ports, mut front, mut back, mut plain] = [const { String::new() }; 4];
        if self.calls > 0 {
            media = "anchor";
            ports = "[media]\nports = \"20000-59999\"\n".to_owned();
            front = format!("media_addresses = [{}]\n", side(0));
            back = format!("media_addresses = [{}]\n", side(half));
            plain = format!(
                "[[listener]]\nname = \"plain\"\naddress = \"{PLAIN}\"\nservice = \"plain\"\n\
                 [[service]]\nname = \"plain\"\nlistener = \"back\"\nstate = \"stateless\"\n\
                 probe = {{ interval_ms = 3600000 }}\n\
                 [[service.peer]]\nname = \"receiver\"\naddress = \"{RECEIVER}\"\n"
            );
        }
        // Two workers need both cores, and the control thread goes where there is room.
        let control = if self.workers == 1 { format!("control = {CLIENT_CORE}\n") } else { String::new() };
        let cores = [SYSTEM_CORE, CLIENT_CORE];
        let workers: String = (0..self.workers)
            .map(|n| {
                format!("[[pinning.worker]]\ncore = {}\nqueues = [\"wire:{n}\"]\n", cores[n % cores.len()])
            })
            .collect();
        format!(
            "[node]\nname = \"rig\"\nstatus_socket = \"@dir@/status.sock\"\n\
             [dataplane]\n{dataplane}\nring_size = {RING}\nmax_transactions = 1000000\n\
             [pinning]\n{control}{workers}{ports}\
             [[interface]]\nname = \"wire\"\ndevice = \"wire\"\n\
             [[listener]]\nname = \"front\"\naddress = \"{LISTENER}\"\nservice = \"calls\"\n{front}\
             [[listener]]\nname = \"back\"\naddress = \"192.0.2.1:5062\"\n{back}{plain}\
             [[service]]\nname = \"calls\"\nlistener = \"back\"\nstate = \"{state}\"\nmedia = \"{media}\"\n\
             probe = {{ interval_ms = {probe_ms}, timeout_ms = 500 }}\n{peers}[[allow]]\nprefix = \"192.0.2.0/24\"\n"
        )
    }
}

/// A running node.
pub struct Node {
    node: StrowgerNode,
    dialogs: Vec<Dialog>,
    _scratch: Scratch,
}

impl Node {
    /// Starts one on the system's end, and places its calls.
    ///
    /// # Errors
    /// It does not start, or a call is not answered.
    pub fn start(rig: &Rig, setup: &Setup) -> Result<Self> {
        let scratch = Scratch::new()?;
        let node = StrowgerNode::start(&rig.system, &scratch.path().join("node"), &setup.config())?;
        let mut node = Self { node, dialogs: Vec::new(), _scratch: scratch };
        node.place(rig, setup.calls)?;
        Ok(node)
    }

    fn place(&mut self, rig: &Rig, calls: usize) -> Result<()> {
        let done = AtomicBool::new(false);
        let callee = rig.client.enter(|| bind(ENDS.callee))??;
        self.dialogs = std::thread::scope(|scope| -> Result<Vec<Dialog>> {
            let answering = scope.spawn(|| ENDS.answer(&callee, &done));
            let placed = rig.client.enter(|| ENDS.place(&bind(ENDS.caller)?, calls));
            done.store(true, Ordering::Relaxed);
            answering.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            placed?
        })?;
        Ok(())
    }

    /// Bytes of memory that it holds.
    ///
    /// # Errors
    /// It is gone.
    pub fn memory(&self) -> Result<u64> {
        memory_of(self.node.id())
    }
}

impl System for Node {
    fn flows(&self) -> Vec<Flow> {
        if self.dialogs.is_empty() {
            return vec![self.signalling()];
        }
        let from = socket(SENDER);
        self.dialogs.iter().map(|d| Flow { from, to: d.media }).collect()
    }

    fn signalling(&self) -> Flow {
        let to = if self.dialogs.is_empty() { LISTENER } else { PLAIN };
        Flow { from: socket(SENDER), to: socket(to) }
    }

    fn time(&self) -> Result<Duration> {
        self.node.workers_time()
    }
}
