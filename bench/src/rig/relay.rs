//! strowger as the system under test: calls whose both ends are the client, so that a packet comes in and
//! leaves by one wire, as the echo's do.

use super::{CLIENT_CORE, Flow, RECEIVER, RING, Rig, SENDER, SYSTEM_CORE};
use anyhow::Result;
use lab::{
    StrowgerNode,
    ends::{Dialog, Ends, bind},
    node::Scratch,
};
use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

const ENDS: Ends = Ends {
    caller: "192.0.2.10:5070",
    caller_media: SENDER,
    callee: "192.0.2.11:5060",
    callee_media: RECEIVER,
    node: "192.0.2.1:5060",
};

/// A running node with calls.
pub struct Relay {
    node: StrowgerNode,
    dialogs: Vec<Dialog>,
    _scratch: Scratch,
}

fn config(dataplane: &str) -> String {
    format!(
        "[node]\nname = \"rig\"\nstatus_socket = \"@dir@/status.sock\"\n[dataplane]\n{dataplane}\nring_size = {RING}\n\
         [pinning]\ncontrol = {CLIENT_CORE}\n[[pinning.worker]]\ncore = {SYSTEM_CORE}\nqueues = [\"wire:0\"]\n\
         [media]\nports = \"20000-39999\"\n[[interface]]\nname = \"wire\"\ndevice = \"wire\"\n\
         [[listener]]\nname = \"front\"\naddress = \"192.0.2.1:5060\"\nservice = \"calls\"\n\
         [[listener]]\nname = \"back\"\naddress = \"192.0.2.1:5062\"\n\
         [[service]]\nname = \"calls\"\nlistener = \"back\"\nmedia = \"anchor\"\nprobe = {{ interval_ms = 3600000 }}\n\
         [[service.peer]]\nname = \"callee\"\naddress = \"192.0.2.11:5060\"\n[[allow]]\nprefix = \"192.0.2.0/24\"\n"
    )
}

impl Relay {
    /// Starts a node, with further settings of its data path, and places calls.
    ///
    /// # Errors
    /// It does not start, or a call is not answered.
    pub fn start(rig: &Rig, calls: usize, dataplane: &str) -> Result<Self> {
        let scratch = Scratch::new()?;
        let node = StrowgerNode::start(&rig.system, &scratch.path().join("node"), &config(dataplane))?;
        let done = AtomicBool::new(false);
        let callee = rig.client.enter(|| bind(ENDS.callee))??;
        let dialogs = std::thread::scope(|scope| -> Result<Vec<Dialog>> {
            let answering = scope.spawn(|| ENDS.answer(&callee, &done));
            let placed = rig.client.enter(|| -> Result<Vec<Dialog>> {
                let socket = bind(ENDS.caller)?;
                ENDS.place(&socket, calls)
            });
            done.store(true, Ordering::Relaxed);
            answering.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            placed?
        })?;
        Ok(Self { node, dialogs, _scratch: scratch })
    }

    /// The flows of its calls: from the caller to the callee.
    ///
    /// # Errors
    /// Never: the addresses are constants.
    pub fn flows(&self) -> Result<Vec<Flow>> {
        let from = SENDER.parse()?;
        Ok(self.dialogs.iter().map(|d| Flow { from, to: d.media }).collect())
    }

    /// Processor time of its worker so far.
    ///
    /// # Errors
    /// The node is gone.
    pub fn time(&self) -> Result<Duration> {
        self.node.worker_time()
    }
}
