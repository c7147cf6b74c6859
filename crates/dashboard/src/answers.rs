//! What the pages ask: answers that are computed from a view that holds only what the viewer may see.

mod loans;

use std::collections::{BTreeMap, BTreeSet};

use crate::shared::{Name, Shared};
use serde::Serialize;

use crate::journal::{Entry, Journal};
use crate::view::{NodeRow, Phase, PodRow, QuotaRow, View};
use crate::viewer::Viewer;

pub use loans::{Loan, Quotas, quotas};

const HOUR_MS: i64 = 3_600_000;

/// A pod that waits longer than this though its quota is below its entitlement is worth a word.
const LONG_WAIT_MS: i64 = 10 * 60 * 1000;

/// Over how long the starts of a quota are counted for an estimate.
const RATE_MS: i64 = 30 * 60 * 1000;

/// The longest lists.
pub const ROWS_MAX: usize = 200;
const GROUPS_MAX: usize = 40;
const TEAMS_MAX: usize = 100;
const EVICTIONS_MAX: usize = 12;

/// What the overview shows, and what is sent as things change.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Overview {
    pub at_ms: i64,
    pub whole: bool,
    pub running: usize,
    pub pending: usize,
    pub terminating: usize,
    pub nodes: usize,
    pub nodes_not_ready: usize,
    pub nodes_cordoned: usize,
    pub evictions_last_hour: usize,
    pub health: Health,
    pub cards: Vec<Use>,
    pub resources: Vec<Use>,
    pub teams: Vec<TeamUse>,
    pub waiting: Vec<WaitGroup>,
    pub evictions: Vec<Entry>,
}

/// How the cluster is, in a word and sentences.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Health {
    /// `good`, `attention` or `trouble`.
    pub level: &'static str,
    pub sentences: Vec<String>,
}

/// How much of something is used. Without nodes in sight the total is not known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Use {
    pub name: Name,
    pub used: i64,
    pub total: Option<i64>,
}

/// What a team uses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Default)]
#[serde(rename_all = "camelCase")]
pub struct TeamUse {
    pub team: Name,
    pub gpus: i64,
    pub cpu: i64,
    pub memory: i64,
    pub running: usize,
    pub waiting: usize,
    pub borrowed: i64,
    /// By card.
    pub cards: BTreeMap<String, i64>,
}

/// Pods that wait for the same reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WaitGroup {
    pub code: &'static str,
    pub quota: Option<String>,
    pub resource: Option<String>,
    pub count: usize,
    pub oldest_ms: i64,
    pub message: String,
    pub remedy: Option<String>,
    pub teams: Vec<Name>,
}

/// The overview of a view.
pub fn overview(view: &View, journal: &Journal, viewer: &Viewer) -> Overview {
    let count = |phase: Phase| view.pods.iter().filter(|pod| pod.phase == phase).count();
    let not_ready = view.nodes.iter().filter(|node| !node.ready).count();
    Overview {
        at_ms: view.at_ms,
        whole: view.whole,
        running: count(Phase::Running),
        pending: count(Phase::Pending),
        terminating: count(Phase::Terminating),
        nodes: view.nodes.len(),
        nodes_not_ready: not_ready,
        nodes_cordoned: view.nodes.iter().filter(|node| node.cordoned).count(),
        evictions_last_hour: journal.evictions_since(viewer, view.at_ms - HOUR_MS),
        health: health(view, not_ready),
        cards: card_use(view),
        resources: ["cpu", "memory"].iter().map(|name| resource_use(view, name)).collect(),
        teams: team_use(view),
        waiting: wait_groups(view),
        evictions: journal.evictions(viewer, EVICTIONS_MAX),
    }
}

fn health(view: &View, not_ready: usize) -> Health {
    let entitled: BTreeMap<&Name, &QuotaRow> = view.quotas.iter().map(|quota| (&quota.object, quota)).collect();
    let owed = |pod: &&PodRow| {
        let below = |quota: &Name| {
            let Some(quota) = entitled.get(quota) else { return false };
            let fits = |(resource, amount): &(Name, i64)| {
                let amounts = quota.resources.get(resource);
                amounts.is_some_and(|amounts| amounts.entitled > 0 && amounts.used + amount <= amounts.entitled)
            };
            pod.requests.iter().any(fits)
        };
        pod.phase == Phase::Pending && view.at_ms - pod.created_ms > LONG_WAIT_MS && pod.quotas.iter().any(below)
    };
    let owed = view.pods.iter().filter(owed).count();
    let mut sentences = Vec::new();
    let pods = |count: usize| if count == 1 { "1 pod has".to_string() } else { format!("{count} pods have") };
    if owed > 0 {
        sentences.push(format!("{} been pending for over 10 minutes within the entitlement of a quota.", pods(owed)));
    }
    if not_ready > 0 {
        sentences.push(format!("{not_ready} of {} nodes are not ready.", view.nodes.len()));
    }
    let level = match (owed, not_ready) {
        (0, 0) => "good",
        (_, not_ready) if not_ready * 4 > view.nodes.len() => "trouble",
        _ => "attention",
    };
    if sentences.is_empty() {
        sentences.push("No pod is pending for long within what its quota is entitled to.".to_string());
    }
    Health { level, sentences }
}

fn holds(pod: &PodRow) -> bool {
    matches!(pod.phase, Phase::Running | Phase::Terminating)
}

fn card_use(view: &View) -> Vec<Use> {
    let mut cards: BTreeMap<Name, (i64, Option<i64>)> = BTreeMap::new();
    for (card, count) in view.nodes.iter().flat_map(|node| &node.cards) {
        let entry = cards.entry(card.clone()).or_default();
        entry.1 = Some(entry.1.unwrap_or(0) + count);
    }
    for pod in view.pods.iter().filter(|pod| holds(pod) && pod.gpus > 0) {
        let card = Name::from(pod.card.as_deref().unwrap_or("unknown"));
        cards.entry(card).or_default().0 += pod.gpus;
    }
    cards.into_iter().map(|(name, (used, total))| Use { name, used, total }).collect()
}

fn resource_use(view: &View, resource: &str) -> Use {
    let of =
        |amounts: &[(Name, i64)]| amounts.iter().find(|(name, _)| &**name == resource).map_or(0, |(_, amount)| *amount);
    let total = (!view.nodes.is_empty()).then(|| view.nodes.iter().map(|node| of(&node.allocatable)).sum());
    let used = match view.whole {
        true => view.nodes.iter().map(|node| of(&node.used)).sum(),
        false => view.pods.iter().filter(|pod| holds(pod)).map(|pod| of(&pod.requests)).sum(),
    };
    Use { name: Name::from(resource), used, total }
}

fn team_use(view: &View) -> Vec<TeamUse> {
    let mut teams: BTreeMap<&Name, TeamUse> = BTreeMap::new();
    for pod in &view.pods {
        let team = teams.entry(&pod.namespace).or_default();
        let of = |resource: &str| pod.requests.iter().find(|(name, _)| &**name == resource).map_or(0, |(_, a)| *a);
        match pod.phase {
            Phase::Running | Phase::Terminating => {
                team.running += 1;
                team.gpus += pod.gpus;
                team.cpu += of("cpu");
                team.memory += of("memory");
                if pod.gpus > 0 {
                    *team.cards.entry(pod.card.clone().unwrap_or_else(|| "unknown".into())).or_default() += pod.gpus;
                }
            }
            Phase::Pending => team.waiting += 1,
            Phase::Succeeded | Phase::Failed => {}
        }
    }
    for quota in &view.quotas {
        let gpus = |(resource, _): &(&Name, &crate::view::Amounts)| crate::view::is_gpu(resource);
        let borrowed: i64 = quota.resources.iter().filter(gpus).map(|(_, amounts)| amounts.borrowed).sum();
        if let Some(team) = quota.namespace.as_ref().and_then(|namespace| teams.get_mut(namespace)) {
            team.borrowed += borrowed;
        }
    }
    let mut all: Vec<TeamUse> = teams.into_iter().map(|(name, team)| TeamUse { team: name.clone(), ..team }).collect();
    all.retain(|team| team.running + team.waiting > 0);
    all.sort_by(|a, b| (b.gpus, b.cpu, &a.team).cmp(&(a.gpus, a.cpu, &b.team)));
    all.truncate(TEAMS_MAX);
    all
}

/// What makes pods wait for the same reason: code, quota, resource.
type WaitKey<'a> = (&'static str, Option<&'a str>, Option<&'a str>);

fn wait_groups(view: &View) -> Vec<WaitGroup> {
    let mut groups: BTreeMap<WaitKey<'_>, (WaitGroup, BTreeSet<&Name>)> = BTreeMap::new();
    for pod in view.pods.iter().filter(|pod| pod.phase == Phase::Pending) {
        let why = pod.why.as_deref();
        let code = why.map_or("New", |why| why.code);
        let key = (code, why.and_then(|why| why.quota.as_deref()), why.and_then(|why| why.resource.as_deref()));
        let (group, teams) = groups.entry(key).or_insert_with(|| {
            let group = WaitGroup {
                code,
                quota: why.and_then(|why| why.quota.clone()),
                resource: why.and_then(|why| why.resource.clone()),
                count: 0,
                oldest_ms: i64::MAX,
                message: why.map_or("not looked at yet".into(), |why| why.message.clone()),
                remedy: why.and_then(|why| why.remedies.first().cloned()),
                teams: Vec::new(),
            };
            (group, BTreeSet::new())
        });
        group.count += 1;
        group.oldest_ms = group.oldest_ms.min(pod.created_ms);
        teams.insert(&pod.namespace);
    }
    let mut all: Vec<WaitGroup> = groups
        .into_values()
        .map(|(group, teams)| WaitGroup { teams: teams.into_iter().take(8).cloned().collect(), ..group })
        .collect();
    all.sort_by(|a, b| b.count.cmp(&a.count).then(a.code.cmp(b.code)).then(a.quota.cmp(&b.quota)));
    all.truncate(GROUPS_MAX);
    all
}

/// What the page of waiting pods asks for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WaitQuery {
    pub search: String,
    pub code: String,
    pub team: String,
    pub quota: String,
    pub sort: String,
    pub offset: usize,
    pub limit: usize,
}

/// A row of the page of waiting pods.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WaitRow {
    pub namespace: Name,
    pub name: Name,
    pub gpus: i64,
    pub priority: i64,
    pub group: Option<String>,
    pub created_ms: i64,
    pub why: Option<Shared<crate::view::Why>>,
    pub quota: Option<Name>,
    /// Among the waiting pods of its quota: by priority, then by age.
    pub position: usize,
    /// After how long it may start if its quota's pods go on starting as they did in the last half hour.
    pub estimate_ms: Option<i64>,
}

/// A window of the waiting pods.
#[derive(Debug, Clone, Serialize)]
pub struct Waiting {
    /// How many match, and how many wait in all.
    pub total: usize,
    pub all: usize,
    pub offset: usize,
    pub rows: Vec<WaitRow>,
    pub codes: BTreeMap<&'static str, usize>,
    pub teams: BTreeMap<Name, usize>,
}

/// The waiting pods that match, in order.
pub fn waiting(view: &View, query: &WaitQuery) -> Waiting {
    let pending: Vec<&PodRow> = view.pods.iter().filter(|pod| pod.phase == Phase::Pending).collect();
    let places = places(view, &pending);
    let (mut codes, mut teams) = (BTreeMap::new(), BTreeMap::new());
    for pod in &pending {
        *codes.entry(code_of(pod)).or_default() += 1;
        *teams.entry(pod.namespace.clone()).or_default() += 1;
    }
    let search = query.search.to_lowercase();
    let matches = |pod: &PodRow| {
        let named = || {
            pod.name.to_lowercase().contains(&search)
                || pod.namespace.to_lowercase().contains(&search)
                || format!("{}/{}", pod.namespace, pod.name).to_lowercase().contains(&search)
        };
        (query.code.is_empty() || code_of(pod) == query.code)
            && (query.team.is_empty() || *pod.namespace == *query.team)
            && (query.quota.is_empty() || pod.quotas.iter().any(|quota| **quota == *query.quota))
            && (search.is_empty() || named())
    };
    let mut found: Vec<usize> = (0..pending.len()).filter(|at| matches(pending[*at])).collect();
    match query.sort.as_str() {
        "name" => {}
        "gpus" => found.sort_by_key(|at| (std::cmp::Reverse(pending[*at].gpus), *at)),
        "position" => found.sort_by_key(|at| (places[*at].0, *at)),
        "reason" => found.sort_by_key(|at| (code_of(pending[*at]), *at)),
        _ => found.sort_by_key(|at| (pending[*at].created_ms, *at)),
    }
    let rows = found.iter().skip(query.offset).take(query.limit.min(ROWS_MAX));
    let rows = rows.map(|at| wait_row(pending[*at], places[*at])).collect();
    Waiting { total: found.len(), all: pending.len(), offset: query.offset, rows, codes, teams }
}

fn wait_row(pod: &PodRow, (position, estimate_ms): (usize, Option<i64>)) -> WaitRow {
    WaitRow {
        namespace: pod.namespace.clone(),
        name: pod.name.clone(),
        gpus: pod.gpus,
        priority: pod.priority,
        group: pod.group.clone(),
        created_ms: pod.created_ms,
        why: pod.why.clone(),
        quota: pod.quotas.first().cloned(),
        position,
        estimate_ms,
    }
}

fn code_of(pod: &PodRow) -> &'static str {
    pod.why.as_ref().map_or("New", |why| why.code)
}

/// For each waiting pod its place among those of its quota, and an estimate of its start.
fn places(view: &View, pending: &[&PodRow]) -> Vec<(usize, Option<i64>)> {
    let mut order: Vec<usize> = (0..pending.len()).collect();
    order.sort_by_key(|at| (std::cmp::Reverse(pending[*at].priority), pending[*at].created_ms, *at));
    let mut starts: BTreeMap<Option<&Name>, i64> = BTreeMap::new();
    let recent = |pod: &&PodRow| pod.started_ms.is_some_and(|started| started >= view.at_ms - RATE_MS);
    for pod in view.pods.iter().filter(recent) {
        *starts.entry(pod.quotas.first()).or_default() += 1;
    }
    let mut counted: BTreeMap<Option<&Name>, usize> = BTreeMap::new();
    let mut places = vec![(0, None); pending.len()];
    for at in order {
        let quota = pending[at].quotas.first();
        let position = counted.entry(quota).or_default();
        *position += 1;
        let estimate = starts.get(&quota).map(|starts| *position as i64 * RATE_MS / starts);
        places[at] = (*position, estimate);
    }
    places
}

/// A node on the map, with who holds its cards.
#[derive(Debug, Clone, Serialize)]
pub struct MapNode<'a> {
    #[serde(flatten)]
    pub node: &'a NodeRow,
    pub gpus: i64,
    pub gpus_used: i64,
    /// Teams with the cards that each holds here, by name.
    pub holders: Vec<(&'a Name, i64)>,
    pub pods: usize,
}

/// All nodes, by pool, rack and name.
pub fn node_map(view: &View) -> Vec<MapNode<'_>> {
    let mut on: BTreeMap<&Name, (BTreeMap<&Name, i64>, usize)> = BTreeMap::new();
    for pod in view.pods.iter().filter(|pod| holds(pod)) {
        let Some(node) = &pod.node else { continue };
        let (holders, pods) = on.entry(node).or_default();
        *pods += 1;
        if pod.gpus > 0 {
            *holders.entry(&pod.namespace).or_default() += pod.gpus;
        }
    }
    let map = |node| {
        let node: &NodeRow = node;
        let (holders, pods) = on.remove(&node.name).unwrap_or_default();
        MapNode {
            gpus: node.cards.iter().map(|(_, count)| count).sum(),
            gpus_used: holders.values().sum(),
            holders: holders.into_iter().collect(),
            pods,
            node,
        }
    };
    view.nodes.iter().map(map).collect()
}

/// A node with the pods on it.
#[derive(Debug, Clone, Serialize)]
pub struct NodeAnswer<'a> {
    pub node: &'a NodeRow,
    pub pods: Vec<&'a PodRow>,
}

/// One node.
pub fn node<'a>(view: &'a View, name: &str) -> Option<NodeAnswer<'a>> {
    let node = view.nodes.iter().find(|node| *node.name == *name)?;
    let pods = view.pods.iter().filter(|pod| holds(pod) && pod.node.as_deref() == Some(name)).take(ROWS_MAX).collect();
    Some(NodeAnswer { node, pods })
}

/// A pod with its story.
#[derive(Debug, Clone, Serialize)]
pub struct PodAnswer<'a> {
    pub at_ms: i64,
    /// As it is, if it is still there.
    pub pod: Option<&'a PodRow>,
    pub waiting: Option<WaitRow>,
    pub story: Vec<Entry>,
    /// The other pods of its gang.
    pub gang: Vec<&'a PodRow>,
}

/// One pod; `None` where nothing is known of it.
pub fn pod<'a>(
    view: &'a View,
    journal: &Journal,
    viewer: &Viewer,
    namespace: &str,
    name: &str,
) -> Option<PodAnswer<'a>> {
    let is_it = |pod: &&PodRow| *pod.namespace == *namespace && *pod.name == *name;
    let pod = view.pods.iter().find(is_it);
    let story = journal.of_pod(namespace, name, viewer);
    if pod.is_none() && story.is_empty() {
        return None;
    }
    let of_gang = |other: &&PodRow| {
        let group = pod.and_then(|pod| pod.group.as_ref());
        group.is_some() && *other.namespace == *namespace && other.group.as_ref() == group
    };
    let waiting = pod.filter(|pod| pod.phase == Phase::Pending).map(|pod| {
        let pending: Vec<&PodRow> = view.pods.iter().filter(|pod| pod.phase == Phase::Pending).collect();
        let at = pending.iter().position(|other| std::ptr::eq(*other, pod)).unwrap_or(0);
        wait_row(pod, places(view, &pending)[at])
    });
    let gang = view.pods.iter().filter(of_gang).take(ROWS_MAX).collect();
    Some(PodAnswer { at_ms: view.at_ms, pod, waiting, story, gang })
}

/// Pods whose name or namespace contains the text, at most twenty, for the search box.
pub fn find<'a>(view: &'a View, text: &str) -> Vec<&'a PodRow> {
    let text = text.to_lowercase();
    let hit = |pod: &&PodRow| format!("{}/{}", pod.namespace, pod.name).to_lowercase().contains(&text);
    view.pods.iter().filter(hit).take(20).collect()
}
