//! Many calls with media at one time, each packet accounted for.
//!
//! All callers share one socket for media, and so do all callees, which send back what they get: the
//! node's ports alone tell the calls apart. A packet carries the number of its call and its own, so that
//! one that takes a wrong way comes back by a port that is not its call's.

use crate::{
    TwoRegions,
    ends::{Dialog, Ends, bind},
    rtp, two_regions,
};
use anyhow::{Context as _, Result, ensure};
use std::{
    collections::HashMap,
    net::{SocketAddr, UdpSocket},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

/// Time between two packets of a call, each way.
const FRAME: Duration = Duration::from_millis(20);
/// Packets sent in one go.
const GROUP: usize = 20;

/// What became of all packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// Packets that the callers sent.
    pub sent: u64,
    /// Packets that came back, each counted once.
    pub back: u64,
    /// Packets that came back by another call's port, changed, or a second time.
    pub wrong: u64,
    /// Memory of the node after the first and after the last second, in KiB.
    pub memory: [u64; 2],
}

/// Places calls, sends on all of them for a time, and hangs up. Peer a1 must be free; the node runs.
///
/// # Errors
/// A call is not answered, or a socket fails.
pub fn run(lab: &TwoRegions, calls: usize, length: Duration) -> Result<Account> {
    let done = AtomicBool::new(false);
    // Open before the first call comes.
    let callee = lab.region('A').enter(|| bind(ENDS.callee))??;
    thread::scope(|scope| {
        let answering = scope.spawn(|| ENDS.answer(&callee, &done));
        let echoing = scope.spawn(|| lab.region('A').enter(|| echo(&done))?);
        let account = lab.carrier.enter(|| talk(lab, calls, length));
        done.store(true, Ordering::Relaxed);
        for thread in [answering, echoing] {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        }
        account?
    })
}

/// A caller of the carrier, and peer a1 as the callee.
pub(crate) const ENDS: Ends = Ends {
    caller: "192.0.2.10:5070",
    caller_media: "192.0.2.10:4000",
    callee: "198.51.100.11:5060",
    callee_media: "198.51.100.11:6000",
    node: two_regions::NODE,
};

/// The callees' media: back to where it came from.
fn echo(done: &AtomicBool) -> Result<()> {
    let socket = bind(ENDS.callee_media)?;
    let mut buffer = [0; 2048];
    while !done.load(Ordering::Relaxed) {
        if let Ok((len, from)) = socket.recv_from(&mut buffer) {
            socket.send_to(&buffer[..len], from)?;
        }
    }
    Ok(())
}

fn talk(lab: &TwoRegions, calls: usize, length: Duration) -> Result<Account> {
    let (signalling, media) = (bind(ENDS.caller)?, bind(ENDS.caller_media)?);
    let dialogs = ENDS.place(&signalling, calls)?;
    let by_port: HashMap<SocketAddr, usize> = dialogs.iter().enumerate().map(|(n, d)| (d.media, n)).collect();
    ensure!(by_port.len() == calls, "{} ports for {calls} calls", by_port.len());
    let memory = || -> Result<u64> {
        let all = lab.running().threads("VmRSS")?;
        let text = all.first().context("a thread")?.1.trim_end_matches("kB").trim().to_owned();
        Ok(text.parse()?)
    };
    let steps = (length.as_millis() / FRAME.as_millis()) as u32;
    let receiver = media.try_clone()?;
    let over = AtomicBool::new(false);
    let (sent, first, (back, wrong)) = thread::scope(|scope| -> Result<_> {
        let listening = scope.spawn(|| listen(&receiver, &by_port, steps, &over));
        let (sent, first) = send(&media, &dialogs, steps, &memory)?;
        thread::sleep(Duration::from_millis(500));
        over.store(true, Ordering::Relaxed);
        Ok((sent, first, listening.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))))
    })?;
    let memory = [first, memory()?];
    ENDS.hang_up(&signalling, &dialogs)?;
    Ok(Account { sent, back, wrong, memory })
}

/// Spreads the calls' packets over each frame; how many were sent, and the node's memory after a second.
fn send(
    media: &UdpSocket,
    dialogs: &[Dialog],
    steps: u32,
    memory: &dyn Fn() -> Result<u64>,
) -> Result<(u64, u64)> {
    let start = Instant::now();
    let (mut sent, mut first) = (0, 0);
    for step in 0..steps {
        for (n, dialog) in dialogs.iter().enumerate() {
            if n % GROUP == 0 {
                let due = start + FRAME * step + FRAME * n as u32 / dialogs.len() as u32;
                thread::sleep(due.saturating_duration_since(Instant::now()));
            }
            media.send_to(&packet(n as u32, step), dialog.media)?;
            sent += 1;
        }
        if step == 50 {
            first = memory()?;
        }
    }
    Ok((sent, first))
}

/// RTP with the numbers of its call and of itself.
fn packet(call: u32, step: u32) -> Vec<u8> {
    let mut packet = rtp::packet(step);
    packet[8..12].copy_from_slice(&call.to_be_bytes());
    packet
}

/// Takes in what comes back: how many packets that were due, and how many that were not.
fn listen(
    media: &UdpSocket,
    by_port: &HashMap<SocketAddr, usize>,
    steps: u32,
    over: &AtomicBool,
) -> (u64, u64) {
    let mut seen = vec![false; by_port.len() * steps as usize];
    let (mut back, mut wrong) = (0, 0);
    let mut buffer = [0; 2048];
    while !over.load(Ordering::Relaxed) {
        let Ok((len, from)) = media.recv_from(&mut buffer) else { continue };
        let word =
            |at: usize| u32::from_be_bytes([buffer[at], buffer[at + 1], buffer[at + 2], buffer[at + 3]]);
        let (call, step) = (word(8), word(12));
        let is_due = len > 16
            && by_port.get(&from) == Some(&(call as usize))
            && step < steps
            && buffer[..len] == packet(call, step)[..];
        let first =
            is_due && !std::mem::replace(&mut seen[call as usize * steps as usize + step as usize], true);
        if first { back += 1 } else { wrong += 1 }
    }
    (back, wrong)
}
