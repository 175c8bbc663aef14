//! Where a new call goes: one immutable [`Table`] with one generation, and [`select`], which picks a
//! peer from it and says why.
//!
//! No IO, no clock, no state.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod select;
pub mod table;

pub use select::{Choice, Why, select};
pub use table::{
    Admission, Anchoring, Fork, Listener, ListenerId, Peer, PeerId, PeerName, PeerState, RegionId,
    ServerError, Service, ServiceId, Table, Trial, Upstream, fnv1a,
};
