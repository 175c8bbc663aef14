//! From one configuration to the next while calls go on (requirement I2): what may change, what changed,
//! and numbers that stay with their names.

use super::{Checked, HealthConfig, PeerConfig, ServiceConfig};
use routing::ServiceId;
use std::{collections::HashMap, fmt::Debug};

impl Checked {
    /// Settings that are used at the start only and differ from those in force, as `key: old -> new`.
    pub fn needs_restart(&self, running: &Self) -> Vec<String> {
        let mut found = Vec::new();
        fn differ<T: PartialEq + Debug>(found: &mut Vec<String>, key: &str, old: &T, new: &T) {
            if old != new {
                found.push(format!("{key}: {old:?} -> {new:?}"));
            }
        }
        differ(&mut found, "node.name", &running.name, &self.name);
        differ(&mut found, "dataplane.backend afxdp", &running.afxdp, &self.afxdp);
        differ(&mut found, "dataplane.ring_size", &running.ring_size, &self.ring_size);
        differ(&mut found, "dataplane.spin_us", &running.spin, &self.spin);
        differ(&mut found, "dataplane.max_transactions", &running.max_transactions, &self.max_transactions);
        differ(&mut found, "node.status_socket", &running.status_socket, &self.status_socket);
        differ(&mut found, "node.key_file", &running.key_file, &self.key_file);
        differ(&mut found, "node.state_file", &running.state_file, &self.state_file);
        differ(&mut found, "admin.http", &running.http, &self.http);
        let (old, new) = (&running.media, &self.media);
        differ(&mut found, "media.ports", &old.ports, &new.ports);
        differ(&mut found, "media.timeout_s", &old.timeout, &new.timeout);
        differ(&mut found, "media.hold_timeout_s", &old.hold_timeout, &new.hold_timeout);
        differ(&mut found, "media.rest_s", &old.rest, &new.rest);
        differ(&mut found, "media.source strict", &old.strict, &new.strict);
        differ(&mut found, "media.learning_ms", &old.learning, &new.learning);
        differ(&mut found, "media.dscp", &old.dscp, &new.dscp);
        differ(&mut found, "media.ice keep", &old.keep_ice, &new.keep_ice);
        differ(&mut found, "media.broken_sdp pass", &old.pass_broken, &new.pass_broken);
        differ(&mut found, "pinning.control", &running.control_core, &self.control_core);
        // The lines they stand on do not matter.
        let interfaces = |c: &Self| -> Vec<_> {
            c.interfaces.iter().map(|i| (i.name.clone(), i.device.clone(), i.vlan, i.mode)).collect()
        };
        differ(&mut found, "interface", &interfaces(running), &interfaces(self));
        let listeners = |c: &Self| -> Vec<_> {
            c.listeners.iter().map(|l| (l.name.clone(), l.address, l.media.clone())).collect()
        };
        differ(&mut found, "listener", &listeners(running), &listeners(self));
        let workers = |c: &Self| -> Vec<_> {
            let queues =
                |w: &super::WorkerConfig| w.queues.iter().map(|(i, q, _)| (*i, *q)).collect::<Vec<_>>();
            c.workers.iter().map(|w| (w.core.map(|(core, _)| core), queues(w))).collect()
        };
        differ(&mut found, "pinning.worker", &workers(running), &workers(self));
        found
    }

    /// Gives services the numbers that they have in the running configuration, since calls refer to them.
    /// Those that are gone stay behind as removed ones.
    pub fn keep_numbers(&mut self, running: &Self) {
        let position: HashMap<&str, usize> =
            self.services.iter().enumerate().map(|(i, s)| (s.name.as_str(), i)).collect();
        let mut order: Vec<Option<usize>> =
            running.services.iter().map(|old| position.get(old.name.as_str()).copied()).collect();
        for new in 0..self.services.len() {
            if !order.contains(&Some(new)) {
                order.push(Some(new));
            }
        }
        let number: HashMap<usize, u16> =
            (0u16..).zip(&order).filter_map(|(to, from)| Some(((*from)?, to))).collect();
        let moved = |id: &mut ServiceId| {
            if let Some(to) = number.get(&usize::from(id.0)) {
                *id = ServiceId(*to);
            }
        };
        self.listeners.iter_mut().filter_map(|l| l.service.as_mut()).for_each(moved);
        self.peers.iter_mut().for_each(|p| moved(&mut p.service));
        self.health.sources.iter_mut().for_each(|s| moved(&mut s.service));
        self.health.composites.iter_mut().flat_map(|c| &mut c.services).for_each(moved);
        let services = std::mem::take(&mut self.services);
        self.services = order
            .iter()
            .enumerate()
            .map(|(i, from)| match from {
                Some(from) => services[*from].clone(),
                None => ServiceConfig { removed: true, discover: Vec::new(), ..running.services[i].clone() },
            })
            .collect();
    }

    /// What differs from the running configuration, a line each; numbers must be kept already.
    pub fn changes(&self, running: &Self) -> Vec<String> {
        let mut lines = Vec::new();
        let services = |c: &Self| -> Vec<(String, String)> {
            let kept = c.services.iter().filter(|s| !s.removed);
            kept.map(|s| (s.name.clone(), describe(&ServiceConfig { name: String::new(), ..s.clone() })))
                .collect()
        };
        compare(&mut lines, "service", &services(running), &services(self));
        let peers = |c: &Self| -> Vec<(String, String)> {
            let shown = |p: &PeerConfig| {
                let zone = p.zone.as_deref().unwrap_or("none");
                let region = c.region_name(p.region).unwrap_or("none");
                let of = c.service(p.service).map_or("", |s| &s.name);
                let (address, priority, weight) = (p.address, p.priority, p.weight);
                format!(
                    "{address} service {of} region {region} zone {zone} priority {priority} weight {weight}"
                )
            };
            c.peers.iter().map(|p| (p.name.clone(), shown(p))).collect()
        };
        compare(&mut lines, "peer", &peers(running), &peers(self));
        let listeners = |c: &Self| -> Vec<(String, String)> {
            let service =
                |l: &super::ListenerConfig| l.service.and_then(|s| Some(c.service(s)?.name.clone()));
            c.listeners.iter().map(|l| (l.name.clone(), format!("service {:?}", service(l)))).collect()
        };
        compare(&mut lines, "listener", &listeners(running), &listeners(self));
        let allow = |c: &Self| -> Vec<(String, String)> {
            let prefix = |p: &exchange::sources::Prefix| format!("{}/{}", p.address, p.length);
            c.allow
                .iter()
                .map(|(p, region)| (prefix(p), format!("region {:?}", c.region_name(*region))))
                .collect()
        };
        compare(&mut lines, "allow", &allow(running), &allow(self));
        let regions = |c: &Self| -> Vec<(String, String)> {
            let local = |i: usize| c.local_region.is_some_and(|r| usize::from(r.0) == i);
            let shown = |i| if local(i) { "local" } else { "" }.to_owned();
            c.regions.iter().enumerate().map(|(i, r)| (r.clone(), shown(i))).collect()
        };
        compare(&mut lines, "region", &regions(running), &regions(self));
        let sources = |h: &HealthConfig| -> Vec<_> {
            h.sources.iter().map(|s| (s.name.clone(), describe(s))).collect()
        };
        compare(&mut lines, "health source", &sources(&running.health), &sources(&self.health));
        let composites = |h: &HealthConfig| -> Vec<_> {
            h.composites.iter().map(|c| (c.name.clone(), describe(c))).collect()
        };
        compare(&mut lines, "composite", &composites(&running.health), &composites(&self.health));
        if running.dns != self.dns {
            lines.push(format!("~ dns: {:?} -> {:?}", running.dns, self.dns));
        }
        lines
    }
}

fn describe(thing: &impl Debug) -> String {
    format!("{thing:?}")
}

/// `+` for what is new, `-` for what is gone, `~` for what changed.
fn compare(lines: &mut Vec<String>, kind: &str, old: &[(String, String)], new: &[(String, String)]) {
    let find =
        |list: &[(String, String)], name: &str| list.iter().find(|(n, _)| n == name).map(|(_, v)| v.clone());
    for (name, value) in old {
        match find(new, name) {
            None => lines.push(format!("- {kind} {name}")),
            Some(other) if other != *value => {
                lines.push(format!("~ {kind} {name}: {}", difference(value, &other)))
            }
            Some(_) => {}
        }
    }
    let added = new.iter().filter(|(name, _)| find(old, name).is_none());
    lines.extend(added.map(|(name, value)| format!("+ {kind} {name}: {value}")));
}

/// The words that differ.
fn difference(old: &str, new: &str) -> String {
    let (a, b): (Vec<_>, Vec<_>) = (old.split(", ").collect(), new.split(", ").collect());
    if a.len() != b.len() {
        return format!("{old} -> {new}");
    }
    let pairs = a.iter().zip(&b).filter(|(x, y)| x != y);
    let shown: Vec<_> = pairs.map(|(x, y)| format!("{x} -> {y}")).collect();
    shown.join(", ")
}

#[cfg(test)]
mod tests {
    use super::super::{parse, tests::GOOD};
    use routing::ServiceId;

    #[test]
    fn services_keep_their_numbers_and_removed_ones_stay_behind() {
        let second = GOOD.replace(
            "[[allow]]",
            "[[service]]\nname = \"fax\"\nlistener = \"core\"\n[[service.peer]]\nname = \"f1\"\naddress = \"198.51.100.21:5060\"\n[[allow]]",
        );
        let first = parse("f", GOOD).unwrap();
        let mut both = parse("f", &second).unwrap();
        both.keep_numbers(&first);
        assert_eq!(both.changes(&first).len(), 2, "{:?}", both.changes(&first));
        // The order in the file changes, and voice is another service.
        let other = second
            .replace("name = \"voice\"", "name = \"talk\"")
            .replace("service = \"voice\"", "service = \"fax\"");
        let mut after = parse("f", &other).unwrap();
        after.keep_numbers(&both);
        let names: Vec<_> = after.services.iter().map(|s| (s.name.as_str(), s.removed)).collect();
        assert_eq!(names, [("voice", true), ("fax", false), ("talk", false)]);
        assert_eq!(after.listeners[0].service, Some(ServiceId(1)));
        assert_eq!(after.peers.iter().map(|p| p.service.0).collect::<Vec<_>>(), [2, 1]);
        // It comes back.
        let mut again = parse("f", &second).unwrap();
        again.keep_numbers(&after);
        assert_eq!(again.services.iter().map(|s| s.removed).collect::<Vec<_>>(), [false, false, true]);
        assert_eq!(again.peers[0].service, ServiceId(0));
    }

    #[test]
    fn changes_are_named_and_so_is_what_needs_a_restart() {
        let first = parse("f", GOOD).unwrap();
        let next = GOOD
            .replace("address = \"198.51.100.11:5060\"", "address = \"198.51.100.12:5060\"\nweight = 5")
            .replace("media = \"anchor\"", "media = \"anchor\"\nattempt_timeout_ms = 900")
            .replace("192.0.2.0/28", "192.0.2.0/27");
        let mut next = parse("f", &next).unwrap();
        next.keep_numbers(&first);
        assert_eq!(next.needs_restart(&first), [""; 0]);
        let changes = next.changes(&first).join("\n");
        for line in [
            "~ service voice: attempt_timeout: 2s -> attempt_timeout: 900ms",
            "~ peer a1: 198.51.100.11:5060 service voice region A zone none priority 0 weight 1 -> 198.51.100.12:5060",
            "- allow 192.0.2.0/28",
            "+ allow 192.0.2.0/27: region None",
        ] {
            assert!(changes.contains(line), "{line:?} in\n{changes}");
        }
        let restart = GOOD.replace("20000-20999", "20000-21999").replace("192.0.2.1:5060", "192.0.2.2:5060");
        let found = parse("f", &restart).unwrap().needs_restart(&first);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].starts_with("media.ports: 20000..=20999 -> 20000..=21999"), "{found:?}");
        let moved = format!("# a line more\n{GOOD}");
        assert_eq!(parse("f", &moved).unwrap().needs_restart(&first), [""; 0], "lines do not matter");
    }
}
