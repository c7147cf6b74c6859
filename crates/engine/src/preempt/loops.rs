//! Why evictions end.
//!
//! As long as nothing changes from outside, who took from whom is kept as a graph of classes: pods of the same quotas,
//! priority and size. A set of victims that would close a circle in it is not taken; the next is tried. So there is
//! always an order of the classes in which each takes from later ones only. Every eviction lets one more pod of a class
//! run and takes room from later classes alone: written in that order, the numbers of running pods grow, and they
//! cannot grow for ever, since as many pods exist as before (one that was evicted may come back, and is nothing new).
//!
//! A class of which no pod is left, and none comes back, is taken out of the graph: what is left over of it would keep
//! others from what they are entitled to. That happens once for each class at most, and until then and from then on
//! evictions end as above.
//!
//! What comes from outside (a pod that is new, or ends; a node; a quota) begins anew with an empty graph.

use std::collections::{BTreeMap, BTreeSet};

use crate::fact::{Amount, Name};
use crate::pods::Pod;
use crate::policy::QuotaId;
use crate::resources::ResourceId;

/// What makes pods alike in who may evict them and whom they may evict.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Class {
    pub quotas: Vec<QuotaId>,
    pub priority: i32,
    pub charge: Vec<(ResourceId, Amount)>,
}

/// The controller that makes a pod anew when it is gone.
type Owner = (Name, Name);

/// Who took from whom since something last changed from outside.
#[derive(Debug, Clone, Default)]
pub(crate) struct Takings {
    took_from: BTreeMap<Class, BTreeSet<Class>>,
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
        if !self.took_from.is_empty() || !self.expected.is_empty() {
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
        let lost: BTreeSet<&Class> = self.took_from.values().flatten().collect();
        let between = self.took_from.keys().filter(|class| lost.contains(class) && !self.returning.contains(class));
        between.cloned().collect()
    }

    /// There are no more pods of a class.
    pub fn forget(&mut self, class: &Class) {
        self.took_from.remove(class);
        for lost in self.took_from.values_mut() {
            lost.remove(class);
        }
    }

    /// Whether a circle would be closed if these took from those.
    pub fn closes_circle(&self, claimants: &BTreeSet<Class>, victims: &BTreeSet<Class>) -> bool {
        let mut seen: BTreeSet<&Class> = BTreeSet::new();
        let mut next: Vec<&Class> = victims.iter().collect();
        while let Some(class) = next.pop() {
            if claimants.contains(class) {
                return true;
            }
            if seen.insert(class) {
                next.extend(self.took_from.get(class).into_iter().flatten());
            }
        }
        false
    }

    /// Notes that these took from those.
    pub fn note(&mut self, claimants: &BTreeSet<Class>, victims: &BTreeSet<Class>) {
        debug_assert!(!self.closes_circle(claimants, victims), "who takes from whom is a graph without circles");
        for claimant in claimants {
            self.took_from.entry(claimant.clone()).or_default().extend(victims.iter().cloned());
        }
    }
}

fn owner(pod: &Pod) -> Option<Owner> {
    pod.owner.clone().map(|owner| (pod.namespace.clone(), owner))
}
