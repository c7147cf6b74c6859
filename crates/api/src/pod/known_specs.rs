//! Specs of pods that were looked at before.
//!
//! Pods of one template have one spec, and each is seen again when it is bound. To find that a spec was looked at
//! before takes a fraction of the time of looking at it.

use std::hash::{Hash, Hasher};

use rustc_hash::{FxHashMap, FxHasher};
use serde_json::{Map, Value};

use crate::field::{get, of};

/// The most specs that are remembered. Beyond it all are forgotten: those that are still in use are soon back.
const SPECS_MAX: usize = 256;

/// The largest spec that is remembered, in bytes of text and fields: a bound on what hostile ones cost.
const SIZE_MAX: usize = 1 << 13;

/// The field of a spec that differs from pod to pod, and that is read apart.
const NODE_NAME: &str = "nodeName";

/// What stands for a spec, where all that is read of it follows from it alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mark(u64);

/// How far a spec is known.
#[derive(Debug)]
enum Known<T> {
    /// It was seen once: most that are seen once are never seen again.
    Once,
    /// It was seen twice, and this was found.
    Found(Map<String, Value>, T),
}

/// The specs that were seen of late, by mark, with what was found.
#[derive(Debug)]
pub(crate) struct KnownSpecs<T> {
    by_mark: FxHashMap<u64, Known<T>>,
    /// The one that was asked for last: pods of one template come one after the other.
    last: u64,
}

impl<T> Default for KnownSpecs<T> {
    fn default() -> Self {
        KnownSpecs { by_mark: FxHashMap::default(), last: 0 }
    }
}

// A copy begins empty: the table saves time and decides nothing, and what-if questions copy it for a few objects.
impl<T> Clone for KnownSpecs<T> {
    fn clone(&self) -> Self {
        KnownSpecs::default()
    }
}

impl<T: Clone> KnownSpecs<T> {
    /// What was found of an equal spec; else the mark to keep it by, if it has one.
    pub fn find(&mut self, spec: &Value, status: Option<&Value>) -> Result<T, Option<Mark>> {
        if status.is_some_and(|status| !is_plain_status(status)) {
            return Err(None);
        }
        if let Some(found) = self.found(self.last, spec) {
            return Ok(found);
        }
        let Some(mark) = Mark::of(spec) else { return Err(None) };
        self.last = mark.0;
        self.found(mark.0, spec).ok_or(Some(mark))
    }

    fn found(&self, mark: u64, spec: &Value) -> Option<T> {
        match self.by_mark.get(&mark)? {
            Known::Found(known, found) if are_equal_specs(known, spec.as_object()?) => Some(found.clone()),
            _ => None,
        }
    }

    /// Remembers what was found of a spec.
    pub fn keep(&mut self, mark: Mark, spec: &Value, found: &T) {
        if self.by_mark.len() >= SPECS_MAX && !self.by_mark.contains_key(&mark.0) {
            self.by_mark.clear();
        }
        let Some(fields) = spec.as_object() else { return };
        match self.by_mark.get_mut(&mark.0) {
            None => drop(self.by_mark.insert(mark.0, Known::Once)),
            Some(known) => *known = Known::Found(fields.clone(), found.clone()),
        }
    }
}

impl Mark {
    /// The mark of a pod's spec. `None` where what is read depends on the pod's name, labels or namespace.
    fn of(spec: &Value) -> Option<Mark> {
        let fields = spec.as_object()?;
        let is_own = |name: &&str| get(fields, name).is_some();
        if ["affinity", "topologySpreadConstraints"].iter().any(is_own) {
            return None;
        }
        let volumes = get(fields, "volumes").and_then(Value::as_array);
        if volumes.into_iter().flatten().any(|volume| of(volume, "ephemeral").is_some()) {
            return None;
        }
        let mut marking = Marking { hasher: FxHasher::default(), room: SIZE_MAX };
        fields_of(fields).try_for_each(|(name, value)| marking.field(name, value))?;
        Some(Mark(marking.hasher.finish()))
    }
}

/// Whether a status says nothing of resizing.
fn is_plain_status(status: &Value) -> bool {
    let Some(status) = status.as_object() else { return false };
    let is_plain = |condition: &Value| {
        of(condition, "type").and_then(Value::as_str).is_some_and(|kind| kind != "PodResizePending")
    };
    let conditions = get(status, "conditions");
    ["containerStatuses", "initContainerStatuses", "resources"].iter().all(|name| get(status, name).is_none())
        && conditions.is_none_or(|all| all.as_array().is_some_and(|all| all.iter().all(is_plain)))
}

fn fields_of(spec: &Map<String, Value>) -> impl Iterator<Item = (&String, &Value)> {
    spec.iter().filter(|(name, _)| *name != NODE_NAME)
}

fn are_equal_specs(one: &Map<String, Value>, another: &Map<String, Value>) -> bool {
    are_equal_fields(fields_of(one), fields_of(another))
}

/// Whether fields are the same, in the same order. In another order they need not be found.
fn are_equal_fields<'v>(
    mut one: impl Iterator<Item = (&'v String, &'v Value)>,
    mut another: impl Iterator<Item = (&'v String, &'v Value)>,
) -> bool {
    loop {
        match (one.next(), another.next()) {
            (None, None) => return true,
            (Some((name, value)), Some((other, other_value))) if name == other && is_equal(value, other_value) => {}
            _ => return false,
        }
    }
}

fn is_equal(one: &Value, another: &Value) -> bool {
    match (one, another) {
        (Value::Object(one), Value::Object(another)) => are_equal_fields(one.iter(), another.iter()),
        (Value::Array(one), Value::Array(another)) => {
            one.len() == another.len() && one.iter().zip(another).all(|(one, another)| is_equal(one, another))
        }
        (one, another) => one == another,
    }
}

/// A mark that is being made, with how much may still be read for it.
struct Marking {
    hasher: FxHasher,
    room: usize,
}

impl Marking {
    fn field(&mut self, name: &str, value: &Value) -> Option<()> {
        self.text(name)?;
        self.value(value)
    }

    fn text(&mut self, text: &str) -> Option<()> {
        self.room = self.room.checked_sub(text.len() + 1)?;
        text.hash(&mut self.hasher);
        Some(())
    }

    fn value(&mut self, value: &Value) -> Option<()> {
        std::mem::discriminant(value).hash(&mut self.hasher);
        match value {
            Value::Null => Some(()),
            Value::Bool(value) => {
                value.hash(&mut self.hasher);
                Some(())
            }
            Value::Number(number) => {
                number.hash(&mut self.hasher);
                Some(())
            }
            Value::String(text) => self.text(text),
            Value::Array(items) => {
                self.room = self.room.checked_sub(items.len())?;
                items.iter().try_for_each(|item| self.value(item))
            }
            Value::Object(fields) => fields.iter().try_for_each(|(name, value)| self.field(name, value)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn spec(cpu: &str, node: Option<&str>) -> Value {
        let mut spec = json!({"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}], "priority": 0});
        if let Some(node) = node {
            spec["nodeName"] = json!(node);
        }
        spec
    }

    #[test]
    fn a_spec_that_was_seen_twice_is_known_on_any_node_and_no_other_is() {
        let mut known: KnownSpecs<u32> = KnownSpecs::default();
        for _ in 0..2 {
            let mark = known.find(&spec("1", None), None).expect_err("it was seen once").expect("it is plain");
            known.keep(mark, &spec("1", None), &7);
        }
        assert_eq!(known.find(&spec("1", Some("n")), None), Ok(7));
        assert!(known.find(&spec("2", None), None).is_err());
        assert_eq!(known.find(&spec("1", Some("m")), None), Ok(7), "another was asked for meanwhile");
        assert!(known.clone().find(&spec("1", None), None).is_err());
        for count in 0..2 * SPECS_MAX {
            let other = spec(&(count + 2).to_string(), None);
            let mark = known.find(&other, None).expect_err("it is new").expect("it is plain");
            known.keep(mark, &other, &0);
        }
        assert!(known.by_mark.len() <= SPECS_MAX);
    }

    #[test]
    fn what_is_read_with_regard_to_more_than_the_spec_is_not_remembered() {
        let with = |field: &str, value: Value| {
            let mut spec = spec("1", None);
            spec[field] = value;
            spec
        };
        let specs = [
            with("affinity", json!({})),
            with("topologySpreadConstraints", json!([])),
            with("volumes", json!([{"name": "v", "ephemeral": {}}])),
            with("hostname", json!("x".repeat(SIZE_MAX))),
            json!("odd"),
        ];
        let mut known: KnownSpecs<u32> = KnownSpecs::default();
        specs.iter().for_each(|spec| assert_eq!(known.find(spec, None), Err(None), "{spec}"));
        let statuses = [
            json!({"containerStatuses": []}),
            json!({"resources": {}}),
            json!({"conditions": [{"type": "PodResizePending"}]}),
            json!({"conditions": ["odd"]}),
            json!([]),
        ];
        let plain = spec("1", None);
        statuses.iter().for_each(|status| assert_eq!(known.find(&plain, Some(status)), Err(None), "{status}"));
        let usual = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]});
        assert!(matches!(known.find(&plain, Some(&usual)), Err(Some(_))));
    }
}
