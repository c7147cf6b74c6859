//! Gangs: pods that start together or not at all.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::fact::{Amount, Counting, GroupFact, GroupKey, Name, RequestProblem};
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
    /// What its object says; `None` while pods name it and nobody has made it.
    pub declared: Option<GroupFact>,
    /// What holds of it: what its object says, or else its oldest pod, or the groups of which it is made.
    pub fact: Option<GroupFact>,
    /// Pods that have not ended.
    pub members: BTreeSet<PodId>,
    /// Pods that name it: its members, or those of the bundle that it is part of.
    pub named_by: BTreeSet<PodId>,
    /// The gang of all groups that start together with it.
    pub bundle: Option<GangId>,
    /// The groups that this gang is made of, where it is such a bundle.
    pub parts: Vec<GroupKey>,
    /// Why it cannot start with its partners: their lists differ.
    pub at_odds: Option<RequestProblem>,
    /// Of its partners, the first that does not exist.
    pub missing_partner: Option<GroupKey>,
    /// Its minimum ran once.
    pub has_started: bool,
    /// The members that ran when its turn began, while it is its turn, where those do not count.
    pub set_aside: Option<GangTally>,
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
        let of_task = self.by_task.entry(pod.role.clone()).or_default();
        if sign.is_add() {
            (self.count, *of_task) = (self.count + 1, *of_task + 1);
        } else {
            (self.count, *of_task) = (self.count - 1, *of_task - 1);
        }
        if *of_task == 0 {
            self.by_task.remove(&pod.role);
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
        let present = self.named_by.len() as u32;
        match self.succeeded > 0
            && self.counting() != Counting::WaitingOnly
            && present.saturating_add(self.succeeded) >= declared
        {
            true => declared.min(present.max(1)),
            false => declared,
        }
    }

    /// Whether enough of its pods have succeeded, and none is left.
    pub fn is_over(&self) -> bool {
        let declared = self.fact.as_ref().map_or(1, |fact| fact.min_member);
        self.named_by.is_empty() && self.succeeded >= declared
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
        self.counted(tally) >= self.min_member()
            && self.minima().all(|(task, min)| self.counted_of(tally, Some(task)) >= *min)
    }

    /// How many of these count.
    pub fn counted(&self, tally: &GangTally) -> u32 {
        tally.count - self.set_aside.as_ref().map_or(0, |aside| aside.count)
    }

    fn counted_of(&self, tally: &GangTally, task: Option<&Name>) -> u32 {
        tally.of_task(task) - self.set_aside.as_ref().map_or(0, |aside| aside.of_task(task))
    }

    /// Which members count when it starts.
    pub fn counting(&self) -> Counting {
        self.fact.as_ref().map_or(Counting::default(), |fact| fact.counting)
    }

    /// Whether its pods start one by one as things stand.
    pub fn is_released(&self) -> bool {
        match self.counting() {
            Counting::Once => {
                let says_so = self.fact.as_ref().is_some_and(|fact| fact.has_started);
                self.has_started || says_so || self.succeeded > 0 || self.is_started()
            }
            Counting::RunningToo => self.is_started(),
            Counting::WaitingOnly => false,
        }
    }

    /// Whether nothing can be made of what it says, or of what its partners say.
    pub fn is_unreadable(&self) -> bool {
        let is_problem = self.fact.as_ref().is_none_or(|fact| fact.problem.is_some());
        is_problem || self.at_odds.is_some() || self.missing_partner.is_some()
    }

    /// Whether one more pod of a task would bring these nearer to the minimum: of the task, or of any.
    pub fn needs(&self, task: Option<&Name>, tally: &GangTally) -> bool {
        if self.counted_of(tally, task) < self.min_of_task(task) {
            return true;
        }
        let of_task = |task| self.counted_of(tally, Some(task));
        let missing = self.minima().map(|(task, min)| u64::from(min.saturating_sub(of_task(task))));
        u64::from(self.counted(tally)) + missing.sum::<u64>() < u64::from(self.min_member())
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
    /// The groups that name a group as one that starts with them.
    partners: BTreeMap<GroupKey, BTreeSet<GroupKey>>,
    /// Groups of which it is to be worked out again what their pods say, and with which others they start.
    unsettled: BTreeSet<GroupKey>,
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
        self.note_unsettled_partner(id);
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

    /// Notes with which groups one starts now, and which it concerns.
    pub fn note_partners(&mut self, key: &GroupKey, old: &[GroupKey], new: &[GroupKey]) {
        for partner in old {
            if let Some(names) = self.partners.get_mut(partner) {
                names.remove(key);
                if names.is_empty() {
                    self.partners.remove(partner);
                }
            }
        }
        for partner in new {
            self.partners.entry(partner.clone()).or_default().insert(key.clone());
        }
        let named_by = self.partners.get(key).into_iter().flatten().cloned();
        let concerned: Vec<GroupKey> = named_by.chain(old.iter().chain(new).cloned()).collect();
        if !concerned.is_empty() {
            self.unsettled.extend(concerned);
            self.unsettled.insert(key.clone());
        }
    }

    /// The groups that name one as their partner.
    pub fn naming(&self, key: &GroupKey) -> impl Iterator<Item = &GroupKey> {
        self.partners.get(key).into_iter().flatten()
    }

    /// Notes that what pods say of a group is to be looked at again.
    pub fn note_unsettled(&mut self, id: GangId) {
        let key = self.get(id).key.clone();
        self.unsettled.insert(key);
    }

    /// The same where a group has partners: what all of them need together may have changed.
    pub fn note_unsettled_partner(&mut self, id: GangId) {
        if self.get(id).bundle.is_some() {
            self.note_unsettled(id);
        }
    }

    /// The groups that are to be looked at again, since this was last asked.
    pub fn take_unsettled(&mut self) -> BTreeSet<GroupKey> {
        std::mem::take(&mut self.unsettled)
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
        if gang.fact.is_some() || !gang.members.is_empty() || !gang.named_by.is_empty() {
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
