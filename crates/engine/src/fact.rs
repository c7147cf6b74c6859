//! What the engine is told: nodes, pods and the other objects of a cluster, as plain data.
//!
//! A fact is the whole of what the engine needs to know about one object. Seeing an object again
//! replaces what was known of it; telling the same fact twice changes nothing. Facts carry exact
//! integers (cpu in millicores, everything else in base units) and resolved values: defaults,
//! priority classes and notation are the business of whoever makes the facts.

mod group;
mod names;
mod pod_spec;
mod storage;

use std::sync::Arc;

use crate::decision::Capacity;
use crate::device::{ClaimKey, DeviceClaimFact, DeviceClassFact, PodClaim, PoolFact, PoolKey, VerdictsFact};
pub use crate::fact::group::{Counting, GroupFact, GroupKey, GroupName, GroupTerms};
pub use crate::fact::names::{Amounts, Labels, Limits};
pub use crate::fact::pod_spec::PodSpec;
pub use crate::fact::storage::{ClaimFact, StorageClassFact, VolumeFact};
pub use crate::policy::quota_facts::*;

/// A name, a label key, a label value: text that is compared and shown, and never parsed here.
pub type Name = Arc<str>;

/// Milliseconds since an epoch that the caller chooses. The engine never reads a clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Tick(pub u64);

/// Microseconds since the Unix epoch, as object metadata has it. Only ever compared and shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Created(pub i64);

/// An amount of a resource: millicores for `cpu`, base units (bytes, counts) for all else.
pub type Amount = i64;

/// `cpu`, the one resource that is counted in thousandths.
pub const CPU: &str = "cpu";
/// `memory`, in bytes.
pub const MEMORY: &str = "memory";
/// `pods`: a node's capacity for pods. A pod uses one of it without asking.
pub const PODS: &str = "pods";

/// Which pod: namespaces and names are unique at a time, the uid over time.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PodKey {
    pub namespace: Name,
    pub name: Name,
}

impl std::fmt::Display for PodKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// How a requirement compares a label with its values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Operator {
    In,
    NotIn,
    Exists,
    DoesNotExist,
    /// The label is an integer greater than the one value. Node selectors only.
    Gt,
    /// The label is an integer less than the one value. Node selectors only.
    Lt,
}

/// One condition on labels.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Requirement {
    pub key: Name,
    pub operator: Operator,
    pub values: Vec<Name>,
}

/// Conditions that must all hold. Without any it selects everything.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Selector {
    pub requirements: Vec<Requirement>,
}

/// A term of a node selector: all conditions on labels and on fields must hold. A term without any
/// selects nothing.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct NodeTerm {
    pub labels: Vec<Requirement>,
    /// On `metadata.name` only.
    pub fields: Vec<Requirement>,
}

/// What a taint does to pods that do not tolerate it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Effect {
    NoSchedule,
    PreferNoSchedule,
    NoExecute,
}

/// A mark on a node that keeps pods away.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Taint {
    pub key: Name,
    pub value: Name,
    pub effect: Effect,
}

/// How a toleration compares a taint's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TolerationOperator {
    Equal,
    Exists,
    /// The taint's value is an integer less than the toleration's.
    Lt,
    /// The taint's value is an integer greater than the toleration's.
    Gt,
}

/// What a pod puts up with. No key (with `Exists`) means every taint, no effect every effect.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Toleration {
    pub key: Option<Name>,
    pub operator: TolerationOperator,
    pub value: Name,
    pub effect: Option<Effect>,
}

/// A node that takes pods, or does not.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NodeFact {
    pub name: Name,
    pub labels: Labels,
    pub taints: Vec<Taint>,
    /// `spec.unschedulable`.
    pub unschedulable: bool,
    /// What pods may use, `pods` included.
    pub allocatable: Amounts,
    /// Images present: every name one is known by, and its size in bytes.
    pub images: Vec<(Vec<Name>, u64)>,
    /// What pods that are subject to a cap ([`PodSpec::capped`]) may hold here together, by resource that is capped;
    /// for a resource without a limit its allocatable. `None` on nodes without GPUs, which have no cap.
    pub cap: Option<Limits>,
    /// The same for a node without GPUs among its resources: it has this cap while it has devices of its own of a class
    /// that is one of GPUs.
    pub cap_with_devices: Option<Limits>,
    /// The kinds of card that it has.
    pub cards: Vec<NodeCard>,
    /// The features that it declares, each once and in order.
    pub features: Vec<Name>,
}

/// A kind of accelerator card that a node has. There are as many as its resource is allocatable.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct NodeCard {
    /// The name that quotas count it by, such as `NVIDIA-A100-80GB` or `NVIDIA-A100-80GB/mps-80g*1/8`.
    pub name: Name,
    /// The resource by which pods ask for it, such as `nvidia.com/gpu`.
    pub resource: Name,
}

/// How many volumes of each driver may be attached to a node (its `CSINode`).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AttachLimits {
    pub node: Name,
    pub limits: Vec<(Name, u32)>,
}

/// Which pods a term of inter-pod affinity speaks of, and how near they are.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PodTerm {
    pub topology_key: Name,
    /// `None` selects no pod.
    pub selector: Option<Selector>,
    /// Namespaces by name. The pod's own namespace is in here where the term names none and has
    /// no namespace selector.
    pub namespaces: Vec<Name>,
    /// Namespaces by their labels, in addition.
    pub namespace_selector: Option<Selector>,
}

/// What happens where a spread constraint cannot be met.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WhenUnsatisfiable {
    DoNotSchedule,
    ScheduleAnyway,
}

/// A rule that keeps pods of one kind evenly spread. Selects pods of the pod's own namespace.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SpreadConstraint {
    pub topology_key: Name,
    pub max_skew: u32,
    pub when: WhenUnsatisfiable,
    /// `None` selects no pod. `matchLabelKeys` are already in here.
    pub selector: Option<Selector>,
    pub min_domains: Option<u32>,
    /// `nodeAffinityPolicy: Honor`: nodes that the pod's selector and affinity exclude do not count.
    pub honor_affinity: bool,
    /// `nodeTaintsPolicy: Honor`: nodes with taints the pod does not tolerate do not count.
    pub honor_taints: bool,
}

/// A port of the node that a container takes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct HostPort {
    /// `0.0.0.0` stands for every address.
    pub ip: Name,
    pub protocol: Name,
    pub port: u16,
}

/// A volume of a pod that bears on where it can run.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PodVolume {
    /// A PersistentVolumeClaim of the pod's namespace, by name.
    Claim(Name),
    /// An inline volume of a CSI driver, which counts against the driver's attach limit.
    Inline { driver: Name },
    /// A disk that may be mounted by one pod at a time on a node (the in-tree kinds), by an
    /// identity of its own; `read_only` users share it.
    Disk { id: Name, read_only: bool },
}

/// How a pod without GPUs is placed among GPU nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum CapStrategy {
    /// Where most of the cap is used already.
    #[default]
    MostAllocated,
    /// Where least of the cap is used.
    LeastAllocated,
}

/// Where a pod is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Phase {
    #[default]
    Pending,
    Running,
    Succeeded,
    Failed,
}

impl Phase {
    /// Whether the pod has ended, and holds nothing any more.
    pub fn is_over(self) -> bool {
        matches!(self, Phase::Succeeded | Phase::Failed)
    }
}

/// Whether a pod may be evicted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum EvictionClass {
    #[default]
    Preemptible,
    /// It is never evicted for another, within what its quota is entitled to.
    Protected,
    /// The same, and it counts against the min of its quota in a tree.
    NonPreemptible,
}

/// A pod, as the API server has it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PodFact {
    pub namespace: Name,
    pub name: Name,
    pub uid: Name,
    pub created: Created,
    pub labels: Labels,
    pub spec: Arc<PodSpec>,
    pub priority: i32,
    /// `preemptionPolicy: Never`.
    pub never_preempts: bool,
    pub phase: Phase,
    /// `spec.nodeName`.
    pub node: Option<Name>,
    /// `status.nominatedNodeName`.
    pub nominated: Option<Name>,
    /// The claimant for which this pod was chosen as a victim, as its `DisruptionTarget` condition
    /// says. Lets a scheduler that starts anew know whose room this will be.
    pub victim_of: Option<PodKey>,
    /// How it is marked as within its quotas or over them, by API group, in order.
    pub marks: Vec<(Name, Capacity)>,
    /// Since when it is on its way out (its deletion was asked for).
    pub leaving_since: Option<Created>,
    /// Names of the scheduling gates that are set.
    pub gates: Vec<Name>,
    /// Whether this engine is the one that schedules it. Other pods only take room.
    pub ours: bool,
    /// The controller that made it, as `Kind/name`.
    pub owner: Option<Name>,
    /// The quota of a quota tree that it names.
    pub tree_quota: Option<Name>,
    /// Whether it says that it must not be evicted.
    pub eviction_class: EvictionClass,
    /// The queue that it names. Its group's queue goes before, its namespace's comes after.
    pub queue: Option<Name>,
    /// The group of its namespace that it starts with.
    pub group: Option<GroupName>,
    /// What it says itself of that group.
    pub group_terms: Option<Arc<GroupTerms>>,
    /// Which task of its group it belongs to.
    pub task: Option<Name>,
    /// Its claims on devices, in order.
    pub device_claims: Vec<PodClaim>,
    /// Why its request cannot be read, if so: it waits with `InvalidRequest`.
    pub problem: Option<RequestProblem>,
}

impl PodFact {
    /// Its name within the cluster.
    pub fn key(&self) -> PodKey {
        PodKey { namespace: self.namespace.clone(), name: self.name.clone() }
    }
}

/// A field of a pod that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RequestProblem {
    pub field: Name,
    pub message: Name,
}

/// A disruption budget with what its status allows now.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BudgetFact {
    pub namespace: Name,
    pub name: Name,
    /// `None` selects no pod.
    pub selector: Option<Selector>,
    /// `status.disruptionsAllowed`.
    pub allowed: u32,
}

/// A set of pods that the cluster's own objects name: a Service, ReplicaSet or StatefulSet. Pods
/// without spread constraints are spread, softly, over zones and nodes by what selects them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SelectorFact {
    /// `Kind/name`, as [`PodFact::owner`] has it.
    pub object: Name,
    pub namespace: Name,
    pub selector: Selector,
}

/// Which quota object.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct QuotaKey {
    pub kind: Name,
    pub group: Name,
    /// Empty for kinds without a namespace.
    pub namespace: Name,
    pub name: Name,
}

impl QuotaKey {
    /// With its group: unambiguous where two groups have a kind of one name.
    pub fn qualified(&self) -> String {
        let kind = Name::from(format!("{}.{}", self.kind, self.group));
        QuotaKey { kind, ..self.clone() }.to_string()
    }
}

impl std::fmt::Display for QuotaKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let QuotaKey { kind, namespace, name, .. } = self;
        if namespace.is_empty() { write!(f, "{kind}/{name}") } else { write!(f, "{kind}/{namespace}/{name}") }
    }
}

/// One thing the engine is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fact {
    Node(NodeFact),
    NodeGone(Name),
    AttachLimits(AttachLimits),
    AttachLimitsGone(Name),
    Pod(PodFact),
    PodGone(PodKey),
    /// A namespace with its labels.
    Namespace(Name, Labels),
    NamespaceGone(Name),
    Budget(BudgetFact),
    BudgetGone {
        namespace: Name,
        name: Name,
    },
    Volume(VolumeFact),
    VolumeGone(Name),
    Claim(ClaimFact),
    ClaimGone {
        namespace: Name,
        name: Name,
    },
    StorageClass(StorageClassFact),
    StorageClassGone(Name),
    DevicePool(PoolFact),
    DevicePoolGone(PoolKey),
    DeviceVerdicts(VerdictsFact),
    /// No claim asks for what this matcher stands for any more.
    DeviceMatcherGone(Name),
    DeviceClass(DeviceClassFact),
    DeviceClassGone(Name),
    DeviceClaim(DeviceClaimFact),
    DeviceClaimGone(ClaimKey),
    Selector(SelectorFact),
    SelectorGone {
        namespace: Name,
        object: Name,
    },
    Quota(QuotaFact),
    /// A quota of any kind is gone.
    QuotaGone(QuotaKey),
    Group(GroupFact),
    GroupGone(GroupKey),
    /// So many pods of a group have succeeded: they count as there.
    GroupSucceeded(GroupKey, u32),
    /// Whether there can be groups of an API group at all. Where there cannot, pods that name one are pods like others.
    GroupsServed {
        api_group: Name,
        served: bool,
    },
    /// The queue of pods of a namespace that name none.
    QueueOfNamespace {
        namespace: Name,
        queue: Option<Name>,
    },
    /// A bind that was decided did not happen; the pod waits again.
    BindFailed {
        pod: PodKey,
        uid: Name,
    },
    /// An eviction that was decided did not happen (refused, or the pod changed meanwhile).
    EvictFailed {
        pod: PodKey,
        uid: Name,
    },
}

impl<Q: Into<QuotaFact>> From<Q> for Fact {
    fn from(quota: Q) -> Self {
        Fact::Quota(quota.into())
    }
}
