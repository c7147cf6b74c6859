//! Fields of raw objects, read and written by path.
//!
//! The virtual cluster keeps objects as the JSON they are written in, so that nothing a user gave is
//! lost. A field that is absent or of another type reads as `None` here: what is wrong with an
//! object is said by the translation, not by whoever looks at it in passing.

use quotient_api::field::{get, get_mut, of, of_mut};
use quotient_api::{ObjectKey, at, kinds};
use serde_json::{Map, Value};

/// The text at `pointer` (`/spec/nodeName`), where there is one that is not empty.
pub fn text<'a>(object: &'a Value, pointer: &str) -> Option<&'a str> {
    at(object, pointer).and_then(Value::as_str).filter(|text| !text.is_empty())
}

/// The integer at `pointer`.
pub fn integer(object: &Value, pointer: &str) -> Option<i64> {
    at(object, pointer).and_then(Value::as_i64)
}

/// Whether `true` stands at `pointer`.
pub fn is_true(object: &Value, pointer: &str) -> bool {
    at(object, pointer).and_then(Value::as_bool).unwrap_or(false)
}

/// The list at `pointer`; empty where there is none.
pub fn list<'a>(object: &'a Value, pointer: &str) -> &'a [Value] {
    at(object, pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Writes `value` at `path`, making the mappings on the way.
pub fn put(object: &mut Value, path: &[&str], value: Value) {
    let Some((last, way)) = path.split_last() else {
        *object = value;
        return;
    };
    let mut place = object;
    for key in way {
        place = field_mut(as_map(place), key, || Value::Object(Map::new()));
    }
    *field_mut(as_map(place), last, || Value::Null) = value;
}

/// The field of that name, made where there is none. Most are there, in a map of a few fields: to look for it takes
/// less time than to make its name.
fn field_mut<'a>(map: &'a mut Map<String, Value>, name: &str, new: impl FnOnce() -> Value) -> &'a mut Value {
    if get(map, name).is_none() {
        map.insert(name.to_string(), new());
    }
    get_mut(map, name).expect("it is there")
}

/// Takes out what is at `path`, and says whether anything was.
pub fn remove(object: &mut Value, path: &[&str]) -> bool {
    let Some((last, way)) = path.split_last() else { return false };
    let mut place = object;
    for key in way {
        match of_mut(place, key) {
            Some(next) => place = next,
            None => return false,
        }
    }
    // The order of what is left is part of the bytes that are compared, so it is kept.
    place.as_object_mut().is_some_and(|map| get(map, last).is_some() && map.shift_remove(*last).is_some())
}

/// The mapping at `value`, which becomes one where it is none.
fn as_map(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    value.as_object_mut().expect("it was made a mapping just now")
}

/// Puts `over` on top of `base`: mappings are merged key by key, everything else is replaced.
pub fn merge(base: &mut Value, over: &Value) {
    match (base, over) {
        (Value::Object(base), Value::Object(over)) => {
            for (key, value) in over {
                merge(base.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (base, over) => *base = over.clone(),
    }
}

/// Sets the condition of that type in `status.conditions`; `fields` are `status`, `reason`, ….
pub fn set_condition(object: &mut Value, kind: &str, fields: &[(&str, Value)]) {
    let mut condition = Map::with_capacity(1 + fields.len());
    condition.insert("type".to_string(), Value::from(kind));
    condition.extend(fields.iter().map(|(key, value)| ((*key).to_string(), value.clone())));
    put_condition(object, kind, Value::Object(condition));
}

/// Sets that condition of that type.
pub fn put_condition(object: &mut Value, kind: &str, condition: Value) {
    let status = field_mut(as_map(object), "status", || Value::Object(Map::new()));
    let conditions = field_mut(as_map(status), "conditions", || Value::Array(Vec::new()));
    if !conditions.is_array() {
        *conditions = Value::Array(Vec::new());
    }
    let Value::Array(conditions) = conditions else { return };
    match conditions.iter_mut().find(|c| is_of_type(c, kind)) {
        Some(found) => *found = condition,
        None => conditions.push(condition),
    }
}

/// Whether `status.conditions` has that type with status `True`.
pub fn has_condition(object: &Value, kind: &str) -> bool {
    let is_true = |condition: &Value| of(condition, "status").is_some_and(|status| status == "True");
    list(object, "/status/conditions").iter().any(|condition| is_of_type(condition, kind) && is_true(condition))
}

fn is_of_type(condition: &Value, kind: &str) -> bool {
    of(condition, "type").is_some_and(|known| known == kind)
}

/// The objects that own this one, those of unknown kinds left out.
pub fn owners(object: &Value, namespace: Option<&str>) -> Vec<ObjectKey> {
    list(object, "/metadata/ownerReferences").iter().filter_map(|owner| owner_key(owner, namespace)).collect()
}

/// The same, and whether each is the one that looks after this one.
pub fn ranked_owners(object: &Value, namespace: Option<&str>) -> Vec<(ObjectKey, bool)> {
    let references = list(object, "/metadata/ownerReferences");
    let controller = references.iter().position(|owner| is_true(owner, "/controller"));
    let keys = references.iter().enumerate().filter_map(|(at, owner)| Some((at, owner_key(owner, namespace)?)));
    let mut owners: Vec<(ObjectKey, bool)> = keys.map(|(at, key)| (key, Some(at) == controller)).collect();
    // One that is named twice looks after it all the same.
    let controller = owners.iter().find(|(_, is_controller)| *is_controller).map(|(key, _)| key.clone());
    if let Some(controller) = controller.filter(|_| owners.len() > 1) {
        owners.iter_mut().for_each(|(key, is_controller)| *is_controller |= *key == controller);
    }
    owners
}

/// The object that made this one and looks after it.
pub fn controller(object: &Value) -> Option<ObjectKey> {
    let namespace = text(object, "/metadata/namespace");
    let owner = list(object, "/metadata/ownerReferences").iter().find(|o| is_true(o, "/controller"))?;
    owner_key(owner, namespace)
}

/// Owners are found by name and not by uid: objects that were written down from another cluster
/// keep the owners they had there.
fn owner_key(owner: &Value, namespace: Option<&str>) -> Option<ObjectKey> {
    let api_version = text(owner, "/apiVersion")?;
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    let kind = kinds::find(group, text(owner, "/kind")?)?;
    Some(ObjectKey::new(kind, namespace, text(owner, "/name")?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_path_is_made_read_and_removed() {
        let mut object = json!({"spec": null});
        put(&mut object, &["spec", "a", "b"], json!(1));
        assert_eq!(integer(&object, "/spec/a/b"), Some(1));
        assert!(remove(&mut object, &["spec", "a", "b"]));
        assert!(!remove(&mut object, &["spec", "x", "b"]));
        assert_eq!(object, json!({"spec": {"a": {}}}));
    }

    #[test]
    fn merging_keeps_what_is_not_named_and_replaces_lists() {
        let mut base = json!({"a": {"b": 1, "c": [1, 2]}});
        merge(&mut base, &json!({"a": {"c": [3], "d": true}}));
        assert_eq!(base, json!({"a": {"b": 1, "c": [3], "d": true}}));
    }

    #[test]
    fn a_condition_is_replaced_in_its_place() {
        let mut object = json!({"status": {"conditions": [{"type": "A", "status": "False"}, {"type": "B"}]}});
        set_condition(&mut object, "A", &[("status", json!("True"))]);
        assert!(has_condition(&object, "A"));
        assert_eq!(object["status"]["conditions"][1], json!({"type": "B"}));
    }
}
