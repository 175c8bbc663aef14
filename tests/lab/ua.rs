//! User agents that a test moves step by step: one socket for SIP, any number for media, each in the
//! namespace of its choice. What they send is what the test says, whole SDP bodies included.

use crate::{Namespace, raw};
use anyhow::{Context as _, Result, bail, ensure};
use std::{
    net::{SocketAddr, UdpSocket},
    sync::atomic::{AtomicU32, Ordering},
    time::{Duration, Instant},
};

const PATIENCE: Duration = Duration::from_secs(5);
/// Calls placed so far, for their names.
static CALLS: AtomicU32 = AtomicU32::new(0);

/// A SIP message as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message(pub String);

impl Message {
    /// Its method or status.
    pub fn kind(&self) -> &str {
        let mut words = self.0.split(' ');
        let first = words.next().unwrap_or_default();
        if first == "SIP/2.0" { words.next().unwrap_or_default() } else { first }
    }

    /// All values of a header, in its long form.
    pub fn headers<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let head = self.0.split("\r\n\r\n").next().unwrap_or_default();
        head.lines().filter_map(move |l| l.strip_prefix(name)?.strip_prefix(':').map(str::trim))
    }

    /// Its body.
    pub fn body(&self) -> &str {
        self.0.split_once("\r\n\r\n").map_or("", |(_, body)| body)
    }

    /// Address and port of the n-th m-line of its SDP.
    ///
    /// # Errors
    /// It has none.
    pub fn media(&self, n: usize) -> Result<SocketAddr> {
        let connection = |part: &str| {
            part.lines()
                .find_map(|l| Some(l.strip_prefix("c=IN IP4 ").or(l.strip_prefix("c=IN IP6 "))?.to_owned()))
        };
        let mut parts = self.body().split("m=");
        let session = parts.next().unwrap_or_default();
        let stream = parts.nth(n).with_context(|| format!("no m-line {n}: {}", self.0))?;
        let ip = connection(stream).or_else(|| connection(session)).context("no connection line")?;
        let port = stream.split(' ').nth(1).context("no port")?;
        Ok(SocketAddr::new(ip.trim().parse()?, port.parse()?))
    }
}

/// A user agent with at most one dialog.
#[derive(Debug)]
pub struct Agent {
    socket: UdpSocket,
    own: SocketAddr,
    node: SocketAddr,
    dialog: Dialog,
    /// The latest message, of which copies are skipped.
    latest: String,
}

/// What requests within the dialog carry.
#[derive(Clone, Debug, Default)]
struct Dialog {
    call_id: String,
    local: String,
    remote: String,
    target: String,
    routes: String,
    cseq: u32,
}

/// SDP with these media lines, from an address.
pub fn sdp(own: SocketAddr, version: u32, media: &str) -> String {
    let family = if own.is_ipv4() { "IP4" } else { "IP6" };
    let ip = own.ip();
    format!("v=0\r\no=test 1 {version} IN {family} {ip}\r\ns=-\r\nc=IN {family} {ip}\r\nt=0 0\r\n{media}")
}

impl Agent {
    /// At an address in a namespace; `node` is where its requests go.
    ///
    /// # Errors
    /// The address is not there or in use.
    pub fn new(namespace: &Namespace, own: &str, node: &str) -> Result<Self> {
        let socket = raw::socket(namespace, own)?;
        Ok(Self {
            socket,
            own: own.parse()?,
            node: node.parse()?,
            dialog: Dialog::default(),
            latest: String::new(),
        })
    }

    /// SDP of its own with these media lines.
    pub fn sdp(&self, version: u32, media: &str) -> String {
        sdp(self.own, version, media)
    }

    /// Begins a call with a body.
    ///
    /// # Errors
    /// The socket fails.
    pub fn call(&mut self, body: &str) -> Result<()> {
        let (own, node) = (self.own, self.node);
        let unique = format!("{}-{}", std::process::id(), CALLS.fetch_add(1, Ordering::Relaxed));
        self.dialog = Dialog {
            call_id: format!("ua-{unique}@{own}"),
            local: format!("<sip:ua@{own}>;tag=local"),
            remote: format!("<sip:service@{node}>"),
            target: format!("sip:service@{node}"),
            routes: String::new(),
            cseq: self.dialog.cseq,
        };
        self.request("INVITE", body)
    }

    /// Call-ID of its dialog.
    pub fn call_id(&self) -> &str {
        &self.dialog.call_id
    }

    /// Sends a request within its dialog, with a new CSeq but for ACK.
    ///
    /// # Errors
    /// The socket fails.
    pub fn request(&mut self, method: &str, body: &str) -> Result<()> {
        self.request_with(method, "application/sdp", body)
    }

    /// The same with a body of any type.
    ///
    /// # Errors
    /// The socket fails.
    pub fn request_with(&mut self, method: &str, kind: &str, body: &str) -> Result<()> {
        if method != "ACK" {
            self.dialog.cseq += 1;
        }
        let Dialog { call_id, local, remote, target, routes, cseq } = &self.dialog;
        let own = self.own;
        let kind = if body.is_empty() { String::new() } else { format!("Content-Type: {kind}\r\n") };
        let text = format!(
            "{method} {target} SIP/2.0\r\nVia: SIP/2.0/UDP {own};branch=z9hG4bKua{cseq}{method}{};rport\r\n{routes}From: {local}\r\nTo: {remote}\r\n\
             Call-ID: {call_id}\r\nCSeq: {cseq} {method}\r\nContact: <sip:ua@{own}>\r\nMax-Forwards: 70\r\n{kind}Content-Length: {}\r\n\r\n{body}",
            hash(call_id),
            body.len()
        );
        self.socket.send_to(text.as_bytes(), self.node)?;
        Ok(())
    }

    /// Waits for a message of a kind. Copies, `100`, and the node's probes, which it answers, are skipped.
    ///
    /// # Errors
    /// Another message comes, or none in time.
    pub fn expect(&mut self, kind: &str) -> Result<Message> {
        let deadline = Instant::now() + PATIENCE;
        let mut buffer = vec![0; 65_536];
        while Instant::now() < deadline {
            let Ok((n, from)) = self.socket.recv_from(&mut buffer) else { continue };
            let message = Message(String::from_utf8_lossy(&buffer[..n]).into_owned());
            if message.kind() == "OPTIONS" {
                if let Some(answer) = raw::respond(&buffer[..n], from, 200) {
                    self.socket.send_to(&answer, from)?;
                }
                continue;
            }
            if message.kind() == "100" || message.0 == self.latest {
                continue;
            }
            self.latest.clone_from(&message.0);
            ensure!(message.kind() == kind, "expected {kind}, got {}", message.0);
            self.learn(&message);
            return Ok(message);
        }
        bail!("no {kind} came at {}", self.own)
    }

    /// Answers probes for a time, whatever else may come.
    ///
    /// # Errors
    /// The socket fails.
    pub fn idle(&mut self, time: Duration) -> Result<()> {
        let end = Instant::now() + time;
        let mut buffer = vec![0; 65_536];
        while Instant::now() < end {
            let Ok((n, from)) = self.socket.recv_from(&mut buffer) else { continue };
            if let Some(answer) =
                raw::respond(&buffer[..n], from, 200).filter(|_| buffer.starts_with(b"OPTIONS"))
            {
                self.socket.send_to(&answer, from)?;
            }
        }
        Ok(())
    }

    /// What the dialog learns from a message: the other side's tag, target and route set.
    fn learn(&mut self, message: &Message) {
        let header = |name| message.headers(name).next().map(str::to_owned);
        let mut routes: Vec<_> =
            message.headers("Record-Route").flat_map(|v| v.split(',')).map(|r| r.trim().to_owned()).collect();
        match message.kind() {
            "INVITE" if header("To").is_some_and(|to| !to.contains(";tag=")) => {
                self.dialog = Dialog {
                    call_id: header("Call-ID").unwrap_or_default(),
                    local: header("To").unwrap_or_default() + ";tag=remote",
                    remote: header("From").unwrap_or_default(),
                    ..self.dialog.clone()
                };
            }
            kind if kind.starts_with(|c: char| c.is_ascii_digit()) => {
                routes.reverse();
                if header("To").is_some_and(|to| to.contains(";tag=")) && kind < "300" {
                    let is_invite = header("CSeq").is_some_and(|c| c.ends_with("INVITE"));
                    let is_ours = header("From").as_ref() == Some(&self.dialog.local);
                    if is_invite && is_ours {
                        self.dialog.remote = header("To").unwrap_or_default();
                    }
                }
            }
            _ => {}
        }
        if !routes.is_empty() {
            self.dialog.routes = routes.iter().map(|r| format!("Route: {r}\r\n")).collect();
        }
        if let Some(contact) = header("Contact") {
            contact
                .trim_start_matches('<')
                .split('>')
                .next()
                .unwrap_or_default()
                .clone_into(&mut self.dialog.target);
        }
    }

    /// Replies to a request with a body.
    ///
    /// # Errors
    /// The socket fails.
    pub fn reply(&mut self, request: &Message, status: u16, headers: &str, body: &str) -> Result<()> {
        let copied = ["Via", "From", "Call-ID", "CSeq", "Record-Route"].map(|name| {
            request.headers(name).map(|value| format!("{name}: {value}\r\n")).collect::<String>()
        });
        let to = request.headers("To").next().unwrap_or_default();
        let tag = if to.contains(";tag=") { "" } else { ";tag=remote" };
        let kind = if body.is_empty() { "" } else { "Content-Type: application/sdp\r\n" };
        let own = self.own;
        let text = format!(
            "SIP/2.0 {status} Reply\r\n{}To: {to}{tag}\r\nContact: <sip:ua@{own}>\r\n{headers}{kind}Content-Length: {}\r\n\r\n{body}",
            copied.concat(),
            body.len()
        );
        self.socket.send_to(text.as_bytes(), self.node)?;
        Ok(())
    }

    /// The caller offers, the callee answers, the caller acknowledges: a call or a re-INVITE. What each of
    /// them was shown.
    ///
    /// # Errors
    /// A message does not come.
    pub fn invite(&mut self, callee: &mut Self, offer: &str, answer: &str) -> Result<(Message, Message)> {
        if self.dialog.routes.is_empty() {
            self.call(offer)?;
        } else {
            self.request("INVITE", offer)?;
        }
        let offered = callee.expect("INVITE")?;
        callee.reply(&offered, 200, "", answer)?;
        let answered = self.expect("200")?;
        self.request("ACK", "")?;
        callee.expect("ACK")?;
        Ok((offered, answered))
    }

    /// Hangs up.
    ///
    /// # Errors
    /// A message does not come.
    pub fn hang_up(&mut self, other: &mut Self) -> Result<()> {
        self.request("BYE", "")?;
        let bye = other.expect("BYE")?;
        other.reply(&bye, 200, "", "")?;
        self.expect("200")?;
        self.dialog.routes.clear();
        other.dialog.routes.clear();
        Ok(())
    }
}

/// Tells calls apart in branches.
fn hash(text: &str) -> u32 {
    text.bytes().fold(1, |hash: u32, b| hash.wrapping_mul(31).wrapping_add(b.into()))
}

/// A media socket.
#[derive(Debug)]
pub struct Media {
    socket: UdpSocket,
}

impl Media {
    /// At an address in a namespace.
    ///
    /// # Errors
    /// The address is not there or in use.
    pub fn new(namespace: &Namespace, own: &str) -> Result<Self> {
        Ok(Self { socket: raw::socket(namespace, own)? })
    }

    /// Sends one packet.
    ///
    /// # Errors
    /// The socket fails.
    pub fn send(&self, to: SocketAddr, packet: &[u8]) -> Result<()> {
        self.socket.send_to(packet, to).context("sending media").map(drop)
    }

    /// The next packet, and where it came from.
    pub fn receive(&self, limit: Duration) -> Option<(Vec<u8>, SocketAddr)> {
        let mut buffer = vec![0; 65_536];
        let start = Instant::now();
        while start.elapsed() < limit {
            if let Ok((n, from)) = self.socket.recv_from(&mut buffer) {
                buffer.truncate(n);
                return Some((buffer, from));
            }
        }
        None
    }

    /// Sends these packets and takes them in at another socket: whether all arrive, as they are, in order,
    /// from the address `from` that the receiver's SDP names, and nothing else does.
    ///
    /// # Errors
    /// They do not.
    pub fn passes(&self, to: SocketAddr, packets: &[Vec<u8>], other: &Self, from: SocketAddr) -> Result<()> {
        for (n, packet) in packets.iter().enumerate() {
            self.send(to, packet)?;
            let arrived = other.receive(Duration::from_secs(2));
            let (got, source) =
                arrived.with_context(|| format!("packet {n} of {} did not arrive", packets.len()))?;
            ensure!(
                got == *packet,
                "packet {n} arrived changed, or another one did: {got:02x?} for {packet:02x?}"
            );
            ensure!(source == from, "packet {n} came from {source}, expected {from}");
        }
        ensure!(other.receive(Duration::from_millis(50)).is_none(), "a packet too many arrived");
        Ok(())
    }

    /// Sends a packet that must not arrive.
    ///
    /// # Errors
    /// It does.
    pub fn is_stopped(&self, to: SocketAddr, packet: &[u8], other: &Self) -> Result<()> {
        self.send(to, packet)?;
        ensure!(other.receive(Duration::from_millis(150)).is_none(), "it arrived");
        Ok(())
    }
}

/// RTP packets of 20 ms G.711 A-law with numbers from `first`.
pub fn speech(first: u32, count: u32) -> Vec<Vec<u8>> {
    (first..first + count).map(crate::rtp::packet).collect()
}
