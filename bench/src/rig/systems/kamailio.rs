//! Kamailio with one worker process, in two parts.

use super::{System, time_of};
use crate::rig::{Flow, LISTENER, RECEIVER, Rig, SENDER, SYSTEM_CORE, socket};
use anyhow::Result;
use lab::node::Scratch;
use std::{fs, time::Duration};

/// What it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// `forward()`: no state, everything goes to one place.
    Forward,
    /// `tm` and `dispatcher`: a transaction for each request, peers watched by OPTIONS, failover by `failure_route`.
    Stateful,
}

/// A running Kamailio.
pub struct Kamailio {
    kamailio: lab::kamailio::Kamailio,
    _scratch: Scratch,
}

/// Settings of both parts.
const HEAD: &str = "#!KAMAILIO\ndebug=-1\nlog_stderror=yes\nchildren=1\nauto_aliases=no\ndns=no\nrev_dns=no\n\
                    dns_cache_init=off\nloadmodule \"pv.so\"\n";

const FORWARD: &str = "request_route {\n    $du = \"sip:@receiver@\";\n    forward();\n}\n";

impl Kamailio {
    /// Starts it on the system's end, with these peers.
    ///
    /// # Errors
    /// It is missing, or ends at once; the error holds its log.
    pub fn start(rig: &Rig, part: Part, peers: &[&str]) -> Result<Self> {
        let scratch = Scratch::new()?;
        let list: String = peers.iter().map(|peer| format!("1 sip:{peer}\n")).collect();
        fs::write(scratch.path().join("dispatcher.list"), list)?;
        let routes = match part {
            Part::Forward => FORWARD,
            Part::Stateful => include_str!("kamailio-stateful.cfg"),
        };
        let routes = routes
            .replace("@receiver@", RECEIVER)
            .replace("@list@", &scratch.path().join("dispatcher.list").display().to_string());
        let mut command = rig.system.command_on(SYSTEM_CORE, "kamailio");
        command.args(["-m", "1024", "-M", "64"]);
        let config = format!("{HEAD}listen=udp:{LISTENER}\n{routes}");
        let kamailio = lab::kamailio::Kamailio::run(command, scratch.path(), &config)?;
        Ok(Self { kamailio, _scratch: scratch })
    }

    /// All its processes.
    fn processes(&self) -> Result<Vec<u32>> {
        let main = self.kamailio.process().id();
        let children = fs::read_to_string(format!("/proc/{main}/task/{main}/children"))?;
        Ok(children.split_whitespace().filter_map(|c| c.parse().ok()).chain([main]).collect())
    }
}

impl System for Kamailio {
    fn flows(&self) -> Vec<Flow> {
        vec![Flow { from: socket(SENDER), to: socket(LISTENER) }]
    }

    fn time(&self) -> Result<Duration> {
        self.processes()?.into_iter().map(time_of).sum()
    }
}
