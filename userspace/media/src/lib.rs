//! Media without IO: what of an SDP body must change so that media runs through this node
//! ([`sdp`]), and where each media packet goes ([`session`]).
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod sdp;
pub mod session;

pub use session::{PortPair, Relay, SessionId, Sessions, Side, Target};
