//! All that is known of the cluster, in the tables that decisions are made from.

use crate::budgets::Budgets;
use crate::candidates::Kept;
use crate::fact::{Name, PodVolume};
use crate::implied::Implied;
use crate::nodes::{NodeId, Nodes};
use crate::pods::{Place, PodId, Pods};
use crate::quota::Quotas;
use crate::relations::{Around, Effects, Relations};
use crate::resources::ResourceNames;
use crate::score::node_cap::CapWeights;
use crate::shape::{Compiling, ShapeId, Shapes};
use crate::statics::Statics;
use crate::topology::Topologies;
use crate::volumes::Volumes;

#[derive(Debug, Clone, Default)]
pub(crate) struct World {
    pub names: ResourceNames,
    pub nodes: Nodes,
    pub pods: Pods,
    pub shapes: Shapes,
    pub topologies: Topologies,
    pub statics: Statics,
    pub relations: Relations,
    pub volumes: Volumes,
    pub budgets: Budgets,
    pub implied: Implied,
    pub kept: Kept,
    pub quotas: Quotas,
    pub cap_weights: CapWeights,
    /// The nodes that took the last pod that was asked about; kept for its memory alone.
    pub open: Vec<NodeId>,
}

impl World {
    /// The shape of a pod with this spec and labels, for one more user.
    pub fn shape(
        &mut self,
        spec: &std::sync::Arc<crate::fact::PodSpec>,
        namespace: &Name,
        labels: &crate::fact::Labels,
        owner: Option<&Name>,
    ) -> ShapeId {
        let implied = self.implied.selector(namespace, labels, owner);
        let mut tables = Compiling {
            names: &mut self.names,
            nodes: &self.nodes,
            pods: &self.pods,
            topologies: &mut self.topologies,
            relations: &mut self.relations,
        };
        self.shapes.intern(spec, namespace, labels, implied, &mut tables)
    }

    /// Puts a pod onto a node.
    pub fn enter(&mut self, id: PodId, place: Place, effects: &mut Effects) {
        self.pods.enter(id, place);
        let pod = self.pods.get(id);
        let node = pod.node().expect("a pod enters a node");
        let shape = self.shapes.get(pod.shape);
        self.nodes.hold(node, &shape.demand, true);
        self.quotas.charge(id, pod, &shape.charge, true, &self.names);
        if self.nodes.is_present(node) {
            self.bear(id, node, true, effects);
        }
    }

    /// Takes a pod off its node.
    pub fn leave(&mut self, id: PodId, place: Place, effects: &mut Effects) {
        let pod = self.pods.get(id);
        let node = pod.node().expect("a pod leaves a node it is on");
        let shape = self.shapes.get(pod.shape);
        self.nodes.hold(node, &shape.demand, false);
        self.quotas.charge(id, pod, &shape.charge, false, &self.names);
        if self.nodes.is_present(node) {
            self.bear(id, node, false, effects);
        }
        self.pods.leave(id, place);
    }

    /// A pod on a node that is there bears on others beyond the amounts it holds: by its ports and volumes, by being
    /// near, and by its terms.
    fn bear(&mut self, id: PodId, node: NodeId, add: bool, effects: &mut Effects) {
        let pod = self.pods.get(id);
        let shape = self.shapes.get(pod.shape);
        for port in &shape.spec().ports {
            self.nodes.use_port(node, port, add);
        }
        if !shape.spec().volumes.is_empty() {
            self.use_volumes(id, node, add);
        }
        for held in &self.shapes.get(self.pods.get(id).shape).holds {
            self.relations.hold(held, self.topologies.domain(held.topology, node), add);
        }
        let around =
            Around { pods: &self.pods, nodes: &self.nodes, topologies: &self.topologies, statics: &self.statics };
        self.relations.count_pod(id, node, add, &around, effects);
        for touched in effects.touched.drain(..) {
            self.nodes.touch(touched);
        }
    }

    fn use_volumes(&mut self, id: PodId, node: NodeId, add: bool) {
        let pod = self.pods.get(id);
        let shape = self.shapes.get(pod.shape);
        self.volumes.use_claims(id, shape, add);
        for volume in &shape.spec().volumes {
            if let PodVolume::Disk { id, read_only } = volume {
                self.nodes.use_disk(node, id, *read_only, add);
            }
        }
        self.attach(id, node, add);
    }

    fn attach(&mut self, id: PodId, node: NodeId, add: bool) {
        let pod = self.pods.get(id);
        for (driver, handle) in self.volumes.attachments(self.shapes.get(pod.shape), &pod.uid) {
            self.nodes.use_volume(node, &driver, &handle, add);
        }
    }

    /// Changes what is known of claims, volumes or classes. What pods attach follows from that, so the volumes of its
    /// `users`, pods on nodes, are detached before and attached after.
    pub fn change_volumes<T>(&mut self, mut users: Vec<PodId>, change: impl FnOnce(&mut Volumes) -> T) -> T {
        users.sort_unstable();
        users.dedup();
        let places: Vec<(PodId, NodeId)> =
            users.into_iter().filter_map(|id| Some((id, self.pods.get(id).node()?))).collect();
        for (pod, node) in &places {
            self.attach(*pod, *node, false);
        }
        let outcome = change(&mut self.volumes);
        for (pod, node) in places {
            self.attach(pod, node, true);
        }
        outcome
    }

    /// The pods on known nodes that have claims: a storage class may be that of any.
    pub fn users_of_claims(&self) -> Vec<PodId> {
        let uses = |pod: &crate::pods::Pod| {
            let known = pod.node().is_some_and(|node| self.nodes.is_present(node));
            known && self.shapes.get(pod.shape).claims().next().is_some()
        };
        self.pods.placed().filter(|(_, pod)| uses(pod)).map(|(id, _)| id).collect()
    }

    /// Notes that a pod began to run, or no longer does.
    pub fn change_running(&mut self, id: PodId, running: bool) {
        self.pods.get_mut(id).running = running;
        let pod = self.pods.get(id);
        if pod.node().is_some() {
            self.quotas.count_running(pod, &self.shapes.get(pod.shape).charge, running);
        }
    }

    /// Why the pod's quotas refuse it; the first is the one that counts.
    pub fn refusals(&self, id: PodId) -> Vec<crate::quota::Refusal> {
        let pod = self.pods.get(id);
        if pod.quotas.is_empty() {
            return Vec::new();
        }
        self.quotas.refusals(&pod.quotas, &self.shapes.get(pod.shape).charge, &self.names)
    }

    /// Notes that a pod began to leave, or that it stays after all. The pod's own fields change in `set`.
    pub fn change_leaving(&mut self, id: PodId, effects: &mut Effects, set: impl FnOnce(&mut crate::pods::Pod)) {
        let before = self.pods.get(id).is_leaving();
        set(self.pods.get_mut(id));
        self.pods.note_leaving(id);
        let pod = self.pods.get(id);
        let (after, node) = (pod.is_leaving(), pod.node());
        if before != after && node.is_some() {
            self.quotas.count_leaving(pod, &self.shapes.get(pod.shape).charge, after);
        }
        let Some(node) = node.filter(|node| before != after && self.nodes.is_present(*node)) else { return };
        let around =
            Around { pods: &self.pods, nodes: &self.nodes, topologies: &self.topologies, statics: &self.statics };
        self.relations.count_leaving(id, node, after, &around, effects);
        for touched in effects.touched.drain(..) {
            self.nodes.touch(touched);
        }
        self.nodes.touch(node);
    }

    /// Runs a change of a node's kind with its pods' bearing taken off before and put back after, since it depends
    /// on the node's labels.
    pub fn change_node<T>(
        &mut self,
        node: NodeId,
        effects: &mut Effects,
        change: impl FnOnce(&mut Nodes, &mut ResourceNames) -> T,
    ) -> T {
        let pods: Vec<PodId> = self.pods.on_node(node).iter().map(|resident| resident.id).collect();
        if self.nodes.is_present(node) {
            for pod in &pods {
                self.bear(*pod, node, false, effects);
            }
        }
        let outcome = change(&mut self.nodes, &mut self.names);
        self.topologies.node_changed(node, &self.nodes);
        if self.nodes.is_present(node) {
            for pod in &pods {
                self.bear(*pod, node, true, effects);
            }
        }
        outcome
    }
}
