//! The rate of media packets that one worker relays without loss, in the laboratory of two regions.
//!
//! A plain socket sends, paced, on one call; what arrives is counted by the far interface, so that no
//! receiving program limits the figure. Sender, kernel and worker share the machine's cores: the result
//! is a lower bound.

use crate::{Namespace, TwoRegions, process::eventually, rtp::MediaCall, two_regions};
use anyhow::{Context as _, Result};
use std::{
    net::{SocketAddr, UdpSocket},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

/// One step of the measurement.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// Packets a second that were wanted.
    pub wanted: u64,
    /// Packets a second that were sent.
    pub sent: f64,
    /// Packets sent that did not arrive.
    pub lost: u64,
}

/// Raises the rate until packets are lost twice, or the sender reaches its own limit.
///
/// # Errors
/// The laboratory cannot be set up.
pub fn measure(mut each: impl FnMut(&Step)) -> Result<()> {
    let mut lab = TwoRegions::new(1)?;
    lab.start_node(two_regions::CONFIG)?;
    while_answering(&lab, || steps(&lab, &mut each))
}

/// Measures something while peer a1 answers calls and takes their media.
pub(crate) fn while_answering<T>(lab: &TwoRegions, measure: impl FnOnce() -> Result<T>) -> Result<T> {
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let answering = scope.spawn(|| lab.region('A').enter(|| answer(&done)));
        let measured = measure();
        done.store(true, Ordering::Relaxed);
        answering.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))??;
        measured
    })
}

fn steps(lab: &TwoRegions, each: &mut impl FnMut(&Step)) -> Result<()> {
    let node = lab.node.as_ref().context("a node")?;
    node.wait_for("a1", "HEALTHY", Duration::from_secs(10))?;
    let local = "192.0.2.10:0".parse()?;
    let mut call = lab.carrier.enter(|| MediaCall::place(local, two_regions::NODE.parse()?, 1))??;
    let mut losses = 0;
    for wanted in (1..=16).map(|n| n * 25_000) {
        let before = arrived(lab.region('A'))?;
        let (sent, took) = call.blast(wanted, Duration::from_secs(2))?;
        eventually("packets settle", Duration::from_secs(1), || {
            arrived(lab.region('A')).is_ok_and(|n| n >= before + sent)
        })
        .ok();
        let lost = (before + sent).saturating_sub(arrived(lab.region('A'))?);
        let step = Step { wanted, sent: sent as f64 / took.as_secs_f64(), lost };
        each(&step);
        losses += u32::from(lost > 0);
        if losses == 2 || step.sent < wanted as f64 * 0.9 {
            break;
        }
    }
    Ok(())
}

/// Packets that a region's interface has received.
fn arrived(region: &Namespace) -> Result<u64> {
    let text = region.ip(&["-s", "-j", "link", "show", "dev", "eth"])?;
    let value: serde_json::Value = serde_json::from_str(&text)?;
    value[0]["stats64"]["rx"]["packets"].as_u64().context("no counter")
}

/// A peer that answers OPTIONS and INVITE with 200 and ignores all media.
fn answer(done: &AtomicBool) -> Result<()> {
    let own: SocketAddr = "198.51.100.11:5060".parse()?;
    let socket = UdpSocket::bind(own)?;
    let sink = UdpSocket::bind(SocketAddr::new(own.ip(), 0))?;
    let port = sink.local_addr()?.port();
    socket.set_read_timeout(Some(Duration::from_millis(100)))?;
    let mut buffer = [0; 4096];
    while !done.load(Ordering::Relaxed) {
        let Ok((len, from)) = socket.recv_from(&mut buffer) else { continue };
        let request = String::from_utf8_lossy(&buffer[..len]).into_owned();
        if request.starts_with("ACK") {
            continue;
        }
        let copied = |l: &&str| {
            ["Via:", "From:", "To:", "Call-ID:", "CSeq:", "Record-Route:"].iter().any(|n| l.starts_with(n))
        };
        let headers: Vec<_> = request.lines().filter(copied).collect();
        let sdp = format!(
            "v=0\r\no=s 1 1 IN IP4 {0}\r\ns=-\r\nc=IN IP4 {0}\r\nt=0 0\r\nm=audio {port} RTP/AVP 8\r\n",
            own.ip()
        );
        let response = format!(
            "SIP/2.0 200 OK\r\n{}\r\nContact: <sip:{own}>\r\nContent-Type: application/sdp\r\nContent-Length: {}\r\n\r\n{sdp}",
            headers.join("\r\n"),
            sdp.len()
        );
        socket.send_to(response.as_bytes(), from)?;
    }
    Ok(())
}

/// Sends `rate` packets a second by `send` for a time; how many, and how long it took.
pub(crate) fn pace(rate: u64, length: Duration, mut send: impl FnMut() -> bool) -> (u64, Duration) {
    const BURST: u64 = 32;
    let start = Instant::now();
    let total = rate * length.as_millis() as u64 / 1000;
    let mut sent = 0;
    for n in 0..total {
        if n.is_multiple_of(BURST) {
            let due = start + Duration::from_nanos(n * 1_000_000_000 / rate);
            while Instant::now() < due {
                std::hint::spin_loop();
            }
        }
        sent += u64::from(send());
        // A sender that cannot keep up is stopped, not left running.
        if start.elapsed() > length * 2 {
            break;
        }
    }
    (sent, start.elapsed())
}
