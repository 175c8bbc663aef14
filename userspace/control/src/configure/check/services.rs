//! `[[service]]`: its peers, where they are found, and how they are judged.

use super::{Checker, Names};
use crate::configure::{
    DiscoverConfig, PeerConfig, ServiceConfig,
    schema::{self, File, ForkMode, MediaMode, ProbeMode, ServerErrorMode, StateMode},
};
use health::{Policy, ProbeKind, Statuses};
use routing::{Anchoring, Fork, ListenerId, ServerError, ServiceId};
use std::{collections::HashMap, net::SocketAddr, time::Duration};
use toml::Spanned;

/// Addresses of peers and the listeners that lead to them, with the peers' names.
type Addresses<'a> = HashMap<(SocketAddr, Option<usize>), &'a String>;

impl Checker<'_> {
    pub(super) fn services(
        &mut self,
        file: &File,
        listeners: &Names,
        regions: &Names,
        peers: &mut Vec<PeerConfig>,
    ) -> Vec<ServiceConfig> {
        let mut addresses = Addresses::new();
        let mut services = Vec::new();
        for (index, service) in file.service.iter().enumerate() {
            let egress = self.find("listener", &service.listener, listeners);
            let local = egress.and_then(|i| file.listener.get(i)).map(|l| *l.address.get_ref());
            self.combination(service);
            for peer in &service.peer {
                let service = (ServiceId(index as u16), service, local);
                peers.push(self.peer(peer, service, regions));
                let address = *peer.address.get_ref();
                if let Some(other) = addresses.insert((address, egress), peer.name.get_ref()) {
                    self.fault(peer.address.span(), format!("peer address {address} is already that of \"{other}\", expected each address once for each listener"));
                }
            }
            services.push(ServiceConfig {
                name: service.name.get_ref().clone(),
                egress: ListenerId(egress.unwrap_or_default() as u16),
                anchoring: match service.media {
                    MediaMode::Off => Anchoring::Off,
                    MediaMode::Anchor => Anchoring::All,
                    MediaMode::Marked => Anchoring::Marked,
                },
                fork: match service.fork {
                    ForkMode::Sequential => Fork::Sequential,
                    ForkMode::Parallel => Fork::Parallel,
                },
                stateless: service.state == StateMode::Stateless,
                server_error: match service.on_5xx.as_ref().map_or(ServerErrorMode::Pass, |m| *m.get_ref()) {
                    ServerErrorMode::Pass => ServerError::Pass,
                    ServerErrorMode::Retry => ServerError::Retry,
                    ServerErrorMode::Failure => ServerError::Failure,
                },
                fail_open: service.fail_open,
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
                ipv4: local.is_none_or(|l| l.is_ipv4()),
                discover: service.discover.iter().filter_map(|d| self.discover(d, regions)).collect(),
                removed: false,
            });
        }
        services
    }

    /// Settings of a service that do not go together.
    fn combination(&mut self, service: &schema::Service) {
        let name = service.name.get_ref();
        let mut fault =
            |message: &str| self.fault(service.name.span(), format!("service \"{name}\" {message}"));
        if service.peer.is_empty() && service.discover.is_empty() {
            fault("has no peer, expected at least one [[service.peer]] or [[service.discover]]");
        }
        let stateless = service.state == StateMode::Stateless;
        if stateless && service.media != MediaMode::Off {
            fault(
                "is stateless and anchors media, expected media = \"off\": anchored media is state of a call",
            );
        }
        let marks = service.peer.iter().map(|p| p.anchor).chain(service.discover.iter().map(|d| d.anchor));
        let marked = marks.filter(|anchor| *anchor).count();
        if service.media == MediaMode::Marked && marked == 0 {
            fault("anchors the media of marked peers and none is marked, expected anchor = true at one");
        }
        if service.media != MediaMode::Marked && marked > 0 {
            fault("has a peer with anchor = true, expected media = \"marked\"");
        }
        if stateless && service.fork == ForkMode::Parallel {
            fault(
                "is stateless and forks in parallel, expected fork = \"sequential\": a fork needs transactions",
            );
        }
        let passive = service.probe.as_ref().is_some_and(|p| p.kind == ProbeMode::Passive);
        if stateless && passive {
            fault(
                "is stateless and judged by calls alone, expected probe kind = \"options\": without transactions nothing is known of calls",
            );
        }
        if let Some(on_5xx) =
            service.on_5xx.as_ref().filter(|m| *m.get_ref() != ServerErrorMode::Pass && !passive)
        {
            let message = "on_5xx sends calls elsewhere on an answer that is final (only 408, 503 and 504 are not), expected \"pass\", or probe kind = \"passive\"";
            self.fault(on_5xx.span(), message.to_owned());
        }
    }

    fn peer(
        &mut self,
        peer: &schema::Peer,
        (id, service, local): (ServiceId, &schema::Service, Option<SocketAddr>),
        regions: &Names,
    ) -> PeerConfig {
        let address = *peer.address.get_ref();
        if local.is_some_and(|l| l.is_ipv4() != address.is_ipv4()) {
            self.fault(
                peer.address.span(),
                format!(
                    "peer address {address} is of another family than listener \"{}\", expected the same",
                    service.listener.get_ref()
                ),
            );
        }
        if address.ip().is_unspecified() || address.port() == 0 {
            self.fault(
                peer.address.span(),
                format!("peer address {address}, expected an address and a port"),
            );
        }
        PeerConfig {
            name: peer.name.get_ref().clone(),
            service: id,
            address,
            region: peer.region.as_ref().and_then(|r| self.region(r, regions)),
            zone: peer.zone.clone(),
            priority: peer.priority,
            weight: peer.weight,
            anchor: peer.anchor,
        }
    }

    fn discover(&mut self, discover: &schema::Discover, regions: &Names) -> Option<DiscoverConfig> {
        let name = discover.name.get_ref().trim_end_matches('.');
        let valid = name.len() <= 253
            && name.split('.').all(|label| {
                (1..=63).contains(&label.len())
                    && label.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'))
            });
        if !valid {
            self.fault(discover.name.span(), format!("name \"{name}\", expected a DNS name"));
            return None;
        }
        Some(DiscoverConfig {
            name: name.to_ascii_lowercase(),
            lookup: discover.lookup,
            label: discover.label.clone().unwrap_or_else(|| "_sip._udp".to_owned()),
            port: discover.port,
            region: discover.region.as_ref().and_then(|r| self.region(r, regions)),
            priority: discover.priority,
            anchor: discover.anchor,
        })
    }

    fn policy(&mut self, probe: Option<&schema::Probe>) -> Policy {
        let default = Policy::default();
        let ms = |d: Duration| d.as_millis() as u64;
        let at = |get: fn(&schema::Probe) -> &Option<Spanned<u64>>| probe.and_then(|p| get(p).as_ref());
        let interval =
            self.millis(at(|p| &p.interval_ms), ms(default.interval), 100..3_600_001, "interval_ms");
        let timeout_at = at(|p| &p.timeout_ms);
        let timeout =
            self.millis(timeout_at, ms(default.timeout).min(ms(interval)), 10..60_001, "timeout_ms");
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
        let count = |get: fn(&schema::Probe) -> &Option<Spanned<u32>>| probe.and_then(|p| get(p).as_ref());
        Policy {
            kind: match probe.map(|p| p.kind).unwrap_or_default() {
                ProbeMode::Options => ProbeKind::Options,
                ProbeMode::Passive => ProbeKind::Passive,
            },
            interval,
            max_interval: self.millis(
                at(|p| &p.max_interval_ms),
                (4 * ms(interval)).min(30_000).max(ms(interval)),
                100..3_600_001,
                "max_interval_ms",
            ),
            jitter_percent: self.bounded(
                probe.and_then(|p| p.jitter_percent.as_ref()),
                default.jitter_percent.into(),
                0..51,
                "jitter_percent",
            ) as u8,
            timeout,
            failing: probe
                .and_then(|p| p.failing.as_ref())
                .map_or(default.failing, |codes| self.statuses(codes)),
            fall: self.bounded(count(|p| &p.fall), default.fall.into(), 1..101, "fall") as u32,
            rise: self.bounded(count(|p| &p.rise), default.rise.into(), 1..101, "rise") as u32,
            passive_fall: self.bounded(
                count(|p| &p.passive_fall),
                default.passive_fall.into(),
                0..1001,
                "passive_fall",
            ) as u32,
            hold_down: self.millis(
                at(|p| &p.hold_down_ms),
                ms(default.hold_down),
                0..86_400_001,
                "hold_down_ms",
            ),
            slow_start: self.millis(
                at(|p| &p.slow_start_ms),
                ms(default.slow_start),
                0..3_600_001,
                "slow_start_ms",
            ),
            trial_interval: self.millis(
                at(|p| &p.trial_interval_ms),
                ms(default.trial_interval),
                100..3_600_001,
                "trial_interval_ms",
            ),
        }
    }

    fn statuses(&mut self, codes: &[Spanned<u16>]) -> Statuses {
        let mut set = Statuses::NONE;
        for code in codes {
            if !(200..700).contains(code.get_ref()) {
                self.fault(
                    code.span(),
                    format!("failing = {}, expected final status codes, 200 to 699", code.get_ref()),
                );
            }
            set.add(*code.get_ref());
        }
        set
    }
}
