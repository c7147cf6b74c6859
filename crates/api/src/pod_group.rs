//! Kubernetes' own gangs: `PodGroup` of `scheduling.k8s.io`, which pods name in `spec.schedulingGroup`.
//!
//! A `Workload` is a template that controllers make groups from; no scheduler reads it.

use quotient_engine::fact::{Created, GroupFact, GroupName, RequestProblem};
use quotient_engine::{Code, GroupReport};
use serde_json::{Value, json};

use crate::conditions::{self, Condition};
use crate::cursor::{Cursor, Notes};
use crate::field;
use crate::field::at;
use crate::intern::Interner;
use crate::object::ObjectKey;
use crate::time::parse_timestamp;
use crate::volcano::group::problem;

/// The API group of these groups.
pub const SCHEDULING: &str = "scheduling.k8s.io";
/// The kind of these groups.
pub const POD_GROUP: &str = "PodGroup";
/// The kind of what controllers make them from.
pub const WORKLOAD: &str = "Workload";
/// Keeps a group for as long as pods name it that have not ended.
pub const FINALIZER: &str = "scheduling.k8s.io/podgroup-protection";

/// Says whether the group was scheduled once.
const INITIALLY_SCHEDULED: &str = "PodGroupInitiallyScheduled";

/// Whether the key is of such a group.
pub fn is_group(key: &ObjectKey) -> bool {
    (key.group, key.kind) == (SCHEDULING, POD_GROUP)
}

/// The name of the group that a pod names.
pub fn name_of(pod: &Value) -> Option<&str> {
    at(pod, "/spec/schedulingGroup/podGroupName")?.as_str().filter(|name| !name.is_empty())
}

/// The group of Kubernetes' own that a pod's spec names, as the engine is told it.
pub(crate) fn group_name(spec: &Cursor<'_, '_>, interner: &mut Interner) -> Option<GroupName> {
    let group = spec.field("schedulingGroup");
    let name = interner.name(group.field("podGroupName").non_empty_str()?);
    Some(GroupName { api_group: interner.name(SCHEDULING), name })
}

/// What there is to tell about a group. A part of it that is not followed makes its pods wait: without that part it
/// would be another group.
pub(crate) fn group(root: &Cursor<'_, '_>, notes: &Notes, key: &ObjectKey, interner: &mut Interner) -> GroupFact {
    let (metadata, spec) = (root.field("metadata"), root.field("spec"));
    let created = metadata.field("creationTimestamp");
    let created = created.str().and_then(|text| parse_timestamp(text).map_err(|message| created.note(message)).ok());
    let policy = spec.field("schedulingPolicy");
    let gang = policy.field("gang");
    let min_member = if gang.exists() { gang.field("minCount").int().unwrap_or(1) } else { 0 };
    GroupFact {
        api_group: interner.name(SCHEDULING),
        namespace: interner.name(key.namespace.as_deref().unwrap_or_default()),
        name: interner.name(&key.name),
        created: Created(created.unwrap_or_default()),
        min_member,
        // It stands in no queue of its own: its pods are held to theirs, one by one.
        admitted: true,
        priority: Some(spec.field("priority").int().unwrap_or(0)),
        evicted_whole: spec.field("disruptionMode").field("all").exists(),
        // Last, when everything was looked at.
        problem: unfollowed(&spec).or_else(|| unreadable(notes)),
        ..GroupFact::default()
    }
}

/// The first field of a group's spec that cannot be read.
pub(crate) fn unreadable(notes: &Notes) -> Option<RequestProblem> {
    notes.first_of_spec().map(|note| problem(&note))
}

/// The first part of a group that is not followed.
fn unfollowed(spec: &Cursor<'_, '_>) -> Option<RequestProblem> {
    let parts = [
        ("parentCompositePodGroupName", "groups of groups are not supported"),
        ("schedulingConstraints", "placement of a group by topology is not supported"),
        ("resourceClaims", "device claims of a group are not supported"),
    ];
    let is_given = |value: &Value| match value {
        Value::Null => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
        _ => true,
    };
    let given = parts.into_iter().find(|(part, _)| spec.field(part).value().is_some_and(is_given))?;
    let (part, message) = given;
    spec.field(part).note(message);
    Some(RequestProblem { field: format!("spec.{part}").into(), message: message.into() })
}

/// The status that a group should have, where that is another than it has. Once it says that the group was scheduled,
/// it says so for good.
pub fn status(group: &Value, report: &GroupReport, succeeded: u32, now: &str) -> Option<Value> {
    let known = field::at(group, "/status/conditions").and_then(Value::as_array);
    let is_known = |condition: &Value| condition["type"] == INITIALLY_SCHEDULED && condition["status"] == "True";
    if known.into_iter().flatten().any(is_known) {
        return None;
    }
    let started = report.placed.saturating_add(succeeded);
    let condition = match &report.reason {
        _ if started > 0 && started >= report.min_member => {
            let message = "the pods that the group needs are scheduled".to_string();
            Condition { kind: INITIALLY_SCHEDULED, holds: true, reason: "Scheduled", message }
        }
        Some(reason) => {
            let kind = if reason.code == Code::InvalidRequest { "SchedulerError" } else { "Unschedulable" };
            Condition { kind: INITIALLY_SCHEDULED, holds: false, reason: kind, message: reason.message.clone() }
        }
        None => return None,
    };
    let mut amended = group.clone();
    conditions::set(&mut amended, &[condition], now);
    let conditions = amended.pointer_mut("/status/conditions").and_then(Value::as_array_mut);
    let ours = conditions.into_iter().flatten().find(|condition| condition["type"] == INITIALLY_SCHEDULED);
    if let Some(ours) = ours {
        ours["observedGeneration"] =
            json!(field::at(group, "/metadata/generation").and_then(Value::as_i64).unwrap_or(1));
    }
    amended.get("status").cloned()
}
