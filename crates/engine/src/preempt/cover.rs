//! The cheapest victims on one node where amounts alone are short.
//!
//! This is a covering problem: choose victims whose amounts add up to what is missing. It is solved exactly by
//! going through the levels of the cost in order (violations, priority, number) and, at the first level that can do it,
//! trying the youngest first. A bound on the steps keeps the rare hard case short.

use crate::budgets::BudgetKey;
use crate::fact::{Created, PodKey};
use crate::pods::PodId;
use crate::policy::{DrawDepth, QuotaId};
use crate::preempt::cost::Cost;

/// A pod that may go.
#[derive(Debug, Clone)]
pub(crate) struct Victim {
    pub id: PodId,
    pub key: PodKey,
    pub priority: i32,
    pub created: Created,
    /// What its going gives, for each thing that is missing.
    pub gives: Vec<i128>,
    /// The budgets that select it, as positions in the list of what they allow.
    pub budgets: Vec<usize>,
    /// The quota that is drawn on, and how far that may go.
    pub from: Option<(QuotaId, DrawDepth)>,
    /// By seniority it is within its quota's entitlement.
    pub entitled: bool,
}

/// The budgets that the victims at hand touch.
#[derive(Debug, Clone, Default)]
pub(crate) struct Allowances {
    pub keys: Vec<BudgetKey>,
    pub allowed: Vec<u32>,
}

impl Allowances {
    /// How many of the victims pass over a budget.
    pub fn violations<'a>(&self, victims: impl Iterator<Item = &'a Victim>) -> u32 {
        let mut taken = vec![0u32; self.allowed.len()];
        for budget in victims.flat_map(|victim| &victim.budgets) {
            taken[*budget] += 1;
        }
        taken.iter().zip(&self.allowed).map(|(taken, allowed)| taken.saturating_sub(*allowed)).sum()
    }
}

/// The cost of a set of victims.
pub(crate) fn cost<'a>(victims: impl Iterator<Item = &'a Victim> + Clone, allowances: &Allowances) -> Cost {
    let mut created: Vec<Created> = victims.clone().map(|v| v.created).collect();
    created.sort_unstable_by(|a, b| b.cmp(a));
    let mut names: Vec<PodKey> = victims.clone().map(|v| v.key.clone()).collect();
    names.sort();
    Cost {
        violations: allowances.violations(victims.clone()),
        priority: victims.clone().map(|v| v.priority).max().unwrap_or(i32::MIN),
        entitled: victims.clone().filter(|v| v.entitled).count() as u32,
        gangs: 0,
        count: created.len(),
        created,
        names,
    }
}

/// The most that a search on one node may try before it takes what it has.
const STEPS_MAX: u32 = 20_000;

/// Whether a set of victims, by position, may be taken together. A part of a set that may be taken may be taken.
pub(crate) type MayTake<'a> = &'a dyn Fn(&[usize]) -> bool;

/// The cheapest victims that give what is missing, as positions, if any do. Where the bound on steps was reached the
/// set is valid, and may not be the cheapest.
pub(crate) fn cheapest(
    victims: &[Victim],
    missing: &[i128],
    allowances: &Allowances,
    may_take: MayTake<'_>,
) -> Option<Vec<usize>> {
    if !covers(victims.iter(), missing) {
        return None;
    }
    let mut priorities: Vec<i32> = victims.iter().map(|v| v.priority).collect();
    priorities.sort_unstable();
    priorities.dedup();
    let worst = allowances.violations(victims.iter());
    let most_entitled = victims.iter().filter(|v| v.entitled).count() as u32;
    for violations in 0..=worst {
        for priority in &priorities {
            let mut order: Vec<usize> = (0..victims.len()).filter(|i| victims[*i].priority <= *priority).collect();
            if !covers(order.iter().map(|i| &victims[*i]), missing) {
                continue;
            }
            order.sort_by(|a, b| {
                let (a, b) = (&victims[*a], &victims[*b]);
                b.created.cmp(&a.created).then_with(|| a.key.cmp(&b.key))
            });
            let mut search = Search::new(victims, &order, missing, allowances, violations, may_take);
            for entitled in 0..=most_entitled {
                search.entitled = entitled;
                if let Some(found) = search.run() {
                    return Some(found);
                }
            }
        }
    }
    None
}

fn covers<'a>(victims: impl Iterator<Item = &'a Victim>, missing: &[i128]) -> bool {
    let mut sums = vec![0i128; missing.len()];
    for victim in victims {
        for (sum, gives) in sums.iter_mut().zip(&victim.gives) {
            *sum += gives;
        }
    }
    sums.iter().zip(missing).all(|(sum, missing)| sum >= missing)
}

/// A search for the smallest, youngest set among some victims with at most so many violations.
struct Search<'a> {
    victims: &'a [Victim],
    /// Positions, the youngest first.
    order: &'a [usize],
    allowances: &'a Allowances,
    violations: u32,
    entitled: u32,
    may_take: MayTake<'a>,
    /// For each position in the order, for each missing thing: sums of the largest gifts from there on.
    largest: Vec<Vec<Vec<i128>>>,
    missing: &'a [i128],
    steps: u32,
    best: Option<Vec<usize>>,
}

impl<'a> Search<'a> {
    fn new(
        victims: &'a [Victim],
        order: &'a [usize],
        missing: &'a [i128],
        allowances: &'a Allowances,
        violations: u32,
        may_take: MayTake<'a>,
    ) -> Self {
        let mut largest = vec![Vec::new(); order.len() + 1];
        let mut sorted: Vec<Vec<i128>> = vec![Vec::new(); missing.len()];
        for i in (0..=order.len()).rev() {
            if let Some(victim) = order.get(i) {
                for (sorted, gives) in sorted.iter_mut().zip(&victims[*victim].gives) {
                    let at = sorted.partition_point(|x| x > gives);
                    sorted.insert(at, *gives);
                }
            }
            let sums = |sorted: &Vec<i128>| {
                let mut sum = 0;
                std::iter::once(0)
                    .chain(sorted.iter().map(|x| {
                        sum += x;
                        sum
                    }))
                    .collect()
            };
            largest[i] = sorted.iter().map(sums).collect();
        }
        Search { victims, order, allowances, violations, entitled: 0, may_take, largest, missing, steps: 0, best: None }
    }

    fn run(&mut self) -> Option<Vec<usize>> {
        self.steps = 0;
        for count in 1..=self.order.len() {
            if self.could_cover(0, count, self.missing) {
                self.descend(0, count, &mut Vec::new(), self.missing);
                if self.best.is_some() || self.steps >= STEPS_MAX {
                    break;
                }
            }
        }
        self.best.take().or_else(|| self.all_that_help())
    }

    /// Where the steps ran out: all, less what is not needed, the oldest spared first.
    fn all_that_help(&self) -> Option<Vec<usize>> {
        if self.steps < STEPS_MAX {
            return None;
        }
        let mut set: Vec<usize> = self.order.to_vec();
        for candidate in self.order.iter().rev() {
            let without = || set.iter().filter(|i| *i != candidate);
            if covers(without().map(|i| &self.victims[*i]), self.missing) {
                set = without().copied().collect();
            }
        }
        self.is_permitted(&set).then_some(set)
    }

    fn is_permitted(&self, set: &[usize]) -> bool {
        let victims = || set.iter().map(|i| &self.victims[*i]);
        victims().filter(|v| v.entitled).count() as u32 <= self.entitled
            && self.allowances.violations(victims()) <= self.violations
            && (self.may_take)(set)
    }

    fn could_cover(&self, from: usize, count: usize, missing: &[i128]) -> bool {
        let sums = &self.largest[from];
        missing.iter().zip(sums).all(|(missing, sums)| sums[count.min(sums.len() - 1)] >= *missing)
    }

    fn descend(&mut self, from: usize, count: usize, chosen: &mut Vec<usize>, missing: &[i128]) {
        self.steps += 1;
        if self.steps >= STEPS_MAX {
            return;
        }
        if count == 0 {
            let set = || chosen.iter().map(|i| &self.victims[*i]);
            if missing.iter().all(|m| *m <= 0) {
                let better = self.best.as_ref().is_none_or(|best| {
                    let best = best.iter().map(|i| &self.victims[*i]);
                    cost(set(), self.allowances) < cost(best, self.allowances)
                });
                if better {
                    self.best = Some(chosen.clone());
                }
            }
            return;
        }
        for i in from..self.order.len() {
            if self.order.len() - i < count || !self.could_cover(i, count, missing) || self.is_older(chosen, i) {
                return;
            }
            let victim = self.order[i];
            chosen.push(victim);
            let left: Vec<i128> =
                missing.iter().zip(&self.victims[victim].gives).map(|(missing, gives)| missing - gives).collect();
            if self.is_permitted(chosen) {
                self.descend(i + 1, count - 1, chosen, &left);
            }
            chosen.pop();
        }
    }

    /// Whether taking this one next makes the set older than the best so far, whatever follows.
    fn is_older(&self, chosen: &[usize], next: usize) -> bool {
        let Some(best) = &self.best else { return false };
        let created = |i: usize| self.victims[i].created;
        for (at, mine) in chosen.iter().copied().chain([self.order[next]]).enumerate() {
            match created(mine).cmp(&created(best[at])) {
                std::cmp::Ordering::Less => return true,
                std::cmp::Ordering::Greater => return false,
                std::cmp::Ordering::Equal => {}
            }
        }
        false
    }
}
