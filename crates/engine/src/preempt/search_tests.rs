//! The search against all sets, one by one.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::fact::Name;

/// Rules over sets: a weight by kind that must not be passed, and sets that are vetoed.
struct Weights {
    kinds: Vec<u32>,
    most: u32,
    odd: Option<u32>,
    vetoed: u32,
}

impl Rules for Weights {
    fn permits(&mut self, set: &[usize]) -> bool {
        set.iter().map(|unit| self.kinds[*unit]).sum::<u32>() <= self.most
    }

    /// Where `odd` is given, a kind must not be taken once alone.
    fn fits(&mut self, set: &[usize]) -> bool {
        self.odd.is_none_or(|odd| set.iter().filter(|unit| self.kinds[**unit] == odd).count() != 1)
    }

    fn is_vetoed(&mut self, set: &[usize]) -> bool {
        // Kinds alone count, since alike units must be alike to the veto.
        let mut kinds: Vec<u32> = set.iter().map(|unit| self.kinds[*unit]).collect();
        kinds.sort_unstable();
        self.vetoed > 0 && kinds.iter().fold(0u32, |sum, kind| sum * 5 + kind + 1) % self.vetoed == 0
    }
}

fn brute_force(problem: &Problem, rules: &mut Weights) -> Option<(Cost, Vec<usize>)> {
    let sets = (1u32..1 << problem.units.len())
        .map(|bits| (0..problem.units.len()).filter(|unit| bits >> unit & 1 == 1).collect::<Vec<usize>>());
    let mut best: Option<(Cost, Vec<usize>)> = None;
    for set in sets {
        let units = || set.iter().map(|unit| &problem.units[*unit]);
        let both = units().any(|gang| gang.is_whole && units().filter(|unit| unit.gang == gang.gang).count() > 1);
        let without = |unit: usize| set.iter().copied().filter(move |other| *other != unit);
        let needless = |unit: &usize, rules: &mut Weights| {
            problem.covers(without(*unit)) && rules.fits(&without(*unit).collect::<Vec<_>>())
        };
        if both
            || !problem.covers(set.iter().copied())
            || !rules.permits(&set)
            || !rules.fits(&set)
            || set.iter().any(|unit| needless(unit, rules))
            || rules.is_vetoed(&set)
        {
            continue;
        }
        let cost = problem.cost(&set);
        if best.as_ref().is_none_or(|(least, _)| cost < *least) {
            best = Some((cost, set));
        }
    }
    best
}

prop_compose! {
    fn unit(missing: usize)(
        pods in prop::collection::vec(0i64..4, 1..4),
        (is_whole, is_gang) in
            prop_oneof![4 => Just((false, false)), 1 => Just((true, true)), 1 => Just((true, false))],
        gang in prop::option::of(0u32..2),
        priority in 0i32..3,
        entitled in 0u32..2,
        budget in prop::option::of(0usize..2),
        gives in prop::collection::vec(0i128..4, missing),
        kind in 0u32..3,
    ) -> Unit {
        let pods: Vec<i64> = if is_whole { pods } else { pods[..1].to_vec() };
        let gang = if is_whole { Some(gang.unwrap_or(7)) } else { gang }.map(|gang| (gang, false));
        let budgets = budget.map(|budget| (budget, pods.len() as u32)).into_iter().collect();
        let pods = pods.into_iter().map(|created| (Created(created), key(0))).collect();
        Unit { pods, priority, entitled, is_gang, is_whole, gang, budgets, gives, kind, sources: Vec::new() }
    }
}

fn key(name: usize) -> PodKey {
    PodKey { namespace: Name::from("ns"), name: Name::from(format!("p{name:03}")) }
}

fn problem() -> impl Strategy<Value = (Problem, u32, Option<u32>, u32, u64)> {
    (1usize..4).prop_flat_map(|missing| {
        let amounts = prop::collection::vec(1i128..9, missing);
        let units = prop::collection::vec(unit(missing), 1..10);
        let allowed = prop::collection::vec(0u32..3, 2);
        let rules = (2u32..12, prop::option::of(1u32..3), 0u32..4, any::<u64>());
        (amounts, units, allowed, rules).prop_map(|(missing, mut units, allowed, (most, odd, vetoed, names))| {
            // No two gangs of one number, and names in an order of their own.
            let mut seen: BTreeMap<u32, u32> = BTreeMap::new();
            for (at, unit) in units.iter_mut().enumerate() {
                if unit.is_whole {
                    let count = seen.entry(unit.gang.map_or(0, |(gang, _)| gang)).or_default();
                    unit.gang = unit.gang.map(|(gang, is_party)| (gang + 10 * *count, is_party));
                    *count += 1;
                }
                for (i, (_, name)) in unit.pods.iter_mut().enumerate() {
                    *name = key((names.wrapping_mul(at as u64 * 7 + 3) % 97) as usize * 100 + at * 8 + i);
                }
                unit.pods.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
            }
            (Problem { units, missing, allowed, sources: Vec::new() }, most, odd, vetoed, names)
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]
    #[test]
    fn finds_what_trying_all_sets_finds((problem, most, odd, vetoed, _) in problem()) {
        let kinds: Vec<u32> = problem.units.iter().map(|unit| unit.kind).collect();
        let mut rules = Weights { kinds, most, odd, vetoed };
        let expected = brute_force(&problem, &mut rules);
        let found = cheapest(&problem, &mut rules, None);
        prop_assert_eq!(found.as_ref().map(|found| &found.set), expected.as_ref().map(|(_, set)| set));
        prop_assert!(found.is_none_or(|found| found.at_least.is_none()));
    }
}

struct Anything;

impl Rules for Anything {
    fn permits(&mut self, _: &[usize]) -> bool {
        true
    }
    fn fits(&mut self, _: &[usize]) -> bool {
        true
    }
    fn is_vetoed(&mut self, _: &[usize]) -> bool {
        false
    }
}

fn many(count: usize, gift: impl Fn(usize) -> Vec<i128>, missing: Vec<i128>) -> Problem {
    let unit = |at: usize| Unit {
        pods: vec![(Created(at as i64), key(at))],
        priority: 0,
        entitled: 0,
        is_gang: false,
        is_whole: false,
        gang: None,
        budgets: Vec::new(),
        gives: gift(at),
        kind: 0,
        sources: Vec::new(),
    };
    Problem { units: (0..count).map(unit).collect(), missing, allowed: Vec::new(), sources: Vec::new() }
}

/// Five thousand that are alike, and five thousand of fifty sizes in two amounts: few steps, and exact.
#[test]
fn many_victims_take_few_steps() {
    let alike = many(5_000, |_| vec![2], vec![99]);
    let found = cheapest(&alike, &mut Anything, None).expect("there are enough");
    assert_eq!(found.set, (4_950..5_000).collect::<Vec<_>>());
    assert!(found.at_least.is_none());
    let sizes = many(5_000, |at| vec![1 + (at % 50) as i128, 1 + (at * 7 % 13) as i128], vec![100, 24]);
    let found = cheapest(&sizes, &mut Anything, None).expect("there are enough");
    assert!(found.at_least.is_none());
    assert_eq!(found.cost.counts.count, 2);
}
