//! A request as it arrived, read once for everybody.

use crate::{route_set::RouteSet, token::TokenKey};
use routing::Table;
use sip::{Fault, HeaderName, Message, Request, scan::Via};

/// A sound request and its route set.
pub(crate) struct Inbound<'m, 'a> {
    pub(crate) m: &'m Message<'a>,
    pub(crate) request: Request<'a>,
    pub(crate) routes: RouteSet<'a>,
}

impl<'m, 'a> Inbound<'m, 'a> {
    /// Reads a request whose topmost Via was read already.
    ///
    /// # Errors
    /// The answer that it deserves.
    pub(crate) fn read(
        m: &'m Message<'a>,
        via: Via<'a>,
        table: &Table,
        key: &TokenKey,
    ) -> Result<Self, Fault> {
        let request = Request::read(m, via)?;
        let routes = RouteSet::read(m, &request, table, key)?;
        Ok(Self { m, request, routes })
    }

    /// Reads a request again that was sound when it arrived.
    pub(crate) fn again(m: &'m Message<'a>, table: &Table, key: &TokenKey) -> Option<Self> {
        let via = Via::parse(m.value(HeaderName::Via)?)?;
        Self::read(m, via, table, key).ok()
    }
}
