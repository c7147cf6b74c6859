//! Objects of scenarios made fit for a real API server.
//!
//! A scenario leaves out what a virtual cluster does not need: whose pods they are, a class for a priority, who plays a
//! node. What is added here changes nothing that a scenario can speak of.

use quotient_api::ObjectKey;
use serde_json::{Map, Value, json};

/// The label of everything that is made for a scenario.
pub const LABEL: &str = "quotient.dev/scenario";

/// What keeps a pod that was evicted, for as long as evictions take.
pub const FINALIZER: &str = "quotient.dev/eviction-takes";

/// The annotation by which kwok knows its nodes.
const KWOK_NODE: &str = "kwok.x-k8s.io/node";

/// How pods are made fit.
#[derive(Debug, Clone)]
pub struct Fitting {
    /// Whose pods they are.
    pub scheduler_name: String,
    /// Evicted pods may take a while.
    pub evictions_take: bool,
}

/// A class that stands for a priority.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PriorityStandIn {
    pub priority: i64,
    pub policy: Option<String>,
}

impl PriorityStandIn {
    pub fn name(&self) -> String {
        let sign = if self.priority < 0 { "minus-" } else { "" };
        let policy = self.policy.as_ref().map(|policy| format!("-{}", policy.to_lowercase())).unwrap_or_default();
        format!("quotient-scenario-{sign}{}{policy}", self.priority.unsigned_abs())
    }

    pub fn object(&self) -> Value {
        let mut class = json!({
            "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
            "metadata": {"name": self.name(), "labels": {LABEL: "true"}}, "value": self.priority,
        });
        if let Some(policy) = &self.policy {
            class["preemptionPolicy"] = json!(policy);
        }
        class
    }
}

impl Fitting {
    /// Makes an object fit; gives the classes that it needs.
    pub fn fit(&self, key: &ObjectKey, object: &mut Value) -> Vec<PriorityStandIn> {
        let metadata = mapping(object, "metadata");
        // An object whose labels are no mapping is left for the server to refuse.
        put_text(metadata, "labels", LABEL, "true");
        let mut classes = Vec::new();
        match (key.group, key.kind) {
            ("", "Node") => {
                put_text(mapping(object, "metadata"), "annotations", KWOK_NODE, "fake");
                fit_node(object);
            }
            ("", "Pod") => self.fit_pod(object, &mut classes),
            ("apps" | "batch", _) | ("", "ReplicationController") => {
                if let Some(template) = object.pointer_mut("/spec/template") {
                    self.fit_pod(template, &mut classes);
                }
            }
            ("batch.volcano.sh", "Job") => {
                let tasks = object.pointer_mut("/spec/tasks").and_then(Value::as_array_mut);
                for template in tasks.into_iter().flatten().filter_map(|task| task.get_mut("template")) {
                    self.fit_pod(template, &mut classes);
                }
            }
            _ => {}
        }
        classes
    }

    /// A pod, or the template of one.
    fn fit_pod(&self, pod: &mut Value, classes: &mut Vec<PriorityStandIn>) {
        if self.evictions_take {
            let finalizers = mapping(pod, "metadata").entry("finalizers").or_insert_with(|| json!([]));
            if let Value::Array(finalizers) = finalizers {
                finalizers.push(json!(FINALIZER));
            }
        }
        let Some(spec) = pod.get_mut("spec").and_then(Value::as_object_mut) else { return };
        spec.entry("schedulerName").or_insert_with(|| json!(self.scheduler_name));
        spec.entry("terminationGracePeriodSeconds").or_insert_with(|| json!(0));
        for list in ["containers", "initContainers"] {
            let containers = spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten();
            for (index, container) in containers.filter_map(Value::as_object_mut).enumerate() {
                container.entry("name").or_insert_with(|| json!(format!("{}-{index}", list.to_lowercase())));
                container.entry("image").or_insert_with(|| json!("main"));
                limit_huge_pages(container);
            }
        }
        if let Some(priority) = spec.get("priority").and_then(Value::as_i64)
            && spec.get("priorityClassName").is_none_or(Value::is_null)
        {
            let policy = spec.get("preemptionPolicy").and_then(Value::as_str).map(str::to_string);
            let class = PriorityStandIn { priority, policy };
            spec.insert("priorityClassName".to_string(), json!(class.name()));
            classes.push(class);
        }
    }
}

/// Huge pages cannot be had without a limit, which is what is requested.
fn limit_huge_pages(container: &mut Map<String, Value>) {
    let Some(resources) = container.get_mut("resources").and_then(Value::as_object_mut) else { return };
    let requests = resources.get("requests").and_then(Value::as_object).cloned().unwrap_or_default();
    for (resource, amount) in requests.into_iter().filter(|(resource, _)| resource.starts_with("hugepages-")) {
        if let Value::Object(limits) = resources.entry("limits").or_insert_with(|| json!({})) {
            limits.entry(resource).or_insert(amount);
        }
    }
}

/// A node that says nothing of how it is is ready, and has what it offers.
fn fit_node(node: &mut Value) {
    let status = mapping(node, "status");
    if !status.contains_key("conditions") {
        status.insert("conditions".to_string(), json!([{"type": "Ready", "status": "True"}]));
    }
    if !status.contains_key("capacity")
        && let Some(allocatable) = status.get("allocatable").cloned()
    {
        status.insert("capacity".to_string(), allocatable);
    }
    // Without this kwok would look after a node that is ready only when it is not.
    status.entry("phase").or_insert_with(|| json!("Running"));
}

fn mapping<'a>(object: &'a mut Value, field: &str) -> &'a mut Map<String, Value> {
    if !object[field].is_object() {
        object[field] = json!({});
    }
    object[field].as_object_mut().expect("it was made a mapping above")
}

fn put_text(metadata: &mut Map<String, Value>, part: &str, key: &str, text: &str) {
    let texts = metadata.entry(part).or_insert_with(|| json!({}));
    if texts.is_null() {
        *texts = json!({});
    }
    if let Value::Object(texts) = texts {
        texts.insert(key.to_string(), json!(text));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quotient_api::key_of;

    #[test]
    fn a_pod_with_a_number_gets_a_class_for_it() {
        let fitting = Fitting { scheduler_name: "quotient".to_string(), evictions_take: true };
        let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "a"},
            "spec": {"priority": -5, "preemptionPolicy": "Never", "containers": [{"name": "c"}]}});
        let key = key_of(&pod).expect("it is an object");
        let classes = fitting.fit(&key, &mut pod);
        assert_eq!(classes, [PriorityStandIn { priority: -5, policy: Some("Never".to_string()) }]);
        assert_eq!(pod["spec"]["priorityClassName"], "quotient-scenario-minus-5-never");
        assert_eq!(pod["spec"]["schedulerName"], "quotient");
        assert_eq!(pod["metadata"]["finalizers"], json!([FINALIZER]));
        assert_eq!(classes[0].object()["value"], -5);
    }
}
