//! What a pod's spec says about where it can go.

use crate::device::{ExtendedRequest, Need};
use crate::fact::{
    Amount, Amounts, CapStrategy, HostPort, Labels, Name, NodeTerm, PodTerm, PodVolume, SpreadConstraint, Toleration,
};

/// Everything in a pod's spec that decides where it can go. Pods of one template have equal ones.
#[derive(Debug, Clone, Eq, Hash, Default)]
#[expect(clippy::derived_hash_with_manual_eq, reason = "the same fields are compared, only faster")]
pub struct PodSpec {
    /// What the pod needs, as Kubernetes counts it. `pods` is not in here.
    pub requests: Amounts,
    /// What the least-allocated score takes the pod to need: (cpu, memory), where each container
    /// that asks for none counts 100m and 200Mi.
    pub assumed: (Amount, Amount),
    pub node_selector: Labels,
    /// Required terms, one of which must match. `None`: no such rule. Empty: nothing matches.
    pub required_nodes: Option<Vec<NodeTerm>>,
    pub preferred_nodes: Vec<(i32, NodeTerm)>,
    pub tolerations: Vec<Toleration>,
    pub spread: Vec<SpreadConstraint>,
    pub affinity: Vec<PodTerm>,
    pub anti_affinity: Vec<PodTerm>,
    pub preferred_affinity: Vec<(i32, PodTerm)>,
    pub preferred_anti_affinity: Vec<(i32, PodTerm)>,
    pub ports: Vec<HostPort>,
    pub volumes: Vec<PodVolume>,
    /// Normalised names of the containers' images, init containers too; one entry a container.
    pub images: Vec<Name>,
    /// What quotas charge beyond the requests: GPU memory that follows from the kind of GPU asked for.
    pub derived: Amounts,
    /// The pod has no GPU, and is subject to the caps of GPU nodes; how it is placed among them.
    pub capped: Option<CapStrategy>,
    /// The kinds of card that will do, the preferred first. Empty: any.
    pub cards: Vec<Name>,
    /// None of `cards` is preferred, and a node whose cards have no name will do too.
    pub any_card: bool,
    /// The extended resources that its containers ask for, one by one: a class may serve them with devices.
    pub extended: Vec<ExtendedRequest>,
    /// The features that a node must declare.
    pub features: Vec<Name>,
    /// What its claims need. The engine fills this in from the claims themselves.
    pub needs: Vec<Need>,
    /// Of `extended` those that a class serves, with the class. The engine fills this in.
    pub served: Vec<(ExtendedRequest, Name)>,
}

/// Every pod is compared with others like it, and most of the lists of most pods are empty.
impl PartialEq for PodSpec {
    fn eq(&self, other: &PodSpec) -> bool {
        // All of them by name: one that is added is not forgotten here.
        let PodSpec {
            requests,
            assumed,
            node_selector,
            required_nodes,
            preferred_nodes,
            tolerations,
            spread,
            affinity,
            anti_affinity,
            preferred_affinity,
            preferred_anti_affinity,
            ports,
            volumes,
            images,
            derived,
            capped,
            cards,
            any_card,
            extended,
            features,
            needs,
            served,
        } = other;
        self.requests == *requests
            && self.assumed == *assumed
            && self.node_selector == *node_selector
            && self.required_nodes == *required_nodes
            && same(&self.preferred_nodes, preferred_nodes)
            && same(&self.tolerations, tolerations)
            && same(&self.spread, spread)
            && same(&self.affinity, affinity)
            && same(&self.anti_affinity, anti_affinity)
            && same(&self.preferred_affinity, preferred_affinity)
            && same(&self.preferred_anti_affinity, preferred_anti_affinity)
            && same(&self.ports, ports)
            && same(&self.volumes, volumes)
            && same(&self.images, images)
            && self.derived == *derived
            && self.capped == *capped
            && same(&self.cards, cards)
            && self.any_card == *any_card
            && same(&self.extended, extended)
            && same(&self.features, features)
            && same(&self.needs, needs)
            && same(&self.served, served)
    }
}

/// Whether two lists are equal; empty ones without a call.
#[inline]
fn same<T: PartialEq>(one: &[T], other: &[T]) -> bool {
    one.len() == other.len() && (one.is_empty() || one == other)
}
