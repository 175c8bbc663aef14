//! One look-up: NAPTR where configured, SRV, addresses of every target (RFC 3263 4.1, 4.2).

use super::{Answer, Question, Target};
use crate::configure::DnsConfig;
use futures_util::future::join_all;
use hickory_resolver::{
    TokioResolver,
    config::{ConnectionConfig, NameServerConfig, ResolverConfig, ServerOrderingStrategy},
    lookup::Lookup,
    net::{DnsError, NetError, runtime::TokioRuntimeProvider},
    proto::{
        op::ResponseCode,
        rr::{RData, RecordType},
    },
};
use std::{net::SocketAddr, time::Duration};

/// Most servers of a name; more are cut off.
const MAX_TARGETS: usize = 256;

/// Asks DNS servers.
#[derive(Clone)]
pub struct Resolver(TokioResolver);

/// Why a look-up gave no records.
enum Nothing {
    /// There are none.
    Negative,
    /// Nobody knows.
    Failed(String),
}

impl Resolver {
    /// For the configured servers, or those of the system.
    ///
    /// # Errors
    /// The system's configuration cannot be read.
    pub fn new(config: &DnsConfig) -> Result<Self, String> {
        let mut builder = if config.servers.is_empty() {
            TokioResolver::builder_tokio().map_err(|e| e.to_string())?
        } else {
            let servers = config.servers.iter().map(server).collect();
            let config = ResolverConfig::from_parts(None, Vec::new(), servers);
            TokioResolver::builder_with_config(config, TokioRuntimeProvider::default())
        };
        let options = builder.options_mut();
        options.timeout = config.timeout;
        options.attempts = 2;
        // TTLs are kept by [`super::Names`]; what is asked is meant to be answered anew.
        options.cache_size = 0;
        options.ndots = 0;
        options.server_ordering_strategy = ServerOrderingStrategy::UserProvidedOrder;
        options.edns0 = true;
        builder.build().map(Self).map_err(|e| e.to_string())
    }

    /// Asks.
    pub async fn ask(&self, question: &Question) -> Answer {
        let answer = match &question.label {
            None => self.host(question).await,
            Some(label) => self.service(label, question).await,
        };
        match answer {
            Ok(answer) => answer,
            Err(Nothing::Negative) => Answer::Negative,
            Err(Nothing::Failed(error)) => Answer::Failed(error),
        }
    }

    async fn service(&self, label: &str, question: &Question) -> Result<Answer, Nothing> {
        let mut owner = format!("{label}.{}", question.name);
        if question.naptr
            && let Some(named) = self.naptr(&question.name).await?
        {
            owner = named;
        }
        let lookup = match self.lookup(&owner, RecordType::SRV).await {
            Ok(lookup) => lookup,
            // A name without SRV records may have addresses (RFC 3263 4.2).
            Err(Nothing::Negative) => return self.host(question).await,
            Err(nothing) => return Err(nothing),
        };
        let mut ttl = Duration::from_secs(u64::from(u32::MAX));
        let mut records = Vec::new();
        for record in lookup.answers() {
            if let RData::SRV(srv) = &record.data {
                ttl = ttl.min(Duration::from_secs(record.ttl.into()));
                records.push(srv);
            }
        }
        if records.iter().all(|srv| srv.target.is_root()) {
            return if records.is_empty() { Err(Nothing::Negative) } else { Ok(Answer::Absent(ttl)) };
        }
        records.sort_by_key(|srv| srv.priority);
        if records.len() > MAX_TARGETS {
            tracing::warn!(
                name = owner,
                records = records.len(),
                most = MAX_TARGETS,
                "too many servers, the last ones are left out"
            );
            records.truncate(MAX_TARGETS);
        }
        let named = records.iter().filter(|srv| !srv.target.is_root());
        let looked_up = named.map(|srv| async move {
            let host = srv.target.to_ascii().trim_end_matches('.').to_ascii_lowercase();
            (*srv, self.addresses(&host, srv.port, question.ipv4).await, host)
        });
        let mut targets = Vec::new();
        let mut failed = Vec::new();
        let mut why = String::new();
        for (srv, addresses, host) in join_all(looked_up).await {
            match addresses {
                Ok((addresses, address_ttl)) => {
                    ttl = ttl.min(address_ttl);
                    targets.extend(addresses.into_iter().map(|address| Target {
                        host: host.clone(),
                        address,
                        priority: srv.priority,
                        weight: srv.weight,
                    }));
                }
                // A target that has no address of the family is passed over.
                Err(Nothing::Negative) => {}
                Err(Nothing::Failed(error)) => {
                    why = format!("{host}: {error}");
                    failed.push(host);
                }
            }
        }
        targets.truncate(MAX_TARGETS);
        match (targets.is_empty(), failed.is_empty()) {
            (true, false) => Err(Nothing::Failed(why)),
            (true, true) => Err(Nothing::Negative),
            (false, _) => Ok(Answer::Targets { targets, ttl, failed }),
        }
    }

    /// The SRV name that NAPTR records lead to for SIP over UDP; none: they do not say.
    async fn naptr(&self, name: &str) -> Result<Option<String>, Nothing> {
        let lookup = match self.lookup(name, RecordType::NAPTR).await {
            Ok(lookup) => lookup,
            Err(Nothing::Negative) => return Ok(None),
            Err(nothing) => return Err(nothing),
        };
        let mut usable = Vec::new();
        for record in lookup.answers() {
            if let RData::NAPTR(naptr) = &record.data
                && naptr.flags.eq_ignore_ascii_case(b"s")
                && naptr.services.eq_ignore_ascii_case(b"SIP+D2U")
                && !naptr.replacement.is_root()
            {
                usable.push(((naptr.order, naptr.preference), naptr.replacement.to_ascii()));
            }
        }
        Ok(usable.into_iter().min().map(|(_, name)| name.trim_end_matches('.').to_owned()))
    }

    /// The name's own addresses.
    async fn host(&self, question: &Question) -> Result<Answer, Nothing> {
        let (addresses, ttl) = self.addresses(&question.name, question.port, question.ipv4).await?;
        let target = |address| Target { host: question.name.clone(), address, priority: 0, weight: 1 };
        Ok(Answer::whole(addresses.into_iter().map(target).collect(), ttl))
    }

    async fn addresses(
        &self,
        host: &str,
        port: u16,
        ipv4: bool,
    ) -> Result<(Vec<SocketAddr>, Duration), Nothing> {
        let kind = if ipv4 { RecordType::A } else { RecordType::AAAA };
        let lookup = self.lookup(host, kind).await?;
        let mut ttl = u32::MAX;
        let mut addresses = Vec::new();
        for record in lookup.answers() {
            // The TTLs of the aliases on the way count, too.
            ttl = ttl.min(record.ttl);
            match &record.data {
                RData::A(a) => addresses.push(SocketAddr::new(a.0.into(), port)),
                RData::AAAA(a) => addresses.push(SocketAddr::new(a.0.into(), port)),
                _ => {}
            }
        }
        addresses.sort_unstable();
        addresses.dedup();
        if addresses.is_empty() {
            Err(Nothing::Negative)
        } else {
            Ok((addresses, Duration::from_secs(ttl.into())))
        }
    }

    async fn lookup(&self, name: &str, kind: RecordType) -> Result<Lookup, Nothing> {
        // A dot at its end: nothing of the system's search list is tried.
        match self.0.lookup(format!("{name}."), kind).await {
            Ok(lookup) => Ok(lookup),
            Err(NetError::Dns(DnsError::NoRecordsFound(nothing)))
                if matches!(nothing.response_code, ResponseCode::NXDomain | ResponseCode::NoError) =>
            {
                Err(Nothing::Negative)
            }
            Err(error) => Err(Nothing::Failed(error.to_string())),
        }
    }
}

fn server(address: &SocketAddr) -> NameServerConfig {
    let on_port = |mut connection: ConnectionConfig| {
        connection.port = address.port();
        connection
    };
    let connections = vec![on_port(ConnectionConfig::udp()), on_port(ConnectionConfig::tcp())];
    let mut server = NameServerConfig::udp_and_tcp(address.ip());
    server.connections = connections;
    server
}
