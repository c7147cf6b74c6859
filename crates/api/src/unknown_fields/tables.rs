//! The fields of Kubernetes' own kinds that bear on scheduling, and the names of those beside them.

/// What stands under a field.
#[derive(Debug, Clone, Copy)]
pub(super) enum Shape {
    /// Anything: a plain value, or a mapping whose keys are the user's own.
    Any,
    /// A mapping with these fields.
    Map(Fields),
    /// A list of mappings with these fields.
    List(Fields),
}

use Shape::{Any, List, Map};

/// Names of fields and what stands under them.
pub(super) type Fields = &'static [(&'static str, Shape)];

/// The fields of a kind; `None` where they are not listed.
pub(super) fn of_kind(group: &str, kind: &str) -> Option<Fields> {
    match (group, kind) {
        ("", "Pod") => Some(POD),
        ("", "Node") => Some(NODE),
        ("", "ReplicationController") | ("apps", "Deployment" | "ReplicaSet" | "StatefulSet" | "DaemonSet") => {
            Some(WORKLOAD)
        }
        ("batch", "Job") => Some(JOB),
        ("batch", "CronJob") => Some(CRON_JOB),
        ("policy", "PodDisruptionBudget") => Some(BUDGET),
        ("scheduling.k8s.io", "PriorityClass") => Some(PRIORITY_CLASS),
        ("scheduling.k8s.io", "PodGroup") => Some(POD_GROUP),
        ("scheduling.k8s.io", "Workload") => Some(POD_GROUP_WORKLOAD),
        ("", "LimitRange") => Some(LIMIT_RANGE),
        ("", "ResourceQuota") => Some(RESOURCE_QUOTA),
        _ => None,
    }
}

const METADATA: Fields = &[
    ("name", Any),
    ("generateName", Any),
    ("namespace", Any),
    ("labels", Any),
    ("annotations", Any),
    ("ownerReferences", Any),
    ("finalizers", Any),
    ("creationTimestamp", Any),
    ("deletionTimestamp", Any),
    ("deletionGracePeriodSeconds", Any),
    ("generation", Any),
    ("managedFields", Any),
    ("resourceVersion", Any),
    ("selfLink", Any),
    ("uid", Any),
];

const SELECTOR_TERM: Fields = &[("key", Any), ("operator", Any), ("values", Any)];

const LABEL_SELECTOR: Fields = &[("matchLabels", Any), ("matchExpressions", List(SELECTOR_TERM))];

const NODE_TERM: Fields = &[("matchExpressions", List(SELECTOR_TERM)), ("matchFields", List(SELECTOR_TERM))];

const NODE_AFFINITY: Fields = &[
    ("requiredDuringSchedulingIgnoredDuringExecution", Map(&[("nodeSelectorTerms", List(NODE_TERM))])),
    ("preferredDuringSchedulingIgnoredDuringExecution", List(&[("weight", Any), ("preference", Map(NODE_TERM))])),
];

const POD_TERM: Fields = &[
    ("labelSelector", Map(LABEL_SELECTOR)),
    ("namespaceSelector", Map(LABEL_SELECTOR)),
    ("namespaces", Any),
    ("topologyKey", Any),
    ("matchLabelKeys", Any),
    ("mismatchLabelKeys", Any),
];

const POD_AFFINITY: Fields = &[
    ("requiredDuringSchedulingIgnoredDuringExecution", List(POD_TERM)),
    ("preferredDuringSchedulingIgnoredDuringExecution", List(&[("weight", Any), ("podAffinityTerm", Map(POD_TERM))])),
];

const RESOURCES: Fields = &[("requests", Any), ("limits", Any), ("claims", List(&[("name", Any), ("request", Any)]))];

const CONTAINER: Fields = &[
    ("name", Any),
    ("image", Any),
    ("imagePullPolicy", Any),
    ("command", Any),
    ("args", Any),
    ("workingDir", Any),
    ("ports", List(&[("containerPort", Any), ("hostPort", Any), ("hostIP", Any), ("name", Any), ("protocol", Any)])),
    ("env", Any),
    ("envFrom", Any),
    ("resources", Map(RESOURCES)),
    ("resizePolicy", Any),
    ("restartPolicy", Any),
    ("restartPolicyRules", Any),
    ("volumeMounts", Any),
    ("volumeDevices", Any),
    ("livenessProbe", Any),
    ("readinessProbe", Any),
    ("startupProbe", Any),
    ("lifecycle", Any),
    ("securityContext", Any),
    ("stdin", Any),
    ("stdinOnce", Any),
    ("tty", Any),
    ("terminationMessagePath", Any),
    ("terminationMessagePolicy", Any),
];

const POD_SPEC: Fields = &[
    ("containers", List(CONTAINER)),
    ("initContainers", List(CONTAINER)),
    ("ephemeralContainers", Any),
    ("nodeName", Any),
    ("nodeSelector", Any),
    (
        "affinity",
        Map(&[
            ("nodeAffinity", Map(NODE_AFFINITY)),
            ("podAffinity", Map(POD_AFFINITY)),
            ("podAntiAffinity", Map(POD_AFFINITY)),
        ]),
    ),
    (
        "tolerations",
        List(&[("key", Any), ("operator", Any), ("value", Any), ("effect", Any), ("tolerationSeconds", Any)]),
    ),
    (
        "topologySpreadConstraints",
        List(&[
            ("maxSkew", Any),
            ("minDomains", Any),
            ("topologyKey", Any),
            ("whenUnsatisfiable", Any),
            ("labelSelector", Map(LABEL_SELECTOR)),
            ("matchLabelKeys", Any),
            ("nodeAffinityPolicy", Any),
            ("nodeTaintsPolicy", Any),
        ]),
    ),
    ("schedulerName", Any),
    ("schedulingGates", Any),
    ("schedulingGroup", Map(&[("podGroupName", Any)])),
    ("workloadRef", Any),
    ("priority", Any),
    ("priorityClassName", Any),
    ("preemptionPolicy", Any),
    ("overhead", Any),
    ("resources", Map(RESOURCES)),
    ("resourceClaims", Any),
    ("runtimeClassName", Any),
    ("restartPolicy", Any),
    ("activeDeadlineSeconds", Any),
    ("terminationGracePeriodSeconds", Any),
    ("volumes", Any),
    ("hostNetwork", Any),
    ("hostIPC", Any),
    ("hostPID", Any),
    ("hostUsers", Any),
    ("hostname", Any),
    ("hostnameOverride", Any),
    ("hostAliases", Any),
    ("subdomain", Any),
    ("setHostnameAsFQDN", Any),
    ("dnsPolicy", Any),
    ("dnsConfig", Any),
    ("enableServiceLinks", Any),
    ("imagePullSecrets", Any),
    ("os", Any),
    ("readinessGates", Any),
    ("securityContext", Any),
    ("serviceAccount", Any),
    ("serviceAccountName", Any),
    ("automountServiceAccountToken", Any),
    ("shareProcessNamespace", Any),
];

const TEMPLATE: Fields = &[("metadata", Map(METADATA)), ("spec", Map(POD_SPEC))];

const POD: Fields =
    &[("apiVersion", Any), ("kind", Any), ("metadata", Map(METADATA)), ("spec", Map(POD_SPEC)), ("status", Any)];

const NODE: Fields = &[
    ("apiVersion", Any),
    ("kind", Any),
    ("metadata", Map(METADATA)),
    (
        "spec",
        Map(&[
            ("taints", List(&[("key", Any), ("value", Any), ("effect", Any), ("timeAdded", Any)])),
            ("unschedulable", Any),
            ("providerID", Any),
            ("podCIDR", Any),
            ("podCIDRs", Any),
            ("configSource", Any),
            ("externalID", Any),
        ]),
    ),
    (
        "status",
        Map(&[
            ("allocatable", Any),
            ("capacity", Any),
            ("conditions", Any),
            ("addresses", Any),
            ("config", Any),
            ("daemonEndpoints", Any),
            ("declaredFeatures", Any),
            ("features", Any),
            ("images", Any),
            ("nodeInfo", Any),
            ("phase", Any),
            ("runtimeHandlers", Any),
            ("volumesAttached", Any),
            ("volumesInUse", Any),
        ]),
    ),
];

const WORKLOAD: Fields = &[
    ("apiVersion", Any),
    ("kind", Any),
    ("metadata", Map(METADATA)),
    (
        "spec",
        Map(&[
            ("replicas", Any),
            ("selector", Any),
            ("template", Map(TEMPLATE)),
            ("strategy", Any),
            ("updateStrategy", Any),
            ("minReadySeconds", Any),
            ("revisionHistoryLimit", Any),
            ("paused", Any),
            ("progressDeadlineSeconds", Any),
            ("serviceName", Any),
            ("podManagementPolicy", Any),
            ("volumeClaimTemplates", Any),
            ("persistentVolumeClaimRetentionPolicy", Any),
            ("ordinals", Any),
        ]),
    ),
    ("status", Any),
];

const JOB_SPEC: Fields = &[
    ("parallelism", Any),
    ("completions", Any),
    ("completionMode", Any),
    ("backoffLimit", Any),
    ("backoffLimitPerIndex", Any),
    ("maxFailedIndexes", Any),
    ("activeDeadlineSeconds", Any),
    ("ttlSecondsAfterFinished", Any),
    ("suspend", Any),
    ("selector", Any),
    ("manualSelector", Any),
    ("managedBy", Any),
    ("podFailurePolicy", Any),
    ("podReplacementPolicy", Any),
    ("successPolicy", Any),
    ("template", Map(TEMPLATE)),
];

const JOB: Fields =
    &[("apiVersion", Any), ("kind", Any), ("metadata", Map(METADATA)), ("spec", Map(JOB_SPEC)), ("status", Any)];

const CRON_JOB: Fields = &[
    ("apiVersion", Any),
    ("kind", Any),
    ("metadata", Map(METADATA)),
    (
        "spec",
        Map(&[
            ("schedule", Any),
            ("timeZone", Any),
            ("suspend", Any),
            ("concurrencyPolicy", Any),
            ("startingDeadlineSeconds", Any),
            ("successfulJobsHistoryLimit", Any),
            ("failedJobsHistoryLimit", Any),
            ("jobTemplate", Map(&[("metadata", Map(METADATA)), ("spec", Map(JOB_SPEC))])),
        ]),
    ),
    ("status", Any),
];

const BUDGET: Fields = &[
    ("apiVersion", Any),
    ("kind", Any),
    ("metadata", Map(METADATA)),
    (
        "spec",
        Map(&[
            ("minAvailable", Any),
            ("maxUnavailable", Any),
            ("selector", Map(LABEL_SELECTOR)),
            ("unhealthyPodEvictionPolicy", Any),
        ]),
    ),
    ("status", Any),
];

const PRIORITY_CLASS: Fields = &[
    ("apiVersion", Any),
    ("kind", Any),
    ("metadata", Map(METADATA)),
    ("value", Any),
    ("globalDefault", Any),
    ("preemptionPolicy", Any),
    ("description", Any),
];

/// What a group and a template of groups have in common, and their other fields.
const POD_GROUP_SPEC: Fields = &[
    ("name", Any),
    ("schedulingPolicy", Map(&[("basic", Any), ("gang", Map(&[("minCount", Any)]))])),
    ("disruptionMode", Map(&[("single", Any), ("all", Any)])),
    ("priority", Any),
    ("priorityClassName", Any),
    ("preemptionPolicy", Any),
    ("workloadRef", Map(&[("workloadName", Any), ("templateName", Any)])),
    ("schedulingConstraints", Any),
    ("resourceClaims", Any),
    ("parentCompositePodGroupName", Any),
];

const POD_GROUP: Fields =
    &[("apiVersion", Any), ("kind", Any), ("metadata", Map(METADATA)), ("spec", Map(POD_GROUP_SPEC)), ("status", Any)];

const POD_GROUP_WORKLOAD: Fields = &[
    ("apiVersion", Any),
    ("kind", Any),
    ("metadata", Map(METADATA)),
    ("spec", Map(&[("controllerRef", Any), ("podGroupTemplates", List(POD_GROUP_SPEC))])),
];

const LIMIT_RANGE: Fields = &[
    ("apiVersion", Any),
    ("kind", Any),
    ("metadata", Map(METADATA)),
    (
        "spec",
        Map(&[(
            "limits",
            List(&[
                ("type", Any),
                ("default", Any),
                ("defaultRequest", Any),
                ("min", Any),
                ("max", Any),
                ("maxLimitRequestRatio", Any),
            ]),
        )]),
    ),
];

const RESOURCE_QUOTA: Fields = &[
    ("apiVersion", Any),
    ("kind", Any),
    ("metadata", Map(METADATA)),
    ("spec", Map(&[("hard", Any), ("scopes", Any), ("scopeSelector", Any)])),
    ("status", Any),
];
