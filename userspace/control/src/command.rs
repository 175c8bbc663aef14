//! The operator's program that is run on transitions: to withdraw an address by BGP or VRRP, to page
//! somebody (requirement D4). It is never waited for.

use crate::history::Event;
use std::{process::Stdio, time::Duration};
use tokio::{process::Command, time::timeout};

/// Programs running at one time; a transition beyond them is not told, but logged.
const MOST: usize = 16;

/// Runs the program of the configuration.
#[derive(Debug)]
pub struct Hook {
    running: std::sync::Arc<tokio::sync::Semaphore>,
}

impl Default for Hook {
    fn default() -> Self {
        Self { running: std::sync::Arc::new(tokio::sync::Semaphore::new(MOST)) }
    }
}

impl Hook {
    /// Tells the program of a transition: in its environment as `STROWGER_KIND`, `STROWGER_NAME`,
    /// `STROWGER_FROM`, `STROWGER_TO` and `STROWGER_CAUSE`.
    pub fn run(&self, program: &[String], patience: Duration, event: &Event) {
        let Some((name, arguments)) = program.split_first() else { return };
        let Ok(permit) = std::sync::Arc::clone(&self.running).try_acquire_owned() else {
            tracing::error!(
                program = name,
                event = event.name,
                "too many commands are running, this one is not"
            );
            return;
        };
        let mut command = Command::new(name);
        command
            .args(arguments)
            .env("STROWGER_KIND", event.kind.label())
            .env("STROWGER_NAME", &event.name)
            .env("STROWGER_FROM", &event.from)
            .env("STROWGER_TO", &event.to)
            .env("STROWGER_CAUSE", &event.cause)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true);
        let name = name.clone();
        tokio::spawn(async move {
            let _permit = permit;
            let mut child = match command.spawn() {
                Ok(child) => child,
                Err(error) => return tracing::error!(program = name, %error, "cannot run the command"),
            };
            match timeout(patience, child.wait()).await {
                Ok(Ok(status)) if status.success() => {}
                Ok(Ok(status)) => tracing::error!(program = name, %status, "the command failed"),
                Ok(Err(error)) => tracing::error!(program = name, %error, "the command is lost"),
                Err(_) => {
                    tracing::error!(program = name, ?patience, "the command took too long and is killed");
                    let _ = child.kill().await;
                }
            }
        });
    }
}
