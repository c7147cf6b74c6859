//! Volumes, volume claims and storage classes.

use crate::fact::{Amount, Labels, Name, NodeTerm, PodKey, Selector};

/// A PersistentVolume.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct VolumeFact {
    pub name: Name,
    pub labels: Labels,
    pub class: Name,
    pub capacity: Amount,
    pub access_modes: Vec<Name>,
    pub volume_mode: Name,
    /// `spec.nodeAffinity.required`: one of these must match. `None`: any node.
    pub nodes: Option<Vec<NodeTerm>>,
    /// The claim it is bound to or held for.
    pub claim: Option<PodKey>,
    /// Whether a claim that fits may take it (phase Available).
    pub available: bool,
    /// The CSI driver, for attach limits.
    pub driver: Option<Name>,
    /// What tells this volume apart for the driver; two claims of one handle attach once.
    pub handle: Name,
}

/// A PersistentVolumeClaim.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClaimFact {
    pub namespace: Name,
    pub name: Name,
    pub class: Name,
    pub request: Amount,
    pub access_modes: Vec<Name>,
    pub volume_mode: Name,
    /// `None` selects every volume.
    pub selector: Option<Selector>,
    /// `spec.volumeName`.
    pub volume: Option<Name>,
    /// Whether its binding to `volume` is complete.
    pub bound: bool,
    /// The node for which a volume is being made (annotation `selected-node`).
    pub selected_node: Option<Name>,
}

/// A StorageClass.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StorageClassFact {
    pub name: Name,
    /// `volumeBindingMode: WaitForFirstConsumer`.
    pub waits_for_consumer: bool,
    /// Whether volumes can be made on demand (the provisioner is not `kubernetes.io/no-provisioner`).
    pub provisions: bool,
    pub provisioner: Name,
    /// `allowedTopologies`: one of these must match the node. Empty: any node.
    pub topologies: Vec<NodeTerm>,
}
