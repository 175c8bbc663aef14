//! `strowger xdp`: the XDP program alone, kept attached by pins on bpffs, to try an interface with.

use crate::{
    args::{Mode, XdpVerb},
    machine,
};
use anyhow::{Context as _, Result, bail};
use control::links::Link;
use dataplane::{
    XdpMode,
    program::{Program, pinned_verdicts},
};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

const BPFFS: &str = "/sys/fs/bpf";

pub(crate) fn run(verb: &XdpVerb) -> Result<()> {
    match verb {
        XdpVerb::Load { interface, mode } => load(interface, *mode),
        XdpVerb::Unload { interface } => unload(interface),
        XdpVerb::Status { interface } => status(interface),
    }
}

fn load(interface: &str, mode: Mode) -> Result<()> {
    let directory = directory(interface, &link(interface)?);
    if directory.join("link").exists() {
        println!("{interface}: already loaded");
        return status(interface);
    }
    mount_bpffs()?;
    fs::create_dir_all(&directory).with_context(|| needs_root(&directory))?;
    let result = attach(interface, mode, &directory);
    if result.is_err() {
        let _ = fs::remove_dir_all(&directory);
    }
    result.context("loading needs root, or CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON")?;
    status(interface)
}

fn attach(interface: &str, mode: Mode, directory: &Path) -> Result<()> {
    let mut program = Program::load()?;
    let mode = match mode {
        Mode::Auto => XdpMode::Auto,
        Mode::Native => XdpMode::Copy,
        Mode::Generic => XdpMode::Generic,
    };
    program.attach(interface, mode)?;
    program.pin(directory)?;
    Ok(())
}

fn unload(interface: &str) -> Result<()> {
    let directory = directory(interface, &link(interface)?);
    if !directory.exists() {
        println!("{interface}: not loaded");
        return Ok(());
    }
    // The link goes with its last reference, and the program with the link.
    for pin in ["link", "verdicts"] {
        let _ = fs::remove_file(directory.join(pin));
    }
    fs::remove_dir(&directory).with_context(|| needs_root(&directory))?;
    if let Some(parent) = directory.parent() {
        // Other interfaces may still have theirs.
        let _ = fs::remove_dir(parent);
    }
    println!("{interface}: unloaded");
    Ok(())
}

fn status(interface: &str) -> Result<()> {
    let link = link(interface)?;
    let queues = machine::queues_in_use(&link);
    match link.xdp {
        None => println!("{interface}: no XDP program attached, {queues} receive queue(s)"),
        Some((mode, id)) => println!("{interface}: XDP program {id}, {mode} mode, {queues} receive queue(s)"),
    }
    let directory = directory(interface, &link);
    if directory.exists() {
        for (verdict, packets) in pinned_verdicts(&directory)? {
            println!("  {:<18} {packets}", verdict.label());
        }
    }
    Ok(())
}

fn link(interface: &str) -> Result<Link> {
    machine::links()?.remove(interface).with_context(|| format!("interface {interface}: no such device"))
}

/// Where the pins of an interface lie. The index makes it one of this network namespace.
fn directory(interface: &str, link: &Link) -> PathBuf {
    Path::new(BPFFS).join("strowger").join(format!("{interface}-{}", link.index))
}

fn mount_bpffs() -> Result<()> {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    if mounts.lines().any(|l| l.split(' ').nth(1) == Some(BPFFS)) {
        return Ok(());
    }
    let status =
        Command::new("mount").args(["-t", "bpf", "bpf", BPFFS]).status().context("mounting bpffs")?;
    if !status.success() {
        bail!("{BPFFS} is not mounted, and mounting it needs root");
    }
    Ok(())
}

fn needs_root(directory: &Path) -> String {
    format!("{}: needs root", directory.display())
}
