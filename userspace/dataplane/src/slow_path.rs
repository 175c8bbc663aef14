//! Kernel sockets beside AF_XDP: what is larger than the MTU, what arrived in fragments, and what
//! goes to a next hop that is not resolved yet. The kernel fragments, reassembles and resolves.

use packet::{Headers, checksum::Sum, ethernet, frame};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::{
    io,
    net::{SocketAddr, UdpSocket},
};

/// A listener's kernel socket.
pub(crate) struct KernelListener {
    pub(crate) address: SocketAddr,
    pub(crate) socket: UdpSocket,
}

/// Sockets shared by all workers; sending needs no exclusive access.
pub(crate) struct SlowPath {
    pub(crate) listeners: Vec<KernelListener>,
    raw_v4: Option<Socket>,
    raw_v6: Option<Socket>,
}

impl SlowPath {
    /// Binds a kernel socket to every listener, and opens raw sockets for media.
    pub(crate) fn open(listeners: &[SocketAddr]) -> io::Result<Self> {
        let bound =
            listeners.iter().map(|address| Ok(KernelListener { address: *address, socket: bind(*address)? }));
        Ok(Self {
            listeners: bound.collect::<io::Result<_>>()?,
            raw_v4: raw(Domain::IPV4),
            raw_v6: raw(Domain::IPV6),
        })
    }

    /// Sends by the kernel; `false`: it refused.
    pub(crate) fn send(&self, headers: &Headers, payload: &[u8], sum: Sum) -> bool {
        match self.listeners.iter().find(|l| l.address == headers.source) {
            Some(listener) => listener.socket.send_to(payload, headers.destination).is_ok(),
            None => self.send_raw(headers, payload, sum),
        }
    }

    /// Media has no socket bound to its port: the whole IP packet is given to the kernel.
    fn send_raw(&self, headers: &Headers, payload: &[u8], sum: Sum) -> bool {
        let socket = if headers.destination.is_ipv4() { &self.raw_v4 } else { &self.raw_v6 };
        let Some(socket) = socket else { return false };
        let headers = Headers { vlan: None, ..*headers };
        let start = frame::headers_len(&headers);
        let mut bytes = vec![0; start + payload.len()];
        bytes[start..].copy_from_slice(payload);
        frame::write(&mut bytes, &headers, payload.len(), sum);
        let to = SockAddr::from(SocketAddr::new(headers.destination.ip(), 0));
        socket.send_to(&bytes[ethernet::LEN..], &to).is_ok()
    }
}

fn raw(domain: Domain) -> Option<Socket> {
    const IPPROTO_RAW: i32 = 255;
    let socket = Socket::new(domain, Type::RAW, Some(Protocol::from(IPPROTO_RAW))).ok()?;
    socket.set_nonblocking(true).ok()?;
    Some(socket)
}

/// A non-blocking UDP socket that shares its address with those of other workers.
pub(crate) fn bind(address: SocketAddr) -> io::Result<UdpSocket> {
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_nonblocking(true)?;
    socket.set_reuse_port(true)?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    let _ = socket.set_recv_buffer_size(4 << 20);
    let _ = socket.set_send_buffer_size(4 << 20);
    socket.bind(&address.into())?;
    Ok(socket.into())
}
