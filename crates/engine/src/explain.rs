//! Why a pod waits, in words and numbers.

mod devices;
mod named;
mod node_cap;
mod verdicts;

use crate::fact::{Created, Name, PodKey, RequestProblem};
use crate::filter::{Filter, node_cap as cap_filter, resources_fit};
use crate::ledger::amount_of;
use crate::nodes::NodeId;
use crate::place::{ClosedCounts, Question};
use crate::pods::{Pod, PodId};
use crate::policy::{QuotaId, Refusal};
use crate::preempt::rights::Going;
use crate::preempt::{EntitledAfter, Plan};
use crate::quantity::canonical;
use crate::reason::eviction::{AmountUse, EvictionCause, EvictionReason, Preemption, QuotaUse};
use crate::reason::{Code, Numbers, Reason};
use crate::resources::{Demand, ResourceId};
use crate::score::FULL;
use crate::world::World;

pub use verdicts::NodeVerdict;

pub(crate) fn plain(code: Code, message: String, remedies: Vec<String>) -> Reason {
    Reason { code, message, quota: None, numbers: None, closed: Vec::new(), remedies, details: Vec::new() }
}

/// The pod's request cannot be read.
pub(crate) fn invalid(problem: &RequestProblem) -> Reason {
    let message = format!("{}: {}", problem.field, problem.message);
    plain(Code::InvalidRequest, message, vec![format!("fix {} and recreate the pod", problem.field)])
}

/// The pod has gates.
pub(crate) fn gated(gates: &[Name]) -> Reason {
    let names: Vec<&str> = gates.iter().map(|gate| &**gate).collect();
    let list = names.join(", ");
    let message = format!("scheduling gates are set: {list}");
    plain(Code::SchedulingGated, message, vec![format!("remove the scheduling gates {list}")])
}

/// The reason that counts, with the others as its details.
pub(crate) fn first_of(mut reasons: Vec<Reason>) -> Reason {
    reasons.sort_by_key(|reason| reason.code);
    let mut first = reasons.remove(0);
    first.details = reasons;
    first
}

/// Victims are leaving for a pod of this namespace. Its owners are told how many pods of others do, and not which.
pub(crate) fn awaiting(victims: &[(PodKey, Option<Created>)], node: &Name, namespace: &Name) -> Reason {
    const SHOWN_MAX: usize = 5;
    let own: Vec<&PodKey> = victims.iter().map(|(key, _)| key).filter(|key| key.namespace == *namespace).collect();
    let mut names: Vec<String> = own.iter().take(SHOWN_MAX).map(ToString::to_string).collect();
    if own.len() > SHOWN_MAX {
        names.push(format!("{} more", own.len() - SHOWN_MAX));
    }
    if own.len() < victims.len() {
        names.push(format!("{} of other namespaces", victims.len() - own.len()));
    }
    let since = victims.iter().filter_map(|(_, since)| *since).min();
    let since = since.map_or(String::new(), |since| format!(" (since {})", Shown(since)));
    let (pods, are) = if victims.len() == 1 { ("pod is", "it is") } else { ("pods are", "they are") };
    let message = format!("{} {pods} terminating to free {node}: {}{since}", victims.len(), names.join(", "));
    plain(Code::AwaitingVictims, message, vec![format!("wait until {are} gone")])
}

/// A creation time as people write it, to the second.
struct Shown(Created);

impl std::fmt::Display for Shown {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let seconds = self.0.0.div_euclid(1_000_000);
        let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
        // Days since 1970 to a date, by counting from March of year 0 in eras of 400 years.
        let shifted = days + 719_468;
        let era = shifted.div_euclid(146_097);
        let day_of_era = shifted.rem_euclid(146_097);
        let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month_from_march = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
        let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
        let year = year_of_era + era * 400 + i64::from(month <= 2);
        let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
    }
}

/// The node that comes nearest among those with too little free, and what is missing there.
struct Nearest {
    node: NodeId,
    missing: Vec<(ResourceId, i128)>,
    /// Whether the node would do if it were empty.
    large_enough: bool,
}

/// What rules the pod is not there, or takes no pods.
pub(crate) fn membership_error(code: Code, message: String) -> Reason {
    let remedy = match code {
        Code::QueueClosed => "open the queue, or use another one",
        Code::QueueNotFound => "create the queue, or name an existing one",
        Code::QueueNotLeaf => "name a leaf queue",
        Code::QuotaNotAllowed => "ask the quota's owner to list the namespace, or use another quota",
        _ => "create the quota, or name an existing one",
    };
    plain(code, message, vec![remedy.to_owned()])
}

impl World {
    /// How much of what is asked for is missing on a node, in parts of what the node has.
    pub fn lack(&self, node: NodeId, missing: &[(ResourceId, i128)]) -> i128 {
        let part = |(resource, amount): &(ResourceId, i128)| {
            let allocatable = i128::from(self.nodes.allocatable(*resource, node));
            if allocatable <= 0 { i128::from(u64::MAX) } else { amount * i128::from(FULL) / allocatable }
        };
        missing.iter().map(part).sum()
    }

    /// A quota refuses the pod.
    pub fn refused(&self, refusal: &Refusal) -> Reason {
        let Refusal { code, quota, numbers, .. } = refusal;
        let path = self.quotas.quota_path(*quota);
        let key = path.to_string();
        let quota = self.quotas.get(*quota);
        let Numbers { resource, used, requested, limit } = numbers;
        let show = |amount: i128| canonical(resource, amount);
        let short = show(numbers.short_by());
        let needed = format!("{} {resource}", show(numbers.limit + numbers.short_by()));
        let sum = |limit_of: &str| {
            let (used, requested, limit) = (show(*used), show(*requested), show(*limit));
            format!("{used} used + {requested} requested > {limit} {limit_of} ({short} over)")
        };
        let wait = format!("wait until pods of {key} free {short} {resource}");
        let (message, remedies) = match code {
            Code::PoolExhausted => {
                let group = &self.quotas.pool(quota.pool).group;
                let wait = format!("wait until pods of this pool free {short} {resource}");
                let raise = format!("raise the mins of the pool to {needed} in total, if the nodes have as much");
                (format!("{resource} of pool {group} exhausted: {}", sum("sum of mins")), vec![wait, raise])
            }
            Code::RuntimeExceeded => {
                let wait = format!("{wait}, or other quotas of the tree request less");
                let raise = format!("raise the min of {key} to {needed}, and its max if it is lower");
                (format!("{resource} runtime quota of {key} exceeded: {}", sum("runtime")), vec![wait, raise])
            }
            Code::NonPreemptibleMinExceeded => {
                let allow = "let the pod be preempted: then it may borrow".to_owned();
                let raise = format!("raise the min of {key} to {needed}");
                let message = format!("{resource} min of {key} exceeded by non-preemptible pods: {}", sum("min"));
                (message, vec![allow, raise])
            }
            Code::CardQuotaExceeded => {
                let raise = format!("raise the card quota of {key} to {needed}");
                let message = format!("{resource} card quota of {key} exceeded: {}", sum("limit"));
                (message, vec![format!("{wait}, or accept another card"), raise])
            }
            _ => {
                let raise = format!("raise the limit of {key} to {needed}");
                (format!("{resource} limit of {key} exceeded: {}", sum("limit")), vec![wait, raise])
            }
        };
        let mut reason = plain(*code, message, remedies);
        reason.quota = Some(path);
        reason.numbers = Some(numbers.clone());
        reason
    }

    /// One within a guarantee waits for nothing but another guarantee; which, is said.
    pub fn say_who_stops(&self, reason: &mut Reason) {
        if let Some(quota) = self.stopped_by {
            let quota = self.quotas.shown(quota);
            reason.message +=
                &format!("; who could go for it is guaranteed as much by {quota}, and would take it back");
        }
    }

    /// Why a pod is evicted: for whom, by what right, and what the quotas use before and after.
    pub fn evicted(
        &self,
        with: &Going,
        claimant: PodId,
        victim: PodId,
        plan: &Plan,
        after: &EntitledAfter,
    ) -> EvictionReason {
        let (gets, goes) = (self.pods.get(claimant), self.pods.get(victim));
        let node = plan.places.iter().find(|(pod, _)| *pod == claimant).map_or(plan.places[0].1, |(_, node)| *node);
        let uses = |pod: &Pod| {
            let binding = pod.quotas.iter().filter(|quota| !self.quotas.is_plain(**quota));
            binding.map(|quota| self.quota_use(*quota, plan, after)).collect()
        };
        let preemption = Preemption {
            claimant: gets.key(),
            claimant_priority: gets.priority,
            node: self.nodes.get(node).name.clone(),
            victim_priority: goes.priority,
            whole_gang: with.is_whole_gang,
            claimant_quotas: uses(gets),
            victim_quotas: uses(goes),
            pods_at_least: plan.at_least.map(|least| least.count),
        };
        EvictionReason { rule: with.right.rule, cause: EvictionCause::Preempted(preemption) }
    }

    /// What a quota uses of what a claimant requests, before and after a plan is carried out.
    fn quota_use(&self, id: QuotaId, plan: &Plan, after: &EntitledAfter) -> QuotaUse {
        let quota = self.quotas.get(id);
        let is_claimants = self.pods.get(plan.rights.claimant).quotas.contains(&id);
        let amounts = plan.rights.charge.iter().filter_map(|(resource, requested)| {
            let entitlement = self.quotas.entitlement(id, *resource)?;
            let used_before = quota.ledger.to_be_used(*resource);
            let going = plan.going.iter().filter(|goes| goes.quotas.contains(&id));
            let gone: i128 = going.map(|goes| amount_of(&goes.charge, *resource).unwrap_or(0)).sum();
            let comes = if is_claimants { i128::from(*requested) } else { 0 };
            let used_after = used_before - gone + comes;
            let entitled_after = after.get(&(id, *resource)).copied().unwrap_or(entitlement);
            let resource = self.names.name(*resource).clone();
            Some(AmountUse { resource, used_before, used_after, entitled_before: entitlement, entitled_after })
        });
        QuotaUse { quota: self.quotas.quota_path(id), amounts: amounts.collect() }
    }

    /// No node takes the pod.
    pub fn no_fitting_node(&self, pod: &Pod, question: &Question, closed: &ClosedCounts, leaving: bool) -> Reason {
        let total = self.nodes.present_count();
        if total == 0 {
            let remedies = vec!["add a node".to_owned()];
            return plain(Code::NoFittingNode, "the cluster has no nodes".to_owned(), remedies);
        }
        if let Some(reason) = self.device_reason(question) {
            return reason;
        }
        let counts: Vec<(Filter, u32)> =
            Filter::ALL.into_iter().map(|f| (f, closed[f as usize])).filter(|(_, n)| *n > 0).collect();
        let wants_nearest = closed[Filter::NodeResourcesFit as usize] > 0 && !self.brief;
        let nearest = if wants_nearest { self.nearest(question) } else { None };
        let capped = if closed[Filter::NodeCap as usize] > 0 { self.closed_by_caps(question) } else { Vec::new() };
        let cap_decides = capped.first().is_some_and(|nearest| nearest.alone);
        let demand = &self.shapes.get(pod.shape).demand;
        let mut parts: Vec<String> = Vec::new();
        for (filter, nodes) in &counts {
            let mut part = match &nearest {
                Some(nearest) if *filter == Filter::NodeResourcesFit => {
                    format!("{nodes} {}", self.shortage(nearest))
                }
                _ => format!("{nodes} {}", filter.sentence()),
            };
            if let Some(minded) = self.minded(question, *filter) {
                part += &format!(" ({minded})");
            }
            if *filter == Filter::NodeCap
                && let Some(nearest) = capped.first().filter(|_| !cap_decides)
            {
                part += &format!(" ({})", self.cap_sentence(nearest, demand));
            }
            parts.push(part);
        }
        let mut message = format!("0/{total} nodes fit: {}", parts.join(", "));
        if closed[Filter::Devices as usize] > 0 {
            let lacking = self.lacking_devices(question);
            lacking.iter().for_each(|request| message += &format!("; {request}"));
        }
        if leaving {
            message += "; terminating pods will free enough";
        }
        let numbers = nearest.as_ref().map(|nearest| {
            let (resource, _) = nearest.missing[0];
            Numbers {
                resource: self.names.name(resource).clone(),
                used: self.nodes.held(resource, nearest.node) + self.nodes.reserved(resource, nearest.node),
                requested: i128::from(demand.get(resource)),
                limit: i128::from(self.nodes.allocatable(resource, nearest.node)),
            }
        });
        let mut remedies = Vec::new();
        // Where caps close nodes, these may well be large enough.
        if let Some(nearest) = nearest.as_ref().filter(|nearest| nearest.large_enough || capped.is_empty()) {
            remedies.push(self.make_room(nearest));
        }
        let filters = counts.iter().map(|(filter, _)| *filter).filter(|f| !(cap_decides && *f == Filter::NodeCap));
        remedies.extend(filters.filter_map(remedy).map(str::to_owned));
        let names_cards = !self.shapes.get(question.shape).spec().cards.is_empty();
        let code = if names_cards { Code::CardUnavailable } else { Code::NoFittingNode };
        let mut reason = plain(code, message, remedies);
        reason.numbers = numbers;
        reason.closed = counts;
        if cap_decides { self.cap_exceeded(&capped, demand, reason) } else { reason }
    }

    /// Whether a node is too small for a demand, and how much is missing there in parts of what it has; `None` if
    /// nothing.
    fn lack_of(&self, node: NodeId, demand: &Demand) -> Option<(bool, i128)> {
        let (mut short, mut too_small, mut lack) = (false, false, 0i128);
        for (resource, amount) in &demand.amounts {
            let free = self.nodes.free(*resource, node);
            if free >= *amount {
                continue;
            }
            short = true;
            too_small |= self.nodes.allocatable(*resource, node) < *amount;
            lack += self.lack(node, &[(*resource, i128::from(*amount) - i128::from(free))]);
        }
        short.then_some((too_small, lack))
    }

    fn nearest(&self, question: &Question) -> Option<Nearest> {
        let demand = &self.shapes.get(question.shape).demand;
        let mut nearest: Option<(bool, i128, u64, NodeId)> = None;
        for i in 0..self.nodes.limit() {
            let node = NodeId(i as u32);
            if !self.nodes.is_present(node) || self.node_rules.get(question.rule).closed_by(node).is_some() {
                continue;
            }
            let Some((too_small, lack)) = self.lack_of(node, demand) else { continue };
            let key = (too_small, lack, self.nodes.rank(node), node);
            if nearest.is_none_or(|least| key < least) {
                nearest = Some(key);
            }
        }
        let (too_small, _, _, node) = nearest?;
        let missing = resources_fit::missing(&self.nodes, node, demand);
        Some(Nearest { node, missing, large_enough: !too_small })
    }

    /// Whether the node's allocatable covers the request.
    pub fn is_large_enough(&self, question: &Question, node: NodeId) -> bool {
        let demand = &self.shapes.get(question.shape).demand;
        demand.amounts.iter().all(|(resource, amount)| self.nodes.allocatable(*resource, node) >= *amount)
    }

    /// Whether the node would take a pod of this size if nothing were on it: its allocatable covers the request, and
    /// so does its cap.
    pub fn would_do_empty(&self, question: &Question, node: NodeId) -> bool {
        let demand = &self.shapes.get(question.shape).demand;
        self.is_large_enough(question, node) && cap_filter::is_large_enough(&self.nodes.get(node).cap, demand)
    }

    fn amounts(&self, amounts: &[(ResourceId, i128)]) -> String {
        let show = |(resource, amount): &(ResourceId, i128)| {
            let name = self.names.name(*resource);
            format!("{} {name}", canonical(name, *amount))
        };
        amounts.iter().map(show).collect::<Vec<_>>().join(" and ")
    }

    /// What nodes lack, and how much of it the closest one does.
    fn shortage(&self, nearest: &Nearest) -> String {
        let names: Vec<&str> = nearest.missing.iter().map(|(resource, _)| &**self.names.name(*resource)).collect();
        let short = match &nearest.missing[..] {
            [(resource, amount)] => canonical(self.names.name(*resource), *amount),
            several => self.amounts(several),
        };
        format!("insufficient {} (closest: {}, {short} short)", names.join(" and "), self.nodes.get(nearest.node).name)
    }

    fn make_room(&self, nearest: &Nearest) -> String {
        let (node, missing) = (&self.nodes.get(nearest.node).name, self.amounts(&nearest.missing));
        if nearest.large_enough {
            format!("free {missing} on {node}, or add a node")
        } else {
            "request less, or add a larger node: no node is large enough even when empty".to_owned()
        }
    }
}

fn remedy(filter: Filter) -> Option<&'static str> {
    match filter {
        Filter::NodeUnschedulable => Some("uncordon a node"),
        Filter::TaintToleration => Some("tolerate the taint, or remove it from a node"),
        Filter::NodeAffinity => Some("relax the pod's node selector or affinity, or label a node to match"),
        Filter::NodeDeclaredFeatures => Some("add nodes that declare the feature, or do without it"),
        Filter::Cards => Some("accept another card, or add nodes with an accepted one"),
        Filter::NodePorts => Some("use another host port, or none"),
        Filter::NodeResourcesFit => None,
        Filter::NodeCap => Some("raise the node cap, or add a node without GPUs"),
        Filter::VolumeRestrictions => Some("wait until the pod that uses the volume is gone"),
        Filter::NodeVolumeLimits => Some("use fewer volumes, or add a node"),
        Filter::VolumeBinding => {
            Some("check that the pod's volume claims exist and can be bound on a node that it may use")
        }
        Filter::VolumeZone => Some("allow the pod to run in the zone of its volume"),
        Filter::PodTopologySpread => Some("allow a larger skew, or free resources in the emptiest domain"),
        Filter::InterPodAffinity => Some("relax the affinity rules between pods, or add a node"),
        Filter::Devices => Some("wait until devices are free, add some, or ask for others"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        let shown = |seconds: i64| Shown(Created(seconds * 1_000_000)).to_string();
        assert_eq!(shown(0), "1970-01-01T00:00:00Z");
        assert_eq!(shown(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(shown(1_794_716_103), "2026-11-15T04:15:03Z");
        assert_eq!(shown(-1), "1969-12-31T23:59:59Z");
    }
}
