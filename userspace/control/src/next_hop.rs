//! Next hops from the kernel's routes and neighbours (requirement H5).
//!
//! Workers ask for addresses they cannot reach; every answer is kept up to date from then on. Until an
//! address is resolved its packets go by kernel sockets, which makes the kernel resolve the neighbour.

use exchange::{
    Exchange,
    neighbours::{NextHop, NextHops},
};
use futures_util::{StreamExt, TryStreamExt, stream::BoxStream};
use netlink_packet_core::NetlinkPayload;
use netlink_packet_route::{
    RouteNetlinkMessage,
    neighbour::{NeighbourAddress, NeighbourAttribute, NeighbourFlags, NeighbourState},
    route::{RouteAddress, RouteAttribute},
};
use packet::ethernet::Mac;
use rtnetlink::{Handle, MulticastGroup, RouteMessageBuilder};
use std::{
    collections::{HashMap, HashSet},
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    sync::Arc,
};
use tokio::task::JoinHandle;

/// Addresses kept resolved at most; beyond them packets take the slow path.
const MAX_WANTED: usize = 65_536;

/// Keeps the workers' next hops up to date.
pub struct NextHopKeeper {
    handle: Handle,
    changes: BoxStream<'static, Change>,
    task: JoinHandle<()>,
    /// Index in the configuration by the kernel's interface index.
    interfaces: HashMap<u32, u8>,
    wanted: HashSet<IpAddr>,
    /// Routes looked up since the kernel's routes last changed.
    routes: HashMap<IpAddr, Option<Via>>,
    exchange: Arc<Exchange>,
}

/// What changed in the kernel's tables.
enum Change {
    /// Neighbours: routes stay as they are.
    Neighbours,
    /// Routes or links.
    Routes,
}

impl Change {
    fn of(message: &NetlinkPayload<RouteNetlinkMessage>) -> Self {
        use RouteNetlinkMessage::{DelNeighbour, NewNeighbour};
        match message {
            NetlinkPayload::InnerMessage(NewNeighbour(_) | DelNeighbour(_)) => Self::Neighbours,
            _ => Self::Routes,
        }
    }
}

/// Where a route leads: interface index and the address to resolve there.
type Via = (u32, IpAddr);

impl NextHopKeeper {
    /// Watches the kernel's tables. `interfaces`: kernel indices, each with the index in the
    /// configuration; a VLAN's device leads to the interface that carries it.
    ///
    /// # Errors
    /// Netlink is not to be had.
    pub fn new(interfaces: HashMap<u32, u8>, exchange: Arc<Exchange>) -> io::Result<Self> {
        let groups = [
            MulticastGroup::Neigh,
            MulticastGroup::Ipv4Route,
            MulticastGroup::Ipv6Route,
            MulticastGroup::Link,
        ];
        let (connection, handle, messages) = rtnetlink::new_multicast_connection(&groups)?;
        Ok(Self {
            handle,
            changes: messages.map(|(message, _)| Change::of(&message.payload)).boxed(),
            task: tokio::spawn(connection),
            interfaces,
            wanted: HashSet::new(),
            routes: HashMap::new(),
            exchange,
        })
    }

    /// Wants an address from now on; whether it is new.
    pub fn want(&mut self, address: IpAddr) -> bool {
        self.wanted.len() < MAX_WANTED && self.wanted.insert(address)
    }

    /// Waits until the kernel's tables change.
    pub async fn changed(&mut self) {
        match self.changes.next().await {
            Some(Change::Neighbours) => {}
            Some(Change::Routes) => self.routes.clear(),
            // The connection is gone; the periodic refresh goes on.
            None => std::future::pending::<()>().await,
        }
    }

    /// Looks all wanted addresses up again and publishes what changed.
    ///
    /// # Errors
    /// Netlink does not answer.
    pub async fn refresh(&mut self) -> Result<(), rtnetlink::Error> {
        if self.wanted.is_empty() {
            return Ok(());
        }
        let neighbours = self.neighbours().await?;
        self.look_up_routes().await;
        let mut hops = NextHops::default();
        for address in &self.wanted {
            let Some((index, via)) = self.routes.get(address).copied().flatten() else { continue };
            let Some(interface) = self.interfaces.get(&index) else { continue };
            if let Some(mac) = neighbours.get(&(index, via)) {
                hops.0.insert(*address, NextHop { interface: *interface, mac: *mac });
            }
        }
        if hops.0 != self.exchange.next_hops.load().0 {
            self.exchange.next_hops.publish(hops);
        }
        Ok(())
    }

    /// Makes the kernel confirm the neighbours in use: traffic past the kernel does not do so, and a
    /// gateway that moved to another MAC address would go unnoticed.
    pub async fn confirm(&mut self) {
        self.look_up_routes().await;
        // Many addresses lie behind few gateways.
        let used: HashSet<Via> = self.routes.values().flatten().copied().collect();
        for (index, via) in used.into_iter().filter(|(index, _)| self.interfaces.contains_key(index)) {
            let request = self.handle.neighbours().add(index, via).state(NeighbourState::None);
            // An error only means that this one stays as it is.
            let _ = request.flags(NeighbourFlags::Use).replace().execute().await;
        }
    }

    async fn look_up_routes(&mut self) {
        let unknown: Vec<_> = self.wanted.iter().filter(|a| !self.routes.contains_key(*a)).copied().collect();
        for address in unknown {
            let route = self.route(address).await;
            self.routes.insert(address, route);
        }
    }

    async fn route(&self, address: IpAddr) -> Option<Via> {
        let query = match address {
            IpAddr::V4(a) => RouteMessageBuilder::<Ipv4Addr>::new().destination_prefix(a, 32).build(),
            IpAddr::V6(a) => RouteMessageBuilder::<Ipv6Addr>::new().destination_prefix(a, 128).build(),
        };
        let mut routes = self.handle.route().get(query).execute();
        let route = routes.try_next().await.ok()??;
        let mut index = None;
        let mut via = address;
        for attribute in route.attributes {
            match attribute {
                RouteAttribute::Oif(i) => index = Some(i),
                RouteAttribute::Gateway(RouteAddress::Inet(a)) => via = a.into(),
                RouteAttribute::Gateway(RouteAddress::Inet6(a)) => via = a.into(),
                _ => {}
            }
        }
        Some((index?, via))
    }

    async fn neighbours(&self) -> Result<HashMap<Via, Mac>, rtnetlink::Error> {
        let mut found = HashMap::new();
        let mut messages = self.handle.neighbours().get().execute();
        while let Some(message) = messages.try_next().await? {
            let usable = !matches!(
                message.header.state,
                NeighbourState::None
                    | NeighbourState::Incomplete
                    | NeighbourState::Failed
                    | NeighbourState::Noarp
            );
            let mut address = None;
            let mut mac = None;
            for attribute in message.attributes {
                match attribute {
                    NeighbourAttribute::Destination(NeighbourAddress::Inet(a)) => {
                        address = Some(IpAddr::V4(a));
                    }
                    NeighbourAttribute::Destination(NeighbourAddress::Inet6(a)) => {
                        address = Some(IpAddr::V6(a));
                    }
                    NeighbourAttribute::LinkLayerAddress(octets) => mac = octets.try_into().ok().map(Mac),
                    _ => {}
                }
            }
            if let (true, Some(address), Some(mac)) = (usable, address, mac) {
                found.insert((message.header.ifindex, address), mac);
            }
        }
        Ok(found)
    }
}

impl Drop for NextHopKeeper {
    fn drop(&mut self) {
        self.task.abort();
    }
}
