//! Looks at the API server's objects only, and says what must never be so. It shares nothing with the scheduler: sums
//! are made anew from the objects at every change.

use std::collections::{BTreeMap, BTreeSet};

use quotient_api::ObjectKey;
use quotient_sim::store::Store;
use serde_json::Value;

use crate::storm::town::{Entry, Rules};

/// A limit that was lowered may not have been seen by who decided so long before.
const SEEN_WITHIN_MS: u64 = 30_000;

#[derive(Debug)]
pub struct Observer {
    rules: Rules,
    /// What was wrong, in the order it was found.
    pub faults: Vec<String>,
    /// Nodes of pods by uid.
    nodes: BTreeMap<String, String>,
    /// The limits of each team, with when they were set.
    limits: BTreeMap<String, Vec<(u64, Limits)>>,
    /// Evictions: when, the victim, and who it was for.
    evictions: BTreeMap<String, (u64, String, ObjectKey)>,
    /// When pods were bound, by key.
    bound: BTreeMap<ObjectKey, u64>,
    /// When pods went, by key.
    gone: BTreeMap<ObjectKey, u64>,
    /// When people last changed quotas or nodes, and when a pod came last.
    changed_ms: u64,
    came_ms: u64,
    pub binds: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Limits {
    min: i64,
    max: i64,
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// The cores that a pod asks for.
fn cpu(pod: &Value) -> i64 {
    let containers = pod.pointer("/spec/containers").and_then(Value::as_array);
    let asked = |container: &Value| text(container, "/resources/requests/cpu").parse::<i64>().unwrap_or(0);
    containers.into_iter().flatten().map(asked).sum()
}

fn is_over(pod: &Value) -> bool {
    matches!(text(pod, "/status/phase"), "Succeeded" | "Failed")
}

/// The pods that hold something: those with a node that have not ended.
fn holding(store: &Store) -> impl Iterator<Item = (&ObjectKey, &Value)> {
    let pods = store.pods().map(|(key, pod)| (key, &**pod));
    pods.filter(|(_, pod)| !text(pod, "/spec/nodeName").is_empty() && !is_over(pod))
}

fn held_by(store: &Store, namespace: &str) -> i64 {
    holding(store).filter(|(key, _)| key.namespace.as_deref() == Some(namespace)).map(|(_, pod)| cpu(pod)).sum()
}

impl Observer {
    pub fn of(rules: Rules) -> Self {
        Observer {
            rules,
            faults: Vec::new(),
            nodes: BTreeMap::new(),
            limits: BTreeMap::new(),
            evictions: BTreeMap::new(),
            bound: BTreeMap::new(),
            gone: BTreeMap::new(),
            changed_ms: 0,
            came_ms: 0,
            binds: 0,
        }
    }

    /// Takes in a change, with all objects as they are after it.
    pub fn see(&mut self, entry: &Entry, store: &Store) {
        let Entry { at_ms, key, object, is_gone } = entry;
        match (key.group, key.kind) {
            ("", "Pod") => self.see_pod(*at_ms, key, object, *is_gone, store),
            ("", "Node") => self.changed_ms = *at_ms,
            ("scheduling.x-k8s.io" | "scheduling.sigs.k8s.io", "ElasticQuota") | ("scheduling.volcano.sh", "Queue") => {
                let (min, max) = match self.rules {
                    Rules::Queues => ("/spec/deserved/cpu", "/spec/capability/cpu"),
                    Rules::Elastic | Rules::Tree => ("/spec/min/cpu", "/spec/max/cpu"),
                };
                let team = key.namespace.as_deref().unwrap_or(&key.name).to_string();
                // Roots and default queues limit nobody here.
                if *is_gone || !team.starts_with("team-") {
                    return;
                }
                let amount = |field: &str| text(object, field).parse().unwrap_or(0);
                let limits = Limits { min: amount(min), max: amount(max) };
                let known = self.limits.entry(team).or_default();
                if known.last().map(|(_, last)| *last) != Some(limits) {
                    known.push((*at_ms, limits));
                    self.changed_ms = *at_ms;
                }
            }
            _ => {}
        }
    }

    fn see_pod(&mut self, now: u64, key: &ObjectKey, pod: &Value, is_gone: bool, store: &Store) {
        let uid = text(pod, "/metadata/uid").to_string();
        if is_gone {
            self.gone.insert(key.clone(), now);
            return;
        }
        self.note_eviction(now, &uid, key, pod);
        let node = text(pod, "/spec/nodeName");
        if node.is_empty() {
            self.came_ms = if self.bound.contains_key(key) { self.came_ms } else { now.max(self.came_ms) };
            return;
        }
        match self.nodes.get(&uid) {
            Some(known) if known == node => return,
            Some(known) => self.faults.push(format!("{now}: {key} was bound to {known}, and then to {node}")),
            None => {}
        }
        self.nodes.insert(uid, node.to_string());
        self.bound.insert(key.clone(), now);
        self.binds += 1;
        self.check_node(now, key, node, store);
        self.check_limits(now, key, store);
    }

    fn note_eviction(&mut self, now: u64, uid: &str, key: &ObjectKey, pod: &Value) {
        let conditions = pod.pointer("/status/conditions").and_then(Value::as_array);
        let is_victim = |condition: &&Value| text(condition, "/reason") == "PreemptionByScheduler";
        let Some(condition) = conditions.into_iter().flatten().find(is_victim) else { return };
        let named = text(condition, "/message").split_whitespace().find_map(|word| {
            let (namespace, name) = word.trim_matches(|c: char| !c.is_ascii_alphanumeric()).split_once('/')?;
            Some(ObjectKey::pod(namespace, name))
        });
        match named {
            Some(claimant) => {
                self.evictions.entry(uid.to_string()).or_insert((now, key.to_string(), claimant));
            }
            None => self.faults.push(format!("{now}: {key} was evicted, and does not say for whom")),
        }
    }

    fn check_node(&mut self, now: u64, key: &ObjectKey, node: &str, store: &Store) {
        let Some(object) = store.get(&ObjectKey::node(node)) else { return };
        let has: i64 = text(object, "/status/allocatable/cpu").parse().unwrap_or(0);
        let held: i64 =
            holding(store).filter(|(_, pod)| text(pod, "/spec/nodeName") == node).map(|(_, pod)| cpu(pod)).sum();
        if held > has {
            self.faults.push(format!("{now}: {node} holds {held} of {has} cores after {key} was bound"));
        }
    }

    /// No quota passes its max, and all together not the sum of their mins, through a bind.
    fn check_limits(&mut self, now: u64, key: &ObjectKey, store: &Store) {
        let namespace = key.namespace.as_deref().unwrap_or_default();
        let Some(limits) = self.limits.get(namespace) else { return };
        let max = recent(limits, now, |limits| limits.max);
        let held = held_by(store, namespace);
        if held > max {
            self.faults.push(format!("{now}: {namespace} holds {held} of {max} cores after {key} was bound"));
        }
        let pool: i64 = self.limits.values().map(|limits| recent(limits, now, |limits| limits.min)).sum();
        let all: i64 = self.limits.keys().map(|namespace| held_by(store, namespace)).sum();
        if self.rules == Rules::Elastic && all > pool {
            self.faults.push(format!("{now}: the pool holds {all} of {pool} cores after {key} was bound"));
        }
    }

    /// Looks at a cluster that is at rest: everything runs that can, and nobody went for nothing.
    pub fn check_rest(&mut self, now: u64, store: &Store) {
        let pending: Vec<(&ObjectKey, &Value)> = store
            .pods()
            .map(|(key, pod)| (key, &**pod))
            .filter(|(_, pod)| text(pod, "/spec/nodeName").is_empty() && !is_over(pod))
            .collect();
        let all: i64 = self.limits.keys().map(|namespace| held_by(store, namespace)).sum();
        let pool: i64 = self.limits.values().filter_map(|limits| limits.last()).map(|(_, limits)| limits.min).sum();
        let mut free: BTreeMap<&str, i64> = BTreeMap::new();
        for (key, node) in store.of_kind("", "Node", None) {
            free.insert(&key.name, text(node, "/status/allocatable/cpu").parse().unwrap_or(0));
        }
        for (_, pod) in holding(store) {
            *free.entry(text(pod, "/spec/nodeName")).or_default() -= cpu(pod);
        }
        let all_held: i64 = holding(store).map(|(_, pod)| cpu(pod)).sum();
        let outside = all_held - all;
        let total: i64 = store
            .of_kind("", "Node", None)
            .map(|(_, node)| text(node, "/status/allocatable/cpu").parse::<i64>().unwrap_or(0))
            .sum();
        for (key, pod) in &pending {
            let namespace = key.namespace.as_deref().unwrap_or_default();
            let asked = cpu(pod);
            let limits = self.limits.get(namespace).and_then(|limits| limits.last());
            let may = limits.is_none_or(|(_, limits)| {
                let held = held_by(store, namespace) + asked;
                match self.rules {
                    Rules::Elastic => held <= limits.max && all + asked <= pool,
                    // A member of a gang that is not running waits for the others.
                    Rules::Queues => held <= limits.max && !is_held_by_its_gang(store, key, pod),
                    // How much a tree lends beyond min is its own affair, and where mins are more than what pods
                    // without a quota leave they are scaled down.
                    Rules::Tree => held <= limits.min && pool + outside <= total,
                }
            });
            let fits = free.values().any(|free| *free >= asked);
            if may && fits {
                self.faults.push(format!("{now}: {key} waits though it could run"));
            }
        }
        self.check_gangs(now, store);
        let waits: BTreeSet<&ObjectKey> = pending.iter().map(|(key, _)| *key).collect();
        for (at, victim, claimant) in self.evictions.values() {
            let came = self.bound.get(claimant).is_some_and(|bound| bound >= at);
            let went = self.gone.get(claimant).is_some_and(|gone| gone >= at);
            // Another who came later, or a limit that was changed, may have taken what was freed.
            let changed = self.changed_ms > *at || self.came_ms > *at;
            if !came && !went && !changed && waits.contains(claimant) {
                self.faults.push(format!("{at}: {victim} was evicted for {claimant}, which was never bound"));
            }
        }
        let named = |key: &ObjectKey| store.get(key).is_some();
        let leaving =
            store.pods().filter(|(key, pod)| named(key) && !text(pod, "/metadata/deletionTimestamp").is_empty());
        self.faults.extend(leaving.map(|(key, _)| format!("{now}: {key} leaves for ever")).collect::<Vec<_>>());
    }
}

impl Observer {
    /// Of a gang whose pods are all there either as many run as it needs, or none.
    fn check_gangs(&mut self, now: u64, store: &Store) {
        // Who was bound to a node that went, went with it.
        for (group, object) in store.of_kind("scheduling.volcano.sh", "PodGroup", None) {
            let (needed, members) = (minimum(object), members(store, group));
            let has_lost = self.gone.keys().any(|key| key.namespace == group.namespace && is_member(group, &key.name));
            let is_whole = !has_lost && members.iter().all(|pod| !is_over(pod));
            let running = members.iter().filter(|pod| !text(pod, "/spec/nodeName").is_empty()).count();
            if is_whole && running > 0 && running < needed {
                self.faults.push(format!("{now}: {running} of the {needed} pods that {group} needs run"));
            }
        }
    }
}

/// Whether a pod's name says that it was made for this group.
fn is_member(group: &ObjectKey, pod: &str) -> bool {
    pod.strip_prefix(&*group.name).is_some_and(|rest| rest.starts_with('-'))
}

fn members<'a>(store: &'a Store, group: &ObjectKey) -> Vec<&'a Value> {
    let of_group = |key: &ObjectKey| key.namespace == group.namespace && is_member(group, &key.name);
    store.pods().filter(|(key, _)| of_group(key)).map(|(_, pod)| &**pod).collect()
}

fn minimum(group: &Value) -> usize {
    group.pointer("/spec/minMember").and_then(Value::as_u64).map_or(1, |members| members as usize)
}

/// Whether a pod belongs to a gang of which fewer run than it needs.
fn is_held_by_its_gang(store: &Store, key: &ObjectKey, pod: &Value) -> bool {
    let annotations = &pod["metadata"]["annotations"];
    let Some(name) = annotations["scheduling.k8s.io/group-name"].as_str() else { return false };
    let groups = store.of_kind("scheduling.volcano.sh", "PodGroup", None);
    let mut own = groups.into_iter().filter(|(group, _)| group.namespace == key.namespace && &*group.name == name);
    own.next().is_some_and(|(group, object)| {
        let members = members(store, group);
        members.iter().filter(|pod| !text(pod, "/spec/nodeName").is_empty()).count() < minimum(object)
    })
}

/// The highest value that was in force within the time in which it may not have been seen that it changed.
fn recent(limits: &[(u64, Limits)], now: u64, of: impl Fn(&Limits) -> i64) -> i64 {
    let until = |index: usize| limits.get(index + 1).map_or(u64::MAX, |(at, _)| *at);
    let values = limits.iter().enumerate().filter(|(index, _)| until(*index).saturating_add(SEEN_WITHIN_MS) >= now);
    values.map(|(_, (_, limits))| of(limits)).max().unwrap_or(0)
}
