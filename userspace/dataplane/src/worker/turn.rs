//! The loop: take up the newest table, receive, errands, timers, send; sleep when nothing is there.

use super::Desk;
use crate::{backend::Backend, clock};
use exchange::{Exchange, counters::Gauge};
use mio::{Events, Poll, Token, unix::SourceFd};
use std::{
    io,
    os::fd::{AsFd, AsRawFd},
    sync::Arc,
    time::Duration,
};

/// Token of the worker's bell.
const BELL: Token = Token(usize::MAX - 1);
/// Packets taken from each other worker in one turn.
const PARCELS: usize = 64;
/// How often figures are published and events looked for while the worker is too busy to sleep.
const HOUSEKEEPING: Duration = Duration::from_millis(1);
const LATENCY_EVERY: Duration = Duration::from_millis(100);
/// Longest sleep.
const MAX_SLEEP: Duration = Duration::from_millis(100);

/// Runs a worker until it is told to stop. When nothing has come for as long as `spin`, it sleeps.
///
/// # Errors
/// The kernel refuses to watch the worker's descriptors.
pub fn run<B: Backend>(
    worker: usize,
    mut desk: Desk,
    mut backend: B,
    exchange: &Arc<Exchange>,
    spin: Duration,
) -> io::Result<()> {
    let mut poll = Poll::new()?;
    let mut events = Events::with_capacity(1024);
    let bell = &exchange.errands[worker].bell;
    let bell_fd = bell.as_fd().as_raw_fd();
    poll.registry().register(&mut SourceFd(&bell_fd), BELL, mio::Interest::READABLE)?;
    backend.register(poll.registry())?;
    let mut books = Books::default();
    let mut awake_until = Duration::ZERO;
    loop {
        let now = clock::monotonic();
        desk.begin(now, backend.io());
        let mut work = backend.receive(&mut desk, now);
        work += desk.receive_parcels(now, PARCELS, backend.io());
        let go_on = desk.run_errands(now, backend.io());
        desk.run_timers(now, backend.io());
        backend.flush();
        books.turns += 1;
        if !go_on {
            books.publish(worker, now, &mut desk, &mut backend, exchange);
            return Ok(());
        }
        if work > 0 {
            awake_until = now + spin;
        }
        let timeout = if work > 0 || backend.is_busy() || now < awake_until {
            if now < books.next {
                continue;
            }
            Duration::ZERO
        } else {
            bell.lie_down();
            let due = desk.engine().next_deadline().map_or(MAX_SLEEP, |at| at.saturating_sub(now));
            if desk.has_work() { Duration::ZERO } else { due.min(MAX_SLEEP) }
        };
        books.publish(worker, now, &mut desk, &mut backend, exchange);
        match poll.poll(&mut events, Some(round_up(timeout))) {
            Ok(()) => {}
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
        bell.get_up();
        for event in events.iter().filter(|e| e.token() != BELL) {
            backend.on_ready(event.token());
        }
    }
}

/// To whole milliseconds, so that a deadline less than one away does not spin.
fn round_up(timeout: Duration) -> Duration {
    Duration::from_millis(timeout.as_micros().div_ceil(1000) as u64)
}

/// When what was last published.
#[derive(Default)]
struct Books {
    turns: u64,
    next: Duration,
    next_latency: Duration,
}

impl Books {
    fn publish<B: Backend>(
        &mut self,
        worker: usize,
        now: Duration,
        desk: &mut Desk,
        backend: &mut B,
        exchange: &Exchange,
    ) {
        self.next = now + HOUSEKEEPING;
        let board = &exchange.boards[worker];
        let engine = desk.engine();
        let figures = backend.io().figures();
        merge(&mut engine.tally, &mut figures.tally);
        board.publish(&mut engine.tally);
        board.set(Gauge::Transactions, engine.transactions() as u64);
        board.set(Gauge::Sessions, engine.sessions() as u64);
        let (in_use, resting, all) = engine.media_ports();
        board.set(Gauge::PortsInUse, in_use as u64);
        board.set(Gauge::PortsResting, resting as u64);
        board.set(Gauge::Ports, all as u64);
        board.set(Gauge::Turns, self.turns);
        board.set(Gauge::TableGeneration, desk.table_generation().into());
        if now >= self.next_latency {
            self.next_latency = now + LATENCY_EVERY;
            board.add_latency(&mut backend.io().figures().latency);
            board.set(Gauge::KernelDrops, backend.kernel_drops());
            board.set(Gauge::FramesMissing, backend.frames_missing());
        }
    }
}

/// Moves what a backend counted into the engine's tally.
fn merge(into: &mut proxy::Tally, from: &mut proxy::Tally) {
    into.counters.iter_mut().zip(&mut from.counters).for_each(|(to, from)| *to += std::mem::take(from));
    into.drops.iter_mut().zip(&mut from.drops).for_each(|(to, from)| *to += std::mem::take(from));
}
