//! What people see of a running node: [`status`] as data, [`socket`] as its way out.

pub mod socket;
pub mod status;
