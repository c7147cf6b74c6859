//! Requests over HTTP, and what their answers mean.

use std::time::{Duration, Instant};

use http::Method;
use kube::core::Status;
use quotient_api::{Kind, ObjectKey};
use quotient_host::{Api, FIELD_MANAGER, Target, Verb};
pub use quotient_host::{CallError, Content};
use serde_json::Value;

use crate::connect::with_sources;
use crate::lease::Fence;
use crate::lines::{Lines, Outgoing};
use crate::metrics::Metrics;
use crate::served::version_of;
use crate::wire::{self, BINARY};

/// A request that takes longer is given up: whether it happened is seen later. It may take no longer than what lies
/// between the last moment at which something is sent and the moment at which another may have the lease
/// ([`Fence::call_timeout`]), so that nothing of ours arrives after that.
pub const CALL_TIMEOUT: Duration = Duration::from_secs(5);

/// So much is shown of an answer that is none of the API server's.
const PLAIN_MAX: usize = 200;

/// A request.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    method: Method,
    path: String,
    content: Content,
    body: Value,
    reads_answer: bool,
    metadata_only: bool,
}

/// Of what is patched the server need not send back more than the metadata.
const METADATA_ONLY: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1, application/json";

impl Call {
    /// A request about an object, or about a part of it (`status`, `binding`).
    pub fn new(method: Method, key: &ObjectKey, part: Option<&str>, content: Content, body: Value) -> Self {
        let mut path = object_path(key);
        if let Some(part) = part {
            path.push('/');
            path.push_str(part);
        }
        Call { method, path, content, body, reads_answer: true, metadata_only: false }
    }

    /// A request to read an object.
    pub fn get(key: &ObjectKey) -> Self {
        Call::new(Method::GET, key, None, Content::Json, Value::Null)
    }

    /// A request at a path of its own.
    pub fn at(method: Method, path: String, content: Content, body: Value) -> Self {
        Call { method, path, content, body, reads_answer: true, metadata_only: false }
    }

    fn outgoing(&self) -> Result<Outgoing, CallError> {
        let Call { method, path, content, body, reads_answer: _, metadata_only } = self;
        let writes = *method != Method::GET;
        let query = if writes { format!("?fieldManager={FIELD_MANAGER}") } else { String::new() };
        let accepts = if *metadata_only { METADATA_ONLY } else { "application/json" };
        // Binds and events, of which there are as many as pods, take the server less time in its own format.
        let binary = if *method == Method::POST { wire::encode(body) } else { None };
        let content = match content {
            _ if binary.is_some() => BINARY,
            Content::Json => "application/json",
            Content::MergePatch => "application/merge-patch+json",
            Content::StrategicPatch => "application/strategic-merge-patch+json",
        };
        // What stands in a path may be an object's name as its owner wrote it.
        if !path.bytes().all(|byte| byte.is_ascii_graphic()) {
            let message = format!("{path:?}: expected a path of plain characters");
            return Err(CallError::Refused { code: 0, message });
        }
        let as_text = || if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        let body = binary.unwrap_or_else(as_text);
        Ok(Outgoing { method: method.clone(), path: format!("{path}{query}"), content, accepts, body })
    }

    /// Sends it, if we may, and waits for the answer. What reads may always be sent.
    pub async fn send(&self, lines: &Lines, fence: &Fence) -> Result<Value, CallError> {
        let request = self.outgoing()?;
        if self.method != Method::GET && !fence.holds() {
            return Err(CallError::Fenced);
        }
        let answer = match tokio::time::timeout(fence.call_timeout(), lines.send(&request)).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => return Err(CallError::Unavailable(one_line(&with_sources(&*error)))),
            Err(_) => {
                return Err(CallError::Unavailable(format!("{} {}: no answer in time", self.method, self.path)));
            }
        };
        match answer.code {
            // What is written is sent back whole, and nobody reads it: it is not taken apart.
            200..=299 if !self.reads_answer => Ok(Value::Null),
            200..=299 => serde_json::from_slice(&answer.body).map_err(|error| {
                let message = format!("{} {}: the answer cannot be read: {error}", self.method, self.path);
                match answer.body.trim_ascii_start().starts_with(b"{") && !error.is_eof() {
                    // The object itself: it stays so however often it is asked for.
                    true => CallError::Refused { code: answer.code, message },
                    false => CallError::Unavailable(message),
                }
            }),
            code => {
                let plain = || {
                    let text = String::from_utf8_lossy(&answer.body);
                    let message = format!("it answered {code}: {}", text.chars().take(PLAIN_MAX).collect::<String>());
                    Status { code, message, ..Status::default() }
                };
                let status = serde_json::from_slice(&answer.body).ok().filter(|status: &Status| status.code == code);
                Err(refusal(&status.unwrap_or_else(plain), answer.retry_after))
            }
        }
    }
}

pub fn call_error(error: kube::Error) -> CallError {
    match error {
        kube::Error::Api(status) => refusal(&status, None),
        other => CallError::Unavailable(with_sources(&other)),
    }
}

/// What the server says went wrong, and when to come again where the answer's head says it.
fn refusal(status: &Status, after: Option<Duration>) -> CallError {
    let message = one_line(&status.message);
    let told = status.details.as_ref().map(|details| details.retry_after_seconds).filter(|seconds| *seconds > 0);
    match status.code {
        404 => CallError::NotFound(message),
        409 => CallError::Conflict(message),
        429 => CallError::Throttled { after: told.map(|s| Duration::from_secs(s.into())).or(after), message },
        // What stands in between sends us elsewhere, or our token has run out and the next one is not read yet. None of
        // it says anything about the request.
        300..=399 | 401 | 408 => CallError::Unavailable(message),
        // The server cannot be reached behind what answers, or has too much to do; otherwise it is this request.
        502..=504 => CallError::Unavailable(message),
        500.. => CallError::Broken(message),
        code => CallError::Refused { code, message },
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The API server, for whoever holds the lease.
#[derive(Clone)]
pub struct Http {
    pub lines: Lines,
    pub fence: Fence,
    pub metrics: Metrics,
}

impl Api for Http {
    async fn call(&self, call: quotient_host::Call) -> Result<Value, CallError> {
        let (verb, begun) = (call.verb, Instant::now());
        let answer = Call::from(call).send(&self.lines, &self.fence).await;
        if answer != Err(CallError::Fenced) {
            self.metrics.request_took(verb, begun.elapsed(), answer.as_ref().err());
        }
        answer
    }

    fn secret_bytes(&self) -> Result<[u8; 32], CallError> {
        let drawn = ring::rand::generate(&ring::rand::SystemRandom::new());
        drawn
            .map(ring::rand::Random::expose)
            .map_err(|_| CallError::Unavailable("the system has no random bytes".to_string()))
    }
}

impl From<quotient_host::Call> for Call {
    fn from(call: quotient_host::Call) -> Self {
        let quotient_host::Call { verb, target, part, content, body, reads_answer } = call;
        let method = match verb {
            Verb::Get => Method::GET,
            Verb::Create => Method::POST,
            Verb::Patch => Method::PATCH,
            Verb::Delete => Method::DELETE,
        };
        // What is made is sent to where all of its kind are.
        let is_made = verb == Verb::Create && part.is_none();
        let mut path = match &target {
            Target::Event { namespace, .. } if is_made => format!("/api/v1/namespaces/{namespace}/events"),
            Target::Event { namespace, name } => format!("/api/v1/namespaces/{namespace}/events/{name}"),
            Target::Object(key) if is_made => {
                let kind = key.kind_entry().expect("a key is made of a kind of the table");
                kind_path(kind, key.namespace.as_deref())
            }
            Target::Object(key) => object_path(key),
        };
        if let Some(part) = part {
            path.push('/');
            path.push_str(part);
        }
        let mut body = body;
        // What is made says in which version it is: that of the path.
        if let (true, Target::Object(key)) = (is_made, &target)
            && let Some(kind) = key.kind_entry().filter(|kind| !kind.group.is_empty())
        {
            body["apiVersion"] = format!("{}/{}", kind.group, version_of(kind)).into();
        }
        let metadata_only = verb == Verb::Patch;
        Call { method, path, content, body, reads_answer, metadata_only }
    }
}

/// Where all objects of a kind are, in one namespace or in all.
pub fn kind_path(kind: &Kind, namespace: Option<&str>) -> String {
    let root = match kind.group {
        "" => format!("/api/{}", kind.versions[0]),
        group => format!("/apis/{group}/{}", version_of(kind)),
    };
    match namespace {
        Some(namespace) => format!("{root}/namespaces/{namespace}/{}", kind.plural),
        None => format!("{root}/{}", kind.plural),
    }
}

/// Where an object is.
pub fn object_path(key: &ObjectKey) -> String {
    let kind = key.kind_entry().expect("a key is made of a kind of the table");
    format!("{}/{}", kind_path(kind, key.namespace.as_deref()), key.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_where_the_api_server_has_them() {
        let quota = quotient_api::kinds::find("nos.nebuly.com", "ElasticQuota").expect("it is known");
        let quota = ObjectKey::new(quota, Some("a"), "q");
        assert_eq!(object_path(&ObjectKey::node("n")), "/api/v1/nodes/n");
        assert_eq!(object_path(&quota), "/apis/nos.nebuly.com/v1alpha1/namespaces/a/elasticquotas/q");
        let call = Call::new(Method::POST, &ObjectKey::pod("a", "p"), Some("binding"), Content::Json, Value::Null);
        let sent = call.outgoing().expect("it is a request");
        assert_eq!(sent.path, "/api/v1/namespaces/a/pods/p/binding?fieldManager=quotient");
        for name in ["p HTTP/1.1\r\nx: y", "p\n", "p p", "é"] {
            let call = Call::get(&ObjectKey::pod("a", name));
            assert!(matches!(call.outgoing(), Err(CallError::Refused { .. })), "{name:?}");
        }
    }
}
