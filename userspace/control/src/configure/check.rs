//! From the file as written to a configuration without contradictions.

use super::checked::{Checked, InterfaceConfig, ListenerConfig, PeerConfig, ServiceConfig, WorkerConfig};
use super::{
    Fault,
    schema::{Backend, File, ForkMode, MediaMode, StateMode},
};
use exchange::sources::Prefix;
use health::Policy;
use routing::{Fork, ListenerId, PeerId, RegionId, ServiceId};
use std::{
    collections::HashMap,
    net::IpAddr,
    ops::{Range, RangeInclusive},
    path::PathBuf,
    time::Duration,
};
use toml::Spanned;

/// Checks a file; `line` turns a byte offset into a line.
///
/// # Errors
/// All faults found.
pub fn check(file: &File, line: &dyn Fn(usize) -> usize) -> Result<Checked, Vec<Fault>> {
    let mut checker = Checker { line, faults: Vec::new(), warnings: Vec::new() };
    let checked = checker.run(file);
    if checker.faults.is_empty() { Ok(checked) } else { Err(checker.faults) }
}

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
        let local_region = file.node.region.as_ref().and_then(|r| self.region(r, &regions));
        let (media_ports, media_timeout) = self.media(file);
        let afxdp = self.backend(file);
        let mut peers = Vec::new();
        let service_configs = self.services(file, &listeners, &regions, &mut peers);
        let allow = file.allow.iter().filter_map(|a| {
            let region = a.region.as_ref().and_then(|r| self.region(r, &regions));
            Some((self.prefix(&a.prefix)?, region))
        });
        let allow = allow.collect();
        let status_socket = file.node.status_socket.clone();
        let status_socket: PathBuf =
            status_socket.unwrap_or_else(|| format!("/run/strowger/{}.sock", file.node.name)).into();
        let key_file = file.node.key_file.clone();
        Checked {
            name: file.node.name.clone(),
            afxdp,
            ring_size: self.ring_size(file),
            max_transactions: self.bounded(
                file.dataplane.max_transactions.as_ref(),
                100_000,
                1..10_000_001,
                "max_transactions",
            ) as usize,
            key_file: key_file.map_or_else(|| status_socket.with_extension("key"), PathBuf::from),
            status_socket,
            regions: file.region.iter().map(|r| r.name.get_ref().clone()).collect(),
            local_region,
            interfaces: self.interfaces(file),
            listeners: self.listeners(file, &services, &media_ports),
            services: service_configs,
            peers,
            allow,
            media_ports,
            media_timeout,
            control_core: file.pinning.as_ref().and_then(|p| p.control.as_ref()).map(|c| *c.get_ref()),
            workers: self.workers(file, &interfaces, afxdp),
            warnings: std::mem::take(&mut self.warnings),
        }
    }

    fn fault(&mut self, span: Range<usize>, message: String) {
        self.faults.push(Fault { line: (self.line)(span.start), message });
    }

    /// Names in order, each of them once.
    fn names<'a>(
        &mut self,
        kind: &str,
        names: impl Iterator<Item = &'a Spanned<String>>,
    ) -> HashMap<String, usize> {
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

    fn find(&mut self, kind: &str, name: &Spanned<String>, names: &HashMap<String, usize>) -> Option<usize> {
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

    fn region(&mut self, name: &Spanned<String>, regions: &HashMap<String, usize>) -> Option<RegionId> {
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

    fn backend(&mut self, file: &File) -> bool {
        match file.dataplane.backend {
            Backend::Udp => false,
            Backend::Auto => !file.interface.is_empty(),
            Backend::Afxdp => {
                if file.interface.is_empty() {
                    self.faults.push(Fault {
                        line: 0,
                        message: "backend = \"afxdp\" without any [[interface]], expected at least one"
                            .into(),
                    });
                }
                true
            }
        }
    }

    fn ring_size(&mut self, file: &File) -> u32 {
        let Some(size) = &file.dataplane.ring_size else { return 2048 };
        let n = *size.get_ref();
        if !n.is_power_of_two() || !(64..=16_384).contains(&n) {
            self.fault(size.span(), format!("ring_size = {n}, expected a power of two from 64 to 16384"));
        }
        n
    }

    fn media(&mut self, file: &File) -> (RangeInclusive<u16>, Duration) {
        let Some(media) = &file.media else {
            let anchored = file.service.iter().find(|s| s.media == MediaMode::Anchor);
            if let Some(service) = anchored {
                self.fault(
                    service.name.span(),
                    format!(
                        "service \"{}\" anchors media, expected a [media] section with ports",
                        service.name.get_ref()
                    ),
                );
            }
            return (RangeInclusive::new(1, 0), Duration::from_secs(60));
        };
        let workers = file.pinning.as_ref().map_or(1, |p| p.worker.len().max(1));
        let text = media.ports.get_ref();
        let range = text
            .split_once('-')
            .and_then(|(a, b)| Some(a.trim().parse::<u16>().ok()?..=b.trim().parse::<u16>().ok()?));
        let range = match range {
            Some(r) if *r.start() >= 1024 && r.end().saturating_sub(*r.start()) as usize >= 4 * workers => r,
            _ => {
                let message = format!(
                    "media ports \"{text}\", expected \"first-last\" from 1024 to 65535 with at least four ports for each worker"
                );
                self.fault(media.ports.span(), message);
                RangeInclusive::new(1, 0)
            }
        };
        let timeout = self.bounded(media.timeout_s.as_ref(), 60, 5..86_401, "timeout_s");
        (range, Duration::from_secs(timeout))
    }

    fn interfaces(&mut self, file: &File) -> Vec<InterfaceConfig> {
        let mut devices = HashMap::new();
        let mut interfaces = Vec::new();
        for interface in &file.interface {
            let device = interface.device.get_ref();
            if device.is_empty() || device.len() > 15 {
                self.fault(
                    interface.device.span(),
                    format!("device \"{device}\", expected a name of 1 to 15 characters"),
                );
            }
            if devices.insert(device.clone(), ()).is_some() {
                self.fault(
                    interface.device.span(),
                    format!("device \"{device}\" is used twice, expected one [[interface]] for each device"),
                );
            }
            let vlan = interface.vlan.as_ref().map(|v| self.bounded(Some(v), 0, 1..4095, "vlan") as u16);
            interfaces.push(InterfaceConfig {
                name: interface.name.get_ref().clone(),
                device: device.clone(),
                line: (self.line)(interface.device.span().start),
                vlan,
                mode: interface.xdp_mode.unwrap_or(file.dataplane.xdp_mode),
            });
        }
        interfaces
    }

    fn listeners(
        &mut self,
        file: &File,
        services: &HashMap<String, usize>,
        media_ports: &RangeInclusive<u16>,
    ) -> Vec<ListenerConfig> {
        let mut seen = HashMap::new();
        let mut listeners = Vec::new();
        for listener in &file.listener {
            let address = *listener.address.get_ref();
            if address.ip().is_unspecified() || address.port() == 0 {
                self.fault(listener.address.span(), format!("listener address {address}, expected one address of this machine and a port, not a wildcard"));
            }
            if seen.insert(address, ()).is_some() {
                self.fault(
                    listener.address.span(),
                    format!("listener address {address} is used twice, expected each once"),
                );
            }
            if media_ports.contains(&address.port()) {
                self.fault(
                    listener.address.span(),
                    format!(
                        "port {} lies in the media ports, expected one outside {}-{}",
                        address.port(),
                        media_ports.start(),
                        media_ports.end()
                    ),
                );
            }
            let service = listener
                .service
                .as_ref()
                .and_then(|s| self.find("service", s, services))
                .map(|i| ServiceId(i as u16));
            listeners.push(ListenerConfig {
                name: listener.name.get_ref().clone(),
                address,
                media: listener.media_address.as_ref().map_or(address.ip(), |a| *a.get_ref()),
                service,
            });
        }
        listeners
    }

    fn services(
        &mut self,
        file: &File,
        listeners: &HashMap<String, usize>,
        regions: &HashMap<String, usize>,
        peers: &mut Vec<PeerConfig>,
    ) -> Vec<ServiceConfig> {
        let mut services = Vec::new();
        let mut addresses = HashMap::new();
        for (index, service) in file.service.iter().enumerate() {
            let egress = self.find("listener", &service.listener, listeners);
            let local = egress.and_then(|i| file.listener.get(i)).map(|l| *l.address.get_ref());
            if service.peer.is_empty() {
                self.fault(
                    service.name.span(),
                    format!(
                        "service \"{}\" has no peer, expected at least one [[service.peer]]",
                        service.name.get_ref()
                    ),
                );
            }
            let mut ids = Vec::new();
            for peer in &service.peer {
                let address = *peer.address.get_ref();
                if local.is_some_and(|l| l.is_ipv4() != address.is_ipv4()) {
                    self.fault(peer.address.span(), format!("peer address {address} is of another family than listener \"{}\", expected the same", service.listener.get_ref()));
                }
                if address.ip().is_unspecified() || address.port() == 0 {
                    self.fault(
                        peer.address.span(),
                        format!("peer address {address}, expected an address and a port"),
                    );
                }
                if let Some(other) = addresses.insert((address, egress), peer.name.get_ref()) {
                    self.fault(peer.address.span(), format!("peer address {address} is already that of \"{other}\", expected each address once for each listener"));
                }
                ids.push(PeerId(peers.len() as u16));
                peers.push(PeerConfig {
                    name: peer.name.get_ref().clone(),
                    service: ServiceId(index as u16),
                    address,
                    region: peer.region.as_ref().and_then(|r| self.region(r, regions)),
                    zone: peer.zone.clone(),
                    priority: peer.priority,
                    weight: peer.weight,
                });
            }
            let stateless = service.state == StateMode::Stateless;
            if stateless && service.media == MediaMode::Anchor {
                self.fault(
                    service.name.span(),
                    format!(
                        "service \"{}\" is stateless and anchors media, expected media = \"off\": anchored media is state of a call",
                        service.name.get_ref()
                    ),
                );
            }
            if stateless && service.fork == ForkMode::Parallel {
                self.fault(
                    service.name.span(),
                    format!(
                        "service \"{}\" is stateless and forks in parallel, expected fork = \"sequential\": a fork needs transactions",
                        service.name.get_ref()
                    ),
                );
            }
            services.push(ServiceConfig {
                name: service.name.get_ref().clone(),
                egress: ListenerId(egress.unwrap_or_default() as u16),
                anchor_media: service.media == MediaMode::Anchor,
                fork: match service.fork {
                    ForkMode::Sequential => Fork::Sequential,
                    ForkMode::Parallel => Fork::Parallel,
                },
                stateless,
                attempt_timeout: self.millis(
                    service.attempt_timeout_ms.as_ref(),
                    2000,
                    100..32_001,
                    "attempt_timeout_ms",
                ),
                call_budget: self.millis(
                    service.call_budget_ms.as_ref(),
                    16_000,
                    500..180_001,
                    "call_budget_ms",
                ),
                policy: self.policy(service.probe.as_ref()),
                peers: ids,
            });
        }
        services
    }

    fn policy(&mut self, probe: Option<&super::schema::Probe>) -> Policy {
        let interval =
            self.millis(probe.and_then(|p| p.interval_ms.as_ref()), 5000, 100..3_600_001, "interval_ms");
        let timeout_at = probe.and_then(|p| p.timeout_ms.as_ref());
        let timeout = self.millis(timeout_at, 1000, 10..60_001, "timeout_ms");
        if let Some(at) = timeout_at
            && timeout > interval
        {
            self.fault(
                at.span(),
                format!(
                    "timeout_ms = {}, expected at most interval_ms = {}",
                    timeout.as_millis(),
                    interval.as_millis()
                ),
            );
        }
        Policy {
            interval,
            jitter_percent: self.bounded(
                probe.and_then(|p| p.jitter_percent.as_ref()),
                20,
                0..51,
                "jitter_percent",
            ) as u8,
            timeout,
            fall: self.bounded(probe.and_then(|p| p.fall.as_ref()), 3, 1..101, "fall") as u32,
            rise: self.bounded(probe.and_then(|p| p.rise.as_ref()), 2, 1..101, "rise") as u32,
            passive_fall: self.bounded(
                probe.and_then(|p| p.passive_fall.as_ref()),
                3,
                0..1001,
                "passive_fall",
            ) as u32,
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

    fn workers(
        &mut self,
        file: &File,
        interfaces: &HashMap<String, usize>,
        afxdp: bool,
    ) -> Vec<WorkerConfig> {
        let Some(pinning) = &file.pinning else {
            // One worker serves everything; its queues are filled in when the machine is known.
            return vec![WorkerConfig::default()];
        };
        let mut cores = HashMap::new();
        if let Some(control) = &pinning.control {
            cores.insert(*control.get_ref(), "the control thread".to_owned());
        }
        let mut queues = HashMap::new();
        let mut workers = Vec::new();
        for (index, worker) in pinning.worker.iter().enumerate() {
            let mut config = WorkerConfig::default();
            if let Some(core) = &worker.core {
                let id = *core.get_ref();
                if let Some(user) = cores.insert(id, format!("worker {index}")) {
                    self.fault(
                        core.span(),
                        format!(
                            "core {id} is already used by {user}, expected a core of its own for each worker"
                        ),
                    );
                }
                config.core = Some((id, (self.line)(core.span().start)));
            }
            for queue in &worker.queues {
                let Some((interface, number)) = self.queue(queue, interfaces) else { continue };
                if let Some(other) = queues.insert((interface, number), index) {
                    self.fault(queue.span(), format!("queue \"{}\" is already served by worker {other}, expected one worker for each queue", queue.get_ref()));
                }
                config.queues.push((interface, number, (self.line)(queue.span().start)));
            }
            if afxdp && config.queues.is_empty() {
                let message =
                    format!("worker {index} serves no queue, expected queues = [\"interface:queue\"]");
                let at = worker.core.as_ref().map_or(0, |c| (self.line)(c.span().start));
                self.faults.push(Fault { line: at, message });
            }
            workers.push(config);
        }
        if workers.is_empty() || workers.len() > 64 {
            self.faults.push(Fault {
                line: 0,
                message: format!("{} workers, expected 1 to 64 [[pinning.worker]]", workers.len()),
            });
        }
        if !afxdp && workers.iter().any(|w| !w.queues.is_empty()) {
            self.warnings.push("queues of workers are ignored with kernel sockets".into());
        }
        workers
    }

    fn queue(&mut self, text: &Spanned<String>, interfaces: &HashMap<String, usize>) -> Option<(usize, u32)> {
        let parts = text.get_ref().split_once(':').and_then(|(name, n)| Some((name, n.parse::<u32>().ok()?)));
        let Some((name, number)) = parts.filter(|(_, n)| *n < 64) else {
            self.fault(
                text.span(),
                format!(
                    "queue \"{}\", expected \"interface:queue\" with a queue from 0 to 63",
                    text.get_ref()
                ),
            );
            return None;
        };
        let Some(interface) = interfaces.get(name) else {
            self.fault(
                text.span(),
                format!("queue \"{}\" names no [[interface]], expected one of: {}", text.get_ref(), {
                    let mut names: Vec<_> = interfaces.keys().map(String::as_str).collect();
                    names.sort_unstable();
                    names.join(", ")
                }),
            );
            return None;
        };
        Some((*interface, number))
    }
}
