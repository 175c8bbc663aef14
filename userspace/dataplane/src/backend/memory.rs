//! A backend without any socket, for tests and benches: what is sent is kept.

use super::{Figures, Io, Outgoing};
use std::net::{IpAddr, SocketAddr};

/// A sent datagram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    /// Local address.
    pub from: SocketAddr,
    /// Addressee.
    pub to: SocketAddr,
    /// Payload.
    pub payload: Vec<u8>,
}

/// Keeps what is sent.
#[derive(Debug, Default)]
pub struct MemoryIo {
    /// All of it, in order.
    pub sent: Vec<Sent>,
    figures: Figures,
}

impl Io for MemoryIo {
    fn send(&mut self, outgoing: &Outgoing<'_>) {
        self.sent.push(Sent { from: outgoing.from, to: outgoing.to, payload: outgoing.payload.to_vec() });
    }

    fn media_ports(&mut self, _in_use: bool, _address: IpAddr, _ports: media::PortPair) {}

    fn stamp(&mut self, _seen_at: Option<u32>) {}

    fn figures(&mut self) -> &mut Figures {
        &mut self.figures
    }
}
