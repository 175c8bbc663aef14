//! From the file as written to a configuration without contradictions: here what all parts need,
//! [`machine`] for what is opened at the start, [`services`] for services and peers, [`health`] for
//! sources and composites.

mod health;
mod machine;
mod services;

use super::{
    Fault,
    checked::{Checked, DnsConfig, HealthConfig},
    schema::File,
};
use exchange::sources::Prefix;
use routing::RegionId;
use std::{
    collections::HashMap,
    net::{IpAddr, SocketAddr},
    ops::Range,
    path::PathBuf,
    time::Duration,
};
use toml::Spanned;

/// Most regions: each is a bit of a word.
const MAX_REGIONS: usize = 64;

/// Checks a file; `line` turns a byte offset into a line.
///
/// # Errors
/// All faults found.
pub fn check(file: &File, line: &dyn Fn(usize) -> usize) -> Result<Checked, Vec<Fault>> {
    let mut checker = Checker { line, faults: Vec::new(), warnings: Vec::new() };
    let checked = checker.run(file);
    if checker.faults.is_empty() { Ok(checked) } else { Err(checker.faults) }
}

/// Index of everything that is named, by name.
type Names = HashMap<String, usize>;

struct Checker<'a> {
    line: &'a dyn Fn(usize) -> usize,
    faults: Vec<Fault>,
    warnings: Vec<String>,
}

impl Checker<'_> {
    fn run(&mut self, file: &File) -> Checked {
        let regions = self.names("region", file.region.iter().map(|r| &r.name));
        let interfaces = self.names("interface", file.interface.iter().map(|i| &i.name));
        let listeners = self.names("listener", file.listener.iter().map(|l| &l.name));
        let services = self.names("service", file.service.iter().map(|s| &s.name));
        self.names("peer", file.service.iter().flat_map(|s| &s.peer).map(|p| &p.name));
        if let Some(region) = file.region.get(MAX_REGIONS) {
            self.fault(
                region.name.span(),
                format!("{} regions, expected at most {MAX_REGIONS}", regions.len()),
            );
        }
        let local_region = file.node.region.as_ref().and_then(|r| self.region(r, &regions));
        let media = self.media(file);
        let afxdp = self.backend(file);
        let mut peers = Vec::new();
        let service_configs = self.services(file, &listeners, &regions, &mut peers);
        let health = self.health(file, &services, &regions);
        self.capacity(file, &health);
        let allow = file.allow.iter().filter_map(|a| {
            let region = a.region.as_ref().and_then(|r| self.region(r, &regions));
            Some((self.prefix(&a.prefix)?, region))
        });
        let allow = allow.collect();
        let status_socket = file.node.status_socket.clone();
        let status_socket: PathBuf =
            status_socket.unwrap_or_else(|| format!("/run/strowger/{}.sock", file.node.name)).into();
        let beside = |path: &Option<String>, extension: &str| {
            path.as_ref().map_or_else(|| status_socket.with_extension(extension), PathBuf::from)
        };
        Checked {
            name: file.node.name.clone(),
            afxdp,
            ring_size: self.ring_size(file),
            spin: self.spin(file, afxdp),
            max_transactions: self.bounded(
                file.dataplane.max_transactions.as_ref(),
                100_000,
                1..10_000_001,
                "max_transactions",
            ) as usize,
            key_file: beside(&file.node.key_file, "key"),
            state_file: beside(&file.node.state_file, "state"),
            http: self.http(file),
            dns: self.dns(file),
            status_socket: status_socket.clone(),
            regions: file.region.iter().map(|r| r.name.get_ref().clone()).collect(),
            local_region,
            interfaces: self.interfaces(file),
            listeners: self.listeners(file, &services, &media.ports),
            services: service_configs,
            peers,
            health,
            allow,
            media,
            control_core: file.pinning.as_ref().and_then(|p| p.control.as_ref()).map(|c| *c.get_ref()),
            workers: self.workers(file, &interfaces, afxdp),
            warnings: std::mem::take(&mut self.warnings),
        }
    }

    fn fault(&mut self, span: Range<usize>, message: String) {
        self.faults.push(Fault { line: (self.line)(span.start), message });
    }

    /// Names in order, each of them once.
    fn names<'a>(&mut self, kind: &str, names: impl Iterator<Item = &'a Spanned<String>>) -> Names {
        let mut seen = HashMap::new();
        for (i, name) in names.enumerate() {
            if name.get_ref().is_empty() {
                self.fault(name.span(), format!("{kind} name is empty, expected at least one character"));
            }
            if seen.insert(name.get_ref().clone(), i).is_some() {
                self.fault(
                    name.span(),
                    format!("{kind} \"{}\" is named twice, expected each name once", name.get_ref()),
                );
            }
        }
        seen
    }

    fn find(&mut self, kind: &str, name: &Spanned<String>, names: &Names) -> Option<usize> {
        let found = names.get(name.get_ref()).copied();
        if found.is_none() {
            let mut known: Vec<_> = names.keys().map(String::as_str).collect();
            known.sort_unstable();
            let known = if known.is_empty() { "none is configured".to_owned() } else { known.join(", ") };
            self.fault(
                name.span(),
                format!("unknown {kind} \"{}\", expected one of: {known}", name.get_ref()),
            );
        }
        found
    }

    fn region(&mut self, name: &Spanned<String>, regions: &Names) -> Option<RegionId> {
        self.find("region", name, regions).map(|i| RegionId(i as u8))
    }

    fn bounded<T: Copy + Into<u64>>(
        &mut self,
        value: Option<&Spanned<T>>,
        default: u64,
        range: Range<u64>,
        name: &str,
    ) -> u64 {
        let Some(value) = value else { return default };
        let n: u64 = (*value.get_ref()).into();
        if !range.contains(&n) {
            self.fault(value.span(), format!("{name} = {n}, expected {} to {}", range.start, range.end - 1));
        }
        n
    }

    fn millis(
        &mut self,
        value: Option<&Spanned<u64>>,
        default: u64,
        range: Range<u64>,
        name: &str,
    ) -> Duration {
        Duration::from_millis(self.bounded(value, default, range, name))
    }

    fn http(&mut self, file: &File) -> Option<SocketAddr> {
        let http = file.admin.as_ref()?.http.as_ref()?;
        let address = *http.get_ref();
        if !address.ip().is_loopback() {
            self.fault(http.span(), format!("http = \"{address}\", expected a loopback address such as 127.0.0.1:8060: there is no log-in"));
        }
        Some(address)
    }

    fn dns(&mut self, file: &File) -> DnsConfig {
        let dns = file.dns.as_ref();
        let seconds = |checker: &mut Self, value: Option<&Spanned<u64>>, default, range, name: &str| {
            Duration::from_secs(checker.bounded(value, default, range, name))
        };
        let floor = seconds(self, dns.and_then(|d| d.ttl_floor_s.as_ref()), 5, 1..3601, "ttl_floor_s");
        let ceiling_at = dns.and_then(|d| d.ttl_ceiling_s.as_ref());
        let ceiling = seconds(self, ceiling_at, 60, 1..86_401, "ttl_ceiling_s");
        if let Some(at) = ceiling_at.filter(|_| ceiling < floor) {
            let message = format!(
                "ttl_ceiling_s = {}, expected at least ttl_floor_s = {}",
                ceiling.as_secs(),
                floor.as_secs()
            );
            self.fault(at.span(), message);
        }
        let servers = dns.map(|d| d.servers.as_slice()).unwrap_or_default();
        let grace = dns.and_then(|d| d.negative_grace_s.as_ref());
        DnsConfig {
            servers: servers.iter().filter_map(|server| self.dns_server(server)).collect(),
            timeout: self.millis(dns.and_then(|d| d.timeout_ms.as_ref()), 2000, 50..30_001, "timeout_ms"),
            ttl_floor: floor,
            ttl_ceiling: ceiling,
            negative_grace: seconds(self, grace, 300, 0..86_401, "negative_grace_s"),
        }
    }

    /// An address, with or without port.
    fn dns_server(&mut self, text: &Spanned<String>) -> Option<SocketAddr> {
        let server = text.get_ref().parse().ok();
        let server = server.or_else(|| Some(SocketAddr::new(text.get_ref().parse().ok()?, 53)));
        if server.is_none() {
            let message = format!("DNS server \"{}\", expected an address, or address:port", text.get_ref());
            self.fault(text.span(), message);
        }
        server
    }

    /// Whether each region can carry the whole load (requirement A1).
    fn capacity(&mut self, file: &File, health: &HealthConfig) {
        let Some(load) = file.node.load_cps else { return };
        for (id, region) in (0u8..).map(RegionId).zip(&file.region) {
            let Some(capacity) = region.capacity_cps else { continue };
            let name = region.name.get_ref();
            if capacity < load {
                self.warnings.push(format!(
                    "region \"{name}\" carries {capacity} calls/s, the load is {load} calls/s: it could not stand in for the other region"
                ));
            }
            for source in health.sources.iter().filter(|s| s.region == Some(id)) {
                let percent = source.threshold.min_percent;
                let left = capacity * u32::from(percent) / 100;
                if left < load && capacity >= load {
                    self.warnings.push(format!(
                        "source \"{}\" is HEALTHY with {percent} % of its peers, some {left} calls/s of {load}: min_percent = {} would be safe",
                        source.name,
                        (load * 100).div_ceil(capacity)
                    ));
                }
            }
        }
    }

    fn prefix(&mut self, text: &Spanned<String>) -> Option<Prefix> {
        let prefix = text.get_ref().split_once('/').and_then(|(address, length)| {
            let address: IpAddr = address.parse().ok()?;
            let length: u8 = length.parse().ok()?;
            (length <= if address.is_ipv4() { 32 } else { 128 }).then_some(Prefix { address, length })
        });
        if prefix.is_none() {
            self.fault(
                text.span(),
                format!(
                    "prefix \"{}\", expected \"address/length\", such as \"192.0.2.0/28\"",
                    text.get_ref()
                ),
            );
        }
        prefix
    }
}
