//! What people see of a running node: [`status`] and [`explain`] as data, [`socket`] as their way out.

pub mod explain;
pub mod socket;
pub mod status;
