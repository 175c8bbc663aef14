//! AF_XDP: batches from the receive rings of this worker's queues, frames out by whichever of its
//! interfaces leads to the next hop.

use super::{Backend, Figures, Io, Outgoing};
use crate::{
    clock,
    memory::{fetch_frame, fetch_rest},
    queue::{BATCH, Queue, take_tag},
    slow_path::SlowPath,
    worker::{Arrival, Desk, Verdict},
};
use exchange::{Exchange, errands::Notice, neighbours::NextHop, neighbours::NextHops, snapshot::Reader};
use media::Relay;
use mio::unix::SourceFd;
use packet::{Datagram, DropReason, Headers, ethernet::Mac, frame};
use proxy::Counter;
use std::{
    collections::HashMap,
    io,
    net::{IpAddr, SocketAddr},
    os::fd::AsRawFd,
    sync::Arc,
    time::Duration,
};
use xdp::{
    Packet,
    slab::{HeapSlab, Slab as _},
};

/// Token of the first kernel listener; queues have their index.
const LISTENERS: usize = 1 << 16;
/// Largest datagram by the kernel.
const LARGEST: usize = 65_535;
/// How soon a missing next hop is asked for again.
const ASK_AGAIN: Duration = Duration::from_millis(250);
/// Addresses remembered as asked for.
const MAX_ASKED: usize = 4096;

/// The backend of one worker.
pub(crate) struct AfXdp {
    egress: Egress,
    batch: HeapSlab,
    /// The same packets, in the order of their arrival.
    packets: Vec<Packet>,
    /// Kernel listeners that this worker reads; only one worker does.
    reads_listeners: bool,
    ready_listeners: Vec<usize>,
    buffer: Box<[u8]>,
}

// SAFETY: the packets in the batch and in the queues point into UMEMs that the same value owns, so
// all of them move to another thread together; nothing else holds a pointer into them.
unsafe impl Send for AfXdp {}

/// How a packet leaves.
#[derive(Clone, Copy)]
enum Route {
    /// By a queue of this worker, to this MAC address.
    Queue(usize, Mac),
    /// By an interface that this worker has no queue of.
    Kernel,
    /// The next hop is not known: by the kernel, which resolves it.
    Unresolved,
}

/// Everything needed to send.
struct Egress {
    queues: Vec<Queue>,
    /// Queue to send by, for every interface of the node.
    queue_of_interface: Vec<Option<usize>>,
    next_hops: Reader<NextHops>,
    exchange: Arc<Exchange>,
    slow_path: Arc<SlowPath>,
    asked: HashMap<IpAddr, Duration>,
    figures: Figures,
    seen_at: Option<u32>,
    /// Stamps of packets queued since the last flush.
    stamps: Vec<u32>,
}

impl AfXdp {
    pub(crate) fn new(
        queues: Vec<(usize, Queue)>,
        interfaces: usize,
        exchange: Arc<Exchange>,
        slow_path: Arc<SlowPath>,
        reads_listeners: bool,
    ) -> Self {
        let mut queue_of_interface = vec![None; interfaces];
        for (i, (interface, _)) in queues.iter().enumerate() {
            queue_of_interface[*interface].get_or_insert(i);
        }
        Self {
            egress: Egress {
                queues: queues.into_iter().map(|(_, queue)| queue).collect(),
                queue_of_interface,
                next_hops: exchange.next_hops.reader(),
                exchange,
                slow_path,
                asked: HashMap::new(),
                figures: Figures::default(),
                seen_at: None,
                stamps: Vec::with_capacity(BATCH * 64),
            },
            batch: HeapSlab::with_capacity(BATCH),
            packets: Vec::with_capacity(BATCH),
            reads_listeners,
            ready_listeners: Vec::new(),
            buffer: vec![0; LARGEST].into_boxed_slice(),
        }
    }

    fn receive_queue(&mut self, index: usize, desk: &mut Desk, now: Duration) -> usize {
        let received = self.egress.queues[index].receive(&mut self.batch);
        // In three steps, so that no packet waits for memory alone: all frames are asked for, then all that
        // they will need, and then each has its turn.
        while let Some(packet) = self.batch.pop_back() {
            fetch_frame(&packet);
            self.packets.push(packet);
        }
        self.packets.iter().for_each(|packet| desk.foresee(packet));
        let mut packets = self.packets.drain(..);
        while let Some(packet) = packets.next() {
            packets.as_slice().first().inspect(|next| fetch_rest(next));
            self.egress.process(index, packet, desk, now);
        }
        drop(packets);
        self.egress.seen_at = None;
        received
    }

    /// Reads the kernel listeners that are ready; one that has more stays in the list.
    fn receive_listeners(&mut self, desk: &mut Desk, now: Duration) -> usize {
        let mut received = 0;
        for i in std::mem::take(&mut self.ready_listeners) {
            let slow_path = Arc::clone(&self.egress.slow_path);
            let Some(listener) = slow_path.listeners.get(i) else { continue };
            for n in 0..=BATCH {
                if n == BATCH {
                    self.ready_listeners.push(i);
                    break;
                }
                let Ok((len, remote)) = listener.socket.recv_from(&mut self.buffer) else { break };
                received += 1;
                self.egress.figures.tally.count(Counter::SlowPathReceived);
                let arrival = Arrival {
                    local: listener.address,
                    remote,
                    tos: 0,
                    seen_at: clock::stamp(now),
                    checked: false,
                };
                self.egress.seen_at = None;
                desk.process(now, &arrival, &self.buffer[..len], &mut self.egress);
            }
        }
        received
    }
}

impl Egress {
    /// One packet from the ring: read it, have it judged, and send, drop or free it.
    fn process(&mut self, index: usize, mut packet: Packet, desk: &mut Desk, now: Duration) {
        let tag = take_tag(&mut packet);
        let parsed =
            if packet.is_continued() { Err(DropReason::FrameContinued) } else { frame::parse(&packet) };
        let datagram = match parsed {
            Ok(datagram) => datagram,
            Err(reason) => {
                self.figures.drop(reason);
                return self.queues[index].free(packet);
            }
        };
        if datagram.partial_checksum {
            self.figures.tally.count(Counter::ChecksumPartial);
        }
        let seen_at = tag.map_or_else(|| clock::stamp(now), |t| t.seen_at);
        self.seen_at = Some(seen_at);
        let arrival = Arrival {
            local: datagram.destination,
            remote: datagram.source,
            tos: datagram.tos,
            seen_at,
            // The program has looked up the allow-list for every packet that it tagged.
            checked: tag.is_some(),
        };
        match desk.process(now, &arrival, &packet[datagram.payload.clone()], self) {
            Verdict::Done => self.queues[index].free(packet),
            Verdict::Relay(relay, tos) => self.relay(index, packet, &datagram, (relay, tos)),
        }
    }

    /// Sends a media packet on: in its own frame where it leaves by the queue that it came from.
    fn relay(&mut self, index: usize, packet: Packet, datagram: &Datagram, (relay, tos): (Relay, u8)) {
        let route = self.route(relay.to.ip());
        let payload = datagram.payload.clone();
        if let Route::Queue(queue, mac) = route
            && queue == index
        {
            let headers = self.headers(index, mac, relay.from, relay.to, tos);
            let (start, len, sum) = (payload.start, payload.len(), datagram.payload_sum);
            if !self.queues[index].send_in_place(packet, &headers, start, len, sum) {
                return self.figures.drop(DropReason::TxRingFull);
            }
            return self.note_sent();
        }
        let outgoing = Outgoing {
            from: relay.from,
            to: relay.to,
            payload: &packet[payload],
            sum: datagram.payload_sum,
            tos,
        };
        self.send_by(route, &outgoing);
        self.queues[index].free(packet);
    }

    fn route(&mut self, to: IpAddr) -> Route {
        let Some(NextHop { interface, mac }) = self.next_hops.load().get(to) else {
            return Route::Unresolved;
        };
        let queue = self.queue_of_interface.get(usize::from(interface)).copied().flatten();
        queue.map_or(Route::Kernel, |queue| Route::Queue(queue, mac))
    }

    fn send_by(&mut self, route: Route, outgoing: &Outgoing<'_>) {
        let (queue, mac) = match route {
            Route::Queue(queue, mac) => (queue, mac),
            Route::Kernel => return self.send_slow(outgoing),
            Route::Unresolved => {
                self.ask(outgoing.to.ip());
                return self.send_slow(outgoing);
            }
        };
        let headers = self.headers(queue, mac, outgoing.from, outgoing.to, outgoing.tos);
        let ip_len = frame::headers_len(&headers) - packet::ethernet::LEN + outgoing.payload.len();
        if ip_len > self.queues[queue].link.mtu {
            return self.send_slow(outgoing);
        }
        if self.queues[queue].send(&headers, outgoing.payload, outgoing.sum) {
            self.note_sent();
        } else {
            self.figures.drop(DropReason::NoFrame);
        }
    }

    fn headers(
        &self,
        queue: usize,
        destination_mac: Mac,
        source: SocketAddr,
        destination: SocketAddr,
        tos: u8,
    ) -> Headers {
        let link = self.queues[queue].link;
        Headers { destination_mac, source_mac: link.mac, vlan: link.vlan, source, destination, tos }
    }

    fn note_sent(&mut self) {
        if let Some(seen_at) = self.seen_at
            && self.stamps.len() < self.stamps.capacity()
        {
            self.stamps.push(seen_at);
        }
    }

    #[cold]
    fn send_slow(&mut self, outgoing: &Outgoing<'_>) {
        let headers = Headers {
            destination_mac: Mac::default(),
            source_mac: Mac::default(),
            vlan: None,
            source: outgoing.from,
            destination: outgoing.to,
            tos: outgoing.tos,
        };
        if self.slow_path.send(&headers, outgoing.payload, outgoing.sum) {
            self.figures.tally.count(Counter::SlowPathSent);
        } else {
            self.figures.drop(DropReason::KernelSend);
        }
    }

    /// Has the control thread resolve an address; seldom for each, since every packet asks.
    #[cold]
    fn ask(&mut self, address: IpAddr) {
        let now = clock::monotonic();
        if self.asked.get(&address).is_some_and(|at| now < *at + ASK_AGAIN) {
            return;
        }
        if self.asked.len() >= MAX_ASKED {
            self.asked.clear();
        }
        self.asked.insert(address, now);
        self.exchange.reports.send(Notice::Unresolved(address));
    }
}

impl Io for Egress {
    fn send(&mut self, outgoing: &Outgoing<'_>) {
        let route = self.route(outgoing.to.ip());
        self.send_by(route, outgoing);
    }

    fn media_ports(&mut self, _in_use: bool, _address: IpAddr, _ports: media::PortPair) {}

    fn stamp(&mut self, seen_at: Option<u32>) {
        self.seen_at = seen_at;
    }

    fn figures(&mut self) -> &mut Figures {
        &mut self.figures
    }
}

impl Backend for AfXdp {
    fn io(&mut self) -> &mut dyn Io {
        &mut self.egress
    }

    fn receive(&mut self, desk: &mut Desk, now: Duration) -> usize {
        let mut received = 0;
        for index in 0..self.egress.queues.len() {
            received += self.receive_queue(index, desk, now);
        }
        if !self.ready_listeners.is_empty() {
            received += self.receive_listeners(desk, now);
        }
        received
    }

    fn flush(&mut self) {
        for queue in &mut self.egress.queues {
            queue.flush();
        }
        if self.egress.stamps.is_empty() {
            return;
        }
        let now = clock::stamp(clock::monotonic());
        for seen_at in self.egress.stamps.drain(..) {
            self.egress.figures.latency.saturating_record(u64::from(now.wrapping_sub(seen_at)));
        }
    }

    fn is_busy(&self) -> bool {
        !self.ready_listeners.is_empty() || self.egress.queues.iter().any(Queue::is_busy)
    }

    fn register(&mut self, registry: &mio::Registry) -> io::Result<()> {
        for (i, queue) in self.egress.queues.iter().enumerate() {
            registry.register(&mut SourceFd(&queue.raw_fd()), mio::Token(i), mio::Interest::READABLE)?;
        }
        if self.reads_listeners {
            for (i, listener) in self.egress.slow_path.listeners.iter().enumerate() {
                let fd = listener.socket.as_raw_fd();
                registry.register(&mut SourceFd(&fd), mio::Token(LISTENERS + i), mio::Interest::READABLE)?;
            }
        }
        Ok(())
    }

    fn on_ready(&mut self, token: mio::Token) {
        // Queues are looked at on every turn anyway.
        if let Some(listener) = token.0.checked_sub(LISTENERS)
            && !self.ready_listeners.contains(&listener)
        {
            self.ready_listeners.push(listener);
        }
    }

    fn frames_missing(&self) -> u64 {
        self.egress.queues.iter().map(Queue::frames_missing).sum()
    }

    fn kernel_drops(&self) -> u64 {
        self.egress.queues.iter().map(Queue::kernel_drops).sum()
    }
}
