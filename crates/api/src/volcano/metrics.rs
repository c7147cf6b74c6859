//! The figures of queues by card, under the names that dashboards for `capacity-card` ask for.

use std::collections::BTreeMap;

use quotient_engine::fact::{Amount, Name};
use quotient_engine::{NodeReport, QuotaReport};
use serde_json::Value;

use super::{CARD_NAME, QUEUE, SCHEDULING, annotation, cards};
use crate::gpu_memory::GPU_MEMORY;
use crate::intern::Interner;

/// What a queue deserves of a card.
pub const CARD_DESERVED: &str = "volcano_queue_card_deserved";
/// What its pods hold of it.
pub const CARD_ALLOCATED: &str = "volcano_queue_card_allocated";
/// What its pods ask for, those that wait too.
pub const CARD_REQUEST: &str = "volcano_queue_card_request";
/// What it may hold.
pub const CARD_CAPACITY: &str = "volcano_queue_card_capacity";

/// One figure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sample {
    pub metric: &'static str,
    pub queue: Name,
    pub card: Name,
    pub value: i128,
}

/// What a pod that waits asks for: so many cards, each of a kind that will do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    pub queue: Name,
    /// The kinds that will do, the preferred one first.
    pub cards: Vec<Name>,
    pub count: i128,
}

impl Waiting {
    /// What a pod asks for that waits in a queue, if it names cards. `requests` are all its requests.
    pub fn of_pod(pod: &Value, queue: &Name, requests: &[(Name, Amount)]) -> Option<Self> {
        let cards = cards::alternatives(annotation(pod, CARD_NAME)?, &mut Interner::default()).ok()?;
        let devices = requests.iter().filter(|(name, _)| name.contains('/') && !GPU_MEMORY.contains(&&**name));
        Some(Waiting { queue: queue.clone(), cards, count: devices.map(|(_, amount)| i128::from(*amount)).sum() })
    }
}

/// What pods that wait ask for, by queue and card: of the kinds that will do the first that there is. It counts for the
/// queues above too.
fn asked_for(waiting: &[Waiting], queues: &[&QuotaReport], cards: &[&Name]) -> BTreeMap<(Name, Name), i128> {
    let parents: BTreeMap<&Name, Option<&Name>> =
        queues.iter().map(|report| (&report.key.name, report.parent.as_ref().map(|parent| &parent.name))).collect();
    let mut asked: BTreeMap<(Name, Name), i128> = BTreeMap::new();
    for Waiting { queue, cards: alternatives, count } in waiting {
        let Some(card) = alternatives.iter().find(|card| cards.contains(card)) else { continue };
        // Queues that are each above the other were refused; if they got in, this ends all the same.
        let mut above = Some(queue);
        for _ in 0..=queues.len() {
            let Some(queue) = above else { break };
            *asked.entry((queue.clone(), card.clone())).or_default() += count;
            above = parents.get(queue).copied().flatten();
        }
    }
    asked
}

/// The figures of all queues, by queue and card. A card is what a node has; where a queue has
/// no quota of a card there is no capacity to tell.
pub fn samples(quotas: &[QuotaReport], nodes: &[NodeReport], waiting: &[Waiting]) -> Vec<Sample> {
    let mut cards: Vec<&Name> = nodes.iter().flat_map(|node| node.cards.iter().map(|(card, _)| card)).collect();
    cards.sort();
    cards.dedup();
    let is_queue = |report: &&QuotaReport| *report.key.kind == *QUEUE && *report.key.group == *SCHEDULING;
    let queues: Vec<&QuotaReport> = quotas.iter().filter(is_queue).collect();
    let asked = asked_for(waiting, &queues, &cards);
    let mut samples = Vec::new();
    for report in queues {
        for card in &cards {
            let find = |amounts: &[(Name, i128)]| {
                amounts.iter().find(|(resource, _)| resource == *card).map(|(_, amount)| *amount)
            };
            let asked = asked.get(&(report.key.name.clone(), (*card).clone())).copied().unwrap_or(0);
            let used = find(&report.used).unwrap_or(0);
            let figures = [
                (CARD_DESERVED, find(&report.entitlement).or(Some(0))),
                (CARD_ALLOCATED, Some(used)),
                (CARD_REQUEST, Some(used + asked)),
                (CARD_CAPACITY, find(&report.max)),
            ];
            let sample = |(metric, value): (&'static str, Option<i128>)| {
                Some(Sample { metric, queue: report.key.name.clone(), card: (*card).clone(), value: value? })
            };
            samples.extend(figures.into_iter().filter_map(sample));
        }
    }
    samples
}

#[cfg(test)]
mod tests {
    use super::*;
    use quotient_engine::fact::QuotaKey;
    use serde_json::json;

    #[test]
    fn each_queue_has_its_figures_of_each_card() {
        let node = NodeReport {
            name: "n".into(),
            allocatable: Vec::new(),
            used: Vec::new(),
            cap: Vec::new(),
            cap_used: Vec::new(),
            cards: vec![("A100".into(), 8), ("H100".into(), 4)],
        };
        let key = |kind: &str, group: &str| QuotaKey {
            kind: kind.into(),
            group: group.into(),
            namespace: "".into(),
            name: "q".into(),
        };
        let queue = QuotaReport {
            key: key(QUEUE, SCHEDULING),
            used: vec![("A100".into(), 2), ("cpu".into(), 1000)],
            parent: Some(key(QUEUE, SCHEDULING)).map(|key| QuotaKey { name: "root".into(), ..key }),
            max: vec![("A100".into(), 5)],
            ..QuotaReport::default()
        };
        let other = QuotaReport { key: key("ElasticQuota", "nos.nebuly.com"), ..queue.clone() };
        let pod = json!({"metadata": {"annotations": {CARD_NAME: "B200|A100"}}});
        let requests = [("nvidia.com/gpu".into(), 3), ("cpu".into(), 1), (GPU_MEMORY[0].into(), 16)];
        let waiting = Waiting::of_pod(&pod, &"q".into(), &requests).expect("it names cards");
        let shown: Vec<String> = samples(&[queue, other], &[node.clone(), node], &[waiting])
            .iter()
            .map(|Sample { metric, queue, card, value }| format!("{metric} {queue} {card} {value}"))
            .collect();
        let expected = [
            "volcano_queue_card_deserved q A100 0",
            "volcano_queue_card_allocated q A100 2",
            "volcano_queue_card_request q A100 5",
            "volcano_queue_card_capacity q A100 5",
            "volcano_queue_card_deserved q H100 0",
            "volcano_queue_card_allocated q H100 0",
            "volcano_queue_card_request q H100 0",
        ];
        assert_eq!(shown, expected);
    }
}
