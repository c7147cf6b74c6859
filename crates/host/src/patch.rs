//! Merge patches: what to send so that an object becomes another.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

/// The merge patch that makes `old` to `new`, if they differ. What is not there, null, and a map without an entry are
/// the same: an API server does not tell them apart reliably.
pub fn difference(old: Option<&Value>, new: Option<&Value>) -> Option<Value> {
    let old = old.filter(|value| !is_nothing(value));
    let new = new.filter(|value| !is_nothing(value));
    match (old, new) {
        (None, None) => None,
        (Some(_), None) => Some(Value::Null),
        (Some(Value::Object(old)), Some(Value::Object(new))) => {
            let keys: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
            let changed =
                keys.into_iter().filter_map(|key| Some((key.clone(), difference(old.get(key), new.get(key))?)));
            let changed: Map<String, Value> = changed.collect();
            (!changed.is_empty()).then_some(Value::Object(changed))
        }
        (Some(old), Some(new)) if old == new => None,
        (_, Some(new)) => Some(new.clone()),
    }
}

fn is_nothing(value: &Value) -> bool {
    value.is_null() || value.as_object().is_some_and(Map::is_empty)
}

/// The patch that does what `first` does and then `second`.
pub fn followed_by(first: Option<Value>, second: Option<Value>) -> Option<Value> {
    match (first, second) {
        (Some(Value::Object(mut first)), Some(Value::Object(second))) => {
            for (key, value) in second {
                let before = first.shift_remove(&key);
                let both = followed_by(before, Some(value)).unwrap_or(Value::Null);
                first.insert(key, both);
            }
            Some(Value::Object(first))
        }
        (first, None) => first,
        (_, second) => second,
    }
}

/// Whether two patches are the same but for the times at which something is said to have changed.
pub fn same_but_for_time(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            let same = |(key, value): (&String, &Value)| {
                let times = key == "lastTransitionTime";
                other.get(key).is_some_and(|other| times || same_but_for_time(value, other))
            };
            one.len() == other.len() && one.iter().all(same)
        }
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same_but_for_time(one, other))
        }
        (one, other) => one == other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn two_patches_become_one() {
        let first = json!({"metadata": {"annotations": {"a": "1", "b": "1"}}, "spec": {"x": 1}});
        let second = json!({"metadata": {"annotations": {"b": null, "c": "2"}}});
        let both = json!({"metadata": {"annotations": {"a": "1", "b": null, "c": "2"}}, "spec": {"x": 1}});
        assert_eq!(followed_by(Some(first.clone()), Some(second)), Some(both));
        assert_eq!(followed_by(Some(first.clone()), None), Some(first.clone()));
        assert_eq!(followed_by(Some(first), Some(Value::Null)), Some(Value::Null));
    }

    #[test]
    fn times_do_not_count() {
        let condition =
            |message: &str, at: &str| json!({"conditions": [{"message": message, "lastTransitionTime": at}]});
        assert!(same_but_for_time(&condition("a", "1"), &condition("a", "2")));
        assert!(!same_but_for_time(&condition("a", "1"), &condition("b", "1")));
        assert!(!same_but_for_time(&json!({"a": 1}), &json!({"a": 1, "b": 2})));
    }
}
