//! Connections for short requests, each of which carries one after the other.
//!
//! There are as many binds as pods, and a general HTTP client takes longer over one than everything that is decided
//! about its pod. What they need is little: HTTP/1.1, and bodies that are read whole. How the server is found and
//! trusted, and who we are, remains with the general client ([`ConfigExt`]).

use std::future::{Ready, ready};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use futures::FutureExt;
use futures::future::BoxFuture;
use http::header::{self, HeaderMap, HeaderValue};
use http::{Method, Request, Response, Uri};
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::rt::TokioIo;
use kube::Config;
use kube::client::middleware::AuthLayer;
use kube::client::{Body, ConfigExt};
use quotient_host::base64;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tower::{BoxError, Layer, Service, ServiceExt};

use crate::patience::retry_after;

/// A connection that carried nothing for this long is closed.
const IDLE_MAX: Duration = Duration::from_secs(30);

/// A server that does not take a connection within this is not there.
const CONNECT_MAX: Duration = Duration::from_secs(5);

/// The largest answer. An object has 1.5 MiB at most by default, as etcd does.
const ANSWER_MAX: usize = 64 << 20;

/// How much room a connection keeps for the next answer. Those to binds have some hundred bytes.
const KEPT_ROOM: usize = 4096;

/// A request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outgoing {
    pub method: Method,
    /// With the query.
    pub path: String,
    pub content: &'static str,
    pub accepts: &'static str,
    pub body: Vec<u8>,
}

/// An answer, whatever it says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    pub code: u16,
    /// When to come again, where the server says so.
    pub retry_after: Option<Duration>,
    pub body: Vec<u8>,
}

/// Connections to one API server. Clones share them.
#[derive(Clone)]
pub struct Lines(Arc<Shared>);

struct Shared {
    connect: Connect,
    /// Where the paths of the API server begin.
    root: String,
    /// The fields of every request, but for what says who we are.
    fields: String,
    auth: Option<AuthLayer>,
    idle: Mutex<Idle>,
}

type Connect = Box<dyn Fn() -> BoxFuture<'static, Result<Box<dyn Stream>, BoxError>> + Send + Sync>;

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// Connections that carry nothing now, the one that did last at the end, and since when.
#[derive(Default)]
struct Idle {
    lines: Vec<(Instant, Line)>,
    /// Somebody closes those that stay idle.
    is_watched: bool,
}

impl Lines {
    /// Connections to the API server of a configuration; none is opened yet.
    pub async fn new(config: &Config) -> Result<Self, BoxError> {
        let url = config.cluster_url.clone();
        let host = url.authority().ok_or("the address of the API server has no host")?;
        let mut fields = format!("host: {host}\r\n");
        for (name, value) in &fields_of(&config.extra_headers_layer()?).await? {
            fields.push_str(&format!("{name}: {}\r\n", value.to_str()?));
        }
        Ok(Lines(Arc::new(Shared {
            connect: connect(config, url.clone())?,
            root: config.cluster_url.path().trim_end_matches('/').to_string(),
            fields,
            auth: config.auth_layer()?,
            idle: Mutex::default(),
        })))
    }

    /// Sends a request and reads the answer. Where the server ends a connection that was used before and says nothing,
    /// the request goes over the next one: each must be such that it may be done twice.
    pub async fn send(&self, request: &Outgoing) -> Result<Answer, BoxError> {
        let bytes = self.0.bytes(request).await?;
        while let Some(line) = self.0.take() {
            match self.exchange(line, &bytes).await {
                Err(Broken::Closed(_)) => {}
                other => return other.map_err(BoxError::from),
            }
        }
        let opened = tokio::time::timeout(CONNECT_MAX, (self.0.connect)()).await;
        let stream = opened.map_err(|_| "the server takes no connection")??;
        Ok(self.exchange(Line { stream, read: Vec::new() }, &bytes).await?)
    }

    async fn exchange(&self, mut line: Line, request: &[u8]) -> Result<Answer, Broken> {
        let (answer, goes_on) = line.exchange(request).await?;
        if goes_on {
            self.keep(line);
        }
        Ok(answer)
    }

    fn keep(&self, mut line: Line) {
        line.read.clear();
        line.read.shrink_to(KEPT_ROOM);
        let mut idle = self.0.idle();
        idle.lines.push((Instant::now(), line));
        if !std::mem::replace(&mut idle.is_watched, true) {
            let shared = Arc::downgrade(&self.0);
            tokio::spawn(async move {
                loop {
                    tokio::time::sleep(IDLE_MAX).await;
                    let Some(shared) = shared.upgrade() else { return };
                    let mut idle = shared.idle();
                    idle.lines.retain(|(since, _)| since.elapsed() < IDLE_MAX);
                    if idle.lines.is_empty() {
                        idle.is_watched = false;
                        return;
                    }
                }
            });
        }
    }
}

impl Shared {
    fn idle(&self) -> MutexGuard<'_, Idle> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The connection that carried something last, if the server has not ended it.
    fn take(&self) -> Option<Line> {
        loop {
            let (_, mut line) = self.idle().lines.pop()?;
            if line.is_silent() {
                return Some(line);
            }
        }
    }

    async fn bytes(&self, request: &Outgoing) -> Result<Vec<u8>, BoxError> {
        let Outgoing { method, path, content, accepts, body } = request;
        let mut head = format!("{method} {}{path} HTTP/1.1\r\n{}accept: {accepts}\r\n", self.root, self.fields);
        if let Some(auth) = &self.auth {
            let authorization = fields_of(auth).await?.remove(header::AUTHORIZATION);
            let authorization = authorization.ok_or("there is nothing that says who we are")?;
            head.push_str(&format!("authorization: {}\r\n", authorization.to_str()?));
        }
        if !body.is_empty() {
            head.push_str(&format!("content-type: {content}\r\n"));
        }
        head.push_str(&format!("content-length: {}\r\n\r\n", body.len()));
        let mut bytes = head.into_bytes();
        bytes.extend_from_slice(body);
        Ok(bytes)
    }
}

/// How connections are opened: directly, or through the proxy of the configuration.
fn connect(config: &Config, url: Uri) -> Result<Connect, BoxError> {
    fn opens<C>(connector: C, url: Uri) -> Connect
    where
        C: Service<Uri, Error = BoxError, Future: Send> + Clone + Send + Sync + 'static,
        C::Response: hyper::rt::Read + hyper::rt::Write + Send + Unpin + 'static,
    {
        Box::new(move || open(connector.clone(), url.clone()).boxed())
    }
    let Some(proxy) = &config.proxy_url else { return Ok(opens(config.rustls_https_connector()?, url)) };
    // Kubeconfigs and the environment name proxies with a password so; the general client takes them too.
    let auth = proxy.authority().and_then(|authority| authority.as_str().split_once('@'));
    let basic = |user: &str| HeaderValue::from_str(&format!("Basic {}", base64(&percent_decoded(user))));
    let auth = auth.map(|(user, _)| basic(user)).transpose()?;
    let tunnel = |connector| match auth.clone() {
        Some(auth) => Tunnel::new(proxy.clone(), connector).with_auth(auth),
        None => Tunnel::new(proxy.clone(), connector),
    };
    match proxy.scheme_str() {
        Some("http" | "https") => {
            // TLS to the proxy, where it is asked for, and TLS to the API server within.
            let connector = config.rustls_https_connector()?;
            Ok(opens(config.rustls_https_connector_with_connector(tunnel(connector))?, url))
        }
        _ => Err(format!("proxy-url {proxy}: expected http:// or https://").into()),
    }
}

/// What a part of a URL stands for.
fn percent_decoded(text: &str) -> Vec<u8> {
    let (mut decoded, mut rest) = (Vec::new(), text.as_bytes());
    while let Some((first, after)) = rest.split_first() {
        let digits = after.get(..2).filter(|digits| *first == b'%' && digits.iter().all(u8::is_ascii_hexdigit));
        let byte = digits.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok());
        decoded.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { &after[2..] } else { after };
    }
    decoded
}

/// Opens a connection.
async fn open<C>(mut connector: C, url: Uri) -> Result<Box<dyn Stream>, BoxError>
where
    C: Service<Uri, Error = BoxError>,
    C::Response: hyper::rt::Read + hyper::rt::Write + Send + Unpin + 'static,
{
    let stream = connector.ready().await?.call(url).await?;
    Ok(Box::new(TokioIo::new(stream)))
}

/// The header fields that a layer gives to requests.
async fn fields_of<L>(layer: &L) -> Result<HeaderMap, BoxError>
where
    L: Layer<Echo>,
    L::Service: Service<Request<Body>, Response = Response<HeaderMap>, Error = BoxError>,
{
    let answer = layer.layer(Echo).oneshot(Request::new(Body::empty())).await?;
    Ok(answer.into_body())
}

/// Answers a request with the header fields that it has.
#[derive(Clone)]
struct Echo;

impl Service<Request<Body>> for Echo {
    type Response = Response<HeaderMap>;
    type Error = BoxError;
    type Future = Ready<Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        ready(Ok(Response::new(request.into_parts().0.headers)))
    }
}

/// A connection.
struct Line {
    stream: Box<dyn Stream>,
    /// What was read of the answer.
    read: Vec<u8>,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
enum Broken {
    /// Nothing of an answer came.
    #[error("the connection ended before the answer: {0}")]
    Closed(std::io::Error),
    #[error("the connection ended within the answer: {0}")]
    Cut(std::io::Error),
    #[error("the answer cannot be read: {0}")]
    Unreadable(String),
}

impl Line {
    /// Whether the server has neither said anything nor ended it.
    fn is_silent(&mut self) -> bool {
        self.stream.read_buf(&mut self.read).now_or_never().is_none()
    }

    /// Sends a request, and reads the answer; says whether the connection goes on after it.
    async fn exchange(&mut self, request: &[u8]) -> Result<(Answer, bool), Broken> {
        self.stream.write_all(request).await.map_err(Broken::Closed)?;
        self.stream.flush().await.map_err(Broken::Closed)?;
        loop {
            let ended = match self.stream.read_buf(&mut self.read).await {
                Ok(count) => count == 0,
                Err(error) if self.read.is_empty() => return Err(Broken::Closed(error)),
                Err(error) => return Err(Broken::Cut(error)),
            };
            if let Some(answer) = answer(&self.read, ended).map_err(Broken::Unreadable)? {
                return Ok(answer);
            }
            let end = || std::io::Error::from(std::io::ErrorKind::UnexpectedEof);
            match (ended, self.read.len()) {
                (true, 0) => return Err(Broken::Closed(end())),
                (true, _) => return Err(Broken::Cut(end())),
                (false, ANSWER_MAX..) => return Err(Broken::Unreadable("it is larger than any object".to_string())),
                (false, _) => {}
            }
        }
    }
}

/// The answer, if all of it was read, and whether the connection goes on after it. `ended`: no more will come.
fn answer(mut read: &[u8], ended: bool) -> Result<Option<(Answer, bool)>, String> {
    loop {
        let mut fields = [httparse::EMPTY_HEADER; 64];
        let mut head = httparse::Response::new(&mut fields);
        let httparse::Status::Complete(length) = head.parse(read).map_err(|error| error.to_string())? else {
            return Ok(None);
        };
        let code = head.code.unwrap_or_default();
        let field = |name: &str| {
            let found = head.headers.iter().find(|field| field.name.eq_ignore_ascii_case(name));
            found.map(|field| String::from_utf8_lossy(field.value).trim().to_ascii_lowercase())
        };
        read = &read[length..];
        // It is about to answer.
        if (100..200).contains(&code) {
            continue;
        }
        let retry_after = retry_after(field("retry-after").as_deref().map(str::as_bytes));
        let says_more = head.version == Some(1) && field("connection").is_none_or(|value| value != "close");
        let (body, size) = match (code, field("transfer-encoding"), field("content-length")) {
            (204 | 304, ..) => (Vec::new(), 0),
            (_, Some(encoding), _) if encoding == "chunked" => match unchunked(read)? {
                Some(body) => body,
                None => return Ok(None),
            },
            (_, Some(encoding), _) => return Err(format!("transfer-encoding {encoding}: expected chunked")),
            (_, None, Some(text)) => {
                let size: usize = text.parse().map_err(|_| format!("content-length {text}: expected a number"))?;
                match read.get(..size) {
                    Some(body) => (body.to_vec(), size),
                    None => return Ok(None),
                }
            }
            (_, None, None) if ended => (read.to_vec(), read.len()),
            (_, None, None) => return Ok(None),
        };
        // What nobody asked for is no answer to what is asked next.
        let goes_on = says_more && !ended && size == read.len();
        return Ok(Some((Answer { code, retry_after, body }, goes_on)));
    }
}

/// The content of a body in chunks and how many bytes it took, if all of it is there.
fn unchunked(bytes: &[u8]) -> Result<Option<(Vec<u8>, usize)>, String> {
    let (mut body, mut at) = (Vec::new(), 0);
    loop {
        let chunk = httparse::parse_chunk_size(&bytes[at..]).map_err(|_| "expected the size of a chunk".to_string())?;
        let httparse::Status::Complete((head, size)) = chunk else { return Ok(None) };
        let size = usize::try_from(size).ok().filter(|size| *size <= ANSWER_MAX).ok_or("a chunk is too large")?;
        at += head;
        if size == 0 {
            // Fields may follow, up to an empty line.
            let mut fields = [httparse::EMPTY_HEADER; 16];
            return match httparse::parse_headers(&bytes[at..], &mut fields).map_err(|error| error.to_string())? {
                httparse::Status::Complete((end, _)) => Ok(Some((body, at + end))),
                httparse::Status::Partial => Ok(None),
            };
        }
        let Some(content) = bytes.get(at..at + size) else { return Ok(None) };
        body.extend_from_slice(content);
        match bytes.get(at + size..at + size + 2) {
            Some(b"\r\n") => at += size + 2,
            Some(_) => return Err("a chunk is longer than it says".to_string()),
            None => return Ok(None),
        }
    }
}

#[cfg(test)]
mod tests;
