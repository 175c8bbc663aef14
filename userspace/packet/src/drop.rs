//! Why a worker drops a packet: one closed, numbered list; the label is the name of the counter.

macro_rules! drop_reasons {
    ($($(#[doc = $doc:literal])* $name:ident, $label:literal;)*) => {
        /// Why a packet was dropped.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum DropReason { $($(#[doc = $doc])* $name,)* }

        impl DropReason {
            /// All reasons, in the order of their counters.
            pub const ALL: &'static [DropReason] = &[$(DropReason::$name,)*];

            /// Name of the counter, as shown to people and in metrics.
            pub const fn label(self) -> &'static str {
                match self { $(DropReason::$name => $label,)* }
            }
        }
    };
}

drop_reasons! {
    /// Shorter than its headers say.
    FrameTruncated, "frame_truncated";
    /// Not what the XDP program steers: both classifiers disagree.
    FrameUnexpected, "frame_unexpected";
    /// A frame larger than one buffer (multi-buffer XDP).
    FrameContinued, "frame_continued";
    /// IPv4 header checksum wrong.
    ChecksumIp, "checksum_ip";
    /// UDP checksum wrong, or zero in IPv6.
    ChecksumUdp, "checksum_udp";
    /// Source outside the allow-list (kernel-socket paths; the XDP program counts its own).
    NotAllowed, "not_allowed";
    /// To an address and port that no listener or media session has.
    NoListener, "no_listener";
    /// A keep-alive or empty datagram on a SIP listener.
    SipKeepAlive, "sip_keep_alive";
    /// No SIP message at all.
    SipNotSip, "sip_not_sip";
    /// A request that cannot be answered because its Via, From, To, Call-ID or CSeq is unusable.
    SipUnanswerable, "sip_unanswerable";
    /// A response that cannot be parsed.
    SipBadResponse, "sip_bad_response";
    /// A response to no transaction of ours.
    SipStrayResponse, "sip_stray_response";
    /// An ACK that belongs to no dialog or transaction.
    SipStrayAck, "sip_stray_ack";
    /// A retransmission that was absorbed.
    SipRetransmission, "sip_retransmission";
    /// A response forbidden to forward (late non-INVITE, or a second final one).
    SipAbsorbed, "sip_absorbed";
    /// A media port without session.
    MediaNoSession, "media_no_session";
    /// Media from an address other than the learned or signalled one.
    MediaWrongSource, "media_wrong_source";
    /// Media whose other side has given no address yet, or is on hold.
    MediaNoDestination, "media_no_destination";
    /// On a media port, neither RTP nor RTCP, STUN, DTLS or ZRTP, or shorter than its headers say.
    MediaMalformed, "media_malformed";
    /// An empty datagram on a media port, which keeps a NAT open (RFC 6263).
    MediaKeepAlive, "media_keep_alive";
    /// The hand-over ring to the owning worker is full.
    HandoverFull, "handover_full";
    /// No free frame to send with.
    NoFrame, "no_frame";
    /// The transmit ring is full.
    TxRingFull, "tx_ring_full";
    /// The kernel refused to send (no route, no socket, no buffer).
    KernelSend, "kernel_send";
}

/// Number of reasons.
pub const COUNT: usize = DropReason::ALL.len();
