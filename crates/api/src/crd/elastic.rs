//! Elastic quotas, plain and over several namespaces.

use serde_json::{Value, json};

use super::schema::{amounts, not_below};
use super::{Column, Definition};
use crate::elastic::{COMPOSITE, PLAIN, is_fair};
use crate::kinds::{KINDS, Kind};

pub(super) fn definitions() -> Vec<Definition> {
    let elastic = KINDS.iter().filter(|kind| is_fair(kind.group).is_some());
    elastic.filter(|kind| matches!(kind.kind, PLAIN | COMPOSITE)).map(definition).collect()
}

fn definition(kind: &'static Kind) -> Definition {
    let is_composite = kind.kind == COMPOSITE;
    let mut columns = vec![
        Column { name: "Min", path: ".spec.min", description: "What is guaranteed", is_wide: false },
        Column { name: "Used", path: ".status.used", description: "What pods hold", is_wide: false },
        Column { name: "Max", path: ".spec.max", description: "What may be held", is_wide: false },
        Column { name: "Borrowed", path: ".status.borrowed", description: "What is held beyond min", is_wide: false },
    ];
    if is_composite {
        let description = "The namespaces whose pods it counts";
        columns.push(Column { name: "Namespaces", path: ".spec.namespaces", description, is_wide: true });
    }
    Definition {
        kind,
        singular: if is_composite { "compositeelasticquota" } else { "elasticquota" },
        short_names: if is_composite { &["ceq", "ceqs"] } else { &["eq", "eqs"] },
        description: match is_composite {
            true => "Guarantees and limits what the pods of several namespaces hold together.",
            false => "Guarantees and limits what the pods of its namespace hold.",
        },
        spec: spec(is_composite),
        status: status(kind),
        has_status_subresource: true,
        top_level: Vec::new(),
        columns,
    }
}

fn spec(is_composite: bool) -> Value {
    let min = "What is guaranteed: it can be claimed back from whoever borrowed it. A resource that is left out has no \
               guarantee.";
    let max = "What may be held in all. A resource that is left out has no limit.";
    let mut spec = json!({
        "type": "object",
        "properties": {"min": amounts(min), "max": amounts(max)},
        "x-kubernetes-validations": [not_below("max", "min")],
    });
    if is_composite {
        spec["required"] = json!(["namespaces"]);
        spec["properties"]["namespaces"] = json!({
            "type": "array",
            "description": "The namespaces whose pods it counts. A namespace is in one composite quota at most, and its \
                            own ElasticQuota is deleted when it gets into one.",
            "minItems": 1,
            "maxItems": 4096,
            "x-kubernetes-list-type": "set",
            "items": {"type": "string", "maxLength": 63, "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"},
        });
    }
    spec
}

fn status(kind: &Kind) -> Value {
    let used = match is_fair(kind.group) {
        Some(true) => "What running pods hold of the resources that the quota names.",
        _ => "What pods on nodes hold.",
    };
    json!({
        "type": "object",
        "properties": {"used": amounts(used), "borrowed": amounts("Of that, what is held beyond min.")},
    })
}
