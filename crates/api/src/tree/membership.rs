//! Which quota of a tree a pod is charged to, and which quotas and pods are below a quota.
//!
//! The engine resolves this for itself from its facts; admission asks the same of objects.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{DEFAULT, GROUP, QUOTA, annotation, is_parent, keys, label, name, parent};
use crate::admission::View;
use crate::field;
use crate::object::{ObjectKey, key_of};

/// The quota of that name. Of several the one in the earliest namespace counts.
pub(crate) fn by_name<'a>(view: &'a dyn View, wanted: &str) -> Option<&'a Value> {
    view.list(GROUP, QUOTA, None).into_iter().find(|quota| name(quota) == wanted)
}

/// The quotas right below the one of that name, by namespace and name.
pub(crate) fn children<'a>(view: &'a dyn View, above: &str) -> Vec<&'a Value> {
    let quotas = view.list(GROUP, QUOTA, None);
    quotas.into_iter().filter(|quota| name(quota) != above && parent(quota) == above).collect()
}

/// How a pod comes to its quota.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found<'a> {
    /// Its label names the quota, which may not exist.
    ByLabel(&'a str),
    /// The quota is named like the pod's namespace, and in it.
    ByNamespace(&'a str),
    /// The quota lists the pod's namespace.
    ByList(&'a str),
    /// It has no other. A quota that has others below it takes no pods.
    Default,
}

impl<'a> Found<'a> {
    /// The name of the quota.
    pub fn name(self) -> &'a str {
        match self {
            Found::ByLabel(name) | Found::ByNamespace(name) | Found::ByList(name) => name,
            Found::Default => DEFAULT,
        }
    }
}

/// The quota that a pod is charged to.
pub(crate) fn quota_of<'a>(pod: &'a Value, view: &'a dyn View) -> Found<'a> {
    if let Some(named) = label(pod, keys::QUOTA_NAME) {
        return Found::ByLabel(named);
    }
    let namespace = namespace(pod);
    let quotas = view.list(GROUP, QUOTA, None);
    if let Some(own) = own(&quotas, namespace).filter(|own| !is_parent(own)) {
        return Found::ByNamespace(name(own));
    }
    let lists = |quota: &&&Value| listed(quota).iter().any(|listed| listed == namespace);
    // Of two that list one namespace, the one of the earlier name has it.
    let listing = quotas.iter().filter(lists).min_by_key(|quota| name(quota)).filter(|quota| !is_parent(quota));
    listing.map_or(Found::Default, |quota| Found::ByList(name(quota)))
}

/// The quota of these that is named like a namespace and in it.
fn own<'a>(quotas: &[&'a Value], namespace: &str) -> Option<&'a Value> {
    quotas.iter().copied().find(|quota| name(quota) == namespace).filter(|own| self::namespace(own) == namespace)
}

/// The quota that is named like a pod's namespace and in it.
pub(crate) fn own_of<'a>(pod: &Value, view: &'a dyn View) -> Option<&'a Value> {
    own(&view.list(GROUP, QUOTA, None), namespace(pod))
}

/// The namespaces that a quota lists, as far as they can be read.
pub(crate) fn listed(quota: &Value) -> Vec<String> {
    super::annotation(quota, keys::NAMESPACES).and_then(annotation::parsed_names).unwrap_or_default()
}

/// The namespaces whose pods may be in a quota of a tree without naming it: those with a quota of their own name, and
/// those that a quota lists.
pub fn governed_namespaces(view: &dyn View) -> BTreeSet<String> {
    let quotas = view.list(GROUP, QUOTA, None);
    let own = quotas.iter().filter(|quota| name(quota) == namespace(quota)).map(|quota| name(quota).to_string());
    own.chain(quotas.iter().flat_map(|quota| listed(quota))).collect()
}

fn namespace(object: &Value) -> &str {
    field::text(object, "/metadata/namespace").unwrap_or_default()
}

/// A pod that is charged to the quota of that name and has not ended.
pub(crate) fn a_pod_of(view: &dyn View, quota: &str) -> Option<ObjectKey> {
    // Those of a namespace that name no quota have one in common.
    let mut by_namespace: BTreeMap<&str, bool> = BTreeMap::new();
    for pod in view.list("", "Pod", None) {
        let is_over = matches!(field::text(pod, "/status/phase"), Some("Succeeded" | "Failed"));
        let is_charged = match label(pod, keys::QUOTA_NAME) {
            Some(named) => named == quota,
            None => *by_namespace.entry(namespace(pod)).or_insert_with(|| quota_of(pod, view).name() == quota),
        };
        if is_charged && !is_over {
            return key_of(pod).ok();
        }
    }
    None
}
