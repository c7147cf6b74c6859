//! Raising quotas, at every level that must rise, and other queues.

use std::collections::BTreeMap;

use quotient_api::near_names::near_names;
use quotient_api::{ObjectKey, tree, volcano};
use quotient_engine::quantity::{Quantity, canonical};
use quotient_engine::{Code, Numbers};
use serde_json::{Map, Value, json};

use super::trial::{Edit, Outcome, Trial};
use super::{FieldChange, Remedy};

/// The most raises that one remedy asks for: more levels than any tree of quotas has.
const RAISES_MAX: usize = 32;

/// A field of a quota that limits a resource.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Limit {
    quota: ObjectKey,
    field: Field,
    resource: String,
}

/// Where a quota says how much.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Field {
    Min,
    Max,
    Capability,
    CardQuota,
}

impl Field {
    fn path(self) -> &'static str {
        match self {
            Field::Min => "spec.min",
            Field::Max => "spec.max",
            Field::Capability => "spec.capability",
            Field::CardQuota => volcano::CARD_QUOTA,
        }
    }

    /// The limits that the field holds.
    fn read(self, object: &Value) -> Map<String, Value> {
        let map = |pointer: &str| object.pointer(pointer).and_then(Value::as_object).cloned().unwrap_or_default();
        match self {
            Field::Min => map("/spec/min"),
            Field::Max => map("/spec/max"),
            Field::Capability => map("/spec/capability"),
            Field::CardQuota => {
                let text = object.pointer("/metadata/annotations").and_then(|all| all.get(volcano::CARD_QUOTA));
                text.and_then(Value::as_str).and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
            }
        }
    }

    fn write(self, object: &mut Value, limits: Map<String, Value>) {
        let name = match self {
            Field::Min => "min",
            Field::Max => "max",
            Field::Capability => "capability",
            Field::CardQuota => {
                object["metadata"]["annotations"][volcano::CARD_QUOTA] = json!(Value::Object(limits).to_string());
                return;
            }
        };
        object["spec"][name] = Value::Object(limits);
    }
}

fn amount(resource: &str, value: Option<&Value>) -> Option<i128> {
    let text = match value? {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    text.parse::<Quantity>().ok().map(|quantity| quantity.sum(resource))
}

/// The raised limits so far.
#[derive(Debug, Clone, Default)]
struct Raised(BTreeMap<Limit, (Option<i128>, i128)>);

impl Raised {
    /// The quotas with their limits raised, those above first.
    fn edits(&self, trial: &Trial<'_>) -> Vec<Edit> {
        let mut objects: BTreeMap<&ObjectKey, Value> = BTreeMap::new();
        for (Limit { quota, field, resource }, (_, to)) in &self.0 {
            let Some(object) = trial.state.object(quota) else { continue };
            let object = objects.entry(quota).or_insert_with(|| object.clone());
            let mut limits = field.read(object);
            let shown = match field {
                Field::CardQuota => json!(i64::try_from(*to).unwrap_or(i64::MAX)),
                _ => json!(canonical(resource, *to)),
            };
            limits.insert(resource.clone(), shown);
            field.write(object, limits);
            // A min beyond the max is refused: the max rises with it.
            if *field == Field::Min {
                let mut max = Field::Max.read(object);
                if amount(resource, max.get(resource)).is_some_and(|max| max < *to) {
                    max.insert(resource.clone(), json!(canonical(resource, *to)));
                    Field::Max.write(object, max);
                }
            }
        }
        let depth = |quota: &ObjectKey| ancestors(trial, quota).len();
        let mut ordered: Vec<(usize, Value)> = objects.into_iter().map(|(key, object)| (depth(key), object)).collect();
        ordered.sort_by_key(|(depth, _)| *depth);
        ordered.into_iter().map(|(_, object)| Edit::Put(object)).collect()
    }

    /// A max that has to rise with its min is a change like any other, and may have to be the larger of the two.
    fn name_maxes(&mut self, trial: &Trial<'_>) {
        for (limit, (_, to)) in self.0.clone().into_iter().filter(|(limit, _)| limit.field == Field::Min) {
            let max = Limit { field: Field::Max, ..limit };
            let object = trial.state.object(&max.quota);
            let has = object.and_then(|object| amount(&max.resource, Field::Max.read(object).get(&max.resource)));
            if has.is_some_and(|has| has < to) && self.0.get(&max).is_none_or(|(_, known)| *known < to) {
                self.0.insert(max, (has, to));
            }
        }
    }

    fn raise(&mut self, trial: &Trial<'_>, limit: Limit, to: i128) -> bool {
        let from = trial
            .state
            .object(&limit.quota)
            .and_then(|object| amount(&limit.resource, limit.field.read(object).get(&limit.resource)));
        match self.0.get_mut(&limit) {
            Some((_, known)) if *known >= to => false,
            Some((_, known)) => {
                *known = to;
                true
            }
            None => {
                self.0.insert(limit, (from, to));
                true
            }
        }
    }
}

/// The quotas above one, the nearest first.
fn ancestors(trial: &Trial<'_>, quota: &ObjectKey) -> Vec<ObjectKey> {
    let mut above = Vec::new();
    let mut at = quota.clone();
    while let Some(parent) = parent_of(trial, &at).filter(|parent| !above.contains(parent) && parent != quota) {
        above.push(parent.clone());
        at = parent;
    }
    above
}

fn parent_of(trial: &Trial<'_>, quota: &ObjectKey) -> Option<ObjectKey> {
    let reports = trial.state.quotas();
    let parent = reports.iter().find(|(key, _)| key == quota)?.1.parent.clone()?;
    reports.iter().find(|(key, report)| key.group == quota.group && report.object == parent).map(|(key, _)| key.clone())
}

/// The limit that a refusal is about.
fn limit_of(trial: &Trial<'_>, code: Code, quota: &str, numbers: &Numbers) -> Option<Limit> {
    let (key, _) = trial.state.quotas().iter().find(|(_, report)| report.object == quota)?;
    let field = match code {
        Code::QuotaMaxExceeded if key.kind == volcano::QUEUE => Field::Capability,
        Code::QuotaMaxExceeded => Field::Max,
        Code::PoolExhausted | Code::RuntimeExceeded | Code::NonPreemptibleMinExceeded => Field::Min,
        Code::CardQuotaExceeded => Field::CardQuota,
        _ => return None,
    };
    Some(Limit { quota: key.clone(), field, resource: numbers.resource.to_string() })
}

/// The smallest raise of every quota that must rise.
pub(super) fn raise(trial: &Trial<'_>) -> Option<Remedy> {
    trial.reason.quota.as_ref()?;
    let mut raised = Raised::default();
    let mut reason = Some(trial.reason.clone());
    let mut evicts = None;
    for _ in 0..RAISES_MAX {
        let refusal = reason.as_ref()?;
        let (quota, numbers) = (refusal.quota.as_ref()?, refusal.numbers.as_ref()?);
        let limit = limit_of(trial, refusal.code, &quota.to_string(), numbers)?;
        let known = raised.0.get(&limit).map(|(_, to)| *to);
        let of_object = trial
            .state
            .object(&limit.quota)
            .and_then(|object| amount(&limit.resource, limit.field.read(object).get(&limit.resource)));
        let base = known.or(of_object).unwrap_or(0);
        // A pool is short of a sum: the quota's own part of it rises by what is missing.
        let to = match refusal.code {
            Code::PoolExhausted => base + numbers.short_by(),
            _ => (numbers.limit + numbers.short_by()).max(base),
        };
        if numbers.short_by() <= 0 || !raised.raise(trial, limit, to) {
            return None;
        }
        let outcome = settle_admission(trial, &mut raised)?;
        if outcome.runs {
            evicts = Some(outcome.evicted);
            break;
        }
        reason = outcome.reason;
    }
    let evicts = evicts?;
    raised.name_maxes(trial);
    let evicts = least(trial, &mut raised).unwrap_or(evicts);
    Some(remedy(trial, raised, evicts))
}

/// Tries the raises. Where admission refuses one because of the quota above it, that one rises too.
fn settle_admission(trial: &Trial<'_>, raised: &mut Raised) -> Option<Outcome> {
    for _ in 0..RAISES_MAX {
        let outcome = trial.attempt(&raised.edits(trial));
        let Some((refused, _)) = outcome.rejected.first() else { return Some(outcome) };
        let parent =
            parent_of(trial, refused).filter(|parent| tree::is_tree(parent) || parent.kind == volcano::QUEUE)?;
        let of_refused: Vec<(Limit, (Option<i128>, i128))> =
            raised.0.iter().filter(|(limit, _)| limit.quota == *refused).map(|(l, r)| (l.clone(), *r)).collect();
        let mut any = false;
        for (limit, (from, to)) in of_refused {
            let above = Limit { quota: parent.clone(), ..limit };
            let object = trial.state.object(&parent)?;
            let Some(has) = amount(&above.resource, above.field.read(object).get(&above.resource)) else { continue };
            let more = has + to - from.unwrap_or(0);
            any |= raised.raise(trial, above, more);
        }
        if !any {
            return None;
        }
    }
    None
}

/// Lowers raised limits as far as the pod still runs. Less than what is short may do: a limit, and a min above all,
/// gives rights beside room, and the pod may then evict.
fn least(trial: &Trial<'_>, raised: &mut Raised) -> Option<Vec<String>> {
    /// Lowering one may let another be lowered; more often than this it does not.
    const PASSES_MAX: usize = 3;
    let mut evicts = None;
    for _ in 0..PASSES_MAX {
        let before = raised.clone();
        for limit in before.0.keys() {
            evicts = lower(trial, raised, limit).or(evicts);
        }
        if raised.0 == before.0 {
            break;
        }
    }
    evicts
}

/// Lowers one limit as far as the pod still runs, or leaves it as it was; says which pods are evicted then.
fn lower(trial: &Trial<'_>, raised: &mut Raised, limit: &Limit) -> Option<Vec<String>> {
    let (from, to) = *raised.0.get(limit)?;
    let mut without = raised.clone();
    without.0.remove(limit);
    // A max is never below its min, and stays a change of its own: with it as it is, the min may be lower.
    without.name_maxes(trial);
    if !without.0.is_empty()
        && without.0 != raised.0
        && let Some(evicted) = trial.runs(&without.edits(trial))
    {
        *raised = without;
        return Some(evicted);
    }
    let mut evicts = None;
    let (mut fails, mut works) = (from.unwrap_or(0), to);
    if limit.field == Field::Max
        && let Some((_, min)) = raised.0.get(&Limit { field: Field::Min, ..limit.clone() })
    {
        fails = fails.max(min - 1);
    }
    // Most often what is short is what it takes: then one less fails, and nothing else has to be tried.
    let mut middle = works - 1;
    while works - fails > 1 {
        let mut lower = raised.clone();
        lower.0.insert(limit.clone(), (from, middle));
        match trial.runs(&lower.edits(trial)) {
            Some(evicted) => {
                works = middle;
                evicts = Some(evicted);
            }
            None => fails = middle,
        }
        middle = fails + (works - fails) / 2;
    }
    raised.0.insert(limit.clone(), (from, works));
    evicts
}

fn remedy(trial: &Trial<'_>, mut raised: Raised, evicts: Vec<String>) -> Remedy {
    raised.name_maxes(trial);
    let mut said = Vec::new();
    let mut changes = Vec::new();
    for (Limit { quota, field, resource }, (from, to)) in &raised.0 {
        let what = match field {
            Field::Min => "min",
            Field::Max => "max",
            Field::Capability => "capability",
            Field::CardQuota => "card quota",
        };
        let from = from.map(|from| canonical(resource, from));
        let before = from.as_ref().map_or(String::new(), |from| format!(" from {from}"));
        let to = canonical(resource, *to);
        said.push(format!("raise the {what} of {quota}{before} to {to} {resource}"));
        let field = format!("{}[{resource:?}]", field.path());
        changes.push(FieldChange { object: quota.to_string(), field, from, to: Some(to) });
    }
    Remedy { kind: "raise-quota", message: said.join(" and "), changes, evicts, ends: Vec::new() }
}

/// A queue with nearly the name of one that does not exist.
pub(super) fn another_queue(trial: &Trial<'_>) -> Vec<Remedy> {
    if trial.reason.code != Code::QueueNotFound {
        return Vec::new();
    }
    let annotation = trial.pod.pointer("/metadata/annotations").and_then(|all| all.get(volcano::QUEUE_NAME));
    let Some(named) = annotation.and_then(Value::as_str) else { return Vec::new() };
    let quotas = trial.state.quotas();
    let queues = quotas.iter().filter(|(key, _)| key.kind == volcano::QUEUE).map(|(key, _)| &*key.name);
    let near = near_names(named, queues);
    let tried = near.into_iter().filter_map(|queue| {
        let edits = trial.changed(|pod| pod["metadata"]["annotations"][volcano::QUEUE_NAME] = json!(queue));
        let evicts = trial.runs(&edits)?;
        let field = format!("metadata.annotations[{:?}]", volcano::QUEUE_NAME);
        let changes = trial.changes(&field, Some(named), Some(queue));
        let message = trial.of_all(format!("use queue {queue:?} instead of {named:?}"));
        Some(Remedy { kind: "queue", message, changes, evicts, ends: Vec::new() })
    });
    tried.collect()
}
