//! The engine's state and its entrances: a SIP datagram, a media packet, a probe, a timer, a new table.

use crate::{
    agenda::{Agenda, Due},
    calls::MediaCall,
    context::{Context, Contexts, current},
    journal::{Journal, Record},
    keys::{KeyMap, Keys},
    probe::Probe,
    report::{Counter, Outbox, Tally},
    rng::Rng,
    settled::Settled,
    token::TokenKey,
    turn::Turn,
    waiting::Waiting,
};
use alloc::vec::Vec;
use core::{
    net::{IpAddr, SocketAddr},
    ops::RangeInclusive,
    time::Duration,
};
use media::{Refusal, Relay, Streams};
use packet::DropReason;
use routing::{ListenerId, PeerId, Table};
use sip::{
    Edits, HeaderName, Message, StartLine,
    message::ParseError,
    transaction::{Time, Timers},
};
use slab::Slab;

/// What an engine must know at its start.
#[derive(Clone, Debug)]
pub struct Config {
    /// Index of its worker.
    pub worker: u8,
    /// Number of workers.
    pub workers: u8,
    /// Random keys, the same for all workers.
    pub seeds: [u64; 4],
    /// Key of the Record-Route cookies, the same for all workers and after a restart.
    pub token_key: TokenKey,
    /// Random seed of this worker.
    pub rng_seed: u64,
    /// SIP timers.
    pub timers: Timers,
    /// Most transactions at one time; beyond them new requests get 503.
    pub max_transactions: usize,
    /// Media.
    pub media: MediaConfig,
}

/// How media is anchored.
#[derive(Clone, Debug)]
pub struct MediaConfig {
    /// Ports and sources.
    pub settings: media::relay::Settings,
    /// Silence in both directions that ends a call's media.
    pub timeout: Duration,
    /// The same for a call on hold.
    pub hold_timeout: Duration,
    /// Descriptions that offer ICE are left alone, and their media with them; else ICE is taken out.
    pub keep_ice: bool,
    /// Descriptions that cannot be read pass; else they are refused with 488.
    pub pass_broken: bool,
}

impl MediaConfig {
    /// With defaults, for these ports and media addresses.
    pub fn new(ports: RangeInclusive<u16>, addresses: Vec<IpAddr>) -> Self {
        Self {
            settings: media::relay::Settings {
                ports,
                addresses,
                rest: Duration::from_secs(5),
                learning: Duration::from_millis(500),
                strict: false,
                seed: 1,
                on_memory: |_, _| {},
            },
            timeout: Duration::from_secs(60),
            hold_timeout: Duration::from_secs(3600),
            keep_ice: false,
            pass_broken: false,
        }
    }
}

/// A SIP datagram.
#[derive(Clone, Copy, Debug)]
pub struct Incoming<'a> {
    /// Listener that it arrived at.
    pub listener: ListenerId,
    /// The listener's address.
    pub local: SocketAddr,
    /// Its sender.
    pub remote: SocketAddr,
    /// Its bytes.
    pub datagram: &'a [u8],
}

/// What became of a SIP datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disposition {
    /// Handled or dropped here.
    Done,
    /// The call belongs to this worker.
    BelongsTo(u8),
}

/// A client transaction, found by the slot in its branch.
pub(crate) enum ClientSlot {
    Attempt { context: usize, serial: u32, nonce: u32 },
    Probe(Probe),
}

/// Transactions, dialogs and media of one worker's calls.
pub struct Engine {
    pub(crate) config: Config,
    pub(crate) keys: Keys,
    pub(crate) rng: Rng,
    pub(crate) contexts: Contexts,
    /// Server transactions.
    pub(crate) by_key: KeyMap<usize>,
    /// Requests outside dialogs that are worked on, by what makes them the same request.
    pub(crate) by_merge: KeyMap<usize>,
    pub(crate) clients: Slab<ClientSlot>,
    /// Calls whose media runs through this node.
    pub(crate) calls: KeyMap<MediaCall>,
    pub(crate) streams: Streams,
    pub(crate) agenda: Agenda,
    pub(crate) serial: u32,
    pub(crate) journal: Journal,
    pub(crate) waiting: Waiting,
    /// Contexts that make room when there is none.
    settled: Settled,
    /// Scratch space, kept between messages.
    pub(crate) edits: Edits,
    pub(crate) buffer: Vec<u8>,
    /// What was counted.
    pub tally: Tally,
}

impl Engine {
    /// An engine without calls.
    pub fn new(config: Config) -> Self {
        // All the room that there may be, at once: a table that grows under load copies itself while calls wait.
        // Memory is taken only where it is used.
        let most = config.max_transactions;
        Self {
            keys: Keys::new(config.seeds),
            rng: Rng::new(config.rng_seed),
            contexts: Slab::with_capacity(most),
            by_key: KeyMap::with_capacity_and_hasher(most, Default::default()),
            by_merge: KeyMap::with_capacity_and_hasher(most, Default::default()),
            clients: Slab::with_capacity(most),
            calls: KeyMap::default(),
            streams: Streams::new(&config.media.settings),
            agenda: Agenda::default(),
            serial: 0,
            journal: Journal::default(),
            waiting: Waiting::default(),
            settled: Settled::default(),
            edits: Edits::new(),
            buffer: Vec::new(),
            tally: Tally::default(),
            config,
        }
    }

    /// A SIP datagram arrived.
    pub fn on_sip(
        &mut self,
        now: Time,
        incoming: &Incoming<'_>,
        table: &Table,
        out: &mut dyn Outbox,
    ) -> Disposition {
        let mut message = Message::unread(incoming.datagram);
        if let Err(error) = message.read() {
            self.tally.drop(match error {
                ParseError::KeepAlive => DropReason::SipKeepAlive,
                ParseError::NotSip => DropReason::SipNotSip,
            });
            return Disposition::Done;
        }
        let call_id = message.value(HeaderName::CallId);
        let call = self.keys.call(call_id.unwrap_or_default());
        let owner = Keys::owner(call, self.config.workers);
        if call_id.is_some() && owner != self.config.worker {
            return Disposition::BelongsTo(owner);
        }
        self.tally.count(Counter::SipReceived);
        match message.start {
            StartLine::Request { .. } => {
                self.on_request(incoming, &message, call, &mut Turn { now, table, out })
            }
            StartLine::Response { status } => {
                self.on_response(&message, status, &mut Turn { now, table, out })
            }
        }
        Disposition::Done
    }

    /// A media packet from `source` arrived at a local address.
    ///
    /// # Errors
    /// The reason to drop it; the caller counts it.
    #[inline(always)]
    pub fn on_media(
        &mut self,
        now: Time,
        local: SocketAddr,
        source: SocketAddr,
        packet: &[u8],
    ) -> Result<Relay, DropReason> {
        let relayed = self.streams.relay(now, local, source, packet);
        let (relay, class) = relayed.map_err(|refusal| match refusal {
            Refusal::NoSession => DropReason::MediaNoSession,
            Refusal::WrongSource => DropReason::MediaWrongSource,
            Refusal::NoDestination => DropReason::MediaNoDestination,
            Refusal::Malformed => DropReason::MediaMalformed,
            Refusal::KeepAlive => DropReason::MediaKeepAlive,
        })?;
        self.tally.count(Counter::MediaRelayed);
        self.tally.media.relayed(class, packet.len());
        Ok(relay)
    }

    /// Where in memory what [`Engine::on_media`] needs for a local address lies.
    #[inline]
    pub fn place_of_media(&self, local: SocketAddr) -> Option<*const u8> {
        self.streams.place_of(local)
    }

    /// Where in memory the record of the next new call will lie: its first [`RECORD_HEAD`] bytes are written.
    ///
    /// [`RECORD_HEAD`]: crate::journal::RECORD_HEAD
    #[inline]
    pub fn place_of_record(&self) -> Option<*const u8> {
        self.journal.place_of_next()
    }

    /// Handles everything that is due.
    pub fn on_timer(&mut self, now: Time, table: &Table, out: &mut dyn Outbox) {
        let turn = &mut Turn { now, table, out };
        while let Some(due) = self.agenda.pop(now) {
            match due {
                Due::Context(id, serial) => self.on_context_due(id as usize, serial, turn),
                Due::Call(key) => self.on_call_due(key, turn),
                Due::Probe(slot, nonce) => self.on_probe_due(slot, nonce, turn),
            }
        }
    }

    /// When to call [`Engine::on_timer`] next.
    pub fn next_deadline(&self) -> Option<Time> {
        self.agenda.next_deadline()
    }

    /// What became of a call: the records of a Call-ID, oldest first.
    pub fn explain(&self, call_id: &[u8]) -> Vec<Record> {
        self.journal.of_call(call_id)
    }

    /// Records of the latest calls, oldest first.
    pub fn latest_calls(&self, count: usize) -> Vec<Record> {
        self.journal.latest(count)
    }

    /// Transactions that exist.
    pub fn transactions(&self) -> usize {
        self.contexts.len()
    }

    /// Media streams that exist.
    pub fn sessions(&self) -> usize {
        self.streams.len()
    }

    /// Pairs of media ports: in use, resting, and all.
    pub fn media_ports(&self) -> (usize, usize, usize) {
        self.streams.ports()
    }

    /// A new table is in force: calls that wait for a peer now known to be dead move on at once.
    pub fn on_table(&mut self, now: Time, table: &Table, out: &mut dyn Outbox) {
        self.tally.peers.resize(table.peers.len().max(self.tally.peers.len()), Default::default());
        let turn = &mut Turn { now, table, out };
        let dead = (0u16..).map(PeerId).zip(&table.peers).filter(|(_, p)| p.is_dead());
        for (peer, _) in dead {
            for (id, serial) in self.waiting.take(peer) {
                if current(&self.contexts, id as usize, serial).is_some_and(|c| c.waits_for_dead_peer(table))
                {
                    self.with_context(id as usize, turn, |engine, context, turn| {
                        engine.leave_dead_peers(context, turn);
                    });
                }
            }
        }
    }

    /// Takes a context out, lets it be worked on, and puts it back with its next deadline queued, or
    /// forgets it when it is over.
    pub(crate) fn with_context<'t>(
        &mut self,
        id: usize,
        turn: &mut Turn<'t>,
        work: impl FnOnce(&mut Self, &mut Context, &mut Turn<'t>),
    ) {
        let Some(mut context) = self.contexts.get_mut(id).and_then(Option::take) else { return };
        work(self, &mut context, turn);
        if context.is_over() {
            return self.forget(id, &context, turn);
        }
        context.shrink();
        if !context.settled && context.has_settled() {
            context.settled = true;
            self.settled.add(turn.now, (id as u32, context.serial), &self.contexts);
        }
        self.queue(turn.now, id, &mut context);
        if let Some(slot) = self.contexts.get_mut(id) {
            *slot = Some(context);
        }
    }

    /// Whether there is room for one more context, if need be in the place of one that has long been answered.
    pub(crate) fn has_room(&mut self, turn: &mut Turn<'_>) -> bool {
        if self.contexts.len() < self.config.max_transactions {
            return true;
        }
        let Some(until) = turn.now.checked_sub(self.config.timers.t4) else { return false };
        let Some(id) = self.settled.take(until, &self.contexts) else { return false };
        if let Some(context) = self.contexts.get_mut(id).and_then(Option::take) {
            self.forget(id, &context, turn);
            self.tally.count(Counter::TransactionsCut);
        }
        true
    }

    fn queue(&mut self, now: Time, id: usize, context: &mut Context) {
        let Some(deadline) = context.next_deadline() else { return };
        let known = context.queued.is_some_and(|at| at > now && at <= deadline);
        if !known {
            context.queued = Some(deadline);
            self.agenda.add(deadline, Due::Context(id as u32, context.serial));
        }
    }

    fn forget(&mut self, id: usize, context: &Context, turn: &mut Turn<'_>) {
        self.forget_media(context, turn);
        for attempt in &context.attempts {
            self.clients.try_remove(attempt.slot as usize);
        }
        if self.by_key.get(&context.key) == Some(&id) {
            self.by_key.remove(&context.key);
        }
        if let Some(key) = context.merge_key
            && self.by_merge.get(&key) == Some(&id)
        {
            self.by_merge.remove(&key);
        }
        self.contexts.try_remove(id);
    }

    fn on_context_due(&mut self, id: usize, serial: u32, turn: &mut Turn<'_>) {
        if current(&self.contexts, id, serial).is_some() {
            self.with_context(id, turn, |engine, context, turn| engine.context_timers(context, turn));
        }
    }

    pub(crate) fn send(&mut self, turn: &mut Turn<'_>, from: SocketAddr, to: SocketAddr, message: &[u8]) {
        self.tally.count(Counter::SipSent);
        turn.out.send(from, to, message);
    }
}
