//! What a filter minds, by name: the taints of nodes, the claim of a pod, the features that it needs.

use std::cmp::Reverse;

use crate::fact::{Effect, Name, Taint};
use crate::filter::{Filter, taints};
use crate::nodes::NodeId;
use crate::place::Question;
use crate::world::World;

/// How many taints are named: those of most nodes.
const TAINTS_MAX: usize = 3;

/// How many are counted: where every node has a taint of its own, the first in the order of nodes are.
const COUNTED_MAX: usize = 64;

impl World {
    /// What a filter minds of the nodes that it closes, or of the pod.
    pub(super) fn minded(&self, question: &Question, filter: Filter) -> Option<String> {
        match filter {
            _ if self.brief => None,
            Filter::TaintToleration => self.untolerated(question),
            Filter::NodeDeclaredFeatures => {
                let features: Vec<&str> =
                    self.shapes.get(question.shape).spec().features.iter().map(|f| &**f).collect();
                Some(features.join(", "))
            }
            Filter::VolumeBinding => self.claim_in_the_way(question),
            _ => None,
        }
    }

    /// The taints that the pod does not tolerate, those of most nodes first.
    fn untolerated(&self, question: &Question) -> Option<String> {
        let tolerations = &self.shapes.get(question.shape).spec().tolerations;
        let rule = self.node_rules.get(question.rule);
        let mut counts: Vec<(&Taint, u32)> = Vec::new();
        for node in (0..self.nodes.limit()).map(|i| NodeId(i as u32)) {
            if self.nodes.is_present(node) && rule.closed_by(node) == Some(Filter::TaintToleration) {
                let Some(taint) = taints::untolerated(self.nodes.get(node), tolerations).next() else { continue };
                match counts.iter().position(|(known, _)| *known == taint) {
                    Some(at) => counts[at].1 += 1,
                    None if counts.len() < COUNTED_MAX => counts.push((taint, 1)),
                    None => {}
                }
            }
        }
        let mut named: Vec<(Reverse<u32>, String)> =
            counts.into_iter().map(|(taint, nodes)| (Reverse(nodes), shown(taint))).collect();
        named.sort();
        let more = if named.len() > TAINTS_MAX { ", …" } else { "" };
        let named: Vec<String> = named.into_iter().take(TAINTS_MAX).map(|(_, taint)| taint).collect();
        (!named.is_empty()).then(|| format!("{}{more}", named.join(", ")))
    }

    /// The first claim of the pod that has no volume, or none that these nodes reach.
    fn claim_in_the_way(&self, question: &Question) -> Option<String> {
        let shape = self.shapes.get(question.shape);
        let namespace = shape.namespace()?;
        let why = |name: &Name| {
            let Some(claim) = self.volumes.claim(&(namespace.clone(), name.clone())) else {
                return (0, format!("PVC {name} not found"));
            };
            match (&claim.volume, self.volumes.class(&claim.class)) {
                (Some(volume), _) if self.volumes.volume(volume).is_none() => {
                    (1, format!("PV {volume} of PVC {name} not found"))
                }
                (Some(volume), _) if !claim.bound => (2, format!("PVC {name} is not bound to PV {volume} yet")),
                (Some(volume), _) => (5, format!("PV {volume} of PVC {name} is on other nodes")),
                (None, Some(class)) if class.waits_for_consumer => {
                    (4, format!("PVC {name}: StorageClass {} has no volume there", claim.class))
                }
                (None, _) => (3, format!("PVC {name} is not bound yet")),
            }
        };
        // What keeps the pod from every node is said before what keeps it from some.
        shape.claims().map(why).min().map(|(_, why)| why)
    }
}

/// A taint as `kubectl` writes it.
fn shown(taint: &Taint) -> String {
    let effect = match taint.effect {
        Effect::NoSchedule => "NoSchedule",
        Effect::PreferNoSchedule => "PreferNoSchedule",
        Effect::NoExecute => "NoExecute",
    };
    let value = if taint.value.is_empty() { String::new() } else { format!("={}", taint.value) };
    format!("{}{value}:{effect}", taint.key)
}
