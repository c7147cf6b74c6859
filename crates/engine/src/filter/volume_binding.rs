//! Every claim of a pod must have, or be able to get, a volume that the node can use.

use crate::decision::ClaimBinding;
use crate::fact::{ClaimFact, Name, VolumeFact};
use crate::nodes::{NodeId, Nodes};
use crate::select::{any_term_matches, selects};
use crate::shape::Shape;
use crate::volumes::{ClaimKey, Decided, Volumes};

pub(crate) fn closes(nodes: &Nodes, node: NodeId, shape: &Shape, volumes: &Volumes) -> bool {
    bindings(nodes, node, shape, volumes).is_none()
}

/// What is to be done about the pod's claims if it runs on the node; `None` if it cannot.
pub(crate) fn bindings(nodes: &Nodes, node: NodeId, shape: &Shape, volumes: &Volumes) -> Option<Vec<ClaimBinding>> {
    let Some(namespace) = shape.namespace() else { return Some(Vec::new()) };
    let mut bindings = Vec::new();
    // With the node that a volume is being made on already.
    let mut unbound: Vec<(&ClaimFact, Option<&Name>)> = Vec::new();
    for name in shape.claims() {
        let key = (namespace.clone(), name.clone());
        let claim = volumes.claim(&key)?;
        let selected = match volumes.decided(&key) {
            // What was decided is decided again: the bind that it was decided with may yet fail.
            Some(Decided::Volume(volume)) => {
                if !usable(volumes.volume(volume)?, nodes, node) {
                    return None;
                }
                bindings.push(ClaimBinding::Volume { claim: name.clone(), volume: volume.clone() });
                continue;
            }
            Some(Decided::Provision(there)) => Some(there),
            None => claim.selected_node.as_ref(),
        };
        if claim.bound {
            if !usable(volumes.volume(claim.volume.as_ref()?)?, nodes, node) {
                return None;
            }
        } else if claim.volume.is_none() && volumes.class(&claim.class).is_some_and(|class| class.waits_for_consumer) {
            unbound.push((claim, selected));
        } else {
            return None; // It will be bound without regard to pods; until then nobody knows where.
        }
    }
    // The smallest claims choose first, so that they do not take what a larger one needs.
    unbound.sort_by(|(a, _), (b, _)| (a.request, &a.name).cmp(&(b.request, &b.name)));
    unbound.dedup_by(|(a, _), (b, _)| a.name == b.name);
    let mut chosen: Vec<Name> = Vec::new();
    for (claim, selected) in unbound {
        let key = (claim.namespace.clone(), claim.name.clone());
        let choice = if selected.is_none() { choose(claim, &key, &chosen, nodes, node, volumes) } else { None };
        if let Some(volume) = choice {
            chosen.push(volume.name.clone());
            bindings.push(ClaimBinding::Volume { claim: claim.name.clone(), volume: volume.name.clone() });
        } else if can_provision(claim, selected, nodes, node, volumes) {
            bindings.push(ClaimBinding::Provision { claim: claim.name.clone() });
        } else {
            return None;
        }
    }
    bindings.sort_by(|a, b| a.claim().cmp(b.claim()));
    bindings.dedup();
    Some(bindings)
}

fn usable(volume: &VolumeFact, nodes: &Nodes, node: NodeId) -> bool {
    let facts = nodes.get(node);
    volume.nodes.as_ref().is_none_or(|terms| any_term_matches(terms, &facts.name, &facts.labels))
}

/// The volume for a claim on a node: the one that is held for it, or else the smallest that fits, by name among equals.
fn choose<'a>(
    claim: &ClaimFact,
    key: &ClaimKey,
    chosen: &[Name],
    nodes: &Nodes,
    node: NodeId,
    volumes: &'a Volumes,
) -> Option<&'a VolumeFact> {
    let held = |volume: &VolumeFact| {
        volume.claim.as_ref().is_some_and(|holder| holder.namespace == key.0 && holder.name == key.1)
    };
    let is_held = volumes.volumes().any(held);
    let fits = |volume: &&VolumeFact| {
        (if is_held { held(volume) } else { volume.available && volume.claim.is_none() })
            && volume.class == claim.class
            && volume.volume_mode == claim.volume_mode
            && volume.capacity >= claim.request
            // Whoever holds a volume for a claim has looked at these.
            && (is_held || claim.access_modes.iter().all(|mode| volume.access_modes.contains(mode)))
            && (is_held || claim.selector.as_ref().is_none_or(|selector| selects(selector, &volume.labels)))
            && !chosen.contains(&volume.name)
            && !volumes.is_taken_from(&volume.name, key)
            && usable(volume, nodes, node)
    };
    let order = |volume: &&VolumeFact| (volume.capacity, volume.name.clone());
    volumes.volumes().filter(fits).min_by_key(order)
}

fn can_provision(claim: &ClaimFact, on: Option<&Name>, nodes: &Nodes, node: NodeId, volumes: &Volumes) -> bool {
    let facts = nodes.get(node);
    on.is_none_or(|selected| *selected == facts.name)
        && volumes.class(&claim.class).is_some_and(|class| {
            class.provisions
                && (class.topologies.is_empty() || any_term_matches(&class.topologies, &facts.name, &facts.labels))
        })
}
