//! What should be written on the objects of quotas.
//!
//! What their status should say is computed where the simulator has it from; here it is only compared with what is
//! there.

use std::collections::BTreeMap;

use quotient_api::elastic::takeover::takeover;
use quotient_api::volcano::command::QueueCommand;
use quotient_api::volcano::group::GroupPhase;
use quotient_api::volcano::queue::{is_closed, standing_queues};
use quotient_api::volcano::status::queue_status;
use quotient_api::volcano::{DEFAULT_QUEUE, POD_GROUP, QUEUE, QUEUE_NAME, SCHEDULING};
use quotient_api::{ObjectKey, View, elastic, key_of, kinds, tree};
use quotient_engine::{QuotaReport, Tick};
use serde_json::{Map, Value};

use super::{Moment, Wanted, uid_of};
use crate::asked::Asked;
use crate::event::Remark;
use crate::objects::Objects;
use crate::write::{Amendment, Slot, Write};

/// What was asked to be written on quotas.
#[derive(Debug, Clone, Default)]
pub struct Quotas {
    pub asked: Asked,
    /// A quota was seen that may take another's place, or whose place may be taken.
    takeover_due: bool,
    /// A queue is gone, or there can be queues now.
    queues_due: bool,
    /// Something was refused: time may help.
    looks_again: bool,
}

/// Whether the status of objects of this key is written here.
fn is_ours(key: &ObjectKey) -> bool {
    elastic::is_elastic(key) || tree::is_tree(key) || is_queue(key)
}

fn is_queue(key: &ObjectKey) -> bool {
    (key.group, key.kind) == (SCHEDULING, QUEUE)
}

impl Quotas {
    /// A quota or a queue was seen or is gone.
    pub fn seen(&mut self, key: &ObjectKey) {
        self.asked.seen(key);
        let is_namespace = (key.group, key.kind) == ("", "Namespace");
        self.takeover_due |= elastic::is_elastic(key) || is_namespace;
        self.queues_due |= is_queue(key);
    }

    /// There can be queues now.
    pub fn queues_served(&mut self) {
        self.queues_due = true;
    }

    /// Something was refused.
    pub fn refused(&mut self, slot: &Slot, message: &str, now: Tick) {
        self.looks_again |= self.asked.refused(slot, message, now);
    }

    /// What was refused is asked for again at once.
    pub fn retry(&mut self) {
        self.asked.retry();
    }

    /// What is to be written so that quotas go whose place is taken, and queues are there that always exist.
    pub fn keep(&mut self, objects: &Objects, now: &Moment, wanted: &mut Wanted) {
        let again = std::mem::take(&mut self.looks_again);
        if std::mem::take(&mut self.takeover_due) || again {
            self.take_over(objects, now, wanted);
        }
        if std::mem::take(&mut self.queues_due) || again {
            self.make_queues(objects, now, wanted);
        }
    }

    /// What is to be written so that quotas say what they hold.
    pub fn tell(&mut self, objects: &Objects, reports: &[QuotaReport], now: &Moment, wanted: &mut Wanted) {
        let held = tree::status::held(reports);
        let by_object: BTreeMap<ObjectKey, &QuotaReport> =
            reports.iter().filter_map(|report| Some((elastic::object_key(&report.key)?, report))).collect();
        let groups = groups_by_queue(objects);
        let none = BTreeMap::new();
        let all = kinds::KINDS.iter().flat_map(|kind| objects.of_kind(kind.group, kind.kind, None));
        for (key, object) in all.filter(|(key, _)| is_ours(key)) {
            let report = by_object.get(key).copied();
            let mut told = object.clone();
            if elastic::is_elastic(key) {
                put_status(&mut told, elastic::status::status(object, report));
            } else if tree::is_tree(key) && &*key.name != tree::ROOT {
                let held = report.and_then(|report| held.get(&report.key));
                tree::status::write(&mut told, report, held, &now.text);
            } else if (key.group, key.kind) == (SCHEDULING, QUEUE) {
                let groups = groups.get(&*key.name).unwrap_or(&none);
                let command = self.carry_out_commands(key, object, objects, now, wanted);
                put_status(&mut told, queue_status(object, report, groups, command));
            }
            let write = Amendment::between(key, object, &told).map(Write::Amend);
            wanted.writes.extend(write.and_then(|write| self.asked.ask(write, now.tick)));
        }
    }

    /// What somebody wants to be done about a queue. Commands that were carried out are deleted.
    fn carry_out_commands(
        &mut self,
        key: &ObjectKey,
        queue: &Value,
        objects: &Objects,
        now: &Moment,
        wanted: &mut Wanted,
    ) -> Option<QueueCommand> {
        for (of, command) in objects.commands_about(key, queue) {
            let meant = QueueCommand::of(command);
            let is_done = match meant {
                Some(QueueCommand::Open) => !is_closed(queue),
                Some(QueueCommand::Close) => is_closed(queue),
                None => true,
            };
            if !is_done {
                return meant;
            }
            let write = Write::Delete { object: of.clone(), uid: Some(uid_of(command)) };
            wanted.writes.extend(self.asked.ask(write, now.tick));
        }
        None
    }

    /// Deletes the quotas whose place another one takes.
    fn take_over(&mut self, objects: &Objects, now: &Moment, wanted: &mut Wanted) {
        let composites = kinds::named(elastic::COMPOSITE).flat_map(|kind| objects.of_kind(kind.group, kind.kind, None));
        for (key, composite) in composites {
            for taken in takeover(composite, objects) {
                let uid = objects.get(&taken).map(uid_of);
                let namespace = taken.namespace.as_deref().unwrap_or_default();
                let message = format!("{taken} was deleted: {key} governs {namespace} now");
                let Some(write) = self.asked.ask(Write::Delete { object: taken, uid }, now.tick) else { continue };
                wanted.writes.push(write);
                wanted.remark(key, composite, Remark { is_warning: false, reason: "TookOver", message });
            }
        }
    }

    /// Makes the queues that exist always, where there can be queues and they are not there.
    fn make_queues(&mut self, objects: &Objects, now: &Moment, wanted: &mut Wanted) {
        if !objects.is_served(SCHEDULING, QUEUE) {
            return;
        }
        for object in standing_queues() {
            let Ok(key) = key_of(&object) else { continue };
            if objects.get(&key).is_none() {
                wanted.writes.extend(self.asked.ask(Write::Make { key, object }, now.tick));
            }
        }
    }
}

/// How many groups of each phase are in each queue.
fn groups_by_queue(objects: &Objects) -> BTreeMap<String, BTreeMap<&'static str, u32>> {
    let mut groups: BTreeMap<String, BTreeMap<&'static str, u32>> = BTreeMap::new();
    for (key, group) in objects.of_kind(SCHEDULING, POD_GROUP, None) {
        let phase = GroupPhase::of(group.pointer("/status/phase").and_then(Value::as_str)).name();
        let name = key.namespace.clone().unwrap_or_default();
        let namespace = objects.get(&ObjectKey { group: "", kind: "Namespace", namespace: None, name });
        let of_namespace = namespace.and_then(|namespace| namespace["metadata"]["annotations"][QUEUE_NAME].as_str());
        let queue = group.pointer("/spec/queue").and_then(Value::as_str).or(of_namespace).unwrap_or(DEFAULT_QUEUE);
        *groups.entry(queue.to_string()).or_default().entry(phase).or_default() += 1;
    }
    groups
}

fn put_status(object: &mut Value, fields: Vec<(&'static str, Value)>) {
    if !object["status"].is_object() {
        object["status"] = Value::Object(Map::new());
    }
    for (name, value) in fields {
        object["status"][name] = value;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subject::Subject;
    use serde_json::json;

    fn wanted(quotas: &mut Quotas, objects: &Objects, now: u64) -> Vec<Write> {
        let mut wanted = Wanted::default();
        let text = format!("2026-01-01T00:00:{now:02}Z");
        let now = Moment { tick: Tick(now * 1000), text };
        quotas.keep(objects, &now, &mut wanted);
        quotas.tell(objects, &[], &now, &mut wanted);
        wanted.writes
    }

    fn amended(key: &ObjectKey, status: Value) -> [Write; 1] {
        let status = Some(status);
        [Write::Amend(Box::new(Amendment { object: key.clone(), uid: None, metadata: None, spec: None, status }))]
    }

    #[test]
    fn a_status_is_written_when_it_is_not_so_and_asked_for_once() {
        let mut quota = json!({
            "apiVersion": "nos.nebuly.com/v1alpha1", "kind": "ElasticQuota",
            "metadata": {"name": "q", "namespace": "a"}, "spec": {"min": {"cpu": "1"}},
        });
        let key = key_of(&quota).expect("it is an object");
        let (mut quotas, mut objects) = (Quotas::default(), Objects::default());
        objects.seen(&key, &quota);
        let status = json!({"used": {"cpu": "0"}, "borrowed": {}});
        assert_eq!(wanted(&mut quotas, &objects, 0), amended(&key, status));
        assert_eq!(wanted(&mut quotas, &objects, 1), [], "it is under way");
        quota["status"] = json!({"used": {"cpu": "7", "memory": "1"}});
        objects.seen(&key, &quota);
        quotas.asked.seen(&key);
        let status = json!({"used": {"cpu": "0", "memory": null}});
        assert_eq!(wanted(&mut quotas, &objects, 2), amended(&key, status), "somebody else wrote it");
        quota["status"] = json!({"used": {"cpu": "0"}});
        objects.seen(&key, &quota);
        quotas.asked.seen(&key);
        assert_eq!(wanted(&mut quotas, &objects, 3), []);
        objects.gone(&key);
        assert_eq!(wanted(&mut quotas, &objects, 4), []);
    }

    #[test]
    fn the_queues_that_exist_always_are_made_where_there_can_be_queues() {
        let kind = kinds::find(SCHEDULING, QUEUE).expect("it is known");
        let (mut quotas, mut objects) = (Quotas::default(), Objects::default());
        assert_eq!(wanted(&mut quotas, &objects, 0), []);
        objects.serves(Subject::Kind(kind), true);
        quotas.queues_served();
        assert_eq!(wanted(&mut quotas, &objects, 1).len(), 2);
        for queue in standing_queues() {
            objects.seen(&key_of(&queue).expect("it is an object"), &queue);
        }
        let made = |write: &Write| matches!(write, Write::Make { .. });
        assert!(!wanted(&mut quotas, &objects, 2).iter().any(made));
    }

    #[test]
    fn every_kind_of_quota_settles() {
        let object = |group: &str, kind: &str| {
            let kind = kinds::find(group, kind).expect("it is known");
            json!({"apiVersion": kind.api_version(), "kind": kind.kind, "metadata": {"name": "x", "namespace": "y"},
                "spec": {"min": {"cpu": "1"}, "max": {"cpu": "1"}, "namespaces": ["y"]}})
        };
        for mut object in [
            object("scheduling.x-k8s.io", elastic::PLAIN),
            object("n8s.nebuly.ai", elastic::COMPOSITE),
            object(tree::GROUP, tree::QUOTA),
            object(SCHEDULING, QUEUE),
        ] {
            let key = key_of(&object).expect("it is an object");
            let (mut quotas, mut objects) = (Quotas::default(), Objects::default());
            objects.seen(&key, &object);
            let written = wanted(&mut quotas, &objects, 0);
            let [Write::Amend(amendment)] = &written[..] else { panic!("{key}: {written:?}") };
            let Amendment { metadata, status, .. } = &**amendment;
            for (part, patch) in [("metadata", metadata), ("status", status)] {
                let Some(Value::Object(patch)) = patch else { continue };
                for (field, value) in patch {
                    object[part][field] = value.clone();
                }
            }
            objects.seen(&key, &object);
            quotas.asked.seen(&key);
            assert_eq!(wanted(&mut quotas, &objects, 9), [], "{key} is as it was asked for");
        }
    }
}
