//! The limit of the rig: each frame goes back in its place, addresses swapped and nothing else done.

use super::{System, thread::Thread};
use crate::rig::{Flow, RING, Rig, SENDER, SYSTEM, address, socket};
use anyhow::Result;
use dataplane::port::{Fate, Port};
use std::{net::SocketAddr, time::Duration};
use xdp_abi::MediaRange;

/// Ports that come back.
const PORTS: MediaRange = MediaRange { first: 20_000, last: 39_999 };

/// A running echo.
pub struct Echo {
    thread: Thread,
    flows: usize,
}

impl Echo {
    /// Starts one on the system's end.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn start(rig: &Rig, flows: usize) -> Result<Self> {
        let steered = [(address(SYSTEM), PORTS)];
        let mut port = rig.system.enter(|| Port::open("wire", 1, &steered, RING))??;
        let thread = Thread::start("echo", move || {
            let received = port.receive(|frame| {
                back(frame);
                Fate::Back
            });
            port.flush();
            if received == 0 && !port.is_busy() {
                port.wait(Duration::from_millis(20));
            }
        })?;
        Ok(Self { thread, flows })
    }
}

impl System for Echo {
    fn flows(&self) -> Vec<Flow> {
        let system = address(SYSTEM);
        let to = |n: usize| SocketAddr::new(system, PORTS.first + (n % 20_000) as u16);
        (0..self.flows).map(|n| Flow { from: socket(SENDER), to: to(n) }).collect()
    }

    fn time(&self) -> Result<Duration> {
        self.thread.time()
    }

    fn has_memory(&self) -> bool {
        false
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
