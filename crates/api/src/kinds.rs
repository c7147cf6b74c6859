//! The kinds of objects that are known, and how they are called.
//!
//! A kind that is not in this table is a problem where it turns up in a file: a misspelt kind that is
//! silently kept is a policy that silently does not hold.

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
    namespaced("batch.volcano.sh", &["v1alpha1"], "Job", "jobs"),
    cluster("quotient.dev", &["v1alpha1"], "QuotientConfiguration", "quotientconfigurations"),
    cluster("quotient.dev", &["v1alpha1"], "Scenario", "scenarios"),
];

/// The kind of that group and name.
pub fn find(group: &str, kind: &str) -> Option<&'static Kind> {
    KINDS.iter().find(|k| k.group == group && k.kind == kind)
}

/// All kinds of that name, whatever their group.
pub fn named(kind: &str) -> impl Iterator<Item = &'static Kind> {
    KINDS.iter().filter(move |k| k.kind == kind)
}
