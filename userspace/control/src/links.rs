//! Interfaces of this machine, from the kernel by netlink.

use futures_util::TryStreamExt;
use netlink_packet_route::link::{InfoData, InfoVlan, LinkAttribute, LinkInfo, LinkXdp, XdpAttached};
use packet::ethernet::Mac;
use std::{collections::HashMap, io};

/// What the kernel says of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Index.
    pub index: u32,
    /// MAC address.
    pub mac: Mac,
    /// MTU in bytes.
    pub mtu: usize,
    /// Receive queues that the device may have; fewer may be in use.
    pub max_rx_queues: u32,
    /// Parent device and id, where this is a VLAN device.
    pub vlan: Option<(u32, u16)>,
    /// Mode and id of an attached XDP program.
    pub xdp: Option<(&'static str, u32)>,
}

/// All interfaces by name.
///
/// # Errors
/// Netlink does not answer.
pub async fn all() -> io::Result<HashMap<String, Link>> {
    let (connection, handle, _) = rtnetlink::new_connection()?;
    let task = tokio::spawn(connection);
    let mut links = HashMap::new();
    let mut messages = handle.link().get().execute();
    while let Some(message) = messages.try_next().await.map_err(io::Error::other)? {
        let mut name = None;
        let mut link = Link {
            index: message.header.index,
            mac: Mac::default(),
            mtu: 1500,
            max_rx_queues: 1,
            vlan: None,
            xdp: None,
        };
        let (mut parent, mut id) = (None, None);
        for attribute in message.attributes {
            match attribute {
                LinkAttribute::IfName(n) => name = Some(n),
                LinkAttribute::Mtu(mtu) => link.mtu = mtu as usize,
                LinkAttribute::NumRxQueues(n) => link.max_rx_queues = n,
                LinkAttribute::Link(index) => parent = Some(index),
                LinkAttribute::LinkInfo(info) => id = vlan_id(&info),
                LinkAttribute::Xdp(attributes) => link.xdp = xdp(&attributes),
                LinkAttribute::Address(a) => link.mac = a.try_into().map(Mac).unwrap_or_default(),
                _ => {}
            }
        }
        link.vlan = parent.zip(id);
        if let Some(name) = name {
            links.insert(name, link);
        }
    }
    task.abort();
    Ok(links)
}

fn vlan_id(info: &[LinkInfo]) -> Option<u16> {
    info.iter().find_map(|i| match i {
        LinkInfo::Data(InfoData::Vlan(vlan)) => vlan.iter().find_map(|v| match v {
            InfoVlan::Id(id) => Some(*id),
            _ => None,
        }),
        _ => None,
    })
}

fn xdp(attributes: &[LinkXdp]) -> Option<(&'static str, u32)> {
    let mode = attributes.iter().find_map(|a| match a {
        LinkXdp::Attached(XdpAttached::Driver) => Some("native"),
        LinkXdp::Attached(XdpAttached::SocketBuffer) => Some("generic"),
        LinkXdp::Attached(XdpAttached::Hardware) => Some("offloaded"),
        LinkXdp::Attached(XdpAttached::Multiple) => Some("several"),
        _ => None,
    })?;
    let id = attributes.iter().find_map(|a| match a {
        LinkXdp::ProgId(id) => Some(*id),
        _ => None,
    })?;
    Some((mode, id))
}
