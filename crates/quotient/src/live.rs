//! The objects of a live cluster that bear on scheduling, read once with the caller's own rights.
//!
//! What the caller may not see is said and never guessed. Nothing is written.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use quotient_api::kinds::{KINDS, Kind};
use quotient_cluster::call::kind_path;
use quotient_cluster::connect::reader;
use serde_json::{Value, json};

/// How many objects are asked for at once.
const PAGE: usize = 500;

/// Which cluster, as kubectl names it.
#[derive(Debug, Clone, Default)]
pub struct Which {
    pub kubeconfig: Option<PathBuf>,
    pub context: Option<String>,
    /// Where nothing may be listed in all namespaces, this one is tried.
    pub namespace: Option<String>,
}

/// What was seen.
#[derive(Debug, Default)]
pub struct Seen {
    /// The API server's address.
    pub server: String,
    pub version: String,
    pub objects: Vec<Value>,
    /// Events that tell of evictions.
    pub evictions: Vec<Value>,
    /// What the caller may not see, one line each.
    pub unseen: Vec<String>,
}

/// The kinds that bear on scheduling. Secrets, and what people keep in a cluster besides, are never read.
pub fn relevant_kinds() -> impl Iterator<Item = &'static Kind> {
    let idle = [("", "Secret"), ("", "ConfigMap"), ("", "ServiceAccount"), ("coordination.k8s.io", "Lease")];
    KINDS.iter().filter(move |kind| kind.group != "quotient.dev" && !idle.contains(&(kind.group, kind.kind)))
}

/// Reads the cluster.
pub fn read(which: &Which) -> Result<Seen> {
    read_kinds(which, relevant_kinds().collect())
}

/// Reads the cluster and its ConfigMaps, among which are configurations of schedulers.
pub fn read_with_config_maps(which: &Which) -> Result<Seen> {
    let maps = KINDS.iter().find(|kind| (kind.group, kind.kind) == ("", "ConfigMap"));
    read_kinds(which, relevant_kinds().chain(maps).collect())
}

fn read_kinds(which: &Which, kinds: Vec<&'static Kind>) -> Result<Seen> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.context("the runtime cannot be started")?.block_on(read_async(which, kinds))
}

async fn read_async(which: &Which, kinds: Vec<&'static Kind>) -> Result<Seen> {
    let Which { kubeconfig, context, namespace } = which;
    let (client, server, version) = reader(kubeconfig.as_deref().map(Path::new), context.as_deref()).await?;
    let mut seen = Seen { server, version, ..Seen::default() };
    for kind in kinds {
        let all = kind_path(kind, None);
        let one = namespace.as_deref().filter(|_| kind.namespaced).map(|namespace| kind_path(kind, Some(namespace)));
        match list(&client, &all).await? {
            Listed::Items(items) => seen.objects.extend(items.into_iter().map(|item| named(item, kind))),
            Listed::NotServed => {}
            Listed::Forbidden(why) => {
                let of_one = match &one {
                    Some(path) => list(&client, path).await?,
                    None => Listed::NotServed,
                };
                let only = namespace.as_deref().unwrap_or_default();
                match of_one {
                    Listed::Items(items) => {
                        seen.unseen.push(format!("{} of other namespaces than {only}: {why}", kind.plural));
                        seen.objects.extend(items.into_iter().map(|item| named(item, kind)));
                    }
                    _ => seen.unseen.push(format!("{}: {why}", kind.plural)),
                }
            }
        }
    }
    seen.evictions = match list(&client, "/api/v1/events?fieldSelector=reason%3DPreempted").await? {
        Listed::Items(items) => items,
        Listed::NotServed | Listed::Forbidden(_) => Vec::new(),
    };
    Ok(seen)
}

/// How long a name may take: somebody is typing.
const NAMES_WITHIN: Duration = Duration::from_secs(3);

/// The names of all objects of a resource such as `pods`, as `namespace/name`; none where the cluster does not say.
pub fn names(which: &Which, resource: &str) -> Vec<String> {
    let Some(kind) = KINDS.iter().find(|kind| kind.plural == resource) else { return Vec::new() };
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return Vec::new() };
    let listed = async {
        let Which { kubeconfig, context, .. } = which;
        let (client, ..) = reader(kubeconfig.as_deref().map(Path::new), context.as_deref()).await?;
        list(&client, &kind_path(kind, None)).await
    };
    // The timer is made inside, since it needs the runtime.
    let listed = runtime.block_on(async { tokio::time::timeout(NAMES_WITHIN, listed).await });
    let Ok(Ok(Listed::Items(items))) = listed else { return Vec::new() };
    let text = |item: &Value, pointer: &str| item.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
    let name = |item: &Value| Some(format!("{}/{}", text(item, "/metadata/namespace")?, text(item, "/metadata/name")?));
    items.iter().filter_map(name).collect()
}

/// What the server says to a request for a list.
pub enum Listed {
    Items(Vec<Value>),
    NotServed,
    Forbidden(String),
}

/// The objects at a path, page by page.
pub async fn list(client: &kube::Client, path: &str) -> Result<Listed> {
    let mut items = Vec::new();
    let mut more = String::new();
    loop {
        let query = if path.contains('?') { '&' } else { '?' };
        let rest = if more.is_empty() { String::new() } else { format!("&continue={more}") };
        let request = http::Request::get(format!("{path}{query}limit={PAGE}{rest}")).body(Vec::new());
        let answer = client.request::<Value>(request.context("the request cannot be made")?).await;
        let mut page = match answer {
            Ok(page) => page,
            Err(kube::Error::Api(answer)) if answer.code == 404 => return Ok(Listed::NotServed),
            Err(kube::Error::Api(answer)) if answer.code == 403 => {
                return Ok(Listed::Forbidden(answer.message.clone()));
            }
            Err(error) => return Err(error).with_context(|| format!("{path} cannot be listed")),
        };
        if let Value::Array(of_page) = page["items"].take() {
            items.extend(of_page);
        }
        more = page.pointer("/metadata/continue").and_then(Value::as_str).unwrap_or_default().to_owned();
        if more.is_empty() {
            return Ok(Listed::Items(items));
        }
    }
}

/// Objects of a list do not say what they are.
pub fn named(mut object: Value, kind: &Kind) -> Value {
    object["apiVersion"] = json!(kind.api_version());
    object["kind"] = json!(kind.kind);
    object
}
