//! Topology spread: the filter for required constraints, and counts that the score uses too.

use std::collections::BTreeMap;

use quotient_engine::fact::{Name, NodeFact, PodFact, Requirement, Selector, SpreadConstraint, WhenUnsatisfiable};

use super::affinity::together;
use super::labels;
use super::world::View;

pub const ZONE: &str = "topology.kubernetes.io/zone";
pub const HOSTNAME: &str = "kubernetes.io/hostname";

/// Constraints of one kind, the defaults included where the pod has none at all.
pub fn constraints(view: &View<'_>, when: WhenUnsatisfiable) -> Vec<SpreadConstraint> {
    let own = &view.pod.spec.spread;
    let all = if own.is_empty() { defaults(view) } else { own.clone() };
    all.into_iter().filter(|c| c.when == when).collect()
}

/// What spreads a pod that says nothing of it: the Services that select it and what owns it.
fn defaults(view: &View<'_>) -> Vec<SpreadConstraint> {
    let pod = view.pod;
    let mut requirements: Vec<Requirement> = Vec::new();
    for fact in view.world.selectors.values().filter(|s| s.namespace == pod.namespace) {
        let service = fact.object.starts_with("Service/") && labels::selects(&fact.selector, &pod.labels);
        let owner = !fact.object.starts_with("Service/") && pod.owner.as_ref() == Some(&fact.object);
        if service || owner {
            requirements.extend(fact.selector.requirements.iter().cloned());
        }
    }
    if requirements.is_empty() {
        return Vec::new();
    }
    let constraint = |key: &str, max_skew| SpreadConstraint {
        topology_key: key.into(),
        max_skew,
        when: WhenUnsatisfiable::ScheduleAnyway,
        selector: Some(Selector { requirements: requirements.clone() }),
        min_domains: None,
        honor_affinity: true,
        honor_taints: false,
    };
    vec![constraint(ZONE, 3), constraint(HOSTNAME, 5)]
}

/// Whether the node has the keys of all constraints. Implied constraints need none.
pub fn has_needed_keys(view: &View<'_>, constraints: &[SpreadConstraint], node: &NodeFact) -> bool {
    let implied = view.pod.spec.spread.is_empty();
    implied || constraints.iter().all(|c| node.labels.get(&c.topology_key).is_some())
}

fn eligible(view: &View<'_>, all: &[SpreadConstraint], one: &SpreadConstraint, node: &NodeFact) -> bool {
    has_needed_keys(view, all, node)
        && (!one.honor_affinity || labels::node_matches(&view.pod.spec, node))
        && (!one.honor_taints || !labels::repelled(&view.pod.spec, node))
}

/// Matching pods by domain, for the domains of eligible nodes.
pub fn counts(view: &View<'_>, all: &[SpreadConstraint], one: &SpreadConstraint) -> BTreeMap<Name, u64> {
    let mut counts = BTreeMap::new();
    for node in view.world.nodes.values().filter(|node| eligible(view, all, one, node)) {
        let Some(domain) = node.labels.get(&one.topology_key) else { continue };
        let matching = view.placed_on(node).filter(|p| {
            !p.leaving && p.pod.namespace == view.pod.namespace && labels::selects_some(&one.selector, &p.pod.labels)
        });
        *counts.entry(domain.clone()).or_default() += matching.count() as u64;
    }
    counts
}

/// `PodTopologySpread`: a `DoNotSchedule` constraint fails on the node.
pub fn violated(view: &View<'_>, node: &NodeFact) -> bool {
    fails(view, node, &|_| Some(0))
}

/// Whether a constraint would fail on the node if those who claim nodes of its domain were there.
pub fn crowded(view: &View<'_>, node: &NodeFact) -> bool {
    fails(view, node, &|constraint| Some(claimants_near(view, constraint, node)))
}

/// Whether a claimant's constraint would fail where it is to be if the pod were on the node.
pub fn crowds_out(view: &View<'_>, node: &NodeFact) -> bool {
    view.claimants.iter().any(|(claimant, at)| {
        let Some(at) = view.world.nodes.get(*at) else { return false };
        let others = view.claimants.iter().filter(|(other, _)| other.key() != claimant.key()).copied().collect();
        let theirs = View { pod: claimant, claimants: others, ..view.clone() };
        let with_pod = |constraint: &SpreadConstraint| {
            let counts = counts_pod(constraint, claimant, view.pod) && together(&constraint.topology_key, at, node);
            counts.then(|| claimants_near(&theirs, constraint, at) + 1)
        };
        fails(&theirs, at, &with_pod)
    })
}

/// Whether a constraint of one pod counts another.
fn counts_pod(constraint: &SpreadConstraint, of: &PodFact, other: &PodFact) -> bool {
    of.namespace == other.namespace && labels::selects_some(&constraint.selector, &other.labels)
}

fn claimants_near(view: &View<'_>, constraint: &SpreadConstraint, node: &NodeFact) -> u64 {
    let near = view.claimants.iter().filter(|(pod, at)| {
        let at = view.world.nodes.get(*at);
        at.is_some_and(|at| together(&constraint.topology_key, at, node)) && counts_pod(constraint, view.pod, pod)
    });
    near.count() as u64
}

/// Whether a constraint fails on the node with so many more in its domain; those without a number are not looked at.
fn fails(view: &View<'_>, node: &NodeFact, more: &dyn Fn(&SpreadConstraint) -> Option<u64>) -> bool {
    let all = constraints(view, WhenUnsatisfiable::DoNotSchedule);
    all.iter().any(|constraint| {
        let Some(more) = more(constraint) else { return false };
        let Some(domain) = node.labels.get(&constraint.topology_key) else { return true };
        let mut counts = counts(view, &all, constraint);
        let too_few_domains = constraint.min_domains.is_some_and(|min| counts.len() < min as usize);
        let here = counts.get(domain).copied().unwrap_or(0) + more;
        counts.entry(domain.clone()).and_modify(|count| *count = here);
        let minimum = if too_few_domains { 0 } else { counts.values().copied().min().unwrap_or(0) };
        let own = u64::from(labels::selects_some(&constraint.selector, &view.pod.labels));
        i128::from(here) + i128::from(own) - i128::from(minimum) > i128::from(constraint.max_skew)
    })
}
