//! The cheapest set of victims, exactly.
//!
//! What may go are *units*: a pod, or a gang that goes whole. A set must give what is missing, and the cheapest such
//! set is wanted, in the order of [`Cost`]. The numbers of the cost are gone through from the lowest on (violations,
//! priority, pods within their entitlement, gangs, pods); at the first level that has a set, the youngest is found.
//!
//! *Why it is fast.* Units that are alike in all but age and name form a class, and a cheapest set takes the youngest
//! of a class: taking an older one instead changes nothing but its age. So units are gone through from the youngest on,
//! and at each there are two ways: it is taken, or its class is closed. A way is left as soon as what remains open
//! cannot give what is missing, by the largest gifts that the level still allows. Where one amount is short this bound
//! is exact, and the first way that is tried succeeds.
//!
//! *Why it is exact.* Of two sets of one size, the one that has the youngest pod in which they differ is cheaper, so a
//! set found first is replaced only by one that could be younger. Creation times have whole seconds in a cluster: where
//! several sets have the same times, a second pass of the same kind goes through names.
//!
//! *The bound.* A level is given up after [`STEPS_MAX`] steps, and a set that will do is taken without it being known
//! to be the cheapest. [`Found::at_least`] then says what the cheapest costs at least.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::fact::{Created, PodKey};
use crate::preempt::cost::{Cost, Counts};
use crate::preempt::reach::Reach;
use crate::sign::Sign;

/// The most steps on one level of violations and priority. A step looks at every class once; searches that are known
/// take fewer than a thousand.
pub(crate) const STEPS_MAX: u32 = 200_000;

/// So many levels are gone through one by one; of more, those that cannot do are skipped.
const FEW_LEVELS: usize = 4;

/// What goes as one: a pod, or a gang.
#[derive(Debug, Clone)]
pub(crate) struct Unit {
    /// Its pods, the youngest first, then by name.
    pub pods: Vec<(Created, PodKey)>,
    /// The highest of its pods'.
    pub priority: i32,
    /// How many of its pods are within their quota's entitlement.
    pub entitled: u32,
    /// It is a gang that falls below its minimum.
    pub is_gang: bool,
    /// It is a whole gang, or all who hold claims together.
    pub is_whole: bool,
    /// The gang that it is, or is a pod of, or those with whom it holds claims, which the second part says: nobody
    /// goes both with these and alone.
    pub gang: Option<(u32, bool)>,
    /// The budgets that select its pods, by number, with how many they select.
    pub budgets: Vec<(usize, u32)>,
    /// What its going gives, for each thing that is missing.
    pub gives: Vec<i128>,
    /// Units of one kind are alike in all that the rules look at.
    pub kind: u32,
    /// What it draws on, by number.
    pub sources: Vec<usize>,
}

/// What is drawn on, and the most that all who draw on it can give, for each thing that is missing.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    /// Sources of one family have no unit in common.
    pub family: usize,
    pub most: Vec<Option<i128>>,
}

/// Who may go, and what is missing.
#[derive(Debug, Clone, Default)]
pub(crate) struct Problem {
    pub units: Vec<Unit>,
    pub missing: Vec<i128>,
    /// By budget: how many pods it lets go.
    pub allowed: Vec<u32>,
    pub sources: Vec<Source>,
}

/// What is asked of a set beside amounts.
pub(crate) trait Rules {
    /// Whether these may go together. Any part of a set that may go may go.
    fn permits(&mut self, set: &[usize]) -> bool;

    /// Whether the claimant has its place once these are gone. Amounts are known to suffice.
    fn fits(&mut self, set: &[usize]) -> bool;

    /// Whether the set is not to be taken although it would do.
    fn is_vetoed(&mut self, set: &[usize]) -> bool;
}

/// The set that was found.
#[derive(Debug, Clone)]
pub(crate) struct Found {
    /// By position, ascending.
    pub set: Vec<usize>,
    pub cost: Cost,
    /// Where the bound on steps was reached: what the cheapest set costs at least.
    pub at_least: Option<Counts>,
}

impl Problem {
    /// How many of the pods pass over a budget.
    pub fn violations(&self, set: &[usize]) -> u32 {
        let mut taken = vec![0u32; self.allowed.len()];
        for (budget, count) in set.iter().flat_map(|unit| &self.units[*unit].budgets) {
            taken[*budget] += count;
        }
        taken.iter().zip(&self.allowed).map(|(taken, allowed)| taken.saturating_sub(*allowed)).sum()
    }

    pub fn cost(&self, set: &[usize]) -> Cost {
        let units = || set.iter().map(|unit| &self.units[*unit]);
        let mut created: Vec<Created> =
            units().flat_map(|unit| unit.pods.iter().map(|(created, _)| *created)).collect();
        created.sort_unstable_by(|a, b| b.cmp(a));
        let mut names: Vec<PodKey> = units().flat_map(|unit| unit.pods.iter().map(|(_, key)| key.clone())).collect();
        names.sort();
        let counts = Counts {
            violations: self.violations(set),
            priority: units().map(|unit| unit.priority).max().unwrap_or(i32::MIN),
            entitled: units().map(|unit| unit.entitled).sum(),
            gangs: units().filter(|unit| unit.is_gang).count() as u32,
            count: created.len() as u32,
        };
        Cost { counts, created, names }
    }

    /// Whether these give all that is missing.
    fn covers(&self, set: impl Iterator<Item = usize> + Clone) -> bool {
        let given = |at: usize| set.clone().map(|unit| self.units[unit].gives[at]).sum::<i128>();
        (0..self.missing.len()).all(|at| given(at) >= self.missing[at])
    }
}

/// The cheapest set, if there is one that is cheaper than `below`.
pub(crate) fn cheapest(problem: &Problem, rules: &mut dyn Rules, below: Option<&Cost>) -> Option<Found> {
    let mut priorities: Vec<i32> = problem.units.iter().map(|unit| unit.priority).collect();
    priorities.sort_unstable();
    priorities.dedup();
    let all: Vec<usize> = (0..problem.units.len()).collect();
    let worst = problem.violations(&all).min(below.map_or(u32::MAX, |below| below.counts.violations));
    let mut at_least = None;
    let mut violations = 0;
    while violations <= worst {
        let mut at = 0;
        while let Some(priority) = priorities.get(at).copied() {
            if below.is_some_and(|below| (violations, priority) > (below.counts.violations, below.counts.priority)) {
                break;
            }
            let mut level = Level::new(problem, rules, violations, priority);
            let found = level.run(below);
            let (exhausted, is_possible) = (level.exhausted, level.is_possible);
            if let Some(set) = found {
                let cost = problem.cost(&set);
                let is_cheaper = below.is_none_or(|below| cost < *below);
                return is_cheaper.then_some(Found { set, cost, at_least: at_least.or(exhausted) });
            }
            at_least = at_least.or(exhausted);
            at += 1;
            // Amounts of pods of higher priority are at hand at higher levels only: those that cannot do are skipped.
            if !is_possible && priorities.len() - at > FEW_LEVELS {
                at += priorities[at..].partition_point(|next| !could_do(problem, rules, violations, *next));
            }
        }
        violations += 1;
        let highest = priorities.last().copied().unwrap_or(i32::MAX);
        if worst.saturating_sub(violations) as usize > FEW_LEVELS && !could_do(problem, rules, violations, highest) {
            let (mut low, mut high) = (violations + 1, worst + 1);
            while low < high {
                let middle = low + (high - low) / 2;
                if could_do(problem, rules, middle, highest) {
                    high = middle;
                } else {
                    low = middle + 1;
                }
            }
            violations = low;
        }
    }
    None
}

/// Whether amounts allow a set with so many violations, of pods up to a priority.
fn could_do(problem: &Problem, rules: &mut dyn Rules, violations: u32, priority: i32) -> bool {
    let mut level = Level::new(problem, rules, violations, priority);
    level.allow_all();
    level.reach.is_possible()
}

/// What is chosen so far, and what is left of a level.
struct Level<'a> {
    problem: &'a Problem,
    rules: &'a mut dyn Rules,
    reach: Reach<'a>,
    /// The units of the level in the order in which they are gone through.
    order: Vec<usize>,
    chosen: Vec<usize>,
    /// How many of each creation time are still to be chosen, where names are gone through.
    times: Option<BTreeMap<Created, u32>>,
    best: Option<(Vec<Created>, Vec<usize>)>,
    steps: u32,
    /// Where the steps ran out.
    exhausted: Option<Counts>,
    /// Amounts allow a set of the level.
    is_possible: bool,
    priority: i32,
    violations: u32,
}

impl<'a> Level<'a> {
    fn new(problem: &'a Problem, rules: &'a mut dyn Rules, violations: u32, priority: i32) -> Self {
        let mut order: Vec<usize> =
            (0..problem.units.len()).filter(|unit| problem.units[*unit].priority <= priority).collect();
        order.sort_by(|a, b| {
            let pods = |unit: usize| problem.units[unit].pods.iter().map(|(created, key)| (Reverse(*created), key));
            pods(*a).cmp(pods(*b))
        });
        let reach = Reach::new(problem, &order, violations, false);
        Level {
            problem,
            rules,
            reach,
            order,
            chosen: Vec::new(),
            times: None,
            best: None,
            steps: 0,
            exhausted: None,
            is_possible: false,
            priority,
            violations,
        }
    }

    /// Lets all units be taken; says how many pods that are, how many within their entitlement and how many gangs.
    fn allow_all(&mut self) -> (u32, u32, u32) {
        let units = || self.order.iter().map(|unit| &self.problem.units[*unit]);
        let most: u32 = units().map(|unit| unit.pods.len() as u32).sum();
        let most_entitled: u32 = units().map(|unit| unit.entitled).sum();
        let most_gangs = units().filter(|unit| unit.is_gang).count() as u32;
        self.reach.limit(most, most_entitled, most_gangs);
        (most, most_entitled, most_gangs)
    }

    /// The cheapest set of the level.
    fn run(&mut self, below: Option<&Cost>) -> Option<Vec<usize>> {
        let (most, most_entitled, most_gangs) = self.allow_all();
        self.is_possible = self.reach.is_possible();
        if !self.is_possible {
            return None;
        }
        for entitled in 0..=most_entitled {
            self.reach.limit(most, entitled, most_gangs);
            if !self.reach.is_possible() {
                continue;
            }
            for gangs in 0..=most_gangs {
                self.reach.limit(most, entitled, gangs);
                if !self.reach.is_possible() {
                    continue;
                }
                let mut count = self.least_count(most, entitled, gangs);
                while count <= most {
                    let counts =
                        Counts { violations: self.violations, priority: self.priority, entitled, gangs, count };
                    if below.is_some_and(|below| counts > below.counts) {
                        break;
                    }
                    self.reach.limit(count, entitled, gangs);
                    self.descend(0);
                    if self.steps >= STEPS_MAX {
                        self.exhausted = Some(counts);
                        return self.best.take().map(|(_, set)| set).or_else(|| self.take_what_helps(most));
                    }
                    if let Some((times, set)) = self.best.take() {
                        return Some(self.first_by_name(times, set, counts));
                    }
                    count += 1;
                }
            }
        }
        None
    }

    /// The fewest pods that could do.
    fn least_count(&mut self, most: u32, entitled: u32, gangs: u32) -> u32 {
        let (mut low, mut high) = (1, most);
        while low < high {
            let middle = low + (high - low) / 2;
            self.reach.limit(middle, entitled, gangs);
            if self.reach.is_possible() {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        low
    }

    /// Goes through the units from a position on. What is found is in `best`.
    fn descend(&mut self, from: usize) {
        if self.reach.slots_left() == 0 {
            self.leaf();
            return;
        }
        let mut closed = Vec::new();
        for at in from..self.order.len() {
            let unit = self.order[at];
            if !self.reach.is_open(unit) || !self.has_times(unit) {
                continue;
            }
            self.steps += 1;
            if self.steps >= STEPS_MAX {
                break;
            }
            self.chosen.push(unit);
            if self.rules.permits(&self.chosen) {
                self.take(unit, Sign::Add);
                if self.reach.is_possible() {
                    self.descend(at + 1);
                }
                self.take(unit, Sign::Take);
            }
            self.chosen.pop();
            let is_final = self.times.is_some() && self.best.is_some();
            if self.steps >= STEPS_MAX || is_final {
                break;
            }
            closed.push(self.reach.close(unit));
            if !self.reach.is_possible() || !self.could_be_younger(at + 1) || !self.can_fill_times(at + 1) {
                break;
            }
        }
        closed.into_iter().for_each(|class| self.reach.reopen(class));
    }

    fn take(&mut self, unit: usize, sign: Sign) {
        self.reach.take(unit, sign);
        if let Some(times) = &mut self.times {
            for (created, _) in &self.problem.units[unit].pods {
                let left = times.entry(*created).or_default();
                *left = if sign.is_add() { *left - 1 } else { *left + 1 };
            }
        }
    }

    /// Whether the times of a unit's pods are still wanted.
    fn has_times(&self, unit: usize) -> bool {
        let Some(times) = &self.times else { return true };
        let pods = &self.problem.units[unit].pods;
        pods.iter().all(|(created, _)| {
            let wanted = pods.iter().filter(|(other, _)| other == created).count() as u32;
            times.get(created).is_some_and(|left| *left >= wanted)
        })
    }

    /// Whether those who remain have the times that are still wanted.
    fn can_fill_times(&self, from: usize) -> bool {
        let Some(times) = &self.times else { return true };
        let mut left = times.clone();
        left.retain(|_, left| *left > 0);
        for unit in self.order[from..].iter().filter(|unit| self.reach.is_open(**unit)) {
            for (created, _) in &self.problem.units[*unit].pods {
                if let Some(count) = left.get_mut(created) {
                    *count -= 1;
                    if *count == 0 {
                        left.remove(created);
                    }
                }
            }
            if left.is_empty() {
                return true;
            }
        }
        left.is_empty()
    }

    /// Whether a set with the chosen and the youngest of those who remain would be younger than the best.
    fn could_be_younger(&self, from: usize) -> bool {
        let Some((best, _)) = self.best.as_ref().filter(|_| self.times.is_none()) else { return true };
        let mut times: Vec<Created> = self.chosen_times();
        for unit in self.order[from..].iter().filter(|unit| self.reach.is_open(**unit)) {
            if times.len() >= best.len() {
                break;
            }
            let pods = &self.problem.units[*unit].pods;
            times.extend(pods.iter().map(|_| pods[0].0));
        }
        times.sort_unstable_by(|a, b| b.cmp(a));
        times > *best
    }

    fn chosen_times(&self) -> Vec<Created> {
        let pods = self.chosen.iter().flat_map(|unit| &self.problem.units[*unit].pods);
        pods.map(|(created, _)| *created).collect()
    }

    fn leaf(&mut self) {
        let mut times = self.chosen_times();
        times.sort_unstable_by(|a, b| b.cmp(a));
        if self.best.as_ref().is_some_and(|(best, _)| times <= *best) {
            return;
        }
        if self.will_do() {
            let mut set = self.chosen.clone();
            set.sort_unstable();
            self.best = Some((times, set));
        }
    }

    /// Whether the chosen give what is missing, none of them needlessly, and nothing speaks against them.
    fn will_do(&mut self) -> bool {
        let Level { problem, rules, chosen, .. } = self;
        if !problem.covers(chosen.iter().copied()) || !rules.fits(chosen) {
            return false;
        }
        let is_needless = |unit: usize, rules: &mut dyn Rules| {
            let others = || chosen.iter().copied().filter(move |other| *other != unit);
            problem.covers(others()) && rules.fits(&others().collect::<Vec<_>>())
        };
        !chosen.iter().any(|unit| is_needless(*unit, &mut **rules)) && !rules.is_vetoed(chosen)
    }

    /// Of all sets with the same counts and creation times, the first by names.
    fn first_by_name(&mut self, times: Vec<Created>, set: Vec<usize>, counts: Counts) -> Vec<usize> {
        let class = |unit: usize| self.reach.class(unit);
        let shares_time = |unit: &usize| self.problem.units[*unit].pods.iter().any(|(t, _)| times.contains(t));
        let classes: Vec<usize> = set.iter().map(|unit| class(*unit)).collect();
        let rivals = self.order.iter().filter(|unit| !set.contains(unit) && shares_time(unit));
        if rivals.into_iter().all(|unit| classes.iter().all(|chosen| *chosen == class(*unit))) {
            return set;
        }
        let smallest = |unit: usize| self.problem.units[unit].pods.iter().map(|(_, key)| key).min();
        self.order.sort_by(|a, b| smallest(*a).cmp(&smallest(*b)));
        self.reach = Reach::new(self.problem, &self.order, self.violations, true);
        self.reach.limit(counts.count, counts.entitled, counts.gangs);
        let mut wanted: BTreeMap<Created, u32> = BTreeMap::new();
        times.iter().for_each(|time| *wanted.entry(*time).or_default() += 1);
        self.times = Some(wanted);
        self.steps = 0;
        self.descend(0);
        self.times = None;
        if self.steps >= STEPS_MAX {
            self.exhausted = Some(counts);
        }
        self.best.take().map_or(set, |(_, set)| set)
    }

    /// Where the steps ran out: those who help, the cheapest first, less those who are not needed.
    fn take_what_helps(&mut self, most: u32) -> Option<Vec<usize>> {
        self.reach.limit(most, u32::MAX, u32::MAX);
        let mut order = self.order.clone();
        order.sort_by_key(|unit| {
            let unit = &self.problem.units[*unit];
            (unit.entitled > 0, unit.is_gang, unit.priority)
        });
        self.chosen.clear();
        for unit in &order {
            if self.problem.covers(self.chosen.iter().copied()) {
                break;
            }
            self.chosen.push(*unit);
            let is_allowed = self.problem.violations(&self.chosen) <= self.violations
                && !self.reach.excludes(&self.chosen)
                && self.rules.permits(&self.chosen);
            if !is_allowed {
                self.chosen.pop();
            }
        }
        for unit in self.chosen.clone().into_iter().rev() {
            let others = || self.chosen.iter().copied().filter(move |other| *other != unit);
            if self.problem.covers(others()) && self.rules.fits(&others().collect::<Vec<_>>()) {
                self.chosen = others().collect();
            }
        }
        self.will_do().then(|| {
            self.chosen.sort_unstable();
            std::mem::take(&mut self.chosen)
        })
    }
}

#[cfg(test)]
#[path = "search_tests.rs"]
mod tests;
