//! A calling user agent of our own, for what SIPp does not tell: whether each media packet came back.

use crate::ua::Message;
use anyhow::{Context as _, Result, bail, ensure};
use std::{
    io::ErrorKind,
    net::{SocketAddr, UdpSocket},
    time::{Duration, Instant},
};

/// Figures of one stream that the other side echoes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamResult {
    /// Packets sent.
    pub sent: u64,
    /// Packets that came back, each counted once.
    pub echoed: u64,
    /// Packets that came back a second time, or with a changed payload.
    pub wrong: u64,
}

/// One call with media.
pub struct MediaCall {
    signalling: UdpSocket,
    media: UdpSocket,
    to: SocketAddr,
    dialog: Dialog,
    seen: Vec<bool>,
    result: StreamResult,
}

struct Dialog {
    call_id: String,
    from_tag: String,
    to: String,
    target: String,
    routes: String,
    node: SocketAddr,
}

impl MediaCall {
    /// Calls through the node at `node` from `local`; answered, acknowledged and ready to stream.
    ///
    /// # Errors
    /// The call is not answered with 200 within five seconds.
    pub fn place(local: SocketAddr, node: SocketAddr, number: u32) -> Result<Self> {
        Self::place_with(local, node, number, "")
    }

    /// The same with further header lines in the INVITE.
    ///
    /// # Errors
    /// As [`MediaCall::place`].
    pub fn place_with(local: SocketAddr, node: SocketAddr, number: u32, extra: &str) -> Result<Self> {
        let signalling = UdpSocket::bind(SocketAddr::new(local.ip(), 0))?;
        let media = UdpSocket::bind(SocketAddr::new(local.ip(), 0))?;
        media.set_nonblocking(true)?;
        signalling.set_read_timeout(Some(Duration::from_millis(500)))?;
        let own = signalling.local_addr()?;
        let mut dialog = Dialog {
            call_id: format!("media-{number}-{}@{}", std::process::id(), own.port()),
            from_tag: format!("m{number}"),
            to: format!("<sip:service@{node}>"),
            target: format!("sip:service@{node}"),
            routes: String::new(),
            node,
        };
        let family = if own.is_ipv4() { "IP4" } else { "IP6" };
        let ip = own.ip();
        let sdp = format!(
            "v=0\r\no=m 1 1 IN {family} {ip}\r\ns=-\r\nc=IN {family} {ip}\r\nt=0 0\r\nm=audio {} RTP/AVP 8\r\n",
            media.local_addr()?.port()
        );
        let invite = dialog.request("INVITE", 1, own, Some(&sdp)).replacen(
            "Max-Forwards",
            &format!("{extra}Max-Forwards"),
            1,
        );
        let answer = exchange(&signalling, node, &invite, "INVITE")?;
        ensure!(
            answer.starts_with("SIP/2.0 200 "),
            "not answered: {}",
            answer.lines().next().unwrap_or_default()
        );
        dialog.learn(&answer)?;
        signalling.send_to(dialog.request("ACK", 1, own, None).as_bytes(), node)?;
        let to = Message(answer).media(0)?;
        Ok(Self { signalling, media, to, dialog, seen: Vec::new(), result: StreamResult::default() })
    }

    /// Where the node wants this call's media.
    pub fn media_target(&self) -> SocketAddr {
        self.to
    }

    /// Sends one RTP packet.
    ///
    /// # Errors
    /// The socket fails.
    pub fn send_packet(&mut self) -> Result<()> {
        let n = self.seen.len() as u32;
        self.media.send_to(&packet(n), self.to)?;
        self.seen.push(false);
        self.result.sent += 1;
        Ok(())
    }

    /// Its media socket, and where its packets go.
    ///
    /// # Errors
    /// The socket fails.
    pub fn media(&self) -> Result<(&UdpSocket, SocketAddr)> {
        self.media.set_nonblocking(false)?;
        Ok((&self.media, self.to))
    }

    /// Takes what has come back.
    ///
    /// # Errors
    /// The socket fails.
    pub fn receive(&mut self) -> Result<()> {
        let mut buffer = [0; 2048];
        loop {
            let len = match self.media.recv_from(&mut buffer) {
                Ok((len, _)) => len,
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(e) if e.kind() == ErrorKind::ConnectionRefused => continue,
                Err(e) => return Err(e.into()),
            };
            let n = u32::from_be_bytes([buffer[12], buffer[13], buffer[14], buffer[15]]);
            match self.seen.get_mut(n as usize) {
                Some(seen) if !*seen && buffer[..len] == packet(n)[..] => {
                    *seen = true;
                    self.result.echoed += 1;
                }
                _ => self.result.wrong += 1,
            }
        }
    }

    /// Figures so far.
    pub fn result(&self) -> StreamResult {
        self.result
    }

    /// Hangs up.
    ///
    /// # Errors
    /// The BYE is not answered with 200.
    pub fn hang_up(self) -> Result<StreamResult> {
        let bye = self.dialog.request("BYE", 2, self.signalling.local_addr()?, None);
        let answer = exchange(&self.signalling, self.dialog.node, &bye, "BYE")?;
        ensure!(answer.starts_with("SIP/2.0 200 "), "BYE: {}", answer.lines().next().unwrap_or_default());
        Ok(self.result)
    }
}

/// Streams on all calls at 50 packets a second each for a time, and waits for the last echoes.
///
/// # Errors
/// A socket fails.
pub fn stream(calls: &mut [MediaCall], length: Duration) -> Result<()> {
    const STEP: Duration = Duration::from_millis(20);
    let start = Instant::now();
    let steps = (length.as_millis() / STEP.as_millis()) as u32;
    for step in 0..steps {
        for call in &mut *calls {
            call.send_packet()?;
        }
        while Instant::now() < start + STEP * (step + 1) {
            for call in &mut *calls {
                call.receive()?;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }
    let deadline = Instant::now() + Duration::from_millis(500);
    while Instant::now() < deadline {
        for call in &mut *calls {
            call.receive()?;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// RTP of G.711 A-law with its number in the payload.
pub fn packet(n: u32) -> Vec<u8> {
    let mut rtp = vec![0x80, 8];
    rtp.extend_from_slice(&(n as u16).to_be_bytes());
    rtp.extend_from_slice(&(n.wrapping_mul(160)).to_be_bytes());
    rtp.extend_from_slice(b"SWTG");
    rtp.extend_from_slice(&n.to_be_bytes());
    rtp.extend((0..156).map(|i| (i as u8).wrapping_add(n as u8)));
    // The number stands at 12..16, right behind the RTP header.
    rtp
}

impl Dialog {
    fn request(&self, method: &str, cseq: u32, own: SocketAddr, sdp: Option<&str>) -> String {
        let Self { call_id, from_tag, to, target, routes, .. } = self;
        let body = sdp.unwrap_or_default();
        let kind = if sdp.is_some() { "Content-Type: application/sdp\r\n" } else { "" };
        format!(
            "{method} {target} SIP/2.0\r\nVia: SIP/2.0/UDP {own};branch=z9hG4bK{from_tag}{cseq}{method};rport\r\n{routes}\
             From: <sip:m@{own}>;tag={from_tag}\r\nTo: {to}\r\nCall-ID: {call_id}\r\nCSeq: {cseq} {method}\r\n\
             Contact: <sip:m@{own}>\r\nMax-Forwards: 70\r\n{kind}Content-Length: {}\r\n\r\n{body}",
            body.len()
        )
    }

    fn learn(&mut self, answer: &str) -> Result<()> {
        let header =
            |name: &'static str| answer.lines().filter_map(move |l| l.strip_prefix(name).map(str::trim));
        self.to = header("To:").next().context("no To")?.to_owned();
        let contact = header("Contact:").next().context("no Contact")?;
        self.target = contact.trim_start_matches('<').split('>').next().unwrap_or_default().to_owned();
        let mut routes: Vec<_> = header("Record-Route:").flat_map(|v| v.split(',')).map(str::trim).collect();
        routes.reverse();
        self.routes = routes.iter().map(|r| format!("Route: {r}\r\n")).collect();
        Ok(())
    }
}

/// Sends a request, retransmitting, and waits for its final response.
fn exchange(socket: &UdpSocket, node: SocketAddr, request: &str, method: &str) -> Result<String> {
    let deadline = Instant::now() + Duration::from_secs(5);
    let mut buffer = [0; 65_535];
    let mut answered = false;
    while Instant::now() < deadline {
        if !answered {
            socket.send_to(request.as_bytes(), node)?;
        }
        let Ok((len, _)) = socket.recv_from(&mut buffer) else { continue };
        let text = String::from_utf8_lossy(&buffer[..len]).into_owned();
        let ours = text.lines().any(|l| l.starts_with("CSeq:") && l.trim_end().ends_with(method));
        match text.get(8..9) {
            Some("1") if ours => answered = true,
            Some(_) if ours => return Ok(text),
            _ => {}
        }
    }
    bail!("no final response to {method}")
}
