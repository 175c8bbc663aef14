//! A strowger node in a namespace: the real binary with a configuration file.

use crate::{
    Namespace, Process,
    process::{self, eventually},
};
use anyhow::{Context as _, Result, bail};
use rustix::process::Signal;
use serde_json::Value;
use std::{
    fs::{self, File},
    io::{Read as _, Write as _},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

/// A running node.
#[derive(Debug)]
pub struct StrowgerNode {
    process: Process,
    socket: PathBuf,
    log: PathBuf,
}

/// The binary under test: `STROWGER` in the environment, or the newest build.
///
/// # Errors
/// There is none.
pub fn binary() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os("STROWGER") {
        return Ok(path.into());
    }
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target");
    let built = ["release", "debug"].map(|profile| target.join(profile).join("strowger"));
    let newest =
        built.into_iter().filter(|p| p.exists()).max_by_key(|p| p.metadata().and_then(|m| m.modified()).ok());
    newest.context("no strowger binary: run `cargo xtask build`")
}

impl StrowgerNode {
    /// Starts a node and waits until it answers. `@dir@` in the configuration is replaced by
    /// `directory`, where the node's socket and log lie.
    ///
    /// # Errors
    /// It does not start; the error holds its log.
    pub fn start(namespace: &Namespace, directory: &Path, config: &str) -> Result<Self> {
        Self::start_with(namespace.command(&binary()?.display().to_string()), directory, config)
    }

    /// Starts a node as an ordinary user without any capability.
    ///
    /// # Errors
    /// As [`StrowgerNode::start`].
    pub fn start_unprivileged(namespace: &Namespace, directory: &Path, config: &str) -> Result<Self> {
        const NOBODY: u32 = 65_534;
        fs::create_dir_all(directory)?;
        std::os::unix::fs::chown(directory, Some(NOBODY), None)?;
        // A place that this user may read.
        let copy = directory.join("strowger");
        fs::copy(binary()?, &copy)?;
        let mut command = namespace.command("setpriv");
        command.args([
            "--reuid=65534",
            "--clear-groups",
            "--no-new-privs",
            "--inh-caps=-all",
            "--bounding-set=-all",
        ]);
        command.arg(copy);
        Self::start_with(command, directory, config)
    }

    fn start_with(mut command: Command, directory: &Path, config: &str) -> Result<Self> {
        fs::create_dir_all(directory)?;
        let file = directory.join("strowger.toml");
        let socket = directory.join("status.sock");
        let log = directory.join("strowger.log");
        fs::write(&file, config.replace("@dir@", &directory.display().to_string()))?;
        command
            .arg("run")
            .arg(&file)
            .stdout(File::create(directory.join("strowger.out"))?)
            .stderr(File::create(&log)?);
        let process = Process::start("strowger", &mut command)?;
        let mut node = Self { process, socket, log };
        let ready = eventually("the node answers", Duration::from_secs(10), || {
            node.process.ended().is_some() || node.status().is_ok()
        });
        if ready.is_err() || node.process.ended().is_some() {
            bail!("strowger did not start: {}", node.log());
        }
        Ok(node)
    }

    /// Its status.
    ///
    /// # Errors
    /// It does not answer.
    pub fn status(&self) -> Result<Value> {
        Ok(serde_json::from_str(&self.http("GET", "/v1/status")?.1)?)
    }

    /// A request to its API; status and body of the answer.
    ///
    /// # Errors
    /// It does not answer.
    pub fn http(&self, method: &str, path: &str) -> Result<(u16, String)> {
        let mut stream = UnixStream::connect(&self.socket)?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        stream.write_all(format!("{method} {path} HTTP/1.0\r\nHost: localhost\r\n\r\n").as_bytes())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let (head, body) = answer.split_once("\r\n\r\n").context("no HTTP answer")?;
        let status = head.split(' ').nth(1).and_then(|s| s.parse().ok()).context("no HTTP status")?;
        Ok((status, body.to_owned()))
    }

    /// A field of every thread's status in /proc, with the thread's name.
    ///
    /// # Errors
    /// The node is gone.
    pub fn threads(&self, field: &str) -> Result<Vec<(String, String)>> {
        let value = |text: &str, name: &str| {
            let line = text.lines().find_map(|l| l.strip_prefix(name)).unwrap_or_default();
            line.trim_start_matches(':').trim().to_owned()
        };
        let mut threads = Vec::new();
        for entry in fs::read_dir(format!("/proc/{}/task", self.process.id()))? {
            let text = fs::read_to_string(entry?.path().join("status"))?;
            threads.push((value(&text, "Name"), value(&text, field)));
        }
        threads.sort();
        Ok(threads)
    }

    /// Processor time that its workers have used.
    ///
    /// # Errors
    /// The node is gone.
    pub fn workers_time(&self) -> Result<Duration> {
        let mut time = Duration::ZERO;
        for entry in fs::read_dir(format!("/proc/{}/task", self.process.id()))? {
            let task = entry?.path();
            if fs::read_to_string(task.join("comm"))?.starts_with("worker-") {
                time += process::thread_time(&task)?;
            }
        }
        Ok(time)
    }

    /// What part of the time that some work takes its workers are busy, all together.
    ///
    /// # Errors
    /// The node is gone, or those of the work.
    pub fn busy_while(&self, work: impl FnOnce() -> Result<()>) -> Result<f64> {
        let (start, used) = (Instant::now(), self.workers_time()?);
        work()?;
        Ok((self.workers_time()? - used).as_secs_f64() / start.elapsed().as_secs_f64())
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// One of its counters.
    pub fn counter(&self, name: &str) -> u64 {
        self.status().ok().and_then(|s| s["counters"][name].as_u64()).unwrap_or_default()
    }

    /// Checks what must hold of every node at any time.
    ///
    /// # Errors
    /// A packet buffer is lost.
    pub fn check_invariants(&self) -> Result<()> {
        for worker in self.status()?["workers"].as_array().into_iter().flatten() {
            if worker["gauges"]["frames_missing"] != 0 {
                bail!("packet buffers are lost: {worker}");
            }
        }
        Ok(())
    }

    /// Packets dropped for a reason.
    pub fn drops(&self, reason: &str) -> u64 {
        self.status().ok().and_then(|s| s["drops"][reason].as_u64()).unwrap_or_default()
    }

    /// A peer's row of the status.
    pub fn peer(&self, name: &str) -> Option<Value> {
        let status = self.status().ok()?;
        status["peers"].as_array()?.iter().find(|p| p["name"] == name).cloned()
    }

    /// Calls that were tried at a peer.
    pub fn attempts(&self, peer: &str) -> u64 {
        self.peer(peer).and_then(|p| p["attempts"].as_u64()).unwrap_or_default()
    }

    /// Waits until a peer has a state; how long it took.
    ///
    /// # Errors
    /// It has not within `limit`.
    pub fn wait_for(&self, peer: &str, state: &str, limit: Duration) -> Result<Duration> {
        let holds = || self.peer(peer).is_some_and(|p| p["state"] == state);
        eventually(&format!("{peer} is {state}"), limit, holds).with_context(|| self.log())
    }

    /// Runs `strowger` with arguments and this node's socket; whether it succeeded, and what it printed.
    ///
    /// # Errors
    /// It cannot be run.
    pub fn cli(&self, args: &[&str]) -> Result<(bool, String)> {
        let output = Command::new(binary()?).args(args).arg("--socket").arg(&self.socket).output()?;
        let text = [&output.stdout[..], &output.stderr[..]].concat();
        Ok((output.status.success(), String::from_utf8_lossy(&text).into_owned()))
    }

    /// Gives it a command by `strowger`.
    ///
    /// # Errors
    /// It does not obey.
    pub fn tell(&self, args: &[&str]) -> Result<String> {
        let (obeyed, text) = self.cli(args)?;
        if !obeyed {
            bail!("strowger {args:?}: {text}");
        }
        Ok(text)
    }

    /// Its configuration file.
    pub fn config_file(&self) -> PathBuf {
        self.socket.with_file_name("strowger.toml")
    }

    /// Writes another configuration to its file.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write_config(&self, config: &str) -> Result<()> {
        let directory = self.socket.parent().context("a directory")?;
        Ok(fs::write(self.config_file(), config.replace("@dir@", &directory.display().to_string()))?)
    }

    /// Sends it a signal.
    ///
    /// # Errors
    /// It is gone.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        self.process.signal(signal)
    }

    /// Its log.
    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Kills it without warning.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// Stops it as an operator would.
    ///
    /// # Errors
    /// It does not stop cleanly.
    pub fn stop(&mut self) -> Result<()> {
        self.process.signal(Signal::TERM)?;
        let status = self.process.wait(Duration::from_secs(10))?;
        if !status.success() {
            bail!("strowger ended with {status}: {}", self.log());
        }
        Ok(())
    }
}

/// A directory that is removed when dropped.
#[derive(Debug)]
pub struct Scratch(PathBuf);

impl Scratch {
    /// A new directory for this process.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn new() -> Result<Self> {
        use std::sync::atomic::{AtomicU32, Ordering};
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("strowger-lab-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path)?;
        Ok(Self(path))
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
