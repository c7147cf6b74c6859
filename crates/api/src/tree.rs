//! Quota trees: quotas below quotas, which lend each other what they do not need.
//!
//! The objects are `ElasticQuota` of `scheduling.sigs.k8s.io`, whose place in a tree is told by labels and whose shares
//! are told by annotations, and `ElasticQuotaProfile` of `quota.koordinator.sh`, which makes a tree of its own for the
//! nodes that it selects. A quota's name is unique in the cluster, whatever its namespace.

pub(crate) mod annotation;
pub(crate) mod forest;
pub mod keys;
pub(crate) mod membership;
pub(crate) mod node_affinity;
pub mod profile;
pub(crate) mod quota;
pub mod ratio;
pub mod roots;
pub mod status;
pub mod traps;

use serde_json::Value;

use crate::object::ObjectKey;
pub use membership::governed_namespaces;

/// The API group of the quotas of trees.
pub const GROUP: &str = "scheduling.sigs.k8s.io";

/// The kind of the quotas of trees.
pub const QUOTA: &str = "ElasticQuota";

/// The API group of profiles.
pub const PROFILE_GROUP: &str = "quota.koordinator.sh";

/// The kind of profiles.
pub const PROFILE: &str = "ElasticQuotaProfile";

/// The quota above all others, which is there whether it has an object or not.
pub const ROOT: &str = "koordinator-root-quota";

/// The quota of the cluster's own pods.
pub const SYSTEM: &str = "koordinator-system-quota";

/// The quota of pods that have no other.
pub const DEFAULT: &str = "koordinator-default-quota";

/// The quotas that are always there.
pub const BUILT_IN: [&str; 3] = [ROOT, SYSTEM, DEFAULT];

/// Whether the key is of a quota of a tree.
pub fn is_tree(key: &ObjectKey) -> bool {
    key.group == GROUP && key.kind == QUOTA
}

/// Whether the key is of a profile.
pub fn is_profile(key: &ObjectKey) -> bool {
    key.group == PROFILE_GROUP && key.kind == PROFILE
}

/// The label of that key, unless it is empty: empty and absent are one here.
pub(crate) fn label<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object.get("metadata")?.get("labels")?.get(key)?.as_str().filter(|text| !text.is_empty())
}

/// The annotation of that key, unless it is empty.
pub(crate) fn annotation<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object.get("metadata")?.get("annotations")?.get(key)?.as_str().filter(|text| !text.is_empty())
}

/// The object's name.
pub(crate) fn name(object: &Value) -> &str {
    object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default()
}

/// The name of the quota above a quota, [`ROOT`] where it names none.
pub(crate) fn parent(quota: &Value) -> &str {
    label(quota, keys::PARENT).unwrap_or(ROOT)
}

/// Whether quotas may be below it, and pods may not be in it.
pub(crate) fn is_parent(quota: &Value) -> bool {
    label(quota, keys::IS_PARENT) == Some("true")
}

/// Whether it is the root of a tree of its own.
pub(crate) fn is_root(quota: &Value) -> bool {
    label(quota, keys::IS_ROOT) == Some("true")
}

/// The id of its tree; empty for the default tree.
pub(crate) fn tree_id(quota: &Value) -> &str {
    label(quota, keys::TREE_ID).unwrap_or_default()
}
