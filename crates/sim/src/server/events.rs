//! Events: what people are told about objects.

use quotient_api::{ObjectKey, time};
use quotient_engine::fact::Name;
use serde_json::json;

use super::{EVENT, Server};
use crate::{field, naming};

impl Server {
    /// Notes an event about an object. An object has one event for each reason: it counts how often,
    /// and says what was said last.
    pub fn event(&mut self, about: &ObjectKey, kind: &str, reason: &str, message: &str) {
        let Some(object) = self.store.get(about) else { return };
        let involved = json!({
            "apiVersion": object["apiVersion"], "kind": about.kind, "namespace": about.namespace.as_deref(),
            "name": *about.name, "uid": object["metadata"]["uid"],
        });
        let namespace = about.namespace.clone().unwrap_or_else(|| Name::from("default"));
        let print = naming::fingerprint(&format!("{} {reason}", about.qualified()));
        let name = Name::from(format!("{}.{print:016x}", about.name));
        let key = ObjectKey { group: "", kind: EVENT, namespace: Some(namespace.clone()), name: name.clone() };
        let now = time::format_timestamp(self.clock.now_us());
        let (first, count) = match self.store.get(&key) {
            Some(known) if known["message"] == message && known["lastTimestamp"] == now => return,
            Some(known) => (known["firstTimestamp"].clone(), field::integer(known, "/count").unwrap_or(0) + 1),
            None => (json!(now), 1),
        };
        let event = json!({
            "apiVersion": "v1", "kind": EVENT, "metadata": {"name": *name, "namespace": *namespace},
            "involvedObject": involved, "type": kind, "reason": reason, "message": message,
            "source": {"component": "quotient"}, "count": count, "firstTimestamp": first, "lastTimestamp": now,
        });
        self.record(key, event);
    }

    /// The events about an object, by reason, with their messages.
    pub fn events<'a>(&'a self, about: &'a ObjectKey) -> impl Iterator<Item = (&'a str, &'a str)> {
        let namespace = about.namespace.as_deref().unwrap_or("default");
        self.store.of_kind("", EVENT, Some(namespace)).filter_map(move |(_, event)| {
            let involved = &event["involvedObject"];
            let group = field::text(involved, "/apiVersion")?.split_once('/').map_or("", |(group, _)| group);
            let same = involved["kind"] == about.kind && involved["name"] == *about.name && group == about.group;
            same.then_some((field::text(event, "/reason")?, field::text(event, "/message").unwrap_or_default()))
        })
    }
}
