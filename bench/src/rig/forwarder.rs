//! A plain forwarder with kernel sockets: what can be had without bypassing the kernel, by whoever does it well. It
//! reads and sends whole batches with one system call each, and does nothing to a packet.

use super::{Flow, RECEIVER, Rig, SENDER, SYSTEM, SYSTEM_CORE};
use anyhow::{Context as _, Result};
use dataplane::pin;
use nix::sys::socket::{MsgFlags, MultiHeaders, SockaddrIn, recvmmsg, sendmmsg, setsockopt, sockopt};
use rustix::time::{ClockId, clock_gettime};
use std::{
    io::{IoSlice, IoSliceMut},
    net::{SocketAddr, SocketAddrV4, UdpSocket},
    os::fd::AsRawFd,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::JoinHandle,
    time::Duration,
};

/// Packets of one system call.
const BATCH: usize = 64;
const LARGEST: usize = 2048;
const PORT: u16 = 20_000;

/// A running forwarder: everything that comes goes to the receiver.
pub struct Forwarder {
    done: Arc<AtomicBool>,
    time: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl Forwarder {
    /// Starts one on the system's end.
    ///
    /// # Errors
    /// The address is in use.
    pub fn start(rig: &Rig) -> Result<Self> {
        let address: SocketAddr = format!("{SYSTEM}:{PORT}").parse()?;
        let socket = rig.system.enter(|| UdpSocket::bind(address))?.context("binding the forwarder")?;
        setsockopt(&socket, sockopt::RcvBufForce, &(64 << 20))?;
        socket.set_read_timeout(Some(Duration::from_millis(20)))?;
        let to: SocketAddrV4 = RECEIVER.parse()?;
        let (done, time) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (stop, clock) = (Arc::clone(&done), Arc::clone(&time));
        let work = move || {
            pin::pin(SYSTEM_CORE);
            let mut lengths = Vec::with_capacity(BATCH);
            let mut buffers = vec![[0u8; LARGEST]; BATCH];
            let target = [Some(SockaddrIn::from(to)); BATCH];
            while !stop.load(Ordering::Relaxed) {
                receive(&socket, &mut buffers, &mut lengths);
                let pieces: Vec<[IoSlice<'_>; 1]> =
                    buffers.iter().zip(&lengths).map(|(b, len)| [IoSlice::new(&b[..*len])]).collect();
                let mut headers = MultiHeaders::preallocate(BATCH, None);
                let none: [nix::sys::socket::ControlMessage<'_>; 0] = [];
                let sent = sendmmsg(
                    socket.as_raw_fd(),
                    &mut headers,
                    &pieces,
                    &target[..pieces.len()],
                    none,
                    MsgFlags::empty(),
                );
                drop(sent);
                let now = clock_gettime(ClockId::ThreadCPUTime);
                clock.store(now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64, Ordering::Relaxed);
            }
        };
        let thread =
            std::thread::Builder::new().name("forwarder".to_owned()).spawn(work).context("a thread")?;
        Ok(Self { done, time, thread: Some(thread) })
    }

    /// Flows for it, each from a port of its own.
    ///
    /// # Errors
    /// Never: the addresses are constants.
    pub fn flows(count: usize) -> Result<Vec<Flow>> {
        let sender: SocketAddr = SENDER.parse()?;
        let to = SocketAddr::new(SYSTEM.parse()?, PORT);
        let flow = |n: usize| Flow { from: SocketAddr::new(sender.ip(), 40_010 + (n % 9_000) as u16), to };
        Ok((0..count).map(flow).collect())
    }

    /// Processor time of its thread so far.
    pub fn time(&self) -> Duration {
        Duration::from_nanos(self.time.load(Ordering::Relaxed))
    }
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

impl Drop for Forwarder {
    fn drop(&mut self) {
        self.done.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
