//! The labels and annotations that tell a quota's place in a tree, and what it shares.

/// Label on quotas: the name of the quota above it.
pub const PARENT: &str = "quota.scheduling.koordinator.sh/parent";
/// Label on quotas: `"true"` if quotas may be below it.
pub const IS_PARENT: &str = "quota.scheduling.koordinator.sh/is-parent";
/// Label on quotas and profiles: which tree.
pub const TREE_ID: &str = "quota.scheduling.koordinator.sh/tree-id";
/// Label on quotas: `"true"` if it is the root of a tree of its own.
pub const IS_ROOT: &str = "quota.scheduling.koordinator.sh/is-root";
/// Label on the root of a tree: the profile that it was made for.
pub const PROFILE: &str = "quota.scheduling.koordinator.sh/profile";
/// Label on quotas: `"false"` if it keeps its min while it does not need it.
pub const ALLOW_LENT: &str = "quota.scheduling.koordinator.sh/allow-lent-resource";
/// Label on the root of a tree: `"true"` if its total stays in the default tree too.
pub const IGNORE_DEFAULT_TREE: &str = "quota.scheduling.koordinator.sh/ignore-default-tree";
/// Label on quotas: `"true"` if its min is not compared with those around it.
pub const ALLOW_FORCE_UPDATE: &str = "quota.scheduling.koordinator.sh/allow-force-update";

/// Label on pods: the quota that it is charged to.
pub const QUOTA_NAME: &str = "quota.scheduling.koordinator.sh/name";
/// Label on pods: `"false"` if it is never evicted, and held to the min of its quota.
pub const PREEMPTIBLE: &str = "quota.scheduling.koordinator.sh/preemptible";

/// Annotation on quotas: by what it shares in what is left.
pub const SHARED_WEIGHT: &str = "quota.scheduling.koordinator.sh/shared-weight";
/// Annotation on the root of a tree: what its nodes hold.
pub const TOTAL_RESOURCE: &str = "quota.scheduling.koordinator.sh/total-resource";
/// Annotation on the root of a tree: what of that is on nodes that take no pods.
pub const UNSCHEDULABLE_RESOURCE: &str = "quota.scheduling.koordinator.sh/unschedulable-resource";
/// Annotation on quotas: the namespaces whose pods it is charged for.
pub const NAMESPACES: &str = "quota.scheduling.koordinator.sh/namespaces";
/// Annotation on profiles: the resources that the root of the tree governs.
pub const RESOURCE_KEYS: &str = "quota.scheduling.koordinator.sh/resource-keys";

/// Annotations on quotas with how they stand.
pub const RUNTIME: &str = "quota.scheduling.koordinator.sh/runtime";
pub const REQUEST: &str = "quota.scheduling.koordinator.sh/request";
pub const CHILD_REQUEST: &str = "quota.scheduling.koordinator.sh/child-request";
pub const NON_PREEMPTIBLE_USED: &str = "quota.scheduling.koordinator.sh/non-preemptible-used";
pub const NON_PREEMPTIBLE_REQUEST: &str = "quota.scheduling.koordinator.sh/non-preemptible-request";
pub const ALLOCATED: &str = "quota.scheduling.koordinator.sh/allocated";
pub const GUARANTEED: &str = "quota.scheduling.koordinator.sh/guaranteed";

/// Annotation on a root that a profile keeps current: the keys of the labels that the profile gave it, as a list. It
/// marks the root as the profile's, and lets a label that is taken out of the profile be taken off again.
pub const LABELS_OF_PROFILE: &str = "quotient.dev/labels-of-profile";
