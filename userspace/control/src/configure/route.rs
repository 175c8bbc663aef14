//! What a configuration means for new calls: for every listener the order in which peers are tried, with
//! all of them healthy.

use super::{Checked, DiscoverConfig, schema::Lookup};
use crate::{assemble, judge::Judge, observe::Observer, roster::Roster};
use std::time::Duration;

/// The plan of every listener, as text.
pub fn plans(config: &Checked) -> String {
    let mut roster = Roster::default();
    roster.update(Duration::ZERO, config.peers.clone());
    let observer = Observer::default();
    let judge = Judge::new(Duration::ZERO, config, None);
    let table = assemble::table(config, (&roster, &observer, &judge), (1, Duration::ZERO), false);
    let mut out = String::new();
    for listener in &config.listeners {
        let Some(id) = listener.service else {
            out += &format!("listener {} ({}): no new calls\n", listener.name, listener.address);
            continue;
        };
        let Some((service, planned)) = config.service(id).zip(table.service(id)) else {
            continue;
        };
        out += &format!("listener {} ({}): service {}\n", listener.name, listener.address, service.name);
        for (n, (why, priority, members)) in (1..).zip(planned.plan.groups()) {
            let peers: Vec<_> = members
                .iter()
                .map(|(peer, part)| {
                    let name = table.peer(*peer).map_or("", |p| &*p.name);
                    format!("{name} {:.0} %", part * 100.0)
                })
                .collect();
            out += &format!("  {n}. {}, priority {priority}: {}\n", why.label(), peers.join(", "));
        }
        for discover in &service.discover {
            out += &format!("  and from DNS: {}\n", asked(config, discover));
        }
    }
    out
}

fn asked(config: &Checked, discover: &DiscoverConfig) -> String {
    let region = config.region_name(discover.region).map_or(String::new(), |r| format!(", region {r}"));
    let what = match discover.lookup {
        Lookup::Srv => format!("SRV {}.{}", discover.label, discover.name),
        Lookup::Naptr => format!("NAPTR {}", discover.name),
        Lookup::Address => format!("addresses of {}, port {}", discover.name, discover.port),
    };
    format!("{what}{region}, priorities from {}", discover.priority)
}
