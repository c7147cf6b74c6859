//! Groups for pods that say by annotation, or whose owners say, how many of them must be able to run.

use std::collections::BTreeSet;

use quotient_api::volcano::GROUP_NAMES;
use quotient_api::volcano::gang::{Gang, gang, renew};
use quotient_api::{ObjectKey, View, key_of};
use serde_json::{Value, json};

use super::{Moment, Settings, Wanted};
use crate::asked::Asked;
use crate::objects::Objects;
use crate::write::{Amendment, Write};

/// The group of annotations that a pod needs, if it needs one.
pub fn gang_of(pod: &Value, objects: &Objects) -> Option<Gang> {
    gang(pod, &objects.owners_of(pod).collect::<Vec<_>>())
}

/// Pods that have to be looked at, and what was asked for.
#[derive(Debug, Default)]
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

    /// A pod was seen.
    pub fn seen(&mut self, key: &ObjectKey) {
        self.asked.seen(key);
        self.due.insert(key.clone());
    }

    /// A group was seen, or is gone: its pods may need it made anew.
    pub fn group_seen(&mut self, key: &ObjectKey) {
        self.asked.seen(key);
        let of_namespace = |pod: &&ObjectKey| pod.namespace == key.namespace;
        self.due.extend(self.waiting.iter().filter(of_namespace).cloned());
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
                self.waiting.insert(key);
            }
            wanted.writes.extend(asked_for.into_iter().filter_map(|write| self.asked.ask(write, now.tick)));
        }
    }
}

fn is_leaving(pod: &Value) -> bool {
    pod.pointer("/metadata/deletionTimestamp").is_some_and(|at| !at.is_null())
}
