//! The API over HTTP: by a Unix socket (owner only) with its commands, by a loopback port to read only.
//!
//! A page in somebody's browser can send requests to a loopback port: it must not change anything, and
//! must not be read from under another name (DNS rebinding), so the Host is looked at.

use super::api::{Asked, Error, Reply, Request};
use super::{api, explain, media, status};
use axum::{
    Router,
    body::Body,
    extract::{Path, Query, Request as HttpRequest, State, rejection::QueryRejection},
    http::{HeaderValue, StatusCode, header, uri::Authority},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use exchange::errands::Calls;
use routing::Admission;
use serde::Deserialize;
use std::{
    future::Future,
    io,
    net::SocketAddr,
    os::unix::fs::PermissionsExt,
    path::{Path as FilePath, PathBuf},
    time::Duration,
};
use tokio::{
    net::{TcpListener, UnixListener, UnixStream},
    sync::{mpsc, oneshot},
    task::JoinHandle,
    time::timeout,
};
use utoipa::OpenApi;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(3);
/// Most records of one answer.
const MOST: usize = 1000;

type Questions = mpsc::Sender<Asked>;

/// The running servers; stopped and removed with this.
pub struct Servers {
    tasks: Vec<JoinHandle<()>>,
    socket: PathBuf,
}

impl Drop for Servers {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
        let _ = std::fs::remove_file(&self.socket);
    }
}

impl Servers {
    /// Binds the Unix socket, in place of one that nobody listens on any more, and the loopback port.
    ///
    /// # Errors
    /// The socket's directory cannot be made or written, another node listens there, or the port is in
    /// use.
    pub async fn start(
        socket: &FilePath,
        http: Option<SocketAddr>,
        questions: &Questions,
    ) -> io::Result<Self> {
        let unix = bind(socket).await?;
        let mut servers = Self { tasks: Vec::new(), socket: socket.to_owned() };
        servers.serve(axum::serve(unix, all(questions.clone())));
        if let Some(address) = http {
            let tcp = TcpListener::bind(address)
                .await
                .map_err(|e| io::Error::new(e.kind(), format!("http = \"{address}\": {e}")))?;
            servers.serve(axum::serve(
                tcp,
                with_fallbacks(readable(questions.clone())).layer(middleware::from_fn(local_host)),
            ));
        }
        Ok(servers)
    }

    fn serve<F>(&mut self, server: impl IntoFuture<IntoFuture = F>)
    where
        F: Future<Output = io::Result<()>> + Send + 'static,
    {
        let server = server.into_future();
        self.tasks.push(tokio::spawn(async move {
            if let Err(error) = server.await {
                tracing::error!(%error, "the API is gone");
            }
        }));
    }
}

async fn bind(path: &FilePath) -> io::Result<UnixListener> {
    if let Some(directory) = path.parent() {
        std::fs::create_dir_all(directory)?;
    }
    if UnixStream::connect(path).await.is_ok() {
        let message = format!("another node listens on {}", path.display());
        return Err(io::Error::new(io::ErrorKind::AddrInUse, message));
    }
    match std::fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    let listener = UnixListener::bind(path)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}

/// What may be read.
fn readable(questions: Questions) -> Router {
    Router::new()
        .route("/", get(page))
        .route("/healthz", get(|state| ask(state, Request::Alive)))
        .route("/readyz", get(|state| ask(state, Request::Ready)))
        .route("/metrics", get(|state| ask(state, Request::Metrics)))
        .route("/openapi.json", get(openapi))
        .route("/v1/status", get(|state| ask(state, Request::Status)))
        .route("/v1/peers", get(|state| ask(state, Request::Peers)))
        .route("/v1/peers/{name}", get(|state, Path(name)| ask(state, Request::Peer(name))))
        .route("/v1/regions", get(|state| ask(state, Request::Regions)))
        .route("/v1/health", get(|state| ask(state, Request::Health)))
        .route("/v1/names", get(|state| ask(state, Request::Names)))
        .route("/v1/events", get(events))
        .route("/v1/calls", get(calls))
        .route("/v1/media", get(media_calls))
        .with_state(questions)
}

/// Refusals are JSON, too.
fn with_fallbacks(routes: Router) -> Router {
    routes
        .fallback(|| async { reply(Reply::error(404, "no such path, see /openapi.json")) })
        .method_not_allowed_fallback(|| async {
            reply(Reply::error(405, "not with this method, see /openapi.json"))
        })
}

/// And what may be told.
fn all(questions: Questions) -> Router {
    let told = Router::new()
        .route("/v1/peers/{name}/{word}", post(admit_peer))
        .route("/v1/regions/{name}/{word}", post(admit_region))
        .route("/v1/node/drain", post(|state| ask(state, Request::DrainNode(true))))
        .route("/v1/node/enable", post(|state| ask(state, Request::DrainNode(false))))
        .route("/v1/composites/{name}/release", post(|state, Path(name)| ask(state, Request::Release(name))))
        .route("/v1/reload", post(reload))
        .with_state(questions.clone());
    with_fallbacks(readable(questions).merge(told))
}

/// Requests under any other name than a loopback one are a foreign page's.
async fn local_host(request: HttpRequest, next: Next) -> Response {
    let host = request.headers().get(header::HOST).and_then(|h| h.to_str().ok());
    let name = host.and_then(|h| h.parse::<Authority>().ok());
    let local = name.is_some_and(|name| {
        let host = name.host().trim_start_matches('[').trim_end_matches(']');
        host == "localhost" || host.parse().is_ok_and(|ip: std::net::IpAddr| ip.is_loopback())
    });
    if local {
        next.run(request).await
    } else {
        reply(Reply::error(403, "expected a loopback address or localhost as Host"))
    }
}

async fn page() -> Response {
    let mut response = Response::new(Body::from(include_str!("page.html")));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    let policy = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; img-src data:";
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(policy));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

async fn openapi() -> Response {
    let body = Description::openapi().to_json().unwrap_or_default();
    reply(Reply { status: 200, content_type: "application/json", body })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Last {
    last: Option<usize>,
}

/// How many are asked for.
fn bounded(last: Option<usize>, default: usize) -> Result<usize, Reply> {
    let wanted = last.unwrap_or(default);
    if wanted > MOST {
        return Err(Reply::error(400, format!("{wanted} are asked for, expected at most {MOST}")));
    }
    Ok(wanted)
}

/// What a query says.
fn read<T>(query: Result<Query<T>, QueryRejection>) -> Result<T, Reply> {
    query.map(|Query(said)| said).map_err(|error| Reply::error(400, error.body_text()))
}

async fn events(state: State<Questions>, query: Result<Query<Last>, QueryRejection>) -> Response {
    let request = read(query).and_then(|Last { last }| Ok(Request::Events(bounded(last, 100)?)));
    ask_if_sound(state, request).await
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Which {
    call_id: Option<String>,
    last: Option<usize>,
}

async fn calls(state: State<Questions>, query: Result<Query<Which>, QueryRejection>) -> Response {
    let request = read(query).and_then(|Which { call_id, last }| {
        let count = bounded(last, 10)?;
        Ok(Request::Explain(call_id.map_or(Calls::Latest(count), |id| Calls::Of(id.as_bytes().into()))))
    });
    ask_if_sound(state, request).await
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WhichMedia {
    call_id: Option<String>,
    count: Option<usize>,
}

async fn media_calls(state: State<Questions>, query: Result<Query<WhichMedia>, QueryRejection>) -> Response {
    let request = read(query)
        .and_then(|WhichMedia { call_id, count }| Ok(Request::Media(call_id, bounded(count, 20)?)));
    ask_if_sound(state, request).await
}

fn admission(word: &str) -> Result<Admission, Reply> {
    match word {
        "enable" => Ok(Admission::Open),
        "drain" => Ok(Admission::Drained),
        "disable" => Ok(Admission::Disabled),
        _ => Err(Reply::error(
            404,
            format!("there is no command \"{word}\", expected enable, drain or disable"),
        )),
    }
}

async fn admit_peer(state: State<Questions>, Path((name, word)): Path<(String, String)>) -> Response {
    ask_if_sound(state, admission(&word).map(|admission| Request::AdmitPeer(name, admission))).await
}

async fn admit_region(state: State<Questions>, Path((name, word)): Path<(String, String)>) -> Response {
    ask_if_sound(state, admission(&word).map(|admission| Request::AdmitRegion(name, admission))).await
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Dry {
    dry: Option<bool>,
}

async fn reload(state: State<Questions>, query: Result<Query<Dry>, QueryRejection>) -> Response {
    let request = read(query).map(|Dry { dry }| Request::Reload { dry: dry.unwrap_or(false) });
    ask_if_sound(state, request).await
}

async fn ask_if_sound(state: State<Questions>, request: Result<Request, Reply>) -> Response {
    match request {
        Ok(request) => ask(state, request).await,
        Err(refusal) => reply(refusal),
    }
}

async fn ask(State(questions): State<Questions>, request: Request) -> Response {
    let (sender, answer) = oneshot::channel();
    if questions.send(Asked { request, reply: sender }).await.is_err() {
        return reply(Reply::error(503, "the node is stopping"));
    }
    match timeout(PATIENCE, answer).await {
        Ok(Ok(answer)) => reply(answer),
        _ => reply(Reply::error(504, "no answer in time: a worker is stuck, or the node is stopping")),
    }
}

fn reply(reply: Reply) -> Response {
    let status = StatusCode::from_u16(reply.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    (status, [(header::CONTENT_TYPE, reply.content_type)], reply.body).into_response()
}

/// The API's description. The functions below stand for its paths.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "strowger",
        description = "What a node knows, and what it can be told. The commands are to be had by the Unix socket only."
    ),
    paths(
        doc::alive,
        doc::ready,
        doc::metrics,
        doc::status,
        doc::peers,
        doc::peer,
        doc::regions,
        doc::health,
        doc::names,
        doc::events,
        doc::calls,
        doc::media_calls,
        doc::admit_peer,
        doc::admit_region,
        doc::drain_node,
        doc::enable_node,
        doc::release,
        doc::reload
    ),
    components(schemas(Error))
)]
struct Description;

/// One function for each path, for the description alone.
mod doc {
    #![expect(dead_code, reason = "the macros read them, nobody calls them")]
    use super::{Error, api, explain, media, status};
    use crate::history::Event;

    #[utoipa::path(get, path = "/healthz", responses((status = 200, body = api::Done), (status = 504, body = Error)))]
    fn alive() {}
    #[utoipa::path(get, path = "/readyz", responses((status = 200, body = api::Readiness), (status = 503, body = api::Readiness)))]
    fn ready() {}
    #[utoipa::path(get, path = "/metrics", responses((status = 200, body = String, content_type = "application/openmetrics-text; version=1.0.0; charset=utf-8")))]
    fn metrics() {}
    #[utoipa::path(get, path = "/v1/status", responses((status = 200, body = status::Status)))]
    fn status() {}
    #[utoipa::path(get, path = "/v1/peers", responses((status = 200, body = Vec<status::PeerStatus>)))]
    fn peers() {}
    #[utoipa::path(get, path = "/v1/peers/{name}", params(("name" = String, Path)), responses((status = 200, body = status::PeerStatus), (status = 404, body = Error)))]
    fn peer() {}
    #[utoipa::path(get, path = "/v1/regions", responses((status = 200, body = Vec<status::RegionStatus>)))]
    fn regions() {}
    #[utoipa::path(get, path = "/v1/health", responses((status = 200, body = status::HealthStatus)))]
    fn health() {}
    #[utoipa::path(get, path = "/v1/names", responses((status = 200, body = Vec<status::NameStatus>)))]
    fn names() {}
    #[utoipa::path(get, path = "/v1/events", params(("last" = Option<u16>, Query, maximum = 1000)), responses((status = 200, body = Vec<Event>), (status = 400, body = Error)))]
    fn events() {}
    #[utoipa::path(get, path = "/v1/calls", params(("call_id" = Option<String>, Query), ("last" = Option<u16>, Query, maximum = 1000)), responses((status = 200, body = explain::Calls), (status = 400, body = Error)))]
    fn calls() {}
    #[utoipa::path(get, path = "/v1/media", params(("call_id" = Option<String>, Query), ("count" = Option<u16>, Query, maximum = 1000, description = "calls of each worker, whichever they are")), responses((status = 200, body = media::MediaCalls), (status = 400, body = Error)))]
    fn media_calls() {}
    #[utoipa::path(post, path = "/v1/peers/{name}/{word}", params(("name" = String, Path), ("word" = String, Path, description = "enable, drain or disable")), responses((status = 200, body = api::Done), (status = 404, body = Error)))]
    fn admit_peer() {}
    #[utoipa::path(post, path = "/v1/regions/{name}/{word}", params(("name" = String, Path), ("word" = String, Path, description = "enable, drain or disable")), responses((status = 200, body = api::Done), (status = 404, body = Error)))]
    fn admit_region() {}
    #[utoipa::path(post, path = "/v1/node/drain", responses((status = 200, body = api::Done)))]
    fn drain_node() {}
    #[utoipa::path(post, path = "/v1/node/enable", responses((status = 200, body = api::Done)))]
    fn enable_node() {}
    #[utoipa::path(post, path = "/v1/composites/{name}/release", params(("name" = String, Path)), responses((status = 200, body = api::Done), (status = 404, body = Error)))]
    fn release() {}
    #[utoipa::path(post, path = "/v1/reload", params(("dry" = Option<bool>, Query, description = "only say what would change")), responses((status = 200, body = api::Reloaded), (status = 400, body = Error), (status = 409, body = Error), (status = 422, body = Error)))]
    fn reload() {}
}
