//! Sends by the clock, and takes in what comes back.

use super::{
    account::Account,
    load::{Frames, Stamp},
};
use dataplane::{
    clock,
    port::{Fate, Port},
};
use packet::frame;
use std::time::Duration;

/// Packets sent in one go.
const BURST: u64 = 32;
/// How long the last packets are waited for.
const SETTLE: Duration = Duration::from_millis(200);
/// Longest backlog that is made up for after a pause of the generator itself.
const BACKLOG: u64 = 2048;

/// How long nothing must come before a system has done with what it got earlier, and how long that may take.
const QUIET: Duration = Duration::from_millis(50);
const PATIENCE: Duration = Duration::from_secs(3);

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

/// Sends at a rate for a time, flow after flow.
pub fn run(port: &mut Port, frames: &mut Frames, rate: f64, length: Duration) -> Account {
    drain(port);
    let flows = frames.flows();
    let mut account = Account::new(flows);
    let total = (rate * length.as_secs_f64()) as u64;
    let start = clock::monotonic();
    let nanos = |time: Duration| time.as_nanos() as u64;
    let mut next = 0u64;
    while next < total {
        let now = clock::monotonic();
        let due = ((now - start).as_secs_f64() * rate) as u64;
        // What the generator could not send in its time is not made up for without end.
        let skipped = due.saturating_sub(next).saturating_sub(BACKLOG);
        account.unsent += skipped;
        next += skipped;
        for _ in 0..due.saturating_sub(next).min(BURST).min(total - next.min(total)) {
            let (flow, number) = ((next % flows as u64) as u32, (next / flows as u64) as u32);
            let sent = port.send(frames.next(Stamp { flow, number, left_at: nanos(now) }));
            account.sent += u64::from(sent);
            account.unsent += u64::from(!sent);
            next += 1;
        }
        port.flush();
        take(port, frames, &mut account);
    }
    account.took = clock::monotonic() - start;
    let end = clock::monotonic() + SETTLE;
    while clock::monotonic() < end {
        port.flush();
        if take(port, frames, &mut account) == 0 {
            port.wait(Duration::from_millis(5));
        }
    }
    account
}

fn take(port: &mut Port, frames: &Frames, account: &mut Account) -> usize {
    let now = clock::monotonic().as_nanos() as u64;
    port.receive(|bytes| {
        let stamp = frame::parse(bytes).ok().and_then(|datagram| frames.read(&bytes[datagram.payload]));
        if let Some(stamp) = stamp {
            account.arrive(stamp.flow, stamp.number, now.saturating_sub(stamp.left_at));
        }
        Fate::Drop
    })
}
