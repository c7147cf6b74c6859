//! Which nodes take a pod, and which filter closes the others.

use std::collections::{BTreeMap, BTreeSet};

use quotient_engine::fact::{Effect, HostPort, NodeFact, PODS, PodFact, Taint};
use quotient_engine::{Code, Filter};

use super::world::{View, World};
use super::{affinity, labels, node_cap, spread, volumes};

/// Whether a filter closes a node to the pod of the view.
type Closes = fn(&View<'_>, &NodeFact) -> bool;

/// The first filter that closes the node to the pod of the view, if one does.
pub fn closed_by(view: &View<'_>, node: &NodeFact) -> Option<Filter> {
    closing(view, node).next()
}

/// All filters that close the node, in order.
pub fn closing(view: &View<'_>, node: &NodeFact) -> impl Iterator<Item = Filter> {
    let filters: [(Filter, Closes); 13] = [
        (Filter::NodeUnschedulable, unschedulable),
        (Filter::TaintToleration, |view, node| labels::repelled(&view.pod.spec, node)),
        (Filter::NodeAffinity, |view, node| !labels::node_matches(&view.pod.spec, node)),
        (Filter::NodeDeclaredFeatures, |view, node| {
            !view.pod.spec.features.iter().all(|feature| node.features.contains(feature))
        }),
        (Filter::NodePorts, ports_taken),
        (Filter::NodeResourcesFit, too_full),
        (Filter::NodeCap, node_cap::exceeded),
        (Filter::VolumeRestrictions, volumes::in_use),
        (Filter::NodeVolumeLimits, volumes::too_many),
        (Filter::VolumeBinding, |view, node| volumes::bindings(view.world, view.pod, node).is_none()),
        (Filter::VolumeZone, volumes::wrong_zone),
        (Filter::PodTopologySpread, spread::violated),
        (Filter::InterPodAffinity, affinity::violated),
    ];
    filters.into_iter().filter(|(_, closes)| closes(view, node)).map(|(filter, _)| filter)
}

/// Whether the node that a pod claims takes it. For one for whom pods went an amount must be free now, and when all
/// have come and gone: each on its own.
pub fn takes_claimant(world: &World, pod: &PodFact, node: &NodeFact, has_victims: bool) -> bool {
    let none = BTreeSet::new();
    let view = world.view(pod, &none);
    if !has_victims {
        return closed_by(&view, node).is_none();
    }
    let is_amount = |filter: &Filter| matches!(filter, Filter::NodeResourcesFit | Filter::NodeCap);
    let now = View { claimants: Vec::new(), ..view.clone() };
    let leaving = world.placed().iter().filter(|p| p.leaving).map(|p| p.pod.key()).collect();
    let then = world.view(pod, &leaving);
    let is_short = |view: &View<'_>| too_full(view, node) || node_cap::exceeded(view, node);
    closing(&view, node).all(|filter| is_amount(&filter)) && !is_short(&now) && !is_short(&then)
}

/// The nodes that take the pod of the view.
pub fn open<'a>(view: &View<'a>) -> Vec<&'a NodeFact> {
    view.world.nodes.values().filter(|node| closed_by(view, node).is_none()).collect()
}

/// Why the pod waits that no node takes: for a cap, where a node would take it without.
pub fn code(world: &World, pod: &PodFact) -> Code {
    let view = world.view(pod, &BTreeSet::new());
    let by_cap_alone = |node: &NodeFact| closing(&view, node).eq([Filter::NodeCap]);
    if world.nodes.values().any(by_cap_alone) { Code::NodeCapExceeded } else { Code::NoFittingNode }
}

/// How many nodes each filter closes to the pod as things are.
pub fn counts(world: &World, pod: &PodFact) -> Vec<(Filter, u32)> {
    let view = world.view(pod, &BTreeSet::new());
    let mut counts: BTreeMap<Filter, u32> = BTreeMap::new();
    for filter in world.nodes.values().filter_map(|node| closed_by(&view, node)) {
        *counts.entry(filter).or_default() += 1;
    }
    counts.into_iter().collect()
}

pub fn unschedulable(view: &View<'_>, node: &NodeFact) -> bool {
    let taint = Taint { key: "node.kubernetes.io/unschedulable".into(), value: "".into(), effect: Effect::NoSchedule };
    node.unschedulable && !labels::tolerated(&view.pod.spec, &taint)
}

fn ports_taken(view: &View<'_>, node: &NodeFact) -> bool {
    let everywhere = |port: &HostPort| &*port.ip == "0.0.0.0";
    let collide = |a: &HostPort, b: &HostPort| {
        a.port == b.port && a.protocol == b.protocol && (a.ip == b.ip || everywhere(a) || everywhere(b))
    };
    let holders = view.placed_on(node).map(|p| p.pod).chain(view.claimants_of(node));
    let taken: Vec<&HostPort> = holders.flat_map(|pod| &pod.spec.ports).collect();
    view.pod.spec.ports.iter().any(|port| taken.iter().any(|other| collide(port, other)))
}

/// What would be held of a resource on the node with the pod there: used + claimed + request.
pub fn held_with(view: &View<'_>, node: &NodeFact, resource: &str) -> i128 {
    let asks = |pod: &PodFact| if resource == PODS { 1 } else { i128::from(pod.spec.requests.get(resource)) };
    let used: i128 = view.placed_on(node).map(|p| asks(p.pod)).sum();
    let claimed: i128 = view.claimants_of(node).map(asks).sum();
    used + claimed + asks(view.pod)
}

/// The resources that must suffice: those the pod asks for, and `pods`.
pub fn asked(pod: &PodFact) -> Vec<&str> {
    let asked = pod.spec.requests.iter().filter(|(_, amount)| *amount > 0).map(|(resource, _)| &**resource);
    asked.filter(|resource| *resource != PODS).chain([PODS]).collect()
}

fn too_full(view: &View<'_>, node: &NodeFact) -> bool {
    asked(view.pod)
        .into_iter()
        .any(|resource| held_with(view, node, resource) > i128::from(node.allocatable.get(resource)))
}
