//! Pods of a tree run on the nodes of the tree: the profile's selector becomes their node affinity.

use serde_json::{Map, Value, json};

use super::membership::{by_name, quota_of};
use super::{GROUP, PROFILE, PROFILE_GROUP, QUOTA, is_root, keys, label, tree_id};
use crate::admission::View;
use crate::object::{DEFAULT_NAMESPACE, ObjectKey};

/// The conditions on nodes that pods of the same tree as this pod must meet: those of the profile of its tree.
pub(crate) fn conditions_for(pod: &Value, view: &dyn View) -> Vec<Value> {
    // Most clusters have no trees.
    if view.list(GROUP, QUOTA, None).is_empty() {
        return Vec::new();
    }
    let Some(quota) = by_name(view, quota_of(pod, view).name()) else { return Vec::new() };
    let id = tree_id(quota);
    if id.is_empty() {
        return Vec::new();
    }
    let roots = view.list(GROUP, QUOTA, None);
    let root = roots.into_iter().find(|quota| is_root(quota) && tree_id(quota) == id);
    root.and_then(|root| profile_of(root, view)).map(conditions).unwrap_or_default()
}

/// The profile that the root of a tree was made for.
fn profile_of<'a>(root: &Value, view: &'a dyn View) -> Option<&'a Value> {
    let kind = crate::kinds::find(PROFILE_GROUP, PROFILE)?;
    let namespace = root.pointer("/metadata/namespace").and_then(Value::as_str).unwrap_or(DEFAULT_NAMESPACE);
    view.get(&ObjectKey::new(kind, Some(namespace), label(root, keys::PROFILE)?))
}

/// The profile's selector as conditions of a node selector's term, labels first, by key.
fn conditions(profile: &Value) -> Vec<Value> {
    let selector = profile.pointer("/spec/nodeSelector");
    let labels = selector.and_then(|selector| selector.get("matchLabels")).and_then(Value::as_object);
    let mut labels: Vec<(&String, &Value)> = labels.into_iter().flatten().collect();
    labels.sort_by_key(|(key, _)| *key);
    let equalities = labels.into_iter().map(|(key, value)| json!({"key": key, "operator": "In", "values": [value]}));
    let expressions = selector.and_then(|selector| selector.get("matchExpressions")).and_then(Value::as_array);
    equalities.chain(expressions.into_iter().flatten().cloned()).collect()
}

/// Adds the conditions to every required term of the pod's node affinity, or makes a term of them where there is none.
/// A condition that a term has already is not added again. A term without conditions selects no node, and stays so.
pub(crate) fn require(spec: &mut Value, conditions: &[Value]) {
    const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
    if conditions.is_empty() {
        return;
    }
    let Some(terms) = in_map(spec, "affinity")
        .and_then(|affinity| in_map(affinity, "nodeAffinity"))
        .and_then(|affinity| in_map(affinity, REQUIRED))
        .and_then(Value::as_object_mut)
    else {
        return;
    };
    match terms.get_mut("nodeSelectorTerms") {
        None | Some(Value::Null) => {
            terms.insert("nodeSelectorTerms".into(), json!([{"matchExpressions": conditions}]));
        }
        Some(Value::Array(terms)) => terms.iter_mut().for_each(|term| add(term, conditions)),
        // What is no list is admission's to refuse.
        Some(_) => {}
    }
}

fn add(term: &mut Value, conditions: &[Value]) {
    let is_given = |name: &str| term.get(name).and_then(Value::as_array).is_some_and(|list| !list.is_empty());
    if !is_given("matchExpressions") && !is_given("matchFields") {
        return;
    }
    let Some(term) = term.as_object_mut() else { return };
    let expressions = term.entry("matchExpressions").or_insert(Value::Null);
    if expressions.is_null() {
        *expressions = Value::Array(Vec::new());
    }
    let Some(expressions) = expressions.as_array_mut() else { return };
    for condition in conditions {
        if !expressions.contains(condition) {
            expressions.push(condition.clone());
        }
    }
}

/// The map under `name`, made where there is none. `None` where something else stands there.
fn in_map<'a>(value: &'a mut Value, name: &str) -> Option<&'a mut Value> {
    let entry = value.as_object_mut()?.entry(name).or_insert(Value::Null);
    if entry.is_null() {
        *entry = Value::Object(Map::new());
    }
    entry.is_object().then_some(entry)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn required(terms: Value, conditions: &[Value]) -> Value {
        let mut spec = json!({"affinity": {"nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}});
        require(&mut spec, conditions);
        let affinity = &spec["affinity"]["nodeAffinity"];
        affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"].clone()
    }

    #[test]
    fn conditions_go_into_every_term() {
        let ours = [json!({"key": "pool", "operator": "In", "values": ["a"]})];
        let disk = json!({"key": "disk", "operator": "Exists"});
        let cases = [
            (json!(null), json!([{"matchExpressions": ours}])),
            (json!([]), json!([])),
            (json!([{}]), json!([{}])),
            (json!([{"matchExpressions": [disk]}]), json!([{"matchExpressions": [disk, ours[0]]}])),
            (json!([{"matchExpressions": [ours[0]]}]), json!([{"matchExpressions": [ours[0]]}])),
            (
                json!([{"matchFields": [disk]}, {"matchExpressions": [], "matchFields": []}]),
                json!([{"matchFields": [disk], "matchExpressions": ours}, {"matchExpressions": [], "matchFields": []}]),
            ),
        ];
        for (terms, expected) in cases {
            assert_eq!(required(terms.clone(), &ours), expected, "{terms}");
        }
        let mut bare = json!({"containers": []});
        require(&mut bare, &[]);
        assert_eq!(bare, json!({"containers": []}));
        require(&mut bare, &ours);
        let made = bare.pointer("/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution");
        assert_eq!(made, Some(&json!({"nodeSelectorTerms": [{"matchExpressions": ours}]})));
    }

    #[test]
    fn a_selector_becomes_conditions_in_order() {
        let profile = json!({"spec": {"nodeSelector": {
            "matchLabels": {"z": "1", "a": "2"},
            "matchExpressions": [{"key": "m", "operator": "NotIn", "values": ["3"]}],
        }}});
        assert_eq!(
            conditions(&profile),
            [
                json!({"key": "a", "operator": "In", "values": ["2"]}),
                json!({"key": "z", "operator": "In", "values": ["1"]}),
                json!({"key": "m", "operator": "NotIn", "values": ["3"]}),
            ]
        );
        assert!(conditions(&json!({"spec": {}})).is_empty());
    }
}
