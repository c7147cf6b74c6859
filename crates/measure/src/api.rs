//! Requests to the API server: many at once, their answers mostly unread.

use std::path::Path;
use std::pin::Pin;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use futures::io::{AsyncRead, AsyncReadExt};
use futures::{StreamExt, TryStreamExt, stream};
use http::{Method, Request};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use quotient_cluster::{thin, wire};
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// How many requests are under way at once. More does not make the API server faster.
const CONCURRENT: usize = 128;

/// The API server, as somebody who may do everything.
#[derive(Clone)]
pub struct Api {
    client: Client,
}

/// A request: method, path, content type, body.
pub type Ask = (Method, String, &'static str, Value);

pub const JSON: &str = "application/json";
pub const MERGE: &str = "application/merge-patch+json";
pub const STRATEGIC: &str = "application/strategic-merge-patch+json";

impl Api {
    pub async fn new(kubeconfig: &Path) -> Result<Self> {
        let read = Kubeconfig::read_from(kubeconfig)?;
        let mut config = Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await?;
        config.default_retry = false;
        Ok(Api { client: Client::try_from(config)? })
    }

    pub async fn ask(&self, (method, path, content, body): Ask) -> Result<String> {
        let bytes = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        let request = Request::builder()
            .method(&method)
            .uri(&path)
            .header(http::header::CONTENT_TYPE, content)
            .header(http::header::ACCEPT, JSON)
            .body(bytes)?;
        self.client.request_text(request).await.with_context(|| format!("{method} {path}"))
    }

    /// Sends all of them, many at once, in no certain order.
    pub async fn ask_all(&self, asks: impl IntoIterator<Item = Ask>) -> Result<()> {
        stream::iter(asks)
            .map(|ask| async move { self.ask(ask).await.map(drop) })
            .buffer_unordered(CONCURRENT)
            .try_collect::<Vec<()>>()
            .await
            .map(drop)
    }

    pub async fn create_all(&self, path: &str, objects: impl IntoIterator<Item = Value>) -> Result<()> {
        let make = |object: Value| {
            let namespace = object.pointer("/metadata/namespace").and_then(Value::as_str).unwrap_or_default();
            (Method::POST, path.replace("{namespace}", namespace), JSON, object)
        };
        self.ask_all(objects.into_iter().map(make)).await
    }

    /// The same where some may be there already.
    pub async fn create_missing(&self, path: &str, objects: impl IntoIterator<Item = Value>) -> Result<()> {
        for object in objects {
            match self.create_all(path, [object]).await {
                Err(error) if is_there(&error) => {}
                done => done?,
            }
        }
        Ok(())
    }

    /// Reads all objects of a kind, page by page, as a client that starts does; returns how many there are.
    pub async fn list(&self, path: &str) -> Result<usize> {
        let (mut count, mut next) = (0, String::new());
        loop {
            let text = self.ask((Method::GET, format!("{path}?limit=500&continue={next}"), JSON, Value::Null)).await?;
            let page: Value = serde_json::from_str(&text)?;
            count += page["items"].as_array().map_or(0, Vec::len);
            match page["metadata"]["continue"].as_str() {
                Some(token) if !token.is_empty() => next = token.replace('+', "%2B").replace('=', "%3D"),
                _ => return Ok(count),
            }
        }
    }

    /// Watches pods: the first argument says which, the second makes something of each event, of which those that are
    /// `Some` come out with the moment they came in. It is watching when this returns.
    pub async fn watch_pods<T: Send + 'static>(
        &self,
        selector: &str,
        pick: impl Fn(&Value) -> Option<T> + Send + 'static,
    ) -> Result<UnboundedReceiver<(Instant, T)>> {
        // What is there is listed first, since a watch without a version would begin at an unknown moment.
        let list = self.ask((Method::GET, "/api/v1/pods?limit=1".to_string(), JSON, Value::Null)).await?;
        let list: Value = serde_json::from_str(&list)?;
        let mut version = list["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_string();
        let mut events = Events::begin(self, &version, selector).await?;
        let (sender, receiver) = unbounded_channel();
        let (api, selector) = (self.clone(), selector.to_string());
        tokio::spawn(async move {
            loop {
                while let Ok(Some(event)) = events.next().await {
                    if let Some(seen) = event["object"]["metadata"]["resourceVersion"].as_str() {
                        version = seen.to_string();
                    }
                    if let Some(picked) = pick(&event)
                        && sender.send((Instant::now(), picked)).is_err()
                    {
                        return;
                    }
                }
                // A server may end a watch at any time, and it goes on where it was; after the case the server is gone.
                match Events::begin(&api, &version, &selector).await {
                    Ok(next) => events = next,
                    Err(_) => return,
                }
            }
        });
        Ok(receiver)
    }

    /// How many requests the API server answered so far, by verb, resource and part, but for reads.
    pub async fn writes(&self) -> Result<Vec<(String, u64)>> {
        let text = self.ask((Method::GET, "/metrics".to_string(), JSON, Value::Null)).await?;
        let mut sums = std::collections::BTreeMap::<String, u64>::new();
        for line in text.lines().filter(|line| line.starts_with("apiserver_request_total{")) {
            let Some((labels, value)) = line.rsplit_once(' ') else { continue };
            let label = |name: &str| {
                let from = labels.find(&format!("{name}=\""))? + name.len() + 2;
                labels[from..].split('"').next()
            };
            let (verb, resource) = (label("verb").unwrap_or_default(), label("resource").unwrap_or_default());
            if matches!(verb, "GET" | "LIST" | "WATCH" | "") || resource == "leases" {
                continue;
            }
            let part = label("subresource").filter(|part| !part.is_empty()).map(|part| format!("/{part}"));
            let name = format!("{verb} {resource}{}", part.unwrap_or_default());
            *sums.entry(name).or_default() += value.parse::<f64>().unwrap_or(0.0) as u64;
        }
        Ok(sums.into_iter().collect())
    }
}

/// The events of a watch of pods. They come in Kubernetes' binary format, as they do to the kubelets and controllers of
/// every cluster: what the API server makes for one of them it has for all, and a watch as text would take more of its
/// time for every pod than it takes to tell all others.
struct Events {
    stream: Pin<Box<dyn AsyncRead + Send>>,
    plan: wire::Plan,
    /// What came in and was not read yet.
    buffer: Vec<u8>,
}

impl Events {
    async fn begin(api: &Api, version: &str, selector: &str) -> Result<Self> {
        let path = format!("/api/v1/pods?watch=true&resourceVersion={version}&{selector}");
        let request = Request::get(path).header(http::header::ACCEPT, wire::BINARY).body(Vec::new())?;
        let stream = api.client.request_stream(request).await?;
        let pods = quotient_api::kinds::find("", "Pod").context("pods are a known kind")?;
        let plan = thin::plan(pods).context("pods are read from the binary format")?;
        Ok(Events { stream: Box::pin(stream), plan, buffer: Vec::new() })
    }

    /// The next event; `None` when the watch has ended.
    async fn next(&mut self) -> Result<Option<Value>> {
        loop {
            if let Some((frame, length)) = wire::frame(&self.buffer)? {
                let (kind, object) = wire::event(frame)?;
                let event = match kind.as_str() {
                    "ERROR" => bail!("the watch failed"),
                    _ => json!({"type": kind, "object": self.plan.read(object)?}),
                };
                self.buffer.drain(..length);
                return Ok(Some(event));
            }
            let mut piece = [0; 16 * 1024];
            match self.stream.read(&mut piece).await? {
                0 => return Ok(None),
                count => self.buffer.extend_from_slice(&piece[..count]),
            }
        }
    }
}

/// What was written between two countings.
pub fn written(before: &[(String, u64)], after: &[(String, u64)]) -> Value {
    let old = |name: &str| before.iter().find(|(known, _)| known == name).map_or(0, |(_, count)| *count);
    let new = after.iter().map(|(name, count)| (name.clone(), json!(count - old(name))));
    new.filter(|(_, count)| *count != json!(0)).collect::<serde_json::Map<_, _>>().into()
}

/// Whether a request failed since the object exists.
fn is_there(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref::<kube::Error>(), Some(kube::Error::Api(status)) if status.code == 409)
}
