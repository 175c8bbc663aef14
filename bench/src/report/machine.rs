//! What the figures are of.

use anyhow::Result;
use serde::{Deserialize, Serialize};
use std::{fs, process::Command};

/// Machine and versions.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Machine {
    /// Day of the run.
    pub date: String,
    /// Model of the processor.
    pub processor: String,
    /// Cores that the run could use.
    pub cores: usize,
    /// Memory in MiB.
    pub memory_mib: u64,
    /// Whether the machine is a guest of another one.
    pub is_guest: bool,
    /// Release of the kernel.
    pub kernel: String,
    /// Systems with their versions.
    pub versions: Vec<(String, String)>,
}

impl Machine {
    /// This one.
    ///
    /// # Errors
    /// /proc is not there.
    pub fn look() -> Result<Self> {
        let cpu = fs::read_to_string("/proc/cpuinfo")?;
        let field = |name: &str| {
            let line = cpu.lines().find(|l| l.starts_with(name)).unwrap_or_default();
            line.split_once(": ").map_or_else(String::new, |(_, value)| value.trim().to_owned())
        };
        let memory = fs::read_to_string("/proc/meminfo")?;
        let kib = memory.split_whitespace().nth(1).and_then(|n| n.parse::<u64>().ok()).unwrap_or_default();
        Ok(Self {
            date: said("date", &["-u", "+%Y-%m-%d"]),
            processor: field("model name"),
            cores: cpu.lines().filter(|l| l.starts_with("processor")).count(),
            memory_mib: kib / 1024,
            is_guest: field("flags").split(' ').any(|flag| flag == "hypervisor"),
            kernel: fs::read_to_string("/proc/sys/kernel/osrelease")?.trim().to_owned(),
            versions: vec![
                ("strowger".into(), env!("CARGO_PKG_VERSION").into()),
                ("Kamailio".into(), number(&said("kamailio", &["-v"]))),
                ("rtpengine".into(), number(&said("rtpengine", &["--version"]))),
                ("rustc".into(), number(&said("rustc", &["--version"]))),
            ],
        })
    }
}

/// First line that a command prints, on either output.
fn said(program: &str, args: &[&str]) -> String {
    let Ok(output) = Command::new(program).args(args).output() else { return "not there".into() };
    let text = [output.stdout, output.stderr].concat();
    String::from_utf8_lossy(&text).lines().next().unwrap_or_default().trim().to_owned()
}

/// First word that begins with a digit.
fn number(text: &str) -> String {
    let word = text.split_whitespace().find(|w| w.starts_with(|c: char| c.is_ascii_digit()));
    word.unwrap_or(text).to_owned()
}
