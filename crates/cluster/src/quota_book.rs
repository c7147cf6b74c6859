//! The quota objects as they are, and what their status should say.
//!
//! They are few, and their status has to be compared with what it is, so they are kept whole.

use std::collections::BTreeMap;

use quotient_api::{ObjectKey, View, elastic};
use quotient_engine::QuotaReport;
use serde_json::Value;

use crate::write::Write;

/// Quota objects by key.
#[derive(Debug, Default)]
pub struct QuotaBook {
    objects: BTreeMap<ObjectKey, Value>,
    /// What was asked to be written and not seen yet, so that it is not asked for again.
    asked: BTreeMap<ObjectKey, Vec<(&'static str, Option<Value>)>>,
}

impl QuotaBook {
    /// Whether objects of this key are kept here.
    pub fn keeps(key: &ObjectKey) -> bool {
        elastic::is_elastic(key)
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

    /// What is to be written so that each status says what the engine has.
    pub fn statuses(&mut self, reports: &[QuotaReport]) -> Vec<Write> {
        let reports: BTreeMap<ObjectKey, &QuotaReport> =
            reports.iter().filter_map(|report| Some((elastic::object_key(&report.key)?, report))).collect();
        let mut writes = Vec::new();
        for (key, object) in &self.objects {
            let fields = elastic::status::status(object, reports.get(key).copied());
            // An empty map is left out: an API server takes a map that loses its last key by way of an apply for null.
            let fields: Vec<_> = fields.into_iter().map(|(name, value)| (name, some_map(value))).collect();
            let is_so = |(name, value): &(&'static str, Option<Value>)| {
                object["status"].get(*name).cloned().and_then(some_map) == *value
            };
            if fields.iter().all(is_so) || self.asked.get(key) == Some(&fields) {
                continue;
            }
            self.asked.insert(key.clone(), fields.clone());
            writes.push(Write::QuotaStatus { quota: key.clone(), fields });
        }
        writes
    }

    /// The quotas that are to go because another one takes their place.
    pub fn taken_over(&self) -> Vec<Write> {
        let composites = self.objects.iter().filter(|(key, _)| key.kind == elastic::COMPOSITE);
        let taken = composites.flat_map(|(_, composite)| elastic::takeover::takeover(composite, self));
        taken.map(|quota| Write::DeleteQuota { quota }).collect()
    }
}

/// The value, unless it is a map without an entry.
fn some_map(value: Value) -> Option<Value> {
    let is_empty = value.as_object().is_some_and(serde_json::Map::is_empty);
    (!is_empty && !value.is_null()).then_some(value)
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
    use serde_json::json;

    #[test]
    fn a_status_is_written_when_it_is_not_so_and_asked_for_once() {
        let mut quota = json!({
            "apiVersion": "nos.nebuly.com/v1alpha1", "kind": "ElasticQuota",
            "metadata": {"name": "q", "namespace": "a"}, "spec": {"min": {"cpu": "1"}},
        });
        let key = quotient_api::key_of(&quota).expect("it is an object");
        let mut book = QuotaBook::default();
        book.seen(&key, &quota);
        let fields = vec![("used", Some(json!({"cpu": "0"}))), ("borrowed", None)];
        assert_eq!(book.statuses(&[]), [Write::QuotaStatus { quota: key.clone(), fields }]);
        assert_eq!(book.statuses(&[]), [], "it is under way");
        quota["status"] = json!({"used": {"cpu": "7"}});
        book.seen(&key, &quota);
        assert_eq!(book.statuses(&[]).len(), 1, "somebody else wrote it");
        quota["status"] = json!({"used": {"cpu": "0"}, "borrowed": {}});
        book.seen(&key, &quota);
        assert_eq!(book.statuses(&[]), []);
        book.gone(&key);
        assert_eq!(book.statuses(&[]), []);
    }
}
