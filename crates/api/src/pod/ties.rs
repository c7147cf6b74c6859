//! What ties a pod to its quota, queue, group and cards: some of its labels and annotations.
//!
//! They count as they were when the pod was bound. The Binding leaves a record of them on the pod, which is read back
//! after a restart: who edits a running pod moves no charge. Most pods have none, and are bound without a record, which
//! would take the API server a tenth of the time of the bind: they get it when they are given ties.

use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use crate::cursor::Cursor;
use crate::field;
use crate::gangs;
use crate::tree::keys::{PREEMPTIBLE, QUOTA_NAME};
use crate::volcano::{CARD_NAME, GROUP_MIN_MEMBER, PREEMPTABLE, QUEUE_NAME, TASK_SPEC};

/// Annotation that a Binding leaves on its pod: the ties of the pod when it was bound, as JSON.
pub const BOUND_AS: &str = "quotient.dev/bound-as";

/// The labels of a pod that are ties.
pub static LABELS: LazyLock<Vec<&'static str>> =
    LazyLock::new(|| [QUOTA_NAME, PREEMPTIBLE, PREEMPTABLE].into_iter().chain(gangs::labels()).collect());

/// The annotations of a pod that are ties.
pub static ANNOTATIONS: LazyLock<Vec<&'static str>> = LazyLock::new(|| {
    let of_queues = [QUEUE_NAME, GROUP_MIN_MEMBER, TASK_SPEC, PREEMPTABLE, CARD_NAME];
    of_queues.into_iter().chain(gangs::annotations()).collect()
});

/// The record of a pod without ties.
pub const NO_TIES: &str = "{}";

/// The ties of a pod as it is now, as a Binding records them; `None` where it has none.
pub fn record(pod: &Value) -> Option<String> {
    let mut record = Map::new();
    for (part, keys) in [("labels", &LABELS[..]), ("annotations", &ANNOTATIONS[..])] {
        let Some(all) = field::of(pod, "metadata").and_then(|metadata| field::of(metadata, part)) else { continue };
        let given = keys.iter().filter_map(|key| Some((key.to_string(), field::of(all, key)?.clone())));
        let given: Map<String, Value> = given.collect();
        if !given.is_empty() {
            record.insert(part.to_string(), Value::Object(given));
        }
    }
    (!record.is_empty()).then(|| Value::Object(record).to_string())
}

/// Whether a pod is on a node.
pub fn is_bound(pod: &Value) -> bool {
    let node = field::of(pod, "spec").and_then(|spec| field::of(spec, "nodeName"));
    node.and_then(Value::as_str).is_some_and(|node| !node.is_empty())
}

/// Whether a pod has ties as it is now.
pub fn has_any(pod: &Value) -> bool {
    let keys = LABELS.iter().map(|key| ("labels", *key)).chain(ANNOTATIONS.iter().map(|key| ("annotations", *key)));
    keys.into_iter().any(|(part, key)| tie(pod, part, key).is_some())
}

/// The record on a pod, whoever wrote it.
pub fn recorded(pod: &Value) -> Option<&str> {
    tie(pod, "annotations", BOUND_AS).map(|record| record.as_str().unwrap_or_default())
}

/// Leaves a record.
pub fn set_record(pod: &mut Value, record: &str) {
    if !pod["metadata"]["annotations"].is_object() {
        pod["metadata"]["annotations"] = json!({});
    }
    pod["metadata"]["annotations"][BOUND_AS] = json!(record);
}

/// Takes a record off what is no pod on a node yet: a pod that is made, or the template of one. Returns whether there
/// was one.
pub fn take_record_off(object: &mut Value) -> bool {
    let annotations = object.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut);
    annotations.is_some_and(|annotations| annotations.remove(BOUND_AS).is_some())
}

fn tie<'a>(pod: &'a Value, part: &str, key: &str) -> Option<&'a Value> {
    field::of(field::of(field::of(pod, "metadata")?, part)?, key)
}

/// Of a pod on a node that has a record: an object with the metadata that its ties are read from.
pub(super) fn as_bound(root: &Cursor<'_, '_>) -> Option<Value> {
    let (metadata, spec) = (root.field("metadata"), root.field("spec"));
    spec.field("nodeName").non_empty_str()?;
    let annotations = metadata.field("annotations");
    let record = annotations.field(BOUND_AS);
    let text = record.non_empty_str()?;
    if text == NO_TIES {
        return Some(Value::Object(Map::new()));
    }
    let Ok(Value::Object(mut ties)) = serde_json::from_str(text) else {
        record.note("expected a map of labels and annotations, as JSON; what the pod says now counts");
        return None;
    };
    // A group without a name is that of the pod's owner.
    if let Some(owners) = metadata.field("ownerReferences").value() {
        ties.insert("ownerReferences".to_string(), owners.clone());
    }
    Some(json!({"metadata": ties}))
}

/// The first tie of a running pod that an update changes, other than to what the pod was bound as.
pub(crate) fn first_changed(old: &Value, new: &Value) -> Option<(&'static str, &'static str)> {
    if !is_bound(old) {
        return None;
    }
    let record = tie(old, "annotations", BOUND_AS).and_then(Value::as_str);
    let record: Value = record.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    let keys = LABELS.iter().map(|key| ("labels", *key)).chain(ANNOTATIONS.iter().map(|key| ("annotations", *key)));
    let is_changed = |(part, key): &(&'static str, &'static str)| {
        let after = tie(new, part, key);
        after != tie(old, part, key) && (after.is_none() || after != record.get(*part).and_then(|ties| ties.get(*key)))
    };
    let (before, after) = (tie(old, "annotations", BOUND_AS), tie(new, "annotations", BOUND_AS));
    // That it was bound without ties is recorded later, if at all, of a pod that a tree's label does not tie.
    let is_late = before.is_none() && after.is_some_and(|record| record == NO_TIES);
    // One that says what the pod says anyway comes from the first scheduler that sees it there.
    let is_true = before.is_none() && after.and_then(Value::as_str) == self::record(old).as_deref();
    let is_forged = after != before && !is_true && (!is_late || tie(new, "labels", QUOTA_NAME).is_some());
    keys.into_iter().find(is_changed).or(is_forged.then_some(("annotations", BOUND_AS)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(queue: &str) -> Value {
        json!({"metadata": {"labels": {"app": "x", QUOTA_NAME: "t"}, "annotations": {QUEUE_NAME: queue, "a": "b"}},
            "spec": {"nodeName": "n"}})
    }

    #[test]
    fn a_record_has_the_ties_and_nothing_else() {
        let expected = format!(r#"{{"labels":{{"{QUOTA_NAME}":"t"}},"annotations":{{"{QUEUE_NAME}":"q"}}}}"#);
        assert_eq!(record(&pod("q")), Some(expected));
        assert_eq!(record(&json!({"metadata": {"labels": {"app": "x"}}})), None);
    }

    #[test]
    fn ties_of_a_running_pod_change_only_back_to_what_it_was_bound_as() {
        let mut old = pod("q");
        assert_eq!(first_changed(&old, &pod("r")), Some(("annotations", QUEUE_NAME)));
        assert_eq!(first_changed(&old, &pod("q")), None);
        old["metadata"]["annotations"][BOUND_AS] = json!(record(&pod("r")));
        let mut back = pod("r");
        assert_eq!(first_changed(&old, &back), Some(("annotations", BOUND_AS)), "the record is taken off");
        back["metadata"]["annotations"][BOUND_AS] = old["metadata"]["annotations"][BOUND_AS].clone();
        assert_eq!(first_changed(&old, &back), None);
        let (mut bare, mut recorded) = (pod("q"), pod("q"));
        set_record(&mut recorded, NO_TIES);
        assert_eq!(
            first_changed(&bare, &recorded),
            Some(("annotations", BOUND_AS)),
            "it may have been bound with its label"
        );
        for pod in [&mut bare, &mut recorded] {
            pod["metadata"]["labels"] = json!({});
        }
        assert_eq!(first_changed(&bare, &recorded), None);
        assert_eq!(first_changed(&recorded, &bare), Some(("annotations", BOUND_AS)));
        old["spec"]["nodeName"] = json!("");
        assert_eq!(first_changed(&old, &pod("s")), None, "it waits");
    }
}
