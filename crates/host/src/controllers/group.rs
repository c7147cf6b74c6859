//! What the status of a group of pods says: its phase, its conditions and its counts.

use quotient_api::volcano::status::{Told, group_status};
use quotient_api::volcano::{self, is_job};
use quotient_api::{ObjectKey, View, gangs, pod_group};
use quotient_engine::Engine;
use serde_json::Value;

use super::{Moment, Settings, Wanted};
use crate::asked::Asked;
use crate::event::Remark;
use crate::objects::{Objects, controller_of};
use crate::write::{Amendment, Write};

/// What was asked to be written on groups.
#[derive(Debug, Clone, Default)]
pub struct Groups {
    pub asked: Asked,
}

impl Groups {
    /// What is to be written so that each group says how the engine has it.
    pub fn tell(&mut self, settings: &Settings, objects: &Objects, engine: &Engine, now: &Moment, wanted: &mut Wanted) {
        let reports = engine.groups();
        if reports.is_empty() {
            return;
        }
        let ended = objects.ended_by_group();
        for report in reports {
            let key = ObjectKey::of_group(&report.key);
            let Some(group) = objects.get(&key) else { continue };
            let ended = ended.get(&key).copied().unwrap_or_default();
            let (status, told) = match pod_group::is_group(&key) {
                true if !is_scheduled_by_us(settings, objects, &key) => continue,
                true => match pod_group::status(group, &report, ended.succeeded, &now.text) {
                    Some(status) => (status, None),
                    None => continue,
                },
                false if key.group != volcano::SCHEDULING => {
                    if !settings.pod_groups || !is_ours(settings, objects, &key, group) {
                        continue;
                    }
                    let owners = objects.members_of(&key).flat_map(|(_, pod)| owners(pod));
                    (gangs::status::status(group, &report, ended, owners, &now.text), None)
                }
                false if !settings.pod_groups || !is_ours(settings, objects, &key, group) => continue,
                false => group_status(group, &report, ended, &now.text),
            };
            let mut amended = group.clone();
            amended["status"] = status;
            let write = Amendment::between(&key, group, &amended).map(Write::Amend);
            wanted.writes.extend(write.and_then(|write| self.asked.ask(write, now.tick)));
            if let Some(Told { kind, reason, message }) = told {
                wanted.remark(&key, group, Remark { is_warning: kind == "Warning", reason, message });
            }
        }
    }
}

/// What made a pod, as `namespace/name`.
fn owners(pod: &Value) -> impl Iterator<Item = String> {
    let namespace = pod.pointer("/metadata/namespace").and_then(Value::as_str).unwrap_or_default();
    let owners = pod.pointer("/metadata/ownerReferences").and_then(Value::as_array).into_iter().flatten();
    owners.filter_map(move |owner| Some(format!("{namespace}/{}", owner["name"].as_str()?)))
}

/// Whether one of the pods of a group of Kubernetes' own is ours: otherwise another scheduler speaks for it.
fn is_scheduled_by_us(settings: &Settings, objects: &Objects, key: &ObjectKey) -> bool {
    objects.members_of(key).any(|(_, pod)| settings.is_our_pod(pod))
}

/// Whether a group is ours to speak for: what made it is, or one of its pods, or there is nobody else who could.
pub fn is_ours(settings: &Settings, objects: &Objects, key: &ObjectKey, group: &Value) -> bool {
    let job = controller_of(group).filter(is_job).and_then(|job| objects.get(&job));
    if let Some(job) = job {
        return settings.is_our_job(job);
    }
    let mut members = objects.members_of(key).peekable();
    members.peek().is_none() || members.any(|(_, pod)| settings.is_our_pod(pod))
}
