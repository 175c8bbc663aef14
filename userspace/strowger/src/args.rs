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
