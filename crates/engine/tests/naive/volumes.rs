//! Volumes: restrictions, attach limits, binding and zones.

use std::collections::{BTreeMap, BTreeSet};

use quotient_engine::ClaimBinding;
use quotient_engine::fact::{ClaimFact, Name, NodeFact, PodFact, PodVolume, VolumeFact};

use super::labels;
use super::world::{Promise, View, World};

const ONE_POD: &str = "ReadWriteOncePod";

/// The claims of a pod: the name of each, and the claim where there is one, as decided binds leave it.
fn claims_of(world: &World, pod: &PodFact) -> Vec<(Name, Option<ClaimFact>)> {
    let names: BTreeSet<&Name> = pod.spec.volumes.iter().filter_map(claim_name).collect();
    names.into_iter().map(|name| (name.clone(), claim(world, &pod.namespace, name))).collect()
}

fn claim_name(volume: &PodVolume) -> Option<&Name> {
    match volume {
        PodVolume::Claim(name) => Some(name),
        PodVolume::Inline { .. } | PodVolume::Disk { .. } => None,
    }
}

/// A claim, as if what was decided about it had already happened.
fn claim(world: &World, namespace: &Name, name: &Name) -> Option<ClaimFact> {
    let key = (namespace.clone(), name.clone());
    let mut claim = world.volume_claims.get(&key)?.clone();
    for promise in world.promises.iter().filter(|p| p.claim == key) {
        match &promise.binding {
            ClaimBinding::Volume { volume, .. } => {
                claim.volume = Some(volume.clone());
                claim.bound = true;
            }
            ClaimBinding::Provision { .. } => claim.selected_node = Some(promise.node.clone()),
        }
    }
    Some(claim)
}

/// `VolumeRestrictions`: a claim for one pod only has its pod, or a disk is mounted there in a way that excludes this
/// one.
pub fn in_use(view: &View<'_>, node: &NodeFact) -> bool {
    let pod = view.pod;
    let exclusive = claims_of(view.world, pod).into_iter().filter(|(_, claim)| {
        claim.as_ref().is_some_and(|claim| claim.access_modes.iter().any(|mode| &**mode == ONE_POD))
    });
    let mut exclusive = exclusive.map(|(name, _)| name);
    let uses = |other: &PodFact, name: &Name| {
        other.namespace == pod.namespace && other.spec.volumes.iter().any(|v| claim_name(v) == Some(name))
    };
    if exclusive.any(|name| view.placed.iter().any(|p| uses(p.pod, &name))) {
        return true;
    }
    let disks = |pod: &PodFact| -> Vec<(Name, bool)> {
        let disks = pod.spec.volumes.iter().filter_map(|v| match v {
            PodVolume::Disk { id, read_only } => Some((id.clone(), *read_only)),
            PodVolume::Claim(_) | PodVolume::Inline { .. } => None,
        });
        disks.collect()
    };
    let there: Vec<(Name, bool)> = view.placed_on(node).flat_map(|p| disks(p.pod)).collect();
    disks(pod).iter().any(|(id, mine)| there.iter().any(|(other, theirs)| id == other && !(*mine && *theirs)))
}

/// What a pod attaches: driver and what tells the volume apart. Inline volumes are each their own.
fn attachments(world: &World, pod: &PodFact) -> BTreeSet<(Name, String)> {
    let mut attached = BTreeSet::new();
    for (index, volume) in pod.spec.volumes.iter().enumerate() {
        match volume {
            PodVolume::Inline { driver } => {
                attached.insert((driver.clone(), format!("inline {} {index}", pod.key())));
            }
            PodVolume::Claim(name) => attached.extend(attachment(world, &pod.namespace, name)),
            PodVolume::Disk { .. } => {}
        }
    }
    attached
}

/// What a claim attaches. One without a volume yet will have one of its class's provisioner.
fn attachment(world: &World, namespace: &Name, name: &Name) -> Option<(Name, String)> {
    let claim = claim(world, namespace, name)?;
    match claim.volume.as_ref().and_then(|volume| world.volumes.get(volume)) {
        Some(volume) => Some((volume.driver.clone()?, format!("handle {}", volume.handle))),
        None => Some((world.classes.get(&claim.class)?.provisioner.clone(), format!("claim {namespace}/{name}"))),
    }
}

/// `NodeVolumeLimits`: the pod attaches a volume that is new there, and its driver has no room for it.
pub fn too_many(view: &View<'_>, node: &NodeFact) -> bool {
    let Some(limits) = view.world.limits.get(&node.name) else { return false };
    let there: BTreeSet<_> = view.placed_on(node).flat_map(|p| attachments(view.world, p.pod)).collect();
    let new: BTreeSet<_> = attachments(view.world, view.pod).difference(&there).cloned().collect();
    limits.limits.iter().any(|(driver, limit)| {
        let count = |set: &BTreeSet<(Name, String)>| set.iter().filter(|(d, _)| d == driver).count();
        count(&new) > 0 && count(&there) + count(&new) > *limit as usize
    })
}

/// `VolumeBinding`: what has to be done about the pod's claims to run it on the node; `None` if it cannot run there.
/// Claims choose in the order of their size, then name; each takes the smallest volume that fits, then the first by
/// name.
pub fn bindings(world: &World, pod: &PodFact, node: &NodeFact) -> Option<Vec<ClaimBinding>> {
    let mut waiting: Vec<ClaimFact> = Vec::new();
    let mut bindings: BTreeMap<Name, ClaimBinding> = BTreeMap::new();
    for (name, claim) in claims_of(world, pod) {
        let claim = claim?;
        // A volume that was decided for another pod's sake is decided again: that bind may yet fail.
        let mut decided = world.promises.iter().filter(|p| p.claim == (pod.namespace.clone(), name.clone()));
        if let Some(Promise { binding: binding @ ClaimBinding::Volume { .. }, .. }) = decided.next() {
            bindings.insert(name, binding.clone());
        }
        match &claim.volume {
            Some(volume) => {
                let volume = world.volumes.get(volume).filter(|_| claim.bound)?;
                if !reaches(volume, node) {
                    return None;
                }
            }
            None => {
                world.classes.get(&claim.class).filter(|class| class.waits_for_consumer)?;
                waiting.push(claim);
            }
        }
    }
    waiting.sort_by_key(|claim| (claim.request, claim.name.clone()));
    let mut taken: BTreeSet<Name> = BTreeSet::new();
    for claim in waiting {
        let found = match &claim.selected_node {
            Some(selected) if *selected != node.name => return None,
            Some(_) => None,
            None => matching_volume(world, &claim, node, &taken),
        };
        let binding = match found {
            Some(volume) => {
                taken.insert(volume.name.clone());
                ClaimBinding::Volume { claim: claim.name.clone(), volume: volume.name.clone() }
            }
            None => {
                let class = world.classes.get(&claim.class)?;
                let allowed =
                    class.topologies.is_empty() || class.topologies.iter().any(|t| labels::term_selects(t, node));
                if !(class.provisions && allowed) {
                    return None;
                }
                ClaimBinding::Provision { claim: claim.name.clone() }
            }
        };
        bindings.insert(claim.name.clone(), binding);
    }
    Some(bindings.into_values().collect())
}

/// Whether a volume can be used from a node.
fn reaches(volume: &VolumeFact, node: &NodeFact) -> bool {
    volume.nodes.as_ref().is_none_or(|terms| terms.iter().any(|t| labels::term_selects(t, node)))
}

fn matching_volume<'a>(
    world: &'a World,
    claim: &ClaimFact,
    node: &NodeFact,
    taken: &BTreeSet<Name>,
) -> Option<&'a VolumeFact> {
    let promised = |volume: &VolumeFact| {
        world.promises.iter().any(|promise| match &promise.binding {
            ClaimBinding::Volume { volume: name, .. } => *name == volume.name,
            ClaimBinding::Provision { .. } => false,
        })
    };
    let large_enough = |volume: &&VolumeFact| {
        volume.capacity >= claim.request && volume.volume_mode == claim.volume_mode && !taken.contains(&volume.name)
    };
    let mine = |volume: &&VolumeFact| {
        volume.claim.as_ref().is_some_and(|key| key.namespace == claim.namespace && key.name == claim.name)
    };
    let free = |volume: &&VolumeFact| {
        volume.claim.is_none()
            && volume.available
            && !promised(volume)
            && claim.selector.as_ref().is_none_or(|s| labels::selects(s, &volume.labels))
            && claim.access_modes.iter().all(|mode| volume.access_modes.contains(mode))
    };
    // Where volumes are held for this very claim, it can have no other.
    let held = world.volumes.values().any(|volume| mine(&volume));
    let fitting = world.volumes.values().filter(|volume| if held { mine(volume) } else { free(volume) });
    let fitting = fitting.filter(large_enough).filter(|volume| volume.class == claim.class && reaches(volume, node));
    fitting.min_by_key(|volume| (volume.capacity, volume.name.clone()))
}

/// The labels that say where a volume is, each with the one that nodes have it under today.
const ZONE_LABELS: [(&str, &str); 4] = [
    ("topology.kubernetes.io/zone", "topology.kubernetes.io/zone"),
    ("topology.kubernetes.io/region", "topology.kubernetes.io/region"),
    ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone"),
    ("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region"),
];

/// `VolumeZone`: a bound volume is in another zone or region. A node that has none of these labels is in all of them.
pub fn wrong_zone(view: &View<'_>, node: &NodeFact) -> bool {
    if ZONE_LABELS.iter().all(|(label, _)| node.labels.get(label).is_none()) {
        return false;
    }
    let claims = claims_of(view.world, view.pod).into_iter().filter_map(|(_, claim)| claim?.volume);
    let mut volumes = claims.filter_map(|name| view.world.volumes.get(&name));
    volumes.any(|volume| {
        ZONE_LABELS.iter().any(|(label, today)| {
            let Some(zones) = volume.labels.get(label) else { return false };
            let here = node.labels.get(label).or_else(|| node.labels.get(today));
            !here.is_some_and(|here| zones.split("__").any(|zone| zone == &**here))
        })
    })
}
