//! What the project needs beyond a Rust toolchain, and how to get it on Debian.

use crate::{ebpf, root, say};
use anyhow::{Result, bail};
use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// A Debian package, a file that shows it is there, and why it is needed.
struct Package {
    name: &'static str,
    shown_by: &'static str,
    why: &'static str,
}

const fn package(name: &'static str, shown_by: &'static str, why: &'static str) -> Package {
    Package { name, shown_by, why }
}

const TOOLS: &[Package] = &[
    package("iproute2", "/usr/sbin/ip", "network namespaces for demo and tests"),
    package("ethtool", "/usr/sbin/ethtool", "turns off checksum offload on lab links"),
    package("procps", "/usr/sbin/sysctl", "routing in the lab"),
    package("sip-tester", "/usr/bin/sipp", "SIPp, which makes and answers calls"),
    package("kamailio", "/usr/sbin/kamailio", "Kamailio, a neighbour in the tests"),
    package("rtpengine-daemon", "/usr/bin/rtpengine", "rtpengine, a neighbour in the tests"),
    package("baresip-core", "/usr/bin/baresip", "baresip, a phone in the tests"),
    package("nsd", "/usr/sbin/nsd", "NSD, the DNS server of the tests"),
    package("chromium", "/usr/bin/chromium", "Chromium, which shows the status page in the tests"),
    package("python3-venv", "/usr/share/python-wheels", "room for schemathesis, which fuzzes the API"),
    package("valgrind", "/usr/bin/valgrind", "counts instructions in benches"),
    package("linux-perf", "/usr/bin/perf", "samples what a core does in benches"),
];

const COMPILER: &[Package] = &[
    package("rustc-web", "/usr/bin/rustc", "compiler for the XDP program"),
    package("cargo-web", "/usr/bin/cargo", "cargo of the same version"),
    package("libstd-rust-web-dev-bpf", "/usr/lib/rustlib/bpfel-unknown-none", "core library for eBPF"),
];

const LINKER: &[Package] = &[
    package("llvm-22-dev", "/usr/lib/llvm-22/bin/llvm-config", "LLVM, which bpf-linker is built on"),
    package("libzstd-dev", "/usr/include/zstd.h", "needed by LLVM"),
    package("zlib1g-dev", "/usr/include/zlib.h", "needed by LLVM"),
];

const BPF_LINKER: &str = "0.13.0";

/// Fuzzes the API by its description; a Python program, kept below `target`.
const SCHEMATHESIS: &str = "4.32.5";

/// Components of the Rust toolchain that the tests run; rustup's minimal profile leaves them out.
const COMPONENTS: [&str; 2] = ["clippy", "rustfmt"];

/// Installs what is missing, or only reports it.
pub(crate) fn setup(check_only: bool) -> Result<()> {
    let missing = missing();
    let linker = !ebpf::has_linker();
    let schemathesis = !has_schemathesis();
    let components: Vec<_> = COMPONENTS.into_iter().filter(|c| !has_component(c)).collect();
    for component in &components {
        println!("  missing: Rust component {component} (checks the sources in the tests)");
    }
    for package in &missing {
        println!("  missing: Debian package {} ({})", package.name, package.why);
    }
    if linker {
        println!("  missing: bpf-linker {BPF_LINKER} (links the XDP program; from crates.io)");
    }
    if schemathesis {
        println!("  missing: schemathesis {SCHEMATHESIS} (fuzzes the API in the tests; from PyPI)");
    }
    if missing.is_empty() && !linker && !schemathesis && components.is_empty() {
        println!("setup: nothing is missing");
        return Ok(());
    }
    if check_only {
        bail!("something is missing: `cargo xtask setup` installs it");
    }
    if !components.is_empty() {
        let mut rustup = Command::new("rustup");
        say::must("adding Rust components", rustup.args(["component", "add"]).args(&components))?;
    }
    if !missing.is_empty() {
        install(&missing)?;
    }
    if linker {
        let mut cargo = Command::new("cargo");
        cargo.args([
            "install",
            "bpf-linker",
            "--version",
            BPF_LINKER,
            "--locked",
            "--no-default-features",
            "--features",
            "llvm-22",
        ]);
        cargo.env("LLVM_PREFIX", "/usr/lib/llvm-22");
        say::must("building bpf-linker (a minute or two)", &mut cargo)?;
    }
    if schemathesis { add_schemathesis() } else { Ok(()) }
}

fn schemathesis() -> PathBuf {
    root().join("target/schemathesis")
}

fn has_schemathesis() -> bool {
    let version = Command::new(schemathesis().join("bin/schemathesis")).arg("--version").output();
    version.is_ok_and(|v| String::from_utf8_lossy(&v.stdout).contains(SCHEMATHESIS))
}

fn add_schemathesis() -> Result<()> {
    let mut python = Command::new("python3");
    say::must("making room for schemathesis", python.args(["-m", "venv", "--clear"]).arg(schemathesis()))?;
    let mut pip = Command::new(schemathesis().join("bin/pip"));
    let version = format!("schemathesis=={SCHEMATHESIS}");
    say::must(
        "installing schemathesis",
        pip.args(["install", "--quiet", "--disable-pip-version-check", &version]),
    )
    .map(drop)
}

fn has_component(name: &str) -> bool {
    let verb = if name == "rustfmt" { "fmt" } else { name };
    let status =
        Command::new("cargo").args([verb, "--version"]).stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|s| s.success())
}

fn missing() -> Vec<&'static Package> {
    let compiler: &[Package] = if ebpf::has_nightly() { &[] } else { COMPILER };
    let linker: &[Package] = if ebpf::has_linker() { &[] } else { LINKER };
    let wanted = TOOLS.iter().chain(compiler).chain(linker);
    wanted.filter(|p| !is_there(p)).collect()
}

fn is_there(package: &Package) -> bool {
    let path = Path::new(package.shown_by);
    // Merged directories: /usr/sbin and /sbin are one on some systems, two on others.
    path.exists() || path.strip_prefix("/usr").is_ok_and(|p| Path::new("/").join(p).exists())
}

fn install(missing: &[&Package]) -> Result<()> {
    if !Path::new("/usr/bin/apt-get").exists() {
        bail!("this is no Debian system: install the equivalents of the packages above by hand");
    }
    lab::namespace::require_root()?;
    let apt = |args: &[&str]| {
        let mut command = Command::new("apt-get");
        command.env("DEBIAN_FRONTEND", "noninteractive").args(args);
        command
    };
    say::must("reading Debian's package lists", &mut apt(&["update", "-q"]))?;
    let names = missing.iter().map(|p| p.name);
    let mut command = apt(&["install", "-q", "-y", "--no-install-recommends"]);
    say::must("installing Debian packages", command.args(names))?;
    for service in ["kamailio", "rtpengine-daemon", "nsd"] {
        if missing.iter().any(|p| p.name == service) {
            keep_off(service);
        }
    }
    Ok(())
}

/// Debian starts what it installs; the tests start their own in namespaces.
fn keep_off(service: &str) {
    let mut command = Command::new("systemctl");
    command.args(["disable", "--now", service]).stdout(Stdio::null()).stderr(Stdio::null());
    // Without systemd there is nothing to stop.
    if command.status().is_ok_and(|s| s.success()) {
        println!("  {service}.service is stopped and disabled: only the tests need it");
    }
}
