//! Groups of pods, as the engine is told about them.

use crate::fact::{Amount, Amounts, Created, Name, RequestProblem};

/// Which members count when a group's minimum is to start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Counting {
    /// Those that run and those that wait, until the minimum ran once: from then on each pod starts by itself.
    Once,
    /// Those that run and those that wait.
    #[default]
    RunningToo,
    /// Those that wait alone.
    WaitingOnly,
}

/// What a pod calls its group. Groups of one name in two API groups are two.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct GroupName {
    pub api_group: Name,
    pub name: Name,
}

impl GroupName {
    /// Which group that is to pods of a namespace.
    pub fn of(&self, namespace: &Name) -> GroupKey {
        GroupKey { api_group: self.api_group.clone(), namespace: namespace.clone(), name: self.name.clone() }
    }
}

impl From<Name> for GroupName {
    /// A group in a world with one API group that has groups.
    fn from(name: Name) -> Self {
        GroupName { api_group: Name::default(), name }
    }
}

/// Which group of pods.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct GroupKey {
    pub api_group: Name,
    pub namespace: Name,
    pub name: Name,
}

impl std::fmt::Display for GroupKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.namespace.is_empty() {
            return write!(f, "{}", self.name);
        }
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// Pods that start together or not at all.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GroupFact {
    pub api_group: Name,
    pub namespace: Name,
    pub name: Name,
    pub created: Created,
    /// The queue that it names.
    pub queue: Option<Name>,
    /// So many must be able to run.
    pub min_member: u32,
    /// So many of each of these tasks must be able to run.
    pub min_task_member: Vec<(Name, u32)>,
    /// What it takes to start, for which its queue must have room before it is let in. Empty: it is let in.
    pub min_resources: Amounts,
    /// The cards that it takes in all, each with the kinds that will do, in order of preference.
    pub card_request: Vec<(Vec<Name>, Amount)>,
    /// Its pods may hold different kinds of card.
    pub mixed_cards: bool,
    /// Its object says that it was let into its queue.
    pub admitted: bool,
    /// The priority that all its pods must have, with one preemption policy and one scheduler. `None`: pods of one
    /// group may differ.
    pub priority: Option<i32>,
    /// The priority that its pods have beside pods outside it, whatever their own is, which decides among them alone.
    /// `None`: their own counts everywhere.
    pub members_priority: Option<i32>,
    /// All its pods are evicted together, those beyond its minimum too.
    pub evicted_whole: bool,
    /// Which members count when it starts.
    pub counting: Counting,
    /// Its object says that it started once.
    pub has_started: bool,
    /// The groups that start in one step with it, itself among them, in order. Empty: it starts by itself.
    pub partners: Vec<GroupKey>,
    /// Why it cannot be read, if so: its pods wait with `InvalidRequest`.
    pub problem: Option<RequestProblem>,
}

/// What a pod says of its group. It counts where the group has no object, and the oldest pod speaks for all.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GroupTerms {
    /// So many must be able to run.
    pub min_member: u32,
    pub counting: Counting,
    /// As a group's object has them.
    pub partners: Vec<GroupKey>,
    /// The field that says how many.
    pub field: Name,
    /// Why it cannot be read, if so.
    pub problem: Option<RequestProblem>,
}

impl GroupFact {
    /// Which group it is.
    pub fn key(&self) -> GroupKey {
        let GroupFact { api_group, namespace, name, .. } = self;
        GroupKey { api_group: api_group.clone(), namespace: namespace.clone(), name: name.clone() }
    }
}
