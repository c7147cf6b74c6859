//! Elastic quotas: a guaranteed `min` and an upper bound `max` for the pods of one namespace, or of several together.
//!
//! Two systems have them. `scheduling.x-k8s.io` has an `ElasticQuota` for a namespace; `nos.nebuly.com` and its former
//! name `n8s.nebuly.ai` have the same and a `CompositeElasticQuota` over several namespaces, and share what is unused
//! fairly. The quotas of one API group form a pool.

pub(crate) mod capacity;
pub mod consent;
pub(crate) mod pools;
pub mod status;
pub mod takeover;
pub mod traps;

pub use capacity::{Held, Sums};

use std::collections::BTreeSet;

use quotient_engine::fact::{Limits, Name, QuotaKey};
use quotient_engine::quantity::canonical;

use crate::cursor::Cursor;
use crate::intern::Interner;
use crate::object::ObjectKey;
use crate::time::parse_timestamp;

/// The kind of a quota for the namespace that it is in.
pub const PLAIN: &str = "ElasticQuota";

/// The kind of a quota for the namespaces that it lists.
pub const COMPOSITE: &str = "CompositeElasticQuota";

/// The API groups of elastic quotas, and whether they share what is unused fairly.
pub const GROUPS: [&str; 3] = ["scheduling.x-k8s.io", "nos.nebuly.com", "n8s.nebuly.ai"];

/// Whether the quotas of an API group are elastic and share fairly. `None`: they are not elastic quotas.
pub(crate) fn is_fair(group: &str) -> Option<bool> {
    GROUPS.contains(&group).then_some(group != GROUPS[0])
}

/// Whether the key is of an elastic quota.
pub fn is_elastic(key: &ObjectKey) -> bool {
    match (is_fair(key.group), key.kind) {
        (Some(_), PLAIN) => true,
        (Some(fair), COMPOSITE) => fair,
        _ => false,
    }
}

/// Which quota the engine means by a key.
pub fn object_key(key: &QuotaKey) -> Option<ObjectKey> {
    let kind = crate::kinds::find(&key.group, &key.kind)?;
    Some(ObjectKey::new(kind, Some(&*key.namespace).filter(|n| !n.is_empty()), &key.name))
}

/// A quota as its object declares it, whatever others declare.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Declared {
    /// When it was made, in microseconds; what does not say so is taken to be the youngest.
    pub created: i64,
    /// The namespaces whose pods it wants to be charged for, each once.
    pub namespaces: Vec<Name>,
    /// Those of them that agreed by the rights of its maker.
    pub agreed: Vec<Name>,
    pub min: Limits,
    pub max: Limits,
}

/// Reads a quota. A resource whose amount cannot be read is taken not to be named, and the rest counts; a min above
/// its max is lowered to it, for nothing can be guaranteed that may not be held.
pub(crate) fn declared(root: &Cursor<'_, '_>, key: &ObjectKey, interner: &mut Interner) -> Declared {
    let (metadata, spec) = (root.field("metadata"), root.field("spec"));
    let min_at = spec.field("min");
    let (min, max) = (limits(&min_at, interner), limits(&spec.field("max"), interner));
    let lowered = min.iter().map(|(resource, min)| {
        let lowered = max.get(resource).map_or(*min, |max| max.min(*min));
        if lowered < *min {
            let shown = canonical(resource, lowered.into());
            min_at.field(resource).note(format!("is more than the max: counted as {shown}, expected at most the max"));
        }
        (resource.clone(), lowered)
    });
    let min = lowered.collect();
    let namespaces = match key.kind {
        COMPOSITE => listed_namespaces(&spec, interner),
        _ => vec![interner.name(key.namespace.as_deref().unwrap_or_default())],
    };
    let annotations = metadata.field("annotations");
    let agreed = annotations.field(consent::AGREED).str().into_iter().flat_map(consent::listed);
    let agreed = agreed.map(|name| interner.name(name)).collect();
    let created = metadata.field("creationTimestamp");
    let created = created.str().and_then(|text| parse_timestamp(text).map_err(|message| created.note(message)).ok());
    Declared { created: created.unwrap_or(i64::MAX), namespaces, agreed, min, max }
}

fn limits(at: &Cursor<'_, '_>, interner: &mut Interner) -> Limits {
    at.entries().filter_map(|(resource, value)| Some((interner.name(resource), value.amount(resource)?))).collect()
}

fn listed_namespaces(spec: &Cursor<'_, '_>, interner: &mut Interner) -> Vec<Name> {
    let at = spec.field("namespaces");
    let mut seen = BTreeSet::new();
    let mut namespaces = Vec::new();
    for item in at.items() {
        let Some(text) = item.non_empty_str() else {
            item.note("expected the name of a namespace");
            continue;
        };
        match seen.insert(text) {
            true => namespaces.push(interner.name(text)),
            false => item.note("is listed twice: counted once"),
        }
    }
    if namespaces.is_empty() {
        spec.note_missing("namespaces", "without a namespace the quota does not count");
    }
    namespaces
}
