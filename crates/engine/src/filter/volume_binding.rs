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
    let mut unbound: Vec<&ClaimFact> = Vec::new();
    for name in shape.claims() {
        let key = (namespace.clone(), name.clone());
        let claim = volumes.claim(&key)?;
        match volumes.decided(&key) {
            Some(Decided::Provision(there)) if *there != node => return None,
            Some(Decided::Provision(_)) => continue,
            Some(Decided::Volume(volume)) => {
                if !usable(volumes.volume(volume)?, nodes, node) {
                    return None;
                }
                continue;
            }
            None => {}
        }
        if claim.bound {
            if !usable(volumes.volume(claim.volume.as_ref()?)?, nodes, node) {
                return None;
            }
        } else if claim.volume.is_none() && volumes.class(&claim.class).is_some_and(|class| class.waits_for_consumer) {
            unbound.push(claim);
        } else {
            return None; // It will be bound without regard to pods; until then nobody knows where.
        }
    }
    // The smallest claims choose first, so that they do not take what a larger one needs.
    unbound.sort_by(|a, b| (a.request, &a.name).cmp(&(b.request, &b.name)));
    unbound.dedup_by(|a, b| a.name == b.name);
    let mut chosen: Vec<Name> = Vec::new();
    let mut bindings = Vec::new();
    for claim in unbound {
        let key = (claim.namespace.clone(), claim.name.clone());
        let choice =
            if claim.selected_node.is_none() { choose(claim, &key, &chosen, nodes, node, volumes) } else { None };
        if let Some(volume) = choice {
            chosen.push(volume.name.clone());
            bindings.push(ClaimBinding::Volume { claim: claim.name.clone(), volume: volume.name.clone() });
        } else if can_provision(claim, nodes, node, volumes) {
            bindings.push(ClaimBinding::Provision { claim: claim.name.clone() });
        } else {
            return None;
        }
    }
    bindings.sort_by(|a, b| a.claim().cmp(b.claim()));
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
            && claim.access_modes.iter().all(|mode| volume.access_modes.contains(mode))
            && claim.selector.as_ref().is_none_or(|selector| selects(selector, &volume.labels))
            && !chosen.contains(&volume.name)
            && !volumes.is_taken_from(&volume.name, key)
            && usable(volume, nodes, node)
    };
    let order = |volume: &&VolumeFact| (volume.capacity, volume.name.clone());
    volumes.volumes().filter(fits).min_by_key(order)
}

fn can_provision(claim: &ClaimFact, nodes: &Nodes, node: NodeId, volumes: &Volumes) -> bool {
    let facts = nodes.get(node);
    claim.selected_node.as_ref().is_none_or(|selected| *selected == facts.name)
        && volumes.class(&claim.class).is_some_and(|class| {
            class.provisions
                && (class.topologies.is_empty() || any_term_matches(&class.topologies, &facts.name, &facts.labels))
        })
}
