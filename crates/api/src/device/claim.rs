//! ResourceClaims and the templates they are made from.

use std::sync::Arc;

use quotient_engine::device::{
    Allocation, Alternative, ClaimKey, ClaimSpec, Constraint, Count, DeviceClaimFact, DeviceKey, DeviceRequest,
    DeviceResult, DeviceToleration, PoolKey, Sameness,
};
use quotient_engine::fact::Name;

use super::slice::effect;
use crate::cursor::{Cursor, Notes};
use crate::intern::Interner;
use crate::object::ObjectKey;
use crate::selector::node_terms;

/// What an alternative's devices must match: a class, and selectors besides the class's own.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Wanted {
    pub class: Name,
    pub selectors: Vec<Name>,
}

impl Wanted {
    /// The devices of a class.
    pub fn class(class: &Name) -> Self {
        Wanted { class: class.clone(), selectors: Vec::new() }
    }

    /// By what the engine knows it. A class has no line feed in its name.
    pub fn matcher(&self) -> Name {
        match self.selectors.is_empty() {
            true => self.class.clone(),
            false => format!("{}\n{}", self.class, self.selectors.join("\n")).into(),
        }
    }
}

/// What a claim asks for, and what its devices must match.
pub(crate) fn claim_spec(spec: &Cursor<'_, '_>, interner: &mut Interner) -> (ClaimSpec, Vec<Wanted>) {
    let devices = spec.field("devices");
    let mut wanted = Vec::new();
    let mut requests = Vec::new();
    for at in devices.field("requests").items() {
        let Some(name) = at.field("name").non_empty_str().map(|name| interner.name(name)) else {
            at.note_missing("name", "a request has one");
            continue;
        };
        let (exactly, list) = (at.field("exactly"), at.field("firstAvailable"));
        let mut alternatives = Vec::new();
        if exactly.exists() {
            alternatives.extend(alternative(&exactly, name.clone(), &mut wanted, interner));
        }
        for sub in list.items() {
            let own = sub.field("name").str().unwrap_or_default();
            let full = interner.name(&format!("{name}/{own}"));
            alternatives.extend(alternative(&sub, full, &mut wanted, interner));
        }
        if exactly.exists() == list.exists() {
            at.note("expected one of exactly and firstAvailable");
        }
        requests.push(DeviceRequest { name, alternatives, listed: list.exists() });
    }
    let constraints = devices.field("constraints");
    let constraints = constraints.items().filter_map(|at| constraint(&at, interner)).collect();
    (ClaimSpec { requests, constraints }, wanted)
}

fn alternative(
    at: &Cursor<'_, '_>,
    name: Name,
    wanted: &mut Vec<Wanted>,
    interner: &mut Interner,
) -> Option<Alternative> {
    let class_at = at.field("deviceClassName");
    let Some(class) = class_at.non_empty_str().map(|class| interner.name(class)) else {
        at.note_missing("deviceClassName", "a request names a class");
        return None;
    };
    let expressions = at.field("selectors");
    let expressions = expressions.items().map(|selector| {
        let cel = selector.field("cel");
        let expression = cel.field("expression");
        let text = expression.str();
        if text.is_none() {
            selector.note("expected cel.expression");
        }
        interner.name(text.unwrap_or("false"))
    });
    let selectors = expressions.collect();
    let mode = at.field("allocationMode");
    let count = match mode.non_empty_str() {
        None | Some("ExactCount") => Count::Exactly(at.field("count").int().unwrap_or(1)),
        Some("All") => Count::All,
        Some(_) => {
            mode.note("expected ExactCount or All");
            Count::Exactly(1)
        }
    };
    let capacity = at.field("capacity");
    let capacity = capacity.field("requests");
    let mut amounts: Vec<(Name, i128)> = capacity
        .entries()
        .filter_map(|(name, amount)| Some((interner.name(name), amount.quantity()?.nanos())))
        .collect();
    amounts.sort();
    let own = Wanted { class: class.clone(), selectors };
    let matcher = interner.name(&own.matcher());
    wanted.push(own);
    Some(Alternative {
        name,
        class,
        matcher,
        count,
        admin: at.field("adminAccess").bool().unwrap_or(false),
        tolerations: at
            .field("tolerations")
            .items()
            .map(|toleration| self::toleration(&toleration, interner))
            .collect(),
        capacity: amounts,
    })
}

fn toleration(at: &Cursor<'_, '_>, interner: &mut Interner) -> DeviceToleration {
    let exists = at.field("operator").str() == Some("Exists");
    let value = interner.name(at.field("value").str().unwrap_or_default());
    DeviceToleration {
        key: at.field("key").non_empty_str().map(|key| interner.name(key)),
        value: (!exists).then_some(value),
        effect: at.field("effect").non_empty_str().map(effect),
    }
}

fn constraint(at: &Cursor<'_, '_>, interner: &mut Interner) -> Option<Constraint> {
    let (same, distinct) = (at.field("matchAttribute"), at.field("distinctAttribute"));
    let (attribute, sameness) = match (same.non_empty_str(), distinct.non_empty_str()) {
        (Some(attribute), None) => (attribute, Sameness::Match),
        (None, Some(attribute)) => (attribute, Sameness::Distinct),
        _ => {
            at.note("expected one of matchAttribute and distinctAttribute");
            return None;
        }
    };
    let requests = at.field("requests").strs().into_iter().map(|name| interner.name(name)).collect();
    Some(Constraint { attribute: interner.name(attribute), sameness, requests })
}

/// What there is to tell about a ResourceClaim, and what its devices must match.
pub(crate) fn claim(
    root: &Cursor<'_, '_>,
    notes: &Notes,
    key: &ObjectKey,
    interner: &mut Interner,
) -> (DeviceClaimFact, Vec<Wanted>) {
    let (metadata, spec, status) = (root.field("metadata"), root.field("spec"), root.field("status"));
    let (asked, wanted) = claim_spec(&spec, interner);
    let allocated = status.field("allocation");
    let owners = metadata.field("ownerReferences");
    let owner = owners
        .items()
        .find(|owner| owner.field("kind").str() == Some("Pod") && owner.field("controller").bool() == Some(true))
        .and_then(|owner| owner.field("uid").str().map(Name::from));
    let reserved = status.field("reservedFor");
    let fact = DeviceClaimFact {
        key: ClaimKey {
            namespace: interner.name(key.namespace.as_deref().unwrap_or_default()),
            name: key.name.clone(),
        },
        uid: metadata.field("uid").str().unwrap_or_default().into(),
        spec: Arc::new(asked),
        allocation: allocated.exists().then(|| Arc::new(allocation(&allocated, interner))),
        reserved_for: reserved.items().filter_map(|user| user.field("uid").str().map(Name::from)).collect(),
        owner,
        extended: metadata.field("annotations").field(super::write::EXTENDED_ANNOTATION).str() == Some("true"),
        leaving: metadata.field("deletionTimestamp").exists(),
        problem: notes.first_of_spec().map(|note| Name::from(note.to_string())),
    };
    (fact, wanted)
}

fn allocation(at: &Cursor<'_, '_>, interner: &mut Interner) -> Allocation {
    let (devices, selector) = (at.field("devices"), at.field("nodeSelector"));
    let results = devices.field("results");
    let result = |at: Cursor<'_, '_>, interner: &mut Interner| {
        let mut name = |field: &str| interner.name(at.field(field).str().unwrap_or_default());
        let pool = PoolKey { driver: name("driver"), pool: name("pool") };
        let (request, device) = (name("request"), name("device"));
        let consumed = at.field("consumedCapacity");
        let consumed = consumed.entries().filter_map(|(name, amount)| {
            let amount = amount.quantity()?;
            Some((interner.name(name), amount.nanos()))
        });
        let consumed = consumed.collect();
        DeviceResult {
            request,
            device: DeviceKey { pool, device },
            admin: at.field("adminAccess").bool().unwrap_or(false),
            share: at.field("shareID").exists(),
            consumed,
        }
    };
    let results = results.items().map(|at| result(at, interner)).collect();
    let nodes = selector.exists().then(|| node_terms(&selector.field("nodeSelectorTerms"), interner));
    Allocation { results, nodes }
}
