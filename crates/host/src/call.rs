//! One request to an API server as a value, and what its answer means.

use std::time::Duration;

use quotient_api::ObjectKey;
use serde_json::Value;

/// What is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verb {
    Get,
    /// Make an object, or a part of one that is a thing by itself (`binding`, `eviction`).
    Create,
    Patch,
    Delete,
}

impl Verb {
    /// The verb as permissions and metrics have it.
    pub fn name(self) -> &'static str {
        match self {
            Verb::Get => "get",
            Verb::Create => "create",
            Verb::Patch => "patch",
            Verb::Delete => "delete",
        }
    }
}

/// How the body of a request is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    Json,
    MergePatch,
    /// Lists are merged by the key of their items.
    StrategicPatch,
}

/// What a request is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    Object(ObjectKey),
    /// Events are of no kind that is read or watched.
    Event {
        namespace: String,
        name: String,
    },
}

/// A request.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    pub verb: Verb,
    pub target: Target,
    /// The part of the object that it is about (`status`, `binding`).
    pub part: Option<&'static str>,
    pub content: Content,
    pub body: Value,
    /// Whether anybody reads the answer, beyond whether it was done.
    pub reads_answer: bool,
}

impl Call {
    /// Reads an object.
    pub fn get(key: &ObjectKey) -> Self {
        Call { reads_answer: true, ..Call::new(Verb::Get, key, Content::Json, Value::Null) }
    }

    pub fn new(verb: Verb, key: &ObjectKey, content: Content, body: Value) -> Self {
        Call { verb, target: Target::Object(key.clone()), part: None, content, body, reads_answer: false }
    }

    /// The same about a part of the object.
    pub fn of_part(self, part: &'static str) -> Self {
        Call { part: Some(part), ..self }
    }
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
    /// The server failed at this very request; others may do well.
    #[error("the server failed: {0}")]
    Broken(String),
    /// The server cannot be reached, or has too much to do to answer: it may have happened, or not.
    #[error("no answer: {0}")]
    Unavailable(String),
    #[error("the lease is not ours any more")]
    Fenced,
}

/// An API server that answers.
pub trait Api {
    /// The answer. Of what is written nobody reads more than whether it was.
    fn call(&self, call: Call) -> impl Future<Output = Result<Value, CallError>> + Send;

    /// Bytes to make a secret key of. What is random comes from outside, like time.
    fn secret_bytes(&self) -> Result<[u8; 32], CallError>;
}
