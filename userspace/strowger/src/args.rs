//! The command line.

use clap::{Parser, Subcommand};
use std::path::PathBuf;

/// Kernel-bypass SIP/RTP packet path with failover between regions.
#[derive(Debug, Parser)]
#[command(name = "strowger", version, about)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Check a configuration without starting anything.
    Check {
        /// Configuration file (TOML).
        file: PathBuf,
    },
    /// Run a node until SIGTERM or SIGINT.
    Run {
        /// Configuration file (TOML).
        file: PathBuf,
    },
    /// The XDP program alone, without a node.
    Xdp {
        #[command(subcommand)]
        verb: XdpVerb,
    },
    /// Show why recent calls went where they went: each attempt, why its peer was chosen, how it ended.
    Explain {
        /// Call-ID; without it the latest calls are shown.
        call_id: Option<String>,
        /// How many of the latest calls of each worker.
        #[arg(long, default_value_t = 10, conflicts_with = "call_id")]
        last: usize,
        /// Configuration file of the node, to find its socket.
        #[arg(long, required_unless_present = "socket")]
        file: Option<PathBuf>,
        /// The node's status socket.
        #[arg(long, conflicts_with = "file")]
        socket: Option<PathBuf>,
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// Show a running node: regions, peers, workers, drops, latency.
    Status {
        /// Configuration file of the node, to find its socket.
        #[arg(required_unless_present = "socket")]
        file: Option<PathBuf>,
        /// The node's status socket.
        #[arg(long, conflicts_with = "file")]
        socket: Option<PathBuf>,
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum XdpVerb {
    /// Attach it; every packet passes to the kernel and is counted. Does nothing where it is attached.
    Load {
        /// Interface.
        interface: String,
        /// How.
        #[arg(long, value_enum, default_value_t = Mode::Auto)]
        mode: Mode,
    },
    /// Detach it. Does nothing where it is not attached.
    Unload {
        /// Interface.
        interface: String,
    },
    /// Show program id, mode, queues and counters.
    Status {
        /// Interface.
        interface: String,
    },
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(crate) enum Mode {
    /// Native where the driver can, else generic.
    Auto,
    /// By the driver.
    Native,
    /// By the kernel's network stack.
    Generic,
}
