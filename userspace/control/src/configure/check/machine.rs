//! `[dataplane]`, `[pinning]`, `[media]`, `[[interface]]`, `[[listener]]`: what is opened at the start.

use super::Checker;
use crate::configure::{
    Fault, InterfaceConfig, ListenerConfig, MediaSettings, WorkerConfig,
    schema::{self, Backend, BrokenMode, File, IceMode, Media, MediaMode, SourceMode},
};
use routing::ServiceId;
use std::{
    collections::{HashMap, HashSet},
    net::IpAddr,
    ops::RangeInclusive,
    time::Duration,
};
use toml::Spanned;

/// Most media addresses of one listener.
const MOST_MEDIA_ADDRESSES: usize = 16;
/// And of a node: a packet's is found by comparing.
const MOST_MEDIA_ADDRESSES_IN_ALL: usize = 64;

impl Checker<'_> {
    pub(super) fn backend(&mut self, file: &File) -> bool {
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

    pub(super) fn ring_size(&mut self, file: &File) -> u32 {
        let Some(size) = &file.dataplane.ring_size else { return 2048 };
        let n = *size.get_ref();
        if !n.is_power_of_two() || !(64..=16_384).contains(&n) {
            self.fault(size.span(), format!("ring_size = {n}, expected a power of two from 64 to 16384"));
        }
        n
    }

    pub(super) fn spin(&mut self, file: &File, afxdp: bool) -> Duration {
        let spin = self.bounded(file.dataplane.spin_us.as_ref(), 0, 0..1_000_001, "spin_us");
        // Without pinning there is one worker, and it has a core.
        let unpinned = || file.pinning.iter().flat_map(|p| &p.worker).any(|w| w.core.is_none());
        let warning = match spin {
            0 => None,
            _ if !afxdp => Some("spin_us is ignored with kernel sockets"),
            _ if unpinned() => {
                Some("spin_us without a core for each worker: what spins takes time from others")
            }
            _ => None,
        };
        self.warnings.extend(warning.map(str::to_owned));
        Duration::from_micros(spin)
    }

    pub(super) fn media(&mut self, file: &File) -> MediaSettings {
        let none = RangeInclusive::new(1, 0);
        if file.media.is_none()
            && let Some(service) = file.service.iter().find(|s| s.media != MediaMode::Off)
        {
            let name = service.name.get_ref();
            let message = format!("service \"{name}\" anchors media, expected a [media] section with ports");
            self.fault(service.name.span(), message);
        }
        let media = file.media.as_ref();
        let workers = file.pinning.as_ref().map_or(1, |p| p.worker.len().max(1));
        let dscp = media.and_then(|m| m.dscp.as_ref());
        let seconds = |checker: &mut Self, get: fn(&Media) -> &Option<Spanned<u64>>, default, range, key| {
            let value = media.and_then(|m| get(m).as_ref());
            Duration::from_secs(checker.bounded(value, default, range, key))
        };
        MediaSettings {
            ports: media.map_or(none, |m| self.media_ports(&m.ports, workers)),
            timeout: seconds(self, |m| &m.timeout_s, 60, 5..86_401, "timeout_s"),
            hold_timeout: seconds(self, |m| &m.hold_timeout_s, 3600, 5..86_401, "hold_timeout_s"),
            rest: seconds(self, |m| &m.rest_s, 5, 0..601, "rest_s"),
            learning: self.millis(media.and_then(|m| m.learning_ms.as_ref()), 500, 0..60_001, "learning_ms"),
            strict: media.is_some_and(|m| m.source == SourceMode::Strict),
            dscp: dscp.map(|d| self.bounded(Some(d), 0, 0..64, "dscp") as u8),
            keep_ice: media.is_some_and(|m| m.ice == IceMode::Keep),
            pass_broken: media.is_some_and(|m| m.broken_sdp == BrokenMode::Pass),
        }
    }

    fn media_ports(&mut self, ports: &Spanned<String>, workers: usize) -> RangeInclusive<u16> {
        let text = ports.get_ref();
        let range = text
            .split_once('-')
            .and_then(|(a, b)| Some(a.trim().parse::<u16>().ok()?..=b.trim().parse::<u16>().ok()?));
        match range {
            Some(r) if *r.start() >= 1024 && r.end().saturating_sub(*r.start()) as usize >= 4 * workers => r,
            _ => {
                let message = format!(
                    "media ports \"{text}\", expected \"first-last\" from 1024 to 65535 with at least four ports for each worker"
                );
                self.fault(ports.span(), message);
                RangeInclusive::new(1, 0)
            }
        }
    }

    /// Media addresses of a listener: those it names, else its own.
    fn media_addresses(&mut self, listener: &schema::Listener) -> Vec<IpAddr> {
        let several = listener.media_addresses.as_deref().unwrap_or_default();
        if let (Some(one), [other, ..]) = (&listener.media_address, several) {
            let message =
                format!("media_address = \"{}\" and media_addresses, expected one of them", one.get_ref());
            self.fault(other.span(), message);
        }
        if let Some(address) = several.get(MOST_MEDIA_ADDRESSES) {
            let message =
                format!("{} media_addresses, expected at most {MOST_MEDIA_ADDRESSES}", several.len());
            self.fault(address.span(), message);
        }
        let mut all = Vec::new();
        for address in listener.media_address.iter().chain(several) {
            let ip = *address.get_ref();
            if ip.is_unspecified() || ip.is_multicast() || all.contains(&ip) {
                let message =
                    format!("media address {ip}, expected each address of this machine once, no wildcard");
                self.fault(address.span(), message);
            }
            all.push(ip);
        }
        if all.is_empty() { vec![listener.address.get_ref().ip()] } else { all }
    }

    pub(super) fn interfaces(&mut self, file: &File) -> Vec<InterfaceConfig> {
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

    pub(super) fn listeners(
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
                media: self.media_addresses(listener),
                service,
            });
        }
        let all: HashSet<IpAddr> = listeners.iter().flat_map(|l| l.media.iter().copied()).collect();
        if all.len() > MOST_MEDIA_ADDRESSES_IN_ALL {
            let message = format!(
                "{} media addresses, expected at most {MOST_MEDIA_ADDRESSES_IN_ALL} in all",
                all.len()
            );
            self.faults.push(Fault { line: 0, message });
        }
        listeners
    }

    pub(super) fn workers(
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

    pub(super) fn queue(
        &mut self,
        text: &Spanned<String>,
        interfaces: &HashMap<String, usize>,
    ) -> Option<(usize, u32)> {
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
