//! What a viewer may see, and a view without the rest.
//!
//! Everything that is shown to a viewer is computed from what is left: totals are sums of what the viewer may see.
//! Texts
//! that the engine wrote may name pods, quotas and nodes of others, so that a restricted viewer gets sentences that are
//! made from the fields that are left.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::shared::Name;

use crate::view::{NodeRow, Phase, PodRow, QuotaRow, View, Why};

/// What stands where a name is hidden.
pub const HIDDEN: &str = "another team";

/// Who looks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Viewer {
    /// Everything may be seen.
    All,
    /// Only this.
    Some(Sight),
}

/// What a restricted viewer may see.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Sight {
    /// Namespaces whose pods may be listed.
    pub namespaces: BTreeSet<Name>,
    /// Quotas that may be read, by object.
    pub quotas: BTreeSet<Name>,
    /// Nodes may be listed.
    pub nodes: bool,
}

impl Viewer {
    /// Whether pods of the namespace may be seen.
    pub fn sees_namespace(&self, namespace: &str) -> bool {
        match self {
            Viewer::All => true,
            Viewer::Some(sight) => sight.namespaces.contains(namespace),
        }
    }

    /// Whether the quota may be seen.
    pub fn sees_quota(&self, object: &str) -> bool {
        match self {
            Viewer::All => true,
            Viewer::Some(sight) => sight.quotas.contains(object),
        }
    }

    /// Whether nodes may be seen.
    pub fn sees_nodes(&self) -> bool {
        match self {
            Viewer::All => true,
            Viewer::Some(sight) => sight.nodes,
        }
    }

    /// A pod that is named as `namespace/name`, or that it is hidden.
    pub fn pod_name(&self, pod: &str) -> String {
        let namespace = pod.split('/').next().unwrap_or_default();
        if self.sees_namespace(namespace) { pod.to_string() } else { HIDDEN.to_string() }
    }

    /// The view without what may not be seen.
    pub fn of(&self, view: &Arc<View>) -> Arc<View> {
        let Viewer::Some(sight) = self else { return view.clone() };
        let pods = view.pods.iter().filter(|pod| sight.namespaces.contains(&pod.namespace));
        let pods: Vec<PodRow> = pods.map(|pod| self.pod(pod)).collect();
        let quotas = view.quotas.iter().filter(|quota| sight.quotas.contains(&quota.object));
        let quotas: Vec<QuotaRow> = quotas.map(|quota| self.quota(quota, &pods)).collect();
        let nodes = match sight.nodes {
            true => view.nodes.iter().map(|node| node_of(node, &pods)).collect(),
            false => Vec::new(),
        };
        Arc::new(View { at_ms: view.at_ms, pods, quotas, nodes, whole: false })
    }

    fn pod(&self, pod: &PodRow) -> PodRow {
        let mut pod = pod.clone();
        pod.quotas.retain(|quota| self.sees_quota(quota));
        if !self.sees_nodes() {
            pod.node = None;
        }
        pod.why = pod.why.map(|why| self.why(&why).into());
        pod
    }

    /// The reason in words that name nobody else.
    fn why(&self, why: &Why) -> Why {
        // A path names the quotas above too: it is shown where the last of them, and all above, may be seen.
        let quota = why.quota.clone().filter(|quota| self.sees_quota(quota));
        let numbers = quota.is_some();
        let keep = |number: Option<i64>| number.filter(|_| numbers);
        Why {
            code: why.code,
            message: plain_words(why.code).to_string(),
            quota,
            resource: why.resource.clone(),
            used: keep(why.used),
            requested: why.requested,
            limit: keep(why.limit),
            remedies: Vec::new(),
        }
    }

    fn quota(&self, quota: &QuotaRow, pods: &[PodRow]) -> QuotaRow {
        let mut quota = quota.clone();
        quota.parent = quota.parent.filter(|parent| self.sees_quota(parent));
        let waits = |pod: &&PodRow| pod.phase == Phase::Pending && pod.quotas.contains(&quota.object);
        quota.waiting = pods.iter().filter(waits).count() as u32;
        quota
    }
}

/// A node on which only the pods that may be seen hold anything.
fn node_of(node: &NodeRow, pods: &[PodRow]) -> NodeRow {
    let mut used: Vec<(Name, i64)> = Vec::new();
    let holds = |pod: &&PodRow| {
        pod.node.as_ref() == Some(&node.name) && matches!(pod.phase, Phase::Running | Phase::Terminating)
    };
    for (resource, amount) in pods.iter().filter(holds).flat_map(|pod| &pod.requests) {
        match used.iter_mut().find(|(name, _)| name == resource) {
            Some((_, sum)) => *sum += amount,
            None => used.push((resource.clone(), *amount)),
        }
    }
    used.sort();
    NodeRow { used, cap_used: Vec::new(), ..node.clone() }
}

/// What a code means, without names.
pub fn plain_words(code: &str) -> &'static str {
    match code {
        "InvalidRequest" => "an annotation or quantity of the pod cannot be read",
        "SchedulingGated" => "scheduling gates are set",
        "AwaitingVictims" => "evicted pods are terminating",
        "QueueClosed" => "the queue is closed",
        "QueueNotFound" => "the queue does not exist",
        "QueueNotLeaf" => "the queue has queues below it",
        "QuotaNotFound" => "the quota does not exist",
        "QuotaNotAllowed" => "the namespace may not use the quota",
        "QuotaMaxExceeded" => "the quota's maximum would be exceeded",
        "PoolExhausted" => "the quotas' shared guarantee is used up",
        "RuntimeExceeded" => "the quota's runtime share would be exceeded",
        "NonPreemptibleMinExceeded" => "non-preemptible pods would exceed the quota's guarantee",
        "CardQuotaExceeded" => "no acceptable card has quota left",
        "GangIncomplete" => "fewer pods of the gang fit than its minimum",
        "CardUnavailable" => "no node with an acceptable card has room",
        "NodeCapExceeded" => "caps for pods without GPUs are full on GPU nodes",
        "NoFittingNode" => "no node fits",
        "ClaimNotReady" => "a device claim is not ready",
        _ => "the pod cannot be scheduled now",
    }
}
