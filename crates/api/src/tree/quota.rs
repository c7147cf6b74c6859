//! One quota of a tree, as its object declares it.

use quotient_engine::fact::{Limits, Tick, TreeFact, TreeRoot};
use quotient_engine::quantity::canonical;

use super::{ROOT, annotation, keys};
use crate::cursor::Cursor;
use crate::elastic::pools::quota_key;
use crate::intern::Interner;
use crate::object::ObjectKey;
use crate::users;

/// Reads a quota, whatever other quotas there are. What cannot be read is noted and counts as not given, and the rest
/// counts. Of what the engine itself has written about the quota (its runtime and the like) nothing is read but since
/// when it is overused, so that a scheduler that starts anew knows it.
pub(crate) fn fact(root: &Cursor<'_, '_>, key: &ObjectKey, interner: &mut Interner) -> TreeFact {
    let (metadata, spec) = (root.field("metadata"), root.field("spec"));
    let (labels, annotations) = (metadata.field("labels"), metadata.field("annotations"));
    let max = limits(&spec.field("max"), interner);
    let min = guaranteed(&spec.field("min"), &max, interner);
    let is_root = flag(&labels.field(keys::IS_ROOT), false);
    let parent = labels.field(keys::PARENT).non_empty_str().filter(|name| *name != ROOT && !is_root);
    let namespaces = annotation::names(&annotations.field(keys::NAMESPACES)).unwrap_or_default();
    let total = annotation::limits(&annotations.field(keys::TOTAL_RESOURCE), interner);
    if is_root && total.is_empty() && !annotations.field(keys::TOTAL_RESOURCE).exists() {
        annotations.note_missing(keys::TOTAL_RESOURCE, "without it the tree has nothing to share");
    }
    TreeFact {
        key: quota_key(key),
        parent: parent.map(|name| interner.name(name)),
        tree: interner.name(labels.field(keys::TREE_ID).str().unwrap_or_default()),
        // Of a quota that is no root the total means nothing.
        root: is_root
            .then(|| TreeRoot { total, ignores_default_tree: flag(&labels.field(keys::IGNORE_DEFAULT_TREE), false) }),
        is_parent: flag(&labels.field(keys::IS_PARENT), false),
        lends: flag(&labels.field(keys::ALLOW_LENT), true),
        weight: annotation::limits(&annotations.field(keys::SHARED_WEIGHT), interner),
        namespaces: namespaces.iter().map(|name| interner.name(name)).collect(),
        users: users::users(&annotations, interner),
        min,
        max,
        overused_since: overused_since(root),
    }
}

/// Since when the quota's status says that it holds more than it may.
fn overused_since(root: &Cursor<'_, '_>) -> Option<Tick> {
    let conditions = root.value()?.pointer("/status/conditions")?.as_array()?;
    let overused = conditions.iter().find(|condition| condition["type"] == "Overused")?;
    let since = overused["lastTransitionTime"].as_str().filter(|_| overused["status"] == "True")?;
    let micros = crate::time::parse_timestamp(since).ok()?;
    u64::try_from(micros / 1000).ok().map(Tick)
}

/// What a label says that is `"true"` or `"false"`.
pub(crate) fn flag(at: &Cursor<'_, '_>, default: bool) -> bool {
    match at.non_empty_str() {
        Some("true") => true,
        Some("false") => false,
        Some(_) => {
            at.note(format!(r#"counts as "{default}": expected "true" or "false""#));
            default
        }
        None => default,
    }
}

fn limits(at: &Cursor<'_, '_>, interner: &mut Interner) -> Limits {
    at.entries().filter_map(|(resource, value)| Some((interner.name(resource), value.amount(resource)?))).collect()
}

/// The min, as far as max lets it be had: a quota governs the resources that its max names.
fn guaranteed(at: &Cursor<'_, '_>, max: &Limits, interner: &mut Interner) -> Limits {
    let within = |(resource, value): (&str, Cursor<'_, '_>)| {
        let min = value.amount(resource)?;
        let Some(max) = max.get(resource) else {
            value.note("max does not name this resource: its min does not count, expected it in max too");
            return None;
        };
        if min > max {
            let shown = canonical(resource, max.into());
            value.note(format!("is more than the max: counted as {shown}, expected at most the max"));
        }
        Some((interner.name(resource), min.min(max)))
    };
    at.entries().filter_map(within).collect()
}
