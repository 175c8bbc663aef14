//! `strowger check`: what the file says, what it implies, and what of it this machine cannot do.

use crate::machine;
use anyhow::Result;
use control::configure::{self, Checked, route};
use health::ProbeKind;
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
    for (id, service) in (0u16..).zip(&config.services) {
        let peers = config.peers.iter().filter(|p| p.service.0 == id).count();
        let names = service.discover.len();
        let bound = control::detection_bound(&service.policy).as_secs_f64();
        let silence = service.attempt_timeout.as_secs_f64();
        println!("service {}: {peers} peer(s) in the file, {names} name(s) to resolve", service.name);
        let noticed = match service.policy.kind {
            ProbeKind::Options => format!("a dead peer is noticed within {bound:.1} s"),
            ProbeKind::Passive => {
                format!("a dead peer is noticed after {} failed calls", service.policy.passive_fall)
            }
        };
        println!(
            "  worst case: {noticed}; until then a call moves on after {silence:.1} s of silence, and all its attempts end within {:.0} s",
            service.call_budget.as_secs_f64(),
        );
    }
    for composite in config.health.composites.iter().filter(|c| c.enforced) {
        let Some(region) = config.region_name(composite.region) else { continue };
        let services = composite.services.iter().filter_map(|s| config.service(*s));
        let bound = services.map(|s| control::detection_bound(&s.policy)).max().unwrap_or_default();
        println!(
            "composite {}: new calls leave region {region} within {:.1} s after too many of its peers died",
            composite.name,
            bound.as_secs_f64()
        );
    }
    print!("{}", route::plans(config));
}
