//! Packets at a rate, by plain sockets, through the laboratory of two regions.

use crate::TwoRegions;
use anyhow::Result;
use std::{
    net::{SocketAddr, UdpSocket},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

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
