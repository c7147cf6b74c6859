//! What a change would do: two states of a cluster, compared.

#[cfg(test)]
mod tests;
mod words;

use std::collections::{BTreeMap, BTreeSet};
use std::thread;
use std::time::Duration;

use quotient_api::ObjectKey;
use quotient_engine::fact::PodKey;
use quotient_engine::quantity::canonical;
use quotient_engine::{Capacity, Engine, NodeReport};
use quotient_sim::report::{
    Bound, Evicted, ObjectProblem, PodPhase, PodReport, Quantities, QuotaReport, RejectedObject, StepReport,
};
use quotient_sim::{Input, Stuck};
use serde::Serialize;

use crate::object_diff::{ObjectDiff, diff};
use crate::standing::{amount_of, resources_of};
use crate::state::State;
pub use words::tell;

/// What would be different. Field names are a contract with whoever reads the JSON.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Plan {
    pub file: String,
    /// What it comes to.
    pub verdict: Verdict,
    /// The fields of objects that the change sets, adds or takes away.
    pub diff: Vec<ObjectDiff>,
    /// What could not be read or used.
    pub problems: Vec<ObjectProblem>,
    /// What admission would refuse.
    pub rejected: Vec<RejectedObject>,
    /// The quotas that would be different, in what they say or in what they hold.
    pub quotas: Vec<QuotaChange>,
    /// Quotas that would hold more beyond their min or their limit than they do.
    pub over_quota: Vec<Overdrawn>,
    /// Guarantees that all nodes together cannot keep, and could before.
    pub unkept: Vec<Unkept>,
    /// Running pods that would count as within their quota, or no longer.
    pub capacity: Vec<CapacityChange>,
    /// Pods that would have to go.
    pub evicted: Vec<Evicted>,
    /// Pods that would start.
    pub bound: Vec<Bound>,
    /// Pods that would wait, and do not now or for another reason.
    pub waiting: Vec<WaitChange>,
    /// How many pods would wait in all.
    pub waiting_count: usize,
}

/// What a change comes to, in numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Verdict {
    pub starts: usize,
    pub evictions: usize,
    /// Pods that would wait and do not now.
    pub newly_pending: usize,
    pub newly_over_quota: usize,
    pub unkept_guarantees: usize,
    pub rejected: usize,
}

/// A guarantee that the nodes cannot keep.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Unkept {
    /// The API group whose quotas promise it.
    pub group: String,
    pub resource: String,
    /// The sum of what the quotas at the top promise.
    pub promised: String,
    /// What all nodes have.
    pub allocatable: String,
}

/// A quota before and after; `null` where there is none.
#[derive(Debug, Serialize)]
pub struct QuotaChange {
    pub object: String,
    pub before: Option<QuotaReport>,
    pub after: Option<QuotaReport>,
}

/// What a quota holds beyond its min, or beyond what it may hold at all.
#[derive(Debug, Serialize)]
pub struct Overdrawn {
    pub object: String,
    pub resource: String,
    pub before: String,
    pub after: String,
    /// What it would hold beyond its limit: nothing more starts there, and nothing is evicted for it.
    pub beyond_max: Option<String>,
}

/// How a running pod is marked, before and after.
#[derive(Debug, Serialize)]
pub struct CapacityChange {
    pub namespace: String,
    pub name: String,
    pub before: Option<String>,
    pub after: Option<String>,
}

/// Why a pod waits, before and after; `before` is `null` where it does not wait now.
#[derive(Debug, Serialize)]
pub struct WaitChange {
    pub namespace: String,
    pub name: String,
    pub before: Option<String>,
    pub after: Option<String>,
    pub message: Option<String>,
}

impl Plan {
    /// What the change would do to a copy of the cluster, if time passed after it.
    pub fn make(state: &State, change: Vec<Input>, wait: Option<Duration>) -> Result<Plan, Stuck> {
        let documents = change.iter().flat_map(|input| &input.read.documents);
        let differs =
            documents.filter_map(|document| diff(&document.key, state.object(&document.key), &document.value));
        let differs: Vec<ObjectDiff> = differs.collect();
        // A cluster that has settled stays as it is until time passes.
        let waited = wait.map(|_| state.with(Vec::new(), wait)).transpose()?;
        let (after, happened) = state.with(change, wait)?;
        let mut plan = match waited {
            Some((before, anyway)) => Plan::of((&before, anyway), (&after, happened)),
            None => Plan::of((state, StepReport::default()), (&after, happened)),
        };
        plan.diff = differs;
        // To give the memory of a large cluster back takes as long as much of the answer, and nobody waits for it.
        // Where no thread is to be had it is given back here.
        drop(thread::Builder::new().spawn(move || drop(after)));
        Ok(plan)
    }

    /// What `changed` has that `unchanged` has not. What happens either way is not the change's doing.
    fn of(unchanged: (&State, StepReport), changed: (&State, StepReport)) -> Self {
        let ((before, anyway), (after, happened)) = (unchanged, changed);
        let StepReport { file, mut bound, mut evicted, rejected, problems } = happened;
        bound.retain(|bound| !anyway.bound.contains(bound));
        evicted.retain(|evicted| !anyway.evicted.contains(evicted));
        // Why all who wait do so is what takes longest in a large cluster: both are looked at at once.
        let look = |state: &State| {
            state.quotas();
            (state.pending(), unkept(state))
        };
        let ((waited, unkept_before), (waits, unkept)) = thread::scope(|scope| {
            let other = scope.spawn(|| look(before));
            let new = look(after);
            (other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)), new)
        });
        let quotas = quota_changes(before, after);
        let known: BTreeMap<(&str, &str), &PodReport> =
            waited.iter().map(|pod| ((pod.namespace.as_str(), pod.name.as_str()), pod)).collect();
        let was = |pod: &PodReport| known.get(&(pod.namespace.as_str(), pod.name.as_str())).copied();
        let over_quota: Vec<Overdrawn> = quotas.iter().flat_map(overdrawn).collect();
        let waiting: Vec<WaitChange> = waits.iter().filter_map(|pod| wait_change(was(pod), pod)).collect();
        let unkept: Vec<Unkept> = unkept.into_iter().filter(|one| !unkept_before.contains(one)).collect();
        let verdict = Verdict {
            starts: bound.len(),
            evictions: evicted.len(),
            newly_pending: waiting.iter().filter(|change| change.before.is_none()).count(),
            newly_over_quota: over_quota.iter().map(|over| &over.object).collect::<BTreeSet<_>>().len(),
            unkept_guarantees: unkept.len(),
            rejected: rejected.len(),
        };
        Plan {
            file,
            verdict,
            diff: Vec::new(),
            problems,
            rejected,
            over_quota,
            unkept,
            quotas,
            capacity: capacity_changes(before, after),
            evicted,
            bound,
            waiting,
            waiting_count: waits.len(),
        }
    }

    fn is_nothing(&self) -> bool {
        let Plan { quotas, capacity, evicted, bound, waiting, diff, .. } = self;
        diff.is_empty()
            && quotas.is_empty()
            && capacity.is_empty()
            && evicted.is_empty()
            && bound.is_empty()
            && waiting.is_empty()
    }
}

fn quota_changes(before: &State, after: &State) -> Vec<QuotaChange> {
    fn by_key(state: &State) -> BTreeMap<&ObjectKey, &QuotaReport> {
        state.quotas().iter().map(|(key, report)| (key, report)).collect()
    }
    let (before, after) = (by_key(before), by_key(after));
    let keys: BTreeSet<&ObjectKey> = before.keys().chain(after.keys()).copied().collect();
    let change = |key: &ObjectKey| {
        let (before, after) = (before.get(key).copied(), after.get(key).copied());
        let object = after.or(before)?.object.clone();
        is_visible(before, after).then(|| QuotaChange { object, before: before.cloned(), after: after.cloned() })
    };
    keys.into_iter().filter_map(change).collect()
}

/// Whether anything that is shown of a quota would be different.
fn is_visible(before: Option<&QuotaReport>, after: Option<&QuotaReport>) -> bool {
    let (Some(before), Some(after)) = (before, after) else { return true };
    if before == after {
        return false;
    }
    let (of_before, of_after) = (resources_of(before), resources_of(after));
    let shown = |quota: &QuotaReport, resource: &str| {
        let QuotaReport { min, max, entitlement, used, borrowed, .. } = quota;
        let named = |amounts: &Quantities| amounts.get(resource).cloned();
        let amount = |amounts: &Quantities| amount_of(amounts, resource);
        (named(min), named(max), amount(entitlement), amount(used), amount(borrowed))
    };
    of_before.iter().chain(&of_after).any(|resource| shown(before, resource) != shown(after, resource))
}

/// What a quota would hold beyond its min or its limit, where that is more than it does.
fn overdrawn(change: &QuotaChange) -> Vec<Overdrawn> {
    let QuotaChange { object, before, after } = change;
    let Some(after) = after else { return Vec::new() };
    let none = QuotaReport::default();
    let before = before.as_ref().unwrap_or(&none);
    let beyond = |quota: &QuotaReport, resource: &str| {
        let limit = quota.max.get(resource).map(|_| amount_of(&quota.max, resource));
        limit.map_or(0, |limit| (amount_of(&quota.used, resource) - limit).max(0))
    };
    let text =
        |amounts: &Quantities, resource: &String| amounts.get(resource).cloned().unwrap_or_else(|| "0".to_owned());
    let more = |resource: &String| {
        let borrows_more = amount_of(&after.borrowed, resource) > amount_of(&before.borrowed, resource);
        let over = beyond(after, resource);
        let passes_more = over > beyond(before, resource);
        (borrows_more || passes_more).then(|| Overdrawn {
            object: object.clone(),
            resource: resource.clone(),
            before: text(&before.borrowed, resource),
            after: text(&after.borrowed, resource),
            beyond_max: (over > 0).then(|| canonical(resource, over)),
        })
    };
    resources_of(after).iter().filter_map(more).collect()
}

/// What the quotas at the top of each group promise beyond what all nodes have.
fn unkept(state: &State) -> Vec<Unkept> {
    let nodes = state.cluster().engine().nodes();
    let mut promised: BTreeMap<(&'static str, String), i128> = BTreeMap::new();
    let quotas = state.quotas();
    let names: BTreeSet<(&str, &str)> =
        quotas.iter().map(|(key, report)| (key.group, report.object.as_str())).collect();
    for (key, quota) in quotas {
        let is_top = quota.parent.as_ref().is_none_or(|parent| !names.contains(&(key.group, parent.as_str())));
        for resource in quota.min.keys().filter(|_| is_top) {
            *promised.entry((key.group, resource.clone())).or_default() += amount_of(&quota.min, resource);
        }
    }
    let of_nodes = |resource: &str| -> i128 {
        let of_node = |node: &NodeReport| {
            let allocatable = node.allocatable.iter().find(|(name, _)| **name == *resource);
            let cards = node.cards.iter().find(|(name, _)| **name == *resource);
            allocatable.map_or(0, |(_, amount)| i128::from(*amount)).max(cards.map_or(0, |(_, amount)| *amount))
        };
        nodes.iter().map(of_node).sum()
    };
    let beyond = promised.into_iter().filter_map(|((group, resource), promised)| {
        let has = of_nodes(&resource);
        // What no node has may be derived from what they have, such as the memory of GPUs.
        (has > 0 && promised > has).then(|| Unkept {
            group: group.to_owned(),
            promised: canonical(&resource, promised),
            allocatable: canonical(&resource, has),
            resource,
        })
    });
    beyond.collect()
}

/// The pods that run before and after, and are marked otherwise.
fn capacity_changes(before: &State, after: &State) -> Vec<CapacityChange> {
    let (old, new) = (before.cluster().engine(), after.cluster().engine());
    let of = |engine: &Engine, pod: &PodKey| engine.capacity(pod).map(|(_, capacity)| capacity);
    let differs = |engine: &Engine, pod: &PodKey, capacity: Capacity| of(engine, pod) != Some(capacity);
    let gone = old.capacities().filter(|(pod, capacity)| differs(new, pod, *capacity));
    let come = new.capacities().filter(|(pod, capacity)| differs(old, pod, *capacity));
    let pods: BTreeSet<PodKey> = gone.chain(come).map(|(pod, _)| pod).collect();
    let change = |pod: PodKey| {
        let (was, is) = (of(old, &pod), of(new, &pod));
        let key = ObjectKey::pod(&pod.namespace, &pod.name);
        let runs = |state: &State| state.cluster().phase(&key) == Some(PodPhase::Running);
        let named = |capacity: Option<Capacity>| capacity.map(|capacity| capacity.name().to_owned());
        (runs(before) && runs(after)).then(|| CapacityChange {
            namespace: pod.namespace.to_string(),
            name: pod.name.to_string(),
            before: named(was),
            after: named(is),
        })
    };
    pods.into_iter().filter_map(change).collect()
}

/// A pod that would wait, if it does not now or does for another reason.
fn wait_change(before: Option<&PodReport>, after: &PodReport) -> Option<WaitChange> {
    let code = |pod: &PodReport| pod.reason.as_ref().map(|reason| reason.code.clone());
    let waited = before.is_some();
    let before = before.and_then(code);
    let is_new = !waited || before != code(after);
    is_new.then(|| WaitChange {
        namespace: after.namespace.clone(),
        name: after.name.clone(),
        before,
        after: code(after),
        message: after.reason.as_ref().map(|reason| reason.message.clone()),
    })
}
