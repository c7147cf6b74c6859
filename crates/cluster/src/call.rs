//! One request to the API server, and what its answer means.

use std::time::Duration;

use http::{Method, Request};
use kube::Client;
use quotient_api::{Kind, ObjectKey};
use serde_json::Value;

use crate::FIELD_MANAGER;
use crate::lease::Fence;

/// A request that takes longer is given up: whether it happened is seen later. It may take no longer than what lies
/// between the last moment at which something is sent and the moment at which another may have the lease
/// ([`Fence::call_timeout`]), so that nothing of ours arrives after that.
pub const CALL_TIMEOUT: Duration = Duration::from_secs(5);

/// How the body of a request is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    Json,
    MergePatch,
    /// Lists are merged by the key of their items.
    StrategicPatch,
    /// What we want to be so, under our field manager.
    Apply,
}

/// A request.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    method: Method,
    path: String,
    content: Content,
    body: Value,
}

/// Why a request did not do what it should.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    #[error("not found: {0}")]
    NotFound(String),
    /// The object is not as the request presumed.
    #[error("conflict: {0}")]
    Conflict(String),
    /// Another time will not be better.
    #[error("refused ({code}): {message}")]
    Refused { code: u16, message: String },
    /// The server has too much to do.
    #[error("too many requests: {message}")]
    Throttled { after: Option<Duration>, message: String },
    /// It may have happened, or not.
    #[error("no answer: {0}")]
    Unavailable(String),
    #[error("the lease is not ours any more")]
    Fenced,
}

impl Call {
    /// A request about an object, or about a part of it (`status`, `binding`).
    pub fn new(method: Method, key: &ObjectKey, part: Option<&str>, content: Content, body: Value) -> Self {
        let mut path = object_path(key);
        if let Some(part) = part {
            path.push('/');
            path.push_str(part);
        }
        Call { method, path, content, body }
    }

    /// A request to read an object.
    pub fn get(key: &ObjectKey) -> Self {
        Call::new(Method::GET, key, None, Content::Json, Value::Null)
    }

    /// A request at a path of its own.
    pub fn at(method: Method, path: String, content: Content, body: Value) -> Self {
        Call { method, path, content, body }
    }

    fn request(&self) -> Result<Request<Vec<u8>>, CallError> {
        let Call { method, path, content, body } = self;
        let writes = *method != Method::GET;
        let query = match (content, writes) {
            (_, false) => String::new(),
            (Content::Apply, _) => format!("?fieldManager={FIELD_MANAGER}&force=true"),
            _ => format!("?fieldManager={FIELD_MANAGER}"),
        };
        let kind = match content {
            Content::Json => "application/json",
            Content::MergePatch => "application/merge-patch+json",
            Content::StrategicPatch => "application/strategic-merge-patch+json",
            Content::Apply => "application/apply-patch+yaml",
        };
        let bytes = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        Request::builder()
            .method(method.clone())
            .uri(format!("{path}{query}"))
            .header(http::header::CONTENT_TYPE, kind)
            .body(bytes)
            .map_err(|error| CallError::Refused { code: 0, message: format!("{path}: {error}") })
    }

    /// Sends it, if we may, and waits for the answer. What reads may always be sent.
    pub async fn send(&self, client: &Client, fence: &Fence) -> Result<Value, CallError> {
        let request = self.request()?;
        if self.method != Method::GET && !fence.holds() {
            return Err(CallError::Fenced);
        }
        match tokio::time::timeout(fence.call_timeout(), client.request::<Value>(request)).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => Err(CallError::from(error)),
            Err(_) => Err(CallError::Unavailable(format!("{} {}: no answer in time", self.method, self.path))),
        }
    }
}

impl From<kube::Error> for CallError {
    fn from(error: kube::Error) -> Self {
        let kube::Error::Api(status) = error else { return CallError::Unavailable(one_line(&error.to_string())) };
        let message = one_line(&status.message);
        let after = status.details.as_ref().map(|details| details.retry_after_seconds).filter(|seconds| *seconds > 0);
        match status.code {
            404 => CallError::NotFound(message),
            409 => CallError::Conflict(message),
            429 => CallError::Throttled { after: after.map(|s| Duration::from_secs(s.into())), message },
            500.. => CallError::Unavailable(message),
            code => CallError::Refused { code, message },
        }
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Where all objects of a kind are, in one namespace or in all.
pub fn kind_path(kind: &Kind, namespace: Option<&str>) -> String {
    let root = match kind.group {
        "" => format!("/api/{}", kind.versions[0]),
        group => format!("/apis/{group}/{}", kind.versions[0]),
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
        let request = call.request().expect("it is a request");
        assert_eq!(request.uri(), "/api/v1/namespaces/a/pods/p/binding?fieldManager=quotient");
    }
}
