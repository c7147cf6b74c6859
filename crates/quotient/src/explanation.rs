//! All there is to say about one pod: why it waits, where it runs, why it had to go.

pub mod eviction;
pub mod obstacles;
pub mod owed;
pub mod words;

use std::sync::Arc;

use obstacles::{Obstacle, obstacles};
use owed::{Owed, owed};
use quotient_api::ObjectKey;
use quotient_engine::quantity::canonical;
use quotient_engine::{Filter, NodeVerdict, Numbers, Reason, Turn};
use quotient_sim::report::{Evicted, PodPhase, PodReport, Quantities, QuotaReport, ReasonReport};
use serde::Serialize;
use serde_json::Value;

use crate::partial::Said;
use crate::remedies::{Remedy, remedies};
use crate::state::{Happened, PodObject, State};
use crate::when::{When, when};

/// How a pod stands, and why. Field names are a contract with whoever reads the JSON.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    pub namespace: String,
    pub name: String,
    pub phase: PodPhase,
    pub node: Option<String>,
    /// The node where room is kept for it.
    pub nominated_node: Option<String>,
    pub created: Option<String>,
    /// Since when it runs.
    pub started: Option<String>,
    /// Its times are those of the cluster that it is from, and not of a virtual one.
    #[serde(skip)]
    pub is_dated: bool,
    /// It still counts where it is, and is on its way out.
    pub leaving: bool,
    pub priority: Option<i64>,
    pub requests: Quantities,
    /// Whether it is within its quota or borrows, where its quotas tell the two apart.
    pub capacity: Option<String>,
    /// The quotas that it answers to, each before those above it.
    pub quotas: Vec<QuotaReport>,
    /// Why it waits.
    pub reason: Option<ReasonExplained>,
    /// What the scheduler wrote on the pod, where too little of the cluster is seen to work the reason out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub said: Option<Said>,
    /// What is not seen then, one line each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unseen: Vec<String>,
    /// What would let it run; each was tried by itself, on a copy of the cluster.
    pub remedies: Vec<Remedy>,
    /// When it has its turn among those that wait.
    pub position: Option<Position>,
    /// What its quotas are entitled to of what it requests and do not have, and who holds it.
    pub owed: Vec<Owed>,
    /// When it may start, if it waits.
    pub when: Option<When>,
    /// What the nodes say to it, if it waits.
    pub nodes: Option<NodesExplained>,
    /// How often it had to go, and why; the last is the latest.
    pub evicted: Vec<Eviction>,
    /// Who had to go for it.
    pub victims: Vec<Eviction>,
}

/// A place among pending pods, and among those of the same quotas; 1 is next.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Position {
    pub place: usize,
    pub of: usize,
    pub place_in_quota: usize,
    pub of_quota: usize,
}

impl From<Turn> for Position {
    fn from(turn: Turn) -> Self {
        let Turn { place, of, place_in_quota, of_quota } = turn;
        Position { place, of, place_in_quota, of_quota }
    }
}

/// A reason with all that goes with it.
#[derive(Debug, PartialEq, Serialize)]
pub struct ReasonExplained {
    #[serde(flatten)]
    pub reason: ReasonReport,
    /// How many nodes each filter closed.
    pub closed: Vec<FilterCount>,
    /// The other reasons that hold.
    pub details: Vec<ReasonExplained>,
}

impl From<&Reason> for ReasonExplained {
    fn from(reason: &Reason) -> Self {
        ReasonExplained {
            reason: ReasonReport::from(reason),
            closed: reason.closed.iter().map(|(filter, nodes)| FilterCount::new(*filter, *nodes as usize)).collect(),
            details: reason.details.iter().map(ReasonExplained::from).collect(),
        }
    }
}

/// How many nodes a filter closed.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct FilterCount {
    pub filter: &'static str,
    pub nodes: usize,
    /// What is the matter with them, to follow their number.
    pub message: &'static str,
}

impl FilterCount {
    fn new(filter: Filter, nodes: usize) -> Self {
        FilterCount { filter: filter.name(), nodes, message: filter.sentence() }
    }
}

/// What all nodes say to a pod.
#[derive(Debug, Serialize)]
pub struct NodesExplained {
    pub total: usize,
    /// The nodes that would take it.
    pub open: Vec<String>,
    /// How many nodes each filter closes; a node is counted under the first that does.
    pub filters: Vec<FilterCount>,
    /// What exactly closes nodes: taints, selectors, claims, labels; with the nodes that each closes.
    pub obstacles: Vec<Obstacle>,
    /// The nodes that are closed, those that only their cap closes first; of each filter's the nearest first.
    pub closed: Vec<ClosedNode>,
}

/// A node that is closed to a pod.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClosedNode {
    pub node: String,
    /// The first filter that closes it.
    pub filter: &'static str,
    /// What the node has too little of.
    pub short: Vec<Shortage>,
    /// What its cap on pods without GPUs has too little of.
    pub cap: Vec<Shortage>,
    /// Nothing but the cap is in the way.
    pub cap_alone: bool,
}

/// What is used, asked for and allowed of a resource, and how much is missing.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Shortage {
    pub resource: String,
    pub used: String,
    pub requested: String,
    pub limit: String,
    pub short_by: String,
}

impl From<&Numbers> for Shortage {
    fn from(numbers: &Numbers) -> Self {
        let Numbers { resource, used, requested, limit } = numbers;
        let show = |amount: i128| canonical(resource, amount);
        Shortage {
            resource: resource.to_string(),
            used: show(*used),
            requested: show(*requested),
            limit: show(*limit),
            short_by: show(numbers.short_by()),
        }
    }
}

/// An eviction, and what led to it.
#[derive(Debug, Clone, Serialize)]
pub struct Eviction {
    /// The file that was applied; empty where an event or a condition of the live cluster tells of it.
    pub file: String,
    /// When it was, as the event or the condition says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time: Option<String>,
    #[serde(flatten)]
    pub evicted: Evicted,
}

impl From<Happened<'_>> for Eviction {
    fn from(happened: Happened<'_>) -> Self {
        let Happened { file, time, evicted } = happened;
        Eviction { file: file.to_owned(), time: time.map(str::to_owned), evicted: evicted.clone() }
    }
}

impl Explanation {
    /// All there is to say about a pod that is in the cluster, or was and had to go.
    pub fn of(state: &State, namespace: &str, name: &str) -> Option<Explanation> {
        let pod = state.pod(namespace, name);
        let of_it = |Happened { evicted, .. }: &Happened<'_>| evicted.namespace == namespace && evicted.name == name;
        let for_it = |Happened { evicted, .. }: &Happened<'_>| {
            evicted.claimant.as_deref().and_then(|claimant| claimant.split_once('/')) == Some((namespace, name))
        };
        let evicted: Vec<Eviction> = state.evictions().filter(of_it).map(Eviction::from).collect();
        let victims = state.evictions().filter(for_it).map(Eviction::from).collect();
        if pod.is_none() && evicted.is_empty() {
            return None;
        }
        let PodReport { namespace, name, phase, node, capacity, quotas, reason: _ } =
            pod.unwrap_or_else(|| gone(namespace, name));
        let PodObject { created, started, nominated_node, priority, is_leaving, is_dated } =
            state.pod_object(&namespace, &name);
        let partial = state.partial();
        let said = partial.and_then(|partial| partial.said(&namespace, &name)).cloned();
        // What a part of the pods hold of a quota is not what the quota has used.
        let quotas = if partial.is_some() { Vec::new() } else { with_those_above(quotas, state.quotas()) };
        let waits = phase == PodPhase::Pending && partial.is_none();
        let requests = state.requests(&namespace, &name);
        let reason = state.reason(&namespace, &name).filter(|_| waits);
        let verdicts = if waits { state.verdicts(&namespace, &name) } else { Vec::new() };
        let object = state.object(&ObjectKey::pod(&namespace, &name)).unwrap_or(&Value::Null);
        let obstacles = obstacles(state, object, &verdicts);
        let key = ObjectKey::pod(&namespace, &name);
        let of_reason = |reason: &Arc<Reason>| remedies(state, &key, reason.clone(), &verdicts, &obstacles);
        let remedies = reason.as_ref().map(of_reason).unwrap_or_default();
        let when = reason.as_ref().map(|_| when(state, &key));
        let mut reason = reason.map(|reason| ReasonExplained::from(&*reason));
        if let Some(ReasonExplained { reason, .. }) = &mut reason {
            // What was not tried is not said.
            reason.remedies = remedies.iter().map(|remedy| remedy.message.clone()).collect();
        }
        Some(Explanation {
            node,
            nominated_node,
            created,
            started: started.filter(|_| phase != PodPhase::Pending),
            said,
            unseen: partial.map(|partial| partial.unseen.clone()).unwrap_or_default(),
            leaving: is_leaving,
            is_dated,
            priority,
            position: state.turn(&namespace, &name).filter(|_| waits).map(Position::from),
            owed: if waits { owed(state, &quotas, &requests) } else { Vec::new() },
            requests,
            capacity,
            quotas,
            reason,
            remedies,
            when,
            nodes: (!verdicts.is_empty()).then(|| NodesExplained::of(&verdicts, obstacles)),
            evicted,
            victims,
            namespace,
            name,
            phase,
        })
    }
}

/// The quotas of these names, and all above them: what they hold counts there as well.
fn with_those_above(names: Vec<String>, all: &[(ObjectKey, QuotaReport)]) -> Vec<QuotaReport> {
    let mut found: Vec<QuotaReport> = Vec::new();
    for name in names {
        let mut next = Some(name);
        while let Some(quota) =
            next.and_then(|name| all.iter().map(|(_, quota)| quota).find(|quota| quota.object == name))
        {
            if found.iter().any(|known| known.object == quota.object) {
                break;
            }
            found.push(quota.clone());
            next = quota.parent.clone();
        }
    }
    found
}

/// A pod that had to go, and whose place another one has taken under another name.
fn gone(namespace: &str, name: &str) -> PodReport {
    PodReport {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        phase: PodPhase::Evicted,
        node: None,
        capacity: None,
        quotas: Vec::new(),
        reason: None,
    }
}

impl NodesExplained {
    fn of(verdicts: &[NodeVerdict], obstacles: Vec<Obstacle>) -> Self {
        let open = verdicts.iter().filter(|verdict| verdict.closed_by.is_none());
        let count = |filter: Filter| verdicts.iter().filter(|verdict| verdict.closed_by == Some(filter)).count();
        let filters = Filter::ALL.into_iter().map(|filter| FilterCount::new(filter, count(filter)));
        let closed = verdicts.iter().filter_map(|verdict| {
            let NodeVerdict { node, closed_by, short, cap, cap_alone } = verdict;
            Some(ClosedNode {
                node: node.to_string(),
                filter: closed_by.as_ref()?.name(),
                short: short.iter().map(Shortage::from).collect(),
                cap: cap.iter().map(Shortage::from).collect(),
                cap_alone: *cap_alone,
            })
        });
        NodesExplained {
            total: verdicts.len(),
            open: open.map(|verdict| verdict.node.to_string()).collect(),
            filters: filters.filter(|filter| filter.nodes > 0).collect(),
            obstacles,
            closed: closed.collect(),
        }
    }
}
