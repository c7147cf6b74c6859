//! The kinds of objects that are known, and how they are called.
//!
//! A kind that is not in this table and looks like a misspelt one is a problem where it turns up in a file: a policy
//! that is silently left out silently does not hold. Any other unknown kind has no bearing on scheduling, and is
//! ignored.

use crate::near_names::nearest_name;

/// A kind of object, as the API server knows it.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Kind {
    /// The API group, `""` for the core group.
    pub group: &'static str,
    /// Versions that are read, the preferred one first.
    pub versions: &'static [&'static str],
    /// The name of the kind, as in `kind: Pod`.
    pub kind: &'static str,
    /// The name in URLs, as in `/api/v1/pods`.
    pub plural: &'static str,
    /// Whether objects of the kind live in a namespace.
    pub namespaced: bool,
}

impl Kind {
    /// The `apiVersion` that objects of this kind are written with.
    pub fn api_version(&self) -> String {
        match self.group {
            "" => self.versions[0].to_string(),
            group => format!("{group}/{}", self.versions[0]),
        }
    }
}

const fn cluster(
    group: &'static str,
    versions: &'static [&'static str],
    kind: &'static str,
    plural: &'static str,
) -> Kind {
    Kind { group, versions, kind, plural, namespaced: false }
}

const fn namespaced(
    group: &'static str,
    versions: &'static [&'static str],
    kind: &'static str,
    plural: &'static str,
) -> Kind {
    Kind { group, versions, kind, plural, namespaced: true }
}

/// Every known kind. Kinds of one name stand in the order in which they are listed to people.
pub static KINDS: &[Kind] = &[
    namespaced("", &["v1"], "Pod", "pods"),
    cluster("", &["v1"], "Node", "nodes"),
    cluster("", &["v1"], "Namespace", "namespaces"),
    namespaced("", &["v1"], "Service", "services"),
    cluster("", &["v1"], "PersistentVolume", "persistentvolumes"),
    namespaced("", &["v1"], "PersistentVolumeClaim", "persistentvolumeclaims"),
    namespaced("", &["v1"], "ReplicationController", "replicationcontrollers"),
    namespaced("", &["v1"], "ConfigMap", "configmaps"),
    namespaced("", &["v1"], "Secret", "secrets"),
    namespaced("", &["v1"], "ServiceAccount", "serviceaccounts"),
    namespaced("", &["v1"], "LimitRange", "limitranges"),
    namespaced("", &["v1"], "ResourceQuota", "resourcequotas"),
    namespaced("apps", &["v1"], "Deployment", "deployments"),
    namespaced("apps", &["v1"], "ReplicaSet", "replicasets"),
    namespaced("apps", &["v1"], "StatefulSet", "statefulsets"),
    namespaced("apps", &["v1"], "DaemonSet", "daemonsets"),
    namespaced("batch", &["v1"], "Job", "jobs"),
    namespaced("batch", &["v1"], "CronJob", "cronjobs"),
    namespaced("policy", &["v1"], "PodDisruptionBudget", "poddisruptionbudgets"),
    cluster("scheduling.k8s.io", &["v1"], "PriorityClass", "priorityclasses"),
    cluster("node.k8s.io", &["v1"], "RuntimeClass", "runtimeclasses"),
    cluster("storage.k8s.io", &["v1"], "StorageClass", "storageclasses"),
    cluster("storage.k8s.io", &["v1"], "CSINode", "csinodes"),
    cluster("storage.k8s.io", &["v1"], "CSIDriver", "csidrivers"),
    cluster("resource.k8s.io", &["v1", "v1beta2"], "ResourceSlice", "resourceslices"),
    cluster("resource.k8s.io", &["v1", "v1beta2"], "DeviceClass", "deviceclasses"),
    namespaced("resource.k8s.io", &["v1", "v1beta2"], "ResourceClaim", "resourceclaims"),
    namespaced("resource.k8s.io", &["v1", "v1beta2"], "ResourceClaimTemplate", "resourceclaimtemplates"),
    cluster("resource.k8s.io", &["v1", "v1beta2", "v1alpha3"], "DeviceTaintRule", "devicetaintrules"),
    namespaced("coordination.k8s.io", &["v1"], "Lease", "leases"),
    namespaced("scheduling.x-k8s.io", &["v1alpha1"], "ElasticQuota", "elasticquotas"),
    namespaced("nos.nebuly.com", &["v1alpha1"], "ElasticQuota", "elasticquotas"),
    namespaced("n8s.nebuly.ai", &["v1alpha1"], "ElasticQuota", "elasticquotas"),
    namespaced("scheduling.sigs.k8s.io", &["v1alpha1"], "ElasticQuota", "elasticquotas"),
    namespaced("nos.nebuly.com", &["v1alpha1"], "CompositeElasticQuota", "compositeelasticquotas"),
    namespaced("n8s.nebuly.ai", &["v1alpha1"], "CompositeElasticQuota", "compositeelasticquotas"),
    namespaced("quota.koordinator.sh", &["v1alpha1"], "ElasticQuotaProfile", "elasticquotaprofiles"),
    cluster("scheduling.volcano.sh", &["v1beta1"], "Queue", "queues"),
    namespaced("scheduling.volcano.sh", &["v1beta1"], "PodGroup", "podgroups"),
    namespaced("scheduling.k8s.io", &["v1beta1", "v1alpha3"], "PodGroup", "podgroups"),
    namespaced("scheduling.x-k8s.io", &["v1alpha1"], "PodGroup", "podgroups"),
    namespaced("scheduling.sigs.k8s.io", &["v1alpha1"], "PodGroup", "podgroups"),
    namespaced("scheduling.k8s.io", &["v1beta1", "v1alpha3"], "Workload", "workloads"),
    namespaced("batch.volcano.sh", &["v1alpha1"], "Job", "jobs"),
    namespaced("bus.volcano.sh", &["v1alpha1"], "Command", "commands"),
    cluster("quotient.dev", &["v1alpha1"], "QuotientConfiguration", "quotientconfigurations"),
    cluster("quotient.dev", &["v1alpha1"], "Scenario", "scenarios"),
];

/// The kind of that group and name.
pub fn find(group: &str, kind: &str) -> Option<&'static Kind> {
    KINDS.iter().find(|k| k.kind == kind && k.group == group)
}

/// All kinds of that name, whatever their group.
pub fn named(kind: &str) -> impl Iterator<Item = &'static Kind> {
    KINDS.iter().filter(move |k| k.kind == kind)
}

/// Kinds that share their name with one of ours and are others' all the same.
const NAMESAKES: [(&str, &str); 1] = [("scheduling.run.ai", "Queue")];

/// Whether a kind that is not in the table is a misspelt one of ours: a kind of ours under another group of Kubernetes'
/// own or under a group that is nearly right, or nearly a kind's name under the right group.
pub fn is_misspelt(group: &str, kind: &str) -> bool {
    if find(group, kind).is_some() || NAMESAKES.contains(&(group, kind)) {
        return false;
    }
    let is_built_in = |group: &str| !group.contains('.') || group.ends_with(".k8s.io");
    let is_known_group = KINDS.iter().any(|known| known.group == group);
    let near_group = nearest_name(group, named(kind).map(|known| known.group)).is_some();
    let near_kind = nearest_name(kind, KINDS.iter().filter(|known| known.group == group).map(|known| known.kind));
    let has_name = named(kind).next().is_some();
    has_name && (near_group || (is_known_group && is_built_in(group))) || near_kind.is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misspelt_kinds_are_told_from_others() {
        let cases = [
            ("", "Podd", true),
            ("", "Deployment", true),
            ("apps", "Pod", true),
            ("apps", "Deploymnet", true),
            ("scheduling.x-k8s.i", "ElasticQuota", true),
            ("scheduling.x-k8s.io", "ElasticQuta", true),
            ("", "Event", false),
            ("", "Endpoints", false),
            ("apps", "ControllerRevision", false),
            ("networking.k8s.io", "Ingress", false),
            ("rbac.authorization.k8s.io", "RoleBinding", false),
            ("autoscaling", "HorizontalPodAutoscaler", false),
            ("monitoring.coreos.com", "ServiceMonitor", false),
            ("kueue.x-k8s.io", "Workload", false),
            ("kueue.x-k8s.io", "ClusterQueue", false),
            ("scheduling.x-k8s.io", "PodGroup", false),
            ("ray.io", "RayJob", false),
            ("example.com", "Job", false),
        ];
        for (group, kind, expected) in cases {
            assert_eq!(is_misspelt(group, kind), expected, "{kind} of {group:?}");
        }
    }
}
