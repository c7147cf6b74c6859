//! Caps of GPU nodes in histories of all kinds: the engine decides as the reference does, counts what the reference
//! counts, and no decision makes pods without GPUs pass a cap.
//!
//! The histories are those of the general comparison, with caps put on nodes that have GPUs, and pods without GPUs made
//! subject to them.

use crate::cases;
use crate::generate;
use crate::history;
use crate::samples;

use std::collections::BTreeMap;
use std::sync::Arc;

use cases::cases;
use history::{History, Step};
use proptest::prelude::*;
use quotient_engine::fact::{CapStrategy, Limits, Name, NodeFact, PodFact, PodSpec};
use quotient_engine::{Decision, Engine};
use samples::samples;

/// Numbers that follow from a seed and from what they are for, so that a history with less in it keeps the others.
fn draw(seed: u64, what: &impl std::fmt::Debug) -> u64 {
    let text = format!("{what:?}");
    let hash = text.bytes().fold(seed, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    hash ^ hash >> 29
}

fn cap_node(seed: u64, node: &mut NodeFact) {
    if node.allocatable.get("gpu") == 0 {
        return;
    }
    let number = draw(seed, node);
    let resources = [("cpu", 8), ("memory", 8), ("gpu", 2), ("pods", 5)];
    let limit = |(i, (name, most)): (usize, &(&str, u64))| {
        let bits = number >> (16 * i);
        (bits & 3 != 0).then(|| (Name::from(*name), ((bits >> 2) % (most + 1)) as i64))
    };
    node.cap = Some(resources.iter().enumerate().filter_map(limit).collect::<Limits>());
}

fn cap_pod(seed: u64, pod: &mut PodFact) {
    let number = draw(seed, &pod.spec);
    // One in eight is left out, as by a label selector.
    if pod.spec.requests.get("gpu") > 0 || number.is_multiple_of(8) {
        return;
    }
    let strategy = if number & 16 == 0 { CapStrategy::MostAllocated } else { CapStrategy::LeastAllocated };
    pod.spec = Arc::new(PodSpec { capped: Some(strategy), ..(*pod.spec).clone() });
}

fn capped(history: impl Strategy<Value = History>) -> impl Strategy<Value = History> {
    (history, any::<u64>()).prop_map(|(mut history, seed)| {
        for step in history.cluster.iter_mut().chain(&mut history.steps) {
            match step {
                Step::Node(node) => cap_node(seed, node),
                Step::Pod(pod) | Step::Replicas(pod, _) => cap_pod(seed, pod),
                _ => {}
            }
        }
        history
    })
}

proptest! {
    #![proptest_config(cases(2_000))]

    #[test]
    fn decides_as_the_rule_says(history in capped(generate::history(1_000_000_000, 1_000))) {
        history::run::<Engine>(&history).map_err(TestCaseError::fail)?;
    }

    #[test]
    fn reserves_as_the_rule_says(history in capped(generate::history(1_000, 1_500))) {
        history::run::<Engine>(&history).map_err(TestCaseError::fail)?;
    }
}

proptest! {
    #![proptest_config(cases(100))]

    #[test]
    fn decides_as_the_rule_says_in_wide_clusters(history in capped(generate::wide_history())) {
        history::run::<Engine>(&history).map_err(TestCaseError::fail)?;
    }
}

/// Histories bring about what they are for.
#[test]
fn histories_are_eventful() {
    let mut seen = BTreeMap::<&str, usize>::new();
    for history in samples(300, capped(generate::history(1_000, 1_000))) {
        for decisions in history::run::<history::Reference>(&history).expect("the reference agrees with itself") {
            for decision in decisions.list {
                let kind = match &decision {
                    Decision::Hold { reason, .. } => reason.code.name(),
                    other => history::kind(other),
                };
                *seen.entry(kind).or_default() += 1;
            }
        }
    }
    for (kind, least) in [("bind", 200), ("evict", 30), ("NodeCapExceeded", 50), ("NoFittingNode", 50)] {
        assert!(seen.get(kind).is_some_and(|n| *n >= least), "{kind}: {seen:?}");
    }
}
