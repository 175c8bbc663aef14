//! The XDP program: by Debian's compiler with a core library for eBPF, or by a rustup nightly with
//! `rust-src`, whichever is there.

use crate::{root, say};
use anyhow::{Context as _, Result, bail};
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// How the program can be compiled here.
enum Compiler {
    Debian,
    Nightly,
}

fn compiler() -> Option<Compiler> {
    if Path::new("/usr/lib/rustlib/bpfel-unknown-none").exists() && Path::new("/usr/bin/cargo").exists() {
        Some(Compiler::Debian)
    } else {
        has_nightly().then_some(Compiler::Nightly)
    }
}

/// Whether rustup has a nightly with the sources of the standard library.
pub(crate) fn has_nightly() -> bool {
    let output = Command::new("rustup")
        .args(["run", "nightly", "rustc", "--print", "sysroot"])
        .stderr(Stdio::null())
        .output();
    let sysroot =
        output.map(|o| PathBuf::from(String::from_utf8_lossy(&o.stdout).trim())).unwrap_or_default();
    sysroot.join("lib/rustlib/src/rust/library/core").exists()
}

/// Whether bpf-linker runs.
pub(crate) fn has_linker() -> bool {
    let status =
        Command::new("bpf-linker").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|s| s.success())
}

/// Whether the program can be built here.
pub(crate) fn is_possible() -> bool {
    compiler().is_some() && has_linker()
}

/// Builds the program into `target/xdp/`, from where the daemon's build takes it.
pub(crate) fn build() -> Result<()> {
    let Some(compiler) = compiler().filter(|_| has_linker()) else {
        bail!("the eBPF toolchain is missing: `cargo xtask setup` installs it");
    };
    say::must("building the XDP program", &mut command(&compiler, &["build", "--release"]))?;
    let from = root().join("xdp-ebpf/target/bpfel-unknown-none/release/xdp-ebpf");
    let to = root().join("target/xdp/xdp-ebpf");
    let built = fs::read(&from).with_context(|| format!("reading {}", from.display()))?;
    // Left alone where it is the same, so that the daemon is not built again.
    if fs::read(&to).ok().as_ref() != Some(&built) {
        fs::create_dir_all(to.parent().context("a directory")?)?;
        fs::write(&to, built)?;
    }
    Ok(())
}

fn command(compiler: &Compiler, args: &[&str]) -> Command {
    let mut command;
    match compiler {
        Compiler::Debian => {
            command = Command::new("/usr/bin/cargo");
            command.env("RUSTC", "/usr/bin/rustc").env("RUSTC_BOOTSTRAP", "1").args(args);
        }
        Compiler::Nightly => {
            command = Command::new("rustup");
            command.args(["run", "nightly", "cargo"]).args(args).arg("-Zbuild-std=core");
        }
    }
    // What cargo sets for xtask is meant for the other toolchain.
    for name in ["RUSTUP_TOOLCHAIN", "CARGO", "RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS", "RUSTC_WRAPPER"] {
        command.env_remove(name);
    }
    command.current_dir(root().join("xdp-ebpf"));
    command
}
