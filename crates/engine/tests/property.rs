//! The engine decides as the reference does, whatever happens.
//!
//! `PROPTEST_CASES` runs more histories than the default, which is meant to take well under a minute.

use crate::cases;
use crate::generate;
use crate::history;
use crate::samples;

use cases::cases;
use proptest::prelude::*;
use quotient_engine::Engine;
use samples::samples;

proptest! {
    #![proptest_config(cases(2_000))]

    /// Every decision is the reference's; forks, slices, the order of the first facts, facts told twice and restarts
    /// change nothing.
    #[test]
    fn decides_as_the_rule_says(history in generate::history(1_000_000_000, 1_000)) {
        history::run::<Engine>(&history).map_err(TestCaseError::fail)?;
    }

    /// The same where pods wait for so long that they may hold a node.
    #[test]
    fn reserves_as_the_rule_says(history in generate::history(1_000, 1_500)) {
        history::run::<Engine>(&history).map_err(TestCaseError::fail)?;
    }
}

proptest! {
    #![proptest_config(cases(100))]

    /// The same where a key has so many values that the engine keeps no table of all of them.
    #[test]
    fn decides_as_the_rule_says_in_wide_clusters(history in generate::wide_history()) {
        history::run::<Engine>(&history).map_err(TestCaseError::fail)?;
    }
}

proptest! {
    #![proptest_config(cases(200))]

    /// A history that happens again goes the same way, byte for byte.
    #[test]
    fn decides_the_same_again(history in generate::history(1_000, 1_000)) {
        let first = history::run::<Engine>(&history).map_err(TestCaseError::fail)?;
        let second = history::run::<Engine>(&history).map_err(TestCaseError::fail)?;
        prop_assert_eq!(format!("{first:?}"), format!("{second:?}"));
    }
}

proptest! {
    #![proptest_config(cases(300))]

    /// The reference does not depend on the order of facts or on what is told twice either: the rule can be kept.
    #[test]
    fn the_rule_can_be_kept(history in generate::history(1_000, 1_000)) {
        history::run::<history::Reference>(&history).map_err(TestCaseError::fail)?;
    }
}

/// Histories bring about what they are for: a generator that never evicts anybody proves nothing.
#[test]
fn histories_are_eventful() {
    let mut seen = std::collections::BTreeMap::<&str, usize>::new();
    for history in samples(400, generate::history(1_000, 1_000)) {
        for decisions in history::run::<history::Reference>(&history).expect("the reference agrees with itself") {
            for decision in decisions.list {
                *seen.entry(history::kind(&decision)).or_default() += 1;
            }
        }
    }
    for (kind, least) in [
        ("bind", 200),
        ("bind with claims", 10),
        ("evict", 30),
        ("evict over budget", 3),
        ("nominate", 30),
        ("denominate", 5),
        ("hold", 200),
    ] {
        assert!(seen.get(kind).is_some_and(|n| *n >= least), "{kind}: {seen:?}");
    }
}
