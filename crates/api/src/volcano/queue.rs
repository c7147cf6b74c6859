//! Queues as their objects declare them.

use std::borrow::Cow;

use quotient_engine::fact::{Limits, QueueFact};
use serde_json::{Value, json};

use super::{CARD_QUOTA, DEFAULT_QUEUE, QUEUE, ROOT_QUEUE, SCHEDULING, cards};
use crate::cursor::Cursor;
use crate::elastic::pools::quota_key;
use crate::field::at;
use crate::intern::Interner;
use crate::object::ObjectKey;
use crate::users;

/// The states of a queue that starts nothing new. One that says nothing is open.
const CLOSED: [&str; 2] = ["Closed", "Closing"];

/// Whether a queue starts nothing new.
pub fn is_closed(queue: &Value) -> bool {
    queue.pointer("/status/state").and_then(Value::as_str).is_some_and(|state| CLOSED.contains(&state))
}

/// The queue above this one: none for the root, the root for whoever names none.
pub fn parent_of(queue: &Value) -> Option<&str> {
    let name = at(queue, "/metadata/name").and_then(Value::as_str);
    let parent = at(queue, "/spec/parent").and_then(Value::as_str).filter(|parent| !parent.is_empty());
    if name == Some(ROOT_QUEUE) { None } else { Some(parent.unwrap_or(ROOT_QUEUE)) }
}

/// The queues that exist always, once there is anything to queue.
pub fn standing_queues() -> [Value; 2] {
    let queue = |name: &str, spec: Value| {
        json!({"apiVersion": format!("{SCHEDULING}/v1beta1"), "kind": QUEUE, "metadata": {"name": name}, "spec": spec,
            "status": {"state": "Open"}})
    };
    [
        queue(ROOT_QUEUE, json!({})),
        queue(DEFAULT_QUEUE, json!({"parent": ROOT_QUEUE, "reclaimable": true, "weight": 1})),
    ]
}

/// What there is to tell about a queue. An amount that cannot be read is taken not to be named, and the rest counts; a
/// card quota that cannot be read lets no card through.
pub(crate) fn queue(root: &Cursor<'_, '_>, key: &ObjectKey, interner: &mut Interner) -> QueueFact {
    let (metadata, spec, status) = (root.field("metadata"), root.field("spec"), root.field("status"));
    let deserved = spec.field("deserved");
    let guarantee = spec.field("guarantee");
    let parent = spec.field("parent").non_empty_str().filter(|parent| *parent != ROOT_QUEUE);
    let annotations = metadata.field("annotations");
    QueueFact {
        key: quota_key(key),
        parent: parent.map(|parent| interner.name(parent)),
        closed: status.field("state").str().is_some_and(|state| CLOSED.contains(&state)),
        capability: limits(&spec.field("capability"), interner),
        deserved: deserved.exists().then(|| limits(&deserved, interner)),
        guarantee: limits(&guarantee.field("resource"), interner),
        card_quota: card_quota(&annotations.field(CARD_QUOTA), interner),
        reclaimable: spec.field("reclaimable").bool().unwrap_or(true),
        priority: spec.field("priority").int().unwrap_or(0),
        users: users::users(&annotations, interner),
    }
}

fn limits(at: &Cursor<'_, '_>, interner: &mut Interner) -> Limits {
    let entries = at.entries().filter_map(|(resource, value)| {
        let amount = value.amount(resource)?;
        let name = device_resource(resource).map_or(Cow::Borrowed(resource), Cow::Owned);
        Some((interner.name(&name), amount))
    });
    entries.collect()
}

/// What Volcano calls the devices of a class, and what they have of a capacity, as it is called elsewhere:
/// `deviceclass/<class>` and `<capacity>.deviceclass/<class>`.
fn device_resource(resource: &str) -> Option<String> {
    let (what, class) = resource.split_once("deviceclass/").filter(|(_, class)| !class.is_empty())?;
    let capacity = match what {
        "" => "devices",
        what => what.strip_suffix('.').filter(|capacity| !capacity.is_empty())?,
    };
    Some(format!("{class}.deviceclass.resource.k8s.io/{capacity}"))
}

/// What the annotation says. A quota that is there and cannot be read is one of no cards at all: what was meant as a
/// limit must not become the absence of one.
fn card_quota(at: &Cursor<'_, '_>, interner: &mut Interner) -> Option<Limits> {
    at.value()?;
    let text = at.str().unwrap_or_default();
    let quota = cards::quota(text, interner);
    Some(quota.unwrap_or_else(|message| {
        at.note(format!("{message}; until then no card can be had"));
        Limits::default()
    }))
}
