//! ICMP errors: the fastest sign of a dead peer. They go to the kernel, not to AF_XDP; raw sockets see
//! them here.

use packet::icmp::{Quoted, unreachable_v4, unreachable_v6};
use sip::branch::Branch;
use socket2::{Domain, Protocol, Socket, Type};
use std::{io, net::SocketAddr};
use tokio::net::UdpSocket;

/// A request of this node that did not arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unreachable {
    /// Its branch, which only its sender and its receiver know.
    pub branch: Branch,
    /// Where it did not arrive.
    pub to: SocketAddr,
}

/// Raw sockets for both families.
pub struct IcmpWatch {
    v4: Option<UdpSocket>,
    v6: Option<UdpSocket>,
}

impl IcmpWatch {
    /// Opens the sockets; a family that cannot be opened (no CAP_NET_RAW, no IPv6) is left out.
    /// Call within the runtime.
    pub fn open() -> Self {
        let open = |domain, protocol| -> io::Result<UdpSocket> {
            let socket = Socket::new(domain, Type::RAW, Some(protocol))?;
            socket.set_nonblocking(true)?;
            // To the runtime any socket that receives datagrams is alike.
            UdpSocket::from_std(socket.into())
        };
        Self { v4: open(Domain::IPV4, Protocol::ICMPV4).ok(), v6: open(Domain::IPV6, Protocol::ICMPV6).ok() }
    }

    /// The next request of this node that did not arrive. Other ICMP packets are passed over.
    pub async fn next(&self) -> Unreachable {
        tokio::select! {
            found = next(self.v4.as_ref(), unreachable_v4) => found,
            found = next(self.v6.as_ref(), unreachable_v6) => found,
        }
    }
}

async fn next(socket: Option<&UdpSocket>, read: fn(&[u8]) -> Option<Quoted<'_>>) -> Unreachable {
    let Some(socket) = socket else { return std::future::pending().await };
    let mut buffer = [0; 1500];
    loop {
        // A raw socket has no errors of its own worth ending for.
        let Ok(len) = socket.recv(&mut buffer).await else { continue };
        let quoted = read(&buffer[..len]);
        if let Some(quoted) = quoted
            && let Some(branch) = Branch::find(quoted.payload)
        {
            return Unreachable { branch, to: quoted.to };
        }
    }
}
