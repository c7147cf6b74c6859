//! The objects of quotas as they are, and what should be written on them.
//!
//! They are few, and what is written has to be compared with what is there, so they are kept whole. What their status
//! should say is computed where the simulator has it from; here it is only compared.

use std::collections::{BTreeMap, BTreeSet};

use quotient_api::volcano::group::GroupPhase;
use quotient_api::volcano::queue::standing_queues;
use quotient_api::volcano::status::queue_status;
use quotient_api::volcano::{DEFAULT_QUEUE, POD_GROUP, QUEUE, QUEUE_NAME, SCHEDULING};
use quotient_api::{Kind, ObjectKey, View, elastic, key_of, tree};
use quotient_engine::QuotaReport;
use serde_json::{Map, Value};

use crate::write::Write;

/// What is to be written on an object: parts of its metadata and of its status, as merge patches.
#[derive(Debug, Clone, PartialEq)]
struct Asked {
    metadata: Option<Value>,
    status: Option<Value>,
}

/// Quota objects by key.
#[derive(Debug, Default)]
pub struct QuotaBook {
    objects: BTreeMap<ObjectKey, Value>,
    /// The kinds that the API server serves, as far as they were listed.
    served: BTreeSet<&'static Kind>,
    /// What was asked to be written and not seen yet, so that it is not asked for again.
    asked: BTreeMap<ObjectKey, Asked>,
}

impl QuotaBook {
    /// Whether objects of this key are kept here. Namespaces say which queue their groups are in.
    pub fn keeps(key: &ObjectKey) -> bool {
        elastic::is_elastic(key)
            || tree::is_tree(key)
            || matches!((key.group, key.kind), (SCHEDULING, QUEUE | POD_GROUP) | ("", "Namespace"))
    }

    pub fn seen(&mut self, key: &ObjectKey, object: &Value) {
        if Self::keeps(key) {
            self.asked.remove(key);
            self.objects.insert(key.clone(), object.clone());
        }
    }

    pub fn gone(&mut self, key: &ObjectKey) {
        self.asked.remove(key);
        self.objects.remove(key);
    }

    /// The API server serves the kind, or does not.
    pub fn serves(&mut self, kind: &'static Kind, is_served: bool) {
        if is_served {
            self.served.insert(kind);
        } else {
            self.served.remove(kind);
        }
    }

    /// What is to be written so that each object says what the engine has. `now` is for conditions that change.
    pub fn statuses(&mut self, reports: &[QuotaReport], now: &str) -> Vec<Write> {
        let held = tree::status::held(reports);
        let by_object: BTreeMap<ObjectKey, &QuotaReport> =
            reports.iter().filter_map(|report| Some((elastic::object_key(&report.key)?, report))).collect();
        let groups = self.groups_by_queue();
        let mut writes = Vec::new();
        for (key, object) in &self.objects {
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

    /// How many groups of each phase are in each queue.
    fn groups_by_queue(&self) -> BTreeMap<String, BTreeMap<&'static str, u32>> {
        let mut groups: BTreeMap<String, BTreeMap<&'static str, u32>> = BTreeMap::new();
        for (key, group) in self.objects.iter().filter(|(key, _)| (key.group, key.kind) == (SCHEDULING, POD_GROUP)) {
            let phase = GroupPhase::of(group.pointer("/status/phase").and_then(Value::as_str)).name();
            let name = key.namespace.clone().unwrap_or_default();
            let namespace = self.objects.get(&ObjectKey { group: "", kind: "Namespace", namespace: None, name });
            let of_namespace =
                namespace.and_then(|namespace| namespace["metadata"]["annotations"][QUEUE_NAME].as_str());
            let queue = group.pointer("/spec/queue").and_then(Value::as_str).or(of_namespace).unwrap_or(DEFAULT_QUEUE);
            *groups.entry(queue.to_string()).or_default().entry(phase).or_default() += 1;
        }
        groups
    }

    /// The quotas that are to go because another one takes their place.
    pub fn taken_over(&self) -> Vec<Write> {
        let composites = self.objects.iter().filter(|(key, _)| key.kind == elastic::COMPOSITE);
        let taken = composites.flat_map(|(_, composite)| elastic::takeover::takeover(composite, self));
        taken.map(|quota| Write::DeleteQuota { quota }).collect()
    }

    /// The queues that exist always, where there can be queues and they are not there.
    pub fn missing_queues(&self) -> Vec<Write> {
        if !self.served.iter().any(|kind| (kind.group, kind.kind) == (SCHEDULING, QUEUE)) {
            return Vec::new();
        }
        let missing = |queue: &Value| key_of(queue).is_ok_and(|key| !self.objects.contains_key(&key));
        standing_queues().into_iter().filter(missing).map(|object| Write::Make { object }).collect()
    }
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

impl View for QuotaBook {
    fn get(&self, key: &ObjectKey) -> Option<&Value> {
        self.objects.get(key)
    }

    fn list(&self, group: &str, kind: &str, namespace: Option<&str>) -> Vec<&Value> {
        let wanted = |key: &ObjectKey| {
            key.group == group && key.kind == kind && namespace.is_none_or(|n| key.namespace.as_deref() == Some(n))
        };
        self.objects.iter().filter(|(key, _)| wanted(key)).map(|(_, object)| object).collect()
    }
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
        let mut book = QuotaBook::default();
        book.seen(&key, &quota);
        let status = Some(json!({"used": {"cpu": "0"}, "borrowed": {}}));
        assert_eq!(book.statuses(&[], NOW), [Write::Amend { object: key.clone(), metadata: None, status }]);
        assert_eq!(book.statuses(&[], NOW), [], "it is under way");
        quota["status"] = json!({"used": {"cpu": "7", "memory": "1"}});
        book.seen(&key, &quota);
        let status = Some(json!({"used": {"cpu": "0", "memory": null}}));
        let written = [Write::Amend { object: key.clone(), metadata: None, status }];
        assert_eq!(book.statuses(&[], NOW), written, "somebody else wrote it");
        quota["status"] = json!({"used": {"cpu": "0"}});
        book.seen(&key, &quota);
        assert_eq!(book.statuses(&[], NOW), []);
        book.gone(&key);
        assert_eq!(book.statuses(&[], NOW), []);
    }

    #[test]
    fn the_queues_that_exist_always_are_made_where_there_can_be_queues() {
        let kind = kinds::find(SCHEDULING, QUEUE).expect("it is known");
        let mut book = QuotaBook::default();
        assert_eq!(book.missing_queues(), []);
        book.serves(kind, true);
        assert_eq!(book.missing_queues().len(), 2);
        for queue in standing_queues() {
            book.seen(&key_of(&queue).expect("it is an object"), &queue);
        }
        assert_eq!(book.missing_queues(), []);
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
            let mut book = QuotaBook::default();
            book.seen(&key, &object);
            let written = book.statuses(&[], NOW);
            let [Write::Amend { metadata, status, .. }] = &written[..] else { panic!("{key}: {written:?}") };
            for (part, patch) in [("metadata", metadata), ("status", status)] {
                let Some(Value::Object(patch)) = patch else { continue };
                for (field, value) in patch {
                    object[part][field] = value.clone();
                }
            }
            book.seen(&key, &object);
            assert_eq!(book.statuses(&[], "2026-01-02T00:00:00Z"), [], "{key} is as it was asked for");
        }
    }
}
