//! Kernel sockets: no privileges, no XDP, any machine. One socket for each listener and worker, and
//! two for each media session side while it lasts.

use super::{Backend, Figures, Io, Outgoing};
use crate::{
    clock, slow_path,
    worker::{Arrival, Desk, Verdict},
};
use media::PortPair;
use mio::net::UdpSocket;
use packet::{DropReason, checksum::Sum};
use std::{
    collections::HashMap,
    io,
    net::{IpAddr, SocketAddr},
    time::Duration,
};

/// Datagrams read from one socket before the next gets its turn.
const BATCH: usize = 64;
const LARGEST: usize = 65_535;

/// The backend of one worker.
pub(crate) struct Udp {
    sockets: Sockets,
    ready: Vec<usize>,
    buffer: Box<[u8]>,
}

struct Bound {
    address: SocketAddr,
    socket: UdpSocket,
}

struct Sockets {
    /// By token; a closed one leaves a gap that is used again.
    bound: Vec<Option<Bound>>,
    free: Vec<usize>,
    by_address: HashMap<SocketAddr, usize>,
    registry: Option<mio::Registry>,
    figures: Figures,
    seen_at: Option<u32>,
}

impl Udp {
    /// Binds a socket of this worker's own to every listener.
    pub(crate) fn open(listeners: &[SocketAddr]) -> io::Result<Self> {
        let mut sockets = Sockets {
            bound: Vec::new(),
            free: Vec::new(),
            by_address: HashMap::new(),
            registry: None,
            figures: Figures::default(),
            seen_at: None,
        };
        for address in listeners {
            sockets.open(*address)?;
        }
        Ok(Self { sockets, ready: Vec::new(), buffer: vec![0; LARGEST].into_boxed_slice() })
    }

    /// Reads one socket; whether it may have more.
    fn read(&mut self, token: usize, desk: &mut Desk, now: Duration) -> (usize, bool) {
        for n in 0..BATCH {
            let Some(bound) = self.sockets.bound.get(token).and_then(Option::as_ref) else {
                return (n, false);
            };
            let local = bound.address;
            let (len, remote) = match bound.socket.recv_from(&mut self.buffer) {
                Ok(received) => received,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return (n, false),
                // An ICMP error of an earlier datagram is told here; the socket stays usable.
                Err(_) => continue,
            };
            let seen_at = clock::stamp(now);
            self.sockets.seen_at = Some(seen_at);
            let arrival = Arrival { local, remote, tos: 0, seen_at, checked: false };
            let payload = &self.buffer[..len];
            if let Verdict::Relay(relay, tos) = desk.process(now, &arrival, payload, &mut self.sockets) {
                self.sockets.send(&Outgoing {
                    from: relay.from,
                    to: relay.to,
                    payload,
                    sum: Sum::new(),
                    tos,
                });
            }
        }
        (BATCH, true)
    }
}

impl Sockets {
    fn open(&mut self, address: SocketAddr) -> io::Result<()> {
        let mut socket = UdpSocket::from_std(slow_path::bind(address)?);
        let token = self.free.pop().unwrap_or_else(|| {
            self.bound.push(None);
            self.bound.len() - 1
        });
        if let Some(registry) = &self.registry {
            registry.register(&mut socket, mio::Token(token), mio::Interest::READABLE)?;
        }
        self.bound[token] = Some(Bound { address, socket });
        self.by_address.insert(address, token);
        Ok(())
    }

    fn close(&mut self, address: SocketAddr) {
        if let Some(token) = self.by_address.remove(&address) {
            // Dropping the socket takes it off the registry.
            self.bound[token] = None;
            self.free.push(token);
        }
    }
}

impl Io for Sockets {
    fn send(&mut self, outgoing: &Outgoing<'_>) {
        let socket = self.by_address.get(&outgoing.from).and_then(|token| self.bound[*token].as_ref());
        let Some(bound) = socket else { return self.figures.drop(DropReason::NoListener) };
        if bound.socket.send_to(outgoing.payload, outgoing.to).is_err() {
            return self.figures.drop(DropReason::KernelSend);
        }
        if let Some(seen_at) = self.seen_at {
            let now = clock::stamp(clock::monotonic());
            self.figures.latency.saturating_record(u64::from(now.wrapping_sub(seen_at)));
        }
    }

    fn media_ports(&mut self, in_use: bool, address: IpAddr, ports: PortPair) {
        for port in [ports.rtp(), ports.rtcp()] {
            let address = SocketAddr::new(address, port);
            if !in_use {
                self.close(address);
            } else if let Err(error) = self.open(address) {
                tracing::warn!(%address, %error, "cannot bind a media port; its packets will be lost");
            }
        }
    }

    fn stamp(&mut self, seen_at: Option<u32>) {
        self.seen_at = seen_at;
    }

    fn figures(&mut self) -> &mut Figures {
        &mut self.figures
    }
}

impl Backend for Udp {
    fn io(&mut self) -> &mut dyn Io {
        &mut self.sockets
    }

    fn receive(&mut self, desk: &mut Desk, now: Duration) -> usize {
        let mut received = 0;
        for token in std::mem::take(&mut self.ready) {
            let (read, more) = self.read(token, desk, now);
            received += read;
            if more {
                self.ready.push(token);
            }
        }
        self.sockets.seen_at = None;
        received
    }

    fn flush(&mut self) {}

    fn is_busy(&self) -> bool {
        !self.ready.is_empty()
    }

    fn register(&mut self, registry: &mio::Registry) -> io::Result<()> {
        for (token, bound) in self.sockets.bound.iter_mut().enumerate() {
            if let Some(bound) = bound {
                registry.register(&mut bound.socket, mio::Token(token), mio::Interest::READABLE)?;
                // What came before the registration is announced by no event.
                self.ready.push(token);
            }
        }
        self.sockets.registry = Some(registry.try_clone()?);
        Ok(())
    }

    fn on_ready(&mut self, token: mio::Token) {
        if !self.ready.contains(&token.0) {
            self.ready.push(token.0);
        }
    }

    fn frames_missing(&self) -> u64 {
        0
    }

    fn kernel_drops(&self) -> u64 {
        0
    }
}
