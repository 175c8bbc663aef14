//! The way to a running node: by its configuration, its socket, or as the only one on this machine.

use anyhow::{Context as _, Result, bail};
use clap::Args;
use control::{admin::client, configure};
use hyper::Method;
use serde_json::Value;
use std::{fs, path::PathBuf};

/// Directory of the status sockets, unless configured otherwise.
const RUN: &str = "/run/strowger";

/// Which node.
#[derive(Clone, Debug, Args)]
pub(crate) struct Where {
    /// Configuration file of the node, to find its socket; not needed where one node runs.
    #[arg(long, global = true)]
    file: Option<PathBuf>,
    /// The node's status socket.
    #[arg(long, global = true, conflicts_with = "file", env = "STROWGER_SOCKET")]
    socket: Option<PathBuf>,
}

impl Where {
    /// With a configuration file that was named otherwise.
    pub(crate) fn with_file(mut self, file: Option<PathBuf>) -> Self {
        if file.is_some() {
            (self.file, self.socket) = (file, None);
        }
        self
    }

    fn socket(&self) -> Result<PathBuf> {
        match (&self.socket, &self.file) {
            (_, Some(file)) => Ok(configure::load(file)?.status_socket),
            (Some(socket), None) => Ok(socket.clone()),
            (None, None) => only_socket(),
        }
    }

    /// Reads something.
    pub(crate) fn get(&self, path: &str) -> Result<Value> {
        self.ask(Method::GET, path)
    }

    /// Reads about the call with a Call-ID, or about those that another query names.
    pub(crate) fn get_calls(&self, path: &str, call_id: Option<&str>, others: &str) -> Result<Value> {
        let query = call_id.map_or_else(|| others.to_owned(), |id| format!("call_id={}", client::escape(id)));
        self.get(&format!("{path}?{query}"))
    }

    /// Gives a command.
    pub(crate) fn post(&self, path: &str) -> Result<Value> {
        self.ask(Method::POST, path)
    }

    fn ask(&self, method: Method, path: &str) -> Result<Value> {
        let socket = self.socket()?;
        let (_, body) = client::ask_blocking(&socket, method, path)
            .with_context(|| format!("no node answers on {}", socket.display()))?;
        let answer: Value = serde_json::from_str(&body).context("the node's answer is no JSON")?;
        if let Some(error) = answer["error"].as_str() {
            bail!("the node says: {error}");
        }
        Ok(answer)
    }
}

/// The socket of the only node of this machine.
fn only_socket() -> Result<PathBuf> {
    let entries = fs::read_dir(RUN).into_iter().flatten().flatten().map(|e| e.path());
    let sockets: Vec<_> = entries.filter(|p| p.extension().is_some_and(|e| e == "sock")).collect();
    match &sockets[..] {
        [socket] => Ok(socket.clone()),
        [] => bail!("no socket in {RUN}, expected --file or --socket"),
        _ => bail!("several sockets in {RUN}, expected --file or --socket"),
    }
}
