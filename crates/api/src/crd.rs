//! CustomResourceDefinitions: what an API server has to be told before it keeps our kinds of objects.
//!
//! A definition says what can be checked without looking at other objects: the shape, amounts that are quantities and
//! not negative, a max that is not below its min. Everything else is admission's. Each kind is described in a file of
//! its own and listed in [`definitions`]; the rest is the same for all.

mod elastic;
mod gangs;
pub(crate) mod schema;
mod tree;
pub(crate) mod volcano;

use serde_json::{Value, json};

use crate::kinds::Kind;
use crate::quota_kinds::QUOTA_KINDS;

/// What is particular about a kind.
pub(crate) struct Definition {
    pub kind: &'static Kind,
    pub singular: &'static str,
    pub short_names: &'static [&'static str],
    /// One sentence about the kind.
    pub description: &'static str,
    /// The schema of `spec`.
    pub spec: Value,
    /// The schema of `status`.
    pub status: Value,
    /// Whether the status is written apart from the object.
    pub has_status_subresource: bool,
    /// The schemas of fields beside `spec` and `status`.
    pub top_level: Vec<(&'static str, Value)>,
    pub columns: Vec<Column>,
}

/// A column of `kubectl get`.
pub(crate) struct Column {
    pub name: &'static str,
    pub path: &'static str,
    pub description: &'static str,
    /// Shown only with `-o wide`.
    pub is_wide: bool,
}

/// All definitions, by group and kind.
pub fn definitions() -> Vec<Value> {
    let mut all = elastic::definitions();
    all.extend(tree::definitions());
    all.extend(gangs::definitions());
    all.extend(QUOTA_KINDS.iter().flat_map(|kind| (kind.definitions)()));
    all.sort_by_key(|definition| (definition.kind.group, definition.kind.kind));
    all.into_iter().map(Definition::into_object).collect()
}

/// Groups under these belong to Kubernetes, and an API server wants to know who approved a kind of theirs.
const PROTECTED: [&str; 2] = [".k8s.io", ".kubernetes.io"];

impl Definition {
    fn into_object(self) -> Value {
        let Definition { kind, singular, short_names, description, spec, status, has_status_subresource, .. } = self;
        let Definition { top_level, columns, .. } = self;
        let mut properties = json!({
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": spec,
            "status": status,
        });
        for (field, schema) in top_level {
            properties[field] = schema;
        }
        let mut metadata = json!({"name": format!("{}.{}", kind.plural, kind.group)});
        if PROTECTED.iter().any(|suffix| kind.group.ends_with(suffix)) {
            metadata["annotations"] =
                json!({"api-approved.kubernetes.io": "unapproved, kept for clusters that have this kind"});
        }
        let version = |name: &&str| {
            json!({
                "name": name,
                "served": true,
                "storage": *name == kind.versions[0],
                "schema": {"openAPIV3Schema": {
                    "type": "object",
                    "description": description,
                    "properties": properties,
                }},
                "subresources": if has_status_subresource { json!({"status": {}}) } else { json!({}) },
                "additionalPrinterColumns": printer_columns(&columns),
            })
        };
        json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": metadata,
            "spec": {
                "group": kind.group,
                "names": {
                    "kind": kind.kind,
                    "listKind": format!("{}List", kind.kind),
                    "plural": kind.plural,
                    "singular": singular,
                    "shortNames": short_names,
                },
                "scope": if kind.namespaced { "Namespaced" } else { "Cluster" },
                "versions": kind.versions.iter().map(version).collect::<Vec<_>>(),
            },
        })
    }
}

fn printer_columns(columns: &[Column]) -> Vec<Value> {
    let column = |Column { name, path, description, is_wide }: &Column| {
        let mut column = json!({"name": name, "type": "string", "jsonPath": path, "description": description});
        if *is_wide {
            column["priority"] = json!(1);
        }
        column
    };
    let age = json!({"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"});
    columns.iter().map(column).chain([age]).collect()
}
