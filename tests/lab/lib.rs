//! Laboratories: network namespaces joined by veth, real SIP software in them, and a strowger node.
//!
//! Everything made here is removed when it is dropped; [`sweep`] removes what a killed process left.
#![forbid(unsafe_code)]

pub mod baresip;
pub mod browser;
pub mod cost;
pub mod dns;
pub mod ends;
pub mod kamailio;
pub mod namespace;
pub mod node;
pub mod process;
pub mod rate;
pub mod raw;
pub mod rtp;
pub mod rtpengine;
pub mod script;
pub mod sessions;
pub mod sipp;
pub mod two_regions;
pub mod ua;

pub use namespace::{Namespace, sweep, veth};
pub use node::StrowgerNode;
pub use process::Process;
pub use script::Script;
pub use two_regions::TwoRegions;
