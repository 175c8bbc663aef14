//! One AF_XDP socket: one receive queue of one interface, with a UMEM of its own.
//!
//! Every frame is in one place at any time: free, in the fill ring, with the kernel, in a batch, or
//! waiting to be sent. [`Queue::frames_missing`] checks the sum.

use packet::{Headers, checksum::Sum, ethernet::Mac, frame};
use std::{io, os::fd::BorrowedFd};
use xdp::{
    CompletionRing, Packet, RingConfigBuilder, RxRing, Umem, WakableFillRing, WakableTxRing,
    nic::NicIndex,
    packet::PacketError,
    slab::{HeapSlab, Slab as _},
    socket::{XdpSocket, XdpSocketBuilder},
    umem::{FrameSize, UmemCfgBuilder},
};
use xdp_abi::{TAG_LEN, Tag};

/// Packets received in one go.
pub(crate) const BATCH: usize = 64;
/// Room before a received frame: its tag, and growth from IPv4 to IPv6 with a VLAN tag.
const HEADROOM: u32 = 64;
/// Kicks of the kernel in one turn at most; each moves up to 32 packets in copy mode.
const MAX_KICKS: usize = 16;

/// Why a socket could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum QueueError {
    /// No memory for the UMEM.
    #[error("cannot map {0} frames for packets: {1}")]
    Umem(u32, io::Error),
    /// A value that the library or kernel does not take.
    #[error("AF_XDP rings of {0} entries: {1}")]
    Rings(u32, xdp::error::Error),
    /// There is no device of that name here.
    #[error("no such device")]
    NoDevice,
    /// The socket could not be made or bound.
    #[error("AF_XDP socket: {0}")]
    Socket(#[from] xdp::error::SocketError),
}

/// How frames get from driver to socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CopyMode {
    ZeroCopy,
    Copy,
}

/// What of the interface a queue must know to send.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Link {
    pub(crate) mac: Mac,
    pub(crate) vlan: Option<u16>,
    pub(crate) mtu: usize,
}

/// The socket and its rings. Fields are dropped in order: the socket before the memory it uses.
pub(crate) struct Queue {
    socket: XdpSocket,
    rx: RxRing,
    tx: WakableTxRing,
    fill: WakableFillRing,
    completion: CompletionRing,
    /// Packets to send with the next flush.
    pending: HeapSlab,
    umem: Umem,
    pub(crate) link: Link,
    frames: usize,
    /// Frames in the fill ring or with the kernel for reception.
    filled: usize,
    /// Frames in the transmit ring or not yet completed.
    outstanding: usize,
    /// The kernel has not taken all descriptors yet: kick again.
    kick_needed: bool,
    ring_size: usize,
}

impl Queue {
    pub(crate) fn open(
        nic: NicIndex,
        queue: u32,
        ring_size: u32,
        mode: CopyMode,
        link: Link,
    ) -> Result<Self, QueueError> {
        // Receive and fill, transmit and completion: each ring may be full at the same time.
        let frames = ring_size * 4;
        let rings_error = |e| QueueError::Rings(ring_size, e);
        let config = UmemCfgBuilder {
            frame_size: FrameSize::TwoK,
            head_room: HEADROOM,
            frame_count: frames,
            ..Default::default()
        };
        let mut umem =
            Umem::map(config.build().map_err(rings_error)?).map_err(|e| QueueError::Umem(frames, e))?;
        let config = RingConfigBuilder {
            rx_count: ring_size,
            tx_count: ring_size,
            // Twice as deep as the receive ring, so that it never looks full while frames are wanted.
            fill_count: ring_size * 2,
            completion_count: ring_size,
        };
        let mut builder = XdpSocketBuilder::new()?;
        let (rings, mut flags) = builder.build_wakable_rings(&umem, config.build().map_err(rings_error)?)?;
        let mut fill = rings.fill_ring;
        // The fill ring holds frames before the bind: some drivers want to see them there.
        // SAFETY: the UMEM lives in the same struct as the socket and is dropped after it.
        let filled = unsafe { fill.enqueue(&mut umem, ring_size as usize, false) }
            .map_err(|e| QueueError::Umem(frames, e))?;
        match mode {
            CopyMode::ZeroCopy => flags.force_zerocopy(),
            CopyMode::Copy => flags.force_copy(),
        }
        let socket = builder.bind(nic, queue, flags)?;
        raise_send_buffer(&socket);
        let missing = || QueueError::Socket(xdp::error::SocketError::Bind(io::ErrorKind::InvalidData.into()));
        Ok(Self {
            rx: rings.rx_ring.ok_or_else(missing)?,
            tx: rings.tx_ring.ok_or_else(missing)?,
            fill,
            completion: rings.completion_ring,
            pending: HeapSlab::with_capacity(ring_size as usize),
            umem,
            socket,
            link,
            frames: frames as usize,
            filled,
            outstanding: 0,
            kick_needed: false,
            ring_size: ring_size as usize,
        })
    }

    pub(crate) fn raw_fd(&self) -> i32 {
        self.socket.raw_fd()
    }

    /// Receives a batch into an empty slab.
    pub(crate) fn receive(&mut self, batch: &mut HeapSlab) -> usize {
        // SAFETY: the packets are freed, sent or dropped with the worker before this UMEM is.
        let received = unsafe { self.rx.recv(&self.umem, batch) };
        self.filled -= received;
        received
    }

    /// Gives a packet's frame back.
    pub(crate) fn free(&mut self, packet: Packet) {
        self.umem.free_packet(packet);
    }

    /// Writes a datagram into a free frame and queues it; `false`: no frame or no room in the queue.
    pub(crate) fn send(&mut self, headers: &Headers, payload: &[u8], sum: Sum) -> bool {
        let start = frame::headers_len(headers);
        let Some(mut packet) = self.free_frame(start + payload.len()) else { return false };
        packet[start..].copy_from_slice(payload);
        frame::write(&mut packet, headers, payload.len(), sum);
        self.push(packet)
    }

    /// Copies a whole frame into a free one and queues it; `false`: no frame or no room in the queue.
    pub(crate) fn send_frame(&mut self, frame: &[u8]) -> bool {
        let Some(mut packet) = self.free_frame(frame.len()) else { return false };
        packet.copy_from_slice(frame);
        self.push(packet)
    }

    /// A free frame of a length, if there is one and room to queue it.
    #[inline]
    fn free_frame(&mut self, len: usize) -> Option<Packet> {
        if self.pending.available() == 0 {
            return None;
        }
        // SAFETY: as for received packets.
        let mut packet = unsafe { self.umem.alloc() }?;
        if packet.adjust_tail(len as i32).is_err() {
            self.umem.free_packet(packet);
            return None;
        }
        Some(packet)
    }

    /// Sends a received packet on with new headers, in its own frame. `start` is where its payload
    /// begins, `len` the payload's length.
    pub(crate) fn send_in_place(
        &mut self,
        mut packet: Packet,
        headers: &Headers,
        start: usize,
        len: usize,
        sum: Sum,
    ) -> bool {
        match rewrite(&mut packet, headers, start, len, sum) {
            Ok(()) => self.push(packet),
            Err(_) => {
                self.umem.free_packet(packet);
                false
            }
        }
    }

    pub(crate) fn push(&mut self, packet: Packet) -> bool {
        match self.pending.push_front(packet) {
            None => true,
            Some(packet) => {
                self.umem.free_packet(packet);
                false
            }
        }
    }

    /// Hands queued packets to the kernel, takes completed frames back and refills reception. Called
    /// on every turn, also when nothing was received or queued.
    pub(crate) fn flush(&mut self) {
        self.reclaim();
        if !self.pending.is_empty() {
            // SAFETY: as for received packets. The ring takes all or nothing of what is queued.
            let sent = unsafe { self.tx.send(&mut self.pending, false) }.unwrap_or(0);
            self.outstanding += sent;
            self.kick_needed |= sent > 0;
        }
        self.kick();
        self.refill();
    }

    /// Whether packets wait that the kernel has not taken.
    pub(crate) fn is_busy(&self) -> bool {
        self.kick_needed || !self.pending.is_empty()
    }

    fn kick(&mut self) {
        for _ in 0..MAX_KICKS {
            if !self.kick_needed {
                return;
            }
            match rustix::net::send(self.socket_fd(), &[], rustix::net::SendFlags::DONTWAIT) {
                Ok(_) => self.kick_needed = false,
                // 32 packets were moved, or completions must be taken first: again.
                Err(rustix::io::Errno::AGAIN | rustix::io::Errno::BUSY | rustix::io::Errno::NOBUFS) => {
                    self.reclaim();
                }
                // The interface is down or gone. The descriptors stay in the ring and leave with the
                // first kick that works; repeating this one would only keep the core busy.
                Err(_) => self.kick_needed = false,
            }
        }
    }

    fn reclaim(&mut self) {
        while self.outstanding > 0 {
            let done = self.completion.dequeue(&mut self.umem, BATCH);
            if done == 0 {
                return;
            }
            self.outstanding -= done;
        }
    }

    fn refill(&mut self) {
        while self.filled < self.ring_size {
            let wanted = (self.ring_size - self.filled).min(BATCH);
            // SAFETY: the UMEM lives in the same struct as the socket and is dropped after it.
            let added = unsafe { self.fill.enqueue(&mut self.umem, wanted, false) }.unwrap_or(0);
            if added == 0 {
                return;
            }
            self.filled += added;
        }
    }

    /// Packets that the kernel dropped because this socket had no frame or no room.
    pub(crate) fn kernel_drops(&self) -> u64 {
        self.socket.statistics().map_or(0, |s| s.rx_dropped + s.rx_ring_full + s.rx_fill_ring_empty_descs)
    }

    /// Frames that are in no place where they could be, outside of a batch: always zero.
    pub(crate) fn frames_missing(&self) -> u64 {
        let found = self.umem.allocatable() + self.filled + self.outstanding + self.pending.len();
        self.frames.abs_diff(found) as u64
    }

    fn socket_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the descriptor belongs to `self.socket`, which outlives the borrow.
        unsafe { BorrowedFd::borrow_raw(self.socket.raw_fd()) }
    }
}

/// Receive queues that a device uses now; `None` where it does not say.
pub fn receive_queues(index: u32) -> Option<u32> {
    let queues = NicIndex::new(index).queue_counts().ok()?;
    Some(queues.rx_count().max(1))
}

/// Takes the tag from before the frame, and wipes it, so that the next packet in this frame cannot
/// inherit it.
pub(crate) fn take_tag(packet: &mut Packet) -> Option<Tag> {
    packet.adjust_head(-(TAG_LEN as i32)).ok()?;
    let tag = packet.first_chunk::<TAG_LEN>().and_then(Tag::from_bytes);
    packet[..2].fill(0);
    packet.adjust_head(TAG_LEN as i32).ok()?;
    tag
}

fn rewrite(
    packet: &mut Packet,
    headers: &Headers,
    start: usize,
    len: usize,
    sum: Sum,
) -> Result<(), PacketError> {
    // Trailing padding goes; the payload stays where it is and the headers end where it starts.
    packet.adjust_tail((start + len) as i32 - packet.len() as i32)?;
    packet.adjust_head(start as i32 - frame::headers_len(headers) as i32)?;
    frame::write(packet, headers, len, sum);
    Ok(())
}

/// The kernel allows few copied packets in flight with the default send buffer.
fn raise_send_buffer(socket: &XdpSocket) {
    // SAFETY: the descriptor is open for the length of this call.
    let fd = unsafe { BorrowedFd::borrow_raw(socket.raw_fd()) };
    let _ = rustix::net::sockopt::set_socket_send_buffer_size(fd, 4 << 20);
}
