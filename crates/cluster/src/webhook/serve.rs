//! Answers the API server, over TLS.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Body, Bytes, Incoming};
use kube::Client;
use quotient_api::elastic::consent::VERBS;
use tokio::net::TcpListener;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::server::danger::ClientCertVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig, version};

use super::certificates::Holder;
use super::review::{Endpoint, NoReview, answer, question};
use super::snapshot::Snapshots;
use crate::call::CallError;
use crate::door::{self, Rules};
use crate::metrics::Metrics;
use crate::review::{Act, Person, may};
use quotient_api::limits::{CONSENTS_MAX, REVIEW_BYTES_MAX, REVIEWS_KIB_MAX};
use quotient_host::objects::SharedObjects;

/// API servers keep a few connections each, open more while answers are slow, and close theirs after 90 s: they should
/// be the ones to do so. Several of them may be behind one address.
const DOOR: Rules = Rules {
    serves: "webhooks",
    places: 512,
    places_of_address: 256,
    first_max: Duration::from_secs(5),
    idle_max: Duration::from_secs(120),
};

/// How long a client may take to send its question.
const PATIENCE: Duration = Duration::from_secs(10);

/// The webhooks cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error("{address}: {error}: expected an address to serve webhooks on")]
    Address { address: SocketAddr, error: std::io::Error },
    #[error("TLS cannot be set up: {0}")]
    Tls(#[from] tokio_rustls::rustls::Error),
    #[error("{}: {error}: expected certificates of authorities, as PEM", file.display())]
    ClientAuthority { file: PathBuf, error: String },
}

/// Who may ask: whoever has a certificate of these authorities.
fn client_verifier(file: &Path, provider: Arc<CryptoProvider>) -> Result<Arc<dyn ClientCertVerifier>, ServeError> {
    let wrong = |error: String| ServeError::ClientAuthority { file: file.to_path_buf(), error };
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(file).map_err(|error| wrong(error.to_string()))? {
        let certificate = certificate.map_err(|error| wrong(error.to_string()))?;
        roots.add(certificate).map_err(|error| wrong(error.to_string()))?;
    }
    if roots.is_empty() {
        return Err(wrong("has no certificate".to_string()));
    }
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
    verifier.map_err(|error| wrong(error.to_string()))
}

/// Listens on the address; the task that is returned answers for ever. Whoever asks needs a certificate of the
/// authorities in `client_authority`, where it is given.
pub async fn serve(
    address: SocketAddr,
    holder: Holder,
    client_authority: Option<PathBuf>,
    client: Client,
    objects: SharedObjects,
    metrics: Metrics,
) -> Result<(SocketAddr, impl Future<Output = ()> + Send), ServeError> {
    let provider = Arc::new(ring::default_provider());
    let tls = ServerConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&[&version::TLS12, &version::TLS13])?;
    let tls = match client_authority {
        Some(file) => tls.with_client_cert_verifier(client_verifier(&file, provider)?),
        None => tls.with_no_client_auth(),
    };
    let mut tls = tls.with_cert_resolver(Arc::new(holder));
    tls.alpn_protocols = vec![b"http/1.1".to_vec()];
    let wrong = |error| ServeError::Address { address, error };
    let listener = TcpListener::bind(address).await.map_err(wrong)?;
    let bound = listener.local_addr().map_err(wrong)?;
    let bodies = Arc::new(Semaphore::new(REVIEWS_KIB_MAX));
    let desk = Desk { objects: Snapshots::new(objects), metrics, bodies, client };
    let respond = move |request: Request<Incoming>| respond(request, desk.clone());
    Ok((bound, door::answer_all(listener, Some(TlsAcceptor::from(Arc::new(tls))), DOOR, respond)))
}

/// What questions are answered from, where answers are counted, and the memory that is left for questions.
#[derive(Clone)]
struct Desk {
    objects: Snapshots,
    metrics: Metrics,
    bodies: Arc<Semaphore>,
    /// The API server, which knows what a user may do.
    client: Client,
}

async fn respond(request: Request<Incoming>, desk: Desk) -> Response<Full<Bytes>> {
    let Some(endpoint) = Endpoint::at(request.uri().path()) else {
        return text(StatusCode::NOT_FOUND, "expected /mutate or /validate");
    };
    if request.method() != Method::POST {
        return text(StatusCode::METHOD_NOT_ALLOWED, "expected POST");
    }
    let Desk { objects, metrics, bodies, client } = desk;
    let Some(room) = room_for(request.body(), bodies).await else {
        return text(StatusCode::SERVICE_UNAVAILABLE, "too many questions at once");
    };
    let body = Limited::new(request.into_body(), REVIEW_BYTES_MAX).collect();
    let body = match tokio::time::timeout(PATIENCE, body).await {
        Ok(Ok(body)) => body.to_bytes(),
        Ok(Err(error)) => return text(StatusCode::BAD_REQUEST, &format!("the question cannot be read: {error}")),
        Err(_) => return text(StatusCode::REQUEST_TIMEOUT, "the question did not come in time"),
    };
    if !objects.is_complete() {
        return text(StatusCode::SERVICE_UNAVAILABLE, "not everything was seen yet");
    }
    // Rules may look at every object there is: the threads that wait for the network have other things to do. What is
    // asked is answered from a snapshot, so that no question holds up the scheduler.
    let answered = async {
        let seen = objects.clone();
        let (question, consents) = tokio::task::spawn_blocking(move || {
            let question = question(endpoint, &body)?;
            let consents = question.consents(&*seen.take()).map(|(user, group, names)| (user.clone(), group, names));
            Ok::<_, NoReview>((question, consents))
        })
        .await??;
        let granted = match consents {
            Some((user, group, namespaces)) => granted(&client, &user, &group, namespaces).await?,
            None => Vec::new(),
        };
        let answered = tokio::task::spawn_blocking(move || answer(question, &granted, &*objects.take()));
        Ok::<_, Unanswered>(answered.await?)
    };
    let answered = answered.await;
    drop(room);
    match answered {
        Ok(review) => {
            metrics.count_review(endpoint.path(), review["response"]["allowed"] == true);
            let mut response = Response::new(Full::new(Bytes::from(review.to_string())));
            let json = header::HeaderValue::from_static("application/json");
            response.headers_mut().insert(header::CONTENT_TYPE, json);
            response
        }
        Err(Unanswered::NoReview(error)) => text(StatusCode::BAD_REQUEST, &error.to_string()),
        Err(error) => {
            tracing::error!("{error}");
            text(StatusCode::INTERNAL_SERVER_ERROR, "the question could not be answered")
        }
    }
}

/// Why a question has no answer.
#[derive(Debug, thiserror::Error)]
enum Unanswered {
    #[error(transparent)]
    NoReview(#[from] NoReview),
    #[error("a question could not be answered: {0}")]
    Broken(#[from] tokio::task::JoinError),
    #[error("a question could not be answered: what its user may do is not known: {0}")]
    NoRights(#[from] CallError),
}

/// The namespaces for which a user agrees to a composite quota: those whose quotas the user could make and delete.
async fn granted(
    client: &Client,
    user: &Person,
    group: &str,
    namespaces: Vec<String>,
) -> Result<Vec<String>, CallError> {
    let mut granted = Vec::new();
    for namespace in namespaces.into_iter().take(CONSENTS_MAX) {
        let mut is_granted = true;
        for verb in VERBS {
            let act = Act { verb, group, resource: "elasticquotas", namespace: &namespace, name: "" };
            is_granted = is_granted && may(client, user, act).await?;
        }
        granted.extend(is_granted.then_some(namespace));
    }
    Ok(granted)
}

/// Waits until there is memory for a question, as long as it says it is, or as long as it may be.
async fn room_for(body: &Incoming, bodies: Arc<Semaphore>) -> Option<OwnedSemaphorePermit> {
    let bytes = body.size_hint().upper().unwrap_or(REVIEW_BYTES_MAX as u64).min(REVIEW_BYTES_MAX as u64);
    let kib = u32::try_from(bytes / 1024 + 1).ok()?;
    tokio::time::timeout(PATIENCE, bodies.acquire_many_owned(kib)).await.ok()?.ok()
}

fn text(status: StatusCode, text: &str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(format!("{text}\n"))));
    *response.status_mut() = status;
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_certificates_admits_nobody() {
        let provider = Arc::new(ring::default_provider());
        let file = std::env::temp_dir().join(format!("quotient-client-ca-{}", std::process::id()));
        std::fs::write(&file, "nothing").expect("it can be written");
        let error = client_verifier(&file, provider).expect_err("there is none").to_string();
        std::fs::remove_file(&file).expect("it is there");
        assert!(error.ends_with("has no certificate: expected certificates of authorities, as PEM"), "{error}");
    }
}
