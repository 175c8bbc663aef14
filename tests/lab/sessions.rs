//! Many calls with media at one time, each packet accounted for.
//!
//! All callers share one socket for media, and so do all callees, which send back what they get: the
//! node's ports alone tell the calls apart. A packet carries the number of its call and its own, so that
//! one that takes a wrong way comes back by a port that is not its call's.

use crate::{TwoRegions, rtp, two_regions};
use anyhow::{Context as _, Result, ensure};
use rustix::net::sockopt::set_socket_recv_buffer_size_force;
use std::{
    collections::HashMap,
    net::{SocketAddr, UdpSocket},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

/// Time between two packets of a call, each way.
const FRAME: Duration = Duration::from_millis(20);
/// Calls are set up at this distance, in groups.
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
    thread::scope(|scope| {
        let answering = scope.spawn(|| lab.region('A').enter(|| answer(&done)));
        let echoing = scope.spawn(|| lab.region('A').enter(|| echo(&done)));
        let account = lab.carrier.enter(|| talk(lab, calls, length));
        done.store(true, Ordering::Relaxed);
        for thread in [answering, echoing] {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))??;
        }
        account?
    })
}

const CALLER: &str = "192.0.2.10:5070";
const CALLER_MEDIA: &str = "192.0.2.10:4000";
const CALLEE: &str = "198.51.100.11:5060";
const CALLEE_MEDIA: &str = "198.51.100.11:6000";

fn bind(address: &str) -> Result<UdpSocket> {
    let socket = UdpSocket::bind(address).with_context(|| format!("binding {address}"))?;
    socket.set_read_timeout(Some(Duration::from_millis(50)))?;
    set_socket_recv_buffer_size_force(&socket, 64 << 20)?;
    Ok(socket)
}

fn sdp(media: &str) -> Result<String> {
    let media: SocketAddr = media.parse()?;
    Ok(crate::ua::sdp(media, 1, &format!("m=audio {} RTP/AVP 8\r\n", media.port())))
}

/// A callee for everybody: 200 to every request.
fn answer(done: &AtomicBool) -> Result<()> {
    let socket = bind(CALLEE)?;
    let body = sdp(CALLEE_MEDIA)?;
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
        let headers = headers.join("\r\n").replace("To: <sip:all>\r\n", "To: <sip:all>;tag=e\r\n");
        let answer = if request.starts_with("INVITE") { &body[..] } else { "" };
        let kind = if answer.is_empty() { "" } else { "Content-Type: application/sdp\r\n" };
        let response = format!(
            "SIP/2.0 200 OK\r\n{headers}\r\nContact: <sip:{CALLEE}>\r\n{kind}Content-Length: {}\r\n\r\n{answer}",
            answer.len()
        );
        socket.send_to(response.as_bytes(), from)?;
    }
    Ok(())
}

/// The callees' media: back to where it came from.
fn echo(done: &AtomicBool) -> Result<()> {
    let socket = bind(CALLEE_MEDIA)?;
    let mut buffer = [0; 2048];
    while !done.load(Ordering::Relaxed) {
        if let Ok((len, from)) = socket.recv_from(&mut buffer) {
            socket.send_to(&buffer[..len], from)?;
        }
    }
    Ok(())
}

fn talk(lab: &TwoRegions, calls: usize, length: Duration) -> Result<Account> {
    let (signalling, media) = (bind(CALLER)?, bind(CALLER_MEDIA)?);
    let dialogs = set_up(&signalling, calls)?;
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
    hang_up(&signalling, &dialogs)?;
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

/// One call.
struct Dialog {
    number: usize,
    media: SocketAddr,
    routes: String,
}

fn request(method: &str, number: usize, cseq: u32, (routes, tag): (&str, &str), body: &str) -> String {
    let kind = if body.is_empty() { "" } else { "Content-Type: application/sdp\r\n" };
    let target = if routes.is_empty() { two_regions::NODE } else { CALLEE };
    format!(
        "{method} sip:{target} SIP/2.0\r\nVia: SIP/2.0/UDP {CALLER};branch=z9hG4bKs{number}-{cseq}{method}\r\n{routes}From: <sip:{CALLER}>;tag=s{number}\r\n\
         To: <sip:all>{tag}\r\nCall-ID: session-{number}\r\nCSeq: {cseq} {method}\r\nContact: <sip:{CALLER}>\r\nMax-Forwards: 70\r\n{kind}Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// Sends requests in groups and waits for their answers, by number.
fn exchange(
    socket: &UdpSocket,
    numbers: &[usize],
    text: impl Fn(usize) -> String,
    method: &str,
    mut answered: impl FnMut(usize, &str) -> Result<()>,
) -> Result<()> {
    let node: SocketAddr = two_regions::NODE.parse()?;
    let mut buffer = [0; 4096];
    for group in numbers.chunks(GROUP) {
        let mut open: Vec<usize> = group.to_vec();
        let deadline = Instant::now() + Duration::from_secs(5);
        let mut resend = Instant::now();
        while !open.is_empty() {
            ensure!(Instant::now() < deadline, "{method} of {open:?} is not answered");
            if Instant::now() >= resend {
                open.iter().try_for_each(|n| socket.send_to(text(*n).as_bytes(), node).map(drop))?;
                resend = Instant::now() + Duration::from_millis(500);
            }
            let Ok((len, _)) = socket.recv_from(&mut buffer) else { continue };
            let message = String::from_utf8_lossy(&buffer[..len]).into_owned();
            let field = |name: &str| message.lines().find_map(|l| l.strip_prefix(name)).unwrap_or_default();
            if message.starts_with("SIP/2.0 1") || !field("CSeq: ").ends_with(method) {
                continue;
            }
            ensure!(message.starts_with("SIP/2.0 200 "), "{method}: {message}");
            let number: usize = field("Call-ID: session-").trim().parse()?;
            if let Some(at) = open.iter().position(|n| *n == number) {
                open.swap_remove(at);
                answered(number, &message)?;
            }
        }
    }
    Ok(())
}

fn set_up(socket: &UdpSocket, calls: usize) -> Result<Vec<Dialog>> {
    let body = sdp(CALLER_MEDIA)?;
    let node: SocketAddr = two_regions::NODE.parse()?;
    let mut dialogs = Vec::new();
    let numbers: Vec<usize> = (0..calls).collect();
    let invite = |n| request("INVITE", n, 1, ("", ""), &body);
    exchange(socket, &numbers, invite, "INVITE", |number, answer| {
        let message = crate::ua::Message(answer.to_owned());
        let mut routes: Vec<_> = message.headers("Record-Route").collect();
        routes.reverse();
        let routes: String = routes.iter().map(|r| format!("Route: {r}\r\n")).collect();
        let ack = request("ACK", number, 1, (&routes, ";tag=e"), "");
        socket.send_to(ack.as_bytes(), node)?;
        dialogs.push(Dialog { number, media: message.media(0)?, routes });
        Ok(())
    })?;
    dialogs.sort_by_key(|d| d.number);
    Ok(dialogs)
}

fn hang_up(socket: &UdpSocket, dialogs: &[Dialog]) -> Result<()> {
    let numbers: Vec<usize> = (0..dialogs.len()).collect();
    let bye = |n: usize| request("BYE", n, 2, (&dialogs[n].routes, ";tag=e"), "");
    exchange(socket, &numbers, bye, "BYE", |_, _| Ok(()))
}
