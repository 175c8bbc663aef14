//! What each stage of the packet path costs, and whole systems side by side on one rig.
#![forbid(unsafe_code)]

pub mod report;
pub mod rig;
pub mod run;
pub mod stages;
