//! `cargo xtask VERB`: set up, build, show, test, measure. One file for each verb.
#![forbid(unsafe_code)]

mod bench;
mod build;
mod demo;
mod ebpf;
mod say;
mod setup;
mod test;
mod tidy;
mod view;
mod xdp;

use clap::{Parser, Subcommand};
use std::{path::PathBuf, process::ExitCode};

/// Tasks of the strowger project.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask")]
struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Install what is missing: Debian packages and bpf-linker.
    Setup {
        /// Only report what is missing; fails if anything is.
        #[arg(long)]
        check: bool,
    },
    /// Build the XDP program and the daemon.
    Build,
    /// Show calls failing over between two regions, in a lab of network namespaces.
    Demo(demo::Options),
    /// Run all tests.
    Test {
        /// Only suites whose name contains this.
        filter: Option<String>,
    },
    /// Measure the stages of the packet path, and whole systems side by side: a few minutes.
    Bench {
        /// Everything, in some 40 minutes, with a report in bench/results.
        #[arg(long)]
        full: bool,
        /// Make today's instruction counts the ones that the tests compare with.
        #[arg(long)]
        accept: bool,
    },
    /// Attach the XDP program to an interface, without a node: every packet passes and is counted.
    Load {
        /// Interface.
        #[arg(long)]
        iface: String,
        /// auto, native or generic.
        #[arg(long, default_value = "auto")]
        mode: String,
    },
    /// Detach what `load` attached.
    Unload {
        /// Interface.
        #[arg(long)]
        iface: String,
    },
    /// Show what `load` attached.
    Status {
        /// Interface.
        #[arg(long)]
        iface: String,
    },
    /// Check the rules of the source tree.
    Tidy,
}

fn main() -> ExitCode {
    let result = match Args::parse().verb {
        Verb::Setup { check } => setup::setup(check),
        Verb::Build => build::build(),
        Verb::Demo(options) => demo::demo(&options),
        Verb::Test { filter } => test::test(filter.as_deref()),
        Verb::Bench { full, accept } => bench::bench(full, accept),
        Verb::Load { iface, mode } => xdp::run(&["load", &iface, "--mode", &mode]),
        Verb::Unload { iface } => xdp::run(&["unload", &iface]),
        Verb::Status { iface } => xdp::run(&["status", &iface]),
        Verb::Tidy => tidy::tidy(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("\nxtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Root of the project.
fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap_or_else(|_| ".".into())
}
