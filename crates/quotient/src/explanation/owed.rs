//! What a pending pod's quotas are entitled to and do not have, and who holds it.

use std::collections::BTreeSet;

use quotient_api::ObjectKey;
use quotient_engine::quantity::canonical;
use quotient_sim::report::{Quantities, QuotaReport};
use serde::Serialize;

use crate::standing::amount_of;
use crate::state::State;

/// The most quotas, and the most pods of each, that are named as holders.
const HOLDERS_MAX: usize = 5;
const PODS_MAX: usize = 3;

/// A resource of which a quota uses less than it is entitled to.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Owed {
    pub quota: String,
    pub resource: String,
    pub entitled: String,
    pub used: String,
    pub owed: String,
    /// Quotas beside it that use more than they are entitled to, those with most first.
    pub holders: Vec<Holder>,
}

/// Who holds some of it.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Holder {
    pub quota: String,
    /// What it holds that others may reclaim.
    pub amount: String,
    /// Some of its pods that hold the resource, as `namespace/name`.
    pub pods: Vec<String>,
}

/// What these quotas of a pod are owed of what it requests, where others hold it.
pub fn owed(state: &State, quotas: &[QuotaReport], requests: &Quantities) -> Vec<Owed> {
    let of_quota = |quota: &QuotaReport| {
        let short = quota.entitlement.keys().filter(|resource| requests.contains_key(*resource));
        let owed = short.filter_map(|resource| of_resource(state, quota, resource));
        owed.collect::<Vec<_>>()
    };
    quotas.iter().flat_map(of_quota).collect()
}

fn of_resource(state: &State, quota: &QuotaReport, resource: &str) -> Option<Owed> {
    let (entitled, used) = (amount_of(&quota.entitlement, resource), amount_of(&quota.used, resource));
    if entitled <= used {
        return None;
    }
    let (own, _) = state.quotas().iter().find(|(_, known)| known.object == quota.object)?;
    let is_beside = |key: &ObjectKey, other: &QuotaReport| {
        key != own && key.group == own.group && key.kind == own.kind && other.tree == quota.tree
    };
    // What a quota holds is held by those below it: the ones with pods are named.
    let parents: BTreeSet<&String> = state.quotas().iter().filter_map(|(_, other)| other.parent.as_ref()).collect();
    let beside = state.quotas().iter().filter(|(key, other)| is_beside(key, other)).map(|(_, other)| other);
    let holding = beside.map(|other| (amount_of(&other.reclaimable, resource), other));
    let mut holding: Vec<(i128, &QuotaReport)> = holding.filter(|(amount, _)| *amount > 0).collect();
    holding.retain(|(_, other)| !parents.contains(&other.object));
    holding.sort_by_key(|(amount, other)| (-*amount, &other.object));
    let holders: Vec<Holder> = holding.iter().take(HOLDERS_MAX).map(|it| holder(state, it, resource)).collect();
    let show = |amount: i128| canonical(resource, amount);
    (!holders.is_empty()).then(|| Owed {
        quota: quota.object.clone(),
        resource: resource.to_owned(),
        entitled: show(entitled),
        used: show(used),
        owed: show(entitled - used),
        holders,
    })
}

fn holder(state: &State, (amount, quota): &(i128, &QuotaReport), resource: &str) -> Holder {
    let requests = |key: &ObjectKey| state.requests(key.namespace.as_deref().unwrap_or_default(), &key.name);
    let pods = state.pods_under(&quota.object);
    let holding = pods.iter().filter(|key| amount_of(&requests(key), resource) > 0);
    let name = |key: &ObjectKey| format!("{}/{}", key.namespace.as_deref().unwrap_or_default(), key.name);
    Holder {
        quota: quota.object.clone(),
        amount: canonical(resource, *amount),
        pods: holding.take(PODS_MAX).map(name).collect(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use quotient_sim::report::PodPhase;
    use quotient_sim::{Input, Setup};
    use serde_json::json;

    use crate::explanation::Explanation;
    use crate::random_cluster::{Dice, cluster, each_seed};
    use crate::standing::amount_of;
    use crate::state::State;

    fn state(seed: u64) -> State {
        let list = json!({"apiVersion": "v1", "kind": "List", "items": cluster(&mut Dice::new(seed))});
        let input = Input { file: "f".to_owned(), read: quotient_api::read("f", &list.to_string()) };
        State::of_inputs(Setup::default(), vec![input]).expect("it settles")
    }

    /// Every pending pod has a place of its own, and within its quotas the more important and then the older comes
    /// first. What others are said to hold is there.
    #[test]
    fn positions_are_an_order_and_what_is_owed_is_held() {
        each_seed(60, |seed| {
            let state = state(seed);
            let pending = state.pods().iter().filter(|pod| pod.phase == PodPhase::Pending);
            let all: Vec<Explanation> =
                pending.map(|pod| Explanation::of(&state, &pod.namespace, &pod.name).expect("it is there")).collect();
            let placed: Vec<_> = all.iter().filter_map(|pod| Some((pod.position.as_ref()?, pod))).collect();
            let places: BTreeSet<usize> = placed.iter().map(|(position, _)| position.place).collect();
            assert_eq!(places, (1..=placed.len()).collect(), "seed {seed}");
            for (position, pod) in &placed {
                assert_eq!(position.of, placed.len(), "seed {seed}");
                let objects = |pod: &Explanation| pod.quotas.iter().map(|q| q.object.clone()).collect::<Vec<_>>();
                let age = |pod: &Explanation| pod.created.as_deref().map(quotient_api::time::parse_timestamp);
                let rank = |pod: &Explanation| (-pod.priority.unwrap_or(0), age(pod), pod.name.clone());
                let same = placed.iter().filter(|(_, other)| objects(other) == objects(pod));
                let before = same.clone().filter(|(_, other)| rank(other) < rank(pod)).count();
                assert_eq!((position.place_in_quota, position.of_quota), (before + 1, same.count()), "seed {seed}");
            }
            for owed in all.iter().flat_map(|pod| &pod.owed) {
                for holder in &owed.holders {
                    let (_, quota) =
                        state.quotas().iter().find(|(_, quota)| quota.object == holder.quota).expect("it is there");
                    let beyond = amount_of(&quota.used, &owed.resource) - amount_of(&quota.entitlement, &owed.resource);
                    assert!(beyond > 0 && !holder.pods.is_empty(), "seed {seed}: {owed:?}");
                }
            }
        });
    }
}
