//! Measures the stages of the packet path: time by divan, instructions by callgrind.

use crate::{build, root, say};
use anyhow::Result;
use lab::{namespace, rate};
use std::process::{Command, Stdio};

/// The version that goes with the library in bench/Cargo.toml.
const RUNNER: &str = "0.20.0";

pub(crate) fn bench() -> Result<()> {
    stages()?;
    namespace::require_root()?;
    build::build()?;
    println!("\nRTP packets of 214 bytes relayed by one worker between two veth interfaces");
    println!("  (sender, kernel and worker share this machine's cores: a lower bound)");
    println!("  {:>9} {:>11} {:>8}", "wanted/s", "sent/s", "lost");
    rate::measure(|step| println!("  {:>9} {:>11.0} {:>8}", step.wanted, step.sent, step.lost))
}

fn stages() -> Result<()> {
    println!("Time of each stage (this machine, now; compare within one run only)");
    let time = say::must(
        "measuring time",
        cargo(&["bench", "--quiet", "--package", "bench", "--bench", "time"]).env("NO_COLOR", "1"),
    )?;
    time.lines().filter(|l| !l.is_empty() && !l.starts_with("Timer precision")).for_each(|l| println!("{l}"));
    if !has_runner() {
        let mut install = Command::new("cargo");
        install.args(["install", "gungraun-runner", "--version", RUNNER, "--locked"]);
        say::must("building gungraun-runner (two minutes)", &mut install)?;
    }
    println!("\nInstructions of each stage (the same on every run)");
    let counted = say::must(
        "counting instructions",
        cargo(&["bench", "--quiet", "--package", "bench", "--bench", "instructions"]).env("NO_COLOR", "1"),
    )?;
    for (name, instructions) in instructions(&counted) {
        println!("  {name:<48} {instructions:>8}");
    }
    Ok(())
}

fn cargo(args: &[&str]) -> Command {
    let mut command = Command::new("cargo");
    command.args(args).current_dir(root());
    command
}

fn has_runner() -> bool {
    let status =
        Command::new("gungraun-runner").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|s| s.success())
}

/// Names of benches and the instructions of each, from the runner's report.
fn instructions(report: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut name = String::new();
    for line in report.lines() {
        let text = line.trim();
        if let Some(count) = text.strip_prefix("Instructions:") {
            found.push((name.clone(), count.trim().split('|').next().unwrap_or_default().to_owned()));
        } else if text.contains("::") {
            let text = text.split(":(").next().unwrap_or_default();
            name = text.replace("instructions::stages::", "");
        }
    }
    found
}
