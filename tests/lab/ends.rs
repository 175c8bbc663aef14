//! A caller and a callee for any number of calls: one socket each for SIP, and one address each for media, so
//! that the node's ports alone tell the calls apart.

use anyhow::{Context as _, Result, ensure};
use rustix::net::sockopt::set_socket_recv_buffer_size_force;
use std::{
    net::{SocketAddr, UdpSocket},
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

/// Requests are sent in groups of so many.
const GROUP: usize = 20;

/// Their addresses.
#[derive(Clone, Copy, Debug)]
pub struct Ends {
    /// SIP address of the caller.
    pub caller: &'static str,
    /// Its media.
    pub caller_media: &'static str,
    /// SIP address of the callee, a peer of the node.
    pub callee: &'static str,
    /// Its media.
    pub callee_media: &'static str,
    /// The node's listener towards the caller.
    pub node: &'static str,
}

/// One call.
#[derive(Clone, Debug)]
pub struct Dialog {
    number: usize,
    /// Where the node takes the caller's media.
    pub media: SocketAddr,
    routes: String,
}

/// A socket with room for bursts.
///
/// # Errors
/// The address is not there or in use.
pub fn bind(address: &str) -> Result<UdpSocket> {
    let socket = UdpSocket::bind(address).with_context(|| format!("binding {address}"))?;
    socket.set_read_timeout(Some(Duration::from_millis(50)))?;
    set_socket_recv_buffer_size_force(&socket, 64 << 20)?;
    Ok(socket)
}

fn sdp(media: &str) -> Result<String> {
    let media: SocketAddr = media.parse()?;
    Ok(crate::ua::sdp(media, 1, &format!("m=audio {} RTP/AVP 8\r\n", media.port())))
}

impl Ends {
    /// The callee at its socket: 200 to every request, until it is done.
    ///
    /// # Errors
    /// The socket fails.
    pub fn answer(&self, socket: &UdpSocket, done: &AtomicBool) -> Result<()> {
        let body = sdp(self.callee_media)?;
        let mut buffer = [0; 4096];
        while !done.load(Ordering::Relaxed) {
            let Ok((len, from)) = socket.recv_from(&mut buffer) else { continue };
            let request = String::from_utf8_lossy(&buffer[..len]).into_owned();
            if request.starts_with("ACK") {
                continue;
            }
            let copied = |l: &&str| {
                ["Via:", "From:", "To:", "Call-ID:", "CSeq:", "Record-Route:"]
                    .iter()
                    .any(|n| l.starts_with(n))
            };
            let headers: Vec<_> = request.lines().filter(copied).collect();
            let headers = headers.join("\r\n").replace("To: <sip:all>\r\n", "To: <sip:all>;tag=e\r\n");
            let answer = if request.starts_with("INVITE") { &body[..] } else { "" };
            let kind = if answer.is_empty() { "" } else { "Content-Type: application/sdp\r\n" };
            let response = format!(
                "SIP/2.0 200 OK\r\n{headers}\r\nContact: <sip:{}>\r\n{kind}Content-Length: {}\r\n\r\n{answer}",
                self.callee,
                answer.len()
            );
            socket.send_to(response.as_bytes(), from)?;
        }
        Ok(())
    }

    /// Places calls, by the caller's socket.
    ///
    /// # Errors
    /// One is not answered.
    pub fn place(&self, socket: &UdpSocket, calls: usize) -> Result<Vec<Dialog>> {
        let body = sdp(self.caller_media)?;
        let node: SocketAddr = self.node.parse()?;
        let mut dialogs = Vec::new();
        let numbers: Vec<usize> = (0..calls).collect();
        let invite = |n| self.request("INVITE", n, 1, ("", ""), &body);
        self.exchange(socket, &numbers, invite, "INVITE", |number, answer| {
            let message = crate::ua::Message(answer.to_owned());
            let mut routes: Vec<_> = message.headers("Record-Route").collect();
            routes.reverse();
            let routes: String = routes.iter().map(|r| format!("Route: {r}\r\n")).collect();
            let ack = self.request("ACK", number, 1, (&routes, ";tag=e"), "");
            socket.send_to(ack.as_bytes(), node)?;
            dialogs.push(Dialog { number, media: message.media(0)?, routes });
            Ok(())
        })?;
        dialogs.sort_by_key(|d| d.number);
        Ok(dialogs)
    }

    /// Ends them.
    ///
    /// # Errors
    /// A BYE is not answered.
    pub fn hang_up(&self, socket: &UdpSocket, dialogs: &[Dialog]) -> Result<()> {
        let numbers: Vec<usize> = (0..dialogs.len()).collect();
        let bye = |n: usize| self.request("BYE", n, 2, (&dialogs[n].routes, ";tag=e"), "");
        self.exchange(socket, &numbers, bye, "BYE", |_, _| Ok(()))
    }

    fn request(
        &self,
        method: &str,
        number: usize,
        cseq: u32,
        (routes, tag): (&str, &str),
        body: &str,
    ) -> String {
        let Self { caller, callee, node, .. } = self;
        let kind = if body.is_empty() { "" } else { "Content-Type: application/sdp\r\n" };
        let target = if routes.is_empty() { node } else { callee };
        format!(
            "{method} sip:{target} SIP/2.0\r\nVia: SIP/2.0/UDP {caller};branch=z9hG4bKs{number}-{cseq}{method}\r\n{routes}From: <sip:{caller}>;tag=s{number}\r\n\
             To: <sip:all>{tag}\r\nCall-ID: session-{number}\r\nCSeq: {cseq} {method}\r\nContact: <sip:{caller}>\r\nMax-Forwards: 70\r\n{kind}Content-Length: {}\r\n\r\n{body}",
            body.len()
        )
    }

    /// Sends requests in groups and waits for their answers, by number.
    fn exchange(
        &self,
        socket: &UdpSocket,
        numbers: &[usize],
        text: impl Fn(usize) -> String,
        method: &str,
        mut answered: impl FnMut(usize, &str) -> Result<()>,
    ) -> Result<()> {
        let node: SocketAddr = self.node.parse()?;
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
                let field =
                    |name: &str| message.lines().find_map(|l| l.strip_prefix(name)).unwrap_or_default();
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
}
