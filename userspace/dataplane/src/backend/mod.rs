//! The ways to receive and send. The worker above is the same for all.

pub(crate) mod afxdp;
pub mod memory;
pub(crate) mod udp;

use crate::worker::Desk;
use hdrhistogram::Histogram;
use packet::{DropReason, checksum::Sum};
use proxy::Tally;
use std::{
    io,
    net::{IpAddr, SocketAddr},
    time::Duration,
};

/// A datagram to send.
#[derive(Clone, Copy, Debug)]
pub struct Outgoing<'a> {
    /// Local address.
    pub from: SocketAddr,
    /// Addressee.
    pub to: SocketAddr,
    /// Payload.
    pub payload: &'a [u8],
    /// Sum of the payload.
    pub sum: Sum,
    /// DSCP and ECN.
    pub tos: u8,
}

/// The sending half of a backend.
pub trait Io {
    /// Sends a datagram, or counts why not.
    fn send(&mut self, outgoing: &Outgoing<'_>);
    /// Media ports came into use or fell out of it.
    fn media_ports(&mut self, in_use: bool, address: IpAddr, ports: media::PortPair);
    /// From when the packets sent next date, for the latency histogram; `None`: from no packet.
    fn stamp(&mut self, seen_at: Option<u32>);
    /// What this backend counted, to be shown with the worker's own figures.
    fn figures(&mut self) -> &mut Figures;
}

/// What a backend counts and measures.
#[derive(Debug)]
pub struct Figures {
    /// Counters and drops.
    pub tally: Tally,
    /// Time in the node of packets sent, in nanoseconds.
    pub latency: Histogram<u64>,
}

impl Default for Figures {
    fn default() -> Self {
        Self { tally: Tally::default(), latency: exchange::counters::latency_histogram() }
    }
}

impl Figures {
    /// Counts a dropped packet.
    pub fn drop(&mut self, reason: DropReason) {
        self.tally.drop(reason);
    }
}

/// A backend of one worker.
pub trait Backend {
    /// Its sending half.
    fn io(&mut self) -> &mut dyn Io;
    /// Receives what is there, within bounds, and has it processed; the number of packets.
    fn receive(&mut self, desk: &mut Desk, now: Duration) -> usize;
    /// Lets go of everything queued to send.
    fn flush(&mut self);
    /// Whether something waits that no event will announce.
    fn is_busy(&self) -> bool;
    /// Registers all descriptors.
    ///
    /// # Errors
    /// The kernel refuses.
    fn register(&mut self, registry: &mio::Registry) -> io::Result<()>;
    /// A registered descriptor is ready.
    fn on_ready(&mut self, token: mio::Token);
    /// Packet buffers that are lost; always zero.
    fn frames_missing(&self) -> u64;
    /// Packets that the kernel dropped for want of room.
    fn kernel_drops(&self) -> u64;
}
