//! Gangs by annotation: `scheduling.volcano.sh/group-min-member` on whatever makes pods, on their template, or on pods
//! that name a group. A `PodGroup` is made for them, so that from there on there is one kind of gang.

use serde_json::{Map, Value, json};

use super::{
    CARD_NAME, CARD_REQUEST, GROUP_MIN_MEMBER, GROUP_NAMES, MIXED_CARDS, POD_GROUP, PREEMPTABLE, QUEUE_NAME,
    SCHEDULING, annotation,
};
use crate::pod_group;
use crate::volcano::job::min_resources::times;

/// Annotations that a group has from its owner or pods.
const CARRIED: [&str; 5] = [CARD_REQUEST, CARD_NAME, MIXED_CARDS, PREEMPTABLE, GROUP_MIN_MEMBER];

/// The name of the group that is made for the pods of an owner.
pub fn group_name(owner_uid: &str) -> String {
    format!("podgroup-{owner_uid}")
}

/// A group that pods need.
#[derive(Debug, Clone, PartialEq)]
pub struct Gang {
    pub name: String,
    /// The `PodGroup`, as it is to be made.
    pub group: Value,
    /// Whether the pod must be told its group's name.
    pub is_unnamed: bool,
    /// Whether a group that exists is to be brought in line: it belongs to one owner, who alone says what it takes.
    pub is_of_owner: bool,
}

/// The group of annotations that this pod needs, if it needs one. `owners` are the object that made it and the object
/// that made that, as far as they exist. Nothing that cannot be read gets lost: the group carries it, and its pods
/// wait.
pub fn gang(pod: &Value, owners: &[&Value]) -> Option<Gang> {
    if pod_group::name_of(pod).is_some() {
        return None; // It has a group of Kubernetes' own.
    }
    let on_owners = owners.iter().find_map(|owner| on_owner(owner, GROUP_MIN_MEMBER));
    let min_member = on_owners.or_else(|| annotation(pod, GROUP_MIN_MEMBER))?;
    let group_of_pod = GROUP_NAMES.iter().find_map(|name| annotation(pod, name));
    let controller = controller_of(pod);
    let of_owner = controller.and_then(|reference| reference["uid"].as_str()).map(group_name);
    let name = match (group_of_pod, &of_owner) {
        (Some(name), _) => name.to_string(),
        (None, Some(name)) => name.clone(),
        // Nobody can say which pods belong together.
        (None, None) => return None,
    };
    let is_of_owner = of_owner.as_deref() == Some(&*name);
    if !is_of_owner && annotation(pod, GROUP_MIN_MEMBER).is_none() {
        // It joined a group of its own choice, which somebody else makes.
        return None;
    }
    let members: u32 = min_member.parse().unwrap_or(1);
    let look = |name: &str| owners.iter().find_map(|owner| on_owner(owner, name)).or_else(|| annotation(pod, name));
    let annotations: Map<String, Value> =
        CARRIED.iter().filter_map(|name| Some(((*name).to_string(), Value::from(look(name)?)))).collect();
    let mut spec = json!({"minMember": members, "minResources": times(pod.get("spec"), members.into())});
    if let Some(queue) = annotation(pod, QUEUE_NAME).or_else(|| look(QUEUE_NAME)) {
        spec["queue"] = Value::from(queue);
    }
    if let Some(class) = pod.pointer("/spec/priorityClassName").and_then(Value::as_str) {
        spec["priorityClassName"] = Value::from(class);
    }
    let mut metadata = json!({"name": name, "namespace": pod["metadata"]["namespace"], "annotations": annotations});
    if let Some(reference) = controller.filter(|_| is_of_owner) {
        metadata["ownerReferences"] = json!([reference]);
    }
    let group =
        json!({"apiVersion": format!("{SCHEDULING}/v1beta1"), "kind": POD_GROUP, "metadata": metadata, "spec": spec});
    Some(Gang { name, group, is_unnamed: group_of_pod.is_none(), is_of_owner: is_of_owner && on_owners.is_some() })
}

/// Brings a group that exists in line with how it is wanted; says whether anything changed.
pub fn renew(group: &mut Value, wanted: &Value) -> bool {
    let mut changed = false;
    for field in ["minMember", "minResources", "queue"] {
        let new = wanted["spec"].get(field);
        if group.pointer(&format!("/spec/{field}")) != new
            && let Some(spec) = group.get_mut("spec").and_then(Value::as_object_mut)
        {
            changed = true;
            match new {
                Some(new) => spec.insert(field.to_string(), new.clone()),
                None => spec.shift_remove(field),
            };
        }
    }
    for name in CARRIED {
        let new = wanted["metadata"]["annotations"].get(name);
        if group.pointer("/metadata/annotations").and_then(|annotations| annotations.get(name)) == new {
            continue;
        }
        if let (Some(new), Some(metadata)) = (new, group.get_mut("metadata")) {
            changed = true;
            if !metadata["annotations"].is_object() {
                metadata["annotations"] = json!({});
            }
            metadata["annotations"][name] = new.clone();
        }
    }
    changed
}

/// An annotation of whatever makes pods, or of the template that it makes them from.
fn on_owner<'a>(owner: &'a Value, name: &str) -> Option<&'a str> {
    let in_template = || annotation(owner.pointer("/spec/template")?, name);
    annotation(owner, name).or_else(in_template)
}

/// The reference to what made the pod.
fn controller_of(pod: &Value) -> Option<&Value> {
    let owners = pod.pointer("/metadata/ownerReferences")?.as_array()?;
    owners.iter().find(|owner| owner["controller"] == true)
}
