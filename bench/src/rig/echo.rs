//! The limit of the rig: each frame goes back in its place, addresses swapped and nothing else done.

use super::{Flow, RING, Rig, SENDER, SYSTEM, SYSTEM_CORE};
use anyhow::{Context as _, Result};
use dataplane::{
    pin,
    port::{Fate, Port},
};
use rustix::time::{ClockId, clock_gettime};
use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::JoinHandle,
    time::Duration,
};
use xdp_abi::MediaRange;

/// A running echo.
pub struct Echo {
    done: Arc<AtomicBool>,
    /// Processor time of its thread, in nanoseconds.
    time: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl Echo {
    /// Starts one on the system's end.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn start(rig: &Rig) -> Result<Self> {
        let steered = [(SYSTEM.parse()?, MediaRange { first: 20_000, last: 39_999 })];
        let mut port = rig.system.enter(|| Port::open("wire", &steered, RING))??;
        let (done, time) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (stop, clock) = (Arc::clone(&done), Arc::clone(&time));
        let work = move || {
            pin::pin(SYSTEM_CORE);
            while !stop.load(Ordering::Relaxed) {
                let received = port.receive(|frame| {
                    back(frame);
                    Fate::Back
                });
                port.flush();
                if received == 0 && !port.is_busy() {
                    port.wait(Duration::from_millis(20));
                    let now = clock_gettime(ClockId::ThreadCPUTime);
                    clock.store(now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64, Ordering::Relaxed);
                }
            }
        };
        let thread = std::thread::Builder::new().name("echo".to_owned()).spawn(work).context("a thread")?;
        Ok(Self { done, time, thread: Some(thread) })
    }

    /// Flows for it: what goes to its ports comes back to the sender.
    ///
    /// # Errors
    /// Never: the addresses are constants.
    pub fn flows(count: usize) -> Result<Vec<Flow>> {
        let from: SocketAddr = SENDER.parse()?;
        let to = |n: usize| -> Result<Flow> {
            Ok(Flow { from, to: SocketAddr::new(SYSTEM.parse()?, 20_000 + (n % 20_000) as u16) })
        };
        (0..count).map(to).collect()
    }

    /// Processor time of its thread so far.
    pub fn time(&self) -> Duration {
        Duration::from_nanos(self.time.load(Ordering::Relaxed))
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        self.done.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// MAC addresses, IPv4 addresses and UDP ports change sides; all checksums stay right.
fn back(frame: &mut [u8]) {
    let Some(head) = frame.first_chunk_mut::<42>() else { return };
    let (a, b) = head.split_at_mut(6);
    a.swap_with_slice(&mut b[..6]);
    let (a, b) = head.split_at_mut(30);
    a[26..30].swap_with_slice(&mut b[..4]);
    head.swap(34, 36);
    head.swap(35, 37);
}
