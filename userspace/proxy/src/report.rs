//! What leaves the engine: messages, reports to the control thread, and counters.

use alloc::vec::Vec;
use core::{
    net::{IpAddr, SocketAddr},
    time::Duration,
};
use media::{Class, PortPair, relay::Received};
use packet::DropReason;
use routing::PeerId;

/// Where the engine's output goes.
pub trait Outbox {
    /// Sends a SIP message from a listener's address.
    fn send(&mut self, from: SocketAddr, to: SocketAddr, message: &[u8]);
    /// Whether packets may be sent to this address: those whose sources are allowed, and no others.
    /// Asked for next hops that a message names, not the configuration.
    fn may_reach(&mut self, address: IpAddr) -> bool;
    /// Tells the control thread something about a peer.
    fn report(&mut self, report: Report);
    /// A pair of media ports came into use or fell out of it (only kernel sockets care).
    fn media_ports(&mut self, in_use: bool, address: IpAddr, ports: PortPair);
}

/// Evidence about a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Report {
    /// A probe ended: with a status and the time it took, or without an answer.
    Probe {
        /// Peer that was probed.
        peer: PeerId,
        /// Status and round-trip time; `None`: timed out.
        answer: Option<(u16, Duration)>,
    },
    /// The peer answered 503 and asks to be left alone this long.
    RetryAfter(PeerId, Duration),
}

macro_rules! counters {
    ($($(#[doc = $doc:literal])* $name:ident, $label:literal;)*) => {
        /// What an engine counts.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum Counter { $($(#[doc = $doc])* $name,)* }

        impl Counter {
            /// All counters in order.
            pub const ALL: &'static [Counter] = &[$(Counter::$name,)*];

            /// Name, as shown to people and in metrics.
            pub const fn label(self) -> &'static str {
                match self { $(Counter::$name => $label,)* }
            }

            /// What it counts, in a sentence.
            pub fn help(self) -> &'static str {
                match self { $(Counter::$name => concat!($($doc),*).trim(),)* }
            }
        }
    };
}

counters! {
    /// New calls: INVITEs outside a dialog.
    Calls, "calls";
    /// New calls answered with 2xx.
    CallsAnswered, "calls_answered";
    /// New calls answered only after at least one failed attempt.
    CallsRescued, "calls_rescued";
    /// New calls that ended with a peer's final answer other than 2xx.
    CallsRefused, "calls_refused";
    /// New calls that no peer took: answered 408, 500 or 503 by this node.
    CallsFailed, "calls_failed";
    /// New calls ended by the caller's CANCEL.
    CallsCancelled, "calls_cancelled";
    /// Attempts that failed and were followed by another.
    Retries, "retries";
    /// Retries to a peer of another region.
    RetriesOtherRegion, "retries_other_region";
    /// In-dialog requests answered 481 because the dialog's peer is dead.
    DialogsLost, "dialogs_lost";
    /// Media sessions ended because no packet came for too long.
    MediaTimeouts, "media_timeouts";
    /// Offers refused because no media port was free.
    MediaExhausted, "media_exhausted";
    /// Dialogs whose media came back with an offer, after silence or a restart.
    MediaReopened, "media_reopened";
    /// Media streams with packets from one side only.
    MediaOneWay, "media_one_way";
    /// Session descriptions that cannot be read and passed untouched.
    SdpUnreadable, "sdp_unreadable";
    /// Requests that came back although they would be routed the same way again: answered 482.
    Loops, "loops";
    /// Requests that came by a second way while the first copy is worked on: answered 482.
    Merged, "merged";
    /// In-dialog requests without a Route entry that proves the dialog to be this node's: treated as new.
    UnprovenDialogs, "unproven_dialogs";
    /// Next hops named by a message that are outside the allow-list.
    ForbiddenNextHops, "forbidden_next_hops";
    /// Requests whose next hop the network reports as unreachable.
    Unreachable, "unreachable";
    /// ICMP errors that match no request of this node under way.
    IcmpIgnored, "icmp_ignored";
    /// Transactions that ended less than 32 s after their answer, to make room for new ones.
    TransactionsCut, "transactions_cut";
    /// Requests and responses forwarded without state.
    Stateless, "stateless";
    /// Requests refused by this node for a fault of their own (4xx, 5xx).
    RequestsRejected, "requests_rejected";
    /// SIP messages received.
    SipReceived, "sip_received";
    /// SIP messages sent.
    SipSent, "sip_sent";
    /// Media packets relayed.
    MediaRelayed, "media_relayed";
    /// Packets whose checksum a sender on this machine left unfinished (turn off its offload).
    ChecksumPartial, "checksum_partial";
    /// Packets handed to another worker.
    HandedOver, "handed_over";
    /// Packets that left through a kernel socket.
    SlowPathSent, "slow_path_sent";
    /// Packets that came in through a kernel socket.
    SlowPathReceived, "slow_path_received";
}

/// Number of counters.
pub const COUNTERS: usize = Counter::ALL.len();

/// Counters of one peer, in one cache line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(align(64))]
pub struct PeerTally {
    /// Call attempts sent to it.
    pub attempts: u64,
    /// Attempts it answered with 2xx.
    pub answered: u64,
    /// Attempts that failed so that another peer was tried.
    pub failed: u64,
    /// Calls in progress whose media this node relays.
    pub active: u64,
    /// Answers to requests that show it works.
    pub alive: u64,
    /// Requests that it kept silent about or answered 503, or that cannot reach it.
    pub lost: u64,
    /// Whether it is in [`Tally::touched`].
    touched: bool,
}

/// Bounds of the jitter histogram, in microseconds.
pub const JITTER_BOUNDS: [u32; 8] = [500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000];
/// Bounds of the loss histogram, in packets of ten thousand.
pub const LOSS_BOUNDS: [u32; 8] = [0, 10, 50, 100, 200, 500, 1_000, 2_500];

/// Values below or at each bound of a histogram but above the one before, and above all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Buckets {
    /// Counts.
    pub counts: [u64; 9],
    /// Sum of the values.
    pub sum: u64,
}

impl Buckets {
    fn add(&mut self, bounds: &[u32; 8], value: u32) {
        self.counts[bounds.iter().position(|b| value <= *b).unwrap_or(bounds.len())] += 1;
        self.sum += u64::from(value);
    }
}

/// Numbers in a [`MediaTally`].
pub const MEDIA_WORDS: usize = Class::ALL.len() + 5 + 2 * 9;

/// What was counted of media.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MediaTally {
    /// Packets relayed, by [`Class`].
    pub packets: [u64; Class::ALL.len()],
    /// Bytes of their UDP payloads.
    pub bytes: u64,
    /// RTP packets of ended streams that ought to have come, and those that did not.
    pub expected: u64,
    /// See [`MediaTally::expected`].
    pub lost: u64,
    /// Jitter of ended streams by direction: bounds are [`JITTER_BOUNDS`].
    pub jitter: Buckets,
    /// Loss of ended streams by direction: bounds are [`LOSS_BOUNDS`].
    pub loss: Buckets,
}

impl MediaTally {
    /// A packet was relayed.
    #[inline]
    pub(crate) fn relayed(&mut self, class: Class, len: usize) {
        self.packets[class as usize] += 1;
        self.bytes += len as u64;
    }

    /// One direction of a stream has ended.
    pub(crate) fn ended(&mut self, received: &Received) {
        if received.expected == 0 {
            return;
        }
        self.expected += u64::from(received.expected);
        self.lost += u64::from(received.lost);
        self.jitter.add(&JITTER_BOUNDS, received.jitter_us);
        let ratio = u64::from(received.lost) * 10_000 / u64::from(received.expected);
        self.loss.add(&LOSS_BOUNDS, ratio as u32);
    }

    /// All of it as numbers, for the board.
    pub fn words(&self) -> [u64; MEDIA_WORDS] {
        let mut words = [0; MEDIA_WORDS];
        let scalars = [self.bytes, self.expected, self.lost, self.jitter.sum, self.loss.sum];
        let all = self.packets.iter().chain(&scalars).chain(&self.jitter.counts).chain(&self.loss.counts);
        words.iter_mut().zip(all).for_each(|(to, value)| *to = *value);
        words
    }

    /// The same from its numbers.
    pub fn from_words(words: [u64; MEDIA_WORDS]) -> Self {
        let mut next = words.into_iter();
        let mut take = || next.next().unwrap_or_default();
        let packets = core::array::from_fn(|_| take());
        let [bytes, expected, lost, jitter_sum, loss_sum] = core::array::from_fn(|_| take());
        let jitter = Buckets { counts: core::array::from_fn(|_| take()), sum: jitter_sum };
        let loss = Buckets { counts: core::array::from_fn(|_| take()), sum: loss_sum };
        Self { packets, bytes, expected, lost, jitter, loss }
    }

    /// Adds what another worker counted.
    pub fn add(&mut self, other: &Self) {
        let mut words = self.words();
        words.iter_mut().zip(other.words()).for_each(|(to, value)| *to += value);
        *self = Self::from_words(words);
    }
}

/// All that an engine counted; read by the worker and published for others.
#[derive(Clone, Debug)]
pub struct Tally {
    /// By [`Counter`].
    pub counters: [u64; COUNTERS],
    /// By [`DropReason`].
    pub drops: [u64; packet::drop::COUNT],
    /// By [`PeerId`].
    pub peers: Vec<PeerTally>,
    /// Of media.
    pub media: MediaTally,
    /// Peers whose counters changed since they were last read.
    touched: Vec<PeerId>,
}

impl Default for Tally {
    fn default() -> Self {
        Self {
            counters: [0; COUNTERS],
            drops: [0; packet::drop::COUNT],
            peers: Vec::new(),
            media: MediaTally::default(),
            touched: Vec::new(),
        }
    }
}

impl Tally {
    /// Adds one to a counter.
    #[inline]
    pub fn count(&mut self, counter: Counter) {
        self.counters[counter as usize] += 1;
    }

    /// Counts a dropped packet.
    #[inline]
    pub fn drop(&mut self, reason: DropReason) {
        self.drops[reason as usize] += 1;
    }

    /// A peer's counters, to change them.
    pub(crate) fn peer(&mut self, id: PeerId) -> &mut PeerTally {
        let index = usize::from(id.0);
        if index >= self.peers.len() {
            self.peers.resize(index + 1, PeerTally::default());
        }
        let peer = &mut self.peers[index];
        if !peer.touched {
            peer.touched = true;
            self.touched.push(id);
        }
        peer
    }

    /// Hands out the counters of every peer that changed since the last time.
    pub fn take_touched(&mut self, mut see: impl FnMut(PeerId, &PeerTally)) {
        for id in self.touched.drain(..) {
            let peer = &mut self.peers[usize::from(id.0)];
            peer.touched = false;
            see(id, peer);
        }
    }
}
