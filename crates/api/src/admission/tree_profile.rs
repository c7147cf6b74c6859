//! Profiles of quota trees.

use super::metadata::{check_labels, is_subdomain};
use super::{Context, Operation};
use crate::cursor::Cursor;
use crate::intern::Interner;
use crate::selector::label_selector;
use crate::tree::membership::by_name;
use crate::tree::profile::{root_key, tree_id};
use crate::tree::ratio::Ratio;
use crate::tree::{BUILT_IN, annotation, keys};

/// Checks a profile: it names its root, it selects nodes, and its tree stays the same.
pub(super) fn check(root: &Cursor<'_, '_>, context: &Context<'_>) {
    let (metadata, spec) = (root.field("metadata"), root.field("spec"));
    let quota = spec.field("quotaName");
    match quota.non_empty_str() {
        Some(name) if BUILT_IN.contains(&name) => quota.note("is a quota that is always there: expected another name"),
        Some(name) if !is_subdomain(name) => quota.note("expected the name of a quota"),
        Some(_) => {}
        None => spec.note_missing("quotaName", "expected the name of the root of the tree"),
    }
    let selector = spec.field("nodeSelector");
    if !selector.exists() {
        spec.note_missing("nodeSelector", "expected the labels of the tree's nodes");
    }
    label_selector(&selector, &mut Interner::default());
    check_labels(&spec.field("quotaLabels"));
    let annotations = metadata.field("annotations");
    annotation::names(&annotations.field(keys::RESOURCE_KEYS));
    let ratio = spec.field("resourceRatio").non_empty_str();
    if let Some((text, error)) = ratio.and_then(|text| Some((text, text.parse::<Ratio>().err()?))) {
        context.warn(format!("spec.resourceRatio: {text:?}: {error}"));
    }
    check_tree_is_kept(&metadata, root, context);
}

/// The id of a tree that has a root may not change: that of its quotas cannot.
fn check_tree_is_kept(metadata: &Cursor<'_, '_>, root: &Cursor<'_, '_>, context: &Context<'_>) {
    let (Operation::Update, Some(old), Some(new)) = (context.operation, context.old, root.value()) else { return };
    let (before, after) = (tree_id(old), tree_id(new));
    let has_root = root_key(old).is_some_and(|root| by_name(context.view, &root.name).is_some());
    if before != after && has_root && root_key(old) == root_key(new) {
        let labels = metadata.field("labels");
        labels.field(keys::TREE_ID).note(format!("the id of a tree may not change: it was {before:?}"));
    }
}
