//! Which caps keep a pod without GPUs out of GPU nodes, in words and numbers.

use crate::explain::plain;
use crate::filter::{Filter, node_cap};
use crate::nodes::NodeId;
use crate::place::Question;
use crate::quantity::canonical;
use crate::reason::{Code, Numbers, Reason};
use crate::resources::{Demand, ResourceId};
use crate::world::World;

/// A node that its cap closes.
pub(super) struct CapClosed {
    node: NodeId,
    /// Nothing but the cap is in the way.
    pub alone: bool,
    missing: Vec<(ResourceId, i128)>,
}

/// The most nodes that are told of in detail, besides the nearest.
const DETAILS_MAX: usize = 7;

impl World {
    /// The nodes that their caps close: first those where nothing else is in the way, then the nearest.
    pub(super) fn closed_by_caps(&self, question: &Question) -> Vec<CapClosed> {
        let demand = &self.shapes.get(question.shape).demand;
        let mut closed: Vec<((bool, bool, i128, u64), CapClosed)> = Vec::new();
        for node in self.nodes.by_name() {
            if self.closed_by(question, node) != Some(Filter::NodeCap) {
                continue;
            }
            let cap = &self.nodes.get(node).cap;
            let missing = node_cap::missing(cap, demand);
            let alone = self.closed_by_cap_alone(question, node);
            let too_small = !node_cap::is_large_enough(cap, demand);
            let key = (!alone, too_small, self.lack(node, &missing), self.nodes.rank(node));
            closed.push((key, CapClosed { node, alone, missing }));
        }
        closed.sort_by_key(|(key, _)| *key);
        closed.into_iter().map(|(_, closed)| closed).collect()
    }

    /// What a cap does, with all numbers; it starts with the words that the plugin has for it.
    pub(super) fn cap_sentence(&self, closed: &CapClosed, demand: &Demand) -> String {
        let CapClosed { node, missing, .. } = closed;
        let node = self.nodes.get(*node);
        let exceeded = missing.iter().map(|(resource, _)| format!("{} quota exceeded", self.names.name(*resource)));
        let exceeded = exceeded.collect::<Vec<_>>().join(" and ");
        let sums = missing.iter().map(|(resource, short)| {
            let show = |amount: i128| canonical(self.names.name(*resource), amount);
            let limit = node.cap.limits().unwrap_or_default().iter().find(|(capped, _)| capped == resource);
            let limit = limit.map_or(0, |(_, limit)| i128::from(*limit));
            let (used, requested) = (show(node.cap.used(*resource)), show(i128::from(demand.get(*resource))));
            let (limit, short, name) = (show(limit), show(*short), self.names.name(*resource));
            format!("{used} {name} used by capped pods + {requested} requested > {limit} node cap ({short} over)")
        });
        format!("{exceeded} on {}: {}", node.name, sums.collect::<Vec<_>>().join("; "))
    }

    fn cap_numbers(&self, closed: &CapClosed, demand: &Demand) -> Option<Numbers> {
        let cap = &self.nodes.get(closed.node).cap;
        let (resource, _) = closed.missing.first()?;
        let (_, limit) = cap.limits()?.iter().find(|(capped, _)| capped == resource)?;
        Some(Numbers {
            resource: self.names.name(*resource).clone(),
            used: cap.used(*resource),
            requested: i128::from(demand.get(*resource)),
            limit: i128::from(*limit),
        })
    }

    /// Makes a reason out of one that no node takes the pod, where a node would but for its cap.
    pub(super) fn cap_exceeded(&self, closed: &[CapClosed], demand: &Demand, no_node: Reason) -> Reason {
        let [nearest, others @ ..] = closed else { return no_node };
        let node = self.nodes.get(nearest.node);
        let (missing, name) = (self.amounts(&nearest.missing), &node.name);
        let raise = format!("raise the node cap of {name} by {missing}");
        let help = if node_cap::is_large_enough(&node.cap, demand) {
            format!("wait until capped pods free {missing} on {name}, or {raise}")
        } else {
            format!("{raise}, or request less")
        };
        let mut remedies = vec![help, "add a node without GPUs".to_owned()];
        remedies.extend(no_node.remedies);
        let detail = |closed: &CapClosed| {
            let mut detail = plain(Code::NodeCapExceeded, self.cap_sentence(closed, demand), Vec::new());
            detail.numbers = self.cap_numbers(closed, demand);
            detail
        };
        let sentence = self.cap_sentence(nearest, demand);
        Reason {
            code: Code::NodeCapExceeded,
            message: if self.nodes.present_count() == 1 {
                sentence
            } else {
                format!("{sentence}; {}", no_node.message)
            },
            numbers: self.cap_numbers(nearest, demand),
            remedies,
            details: others.iter().take_while(|other| other.alone).take(DETAILS_MAX).map(detail).collect(),
            ..no_node
        }
    }
}
