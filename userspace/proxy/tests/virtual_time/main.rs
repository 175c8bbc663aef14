//! The engine in virtual time: calls as SIP says, routing rules, and a model with a bad network.

mod calls;
mod health;
mod media;
mod model;
mod routing;
mod world;
