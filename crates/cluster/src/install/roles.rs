//! The account that the program runs under, and what it may do: the table of permissions, as roles.

use serde_json::{Value, json};

use super::{NAME, definitions, metadata};
use crate::permission::{PERMISSIONS, Permission, Place};
use crate::system::System;

const RBAC: &str = "rbac.authorization.k8s.io";

pub fn objects(namespace: &str, systems: &[System]) -> Vec<Value> {
    let account = json!({"kind": "ServiceAccount", "name": NAME, "namespace": namespace});
    let version = format!("{RBAC}/v1");
    let bound = |kind: &str, place: Option<&str>, role: &str| {
        json!({
            "apiVersion": version, "kind": kind, "metadata": metadata(NAME, place),
            "roleRef": {"apiGroup": RBAC, "kind": role, "name": NAME}, "subjects": [account],
        })
    };
    let role = |kind: &str, place: Option<&str>, rules: Vec<Value>| {
        let metadata = metadata(NAME, place);
        json!({"apiVersion": version, "kind": kind, "metadata": metadata, "rules": rules})
    };
    vec![
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata(NAME, Some(namespace))}),
        role("ClusterRole", None, rules(Place::Everywhere, systems)),
        bound("ClusterRoleBinding", None, "ClusterRole"),
        role("Role", Some(namespace), rules(Place::Own, systems)),
        bound("RoleBinding", Some(namespace), "Role"),
        for_viewers(systems),
    ]
}

/// Whoever may view a namespace, by Kubernetes' own role `view`, sees its quotas, groups and jobs too.
fn for_viewers(systems: &[System]) -> Value {
    let mut metadata = metadata(&format!("{NAME}-view"), None);
    metadata["labels"][format!("{RBAC}/aggregate-to-view")] = json!("true");
    let mut kinds: Vec<(String, String)> = definitions(systems)
        .map(|definition| {
            let text = |pointer: &str| definition.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
            (text("/spec/group").to_owned(), text("/spec/names/plural").to_owned())
        })
        .collect();
    // As the chart sorts them.
    kinds.sort_by_key(|(group, plural)| format!("{group}/{plural}"));
    let rules: Vec<Value> = kinds
        .iter()
        .map(|(group, plural)| json!({"apiGroups": [group], "resources": [plural], "verbs": ["get", "list", "watch"]}))
        .collect();
    json!({"apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRole", "metadata": metadata, "rules": rules})
}

/// The rows of the table as rules, those about the same resource as one.
fn rules(wanted: Place, systems: &[System]) -> Vec<Value> {
    let mut rules: Vec<Permission> = Vec::new();
    let mut verbs: Vec<Vec<&str>> = Vec::new();
    for permission in PERMISSIONS.iter() {
        let is_wanted = permission.system.is_none_or(|system| systems.contains(&system));
        if permission.place != wanted || !is_wanted {
            continue;
        }
        let same = |rule: &Permission| {
            (rule.group, rule.resource, rule.names) == (permission.group, permission.resource, permission.names)
        };
        match rules.iter().position(same) {
            Some(index) => verbs[index].extend(permission.verbs),
            None => {
                rules.push(*permission);
                verbs.push(permission.verbs.to_vec());
            }
        }
    }
    rules
        .into_iter()
        .zip(verbs)
        .map(|(rule, verbs)| {
            let mut object = json!({"apiGroups": [rule.group], "resources": [rule.resource], "verbs": verbs});
            if !rule.names.is_empty() {
                object["resourceNames"] = json!(rule.names);
            }
            object
        })
        .collect()
}
