//! A plain forwarder with kernel sockets: what can be had without bypassing the kernel, by whoever does it well. It
//! reads and sends whole batches with one system call each, and does nothing to a packet.

use super::{System, thread::Thread};
use crate::rig::{Flow, RECEIVER, Rig, SENDER, SYSTEM, address, socket};
use anyhow::{Context as _, Result};
use nix::sys::socket::{
    ControlMessage, MsgFlags, MultiHeaders, SockaddrIn, recvmmsg, sendmmsg, setsockopt, sockopt,
};
use std::{
    io::{IoSlice, IoSliceMut},
    net::{SocketAddr, SocketAddrV4, UdpSocket},
    os::fd::AsRawFd,
    time::Duration,
};

/// Packets of one system call.
const BATCH: usize = 64;
const LARGEST: usize = 2048;
const PORT: u16 = 20_000;

/// A running forwarder.
pub struct Forwarder {
    thread: Thread,
    flows: usize,
}

impl Forwarder {
    /// Starts one on the system's end: everything that comes goes to the receiver.
    ///
    /// # Errors
    /// The address is in use.
    pub fn start(rig: &Rig, flows: usize) -> Result<Self> {
        let socket = rig.system.enter(|| UdpSocket::bind(entrance()))?.context("binding the forwarder")?;
        setsockopt(&socket, sockopt::RcvBufForce, &(64 << 20))?;
        socket.set_read_timeout(Some(Duration::from_millis(20)))?;
        let target = [Some(SockaddrIn::from(RECEIVER.parse::<SocketAddrV4>()?)); BATCH];
        let mut lengths = Vec::with_capacity(BATCH);
        let mut buffers = vec![[0u8; LARGEST]; BATCH];
        let thread = Thread::start("forwarder", move || {
            receive(&socket, &mut buffers, &mut lengths);
            let pieces: Vec<[IoSlice<'_>; 1]> =
                buffers.iter().zip(&lengths).map(|(b, len)| [IoSlice::new(&b[..*len])]).collect();
            let mut headers = MultiHeaders::preallocate(BATCH, None);
            let none: [ControlMessage<'_>; 0] = [];
            let to = &target[..pieces.len()];
            let _ = sendmmsg(socket.as_raw_fd(), &mut headers, &pieces, to, none, MsgFlags::empty());
        })?;
        Ok(Self { thread, flows })
    }
}

impl System for Forwarder {
    /// Each from a port of its own.
    fn flows(&self) -> Vec<Flow> {
        let (sender, to) = (socket(SENDER), entrance());
        let from = |n: usize| SocketAddr::new(sender.ip(), 40_010 + (n % 9_000) as u16);
        (0..self.flows).map(|n| Flow { from: from(n), to }).collect()
    }

    fn time(&self) -> Result<Duration> {
        self.thread.time()
    }

    fn has_memory(&self) -> bool {
        false
    }
}

/// Where it receives.
fn entrance() -> SocketAddr {
    SocketAddr::new(address(SYSTEM), PORT)
}

/// Reads a batch; the lengths of its packets.
fn receive(socket: &UdpSocket, buffers: &mut [[u8; LARGEST]], lengths: &mut Vec<usize>) {
    lengths.clear();
    let mut pieces: Vec<[IoSliceMut<'_>; 1]> = buffers.iter_mut().map(|b| [IoSliceMut::new(b)]).collect();
    let mut headers = MultiHeaders::<SockaddrIn>::preallocate(BATCH, None);
    let received =
        recvmmsg(socket.as_raw_fd(), &mut headers, pieces.iter_mut(), MsgFlags::MSG_WAITFORONE, None);
    if let Ok(received) = received {
        lengths.extend(received.map(|message| message.bytes));
    }
}
