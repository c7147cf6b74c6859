//! `/metrics`, `/livez` and `/readyz`; `/comparison` and `/debug/profile` where they are asked for.
//!
//! Probes have a port of their own as well, so that nothing that happens at the other one has a kubelet restart us.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use http::{HeaderMap, Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use kube::Client;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::{ServerConfig, version};

use crate::door::{self, Rules};
use crate::metrics::Metrics;
use crate::profile::{self, Form, profile};
use crate::review::{may_read, person};
use crate::webhook::certificates::{FolderCertificate, Holder, KeepError};

/// Metrics are read by a few Prometheus servers, and by whoever looks into something.
const METRICS: Rules = Rules {
    serves: "metrics",
    places: 64,
    places_of_address: 32,
    first_max: Duration::from_secs(5),
    idle_max: Duration::from_secs(60),
};

/// Probes come from one kubelet, one at a time, and from an address that others may share.
const PROBES: Rules = Rules {
    serves: "probes",
    places: 32,
    places_of_address: 32,
    first_max: Duration::from_secs(2),
    idle_max: Duration::from_secs(30),
};

/// How often the certificate is read again.
const LOOK_EVERY: Duration = Duration::from_secs(10);

/// How long an answer of the API server counts, and how many are kept: beyond it, it is asked each time.
const KEPT: Duration = Duration::from_secs(30);
const KEPT_MAX: usize = 256;

/// Where and how metrics are served.
#[derive(Clone)]
pub struct ServeSettings {
    pub address: SocketAddr,
    /// A folder with `tls.crt` and `tls.key`; `None`: without TLS.
    pub certificate: Option<PathBuf>,
    /// Whoever reads metrics needs a token whose owner may `get /metrics`, as the API server behind this client says;
    /// `None`: everyone who reaches the port reads them.
    pub authorizer: Option<Client>,
    /// What `/comparison` answers, as JSON; `None`: there is no such path.
    pub comparison: Option<Page>,
    /// Whether `/debug/profile` is served.
    pub profiling: bool,
}

/// A page that is made when it is asked for.
pub type Page = Arc<dyn Fn() -> String + Send + Sync>;

/// Metrics cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error("{address}: {error}: expected an address to serve {what} on")]
    Address { what: &'static str, address: SocketAddr, error: std::io::Error },
    #[error("--metrics-certificate: {0}")]
    Certificate(#[from] KeepError),
    #[error("TLS cannot be set up: {0}")]
    Tls(#[from] tokio_rustls::rustls::Error),
}

/// Listens on the address; the task that is returned answers for ever.
pub async fn serve(
    settings: ServeSettings,
    metrics: Metrics,
) -> Result<(SocketAddr, impl Future<Output = ()> + Send), ServeError> {
    let ServeSettings { address, certificate, authorizer, comparison, profiling } = settings;
    let tls = match certificate {
        None => None,
        Some(folder) => {
            let holder = Holder::default();
            let mut certificate = FolderCertificate::new(folder, holder.clone());
            certificate.look()?;
            Some((acceptor(holder)?, certificate))
        }
    };
    let (listener, bound) = listen(address, METRICS.serves).await?;
    let (acceptor, certificate) = tls.unzip();
    let guard = authorizer.map(|client| Arc::new(Guard::new(client)));
    let desk = Desk { metrics, guard, comparison, profiling };
    let respond = move |request: Request<Incoming>| {
        let desk = desk.clone();
        async move { respond(&desk, &request).await }
    };
    let work = async move {
        tokio::select! {
            () = door::answer_all(listener, acceptor, METRICS, respond) => {}
            () = look_after(certificate) => {}
        }
    };
    Ok((bound, work))
}

/// Serves `/livez` and `/readyz` alone, without TLS: a kubelet has no token and trusts any certificate. The task that
/// is returned answers for ever.
pub async fn serve_probes(
    address: SocketAddr,
    metrics: Metrics,
) -> Result<(SocketAddr, impl Future<Output = ()> + Send), ServeError> {
    let (listener, bound) = listen(address, PROBES.serves).await?;
    let respond = move |request: Request<Incoming>| {
        let metrics = metrics.clone();
        async move {
            match request.uri().path() {
                "/metrics" => text(StatusCode::NOT_FOUND, "expected /livez or /readyz\n".to_string()),
                path => answer(&metrics, request.method(), path),
            }
        }
    };
    Ok((bound, door::answer_all(listener, None, PROBES, respond)))
}

async fn listen(address: SocketAddr, what: &'static str) -> Result<(TcpListener, SocketAddr), ServeError> {
    let wrong = |error| ServeError::Address { what, address, error };
    let listener = TcpListener::bind(address).await.map_err(wrong)?;
    let bound = listener.local_addr().map_err(wrong)?;
    Ok((listener, bound))
}

fn acceptor(holder: Holder) -> Result<TlsAcceptor, ServeError> {
    let mut tls = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[&version::TLS12, &version::TLS13])?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(holder));
    tls.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(tls)))
}

/// Reads the certificate again when it changes.
async fn look_after(certificate: Option<FolderCertificate>) {
    let Some(mut certificate) = certificate else { return std::future::pending().await };
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        if let Err(error) = certificate.look() {
            tracing::warn!("the certificate of the metrics: {error}");
        }
    }
}

/// What is answered from, and who may read it.
#[derive(Clone)]
struct Desk {
    metrics: Metrics,
    guard: Option<Arc<Guard>>,
    comparison: Option<Page>,
    profiling: bool,
}

/// Asks the API server who may read metrics.
struct Guard {
    client: Client,
    /// Answers by the fingerprint of a token and a path, with a key of this process: tokens are not kept.
    known: Mutex<BTreeMap<u64, (Instant, bool)>>,
    fingerprint: RandomState,
}

impl Guard {
    fn new(client: Client) -> Self {
        Guard { client, known: Mutex::default(), fingerprint: RandomState::new() }
    }

    /// Why whoever asks may not read a path, if so.
    async fn refusal(&self, headers: &HeaderMap, path: &str) -> Option<StatusCode> {
        let value = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let Some(token) = value.and_then(|value| value.strip_prefix("Bearer ")).map(str::trim) else {
            return Some(StatusCode::UNAUTHORIZED);
        };
        let print = self.fingerprint.hash_one((token, path));
        let lock = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let known = lock().get(&print).filter(|(until, _)| *until > now).map(|(_, allowed)| *allowed);
        let allowed = match known {
            Some(allowed) => allowed,
            None => match self.ask(token, path).await {
                Ok(allowed) => {
                    let mut known = lock();
                    known.retain(|_, (until, _)| *until > now);
                    if known.len() < KEPT_MAX {
                        known.insert(print, (now + KEPT, allowed));
                    }
                    allowed
                }
                Err(error) => {
                    tracing::warn!("who may read metrics cannot be asked: {error}");
                    return Some(StatusCode::SERVICE_UNAVAILABLE);
                }
            },
        };
        (!allowed).then_some(StatusCode::FORBIDDEN)
    }

    async fn ask(&self, token: &str, path: &str) -> Result<bool, crate::call::CallError> {
        match person(&self.client, token).await? {
            Some(person) => may_read(&self.client, &person, path).await,
            None => Ok(false),
        }
    }
}

/// What takes a token where one is asked for.
const PROTECTED: [&str; 3] = ["/metrics", COMPARISON, PROFILE];
const COMPARISON: &str = "/comparison";
const PROFILE: &str = "/debug/profile";

/// Probes are answered to everyone: a kubelet has no token.
async fn respond(desk: &Desk, request: &Request<Incoming>) -> Response<Full<Bytes>> {
    let path = request.uri().path();
    if let Some(guard) = desk.guard.as_ref().filter(|_| PROTECTED.contains(&path))
        && let Some(status) = guard.refusal(request.headers(), path).await
    {
        return text(status, format!("expected a token whose owner may get {path}\n"));
    }
    match (path, &desk.comparison) {
        (COMPARISON, Some(page)) if request.method() == Method::GET => json(page()),
        (PROFILE, _) if request.method() == Method::GET && desk.profiling => {
            match profile::asked(request.uri().query().unwrap_or_default()) {
                Err(wrong) => text(StatusCode::BAD_REQUEST, wrong + "\n"),
                Ok((time, Form::Json)) => json(profile(desk.metrics.phases().clone(), time, Form::Json).await),
                Ok((time, form)) => text(StatusCode::OK, profile(desk.metrics.phases().clone(), time, form).await),
            }
        }
        _ => answer(&desk.metrics, request.method(), path),
    }
}

fn text(status: StatusCode, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    response
}

fn json(body: String) -> Response<Full<Bytes>> {
    let mut response = text(StatusCode::OK, body);
    let kind = header::HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

fn answer(metrics: &Metrics, method: &Method, path: &str) -> Response<Full<Bytes>> {
    const METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    const TEXT: &str = "text/plain; charset=utf-8";
    let state = |good: bool, why: &str| match good {
        true => (StatusCode::OK, TEXT, "ok\n".to_string()),
        false => (StatusCode::SERVICE_UNAVAILABLE, TEXT, format!("{why}\n")),
    };
    let (status, kind, body) = match (method, path) {
        (&Method::GET | &Method::HEAD, "/metrics") => (StatusCode::OK, METRICS, metrics.text()),
        (&Method::GET | &Method::HEAD, "/livez") => state(metrics.is_alive(), "the scheduler does not come round"),
        (&Method::GET | &Method::HEAD, "/readyz") => {
            state(metrics.is_ready(), "not everything was seen yet, or the webhooks cannot answer")
        }
        (&Method::GET | &Method::HEAD, _) => {
            (StatusCode::NOT_FOUND, TEXT, "expected /metrics, /livez or /readyz\n".to_string())
        }
        _ => (StatusCode::METHOD_NOT_ALLOWED, TEXT, "expected GET\n".to_string()),
    };
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static(kind));
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpSocket, TcpStream};

    #[test]
    fn each_path_has_its_answer() {
        let metrics = Metrics::default();
        let status = |path: &str| answer(&metrics, &Method::GET, path).status().as_u16();
        assert_eq!(status("/metrics"), 200);
        assert_eq!(status("/readyz"), 503);
        metrics.beat();
        metrics.set_ready(true);
        assert_eq!((status("/livez"), status("/readyz"), status("/")), (200, 200, 404));
        assert_eq!(answer(&metrics, &Method::POST, "/metrics").status().as_u16(), 405);
    }

    /// Opens so many connections from each of some addresses, which say nothing, or half of something.
    async fn strangers(port: SocketAddr, addresses: u8, each: usize) -> Vec<TcpStream> {
        let mut all = Vec::new();
        for at in 0..usize::from(addresses) * each {
            let socket = TcpSocket::new_v4().expect("a socket");
            let from = SocketAddr::from(([127, 0, 0, 2 + (at % usize::from(addresses)) as u8], 0));
            socket.bind(from).expect("the loopback has it");
            let mut stream = socket.connect(port).await.expect("the port is open");
            if at % 2 == 0 {
                // The other side may have closed it already.
                let _ = stream.write_all(b"GET /livez HTT").await;
            }
            all.push(stream);
        }
        all
    }

    async fn status(port: SocketAddr, path: &str) -> Option<String> {
        let mut stream = TcpStream::connect(port).await.ok()?;
        stream
            .write_all(format!("GET {path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").as_bytes())
            .await
            .ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.ok()?;
        answer.split(' ').nth(1).map(str::to_string)
    }

    #[test]
    fn strangers_that_say_nothing_keep_no_kubelet_and_no_prometheus_out() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("it can be built");
        runtime.block_on(async {
            let metrics = Metrics::default();
            metrics.beat();
            let address = SocketAddr::from(([127, 0, 0, 1], 0));
            let settings =
                ServeSettings { address, certificate: None, authorizer: None, comparison: None, profiling: false };
            let (port, answer) = serve(settings, metrics.clone()).await.expect("it listens");
            let (probes, answer_probes) = serve_probes(address, metrics).await.expect("it listens");
            tokio::spawn(answer);
            tokio::spawn(answer_probes);
            for port in [port, probes] {
                let one = strangers(port, 1, 200).await;
                assert_eq!(status(port, "/livez").await.as_deref(), Some("200"), "one address");
                drop(one);
                let _many = strangers(port, 100, 3).await;
                assert_eq!(status(port, "/livez").await.as_deref(), Some("200"), "many addresses");
            }
            assert_eq!(status(probes, "/metrics").await.as_deref(), Some("404"));
            assert_eq!(status(port, "/metrics").await.as_deref(), Some("200"));
        });
    }
}
