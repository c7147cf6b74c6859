//! The bound on what pods and groups may name that nobody else does.

use std::sync::Arc;

use crate::engine::Engine;
use crate::fact::{Amounts, GroupFact, Name, PodFact, PodSpec, RequestProblem};
use crate::limits::POD_NAMES_MAX;

/// The topology keys of a spec.
fn keys(spec: &PodSpec) -> impl Iterator<Item = &Name> {
    let near = spec.affinity.iter().chain(&spec.anti_affinity);
    let preferred = spec.preferred_affinity.iter().chain(&spec.preferred_anti_affinity).map(|(_, term)| term);
    spec.spread.iter().map(|rule| &rule.topology_key).chain(near.chain(preferred).map(|term| &term.topology_key))
}

/// The resources and cards of a spec.
fn resources(spec: &PodSpec) -> impl Iterator<Item = &Name> {
    let amounts = spec.requests.iter().chain(spec.derived.iter()).map(|(name, _)| name);
    amounts.chain(&spec.cards)
}

fn problem(what: &str, example: &Name) -> RequestProblem {
    let message = format!(
        "{example}: pods name {POD_NAMES_MAX} {what} already that no node and no quota has; expected one that there is"
    );
    RequestProblem { field: "spec".into(), message: message.into() }
}

impl Engine {
    /// Holds a pod that names more than pods may bring, and leaves out of it what nobody else has named.
    pub(super) fn bound_names(&self, fact: &mut PodFact) {
        let (names, topologies) = (&self.world.names, &self.world.topologies);
        let spec = &*fact.spec;
        // Far from the bound nothing is looked up: every pod that is seen passes here.
        let (named, keyed) = (resources(spec).count(), keys(spec).count());
        let has_room = |named: usize, keyed: usize| (names.has_room_for(named), topologies.has_room_for(keyed));
        if has_room(named, keyed) == (true, true) {
            return;
        }
        let is_new = |key: &&Name| topologies.is_new(key, &self.world.nodes);
        let (named, keyed) = (names.count_new(resources(spec)), keys(spec).filter(is_new).count());
        let (fits_names, fits_keys) = has_room(named, keyed);
        let new_name = resources(spec).find(|name| names.find(name).is_none()).filter(|_| !fits_names);
        let new_key = keys(spec).find(is_new).filter(|_| !fits_keys);
        let problem = match (new_name, new_key) {
            (Some(name), _) => problem("resources", name),
            (None, Some(key)) => problem("topology keys", key),
            (None, None) => return,
        };
        let known = |amounts: &Amounts| -> Amounts {
            amounts.iter().filter(|(name, _)| names.find(name).is_some()).cloned().collect()
        };
        let left = PodSpec {
            requests: known(&spec.requests),
            derived: known(&spec.derived),
            assumed: spec.assumed,
            ports: spec.ports.clone(),
            volumes: spec.volumes.clone(),
            ..PodSpec::default()
        };
        fact.spec = Arc::new(left);
        fact.problem.get_or_insert(problem);
    }

    /// The same for a group, which may name cards.
    pub(in crate::engine) fn bound_cards(&self, fact: &mut GroupFact) {
        let names = &self.world.names;
        let cards = || fact.card_request.iter().flat_map(|(kinds, _)| kinds);
        if names.has_room_for(cards().count()) || names.has_room_for(names.count_new(cards())) {
            return;
        }
        if let Some(card) = cards().find(|card| names.find(card).is_none()).cloned() {
            fact.card_request.clear();
            fact.problem.get_or_insert(problem("cards", &card));
        }
    }
}
