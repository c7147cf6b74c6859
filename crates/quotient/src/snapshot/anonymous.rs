//! Names and values replaced by others, the same by the same: what refers to what still does, and nobody is named.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// Keys whose values are words of Kubernetes or of the quota systems, amounts or times: they are kept.
const KEPT: [&str; 42] = [
    "apiVersion",
    "kind",
    "phase",
    "type",
    "status",
    "reason",
    "operator",
    "effect",
    "restartPolicy",
    "preemptionPolicy",
    "whenUnsatisfiable",
    "nodeAffinityPolicy",
    "nodeTaintsPolicy",
    "protocol",
    "creationTimestamp",
    "deletionTimestamp",
    "startTime",
    "completionTime",
    "lastTransitionTime",
    "lastProbeTime",
    "lastTimestamp",
    "time",
    "policy",
    "completionMode",
    "completedIndexes",
    "podManagementPolicy",
    "concurrencyPolicy",
    "volumeBindingMode",
    "reclaimPolicy",
    "volumeMode",
    "accessModes",
    "scopes",
    "scopeName",
    "state",
    "version",
    "server",
    "resourceVersion",
    "unhealthyPodEvictionPolicy",
    "podReplacementPolicy",
    "schedule",
    "topologyKey",
    "minAvailable",
];

/// Maps of resources to amounts: resources are not secret, and amounts are what it is all about.
const AMOUNTS: [&str; 17] = [
    "requests",
    "limits",
    "allocatable",
    "capacity",
    "overhead",
    "min",
    "max",
    "capability",
    "deserved",
    "resource",
    "hard",
    "used",
    "default",
    "defaultRequest",
    "runtime",
    "allocated",
    "minResources",
];

/// What the keys of labels and annotations may start with and still be kept, with their values.
const PUBLIC: [&str; 7] = [
    "nvidia.com/",
    "volcano.sh/card",
    "kubernetes.io/arch",
    "kubernetes.io/os",
    "quota.scheduling.koordinator.sh/is-",
    "quota.scheduling.koordinator.sh/shared-weight",
    "quota.scheduling.koordinator.sh/allow-lent-resource",
];

/// Domains of keys that everybody uses: the key is kept, its value is a name like any other.
const KNOWN_DOMAINS: [&str; 9] = [
    "kubernetes.io",
    "k8s.io",
    "volcano.sh",
    "koordinator.sh",
    "nebuly.com",
    "nebuly.ai",
    "quotient.dev",
    "nvidia.com",
    "amd.com",
];

/// Replaces everything that may name somebody.
pub(super) fn anonymize(snapshot: &mut Value) {
    let mut names = Names::default();
    if let Some(unseen) = snapshot.get_mut("unseen").and_then(Value::as_array_mut) {
        unseen.clear();
    }
    for part in ["items", "evictions"] {
        for object in snapshot.get_mut(part).and_then(Value::as_array_mut).into_iter().flatten() {
            names.replace(object, "");
        }
    }
}

/// What stands for each name.
#[derive(Debug, Default)]
struct Names(BTreeMap<String, String>);

impl Names {
    fn replace(&mut self, value: &mut Value, key: &str) {
        match value {
            _ if AMOUNTS.contains(&key) && value.is_object() => {}
            Value::Object(map) if matches!(key, "labels" | "annotations" | "matchLabels" | "nodeSelector") => {
                *map = self.labels(std::mem::take(map));
            }
            Value::Object(map) => {
                for (name, value) in map.iter_mut() {
                    // The key of a selector's expression or of a taint is one of a label.
                    if name == "key" {
                        if let Some(text) = value.as_str() {
                            *value = Value::from(self.label_key(text));
                        }
                    } else if name == "message" || name == "description" {
                        *value = Value::from("");
                    } else if !KEPT.contains(&name.as_str()) || !(value.is_string() || value.is_array()) {
                        self.replace(value, name);
                    }
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.replace(item, key)),
            Value::String(text) => *text = self.name(text),
            _ => {}
        }
    }

    fn labels(&mut self, labels: Map<String, Value>) -> Map<String, Value> {
        let renamed = labels.into_iter().map(|(key, value)| {
            if PUBLIC.iter().any(|public| key.starts_with(public)) {
                return (key, value);
            }
            let value = match value.as_str() {
                // A value that is written as JSON is read as such: what it holds is replaced.
                Some(text) if text.starts_with(['{', '[']) => match serde_json::from_str::<Value>(text) {
                    Ok(mut inner) => {
                        self.replace(&mut inner, "");
                        Value::from(inner.to_string())
                    }
                    Err(_) => Value::from(""),
                },
                Some(text) => Value::from(self.name(text)),
                None => value,
            };
            (self.label_key(&key), value)
        });
        renamed.collect()
    }

    fn label_key(&mut self, key: &str) -> String {
        match key.split_once('/') {
            Some((domain, _)) if KNOWN_DOMAINS.iter().any(|known| domain.ends_with(known)) => key.to_owned(),
            _ => self.name(key).replace('/', "-"),
        }
    }

    /// What stands for a name. Numbers, truth values and empty texts are kept; a number at the end is kept with it,
    /// because it tells pods of one owner apart.
    fn name(&mut self, text: &str) -> String {
        let is_plain = text.is_empty() || text.parse::<f64>().is_ok() || matches!(text, "true" | "false");
        if is_plain {
            return text.to_owned();
        }
        if let Some((stem, ordinal)) = text.rsplit_once('-')
            && !stem.is_empty()
            && !ordinal.is_empty()
            && ordinal.bytes().all(|byte| byte.is_ascii_digit())
        {
            return format!("{}-{ordinal}", self.name(stem));
        }
        let count = self.0.len() + 1;
        self.0.entry(text.to_owned()).or_insert_with(|| format!("x{count}")).clone()
    }
}
