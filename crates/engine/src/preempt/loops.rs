//! Why evictions end.
//!
//! As long as nothing changes from outside, who took from whom is kept as a graph of classes: pods of the same quotas,
//! priority and size. A set of victims that would close a circle in it is not taken; the next is tried. So there is
//! always an order of the classes in which each takes from later ones only. Every eviction lets one more pod of a class
//! run and takes room from later classes alone: written in that order, the numbers of running pods grow, and they
//! cannot grow for ever, since as many pods exist as before (one that was evicted may come back, and is nothing new).
//!
//! *The weakest right gives way.* A circle that has a weaker right than the claimant's is opened there instead: that
//! class may no longer take from the other by a right of that strength, nor by a weaker one. Of two classes that
//! happens once for each strength at most, and between two such times evictions end as above. So a guarantee waits for
//! nothing but another guarantee.
//!
//! A class of which no pod is left, and none comes back, is taken out of the graph: what is left over of it would keep
//! others from what they are entitled to. That happens once for each class at most, and until then and from then on
//! evictions end as above.
//!
//! What comes from outside (a pod that is new, or ends; a node; a quota) begins anew with an empty graph.

use std::collections::{BTreeMap, BTreeSet};

use crate::fact::{Amount, Name};
use crate::pods::Pod;
use crate::policy::{QuotaId, Strength};
use crate::resources::ResourceId;

/// What makes pods alike in who may evict them and whom they may evict.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Class {
    pub quotas: Vec<QuotaId>,
    pub priority: i32,
    pub charge: Vec<(ResourceId, Amount)>,
}

/// Classes of victims, each with the strength of the right to them.
pub(crate) type Victims = BTreeMap<Class, Strength>;

/// The controller that makes a pod anew when it is gone.
type Owner = (Name, Name);

/// Who took from whom since something last changed from outside.
#[derive(Debug, Clone, Default)]
pub(crate) struct Takings {
    took_from: BTreeMap<Class, BTreeMap<Class, BTreeSet<Strength>>>,
    /// By which rights, the strongest, a class may take no more from another: it gave way to a stronger right.
    gave_way: BTreeMap<(Class, Class), Strength>,
    /// How many pods of a controller were evicted, or went because of that, and have not come back.
    expected: BTreeMap<Owner, u32>,
    /// The classes of those pods: they are not at an end.
    returning: BTreeSet<Class>,
    /// A pod that does not come back is gone since classes were last looked through.
    may_have_ended: bool,
}

impl Takings {
    /// Something changed from outside.
    pub fn begin_anew(&mut self) {
        // Most often there is nothing to forget.
        if !self.took_from.is_empty() || !self.expected.is_empty() || !self.gave_way.is_empty() {
            *self = Takings::default();
        }
    }

    /// A pod was evicted, or goes because another of its controller was.
    pub fn expect(&mut self, pod: &Pod, class: impl FnOnce() -> Class) {
        if let Some(owner) = owner(pod) {
            *self.expected.entry(owner).or_default() += 1;
            self.returning.insert(class());
        }
    }

    /// A pod comes: it is nothing new if one of its controller's was evicted.
    pub fn pod_comes(&mut self, pod: &Pod) {
        let expected = owner(pod).and_then(|owner| self.expected.get_mut(&owner)).filter(|count| **count > 0);
        match expected {
            Some(count) => *count -= 1,
            None => self.begin_anew(),
        }
    }

    /// A pod goes that was not evicted: that is nothing new if others of its controller were.
    pub fn pod_goes(&mut self, pod: &Pod, class: impl FnOnce() -> Class) {
        if owner(pod).is_some_and(|owner| self.expected.contains_key(&owner)) {
            self.expect(pod, class);
        } else {
            self.begin_anew();
        }
    }

    /// A pod that was evicted is gone.
    pub fn victim_gone(&mut self, pod: &Pod) {
        self.may_have_ended |= pod.owner.is_none();
    }

    /// The classes that may have come to an end and stand between others, if there are any to look for.
    pub fn doubtful(&mut self) -> BTreeSet<Class> {
        if !std::mem::take(&mut self.may_have_ended) {
            return BTreeSet::new();
        }
        let lost: BTreeSet<&Class> = self.took_from.values().flat_map(BTreeMap::keys).collect();
        let between = self.took_from.keys().filter(|class| lost.contains(class) && !self.returning.contains(class));
        between.cloned().collect()
    }

    /// There are no more pods of a class.
    pub fn forget(&mut self, class: &Class) {
        self.took_from.remove(class);
        for lost in self.took_from.values_mut() {
            lost.remove(class);
        }
        self.gave_way.retain(|(taker, lost), _| taker != class && lost != class);
    }

    /// Who keeps these from taking from those, each by a right of some strength: a class that, by rights which are not
    /// weaker, took from the claimants in the end, or to which the right gave way.
    pub fn keeps_from<'a>(&'a self, claimants: &'a BTreeSet<Class>, victims: &'a Victims) -> Option<&'a Class> {
        victims.iter().find_map(|(victim, strength)| {
            let has_given_way = |claimant: &Class| {
                let gave = self.gave_way.get(&(claimant.clone(), victim.clone()));
                gave.is_some_and(|gave| gave >= strength)
            };
            if claimants.contains(victim) || claimants.iter().any(has_given_way) {
                return Some(victim);
            }
            let mut seen: BTreeSet<&Class> = BTreeSet::new();
            let mut next: Vec<&Class> = vec![victim];
            while let Some(class) = next.pop() {
                if !seen.insert(class) {
                    continue;
                }
                for (lost, by) in self.took_from.get(class).into_iter().flatten() {
                    if by.last() >= Some(strength) {
                        if claimants.contains(lost) {
                            return Some(class);
                        }
                        next.push(lost);
                    }
                }
            }
            None
        })
    }

    /// Notes that these took from those.
    pub fn note(&mut self, claimants: &BTreeSet<Class>, victims: &Victims) {
        debug_assert!(self.keeps_from(claimants, victims).is_none(), "nobody keeps them from it");
        for (victim, strength) in victims {
            self.open_circles(claimants, victim, *strength);
        }
        for claimant in claimants {
            let took = self.took_from.entry(claimant.clone()).or_default();
            for (victim, strength) in victims {
                took.entry(victim.clone()).or_default().insert(*strength);
            }
        }
    }

    /// Opens all circles that these would close by taking from a class: weaker rights give way, the weakest first.
    fn open_circles(&mut self, claimants: &BTreeSet<Class>, victim: &Class, strength: Strength) {
        for weaker in Strength::ALL.into_iter().take_while(|weaker| *weaker < strength) {
            let after = self.reached_from(victim);
            if claimants.is_disjoint(&after) {
                return;
            }
            for (taker, lost) in self.on_the_way(&after, claimants) {
                let took = self.took_from.entry(taker.clone()).or_default();
                if took.get_mut(&lost).is_some_and(|by| by.remove(&weaker)) {
                    took.retain(|_, by| !by.is_empty());
                    let gave = self.gave_way.entry((taker, lost)).or_insert(weaker);
                    *gave = weaker.max(*gave);
                }
            }
        }
    }

    /// A class, those that it took from, those that these took from, and so on.
    fn reached_from(&self, class: &Class) -> BTreeSet<Class> {
        let mut seen = BTreeSet::new();
        let mut next = vec![class];
        while let Some(class) = next.pop() {
            if seen.insert(class.clone()) {
                next.extend(self.took_from.get(class).into_iter().flat_map(BTreeMap::keys));
            }
        }
        seen
    }

    /// Of the classes that are reached, who took from whom on a way to one of these.
    fn on_the_way(&self, reached: &BTreeSet<Class>, to: &BTreeSet<Class>) -> Vec<(Class, Class)> {
        let taken = |class: &Class| self.took_from.get(class).into_iter().flat_map(BTreeMap::keys);
        let mut ends: BTreeSet<&Class> = to.iter().collect();
        loop {
            let before = ends.len();
            let more: Vec<&Class> =
                reached.iter().filter(|class| taken(class).any(|lost| ends.contains(lost))).collect();
            ends.extend(more);
            if ends.len() == before {
                break;
            }
        }
        let ways = reached.iter().flat_map(|class| taken(class).map(move |lost| (class, lost)));
        ways.filter(|(_, lost)| ends.contains(lost)).map(|(class, lost)| (class.clone(), lost.clone())).collect()
    }
}

fn owner(pod: &Pod) -> Option<Owner> {
    pod.owner.clone().map(|owner| (pod.namespace.clone(), owner))
}
