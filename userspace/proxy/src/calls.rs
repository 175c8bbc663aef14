//! Calls whose media runs through this node: a branch for each attempt, so that forked answers do not mix,
//! and for each dialog that came of one (requirements G1, G5).

use crate::{
    agenda::Due,
    context::{Context, Hop, Route},
    engine::{Engine, MediaConfig},
    report::{Counter, Outbox},
    token::tag_hash,
    turn::Turn,
};
use alloc::{boxed::Box, vec::Vec};
use media::{Branch, Side, Streams, Time, branch::StreamEvent, relay::LegReport};
use routing::{Anchoring, ListenerId, PeerId, ServiceId, Table};
use sip::Request;

/// Media of all that happens under one Call-ID.
pub(crate) struct MediaCall {
    call_id: Box<[u8]>,
    /// When it is looked at again; what the agenda says besides is stale.
    due: Time,
    branches: Vec<MediaBranch>,
}

/// Media of one attempt, and of the dialog that it becomes.
pub(crate) struct MediaBranch {
    /// Hash of the caller's tag: more than one caller may use a Call-ID.
    caller: u16,
    /// Serial number of the context that it belongs to until it is answered.
    serial: u32,
    since: Time,
    /// The attempt: slot of its client transaction. None where the dialog was there before.
    slot: Option<u32>,
    /// Hash of the callee's tag, once a response told it.
    callee: Option<u16>,
    /// Listeners towards caller and callee.
    pub(crate) listeners: [ListenerId; 2],
    peer: Option<PeerId>,
    answered: bool,
    pub(crate) media: Branch,
}

/// Names the media of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MediaRef {
    /// Key of the call.
    pub(crate) call: u64,
    /// Hash of the caller's tag.
    pub(crate) caller: u16,
    /// Which branch.
    pub(crate) branch: BranchName,
}

/// One of a call's branches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BranchName {
    /// That of an attempt.
    Attempt(u32),
    /// That of the dialog with this hash of the callee's tag.
    Dialog(u16),
}

/// Media of a call, as shown to people.
#[derive(Clone, Debug)]
pub struct MediaReport {
    /// Call-ID.
    pub call_id: Box<[u8]>,
    /// When it began.
    pub since: Time,
    /// Listeners towards caller and callee.
    pub listeners: [ListenerId; 2],
    /// The peer that took it.
    pub peer: Option<PeerId>,
    /// Whether it was answered.
    pub answered: bool,
    /// Whether it is on hold.
    pub held: bool,
    /// Its streams: number of the m-line, leg to the caller, leg to the callee.
    pub streams: Vec<(usize, [LegReport; 2])>,
}

impl MediaCall {
    pub(crate) fn find(&mut self, media: MediaRef) -> Option<&mut MediaBranch> {
        let i = self.position(media)?;
        self.branches.get_mut(i)
    }

    fn position(&self, media: MediaRef) -> Option<usize> {
        let exact = |b: &MediaBranch| match media.branch {
            BranchName::Attempt(slot) => b.slot == Some(slot),
            BranchName::Dialog(tag) => b.caller == media.caller && b.callee == Some(tag),
        };
        // A peer that forks answers one attempt with several tags; they share its branch.
        let only = || {
            let mut of_caller = (0..self.branches.len()).filter(|i| self.branches[*i].caller == media.caller);
            of_caller.next().filter(|_| of_caller.next().is_none())
        };
        let found = self.branches.iter().position(exact);
        found.or_else(|| only().filter(|_| matches!(media.branch, BranchName::Dialog(_))))
    }
}

/// Has everybody know what became of a stream: the outbox its ports, the tally its figures.
pub(crate) fn note(streams: &Streams, event: StreamEvent, tally: &mut crate::Tally, out: &mut dyn Outbox) {
    let (id, open) = match event {
        StreamEvent::Opened(id) => (id, true),
        StreamEvent::Closing(id) => (id, false),
    };
    let mut packets = [0; 2];
    for (side, packets) in [Side::Caller, Side::Callee].into_iter().zip(&mut packets) {
        if let Some((address, ports)) = streams.local(id, side) {
            out.media_ports(open, address, ports);
        }
        if let Some(leg) = streams.report(id, side).filter(|_| !open) {
            *packets = leg.received.packets;
            tally.media.ended(&leg.received);
        }
    }
    /// Packets of a stream that is plainly there.
    const MANY: u64 = 100;
    if packets.contains(&0) && packets.iter().any(|p| *p >= MANY) {
        tally.count(Counter::MediaOneWay);
    }
}

impl Engine {
    /// The media that a request within a dialog may describe.
    pub(crate) fn media_of_dialog(call: u64, request: &Request<'_>, sender: Side) -> MediaRef {
        let (from, to) = (tag_hash(request.from_tag), tag_hash(request.to_tag));
        let (caller, callee) = if sender == Side::Caller { (from, to) } else { (to, from) };
        MediaRef { call, caller, branch: BranchName::Dialog(callee) }
    }

    /// Opens the media of an attempt, still without ports; `None`: it is not anchored.
    pub(crate) fn open_media(
        &mut self,
        context: &Context,
        request: &Request<'_>,
        (hop, slot): (Hop, u32),
        turn: &Turn<'_>,
    ) -> Option<MediaRef> {
        let Route::Service(id) = context.route else { return context.media_of(slot) };
        if !context.is_invite() || !is_anchored(id, hop.peer, turn.table) {
            return None;
        }
        let (caller, serial) = (tag_hash(request.from_tag), context.serial);
        // A call that passes this node twice is anchored once.
        let again = |b: &MediaBranch| b.caller == caller && b.serial != serial;
        if self.calls.get(&context.call).is_some_and(|call| call.branches.iter().any(again)) {
            return None;
        }
        let branch = MediaBranch {
            caller,
            serial,
            since: turn.now,
            slot: Some(slot),
            callee: None,
            listeners: [context.ingress, hop.egress],
            peer: hop.peer,
            answered: false,
            media: Branch::default(),
        };
        self.add_branch(context.call, request, branch);
        Some(MediaRef { call: context.call, caller, branch: BranchName::Attempt(slot) })
    }

    fn add_branch(&mut self, key: u64, request: &Request<'_>, branch: MediaBranch) {
        let due = branch.since + self.config.media.timeout;
        let agenda = &mut self.agenda;
        let call = self.calls.entry(key).or_insert_with(|| {
            agenda.add(due, Due::Call(key));
            MediaCall { call_id: request.call_id.into(), due, branches: Vec::new() }
        });
        call.branches.push(branch);
    }

    /// Media of a dialog that lost it, by silence or by a restart of this node: the next offer within the
    /// dialog brings it back.
    pub(crate) fn reopen_media(
        &mut self,
        media: MediaRef,
        request: &Request<'_>,
        (sender, ingress, hop): (Side, ListenerId, Hop),
        now: Time,
    ) {
        let BranchName::Dialog(callee) = media.branch else { return };
        let listeners = if sender == Side::Caller { [ingress, hop.egress] } else { [hop.egress, ingress] };
        if self.media_branch(media).is_some() {
            return;
        }
        let peer = hop.peer.filter(|_| sender == Side::Caller);
        let branch = MediaBranch {
            caller: media.caller,
            serial: 0,
            since: now,
            slot: None,
            callee: Some(callee),
            listeners,
            peer,
            answered: true,
            media: Branch::default(),
        };
        self.add_branch(media.call, request, branch);
        self.tally.count(Counter::MediaReopened);
        if let Some(peer) = peer {
            self.tally.peer(peer).active += 1;
        }
    }

    /// A branch, to be worked on.
    pub(crate) fn media_branch(&mut self, media: MediaRef) -> Option<&mut MediaBranch> {
        self.calls.get_mut(&media.call)?.find(media)
    }

    /// A response tells the callee's tag; one that answers the call makes the attempt's media a dialog's.
    pub(crate) fn media_heard(&mut self, media: MediaRef, to_tag: Option<&[u8]>, answered: bool) {
        let Some(branch) = self.media_branch(media) else { return };
        // The tag of the answer counts in the end, where a peer forks.
        if to_tag.is_some() && !branch.answered {
            branch.callee = Some(tag_hash(to_tag));
        }
        if !answered || branch.answered {
            return;
        }
        branch.answered = true;
        if let Some(peer) = branch.peer {
            self.tally.peer(peer).active += 1;
        }
    }

    /// The offer that a side made in this transaction was refused.
    pub(crate) fn refuse_media(&mut self, media: MediaRef, by: Side, turn: &mut Turn<'_>) {
        let Self { calls, streams, tally, .. } = self;
        if let Some(branch) = calls.get_mut(&media.call).and_then(|c| c.find(media)) {
            let note = &mut |s: &Streams, event| note(s, event, tally, turn.out);
            branch.media.refuse_offer(turn.now, by, streams, note);
        }
    }

    /// A dialog or an attempt is over: its ports become free.
    pub(crate) fn close_media(&mut self, media: MediaRef, turn: &mut Turn<'_>) {
        // The end of one of the dialogs that share a branch is not the end of the branch.
        let is_meant = |branch: &MediaBranch, _: &Streams| match media.branch {
            BranchName::Attempt(slot) => branch.slot == Some(slot),
            BranchName::Dialog(tag) => {
                branch.caller == media.caller && branch.callee.is_none_or(|callee| callee == tag)
            }
        };
        self.close_branches(media.call, is_meant, turn);
    }

    /// The attempts of a context that were not answered, and will not be.
    pub(crate) fn close_unanswered(&mut self, context: &Context, turn: &mut Turn<'_>) {
        if context.media_caller.is_some() && !context.route.is_dialog() {
            let is_meant =
                |branch: &MediaBranch, _: &Streams| branch.serial == context.serial && !branch.answered;
            self.close_branches(context.call, is_meant, turn);
        }
    }

    /// A context is over: what it has not led to an answer goes, and its slots may be used again.
    pub(crate) fn forget_media(&mut self, context: &Context, turn: &mut Turn<'_>) {
        self.close_unanswered(context, turn);
        let call = context.media_caller.and_then(|_| self.calls.get_mut(&context.call));
        for branch in call.into_iter().flat_map(|c| &mut c.branches) {
            if context.attempts.iter().any(|a| branch.slot == Some(a.slot)) {
                branch.slot = None;
            }
        }
    }

    fn close_branches(
        &mut self,
        key: u64,
        which: impl Fn(&MediaBranch, &Streams) -> bool,
        turn: &mut Turn<'_>,
    ) {
        let Self { calls, streams, tally, .. } = self;
        let Some(call) = calls.get_mut(&key) else { return };
        let mut over: Vec<_> = call.branches.extract_if(.., |branch| which(branch, streams)).collect();
        for branch in &mut over {
            branch.media.close(turn.now, streams, &mut |s, event| note(s, event, tally, turn.out));
            if let (true, Some(peer)) = (branch.answered, branch.peer) {
                let active = &mut tally.peer(peer).active;
                *active = active.saturating_sub(1);
            }
        }
        if call.branches.is_empty() {
            calls.remove(&key);
        }
    }

    /// Looks whether a call's media has fallen silent for good.
    pub(crate) fn on_call_due(&mut self, key: u64, turn: &mut Turn<'_>) {
        let Some(call) = self.calls.get(&key).filter(|call| call.due <= turn.now) else { return };
        let (now, &MediaConfig { timeout, hold_timeout, .. }) = (turn.now, &self.config.media);
        let silent_at = |branch: &MediaBranch, streams: &Streams| {
            // Before the answer the INVITE transaction decides, and it always ends.
            let heard = branch.media.last_packet(streams).unwrap_or(branch.since);
            let patience = if branch.media.is_held() { hold_timeout } else { timeout };
            branch.answered.then_some(heard + patience)
        };
        let is_over =
            |branch: &MediaBranch, streams: &Streams| silent_at(branch, streams).is_some_and(|at| at <= now);
        let next = call.branches.iter().filter_map(|b| silent_at(b, &self.streams)).filter(|at| *at > now);
        // A call on hold may be resumed: it is looked at as often as others.
        let soon = now + timeout;
        let again = next.min().unwrap_or(soon).min(soon).max(now + timeout / 8);
        // One without any stream, whose description was left alone, has nothing to lose.
        let lost = |b: &&MediaBranch| is_over(b, &self.streams) && !b.media.is_empty();
        let silent = call.branches.iter().filter(lost).count();
        (0..silent).for_each(|_| self.tally.count(Counter::MediaTimeouts));
        self.close_branches(key, is_over, turn);
        if let Some(call) = self.calls.get_mut(&key) {
            call.due = again;
            self.agenda.add(again, Due::Call(key));
        }
    }

    /// Media of the calls with this Call-ID, or of any, up to a number.
    pub fn media_of(&self, call_id: Option<&[u8]>, count: usize) -> Vec<MediaReport> {
        let named = call_id.and_then(|id| self.calls.get(&self.keys.call(id)));
        let others = call_id.is_none().then(|| self.calls.values()).into_iter().flatten();
        let branches = named.into_iter().chain(others).flat_map(|c| c.branches.iter().map(move |b| (c, b)));
        branches.take(count).map(|(call, branch)| self.media_report(call, branch)).collect()
    }

    fn media_report(&self, call: &MediaCall, branch: &MediaBranch) -> MediaReport {
        let legs = |id| {
            let leg = |side| self.streams.report(id, side);
            Some([leg(Side::Caller)?, leg(Side::Callee)?])
        };
        MediaReport {
            call_id: call.call_id.clone(),
            since: branch.since,
            listeners: branch.listeners,
            peer: branch.peer,
            answered: branch.answered,
            held: branch.media.is_held(),
            streams: branch.media.streams().filter_map(|(i, id)| Some((i, legs(id)?))).collect(),
        }
    }
}

/// Whether media of calls to a peer runs through this node.
pub(crate) fn is_anchored(service: ServiceId, peer: Option<PeerId>, table: &Table) -> bool {
    match table.service(service).map_or(Anchoring::Off, |s| s.anchoring) {
        Anchoring::Off => false,
        Anchoring::All => true,
        Anchoring::Marked => peer.and_then(|id| table.peer(id)).is_some_and(|p| p.anchor),
    }
}
