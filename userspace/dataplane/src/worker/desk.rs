//! Where a datagram is judged: SIP or media, mine or another worker's.

use crate::{
    backend::{Io, Outgoing},
    memory::{fetch, fetch_record},
    plan::PortSlices,
};
use exchange::{
    Exchange,
    errands::{Calls, Errand, Notice},
    snapshot::Reader,
    sources::AllowList,
};
use media::{PortPair, Relay};
use packet::{DropReason, checksum::Sum, frame};
use proxy::{Counter, Disposition, Engine, Incoming, Outbox, Report};
use routing::Table;
use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

/// A received datagram's surroundings.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// Local address it arrived at.
    pub local: SocketAddr,
    /// Its sender.
    pub remote: SocketAddr,
    /// DSCP and ECN.
    pub tos: u8,
    /// When the node first saw it: low 32 bits of the monotonic clock in nanoseconds.
    pub seen_at: u32,
    /// Whether the XDP program has looked its source up in the allow-list.
    pub checked: bool,
}

/// What becomes of a received datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing more: handled, handed over or dropped.
    Done,
    /// Send its payload on, unchanged, with this traffic class.
    Relay(Relay, u8),
}

/// The judgement of one worker.
pub struct Desk {
    worker: usize,
    engine: Engine,
    exchange: Arc<Exchange>,
    table_reader: Reader<Table>,
    /// The table of this turn.
    table: Arc<Table>,
    allow: Reader<AllowList>,
    ports: PortSlices,
    /// Traffic class of relayed packets, if not their own.
    media_tos: Option<u8>,
}

impl Desk {
    /// For a worker; `dscp` is that of relayed packets, if not their own.
    pub fn new(
        worker: usize,
        engine: Engine,
        exchange: Arc<Exchange>,
        ports: PortSlices,
        dscp: Option<u8>,
    ) -> Self {
        let mut table_reader = exchange.table.reader();
        let table = Arc::clone(table_reader.load());
        let allow = exchange.allow.reader();
        let media_tos = dscp.map(|dscp| dscp << 2);
        Self { worker, engine, exchange, table_reader, table, allow, ports, media_tos }
    }

    /// Starts a turn: takes up a new table, if one was published.
    pub fn begin(&mut self, now: Duration, io: &mut dyn Io) {
        let table = self.table_reader.load();
        if table.generation != self.table.generation {
            self.table = Arc::clone(table);
            self.exchange.boards[self.worker].add_publication(now.saturating_sub(self.table.changed_at));
            let mut out = Out { io, exchange: &self.exchange, allow: self.allow.load() };
            self.engine.on_table(now, &self.table, &mut out);
        }
    }

    /// Has what a frame's judgement will need fetched from memory.
    #[inline]
    pub fn foresee(&self, frame: &[u8]) {
        if let Some(place) =
            frame::peek_destination(frame).and_then(|local| self.engine.place_of_media(local))
        {
            fetch(place);
        }
    }

    /// Judges one datagram.
    #[inline(always)]
    pub fn process(&mut self, now: Duration, arrival: &Arrival, payload: &[u8], io: &mut dyn Io) -> Verdict {
        if !arrival.checked && !self.allow.load().allows(arrival.remote.ip()) {
            self.engine.tally.drop(DropReason::NotAllowed);
            return Verdict::Done;
        }
        match self.ports.owner(arrival.local.port()) {
            Some(owner) => self.media(now, owner, arrival, payload),
            None => {
                self.sip(now, arrival, payload, io);
                Verdict::Done
            }
        }
    }

    #[inline(always)]
    fn media(&mut self, now: Duration, owner: usize, arrival: &Arrival, payload: &[u8]) -> Verdict {
        if owner != self.worker {
            self.hand_over(owner, arrival, payload);
            return Verdict::Done;
        }
        match self.engine.on_media(now, arrival.local, arrival.remote, payload) {
            Ok(relay) => {
                // Congestion marks pass (RFC 3168 5.3).
                let tos = self.media_tos.map_or(arrival.tos, |tos| tos | arrival.tos & 3);
                Verdict::Relay(relay, tos)
            }
            Err(reason) => {
                self.engine.tally.drop(reason);
                Verdict::Done
            }
        }
    }

    fn sip(&mut self, now: Duration, arrival: &Arrival, datagram: &[u8], io: &mut dyn Io) {
        let Some(listener) = self.table.listener_at(arrival.local) else {
            return self.engine.tally.drop(DropReason::NoListener);
        };
        let incoming = Incoming { listener, local: arrival.local, remote: arrival.remote, datagram };
        let mut out = Out { io, exchange: &self.exchange, allow: self.allow.load() };
        match self.engine.on_sip(now, &incoming, &self.table, &mut out) {
            Disposition::Done => {
                if let Some(place) = self.engine.place_of_record() {
                    fetch_record(place);
                }
            }
            Disposition::BelongsTo(owner) => self.hand_over(usize::from(owner), arrival, datagram),
        }
    }

    fn hand_over(&mut self, owner: usize, arrival: &Arrival, payload: &[u8]) {
        let sent = self.exchange.handover.send(self.worker, owner, |parcel| {
            parcel.local = arrival.local;
            parcel.remote = arrival.remote;
            parcel.tos = arrival.tos;
            parcel.seen_at = arrival.seen_at;
            parcel.payload.clear();
            parcel.payload.extend_from_slice(payload);
        });
        if sent {
            self.engine.tally.count(Counter::HandedOver);
            self.exchange.errands[owner].bell.ring();
        } else {
            self.engine.tally.drop(DropReason::HandoverFull);
        }
    }

    /// Takes packets that other workers handed over, up to `limit` from each.
    pub fn receive_parcels(&mut self, now: Duration, limit: usize, io: &mut dyn Io) -> usize {
        let exchange = Arc::clone(&self.exchange);
        let mut received = 0;
        for from in 0..exchange.errands.len() {
            for _ in 0..limit {
                let took = exchange.handover.receive(from, self.worker, |parcel| {
                    let arrival = Arrival {
                        local: parcel.local,
                        remote: parcel.remote,
                        tos: parcel.tos,
                        seen_at: parcel.seen_at,
                        checked: true,
                    };
                    io.stamp(Some(parcel.seen_at));
                    if let Verdict::Relay(relay, tos) = self.process(now, &arrival, &parcel.payload, io) {
                        let sum = Sum::new().add_bytes(&parcel.payload);
                        io.send(&Outgoing {
                            from: relay.from,
                            to: relay.to,
                            payload: &parcel.payload,
                            sum,
                            tos,
                        });
                    }
                });
                if !took {
                    break;
                }
                received += 1;
            }
        }
        io.stamp(None);
        received
    }

    /// Runs errands of the control thread; `false`: it wants this worker to stop.
    pub fn run_errands(&mut self, now: Duration, io: &mut dyn Io) -> bool {
        while let Some(errand) = self.exchange.errands[self.worker].take() {
            match errand {
                Errand::Probe { peer, timeout } => {
                    let mut out = Out { io, exchange: &self.exchange, allow: self.allow.load() };
                    self.engine.probe(now, peer, timeout, &self.table, &mut out);
                }
                Errand::Explain { question, calls } => {
                    let records = match calls {
                        Calls::Of(call_id) => self.engine.explain(&call_id),
                        Calls::Latest(count) => self.engine.latest_calls(count),
                    };
                    let worker = self.worker;
                    self.exchange.reports.send(Notice::Explained { question, worker, records });
                }
                Errand::Media { question, call_id, count } => {
                    let calls = self.engine.media_of(call_id.as_deref(), count);
                    let worker = self.worker;
                    self.exchange.reports.send(Notice::Media { question, worker, now, calls });
                }
                Errand::Unreachable { branch, to } => {
                    let mut out = Out { io, exchange: &self.exchange, allow: self.allow.load() };
                    self.engine.on_unreachable(now, branch, to, &self.table, &mut out);
                }
                Errand::Look => {}
                Errand::Stop => return false,
            }
        }
        true
    }

    /// Handles timers that are due.
    pub fn run_timers(&mut self, now: Duration, io: &mut dyn Io) {
        if self.engine.next_deadline().is_some_and(|at| at <= now) {
            let mut out = Out { io, exchange: &self.exchange, allow: self.allow.load() };
            self.engine.on_timer(now, &self.table, &mut out);
        }
    }

    /// Whether errands or handed-over packets wait.
    pub fn has_work(&self) -> bool {
        !self.exchange.errands[self.worker].is_empty() || !self.exchange.handover.is_empty(self.worker)
    }

    /// The engine.
    pub fn engine(&mut self) -> &mut Engine {
        &mut self.engine
    }

    /// Generation of the table in use.
    pub fn table_generation(&self) -> u32 {
        self.table.generation
    }
}

/// The engine's way out.
struct Out<'a> {
    io: &'a mut dyn Io,
    exchange: &'a Exchange,
    allow: &'a AllowList,
}

impl Outbox for Out<'_> {
    fn send(&mut self, from: SocketAddr, to: SocketAddr, message: &[u8]) {
        let sum = Sum::new().add_bytes(message);
        self.io.send(&Outgoing { from, to, payload: message, sum, tos: SIP_TOS });
    }

    fn may_reach(&mut self, address: IpAddr) -> bool {
        self.allow.allows(address)
    }

    fn report(&mut self, report: Report) {
        self.exchange.reports.send(Notice::Peer(report));
    }

    fn media_ports(&mut self, in_use: bool, address: IpAddr, ports: PortPair) {
        self.io.media_ports(in_use, address, ports);
    }
}

/// Signalling is marked CS3 (RFC 4594 section 3).
const SIP_TOS: u8 = 24 << 2;
