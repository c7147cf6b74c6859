//! What must be so when a cluster with claims has come to rest.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::amount::{Amounts, add, amount, amounts};
use crate::claims::allocator::choices;
use crate::claims::devices::{Asked, Devices, Held, Way, extended_request};
use crate::difference::{Difference, Kind};
use crate::world::text;

/// A pod.
#[derive(Debug, Clone)]
struct Pod {
    key: String,
    uid: String,
    node: Option<String>,
    /// By number.
    quota: Option<usize>,
    /// Claims by number; `None` where one is not there yet.
    claims: Option<Vec<usize>>,
    extended: Option<(String, i128)>,
    is_leaving: bool,
    is_nominated: bool,
}

/// A quota.
#[derive(Debug, Clone)]
struct Quota {
    name: String,
    /// What it is entitled to, and its limit: of the latter what it names.
    own: Amounts,
    max: Amounts,
    used: Amounts,
}

/// A cluster at rest.
pub struct Judge<'a> {
    policy: &'a str,
    devices: Devices,
    nodes: Vec<String>,
    pods: Vec<Pod>,
    quotas: Vec<Quota>,
    /// By quota: what the program says that it uses, and may use now.
    reported: BTreeMap<String, (Amounts, Amounts)>,
}

/// The claims that a pod names, by namespace and name.
fn claim_names(pod: &Value) -> Option<Vec<String>> {
    let made: BTreeMap<&str, &str> = pod
        .pointer("/status/resourceClaimStatuses")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .map(|status| (text(status, "/name"), text(status, "/resourceClaimName")))
        .collect();
    let claims = pod.pointer("/spec/resourceClaims").and_then(Value::as_array);
    let name = |claim: &Value| {
        let name = text(claim, "/resourceClaimName");
        let name = if name.is_empty() { *made.get(text(claim, "/name"))? } else { name };
        Some(format!("{}/{name}", text(pod, "/metadata/namespace")))
    };
    claims.into_iter().flatten().map(name).collect()
}

impl<'a> Judge<'a> {
    /// `reported`: used and runtime of each quota, by name.
    pub fn new(policy: &'a str, objects: &[&Value], reported: BTreeMap<String, (Amounts, Amounts)>) -> Self {
        let devices = Devices::read(objects);
        let of_kind = |kind: &'static str| objects.iter().filter(move |object| text(object, "/kind") == kind);
        let kind = if policy == "queue" { "Queue" } else { "ElasticQuota" };
        let quotas: Vec<Quota> = of_kind(kind)
            .filter(|quota| policy != "queue" || text(quota, "/metadata/name").starts_with("q-"))
            .map(|quota| {
                let (own, max) = if policy == "queue" { ("deserved", "capability") } else { ("min", "max") };
                let name = text(quota, "/metadata/name").to_string();
                let of = |part: &str| amounts(&quota["spec"][part]);
                Quota { name, own: of(own), max: of(max), used: Amounts::new() }
            })
            .collect();
        let pods = of_kind("Pod").filter(|pod| !matches!(text(pod, "/status/phase"), "Succeeded" | "Failed"));
        let pods: Vec<Pod> = pods
            .map(|pod| {
                let namespace = text(pod, "/metadata/namespace");
                let queue = pod["metadata"]["annotations"]["scheduling.volcano.sh/queue-name"].as_str();
                let name = if policy == "queue" { queue.unwrap_or_default() } else { namespace };
                let node = text(pod, "/spec/nodeName");
                let number = |name: &String| devices.claims.iter().position(|claim| claim.key == *name);
                Pod {
                    key: format!("{namespace}/{}", text(pod, "/metadata/name")),
                    uid: text(pod, "/metadata/uid").to_string(),
                    node: (!node.is_empty()).then(|| node.to_string()),
                    quota: quotas.iter().position(|quota| quota.name == name),
                    claims: claim_names(pod).and_then(|names| names.iter().map(number).collect()),
                    extended: extended_request(pod),
                    is_leaving: pod["metadata"].get("deletionTimestamp").is_some(),
                    is_nominated: !text(pod, "/status/nominatedNodeName").is_empty(),
                }
            })
            .collect();
        let nodes = of_kind("Node").map(|node| text(node, "/metadata/name").to_string()).collect();
        let mut judge = Judge { policy, devices, nodes, pods, quotas, reported };
        for at in 0..judge.pods.len() {
            let charge = judge.charge(at);
            if let (Some(quota), Some(_)) = (judge.pods[at].quota, &judge.pods[at].node) {
                add(&mut judge.quotas[quota].used, &charge);
            }
        }
        judge
    }

    /// The pods on nodes that hold a claim, the one that pays for it first.
    fn holders(&self, claim: usize) -> Vec<usize> {
        let of_uid = |uid: &String| self.pods.iter().position(|pod| pod.uid == *uid && pod.node.is_some());
        self.devices.claims[claim].reserved_for.iter().filter_map(of_uid).collect()
    }

    /// What a pod on a node is charged.
    fn charge(&self, pod: usize) -> Amounts {
        let mut charge: Amounts = self.pods[pod].extended.iter().cloned().collect();
        for (at, claim) in self.devices.claims.iter().enumerate() {
            if let Some(held) = &claim.held
                && self.holders(at).first() == Some(&pod)
            {
                add(&mut charge, &self.devices.bill(held, claim.asked.resource.as_deref()));
            }
        }
        charge
    }

    fn differ(&self, all: &mut Vec<Difference>, kind: Kind, what: &str, why: String) {
        all.push(Difference { kind, about: format!("{}: {what}", self.policy), why });
    }

    /// All that is not as it must be.
    pub fn differences(&self) -> Vec<Difference> {
        let mut all = Vec::new();
        self.held_rightly(&mut all);
        self.counted_rightly(&mut all);
        let is_at_rest = self.pods.iter().all(|pod| !pod.is_leaving && !pod.is_nominated);
        if is_at_rest && all.is_empty() {
            for pod in (0..self.pods.len()).filter(|pod| self.pods[*pod].node.is_none()) {
                self.nobody_waits(&mut all, pod);
            }
        }
        all
    }

    /// Devices have one holder, or shares that they have room for; counters are not overdrawn; claims have what they
    /// asked for.
    fn held_rightly(&self, all: &mut Vec<Difference>) {
        for claim in &self.devices.unknown {
            self.differ(all, Kind::Fault, "unknown device", format!("{claim} has a device that is not there"));
        }
        let held = || self.devices.claims.iter().flat_map(|claim| claim.held.iter().flatten());
        let mut drawn: BTreeMap<&str, i128> = BTreeMap::new();
        for (at, device) in self.devices.list.iter().enumerate() {
            let of_device = || held().filter(|held| held.device == at && !held.is_admin);
            let (whole, shares) =
                (of_device().filter(|h| h.share.is_none()).count(), of_device().filter_map(|h| h.share));
            let consumed: i128 = shares.sum();
            if whole > 1 || whole == 1 && of_device().count() > 1 {
                self.differ(all, Kind::Ceiling, "device", format!("{}/{} is held twice", device.pool, device.name));
            }
            if device.mem.is_some_and(|value| consumed > value) {
                self.differ(all, Kind::Ceiling, "capacity", format!("{}/{} is overdrawn", device.pool, device.name));
            }
            if of_device().next().is_some() {
                *drawn.entry(&device.pool).or_default() += device.units;
            }
        }
        for (pool, drawn) in
            drawn.iter().filter(|(pool, drawn)| self.devices.units.get(**pool).is_some_and(|u| u < drawn))
        {
            self.differ(all, Kind::Ceiling, "counter", format!("{drawn} are drawn of {pool}"));
        }
        for (at, claim) in self.devices.claims.iter().enumerate() {
            let Some(held) = &claim.held else { continue };
            // What it has must be one of the choices that there are without it.
            let is_same = |choice: &Vec<Vec<Held>>| {
                let key = |held: &Held| (held.device, held.class.clone(), held.is_admin, held.share);
                let set = |held: &[Held]| held.iter().map(key).collect::<BTreeSet<_>>();
                set(&choice[0]) == set(held)
            };
            let nodes = self.nodes.iter();
            // Others may have come since that admin access looked at.
            let is_any = held.iter().any(|held| held.is_admin)
                || nodes.into_iter().any(|node| {
                    choices(&self.devices, std::slice::from_ref(&claim.asked), node, &[at]).iter().any(is_same)
                });
            if !is_any {
                self.differ(all, Kind::Fault, "allocation", format!("{} has {held:?}, which is no choice", claim.key));
            }
        }
    }

    /// Quotas use what their pods are charged, and no more than they may.
    fn counted_rightly(&self, all: &mut Vec<Difference>) {
        for quota in &self.quotas {
            let reported = self.reported.get(&quota.name).map(|(used, _)| used);
            for resource in quota.own.keys().chain(quota.max.keys()) {
                let ours = quota.used.get(resource).copied().unwrap_or(0);
                let theirs = reported.and_then(|used| used.get(resource)).copied().unwrap_or(0);
                if ours != theirs {
                    let why = format!("{} uses {ours} of {resource}, and is said to use {theirs}", quota.name);
                    self.differ(all, Kind::Fault, "used", why);
                }
            }
            for (resource, max) in &quota.max {
                let used = quota.used.get(resource).copied().unwrap_or(0);
                if used > *max {
                    let why = format!("{} uses {used} of {resource}, of {max}", quota.name);
                    self.differ(all, Kind::Ceiling, "max", why);
                }
            }
        }
        if matches!(self.policy, "elastic" | "fair") {
            for (resource, min) in self.pool() {
                let used: i128 = self.quotas.iter().filter_map(|quota| quota.used.get(&resource)).sum();
                if used > min {
                    self.differ(all, Kind::Ceiling, "pool", format!("{used} of {resource} are used, of {min}"));
                }
            }
        }
    }

    /// What mins sum up to.
    fn pool(&self) -> Amounts {
        let mut pool = Amounts::new();
        self.quotas.iter().for_each(|quota| add(&mut pool, &quota.own));
        pool
    }

    /// Whether ceilings have room for so much more, once these pods are gone.
    fn admits(&self, quota: Option<usize>, charge: &Amounts, gone: &[Amounts], gone_of: &[usize]) -> bool {
        let Some(at) = quota else { return true };
        let quota = &self.quotas[at];
        let less = |of: usize, resource: &String| -> i128 {
            let gone = gone.iter().zip(gone_of).filter(|(_, quota)| **quota == of);
            gone.filter_map(|(charge, _)| charge.get(resource)).sum()
        };
        let uses = |of: usize, r: &String| self.quotas[of].used.get(r).copied().unwrap_or(0) - less(of, r);
        let asks = |r: &String| charge.get(r).copied().unwrap_or(0);
        let limits = match self.policy {
            "tree" => self.reported.get(&quota.name).map(|(_, runtime)| runtime.clone()).unwrap_or_default(),
            _ => quota.max.clone(),
        };
        let within =
            limits.iter().filter(|(r, _)| charge.contains_key(*r)).all(|(r, max)| uses(at, r) + asks(r) <= *max);
        let is_pooled = matches!(self.policy, "elastic" | "fair");
        within
            && (!is_pooled
                || self.pool().iter().filter(|(r, _)| charge.contains_key(*r)).all(|(resource, min)| {
                    (0..self.quotas.len()).map(|of| uses(of, resource)).sum::<i128>() + asks(resource) <= *min
                }))
    }

    /// What a pending pod would be charged on nodes, once these claims hold nothing: for each choice of devices.
    fn charges(&self, pod: usize, gone: &[usize]) -> Vec<Amounts> {
        let known = &self.pods[pod];
        let Some(claims) = &known.claims else { return Vec::new() };
        let mut base: Amounts = known.extended.iter().cloned().collect();
        let (mut open, mut pinned): (Vec<Asked>, Vec<&str>) = (Vec::new(), Vec::new());
        for claim in claims {
            let claim_of = &self.devices.claims[*claim];
            match claim_of.held.as_ref().filter(|_| !gone.contains(claim)) {
                Some(held) => {
                    let nodes = held.iter().filter_map(|held| self.devices.list[held.device].node.as_deref());
                    pinned.extend(nodes);
                    if self.holders(*claim).is_empty() {
                        add(&mut base, &self.devices.bill(held, None));
                    }
                }
                None => open.push(claim_of.asked.clone()),
            }
        }
        let is_served =
            |name: &String| Some(name) == self.devices.extended.as_ref() || name == crate::claims::case::IMPLICIT;
        if let Some((resource, count)) = &known.extended {
            // Without a class for it no node has the resource.
            if !is_served(resource) {
                return Vec::new();
            }
            let count = u64::try_from(*count).unwrap_or(0);
            let way =
                Way { name: "r".to_string(), class: "any".to_string(), count: Some(count), is_admin: false, mem: None };
            open.push(Asked { requests: vec![vec![way]], is_matched: false, resource: Some(resource.clone()) });
        }
        let mut charges: Vec<Amounts> = Vec::new();
        for node in self.nodes.iter().filter(|node| pinned.iter().all(|pin| pin == node)) {
            for choice in choices(&self.devices, &open, node, gone) {
                let mut charge = base.clone();
                for (held, asked) in choice.iter().zip(&open) {
                    add(&mut charge, &self.devices.bill(held, asked.resource.as_deref()));
                }
                charge.retain(|_, amount| *amount > 0);
                if !charges.contains(&charge) {
                    charges.push(charge);
                }
            }
        }
        charges
    }

    /// A pending pod waits beside nothing that is free, nor beside what others borrow that it is owed.
    fn nobody_waits(&self, all: &mut Vec<Difference>, pod: usize) {
        let known = &self.pods[pod];
        if let Some(charge) =
            self.charges(pod, &[]).into_iter().find(|charge| self.admits(known.quota, charge, &[], &[]))
        {
            let why = format!("{} waits beside free devices: {charge:?}", known.key);
            return self.differ(all, Kind::Room, "free", why);
        }
        if !matches!(self.policy, "elastic" | "queue") || known.quota.is_none() {
            return;
        }
        let units = self.units(known.quota);
        let sets = (1_u32..1 << units.len().min(7)).map(|bits| {
            (0..units.len()).filter(|unit| bits >> unit & 1 == 1).map(|unit| &units[unit]).collect::<Vec<_>>()
        });
        for set in sets {
            let gone: Vec<usize> = set.iter().flat_map(|unit| &unit.claims).copied().collect();
            let charges: Vec<Amounts> = set.iter().map(|unit| unit.charge.clone()).collect();
            let of: Vec<usize> = set.iter().map(|unit| unit.quota).collect();
            let owed = self.charges(pod, &gone).into_iter().find(|charge| {
                let compared = self.compared(known.quota.unwrap_or_default(), charge);
                !compared.is_empty()
                    && self.gives(&charges, &of, &compared)
                    && self.admits(known.quota, charge, &charges, &of)
            });
            if let Some(charge) = owed {
                let names: Vec<&str> =
                    set.iter().flat_map(|unit| &unit.pods).map(|pod| &*self.pods[*pod].key).collect();
                let why = format!("{} is owed {charge:?}, and {} hold it", known.key, names.join(", "));
                return self.differ(all, Kind::NoClaim, "owed", why);
            }
        }
    }

    /// By which resources a quota is entitled to so much more.
    fn compared(&self, quota: usize, charge: &Amounts) -> Vec<String> {
        let quota = &self.quotas[quota];
        let stays = |r: &String| {
            let used = quota.used.get(r).copied().unwrap_or(0);
            quota.own.get(r).is_some_and(|own| used + charge[r] <= *own)
        };
        let pool = self.pool();
        let named: Vec<String> = charge.keys().filter(|r| pool.contains_key(*r)).cloned().collect();
        match self.policy {
            // Of every governed resource that is requested.
            "elastic" if !named.iter().all(stays) => Vec::new(),
            "elastic" => named,
            _ => named.into_iter().filter(|r| stays(r)).collect(),
        }
    }

    /// Whether these can go in some order in which each finds its quota above what it is entitled to, of something that
    /// is compared and that it holds.
    fn gives(&self, charges: &[Amounts], of: &[usize], compared: &[String]) -> bool {
        let mut left: Vec<usize> = (0..charges.len()).collect();
        while !left.is_empty() {
            let may_go_last = |at: &usize| {
                compared.iter().any(|r| {
                    let quota = &self.quotas[of[*at]];
                    let others = left.iter().filter(|other| *other != at && of[**other] == of[*at]);
                    let gone: i128 = others.filter_map(|other| charges[*other].get(r)).sum();
                    let used = quota.used.get(r).copied().unwrap_or(0) - gone;
                    charges[*at].get(r).is_some_and(|own| *own > 0) && used > quota.own.get(r).copied().unwrap_or(0)
                })
            };
            let Some(place) = left.iter().position(may_go_last) else { return false };
            left.remove(place);
        }
        true
    }

    /// The pods of other quotas, those that hold claims together as one.
    fn units(&self, claimant: Option<usize>) -> Vec<Unit> {
        let mut units: Vec<Unit> = Vec::new();
        for (at, pod) in self.pods.iter().enumerate() {
            let Some(quota) = pod.quota.filter(|quota| Some(*quota) != claimant && pod.node.is_some()) else {
                continue;
            };
            if units.iter().any(|unit| unit.pods.contains(&at)) {
                continue;
            }
            let mut unit = Unit { quota, pods: vec![at], claims: Vec::new(), charge: Amounts::new() };
            let mut next = 0;
            while let Some(pod) = unit.pods.get(next).copied() {
                next += 1;
                for claim in 0..self.devices.claims.len() {
                    let holders = self.holders(claim);
                    if holders.contains(&pod) && !unit.claims.contains(&claim) {
                        unit.claims.push(claim);
                        let more: Vec<usize> = holders.into_iter().filter(|other| !unit.pods.contains(other)).collect();
                        unit.pods.extend(more);
                    }
                }
            }
            unit.pods.iter().for_each(|pod| add(&mut unit.charge, &self.charge(*pod)));
            units.push(unit);
        }
        units
    }
}

/// Pods that go as one.
struct Unit {
    quota: usize,
    pods: Vec<usize>,
    claims: Vec<usize>,
    charge: Amounts,
}

/// Amounts as a report prints them.
pub fn reported(quantities: impl Iterator<Item = (String, String)>) -> Amounts {
    quantities.filter_map(|(name, text)| Some((name.clone(), amount(&name, &Value::from(text))?))).collect()
}
