//! The limit of the rig: each frame goes back in its place, addresses swapped and nothing else done.

use super::{Flow, RING, Rig, SENDER, SYSTEM, thread::Thread};
use anyhow::Result;
use dataplane::port::{Fate, Port};
use std::{net::SocketAddr, time::Duration};
use xdp_abi::MediaRange;

/// Starts one on the system's end.
///
/// # Errors
/// The kernel refuses.
pub fn start(rig: &Rig) -> Result<Thread> {
    let steered = [(SYSTEM.parse()?, MediaRange { first: 20_000, last: 39_999 })];
    let mut port = rig.system.enter(|| Port::open("wire", &steered, RING))??;
    Thread::start("echo", move || {
        let received = port.receive(|frame| {
            back(frame);
            Fate::Back
        });
        port.flush();
        if received == 0 && !port.is_busy() {
            port.wait(Duration::from_millis(20));
        }
    })
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
