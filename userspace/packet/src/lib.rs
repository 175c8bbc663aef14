//! A frame in memory: Ethernet, one VLAN tag, IPv4 without options, IPv6 without extension headers,
//! UDP. [`frame::parse`] reads and verifies it, [`frame::write`] writes the headers of a new one;
//! [`icmp`] reads the errors that come back instead.
//!
//! No IO, no clock, no allocation.
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate alloc;

pub mod checksum;
pub mod drop;
pub mod ethernet;
pub mod frame;
pub mod icmp;
pub mod ipv4;
pub mod ipv6;
pub mod udp;

pub use drop::DropReason;
pub use frame::{Datagram, Headers};
