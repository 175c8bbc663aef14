//! Kamailio as a record-routing proxy between users and the node.

use crate::{Namespace, Process};
use anyhow::Result;
use rustix::process::Signal;
use std::{fs, net::SocketAddr, path::Path, process::Command, time::Duration};

/// A running Kamailio.
#[derive(Debug)]
pub struct Kamailio {
    process: Process,
}

/// Where its requests go: those from the node to the user, all others to the node.
#[derive(Clone, Copy, Debug)]
pub struct Neighbour {
    /// Its own address.
    pub address: SocketAddr,
    /// The node's address on its side.
    pub node: SocketAddr,
    /// The user agent behind it that takes calls.
    pub user: SocketAddr,
    /// Whether an rtpengine in its namespace relays its media.
    pub rtpengine: bool,
}

impl Kamailio {
    /// Starts one; its files go below `directory`.
    ///
    /// # Errors
    /// Kamailio is missing, or ends at once; the error holds its log.
    pub fn start(namespace: &Namespace, directory: &Path, neighbour: Neighbour) -> Result<Self> {
        let own = directory.join(format!("kamailio-{}", namespace.name()));
        fs::create_dir_all(&own)?;
        let Neighbour { address, node, user, rtpengine } = neighbour;
        let config = include_str!("kamailio.cfg")
            .replace("@listen@", &address.to_string())
            .replace("@node_ip@", &node.ip().to_string())
            .replace("@node@", &node.to_string())
            .replace("@user@", &user.to_string());
        let mut command = namespace.command("kamailio");
        // 16 MiB of shared memory are plenty.
        command.args(["-m", "16"]);
        if rtpengine {
            command.args(["-A", "RTPENGINE"]);
        }
        Self::run(command, &own, &config)
    }

    /// Runs a command of one with a configuration; its files go to `directory`.
    ///
    /// # Errors
    /// As [`Kamailio::start`].
    pub fn run(mut command: Command, directory: &Path, config: &str) -> Result<Self> {
        let file = directory.join("kamailio.cfg");
        fs::write(&file, config)?;
        // In the foreground, so that it ends with its owner.
        command.args(["-DD", "-E", "-Y"]).arg(directory).arg("-f").arg(&file);
        Ok(Self { process: Process::start_daemon("kamailio", &mut command, &directory.join("log"))? })
    }

    /// Its main process.
    pub fn process(&self) -> &Process {
        &self.process
    }
}

impl Drop for Kamailio {
    fn drop(&mut self) {
        // Killed, it would leave its children behind.
        let _ = self.process.signal(Signal::TERM);
        let _ = self.process.wait(Duration::from_secs(5));
    }
}
