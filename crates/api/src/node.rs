//! Nodes, and how many volumes they can attach.

use quotient_engine::fact::{Amounts, AttachLimits, Name, NodeFact, Taint};

use crate::crossquota::caps::Caps;
use crate::cursor::Cursor;
use crate::intern::Interner;
use crate::pod::affinity::effect;
use crate::selector::{labels, names};
use crate::volcano::discovery;

/// What there is to tell about a node. What cannot be read is left out, and the rest counts.
pub(crate) fn node(root: &Cursor<'_, '_>, name: &Name, interner: &mut Interner, caps: &mut Caps) -> NodeFact {
    let (metadata, spec, status) = (root.field("metadata"), root.field("spec"), root.field("status"));
    let allocatable = status.field("allocatable");
    let capacity = status.field("capacity");
    let allocatable = amounts(if allocatable.exists() { &allocatable } else { &capacity }, interner);
    let cap = caps.of_node(&allocatable, &metadata.field("annotations"));
    let (cap, cap_with_devices) = match cap {
        Some((limits, true)) => (Some(limits), None),
        Some((limits, false)) => (None, Some(limits)),
        None => (None, None),
    };
    NodeFact {
        cards: discovery::cards(&metadata.field("labels"), &allocatable, interner),
        name: interner.name(name),
        labels: labels(&metadata.field("labels"), interner),
        taints: spec.field("taints").items().filter_map(|at| taint(&at, interner)).collect(),
        unschedulable: spec.field("unschedulable").bool().unwrap_or(false),
        images: status
            .field("images")
            .items()
            .map(|at| image(&at, interner))
            .filter(|(names, _)| !names.is_empty())
            .collect(),
        cap,
        cap_with_devices,
        features: declared_features(&status.field("declaredFeatures"), interner),
        allocatable,
    }
}

fn declared_features(at: &Cursor<'_, '_>, interner: &mut Interner) -> Vec<Name> {
    let mut features = names(at, interner);
    features.sort();
    features.dedup();
    features
}

fn taint(at: &Cursor<'_, '_>, interner: &mut Interner) -> Option<Taint> {
    let key = at.field("key");
    let effect = effect(&at.field("effect"))?;
    let Some(text) = key.non_empty_str() else {
        key.note("expected the key of the taint");
        return None;
    };
    let value = at.field("value").str().unwrap_or_default();
    Some(Taint { key: interner.name(text), value: interner.name(value), effect })
}

fn amounts(at: &Cursor<'_, '_>, interner: &mut Interner) -> Amounts {
    at.entries().filter_map(|(resource, value)| Some((interner.name(resource), value.amount(resource)?))).collect()
}

fn image(at: &Cursor<'_, '_>, interner: &mut Interner) -> (Vec<Name>, u64) {
    (names(&at.field("names"), interner), at.field("sizeBytes").int().unwrap_or(0))
}

/// How many volumes of each driver can be attached to the node that a `CSINode` is named after.
/// Drivers that state no limit have none.
pub(crate) fn attach_limits(root: &Cursor<'_, '_>, name: &Name, interner: &mut Interner) -> AttachLimits {
    let spec = root.field("spec");
    let drivers = spec.field("drivers");
    let limits = drivers.items().filter_map(|driver| {
        let limit = driver.field("allocatable").field("count").int()?;
        Some((interner.name(driver.field("name").non_empty_str()?), limit))
    });
    let mut limits: Vec<(Name, u32)> = limits.collect();
    limits.sort();
    AttachLimits { node: interner.name(name), limits }
}
