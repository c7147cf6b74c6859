//! The pods that wait, in the order in which they are tried.
//!
//! Pods that cannot differ in whether they fit form a *group*: when one of them fails, all have failed. A group that
//! failed rests until something changes that could matter to it, so a cycle does not look at what has not changed.
//!
//! Groups whose pods answer to the same quotas stand in one *line*: they are served alike, so when a quota is served
//! better or worse only its lines change places, and not every group in them.

use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::fact::{Created, Name};
use crate::gangs::GangId;
use crate::ledger::share::Share;
use crate::lookup::LookupMap;
use crate::pods::{Pod, PodId};
use crate::policy::QuotaId;
use crate::reason::{Code, Reason};
use crate::shape::ShapeId;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct GroupId(pub u32);

/// A member of a group of pods that are alike, by age.
pub(crate) type MemberKey = (Created, Name, PodId);

/// When a pod has its turn: its place among all pods that wait, and among those that answer to the same quotas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Turn {
    pub place: usize,
    pub of: usize,
    pub place_in_quota: usize,
    pub of_quota: usize,
}

/// What makes waiting pods alike.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct GroupKey {
    pub shape: ShapeId,
    pub namespace: Name,
    /// The labels that some selector looks at.
    pub labels: Vec<(Name, Name)>,
    pub priority: i32,
    pub never_preempts: bool,
    pub non_preemptible: bool,
    pub quotas: Vec<QuotaId>,
    pub membership_error: Option<(Code, Name)>,
    /// Pods of a gang are alike to no others: they wait for each other. Nor are those of its different parts.
    pub gang: Option<GangId>,
    pub role: Option<Name>,
    /// A pod that holds a reservation is a group of its own.
    pub claimant: Option<PodId>,
}

/// A pod's place in its line: the higher priority first, then the older, then by name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Position {
    priority: Reverse<i32>,
    created: Created,
    namespace: Name,
    name: Name,
    group: GroupId,
}

#[derive(Debug, Clone)]
struct PodClass {
    key: GroupKey,
    members: BTreeSet<MemberKey>,
    state: State,
    reason: Option<Arc<Reason>>,
    /// The quotas that it waits for to be able to hold more.
    gates: Vec<QuotaId>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Awake,
    Rests,
    /// It rests because pods leave for it; what others reserve does not matter to it.
    AwaitsVictims,
}

/// The groups of pods that answer to the same quotas.
#[derive(Debug, Clone)]
struct Line {
    /// How well the quotas are served.
    share: Share,
    awake: BTreeSet<Position>,
    groups: usize,
}

impl PodClass {
    fn position(&self, id: GroupId) -> Option<Position> {
        let (created, name, _) = self.members.first()?;
        Some(Position {
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
    groups: Vec<Option<PodClass>>,
    vacant: Vec<GroupId>,
    ids: LookupMap<GroupKey, GroupId>,
    /// By the quotas that the pods answer to.
    lines: BTreeMap<Vec<QuotaId>, Line>,
    /// The first of each line, the line of the least served quotas first.
    heads: BTreeSet<(Share, Position)>,
    resting: BTreeSet<GroupId>,
    awaiting: BTreeSet<GroupId>,
    /// The lines that a quota's pods stand in.
    lines_of: BTreeMap<QuotaId, BTreeSet<Vec<QuotaId>>>,
    /// The groups whose pods answer to a quota.
    by_quota: BTreeMap<QuotaId, BTreeSet<GroupId>>,
    /// The groups that wait for a quota to be able to hold more.
    gated: BTreeMap<QuotaId, BTreeSet<GroupId>>,
    /// Groups whose members have not all been told why they wait.
    untold: BTreeSet<GroupId>,
}

impl Queue {
    fn group(&self, id: GroupId) -> &PodClass {
        self.groups[id.0 as usize].as_ref().expect("a group is used only while it has members")
    }

    fn group_mut(&mut self, id: GroupId) -> &mut PodClass {
        self.groups[id.0 as usize].as_mut().expect("a group is used only while it has members")
    }

    fn unlist(&mut self, id: GroupId) {
        let Queue { groups, lines, heads, resting, awaiting, .. } = self;
        let group = groups[id.0 as usize].as_ref().expect("a group is used only while it has members");
        match group.state {
            State::Rests => resting.remove(&id),
            State::AwaitsVictims => awaiting.remove(&id),
            State::Awake => {
                let Some(turn) = group.position(id) else { return };
                let line = lines.get_mut(&group.key.quotas).expect("a line is there while it has groups");
                let was_first = line.awake.first() == Some(&turn);
                let was_there = line.awake.remove(&turn);
                if was_first {
                    heads.remove(&(line.share, turn));
                    heads.extend(line.awake.first().map(|next| (line.share, next.clone())));
                }
                was_there
            }
        };
    }

    fn list(&mut self, id: GroupId) {
        let Queue { groups, lines, heads, resting, awaiting, .. } = self;
        let group = groups[id.0 as usize].as_ref().expect("a group is used only while it has members");
        match group.state {
            State::Rests => resting.insert(id),
            State::AwaitsVictims => awaiting.insert(id),
            State::Awake => {
                let Some(turn) = group.position(id) else { return };
                let line = lines.get_mut(&group.key.quotas).expect("a line is there while it has groups");
                if line.awake.first().is_none_or(|first| turn < *first) {
                    if let Some(first) = line.awake.first() {
                        heads.remove(&(line.share, first.clone()));
                    }
                    heads.insert((line.share, turn.clone()));
                }
                line.awake.insert(turn)
            }
        };
    }

    fn join_line(&mut self, quotas: &[QuotaId], share: Share) {
        if let Some(line) = self.lines.get_mut(quotas) {
            line.groups += 1;
            return;
        }
        self.lines.insert(quotas.to_vec(), Line { share, awake: BTreeSet::new(), groups: 1 });
        for quota in quotas {
            self.lines_of.entry(*quota).or_default().insert(quotas.to_vec());
        }
    }

    /// A group that is listed no more leaves its line, and the last closes it.
    fn leave_line(&mut self, quotas: &[QuotaId]) {
        let line = self.lines.get_mut(quotas).expect("a line is there while it has groups");
        line.groups -= 1;
        if line.groups > 0 {
            return;
        }
        self.lines.remove(quotas);
        for quota in quotas {
            if let Some(lines) = self.lines_of.get_mut(quota) {
                lines.remove(quotas);
                if lines.is_empty() {
                    self.lines_of.remove(quota);
                }
            }
        }
    }

    /// Adds a pod. One that joins a group at rest rests with it, and has yet to be told why.
    pub fn insert(&mut self, pod: PodId, key: GroupKey, created: Created, name: &Name, share: Share) -> GroupId {
        let id = match self.ids.get(&key) {
            Some(id) => *id,
            None => {
                let members = BTreeSet::new();
                let group =
                    PodClass { key: key.clone(), members, state: State::Awake, reason: None, gates: Vec::new() };
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
                self.join_line(&key.quotas, share);
                for quota in &key.quotas {
                    self.by_quota.entry(*quota).or_default().insert(id);
                }
                self.ids.insert(key, id);
                id
            }
        };
        let member = (created, name.clone(), pod);
        let group = self.group_mut(id);
        if group.state != State::Awake {
            group.members.insert(member);
            self.untold.insert(id);
            return id; // Those at rest are listed by number, whoever is first.
        }
        // A group stands where its first member does.
        if group.members.first().is_some_and(|first| *first < member) {
            group.members.insert(member);
            return id;
        }
        self.unlist(id);
        self.group_mut(id).members.insert(member);
        self.list(id);
        id
    }

    pub fn remove(&mut self, pod: PodId, group: GroupId, created: Created, name: &Name) {
        self.unlist(group);
        let members = &mut self.group_mut(group).members;
        members.remove(&(created, name.clone(), pod));
        if members.is_empty() {
            self.leave_gates(group);
            let gone = self.groups[group.0 as usize].take().expect("it was just there");
            self.leave_line(&gone.key.quotas);
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
        let Queue { lines, heads, lines_of, .. } = self;
        for quotas in lines_of.get(&quota).into_iter().flatten() {
            let line = lines.get_mut(quotas).expect("a line is there while it has groups");
            let new = share(quotas);
            if line.share == new {
                continue;
            }
            if let Some(first) = line.awake.first() {
                heads.remove(&(line.share, first.clone()));
                heads.insert((new, first.clone()));
            }
            line.share = new;
        }
    }

    /// The pod whose turn it is.
    pub fn first(&self) -> Option<(GroupId, PodId)> {
        let (_, turn) = self.heads.first()?;
        let (_, _, pod) = self.group(turn.group).members.first()?;
        Some((turn.group, *pod))
    }

    /// The quotas of those whose turn may be next, if they are few.
    pub fn next_quotas(&self, most: usize) -> Option<Vec<QuotaId>> {
        let quotas = |(_, turn): &(Share, Position)| self.group(turn.group).key.quotas.clone();
        (self.heads.len() <= most).then(|| self.heads.iter().flat_map(quotas).collect())
    }

    /// The quotas that waiting pods answer to.
    pub fn quotas(&self) -> impl Iterator<Item = QuotaId> + '_ {
        self.by_quota.keys().copied()
    }

    /// The group's pods cannot run now, and why; nor before one of these quotas may hold more, unless something else
    /// changes.
    pub fn rest(&mut self, id: GroupId, reason: Arc<Reason>, gates: Vec<QuotaId>) {
        self.lay_down(id, reason, State::Rests, gates);
    }

    /// Pods leave for the group's pod, and until they are gone it waits.
    pub fn await_victims(&mut self, id: GroupId, reason: Arc<Reason>, gates: Vec<QuotaId>) {
        self.lay_down(id, reason, State::AwaitsVictims, gates);
    }

    fn lay_down(&mut self, id: GroupId, reason: Arc<Reason>, state: State, gates: Vec<QuotaId>) {
        self.unlist(id);
        self.leave_gates(id);
        for gate in &gates {
            self.gated.entry(*gate).or_default().insert(id);
        }
        let group = self.group_mut(id);
        group.state = state;
        group.reason = Some(reason);
        group.gates = gates;
        self.untold.insert(id);
        self.list(id);
    }

    /// The group does not wait for a quota any more.
    fn leave_gates(&mut self, id: GroupId) {
        let Some(group) = &mut self.groups[id.0 as usize] else { return };
        for gate in std::mem::take(&mut group.gates) {
            if let Some(groups) = self.gated.get_mut(&gate) {
                groups.remove(&id);
                if groups.is_empty() {
                    self.gated.remove(&gate);
                }
            }
        }
    }

    /// Something changed that may matter to the group.
    pub fn wake(&mut self, id: GroupId) {
        if self.groups.get(id.0 as usize).is_some_and(|group| group.as_ref().is_some_and(|g| g.state != State::Awake)) {
            self.unlist(id);
            self.leave_gates(id);
            self.group_mut(id).state = State::Awake;
            self.list(id);
        }
    }

    /// Whether some group rests beside others that are to be tried.
    pub fn has_resting(&self) -> bool {
        !self.heads.is_empty() && !self.resting.is_empty() || !self.gated.is_empty()
    }

    /// Whether the group's pods are to be tried.
    pub fn is_awake(&self, id: GroupId) -> bool {
        self.group(id).state == State::Awake
    }

    /// A quota may hold more: those who wait for that are looked at. Returns whether there is one.
    pub fn wake_gated(&mut self, quota: QuotaId) -> bool {
        let Some(groups) = self.gated.get(&quota).cloned() else { return false };
        groups.into_iter().for_each(|group| self.wake(group));
        true
    }

    /// Something changed that may let pods of a quota claim room. Returns whether one of them rested; those for whom
    /// pods leave have claimed theirs.
    pub fn wake_quota(&mut self, quota: QuotaId) -> bool {
        let groups = self.by_quota.get(&quota).cloned().unwrap_or_default();
        let resting: Vec<GroupId> = groups.into_iter().filter(|id| self.group(*id).state == State::Rests).collect();
        resting.iter().for_each(|id| self.wake(*id));
        !resting.is_empty()
    }

    /// Whether some group rests for which nobody leaves.
    pub fn has_any_at_rest(&self) -> bool {
        !self.resting.is_empty()
    }

    /// The groups of a quota's pods that rest and for which nobody leaves, each with its first pod.
    pub fn at_rest(&self, quota: QuotaId) -> Vec<(GroupId, PodId)> {
        let groups =
            self.by_quota.get(&quota).into_iter().flatten().filter(|id| self.group(**id).state == State::Rests);
        groups.filter_map(|id| Some((*id, self.group(*id).members.first()?.2))).collect()
    }

    /// Something changed that may matter to all.
    pub fn wake_all(&mut self) {
        for id in std::mem::take(&mut self.awaiting) {
            self.leave_gates(id);
            self.group_mut(id).state = State::Awake;
            self.list(id);
        }
        self.wake_all_but_awaiting();
    }

    /// Something changed that may matter to all but those for whom pods leave.
    pub fn wake_all_but_awaiting(&mut self) {
        for id in std::mem::take(&mut self.resting) {
            self.leave_gates(id);
            self.group_mut(id).state = State::Awake;
            self.list(id);
        }
    }

    /// Pods that rest and may not have been told why, with the reason; by group in order of first pods.
    pub fn take_untold(&mut self) -> Vec<(PodId, Arc<Reason>)> {
        let mut groups: Vec<(Share, Position, GroupId)> = Vec::new();
        for id in std::mem::take(&mut self.untold) {
            let group = self.group(id);
            match group.position(id) {
                Some(turn) if group.state != State::Awake => {
                    let line = self.lines.get(&group.key.quotas).expect("a line is there while it has groups");
                    groups.push((line.share, turn, id));
                }
                _ => {}
            }
        }
        groups.sort();
        let told = groups.iter().flat_map(|(_, _, id)| {
            let group = self.group(*id);
            let reason = group.reason.as_ref().expect("a group rests with a reason");
            group.members.iter().map(|(_, _, pod)| (*pod, reason.clone()))
        });
        told.collect()
    }

    /// Where a pod stands in its group's line, and in all lines together.
    pub fn turn(&self, id: GroupId, created: Created, name: &Name) -> Turn {
        let group = self.group(id);
        let share = |group: &PodClass| self.lines.get(&group.key.quotas).map(|line| line.share);
        let own = (share(group), Reverse(group.key.priority));
        let own_place = (created, &group.key.namespace, name);
        let mut turn = Turn { place: 1, of: 0, place_in_quota: 1, of_quota: 0 };
        for other in self.groups.iter().flatten() {
            let is_of_quota = other.key.quotas == group.key.quotas;
            let ahead = match (share(other), Reverse(other.key.priority)).cmp(&own) {
                Ordering::Less => other.members.len(),
                Ordering::Greater => 0,
                Ordering::Equal => {
                    let namespace = &other.key.namespace;
                    other.members.iter().filter(|(at, name, _)| (*at, namespace, name) < own_place).count()
                }
            };
            turn.place += ahead;
            turn.of += other.members.len();
            if is_of_quota {
                turn.place_in_quota += ahead;
                turn.of_quota += other.members.len();
            }
        }
        turn
    }

    /// The groups under quotas that rest because there is no room for their pods, in order.
    pub fn lacking_room(&self) -> Vec<GroupId> {
        let under_quotas: BTreeSet<GroupId> = self.by_quota.values().flatten().copied().collect();
        let lacks_room = |id: &GroupId| {
            let group = self.group(*id);
            group.state == State::Rests && group.reason.as_ref().is_some_and(|reason| reason.lacks_room())
        };
        let mut lacking: Vec<Position> =
            under_quotas.into_iter().filter(lacks_room).filter_map(|id| self.group(id).position(id)).collect();
        lacking.sort();
        lacking.into_iter().map(|position| position.group).collect()
    }

    /// The first pod of a group.
    pub fn first_of(&self, id: GroupId) -> Option<PodId> {
        self.group(id).members.first().map(|(_, _, pod)| *pod)
    }

    /// How many pods a group has.
    pub fn len_of(&self, id: GroupId) -> usize {
        self.group(id).members.len()
    }

    /// The member before which there are so many.
    pub fn member_at(&self, id: GroupId, place: usize) -> Option<MemberKey> {
        self.group(id).members.iter().nth(place).cloned()
    }

    /// The members between two of them, in whatever order, where `None` is behind the last.
    pub fn members_between(&self, id: GroupId, one: Option<&MemberKey>, other: Option<&MemberKey>) -> Vec<PodId> {
        let Some(group) = self.groups.get(id.0 as usize).and_then(Option::as_ref) else { return Vec::new() };
        let ends: Vec<&MemberKey> = one.into_iter().chain(other).collect();
        let Some(from) = ends.iter().min() else { return Vec::new() };
        // Where both are there, what refuses may differ behind them too.
        group.members.range((*from).clone()..).map(|(_, _, pod)| *pod).collect()
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
        non_preemptible: pod.is_non_preemptible(),
        membership_error: pod.membership_error.clone(),
        quotas: pod.quotas.clone(),
        gang: pod.gang,
        role: pod.role.clone().filter(|_| pod.gang.is_some()),
        claimant: pod.reservation.is_some().then_some(id),
    }
}
