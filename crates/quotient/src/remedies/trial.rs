//! A copy of the cluster in which something is changed, to see whether a pod runs then.

use std::cell::Cell;
use std::sync::Arc;

use quotient_api::{ObjectKey, gangs};
use quotient_engine::fact::PodKey;
use quotient_engine::{NodeVerdict, Reason};
use quotient_sim::Cluster;
use quotient_sim::cluster::Outcome as End;
use serde_json::Value;

use super::FieldChange;
use crate::state::State;

/// The most copies that are tried for one pod. Each costs a copy of the cluster and a cycle, so that fewer are tried of
/// a large cluster: remedies that are cheap to find come first.
const TRIALS_MAX: usize = 300;
const TRIALS_MIN: usize = 8;

/// The most turns of pending pods in one copy. Where an edit leads to more, such as evictions one after another through
/// the whole cluster, it is not tried to the end, and no remedy.
const TURNS_MAX: usize = 2_000;

/// How many objects are copied for one pod in all, about.
const COPIED_MAX: usize = 600_000;

/// One pod, and the cluster it waits in.
pub struct Trial<'a> {
    pub state: &'a State,
    pub key: ObjectKey,
    pub pod: Value,
    /// The pod, and pending pods of its group that request the same: what is changed of one is changed of all, since
    /// none starts without the others.
    members: Vec<(ObjectKey, Value)>,
    /// Why the pod waits as things stand.
    pub reason: Arc<Reason>,
    /// What each node says to the pod, the nearest first.
    pub verdicts: &'a [NodeVerdict],
    left: Cell<usize>,
}

/// What is changed.
#[derive(Debug, Clone)]
pub enum Edit {
    /// An object is applied in place of the one of its name.
    Put(Value),
    /// A pod is made anew, as old as it is.
    Pod(ObjectKey, Value),
    /// A pod ends.
    End(ObjectKey),
}

/// What came of it.
#[derive(Debug, Clone, Default)]
pub struct Outcome {
    pub runs: bool,
    /// Why it still waits, as was found when it was last tried: what is in its favour lets it be tried again.
    pub reason: Option<Arc<Reason>>,
    /// What admission refused, with the object.
    pub rejected: Vec<(ObjectKey, String)>,
    /// Pods that were evicted, as `namespace/name`.
    pub evicted: Vec<String>,
}

impl<'a> Trial<'a> {
    pub fn of(
        state: &'a State,
        key: &ObjectKey,
        reason: Arc<Reason>,
        verdicts: &'a [NodeVerdict],
    ) -> Option<Trial<'a>> {
        let pod = state.object(key)?.clone();
        let trials = (COPIED_MAX / state.cluster().len().max(1)).clamp(TRIALS_MIN, TRIALS_MAX);
        let members = members(state, key, &pod);
        Some(Trial { state, key: key.clone(), pod, members, reason, verdicts, left: Cell::new(trials) })
    }

    /// Whether it starts together with others.
    pub fn is_of_gang(&self) -> bool {
        self.members.len() > 1
    }

    fn pod_key(&self) -> PodKey {
        PodKey { namespace: self.key.namespace.clone().unwrap_or_default(), name: self.key.name.clone() }
    }

    /// Tries edits out. A cluster that does not settle, or one trial too many, is no success.
    pub fn attempt(&self, edits: &[Edit]) -> Outcome {
        let left = self.left.get();
        if left == 0 {
            return Outcome::default();
        }
        self.left.set(left - 1);
        let mut cluster = self.state.cluster().clone();
        drop(cluster.take_happened());
        cluster.be_brief(true);
        for edit in edits {
            let applied = match edit {
                Edit::Put(object) => cluster.apply(object.clone()).map(|_| ()),
                Edit::Pod(key, pod) => cluster.replace_pod(key, pod.clone()),
                Edit::End(pod) => cluster.end(pod, End::Succeeded),
            };
            if applied.is_err() {
                let rejected = cluster.take_happened().rejected;
                let rejected = rejected.into_iter().map(|rejected| (rejected.object, rejected.message)).collect();
                return Outcome { rejected, ..Outcome::default() };
            }
        }
        if cluster.settle_within(TURNS_MAX) != Ok(true) {
            return Outcome::default();
        }
        self.outcome(&mut cluster)
    }

    fn outcome(&self, cluster: &mut Cluster) -> Outcome {
        let happened = cluster.take_happened();
        let pod = cluster.store().get(&self.key);
        let evicted =
            happened.evicted.iter().map(|evicted| format!("{}/{}", evicted.namespace, evicted.name)).collect();
        Outcome {
            runs: pod.is_some_and(|pod| quotient_sim::cluster::is_bound(pod)),
            reason: cluster.engine().reason(&self.pod_key()),
            rejected: Vec::new(),
            evicted,
        }
    }

    /// Whether the pod runs with these edits, and who is evicted then.
    pub fn runs(&self, edits: &[Edit]) -> Option<Vec<String>> {
        let outcome = self.attempt(edits);
        outcome.runs.then_some(outcome.evicted)
    }

    /// The pod, and those like it in its group, with something changed.
    pub fn changed(&self, change: impl Fn(&mut Value)) -> Vec<Edit> {
        let changed = |(key, pod): &(ObjectKey, Value)| {
            let mut pod = pod.clone();
            change(&mut pod);
            Edit::Pod(key.clone(), pod)
        };
        self.members.iter().map(changed).collect()
    }

    /// The same as changes of a field, one for each of these pods.
    pub fn changes(&self, field: &str, from: Option<&str>, to: Option<&str>) -> Vec<FieldChange> {
        let (from, to) = (from.map(str::to_owned), to.map(str::to_owned));
        let of = |(key, _): &(ObjectKey, Value)| FieldChange {
            object: key.to_string(),
            field: field.to_owned(),
            from: from.clone(),
            to: to.clone(),
        };
        self.members.iter().map(of).collect()
    }

    /// What is said of such a change, where it is one of several pods.
    pub fn of_all(&self, message: String) -> String {
        match self.members.len() {
            1 => message,
            count => format!("{message}, for all {count} pods of the group"),
        }
    }
}

fn members(state: &State, key: &ObjectKey, pod: &Value) -> Vec<(ObjectKey, Value)> {
    let mut members = vec![(key.clone(), pod.clone())];
    let Some(group) = gangs::of_pod(key, pod) else { return members };
    let requests = |key: &ObjectKey| state.requests(key.namespace.as_deref().unwrap_or_default(), &key.name);
    let own = requests(key);
    let others = state.pending_pods().filter(|(other, _)| *other != key);
    let like_it =
        others.filter(|(other, pod)| gangs::of_pod(other, pod).as_ref() == Some(&group) && requests(other) == own);
    members.extend(like_it.map(|(other, pod)| (other.clone(), pod.clone())));
    members
}
