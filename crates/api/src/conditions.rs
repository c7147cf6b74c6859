//! Conditions in the status of objects: what holds of them now, and since when.

use serde_json::{Map, Value, json};

/// One condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    pub kind: &'static str,
    pub holds: bool,
    /// One word for programs.
    pub reason: &'static str,
    /// A sentence for people.
    pub message: String,
}

impl Condition {
    /// How the condition stands in `conditions`, the list of an object's status. It keeps the time of its last change
    /// unless it changes, which is `now` then.
    fn within(&self, conditions: &[Value], now: &str) -> Value {
        let status = if self.holds { "True" } else { "False" };
        let known = conditions.iter().find(|known| known["type"] == self.kind && known["status"] == status);
        let since = known.and_then(|known| known["lastTransitionTime"].as_str()).unwrap_or(now);
        json!({
            "type": self.kind, "status": status, "reason": self.reason, "message": self.message,
            "lastTransitionTime": since,
        })
    }
}

/// Writes conditions into `status.conditions`; those of other kinds stay as they are.
pub fn set(object: &mut Value, wanted: &[Condition], now: &str) {
    let Some(status) = object.as_object_mut().map(|object| object.entry("status").or_insert(Value::Null)) else {
        return;
    };
    if !status.is_object() {
        *status = Value::Object(Map::new());
    }
    let mut conditions = status["conditions"].as_array().cloned().unwrap_or_default();
    for condition in wanted {
        let value = condition.within(&conditions, now);
        match conditions.iter_mut().find(|known| known["type"] == condition.kind) {
            Some(known) => *known = value,
            None => conditions.push(value),
        }
    }
    status["conditions"] = Value::Array(conditions);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_is_that_of_the_last_change() {
        let condition =
            |holds, message: &str| Condition { kind: "Ready", holds, reason: "Because", message: message.to_string() };
        let mut object = json!({"status": {"conditions": [{"type": "Other", "status": "True"}]}});
        let since = |object: &Value| object["status"]["conditions"][1]["lastTransitionTime"].clone();
        set(&mut object, &[condition(true, "a")], "1");
        set(&mut object, &[condition(true, "b")], "2");
        assert_eq!((since(&object), &object["status"]["conditions"][1]["message"]), (json!("1"), &json!("b")));
        set(&mut object, &[condition(false, "c")], "3");
        assert_eq!(since(&object), json!("3"));
        assert_eq!(object["status"]["conditions"].as_array().map(Vec::len), Some(2), "{object}");
    }
}
