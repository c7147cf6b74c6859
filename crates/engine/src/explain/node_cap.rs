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
        let each = |show: &dyn Fn(ResourceId) -> String| {
            missing.iter().map(|(resource, _)| show(*resource)).collect::<Vec<_>>().join(" and ")
        };
        let exceeded = each(&|r| format!("{} quota exceeded", self.names.name(r)));
        let held = each(&|r| {
            let name = self.names.name(r);
            let limit = node.cap.limits().unwrap_or_default().iter().find(|(capped, _)| *capped == r);
            let limit = limit.map_or(0, |(_, limit)| i128::from(*limit));
            format!("{} of {} {name}", canonical(name, node.cap.used(r)), canonical(name, limit))
        });
        let asked: Vec<(ResourceId, i128)> =
            missing.iter().map(|(resource, _)| (*resource, i128::from(demand.get(*resource)))).collect();
        let (asked, short) = (self.amounts(&asked), self.amounts(missing));
        format!(
            "{exceeded} on {}: pods without GPUs hold {held}, and the pod asks for {asked}, {short} too much",
            node.name
        )
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
        let raise = format!("raise the cap on pods without GPUs on {name} by {missing}");
        let help = if node_cap::is_large_enough(&node.cap, demand) {
            format!("wait until pods without GPUs free {missing} on {name}, or {raise}")
        } else {
            format!("{raise}, or ask for less")
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
