//! From the wire to the engine and back: the XDP program's loader, AF_XDP rings, kernel sockets, and
//! the workers that run them.
//!
//! The only crate with `unsafe`: each block says why it is sound. [`lifecycle`] starts and stops a
//! node, [`backend`] holds the ways to receive and send, [`worker`] the loop above them.

pub mod backend;
pub mod clock;
pub mod lifecycle;
mod memory;
pub mod pin;
pub mod plan;
pub mod port;
pub mod privileges;
pub mod program;
mod queue;
mod slow_path;
pub mod worker;

pub use lifecycle::{Node, StartError};
pub use memory::{fetch, large_pages};
pub use plan::{BackendKind, InterfacePlan, MediaPlan, NodePlan, WorkerPlan, XdpMode};
pub use queue::receive_queues;
