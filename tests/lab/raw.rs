//! SIP over plain UDP sockets: for messages that no user agent would send.

use crate::Namespace;
use anyhow::{Context as _, Result};
use rustix::net::{self, AddressFamily, SocketType};
use std::{
    net::{SocketAddr, UdpSocket},
    num::NonZero,
    os::fd::OwnedFd,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

/// A socket in a namespace; it can be used from outside.
///
/// # Errors
/// The address is not there or in use.
pub fn socket(namespace: &Namespace, address: &str) -> Result<UdpSocket> {
    let socket =
        namespace.enter(|| UdpSocket::bind(address))?.with_context(|| format!("binding {address}"))?;
    socket.set_read_timeout(Some(Duration::from_millis(20)))?;
    // Bursts wait here until the test looks.
    net::sockopt::set_socket_recv_buffer_size_force(&socket, 8 << 20)?;
    Ok(socket)
}

/// The next datagram, if one comes in time.
pub fn receive(socket: &UdpSocket, limit: Duration) -> Option<Vec<u8>> {
    let mut buffer = vec![0; 65_536];
    let start = Instant::now();
    loop {
        if let Ok((n, _)) = socket.recv_from(&mut buffer) {
            buffer.truncate(n);
            return Some(buffer);
        }
        if start.elapsed() >= limit {
            return None;
        }
    }
}

/// The status of a response.
pub fn status(message: &[u8]) -> Option<u16> {
    std::str::from_utf8(message.strip_prefix(b"SIP/2.0 ")?.get(..3)?).ok()?.parse().ok()
}

/// A response to any request, however odd; none to an ACK.
pub fn respond(request: &[u8], from: SocketAddr, status: u16) -> Option<Vec<u8>> {
    let m =
        sip::Message::parse(request).ok().filter(|m| !matches!(m.method(), None | Some(sip::Method::Ack)))?;
    let response = sip::respond::Response { status, reason: "Raw", to_tag: b"raw", headers: b"" };
    let mut out = Vec::new();
    sip::respond::write(&m, from, &response, &mut out);
    Some(out)
}

/// Sees every frame that a namespace receives or sends.
#[derive(Debug)]
pub struct Sniffer(OwnedFd);

impl Sniffer {
    /// Begins to look.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn new(namespace: &Namespace) -> Result<Self> {
        // All protocols, in network byte order.
        let all = net::Protocol::from_raw(NonZero::new(u32::from(3u16.to_be())).context("a protocol")?);
        let open = || net::socket(AddressFamily::PACKET, SocketType::RAW, Some(all));
        Ok(Self(namespace.enter(open)??))
    }

    /// Traffic classes of the UDP packets over IPv4 to a port that were seen so far.
    ///
    /// # Errors
    /// The socket fails.
    pub fn classes(&self, port: u16) -> Result<Vec<u8>> {
        let mut classes = Vec::new();
        let mut frame = [0; 4096];
        loop {
            match net::recv(&self.0, &mut frame, net::RecvFlags::DONTWAIT) {
                Ok((n, _)) => {
                    let frame = &frame[..n];
                    let is_ours = frame.get(12..15).is_some_and(|h| h == [8, 0, 0x45])
                        && frame.get(36..38).is_some_and(|p| p == port.to_be_bytes());
                    classes.extend(is_ours.then(|| frame[15]));
                }
                Err(rustix::io::Errno::AGAIN) => return Ok(classes),
                Err(e) => return Err(e.into()),
            }
        }
    }
}

/// Messages to send in reaction to one: where to, and what.
pub type Reaction = Vec<(SocketAddr, Vec<u8>)>;

/// A peer that remembers what it gets and reacts to it. OPTIONS probes of the node are answered and not
/// remembered.
#[derive(Debug)]
pub struct RawPeer {
    stop: Arc<AtomicBool>,
    seen: Arc<Mutex<Vec<Vec<u8>>>>,
    thread: Option<JoinHandle<()>>,
}

impl RawPeer {
    /// Starts one.
    ///
    /// # Errors
    /// The address is not there or in use.
    pub fn start(
        namespace: &Namespace,
        address: &str,
        react: impl Fn(&[u8], SocketAddr) -> Reaction + Send + 'static,
    ) -> Result<Self> {
        let socket = socket(namespace, address)?;
        let stop = Arc::new(AtomicBool::new(false));
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (stopped, memory) = (Arc::clone(&stop), Arc::clone(&seen));
        let thread = std::thread::spawn(move || {
            let mut buffer = vec![0; 65_536];
            while !stopped.load(Ordering::Relaxed) {
                let Ok((n, from)) = socket.recv_from(&mut buffer) else { continue };
                let message = &buffer[..n];
                let is_probe = message.windows(20).any(|w| w == b"User-Agent: strowger");
                let reaction = if is_probe {
                    respond(message, from, 200).map(|r| (from, r)).into_iter().collect()
                } else {
                    memory.lock().expect("the memory").push(message.to_vec());
                    react(message, from)
                };
                for (to, message) in reaction {
                    let _ = socket.send_to(&message, to);
                }
            }
        });
        Ok(Self { stop, seen, thread: Some(thread) })
    }

    /// What it got, ACKs and retransmissions included.
    ///
    /// # Panics
    /// If its thread has.
    pub fn seen(&self) -> Vec<Vec<u8>> {
        self.seen.lock().expect("the memory").clone()
    }
}

impl Drop for RawPeer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
