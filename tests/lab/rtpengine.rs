//! rtpengine, which relays media for a Kamailio.

use crate::{Namespace, Process};
use anyhow::Result;
use std::{net::IpAddr, path::Path};

/// Port of its control protocol, on loopback.
pub const CONTROL: u16 = 2223;

/// A running rtpengine.
#[derive(Debug)]
pub struct Rtpengine {
    process: Process,
}

impl Rtpengine {
    /// Starts one that relays at an address, in user space.
    ///
    /// # Errors
    /// rtpengine is missing, or ends at once; the error holds its log.
    pub fn start(namespace: &Namespace, directory: &Path, address: IpAddr) -> Result<Self> {
        Self::start_on(namespace, directory, address, (2, None))
    }

    /// The same with a number of threads, and on one core only.
    ///
    /// # Errors
    /// As [`Rtpengine::start`].
    pub fn start_on(
        namespace: &Namespace,
        directory: &Path,
        address: IpAddr,
        (threads, core): (usize, Option<usize>),
    ) -> Result<Self> {
        let log = directory.join("rtpengine.log");
        let mut command = match core {
            Some(core) => namespace.command_on(core, "rtpengine"),
            None => namespace.command("rtpengine"),
        };
        command
            .arg("--foreground")
            .args(["--config-file=none", "--table=-1", "--log-stderr", "--log-level=4"])
            .arg(format!("--num-threads={threads}"))
            .arg(format!("--interface={address}"))
            .arg(format!("--listen-ng=127.0.0.1:{CONTROL}"))
            .args(["--port-min=30000", "--port-max=39999"]);
        let process = Process::start_daemon("rtpengine", &mut command, &log)?;
        Ok(Self { process })
    }

    /// Its process.
    pub fn process(&self) -> &Process {
        &self.process
    }
}
