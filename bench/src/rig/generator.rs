//! Sends by the clock, and takes in what comes back.

use super::{Flow, account::Account};
use dataplane::{
    clock,
    port::{Fate, Port},
};
use packet::{Headers, checksum::Sum, ethernet::Mac, frame};
use std::time::Duration;

/// Packets sent in one go.
const BURST: u64 = 32;
/// How long the last packets are waited for.
const SETTLE: Duration = Duration::from_millis(200);
/// Longest backlog that is made up for after a pause of the generator itself.
const BACKLOG: u64 = 2048;

/// Where in the payload the numbers stand: flow, number and time of sending, behind the RTP header.
const FLOW: usize = 12;
const NUMBER: usize = 16;
const STAMP: usize = 20;

/// Frames of G.711 RTP, 172 bytes of payload each, for any number of flows.
pub struct Frames {
    frames: Vec<Vec<u8>>,
    headers: Vec<Headers>,
    /// Sum of what stays the same of each payload.
    fixed: Sum,
    start: usize,
}

impl Frames {
    /// For these flows, between two MAC addresses.
    pub fn new(flows: &[Flow], source_mac: Mac, destination_mac: Mac) -> Self {
        let mut payload = lab::rtp::packet(0);
        payload[NUMBER - 4..STAMP + 8].fill(0);
        payload[2..8].fill(0);
        let headers: Vec<_> = flows
            .iter()
            .map(|flow| Headers {
                destination_mac,
                source_mac,
                vlan: None,
                source: flow.from,
                destination: flow.to,
                tos: 0xb8,
            })
            .collect();
        let start = headers.first().map_or(0, frame::headers_len);
        let one = |_| [vec![0; start], payload.clone()].concat();
        Self {
            frames: headers.iter().map(one).collect(),
            fixed: Sum::new().add_bytes(&payload),
            headers,
            start,
        }
    }

    /// The next frame of a flow.
    fn stamp(&mut self, flow: usize, number: u32, now: u64) -> &[u8] {
        let (bytes, start) = (&mut self.frames[flow], self.start);
        let payload = &mut bytes[start..];
        payload[2..4].copy_from_slice(&(number as u16).to_be_bytes());
        payload[4..8].copy_from_slice(&number.wrapping_mul(160).to_be_bytes());
        payload[FLOW..NUMBER].copy_from_slice(&(flow as u32).to_be_bytes());
        payload[NUMBER..STAMP].copy_from_slice(&number.to_be_bytes());
        payload[STAMP..STAMP + 8].copy_from_slice(&now.to_be_bytes());
        let sum = self.fixed.add_bytes(&payload[2..8]).add_bytes(&payload[FLOW..STAMP + 8]);
        let len = payload.len();
        frame::write(bytes, &self.headers[flow], len, sum);
        bytes
    }
}

/// Sends at a rate for a time, flow after flow.
pub fn run(port: &mut Port, frames: &mut Frames, rate: f64, length: Duration) -> Account {
    let flows = frames.frames.len();
    let mut account = Account::new(flows);
    let total = (rate * length.as_secs_f64()) as u64;
    let start = clock::monotonic();
    let nanos = |time: Duration| time.as_nanos() as u64;
    let mut next = 0u64;
    while next < total {
        let now = clock::monotonic();
        let due = ((now - start).as_secs_f64() * rate) as u64;
        // What the generator could not send in its time is not made up for without end.
        let skipped = due.saturating_sub(next).saturating_sub(BACKLOG);
        account.unsent += skipped;
        next += skipped;
        for _ in 0..due.saturating_sub(next).min(BURST).min(total - next.min(total)) {
            let (flow, number) = ((next % flows as u64) as usize, (next / flows as u64) as u32);
            let sent = port.send(frames.stamp(flow, number, nanos(now)));
            account.sent += u64::from(sent);
            account.unsent += u64::from(!sent);
            next += 1;
        }
        port.flush();
        take(port, &mut account);
    }
    account.took = clock::monotonic() - start;
    let end = clock::monotonic() + SETTLE;
    while clock::monotonic() < end {
        port.flush();
        if take(port, &mut account) == 0 {
            port.wait(Duration::from_millis(5));
        }
    }
    account
}

fn take(port: &mut Port, account: &mut Account) -> usize {
    let now = clock::monotonic().as_nanos() as u64;
    port.receive(|bytes| {
        if let Ok(datagram) = frame::parse(bytes) {
            let payload = &bytes[datagram.payload];
            let word = |at: usize| payload.get(at..)?.first_chunk::<4>().map(|b| u32::from_be_bytes(*b));
            let stamp =
                payload.get(STAMP..).and_then(|p| p.first_chunk::<8>()).map(|b| u64::from_be_bytes(*b));
            if let (Some(flow), Some(number), Some(stamp)) = (word(FLOW), word(NUMBER), stamp) {
                account.arrive(flow, number, now.saturating_sub(stamp));
            }
        }
        Fate::Drop
    })
}
