//! Groups of pods that start together, as their objects declare them.

use quotient_engine::fact::{Created, GroupFact, Name, RequestProblem};

use super::{CARD_REQUEST, GROUP_MIN_MEMBER, MIXED_CARDS, cards};
use crate::cursor::{Cursor, Note, Notes};
use crate::intern::Interner;
use crate::object::ObjectKey;
use crate::time::parse_timestamp;

/// Where a group is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupPhase {
    /// Its queue has no room for it yet.
    Pending,
    /// It was let into its queue; its pods may be made.
    Inqueue,
    /// As many of its pods as it takes have a node.
    Running,
    /// Some of its pods run, and fewer than it takes.
    Unknown,
    /// All of its pods succeeded.
    Completed,
}

impl GroupPhase {
    /// The phase's name, as it is written.
    pub fn name(self) -> &'static str {
        match self {
            GroupPhase::Pending => "Pending",
            GroupPhase::Inqueue => "Inqueue",
            GroupPhase::Running => "Running",
            GroupPhase::Unknown => "Unknown",
            GroupPhase::Completed => "Completed",
        }
    }

    /// The phase of that name. A group that says nothing, or something else, is taken as new.
    pub fn of(name: Option<&str>) -> Self {
        use GroupPhase::{Completed, Inqueue, Pending, Running, Unknown};
        let known = [Inqueue, Running, Unknown, Completed];
        known.into_iter().find(|phase| Some(phase.name()) == name).unwrap_or(Pending)
    }
}

/// What there is to tell about a group. What cannot be read makes its pods wait: a gang by half of what was asked for
/// would be another gang.
pub(crate) fn group(root: &Cursor<'_, '_>, notes: &Notes, key: &ObjectKey, interner: &mut Interner) -> GroupFact {
    let (metadata, spec, status) = (root.field("metadata"), root.field("spec"), root.field("status"));
    let annotations = metadata.field("annotations");
    let created = metadata.field("creationTimestamp");
    let created = created.str().and_then(|text| parse_timestamp(text).map_err(|message| created.note(message)).ok());
    let phase = GroupPhase::of(status.field("phase").str());
    let min_member = spec.field("minMember").int().unwrap_or(1);
    let min_task_member = task_members(&spec.field("minTaskMember"), min_member, interner);
    let mut min_resources = min_resources(&spec.field("minResources"), interner);
    let (mut card_request, unreadable) = card_request(&annotations.field(CARD_REQUEST), interner);
    let unreadable = unreadable.or_else(|| min_member_problem(&annotations.field(GROUP_MIN_MEMBER)));
    unfollowed(&spec.field("networkTopology"));
    // One that has run to its end takes nothing any more.
    if phase == GroupPhase::Completed {
        min_resources.clear();
        card_request.clear();
    }
    GroupFact {
        api_group: interner.name(super::SCHEDULING),
        namespace: interner.name(key.namespace.as_deref().unwrap_or_default()),
        name: interner.name(&key.name),
        created: Created(created.unwrap_or_default()),
        queue: spec.field("queue").non_empty_str().map(|queue| interner.name(queue)),
        min_member,
        min_task_member,
        min_resources: min_resources.into_iter().collect(),
        card_request,
        mixed_cards: annotations.field(MIXED_CARDS).str() == Some("true"),
        admitted: phase != GroupPhase::Pending,
        // Last, when everything was looked at.
        problem: notes.first_of_spec().map(|note| problem(&note)).or(unreadable),
        ..GroupFact::default()
    }
}

/// Where nodes are near each other is not known: a group that insists on near ones is told so. One that only prefers
/// them is placed without.
fn unfollowed(topology: &Cursor<'_, '_>) {
    if topology.exists() && topology.field("mode").str() != Some("soft") {
        topology.note("placement of a group by network topology is not supported");
    }
}

/// What it takes to start, by resource. A request may be written by its name or as Kubernetes' own quotas call it, and
/// where both are there the name counts; limits and numbers of pods are for those quotas alone.
fn min_resources(at: &Cursor<'_, '_>, interner: &mut Interner) -> Vec<(Name, i64)> {
    let is_other =
        |resource: &str| resource == "pods" || resource.starts_with("limits.") || resource.starts_with("count/");
    let counted = at.entries().filter(|(resource, _)| !is_other(resource)).filter_map(|(written, value)| {
        let resource = written.strip_prefix("requests.").unwrap_or(written);
        let is_twice = resource != written && at.field(resource).exists();
        if is_twice { None } else { Some((interner.name(resource), value.amount(resource)?)) }
    });
    counted.collect()
}

/// How many of each task it takes. Where the group as a whole takes fewer than its tasks together, the tasks' numbers
/// say what it could use and not what it needs.
fn task_members(at: &Cursor<'_, '_>, min_member: u32, interner: &mut Interner) -> Vec<(Name, u32)> {
    let members: Vec<(Name, u32)> =
        at.entries().filter_map(|(task, count)| Some((interner.name(task), count.int()?))).collect();
    let together: u64 = members.iter().map(|(_, count)| u64::from(*count)).sum();
    if u64::from(min_member) < together { Vec::new() } else { members }
}

type CardRequest = Vec<(Vec<Name>, i64)>;

fn card_request(at: &Cursor<'_, '_>, interner: &mut Interner) -> (CardRequest, Option<RequestProblem>) {
    if !at.exists() {
        return (Vec::new(), None);
    }
    match cards::request(at.str().unwrap_or_default(), interner) {
        Ok(request) => (request.into_iter().filter(|(_, count)| *count > 0).collect(), None),
        Err(message) => {
            at.note(message.as_str());
            (Vec::new(), Some(annotation_problem(CARD_REQUEST, at, &message)))
        }
    }
}

/// A number of members that was carried over from an owner and is none.
fn min_member_problem(at: &Cursor<'_, '_>) -> Option<RequestProblem> {
    let text = at.non_empty_str()?;
    if text.parse::<u32>().is_ok() {
        return None;
    }
    let message = "expected how many pods must be able to run, as a whole number in quotes";
    at.note(message);
    Some(annotation_problem(GROUP_MIN_MEMBER, at, message))
}

/// What is wrong with an annotation, as it is told of a pod.
pub(crate) fn annotation_problem(name: &str, at: &Cursor<'_, '_>, message: &str) -> RequestProblem {
    let field = format!("metadata.annotations[{name:?}]");
    let message = match at.value() {
        Some(value) => format!("{value}: {message}"),
        None => message.to_string(),
    };
    RequestProblem { field: field.into(), message: message.into() }
}

/// What is wrong with a field, as it is told of a pod.
pub(crate) fn problem(note: &Note) -> RequestProblem {
    let message = match &note.value {
        Some(value) => format!("{value}: {}", note.message),
        None => note.message.clone(),
    };
    RequestProblem { field: note.field.as_str().into(), message: message.into() }
}
