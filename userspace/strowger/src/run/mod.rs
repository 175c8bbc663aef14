//! `strowger run`: starts a node and is its control thread until told to stop. [`plan`] says what is
//! opened, [`steering`] writes the XDP programs' maps, [`service`] is the thread's loop.

mod plan;
mod service;
mod steering;

use crate::{args::LogFormat, machine};
use anyhow::{Context as _, Result, bail};
use control::{
    configure::{self, Checked},
    keep::Kept,
    links::Link,
};
use dataplane::pin;
use std::{
    collections::HashMap,
    io::IsTerminal as _,
    path::{Path, PathBuf},
};

/// What a node is started from.
struct Origin {
    /// The configuration's file.
    file: PathBuf,
    /// Its text.
    text: String,
    /// What the last run knew, if it left anything.
    kept: Option<Kept>,
    /// Where the state of this run is kept.
    state_file: PathBuf,
}

pub(crate) fn run(file: &Path, last_good: Option<&Path>, log: LogFormat) -> Result<()> {
    log_to_stderr(log);
    let (mut config, origin) = load(file, last_good)?;
    let links = machine::links_for(&config)?;
    let problems = machine::problems(&config, &links);
    if !problems.is_empty() {
        bail!("{} does not fit this machine:\n  {}", file.display(), problems.join("\n  "));
    }
    complete_pinning(&mut config, &links);
    for warning in config
        .warnings
        .iter()
        .cloned()
        .chain(machine::sibling_warnings(&config))
        .chain(machine::unserved(&config, &links))
    {
        tracing::warn!("{warning}");
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async { service::Service::start(config, origin, links)?.run().await })
}

/// The configuration; where its file is not to be had, the one that was last accepted. A file with a
/// fault is refused: somebody is at work on it.
fn load(file: &Path, last_good: Option<&Path>) -> Result<(Checked, Origin)> {
    match configure::read(file) {
        Ok(text) => {
            let config = configure::parse(&file.display().to_string(), &text)?;
            let state_file = last_good.unwrap_or(&config.state_file).to_owned();
            let kept = Kept::read(&state_file).ok();
            Ok((config, Origin { file: file.to_owned(), text, kept, state_file }))
        }
        Err(error) => {
            let Some(last_good) = last_good else { return Err(error.into()) };
            let kept = Kept::read(last_good)
                .with_context(|| format!("{error}; last good state {}", last_good.display()))?;
            let config = configure::parse(&kept.file, &kept.text)?;
            tracing::warn!(%error, "going on with the last good configuration");
            let (text, state_file) = (kept.text.clone(), last_good.to_owned());
            Ok((config, Origin { file: file.to_owned(), text, kept: Some(kept), state_file }))
        }
    }
}

fn log_to_stderr(format: LogFormat) {
    let filter = tracing_subscriber::EnvFilter::try_from_default_env().unwrap_or_else(|_| "info".into());
    let log =
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_target(false);
    match format {
        LogFormat::Text => log.with_ansi(std::io::stderr().is_terminal()).init(),
        LogFormat::Json => log.json().flatten_event(true).init(),
    }
}

/// Without a `[pinning]` section one worker serves all queues, on the last core.
fn complete_pinning(config: &mut Checked, links: &HashMap<String, Link>) {
    let [worker] = &mut config.workers[..] else { return };
    if worker.queues.is_empty() && config.afxdp {
        for (i, interface) in config.interfaces.iter().enumerate() {
            let queues = links.get(&interface.device).map_or(1, machine::queues_in_use);
            worker.queues.extend((0..queues).map(|queue| (i, queue, 0)));
        }
        worker.core = worker.core.or(pin::cores().last().map(|core| (*core, 0)));
    }
}
