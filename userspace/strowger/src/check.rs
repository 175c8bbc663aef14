//! `strowger check`: what the file says, what it implies, and what of it this machine cannot do.

use crate::machine;
use anyhow::Result;
use control::configure::{self, Checked};
use std::path::Path;

pub(crate) fn check(file: &Path) -> Result<()> {
    let config = configure::load(file)?;
    for warning in &config.warnings {
        println!("warning: {warning}");
    }
    for problem in machine::problems(&config, &machine::links_for(&config)?) {
        println!("on this machine: {problem}");
    }
    print_summary(&config);
    println!("{}: OK", file.display());
    Ok(())
}

fn print_summary(config: &Checked) {
    let backend = if config.afxdp { "afxdp" } else { "udp" };
    println!("node {}: backend {backend}, {} worker(s)", config.name, config.workers.len());
    for service in &config.services {
        let bound = control::detection_bound(&service.policy);
        let attempts = service.call_budget.as_millis() / service.attempt_timeout.as_millis().max(1);
        println!(
            "service {}: {} peer(s); a dead peer is noticed within {:.1} s; until then a call moves on after {:.1} s of silence, at most {attempts} silent attempts in {:.0} s",
            service.name,
            service.peers.len(),
            bound.as_secs_f64(),
            service.attempt_timeout.as_secs_f64(),
            service.call_budget.as_secs_f64(),
        );
    }
}
