//! Fields that nobody reads, most of them misspelt: an API server drops them from some kinds and refuses them in none
//! of ours, so that `lint` is the only one to say that a `mim` guarantees nothing.
//!
//! Our own kinds are compared with their definitions, and every unknown field is told. Of Kubernetes' own kinds only
//! the fields that bear on scheduling are listed here; an unknown field is told where it nearly is one of them,
//! because newer versions of Kubernetes have fields that this list has not.

mod tables;

use std::collections::BTreeMap;
use std::sync::OnceLock;

use serde_json::{Map, Value};

use crate::crd;
use crate::near_names::nearest_name;
use crate::object::ObjectKey;
use crate::problem::Problem;
use tables::{Fields, Shape};

/// What is wrong with the names of an object's fields.
pub fn unknown_fields(key: &ObjectKey, object: &Value) -> Vec<Problem> {
    let mut found = Vec::new();
    match schema(key) {
        Some(schema) => follow_schema(object, schema, "", &mut found),
        None => {
            if let Some(fields) = tables::of_kind(key.group, key.kind) {
                follow_table(object, fields, "", &mut found);
            }
        }
    }
    found.into_iter().map(|problem| problem.of_object(key)).collect()
}

/// The schema of one of our kinds.
fn schema(key: &ObjectKey) -> Option<&'static Value> {
    static SCHEMAS: OnceLock<BTreeMap<(String, String), Value>> = OnceLock::new();
    let schemas = SCHEMAS.get_or_init(|| {
        let schema = |definition: &Value| {
            let text =
                |pointer: &str| definition.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
            let schema = definition.pointer("/spec/versions/0/schema/openAPIV3Schema").cloned().unwrap_or_default();
            ((text("/spec/group"), text("/spec/names/kind")), schema)
        };
        crd::definitions().iter().map(schema).collect()
    });
    schemas.get(&(key.group.to_owned(), key.kind.to_owned()))
}

fn unknown<'a>(path: &str, known: impl Iterator<Item = &'a str>, name: &str) -> Problem {
    let message = match nearest_name(name, known) {
        Some(near) => format!("unknown field: did you mean {near:?}?"),
        None => "unknown field: it has no effect".to_owned(),
    };
    Problem::new(message).at_field(path)
}

fn below(path: &str, name: &str) -> String {
    match (path.is_empty(), name.contains(['.', '/', '[', ' '])) {
        (_, true) => format!("{path}[{name:?}]"),
        (true, false) => name.to_owned(),
        (false, false) => format!("{path}.{name}"),
    }
}

fn follow_schema(value: &Value, schema: &Value, path: &str, found: &mut Vec<Problem>) {
    if let (Value::Array(items), Some(element)) = (value, schema.get("items")) {
        for (index, item) in items.iter().enumerate() {
            follow_schema(item, element, &format!("{path}[{index}]"), found);
        }
        return;
    }
    let (Value::Object(map), Some(properties)) = (value, schema.get("properties").and_then(Value::as_object)) else {
        return;
    };
    // The status is the cluster's to write, and metadata has fields of any name below it.
    let is_open = schema.get("x-kubernetes-preserve-unknown-fields").is_some();
    for (name, value) in map {
        let at = below(path, name);
        match properties.get(name) {
            Some(_) if path.is_empty() && (name == "status" || name == "metadata") => {}
            Some(schema) => follow_schema(value, schema, &at, found),
            // Manifests of the originals hold more than is described: there only a near miss is one.
            None if is_open && nearest_name(name, properties.keys().map(String::as_str)).is_none() => {}
            None => found.push(unknown(&at, properties.keys().map(String::as_str), name)),
        }
    }
}

fn follow_table(value: &Value, fields: Fields, path: &str, found: &mut Vec<Problem>) {
    let Value::Object(map) = value else { return };
    for (name, value) in map {
        let at = below(path, name);
        match fields.iter().find(|(known, _)| known == name) {
            Some((_, Shape::Any)) => {}
            Some((_, Shape::Map(fields))) => follow_table(value, fields, &at, found),
            Some((_, Shape::List(fields))) => {
                for (index, item) in value.as_array().into_iter().flatten().enumerate() {
                    follow_table(item, fields, &format!("{at}[{index}]"), found);
                }
            }
            None if is_slip(name, fields, map) => found.push(unknown(&at, fields.iter().map(|(name, _)| *name), name)),
            None => {}
        }
    }
}

/// Whether an unknown field is a known one misspelt: nearly its name, where that one is not given too.
fn is_slip(name: &str, fields: Fields, given: &Map<String, Value>) -> bool {
    nearest_name(name, fields.iter().map(|(known, _)| *known)).is_some_and(|near| !given.contains_key(near))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::read;

    fn told(text: &str) -> Vec<String> {
        let read = read("f.yaml", text);
        assert_eq!(read.problems, []);
        let of = |document: &crate::read::Document| unknown_fields(&document.key, &document.value);
        read.documents.iter().flat_map(of).map(|problem| problem.to_string()).collect()
    }

    #[test]
    fn misspelt_fields_are_told_with_the_nearest_name() {
        let quota = "{apiVersion: scheduling.x-k8s.io/v1alpha1, kind: ElasticQuota, metadata: {name: q, namespace: a}, \
                     spec: {mim: {cpu: 1}, maxx: {cpu: 2}, colour: red}}";
        let expected = [
            "ElasticQuota/a/q: spec.mim: unknown field: did you mean \"min\"?",
            "ElasticQuota/a/q: spec.maxx: unknown field: did you mean \"max\"?",
            "ElasticQuota/a/q: spec.colour: unknown field: it has no effect",
        ];
        assert_eq!(told(quota), expected);
        let queue = "{apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue, metadata: {name: q}, \
                     spec: {capabilty: {cpu: 1}, extendClusters: []}}";
        assert_eq!(told(queue), ["Queue/q: spec.capabilty: unknown field: did you mean \"capability\"?"]);
        let pod = "{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: a}, spec: {nodeSelctor: {a: b}, \
                   containers: [{name: c, image: i, resource: {requests: {cpu: 1}}}], topologySpreadConstraints: [\
                   {maxSkew: 1, topologykey: zone}], somethingNewer: 1}}";
        let expected = [
            "Pod/a/p: spec.nodeSelctor: unknown field: did you mean \"nodeSelector\"?",
            "Pod/a/p: spec.containers[0].resource: unknown field: did you mean \"resources\"?",
            "Pod/a/p: spec.topologySpreadConstraints[0].topologykey: unknown field: did you mean \"topologyKey\"?",
        ];
        assert_eq!(told(pod), expected);
        let deployment = "{apiVersion: apps/v1, kind: Deployment, metadata: {name: d}, spec: {replica: 2, template: \
                          {spec: {tolerations: [{key: a, efect: NoSchedule}]}}}}";
        assert_eq!(told(deployment).len(), 2, "{:?}", told(deployment));
    }

    #[test]
    fn fields_that_are_right_are_not_told() {
        let pod = "{apiVersion: v1, kind: Pod, metadata: {name: p, annotations: {x: y}}, spec: {containers: [{name: c, \
                   image: i, env: [{name: A, value: b}], resources: {limits: {cpu: 1}}}], priorityClassName: a, \
                   affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [\
                   {matchExpressions: [{key: a, operator: In, values: [b]}]}]}}}}, status: {phase: Running, hostIPs: []}}";
        assert_eq!(told(pod), Vec::<String>::new());
    }
}
