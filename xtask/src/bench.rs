//! Measures the stages of the packet path, time by divan and instructions by callgrind, and whole systems on a rig.

use crate::{build, root, say, setup};
use anyhow::{Context as _, Result, bail, ensure};
use lab::namespace;
use std::{
    collections::HashMap,
    fs,
    process::{Command, Stdio},
};

/// The version that goes with the library in bench/Cargo.toml.
const RUNNER: &str = "0.20.0";

/// Instruction counts that were accepted, one bench a line.
const ACCEPTED: &str = "bench/instructions.txt";
/// Where the report of a full run goes.
const RESULTS: &str = "bench/results";
/// A rise beyond this fails the tests.
const TOLERANCE_PERCENT: u64 = 10;

pub(crate) fn bench(full: bool, accept: bool) -> Result<()> {
    namespace::require_root()?;
    setup::setup(false)?;
    time()?;
    println!("\nInstructions of each stage (the same on every run)");
    let counted = count_instructions()?;
    for (name, count) in &counted {
        println!("  {name:<48} {count:>8}");
    }
    if accept {
        let lines: String = counted.iter().map(|(name, count)| format!("{name} {count}\n")).collect();
        fs::write(root().join(ACCEPTED), lines)?;
        println!("  accepted: written to {ACCEPTED}");
    }
    build::build()?;
    println!(
        "\nTime of the worker's thread for a packet of {} bytes, system calls included",
        lab::cost::SIZE
    );
    let cost = lab::cost::measure()?;
    println!("  {:>8.0} ns  passed on bare, as media through AF_XDP", cost.pass);
    println!("  {:>8.0} ns  a SIP request forwarded without state", cost.forward);
    println!("      {:.2}  of the bare rate per core", cost.pass / cost.forward);
    println!("\nWhole systems on one rig");
    let mut rig = cargo(&["run", "--quiet", "--release", "--package", "bench", "--bin", "rig", "--"]);
    if full {
        rig.args(["--full", "--report", RESULTS]);
    }
    let status = rig.status().context("running the rig")?;
    ensure!(status.success(), "the rig failed");
    Ok(())
}

fn time() -> Result<()> {
    println!("Time of each stage (this machine, now; compare within one run only)");
    let time = say::must(
        "measuring time",
        cargo(&["bench", "--quiet", "--package", "bench", "--bench", "time"]).env("NO_COLOR", "1"),
    )?;
    time.lines().filter(|l| !l.is_empty() && !l.starts_with("Timer precision")).for_each(|l| println!("{l}"));
    Ok(())
}

/// Counts instructions and compares them with the accepted counts: what rose, and by how much.
pub(crate) fn guard() -> Result<String> {
    let text = fs::read_to_string(root().join(ACCEPTED)).with_context(|| format!("reading {ACCEPTED}"))?;
    let accepted: HashMap<&str, u64> = text
        .lines()
        .filter_map(|l| l.split_once(' '))
        .filter_map(|(n, c)| Some((n, c.parse().ok()?)))
        .collect();
    let counted = count_instructions()?;
    let (mut risen, mut largest) = (Vec::new(), 0);
    for (name, count) in &counted {
        let Some(before) = accepted.get(name.as_str()) else {
            bail!("{name} is not in {ACCEPTED}: `cargo xtask bench --accept` adds it");
        };
        let percent = (count * 100 / before.max(&1)).saturating_sub(100);
        largest = largest.max(percent);
        if percent > TOLERANCE_PERCENT {
            risen.push(format!("{name}: {before} instructions became {count} (+{percent} %)"));
        }
    }
    if !risen.is_empty() {
        bail!(
            "{}\nmake it cheaper, or accept it with `cargo xtask bench --accept` and say why",
            risen.join("\n")
        );
    }
    Ok(format!("{} stages, largest rise {largest} % of {TOLERANCE_PERCENT} %", counted.len()))
}

fn count_instructions() -> Result<Vec<(String, u64)>> {
    if !has_runner() {
        let mut install = Command::new("cargo");
        install.args(["install", "gungraun-runner", "--version", RUNNER, "--locked"]);
        say::must("building gungraun-runner (two minutes)", &mut install)?;
    }
    let report = say::must(
        "counting instructions",
        cargo(&["bench", "--quiet", "--package", "bench", "--bench", "instructions"]).env("NO_COLOR", "1"),
    )?;
    let counted = instructions(&report);
    if counted.is_empty() {
        bail!("no instruction count in the report:\n{report}");
    }
    Ok(counted)
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
fn instructions(report: &str) -> Vec<(String, u64)> {
    let mut found = Vec::new();
    let mut name = String::new();
    for line in report.lines() {
        let text = line.trim();
        if let Some(count) = text.strip_prefix("Instructions:") {
            let count = count.trim().split('|').next().unwrap_or_default();
            found.extend(count.parse().ok().map(|count| (name.clone(), count)));
        } else if text.contains("::") {
            let text = text.split(":(").next().unwrap_or_default();
            name = text.replace("instructions::stages::", "").replace(' ', ".");
        }
    }
    found
}
