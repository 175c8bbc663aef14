//! Interfaces of this machine, from the kernel by netlink.

use futures_util::TryStreamExt;
use netlink_packet_route::link::LinkAttribute;
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
    /// Receive queues.
    pub rx_queues: u32,
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
        let mut link = Link { index: message.header.index, mac: Mac::default(), mtu: 1500, rx_queues: 1 };
        for attribute in message.attributes {
            match attribute {
                LinkAttribute::IfName(n) => name = Some(n),
                LinkAttribute::Mtu(mtu) => link.mtu = mtu as usize,
                LinkAttribute::NumRxQueues(n) => link.rx_queues = n,
                LinkAttribute::Address(a) => link.mac = a.try_into().map(Mac).unwrap_or_default(),
                _ => {}
            }
        }
        if let Some(name) = name {
            links.insert(name, link);
        }
    }
    task.abort();
    Ok(links)
}
