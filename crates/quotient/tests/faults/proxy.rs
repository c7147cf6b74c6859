//! Stands between the program and the real API server, and is unkind when it is told to.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::{Stream, StreamExt};
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, BodyStream, Full, StreamBody};
use hyper::body::{Bytes, Frame, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use kube::Client;
use kube::client::Body;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::watch;

type Answer = Response<UnsyncBoxBody<Bytes, kube::Error>>;

/// A way to the API server that can be disturbed. It ends with the value.
pub struct Proxy {
    moods: Arc<Moods>,
    kubeconfig: PathBuf,
    _runtime: tokio::runtime::Runtime,
}

struct Moods {
    is_unkind: AtomicBool,
    writes: AtomicU64,
    /// How often each thing was done to a request or to an event.
    done: Mutex<BTreeMap<&'static str, u64>>,
    /// What may not be read: a part of its path, and what is answered.
    forbidden: Mutex<Option<(&'static str, StatusCode)>>,
    /// How long each part of a watch is held back.
    lag_ms: AtomicU64,
    /// Whether watches tell everything twice.
    is_doubled: AtomicBool,
    /// Whoever reads an answer in parts stops when this changes.
    cuts: watch::Sender<u64>,
}

impl Moods {
    fn count(&self, what: &'static str) {
        *self.done.lock().expect("nobody panicked").entry(what).or_default() += 1;
    }
}

impl Proxy {
    /// Stands before the API server of a kubeconfig; writes the one to use instead into the folder.
    pub fn start(kubeconfig: &Path, folder: &Path) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
        let moods = Arc::new(Moods {
            is_unkind: AtomicBool::new(false),
            writes: AtomicU64::new(0),
            done: Mutex::default(),
            forbidden: Mutex::new(None),
            lag_ms: AtomicU64::new(0),
            is_doubled: AtomicBool::new(false),
            cuts: watch::Sender::new(0),
        });
        let address = runtime.block_on(listen(kubeconfig, moods.clone()));
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": {"server": format!("http://{address}")}}],
            "users": [{"name": "u", "user": {}}],
        });
        let kubeconfig = folder.join("kubeconfig-proxy");
        std::fs::write(&kubeconfig, config.to_string()).expect("the folder can be written");
        Proxy { moods, kubeconfig, _runtime: runtime }
    }

    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// From now on most writes are refused or their answers lost, or not any more.
    pub fn be_unkind(&self, is_unkind: bool) {
        self.moods.is_unkind.store(is_unkind, Ordering::Relaxed);
    }

    /// From now on what has this in its path may not be read, or everything again.
    pub fn forbid(&self, path: Option<&'static str>) {
        self.refuse(path.map(|path| (path, StatusCode::FORBIDDEN)));
    }

    /// From now on whoever reads what has this in its path is answered so, or everything is as it was.
    pub fn refuse(&self, what: Option<(&'static str, StatusCode)>) {
        *self.moods.forbidden.lock().expect("nobody panicked") = what;
    }

    /// From now on every part of a watch comes so much later.
    pub fn lag(&self, lag_ms: u64) {
        self.moods.lag_ms.store(lag_ms, Ordering::Relaxed);
    }

    /// From now on watches tell everything twice, or not any more.
    pub fn double(&self, is_doubled: bool) {
        self.moods.is_doubled.store(is_doubled, Ordering::Relaxed);
    }

    /// Cuts all watches.
    pub fn cut(&self) {
        self.moods.cuts.send_modify(|cuts| *cuts += 1);
    }

    /// How many requests and events were disturbed, by what was done to them.
    pub fn done(&self) -> BTreeMap<&'static str, u64> {
        self.moods.done.lock().expect("nobody panicked").clone()
    }

    /// How many requests were not answered as they should.
    pub fn refused(&self) -> u64 {
        self.done().iter().filter(|(what, _)| !what.starts_with("event")).map(|(_, times)| times).sum()
    }
}

async fn listen(kubeconfig: &Path, moods: Arc<Moods>) -> SocketAddr {
    let read = Kubeconfig::read_from(kubeconfig).expect("a kubeconfig");
    let config = kube::Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await.expect("a cluster");
    let client = Client::try_from(config).expect("a client");
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("it listens");
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (client, moods) = (client.clone(), moods.clone());
            tokio::spawn(async move {
                let service = service_fn(|request| {
                    let (client, moods) = (client.clone(), moods.clone());
                    async move { pass_on(client, &moods, request).await }
                });
                // Whoever asked has gone away.
                let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
            });
        }
    });
    address
}

/// What becomes of a write, in turn: by number, so that a run can be repeated.
enum Fate {
    Good,
    /// 429, with a word on when to come back.
    TooMany,
    /// 500, and nothing was done.
    Broken,
    /// 500, and yet it was done.
    DoneAndBroken,
    /// It was done, and the connection ends without an answer.
    AnswerLost,
    /// 503.
    Unavailable,
    /// 409, as a server answers whose own attempts to patch are used up.
    Conflict,
}

fn fate(number: u64, is_patch: bool) -> Fate {
    match number % 9 {
        0 | 3 => Fate::TooMany,
        1 => Fate::Broken,
        2 => Fate::AnswerLost,
        5 => Fate::DoneAndBroken,
        6 => Fate::Unavailable,
        7 if is_patch => Fate::Conflict,
        _ => Fate::Good,
    }
}

/// Answers a request, or ends the connection without an answer.
async fn pass_on(client: Client, moods: &Arc<Moods>, request: Request<Incoming>) -> io::Result<Answer> {
    let is_write = request.method() != Method::GET;
    let forbidden = *moods.forbidden.lock().expect("nobody panicked");
    if let Some((_, code)) = forbidden.filter(|(part, _)| !is_write && request.uri().path().contains(part)) {
        let (reason, counted) = match code {
            StatusCode::UNAUTHORIZED => ("Unauthorized", "401"),
            StatusCode::GONE => ("Expired", "410"),
            _ => ("Forbidden", "403"),
        };
        moods.count(counted);
        return Ok(failure(code, reason));
    }
    // The lease is kept: without it nothing would be written, and nothing tried.
    let is_lease = request.uri().path().contains("/leases/");
    let fate = match is_write && !is_lease && moods.is_unkind.load(Ordering::Relaxed) {
        true => fate(moods.writes.fetch_add(1, Ordering::Relaxed), request.method() == Method::PATCH),
        false => Fate::Good,
    };
    let refused = match fate {
        Fate::TooMany => Some((StatusCode::TOO_MANY_REQUESTS, "TooManyRequests", "429")),
        Fate::Broken => Some((StatusCode::INTERNAL_SERVER_ERROR, "InternalError", "500")),
        Fate::Unavailable => Some((StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable", "503")),
        Fate::Conflict => Some((StatusCode::CONFLICT, "Conflict", "409")),
        Fate::Good | Fate::DoneAndBroken | Fate::AnswerLost => None,
    };
    if let Some((code, reason, counted)) = refused {
        moods.count(counted);
        return Ok(failure(code, reason));
    }
    let is_watch = request.uri().query().is_some_and(|query| query.contains("watch="));
    let mut cuts = moods.cuts.subscribe();
    let (parts, body) = request.into_parts();
    let Ok(body) = body.collect().await else { return Ok(failure(StatusCode::BAD_REQUEST, "BadRequest")) };
    let answer = client.send(Request::from_parts(parts, Body::from(body.to_bytes().to_vec()))).await;
    let Ok(answer) = answer else { return Ok(failure(StatusCode::BAD_GATEWAY, "InternalError")) };
    match fate {
        Fate::AnswerLost => {
            moods.count("answer lost");
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        Fate::DoneAndBroken => {
            moods.count("500, and done");
            return Ok(failure(StatusCode::INTERNAL_SERVER_ERROR, "InternalError"));
        }
        _ => {}
    }
    Ok(answer.map(|body| {
        let cut = async move {
            let _ = cuts.changed().await;
        };
        let parts = BodyStream::new(body).take_until(Box::pin(cut));
        match is_watch {
            true => StreamBody::new(disturbed(parts, moods.clone())).boxed_unsync(),
            false => StreamBody::new(parts).boxed_unsync(),
        }
    }))
}

type Part = Result<Frame<Bytes>, kube::Error>;

/// A watch whose parts come late, or twice.
fn disturbed(parts: impl Stream<Item = Part> + Send + 'static, moods: Arc<Moods>) -> impl Stream<Item = Part> + Send {
    parts.flat_map(move |part| {
        // The server sends each event for itself.
        let whole = part.as_ref().ok().and_then(Frame::data_ref).filter(|data| is_whole(data)).cloned();
        let again = whole.filter(|_| moods.is_doubled.load(Ordering::Relaxed));
        if again.is_some() {
            moods.count("event twice");
        }
        let lag = Duration::from_millis(moods.lag_ms.load(Ordering::Relaxed));
        if !lag.is_zero() {
            moods.count("event late");
        }
        let late = futures::stream::once(async move {
            tokio::time::sleep(lag).await;
            part
        });
        late.chain(futures::stream::iter(again.map(|data| Ok(Frame::data(data)))))
    })
}

/// Whether a part of a watch is whole events: lines, or frames that begin with their length.
fn is_whole(mut data: &[u8]) -> bool {
    let is_text = data.starts_with(b"{");
    while let Some((length, rest)) = data.split_first_chunk().filter(|_| !is_text) {
        match rest.get(u32::from_be_bytes(*length) as usize..) {
            Some(rest) => data = rest,
            None => return false,
        }
    }
    if is_text { data.ends_with(b"\n") } else { data.is_empty() }
}

fn failure(code: StatusCode, reason: &str) -> Answer {
    let status = json!({
        "apiVersion": "v1", "kind": "Status", "status": "Failure", "message": "the proxy is unkind", "reason": reason,
        "code": code.as_u16(),
    });
    let body = Full::new(Bytes::from(status.to_string())).map_err(|never| match never {}).boxed_unsync();
    let mut answer = Response::new(body);
    *answer.status_mut() = code;
    answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if code == StatusCode::TOO_MANY_REQUESTS {
        answer.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    }
    answer
}
