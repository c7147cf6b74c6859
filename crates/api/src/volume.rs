//! Volumes, the claims on them, and the classes that make them.

use quotient_engine::fact::{
    Amount, ClaimFact, Name, NodeTerm, Operator, PodKey, Requirement, StorageClassFact, VolumeFact,
};

use crate::cursor::Cursor;
use crate::intern::Interner;
use crate::object::ObjectKey;
use crate::selector::{label_selector, labels, names, node_terms};

/// The annotation that named a storage class before there was a field for it. It still counts.
pub(crate) const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";

/// In-tree volumes that a CSI driver has taken over: field, the field of the handle, driver.
const MIGRATED: [(&str, &str, &str); 5] = [
    ("gcePersistentDisk", "pdName", "pd.csi.storage.gke.io"),
    ("awsElasticBlockStore", "volumeID", "ebs.csi.aws.com"),
    ("azureDisk", "diskURI", "disk.csi.azure.com"),
    ("cinder", "volumeID", "cinder.csi.openstack.org"),
    ("vsphereVolume", "volumePath", "csi.vsphere.vmware.com"),
];

/// What there is to tell about a PersistentVolume.
pub(crate) fn volume(root: &Cursor<'_, '_>, name: &Name, interner: &mut Interner) -> VolumeFact {
    let (metadata, spec, status) = (root.field("metadata"), root.field("spec"), root.field("status"));
    let node_affinity = spec.field("nodeAffinity");
    let required = node_affinity.field("required");
    let claim = claim_of(&spec.field("claimRef"));
    let available = match status.field("phase").non_empty_str() {
        Some(phase) => phase == "Available",
        None => claim.is_none(),
    };
    let (driver, handle) = match driver_and_handle(&spec) {
        Some((driver, handle)) => (Some(interner.name(driver)), interner.name(handle)),
        None => (None, name.clone()),
    };
    VolumeFact {
        name: name.clone(),
        labels: labels(&metadata.field("labels"), interner),
        class: class(&metadata, &spec, interner),
        capacity: storage(&spec.field("capacity")),
        access_modes: names(&spec.field("accessModes"), interner),
        volume_mode: volume_mode(&spec, interner),
        nodes: required.exists().then(|| node_terms(&required.field("nodeSelectorTerms"), interner)),
        claim,
        available,
        driver,
        handle,
    }
}

fn claim_of(at: &Cursor<'_, '_>) -> Option<PodKey> {
    let (namespace, name) = (at.field("namespace").non_empty_str()?, at.field("name").non_empty_str()?);
    Some(PodKey { namespace: namespace.into(), name: name.into() })
}

fn driver_and_handle<'v>(spec: &Cursor<'v, '_>) -> Option<(&'v str, &'v str)> {
    let csi = spec.field("csi");
    if let (Some(driver), Some(handle)) =
        (csi.field("driver").non_empty_str(), csi.field("volumeHandle").non_empty_str())
    {
        return Some((driver, handle));
    }
    MIGRATED.iter().find_map(|(kind, handle, driver)| Some((*driver, spec.field(kind).field(handle).non_empty_str()?)))
}

/// What there is to tell about a PersistentVolumeClaim.
pub(crate) fn claim(root: &Cursor<'_, '_>, key: &ObjectKey, interner: &mut Interner) -> ClaimFact {
    let (metadata, spec, status) = (root.field("metadata"), root.field("spec"), root.field("status"));
    let annotations = metadata.field("annotations");
    let volume = spec.field("volumeName").non_empty_str().map(|name| interner.name(name));
    let completed = annotations.field("pv.kubernetes.io/bind-completed").exists();
    let selector = spec.field("selector");
    ClaimFact {
        namespace: interner.name(key.namespace.as_deref().unwrap_or_default()),
        name: interner.name(&key.name),
        class: class(&metadata, &spec, interner),
        request: storage(&spec.field("resources").field("requests")),
        access_modes: names(&spec.field("accessModes"), interner),
        volume_mode: volume_mode(&spec, interner),
        selector: label_selector(&selector, interner).or_else(|| selector.exists().then(unsatisfiable)),
        bound: volume.is_some() && (completed || status.field("phase").str() == Some("Bound")),
        volume,
        selected_node: annotations.field("volume.kubernetes.io/selected-node").non_empty_str().map(Name::from),
    }
}

/// A selector that selects no volume, for one that is there and cannot be read: no selector at all
/// would select every volume.
fn unsatisfiable() -> quotient_engine::fact::Selector {
    let condition = |operator| Requirement { key: "unreadable".into(), operator, values: Vec::new() };
    quotient_engine::fact::Selector {
        requirements: vec![condition(Operator::Exists), condition(Operator::DoesNotExist)],
    }
}

/// What there is to tell about a StorageClass.
pub(crate) fn storage_class(root: &Cursor<'_, '_>, name: &Name, interner: &mut Interner) -> StorageClassFact {
    let provisioner = root.field("provisioner").str().unwrap_or_default();
    let mode = root.field("volumeBindingMode");
    let waits_for_consumer = match mode.non_empty_str() {
        None | Some("Immediate") => false,
        Some("WaitForFirstConsumer") => true,
        Some(_) => {
            mode.note("expected Immediate or WaitForFirstConsumer");
            false
        }
    };
    StorageClassFact {
        name: interner.name(name),
        waits_for_consumer,
        provisions: !provisioner.is_empty() && provisioner != "kubernetes.io/no-provisioner",
        provisioner: interner.name(provisioner),
        topologies: root.field("allowedTopologies").items().map(|term| topology(&term, interner)).collect(),
    }
}

fn topology(term: &Cursor<'_, '_>, interner: &mut Interner) -> NodeTerm {
    let expressions = term.field("matchLabelExpressions");
    let labels = expressions.items().filter_map(|expression| {
        let key = interner.name(expression.field("key").non_empty_str()?);
        Some(Requirement { key, operator: Operator::In, values: names(&expression.field("values"), interner) })
    });
    NodeTerm { labels: labels.collect(), fields: Vec::new() }
}

fn class(metadata: &Cursor<'_, '_>, spec: &Cursor<'_, '_>, interner: &mut Interner) -> Name {
    let annotations = metadata.field("annotations");
    let annotated = annotations.field(CLASS_ANNOTATION).str();
    interner.name(annotated.or(spec.field("storageClassName").str()).unwrap_or_default())
}

fn volume_mode(spec: &Cursor<'_, '_>, interner: &mut Interner) -> Name {
    interner.name(spec.field("volumeMode").non_empty_str().unwrap_or("Filesystem"))
}

/// The amount of `storage` in a map of quantities.
fn storage(at: &Cursor<'_, '_>) -> Amount {
    at.field("storage").amount("storage").unwrap_or(0)
}
