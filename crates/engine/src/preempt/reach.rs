//! What those who may still go could give at most: the bound of the search for victims.

use std::collections::BTreeMap;

use crate::fact::Created;
use crate::preempt::search::{Problem, Unit};
use crate::sign::Sign;

/// What all of a thing that is missing weighs: nothing gives more than that, so that products with counts of 32 bits
/// stay within 128.
const WEIGHT: i128 = 1 << 60;

/// Units that are alike in all but age and name.
#[derive(Debug, Clone)]
struct Class {
    unit: usize,
    /// How many of it are not taken.
    left: u32,
    pods: u32,
    closed: u32,
    /// What it gives of all that is missing, weighed together.
    weighs: i128,
}

/// What makes units alike.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key<'a> {
    kind: u32,
    priority: i32,
    entitled: u32,
    /// What goes whole is like no other.
    is_whole: Option<usize>,
    gang: Option<(u32, bool)>,
    budgets: &'a [(usize, u32)],
    gives: &'a [i128],
    sources: &'a [usize],
    /// Their ages, where names are gone through.
    times: Vec<Created>,
}

pub(super) struct Reach<'a> {
    problem: &'a Problem,
    classes: Vec<Class>,
    /// By unit; those of no class here are not asked about.
    class_of: Vec<usize>,
    /// For each thing that is missing, and for all weighed together: the classes, what gives most for each pod first.
    by_gift: Vec<Vec<usize>>,
    /// What each thing that is missing weighs. Any weights give a bound; these make all of them count alike.
    weights: Vec<i128>,
    violations: u32,
    /// What is still missing.
    need: Vec<i128>,
    slots: u32,
    entitled: u32,
    gangs: u32,
    /// What was taken: by budget, and by gang whether whole, with how many units.
    taken: Vec<u32>,
    of_gang: BTreeMap<(u32, bool), (u32, u32)>,
    used: (u32, u32, u32),
}

impl<'a> Reach<'a> {
    pub fn new(problem: &'a Problem, order: &[usize], violations: u32, by_name: bool) -> Self {
        let mut ids: BTreeMap<Key<'a>, usize> = BTreeMap::new();
        let weights: Vec<i128> = problem.missing.iter().map(|missing| WEIGHT / (*missing).max(1)).collect();
        let mut classes: Vec<Class> = Vec::new();
        let mut class_of = vec![usize::MAX; problem.units.len()];
        for unit in order {
            let Unit { pods, priority, entitled, is_whole, gang, budgets, gives, kind, sources, .. } =
                &problem.units[*unit];
            let times = if by_name { pods.iter().map(|(created, _)| *created).collect() } else { Vec::new() };
            let is_whole = is_whole.then_some(*unit);
            let (kind, priority, entitled, gang) = (*kind, *priority, *entitled, *gang);
            let key = Key { kind, priority, entitled, is_whole, gang, budgets, gives, sources, times };
            let class = *ids.entry(key).or_insert_with(|| {
                let weighs = weigh(gives, &problem.missing, &weights);
                classes.push(Class { unit: *unit, left: 0, pods: pods.len() as u32, closed: 0, weighs });
                classes.len() - 1
            });
            classes[class].left += 1;
            class_of[*unit] = class;
        }
        let kinds = problem.missing.len() + usize::from(problem.missing.len() > 1);
        let by_gift = (0..kinds).map(|at| {
            let gift = |class: &usize| problem.gift(&classes[*class], at);
            let mut order: Vec<usize> = (0..classes.len()).filter(|class| gift(class) > 0).collect();
            // By gift for each pod; products of amounts of 64 bits and counts of 32 stay within 128.
            order.sort_by(|a, b| {
                let (x, y) = (&classes[*a], &classes[*b]);
                (gift(b) * i128::from(x.pods)).cmp(&(gift(a) * i128::from(y.pods)))
            });
            order
        });
        Reach {
            problem,
            by_gift: by_gift.collect(),
            weights,
            classes,
            class_of,
            violations,
            need: problem.missing.clone(),
            slots: 0,
            entitled: 0,
            gangs: 0,
            taken: vec![0; problem.allowed.len()],
            of_gang: BTreeMap::new(),
            used: (0, 0, 0),
        }
    }

    /// Sets what may be taken in all.
    pub fn limit(&mut self, slots: u32, entitled: u32, gangs: u32) {
        (self.slots, self.entitled, self.gangs) = (slots, entitled, gangs);
    }

    pub fn slots_left(&self) -> u32 {
        self.slots - self.used.0
    }

    pub fn class(&self, unit: usize) -> usize {
        self.class_of[unit]
    }

    /// Takes a unit (or puts it back).
    pub fn take(&mut self, unit: usize, sign: Sign) {
        let known = &self.problem.units[unit];
        let class = &mut self.classes[self.class_of[unit]];
        let count = |to: &mut u32, by: u32| *to = if sign.is_add() { *to + by } else { *to - by };
        class.left = if sign.is_add() { class.left - 1 } else { class.left + 1 };
        known.budgets.iter().for_each(|(budget, pods)| count(&mut self.taken[*budget], *pods));
        self.need.iter_mut().zip(&known.gives).for_each(|(need, gives)| *need -= sign.of(*gives));
        count(&mut self.used.0, known.pods.len() as u32);
        count(&mut self.used.1, known.entitled);
        count(&mut self.used.2, u32::from(known.is_gang));
        if let Some(gang) = known.gang {
            let taken = self.of_gang.entry(gang).or_default();
            count(if known.is_whole { &mut taken.0 } else { &mut taken.1 }, 1);
        }
    }

    /// Closes the class of a unit.
    pub fn close(&mut self, unit: usize) -> usize {
        let class = self.class_of[unit];
        self.classes[class].closed += 1;
        class
    }

    pub fn reopen(&mut self, class: usize) {
        self.classes[class].closed -= 1;
    }

    /// Whether a unit may still be taken.
    pub fn is_open(&self, unit: usize) -> bool {
        let class = &self.classes[self.class_of[unit]];
        class.closed == 0 && self.is_takeable(unit)
    }

    fn is_takeable(&self, unit: usize) -> bool {
        let unit = &self.problem.units[unit];
        let (slots, entitled, gangs) = self.used;
        let taken = unit.gang.and_then(|gang| self.of_gang.get(&gang)).copied().unwrap_or_default();
        let excluded = taken.0 > 0 || (unit.is_whole && taken.1 > 0);
        !excluded
            && slots + unit.pods.len() as u32 <= self.slots
            && entitled + unit.entitled <= self.entitled
            && gangs + u32::from(unit.is_gang) <= self.gangs
            && self.excess_with(&unit.budgets) <= self.violations
    }

    /// Whether a set has a pod both alone and with its gang.
    pub fn excludes(&self, set: &[usize]) -> bool {
        let units = || set.iter().map(|unit| &self.problem.units[*unit]);
        units().filter(|unit| unit.is_whole).any(|gang| units().filter(|unit| unit.gang == gang.gang).count() > 1)
    }

    /// The violations so far, with those of one more unit.
    fn excess_with(&self, budgets: &[(usize, u32)]) -> u32 {
        let over = |(budget, taken): (usize, &u32)| {
            let more: u32 = budgets.iter().filter(|(of, _)| *of == budget).map(|(_, pods)| *pods).sum();
            (taken + more).saturating_sub(self.problem.allowed[budget])
        };
        self.taken.iter().enumerate().map(over).sum()
    }

    /// Whether those who remain could give what is still missing.
    pub fn is_possible(&self) -> bool {
        self.is_each_possible() && self.are_all_possible()
    }

    /// Whether they could give enough of all that is missing, weighed together: who gives much of one thing gives
    /// little of another.
    fn are_all_possible(&self) -> bool {
        if self.need.len() < 2 {
            return true;
        }
        let need: i128 = self.need.iter().zip(&self.weights).map(|(need, weight)| (*need).max(0) * weight).sum();
        let at = self.need.len();
        need <= 0 || self.most_by_budgets(at, need) >= need && self.most_by_entitlement(at, need) >= need
    }

    fn is_each_possible(&self) -> bool {
        (0..self.need.len()).all(|at| {
            let need = self.need[at];
            need <= 0
                || self.most_by_budgets(at, need) >= need
                    && self.most_by_entitlement(at, need) >= need
                    && self.most_by_sources(at) >= self.problem.missing[at]
        })
    }

    /// The classes that could give something, with how many units and what each gives.
    fn gifts(&self, at: usize) -> impl Iterator<Item = (&Class, &Unit, i128)> {
        let classes = self.by_gift[at].iter().map(|class| &self.classes[*class]);
        let open = classes.filter(|class| class.left > 0 && class.closed == 0 && self.is_takeable(class.unit));
        open.map(move |class| {
            let unit = &self.problem.units[class.unit];
            (class, unit, self.problem.gift(class, at))
        })
    }

    /// The most that could be had with the slots that are left, and without more violations. Of a unit's budgets the
    /// first alone is looked at, and of a gang none: then the largest gifts first are the most.
    fn most_by_budgets(&self, at: usize, need: i128) -> i128 {
        let mut slots = self.slots_left();
        let mut left: Vec<u32> = self
            .taken
            .iter()
            .zip(&self.problem.allowed)
            .map(|(taken, allowed)| allowed.saturating_sub(*taken))
            .collect();
        let mut spare = self.violations.saturating_sub(self.excess_with(&[]));
        let mut sum = 0;
        for (class, unit, gift) in self.gifts(at) {
            if slots == 0 || sum >= need {
                break;
            }
            let mut units = class.left;
            if let (1, Some((budget, _))) = (class.pods, unit.budgets.first()) {
                units = units.min(left[*budget].saturating_add(spare));
                let free = units.min(left[*budget]).min(slots);
                left[*budget] -= free;
                spare -= units.min(slots) - free;
            }
            sum += fill(class.pods, units, gift, &mut slots);
        }
        sum
    }

    /// The most that could be had with so many within their entitlement.
    fn most_by_entitlement(&self, at: usize, need: i128) -> i128 {
        let mut slots = self.slots_left();
        let mut entitled = self.entitled.saturating_sub(self.used.1);
        let mut sum = 0;
        for (class, unit, gift) in self.gifts(at) {
            if slots == 0 || sum >= need {
                break;
            }
            let mut units = class.left;
            if class.pods == 1 && unit.entitled > 0 {
                units = units.min(entitled);
                entitled -= units.min(slots);
            }
            sum += fill(class.pods, units, gift, &mut slots);
        }
        sum
    }

    /// The most that could be had of all, taken or not, by what is drawn on.
    fn most_by_sources(&self, at: usize) -> i128 {
        let families = self.problem.sources.iter().map(|source| source.family + 1).max().unwrap_or(0);
        let given = self.problem.missing[at] - self.need[at];
        let mut least = i128::MAX;
        let mut by_source = vec![0; self.problem.sources.len()];
        for family in 0..families {
            let mut sum_of_others = 0;
            for (class, unit, gift) in self.gifts(at) {
                let source = unit.sources.iter().copied().find(|source| self.problem.sources[*source].family == family);
                *source.map_or(&mut sum_of_others, |source| &mut by_source[source]) += gift * i128::from(class.left);
            }
            let most = by_source.iter_mut().zip(&self.problem.sources).map(|(sum, source)| {
                let sum = std::mem::take(sum);
                source.most[at].map_or(sum, |most| sum.min(most))
            });
            least = least.min((sum_of_others + most.sum::<i128>()).saturating_add(given));
        }
        least
    }
}

impl Problem {
    /// What a unit of a class gives of something that is missing, or of all of it, weighed together.
    fn gift(&self, class: &Class, at: usize) -> i128 {
        self.units[class.unit].gives.get(at).copied().unwrap_or(class.weighs)
    }
}

/// What something gives of all that is missing, weighed together; of none more than is missing.
fn weigh(gives: &[i128], missing: &[i128], weights: &[i128]) -> i128 {
    let all = gives.iter().zip(missing).zip(weights);
    all.map(|((gives, missing), weight)| (*gives).min(*missing) * weight).sum()
}

/// What so many units give within the slots that are left; the last may count in part.
fn fill(pods: u32, units: u32, gift: i128, slots: &mut u32) -> i128 {
    let whole = units.min(*slots / pods);
    *slots -= whole * pods;
    let mut sum = gift * i128::from(whole);
    if whole < units && *slots > 0 && pods > 1 {
        sum += (gift * i128::from(*slots)).div_euclid(i128::from(pods)) + 1;
        *slots = 0;
    }
    sum
}
