//! Pods of which it matters what became of them: those of jobs of several tasks, and those of groups.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use quotient_api::volcano::{self, status::Ended};
use quotient_api::{ObjectKey, at, gangs};
use serde_json::Value;

use super::slim::slim_pod;
use super::{Objects, controller_of, is_made_by};

impl Objects {
    /// Takes in a pod of a job of several tasks.
    pub fn job_pod_seen(&mut self, key: &ObjectKey, pod: &Value) {
        if let Some(job) = controller_of(pod).filter(volcano::is_job) {
            self.pods_of_jobs.get_or_insert_with(job, BTreeSet::new).insert(key.clone());
            let mut slim = slim_pod(pod);
            slim["status"]["containerStatuses"] = at(pod, "/status/containerStatuses").cloned().unwrap_or_default();
            self.job_pods.insert(key.clone(), Arc::new(slim));
        }
    }

    /// Takes in that such a pod is gone, and gives it as it was last.
    pub fn job_pod_gone(&mut self, key: &ObjectKey) -> Option<(ObjectKey, Value)> {
        let pod = self.job_pods.remove(key)?;
        let job = controller_of(&pod)?;
        if let Some(pods) = self.pods_of_jobs.get_mut(&job) {
            pods.remove(key);
            if pods.is_empty() {
                self.pods_of_jobs.remove(&job);
            }
        }
        Some((job, Arc::unwrap_or_clone(pod)))
    }

    /// The pods of a job of several tasks, whatever became of them.
    pub fn pods_of_job(&self, key: &ObjectKey, job: &Value) -> Vec<&Value> {
        let pods = self.pods_of_jobs.get(key).into_iter().flatten().filter_map(|pod| self.job_pods.get(pod));
        pods.map(AsRef::as_ref).filter(|pod| is_made_by(pod, job)).collect()
    }

    /// A pod of a job, whatever became of it.
    pub fn job_pod(&self, key: &ObjectKey) -> Option<&Value> {
        self.job_pods.get(key).map(AsRef::as_ref)
    }

    /// Takes in a pod that has ended. Gives its group.
    pub fn ended_seen(&mut self, key: &ObjectKey, pod: &Value) -> Option<ObjectKey> {
        let group = gangs::of_pod(key, pod)?;
        self.ended.insert(key.clone(), (group.clone(), pod["status"]["phase"] == "Succeeded"));
        Some(group)
    }

    /// Takes in that such a pod is gone. Gives its group.
    pub fn ended_gone(&mut self, key: &ObjectKey) -> Option<ObjectKey> {
        self.ended.remove(key).map(|(group, _)| group)
    }

    /// How many pods of a group have succeeded.
    pub fn succeeded_of(&self, group: &ObjectKey) -> u32 {
        let ended = self.ended.of_kind("", "Pod", group.namespace.as_deref());
        ended.filter(|(_, (of, succeeded))| of == group && *succeeded).count() as u32
    }

    /// How many pods of each group have ended.
    pub fn ended_by_group(&self) -> BTreeMap<&ObjectKey, Ended> {
        let mut all: BTreeMap<&ObjectKey, Ended> = BTreeMap::new();
        for (group, succeeded) in self.ended.values() {
            let ended = all.entry(group).or_default();
            match succeeded {
                true => ended.succeeded += 1,
                false => ended.failed += 1,
            }
        }
        all
    }
}
