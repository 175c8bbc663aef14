//! rtpengine as the system under test, told what to relay by its control protocol.

use super::{System, memory_of, time_of};
use crate::rig::{Flow, RECEIVER, Rig, SENDER, SYSTEM, SYSTEM_CORE, address, socket};
use anyhow::{Context as _, Result, ensure};
use lab::{
    node::Scratch,
    rtpengine::{CONTROL, Rtpengine},
    ua,
};
use std::{
    net::{SocketAddr, UdpSocket},
    time::Duration,
};

/// A running rtpengine with calls.
pub struct Relay {
    engine: Rtpengine,
    flows: Vec<Flow>,
    _scratch: Scratch,
}

impl Relay {
    /// Starts one on one core and has it relay so many calls, each from the sender to the receiver.
    ///
    /// # Errors
    /// It does not start, or refuses.
    pub fn start(rig: &Rig, calls: usize) -> Result<Self> {
        let scratch = Scratch::new()?;
        let engine =
            Rtpengine::start_on(&rig.system, scratch.path(), address(SYSTEM), (1, Some(SYSTEM_CORE)))?;
        let control = rig.system.enter(|| -> Result<_> {
            let socket = UdpSocket::bind("127.0.0.1:0")?;
            socket.connect(("127.0.0.1", CONTROL))?;
            socket.set_read_timeout(Some(Duration::from_secs(3)))?;
            Ok(socket)
        })??;
        let (from, to) = (socket(SENDER), socket(RECEIVER));
        let media =
            |address: SocketAddr| ua::sdp(address, 1, &format!("m=audio {} RTP/AVP 8\r\n", address.port()));
        let mut flows = Vec::with_capacity(calls);
        for n in 0..calls {
            ask(&control, n, "offer", &media(from), false)?;
            // What the answer shows is where the caller sends.
            let shown = ask(&control, n, "answer", &media(to), true)?;
            flows.push(Flow { from, to: ua::Message(format!("\r\n\r\n{shown}")).media(0)? });
        }
        Ok(Self { engine, flows, _scratch: scratch })
    }

    /// Bytes of memory that it holds.
    ///
    /// # Errors
    /// It is gone.
    pub fn memory(&self) -> Result<u64> {
        memory_of(self.engine.process().id())
    }
}

impl System for Relay {
    fn flows(&self) -> Vec<Flow> {
        self.flows.clone()
    }

    fn time(&self) -> Result<Duration> {
        time_of(self.engine.process().id())
    }
}

/// One command; the SDP of its reply.
fn ask(control: &UdpSocket, n: usize, command: &str, sdp: &str, answer: bool) -> Result<String> {
    let call = format!("call{n}");
    let mut fields =
        vec![("call-id", call.as_str()), ("command", command), ("from-tag", "caller"), ("sdp", sdp)];
    if answer {
        fields.push(("to-tag", "callee"));
    }
    let cookie = format!("{n}{command} ");
    let text: String =
        fields.iter().map(|(key, value)| format!("{}:{key}{}:{value}", key.len(), value.len())).collect();
    control.send(format!("{cookie}d{text}e").as_bytes())?;
    let mut buffer = [0; 8192];
    let len = control.recv(&mut buffer).context("rtpengine does not answer")?;
    let reply = String::from_utf8_lossy(&buffer[..len]).into_owned();
    ensure!(reply.contains("6:result2:ok"), "{command}: {reply}");
    let (_, behind) = reply.split_once("3:sdp").context("no SDP in the reply")?;
    let (length, text) = behind.split_once(':').context("no SDP in the reply")?;
    Ok(text.get(..length.parse()?).context("a short reply")?.to_owned())
}
