//! How a cluster stands: its pods and why they wait, its quotas and nodes.

use std::collections::BTreeMap;
use std::sync::Arc;

use quotient_api::{ObjectKey, elastic};
use quotient_engine::Reason;
use quotient_engine::fact::PodKey;
use quotient_host::objects::controller_of;
use serde_json::Value;

use super::Cluster;
use crate::field;
use crate::quota_names::{self, QuotaNames};
use crate::report::{NodeState, PodPhase, PodReport, QuotaReport, ReasonReport, WaitingGroup};

/// How many objects it takes until the memory that they give back is worth the time of giving it back.
const MANY: usize = 20_000;

impl Cluster {
    /// Why a pod waits, if it does, in a cluster that has settled.
    pub fn reason(&self, pod: &ObjectKey) -> Option<Arc<Reason>> {
        let pod = PodKey { namespace: pod.namespace.clone()?, name: pod.name.clone() };
        match self.reasons.get() {
            Some(all) => all.get(&pod).cloned(),
            None => self.engine().reason_now(&pod),
        }
    }

    /// Why each pod that waits does so, in a cluster that has settled.
    pub fn reasons(&self) -> &BTreeMap<PodKey, Arc<Reason>> {
        self.reasons.get_or_init(|| self.engine().reasons_now())
    }

    /// All pods, by namespace and name; those that were evicted and have nobody to make them anew too.
    pub fn pods(&self) -> Vec<PodReport> {
        let names = QuotaNames::of_keys(self.engine().quota_keys());
        // To look at all at once is less than to look at each.
        self.reasons();
        let store = self.store();
        let here = store.pods().map(|(key, pod)| self.standing(&names, key, pod));
        let lost = self.lost.iter().filter(|key| !store.contains(key));
        let mut pods: Vec<PodReport> = here.chain(lost.map(|key| pod_report(key, PodPhase::Evicted))).collect();
        pods.sort_by(|one, another| (&one.namespace, &one.name).cmp(&(&another.namespace, &another.name)));
        pods
    }

    /// The same when nothing else is asked any more: of many, what a pod takes is given back for what is told of the
    /// next.
    pub fn give_up_pods(&mut self) -> Vec<PodReport> {
        if self.store().len() < MANY {
            return self.pods();
        }
        let names = QuotaNames::of_keys(self.engine().quota_keys());
        self.reasons();
        let keys: Vec<ObjectKey> = self.pod_keys().cloned().collect();
        let tell = |key: &ObjectKey| match self.server.give_up(key) {
            Some(pod) => self.standing(&names, key, &pod),
            None => pod_report(key, PodPhase::Evicted),
        };
        keys.iter().map(tell).collect()
    }

    /// Groups that wait and have no pods yet, by what made them.
    pub fn waiting_groups(&self) -> Vec<WaitingGroup> {
        let waiting = self.engine().groups().into_iter().filter(|group| group.members == 0 && !group.admitted);
        let report = |group: quotient_engine::GroupReport| {
            let key = ObjectKey::of_group(&group.key);
            let maker = self.store().get(&key).and_then(|object| controller_of(object));
            let reason = ReasonReport::from(&*group.reason?);
            Some(WaitingGroup { object: maker.as_ref().unwrap_or(&key).to_string(), group: key.to_string(), reason })
        };
        let mut groups: Vec<WaitingGroup> = waiting.filter_map(report).collect();
        groups.sort_by(|one, another| one.object.cmp(&another.object));
        groups
    }

    /// All pods that wait, by namespace and name.
    pub fn pending_pods(&self) -> Vec<PodReport> {
        let names = QuotaNames::of_keys(self.engine().quota_keys());
        self.reasons();
        let reports = self.store().pods_without_node().filter(|(_, pod)| phase(pod) == PodPhase::Pending);
        reports.map(|(key, pod)| self.standing(&names, key, pod)).collect()
    }

    /// How far a pod has come; `None` where there is none.
    pub fn phase(&self, pod: &ObjectKey) -> Option<PodPhase> {
        self.store().get(pod).map(|pod| phase(pod))
    }

    /// The keys of all pods, by namespace and name; those that were evicted and have nobody to make them anew too.
    pub fn pod_keys(&self) -> impl Iterator<Item = &ObjectKey> {
        let store = self.store();
        let lost = self.lost.iter().filter(|key| !store.contains(key));
        let mut keys: Vec<&ObjectKey> = store.pods().map(|(key, _)| key).chain(lost).collect();
        // Those of the store are in order already.
        keys.sort();
        keys.into_iter()
    }

    /// Whether there is such a pod; one that was evicted and has nobody to make it anew too.
    pub fn has_pod(&self, key: &ObjectKey) -> bool {
        self.store().contains(key) || self.lost.contains(key)
    }

    /// One pod; one that was evicted and has nobody to make it anew too.
    pub fn pod(&self, key: &ObjectKey) -> Option<PodReport> {
        match self.store().get(key) {
            Some(pod) => Some(self.standing(&QuotaNames::of_keys(self.engine().quota_keys()), key, pod)),
            None => self.lost.contains(key).then(|| pod_report(key, PodPhase::Evicted)),
        }
    }

    fn standing(&self, names: &QuotaNames, key: &ObjectKey, pod: &Value) -> PodReport {
        let node = field::text(pod, "/spec/nodeName").map(str::to_string);
        let phase = phase(pod);
        let reason = match phase {
            PodPhase::Pending => self.reason(key).map(|reason| ReasonReport::from(&*reason)),
            _ => None,
        };
        let pod = PodKey { namespace: key.namespace.clone().unwrap_or_default(), name: key.name.clone() };
        let quotas = self.engine().quotas_of(&pod);
        let quotas = quotas.iter().filter_map(elastic::object_key).map(|key| names.shown(&key)).collect();
        let capacity = self.engine().capacity(&pod).map(|(_, capacity)| capacity.name().to_string());
        PodReport { node, reason, quotas, capacity, ..pod_report(key, phase) }
    }

    /// All quotas, by namespace and name.
    pub fn quotas(&self) -> Vec<QuotaReport> {
        self.keyed_quotas().into_iter().map(|(_, report)| report).collect()
    }

    /// All quotas with their keys, by namespace and name.
    pub fn keyed_quotas(&self) -> Vec<(ObjectKey, QuotaReport)> {
        quota_names::keyed_quotas(&self.engine().quotas())
    }

    /// All nodes, by name.
    pub fn nodes(&self) -> Vec<NodeState> {
        let mut nodes: Vec<NodeState> = self.engine().nodes().iter().map(NodeState::from).collect();
        nodes.sort_by(|a, b| a.name.cmp(&b.name));
        nodes
    }
}

fn phase(pod: &Value) -> PodPhase {
    match field::text(pod, "/status/phase") {
        Some("Succeeded") => PodPhase::Succeeded,
        Some("Failed") => PodPhase::Failed,
        _ if field::text(pod, "/spec/nodeName").is_some() => PodPhase::Running,
        _ => PodPhase::Pending,
    }
}

fn pod_report(key: &ObjectKey, phase: PodPhase) -> PodReport {
    PodReport {
        namespace: key.namespace.as_deref().unwrap_or_default().to_string(),
        name: key.name.to_string(),
        phase,
        node: None,
        capacity: None,
        quotas: Vec::new(),
        reason: None,
    }
}
