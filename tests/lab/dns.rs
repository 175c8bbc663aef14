//! NSD as the DNS server of one zone.

use crate::{Namespace, Process, process::eventually};
use anyhow::{Result, bail};
use rustix::process::Signal;
use std::{
    fs::{self, File},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

/// A running name server.
#[derive(Debug)]
pub struct NameServer {
    process: Process,
    zone: PathBuf,
    log: PathBuf,
}

impl NameServer {
    /// Starts one that serves `example.com` in a namespace; without a zone it answers SERVFAIL. Its files
    /// go below `directory`.
    ///
    /// # Errors
    /// NSD is missing, or does not start; the error holds its log.
    pub fn start(
        namespace: &Namespace,
        directory: &Path,
        address: SocketAddr,
        zone: Option<&str>,
    ) -> Result<Self> {
        let own = directory.join("nsd");
        fs::create_dir_all(&own)?;
        let (file, log) = (own.join("example.com.zone"), own.join("log"));
        let _ = fs::remove_file(&file);
        zone.map_or(Ok(()), |zone| fs::write(&file, zone))?;
        let (ip, port, own_name) = (address.ip(), address.port(), own.display());
        let config = format!(
            "server:\n ip-address: {ip}@{port}\n username: \"\"\n zonesdir: \"{own_name}\"\n pidfile: \"\"\n database: \"\"\n \
             xfrdfile: \"{own_name}/xfrd\"\n xfrdir: \"{own_name}\"\n zonelistfile: \"{own_name}/zones\"\n server-count: 1\n verbosity: 2\n \
             rrl-ratelimit: 0\nremote-control:\n control-enable: no\nzone:\n name: example.com\n zonefile: example.com.zone\n"
        );
        fs::write(own.join("nsd.conf"), config)?;
        let mut command = namespace.command("nsd");
        command.arg("-d").arg("-c").arg(own.join("nsd.conf"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(&log)?);
        let mut process = Process::start("nsd", &mut command)?;
        let started = eventually("nsd has started", Duration::from_secs(5), || {
            process.ended().is_some() || fs::read_to_string(&log).unwrap_or_default().contains("nsd started")
        });
        let server = Self { process, zone: file, log };
        if started.is_err() {
            bail!("nsd did not start: {}", server.log());
        }
        Ok(server)
    }

    /// Serves another zone from now on.
    ///
    /// # Errors
    /// The server is gone.
    pub fn serve(&self, zone: &str) -> Result<()> {
        let before = self.log().matches("zone example.com read").count();
        fs::write(&self.zone, zone)?;
        self.process.signal(Signal::HUP)?;
        eventually("nsd has read the zone", Duration::from_secs(5), || {
            self.log().matches("zone example.com read").count() > before
        })
        .map(drop)
    }

    /// Its log.
    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for NameServer {
    fn drop(&mut self) {
        // Killed, it would leave its children behind.
        let _ = self.process.signal(Signal::TERM);
        let _ = self.process.wait(Duration::from_secs(5));
    }
}
