//! Kamailio as a record-routing proxy between users and the node.

use crate::{Namespace, Process};
use anyhow::{Result, bail};
use rustix::process::Signal;
use std::{
    fs::{self, File},
    net::SocketAddr,
    path::Path,
    process::Stdio,
    time::Duration,
};

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
        let file = own.join("kamailio.cfg");
        fs::write(&file, config)?;
        let mut command = namespace.command("kamailio");
        // In the foreground, so that it ends with its owner; 16 MiB of shared memory are plenty.
        command.args(["-DD", "-E", "-m", "16", "-Y"]).arg(&own).arg("-f").arg(&file);
        if rtpengine {
            command.args(["-A", "RTPENGINE"]);
        }
        let log = own.join("log");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(&log)?);
        let mut process = Process::start("kamailio", &mut command)?;
        std::thread::sleep(Duration::from_millis(300));
        if process.ended().is_some() {
            bail!("kamailio did not start: {}", fs::read_to_string(&log).unwrap_or_default());
        }
        Ok(Self { process })
    }
}

impl Drop for Kamailio {
    fn drop(&mut self) {
        // Killed, it would leave its children behind.
        let _ = self.process.signal(Signal::TERM);
        let _ = self.process.wait(Duration::from_secs(5));
    }
}
