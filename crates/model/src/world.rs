//! A cluster as its objects describe it: nodes, pods, quotas, gangs and disruption budgets.
//!
//! This reads Kubernetes objects by itself, from the documents of the five systems; it shares nothing with the
//! program that is compared. What it does not understand it says in `unmodelled`, and nothing is claimed of such a
//! pod.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use crate::amount::{Amounts, add, amounts};
use crate::quota::{Policy, Quota, read_quotas};

/// The resource that whole cards are asked for by.
pub const GPU: &str = "nvidia.com/gpu";
const PRODUCT: &str = "nvidia.com/gpu.product";
const TREE: &str = "quota.scheduling.koordinator.sh";

#[derive(Debug, Clone)]
pub struct Node {
    pub name: String,
    pub labels: BTreeMap<String, String>,
    pub allocatable: Amounts,
    /// The name of its cards, if it has any.
    pub card: Option<String>,
    /// It has taints, caps or conditions that the model does not know.
    pub unmodelled: bool,
}

#[derive(Debug, Clone)]
pub struct Pod {
    pub namespace: String,
    pub name: String,
    pub uid: String,
    /// Creation time: seconds as text, then the fraction. Later is larger.
    pub created: (String, String),
    pub priority: i64,
    /// What it asks for, amounts above 0 only.
    pub requests: Amounts,
    pub node: Option<usize>,
    pub leaving: bool,
    pub ended: bool,
    /// The node that is reserved for it.
    pub claim: Option<usize>,
    pub selector: BTreeMap<String, String>,
    pub labels: BTreeMap<String, String>,
    /// The kinds of card it accepts, in order; empty: any.
    pub cards: Vec<String>,
    pub gang: Option<usize>,
    /// The quotas that it answers to directly, one for each policy at most.
    pub quotas: Vec<usize>,
    /// `preemptionPolicy: Never`.
    pub never_preempts: bool,
    /// It says that it must not be evicted.
    pub not_preemptable: bool,
    /// It says so by Koordinator's label, which a tree holds to its min.
    pub held_to_min: bool,
    /// Whether something makes it anew.
    pub owned: bool,
    pub unmodelled: bool,
}

impl Pod {
    /// `namespace/name`.
    pub fn key(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    pub fn pending(&self) -> bool {
        self.node.is_none() && !self.ended && !self.leaving
    }

    /// It is on a node and counts there.
    pub fn holds(&self) -> bool {
        self.node.is_some() && !self.ended
    }
}

#[derive(Debug, Clone)]
pub struct Gang {
    pub namespace: String,
    pub name: String,
    /// How many pods it takes to run.
    pub minimum: usize,
}

#[derive(Debug, Clone)]
pub struct Budget {
    pub namespace: String,
    pub labels: BTreeMap<String, String>,
    /// How many of its pods may go now.
    pub allowed: i128,
}

impl Budget {
    pub fn selects(&self, pod: &Pod) -> bool {
        pod.namespace == self.namespace && self.labels.iter().all(|(key, value)| pod.labels.get(key) == Some(value))
    }
}

#[derive(Debug, Clone, Default)]
pub struct World {
    pub nodes: Vec<Node>,
    pub pods: Vec<Pod>,
    pub quotas: Vec<Quota>,
    pub gangs: Vec<Gang>,
    pub budgets: Vec<Budget>,
}

/// Pods on nodes: the index of the pod, the index of its node.
pub type Held = BTreeMap<usize, usize>;

impl World {
    /// The cluster of these objects.
    pub fn read(objects: &[Arc<Value>]) -> World {
        let of_kind = |kind: &'static str| objects.iter().filter(move |object| text(object, "/kind") == kind);
        let mut world = World {
            nodes: of_kind("Node").map(|object| node(object)).collect(),
            quotas: read_quotas(objects),
            gangs: of_kind("PodGroup").map(|object| gang(object)).collect(),
            budgets: of_kind("PodDisruptionBudget").map(|object| budget(object)).collect(),
            pods: Vec::new(),
        };
        let namespaces: BTreeMap<&str, &Value> =
            of_kind("Namespace").map(|object| (text(object, "/metadata/name"), object.as_ref())).collect();
        let groups: BTreeMap<(&str, &str), &Value> = of_kind("PodGroup")
            .map(|object| ((text(object, "/metadata/namespace"), text(object, "/metadata/name")), object.as_ref()))
            .collect();
        let pods: Vec<Pod> = of_kind("Pod").map(|object| world.pod(object, &namespaces, &groups)).collect();
        world.pods = pods;
        world
    }

    fn pod(&self, object: &Value, namespaces: &BTreeMap<&str, &Value>, groups: &BTreeMap<(&str, &str), &Value>) -> Pod {
        let namespace = text(object, "/metadata/namespace").to_string();
        let annotation = |name: &str| object["metadata"]["annotations"][name].as_str();
        let group = annotation("scheduling.k8s.io/group-name").or(annotation("scheduling.volcano.sh/group-name"));
        let gang = group
            .and_then(|group| self.gangs.iter().position(|gang| gang.namespace == namespace && gang.name == group));
        let queue_name = "scheduling.volcano.sh/queue-name";
        let group_queue = group.map(|group| {
            let queue = groups.get(&(namespace.as_str(), group)).map_or("", |group| text(group, "/spec/queue"));
            if queue.is_empty() { "default" } else { queue }
        });
        let namespace_queue =
            namespaces.get(namespace.as_str()).and_then(|ns| ns["metadata"]["annotations"][queue_name].as_str());
        let queue = group_queue.or(annotation(queue_name)).or(namespace_queue).unwrap_or("default");
        let tree = object["metadata"]["labels"][format!("{TREE}/name")].as_str();
        let node_index = |name: &str| self.nodes.iter().position(|node| node.name == name);
        let held_to_min = text_of(object, &format!("{TREE}/preemptible")) == Some("false");
        let named = text(object, "/spec/nodeName");
        Pod {
            name: text(object, "/metadata/name").to_string(),
            uid: text(object, "/metadata/uid").to_string(),
            created: created(text(object, "/metadata/creationTimestamp")),
            priority: object["spec"]["priority"].as_i64().unwrap_or(0),
            requests: requests(object),
            node: node_index(named),
            leaving: object["metadata"].get("deletionTimestamp").is_some_and(|stamp| !stamp.is_null()),
            // One on a node that does not exist counts nowhere, and waits for nothing.
            ended: matches!(text(object, "/status/phase"), "Succeeded" | "Failed")
                || !named.is_empty() && node_index(named).is_none(),
            claim: node_index(text(object, "/status/nominatedNodeName")),
            selector: texts(&object["spec"]["nodeSelector"]),
            labels: texts(&object["metadata"]["labels"]),
            cards: annotation("volcano.sh/card.name")
                .map_or_else(Vec::new, |names| names.split('|').map(|name| name.trim().to_string()).collect()),
            quotas: self.quotas_of(&namespace, tree, queue),
            never_preempts: text(object, "/spec/preemptionPolicy") == "Never",
            not_preemptable: held_to_min || annotation("volcano.sh/preemptable") == Some("false"),
            held_to_min,
            owned: object["metadata"]["ownerReferences"].as_array().is_some_and(|owners| !owners.is_empty()),
            unmodelled: self.unmodelled(object, tree, queue, group.is_some() && gang.is_none()),
            gang: gang.filter(|gang| self.gangs[*gang].minimum > 1),
            namespace,
        }
    }

    /// "A pod may answer to several quotas (its namespace's ElasticQuota, its queue, its tree)."
    fn quotas_of(&self, namespace: &str, tree: Option<&str>, queue: &str) -> Vec<usize> {
        let mut found: Vec<usize> = Vec::new();
        for (index, quota) in self.quotas.iter().enumerate() {
            let governs = match quota.policy {
                Policy::Elastic | Policy::Fair => quota.namespaces.iter().any(|name| name == namespace),
                Policy::Queue => quota.name == queue,
                Policy::Tree => match tree {
                    Some(name) => quota.name == name,
                    None => {
                        let own = |quota: &Quota| quota.name == namespace && quota.namespace == namespace;
                        let named = self.quotas.iter().any(|quota| quota.policy == Policy::Tree && own(quota));
                        own(quota) || !named && quota.namespaces.iter().any(|name| name == namespace)
                    }
                },
            };
            if governs {
                found.push(index);
            }
        }
        found
    }

    /// Whether something about the pod is outside the model.
    fn unmodelled(&self, object: &Value, tree: Option<&str>, queue: &str, group_missing: bool) -> bool {
        let spec = &object["spec"];
        let unknown_parts = ["affinity", "topologySpreadConstraints", "initContainers", "overhead", "volumes"];
        let missing_tree = tree
            .is_some_and(|name| !self.quotas.iter().any(|quota| quota.policy == Policy::Tree && quota.name == name));
        let queues = || self.quotas.iter().filter(|quota| quota.policy == Policy::Queue);
        let missing_queue = queue != "default" && !queues().any(|quota| quota.name == queue);
        let inner_queue = queues().any(|quota| quota.parent.is_some_and(|parent| self.quotas[parent].name == queue));
        let closed = queues().any(|quota| quota.name == queue && !quota.open);
        let ports = spec["containers"].as_array().is_some_and(|all| all.iter().any(|one| !one["ports"].is_null()));
        let gated = spec["schedulingGates"].as_array().is_some_and(|gates| !gates.is_empty());
        // One that names a card and asks for none is told so, and waits.
        let names_card = object["metadata"]["annotations"]["volcano.sh/card.name"].is_string();
        let asks_for_card = requests(object).iter().any(|(name, amount)| name.contains("gpu") && *amount > 0);
        names_card && !asks_for_card
            || unknown_parts.iter().any(|part| !spec[*part].is_null())
            || missing_tree
            || missing_queue
            || inner_queue
            || closed
            || group_missing
            || ports
            || gated
            || !spec["schedulingGroup"].is_null()
            || object["metadata"]["annotations"].get("quotient.dev/mixed-cards").is_some()
    }

    /// What the pods hold now; leaving pods count.
    pub fn held_now(&self) -> Held {
        let pods = self.pods.iter().enumerate();
        pods.filter(|(_, pod)| pod.holds()).filter_map(|(index, pod)| Some((index, pod.node?))).collect()
    }

    /// What will be held when all have come and gone: leaving pods are gone, claimants are where they claim.
    pub fn held_then(&self, except: &[usize]) -> Held {
        let pods = self.pods.iter().enumerate();
        pods.filter(|(index, pod)| !pod.ended && !pod.leaving && !except.contains(index))
            .filter_map(|(index, pod)| Some((index, pod.node.or(pod.claim)?)))
            .collect()
    }

    /// The pods that are on a node and not on their way out.
    pub fn held_staying(&self) -> Held {
        let pods = self.pods.iter().enumerate();
        pods.filter(|(_, pod)| pod.holds() && !pod.leaving)
            .filter_map(|(index, pod)| Some((index, pod.node?)))
            .collect()
    }

    pub fn find(&self, key: &str) -> Option<usize> {
        self.pods.iter().position(|pod| pod.key() == key)
    }

    /// "A pod is charged for the card of the node it holds": its requests, and its cards by their name.
    pub fn charge(&self, pod: usize, node: usize) -> Amounts {
        let mut charge = self.pods[pod].requests.clone();
        if let Some(card) = &self.nodes[node].card
            && let Some(count) = self.pods[pod].requests.get(GPU)
        {
            charge.insert(card.clone(), *count);
        }
        charge
    }

    /// What a pod is charged of one resource or card.
    pub fn charged(&self, pod: usize, node: usize, resource: &str) -> i128 {
        let requests = &self.pods[pod].requests;
        let name = if self.nodes[node].card.as_deref() == Some(resource) { GPU } else { resource };
        requests.get(name).copied().unwrap_or(0)
    }

    /// What pods together are charged on their nodes.
    pub fn charge_of(&self, placed: &[(usize, usize)]) -> Amounts {
        let mut sum = Amounts::new();
        for (pod, node) in placed {
            add(&mut sum, &self.charge(*pod, *node));
        }
        sum
    }

    /// A quota and those above it.
    pub fn chain(&self, quota: usize) -> Vec<usize> {
        let mut chain = vec![quota];
        while let Some(parent) = self.quotas[chain[chain.len() - 1]].parent {
            if chain.contains(&parent) {
                break;
            }
            chain.push(parent);
        }
        chain
    }

    /// Whether a pod counts in a quota, directly or below it.
    pub fn in_quota(&self, pod: usize, quota: usize) -> bool {
        self.pods[pod].quotas.iter().any(|leaf| {
            let mut at = Some(*leaf);
            // A chain is not longer than there are quotas.
            for _ in 0..self.quotas.len() {
                match at {
                    Some(found) if found == quota => return true,
                    Some(found) => at = self.quotas[found].parent,
                    None => break,
                }
            }
            false
        })
    }

    /// What a quota's pods hold of a resource.
    pub fn used(&self, held: &Held, quota: usize, resource: &str) -> i128 {
        let pods = held.iter().filter(|(pod, _)| self.in_quota(**pod, quota));
        pods.map(|(pod, node)| self.charged(*pod, *node, resource)).sum()
    }

    /// The quotas of a pod that count: "a queue without capability, deserved, guarantee and card quota counts as no
    /// quota".
    pub fn counting_quotas(&self, pod: usize) -> Vec<usize> {
        self.pods[pod].quotas.iter().copied().filter(|quota| !self.quotas[*quota].says_nothing()).collect()
    }

    /// Everything there is of a resource, or of a card by its name.
    pub fn total(&self, resource: &str) -> i128 {
        let of = |node: &Node| match &node.card {
            Some(card) if card == resource => node.allocatable.get(GPU).copied().unwrap_or(0),
            _ => node.allocatable.get(resource).copied().unwrap_or(0),
        };
        self.nodes.iter().map(of).sum()
    }

    pub fn is_card(&self, resource: &str) -> bool {
        self.nodes.iter().any(|node| node.card.as_deref() == Some(resource))
    }

    /// Members of a gang that are on nodes and stay.
    pub fn running_members(&self, gang: usize) -> Vec<usize> {
        let of_gang = |index: &usize| self.pods[*index].gang == Some(gang);
        self.held_staying().into_keys().filter(of_gang).collect()
    }
}

pub fn text<'a>(object: &'a Value, path: &str) -> &'a str {
    object.pointer(path).and_then(Value::as_str).unwrap_or("")
}

fn text_of<'a>(object: &'a Value, label: &str) -> Option<&'a str> {
    object["metadata"]["labels"][label].as_str()
}

pub fn texts(value: &Value) -> BTreeMap<String, String> {
    let entries = value.as_object().into_iter().flatten();
    entries.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_string()))).collect()
}

/// A creation time that compares: `2026-01-01T00:00:00Z` is before `2026-01-01T00:00:00.000001Z`.
fn created(stamp: &str) -> (String, String) {
    let stamp = stamp.trim_end_matches('Z');
    let (seconds, fraction) = stamp.split_once('.').unwrap_or((stamp, ""));
    (seconds.to_string(), format!("{fraction:0<9}"))
}

fn node(object: &Value) -> Node {
    let labels = texts(&object["metadata"]["labels"]);
    let not_empty = |value: &Value| value.as_array().is_some_and(|list| !list.is_empty());
    Node {
        name: text(object, "/metadata/name").to_string(),
        allocatable: amounts(&object["status"]["allocatable"]),
        card: labels.get(PRODUCT).cloned(),
        unmodelled: not_empty(&object["spec"]["taints"]) || object["spec"]["unschedulable"] == true,
        labels,
    }
}

fn requests(object: &Value) -> Amounts {
    let mut sum = Amounts::new();
    for container in object["spec"]["containers"].as_array().into_iter().flatten() {
        let mut own = amounts(&container["resources"]["limits"]);
        own.extend(amounts(&container["resources"]["requests"]));
        add(&mut sum, &own);
    }
    sum.retain(|_, amount| *amount > 0);
    sum
}

fn gang(object: &Value) -> Gang {
    Gang {
        namespace: text(object, "/metadata/namespace").to_string(),
        name: text(object, "/metadata/name").to_string(),
        minimum: usize::try_from(object["spec"]["minMember"].as_u64().unwrap_or(0)).unwrap_or(0),
    }
}

fn budget(object: &Value) -> Budget {
    Budget {
        namespace: text(object, "/metadata/namespace").to_string(),
        labels: texts(&object["spec"]["selector"]["matchLabels"]),
        allowed: i128::from(object["status"]["disruptionsAllowed"].as_i64().unwrap_or(0)),
    }
}
