//! The quotas of all five systems in one shape, and the two questions of design 1: the ceiling and the entitlement.

use std::sync::Arc;

use serde_json::Value;

use crate::amount::{Amounts, amounts};
use crate::runtime::runtime;
use crate::world::{Held, World, text};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    Elastic,
    Fair,
    Tree,
    Queue,
}

#[derive(Debug, Clone)]
pub struct Quota {
    pub policy: Policy,
    /// "Quotas of one API group form one pool."
    pub pool: String,
    pub namespace: String,
    pub name: String,
    /// The namespaces whose pods it governs, where that is how they come to it.
    pub namespaces: Vec<String>,
    pub parent: Option<usize>,
    pub min: Amounts,
    /// max, or a queue's capability.
    pub max: Amounts,
    pub deserved: Option<Amounts>,
    pub guarantee: Amounts,
    pub cards: Option<Amounts>,
    pub weight: Amounts,
    pub lends: bool,
    pub reclaimable: bool,
    pub open: bool,
}

impl Quota {
    /// "A queue without capability, deserved, guarantee and card quota counts as no quota."
    pub fn says_nothing(&self) -> bool {
        self.policy == Policy::Queue
            && self.max.is_empty()
            && self.deserved.as_ref().is_none_or(Amounts::is_empty)
            && self.guarantee.is_empty()
            && self.cards.is_none()
    }

    /// "A queue with a capability alone protects nothing."
    pub fn is_capability_alone(&self) -> bool {
        self.policy == Policy::Queue
            && self.deserved.as_ref().is_none_or(Amounts::is_empty)
            && self.guarantee.is_empty()
    }
}

const TREE: &str = "quota.scheduling.koordinator.sh";

/// All quotas of a cluster.
pub fn read_quotas(objects: &[Arc<Value>]) -> Vec<Quota> {
    let mut quotas: Vec<(Quota, String)> = objects.iter().filter_map(|object| quota(object)).collect();
    // Trees and queues are known by their names, of which there is one each.
    quotas.sort_by(|(a, _), (b, _)| (&a.pool, &a.namespace, &a.name).cmp(&(&b.pool, &b.namespace, &b.name)));
    let parents: Vec<Option<usize>> = quotas
        .iter()
        .map(|(quota, parent)| {
            let above = |(other, _): &(Quota, String)| other.pool == quota.pool && other.name == *parent;
            quotas.iter().position(above).filter(|_| !parent.is_empty())
        })
        .collect();
    quotas.into_iter().zip(parents).map(|((quota, _), parent)| Quota { parent, ..quota }).collect()
}

/// A quota and the name of the one above it.
fn quota(object: &Value) -> Option<(Quota, String)> {
    let group = text(object, "/apiVersion").split_once('/').map_or("", |(group, _)| group);
    let (policy, parent) = match (group, text(object, "/kind")) {
        ("scheduling.x-k8s.io", "ElasticQuota") => (Policy::Elastic, String::new()),
        ("nos.nebuly.com" | "n8s.nebuly.ai", "ElasticQuota" | "CompositeElasticQuota") => (Policy::Fair, String::new()),
        ("scheduling.sigs.k8s.io", "ElasticQuota") => {
            (Policy::Tree, object["metadata"]["labels"][format!("{TREE}/parent")].as_str().unwrap_or("").to_string())
        }
        ("scheduling.volcano.sh", "Queue") => (Policy::Queue, text(object, "/spec/parent").to_string()),
        _ => return None,
    };
    let name = text(object, "/metadata/name").to_string();
    // The roots are where the trees hang, and not quotas of their own.
    if matches!(policy, Policy::Tree) && name.starts_with("koordinator-") || policy == Policy::Queue && name == "root" {
        return None;
    }
    let spec = &object["spec"];
    let namespace = text(object, "/metadata/namespace").to_string();
    let annotation = |name: &str| object["metadata"]["annotations"][name].as_str();
    let json = |text: &str| serde_json::from_str::<Value>(text).unwrap_or(Value::Null);
    let listed = |value: &Value| {
        value.as_array().into_iter().flatten().filter_map(|name| Some(name.as_str()?.to_string())).collect()
    };
    let namespaces = match policy {
        Policy::Elastic | Policy::Fair if text(object, "/kind") == "ElasticQuota" => vec![namespace.clone()],
        Policy::Elastic | Policy::Fair => listed(&spec["namespaces"]),
        Policy::Tree => annotation(&format!("{TREE}/namespaces")).map_or_else(Vec::new, |text| listed(&json(text))),
        Policy::Queue => Vec::new(),
    };
    let max = amounts(if policy == Policy::Queue { &spec["capability"] } else { &spec["max"] });
    let lends = object["metadata"]["labels"][format!("{TREE}/allow-lent-resource")].as_str() != Some("false");
    let given = annotation(&format!("{TREE}/shared-weight")).map(|text| amounts(&json(text)));
    // "Weight = shared-weight, or max where absent or all zero."
    let weight = given.filter(|weight| weight.values().any(|amount| *amount > 0)).unwrap_or_else(|| max.clone());
    let quota = Quota {
        policy,
        pool: group.to_string(),
        namespaces,
        parent: None,
        min: amounts(&spec["min"]),
        max,
        deserved: spec.get("deserved").map(amounts),
        guarantee: amounts(&spec["guarantee"]["resource"]),
        cards: annotation("volcano.sh/card.quota").map(|text| amounts(&json(text))),
        weight,
        lends,
        reclaimable: spec["reclaimable"] != false,
        open: matches!(text(object, "/status/state"), "" | "Open"),
        namespace,
        name,
    };
    Some((quota, parent))
}

/// How sure an answer must be where the documents can be read in two ways: `Surely` holds in every reading,
/// `Perhaps` in one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sure {
    Surely,
    Perhaps,
}

impl Sure {
    /// The smaller of two limits is the sure one.
    pub fn limit(self, a: Option<i128>, b: Option<i128>) -> Option<i128> {
        match (self, a, b) {
            (Sure::Surely, Some(a), Some(b)) => Some(a.min(b)),
            (Sure::Surely, a, b) => a.or(b),
            (Sure::Perhaps, Some(a), Some(b)) => Some(a.max(b)),
            (Sure::Perhaps, _, _) => None,
        }
    }
}

impl World {
    /// Whether some quota of the pool names the resource in min: "a resource that no quota of a pool names in `min`
    /// is not governed by the pool".
    pub fn governed(&self, pool: &str, resource: &str) -> bool {
        self.quotas.iter().any(|quota| quota.pool == pool && quota.min.contains_key(resource))
    }

    /// "Σused ≤ Σmin over the pool": the sum of mins, where the pool governs the resource.
    pub fn pool_limit(&self, pool: &str, resource: &str) -> Option<i128> {
        let quotas = self.quotas.iter().filter(|quota| quota.pool == pool);
        self.governed(pool, resource).then(|| quotas.filter_map(|quota| quota.min.get(resource)).sum())
    }

    /// How much a quota may hold of a resource now. `gone`: pods that ask for nothing any more.
    pub fn ceiling(&self, held: &Held, gone: &[usize], quota: usize, resource: &str, sure: Sure) -> Option<i128> {
        let of = &self.quotas[quota];
        match of.policy {
            Policy::Elastic | Policy::Fair => of.max.get(resource).copied(),
            Policy::Tree => {
                // Whether what pods that leave ask for still counts is not said: they may come back.
                let staying = runtime(self, held, &[], quota, resource);
                let left = runtime(self, held, gone, quota, resource);
                sure.limit(staying, left)
            }
            Policy::Queue => {
                let card = match &of.cards {
                    Some(cards) if self.is_card(resource) => Some(cards.get(resource).copied().unwrap_or(0)),
                    _ => None,
                };
                let most = self.most(quota, resource);
                match (most, card) {
                    (Some(most), Some(card)) => Some(most.min(card)),
                    (most, card) => most.or(card),
                }
            }
        }
    }

    /// "realCapability = min(capability, (total − Σ others' guarantee))", at each level.
    pub fn most(&self, quota: usize, resource: &str) -> Option<i128> {
        let of = &self.quotas[quota];
        let beside = self
            .quotas
            .iter()
            .enumerate()
            .filter(|(index, other)| *index != quota && other.policy == Policy::Queue && other.parent == of.parent);
        let guaranteed: i128 = beside.filter_map(|(_, other)| other.guarantee.get(resource)).sum();
        let own = of.max.get(resource).copied();
        if guaranteed == 0 {
            return own;
        }
        let above = match of.parent {
            Some(parent) => self.most(parent, resource).unwrap_or_else(|| self.total(resource)),
            None => self.total(resource),
        };
        let left = (above - guaranteed).max(of.guarantee.get(resource).copied().unwrap_or(0));
        Some(own.map_or(left, |own| own.min(left)))
    }

    /// What is held below a queue, or of everything, and what queues there are guaranteed and do not hold: "reserved,
    /// not shared with other queues".
    fn held_or_reserved(&self, held: &Held, above: Option<usize>, resource: &str) -> i128 {
        let is_child = |index: &usize| {
            let quota = &self.quotas[*index];
            quota.policy == Policy::Queue && quota.parent == above
        };
        let of_child = |index: usize| {
            let guarantee = self.quotas[index].guarantee.get(resource).copied().unwrap_or(0);
            self.held_or_reserved(held, Some(index), resource).max(guarantee)
        };
        let is_direct = |pod: usize| {
            let queue = self.pods[pod].quotas.iter().find(|quota| self.quotas[**quota].policy == Policy::Queue);
            queue.copied() == above
        };
        let direct = held.iter().filter(|(pod, _)| is_direct(**pod));
        let direct: i128 = direct.map(|(pod, node)| self.charged(*pod, *node, resource)).sum();
        (0..self.quotas.len()).filter(is_child).map(of_child).sum::<i128>() + direct
    }

    /// A guarantee that these pods of a queue would take from the queues beside it, together with all others.
    pub fn taken_guarantee(&self, held: &Held, then: &Held, quota: usize, resource: &str) -> Option<String> {
        let mut levels: Vec<(Option<usize>, i128)> = vec![(None, self.total(resource))];
        for level in self.chain(quota).into_iter().skip(1) {
            levels.extend(self.quotas[level].max.get(resource).map(|max| (Some(level), *max)));
        }
        levels.into_iter().find_map(|(level, limit)| {
            let before = self.held_or_reserved(held, level, resource);
            let after = self.held_or_reserved(then, level, resource);
            let in_level = |pod: usize| level.is_none_or(|level| self.in_quota(pod, level));
            let used: i128 = then
                .iter()
                .filter(|(pod, _)| in_level(**pod))
                .map(|(pod, node)| self.charged(*pod, *node, resource))
                .sum();
            (after > limit && after > before && after > used)
                .then(|| format!("{after} of {resource} would be held or guaranteed, of {limit}"))
        })
    }

    /// Whether a queue that says nothing owes a resource to one that would hold `then` of it: "a queue that sets
    /// nothing below a department that has an entitlement is entitled to nothing of it", and a guarantee is reserved.
    pub fn owes(&self, plain: usize, own: usize, resource: &str, then: i128) -> bool {
        let names = |level: &usize| {
            let of = &self.quotas[*level];
            of.guarantee.contains_key(resource) || of.deserved.as_ref().is_some_and(|d| d.contains_key(resource))
        };
        let guarantee = self.quotas[own].guarantee.get(resource).copied().unwrap_or(0);
        then <= guarantee || self.chain(plain).iter().skip(1).any(names)
    }

    /// "guaranteed over-quota of A, per resource: floor(Σ max(0, minᵢ − usedᵢ) × min_A / Σminᵢ)".
    pub fn guaranteed_over_quota(&self, held: &Held, quota: usize, resource: &str) -> i128 {
        let of = &self.quotas[quota];
        let min = |index: usize| self.quotas[index].min.get(resource).copied().unwrap_or(0);
        let pool = || (0..self.quotas.len()).filter(|index| self.quotas[*index].pool == of.pool);
        let unused: i128 = pool().map(|index| (min(index) - self.used(held, index, resource)).max(0)).sum();
        let all: i128 = pool().map(min).sum();
        if all == 0 { 0 } else { unused * min(quota) / all }
    }

    /// How much a quota may claim back of a resource, without what fair sharing adds. `None`: it says nothing of it.
    pub fn entitlement(&self, held: &Held, quota: usize, resource: &str) -> Option<i128> {
        let of = &self.quotas[quota];
        match of.policy {
            Policy::Elastic | Policy::Fair => {
                self.governed(&of.pool, resource).then(|| of.min.get(resource).copied().unwrap_or(0))
            }
            Policy::Tree => runtime(self, held, &[], quota, resource),
            Policy::Queue => {
                let guarantee = of.guarantee.get(resource).copied();
                match &of.deserved {
                    // "A dimension that a given deserved leaves out is not reclaimable."
                    Some(deserved) if !deserved.is_empty() => {
                        let named = deserved.get(resource).copied()?;
                        let most = self.most(quota, resource).unwrap_or(i128::MAX);
                        // "Entitlement of a queue is the larger of deserved and guarantee, resource by resource."
                        Some(named.min(most).max(guarantee.unwrap_or(0)))
                    }
                    // "Unset deserved is the guarantee, or 0."
                    _ => Some(guarantee.unwrap_or(0)),
                }
            }
        }
    }
}
