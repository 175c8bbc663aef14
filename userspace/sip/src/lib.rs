//! Signalling without IO: bytes and time come in, bytes and the next deadline go out.
//!
//! [`message`] indexes a datagram without copying it, [`framer`] cuts a stream into such messages,
//! [`scan`] reads what a proxy must read of a header, [`request`] judges a request whole, [`edit`]
//! writes a changed copy, [`respond`] makes an answer, [`transaction`] holds the state machines of
//! RFC 3261 section 17 (with RFC 6026).
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod branch;
mod bytes;
pub mod edit;
pub mod framer;
pub mod header;
pub mod message;
pub mod request;
pub mod respond;
pub mod scan;
pub mod transaction;

pub use edit::Edits;
pub use header::HeaderName;
pub use message::{Message, Method, Span, StartLine};
pub use request::{Fault, Request};
