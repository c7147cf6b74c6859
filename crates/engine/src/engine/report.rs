//! What can be asked of the engine.

use crate::decision::Capacity;
use crate::engine::{Engine, NodeReport, QuotaReport};
use crate::fact::{Name, PodKey, QuotaKey};
use crate::nodes::NodeId;
use crate::reason::Reason;
use crate::resources::ResourceId;
use std::sync::Arc;

impl Engine {
    /// Why the pod waits, if it does.
    pub fn reason(&self, pod: &PodKey) -> Option<Arc<Reason>> {
        self.world.pods.get(self.world.pods.find(pod)?).reason.clone()
    }

    /// All quotas, by key.
    pub fn quotas(&self) -> Vec<QuotaReport> {
        let quotas = &self.world.quotas;
        quotas.iter().map(|(id, _)| quotas.report(id, &self.world.names)).collect()
    }

    /// The quotas that a pod answers to, by key.
    pub fn quotas_of(&self, pod: &PodKey) -> Vec<QuotaKey> {
        let Some(id) = self.world.pods.find(pod) else { return Vec::new() };
        let pod = self.world.pods.get(id);
        let mut keys: Vec<QuotaKey> =
            pod.quotas.iter().map(|quota| self.world.quotas.get(*quota).key.clone()).collect();
        keys.sort();
        keys
    }

    /// Whether a running pod is within its quota, and the API group of the quota that says so.
    pub fn capacity(&self, pod: &PodKey) -> Option<(Name, Capacity)> {
        self.world.pods.get(self.world.pods.find(pod)?).marks.first().cloned()
    }

    /// All nodes, by name.
    pub fn nodes(&self) -> Vec<NodeReport> {
        let world = &self.world;
        let mut resources: Vec<ResourceId> = (0..world.names.len()).map(|i| ResourceId(i as u16)).collect();
        resources.sort_by_key(|id| world.names.name(*id).clone());
        let limits = |node: NodeId| world.nodes.get(node).cap.limits().unwrap_or_default().iter();
        let report = |node: NodeId| NodeReport {
            name: world.nodes.get(node).name.clone(),
            allocatable: resources
                .iter()
                .map(|r| (world.names.name(*r).clone(), world.nodes.allocatable(*r, node)))
                .filter(|(_, amount)| *amount != 0)
                .collect(),
            used: resources
                .iter()
                .map(|r| (world.names.name(*r).clone(), world.nodes.held(*r, node)))
                .filter(|(_, amount)| *amount != 0)
                .collect(),
            cap: limits(node).map(|(r, limit)| (world.names.name(*r).clone(), i128::from(*limit))).collect(),
            cap_used: limits(node)
                .map(|(r, _)| (world.names.name(*r).clone(), world.nodes.get(node).cap.held(*r)))
                .filter(|(_, amount)| *amount != 0)
                .collect(),
            cards: Vec::new(),
        };
        world.nodes.by_name().map(report).collect()
    }
}
