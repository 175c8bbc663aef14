//! What the XDP program and user space agree on: the tag in front of a steered packet, the keys and
//! values of the maps, and the closed list of verdict counters.
//!
//! Every type is `repr(C)`, has no padding, and its size is asserted below, so that both compilers
//! lay it out alike. A change of layout raises [`LAYOUT_VERSION`]; the loader refuses a program built
//! with another one.
#![no_std]
#![forbid(unsafe_code)]

/// Version of all layouts in this crate; also the last byte of [`LAYOUT_MARKER`].
pub const LAYOUT_VERSION: u16 = 1;

/// Stands in the program's object file, so that the loader can tell what it was built for.
pub const LAYOUT_MARKER: [u8; 20] = *b"strowger-layout-0001";

/// First half-word of a valid [`Tag`].
pub const TAG_MAGIC: u16 = 0x5300 | LAYOUT_VERSION;

/// Bytes of a [`Tag`] in the XDP metadata area.
pub const TAG_LEN: usize = 16;

/// What the XDP program learned of a packet, written to XDP metadata directly before the frame.
///
/// Host byte order: the program runs on the same machine as its reader.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag {
    /// [`TAG_MAGIC`], or the rest means nothing.
    pub magic: u16,
    /// [`CLASS_SIP`] or [`CLASS_MEDIA`].
    pub class: u8,
    /// Health of `peer` when the maps were written: 0 unknown, 1 healthy, 2 unhealthy.
    pub health: u8,
    /// Generation of the peer table that the maps were written from.
    pub epoch: u32,
    /// Low 32 bits of CLOCK_MONOTONIC in nanoseconds when the program saw the packet.
    pub seen_at: u32,
    /// Peer that the source address belongs to, [`NO_PEER`] where the range names none.
    pub peer: u16,
    /// Region of the source range, [`NO_REGION`] where it has none.
    pub region: u8,
    /// Zero.
    pub reserved: u8,
}

impl Tag {
    /// Reads a tag; `None` where the bytes do not start with [`TAG_MAGIC`].
    pub fn from_bytes(b: &[u8; TAG_LEN]) -> Option<Self> {
        let half = |i: usize| u16::from_ne_bytes([b[i], b[i + 1]]);
        let word = |i: usize| u32::from_ne_bytes([b[i], b[i + 1], b[i + 2], b[i + 3]]);
        (half(0) == TAG_MAGIC).then(|| Self {
            magic: TAG_MAGIC,
            class: b[2],
            health: b[3],
            epoch: word(4),
            seen_at: word(8),
            peer: half(12),
            region: b[14],
            reserved: b[15],
        })
    }
}

/// Class of a packet to a SIP listener.
pub const CLASS_SIP: u8 = 1;
/// Class of a packet to a port of the media range.
pub const CLASS_MEDIA: u8 = 2;
/// `Tag::peer` of a source that is allowed but is no configured peer.
pub const NO_PEER: u16 = u16::MAX;
/// `Tag::region` of a source range that belongs to no region.
pub const NO_REGION: u8 = u8::MAX;

/// Key of the `SERVICES` map: one SIP listener. IPv4 addresses are IPv4-mapped (`::ffff:a.b.c.d`).
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServiceKey {
    /// Local address.
    pub addr: [u8; 16],
    /// UDP port, network byte order.
    pub port: [u8; 2],
    /// Zero.
    pub pad: [u8; 2],
}

impl ServiceKey {
    /// As bytes of the map's key.
    pub fn to_bytes(self) -> [u8; 20] {
        let mut bytes = [0; 20];
        bytes[..16].copy_from_slice(&self.addr);
        bytes[16..18].copy_from_slice(&self.port);
        bytes
    }
}

/// Value of the `MEDIA` map (key: local address): the ports that carry media there, both inclusive.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MediaRange {
    /// First port, host byte order.
    pub first: u16,
    /// Last port, host byte order.
    pub last: u16,
}

impl MediaRange {
    /// As bytes of the map's value.
    pub fn to_bytes(self) -> [u8; 4] {
        let ([a, b], [c, d]) = (self.first.to_ne_bytes(), self.last.to_ne_bytes());
        [a, b, c, d]
    }
}

/// Value of the allow-lists: who a source prefix belongs to. See [`Tag`] for the fields.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AllowValue {
    /// Peer, or [`NO_PEER`].
    pub peer: u16,
    /// Region, or [`NO_REGION`].
    pub region: u8,
    /// Health of the peer.
    pub health: u8,
}

impl AllowValue {
    /// As bytes of the map's value.
    pub fn to_bytes(self) -> [u8; 4] {
        let [a, b] = self.peer.to_ne_bytes();
        [a, b, self.region, self.health]
    }
}

/// The one entry of the `SETTINGS` map.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Copied into [`Tag::epoch`].
    pub epoch: u32,
    /// VLAN id that packets of this interface carry; 0: untagged.
    pub vlan: u16,
    /// Zero.
    pub pad: u16,
}

impl Settings {
    /// As bytes of the map's value.
    pub fn to_bytes(self) -> [u8; 8] {
        let ([a, b, c, d], [e, f]) = (self.epoch.to_ne_bytes(), self.vlan.to_ne_bytes());
        [a, b, c, d, e, f, 0, 0]
    }
}

macro_rules! verdicts {
    ($($(#[doc = $doc:literal])* $name:ident = $n:literal, $label:literal;)*) => {
        /// What became of a packet in the XDP program; the index of its per-CPU counter.
        #[repr(u32)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Verdict { $($(#[doc = $doc])* $name = $n,)* }

        impl Verdict {
            /// All verdicts in the order of their counters.
            pub const ALL: &'static [Verdict] = &[$(Verdict::$name,)*];

            /// Name of the counter, as shown to people and in metrics.
            pub const fn label(self) -> &'static str {
                match self { $(Verdict::$name => $label,)* }
            }
        }
    };
}

verdicts! {
    /// To a worker: a SIP listener.
    SteerSip = 0, "steer_sip";
    /// To a worker: a media port.
    SteerMedia = 1, "steer_media";
    /// Source outside every allow-listed prefix.
    DropNotAllowed = 2, "drop_not_allowed";
    /// Neither IPv4 nor IPv6 (ARP, LLDP, ...).
    PassNotIp = 3, "pass_not_ip";
    /// VLAN tag missing, unexpected, doubled, or of another VLAN.
    PassOtherVlan = 4, "pass_other_vlan";
    /// IP, but not UDP (or not directly: extension headers).
    PassNotUdp = 5, "pass_not_udp";
    /// A fragment, first or later: the kernel reassembles.
    PassFragment = 6, "pass_fragment";
    /// IPv4 header with options.
    PassIpOptions = 7, "pass_ip_options";
    /// Frame shorter than its headers say.
    PassTruncated = 8, "pass_truncated";
    /// UDP to an address and port that is not ours.
    PassNoService = 9, "pass_no_service";
    /// Ours, but no socket is bound to the receive queue: the kernel answers.
    PassNoSocket = 10, "pass_no_socket";
    /// Ours, but the driver has no room for the tag.
    PassNoMetadata = 11, "pass_no_metadata";
}

/// Slots of the `VERDICTS` map.
pub const VERDICT_COUNT: u32 = 12;
/// Slots of the `XSKS` map: the most receive queues of one interface.
pub const MAX_QUEUES: u32 = 64;
/// Entries of `SERVICES` and of `MEDIA`.
pub const MAX_SERVICES: u32 = 256;
/// Entries of each allow-list.
pub const MAX_PREFIXES: u32 = 65_536;

const _: () = {
    assert!(size_of::<Tag>() == TAG_LEN);
    assert!((LAYOUT_MARKER[LAYOUT_MARKER.len() - 1] - b'0') as u16 == LAYOUT_VERSION);
    assert!(size_of::<ServiceKey>() == 20);
    assert!(size_of::<MediaRange>() == 4);
    assert!(size_of::<AllowValue>() == 4);
    assert!(size_of::<Settings>() == 8);
    assert!(Verdict::ALL.len() == VERDICT_COUNT as usize);
};
