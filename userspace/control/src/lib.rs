//! The control thread. Files in the order they run: [`configure`] reads and checks the file,
//! [`links`] and [`next_hop`] ask the kernel for interfaces, routes and neighbours, [`icmp`] hears
//! that a request did not arrive, [`probe`] plans probes, [`observe`] takes evidence and judges, [`assemble`] builds the peer table, [`admin`] shows
//! it all. It never names the data plane: what passes between them is in `exchange`.
#![forbid(unsafe_code)]

pub mod admin;
pub mod assemble;
pub mod configure;
pub mod icmp;
pub mod key;
pub mod links;
pub mod next_hop;
pub mod observe;
pub mod probe;

pub use health::bound::detection as detection_bound;
