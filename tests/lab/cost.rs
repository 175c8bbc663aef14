//! What a statelessly forwarded SIP message costs a worker, beside a bare pass of a datagram of the same
//! size through the same AF_XDP sockets in the same run.
//!
//! Measured is the processor time of the worker's thread, system calls included, per packet: unlike a
//! rate it does not depend on how much of the machine the sender leaves. The bare pass is the relay of a
//! media packet, which reads no byte of the payload.

use crate::{
    StrowgerNode, TwoRegions,
    rate::{pace, while_answering},
    rtp::MediaCall,
    two_regions,
};
use anyhow::{Result, ensure};
use std::{
    net::{SocketAddr, UdpSocket},
    thread::sleep,
    time::Duration,
};

/// Size of all packets, as payload of UDP.
pub const SIZE: usize = 670;
const RATE: u64 = 60_000;
const LENGTH: Duration = Duration::from_secs(2);
const ROUNDS: usize = 3;

/// Nanoseconds of the worker's time per packet; the least of all rounds.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    /// A bare pass.
    pub pass: f64,
    /// A SIP message forwarded without state.
    pub forward: f64,
}

/// Beside the anchored service of the example, a stateless one on ports of its own.
fn config() -> String {
    two_regions::CONFIG.to_owned()
        + "\n[[listener]]\nname = \"bare\"\naddress = \"192.0.2.1:5062\"\nservice = \"bare\"\n\
           [[listener]]\nname = \"bare-core\"\naddress = \"198.18.0.1:5062\"\n\
           [[service]]\nname = \"bare\"\nlistener = \"bare-core\"\nstate = \"stateless\"\n\
           [service.probe]\npassive_fall = 0\nfall = 100\n\
           [[service.peer]]\nname = \"sink\"\naddress = \"198.51.100.11:5062\"\nregion = \"A\"\n"
}

/// Measures both.
///
/// # Errors
/// The laboratory cannot be set up, or packets get lost.
pub fn measure() -> Result<Cost> {
    let mut lab = TwoRegions::new(1)?;
    lab.start_node(&config())?;
    while_answering(&lab, || rounds(&lab))
}

fn rounds(lab: &TwoRegions) -> Result<Cost> {
    let node = lab.running();
    node.wait_for("a1", "HEALTHY", Duration::from_secs(10))?;
    let _sink = lab.region('A').enter(|| UdpSocket::bind("198.51.100.11:5062"))??;
    let call =
        lab.carrier.enter(|| MediaCall::place("192.0.2.10:0".parse()?, two_regions::NODE.parse()?, 1))??;
    let sip = lab.carrier.enter(|| UdpSocket::bind("192.0.2.10:5062"))??;
    let to: SocketAddr = "192.0.2.1:5062".parse()?;
    let (media, target) = call.media()?;
    let mut cost = Cost { pass: f64::INFINITY, forward: f64::INFINITY };
    for _ in 0..ROUNDS {
        let packet = [0x80; SIZE];
        let pass = per_packet(node, "media_relayed", || media.send_to(&packet, target).is_ok())?;
        let (mut invite, mut n) = (invite(), 0u32);
        let forward = per_packet(node, "stateless", || {
            n += 1;
            number(&mut invite, n);
            sip.send_to(&invite, to).is_ok()
        })?;
        cost = Cost { pass: cost.pass.min(pass), forward: cost.forward.min(forward) };
    }
    Ok(cost)
}

/// The worker's time for each packet of a burst, its idle time between them not counted.
fn per_packet(node: &StrowgerNode, counter: &str, send: impl FnMut() -> bool) -> Result<f64> {
    sleep(Duration::from_millis(300));
    let (time, count) = (node.workers_time()?, node.counter(counter));
    let (sent, _) = pace(RATE, LENGTH, send);
    sleep(Duration::from_millis(300));
    let (time, count) = (node.workers_time()? - time, node.counter(counter) - count);
    ensure!(count * 100 >= sent * 95, "{count} of {sent} packets passed: {counter}");
    Ok(time.as_nanos() as f64 / count as f64)
}

const BRANCH: &str = "z9hG4bK00000000";

fn invite() -> Vec<u8> {
    let text = |padding: usize| {
        format!(
            "INVITE sip:+4930123456@carrier.example.net SIP/2.0\r\nVia: SIP/2.0/UDP 192.0.2.10:5062;rport;branch={BRANCH}\r\n\
             Max-Forwards: 70\r\nFrom: <sip:+4989654321@carrier.example.net>;tag=1c2d3e\r\nTo: <sip:+4930123456@carrier.example.net>\r\n\
             Call-ID: 8f7e6d5c4b3a@192.0.2.10\r\nCSeq: 1 INVITE\r\nContact: <sip:+4989654321@192.0.2.10:5062>\r\n\
             User-Agent: {}\r\nContent-Length: 0\r\n\r\n",
            "u".repeat(padding)
        )
    };
    text(SIZE.saturating_sub(text(0).len())).into_bytes()
}

/// Makes the request another one.
fn number(invite: &mut [u8], n: u32) {
    let at = invite.windows(7).position(|w| w == b"z9hG4bK").unwrap_or_default() + 7;
    invite[at..at + 8].copy_from_slice(format!("{n:08x}").as_bytes());
}
