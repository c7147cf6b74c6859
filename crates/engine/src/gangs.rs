//! Gangs: pods that start together or not at all.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::fact::{Amount, GroupFact, GroupKey, Name};
use crate::ledger::sums::Sums;
use crate::pods::{Pod, PodId, Pods};
use crate::policy::QuotaId;
use crate::reason::Reason;
use crate::resources::ResourceId;
use crate::sign::Sign;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct GangId(pub u32);

/// Pods of one group, and the group's object if it was seen.
#[derive(Debug, Clone, Default)]
pub(crate) struct Gang {
    pub key: GroupKey,
    /// `None` while pods name it and nobody has made it.
    pub fact: Option<GroupFact>,
    /// Pods that have not ended.
    pub members: BTreeSet<PodId>,
    /// How many have succeeded, as far as they count.
    pub succeeded: u32,
    /// It was let into its queue.
    pub admitted: bool,
    /// Why it waits, as it was last found.
    pub reason: Option<Arc<Reason>>,
    /// The queue in which `reserved` and `elastic` are counted.
    pub queue: Option<QuotaId>,
    /// What is kept in its queue until its pods hold it.
    pub reserved: Vec<(ResourceId, Amount)>,
    /// What its pods hold beyond what it takes to start.
    pub elastic: Vec<(ResourceId, Amount)>,
    /// The cards that it was let in with, by name.
    pub cards: Vec<(ResourceId, Amount)>,
    /// Its members that count as running, as they come and go.
    pub tally: GangTally,
}

/// Pods of a gang, counted: how many of each task, and what they hold.
#[derive(Debug, Clone, Default)]
pub(crate) struct GangTally {
    count: u32,
    by_task: BTreeMap<Option<Name>, u32>,
    held: Sums,
}

impl GangTally {
    /// Counts a pod that holds this much (or no longer).
    pub fn count(&mut self, pod: &Pod, charge: &[(ResourceId, Amount)], sign: Sign) {
        let of_task = self.by_task.entry(pod.task.clone()).or_default();
        if sign.is_add() {
            (self.count, *of_task) = (self.count + 1, *of_task + 1);
        } else {
            (self.count, *of_task) = (self.count - 1, *of_task - 1);
        }
        if *of_task == 0 {
            self.by_task.remove(&pod.task);
        }
        self.held.charge(charge, sign);
    }

    /// What they hold of a resource.
    pub fn held(&self, resource: ResourceId) -> i128 {
        self.held.get(resource)
    }

    /// Whether these are the same as those.
    pub fn is_same(&self, other: &GangTally) -> bool {
        self.count == other.count && self.by_task == other.by_task && self.held.nonzero().eq(other.held.nonzero())
    }

    /// How many there are.
    pub fn len(&self) -> u32 {
        self.count
    }

    fn of_task(&self, task: Option<&Name>) -> u32 {
        self.by_task.get(&task.cloned()).copied().unwrap_or(0)
    }
}

impl Gang {
    /// How many must be able to run. Members that succeeded have done their part: where enough are there with them, of
    /// those that have not ended no more need run than there are.
    pub fn min_member(&self) -> u32 {
        let declared = self.fact.as_ref().map_or(1, |fact| fact.min_member);
        let present = self.members.len() as u32;
        match self.succeeded > 0 && present.saturating_add(self.succeeded) >= declared {
            true => declared.min(present.max(1)),
            false => declared,
        }
    }

    /// Whether its pods on nodes are evicted together, whatever its minimum is.
    pub fn is_evicted_whole(&self) -> bool {
        self.tally.count > 1 && self.fact.as_ref().is_some_and(|fact| fact.evicted_whole)
    }

    pub fn min_of_task(&self, task: Option<&Name>) -> u32 {
        let minima = self.fact.iter().flat_map(|fact| &fact.min_task_member);
        minima.filter(|(name, _)| Some(name) == task).map(|(_, min)| *min).max().unwrap_or(0)
    }

    /// The tasks of which some must run, with how many.
    pub fn minima(&self) -> impl Iterator<Item = &(Name, u32)> {
        self.fact.iter().flat_map(|fact| &fact.min_task_member)
    }

    /// The members that count as running: on a node, and not on their way out.
    pub fn settled<'a>(&'a self, pods: &'a Pods) -> impl Iterator<Item = (PodId, &'a Pod)> {
        let members = self.members.iter().map(|id| (*id, pods.get(*id)));
        members.filter(|(_, pod)| pod.node().is_some() && !pod.is_leaving())
    }

    /// Whether enough of these would do.
    pub fn is_enough<'a>(&self, pods: impl Iterator<Item = &'a Pod>) -> bool {
        let mut tally = GangTally::default();
        pods.for_each(|pod| tally.count(pod, &[], Sign::Add));
        self.is_enough_of(&tally)
    }

    /// The same of pods that are counted.
    pub fn is_enough_of(&self, tally: &GangTally) -> bool {
        tally.count >= self.min_member() && self.minima().all(|(task, min)| tally.of_task(Some(task)) >= *min)
    }

    /// Whether one more pod of a task would bring these nearer to the minimum: of the task, or of any.
    pub fn needs(&self, task: Option<&Name>, tally: &GangTally) -> bool {
        if tally.of_task(task) < self.min_of_task(task) {
            return true;
        }
        let missing = self.minima().map(|(task, min)| u64::from(min.saturating_sub(tally.of_task(Some(task)))));
        u64::from(tally.count) + missing.sum::<u64>() < u64::from(self.min_member())
    }

    /// Whether its minimum runs.
    pub fn is_started(&self) -> bool {
        self.is_enough_of(&self.tally)
    }

    /// Whether its pods depend on each other. A group of which any one pod is enough is not a gang; where one pod of a
    /// certain task is, it is one as soon as pods of other tasks run beside it, which may not stay without that one.
    pub fn is_gang(&self) -> bool {
        let needed: u64 = self.minima().map(|(_, min)| u64::from(*min)).sum();
        let has_dependants =
            || self.minima().any(|(task, min)| *min > 0 && self.tally.of_task(Some(task)) < self.tally.count);
        self.min_member() > 1 || needed > 1 || has_dependants()
    }
}

/// All gangs.
#[derive(Debug, Clone, Default)]
pub(crate) struct Gangs {
    list: Vec<Option<Gang>>,
    vacant: Vec<GangId>,
    ids: BTreeMap<GroupKey, GangId>,
    /// How many pods of a group have succeeded, where its groups count that.
    succeeded: BTreeMap<GroupKey, u32>,
    /// The API groups that have no groups here.
    unserved: BTreeSet<Name>,
    /// Gangs of which something changed since their queues were last told.
    changed: BTreeSet<GangId>,
    /// Gangs that are not admitted yet.
    outside: BTreeSet<GangId>,
}

impl Gangs {
    pub fn get(&self, id: GangId) -> &Gang {
        self.list[id.0 as usize].as_ref().expect("a gang's number is used only while it is listed")
    }

    pub fn get_mut(&mut self, id: GangId) -> &mut Gang {
        self.list[id.0 as usize].as_mut().expect("a gang's number is used only while it is listed")
    }

    pub fn is_listed(&self, id: GangId) -> bool {
        self.list.get(id.0 as usize).is_some_and(Option::is_some)
    }

    pub fn find(&self, key: &GroupKey) -> Option<GangId> {
        self.ids.get(key).copied()
    }

    /// Notes how many pods of a group have succeeded. Returns whether there is such a group, of which that is new.
    pub fn note_succeeded(&mut self, key: GroupKey, count: u32) -> bool {
        let known = self.find(&key);
        match count {
            0 => self.succeeded.remove(&key),
            _ => self.succeeded.insert(key, count),
        };
        let Some(id) = known else { return false };
        self.changed.insert(id);
        std::mem::replace(&mut self.get_mut(id).succeeded, count) != count
    }

    /// Notes whether there can be groups of an API group. Returns whether that is new.
    pub fn note_served(&mut self, api_group: Name, served: bool) -> bool {
        if served { self.unserved.remove(&api_group) } else { self.unserved.insert(api_group) }
    }

    /// Whether pods name a group that cannot be there.
    pub fn is_unserved(&self, id: GangId) -> bool {
        let gang = self.get(id);
        gang.fact.is_none() && self.unserved.contains(&gang.key.api_group)
    }

    /// All gangs, by API group, namespace and name.
    pub fn iter(&self) -> impl Iterator<Item = (GangId, &Gang)> {
        self.ids.values().map(|id| (*id, self.get(*id)))
    }

    /// Counts a pod in its gang (or no longer), if it is one that counts as running.
    pub fn count(&mut self, pod: &Pod, charge: &[(ResourceId, Amount)], sign: Sign) {
        let Some(id) = pod.gang else { return };
        self.changed.insert(id);
        if pod.node().is_some() && !pod.is_leaving() {
            self.get_mut(id).tally.count(pod, charge, sign);
        }
    }

    /// Something changed of a gang that its queue has to be told.
    pub fn note_changed(&mut self, id: GangId) {
        self.changed.insert(id);
    }

    pub fn note_all_changed(&mut self) {
        self.changed.extend(self.ids.values());
    }

    /// The gangs that changed since this was last asked.
    pub fn take_changed(&mut self) -> BTreeSet<GangId> {
        std::mem::take(&mut self.changed)
    }

    /// The gangs that are not admitted yet.
    pub fn outside(&self) -> &BTreeSet<GangId> {
        &self.outside
    }

    /// Notes whether a gang waits to be admitted.
    pub fn set_outside(&mut self, id: GangId, is_outside: bool) {
        if is_outside {
            self.outside.insert(id);
        } else {
            self.outside.remove(&id);
        }
    }

    /// The number of a group, which is listed now if it was never named.
    pub fn number(&mut self, key: &GroupKey) -> GangId {
        if let Some(id) = self.find(key) {
            return id;
        }
        let succeeded = self.succeeded.get(key).copied().unwrap_or(0);
        let gang = Gang { key: key.clone(), succeeded, ..Gang::default() };
        let id = self.vacant.pop().unwrap_or_else(|| {
            self.list.push(None);
            GangId(self.list.len() as u32 - 1)
        });
        self.list[id.0 as usize] = Some(gang);
        self.ids.insert(key.clone(), id);
        id
    }

    /// Forgets a gang that has neither pods nor an object.
    pub fn forget_if_empty(&mut self, id: GangId) {
        let gang = self.get(id);
        if gang.fact.is_some() || !gang.members.is_empty() {
            return;
        }
        self.ids.remove(&gang.key.clone());
        self.list[id.0 as usize] = None;
        self.changed.remove(&id);
        self.outside.remove(&id);
        self.vacant.push(id);
    }

    /// The card that a gang's pods hold already, if one does, and whether they may hold different ones.
    pub fn card_of(&self, gang: Option<GangId>, pods: &Pods) -> (Option<ResourceId>, bool) {
        let Some(gang) = gang.map(|id| self.get(id)) else { return (None, false) };
        let mixed = gang.fact.as_ref().is_some_and(|fact| fact.mixed_cards);
        let held = gang.settled(pods).find_map(|(_, pod)| pod.cards.first().map(|(card, _)| *card));
        (held, mixed)
    }
}
