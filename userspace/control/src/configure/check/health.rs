//! `[health]`: policies, sources and composites.

use super::{Checker, Names};
use crate::configure::{
    CompositeConfig, HealthConfig, SourceConfig,
    schema::{self, CompositeMode, FailbackMode, File},
};
use health::{Composite, Composites, Failback, Input, Threshold};
use routing::ServiceId;
use std::{collections::HashMap, time::Duration};
use toml::Spanned;

impl Checker<'_> {
    pub(super) fn health(&mut self, file: &File, services: &Names, regions: &Names) -> HealthConfig {
        let health = &file.health;
        let policies = self.names("health policy", health.policy.iter().map(|p| &p.name));
        let sources = self.names("health source", health.source.iter().map(|s| &s.name));
        let composites = self.names("composite", health.composite.iter().map(|c| &c.name));
        let thresholds: Vec<_> = health.policy.iter().map(|p| self.threshold(p)).collect();
        let source_configs = health.source.iter().filter_map(|source| {
            let policy = source.policy.as_ref().and_then(|p| self.find("health policy", p, &policies));
            Some(SourceConfig {
                name: source.name.get_ref().clone(),
                service: ServiceId(self.find("service", &source.service, services)? as u16),
                region: source.region.as_ref().and_then(|r| self.region(r, regions)),
                threshold: policy.and_then(|i| thresholds.get(i)).copied().unwrap_or_default(),
            })
        });
        let source_configs = source_configs.collect();
        let tree = self.tree(health, &sources, &composites);
        let configs = health.composite.iter().map(|c| self.composite(c, services, regions)).collect();
        let configs = self.one_verdict_each(health, configs);
        if let Some(program) = health.command.as_ref().filter(|c| c.get_ref().is_empty()) {
            self.fault(program.span(), "command = [], expected a program and its arguments".to_owned());
        }
        HealthConfig {
            sources: source_configs,
            composites: configs,
            tree,
            command: health.command.as_ref().map(|c| c.get_ref().clone()).unwrap_or_default(),
            command_timeout: self.millis(
                health.command_timeout_ms.as_ref(),
                5000,
                10..300_001,
                "command_timeout_ms",
            ),
        }
    }

    fn threshold(&mut self, policy: &schema::HealthPolicy) -> Threshold {
        let default = Threshold::default();
        Threshold {
            min_percent: self.bounded(
                policy.min_percent.as_ref(),
                default.min_percent.into(),
                0..101,
                "min_percent",
            ) as u8,
            min_healthy: self.bounded(
                policy.min_healthy.as_ref(),
                default.min_healthy.into(),
                0..65_536,
                "min_healthy",
            ) as u32,
        }
    }

    fn tree(&mut self, health: &schema::Health, sources: &Names, composites: &Names) -> Composites {
        let mut all = Vec::new();
        for composite in &health.composite {
            if composite.sources.is_empty() && composite.composites.is_empty() {
                self.fault(
                    composite.name.span(),
                    format!(
                        "composite \"{}\" has no input, expected at least one of sources and composites",
                        composite.name.get_ref()
                    ),
                );
            }
            let mut inputs = Vec::new();
            for name in &composite.sources {
                inputs.extend(self.find("health source", name, sources).map(Input::Source));
            }
            for name in &composite.composites {
                inputs.extend(self.find("composite", name, composites).map(Input::Composite));
            }
            all.push(Composite { inputs, enforced: composite.mode == CompositeMode::Enforce });
        }
        self.deaf(health, &all);
        Composites::new(all).unwrap_or_else(|cycle| {
            let name = |i: &usize| health.composite[*i].name.get_ref().as_str();
            let path: Vec<_> = cycle.0.iter().map(name).collect();
            let first = &health.composite[cycle.0[0]].name;
            self.fault(
                first.span(),
                format!("composites include each other: {}, expected no circle", path.join(" -> ")),
            );
            Composites::default()
        })
    }

    /// An enforced composite listens to no shadow: one that has no other input says nothing.
    fn deaf(&mut self, health: &schema::Health, all: &[Composite]) {
        let shadow = |input: &Input| matches!(input, Input::Composite(i) if !all[*i].enforced);
        for (composite, tree) in health.composite.iter().zip(all) {
            if tree.enforced && !tree.inputs.is_empty() && tree.inputs.iter().all(shadow) {
                self.fault(
                    composite.name.span(),
                    format!(
                        "composite \"{}\" is enforced and includes shadows only, expected at least one input that is not in shadow mode",
                        composite.name.get_ref()
                    ),
                );
            }
        }
    }

    fn composite(
        &mut self,
        composite: &schema::Composite,
        services: &Names,
        regions: &Names,
    ) -> CompositeConfig {
        let hold_down = self.bounded(composite.hold_down_s.as_ref(), 60, 0..86_401, "hold_down_s");
        let listed: Vec<_> = composite
            .services
            .iter()
            .filter_map(|name| self.find("service", name, services))
            .map(|i| ServiceId(i as u16))
            .collect();
        let all = (0..services.len()).map(|i| ServiceId(i as u16));
        if composite.region.is_none() && !composite.services.is_empty() {
            self.fault(
                composite.name.span(),
                format!(
                    "composite \"{}\" names services but no region, expected the region that they leave when it is UNHEALTHY",
                    composite.name.get_ref()
                ),
            );
        }
        CompositeConfig {
            name: composite.name.get_ref().clone(),
            region: composite.region.as_ref().and_then(|r| self.region(r, regions)),
            services: if composite.services.is_empty() { all.collect() } else { listed },
            enforced: composite.mode == CompositeMode::Enforce,
            failback: match composite.failback {
                FailbackMode::HoldDown => Failback::HoldDown(Duration::from_secs(hold_down)),
                FailbackMode::Immediate => Failback::HoldDown(Duration::ZERO),
                FailbackMode::Sticky => Failback::Sticky,
            },
        }
    }

    /// Two enforced composites must not decide about the same service in the same region.
    fn one_verdict_each(
        &mut self,
        health: &schema::Health,
        configs: Vec<CompositeConfig>,
    ) -> Vec<CompositeConfig> {
        let mut deciders: HashMap<_, &Spanned<String>> = HashMap::new();
        for (config, written) in configs.iter().zip(&health.composite) {
            let Some(region) = config.region.filter(|_| config.enforced) else { continue };
            let others: Vec<_> =
                config.services.iter().filter_map(|s| deciders.insert((region, *s), &written.name)).collect();
            if let Some(other) = others.first() {
                self.fault(
                    written.name.span(),
                    format!(
                        "composite \"{}\" decides about the same service and region as \"{}\", expected one enforced composite for each",
                        config.name,
                        other.get_ref()
                    ),
                );
            }
        }
        configs
    }
}
