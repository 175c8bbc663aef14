//! Kernel sockets: no privileges, no XDP, any machine. One socket for each listener and worker, and
//! two for each media session side while it lasts.

use super::{Backend, Figures, Io, Outgoing};
use crate::{
    clock, slow_path,
    worker::{Arrival, Desk, Verdict},
};
use ahash::AHashMap;
use arrayvec::ArrayVec;
use media::PortPair;
use mio::net::UdpSocket;
use nix::{
    errno::Errno,
    sys::socket::{MsgFlags, MultiHeaders, SockaddrStorage, recvmmsg},
};
use packet::{DropReason, checksum::Sum};
use std::{
    io::{self, IoSliceMut},
    net::{IpAddr, SocketAddr},
    os::fd::AsRawFd as _,
    time::Duration,
};

/// Datagrams read with one system call.
const READ: usize = 16;
/// Such calls for one socket before the next gets its turn.
const TURNS: usize = 4;
const LARGEST: usize = 65_535;

/// The backend of one worker.
pub(crate) struct Udp {
    sockets: Sockets,
    /// Sockets that may have something, each once.
    ready: Vec<usize>,
    /// Those of the turn under way, so that both keep their memory.
    turn: Vec<usize>,
    reader: Reader,
}

/// What a system call reads into.
struct Reader {
    headers: MultiHeaders<SockaddrStorage>,
    buffers: [Box<[u8]>; READ],
}

// SAFETY: the headers point into their own memory and, during a call only, into the buffers; all of it belongs to
// the same value and moves to another thread with it.
unsafe impl Send for Reader {}

struct Bound {
    address: SocketAddr,
    socket: UdpSocket,
    /// It is in [`Udp::ready`].
    is_ready: bool,
}

struct Sockets {
    /// By token; a closed one leaves a gap that is used again.
    bound: Vec<Option<Bound>>,
    free: Vec<usize>,
    by_address: AHashMap<SocketAddr, usize>,
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
            by_address: AHashMap::new(),
            registry: None,
            figures: Figures::default(),
            seen_at: None,
        };
        for address in listeners {
            sockets.open(*address)?;
        }
        let reader = Reader {
            headers: MultiHeaders::preallocate(READ, None),
            buffers: std::array::from_fn(|_| vec![0; LARGEST].into_boxed_slice()),
        };
        Ok(Self { sockets, ready: Vec::new(), turn: Vec::new(), reader })
    }

    /// Reads one socket; whether it may have more.
    fn read(&mut self, token: usize, desk: &mut Desk, now: Duration) -> (usize, bool) {
        let mut all = 0;
        for _ in 0..TURNS {
            let Some(bound) = self.sockets.bound.get(token).and_then(Option::as_ref) else {
                return (all, false);
            };
            let local = bound.address;
            let received = match self.reader.read(&bound.socket) {
                Ok(received) => received,
                Err(Errno::EWOULDBLOCK) => return (all, false),
                // An ICMP error of an earlier datagram is told here; the socket stays usable.
                Err(_) => continue,
            };
            for ((len, remote), buffer) in received.iter().zip(&self.reader.buffers) {
                let Some(remote) = *remote else { continue };
                let seen_at = clock::stamp(now);
                self.sockets.seen_at = Some(seen_at);
                let arrival = Arrival { local, remote, tos: 0, seen_at, checked: false };
                let payload = &buffer[..*len];
                if let Verdict::Relay(relay, tos) = desk.process(now, &arrival, payload, &mut self.sockets) {
                    let sum = Sum::new();
                    self.sockets.send(&Outgoing { from: relay.from, to: relay.to, payload, sum, tos });
                }
            }
            all += received.len();
            if received.len() < READ {
                return (all, false);
            }
        }
        (all, true)
    }

    fn note_ready(&mut self, token: usize) {
        if let Some(bound) = self.sockets.bound.get_mut(token).and_then(Option::as_mut)
            && !bound.is_ready
        {
            bound.is_ready = true;
            self.ready.push(token);
        }
    }
}

impl Reader {
    /// Takes what a socket has, up to [`READ`] datagrams: their lengths and sources.
    fn read(&mut self, socket: &UdpSocket) -> Result<ArrayVec<(usize, Option<SocketAddr>), READ>, Errno> {
        let mut pieces = self.buffers.each_mut().map(|buffer| [IoSliceMut::new(buffer)]);
        let flags = MsgFlags::MSG_DONTWAIT;
        let received = recvmmsg(socket.as_raw_fd(), &mut self.headers, pieces.iter_mut(), flags, None)?;
        Ok(received.map(|message| (message.bytes, message.address.as_ref().and_then(source))).collect())
    }
}

fn source(address: &SockaddrStorage) -> Option<SocketAddr> {
    let v4 = address.as_sockaddr_in().map(|v4| SocketAddr::V4((*v4).into()));
    v4.or_else(|| Some(SocketAddr::V6((*address.as_sockaddr_in6()?).into())))
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
        self.bound[token] = Some(Bound { address, socket, is_ready: false });
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
        std::mem::swap(&mut self.ready, &mut self.turn);
        for i in 0..self.turn.len() {
            let token = self.turn[i];
            if let Some(bound) = self.sockets.bound.get_mut(token).and_then(Option::as_mut) {
                bound.is_ready = false;
            }
            let (read, more) = self.read(token, desk, now);
            received += read;
            if more {
                self.note_ready(token);
            }
        }
        self.turn.clear();
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
                bound.is_ready = true;
                self.ready.push(token);
            }
        }
        self.sockets.registry = Some(registry.try_clone()?);
        Ok(())
    }

    fn on_ready(&mut self, token: mio::Token) {
        self.note_ready(token.0);
    }

    fn frames_missing(&self) -> u64 {
        0
    }

    fn kernel_drops(&self) -> u64 {
        0
    }
}
