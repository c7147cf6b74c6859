//! Quotas of trees: their place is filled in, and what cannot hold is refused.
//!
//! What an update leaves as it was is not held against it, so that a quota that got in by another way can be mended,
//! and so that a tree whose nodes went does not freeze the quotas below it.

use std::collections::{BTreeMap, BTreeSet};

use quotient_engine::fact::Amount;
use quotient_engine::quantity::canonical;
use serde_json::Value;

use super::elastic::check_countable;
use super::metadata::is_subdomain;
use super::{Context, Operation, Rejection, object_in};
use crate::cursor::{Cursor, Notes};
use crate::object::key_of;
use crate::tree::membership::{a_pod_of, by_name, children, listed};
use crate::tree::profile::derived_tree_id;
use crate::tree::{
    BUILT_IN, GROUP, QUOTA, ROOT, annotation, is_parent, is_root, keys, label, name, parent, quota, tree_id,
};

/// Fills in the parent (the root of all), the tree's id (that of the parent), and the weight (max where none is given).
pub(super) fn fill_in(object: &mut Value, context: &Context<'_>) -> Result<(), Rejection> {
    if &*context.key.name == ROOT {
        return Ok(());
    }
    let above = parent(object).to_string();
    let id = match label(object, keys::TREE_ID) {
        Some(_) => None,
        None if is_root(object) => {
            let namespace = context.key.namespace.as_deref().unwrap_or_default();
            let kept = context.old.and_then(|old| label(old, keys::TREE_ID)).map(str::to_string);
            Some(kept.unwrap_or_else(|| derived_tree_id(namespace, &context.key.name)))
        }
        // A parent that does not exist is refused by the checks.
        None => by_name(context.view, &above).map(|parent| tree_id(parent).to_string()),
    };
    let weight = weight(object, context.old);
    let Some(metadata) = object.get_mut("metadata") else { return Ok(()) };
    if let Some(labels) = object_in(metadata, "labels") {
        labels.insert(keys::PARENT.to_string(), Value::from(above));
        if let Some(id) = id.filter(|id| !id.is_empty()) {
            labels.insert(keys::TREE_ID.to_string(), Value::from(id));
        }
    }
    if let Some(weight) = weight
        && let Some(annotations) = object_in(metadata, "annotations")
    {
        annotations.insert(keys::SHARED_WEIGHT.to_string(), Value::from(weight));
    }
    Ok(())
}

/// The weight as it should be written: one for each resource that max names, from max where none is given. A weight
/// that was filled in from max follows max. `None` where it is fine, or where the checks refuse it.
fn weight(object: &Value, old: Option<&Value>) -> Option<String> {
    let max = readable(object.pointer("/spec/max"))?;
    if max.is_empty() {
        return None;
    }
    let as_max = |max: &BTreeMap<String, Amount>| written(max.iter());
    let given = annotation_text(object);
    let was_filled_in = old.is_some_and(|old| {
        let before = readable(old.pointer("/spec/max")).map(|max| as_max(&max));
        annotation_text(old) == given && before.as_deref() == given
    });
    let Some(given) = given.filter(|_| !was_filled_in) else { return Some(as_max(&max)) };
    let weights = readable(serde_json::from_str(given).ok().as_ref())?;
    if weights.keys().eq(max.keys()) {
        return None;
    }
    let aligned: BTreeMap<&String, &Amount> =
        max.iter().map(|(resource, max)| (resource, weights.get(resource).unwrap_or(max))).collect();
    Some(written(aligned))
}

fn annotation_text(object: &Value) -> Option<&str> {
    crate::tree::annotation(object, keys::SHARED_WEIGHT)
}

fn written<'a>(amounts: impl IntoIterator<Item = (&'a String, &'a Amount)>) -> String {
    annotation::written(amounts.into_iter().map(|(resource, amount)| (resource.as_str(), i128::from(*amount))))
}

/// Amounts by resource, if all of them can be read.
fn readable(amounts: Option<&Value>) -> Option<BTreeMap<String, Amount>> {
    let notes = Notes::default();
    let value = amounts?;
    let root = Cursor::root(value, &notes);
    let read = root.entries().filter_map(|(resource, at)| Some((resource.to_string(), at.amount(resource)?))).collect();
    notes.is_empty().then_some(read)
}

/// Amounts as far as they can be read; what cannot is noted elsewhere.
fn amounts(amounts: Option<&Value>) -> BTreeMap<String, Amount> {
    let notes = Notes::default();
    let Some(value) = amounts else { return BTreeMap::new() };
    let root = Cursor::root(value, &notes);
    root.entries().filter_map(|(resource, at)| Some((resource.to_string(), at.amount(resource)?))).collect()
}

/// Checks a quota by itself and between its parent, its children and its pods.
pub(super) fn check(root: &Cursor<'_, '_>, context: &Context<'_>) {
    check_amounts(root);
    let metadata = root.field("metadata");
    let (labels, annotations) = (metadata.field("labels"), metadata.field("annotations"));
    for key in [keys::IS_PARENT, keys::IS_ROOT, keys::ALLOW_LENT, keys::IGNORE_DEFAULT_TREE, keys::ALLOW_FORCE_UPDATE] {
        quota::flag(&labels.field(key), false);
    }
    annotation::amounts(&annotations.field(keys::SHARED_WEIGHT));
    annotation::amounts(&annotations.field(keys::TOTAL_RESOURCE));
    check_namespaces(&annotations.field(keys::NAMESPACES), context);
    let Some(object) = root.value().filter(|_| &*context.key.name != ROOT) else { return };
    if context.operation == Operation::Create {
        check_name_is_free(&metadata.field("name"), context);
    }
    let place = Place { object, old: context.old, context };
    place.check_tree_id(&labels.field(keys::TREE_ID));
    if let Some(above) = place.check_parent(&labels.field(keys::PARENT)) {
        let spec = root.field("spec");
        place.check_keys(&spec.field("max"), above);
        place.check_min_within(&spec.field("min"), above);
    }
    place.check_min_of_children(&root.field("spec"));
    place.check_is_parent(&labels.field(keys::IS_PARENT));
}

/// Amounts can be counted and are not below 0; every min has its max, which is not below it.
fn check_amounts(root: &Cursor<'_, '_>) {
    let spec = root.field("spec");
    let (min, max) = (spec.field("min"), spec.field("max"));
    check_countable([&min, &max]);
    let limits = amounts(max.value());
    for (resource, value) in min.entries() {
        match (limits.get(resource), value.amount(resource)) {
            (Some(max), Some(min)) if min > *max => {
                value.note(format!("min must not be above max, which is {}", canonical(resource, (*max).into())));
            }
            (None, _) if !max.field(resource).exists() => {
                value.note("max does not name this resource: expected every resource of min in max too");
            }
            _ => {}
        }
    }
}

/// The list names namespaces, and none that another quota lists.
fn check_namespaces(at: &Cursor<'_, '_>, context: &Context<'_>) {
    let Some(namespaces) = annotation::names(at) else { return };
    let before: BTreeSet<String> = context.old.map(listed).unwrap_or_default().into_iter().collect();
    let mut taken: BTreeMap<String, String> = BTreeMap::new();
    for other in context.view.list(GROUP, QUOTA, None) {
        if let Some(key) = key_of(other).ok().filter(|key| key != context.key) {
            taken.extend(listed(other).into_iter().map(|namespace| (namespace, key.to_string())));
        }
    }
    for namespace in &namespaces {
        if !is_subdomain(namespace) {
            at.note(format!("{namespace:?} is no name of a namespace"));
        } else if let Some(other) = taken.get(namespace).filter(|_| !before.contains(namespace)) {
            at.note(format!("{namespace:?} is listed by {other} already: expected one quota for a namespace"));
        }
    }
}

/// Quotas are told apart by their names alone.
fn check_name_is_free(at: &Cursor<'_, '_>, context: &Context<'_>) {
    let other = by_name(context.view, &context.key.name).and_then(|other| key_of(other).ok());
    if let Some(other) = other.filter(|other| other != context.key) {
        at.note(format!("is the name of {other} already: expected a name that no other namespace has"));
    }
}

/// A quota on its way in, and what is around it.
struct Place<'a> {
    object: &'a Value,
    old: Option<&'a Value>,
    context: &'a Context<'a>,
}

impl<'a> Place<'a> {
    /// The tree is that of the children, and never changes; but a quota with nothing below it may become a root.
    fn check_tree_id(&self, at: &Cursor<'_, '_>) {
        let id = tree_id(self.object);
        let own_name = &self.context.key.name;
        if let Some(old) = self.old.filter(|old| tree_id(old) != id) {
            let becomes_root = is_root(self.object) && !is_root(old) && tree_id(old).is_empty();
            if !becomes_root || self.something_below().is_some() {
                let before = tree_id(old);
                let before = if before.is_empty() { "none".to_string() } else { format!("{before:?}") };
                let message = format!("the id of a quota's tree may not change: it was {before}");
                return at.note(message);
            }
        }
        let of_other_tree = |child: &&Value| tree_id(child) != id;
        let child = children(self.context.view, own_name).into_iter().find(of_other_tree);
        if let Some(child) = child.filter(|_| self.old.is_none()).and_then(|child| key_of(child).ok()) {
            at.note(format!("{child}, which is below it, is of another tree"));
        }
    }

    /// What is below the quota: another quota, or a pod.
    fn something_below(&self) -> Option<String> {
        below(self.context)
    }

    /// The quota above, if it can be above this one. `None` also right below the root of all, which holds for
    /// everybody.
    fn check_parent(&self, at: &Cursor<'_, '_>) -> Option<&'a Value> {
        let above = parent(self.object);
        if above == ROOT {
            return None;
        }
        let (own_name, view) = (&*self.context.key.name, self.context.view);
        let is_new = self.old.is_none_or(|old| parent(old) != above);
        if is_root(self.object) {
            at.note(format!("is-root is \"true\": expected {ROOT} above the root of a tree"));
            return None;
        }
        if is_new && above == own_name {
            at.note("a quota cannot be its own parent");
            return None;
        }
        let Some(quota) = by_name(view, above) else {
            if is_new {
                at.note(format!("no quota {above:?} exists: expected one that does"));
            }
            return None;
        };
        if !is_new {
            return Some(quota);
        }
        if !is_parent(quota) || BUILT_IN.contains(&above) {
            let key = key_of(quota).map_or_else(|_| above.to_string(), |key| key.to_string());
            at.note(format!("{key} is no parent: expected a quota with the label {}: \"true\"", keys::IS_PARENT));
        }
        if is_above(own_name, quota, self.context) {
            at.note(format!("{above:?} is below {own_name:?}: a quota cannot be above itself"));
        }
        if tree_id(quota) != tree_id(self.object) {
            let (ours, theirs) = (tree_id(self.object), tree_id(quota));
            at.note(format!("its tree is {theirs:?}, and this quota's tree-id is {ours:?}: expected one tree"));
        }
        Some(quota)
    }

    /// Max names the resources that the parent's max names. A parent may change first; its children follow.
    fn check_keys(&self, at: &Cursor<'_, '_>, above: &Value) {
        let resources = |quota: &Value| amounts(quota.pointer("/spec/max")).into_keys().collect::<BTreeSet<String>>();
        let (ours, theirs) = (resources(self.object), resources(above));
        let is_as_before = |old: &&Value| parent(old) == parent(self.object) && resources(old) == ours;
        if ours == theirs || self.old.as_ref().is_some_and(is_as_before) {
            return;
        }
        let list = |names: BTreeSet<String>| match names.is_empty() {
            true => "nothing".to_string(),
            false => names.into_iter().collect::<Vec<_>>().join(", "),
        };
        at.note(format!(
            "max names {}, and the parent's names {}: expected the same resources",
            list(ours),
            list(theirs)
        ));
    }

    /// The mins below a parent are not more than its own.
    fn check_min_within(&self, at: &Cursor<'_, '_>, above: &Value) {
        if self.is_forced() {
            return;
        }
        let view = self.context.view;
        let mut sums: BTreeMap<String, i128> = BTreeMap::new();
        for sibling in children(view, name(above)) {
            if key_of(sibling).ok().as_ref() != Some(self.context.key) {
                add(&mut sums, amounts(sibling.pointer("/spec/min")));
            }
        }
        let limits = amounts(above.pointer("/spec/min"));
        let before = self.old.filter(|old| parent(old) == parent(self.object));
        let before = amounts(before.and_then(|old| old.pointer("/spec/min")));
        for (resource, min) in amounts(self.object.pointer("/spec/min")) {
            let sum = sums.get(&resource).copied().unwrap_or(0) + i128::from(min);
            let limit = i128::from(limits.get(&resource).copied().unwrap_or(0));
            if sum > limit && min > before.get(&resource).copied().unwrap_or(0) {
                at.field(&resource).note(format!(
                    "the mins below {} would be {}, and its own min is {}: expected at most as much",
                    name(above),
                    canonical(&resource, sum),
                    canonical(&resource, limit),
                ));
            }
        }
    }

    /// The min of a parent is not less than those below it, unless it follows nodes.
    fn check_min_of_children(&self, spec: &Cursor<'_, '_>) {
        if self.is_forced() || is_root(self.object) {
            return;
        }
        let mut sums: BTreeMap<String, i128> = BTreeMap::new();
        for child in children(self.context.view, &self.context.key.name) {
            add(&mut sums, amounts(child.pointer("/spec/min")));
        }
        let limits = amounts(self.object.pointer("/spec/min"));
        let before = self.old.map(|old| amounts(old.pointer("/spec/min")));
        for (resource, sum) in sums {
            let min = limits.get(&resource).copied().unwrap_or(0);
            let falls = before.as_ref().is_none_or(|before| min < before.get(&resource).copied().unwrap_or(0));
            if sum > i128::from(min) && falls {
                let message = format!(
                    "min of {resource} is {}, and the mins below it are {}: expected at least as much",
                    canonical(&resource, min.into()),
                    canonical(&resource, sum)
                );
                spec.field("min").note_at(&resource, message);
            }
        }
    }

    /// A quota with children stays a parent, one with pods does not become one.
    fn check_is_parent(&self, at: &Cursor<'_, '_>) {
        let (view, own_name) = (self.context.view, &self.context.key.name);
        let was_parent = self.old.is_some_and(is_parent);
        if was_parent && !is_parent(self.object) {
            if let Some(child) = children(view, own_name).first().and_then(|child| key_of(child).ok()) {
                at.note(format!("{child} is below it: expected it to stay a parent"));
            }
        } else if !was_parent
            && is_parent(self.object)
            && let Some(pod) = a_pod_of(view, own_name)
        {
            at.note(format!("{pod} is in it: expected no pods in a parent"));
        }
    }

    /// Whether the quota's owner wants its min whatever is around it.
    fn is_forced(&self) -> bool {
        label(self.object, keys::ALLOW_FORCE_UPDATE) == Some("true")
    }
}

/// Whether the quota `own_name` is above `quota`. Ends where others are above themselves already.
fn is_above(own_name: &str, quota: &Value, context: &Context<'_>) -> bool {
    let parents: BTreeMap<&str, &str> =
        context.view.list(GROUP, QUOTA, None).into_iter().rev().map(|quota| (name(quota), parent(quota))).collect();
    let mut seen = BTreeSet::new();
    let mut at = name(quota);
    while seen.insert(at) {
        if at == own_name {
            return true;
        }
        match parents.get(at) {
            Some(above) => at = above,
            None => return false,
        }
    }
    false
}

fn add(sums: &mut BTreeMap<String, i128>, amounts: BTreeMap<String, Amount>) {
    for (resource, amount) in amounts {
        *sums.entry(resource).or_default() += i128::from(amount);
    }
}

/// What is below the quota that is spoken of: another quota, or a pod.
fn below(context: &Context<'_>) -> Option<String> {
    let own_name = &context.key.name;
    let below = children(context.view, own_name);
    if let Some(child) = below.first().and_then(|child| key_of(child).ok()) {
        return Some(format!("{child} is below it"));
    }
    a_pod_of(context.view, own_name).map(|pod| format!("{pod} is in it"))
}

/// A quota goes when nothing is below it. The built-in ones stay.
pub(super) fn check_delete(root: &Cursor<'_, '_>, context: &Context<'_>) {
    let metadata = root.field("metadata");
    let at = metadata.field("name");
    if BUILT_IN.contains(&&*context.key.name) {
        at.note("is a quota that is always there: it cannot be deleted");
    } else if let Some(message) = below(context) {
        at.note(format!("{message}: expected nothing below a quota that is deleted"));
    }
}
