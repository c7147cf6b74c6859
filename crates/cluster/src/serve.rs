//! `/metrics`, `/livez` and `/readyz`.

use std::convert::Infallible;
use std::net::SocketAddr;

use http::{Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;

use crate::metrics::Metrics;

/// The address cannot be served on.
#[derive(Debug, thiserror::Error)]
#[error("{address}: {error}: expected an address to serve metrics on")]
pub struct ServeError {
    address: SocketAddr,
    error: std::io::Error,
}

/// Listens on the address; the task that is returned answers for ever.
pub async fn serve(
    address: SocketAddr,
    metrics: Metrics,
) -> Result<(SocketAddr, impl Future<Output = ()> + Send), ServeError> {
    let wrong = |error| ServeError { address, error };
    let listener = TcpListener::bind(address).await.map_err(wrong)?;
    let bound = listener.local_addr().map_err(wrong)?;
    Ok((bound, answer_all(listener, metrics)))
}

async fn answer_all(listener: TcpListener, metrics: Metrics) {
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            // Too many open files, most likely: others close theirs meanwhile.
            Err(error) => {
                tracing::warn!("a connection for metrics was not accepted: {error}");
                tokio::time::sleep(std::time::Duration::from_millis(100)).await;
                continue;
            }
        };
        let metrics = metrics.clone();
        tokio::spawn(async move {
            let service = service_fn(|request: Request<Incoming>| {
                let answer = answer(&metrics, request.method(), request.uri().path());
                async move { Ok::<_, Infallible>(answer) }
            });
            // Whoever asked has gone away: nothing is lost.
            let _ =
                http1::Builder::new().timer(TokioTimer::new()).serve_connection(TokioIo::new(stream), service).await;
        });
    }
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
}
