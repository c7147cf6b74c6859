//! Parts of schemas that many kinds have.

use serde_json::{Value, json};

/// A quantity as Kubernetes writes it, without a sign that would make it negative.
const QUANTITY: &str =
    r"^\+?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$";

/// The most resources that one map names. A cluster has some dozens; the bound is what lets an API server reckon what a
/// rule over all of them costs.
const RESOURCES_MAX: u32 = 64;

/// The longest quantity: no amount that fits 64 bits needs as many characters. Bounded for the same reason, which API
/// servers heed from Kubernetes 1.34 on.
const QUANTITY_CHARS_MAX: u32 = 64;

/// Amounts by resource, none below 0.
pub(crate) fn amounts(description: &str) -> Value {
    json!({
        "type": "object",
        "description": description,
        "maxProperties": RESOURCES_MAX,
        "additionalProperties": {
            "x-kubernetes-int-or-string": true,
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "minimum": 0,
            "maxLength": QUANTITY_CHARS_MAX,
            "pattern": QUANTITY,
        },
    })
}

/// The rule that of each resource that `low` and `high` both name, `high` is not below `low`.
pub(crate) fn not_below(high: &str, low: &str) -> Value {
    // An integer is added to 0 to make a quantity of it: its text would be of a length that is not known beforehand.
    let quantity = |map: &str| {
        format!("(type(self.{map}[r]) == int ? quantity('0').add(self.{map}[r]) : quantity(self.{map}[r]))")
    };
    let rule = format!(
        "!has(self.{low}) || !has(self.{high}) || self.{low}.all(r, !(r in self.{high}) || {}.compareTo({}) >= 0)",
        quantity(high),
        quantity(low),
    );
    json!({"rule": rule, "message": format!("{high} must not be below {low} of any resource that both name")})
}

/// The conditions of a status.
pub(crate) fn conditions() -> Value {
    json!({
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
        "items": {
            "type": "object",
            "required": ["type", "status"],
            "properties": {
                "type": {"type": "string"},
                "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
                "reason": {"type": "string"},
                "message": {"type": "string"},
                "lastTransitionTime": {"type": "string", "format": "date-time"},
            },
        },
    })
}
