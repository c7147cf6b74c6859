//! Answers the API server, over TLS.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::{ServerConfig, version};

use super::certificates::Holder;
use super::review::{Endpoint, answer};
use crate::metrics::Metrics;
use quotient_host::objects::SharedObjects;

/// The largest question. An object has 3 MiB at most on its way in, and a question has two.
const BODY_MAX: usize = 8 << 20;

/// Connections at once. API servers keep a few each, and open more while answers are slow.
const CONNECTIONS_MAX: usize = 512;

/// How long a client may take to shake hands, and to send its request.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long a connection may be silent. API servers close theirs after 90 s, and should be the ones to do so.
const IDLE_MAX: Duration = Duration::from_secs(120);

/// The webhooks cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error("{address}: {error}: expected an address to serve webhooks on")]
    Address { address: SocketAddr, error: std::io::Error },
    #[error("TLS cannot be set up: {0}")]
    Tls(#[from] tokio_rustls::rustls::Error),
}

/// Listens on the address; the task that is returned answers for ever.
pub async fn serve(
    address: SocketAddr,
    holder: Holder,
    objects: SharedObjects,
    metrics: Metrics,
) -> Result<(SocketAddr, impl Future<Output = ()> + Send), ServeError> {
    let provider = Arc::new(ring::default_provider());
    let mut tls = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&version::TLS12, &version::TLS13])?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(holder));
    tls.alpn_protocols = vec![b"http/1.1".to_vec()];
    let wrong = |error| ServeError::Address { address, error };
    let listener = TcpListener::bind(address).await.map_err(wrong)?;
    let bound = listener.local_addr().map_err(wrong)?;
    Ok((bound, answer_all(listener, TlsAcceptor::from(Arc::new(tls)), Desk { objects, metrics })))
}

/// What questions are answered from, and where answers are counted.
#[derive(Clone)]
struct Desk {
    objects: SharedObjects,
    metrics: Metrics,
}

async fn answer_all(listener: TcpListener, tls: TlsAcceptor, desk: Desk) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let Ok(place) = places.clone().acquire_owned().await else { return };
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            // Too many open files, most likely: others close theirs meanwhile.
            Err(error) => {
                tracing::warn!("a connection for webhooks was not accepted: {error}");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let (tls, desk) = (tls.clone(), desk.clone());
        tokio::spawn(async move {
            converse(stream, tls, desk).await;
            drop(place);
        });
    }
}

async fn converse(stream: TcpStream, tls: TlsAcceptor, desk: Desk) {
    let stream = match tokio::time::timeout(PATIENCE, tls.accept(stream)).await {
        Ok(Ok(stream)) => stream,
        // Somebody who knocks and goes away, or who does not trust us yet.
        Ok(Err(error)) => return tracing::debug!("no TLS connection: {error}"),
        Err(_) => return,
    };
    let service = service_fn(|request: Request<Incoming>| {
        let desk = desk.clone();
        async move { Ok::<_, Infallible>(respond(request, desk).await) }
    });
    let mut server = http1::Builder::new();
    server.timer(TokioTimer::new()).header_read_timeout(IDLE_MAX);
    // Whoever asked has gone away: nothing is lost.
    let _ = server.serve_connection(TokioIo::new(stream), service).await;
}

async fn respond(request: Request<Incoming>, desk: Desk) -> Response<Full<Bytes>> {
    let Some(endpoint) = Endpoint::at(request.uri().path()) else {
        return text(StatusCode::NOT_FOUND, "expected /mutate or /validate");
    };
    if request.method() != Method::POST {
        return text(StatusCode::METHOD_NOT_ALLOWED, "expected POST");
    }
    let body = Limited::new(request.into_body(), BODY_MAX).collect();
    let body = match tokio::time::timeout(PATIENCE, body).await {
        Ok(Ok(body)) => body.to_bytes(),
        Ok(Err(error)) => return text(StatusCode::BAD_REQUEST, &format!("the question cannot be read: {error}")),
        Err(_) => return text(StatusCode::REQUEST_TIMEOUT, "the question did not come in time"),
    };
    let Desk { objects, metrics } = desk;
    if !objects.read().is_complete() {
        return text(StatusCode::SERVICE_UNAVAILABLE, "not everything was seen yet");
    }
    // Rules may look at every object there is: the threads that wait for the network have other things to do.
    let answered = tokio::task::spawn_blocking(move || answer(endpoint, &body, &*objects.read()));
    match answered.await {
        Ok(Ok(review)) => {
            metrics.count_review(endpoint.path(), review["response"]["allowed"] == true);
            let mut response = Response::new(Full::new(Bytes::from(review.to_string())));
            let json = header::HeaderValue::from_static("application/json");
            response.headers_mut().insert(header::CONTENT_TYPE, json);
            response
        }
        Ok(Err(error)) => text(StatusCode::BAD_REQUEST, &error.to_string()),
        Err(error) => {
            tracing::error!("a question could not be answered: {error}");
            text(StatusCode::INTERNAL_SERVER_ERROR, "the question could not be answered")
        }
    }
}

fn text(status: StatusCode, text: &str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(format!("{text}\n"))));
    *response.status_mut() = status;
    response
}
