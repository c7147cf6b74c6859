//! Which of the nodes that take a pod is best.

use std::collections::BTreeSet;

use quotient_engine::fact::{CPU, Effect, MEMORY, NodeFact, PodFact, WhenUnsatisfiable};

use super::world::View;
use super::{affinity, filters, labels, node_cap, spread};

pub const FULL: i128 = 100_000;

/// The best of the nodes, which are those that pass the filters, in the order of their names.
pub fn best<'a>(view: &View<'_>, open: &[&'a NodeFact]) -> Option<&'a NodeFact> {
    let totals = totals(view, open);
    let mut best: Option<(i128, &NodeFact)> = None;
    for (node, total) in open.iter().zip(totals) {
        if best.is_none_or(|(highest, _)| total > highest) {
            best = Some((total, node));
        }
    }
    best.map(|(_, node)| node)
}

/// The total of each of the nodes that pass the filters.
pub fn totals(view: &View<'_>, open: &[&NodeFact]) -> Vec<i128> {
    let parts: [(i128, Vec<i128>); 8] = [
        (1, open.iter().map(|node| least_allocated(view, node)).collect()),
        (1, open.iter().map(|node| balanced(view, node)).collect()),
        (1, open.iter().map(|node| image_locality(view, node)).collect()),
        (3, taints(view, open)),
        (2, preferred_nodes(view, open)),
        (2, spread_points(view, open)),
        (2, pod_affinity(view, open)),
        (1, open.iter().map(|node| node_cap::points(view, node)).collect()),
    ];
    (0..open.len()).map(|i| parts.iter().map(|(weight, points)| weight * points[i]).sum()).collect()
}

pub fn least_allocated(view: &View<'_>, node: &NodeFact) -> i128 {
    let assumed = |pod: &PodFact, resource: &str| {
        i128::from(if resource == CPU { pod.spec.assumed.0 } else { pod.spec.assumed.1 })
    };
    let points = |resource: &str| {
        let allocatable = i128::from(node.allocatable.get(resource));
        if allocatable == 0 {
            return 0;
        }
        let used: i128 = view.placed_on(node).map(|p| assumed(p.pod, resource)).sum();
        let claimed: i128 = view.claimants_of(node).map(|pod| assumed(pod, resource)).sum();
        (allocatable - used - claimed - assumed(view.pod, resource)).max(0) * FULL / allocatable
    };
    (points(CPU) + points(MEMORY)) / 2
}

pub fn balanced(view: &View<'_>, node: &NodeFact) -> i128 {
    let fraction = |resource: &str| {
        let allocatable = i128::from(node.allocatable.get(resource));
        (allocatable > 0).then(|| FULL.min(filters::held_with(view, node, resource) * FULL / allocatable))
    };
    match (fraction(CPU), fraction(MEMORY)) {
        (Some(cpu), Some(memory)) => FULL - (cpu - memory).abs() / 2,
        _ => FULL,
    }
}

pub fn image_locality(view: &View<'_>, node: &NodeFact) -> i128 {
    const MIB: i128 = 1024 * 1024;
    let size = |node: &NodeFact, image| {
        node.images.iter().find(|(names, _)| names.contains(image)).map(|(_, size)| i128::from(*size))
    };
    let nodes = view.world.nodes.len() as i128;
    let mut sum = 0;
    for image in &view.pod.spec.images {
        let having = view.world.nodes.values().filter(|n| size(n, image).is_some()).count() as i128;
        sum += size(node, image).unwrap_or(0) * having / nodes;
    }
    let min = 23 * MIB;
    let max = 1000 * MIB * view.pod.spec.images.len() as i128;
    if max == 0 { 0 } else { (sum.clamp(min, max) - min) * FULL / (max - min) }
}

fn taints(view: &View<'_>, open: &[&NodeFact]) -> Vec<i128> {
    let disliked = |node: &&NodeFact| {
        let soft = node.taints.iter().filter(|t| t.effect == Effect::PreferNoSchedule);
        soft.filter(|t| !labels::tolerated(&view.pod.spec, t)).count() as i128
    };
    let counts: Vec<i128> = open.iter().map(disliked).collect();
    let largest = counts.iter().copied().max().unwrap_or(0);
    counts.into_iter().map(|n| if largest == 0 { FULL } else { FULL - n * FULL / largest }).collect()
}

fn preferred_nodes(view: &View<'_>, open: &[&NodeFact]) -> Vec<i128> {
    let weight = |node: &&NodeFact| -> i128 {
        let matching = view.pod.spec.preferred_nodes.iter().filter(|(_, term)| labels::term_selects(term, node));
        matching.map(|(weight, _)| i128::from(*weight)).sum()
    };
    let weights: Vec<i128> = open.iter().map(weight).collect();
    let largest = weights.iter().copied().max().unwrap_or(0);
    weights.into_iter().map(|w| if largest == 0 { 0 } else { w * FULL / largest }).collect()
}

/// The natural logarithm in 1/1024, rounded down.
pub fn ln1024(n: u64) -> i128 {
    ((n as f64).ln() * 1024.0).floor() as i128
}

fn spread_points(view: &View<'_>, open: &[&NodeFact]) -> Vec<i128> {
    let all = spread::constraints(view, WhenUnsatisfiable::ScheduleAnyway);
    if all.is_empty() {
        return vec![0; open.len()];
    }
    let raw = |node: &NodeFact| -> Option<i128> {
        if !spread::has_needed_keys(view, &all, node) {
            return None;
        }
        let mut raw = 0;
        for constraint in &all {
            let key = &constraint.topology_key;
            // Only where the constraints are implied can a key be missing; it adds nothing then.
            let Some(domain) = node.labels.get(key) else { continue };
            let values = view.world.nodes.values().filter_map(|node| node.labels.get(key));
            let domains = values.collect::<BTreeSet<_>>().len() as u64;
            let count = spread::counts(view, &all, constraint).get(domain).copied().unwrap_or(0);
            raw += i128::from(count) * ln1024(domains + 2) * 1000 / 1024;
            raw += (i128::from(constraint.max_skew) - 1) * 1000;
        }
        Some(raw)
    };
    let raws: Vec<Option<i128>> = open.iter().map(|node| raw(node)).collect();
    let min = raws.iter().flatten().copied().min().unwrap_or(0);
    let max = raws.iter().flatten().copied().max().unwrap_or(0);
    let points = |raw: Option<i128>| match raw {
        None => 0,
        Some(_) if max == 0 => FULL,
        Some(raw) => FULL * (max + min - raw) / max,
    };
    raws.into_iter().map(points).collect()
}

fn pod_affinity(view: &View<'_>, open: &[&NodeFact]) -> Vec<i128> {
    let raw = |node: &&NodeFact| -> i128 {
        let mut raw = 0;
        for placed in &view.placed {
            let near =
                |term: &quotient_engine::fact::PodTerm| affinity::together(&term.topology_key, placed.node, node);
            let wants = |term, pod| near(term) && affinity::term_matches(view.world, term, pod);
            let (mine, theirs) = (&view.pod.spec, &placed.pod.spec);
            for (sign, terms) in [(1, &mine.preferred_affinity), (-1, &mine.preferred_anti_affinity)] {
                let matching = terms.iter().filter(|(_, term)| wants(term, placed.pod));
                raw += matching.map(|(weight, _)| sign * i128::from(*weight)).sum::<i128>();
            }
            for (sign, terms) in [(1, &theirs.preferred_affinity), (-1, &theirs.preferred_anti_affinity)] {
                let matching = terms.iter().filter(|(_, term)| wants(term, view.pod));
                raw += matching.map(|(weight, _)| sign * i128::from(*weight)).sum::<i128>();
            }
            raw += theirs.affinity.iter().filter(|term| wants(term, view.pod)).count() as i128;
        }
        raw
    };
    let raws: Vec<i128> = open.iter().map(raw).collect();
    let min = raws.iter().copied().min().unwrap_or(0);
    let max = raws.iter().copied().max().unwrap_or(0);
    raws.into_iter().map(|raw| if max == min { 0 } else { FULL * (raw - min) / (max - min) }).collect()
}
