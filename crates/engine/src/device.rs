//! Devices and claims on them, as the engine is told about them (`resource.k8s.io`).
//!
//! Whoever makes these facts has read the slices, put pools together, and evaluated every selector: the engine sees
//! pools with their devices in order, and for each *matcher* (the selectors of a class and a request) one verdict a
//! device. Capacities and counters are whole numbers of billionths, the finest step of a Kubernetes quantity.

use std::sync::Arc;

use crate::fact::{Name, NodeTerm};
use crate::quantity::Format;

/// The most devices in one claim's allocation.
pub const RESULTS_MAX: usize = 32;

/// A pool of devices: the driver, and its name for the pool.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct PoolKey {
    pub driver: Name,
    pub pool: Name,
}

/// One device: its pool, and its name in the pool.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DeviceKey {
    pub pool: PoolKey,
    pub device: Name,
}

/// A claim, by namespace and name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct ClaimKey {
    pub namespace: Name,
    pub name: Name,
}

impl std::fmt::Display for ClaimKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// The nodes from which a device can be used.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Reach {
    Node(Name),
    Nodes(NodeTerm),
    All,
}

/// Whether devices of a pool may be allocated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum PoolState {
    #[default]
    Ready,
    /// Slices of the newest generation are missing.
    Incomplete,
    /// A device or a counter set is listed twice, or a counter is used that is not listed.
    Invalid,
}

/// The newest generation of a pool.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PoolFact {
    pub key: PoolKey,
    pub state: PoolState,
    /// In the order in which they are tried: slices by name, devices as listed.
    pub devices: Vec<DeviceFact>,
    /// Counter sets by name, each with its counters by name.
    pub counters: Vec<(Name, Vec<(Name, i128)>)>,
    /// The nodes that its slices are for, where the pool is not [`PoolState::Ready`].
    pub slices: Vec<Reach>,
}

/// What an attribute says. The type counts: the number 0 is not the text "0".
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Attribute {
    Int(i64),
    Bool(bool),
    Text(Name),
    Version(Name),
}

/// A taint that keeps claims away. Taints without such an effect are left out.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct DeviceTaint {
    pub key: Name,
    pub value: Name,
    pub effect: DeviceEffect,
}

/// What a device's taint does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DeviceEffect {
    NoSchedule,
    NoExecute,
}

/// A taint that a request puts up with. Without a key every taint, without an effect every effect.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct DeviceToleration {
    pub key: Option<Name>,
    /// `Equal` to this value; `None` is `Exists`.
    pub value: Option<Name>,
    /// `None`: every effect. `Some(None)`: an effect that no taint here has.
    pub effect: Option<Option<DeviceEffect>>,
}

impl DeviceToleration {
    /// Whether the request puts up with the taint.
    pub fn tolerates(&self, taint: &DeviceTaint) -> bool {
        self.key.as_ref().is_none_or(|key| *key == taint.key)
            && self.value.as_ref().is_none_or(|value| *value == taint.value)
            && self.effect.is_none_or(|effect| effect == Some(taint.effect))
    }
}

/// How much of a capacity is consumed where a request does not say, or says an odd amount.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct CapacityPolicy {
    pub default: Option<i128>,
    pub valid: ValidAmounts,
}

/// The amounts of a capacity that can be had.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub enum ValidAmounts {
    #[default]
    Any,
    Range {
        min: i128,
        max: Option<i128>,
        step: Option<i128>,
    },
    /// Ascending.
    Values(Vec<i128>),
}

/// A capacity of a device.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct DeviceCapacity {
    /// With its domain.
    pub name: Name,
    /// As the driver wrote it.
    pub written: Name,
    pub value: i128,
    pub format: Format,
    pub policy: CapacityPolicy,
}

impl DeviceCapacity {
    /// What a request for `asked` (or for nothing in particular) consumes; `None` where it cannot be had at all.
    pub fn consumed(&self, asked: Option<i128>) -> Option<i128> {
        let Some(asked) = asked else { return Some(self.policy.default.unwrap_or(self.value)) };
        match &self.policy.valid {
            ValidAmounts::Any => Some(asked),
            ValidAmounts::Values(values) => values.iter().copied().find(|value| *value >= asked),
            ValidAmounts::Range { min, max, step } => {
                let mut amount = asked.max(*min);
                if let Some(step) = step.filter(|step| *step > 0) {
                    let over = (amount - min) % step;
                    amount += if over == 0 { 0 } else { step - over };
                }
                max.is_none_or(|max| amount <= max).then_some(amount)
            }
        }
    }
}

/// What a device draws: of which counter set, which counter, how much; by their places in [`PoolFact::counters`].
pub type Draw = (usize, usize, i128);

/// A device of a pool.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct DeviceFact {
    pub name: Name,
    pub reach: Reach,
    /// By name with domain, in order.
    pub attributes: Vec<(Name, Attribute)>,
    pub taints: Vec<DeviceTaint>,
    /// What it draws from the pool's counters: (set, counter, amount), by their places in [`PoolFact::counters`].
    pub draws: Vec<Draw>,
    pub capacity: Vec<DeviceCapacity>,
    /// Several claims may have a share each.
    pub shared: bool,
    /// A claim that has it is bound to its node, though other nodes reach the device.
    pub binds_to_node: bool,
    /// The driver has to say that it is ready before a pod may be bound: such pools come last.
    pub binds_late: bool,
    /// The card that it counts as in quotas, such as `NVIDIA-A100-80GB`.
    pub card: Option<Name>,
    /// Its memory in gigabytes, where it is a GPU and says how much it has.
    pub gigabytes: Option<i64>,
}

/// Whether the selectors of a matcher take a device.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Verdict {
    Yes,
    No,
    /// They cannot be evaluated; why.
    Error(Name),
}

/// What a matcher says about the devices of a pool, in the pool's order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerdictsFact {
    pub matcher: Name,
    pub pool: PoolKey,
    pub verdicts: Arc<[Verdict]>,
}

/// A DeviceClass.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DeviceClassFact {
    pub name: Name,
    pub created: crate::fact::Created,
    /// `spec.extendedResourceName`.
    pub extended: Option<Name>,
    /// Its devices count as GPUs where pods without GPUs are capped.
    pub gpu: bool,
}

/// How many devices a request is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Count {
    Exactly(u64),
    All,
}

/// One way to meet a request.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Alternative {
    /// `request`, or `request/alternative`.
    pub name: Name,
    pub class: Name,
    /// What its devices must match: the selectors of its class, then its own.
    pub matcher: Name,
    pub count: Count,
    /// It looks at devices that others use, takes nothing away and costs nothing.
    pub admin: bool,
    pub tolerations: Vec<DeviceToleration>,
    /// What it needs of capacities, by name as written.
    pub capacity: Vec<(Name, i128)>,
}

/// A request of a claim.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct DeviceRequest {
    pub name: Name,
    /// The preferred first.
    pub alternatives: Vec<Alternative>,
    /// It has a list of alternatives (`firstAvailable`), if only of one.
    pub listed: bool,
}

/// What an attribute must be among devices of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Sameness {
    /// The same for all.
    Match,
    /// Another for each.
    Distinct,
}

/// A rule on the devices of a claim together.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Constraint {
    /// The attribute, with its domain.
    pub attribute: Name,
    pub sameness: Sameness,
    /// The requests it is about, as `request` or `request/alternative`. Empty: all.
    pub requests: Vec<Name>,
}

impl Constraint {
    /// Whether it is about devices of this alternative of this request.
    pub fn concerns(&self, request: &Name, alternative: &Name) -> bool {
        self.requests.is_empty() || self.requests.iter().any(|name| name == request || name == alternative)
    }
}

/// What a claim asks for. Claims of one template have equal ones.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct ClaimSpec {
    pub requests: Vec<DeviceRequest>,
    pub constraints: Vec<Constraint>,
}

/// A device that a claim has, or a share of it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct DeviceResult {
    /// `request`, or `request/alternative`.
    pub request: Name,
    pub device: DeviceKey,
    pub admin: bool,
    /// It is a share: it takes what it consumes, not the device.
    pub share: bool,
    /// What a share consumes, by capacity as the driver wrote it.
    pub consumed: Vec<(Name, i128)>,
}

/// The devices of a claim, and the nodes from which they can be used (`None`: from any).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Allocation {
    pub results: Vec<DeviceResult>,
    pub nodes: Option<Vec<NodeTerm>>,
}

impl Allocation {
    /// Whether no other may have some of its devices, or as much of them.
    pub(crate) fn takes_devices(&self) -> bool {
        self.results.iter().any(|result| !result.admin)
    }
}

/// A ResourceClaim.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DeviceClaimFact {
    pub key: ClaimKey,
    pub uid: Name,
    pub spec: Arc<ClaimSpec>,
    pub allocation: Option<Arc<Allocation>>,
    /// The uids of the pods that may use it, in order.
    pub reserved_for: Vec<Name>,
    /// The uid of the pod that it was made for.
    pub owner: Option<Name>,
    /// It was made for extended resources, which are charged by their names already.
    pub extended: bool,
    /// Its deletion was asked for.
    pub leaving: bool,
    /// Why it cannot be read, if so.
    pub problem: Option<Name>,
}

/// What a pod needs of a claim, as far as it decides where the pod can go.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Need {
    /// Devices must be found. Which claim it is counts only where pods share it.
    Open { spec: Arc<ClaimSpec>, shared: Option<ClaimKey> },
    /// It has devices, which these nodes reach (`None`: all).
    Met { claim: ClaimKey, spec: Arc<ClaimSpec>, nodes: Option<Vec<NodeTerm>> },
}

impl Need {
    /// What devices must be found for.
    pub(crate) fn open(&self) -> Option<&Arc<ClaimSpec>> {
        match self {
            Need::Open { spec, .. } => Some(spec),
            Need::Met { .. } => None,
        }
    }

    /// What the claim asks for, met or not.
    pub(crate) fn spec(&self) -> &Arc<ClaimSpec> {
        match self {
            Need::Open { spec, .. } | Need::Met { spec, .. } => spec,
        }
    }
}

/// A claim of a pod.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum PodClaim {
    /// By name.
    Named(Name),
    /// Made by a scheduler for the pod's extended resources when it was bound.
    Extended(Name),
    /// Made for the pod from a template; its name, once it was made.
    Made { template: Name, claim: Option<Name> },
}

/// An extended resource that a container asks for; a class may serve it with devices.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ExtendedRequest {
    /// The place of the container, init containers first, and of the resource among those of the container.
    pub container: u32,
    pub request: u32,
    /// It is a plain init container: later containers use its devices.
    pub init: bool,
    pub resource: Name,
    pub amount: i64,
}
