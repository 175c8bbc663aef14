//! The control thread. [`configure`] reads and checks the file; [`links`] and [`next_hop`] ask the kernel
//! for interfaces, routes and neighbours; [`icmp`] hears that a request did not arrive; [`discover`] asks
//! DNS; [`roster`] knows who the peers are; [`probe`] plans probes; [`observe`] judges peers and [`judge`]
//! regions; [`assemble`] builds the peer table; [`controller`] makes one of all that; [`history`],
//! [`command`] and [`admin`] show it; [`keep`] and [`key`] outlive the process. It never names the data
//! plane: what passes between them is in `exchange`.
#![forbid(unsafe_code)]

pub mod admin;
pub mod assemble;
pub mod command;
pub mod configure;
pub mod controller;
pub mod discover;
pub mod history;
pub mod icmp;
pub mod judge;
pub mod keep;
pub mod key;
pub mod links;
pub mod next_hop;
pub mod observe;
pub mod probe;
pub mod roster;

pub use health::bound::detection as detection_bound;
