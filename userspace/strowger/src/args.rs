//! The command line.

use crate::talk::Where;
use clap::{Parser, Subcommand};
use std::path::PathBuf;

/// Kernel-bypass SIP/RTP packet path with failover between regions.
#[derive(Debug, Parser)]
#[command(name = "strowger", version, about)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
    /// As JSON.
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Check a configuration without starting anything.
    Check {
        /// Configuration file (TOML).
        file: PathBuf,
    },
    /// Run a node until SIGTERM or SIGINT; SIGHUP reads the configuration again.
    Run {
        /// Configuration file (TOML).
        file: PathBuf,
        /// Start from this state if the configuration cannot be read, and keep it up to date.
        #[arg(long)]
        last_good: Option<PathBuf>,
        /// How to log.
        #[arg(long, value_enum, default_value_t = LogFormat::Text)]
        log: LogFormat,
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
        #[command(flatten)]
        node: Where,
    },
    /// Show calls in progress with their media: ports, sources, packets, loss and jitter of each side.
    Calls {
        /// Call-ID; without it some of all calls.
        call_id: Option<String>,
        /// How many calls of each worker.
        #[arg(long, default_value_t = 20, conflicts_with = "call_id")]
        count: usize,
        #[command(flatten)]
        node: Where,
    },
    /// Show a running node: regions, peers, workers, drops, latency.
    Status {
        /// Configuration file of the node, to find its socket.
        config: Option<PathBuf>,
        #[command(flatten)]
        node: Where,
    },
    /// The same as a live table, until interrupted.
    Watch {
        /// Seconds between two looks.
        #[arg(long, default_value_t = 1.0)]
        every: f64,
        #[command(flatten)]
        node: Where,
    },
    /// Show the peers.
    Peers {
        #[command(flatten)]
        node: Where,
    },
    /// Show the regions.
    Regions {
        #[command(flatten)]
        node: Where,
    },
    /// Show health sources and composites.
    Health {
        #[command(flatten)]
        node: Where,
    },
    /// Show the names that DNS is asked for.
    Names {
        #[command(flatten)]
        node: Where,
    },
    /// Show the latest transitions.
    Events {
        /// How many.
        #[arg(long, default_value_t = 20)]
        last: usize,
        #[command(flatten)]
        node: Where,
    },
    /// No new calls; those in progress go on.
    Drain {
        #[command(subcommand)]
        target: Target,
        #[command(flatten)]
        node: Where,
    },
    /// Nothing at all: no calls, no probes; dialogs are answered 481.
    Disable {
        #[command(subcommand)]
        target: Target,
        #[command(flatten)]
        node: Where,
    },
    /// Back to what evidence says.
    Enable {
        #[command(subcommand)]
        target: Target,
        #[command(flatten)]
        node: Where,
    },
    /// Send calls back to the region of a composite now, whatever its failback says.
    Release {
        /// Name of the composite.
        composite: String,
        #[command(flatten)]
        node: Where,
    },
    /// Read the configuration again: all of it is taken up, or nothing.
    Reload {
        /// Only say what would change.
        #[arg(long)]
        dry: bool,
        #[command(flatten)]
        node: Where,
    },
}

/// What a command is about.
#[derive(Debug, Subcommand)]
pub(crate) enum Target {
    /// One peer.
    Peer {
        /// Its name.
        name: String,
    },
    /// All peers of a region.
    Region {
        /// Its name.
        name: String,
    },
    /// The node itself.
    Node,
}

/// How to log.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(crate) enum LogFormat {
    /// For people.
    Text,
    /// One object a line.
    Json,
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
