//! A cluster at one moment, as plain data: pods, quotas and nodes.

use std::collections::BTreeMap;
use std::sync::Arc;

use quotient_api::{elastic, time};
use quotient_engine::fact::PodKey;
use quotient_engine::{Engine, Reason};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::shared::{Name, Shared, Word, some_word, word};

/// Labels that name a node's pool, the first that is there counts.
const POOL_LABELS: [&str; 5] = [
    "pool",
    "cloud.google.com/gke-nodepool",
    "eks.amazonaws.com/nodegroup",
    "kubernetes.azure.com/agentpool",
    "node.kubernetes.io/instance-type",
];
const RACK_LABELS: [&str; 2] = ["topology.kubernetes.io/rack", "topology.kubernetes.io/zone"];

/// Where a pod is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Phase {
    Pending,
    Running,
    /// It was evicted, or deleted, and is on its way out.
    Terminating,
    Succeeded,
    Failed,
}

/// Why a pod waits. Amounts are as ledgers count them: millicores of cpu, base units of all else.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Why {
    #[serde(deserialize_with = "word")]
    pub code: Word,
    pub message: String,
    pub quota: Option<String>,
    pub resource: Option<String>,
    pub used: Option<i64>,
    pub requested: Option<i64>,
    pub limit: Option<i64>,
    pub remedies: Vec<String>,
}

/// A pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodRow {
    pub namespace: Name,
    pub name: Name,
    pub uid: String,
    pub phase: Phase,
    pub node: Option<Name>,
    /// The card that it holds, or those that it accepts.
    pub card: Option<String>,
    /// Cards that it asks for.
    pub gpus: i64,
    pub requests: Vec<(Name, i64)>,
    pub priority: i64,
    pub group: Option<String>,
    pub quotas: Vec<Name>,
    #[serde(deserialize_with = "some_word")]
    pub capacity: Option<Word>,
    pub created_ms: i64,
    pub started_ms: Option<i64>,
    pub why: Option<Shared<Why>>,
}

/// What a quota says of one resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Amounts {
    pub guaranteed: Option<i64>,
    pub entitled: i64,
    pub used: i64,
    pub borrowed: i64,
    pub lent: i64,
    pub reclaimable: i64,
    pub max: Option<i64>,
}

/// A quota.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QuotaRow {
    /// `Kind/namespace/name`, or `Kind.group/…` where that is ambiguous.
    pub object: Name,
    #[serde(deserialize_with = "word")]
    pub kind: Word,
    #[serde(deserialize_with = "word")]
    pub group: Word,
    pub namespace: Option<Name>,
    pub name: Name,
    #[serde(deserialize_with = "word")]
    pub policy: Word,
    pub parent: Option<Name>,
    pub tree: Option<Name>,
    pub resources: BTreeMap<Name, Amounts>,
    /// How many of its pods wait.
    pub waiting: u32,
}

/// A node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeRow {
    pub name: Name,
    pub pool: String,
    pub rack: String,
    pub ready: bool,
    pub cordoned: bool,
    pub allocatable: Vec<(Name, i64)>,
    pub used: Vec<(Name, i64)>,
    /// Card, resource, how many.
    pub cards: Vec<(Name, i64)>,
    pub cap: Vec<(Name, i64)>,
    pub cap_used: Vec<(Name, i64)>,
}

/// Everything, at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct View {
    pub at_ms: i64,
    /// By namespace and name.
    pub pods: Vec<PodRow>,
    pub quotas: Vec<QuotaRow>,
    pub nodes: Vec<NodeRow>,
    /// Whether everything is in here, so that totals are those of the cluster.
    pub whole: bool,
}

/// What a view is made from.
pub struct Sources<'a, P, N> {
    pub at_us: i64,
    pub engine: &'a Engine,
    pub reasons: &'a BTreeMap<PodKey, Arc<Reason>>,
    /// Pod objects, by namespace and name.
    pub pods: P,
    pub nodes: N,
}

impl View {
    /// The view of these objects and what the engine says of them.
    pub fn of<'a, P, N>(sources: Sources<'a, P, N>) -> View
    where
        P: Iterator<Item = &'a Value>,
        N: Iterator<Item = &'a Value>,
    {
        let Sources { at_us, engine, reasons, pods, nodes } = sources;
        let reports = engine.quotas();
        let mut names: BTreeMap<quotient_engine::fact::QuotaKey, Name> = BTreeMap::new();
        let mut seen: BTreeMap<String, u32> = BTreeMap::new();
        for report in &reports {
            *seen.entry(report.key.to_string()).or_default() += 1;
        }
        for report in &reports {
            let plain = report.key.to_string();
            let key = elastic::object_key(&report.key);
            let shown = match (seen.get(&plain), key) {
                (Some(1), _) | (_, None) => plain,
                (_, Some(key)) => key.qualified(),
            };
            names.insert(report.key.clone(), Name::from(shown));
        }
        let nodes = node_rows(engine, nodes);
        let cards: BTreeMap<Name, Name> =
            nodes.iter().filter_map(|node| Some((node.name.clone(), node.cards.first()?.0.clone()))).collect();
        let mut whys: BTreeMap<*const Reason, Shared<Why>> = BTreeMap::new();
        let mut waiting: BTreeMap<Name, u32> = BTreeMap::new();
        let mut rows = Vec::new();
        for pod in pods {
            let Some(mut row) = pod_row(pod) else { continue };
            let key = PodKey { namespace: row.namespace.of_engine(), name: row.name.of_engine() };
            row.requests = engine.requests(&key).into_iter().map(|(name, amount)| (Name::from(name), amount)).collect();
            row.gpus = row.requests.iter().filter(|(name, _)| is_gpu(name)).map(|(_, amount)| *amount).sum();
            if row.gpus == 0 {
                // Its cards may be devices that it claims.
                row.gpus = engine.cards_of(&key).iter().map(|(_, amount)| *amount).sum();
            }
            row.quotas = engine.quotas_of(&key).iter().filter_map(|quota| names.get(quota).cloned()).collect();
            row.capacity = engine.capacity(&key).map(|(_, capacity)| capacity.name());
            if row.gpus > 0
                && let Some(card) = row.node.as_ref().and_then(|node| cards.get(node))
            {
                row.card = Some(card.to_string());
            }
            if row.phase == Phase::Pending {
                for quota in &row.quotas {
                    *waiting.entry(quota.clone()).or_default() += 1;
                }
                // Pods that wait for one reason share it.
                row.why = reasons
                    .get(&key)
                    .map(|reason| whys.entry(Arc::as_ptr(reason)).or_insert_with(|| Shared::from(why(reason))).clone());
            }
            rows.push(row);
        }
        let mut quotas: Vec<QuotaRow> =
            reports.iter().filter_map(|report| quota_row(report, &names, &waiting)).collect();
        quotas.sort_by(|a, b| a.object.cmp(&b.object));
        View { at_ms: at_us / 1000, pods: rows, quotas, nodes, whole: true }
    }
}

/// Whether a resource is an accelerator: a whole one, a shared one or a MIG device.
pub fn is_gpu(resource: &str) -> bool {
    resource.contains("/mig-") || (resource.contains("/gpu") && !resource.contains("gpu-memory"))
}

/// An amount that fits a number of JSON.
fn small(amount: i128) -> i64 {
    i64::try_from(amount).unwrap_or(if amount > 0 { i64::MAX } else { i64::MIN })
}

fn text<'a>(object: &'a Value, pointer: &str) -> Option<&'a str> {
    object.pointer(pointer).and_then(Value::as_str)
}

fn moment_ms(object: &Value, pointer: &str) -> Option<i64> {
    text(object, pointer).and_then(|text| time::parse_timestamp(text).ok()).map(|us| us / 1000)
}

fn pod_row(pod: &Value) -> Option<PodRow> {
    let metadata = pod.get("metadata")?;
    let node = text(pod, "/spec/nodeName").map(Name::from);
    let phase = match text(pod, "/status/phase") {
        Some("Succeeded") => Phase::Succeeded,
        Some("Failed") => Phase::Failed,
        _ if metadata.get("deletionTimestamp").is_some_and(|at| !at.is_null()) => Phase::Terminating,
        _ if node.is_some() => Phase::Running,
        _ => Phase::Pending,
    };
    let annotation = |name: &str| metadata.get("annotations").and_then(|all| all.get(name)).and_then(Value::as_str);
    Some(PodRow {
        namespace: Name::from(metadata.get("namespace")?.as_str()?),
        name: Name::from(metadata.get("name")?.as_str()?),
        uid: text(pod, "/metadata/uid").unwrap_or_default().to_string(),
        phase,
        node,
        card: annotation("volcano.sh/card.name").map(str::to_string),
        gpus: 0,
        requests: Vec::new(),
        priority: pod.pointer("/spec/priority").and_then(Value::as_i64).unwrap_or(0),
        group: annotation("scheduling.k8s.io/group-name").map(str::to_string),
        quotas: Vec::new(),
        capacity: None,
        created_ms: moment_ms(pod, "/metadata/creationTimestamp").unwrap_or(0),
        started_ms: moment_ms(pod, "/status/startTime"),
        why: None,
    })
}

fn why(reason: &Reason) -> Why {
    let Reason { code, message, quota, numbers, remedies, .. } = reason;
    let number = |of: fn(&quotient_engine::Numbers) -> i128| numbers.as_ref().map(|numbers| small(of(numbers)));
    Why {
        code: code.name(),
        message: message.clone(),
        quota: quota.as_ref().map(ToString::to_string),
        resource: numbers.as_ref().map(|numbers| numbers.resource.to_string()),
        used: number(|numbers| numbers.used),
        requested: number(|numbers| numbers.requested),
        limit: number(|numbers| numbers.limit),
        remedies: remedies.clone(),
    }
}

fn quota_row(
    report: &quotient_engine::QuotaReport,
    names: &BTreeMap<quotient_engine::fact::QuotaKey, Name>,
    waiting: &BTreeMap<Name, u32>,
) -> Option<QuotaRow> {
    let key = elastic::object_key(&report.key)?;
    let object = names.get(&report.key)?.clone();
    let mut resources: BTreeMap<Name, Amounts> = BTreeMap::new();
    let mut put = |amounts: &[(Arc<str>, i128)], set: fn(&mut Amounts, i64)| {
        for (name, amount) in amounts {
            set(resources.entry(Name::from(name)).or_default(), small(*amount));
        }
    };
    put(&report.min, |amounts, value| amounts.guaranteed = Some(value));
    put(&report.max, |amounts, value| amounts.max = Some(value));
    put(&report.entitlement, |amounts, value| amounts.entitled = value);
    put(&report.used, |amounts, value| amounts.used = value);
    put(&report.borrowed, |amounts, value| amounts.borrowed = value);
    put(&report.lent, |amounts, value| amounts.lent = value);
    put(&report.reclaimable, |amounts, value| amounts.reclaimable = value);
    Some(QuotaRow {
        kind: key.kind,
        group: key.group,
        namespace: key.namespace.as_ref().map(Name::from),
        name: Name::from(&key.name),
        policy: report.policy.name(),
        parent: report.parent.as_ref().and_then(|parent| names.get(parent).cloned()),
        tree: report.tree.as_ref().map(Name::from),
        resources,
        waiting: waiting.get(&object).copied().unwrap_or(0),
        object,
    })
}

fn node_rows<'a>(engine: &Engine, objects: impl Iterator<Item = &'a Value>) -> Vec<NodeRow> {
    let reports: BTreeMap<Name, quotient_engine::NodeReport> =
        engine.nodes().into_iter().map(|report| (Name::from(&report.name), report)).collect();
    let mut rows: Vec<NodeRow> = Vec::new();
    for object in objects {
        let Some(name) = text(object, "/metadata/name").map(Name::from) else { continue };
        let Some(report) = reports.get(&name) else { continue };
        let label = |names: &[&str]| {
            let labels = object.pointer("/metadata/labels")?;
            names.iter().find_map(|name| labels.get(*name)?.as_str()).map(str::to_string)
        };
        let wide = |amounts: &[(Arc<str>, i128)]| {
            amounts.iter().map(|(name, amount)| (Name::from(name), small(*amount))).collect::<Vec<_>>()
        };
        let narrow = |amounts: &[(Arc<str>, i64)]| {
            amounts.iter().map(|(name, amount)| (Name::from(name), *amount)).collect::<Vec<_>>()
        };
        let mut cards: Vec<(Name, i64)> = wide(&report.cards);
        // Cards without a name are called by their resource.
        if cards.is_empty() {
            cards = narrow(&report.allocatable).into_iter().filter(|(name, _)| is_gpu(name)).collect();
        }
        let conditions = object.pointer("/status/conditions").and_then(Value::as_array);
        let ready = conditions.and_then(|all| all.iter().find(|condition| condition["type"] == "Ready"));
        let unnamed = cards.first().map_or("cpu".to_string(), |(card, _)| card.to_string());
        rows.push(NodeRow {
            pool: label(&POOL_LABELS).unwrap_or(unnamed),
            rack: label(&RACK_LABELS).unwrap_or_default(),
            ready: ready.is_none_or(|condition| condition["status"] == "True"),
            cordoned: object.pointer("/spec/unschedulable").and_then(Value::as_bool).unwrap_or(false),
            allocatable: narrow(&report.allocatable),
            used: wide(&report.used),
            cards,
            cap: wide(&report.cap),
            cap_used: wide(&report.cap_used),
            name,
        });
    }
    rows.sort_by(|a, b| (&a.pool, &a.rack, &a.name).cmp(&(&b.pool, &b.rack, &b.name)));
    rows
}
