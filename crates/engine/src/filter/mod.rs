//! The filters: each closes a node to a pod, or does not. One file a rule.

pub(crate) mod cards;
pub(crate) mod declared_features;
pub(crate) mod node_affinity;
pub(crate) mod node_cap;
pub(crate) mod pod_affinity;
pub(crate) mod ports;
pub(crate) mod resources_fit;
pub(crate) mod spread;
pub(crate) mod taints;
pub(crate) mod unschedulable;
pub(crate) mod volume_binding;
pub(crate) mod volume_limits;
pub(crate) mod volume_restrictions;
pub(crate) mod volume_zone;

/// The filters in the order in which they are asked. A node is counted under the first that closes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Filter {
    NodeUnschedulable,
    TaintToleration,
    NodeAffinity,
    NodeDeclaredFeatures,
    Cards,
    NodePorts,
    NodeResourcesFit,
    NodeCap,
    VolumeRestrictions,
    NodeVolumeLimits,
    VolumeBinding,
    VolumeZone,
    PodTopologySpread,
    InterPodAffinity,
    Devices,
}

impl Filter {
    /// How many there are.
    pub const COUNT: usize = 15;

    /// All of them, in order.
    pub const ALL: [Filter; Filter::COUNT] = [
        Filter::NodeUnschedulable,
        Filter::TaintToleration,
        Filter::NodeAffinity,
        Filter::NodeDeclaredFeatures,
        Filter::Cards,
        Filter::NodePorts,
        Filter::NodeResourcesFit,
        Filter::NodeCap,
        Filter::VolumeRestrictions,
        Filter::NodeVolumeLimits,
        Filter::VolumeBinding,
        Filter::VolumeZone,
        Filter::PodTopologySpread,
        Filter::InterPodAffinity,
        Filter::Devices,
    ];

    /// The filter's name, as Kubernetes users know it.
    pub fn name(self) -> &'static str {
        match self {
            Filter::NodeUnschedulable => "NodeUnschedulable",
            Filter::TaintToleration => "TaintToleration",
            Filter::NodeAffinity => "NodeAffinity",
            Filter::NodeDeclaredFeatures => "NodeDeclaredFeatures",
            Filter::Cards => "Cards",
            Filter::NodePorts => "NodePorts",
            Filter::NodeResourcesFit => "NodeResourcesFit",
            Filter::NodeCap => "NodeCap",
            Filter::VolumeRestrictions => "VolumeRestrictions",
            Filter::NodeVolumeLimits => "NodeVolumeLimits",
            Filter::VolumeBinding => "VolumeBinding",
            Filter::VolumeZone => "VolumeZone",
            Filter::PodTopologySpread => "PodTopologySpread",
            Filter::InterPodAffinity => "InterPodAffinity",
            Filter::Devices => "DynamicResources",
        }
    }

    /// What the filter says of the nodes it closes, to follow their number.
    pub fn sentence(self) -> &'static str {
        match self {
            Filter::NodeUnschedulable => "cordoned",
            Filter::TaintToleration => "with an untolerated taint",
            Filter::NodeAffinity => "not matching the node selector or affinity",
            Filter::NodeDeclaredFeatures => "without a feature that the pod needs",
            Filter::Cards => "without an accepted card",
            Filter::NodePorts => "with the host port in use",
            Filter::NodeResourcesFit => "with insufficient resources",
            Filter::NodeCap => "with a full node cap",
            Filter::VolumeRestrictions => "with the volume in use by another pod",
            Filter::NodeVolumeLimits => "at their volume limit",
            Filter::VolumeBinding => "where the volumes cannot be bound",
            Filter::VolumeZone => "in another zone than the volume",
            Filter::PodTopologySpread => "violating topology spread",
            Filter::InterPodAffinity => "not matching pod affinity or anti-affinity",
            Filter::Devices => "without free devices for the claims",
        }
    }

    /// Whether evicting pods can open what the filter closed.
    pub(crate) fn opens_by_eviction(self) -> bool {
        !matches!(
            self,
            Filter::NodeUnschedulable
                | Filter::TaintToleration
                | Filter::NodeAffinity
                | Filter::NodeDeclaredFeatures
                | Filter::Cards
                | Filter::VolumeBinding
                | Filter::VolumeZone
        )
    }
}
