//! The objects of a live cluster that bear on scheduling, read once with the caller's own rights.
//!
//! What the caller may not see is said and never guessed. Nothing is written.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use quotient_api::kinds::{KINDS, Kind};
use quotient_cluster::call::kind_path;
use quotient_cluster::connect::reader;
use serde_json::{Value, json};

use crate::story::some_of;

/// How many objects are asked for at once.
const PAGE: usize = 500;

/// Which cluster, as kubectl names it.
#[derive(Debug, Clone, Default)]
pub struct Which {
    pub kubeconfig: Option<PathBuf>,
    pub context: Option<String>,
    /// Where nothing may be listed in all namespaces, this one is tried, or the context's.
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
    pub unseen: Unseen,
}

/// What the caller may not see.
#[derive(Debug, Clone, Default)]
pub struct Unseen {
    /// Kinds of which nothing is seen.
    whole: Vec<&'static Kind>,
    /// Kinds of which only the objects of one namespace are seen.
    elsewhere: Vec<&'static Kind>,
    namespace: String,
}

impl Unseen {
    /// Whether decisions cannot be worked out from what is seen.
    pub fn hides_decisions(&self) -> bool {
        self.whole.iter().chain(&self.elsewhere).any(|kind| decides(kind))
    }

    /// What is not seen, at most two lines.
    pub fn lines(&self) -> Vec<String> {
        let elsewhere = format!(" of other namespaces than {}", self.namespace);
        [(&self.whole, ""), (&self.elsewhere, elsewhere.as_str())]
            .into_iter()
            .filter(|(kinds, _)| !kinds.is_empty())
            .map(|(kinds, of)| {
                let mut kinds = kinds.clone();
                kinds.sort_by_key(|kind| !decides(kind));
                // One plural may be of several groups.
                let mut known = BTreeSet::new();
                kinds.retain(|kind| known.insert(kind.plural));
                let names: Vec<String> = kinds.iter().map(|kind| kind.plural.to_owned()).collect();
                format!("{}{of} (you may not list them)", some_of(&names))
            })
            .collect()
    }
}

/// Whether what is decided cannot be known without all objects of a kind.
fn decides(kind: &Kind) -> bool {
    let deciding = ["Node", "Pod", "ElasticQuota", "CompositeElasticQuota", "ElasticQuotaProfile", "Queue"];
    deciding.contains(&kind.kind)
}

/// The kinds that bear on scheduling. Secrets, and what people keep in a cluster besides, are never read.
pub fn relevant_kinds() -> impl Iterator<Item = &'static Kind> {
    let idle = [("", "Secret"), ("", "ConfigMap"), ("", "ServiceAccount"), ("coordination.k8s.io", "Lease")];
    KINDS.iter().filter(move |kind| kind.group != "quotient.dev" && !idle.contains(&(kind.group, kind.kind)))
}

/// The most levels of makers that are looked up.
const LEVELS_MAX: usize = 8;

/// The objects that made others and whose kinds have no bearing on scheduling, such as a JobSet and the TrainJob above
/// it, as far as the caller may see them.
async fn makers_of(client: &kube::Client, objects: &[Value]) -> Vec<Value> {
    let kinds_above = |objects: &[Value]| -> BTreeSet<(String, String)> {
        let references = objects.iter().filter_map(|object| object.pointer("/metadata/ownerReferences")?.as_array());
        let kind = |reference: &Value| {
            let text = |field: &str| reference[field].as_str().map(str::to_owned);
            let (api_version, kind) = (text("apiVersion")?, text("kind")?);
            let group = api_version.split_once('/').map_or("", |(group, _)| group);
            // What is known was listed, and nothing above a node is asked for.
            KINDS.iter().all(|known| (known.group, known.kind) != (group, kind.as_str())).then_some((api_version, kind))
        };
        references.flatten().filter_map(kind).collect()
    };
    let (mut found, mut asked) = (Vec::new(), BTreeSet::new());
    let mut open = kinds_above(objects);
    for _ in 0..LEVELS_MAX {
        let mut next = Vec::new();
        for (api_version, kind) in std::mem::take(&mut open) {
            if asked.insert((api_version.clone(), kind.clone())) {
                next.extend(all_of(client, &api_version, &kind).await.unwrap_or_default());
            }
        }
        open = kinds_above(&next);
        found.extend(next);
        if open.is_empty() {
            break;
        }
    }
    found
}

/// All objects of a kind that is known by its name alone; `None` where they may not be seen.
async fn all_of(client: &kube::Client, api_version: &str, kind: &str) -> Option<Vec<Value>> {
    // A group and a version, and nothing that would lead elsewhere.
    let (group, version) = api_version.split_once('/')?;
    let is_plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-".contains(&byte));
    if !is_plain(group) || !is_plain(version) {
        return None;
    }
    let request = http::Request::get(format!("/apis/{group}/{version}")).body(Vec::new()).ok()?;
    let served = client.request::<Value>(request).await.ok()?;
    let resources = served["resources"].as_array()?.iter();
    let named = resources.filter(|resource| resource["kind"] == kind).filter_map(|resource| resource["name"].as_str());
    let mut named = named;
    let plural = named.find(|name| !name.contains('/'))?;
    let Ok(Listed::Items(items)) = list(client, &format!("/apis/{group}/{version}/{plural}")).await else {
        return None;
    };
    let typed = |mut item: Value| {
        (item["apiVersion"], item["kind"]) = (json!(api_version), json!(kind));
        item
    };
    Some(items.into_iter().map(typed).collect())
}

/// Reads the cluster, and what made its objects, of whatever kind.
pub fn read_with_makers(which: &Which) -> Result<Seen> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.context("the runtime cannot be started")?.block_on(async {
        let mut seen = read_async(which, relevant_kinds().collect()).await?;
        let Which { kubeconfig, context, .. } = which;
        let (client, ..) = reader(kubeconfig.as_deref().map(Path::new), context.as_deref()).await?;
        let made = makers_of(&client, &seen.objects).await;
        seen.objects.extend(made);
        Ok(seen)
    })
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
    let namespace = namespace.as_deref().unwrap_or(client.default_namespace()).to_owned();
    let mut seen = Seen { server, version, ..Seen::default() };
    for kind in kinds {
        match list(&client, &kind_path(kind, None)).await? {
            Listed::Items(items) => seen.objects.extend(items.into_iter().map(|item| named(item, kind))),
            Listed::NotServed => {}
            Listed::Forbidden if kind.namespaced => match list(&client, &kind_path(kind, Some(&namespace))).await? {
                Listed::Items(items) => {
                    seen.unseen.elsewhere.push(kind);
                    seen.objects.extend(items.into_iter().map(|item| named(item, kind)));
                }
                Listed::NotServed | Listed::Forbidden => seen.unseen.whole.push(kind),
            },
            Listed::Forbidden => seen.unseen.whole.push(kind),
        }
    }
    for place in ["/api/v1".to_owned(), format!("/api/v1/namespaces/{namespace}")] {
        if let Listed::Items(items) = list(&client, &format!("{place}/events?fieldSelector=reason%3DPreempted")).await?
        {
            seen.evictions = items;
            break;
        }
    }
    seen.unseen.namespace = namespace;
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
        match list(&client, &kind_path(kind, None)).await? {
            Listed::Forbidden => list(&client, &kind_path(kind, Some(client.default_namespace()))).await,
            listed => Ok(listed),
        }
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
    Forbidden,
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
                return Ok(Listed::Forbidden);
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
