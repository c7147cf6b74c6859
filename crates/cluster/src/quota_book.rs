//! What should be written on the objects of quotas.
//!
//! What their status should say is computed where the simulator has it from; here it is only compared with what is
//! there.

use std::collections::{BTreeMap, BTreeSet};

use quotient_api::volcano::group::GroupPhase;
use quotient_api::volcano::queue::standing_queues;
use quotient_api::volcano::status::queue_status;
use quotient_api::volcano::{DEFAULT_QUEUE, POD_GROUP, QUEUE, QUEUE_NAME, SCHEDULING};
use quotient_api::{ObjectKey, View, elastic, key_of, kinds, tree};
use quotient_engine::QuotaReport;
use serde_json::{Map, Value};

use crate::objects::Objects;
use crate::write::Write;

/// What is to be written on an object: parts of its metadata and of its status, as merge patches.
#[derive(Debug, Clone, PartialEq)]
struct Asked {
    metadata: Option<Value>,
    status: Option<Value>,
}

/// What was asked to be written on quotas.
#[derive(Debug, Default)]
pub struct QuotaBook {
    /// What was asked for and not seen yet, so that it is not asked for again.
    asked: BTreeMap<ObjectKey, Asked>,
}

/// Whether the status of objects of this key is written here.
fn is_ours(key: &ObjectKey) -> bool {
    elastic::is_elastic(key) || tree::is_tree(key) || (key.group, key.kind) == (SCHEDULING, QUEUE)
}

impl QuotaBook {
    /// Takes in that an object was seen, or is gone: what was asked of it is history.
    pub fn seen(&mut self, key: &ObjectKey) {
        self.asked.remove(key);
    }

    /// What is to be written so that each object says what the engine has. `now` is for conditions that change.
    pub fn statuses(&mut self, objects: &Objects, reports: &[QuotaReport], now: &str) -> Vec<Write> {
        let held = tree::status::held(reports);
        let by_object: BTreeMap<ObjectKey, &QuotaReport> =
            reports.iter().filter_map(|report| Some((elastic::object_key(&report.key)?, report))).collect();
        let groups = groups_by_queue(objects);
        let mut writes = Vec::new();
        let kinds = kinds::KINDS.iter();
        for (key, object) in
            kinds.flat_map(|kind| objects.of_kind(kind.group, kind.kind, None)).filter(|(key, _)| is_ours(key))
        {
            let report = by_object.get(key).copied();
            let mut wanted = object.clone();
            if elastic::is_elastic(key) {
                put_status(&mut wanted, elastic::status::status(object, report));
            } else if tree::is_tree(key) && &*key.name != tree::ROOT {
                let held = report.and_then(|report| held.get(&report.key));
                tree::status::write(&mut wanted, report, held, now);
            } else if (key.group, key.kind) == (SCHEDULING, QUEUE) {
                let none = BTreeMap::new();
                put_status(&mut wanted, queue_status(object, report, groups.get(&*key.name).unwrap_or(&none)));
            }
            let part = |part: &str| difference(object.get(part), wanted.get(part));
            let asked = Asked { metadata: part("metadata"), status: part("status") };
            let Asked { metadata: None, status: None } = asked else {
                if self.asked.get(key) != Some(&asked) {
                    let Asked { metadata, status } = asked.clone();
                    writes.push(Write::Amend { object: key.clone(), metadata, status });
                    self.asked.insert(key.clone(), asked);
                }
                continue;
            };
        }
        writes
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

/// The quotas that are to go because another one takes their place.
pub fn taken_over(objects: &Objects) -> Vec<Write> {
    let composites = kinds::named(elastic::COMPOSITE).flat_map(|kind| objects.of_kind(kind.group, kind.kind, None));
    let taken = composites.flat_map(|(_, composite)| elastic::takeover::takeover(composite, objects));
    taken.map(|quota| Write::DeleteQuota { quota }).collect()
}

/// The queues that exist always, where there can be queues and they are not there.
pub fn missing_queues(objects: &Objects) -> Vec<Write> {
    if !objects.is_served(SCHEDULING, QUEUE) {
        return Vec::new();
    }
    let missing = |queue: &Value| key_of(queue).is_ok_and(|key| objects.get(&key).is_none());
    standing_queues().into_iter().filter(missing).map(|object| Write::Make { object }).collect()
}

fn put_status(object: &mut Value, fields: Vec<(&'static str, Value)>) {
    if !object["status"].is_object() {
        object["status"] = Value::Object(Map::new());
    }
    for (name, value) in fields {
        object["status"][name] = value;
    }
}

/// The merge patch that makes `old` to `new`, if they differ. What is not there, null, and a map without an entry are
/// the same: an API server does not tell them apart reliably.
fn difference(old: Option<&Value>, new: Option<&Value>) -> Option<Value> {
    let old = old.filter(|value| !is_nothing(value));
    let new = new.filter(|value| !is_nothing(value));
    match (old, new) {
        (None, None) => None,
        (Some(_), None) => Some(Value::Null),
        (Some(Value::Object(old)), Some(Value::Object(new))) => {
            let keys: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
            let changed =
                keys.into_iter().filter_map(|key| Some((key.clone(), difference(old.get(key), new.get(key))?)));
            let changed: Map<String, Value> = changed.collect();
            (!changed.is_empty()).then_some(Value::Object(changed))
        }
        (Some(old), Some(new)) if old == new => None,
        (_, Some(new)) => Some(new.clone()),
    }
}

fn is_nothing(value: &Value) -> bool {
    value.is_null() || value.as_object().is_some_and(Map::is_empty)
}

#[cfg(test)]
mod tests {
    use super::*;
    use quotient_api::kinds;
    use serde_json::json;

    const NOW: &str = "2026-01-01T00:00:00Z";

    #[test]
    fn a_status_is_written_when_it_is_not_so_and_asked_for_once() {
        let mut quota = json!({
            "apiVersion": "nos.nebuly.com/v1alpha1", "kind": "ElasticQuota",
            "metadata": {"name": "q", "namespace": "a"}, "spec": {"min": {"cpu": "1"}},
        });
        let key = key_of(&quota).expect("it is an object");
        let (mut book, mut objects) = (QuotaBook::default(), Objects::default());
        objects.seen(&key, &quota);
        let status = Some(json!({"used": {"cpu": "0"}, "borrowed": {}}));
        let written = [Write::Amend { object: key.clone(), metadata: None, status }];
        assert_eq!(book.statuses(&objects, &[], NOW), written);
        assert_eq!(book.statuses(&objects, &[], NOW), [], "it is under way");
        quota["status"] = json!({"used": {"cpu": "7", "memory": "1"}});
        objects.seen(&key, &quota);
        book.seen(&key);
        let status = Some(json!({"used": {"cpu": "0", "memory": null}}));
        let written = [Write::Amend { object: key.clone(), metadata: None, status }];
        assert_eq!(book.statuses(&objects, &[], NOW), written, "somebody else wrote it");
        quota["status"] = json!({"used": {"cpu": "0"}});
        objects.seen(&key, &quota);
        book.seen(&key);
        assert_eq!(book.statuses(&objects, &[], NOW), []);
        objects.gone(&key);
        assert_eq!(book.statuses(&objects, &[], NOW), []);
    }

    #[test]
    fn the_queues_that_exist_always_are_made_where_there_can_be_queues() {
        let kind = kinds::find(SCHEDULING, QUEUE).expect("it is known");
        let mut objects = Objects::default();
        assert_eq!(missing_queues(&objects), []);
        objects.serves(kind, true);
        assert_eq!(missing_queues(&objects).len(), 2);
        for queue in standing_queues() {
            objects.seen(&key_of(&queue).expect("it is an object"), &queue);
        }
        assert_eq!(missing_queues(&objects), []);
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
            let (mut book, mut objects) = (QuotaBook::default(), Objects::default());
            objects.seen(&key, &object);
            let written = book.statuses(&objects, &[], NOW);
            let [Write::Amend { metadata, status, .. }] = &written[..] else { panic!("{key}: {written:?}") };
            for (part, patch) in [("metadata", metadata), ("status", status)] {
                let Some(Value::Object(patch)) = patch else { continue };
                for (field, value) in patch {
                    object[part][field] = value.clone();
                }
            }
            objects.seen(&key, &object);
            book.seen(&key);
            assert_eq!(book.statuses(&objects, &[], "2026-01-02T00:00:00Z"), [], "{key} is as it was asked for");
        }
    }
}
