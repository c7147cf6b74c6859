//! The objects of a cluster, for admission to ask.

use std::collections::BTreeMap;

use quotient_api::{ObjectKey, View, key_of};
use serde_json::Value;

#[derive(Debug, Default)]
pub struct Objects(pub BTreeMap<ObjectKey, Value>);

impl Objects {
    pub fn of(values: &[Value]) -> Self {
        Objects(values.iter().map(|value| (key_of(value).expect("an object"), value.clone())).collect())
    }
}

impl View for Objects {
    fn get(&self, key: &ObjectKey) -> Option<&Value> {
        self.0.get(key)
    }

    fn list(&self, group: &str, kind: &str, namespace: Option<&str>) -> Vec<&Value> {
        let is_meant = |key: &ObjectKey| {
            key.group == group && key.kind == kind && namespace.is_none_or(|n| key.namespace.as_deref() == Some(n))
        };
        self.0.iter().filter(|(key, _)| is_meant(key)).map(|(_, value)| value).collect()
    }
}
