//! OPTIONS probes: sent by the worker that would carry the call, so that a dead data path shows
//! (requirement C9).

use crate::{
    agenda::Due,
    engine::{ClientSlot, Engine},
    keys::Keys,
    report::{Outbox, Report},
    turn::Turn,
};
use alloc::vec::Vec;
use core::{fmt::Write as _, time::Duration};
use routing::{PeerId, Table};
use sip::{branch::Branch, transaction::Time};

/// A probe under way.
pub(crate) struct Probe {
    pub(crate) peer: PeerId,
    pub(crate) nonce: u32,
    sent_at: Time,
}

impl Engine {
    /// Sends one OPTIONS to a peer from the address that calls to it come from. It is not
    /// retransmitted: a lost one is a failed probe, and the fall count is what bears losses.
    pub fn probe(&mut self, now: Time, peer: PeerId, timeout: Duration, table: &Table, out: &mut dyn Outbox) {
        let service = table.services.iter().find(|s| s.peers.contains(&peer));
        let egress = service.and_then(|s| table.listener(s.egress));
        let (Some(egress), Some(target)) = (egress, table.peer(peer)) else { return };
        let nonce = self.rng.next_u32();
        let slot = self.clients.insert(ClientSlot::Probe(Probe { peer, nonce, sent_at: now })) as u32;
        self.agenda.add(now + timeout, Due::Probe(slot, nonce));
        let branch = Branch { worker: self.config.worker, slot, nonce, routing: 0 };
        let call_id = self.own_call_id(&egress.sent_by);
        let mut message = TextBuffer(core::mem::take(&mut self.buffer));
        message.0.clear();
        let _ = write!(
            message,
            "OPTIONS sip:{to} SIP/2.0\r\nVia: SIP/2.0/UDP {own};rport;branch={branch}\r\nMax-Forwards: 1\r\n\
             From: <sip:strowger@{own}>;tag={nonce:08x}\r\nTo: <sip:{to}>\r\nCall-ID: {call_id}\r\nCSeq: 1 OPTIONS\r\n\
             Contact: <sip:{own}>\r\nUser-Agent: strowger\r\nContent-Length: 0\r\n\r\n",
            to = target.address,
            own = egress.sent_by,
            branch = core::str::from_utf8(&branch.to_bytes()).unwrap_or_default(),
        );
        self.send(&mut Turn { now, table, out }, egress.address, target.address, &message.0);
        self.buffer = message.0;
    }

    /// A Call-ID that this worker owns, so that the answer need not be handed over.
    fn own_call_id(&mut self, host: &str) -> alloc::string::String {
        loop {
            let id = alloc::format!("{:08x}{:08x}@{host}", self.rng.next_u32(), self.rng.next_u32());
            if Keys::owner(self.keys.call(id.as_bytes()), self.config.workers) == self.config.worker {
                return id;
            }
        }
    }

    pub(crate) fn on_probe_answer(&mut self, slot: u32, status: u16, turn: &mut Turn<'_>) {
        if status < 200 {
            return;
        }
        if let Some(ClientSlot::Probe(probe)) = self.clients.try_remove(slot as usize) {
            let answer = Some((status, turn.now.saturating_sub(probe.sent_at)));
            turn.out.report(Report::Probe { peer: probe.peer, answer });
        }
    }

    pub(crate) fn on_probe_due(&mut self, slot: u32, nonce: u32, turn: &mut Turn<'_>) {
        match self.clients.get(slot as usize) {
            Some(ClientSlot::Probe(probe)) if probe.nonce == nonce => {
                turn.out.report(Report::Probe { peer: probe.peer, answer: None });
                self.clients.remove(slot as usize);
            }
            _ => {}
        }
    }
}

/// Bytes that can be formatted into.
struct TextBuffer(Vec<u8>);

impl core::fmt::Write for TextBuffer {
    fn write_str(&mut self, s: &str) -> core::fmt::Result {
        self.0.extend_from_slice(s.as_bytes());
        Ok(())
    }
}
