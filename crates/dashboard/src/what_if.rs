//! What a change would do: it is applied to a copy of the cluster, and the two are compared.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::shared::{Name, Word, some_word, word};
use quotient_api::read;
use quotient_sim::cluster::Happened;
use quotient_sim::{Cluster, Stuck};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::view::{Amounts, Phase, Sources, View};

/// The longest change that is read, and the longest list that is answered with.
pub const CHANGE_BYTES_MAX: usize = 256 * 1024;
const ROWS_MAX: usize = 500;

/// The most pods that a change may ask for: they are all made, and scheduled, before there is an answer.
pub const CHANGE_PODS_MAX: u64 = 10_000;

/// How long both copies go on after the change, so that evicted pods are gone and others are bound.
const SETTLE: Duration = Duration::from_secs(180);

/// A pod that would be evicted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EvictedRow {
    pub pod: String,
    pub node: String,
    pub by: Option<String>,
    pub rule: String,
    pub message: String,
}

/// A pod that would start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BoundRow {
    pub pod: String,
    pub node: String,
}

/// A pod that would wait, or wait for another reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitRow {
    pub pod: String,
    #[serde(deserialize_with = "some_word")]
    pub before: Option<Word>,
    #[serde(deserialize_with = "word")]
    pub after: Word,
    pub message: String,
    pub remedies: Vec<String>,
}

/// A quota of which something would be different, of one resource.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuotaRow {
    pub object: Name,
    pub resource: Name,
    pub before: Option<Amounts>,
    pub after: Option<Amounts>,
}

/// What would be different. Lists are cut at a bound; the counts are whole.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Answer {
    pub verdict: String,
    pub rejected: Vec<String>,
    pub evicted: Vec<EvictedRow>,
    pub evicted_count: usize,
    pub bound: Vec<BoundRow>,
    pub bound_count: usize,
    pub waiting: Vec<WaitRow>,
    pub waiting_count: usize,
    pub quotas: Vec<QuotaRow>,
}

impl Answer {
    /// The answer without pods and quotas that the viewer may not see; the counts are of what is left.
    pub fn for_viewer(mut self, viewer: &crate::Viewer) -> Answer {
        if *viewer == crate::Viewer::All {
            return self;
        }
        let seen = |pod: &str| viewer.sees_namespace(pod.split('/').next().unwrap_or_default());
        self.evicted.retain(|row| seen(&row.pod));
        self.bound.retain(|row| seen(&row.pod));
        self.waiting.retain(|row| seen(&row.pod));
        self.quotas.retain(|row| viewer.sees_quota(&row.object));
        for row in &mut self.evicted {
            row.by = row.by.as_deref().map(|by| viewer.pod_name(by));
            row.message.clear();
        }
        for row in &mut self.waiting {
            row.message = crate::viewer::plain_words(row.after).to_string();
            row.remedies.clear();
        }
        if !viewer.sees_nodes() {
            self.evicted.iter_mut().for_each(|row| row.node.clear());
            self.bound.iter_mut().for_each(|row| row.node.clear());
        }
        (self.evicted_count, self.bound_count) = (self.evicted.len(), self.bound.len());
        self.waiting_count = self.waiting.len();
        // What admission says of an object may name others that it conflicts with.
        let rejected = self.rejected.len();
        self.rejected = (0..rejected).map(|_| "an object of the change is rejected".to_string()).collect();
        self.verdict = verdict(&self);
        self
    }
}

/// What the manifests would do.
pub fn what_if(cluster: &Cluster, change: &str) -> Result<Answer, String> {
    let documents = documents(change)?;
    let bug = |stuck: Stuck| stuck.to_string();
    let mut before = cluster.clone();
    before.take_happened();
    let mut after = before.clone();
    before.wait(SETTLE).map_err(bug)?;
    let anyway = before.take_happened();
    let mut rejected = Vec::new();
    for object in documents {
        if let Err(refusal) = after.apply(object) {
            rejected.push(refusal.to_string());
        }
    }
    after.wait(SETTLE).map_err(bug)?;
    let happened = after.take_happened();
    Ok(compare(&view_of(&before), anyway, &view_of(&after), happened, rejected))
}

/// The objects of a change; all of it must be readable.
pub fn documents(change: &str) -> Result<Vec<Value>, String> {
    if change.len() > CHANGE_BYTES_MAX {
        return Err(format!("the change has {} bytes, at most {CHANGE_BYTES_MAX} are read", change.len()));
    }
    let read = read("change", change);
    if let Some(problem) = read.problems.first() {
        return Err(problem.to_string());
    }
    if read.documents.is_empty() {
        return Err("the change holds no object: expected a Kubernetes manifest".to_string());
    }
    if let Some(foreign) = read.documents.iter().find(|document| document.key.group == "quotient.dev") {
        return Err(format!("{} is not an object of a cluster", foreign.key));
    }
    let objects: Vec<Value> = read.documents.into_iter().map(|document| document.value).collect();
    let pods = objects.iter().map(pods_of).fold(0, u64::saturating_add);
    if pods > CHANGE_PODS_MAX {
        return Err(format!("the change asks for {pods} pods, at most {CHANGE_PODS_MAX} are tried"));
    }
    Ok(objects)
}

/// How many pods an object asks for, itself or by what controllers make of it.
fn pods_of(object: &Value) -> u64 {
    let count = |of: &Value, field: &str| of[field].as_u64().unwrap_or(1);
    let spec = &object["spec"];
    match object["kind"].as_str().unwrap_or_default() {
        "Pod" => 1,
        "Deployment" | "ReplicaSet" | "StatefulSet" | "ReplicationController" => count(spec, "replicas"),
        "Job" => match spec["tasks"].as_array() {
            Some(tasks) => tasks.iter().map(|task| count(task, "replicas")).fold(0, u64::saturating_add),
            None => count(spec, "parallelism"),
        },
        _ => 0,
    }
}

/// The view of a simulated cluster.
pub fn view_of(cluster: &Cluster) -> View {
    let reasons = cluster.engine().reasons_now();
    View::of(Sources {
        at_us: cluster.now_us(),
        engine: cluster.engine(),
        reasons: &reasons,
        pods: cluster.store().pods().map(|(_, pod)| &**pod),
        nodes: cluster.store().of_kind("", "Node", None).map(|(_, node)| &**node),
    })
}

fn compare(before: &View, anyway: Happened, after: &View, happened: Happened, rejected: Vec<String>) -> Answer {
    let evicted: Vec<EvictedRow> = happened
        .evicted
        .into_iter()
        .filter(|evicted| {
            !anyway.evicted.iter().any(|known| (&known.namespace, &known.name) == (&evicted.namespace, &evicted.name))
        })
        .map(|evicted| EvictedRow {
            pod: format!("{}/{}", evicted.namespace, evicted.name),
            node: evicted.node,
            by: evicted.claimant,
            rule: evicted.rule,
            message: evicted.message,
        })
        .collect();
    let bound: Vec<BoundRow> = happened
        .bound
        .into_iter()
        .filter(|bound| {
            !anyway.bound.iter().any(|known| (&known.namespace, &known.name) == (&bound.namespace, &bound.name))
        })
        .map(|bound| BoundRow { pod: format!("{}/{}", bound.namespace, bound.name), node: bound.node })
        .collect();
    let was: BTreeMap<(&Name, &Name), &crate::view::PodRow> =
        before.pods.iter().map(|pod| ((&pod.namespace, &pod.name), pod)).collect();
    let waiting: Vec<WaitRow> = after
        .pods
        .iter()
        .filter(|pod| pod.phase == Phase::Pending)
        .filter_map(|pod| {
            let why = pod.why.as_ref()?;
            let before = was.get(&(&pod.namespace, &pod.name)).and_then(|was| was.why.as_ref()).map(|why| why.code);
            (before != Some(why.code)).then(|| WaitRow {
                pod: format!("{}/{}", pod.namespace, pod.name),
                before,
                after: why.code,
                message: why.message.clone(),
                remedies: why.remedies.clone(),
            })
        })
        .collect();
    let mut answer = Answer {
        verdict: String::new(),
        evicted_count: evicted.len(),
        bound_count: bound.len(),
        waiting_count: waiting.len(),
        rejected,
        evicted,
        bound,
        waiting,
        quotas: quota_changes(before, after),
    };
    answer.verdict = verdict(&answer);
    answer.evicted.truncate(ROWS_MAX);
    answer.bound.truncate(ROWS_MAX);
    answer.waiting.truncate(ROWS_MAX);
    answer.quotas.truncate(ROWS_MAX);
    answer
}

fn quota_changes(before: &View, after: &View) -> Vec<QuotaRow> {
    let by_key = |view: &View| {
        let mut all: BTreeMap<(Name, Name), Amounts> = BTreeMap::new();
        for quota in &view.quotas {
            for (resource, amounts) in &quota.resources {
                all.insert((quota.object.clone(), resource.clone()), *amounts);
            }
        }
        all
    };
    let (before, after) = (by_key(before), by_key(after));
    let keys: std::collections::BTreeSet<_> = before.keys().chain(after.keys()).collect();
    keys.into_iter()
        .filter(|key| before.get(*key) != after.get(*key))
        .map(|key| QuotaRow {
            object: key.0.clone(),
            resource: key.1.clone(),
            before: before.get(key).copied(),
            after: after.get(key).copied(),
        })
        .collect()
}

fn verdict(answer: &Answer) -> String {
    if let Some(first) = answer.rejected.first() {
        return format!("Rejected: {first}");
    }
    let pods = |count: usize| if count == 1 { "1 pod".to_string() } else { format!("{count} pods") };
    match (answer.bound_count, answer.evicted_count, answer.waiting_count) {
        (0, 0, 0) if answer.quotas.is_empty() => "Nothing would change.".to_string(),
        (0, 0, 0) => "Accepted. No pod would start, be evicted or wait because of it.".to_string(),
        (bound, evicted, waiting) => format!(
            "Accepted. {} would start, {} would be evicted, {} would newly wait or wait for another reason.",
            pods(bound),
            pods(evicted),
            pods(waiting)
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_that_asks_for_too_many_pods_is_refused_before_any_is_made() {
        let deployment = |index: usize, replicas: u64| {
            format!(
                "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: d-{index}, namespace: a}}\n\
                 spec: {{replicas: {replicas}, selector: {{}}, template: {{}}}}\n---\n"
            )
        };
        let many: String = (0..400).map(|index| deployment(index, 100_000)).collect();
        let refusal = documents(&many).expect_err("40 million pods");
        assert_eq!(refusal, "the change asks for 40000000 pods, at most 10000 are tried");
        let job = "apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {name: j, namespace: a}\n\
                   spec: {tasks: [{name: a, replicas: 6000}, {name: b, replicas: 6000}]}\n";
        assert!(documents(job).is_err(), "tasks count together");
        assert!(documents(&deployment(0, CHANGE_PODS_MAX)).is_ok());
    }
}
