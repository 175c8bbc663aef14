//! SIPp as caller and as answering peer.

use crate::{Namespace, Process};
use anyhow::{Context as _, Result};
use std::{
    fs::{self, File},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

/// Scenario of a caller: INVITE with SDP, ACK, G.711 audio, BYE over the route set.
pub const CALL: &str = include_str!("scenarios/call.xml");
/// Scenario of a peer: answers OPTIONS and calls.
pub const ANSWER: &str = include_str!("scenarios/answer.xml");
/// Scenario of a peer: answers OPTIONS, and calls with nothing.
pub const SILENT: &str = include_str!("scenarios/silent.xml");
/// Scenario of a peer: rings, and answers a CANCEL.
pub const RING: &str = include_str!("scenarios/ring.xml");
/// Scenario of a caller who cancels while it rings.
pub const CANCEL: &str = include_str!("scenarios/cancel.xml");

/// [`CALL`] without audio, for many calls.
pub fn quiet_call() -> String {
    CALL.lines().filter(|line| !line.contains("play_pcap_audio")).collect::<Vec<_>>().join("\n")
}

/// [`ANSWER`] of a peer that answers OPTIONS with 503.
pub fn unwilling() -> String {
    let (calls, options) = ANSWER.split_once("<label id=\"1\"/>").unwrap_or_default();
    format!("{calls}<label id=\"1\"/>{}", options.replacen("200 OK", "503 Not Now", 1))
}

/// Scenario of a peer: answers OPTIONS with 200 and every call with this status.
pub fn refuse(status: u16) -> String {
    include_str!("scenarios/refuse.xml").replace("@status@", &status.to_string())
}

/// Scenario of a caller who expects this final status.
pub fn expect(status: u16) -> String {
    include_str!("scenarios/expect.xml").replace("@status@", &status.to_string())
}

/// What a SIPp process is to do.
#[derive(Clone, Debug)]
pub struct Sipp<'a> {
    /// Scenario, as XML.
    pub scenario: &'a str,
    /// Own address.
    pub local: SocketAddr,
    /// Where to call; none for a peer.
    pub remote: Option<SocketAddr>,
    /// Further arguments.
    pub args: Vec<String>,
}

/// Results of a caller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Calls {
    /// Calls begun.
    pub placed: u64,
    /// Calls that went as the scenario says.
    pub successful: u64,
    /// Calls that did not.
    pub failed: u64,
}

/// A running SIPp.
#[derive(Debug)]
pub struct RunningSipp {
    process: Process,
    statistics: PathBuf,
    screen: PathBuf,
}

impl Sipp<'_> {
    /// Starts it in a namespace; its files go to a directory of its own below `directory`.
    ///
    /// # Errors
    /// SIPp is missing.
    pub fn start(&self, namespace: &Namespace, directory: &Path) -> Result<RunningSipp> {
        let own = directory.join(format!("sipp-{}", self.local.to_string().replace([':', '[', ']'], "_")));
        let _ = fs::remove_dir_all(&own);
        fs::create_dir_all(&own)?;
        let scenario = own.join("scenario.xml");
        fs::write(&scenario, self.scenario.replace("@dir@", &directory.display().to_string()))?;
        let statistics = own.join("statistics.csv");
        let screen = own.join("screen.txt");
        let mut command = namespace.command("sipp");
        let ip = self.local.ip().to_string();
        command.arg("-sf").arg(&scenario).args(["-i", &ip, "-p", &self.local.port().to_string(), "-mi", &ip]);
        command
            .args(["-nostdin", "-trace_stat", "-fd", "1", "-trace_err", "-stf"])
            .arg(&statistics)
            .args(&self.args);
        if let Some(remote) = self.remote {
            command.arg(remote.to_string());
        }
        command
            .current_dir(&own)
            .stdin(Stdio::null())
            .stdout(File::create(&screen)?)
            .stderr(File::create(own.join("stderr.txt"))?);
        let process = Process::start("sipp", &mut command)?;
        Ok(RunningSipp { process, statistics, screen })
    }
}

impl RunningSipp {
    /// The latest figures of its statistics file.
    pub fn calls(&self) -> Calls {
        let text = fs::read_to_string(&self.statistics).unwrap_or_default();
        let mut lines = text.lines();
        let header: Vec<_> = lines.next().unwrap_or_default().split(';').collect();
        let last: Vec<_> = lines.last().unwrap_or_default().split(';').collect();
        let value = |name: &str| {
            let column = header.iter().position(|h| *h == name)?;
            last.get(column)?.parse().ok()
        };
        Calls {
            placed: value("TotalCallCreated").unwrap_or_default(),
            successful: value("SuccessfulCall(C)").unwrap_or_default(),
            failed: value("FailedCall(C)").unwrap_or_default(),
        }
    }

    /// Waits for a caller's end.
    ///
    /// # Errors
    /// It does not end in time.
    pub fn wait(&mut self, limit: Duration) -> Result<Calls> {
        self.process.wait(limit).with_context(|| self.errors())?;
        Ok(self.calls())
    }

    /// What it complained about.
    pub fn errors(&self) -> String {
        let directory = self.statistics.parent().unwrap_or(Path::new("."));
        let files = fs::read_dir(directory).into_iter().flatten().flatten();
        let logs = files.map(|f| f.path()).filter(|p| p.to_string_lossy().contains("_errors"));
        let text: String = logs.filter_map(|p| fs::read_to_string(p).ok()).collect();
        let screen = fs::read_to_string(&self.screen).unwrap_or_default();
        let tail = screen.len().saturating_sub(2000);
        format!("{text}\n{}", screen.get(tail..).unwrap_or_default())
    }

    /// Whether it has ended.
    pub fn has_ended(&mut self) -> bool {
        self.process.ended().is_some()
    }

    /// The process.
    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }
}

/// G.711 A-law RTP packets of 20 ms each, for [`write_capture`].
pub fn audio(packets: u32) -> Vec<Vec<u8>> {
    let packet = |n: u32| {
        let mut rtp = vec![0x80, 8];
        rtp.extend_from_slice(&(n as u16).to_be_bytes());
        rtp.extend_from_slice(&(n * 160).to_be_bytes());
        rtp.extend_from_slice(&0x5354_524fu32.to_be_bytes());
        rtp.extend((0..160).map(|i| ((n * 160 + i) % 251) as u8));
        rtp
    };
    (0..packets).map(packet).collect()
}

/// Writes a pcap file of RTP packets at a distance of 20 ms, for SIPp to play.
///
/// # Errors
/// The file cannot be written.
pub fn write_capture(path: &Path, packets: &[Vec<u8>]) -> Result<()> {
    let mut file = Vec::new();
    // Global header: magic, version 2.4, zone, accuracy, snap length, Ethernet.
    for word in [0xa1b2_c3d4u32, 0x0004_0002, 0, 0, 65_535, 1] {
        file.extend_from_slice(&word.to_le_bytes());
    }
    for (n, rtp) in (0u32..).zip(packets) {
        let udp_len = 8 + rtp.len() as u16;
        let mut frame = vec![0u8; 12];
        frame.extend_from_slice(&[8, 0, 0x45, 0]);
        frame.extend_from_slice(&(20 + udp_len).to_be_bytes());
        frame.extend_from_slice(&[0, 0, 0, 0, 64, 17, 0, 0, 127, 0, 0, 1, 127, 0, 0, 1]);
        frame.extend_from_slice(&4000u16.to_be_bytes());
        frame.extend_from_slice(&4000u16.to_be_bytes());
        frame.extend_from_slice(&udp_len.to_be_bytes());
        frame.extend_from_slice(&[0, 0]);
        frame.extend_from_slice(rtp);
        let micros = n * 20_000;
        for word in [micros / 1_000_000, micros % 1_000_000, frame.len() as u32, frame.len() as u32] {
            file.extend_from_slice(&word.to_le_bytes());
        }
        file.extend_from_slice(&frame);
    }
    fs::write(path, file).with_context(|| format!("writing {}", path.display()))
}
