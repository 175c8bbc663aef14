//! What a node opens: devices, queues, sockets, ports.

use control::{
    configure::{Checked, InterfaceConfig, WorkerConfig, schema::XdpMode as ConfigMode},
    links::Link,
};
use dataplane::{BackendKind, InterfacePlan, MediaPlan, NodePlan, WorkerPlan, XdpMode, program::is_embedded};
use media::relay::Settings;
use std::collections::HashMap;

/// The plan of a configuration on this machine.
pub(super) fn plan(config: &Checked, links: &HashMap<String, Link>, token_key: proxy::TokenKey) -> NodePlan {
    let interface = |i: &InterfaceConfig| {
        let link = links.get(&i.device)?;
        let mode = match i.mode {
            ConfigMode::Auto => XdpMode::Auto,
            ConfigMode::ZeroCopy => XdpMode::ZeroCopy,
            ConfigMode::Copy => XdpMode::Copy,
            ConfigMode::Generic => XdpMode::Generic,
        };
        Some(InterfacePlan {
            device: i.device.clone(),
            index: link.index,
            mac: link.mac,
            mtu: link.mtu,
            vlan: i.vlan,
            mode,
        })
    };
    let worker = |w: &WorkerConfig| WorkerPlan {
        core: w.core.map(|(core, _)| core),
        queues: w.queues.iter().map(|(interface, queue, _)| (*interface, *queue)).collect(),
    };
    NodePlan {
        backend: if config.afxdp { BackendKind::AfXdp } else { BackendKind::Udp },
        interfaces: if config.afxdp {
            config.interfaces.iter().filter_map(interface).collect()
        } else {
            Vec::new()
        },
        workers: config.workers.iter().map(worker).collect(),
        listeners: config.listeners.iter().map(|l| l.address).collect(),
        media: media(config),
        max_transactions: config.max_transactions,
        token_key,
        ring_size: config.ring_size,
        spin: config.spin,
    }
}

fn media(config: &Checked) -> MediaPlan {
    let media = &config.media;
    let addresses = config.listeners.iter().flat_map(|l| l.media.iter().copied()).collect();
    let settings = Settings {
        ports: media.ports.clone(),
        addresses,
        rest: media.rest,
        learning: media.learning,
        strict: media.strict,
        seed: 0,
        on_memory: dataplane::large_pages,
    };
    MediaPlan {
        config: proxy::MediaConfig {
            settings,
            timeout: media.timeout,
            hold_timeout: media.hold_timeout,
            keep_ice: media.keep_ice,
            pass_broken: media.pass_broken,
        },
        dscp: media.dscp,
    }
}

/// What a start needs, for an error message.
pub(super) fn privileges_hint(config: &Checked) -> &'static str {
    if config.afxdp && is_embedded() {
        "cannot start (AF_XDP needs root, or CAP_NET_ADMIN, CAP_NET_RAW, CAP_BPF and CAP_PERFMON; backend = \"udp\" needs none of them)"
    } else {
        "cannot start"
    }
}

/// Kernel index of the device that routes name, for every configured interface: the device itself, or
/// the VLAN device on it.
pub(super) fn kernel_indices(config: &Checked, links: &HashMap<String, Link>) -> HashMap<u32, u8> {
    let mut indices = HashMap::new();
    for (i, interface) in (0u8..).zip(&config.interfaces) {
        let Some(link) = links.get(&interface.device) else { continue };
        let index = match interface.vlan {
            None => Some(link.index),
            Some(id) => links.values().find(|l| l.vlan == Some((link.index, id))).map(|l| l.index),
        };
        match index {
            Some(index) => drop(indices.insert(index, i)),
            None => tracing::warn!(
                device = interface.device,
                vlan = interface.vlan,
                "no VLAN device with this id, packets leave by the kernel"
            ),
        }
    }
    indices
}
