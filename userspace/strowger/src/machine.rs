//! The configuration against this machine: cores, devices, queues.

use anyhow::{Context as _, Result};
use control::{configure::Checked, links::Link};
use dataplane::pin;
use std::collections::HashMap;

/// Interfaces that a configuration may name: none are asked for where it names none.
pub(crate) fn links_for(config: &Checked) -> Result<HashMap<String, Link>> {
    if config.interfaces.is_empty() { Ok(HashMap::new()) } else { links() }
}

/// Interfaces of this machine.
pub(crate) fn links() -> Result<HashMap<String, Link>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(control::links::all()).context("cannot list the interfaces by netlink")
}

/// Everything in the configuration that this machine does not have.
pub(crate) fn problems(config: &Checked, links: &HashMap<String, Link>) -> Vec<String> {
    let cores = pin::cores();
    let mut problems = core_problems(config, &cores);
    for interface in &config.interfaces {
        if !links.contains_key(&interface.device) {
            problems.push(format!("line {}: device \"{}\" does not exist", interface.line, interface.device));
        }
    }
    for worker in &config.workers {
        for (interface, queue, line) in &worker.queues {
            let interface = &config.interfaces[*interface];
            let Some(link) = links.get(&interface.device) else { continue };
            let queues = queues_in_use(link);
            if *queue >= queues {
                problems.push(format!(
                    "line {line}: queue {queue} of \"{}\" does not exist, device \"{}\" has {} receive queue(s)",
                    interface.name, interface.device, queues
                ));
            }
        }
    }
    problems
}

/// Receive queues that a device uses.
pub(crate) fn queues_in_use(link: &Link) -> u32 {
    dataplane::receive_queues(link.index).unwrap_or(link.max_rx_queues)
}

/// Receive queues that no worker serves: their packets pass to the kernel.
pub(crate) fn unserved(config: &Checked, links: &HashMap<String, Link>) -> Vec<String> {
    let mut unserved = Vec::new();
    for (i, interface) in config.interfaces.iter().enumerate() {
        let queues = links.get(&interface.device).map_or(0, queues_in_use);
        for queue in 0..queues {
            let served =
                config.workers.iter().any(|w| w.queues.iter().any(|(n, q, _)| *n == i && *q == queue));
            if !served {
                unserved.push(format!(
                    "queue {queue} of \"{}\" is served by no worker, its packets go to the kernel",
                    interface.name
                ));
            }
        }
    }
    unserved
}

/// Pairs of pinned threads that share a physical core.
pub(crate) fn sibling_warnings(config: &Checked) -> Vec<String> {
    let used: Vec<usize> = config
        .workers
        .iter()
        .filter_map(|w| w.core)
        .map(|(core, _)| core)
        .chain(config.control_core)
        .collect();
    let shared =
        |core: &usize| pin::siblings(*core).into_iter().find(|other| other > core && used.contains(other));
    used.iter()
        .filter_map(|core| {
            Some(format!("cores {core} and {} are hardware threads of one physical core", shared(core)?))
        })
        .collect()
}

fn core_problems(config: &Checked, cores: &[usize]) -> Vec<String> {
    let workers =
        config.workers.iter().filter_map(|w| w.core).map(|(core, line)| (core, format!("line {line}: ")));
    let control = config.control_core.map(|core| (core, String::new()));
    workers
        .chain(control)
        .filter(|(core, _)| !cores.contains(core))
        .map(|(core, line)| format!("{line}core {core} does not exist, this machine offers {cores:?}"))
        .collect()
}
