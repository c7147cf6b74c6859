//! What a change sets in objects, field by field.

use quotient_api::ObjectKey;
use serde::Serialize;
use serde_json::Value;

/// An object that a change makes or changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectDiff {
    pub object: String,
    /// There is none of its name yet.
    pub is_new: bool,
    /// The fields that differ, by path.
    pub fields: Vec<FieldDiff>,
}

/// A field before and after; `null` where it is not there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FieldDiff {
    pub field: String,
    pub from: Option<String>,
    pub to: Option<String>,
}

/// What of metadata a user writes.
const METADATA: [&str; 2] = ["labels", "annotations"];

/// How the object as it is given differs from the one that is there; `None` where it does not. What the cluster itself
/// writes is left out, and a status is compared only where one is given.
pub fn diff(key: &ObjectKey, old: Option<&Value>, new: &Value) -> Option<ObjectDiff> {
    let mut fields = Vec::new();
    let given = new.as_object().into_iter().flatten();
    for (name, value) in given.filter(|(name, _)| !matches!(name.as_str(), "apiVersion" | "kind")) {
        let before = old.and_then(|old| old.get(name));
        match name.as_str() {
            "metadata" => {
                for part in METADATA {
                    let of = |metadata: Option<&Value>| metadata.and_then(|metadata| metadata.get(part)).cloned();
                    compare(&format!("metadata.{part}"), of(before).as_ref(), of(Some(value)).as_ref(), &mut fields);
                }
            }
            _ => compare(name, before, Some(value), &mut fields),
        }
    }
    if let (Some(spec), None) = (old.and_then(|old| old.get("spec")), new.get("spec")) {
        compare("spec", Some(spec), None, &mut fields);
    }
    let is_new = old.is_none();
    (is_new || !fields.is_empty()).then(|| ObjectDiff { object: key.to_string(), is_new, fields })
}

fn compare(path: &str, old: Option<&Value>, new: Option<&Value>, fields: &mut Vec<FieldDiff>) {
    let (old, new) = (old.filter(|value| !value.is_null()), new.filter(|value| !value.is_null()));
    if old == new {
        return;
    }
    let is_map = |value: Option<&Value>| value.is_none_or(Value::is_object);
    if is_map(old) && is_map(new) {
        let map = |value: Option<&Value>| value.and_then(Value::as_object).cloned().unwrap_or_default();
        let (old, new) = (map(old), map(new));
        let mut names: Vec<&String> = old.keys().chain(new.keys()).collect();
        names.sort();
        names.dedup();
        for name in names {
            let plain = !name.contains(['.', '/', '[', ' ']);
            let below = if plain { format!("{path}.{name}") } else { format!("{path}[{name:?}]") };
            compare(&below, old.get(name), new.get(name), fields);
        }
        return;
    }
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    fields.push(FieldDiff { field: path.to_owned(), from: old.map(text), to: new.map(text) });
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_differs_is_told_field_by_field() {
        let key = ObjectKey::node("n");
        let old = json!({"metadata": {"uid": "1", "labels": {"a": "b"}}, "spec": {"min": {"cpu": "1", "x/y": "2"}}});
        let new = json!({"metadata": {"labels": {"a": "c"}}, "spec": {"min": {"cpu": "3"}, "max": {"cpu": "4"}}});
        let found = diff(&key, Some(&old), &new).expect("they differ");
        let shown: Vec<String> =
            found.fields.iter().map(|f| format!("{} {:?} {:?}", f.field, f.from.as_deref(), f.to.as_deref())).collect();
        let expected = [
            "metadata.labels.a Some(\"b\") Some(\"c\")",
            "spec.max.cpu None Some(\"4\")",
            "spec.min.cpu Some(\"1\") Some(\"3\")",
            "spec.min[\"x/y\"] Some(\"2\") None",
        ];
        assert_eq!(shown, expected);
        assert_eq!(diff(&key, Some(&old), &old), None);
        assert!(diff(&key, None, &old).is_some_and(|diff| diff.is_new));
    }
}
