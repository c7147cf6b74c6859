//! Groups of the Coscheduling plugin: `PodGroup` of `scheduling.x-k8s.io`, which pods name by a label.
//!
//! A pod is placed exactly, and nothing is held for a pending group: `scheduleTimeoutSeconds` has nothing to end, and
//! `minResources` nothing to decide.

use super::{Source, label, with_min_member};
use crate::pod_group::unreadable;

/// The API group of these groups.
pub const GROUP: &str = "scheduling.x-k8s.io";

/// The group of a pod.
const POD_GROUP_LABEL: &str = "scheduling.x-k8s.io/pod-group";

pub(super) const SOURCE: Source = Source {
    name: "Coscheduling",
    api_group: GROUP,
    labels: &[POD_GROUP_LABEL],
    annotations: &[],
    name_of: |pod| label(pod, POD_GROUP_LABEL),
    terms: None,
    group: Some(|root, notes, key, interner| {
        let fact = with_min_member(root, key, interner);
        quotient_engine::fact::GroupFact { problem: unreadable(notes), ..fact }
    }),
};
