//! Sends by the clock, and takes in what comes back.

use super::{
    account::Account,
    load::{Answers, Load},
};
use dataplane::{
    clock,
    port::{Fate, Port},
};
use std::time::Duration;

/// Packets sent in one go.
const BURST: u64 = 32;
/// Longest backlog that is made up for after a pause of the generator itself.
const BACKLOG: u64 = 2048;

/// How long nothing must come before a system has done with what it got earlier, and how long that may take.
const QUIET: Duration = Duration::from_millis(50);
const PATIENCE: Duration = Duration::from_secs(3);

/// One go at a rate.
#[derive(Clone, Copy, Debug)]
pub struct Trial {
    /// Packets, or whatever the load begins, a second.
    pub rate: f64,
    /// How long.
    pub length: Duration,
    /// How long what was begun last is waited for.
    pub settle: Duration,
}

impl Trial {
    /// Of packets that come back at once or never.
    pub fn new(rate: f64, length: Duration) -> Self {
        Self { rate, length, settle: Duration::from_millis(200) }
    }
}

/// Waits until a system has sent all that it still had.
fn drain(port: &mut Port) {
    let end = clock::monotonic() + PATIENCE;
    let mut quiet_at = clock::monotonic() + QUIET;
    while clock::monotonic() < quiet_at.min(end) {
        if port.receive(|_| Fate::Drop) > 0 {
            quiet_at = clock::monotonic() + QUIET;
        }
        port.flush();
        port.wait(Duration::from_millis(5));
    }
}

/// Sends at a rate for a time.
pub fn run(port: &mut Port, load: &mut dyn Load, answers: &mut Answers, trial: Trial) -> Account {
    drain(port);
    let mut account = Account::new(load.flows());
    let total = (trial.rate * trial.length.as_secs_f64()) as u64;
    let start = clock::monotonic();
    let mut next = 0u64;
    while next < total {
        let now = clock::monotonic();
        let due = ((now - start).as_secs_f64() * trial.rate) as u64;
        // What the generator could not send in its time is not made up for without end.
        let skipped = due.saturating_sub(next).saturating_sub(BACKLOG);
        account.unsent += skipped;
        next += skipped;
        for _ in 0..due.saturating_sub(next).min(BURST).min(total - next.min(total)) {
            let sent = port.send(next as usize, load.next(next, now.as_nanos() as u64));
            account.sent += u64::from(sent);
            account.unsent += u64::from(!sent);
            next += 1;
        }
        port.flush();
        take(port, load, answers, (start, &mut account));
    }
    account.took = clock::monotonic() - start;
    let end = clock::monotonic() + trial.settle;
    while clock::monotonic() < end {
        port.flush();
        if take(port, load, answers, (start, &mut account)) == 0 {
            port.wait(Duration::from_millis(5));
        }
    }
    account
}

/// Takes in what has come and sends the answers to it; the number of frames.
fn take(
    port: &mut Port,
    load: &mut dyn Load,
    answers: &mut Answers,
    (start, account): (Duration, &mut Account),
) -> usize {
    let nanos = |time: Duration| time.as_nanos() as u64;
    let (start, now) = (nanos(start), nanos(clock::monotonic()));
    let received = port.receive(|frame| {
        // What an earlier trial began may be repeated by the system for a long time.
        if let Some(stamp) = load.take(frame, answers).filter(|stamp| stamp.left_at >= start) {
            account.arrive(stamp.flow, stamp.number, now.saturating_sub(stamp.left_at));
        }
        Fate::Drop
    });
    for frame in answers.drain() {
        account.unanswered += u64::from(!port.send(0, frame));
    }
    received
}
