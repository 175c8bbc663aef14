//! Network namespaces and the veth pairs between them.

use anyhow::{Context as _, Result, bail, ensure};
use std::{
    fs::File,
    process::{Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
};

const PREFIX: &str = "swlab";
static COUNT: AtomicU32 = AtomicU32::new(0);

/// A network namespace; removed with everything in it when dropped.
#[derive(Debug)]
pub struct Namespace {
    name: String,
}

impl Namespace {
    /// Makes a namespace. `role` shows in its name.
    ///
    /// # Errors
    /// Not root, or `ip` is missing.
    pub fn new(role: &str) -> Result<Self> {
        let name =
            format!("{PREFIX}-{}-{}-{role}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        run(Command::new("ip").args(["netns", "add", &name]))?;
        let namespace = Self { name };
        namespace.ip(&["link", "set", "dev", "lo", "up"])?;
        // Addresses are usable at once, without duplicate detection.
        namespace.sysctl("net.ipv6.conf.all.accept_dad=0")?;
        namespace.sysctl("net.ipv6.conf.default.accept_dad=0")?;
        Ok(namespace)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A command to run inside.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/run/netns/{}", self.name)).arg("--").arg(program);
        command
    }

    /// The same, on one core only.
    pub fn command_on(&self, core: usize, program: &str) -> Command {
        let mut command = self.command("taskset");
        command.args(["-c", &core.to_string(), program]);
        command
    }

    /// Runs `ip` inside.
    ///
    /// # Errors
    /// It fails.
    pub fn ip(&self, args: &[&str]) -> Result<String> {
        run(Command::new("ip").args(["-n", &self.name]).args(args))
    }

    /// Sets a kernel variable inside.
    ///
    /// # Errors
    /// It cannot be set.
    pub fn sysctl(&self, assignment: &str) -> Result<()> {
        run(self.command("sysctl").args(["-qw", assignment])).map(drop)
    }

    /// Adds an address to a device.
    ///
    /// # Errors
    /// The device does not exist.
    pub fn address(&self, device: &str, address: &str) -> Result<()> {
        self.ip(&["address", "add", address, "dev", device]).map(drop)
    }

    /// Adds a route.
    ///
    /// # Errors
    /// The gateway is not reachable.
    pub fn route(&self, to: &str, via: &str) -> Result<()> {
        self.ip(&["route", "add", to, "via", via]).map(drop)
    }

    /// Runs a closure on a thread inside, so that sockets it opens belong to the namespace.
    ///
    /// # Errors
    /// The namespace cannot be entered.
    ///
    /// # Panics
    /// If the closure does.
    pub fn enter<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T> {
        let file = File::open(format!("/run/netns/{}", self.name)).context("opening the namespace")?;
        std::thread::scope(|scope| {
            let inside = scope.spawn(move || {
                let kind = Some(rustix::thread::LinkNameSpaceType::Network);
                rustix::thread::move_into_link_name_space(std::os::fd::AsFd::as_fd(&file), kind)?;
                anyhow::Ok(work())
            });
            inside.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "del", &self.name]).stderr(Stdio::null()).status();
    }
}

/// Joins two namespaces by a veth pair with a number of queues, both ends up and without offloads.
///
/// # Errors
/// A device of that name exists.
pub fn veth(a: (&Namespace, &str), b: (&Namespace, &str), queues: u32) -> Result<()> {
    let queues = queues.to_string();
    let mut command = Command::new("ip");
    command.args([
        "link",
        "add",
        "name",
        a.1,
        "netns",
        a.0.name(),
        "numrxqueues",
        &queues,
        "numtxqueues",
        &queues,
    ]);
    command.args([
        "type",
        "veth",
        "peer",
        "name",
        b.1,
        "netns",
        b.0.name(),
        "numrxqueues",
        &queues,
        "numtxqueues",
        &queues,
    ]);
    run(&mut command)?;
    for (namespace, device) in [a, b] {
        // A sender behind a veth leaves checksums to "hardware" that is not there.
        let off = [
            "-K", device, "tx", "off", "tso", "off", "gso", "off", "gro", "off", "txvlan", "off", "rxvlan",
            "off",
        ];
        run(namespace.command("ethtool").args(off))?;
        namespace.ip(&["link", "set", "dev", device, "up"])?;
    }
    Ok(())
}

/// Runs a command to its end and gives its output.
///
/// # Errors
/// It cannot be started or fails; the error holds what it printed.
pub fn run(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("cannot start {command:?}"))?;
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        bail!("{command:?}: {}{printed}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(printed)
}

/// Removes namespaces of processes that no longer run.
///
/// # Errors
/// `ip` is missing.
pub fn sweep() -> Result<()> {
    for line in run(Command::new("ip").args(["netns", "list"]))?.lines() {
        let Some(name) = line.split_whitespace().next().filter(|n| n.starts_with(PREFIX)) else { continue };
        let owner = name.split('-').nth(1).unwrap_or_default();
        if !std::path::Path::new("/proc").join(owner).exists() {
            run(Command::new("ip").args(["netns", "del", name]))?;
        }
    }
    Ok(())
}

/// Namespaces of this process that still exist.
///
/// # Errors
/// `ip` is missing.
pub fn leftovers() -> Result<Vec<String>> {
    let own = format!("{PREFIX}-{}-", std::process::id());
    let list = run(Command::new("ip").args(["netns", "list"]))?;
    Ok(list
        .lines()
        .filter_map(|l| l.split_whitespace().next())
        .filter(|n| n.starts_with(&own))
        .map(str::to_owned)
        .collect())
}

/// Refuses to go on without what labs need.
///
/// # Errors
/// Not root.
pub fn require_root() -> Result<()> {
    ensure!(rustix::process::geteuid().is_root(), "labs of network namespaces need root: run this as root");
    Ok(())
}
