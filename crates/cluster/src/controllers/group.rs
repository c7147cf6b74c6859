//! What the status of a group of pods says: its phase, its conditions and its counts.

use std::collections::BTreeMap;

use quotient_api::volcano::status::{Told, group_status};
use quotient_api::volcano::{GROUP_NAMES, is_job};
use quotient_api::{ObjectKey, View};
use quotient_engine::Engine;
use serde_json::Value;

use super::{Moment, Settings, Wanted};
use crate::asked::Asked;
use crate::event::Remark;
use crate::objects::{Objects, controller_of};
use crate::write::{Amendment, Write};

/// What was asked to be written on groups.
#[derive(Debug, Default)]
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
        let (ended, members) = (objects.ended_by_group(), members(settings, objects, None));
        for report in reports {
            let key = ObjectKey::pod_group(&report.namespace, &report.name);
            let Some(group) = objects.get(&key) else { continue };
            if !is_ours(settings, objects, &key, group, &members) {
                continue;
            }
            let (status, told) = group_status(group, &report, ended.get(&key).copied().unwrap_or_default(), &now.text);
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

/// Pods by the namespace and name of their group: whether one of them is ours.
pub type Members<'a> = BTreeMap<(&'a str, &'a str), bool>;

/// The groups of the pods of a namespace, or of all.
pub fn members<'a>(settings: &Settings, objects: &'a Objects, namespace: Option<&str>) -> Members<'a> {
    let mut members = Members::new();
    for (key, pod) in objects.of_kind("", "Pod", namespace) {
        let annotations = pod.pointer("/metadata/annotations");
        let group = annotations.and_then(|all| GROUP_NAMES.iter().find_map(|name| all.get(*name)?.as_str()));
        if let (Some(namespace), Some(group)) = (key.namespace.as_deref(), group) {
            *members.entry((namespace, group)).or_default() |= settings.is_our_pod(pod);
        }
    }
    members
}

/// Whether a group is ours to speak for: what made it is, or one of its pods, or there is nobody else who could.
pub fn is_ours(settings: &Settings, objects: &Objects, key: &ObjectKey, group: &Value, members: &Members<'_>) -> bool {
    let job = controller_of(group).filter(is_job).and_then(|job| objects.get(&job));
    if let Some(job) = job {
        return settings.is_our_job(job);
    }
    let group = (key.namespace.as_deref().unwrap_or_default(), &*key.name);
    members.get(&group).copied().unwrap_or(true)
}
