//! Who may look, and what can be done: the two things that differ between a demo and a live cluster.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use serde_json::Value;

use crate::view::View;
use crate::viewer::Viewer;
use crate::what_if::Answer;

/// A future that a server awaits.
pub type Later<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Why a request is not answered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Nobody is signed in, or the token is not known.
    #[error("sign in with a token of the cluster")]
    SignIn,
    /// It may not be done.
    #[error("{0}")]
    Forbidden(String),
    /// The request has a mistake.
    #[error("{0}")]
    Bad(String),
}

/// Says who looks.
pub trait Gate: Send + Sync {
    /// What the owner of a token may see of a view.
    fn viewer<'a>(&'a self, token: Option<&'a str>, view: Arc<View>) -> Later<'a, Result<Viewer, Refusal>>;
}

/// Everybody sees everything: for a simulated cluster on a loopback address.
#[derive(Debug, Clone, Copy)]
pub struct OpenGate;

impl Gate for OpenGate {
    fn viewer<'a>(&'a self, _: Option<&'a str>, _: Arc<View>) -> Later<'a, Result<Viewer, Refusal>> {
        Box::pin(std::future::ready(Ok(Viewer::All)))
    }
}

/// What can be asked of the source beside its view.
pub trait Source: Send + Sync {
    /// What pages show about the source: its mode, and for a demo its clock and story.
    fn about(&self) -> Value;
    /// What a change would do, on a copy of the cluster.
    fn what_if<'a>(&'a self, change: String, viewer: Viewer) -> Later<'a, Result<Answer, Refusal>>;
    /// Applies a change, with the rights of the token's owner; says what was applied.
    fn apply<'a>(&'a self, change: String, token: Option<String>) -> Later<'a, Result<Vec<String>, Refusal>>;
    /// Pause, speed and the like.
    fn control(&self, command: &Value) -> Result<(), Refusal>;
    /// An object as YAML, to be edited.
    fn object<'a>(&'a self, name: String, viewer: Viewer) -> Later<'a, Result<String, Refusal>>;
}
