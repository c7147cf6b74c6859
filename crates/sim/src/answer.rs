//! What the virtual API server answers to a request: what a real one would.
//!
//! People and the stand-ins for other controllers change objects directly; the host, which is what ships, sends
//! requests. Preconditions hold, budgets can refuse an eviction, and an object that is gone is not found.

use std::sync::{Arc, Mutex, PoisonError};

use quotient_api::field::of;
use quotient_api::{ObjectKey, Operation, at, time};
use quotient_host::{Api, Call, CallError, Content, Target, Verb};
use serde_json::{Map, Value, json};

use crate::controllers::disruption::budgets_of;
use crate::field;
use crate::random::Random;
use crate::server::{self, Refusal, Server, is_pod};

/// A server that answers at once.
pub struct AtOnce<'a>(Mutex<&'a mut Server>);

impl<'a> AtOnce<'a> {
    pub fn new(server: &'a mut Server) -> Self {
        AtOnce(Mutex::new(server))
    }
}

impl Api for AtOnce<'_> {
    fn call(&self, call: Call) -> impl Future<Output = Result<Value, CallError>> + Send {
        let answer = self.0.lock().unwrap_or_else(PoisonError::into_inner).answer(call);
        std::future::ready(answer)
    }

    /// They follow from the time, as everything else here.
    fn secret_bytes(&self) -> Result<[u8; 32], CallError> {
        let now = self.0.lock().unwrap_or_else(PoisonError::into_inner).clock.now_us();
        let mut random = Random::new(now.unsigned_abs());
        Ok(std::array::from_fn(|_| random.below(256) as u8))
    }
}

impl Server {
    /// Does what is asked and answers, or says why not. Only what is read has more to say than that it was done.
    pub fn answer(&mut self, call: Call) -> Result<Value, CallError> {
        let Call { verb, target, part, content, body, reads_answer } = call;
        let key = match target {
            Target::Object(key) => key,
            Target::Event { namespace, name } => return self.answer_event(verb, &namespace, &name, &body),
        };
        match (verb, part) {
            (Verb::Get, _) => self.store().get(&key).map(|object| (**object).clone()).ok_or_else(|| not_found(&key)),
            (Verb::Create, None) => self.answer_create(&key, body),
            (Verb::Create, Some("binding")) => self.answer_binding(&key, &body),
            (Verb::Create, Some("eviction")) => self.answer_eviction(&key, &body),
            (Verb::Create, Some(part)) => Err(CallError::NotFound(format!("{key} has no {part}"))),
            (Verb::Patch, part) => self.answer_patch(&key, part, content, body),
            (Verb::Delete, _) => self.answer_delete(&key, &body),
        }
        .map(|answer| match self.store().get(&key) {
            Some(object) if reads_answer && verb != Verb::Get => Value::clone(object),
            _ => answer,
        })
    }

    fn answer_create(&mut self, key: &ObjectKey, object: Value) -> Result<Value, CallError> {
        if self.store().contains(key) {
            return Err(CallError::Conflict(format!("{key} already exists")));
        }
        self.create(object).map(|_| Value::Null).map_err(refused)
    }

    fn answer_binding(&mut self, key: &ObjectKey, binding: &Value) -> Result<Value, CallError> {
        let metadata = of(binding, "metadata").unwrap_or(&Value::Null);
        let pod = self.found(key, metadata)?;
        let pod_name = || format!("pod {}/{}", key.namespace.as_deref().unwrap_or_default(), key.name);
        if server::is_leaving(&pod) {
            return Err(CallError::Conflict(format!("{} is being deleted, cannot be assigned to a host", pod_name())));
        }
        if let Some(node) = field::text(&pod, "/spec/nodeName") {
            return Err(CallError::Conflict(format!("{} is already assigned to node {node:?}", pod_name())));
        }
        drop(pod);
        let node = at(binding, "/target/name").cloned().unwrap_or_default();
        let now = self.clock.now_us();
        self.change(key, |pod| {
            field::put(pod, &["spec", "nodeName"], node);
            let annotations = of(metadata, "annotations").and_then(Value::as_object).filter(|all| !all.is_empty());
            if let Some(annotations) = annotations {
                if at(pod, "/metadata/annotations").is_none() {
                    let room = Map::with_capacity(annotations.len());
                    field::put(pod, &["metadata", "annotations"], Value::Object(room));
                }
                for (key, value) in annotations {
                    field::put(pod, &["metadata", "annotations", key], value.clone());
                }
            }
            field::remove(pod, &["status", "nominatedNodeName"]);
            // The kubelet of a virtual node lets it run at once.
            server::run(pod, now);
        });
        Ok(Value::Null)
    }

    fn answer_eviction(&mut self, key: &ObjectKey, eviction: &Value) -> Result<Value, CallError> {
        let pod = self.found(key, &eviction["deleteOptions"]["preconditions"])?;
        let is_counted = field::text(&pod, "/status/phase") == Some("Running") && !server::is_leaving(&pod);
        match &budgets_of(self.store(), key, &pod)[..] {
            [] => {}
            _ if !is_counted => {}
            [budget] => {
                let allowed = self.store().get(budget).map_or(0, |budget| {
                    let is_current = budget["status"]["observedGeneration"] == budget["metadata"]["generation"];
                    field::integer(budget, "/status/disruptionsAllowed").filter(|_| is_current).unwrap_or(0)
                });
                if allowed < 1 {
                    let message = "Cannot evict pod as it would violate the pod's disruption budget.".to_string();
                    return Err(CallError::Throttled { after: None, message });
                }
                let left = json!(allowed - 1);
                self.amend(budget, |budget| field::put(budget, &["status", "disruptionsAllowed"], left));
            }
            _ => {
                let message = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not \
                               support.";
                return Err(CallError::Broken(message.to_string()));
            }
        }
        let now = json!(time::format_timestamp(self.clock.now_us()));
        self.amend(key, |pod| {
            let fields = [
                ("status", json!("True")),
                ("reason", json!("EvictionByEvictionAPI")),
                ("message", json!("Eviction API: evicting")),
                ("lastTransitionTime", now),
            ];
            field::set_condition(pod, "DisruptionTarget", &fields);
        });
        self.evict(key);
        Ok(Value::Null)
    }

    fn answer_patch(
        &mut self,
        key: &ObjectKey,
        part: Option<&str>,
        content: Content,
        patch: Value,
    ) -> Result<Value, CallError> {
        let old = self.found(key, &patch["metadata"])?;
        let lists = if content == Content::StrategicPatch { Lists::Merged } else { Lists::Replaced };
        let Value::Object(mut patch) = patch else { return Ok(Value::Null) };
        if part == Some("status") {
            let status = patch.shift_remove("status").unwrap_or_default();
            self.amend(key, |object| merge_patch(object, &json!({"status": status}), lists));
            return Ok(Value::Null);
        }
        patch.shift_remove("status");
        if let Some(Value::Object(metadata)) = patch.get_mut("metadata") {
            for precondition in ["uid", "resourceVersion"] {
                metadata.shift_remove(precondition);
            }
        }
        let mut new = Value::clone(&old);
        merge_patch(&mut new, &Value::Object(patch), lists);
        self.quietly(|server| server.update(key, new)).map(|_| Value::Null).map_err(refused)
    }

    fn answer_delete(&mut self, key: &ObjectKey, options: &Value) -> Result<Value, CallError> {
        let object = self.found(key, &options["preconditions"])?;
        // What is sent away leaves as long as evictions take; what its owner takes out goes at once.
        if is_pod(key) && field::has_condition(&object, "DisruptionTarget") {
            self.evict(key);
            return Ok(Value::Null);
        }
        let as_it_is = Value::clone(&object);
        self.quietly(|server| server.admitted(Operation::Delete, key, as_it_is, Some(&object))).map_err(refused)?;
        self.remove(key);
        Ok(Value::Null)
    }

    /// The object, if it is as the request presumes.
    fn found(&self, key: &ObjectKey, presumed: &Value) -> Result<Arc<Value>, CallError> {
        let object = self.store().get(key).ok_or_else(|| not_found(key))?;
        for field in ["uid", "resourceVersion"] {
            let presumed = of(presumed, field).filter(|value| !value.is_null());
            if presumed.is_some_and(|presumed| *presumed != object["metadata"][field]) {
                let message = format!("Precondition failed: {field} of {key} is {}", object["metadata"][field]);
                return Err(CallError::Conflict(message));
            }
        }
        Ok(object.clone())
    }
}

fn not_found(key: &ObjectKey) -> CallError {
    CallError::NotFound(format!("{key} not found"))
}

fn refused(refusal: Refusal) -> CallError {
    match refusal {
        Refusal::Missing(key) => not_found(&key),
        Refusal::Unreadable(problem) => CallError::Refused { code: 422, message: problem.to_string() },
        refusal @ Refusal::Rejected(_) => CallError::Refused { code: 403, message: refusal.to_string() },
    }
}

/// What a patch does to lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lists {
    Replaced,
    /// Conditions are told apart by their type.
    Merged,
}

/// A merge patch: null takes out, mappings are merged, the rest is replaced.
fn merge_patch(object: &mut Value, patch: &Value, lists: Lists) {
    let Value::Object(patch) = patch else {
        *object = patch.clone();
        return;
    };
    if !object.is_object() {
        *object = Value::Object(Map::new());
    }
    let Value::Object(fields) = object else { return };
    for (key, value) in patch {
        match value {
            Value::Null => {
                fields.shift_remove(key);
            }
            Value::Array(items) if lists == Lists::Merged && key == "conditions" => {
                let known = fields.entry(key.clone()).or_insert_with(|| json!([]));
                merge_conditions(known, items, lists);
            }
            value => merge_patch(fields.entry(key.clone()).or_insert(Value::Null), value, lists),
        }
    }
}

fn merge_conditions(known: &mut Value, patches: &[Value], lists: Lists) {
    let Value::Array(known) = known else { return };
    for patch in patches {
        match known.iter_mut().find(|condition| condition["type"] == patch["type"]) {
            Some(condition) => merge_patch(condition, patch, lists),
            None => known.push(patch.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server_with(objects: &[Value]) -> Server {
        let mut server = Server::default();
        for object in objects {
            server.apply(object.clone()).expect("it is an object");
        }
        server
    }

    fn pod() -> Value {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "a", "uid": "1",
            "labels": {"app": "x"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
    }

    fn call(server: &mut Server, verb: Verb, part: Option<&'static str>, content: Content, body: Value) -> String {
        let call = Call { part, ..Call::new(verb, &ObjectKey::pod("a", "p"), content, body) };
        match server.answer(call) {
            Ok(_) => "done".to_string(),
            Err(CallError::Refused { code, .. }) => code.to_string(),
            Err(CallError::NotFound(_)) => "404".to_string(),
            Err(CallError::Conflict(_)) => "409".to_string(),
            Err(CallError::Throttled { .. }) => "429".to_string(),
            Err(CallError::Broken(_)) => "500".to_string(),
            Err(CallError::Unavailable(_)) => "503".to_string(),
            Err(CallError::Fenced) => "fenced".to_string(),
        }
    }

    #[test]
    fn a_bind_happens_once_and_to_the_pod_that_was_meant() {
        let mut server = server_with(&[pod()]);
        let bind = |uid: &str| json!({"metadata": {"uid": uid}, "target": {"name": "n"}});
        let mut call = |body: Value| call(&mut server, Verb::Create, Some("binding"), Content::Json, body);
        assert_eq!(call(bind("2")), "409", "another pod of that name");
        assert_eq!(call(bind("1")), "done");
        assert_eq!(call(bind("1")), "409", "it has a node");
        server.remove(&ObjectKey::pod("a", "p"));
        assert_eq!(super::tests::call(&mut server, Verb::Get, None, Content::Json, Value::Null), "404");
    }

    #[test]
    fn a_strategic_patch_keeps_the_other_conditions() {
        let mut server = server_with(&[pod()]);
        for (kind, status) in [("A", "True"), ("B", "True"), ("A", "False")] {
            let body = json!({"metadata": {"uid": "1"}, "status": {"conditions": [{"type": kind, "status": status}]}});
            assert_eq!(call(&mut server, Verb::Patch, Some("status"), Content::StrategicPatch, body), "done");
        }
        let pod = server.store().get(&ObjectKey::pod("a", "p")).expect("it is there").clone();
        let conditions = json!([{"type": "A", "status": "False"}, {"type": "B", "status": "True"}]);
        assert_eq!(pod["status"]["conditions"], conditions);
        let body = json!({"metadata": {"uid": "1", "labels": {"app": null, "b": "c"}}, "status": {"phase": "Odd"}});
        assert_eq!(call(&mut server, Verb::Patch, None, Content::StrategicPatch, body), "done");
        let pod = server.store().get(&ObjectKey::pod("a", "p")).expect("it is there");
        assert_eq!((&pod["metadata"]["labels"], &pod["status"]["phase"]), (&json!({"b": "c"}), &json!("Pending")));
    }

    #[test]
    fn budgets_refuse_evictions_but_not_deletions() {
        let budget = |name: &str, allowed: u32| {
            json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": name, "namespace": "a"},
                "spec": {"selector": {"matchLabels": {"app": "x"}}, "maxUnavailable": 1},
                "status": {"disruptionsAllowed": allowed, "observedGeneration": 1}})
        };
        let mut running = pod();
        running["spec"]["nodeName"] = json!("n");
        let cases = [(vec![], "done"), (vec![1], "done"), (vec![0], "429"), (vec![1, 1], "500")];
        for (budgets, expected) in cases {
            let mut objects = vec![running.clone()];
            objects.extend(budgets.iter().enumerate().map(|(i, allowed)| budget(&format!("b-{i}"), *allowed)));
            let mut server = server_with(&objects);
            let body = json!({"deleteOptions": {"preconditions": {"uid": "1"}}});
            assert_eq!(call(&mut server, Verb::Create, Some("eviction"), Content::Json, body), expected);
            assert_eq!(call(&mut server, Verb::Delete, None, Content::Json, json!({"preconditions": {"uid": "1"}})), {
                if expected == "done" { "404" } else { "done" }
            });
        }
    }
}
