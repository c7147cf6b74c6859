//! What viewers of a live cluster can ask beside its view: what a change would do, and to apply it.
//!
//! A change is tried on a virtual copy of the cluster, which is read anew each time with the rights of the scheduler,
//! in a process of its own with bounds on its memory and time. The answer is filtered for the viewer afterwards. A
//! change is applied only where that is switched on, and with the token of the viewer: the scheduler's own rights are
//! never used for it.

use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use http::{Method, Request};
use kube::Client;
use quotient_api::{ObjectKey, key_of};
use quotient_cluster::call::{kind_path, object_path};
use quotient_cluster::connect::with_token;
use quotient_dashboard::Hub;
use quotient_dashboard::demo::player::manifest;
use quotient_dashboard::gate::{Later, Refusal, Source};
use quotient_dashboard::viewer::Viewer;
use quotient_dashboard::what_if::{Answer, documents};
use quotient_host::objects::watched_kinds;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::process::Command;
use tokio::sync::Semaphore;

use super::bounds::{TRIAL_BYTES_MAX, TRIAL_CPU_S_MAX};
use crate::arguments::WhatIfArguments;
use crate::live::{self, Listed};

/// Whose fields they are, beside the viewer's name in the audit log.
const MANAGER: &str = "quotient-dashboard";

/// Changes that are tried at a time: each holds a copy of the whole cluster.
const TRIALS_MAX: usize = 1;

/// How long a trial may take, with reading the cluster.
const TRIAL_MAX: Duration = Duration::from_secs(90);

/// The source of a live cluster's dashboard.
pub struct LiveSource {
    cluster: String,
    hub: Arc<Hub>,
    /// Reads with the rights of the scheduler.
    reader: Client,
    /// Whether viewers may apply changes.
    applies: bool,
    cluster_arguments: WhatIfArguments,
    trials: Semaphore,
}

impl LiveSource {
    /// A source that reads with this client.
    pub fn new(
        cluster: String,
        hub: Arc<Hub>,
        reader: Client,
        applies: bool,
        cluster_arguments: WhatIfArguments,
    ) -> Self {
        LiveSource { cluster, hub, reader, applies, cluster_arguments, trials: Semaphore::new(TRIALS_MAX) }
    }

    async fn try_out(&self, change: String) -> Result<Answer, Refusal> {
        documents(&change).map_err(Refusal::Bad)?;
        let busy = || Refusal::Bad("another change is being tried; try again in a moment".into());
        let _trial = self.trials.try_acquire().map_err(|_| busy())?;
        let broken = |error: std::io::Error| Refusal::Bad(format!("the change could not be tried: {error}"));
        let WhatIfArguments { kubeconfig, config, without_jobs } = &self.cluster_arguments;
        let mut command = Command::new(std::env::current_exe().map_err(broken)?);
        command.arg("what-if");
        for (flag, file) in [("--kubeconfig", kubeconfig), ("--config", config)] {
            command.args(file.iter().flat_map(|file| [flag.as_ref(), file.as_os_str()]));
        }
        command.args(without_jobs.then_some("--without-jobs"));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
        let mut child = command.spawn().map_err(broken)?;
        let mut input = child.stdin.take();
        let asked = async move {
            if let Some(input) = &mut input {
                // One that ended before it read everything says why below.
                let _ = input.write_all(change.as_bytes()).await;
            }
            drop(input);
            child.wait_with_output().await
        };
        let late = |_| Refusal::Bad(format!("the change takes more than {} s to try", TRIAL_MAX.as_secs()));
        let output = tokio::time::timeout(TRIAL_MAX, asked).await.map_err(late)?.map_err(broken)?;
        let answer: Result<Answer, String> = serde_json::from_slice(&output.stdout).map_err(|_| {
            tracing::warn!("a change could not be tried: {}", output.status);
            Refusal::Bad(format!(
                "the change takes more to try than {} GiB of memory or {TRIAL_CPU_S_MAX} s, or is nested too deep",
                TRIAL_BYTES_MAX >> 30
            ))
        })?;
        answer.map_err(Refusal::Bad)
    }

    async fn act(&self, change: String, token: Option<String>) -> Result<Vec<String>, Refusal> {
        if !self.applies {
            return Err(Refusal::Forbidden("this dashboard is read-only".into()));
        }
        let token = token.ok_or(Refusal::SignIn)?;
        let objects = documents(&change).map_err(Refusal::Bad)?;
        let client = with_token(self.cluster_arguments.kubeconfig.as_deref(), &token).await;
        let client = client.map_err(|error| Refusal::Bad(error.to_string()))?;
        let mut applied: Vec<String> = Vec::new();
        for object in objects {
            match put(&client, object).await {
                Ok(key) => applied.push(key.to_string()),
                // What was applied before stays: whoever reads the message should know.
                Err(message) if applied.is_empty() => return Err(Refusal::Forbidden(message)),
                Err(message) => {
                    return Err(Refusal::Forbidden(format!("{message} (applied before it: {})", applied.join(", "))));
                }
            }
        }
        Ok(applied)
    }

    /// The object of that name, among those that the scheduler may list.
    async fn find(&self, name: &str) -> Result<Value, Refusal> {
        let keys = ObjectKey::parse(name).map_err(|problem| Refusal::Bad(problem.to_string()))?;
        for key in keys {
            let Some(kind) = key.kind_entry().filter(|kind| watched_kinds().any(|watched| watched == *kind)) else {
                continue;
            };
            let path =
                format!("{}?fieldSelector=metadata.name%3D{}", kind_path(kind, key.namespace.as_deref()), key.name);
            let listed = live::list(&self.reader, &path).await;
            if let Ok(Listed::Items(items)) = listed
                && let Some(item) = items.into_iter().next()
            {
                return Ok(live::named(item, kind));
            }
        }
        Err(Refusal::Bad("there is no such quota any more".into()))
    }
}

/// Replaces the object if it exists and creates it otherwise, as `kubectl replace` and `kubectl create` do.
async fn put(client: &Client, mut object: Value) -> Result<ObjectKey, String> {
    let key = key_of(&object).map_err(|problem| problem.to_string())?;
    let kind = key.kind_entry().ok_or_else(|| format!("{key} is of an unknown kind"))?;
    let said = |error: kube::Error| match error {
        kube::Error::Api(status) => format!("{key}: {}", status.message),
        other => format!("{key}: {other}"),
    };
    let request = |method: Method, path: String, body: Vec<u8>| {
        let manager = if method == Method::GET { String::new() } else { format!("?fieldManager={MANAGER}") };
        let request = Request::builder().method(method).uri(format!("{path}{manager}"));
        let request = request.header(http::header::CONTENT_TYPE, "application/json").body(body);
        request.map_err(|error| format!("{key}: {error}"))
    };
    let current = client.request::<Value>(request(Method::GET, object_path(&key), Vec::new())?).await;
    let (method, path) = match current {
        Ok(current) => {
            object["metadata"]["resourceVersion"] = json!(current["metadata"]["resourceVersion"]);
            (Method::PUT, object_path(&key))
        }
        Err(kube::Error::Api(status)) if status.code == 404 => {
            (Method::POST, kind_path(kind, key.namespace.as_deref()))
        }
        Err(error) => return Err(said(error)),
    };
    let body = object.to_string().into_bytes();
    client.request::<Value>(request(method, path, body)?).await.map_err(said)?;
    Ok(key)
}

impl Source for LiveSource {
    fn about(&self) -> Value {
        json!({"mode": "live", "acts": self.applies, "cluster": self.cluster})
    }

    fn what_if<'a>(&'a self, change: String, _: Viewer) -> Later<'a, Result<Answer, Refusal>> {
        Box::pin(self.try_out(change))
    }

    fn apply<'a>(&'a self, change: String, token: Option<String>) -> Later<'a, Result<Vec<String>, Refusal>> {
        Box::pin(self.act(change, token))
    }

    fn control(&self, _: &Value) -> Result<(), Refusal> {
        Err(Refusal::Forbidden("the clock of a live cluster cannot be changed".into()))
    }

    fn object<'a>(&'a self, name: String, viewer: Viewer) -> Later<'a, Result<String, Refusal>> {
        Box::pin(async move {
            // Quotas are what a viewer edits, and of them those that the viewer may get.
            let is_quota = self.hub.state().view.quotas.iter().any(|quota| *quota.object == *name);
            match is_quota && viewer.sees_quota(&name) {
                true => self.find(&name).await.map(|object| manifest(&object)),
                false => Err(Refusal::Bad("there is no such quota, or you may not see it".into())),
            }
        })
    }
}
