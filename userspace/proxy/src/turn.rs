//! What every step of a turn needs: the time, the table, and the way out.

use crate::Outbox;
use routing::Table;
use sip::transaction::Time;

/// One entrance into the engine.
pub(crate) struct Turn<'a> {
    pub(crate) now: Time,
    pub(crate) table: &'a Table,
    pub(crate) out: &'a mut dyn Outbox,
}
