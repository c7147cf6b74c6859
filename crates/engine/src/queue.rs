//! The pods that wait, in the order in which they are tried.
//!
//! Pods that cannot differ in whether they fit form a *group*: when one of them fails, all have failed. A group that
//! failed rests until something changes that could matter to it, so a cycle does not look at what has not changed.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::fact::{Created, Name};
use crate::lookup::LookupMap;
use crate::pods::{Pod, PodId};
use crate::quota::QuotaId;
use crate::quota::share::Share;
use crate::reason::Reason;
use crate::shape::ShapeId;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct GroupId(pub u32);

/// What makes waiting pods alike.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct GroupKey {
    pub shape: ShapeId,
    pub namespace: Name,
    /// The labels that some selector looks at.
    pub labels: Vec<(Name, Name)>,
    pub priority: i32,
    pub never_preempts: bool,
    pub quotas: Vec<QuotaId>,
    /// A pod that holds a claim is a group of its own.
    pub claimant: Option<PodId>,
}

/// A pod's place in the order: the least served quota first, then the higher priority, then the older, then by name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Turn {
    share: Share,
    priority: Reverse<i32>,
    created: Created,
    namespace: Name,
    name: Name,
    group: GroupId,
}

#[derive(Debug, Clone)]
struct Group {
    key: GroupKey,
    members: BTreeSet<(Created, Name, PodId)>,
    /// How well its quotas are served.
    share: Share,
    resting: bool,
    reason: Option<Arc<Reason>>,
}

impl Group {
    fn turn(&self, id: GroupId) -> Option<Turn> {
        let (created, name, _) = self.members.first()?;
        Some(Turn {
            share: self.share,
            priority: Reverse(self.key.priority),
            created: *created,
            namespace: self.key.namespace.clone(),
            name: name.clone(),
            group: id,
        })
    }
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Queue {
    groups: Vec<Option<Group>>,
    vacant: Vec<GroupId>,
    ids: LookupMap<GroupKey, GroupId>,
    awake: BTreeSet<Turn>,
    resting: BTreeSet<Turn>,
    /// The groups whose pods answer to a quota.
    by_quota: BTreeMap<QuotaId, BTreeSet<GroupId>>,
    /// Groups whose members have not all been told why they wait.
    untold: BTreeSet<GroupId>,
}

impl Queue {
    fn group(&self, id: GroupId) -> &Group {
        self.groups[id.0 as usize].as_ref().expect("a group is used only while it has members")
    }

    fn group_mut(&mut self, id: GroupId) -> &mut Group {
        self.groups[id.0 as usize].as_mut().expect("a group is used only while it has members")
    }

    fn unlist(&mut self, id: GroupId) {
        let group = self.group(id);
        if let Some(turn) = group.turn(id) {
            if group.resting {
                self.resting.remove(&turn)
            } else {
                self.awake.remove(&turn)
            };
        }
    }

    fn list(&mut self, id: GroupId) {
        let group = self.group(id);
        if let Some(turn) = group.turn(id) {
            if group.resting {
                self.resting.insert(turn)
            } else {
                self.awake.insert(turn)
            };
        }
    }

    /// Adds a pod. One that joins a group at rest rests with it, and has yet to be told why.
    pub fn insert(&mut self, pod: PodId, key: GroupKey, created: Created, name: &Name, share: Share) -> GroupId {
        let id = match self.ids.get(&key) {
            Some(id) => *id,
            None => {
                let members = BTreeSet::new();
                let group = Group { key: key.clone(), members, share, resting: false, reason: None };
                let id = match self.vacant.pop() {
                    Some(id) => {
                        self.groups[id.0 as usize] = Some(group);
                        id
                    }
                    None => {
                        self.groups.push(Some(group));
                        GroupId(self.groups.len() as u32 - 1)
                    }
                };
                for quota in &key.quotas {
                    self.by_quota.entry(*quota).or_default().insert(id);
                }
                self.ids.insert(key, id);
                id
            }
        };
        self.unlist(id);
        let group = self.group_mut(id);
        group.members.insert((created, name.clone(), pod));
        if group.resting {
            self.untold.insert(id);
        }
        self.list(id);
        id
    }

    pub fn remove(&mut self, pod: PodId, group: GroupId, created: Created, name: &Name) {
        self.unlist(group);
        let members = &mut self.group_mut(group).members;
        members.remove(&(created, name.clone(), pod));
        if members.is_empty() {
            let gone = self.groups[group.0 as usize].take().expect("it was just there");
            for quota in &gone.key.quotas {
                if let Some(groups) = self.by_quota.get_mut(quota) {
                    groups.remove(&group);
                    if groups.is_empty() {
                        self.by_quota.remove(quota);
                    }
                }
            }
            self.ids.remove(&gone.key);
            self.untold.remove(&group);
            self.vacant.push(group);
        } else {
            self.list(group);
        }
    }

    /// Takes in that a quota is served better or worse than before.
    pub fn quota_changed(&mut self, quota: QuotaId, share: impl Fn(&[QuotaId]) -> Share) {
        for id in self.by_quota.get(&quota).cloned().unwrap_or_default() {
            let new = share(&self.group(id).key.quotas);
            if self.group(id).share != new {
                self.unlist(id);
                self.group_mut(id).share = new;
                self.list(id);
            }
        }
    }

    /// The pod whose turn it is.
    pub fn first(&self) -> Option<(GroupId, PodId)> {
        let turn = self.awake.first()?;
        let (_, _, pod) = self.group(turn.group).members.first()?;
        Some((turn.group, *pod))
    }

    /// The group's pods cannot run now, and why.
    pub fn rest(&mut self, id: GroupId, reason: Arc<Reason>) {
        self.unlist(id);
        let group = self.group_mut(id);
        group.resting = true;
        group.reason = Some(reason);
        self.untold.insert(id);
        self.list(id);
    }

    /// Something changed that may matter to the group.
    pub fn wake(&mut self, id: GroupId) {
        if self.groups.get(id.0 as usize).is_some_and(|group| group.as_ref().is_some_and(|g| g.resting)) {
            self.unlist(id);
            self.group_mut(id).resting = false;
            self.list(id);
        }
    }

    /// Something changed that may matter to the pods of a quota. Returns whether one of them rested.
    pub fn wake_quota(&mut self, quota: QuotaId) -> bool {
        let groups = self.by_quota.get(&quota).cloned().unwrap_or_default();
        let resting: Vec<GroupId> = groups.into_iter().filter(|id| self.group(*id).resting).collect();
        resting.iter().for_each(|id| self.wake(*id));
        !resting.is_empty()
    }

    /// Something changed that may matter to all.
    pub fn wake_all(&mut self) {
        for turn in std::mem::take(&mut self.resting) {
            self.group_mut(turn.group).resting = false;
            self.awake.insert(turn);
        }
    }

    /// Pods that rest and may not have been told why, with the reason; by group in order of first pods.
    pub fn take_untold(&mut self) -> Vec<(PodId, Arc<Reason>)> {
        let mut groups: Vec<(Turn, GroupId)> = Vec::new();
        for id in std::mem::take(&mut self.untold) {
            let group = self.group(id);
            match group.turn(id) {
                Some(turn) if group.resting => groups.push((turn, id)),
                _ => {}
            }
        }
        groups.sort();
        let told = groups.iter().flat_map(|(_, id)| {
            let group = self.group(*id);
            let reason = group.reason.as_ref().expect("a group rests with a reason");
            group.members.iter().map(|(_, _, pod)| (*pod, reason.clone()))
        });
        told.collect()
    }

    /// Every pod that waits, in no order that means anything.
    pub fn members(&self) -> Vec<PodId> {
        let groups = self.groups.iter().flatten();
        groups.flat_map(|group| group.members.iter().map(|(_, _, pod)| *pod)).collect()
    }
}

/// The group that a waiting pod belongs to.
pub(crate) fn group_key(id: PodId, pod: &Pod, seen_keys: &[Name]) -> GroupKey {
    let mut labels: Vec<(Name, Name)> =
        seen_keys.iter().filter_map(|key| pod.labels.get(key).map(|value| (key.clone(), value.clone()))).collect();
    labels.sort();
    GroupKey {
        shape: pod.shape,
        namespace: pod.namespace.clone(),
        labels,
        priority: pod.priority,
        never_preempts: pod.never_preempts,
        quotas: pod.quotas.clone(),
        claimant: pod.claim.is_some().then_some(id),
    }
}
