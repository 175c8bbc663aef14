//! Whether a peer is fit for calls: a pure function of evidence and time.
//!
//! [`peer`] judges one peer from probes and traffic, [`bound`] computes the worst-case time to
//! notice a dead one. No IO, no clock: time is a [`core::time::Duration`] since a fixed start.
#![no_std]
#![forbid(unsafe_code)]

pub mod bound;
pub mod peer;

pub use peer::{Evidence, PeerHealth, Policy, Transition};
