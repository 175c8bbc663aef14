//! What a worker decides: one [`Engine`] joins transactions, routing and media of the calls that its
//! worker owns.
//!
//! Sans-IO: datagrams, the time and the current peer table come in; messages to send and reports to
//! the control thread go out through an [`Outbox`]. Read in the order of a request's life:
//! [`engine`] → `request` → `fork` → `forward` → `attempt` → `response`; `dialog` routes what belongs
//! to an established call, `stateless` forwards without any of this, `anchor` puts this node's media
//! ports into SDP, [`journal`] remembers why each call went where it went.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod agenda;
mod anchor;
mod attempt;
pub mod calls;
mod context;
mod dialog;
pub mod engine;
mod fork;
mod forward;
mod inbound;
pub mod journal;
pub mod keys;
mod loops;
mod probe;
pub mod report;
mod request;
mod response;
mod rng;
mod route_set;
mod settled;
mod stateless;
mod token;
mod turn;
mod waiting;

pub use engine::{Config, Disposition, Engine, Incoming, MediaConfig};
pub use report::{Counter, Outbox, PeerTally, Report, Tally};
pub use sip::transaction::Timers;
pub use token::TokenKey;
