//! One AF_XDP socket with a program of its own, for programs that measure: a load generator, a sink, a bare
//! echo. It shares queue and XDP program with the workers and nothing above them.

use crate::{
    lifecycle::StartError,
    plan::XdpMode,
    program::Program,
    queue::{BATCH, CopyMode, Link, Queue, QueueError},
};
use exchange::sources::Prefix;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::{
    ffi::CString,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    os::fd::BorrowedFd,
    time::Duration,
};
use xdp::{
    nic::NicIndex,
    slab::{HeapSlab, Slab as _},
};
use xdp_abi::{AllowValue, MediaRange, NO_PEER, NO_REGION};

/// What becomes of a received frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is done with.
    Drop,
    /// It is sent back by the same queue, in its place.
    Back,
}

/// The socket, or one for each queue.
pub struct Port {
    queues: Vec<Queue>,
    batch: HeapSlab,
    /// Dropped last: packets go to the kernel again when the socket is gone.
    _program: Program,
}

// SAFETY: the packets in the batch and in the queue point into the UMEM that the same value owns, so all
// of them move to another thread together; nothing else holds a pointer into it.
unsafe impl Send for Port {}

impl Port {
    /// On the first queues of a device of the current network namespace; packets to these addresses and
    /// ports come here, whoever sends them.
    ///
    /// # Errors
    /// No such device, no privileges, or the kernel refuses.
    pub fn open(
        device: &str,
        queues: u32,
        steered: &[(IpAddr, MediaRange)],
        ring_size: u32,
    ) -> Result<Self, StartError> {
        let mut program = Program::load()?;
        program.attach(device, XdpMode::Auto)?;
        for (address, range) in steered {
            program.add_media(*address, *range)?;
        }
        let anyone = AllowValue { peer: NO_PEER, region: NO_REGION, health: 0 };
        for address in [IpAddr::V4(Ipv4Addr::UNSPECIFIED), IpAddr::V6(Ipv6Addr::UNSPECIFIED)] {
            program.allow(Prefix { address, length: 0 }, anyone)?;
        }
        let failed = |queue, source| StartError::Queue { device: device.to_owned(), queue, source };
        let name = CString::new(device).unwrap_or_default();
        let found = NicIndex::lookup_by_name(&name).ok().flatten();
        let nic = found.ok_or_else(|| failed(0, QueueError::NoDevice))?;
        let link = Link { mac: packet::ethernet::Mac::default(), vlan: None, mtu: 1500 };
        let open = |number| {
            let queue = Queue::open(nic, number, ring_size, CopyMode::Copy, link);
            queue.map_err(|source| failed(number, source))
        };
        let queues = (0..queues).map(open).collect::<Result<Vec<_>, _>>()?;
        for (number, queue) in (0..).zip(&queues) {
            program.set_socket(number, queue.raw_fd())?;
        }
        Ok(Self { queues, batch: HeapSlab::with_capacity(BATCH), _program: program })
    }

    /// Takes what is there, one batch of each queue at most; the number of frames.
    pub fn receive(&mut self, mut each: impl FnMut(&mut [u8]) -> Fate) -> usize {
        let mut all = 0;
        for queue in &mut self.queues {
            all += queue.receive(&mut self.batch);
            while let Some(mut packet) = self.batch.pop_back() {
                match each(&mut packet) {
                    Fate::Drop => queue.free(packet),
                    Fate::Back => drop(queue.push(packet)),
                }
            }
        }
        all
    }

    /// Queues a frame, by one queue or another; `false`: there is no room.
    pub fn send(&mut self, lane: usize, frame: &[u8]) -> bool {
        let count = self.queues.len();
        self.queues[lane % count].send_frame(frame)
    }

    /// Hands queued frames to the kernel and takes used ones back.
    pub fn flush(&mut self) {
        self.queues.iter_mut().for_each(Queue::flush);
    }

    /// Whether frames wait that the kernel has not taken.
    pub fn is_busy(&self) -> bool {
        self.queues.iter().any(Queue::is_busy)
    }

    /// Waits until something is there to receive.
    pub fn wait(&self, limit: Duration) {
        let limit = Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: limit.subsec_nanos().into() };
        let socket = |queue: &Queue| {
            // SAFETY: the socket lives as long as this borrow of its queue.
            unsafe { BorrowedFd::borrow_raw(queue.raw_fd()) }
        };
        let sockets: Vec<_> = self.queues.iter().map(socket).collect();
        let mut polled: Vec<_> = sockets.iter().map(|s| PollFd::new(s, PollFlags::IN)).collect();
        let _ = poll(&mut polled, Some(&limit));
    }
}
