//! Proxies as systems under test: each forwards every INVITE to the receiver, without state.

use super::{CLIENT_CORE, Flow, RECEIVER, RING, Rig, SENDER, SYSTEM_CORE, processor_time};
use anyhow::{Result, bail};
use lab::{Process, StrowgerNode, node::Scratch};
use std::{
    fs::{self, File},
    process::Stdio,
    time::Duration,
};

const LISTENER: &str = "192.0.2.1:5060";

/// Their flow.
///
/// # Errors
/// Never: the addresses are constants.
pub fn flows() -> Result<Vec<Flow>> {
    Ok(vec![Flow { from: SENDER.parse()?, to: LISTENER.parse()? }])
}

/// Kamailio's `forward()`, one process on one core.
pub struct Kamailio {
    process: Process,
    _scratch: Scratch,
}

impl Kamailio {
    /// Starts it on the system's end.
    ///
    /// # Errors
    /// It is missing, or ends at once; the error holds its log.
    pub fn start(rig: &Rig) -> Result<Self> {
        let scratch = Scratch::new()?;
        let file = scratch.path().join("kamailio.cfg");
        let config = format!(
            "#!KAMAILIO\ndebug=-1\nlog_stderror=yes\nchildren=1\nauto_aliases=no\ndns=no\nrev_dns=no\nlisten=udp:{LISTENER}\n\
             loadmodule \"pv.so\"\nrequest_route {{\n    $du = \"sip:{RECEIVER}\";\n    forward();\n}}\n"
        );
        fs::write(&file, config)?;
        let log = scratch.path().join("log");
        let mut command = rig.system.command("taskset");
        command.args(["-c", &SYSTEM_CORE.to_string(), "kamailio", "-DD", "-E", "-m", "64", "-Y"]);
        command.arg(scratch.path()).arg("-f").arg(&file);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(&log)?);
        let mut process = Process::start("kamailio", &mut command)?;
        std::thread::sleep(Duration::from_millis(500));
        if process.ended().is_some() {
            bail!("kamailio did not start: {}", fs::read_to_string(&log).unwrap_or_default());
        }
        Ok(Self { process, _scratch: scratch })
    }

    /// Processor time of all its processes so far.
    ///
    /// # Errors
    /// It is gone.
    pub fn time(&self) -> Result<Duration> {
        let main = self.process.id();
        let children = fs::read_to_string(format!("/proc/{main}/task/{main}/children"))?;
        let all = children.split_whitespace().filter_map(|c| c.parse().ok()).chain([main]);
        all.map(processor_time).sum()
    }
}

impl Drop for Kamailio {
    fn drop(&mut self) {
        // Killed, it would leave its children behind.
        let _ = self.process.signal(rustix::process::Signal::TERM);
        let _ = self.process.wait(Duration::from_secs(5));
    }
}

/// strowger's stateless route.
pub struct Proxy {
    node: StrowgerNode,
    _scratch: Scratch,
}

impl Proxy {
    /// Starts it on the system's end.
    ///
    /// # Errors
    /// It does not start.
    pub fn start(rig: &Rig) -> Result<Self> {
        let scratch = Scratch::new()?;
        let config = format!(
            "[node]\nname = \"rig\"\nstatus_socket = \"@dir@/status.sock\"\n[dataplane]\nring_size = {RING}\n\
             [pinning]\ncontrol = {CLIENT_CORE}\n[[pinning.worker]]\ncore = {SYSTEM_CORE}\nqueues = [\"wire:0\"]\n\
             [[interface]]\nname = \"wire\"\ndevice = \"wire\"\n\
             [[listener]]\nname = \"front\"\naddress = \"{LISTENER}\"\nservice = \"calls\"\n\
             [[listener]]\nname = \"back\"\naddress = \"192.0.2.1:5062\"\n\
             [[service]]\nname = \"calls\"\nlistener = \"back\"\nstate = \"stateless\"\nprobe = {{ interval_ms = 3600000 }}\n\
             [[service.peer]]\nname = \"callee\"\naddress = \"{RECEIVER}\"\n[[allow]]\nprefix = \"192.0.2.0/24\"\n"
        );
        let node = StrowgerNode::start(&rig.system, &scratch.path().join("node"), &config)?;
        Ok(Self { node, _scratch: scratch })
    }

    /// Processor time of its worker so far.
    ///
    /// # Errors
    /// The node is gone.
    pub fn time(&self) -> Result<Duration> {
        self.node.worker_time()
    }
}
