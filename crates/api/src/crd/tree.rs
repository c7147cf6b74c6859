//! Quotas of trees, and the profiles that make trees.

use serde_json::{Value, json};

use super::schema::{amounts, conditions, not_below};
use super::{Column, Definition};
use crate::kinds;
use crate::tree::{GROUP, PROFILE, PROFILE_GROUP, QUOTA};

pub(super) fn definitions() -> Vec<Definition> {
    [kinds::find(GROUP, QUOTA).map(quota), kinds::find(PROFILE_GROUP, PROFILE).map(profile)]
        .into_iter()
        .flatten()
        .collect()
}

const PARENT_PATH: &str = r".metadata.labels.quota\.scheduling\.koordinator\.sh/parent";
const TREE_PATH: &str = r".metadata.labels.quota\.scheduling\.koordinator\.sh/tree-id";

fn column(name: &'static str, path: &'static str, description: &'static str) -> Column {
    Column { name, path, description, is_wide: false }
}

fn wide(name: &'static str, path: &'static str, description: &'static str) -> Column {
    Column { name, path, description, is_wide: true }
}

fn quota(kind: &'static kinds::Kind) -> Definition {
    Definition {
        has_status_subresource: true,
        top_level: Vec::new(),
        kind,
        singular: "elasticquota",
        short_names: &["eq", "eqs"],
        description: "A quota of a quota tree: it guarantees min, limits to max, and lends what it does not need to the \
                      quotas beside it.",
        spec: json!({
            "type": "object",
            "properties": {
                "min": amounts("What is guaranteed. Every resource named here is named in max too."),
                "max": amounts("What may be held at most. It names the resources that the quota governs."),
            },
            "x-kubernetes-validations": [not_below("max", "min")],
        }),
        status: json!({
            "type": "object",
            "properties": {
                "used": amounts("What pods on nodes hold."),
                "runtime": amounts("What may be held now, by what is asked for in the tree."),
                "request": amounts("What its pods, or the quotas below it, ask for."),
                "borrowed": amounts("Of what is used, what is beyond min."),
                "lent": amounts("Of min, what others may have now."),
                "conditions": conditions(),
            },
        }),
        columns: vec![
            column("Parent", PARENT_PATH, "The quota above it"),
            column("Min", ".spec.min", "What is guaranteed"),
            column("Used", ".status.used", "What pods hold"),
            column("Runtime", ".status.runtime", "What may be held now"),
            column("Max", ".spec.max", "What may be held at most"),
            column("Borrowed", ".status.borrowed", "What is held beyond min"),
            wide("Request", ".status.request", "What is asked for"),
            wide("Lent", ".status.lent", "Of min, what others may have now"),
            wide("Tree", TREE_PATH, "The id of its tree"),
            wide("Overused", r#".status.conditions[?(@.type=="Overused")].status"#, "More is used than the runtime"),
        ],
    }
}

fn profile(kind: &'static kinds::Kind) -> Definition {
    Definition {
        has_status_subresource: true,
        top_level: Vec::new(),
        kind,
        singular: "elasticquotaprofile",
        short_names: &["eqp", "eqps"],
        description: "A quota tree for the nodes that it selects: its root quota is made and kept current.",
        spec: json!({
            "type": "object",
            "required": ["quotaName", "nodeSelector"],
            "properties": {
                "quotaName": {
                    "type": "string",
                    "minLength": 1,
                    "maxLength": 253,
                    "description": "The name of the root of the tree, which is in the namespace of the profile.",
                },
                "quotaLabels": {
                    "type": "object",
                    "description": "Labels that the root gets.",
                    "additionalProperties": {"type": "string"},
                },
                "resourceRatio": {
                    "type": "string",
                    "description": "What part of its nodes the tree shares out: a decimal above 0 and at most 1.",
                },
                "nodeSelector": node_selector(),
            },
        }),
        status: json!({
            "type": "object",
            "properties": {
                "treeId": {"type": "string", "description": "The id of the tree."},
                "nodes": {"type": "integer", "description": "How many nodes the tree has."},
                "conditions": conditions(),
            },
        }),
        columns: vec![
            column("Quota", ".spec.quotaName", "The root of the tree"),
            column("Ratio", ".spec.resourceRatio", "What part of its nodes the tree shares out"),
            column("Nodes", ".status.nodes", "How many nodes the tree has"),
            column("Ready", r#".status.conditions[?(@.type=="Ready")].status"#, "The root is current"),
            wide("Tree", ".status.treeId", "The id of the tree"),
        ],
    }
}

fn node_selector() -> Value {
    json!({
        "type": "object",
        "description": "The labels of the tree's nodes.",
        "properties": {
            "matchLabels": {"type": "object", "additionalProperties": {"type": "string"}},
            "matchExpressions": {
                "type": "array",
                "items": {
                    "type": "object",
                    "required": ["key", "operator"],
                    "properties": {
                        "key": {"type": "string"},
                        "operator": {"type": "string", "enum": ["In", "NotIn", "Exists", "DoesNotExist"]},
                        "values": {"type": "array", "items": {"type": "string"}},
                    },
                },
            },
        },
    })
}
