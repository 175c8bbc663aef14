//! SDP (RFC 8866) as far as a relay needs it: [`scan`] reads a body, [`rewrite`] puts other addresses
//! and ports into it and leaves every other byte alone, [`part`] finds the SDP in a SIP body.

mod line;
pub mod part;
mod rewrite;
mod scan;

pub use rewrite::{Shown, Sink, rewrite};
pub use scan::scan;

use arrayvec::ArrayVec;
use core::net::{IpAddr, SocketAddr};

/// Most m-lines of a body.
pub const MAX_STREAMS: usize = 16;

/// Why a body cannot be anchored although it ought to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// It does not begin with `v=`.
    NoVersion,
    /// A media line without readable port or transport.
    MediaLine,
    /// A connection line that is none.
    Connection,
    /// A stream in use for which no connection line tells an address.
    NoConnection,
    /// More m-lines than [`MAX_STREAMS`].
    TooManyStreams,
    /// A stream of several consecutive ports (RFC 8866 5.14), which is not supported.
    PortCount,
}

impl Broken {
    /// Why, as the reason phrase of a 488.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::NoVersion => "SDP Without Version",
            Self::MediaLine => "SDP Media Line Not Readable",
            Self::Connection => "SDP Connection Line Not Readable",
            Self::NoConnection => "SDP Without Connection Address",
            Self::TooManyStreams => "SDP With Too Many Streams",
            Self::PortCount => "SDP With Port Count Not Supported",
        }
    }
}

/// What a connection line says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Connection {
    /// A unicast address.
    At(IpAddr),
    /// The unspecified address: on hold (RFC 3264 8.4), or not known yet.
    Unspecified,
    /// A host name: its address shows with the first packet only.
    Name,
    /// A multicast group: media there does not run through this node.
    Multicast,
}

/// One m-line and what belongs to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream {
    /// Port; 0: declined, removed, or bundled with another one (RFC 9143).
    pub port: u16,
    /// Whether it runs over UDP, so that it can be relayed.
    pub udp: bool,
    /// Whether it is RTP or SRTP, so that its packets can be told from garbage.
    pub rtp: bool,
    /// Where it is received.
    pub connection: Connection,
    /// Whether it has a connection line of its own.
    pub own_connection: bool,
    /// Port of `a=rtcp` (RFC 3605).
    pub rtcp: Option<u16>,
    /// Whether `a=rtcp-mux` is there (RFC 5761).
    pub rtcp_mux: bool,
    /// Whether its sender both sends and receives, by the direction attributes.
    pub flows: bool,
    /// Clock rate of its first format, in Hz.
    pub clock_rate: u32,
}

impl Stream {
    /// Whether packets of it can and shall run through this node.
    pub fn is_relayed(&self) -> bool {
        self.port != 0 && self.udp && self.connection != Connection::Multicast
    }

    /// Where its sender receives it, if it does and the address is known.
    pub fn address(&self) -> Option<SocketAddr> {
        match self.connection {
            // Port 9 is "discard": the real one is to come (RFC 8840 4.1).
            Connection::At(ip) if self.port != 0 && self.port != 9 => Some(SocketAddr::new(ip, self.port)),
            _ => None,
        }
    }
}

/// A body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sdp {
    /// Its streams, in order.
    pub streams: ArrayVec<Stream, MAX_STREAMS>,
    /// Hash of the origin line, which changes with every new version of the description.
    pub origin: u32,
    /// Whether it offers ICE (RFC 8839).
    pub ice: bool,
}

impl Sdp {
    /// The stream before `index` that is received at the same address, as bundled ones are (RFC 9143).
    pub fn bundled_with(&self, index: usize) -> Option<usize> {
        let address = self.streams.get(index)?.address()?;
        self.streams[..index].iter().position(|s| s.is_relayed() && s.address() == Some(address))
    }
}

#[cfg(test)]
mod tests;
