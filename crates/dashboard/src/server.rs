//! The HTTP server: pages, JSON and server-sent events.
//!
//! Every answer is made for a viewer. There is no inline script and no outside resource, and a strict policy says so.
//! What can grow is bounded: connections, streams, the size of a request, the length of a list.

mod query;
mod stream;

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use http::header::{self, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use serde::Serialize;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use crate::answers::{self, WaitQuery};
use crate::assets;
use crate::gate::{Gate, Refusal, Source};
use crate::history;
use crate::hub::Hub;
use crate::view::View;
use crate::viewer::Viewer;
use crate::what_if::CHANGE_BYTES_MAX;
use query::Query;

/// Connections at a time; a browser has up to six.
const CONNECTIONS_MAX: usize = 512;

/// Streams of events at a time.
const STREAMS_MAX: usize = 128;

/// How long a client may take to send the head of a request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const JSON: &str = "application/json";

type Body = BoxBody<Bytes, Infallible>;

/// Everything that answers need.
pub struct Server {
    pub hub: Arc<Hub>,
    pub source: Arc<dyn Source>,
    pub gate: Arc<dyn Gate>,
    /// Only requests to these names are answered, so that no other site can have a browser ask us under its own name.
    /// Empty: any.
    pub hosts: Vec<String>,
    streams: Arc<Semaphore>,
    overviews: stream::Overviews,
}

/// The address cannot be served on.
#[derive(Debug, thiserror::Error)]
#[error("{address}: {error}: expected an address to serve the dashboard on")]
pub struct ServeError {
    address: SocketAddr,
    error: std::io::Error,
}

impl Server {
    /// A server for this hub and source.
    pub fn new(hub: Arc<Hub>, source: Arc<dyn Source>, gate: Arc<dyn Gate>) -> Self {
        let streams = Arc::new(Semaphore::new(STREAMS_MAX));
        Server { hub, source, gate, hosts: Vec::new(), streams, overviews: stream::Overviews::default() }
    }

    /// Answers only under the names of this machine's loopback.
    pub fn on_loopback_only(mut self) -> Self {
        self.hosts = ["localhost", "127.0.0.1", "[::1]"].map(str::to_string).to_vec();
        self
    }

    /// Listens on the address; the future that is returned answers for ever.
    pub async fn serve(self, address: SocketAddr) -> Result<(SocketAddr, impl Future<Output = ()> + Send), ServeError> {
        let wrong = |error| ServeError { address, error };
        let listener = TcpListener::bind(address).await.map_err(wrong)?;
        let bound = listener.local_addr().map_err(wrong)?;
        Ok((bound, answer_all(listener, Arc::new(self))))
    }
}

async fn answer_all(listener: TcpListener, server: Arc<Server>) {
    let connections = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let Ok(permit) = connections.clone().acquire_owned().await else { return };
        let Ok((stream, peer)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let server = server.clone();
        tokio::spawn(async move {
            let service = service_fn(|request: Request<Incoming>| {
                let server = server.clone();
                async move { Ok::<_, Infallible>(secured(answer(&server, request, peer.ip()).await)) }
            });
            let mut builder = http1::Builder::new();
            builder.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT);
            // Whoever asked has gone away: nothing is lost.
            let _ = builder.serve_connection(TokioIo::new(stream), service).await;
            drop(permit);
        });
    }
}

fn secured(mut response: Response<Body>) -> Response<Body> {
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_FRAME_OPTIONS, "DENY"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

async fn answer(server: &Arc<Server>, request: Request<Incoming>, _peer: IpAddr) -> Response<Body> {
    if !is_for_us(server, &request) {
        return refused(StatusCode::MISDIRECTED_REQUEST, "this address is served under another name");
    }
    let path = request.uri().path().to_string();
    if !path.starts_with("/api/") {
        return page(&request, &path);
    }
    match api(server, request, &path).await {
        Ok(response) => response,
        Err(refusal) => {
            let status = match &refusal {
                Refusal::SignIn => StatusCode::UNAUTHORIZED,
                Refusal::Forbidden(_) => StatusCode::FORBIDDEN,
                Refusal::Bad(_) => StatusCode::BAD_REQUEST,
            };
            refused(status, &refusal.to_string())
        }
    }
}

fn is_for_us(server: &Server, request: &Request<Incoming>) -> bool {
    let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let name = match host.rfind(':') {
        Some(at) if !host.ends_with(']') => &host[..at],
        _ => host,
    };
    server.hosts.is_empty() || server.hosts.iter().any(|known| known == name)
}

fn page(request: &Request<Incoming>, path: &str) -> Response<Body> {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return refused(StatusCode::METHOD_NOT_ALLOWED, "expected GET");
    }
    let Some(asset) = assets::find(path) else { return refused(StatusCode::NOT_FOUND, "there is no such page") };
    let tag = format!("\"{:016x}\"", fingerprint(asset.bytes));
    let known = request.headers().get(header::IF_NONE_MATCH).is_some_and(|known| known.as_bytes() == tag.as_bytes());
    let mut response = match known {
        true => with_status(StatusCode::NOT_MODIFIED, asset.kind, Bytes::new()),
        false => with_status(StatusCode::OK, asset.kind, Bytes::from_static(asset.bytes)),
    };
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        response.headers_mut().insert(header::ETAG, tag);
    }
    response
}

/// FNV-1a: enough to tell one build from another.
fn fingerprint(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Who asks, and what they may see now.
struct Asked {
    token: Option<String>,
    viewer: Viewer,
    whole: Arc<View>,
    view: Arc<View>,
}

async fn api(server: &Arc<Server>, request: Request<Incoming>, path: &str) -> Result<Response<Body>, Refusal> {
    let token = bearer(&request);
    let whole = server.hub.state().view.clone();
    let viewer = server.gate.viewer(token.as_deref(), whole.clone()).await?;
    let view = viewer.of(&whole);
    let asked = Asked { token, viewer, whole, view };
    let method = request.method().clone();
    match (&method, path) {
        (&Method::GET, "/api/events") => stream::events(server, &request, asked.viewer),
        (&Method::GET, "/api/object") => {
            let name = Query::of(request.uri().query().unwrap_or_default()).text("name");
            server.source.object(name, asked.viewer).await.map(|text| json(&text))
        }
        (&Method::GET, _) => get(server, &Query::of(request.uri().query().unwrap_or_default()), path, &asked),
        (&Method::POST, _) => {
            // A form of another site can send neither this header nor JSON without asking first.
            if request.headers().get("x-quotient").is_none() {
                return Err(Refusal::Forbidden("expected the header x-quotient".into()));
            }
            let body = Limited::new(request.into_body(), CHANGE_BYTES_MAX + 4096).collect().await;
            let body = body.map_err(|_| Refusal::Bad("the request is too long, or broke off".into()))?.to_bytes();
            let value: Value =
                serde_json::from_slice(&body).map_err(|error| Refusal::Bad(format!("not JSON: {error}")))?;
            post(server, path, value, asked).await
        }
        _ => Err(Refusal::Bad("expected GET or POST".into())),
    }
}

fn bearer(request: &Request<Incoming>) -> Option<String> {
    let value = request.headers().get(header::AUTHORIZATION)?.to_str().ok()?;
    value.strip_prefix("Bearer ").map(|token| token.trim().to_string()).filter(|token| !token.is_empty())
}

fn get(server: &Server, query: &Query, path: &str, asked: &Asked) -> Result<Response<Body>, Refusal> {
    let Asked { viewer, whole, view, .. } = asked;
    let missing = || Refusal::Bad("there is no such thing, or you may not see it".to_string());
    match path {
        "/api/about" => Ok(json(&server.source.about())),
        "/api/overview" => {
            let inner = server.hub.state();
            Ok(json(&answers::overview(view, &inner.journal, viewer)))
        }
        "/api/quotas" => Ok(json(&answers::quotas(whole, view, viewer))),
        "/api/waiting" => {
            let query = WaitQuery {
                search: query.text("search"),
                code: query.text("code"),
                team: query.text("team"),
                quota: query.text("quota"),
                sort: query.text("sort"),
                offset: query.number("offset").unwrap_or(0) as usize,
                limit: query.number("limit").unwrap_or(answers::ROWS_MAX as i64) as usize,
            };
            Ok(json(&answers::waiting(view, &query)))
        }
        "/api/nodes" => Ok(json(&answers::node_map(view))),
        "/api/node" => answers::node(view, &query.text("name")).map(|node| json(&node)).ok_or_else(missing),
        "/api/pod" => {
            let (namespace, name) = (query.text("namespace"), query.text("name"));
            let inner = server.hub.state();
            let answer = answers::pod(view, &inner.journal, viewer, &namespace, &name);
            answer.map(|pod| json(&pod)).ok_or_else(missing)
        }
        "/api/find" => Ok(json(&answers::find(view, &query.text("text")))),
        "/api/history" => Ok(json(&server.hub.state().history.series(viewer))),
        "/api/history/at" => {
            let at_ms = query.number("at").ok_or_else(|| Refusal::Bad("at: expected milliseconds".into()))?;
            Ok(json(&server.hub.state().history.at(at_ms, viewer)))
        }
        "/api/history/quota" => Ok(json(&server.hub.state().history.quota(&query.text("object"), viewer))),
        "/api/hours" | "/api/hours.csv" => {
            let (from, to) = (query.number("from").unwrap_or(0), query.number("to").unwrap_or(i64::MAX));
            let rows = server.hub.state().history.hours(from, to, viewer);
            match path {
                "/api/hours" => Ok(json(&rows)),
                _ => {
                    let mut response =
                        with_status(StatusCode::OK, "text/csv; charset=utf-8", Bytes::from(history::csv(&rows)));
                    let value = HeaderValue::from_static("attachment; filename=\"gpu-hours.csv\"");
                    response.headers_mut().insert(header::CONTENT_DISPOSITION, value);
                    Ok(response)
                }
            }
        }
        _ => Err(Refusal::Bad("there is no such page".into())),
    }
}

async fn post(server: &Server, path: &str, body: Value, asked: Asked) -> Result<Response<Body>, Refusal> {
    let change = || {
        let text = body.get("change").and_then(Value::as_str).map(str::to_string);
        text.ok_or_else(|| Refusal::Bad("change: expected a manifest".into()))
    };
    match path {
        "/api/what-if" => {
            let answer = server.source.what_if(change()?, asked.viewer.clone()).await?;
            Ok(json(&answer.for_viewer(&asked.viewer)))
        }
        "/api/apply" => Ok(json(&server.source.apply(change()?, asked.token).await?)),
        "/api/control" => {
            server.source.control(&body)?;
            Ok(json(&server.source.about()))
        }
        _ => Err(Refusal::Bad("there is no such page".into())),
    }
}

fn json(value: &impl Serialize) -> Response<Body> {
    match serde_json::to_vec(value) {
        Ok(bytes) => {
            let mut response = with_status(StatusCode::OK, JSON, Bytes::from(bytes));
            response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
            response
        }
        Err(error) => refused(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
    }
}

fn refused(status: StatusCode, message: &str) -> Response<Body> {
    let body = serde_json::json!({"error": message}).to_string();
    with_status(status, JSON, Bytes::from(body))
}

fn with_status(status: StatusCode, kind: &'static str, bytes: Bytes) -> Response<Body> {
    let mut response = Response::new(Full::new(bytes).boxed());
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}
