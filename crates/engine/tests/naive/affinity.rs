//! Affinity and anti-affinity between pods.

use quotient_engine::fact::{NodeFact, PodFact, PodTerm};

use super::world::{View, World};
use super::{labels, spread};

/// Whether a term speaks of a pod. A namespace that was not told has no labels.
pub fn term_matches(world: &World, term: &PodTerm, pod: &PodFact) -> bool {
    let by_labels = |selector| {
        let none = Default::default();
        labels::selects(selector, world.namespaces.get(&pod.namespace).unwrap_or(&none))
    };
    let namespace = term.namespaces.contains(&pod.namespace) || term.namespace_selector.as_ref().is_some_and(by_labels);
    namespace && labels::selects_some(&term.selector, &pod.labels)
}

/// Whether two nodes are in one domain of a key.
pub fn together(key: &str, a: &NodeFact, b: &NodeFact) -> bool {
    a.labels.get(key).is_some() && a.labels.get(key) == b.labels.get(key)
}

/// `InterPodAffinity`.
pub fn violated(view: &View<'_>, node: &NodeFact) -> bool {
    lacks_company(view, node)
        || dislikes_company(view, node)
        || is_disliked(view, node)
        || spread::crowded(view, node)
        || spread::crowds_out(view, node)
}

/// The pods that may be disliked, and dislike: those on nodes, and those that claim one, with the node.
fn company<'a>(view: &'a View<'_>) -> impl Iterator<Item = (&'a PodFact, &'a NodeFact)> {
    let claimants = view.claimants.iter().filter_map(|(pod, node)| Some((*pod, view.world.nodes.get(*node)?)));
    view.placed.iter().map(|p| (p.pod, p.node)).chain(claimants)
}

fn lacks_company(view: &View<'_>, node: &NodeFact) -> bool {
    let terms = &view.pod.spec.affinity;
    let matches_all = |pod: &PodFact| terms.iter().all(|term| term_matches(view.world, term, pod));
    if terms.iter().any(|term| node.labels.get(&term.topology_key).is_none()) {
        return true;
    }
    let company: Vec<_> = view.placed.iter().filter(|p| matches_all(p.pod)).collect();
    let met = terms.iter().all(|term| company.iter().any(|p| together(&term.topology_key, p.node, node)));
    let anywhere = company.iter().any(|p| terms.iter().any(|term| p.node.labels.get(&term.topology_key).is_some()));
    let may_be_first = !anywhere && matches_all(view.pod);
    !met && !may_be_first
}

fn dislikes_company(view: &View<'_>, node: &NodeFact) -> bool {
    view.pod.spec.anti_affinity.iter().any(|term| {
        company(view).any(|(pod, at)| together(&term.topology_key, at, node) && term_matches(view.world, term, pod))
    })
}

fn is_disliked(view: &View<'_>, node: &NodeFact) -> bool {
    company(view).any(|(pod, at)| {
        let mut terms = pod.spec.anti_affinity.iter();
        terms.any(|term| together(&term.topology_key, at, node) && term_matches(view.world, term, view.pod))
    })
}
