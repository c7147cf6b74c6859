//! Groups for pods that say by annotation, or whose owners say, how many of them must be able to run.

use std::collections::BTreeSet;

use quotient_api::volcano::GROUP_NAMES;
use quotient_api::volcano::gang::{Gang, gang, renew};
use quotient_api::{ObjectKey, View, key_of};
use serde_json::{Value, json};

use super::{Moment, Settings, Wanted};
use crate::asked::Asked;
use crate::event::Remark;
use crate::objects::Objects;
use crate::write::{Amendment, Write};

/// The group of annotations that a pod needs, if it needs one.
pub fn gang_of(pod: &Value, objects: &Objects) -> Option<Gang> {
    gang(pod, &objects.owners_of(pod).collect::<Vec<_>>())
}

/// Pods that have to be looked at, and what was asked for.
#[derive(Debug, Clone, Default)]
pub struct Gangs {
    asked: Asked,
    due: BTreeSet<ObjectKey>,
    /// Pods whose group was refused, or whose annotation was: they are looked at again.
    waiting: BTreeSet<ObjectKey>,
}

impl Gangs {
    pub fn asked(&mut self) -> &mut Asked {
        self.due.append(&mut self.waiting);
        &mut self.asked
    }

    /// What was refused is asked for again at once.
    pub fn retry(&mut self) {
        self.asked().retry();
    }

    /// A pod was seen. Most pods of queues have no group.
    pub fn seen(&mut self, key: &ObjectKey, pod: &Value, objects: &Objects) {
        self.asked.seen(key);
        if objects.is_of_gang(pod) {
            self.due.insert(key.clone());
        }
    }

    /// A pod is gone.
    pub fn gone(&mut self, key: &ObjectKey) {
        self.asked.seen(key);
        self.due.remove(key);
        self.waiting.remove(key);
    }

    /// A group was seen.
    pub fn group_seen(&mut self, key: &ObjectKey) {
        self.asked.seen(key);
        let of_namespace = |pod: &&ObjectKey| pod.namespace == key.namespace;
        self.due.extend(self.waiting.iter().filter(of_namespace).cloned());
    }

    /// A group is gone: its pods may need it made anew.
    pub fn group_gone(&mut self, key: &ObjectKey, objects: &Objects) {
        self.asked.seen(key);
        self.due.extend(objects.members_of(key).map(|(pod, _)| pod.clone()));
    }

    /// An owner may say something else about its group now.
    pub fn owner_seen(&mut self, key: &ObjectKey, objects: &Objects) {
        let Some(owner) = objects.get(key) else { return };
        let pods = objects.of_kind("", "Pod", key.namespace.as_deref());
        let uid = &owner["metadata"]["uid"];
        let is_below = |pod: &Value| objects.owners_of(pod).any(|owner| owner["metadata"]["uid"] == *uid);
        self.due.extend(pods.filter(|(_, pod)| is_below(pod)).map(|(key, _)| key.clone()));
    }

    /// Sees to it that the groups of pods are there, and that the pods know them.
    pub fn follow(&mut self, settings: &Settings, objects: &Objects, now: &Moment, wanted: &mut Wanted) {
        for key in std::mem::take(&mut self.due) {
            self.waiting.remove(&key);
            // Pods that say nothing, and whose owners do not, are not kept.
            let Some(pod) = objects.get(&key).filter(|pod| settings.is_our_pod(pod) && !is_leaving(pod)) else {
                continue;
            };
            let Some(gang) = gang_of(pod, objects) else { continue };
            let Ok(group_key) = key_of(&gang.group) else { continue };
            let mut asked_for = Vec::new();
            match objects.get(&group_key) {
                None => asked_for.push(Write::Make { key: group_key, object: gang.group }),
                Some(group) if gang.is_of_owner => {
                    let mut renewed = group.clone();
                    renew(&mut renewed, &gang.group);
                    asked_for.extend(Amendment::between(&group_key, group, &renewed).map(Write::Amend));
                }
                Some(_) => {}
            }
            if gang.is_unnamed {
                let mut told = pod.clone();
                told["metadata"]["annotations"][GROUP_NAMES[0]] = json!(gang.name);
                asked_for.extend(Amendment::between(&key, pod, &told).map(Write::Amend));
            }
            if !asked_for.is_empty() {
                self.waiting.insert(key.clone());
            }
            for write in asked_for {
                if let Some(message) = self.asked.refusal(&write.slot()) {
                    let message = message.to_string();
                    wanted.remark(&key, pod, Remark { is_warning: true, reason: "FailedCreate", message });
                }
                wanted.writes.extend(self.asked.ask(write, now.tick));
            }
        }
    }
}

fn is_leaving(pod: &Value) -> bool {
    pod.pointer("/metadata/deletionTimestamp").is_some_and(|at| !at.is_null())
}

#[cfg(test)]
mod tests {
    use super::*;
    use quotient_api::volcano::GROUP_MIN_MEMBER;
    use quotient_engine::Tick;

    #[test]
    fn a_group_is_made_once_and_made_anew_when_it_is_gone() {
        let settings = Settings {
            profiles: true,
            pod_groups: true,
            volcano_jobs: true,
            scheduler_names: Some(vec!["quotient".to_string()]),
        };
        let (mut gangs, mut objects) = (Gangs::default(), Objects::default());
        let look = |gangs: &mut Gangs, objects: &Objects| {
            let (mut wanted, now) = (Wanted::default(), Moment { tick: Tick(0), text: String::new() });
            gangs.follow(&settings, objects, &now, &mut wanted);
            wanted.writes
        };
        let pod = |name: &str, scheduler: &str| {
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "a", "uid": name,
                "annotations": {GROUP_MIN_MEMBER: "2", GROUP_NAMES[0]: "g"}},
                "spec": {"schedulerName": scheduler, "containers": []}})
        };
        for (name, scheduler) in [("p-0", "quotient"), ("p-1", "quotient"), ("q", "another")] {
            let pod = pod(name, scheduler);
            let key = key_of(&pod).expect("it is an object");
            objects.seen(&key, &pod);
            gangs.seen(&key, &pod, &objects);
        }
        let written = look(&mut gangs, &objects);
        let [Write::Make { key, object }] = &written[..] else { panic!("{written:?}") };
        assert_eq!(look(&mut gangs, &objects), [], "it is under way");
        objects.seen(key, object);
        gangs.group_seen(key);
        assert_eq!(look(&mut gangs, &objects), []);
        objects.gone(key);
        gangs.group_gone(key, &objects);
        assert_eq!(look(&mut gangs, &objects), written);
    }
}
