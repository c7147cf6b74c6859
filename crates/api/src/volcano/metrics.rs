//! The figures of queues by card, under the names that dashboards for `capacity-card` ask for.

use quotient_engine::fact::Name;
use quotient_engine::{NodeReport, QuotaReport};

use super::{QUEUE, SCHEDULING};

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

/// The figures of all queues, by queue and card. A card is what a node has; where a queue has
/// no quota of a card there is no capacity to tell.
pub fn samples(quotas: &[QuotaReport], nodes: &[NodeReport]) -> Vec<Sample> {
    let mut cards: Vec<&Name> = nodes.iter().flat_map(|node| node.cards.iter().map(|(card, _)| card)).collect();
    cards.sort();
    cards.dedup();
    let mut samples = Vec::new();
    for report in quotas.iter().filter(|report| *report.key.kind == *QUEUE && *report.key.group == *SCHEDULING) {
        for card in &cards {
            let find = |amounts: &[(Name, i128)]| {
                amounts.iter().find(|(resource, _)| resource == *card).map(|(_, amount)| *amount)
            };
            let figures = [
                (CARD_DESERVED, find(&report.entitlement).or(Some(0))),
                (CARD_ALLOCATED, find(&report.used).or(Some(0))),
                (CARD_REQUEST, find(&report.requested).or(Some(0))),
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
            requested: vec![("A100".into(), 3)],
            max: vec![("A100".into(), 5)],
            ..QuotaReport::default()
        };
        let other = QuotaReport { key: key("ElasticQuota", "nos.nebuly.com"), ..queue.clone() };
        let shown: Vec<String> = samples(&[queue, other], &[node.clone(), node])
            .iter()
            .map(|Sample { metric, queue, card, value }| format!("{metric} {queue} {card} {value}"))
            .collect();
        let expected = [
            "volcano_queue_card_deserved q A100 0",
            "volcano_queue_card_allocated q A100 2",
            "volcano_queue_card_request q A100 3",
            "volcano_queue_card_capacity q A100 5",
            "volcano_queue_card_deserved q H100 0",
            "volcano_queue_card_allocated q H100 0",
            "volcano_queue_card_request q H100 0",
        ];
        assert_eq!(shown, expected);
    }
}
