//! What a set of victims costs: design 3, "Sets of victims compare by, in this order".

use std::cmp::{Ordering, Reverse};
use std::collections::BTreeSet;

use crate::amount::Amounts;
use crate::quota::Policy;
use crate::world::{Held, World};

/// How often "within its quota's entitlement" can be read differently: by one of a pod's quotas or by all of them,
/// and with or without a guaranteed over-quota.
const READINGS: usize = 4;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cost {
    /// "Number of PDB violations."
    violations: i128,
    /// "Highest victim priority."
    priority: i64,
    /// "Number of victims within their quota's entitlement", by each reading.
    within: [usize; READINGS],
    /// "Number of gangs that fall below their minimum."
    gangs: usize,
    /// "Number of pods."
    pods: usize,
    /// "Creation times compared from the latest on, the later the cheaper."
    ages: Vec<Reverse<(String, String)>>,
    /// "Names ascending."
    names: Vec<(String, String)>,
}

impl Cost {
    pub fn of(world: &World, asks: &Amounts, victims: &[usize]) -> Cost {
        let violations = world
            .budgets
            .iter()
            .map(|budget| {
                let hit = victims.iter().filter(|victim| budget.selects(&world.pods[**victim])).count();
                (hit as i128 - budget.allowed).max(0)
            })
            .sum();
        let gangs: BTreeSet<usize> = victims.iter().filter_map(|victim| world.pods[*victim].gang).collect();
        let broken = gangs.iter().filter(|gang| {
            let members = world.running_members(**gang);
            let left = members.iter().filter(|member| !victims.contains(member)).count();
            left < world.gangs[**gang].minimum
        });
        let mut ages: Vec<Reverse<(String, String)>> =
            victims.iter().map(|victim| Reverse(world.pods[*victim].created.clone())).collect();
        ages.sort();
        let mut names: Vec<(String, String)> = victims
            .iter()
            .map(|victim| (world.pods[*victim].namespace.clone(), world.pods[*victim].name.clone()))
            .collect();
        names.sort();
        let mut within = [0; READINGS];
        for (reading, count) in within.iter_mut().enumerate() {
            *count = victims.iter().filter(|victim| is_within(world, asks, **victim, reading)).count();
        }
        Cost {
            violations,
            priority: victims.iter().map(|victim| world.pods[*victim].priority).max().unwrap_or(i64::MIN),
            within,
            gangs: broken.count(),
            pods: victims.len(),
            ages,
            names,
        }
    }

    fn compare(&self, other: &Cost, reading: usize) -> Ordering {
        let first = |cost: &Cost| (cost.violations, cost.priority, cost.within[reading], cost.gangs, cost.pods);
        first(self)
            .cmp(&first(other))
            .then_with(|| self.ages.cmp(&other.ages))
            .then_with(|| self.names.cmp(&other.names))
    }

    /// Whether this is cheaper, however the order is read.
    pub fn surely_less(&self, other: &Cost) -> bool {
        (0..READINGS).all(|reading| self.compare(other, reading) == Ordering::Less)
    }

    pub fn violations(&self) -> i128 {
        self.violations
    }
}

/// "The oldest pods up to it are within", by the resources that the claimant asks for.
fn is_within(world: &World, asks: &Amounts, victim: usize, reading: usize) -> bool {
    let held = world.held_staying();
    let older: Held = held
        .iter()
        .filter(|(pod, _)| world.pods[**pod].created <= world.pods[victim].created)
        .map(|(pod, node)| (*pod, *node))
        .collect();
    let verdicts: Vec<bool> = world
        .counting_quotas(victim)
        .iter()
        .filter(|quota| !world.quotas[**quota].is_capability_alone())
        .filter_map(|quota| {
            let named: Vec<bool> = asks
                .keys()
                .filter_map(|name| {
                    let entitled = world.entitlement(&held, *quota, name)?;
                    let fair = world.quotas[*quota].policy == Policy::Fair && reading & 1 != 0;
                    let more = if fair { world.guaranteed_over_quota(&held, *quota, name) } else { 0 };
                    Some(world.used(&older, *quota, name) <= entitled + more)
                })
                .collect();
            (!named.is_empty()).then(|| named.iter().all(|within| *within))
        })
        .collect();
    match reading & 2 {
        0 => verdicts.iter().any(|within| *within),
        _ => !verdicts.is_empty() && verdicts.iter().all(|within| *within),
    }
}
