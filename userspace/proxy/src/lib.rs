//! What a worker decides: one [`Engine`] joins transactions, routing and media of the calls that its
//! worker owns.
//!
//! Sans-IO: datagrams, the time and the current peer table come in; messages to send and reports to
//! the control thread go out through an [`Outbox`]. Read in the order of a request's life:
//! [`engine`] → `request` → `invite` → `forward` → `response`; `dialog` routes what belongs to an
//! established call, `anchor` puts this node's media ports into SDP.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod agenda;
mod anchor;
mod context;
mod dialog;
pub mod engine;
mod forward;
mod invite;
pub mod keys;
mod probe;
pub mod report;
mod request;
mod response;
mod rng;
mod turn;

pub use engine::{Config, Disposition, Engine, Incoming};
pub use report::{Counter, Outbox, PeerTally, Report, Tally};
pub use sip::transaction::Timers;
