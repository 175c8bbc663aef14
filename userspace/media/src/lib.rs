//! Media without IO: what of an SDP body must change so that media runs through this node ([`sdp`]),
//! what offers and answers make of the streams of a call ([`branch`]), and where each media packet goes
//! ([`relay`]).
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod branch;
pub mod demux;
mod endpoint;
pub mod ports;
mod quality;
pub mod relay;
pub mod sdp;

pub use branch::Branch;
pub use demux::Class;
pub use ports::{NoPort, PortPair};
pub use relay::{Refusal, Relay, StreamId, Streams};

use core::time::Duration;

/// Time since the node's start.
pub type Time = Duration;

/// Which end of a call a side faces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The one who sent the INVITE.
    Caller,
    /// The one who answered it.
    Callee,
}

impl Side {
    /// The other one.
    pub fn other(self) -> Self {
        match self {
            Self::Caller => Self::Callee,
            Self::Callee => Self::Caller,
        }
    }
}
