//! What people see of a running node and tell it: [`api`] are the questions and commands, [`http`] their
//! way in by a Unix socket and a loopback port, [`client`] the way of the command line; [`status`],
//! [`explain`] and [`metrics`] the answers.

pub mod api;
pub mod client;
pub mod explain;
pub mod http;
pub mod media;
pub mod metrics;
pub mod status;
