//! Pods without GPUs among GPU nodes: where most, or least, of the cap is used. And first of all where no GPUs are.

use crate::cap::Cap;
use crate::engine::CapSettings;
use crate::fact::{Amount, CapStrategy};
use crate::resources::{Demand, ResourceId, ResourceNames};
use crate::score::{FULL, weight};

/// The largest weight that counts. With it, all products here are below 2^121.
const WEIGHT_MAX: i64 = 1_000_000;

/// What the score weighs, by resource number.
#[derive(Debug, Clone)]
pub(crate) struct CapWeights {
    weight: i64,
    by_resource: Vec<i64>,
    prefer_cpu_nodes: bool,
}

impl CapWeights {
    pub fn new(settings: &CapSettings, names: &mut ResourceNames) -> Self {
        let CapSettings { weight, resource_weights, prefer_cpu_nodes } = settings;
        let mut by_resource = Vec::new();
        for (name, weight) in resource_weights {
            let at = names.intern(name).0 as usize;
            if by_resource.len() <= at {
                by_resource.resize(at + 1, 1);
            }
            by_resource[at] = (*weight).clamp(0, WEIGHT_MAX);
        }
        CapWeights { weight: (*weight).clamp(0, WEIGHT_MAX), by_resource, prefer_cpu_nodes: *prefer_cpu_nodes }
    }

    fn of(&self, resource: ResourceId) -> i64 {
        self.by_resource.get(resource.0 as usize).copied().unwrap_or(1)
    }
}

impl Default for CapWeights {
    fn default() -> Self {
        CapWeights::new(&CapSettings::default(), &mut ResourceNames::default())
    }
}

/// The points of a node for a pod that is subject to caps.
pub(crate) fn points(cap: &Cap, demand: &Demand, strategy: CapStrategy, weights: &CapWeights) -> i64 {
    match cap.limits() {
        _ if weights.weight == 0 => 0,
        Some(limits) => weighed(cap, limits, demand, strategy, weights).unwrap_or(0),
        // More than a GPU node can have by all scores together.
        None if weights.prefer_cpu_nodes => (weights.weight + weight::ALL_OTHERS + 1) * FULL,
        None => 0,
    }
}

/// The mean, by weight, of the parts of the cap that will be used (or left), over what the pod asks for: exact, and
/// rounded down once. `None` where the cap is passed, or nothing that counts is asked for.
fn weighed(
    cap: &Cap,
    limits: &[(ResourceId, Amount)],
    demand: &Demand,
    strategy: CapStrategy,
    weights: &CapWeights,
) -> Option<i64> {
    let (mut wholes, mut rests, mut sum_of_weights) = (0i128, Vec::new(), 0i128);
    for (resource, limit) in limits {
        let requested = demand.get(*resource);
        if requested <= 0 {
            continue;
        }
        let (limit, used) = (i128::from(*limit), cap.used(*resource) + i128::from(requested));
        if used > limit {
            return None;
        }
        let part = match strategy {
            CapStrategy::MostAllocated => used,
            CapStrategy::LeastAllocated => limit - used,
        };
        let by_weight = i128::from(weights.of(*resource));
        let scaled = part * by_weight * i128::from(weights.weight) * i128::from(FULL);
        wholes += scaled / limit;
        rests.push((scaled % limit, limit));
        sum_of_weights += by_weight;
    }
    (sum_of_weights > 0).then(|| ((wholes + whole_part(&rests)) / sum_of_weights) as i64)
}

/// The whole part of a sum of fractions below 1, each as (numerator, denominator) below 2^63.
///
/// The common denominator may have more digits than fit anywhere, so the sum is taken binary digit by binary digit.
/// For each whole number that it may reach, `distance` is what is still missing, in units of the current digit; what is
/// left of the fractions is less than one unit each.
fn whole_part(fractions: &[(i128, i128)]) -> i128 {
    let count = fractions.len() as i128;
    let reaches = |whole: &i128| {
        let mut rests = fractions.to_vec();
        let mut distance = *whole;
        for _ in 0..64 * count {
            if distance <= 0 || distance >= count {
                return distance <= 0;
            }
            distance *= 2;
            for (rest, of) in &mut rests {
                *rest *= 2;
                if *rest >= *of {
                    *rest -= *of;
                    distance -= 1;
                }
            }
        }
        // Sums with these denominators that differ at all differ within as many digits: it is exactly the whole number.
        true
    };
    (1..count).take_while(reaches).count() as i128
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::fact::{Amounts, CPU, MEMORY, Name};
    use crate::resources::{CPU_ID, MEMORY_ID};

    const GI: i64 = 1 << 30;

    fn names(pairs: &[(&str, i64)]) -> Vec<(Name, i64)> {
        pairs.iter().map(|(name, amount)| (Name::from(*name), *amount)).collect()
    }

    fn demand(cpu: i64, memory: i64) -> Demand {
        let requests: Amounts = names(&[(CPU, cpu), (MEMORY, memory)]).into_iter().collect();
        Demand { capped: true, ..Demand::new(&requests, (0, 0), |name| ResourceNames::default().intern(name)) }
    }

    fn weights(weight: i64, cpu: i64, memory: i64) -> CapWeights {
        let settings =
            CapSettings { weight, resource_weights: names(&[(CPU, cpu), (MEMORY, memory)]), prefer_cpu_nodes: true };
        CapWeights::new(&settings, &mut ResourceNames::default())
    }

    fn cap(limit: (i64, i64), used: (i64, i64)) -> Cap {
        let mut cap = Cap::default();
        cap.set_limits(Some(vec![(CPU_ID, limit.0), (MEMORY_ID, limit.1)]), None);
        cap.count(&demand(used.0, used.1), crate::sign::Sign::Add, crate::nodes::Column::Held);
        cap
    }

    /// Points as the plugin counts them, to two digits.
    fn shown(points: i64) -> String {
        let hundredths = (points + FULL / 200) / (FULL / 100);
        format!("{}.{:02}", hundredths / 100, hundredths % 100)
    }

    #[test]
    fn the_examples_of_the_plugin() {
        use CapStrategy::{LeastAllocated, MostAllocated};
        let limit = (32_000, 64 * GI);
        let cases = [
            ((24_000, 40), (4_000, 8), MostAllocated, "8.64"),
            ((8_000, 16), (4_000, 8), LeastAllocated, "6.25"),
            ((16_000, 32), (4_000, 8), MostAllocated, "6.25"),
            ((16_000, 32), (4_000, 8), LeastAllocated, "3.75"),
            // What is not asked for does not count, and without anything that does there is no score.
            ((24_000, 40), (4_000, 0), MostAllocated, "8.75"),
            ((24_000, 40), (0, 8), MostAllocated, "7.50"),
            ((24_000, 40), (0, 0), MostAllocated, "0.00"),
            // Full is full; beyond the cap there is nothing.
            ((28_000, 56), (4_000, 8), MostAllocated, "10.00"),
            ((28_000, 56), (4_000, 8), LeastAllocated, "0.00"),
            ((30_000, 40), (4_000, 8), MostAllocated, "0.00"),
        ];
        for (used, request, strategy, expected) in cases {
            let cap = cap(limit, (used.0, used.1 * GI));
            let points = points(&cap, &demand(request.0, request.1 * GI), strategy, &weights(10, 10, 1));
            assert_eq!(shown(points), expected, "{used:?} {request:?} {strategy:?}");
        }
        assert_eq!(
            points(&cap(limit, (24_000, 40 * GI)), &demand(4_000, 8 * GI), MostAllocated, &weights(10, 10, 1)),
            863_636
        );
    }

    #[test]
    fn weights_decide() {
        let (cap, demand) = (cap((10, 10), (4, 0)), demand(1, 1));
        let at = |weights: &CapWeights| points(&cap, &demand, CapStrategy::MostAllocated, weights);
        assert_eq!(at(&weights(10, 1, 1)), 300_000);
        assert_eq!(at(&weights(10, 1, 0)), 500_000);
        assert_eq!(at(&weights(10, 0, 7)), 100_000);
        assert_eq!(at(&weights(1, 3, 1)), 40_000);
        assert_eq!(at(&weights(10, 0, 0)), 0);
        assert_eq!(at(&weights(0, 1, 1)), 0);
    }

    #[test]
    fn nodes_without_gpus_come_first() {
        let (demand, mut weights) = (demand(1, 1), weights(1_000, 1, 1));
        let most = points(&cap((10, 10), (9, 9)), &demand, CapStrategy::MostAllocated, &weights);
        let without = points(&Cap::default(), &demand, CapStrategy::MostAllocated, &weights);
        assert_eq!(most, 1_000 * FULL);
        assert!(without > most + weight::ALL_OTHERS * FULL);
        weights.prefer_cpu_nodes = false;
        assert_eq!(points(&Cap::default(), &demand, CapStrategy::MostAllocated, &weights), 0);
    }

    #[test]
    fn large_numbers() {
        let cap = cap((i64::MAX, i64::MAX), (i64::MAX / 2, i64::MAX / 2));
        let weights = weights(i64::MAX, i64::MAX, i64::MAX);
        let points = points(&cap, &demand(i64::MAX / 2, 1), CapStrategy::MostAllocated, &weights);
        // A half and all of it, at the largest weight there is: three quarters, less what rounding takes.
        let expected = WEIGHT_MAX * FULL / 4 * 3;
        assert!((expected - 1..=expected).contains(&points), "{points}");
    }

    #[test]
    fn sums_that_are_whole() {
        assert_eq!(whole_part(&[]), 0);
        assert_eq!(whole_part(&[(0, 7)]), 0);
        assert_eq!(whole_part(&[(1, 3), (2, 3)]), 1);
        assert_eq!(whole_part(&[(1, 3), (1, 3)]), 0);
        assert_eq!(whole_part(&[(1, 2), (1, 3), (1, 6)]), 1);
        assert_eq!(whole_part(&[(6, 7), (6, 7), (2, 7)]), 2);
        let large = i128::from(i64::MAX);
        assert_eq!(whole_part(&[(1, large), (large - 1, large)]), 1);
        assert_eq!(whole_part(&[(1, large), (large - 2, large)]), 0);
        assert_eq!(whole_part(&[(1, large - 1), (large - 1, large)]), 1);
        assert_eq!(whole_part(&[(1, large), (large - 2, large - 1)]), 0);
    }

    proptest! {
        #[test]
        fn sums_of_fractions(parts in prop::collection::vec((0i128..60, 1i128..60), 0..5)) {
            let fractions: Vec<(i128, i128)> = parts.into_iter().map(|(part, of)| (part % of, of)).collect();
            let common: i128 = fractions.iter().map(|(_, of)| of).product();
            let sum: i128 = fractions.iter().map(|(part, of)| part * (common / of)).sum();
            prop_assert_eq!(whole_part(&fractions), sum / common);
        }
    }
}
