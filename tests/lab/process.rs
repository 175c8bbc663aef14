//! Child processes that do not outlive their owner.

use anyhow::{Context as _, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use std::{
    fs::{self, File},
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

/// Processor time that a thread has used, by its directory in /proc.
///
/// # Errors
/// It is gone.
pub fn thread_time(task: &Path) -> Result<Duration> {
    let text = fs::read_to_string(task.join("schedstat"))?;
    let nanos = text.split_whitespace().next().and_then(|n| n.parse().ok());
    Ok(Duration::from_nanos(nanos.context("no time in schedstat")?))
}

/// A running child; killed when dropped.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
}

impl Process {
    /// Starts a command.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start(name: &str, command: &mut Command) -> Result<Self> {
        let child = command.spawn().with_context(|| format!("cannot start {name}: {command:?}"))?;
        Ok(Self { name: name.to_owned(), child })
    }

    /// Starts one that is to stay, with its complaints in a file.
    ///
    /// # Errors
    /// It cannot be started, or ends at once; the error holds its complaints.
    pub fn start_daemon(name: &str, command: &mut Command, log: &Path) -> Result<Self> {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(log)?);
        let mut process = Self::start(name, command)?;
        std::thread::sleep(Duration::from_millis(500));
        if process.ended().is_some() {
            bail!("{name} did not start: {}", fs::read_to_string(log).unwrap_or_default());
        }
        Ok(process)
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal.
    ///
    /// # Errors
    /// The process is gone.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        let pid = Pid::from_raw(self.child.id() as i32).context("pid 0")?;
        kill_process(pid, signal).with_context(|| format!("signalling {}", self.name))
    }

    /// Kills it at once and waits for its end.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Its exit status, if it has ended.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// It does not end in time; it is killed then.
    pub fn wait(&mut self, limit: Duration) -> Result<ExitStatus> {
        let deadline = Instant::now() + limit;
        while Instant::now() < deadline {
            if let Some(status) = self.ended() {
                return Ok(status);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        self.kill();
        bail!("{} did not end within {limit:?}", self.name)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Tries something until it holds.
///
/// # Errors
/// It never does within `limit`; `what` names it.
pub fn eventually(what: &str, limit: Duration, mut holds: impl FnMut() -> bool) -> Result<Duration> {
    let start = Instant::now();
    while start.elapsed() < limit {
        if holds() {
            return Ok(start.elapsed());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    bail!("not within {limit:?}: {what}")
}
