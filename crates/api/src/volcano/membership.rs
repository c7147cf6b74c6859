//! What a pod says about queues, groups and cards.

use quotient_engine::fact::{Amounts, GroupName, Name, RequestProblem};

use super::group::annotation_problem;
use super::{CARD_NAME, GROUP_MIN_MEMBER, GROUP_NAMES, PREEMPTABLE, QUEUE_NAME, SCHEDULING, TASK_SPEC, cards, gang};
use crate::cursor::Cursor;
use crate::intern::Interner;

/// What a pod says about queues, groups and cards.
#[derive(Debug, Default)]
pub(crate) struct Membership {
    pub queue: Option<Name>,
    pub group: Option<GroupName>,
    pub task: Option<Name>,
    pub protected: bool,
    pub cards: Vec<Name>,
    /// Why it cannot be read, if so.
    pub problem: Option<RequestProblem>,
}

/// Reads the annotations of a pod with these requests.
pub(crate) fn membership(metadata: &Cursor<'_, '_>, requests: &Amounts, interner: &mut Interner) -> Membership {
    let annotations = metadata.field("annotations");
    let labels = metadata.field("labels");
    let mut named = |name: &str| annotations.field(name).non_empty_str().map(|text| interner.name(text));
    let queue = named(QUEUE_NAME);
    let group = GROUP_NAMES.iter().find_map(|name| named(name));
    let task = named(TASK_SPEC);
    let is_kept = |at: &Cursor<'_, '_>| at.field(PREEMPTABLE).str() == Some("false");
    let (cards, card_problem) = card_names(&annotations.field(CARD_NAME), requests, interner);
    let (implied, gang_problem) =
        implied_group(metadata, &annotations.field(GROUP_MIN_MEMBER), group.is_some(), interner);
    Membership {
        queue,
        group: group.or(implied).map(|name| GroupName { api_group: interner.name(SCHEDULING), name }),
        task,
        protected: is_kept(&annotations) || is_kept(&labels),
        cards,
        problem: card_problem.or(gang_problem),
    }
}

/// The group that is made for the pods of its owner because they say how many of them must be able to run. Until it is
/// there, they wait for it.
fn implied_group(
    metadata: &Cursor<'_, '_>,
    min_member: &Cursor<'_, '_>,
    is_named: bool,
    interner: &mut Interner,
) -> (Option<Name>, Option<RequestProblem>) {
    let Some(text) = min_member.non_empty_str() else { return (None, None) };
    if text.parse::<u32>().is_err() {
        let message = "expected how many pods must be able to run, as a whole number in quotes";
        min_member.note(message);
        return (None, Some(annotation_problem(GROUP_MIN_MEMBER, min_member, message)));
    }
    let owners = metadata.field("ownerReferences");
    let controller = owners.items().find(|owner| owner.field("controller").bool() == Some(true));
    match controller.and_then(|owner| owner.field("uid").non_empty_str()) {
        _ if is_named => (None, None),
        Some(uid) => (Some(interner.name(&gang::group_name(uid))), None),
        None => {
            min_member.note(format!(
                "has no effect: a pod that nothing made needs {} too, to say which pods belong together",
                GROUP_NAMES[0]
            ));
            (None, None)
        }
    }
}

fn card_names(at: &Cursor<'_, '_>, requests: &Amounts, interner: &mut Interner) -> (Vec<Name>, Option<RequestProblem>) {
    let Some(text) = at.value().and_then(|_| at.str()).filter(|text| !text.is_empty()) else {
        return (Vec::new(), None);
    };
    let read = cards::alternatives(text, interner).and_then(|names| match requests.iter().any(is_device) {
        true => Ok(names),
        false => Err("no card is asked for: expected a resource such as nvidia.com/gpu in the limits".to_string()),
    });
    match read {
        Ok(names) => (names, None),
        Err(message) => {
            at.note(message.as_str());
            (Vec::new(), Some(annotation_problem(CARD_NAME, at, &message)))
        }
    }
}

/// Whether a resource may be one by which cards are asked for: one of a vendor's.
fn is_device((resource, _): &(Name, i64)) -> bool {
    resource.contains('/')
}
