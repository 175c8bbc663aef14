//! A worker: one pinned thread that receives, judges and sends, run to completion.
//!
//! [`Desk`] is the judgement, free of any socket; [`run`] is the loop that joins it with a backend.

mod desk;
mod turn;

pub use desk::{Arrival, Desk, Verdict};
pub use turn::run;
