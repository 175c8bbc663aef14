//! What offers and answers (RFC 3264) make of the streams of one dialog.
//!
//! A new offer changes nothing until it is answered: if it is refused, the old session goes on. Only the
//! first one counts at once, since media may be faster than the answer.

use crate::{
    Side, Time,
    ports::NoPort,
    relay::{Place, StreamId, Streams, Target},
    sdp::{Connection, MAX_STREAMS, Sdp, Shown, Stream},
};
use alloc::vec::Vec;
use arrayvec::ArrayVec;
use core::net::IpAddr;

/// What a description is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// An offer that can be refused if there is no port.
    Offer,
    /// An offer in a message that cannot be refused; a stream without port is declined in it.
    FirmOffer,
    /// An answer.
    Answer,
}

/// A description as it came.
#[derive(Clone, Copy, Debug)]
pub struct Description<'a> {
    /// What it says.
    pub sdp: &'a Sdp,
    /// What it is.
    pub role: Role,
    /// Who sent it.
    pub sender: Side,
    /// Where the message came from.
    pub host: IpAddr,
}

/// Media addresses of this node for one side, those that may be used.
pub type Addresses<'a> = &'a [IpAddr];

/// What one side said of a stream.
#[derive(Clone, Copy, Debug)]
struct Said {
    place: Place,
    flows: bool,
    rtp: bool,
    clock_rate: u32,
    /// Port 0: no such stream.
    gone: bool,
    anew: bool,
}

#[derive(Clone, Debug, Default)]
struct Slot {
    stream: Option<StreamId>,
    /// Whether media flows both ways as far as the caller and the callee say.
    flows: [bool; 2],
    /// Offers of the caller and of the callee that are not answered yet.
    offered: [Option<Said>; 2],
}

/// The streams of one dialog.
#[derive(Clone, Debug, Default)]
pub struct Branch {
    slots: Vec<Slot>,
    /// Whether the caller, and the callee, has offered and is not answered yet. Both at once end with both
    /// refused (491).
    offers: [bool; 2],
    /// Whether any offer has been answered.
    agreed: bool,
    origins: [u32; 2],
}

impl Branch {
    /// Whether it has no stream.
    pub fn is_empty(&self) -> bool {
        self.slots.iter().all(|s| s.stream.is_none())
    }

    /// Whether a side has offered and is not answered yet.
    pub fn has_offer_of(&self, side: Side) -> bool {
        self.offers[side as usize]
    }

    /// Whether there are streams and none flows both ways, so that silence is no fault.
    pub fn is_held(&self) -> bool {
        !self.is_empty() && !self.slots.iter().any(|s| s.stream.is_some() && s.flows == [true; 2])
    }

    /// Streams with the number of their m-line, the first one where several share it.
    pub fn streams(&self) -> impl Iterator<Item = (usize, StreamId)> + '_ {
        let first = |i: usize, id| self.slots[..i].iter().all(|s| s.stream != Some(id));
        self.slots
            .iter()
            .enumerate()
            .filter_map(move |(i, s)| Some((i, s.stream.filter(|id| first(i, *id))?)))
    }

    /// When the latest packet of any stream came.
    pub fn last_packet(&self, streams: &Streams) -> Option<Time> {
        self.streams().filter_map(|(_, id)| streams.last_packet(id)).max()
    }

    /// Takes in a description; what the other side is to be shown of each stream. `local` are the media
    /// addresses of the caller's and the callee's side. `events` hears of streams.
    ///
    /// # Errors
    /// There is no port for a stream of an offer: it is as if the offer had not come.
    pub fn describe(
        &mut self,
        now: Time,
        description: &Description<'_>,
        local: [Addresses<'_>; 2],
        streams: &mut Streams,
        events: &mut dyn FnMut(&Streams, StreamEvent),
    ) -> Result<ArrayVec<Shown, MAX_STREAMS>, NoPort> {
        let Description { sdp, role, sender, host } = *description;
        let mut shown = ArrayVec::new();
        let mut fresh = ArrayVec::<usize, MAX_STREAMS>::new();
        if self.slots.len() < sdp.streams.len() {
            self.slots.resize_with(sdp.streams.len(), Slot::default);
        }
        for (i, stream) in sdp.streams.iter().enumerate() {
            shown.push(match self.stream(now, i, description, local, streams) {
                None => Shown::Untouched,
                Some(Ok((id, opened))) => {
                    if opened {
                        fresh.push(i);
                        streams.set_opaque(id, !stream.rtp);
                        events(streams, StreamEvent::Opened(id));
                    }
                    match streams.local(id, sender.other()) {
                        Some((ip, ports)) => Shown::At { ip, ports },
                        None => Shown::Untouched,
                    }
                }
                Some(Err(why)) if role == Role::Offer => {
                    for i in fresh {
                        self.close_slot(now, i, streams, events);
                    }
                    return Err(why);
                }
                Some(Err(_)) => Shown::Declined,
            });
        }
        self.hear(now, description, streams, events);
        for (_, id) in self.streams() {
            streams.set_host(id, sender, host);
        }
        Ok(shown)
    }

    /// The stream of an m-line, and whether it was opened just now; `None`: it is not relayed.
    fn stream(
        &mut self,
        now: Time,
        i: usize,
        description: &Description<'_>,
        local: [Addresses<'_>; 2],
        streams: &mut Streams,
    ) -> Option<Result<(StreamId, bool), NoPort>> {
        let Description { sdp, role, sender, .. } = *description;
        let stream = &sdp.streams[i];
        if !stream.is_relayed() {
            return None;
        }
        if let Some(id) = self.shared(sdp, i) {
            // Alternatives of one port, such as audio and T.38, or a bundle: whichever is taken has it.
            if role != Role::Answer {
                self.slots[i].stream.get_or_insert(id);
            }
            return Some(Ok((id, false)));
        }
        if let Some(id) = self.slots[i].stream {
            return Some(Ok((id, false)));
        }
        // What was not offered cannot be answered: the offer was left alone, and so is this.
        if role == Role::Answer {
            return None;
        }
        let pick = |side: Side, streams: &Streams| {
            let all = local[side as usize];
            let first = all.first().copied()?;
            // The family of the side that is known must match; the other one gets that of its first address.
            let known = if side == sender { stream.address().map(|a| a.ip()) } else { Some(first) };
            let fits = |ip: &IpAddr| known.is_none_or(|known| known.is_ipv4() == ip.is_ipv4());
            streams.roomiest(all.iter().copied().filter(fits)).or(Some(first))
        };
        let (Some(caller), Some(callee)) = (pick(Side::Caller, streams), pick(Side::Callee, streams)) else {
            return Some(Err(NoPort::NoAddress));
        };
        let opened = streams.open(now, caller, callee);
        if let Ok(id) = opened {
            self.slots[i].stream = Some(id);
            self.slots[i].flows = [true; 2];
        }
        Some(opened.map(|id| (id, true)))
    }

    /// The stream of the m-line before `i` that is received at the same place.
    fn shared(&self, sdp: &Sdp, i: usize) -> Option<StreamId> {
        self.slots[sdp.bundled_with(i)?].stream
    }

    /// Draws the consequences.
    fn hear(
        &mut self,
        now: Time,
        description: &Description<'_>,
        streams: &mut Streams,
        events: &mut dyn FnMut(&Streams, StreamEvent),
    ) {
        let Description { sdp, role, sender, .. } = *description;
        let anew = core::mem::replace(&mut self.origins[sender as usize], sdp.origin) != sdp.origin;
        let offered = role != Role::Answer;
        let at_once = !offered || !self.agreed;
        for i in 0..self.slots.len() {
            let Some(said) = sdp.streams.get(i).map(|s| Said::of(s, anew)) else { continue };
            if at_once {
                self.apply(i, sender, said, streams);
                self.set_kind(i, said, offered, streams);
            }
            if offered {
                self.slots[i].offered[sender as usize] = (!at_once).then_some(said);
            }
        }
        if offered {
            self.offers[sender as usize] = true;
            return;
        }
        self.agree(now, description, anew, streams, events);
    }

    /// An answer came: the offer is in force, too.
    fn agree(
        &mut self,
        now: Time,
        description: &Description<'_>,
        anew: bool,
        streams: &mut Streams,
        events: &mut dyn FnMut(&Streams, StreamEvent),
    ) {
        let Description { sdp, sender, .. } = *description;
        let offerer = sender.other();
        let answered = core::mem::take(&mut self.offers[offerer as usize]);
        for i in 0..self.slots.len() {
            let said = sdp.streams.get(i).map(|s| Said::of(s, anew));
            let offered = self.slots[i].offered[offerer as usize].take().filter(|_| answered);
            if let Some(offered) = offered {
                self.apply(i, offerer, offered, streams);
            }
            if said.is_none_or(|s| s.gone) || offered.is_some_and(|s| s.gone) {
                self.close_slot(now, i, streams, events);
            } else if let Some(id) = self.shared(sdp, i).filter(|id| self.slots[i].stream != Some(*id)) {
                // The answer bundles it (RFC 9143 7.3): its own ports were for a peer that does not.
                self.close_slot(now, i, streams, events);
                self.slots[i].stream = Some(id);
            }
        }
        self.agreed = true;
    }

    fn apply(&mut self, i: usize, side: Side, said: Said, streams: &mut Streams) {
        let Some(id) = self.slots[i].stream.filter(|_| !said.gone) else { return };
        self.slots[i].flows[side as usize] = said.flows;
        if self.streams().any(|(first, shared)| shared == id && first == i) {
            streams.set_clock_rate(id, side, said.clock_rate);
        }
        streams.set_place(id, side, said.place, said.anew);
    }

    /// While several kinds are offered for one port, any may come.
    fn set_kind(&mut self, i: usize, said: Said, offered: bool, streams: &mut Streams) {
        let Some(id) = self.slots[i].stream.filter(|_| !said.gone) else { return };
        if !said.rtp || !offered {
            streams.set_opaque(id, !said.rtp);
        }
    }

    /// The offer of a side was refused: what was agreed before goes on, and what it opened goes.
    pub fn refuse_offer(
        &mut self,
        now: Time,
        by: Side,
        streams: &mut Streams,
        events: &mut dyn FnMut(&Streams, StreamEvent),
    ) {
        if !core::mem::take(&mut self.offers[by as usize]) {
            return;
        }
        for i in 0..self.slots.len() {
            let slot = &mut self.slots[i];
            // Nobody but the offerer knows of a stream that the other side was never told of.
            let unheard = slot
                .stream
                .is_some_and(|id| streams.report(id, by.other()).is_some_and(|leg| leg.signalled.is_none()));
            if slot.offered[by as usize].take().is_some() && unheard && self.agreed {
                self.close_slot(now, i, streams, events);
            }
        }
    }

    /// Gives all streams up.
    pub fn close(&mut self, now: Time, streams: &mut Streams, events: &mut dyn FnMut(&Streams, StreamEvent)) {
        for i in 0..self.slots.len() {
            self.close_slot(now, i, streams, events);
        }
    }

    fn close_slot(
        &mut self,
        now: Time,
        i: usize,
        streams: &mut Streams,
        events: &mut dyn FnMut(&Streams, StreamEvent),
    ) {
        if let Some(id) = self.slots[i].stream.take()
            && self.slots.iter().all(|s| s.stream != Some(id))
        {
            events(streams, StreamEvent::Closing(id));
            streams.close(now, id);
        }
    }
}

/// What became of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamEvent {
    /// It has ports from now on.
    Opened(StreamId),
    /// It is about to lose them.
    Closing(StreamId),
}

impl Said {
    fn of(stream: &Stream, anew: bool) -> Self {
        let place = match (stream.address(), stream.connection) {
            (Some(rtp), _) => Place::At(Target::new(rtp, stream.rtcp)),
            // `c=` unspecified with the discard port is ICE that has not begun; with a real one, hold.
            (None, Connection::Unspecified) if stream.port != 9 => Place::Held,
            (None, _) => Place::Unknown,
        };
        Self {
            place,
            flows: stream.flows && place != Place::Held,
            rtp: stream.rtp,
            clock_rate: stream.clock_rate,
            gone: stream.port == 0,
            anew,
        }
    }
}

#[cfg(test)]
#[path = "branch_tests.rs"]
mod tests;
