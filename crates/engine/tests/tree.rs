//! Quota trees over random histories: what quotas may hold is what a plain recount of the whole forest gives, in
//! whatever order it became known; no bind passes it; nobody is evicted without a right to it; evictions end.
//!
//! The rules are written here once more, naively, over the objects themselves.

use crate::cases;
use crate::samples;
use crate::server;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use cases::cases;
use proptest::prelude::*;
use quotient_engine::fact::*;
use quotient_engine::{Budget, Decision, Engine, Fact, QuotaReport, Rule, Settings, TreeSettings};
use samples::samples;
use server::{Common, Server, WELL, acts, class_of};

const RESOURCES: [&str; 2] = ["cpu", "example.com/gpu"];
const DEFAULT: &str = "koordinator-default-quota";
const SYSTEM: &str = "koordinator-system-quota";
const GROUP: &str = "scheduling.sigs.k8s.io";
/// The quotas: two that are meant as parents, leaves, one that is named like its namespace, the root of a tree, and
/// those beside the default tree.
const NAMES: [&str; 9] = ["q0", "q1", "q2", "q3", "q4", "a", "r", DEFAULT, SYSTEM];
const PODS_MAX: usize = 9;
const REVOKE_AFTER: u64 = 1_000;

#[derive(Debug, Clone)]
enum Step {
    Common(Common),
    Quota(TreeFact),
    DropQuota(usize),
    /// A pod is labelled to answer to another quota.
    Relabel(usize, Option<Name>),
}

fn name(text: &str) -> Name {
    Name::from(text)
}

fn key(index: usize) -> QuotaKey {
    let namespace = if NAMES[index] == "a" { "a" } else { "quotas" };
    QuotaKey { kind: name("ElasticQuota"), group: name(GROUP), namespace: name(namespace), name: name(NAMES[index]) }
}

fn is_beside(quota: &TreeFact) -> bool {
    matches!(&*quota.key.name, DEFAULT | SYSTEM)
}

/// The forest as the objects have it, worked out from nothing.
struct Forest<'a> {
    server: &'a Server,
    scale_min: bool,
    quotas: BTreeMap<&'a str, &'a TreeFact>,
}

impl<'a> Forest<'a> {
    fn new(server: &'a Server, scale_min: bool) -> Self {
        let quotas = server.trees.values().map(|fact| (&*fact.key.name, fact)).collect();
        Forest { server, scale_min, quotas }
    }

    /// The quota above: the one that is named, if it exists and is not below this one.
    fn parent(&self, of: &str) -> Option<&'a str> {
        let named = |of: &str| -> Option<&'a str> {
            let fact = self.quotas.get(of)?;
            let parent = fact.parent.as_deref().filter(|_| fact.root.is_none() && !is_beside(fact))?;
            self.quotas.get_key_value(parent).map(|(parent, _)| *parent)
        };
        let parent = named(of)?;
        let mut at = parent;
        for _ in 0..=self.quotas.len() {
            if at == of {
                return None;
            }
            match named(at) {
                Some(above) => at = above,
                None => break,
            }
        }
        Some(parent)
    }

    fn path(&self, from: &str) -> Vec<&'a str> {
        let first = self.quotas.get_key_value(from).map(|(first, _)| *first);
        std::iter::successors(first, |at| self.parent(at)).collect()
    }

    fn children(&self, of: Option<&str>) -> Vec<&'a str> {
        let shares = |fact: &TreeFact| fact.root.is_none() && !is_beside(fact);
        let below = self.quotas.iter().filter(|(_, fact)| shares(fact));
        below.map(|(quota, _)| *quota).filter(|quota| self.parent(quota) == of).collect()
    }

    fn quota_of(&self, pod: &PodFact) -> Option<&'a str> {
        let takes_pods = |quota: &&'a TreeFact| !quota.is_parent;
        let found = match &pod.tree_quota {
            Some(named) => self.quotas.get(&**named).copied().filter(takes_pods),
            None => {
                let own = self.quotas.get(&*pod.namespace).copied().filter(|own| own.key.namespace == pod.namespace);
                let lists = |quota: &&'a TreeFact| quota.namespaces.contains(&pod.namespace);
                let listing = || self.server.trees.values().find(lists).filter(takes_pods);
                let default = || self.quotas.get(DEFAULT).copied();
                own.filter(takes_pods).or_else(listing).or_else(default)
            }
        };
        found.map(|fact| &*fact.key.name)
    }

    /// Whether a pod names a quota that it cannot answer to.
    fn is_lost(&self, pod: &PodFact) -> bool {
        let built_in = |named: &Name| matches!(&**named, DEFAULT | SYSTEM) && !self.quotas.contains_key(&**named);
        pod.tree_quota.as_ref().is_some_and(|named| !built_in(named)) && self.quota_of(pod).is_none()
    }

    fn pods_below(&self, quota: &str) -> Vec<&'a PodFact> {
        let below = |pod: &&PodFact| self.quota_of(pod).is_some_and(|own| self.path(own).contains(&quota));
        self.server.pods.values().filter(below).collect()
    }

    fn used(&self, quota: &str, resource: &str, gone: &BTreeSet<PodKey>) -> i128 {
        let pods = self.pods_below(quota).into_iter();
        let held = pods.filter(|pod| self.server.node_of(pod).is_some() && !gone.contains(&pod.key()));
        held.map(|pod| i128::from(pod.spec.requests.get(resource))).sum()
    }

    /// What stays when those who leave are gone, and these.
    fn stays(&self, quota: &str, resource: &str, gone: &BTreeSet<PodKey>) -> i128 {
        let leaving = self.server.pods.values().filter(|pod| self.server.is_leaving(pod)).map(PodFact::key);
        self.used(quota, resource, &gone.iter().cloned().chain(leaving).collect())
    }

    fn fixed(&self, quota: &str, resource: &str) -> i128 {
        let pods = self.pods_below(quota).into_iter();
        let held = pods
            .filter(|pod| pod.eviction_class == EvictionClass::NonPreemptible && self.server.node_of(pod).is_some());
        held.map(|pod| i128::from(pod.spec.requests.get(resource))).sum()
    }

    fn child_request(&self, quota: &str, resource: &str) -> i128 {
        let asks = |pod: &&PodFact| self.server.node_of(pod).is_some() || self.server.is_candidate(pod);
        let own = self.server.pods.values().filter(|pod| self.quota_of(pod) == Some(quota)).filter(asks);
        let own: i128 = own.map(|pod| i128::from(pod.spec.requests.get(resource))).sum();
        own + self.children(Some(quota)).into_iter().map(|child| self.limited(child, resource)).sum::<i128>()
    }

    fn request(&self, quota: &str, resource: &str) -> i128 {
        let (fact, asked) = (self.quotas[quota], self.child_request(quota, resource));
        if fact.lends { asked } else { asked.max(i128::from(fact.min.get(resource).unwrap_or(0))) }
    }

    /// What it asks of its parent.
    fn limited(&self, quota: &str, resource: &str) -> i128 {
        let max = self.quotas[quota].max.get(resource).map(i128::from);
        max.map_or(0, |max| self.request(quota, resource).min(max))
    }

    /// What the children of a quota share, or those at the top of a tree.
    fn total(&self, of: Option<&str>, tree: &str, resource: &str) -> i128 {
        if let Some(of) = of {
            return self.runtime(of, resource).unwrap_or(0);
        }
        if !tree.is_empty() {
            return 0;
        }
        let nodes: i128 = self.server.nodes.values().map(|n| i128::from(n.allocatable.get(resource))).sum();
        let is_outside = |pod: &&PodFact| self.quota_of(pod).is_none_or(|quota| is_beside(self.quotas[quota]));
        let sum = |pods: Vec<&PodFact>| -> i128 {
            pods.into_iter().filter(is_outside).map(|pod| i128::from(pod.spec.requests.get(resource))).sum()
        };
        // What is held outside now, or will be when all have come and gone, whichever is more.
        let now = sum(self.server.placed().collect());
        let stay = sum(self.server.placed().filter(|pod| !self.server.is_leaving(pod)).collect());
        let is_waiting = |pod: &&PodFact| self.server.node_of(pod).is_none() && !self.server.is_leaving(pod);
        let waiting = self.server.pods.values().filter(is_waiting);
        let outside = now.max(stay + sum(waiting.filter(|pod| pod.nominated.is_some()).collect()));
        let roots = self.quotas.values().filter(|fact| !is_beside(fact));
        let roots = roots.filter_map(|fact| fact.root.as_ref()).filter(|root| !root.ignores_default_tree);
        let elsewhere: i128 = roots.map(|root| i128::from(root.total.get(resource).unwrap_or(0))).sum();
        (nodes - outside - elsewhere).max(0)
    }

    /// What a quota may hold; `None` where it is not limited.
    fn runtime(&self, quota: &str, resource: &str) -> Option<i128> {
        let fact = self.quotas[quota];
        if let Some(root) = &fact.root {
            return root.total.get(resource).map(i128::from);
        }
        let max = fact.max.get(resource)?;
        if is_beside(fact) {
            return Some(i128::from(max));
        }
        let parent = self.parent(quota);
        let total = self.total(parent, &fact.tree, resource);
        let mut siblings = self.children(parent);
        siblings.retain(|s| parent.is_some() || self.quotas[s].tree == fact.tree);
        siblings.retain(|s| self.quotas[s].max.get(resource).is_some());
        let at = siblings.iter().position(|s| *s == quota).expect("a quota is one of its parent's children");
        Some(self.shared(total, &siblings, resource)[at])
    }

    fn shared(&self, total: i128, siblings: &[&str], resource: &str) -> Vec<i128> {
        let of = |limits: &Limits| i128::from(limits.get(resource).unwrap_or(0));
        let facts: Vec<&TreeFact> = siblings.iter().map(|s| self.quotas[s]).collect();
        let requests: Vec<i128> = siblings.iter().map(|s| self.limited(s, resource)).collect();
        let mins: i128 = facts.iter().map(|fact| of(&fact.min)).sum();
        let mut got: Vec<i128> = Vec::new();
        for (fact, request) in facts.iter().zip(&requests) {
            let min = of(&fact.min);
            let min = if self.scale_min && mins > total { min * total / mins } else { min };
            got.push(if *request > min || !fact.lends { min } else { *request });
        }
        loop {
            let left = total - got.iter().sum::<i128>();
            let weight = |i: usize| {
                let given = facts[i].weight.iter().any(|(_, weight)| *weight > 0);
                of(if given { &facts[i].weight } else { &facts[i].max })
            };
            let hungry: Vec<usize> = (0..got.len()).filter(|i| requests[*i] > got[*i] && weight(*i) > 0).collect();
            let weights: i128 = hungry.iter().map(|i| weight(*i)).sum();
            if left <= 0 || hungry.is_empty() {
                return got;
            }
            let mut shares: Vec<(usize, i128)> = hungry.iter().map(|i| (*i, weight(*i) * left / weights)).collect();
            let residue = left - shares.iter().map(|(_, share)| share).sum::<i128>();
            shares.sort_by_key(|(i, _)| (std::cmp::Reverse(weight(*i) * left % weights), *i));
            for (place, (i, share)) in shares.into_iter().enumerate() {
                let share = share + i128::from((place as i128) < residue);
                got[i] = (got[i] + share).min(requests[i]);
            }
        }
    }

    /// What a pod asks for, of what there is to ask.
    fn asked(pod: &PodFact) -> impl Iterator<Item = (&str, i128)> {
        pod.spec.requests.iter().map(|(resource, amount)| (&**resource, i128::from(*amount)))
    }

    /// Why a pod may not run, if a quota is in the way once some are gone.
    fn refusal(&self, pod: &PodFact, gone: &BTreeSet<PodKey>) -> Option<String> {
        if self.is_lost(pod) {
            return Some("it names a quota that takes no pods".to_owned());
        }
        let own = self.quota_of(pod)?;
        for (resource, asked) in Self::asked(pod) {
            for level in self.path(own) {
                let (used, runtime) = (self.used(level, resource, gone), self.runtime(level, resource));
                if runtime.is_some_and(|runtime| used + asked > runtime) {
                    return Some(format!("{used} + {asked} {resource} pass the runtime {runtime:?} of {level}"));
                }
            }
            let min = self.quotas[own].min.get(resource).map(i128::from);
            if pod.eviction_class == EvictionClass::NonPreemptible
                && min.is_some_and(|min| self.fixed(own, resource) + asked > min)
            {
                return Some(format!("it is never evicted and passes the min of {own} in {resource}"));
            }
        }
        None
    }

    fn runs(&self, pod: &PodFact, gone: &BTreeSet<PodKey>) -> bool {
        self.refusal(pod, gone).is_none() && self.server.nodes.values().any(|node| self.server.fits(pod, node, gone))
    }

    /// Whether a claimant is within its quota's min in all that the quota limits or that is guaranteed in its tree.
    fn is_within_min(&self, claimant: &PodFact) -> bool {
        let Some(own) = self.quota_of(claimant) else { return false };
        let tree = &self.quotas[own].tree;
        let governs = |resource: &str| {
            let is_guaranteed = |fact: &&TreeFact| fact.tree == *tree && fact.min.get(resource).is_some();
            self.runtime(own, resource).is_some() || self.quotas.values().any(is_guaranteed)
        };
        Self::asked(claimant).filter(|(resource, _)| governs(resource)).all(|(resource, asked)| {
            let min = i128::from(self.quotas[own].min.get(resource).unwrap_or(0));
            self.stays(own, resource, &BTreeSet::new()) + asked <= min
        })
    }

    /// Whether a pod says that it must not be evicted and is one of the oldest such pods that its quota is entitled to,
    /// of what the claimant asks for.
    fn is_protected(&self, victim: &PodFact, claimant: Option<&PodFact>) -> bool {
        let is_kept = |pod: &PodFact| pod.eviction_class != EvictionClass::Preemptible;
        if !is_kept(victim) {
            return false;
        }
        let Some(quota) = self.quota_of(victim) else { return true };
        let asked = |r: &str| claimant.is_none_or(|claimant| claimant.spec.requests.get(r) > 0);
        let limits = RESOURCES.iter().filter(|r| asked(r)).filter_map(|r| Some((*r, self.runtime(quota, r)?)));
        let limits: Vec<(&str, i128)> = limits.collect();
        let mut kept: Vec<&PodFact> = self.server.placed().filter(|pod| is_kept(pod)).collect();
        kept.retain(|pod| self.quota_of(pod) == Some(quota) && !self.server.is_leaving(pod));
        kept.retain(|pod| pod.created <= victim.created);
        let held = |r: &str| kept.iter().map(|pod| i128::from(pod.spec.requests.get(r))).sum::<i128>();
        !limits.is_empty() && limits.iter().all(|(r, limit)| held(r) <= *limit)
    }

    /// The rule by which a claimant may take a victim when these are gone already.
    fn rule(&self, claimant: &PodFact, victim: &PodFact, gone: &BTreeSet<PodKey>) -> Option<Rule> {
        if self.is_protected(victim, Some(claimant)) || victim.node.is_none() {
            return None;
        }
        let lower = victim.priority < claimant.priority;
        match (self.quota_of(claimant), self.quota_of(victim)) {
            (None, None) => lower.then_some(Rule::Priority),
            (Some(own), Some(other)) if own == other => lower.then_some(Rule::OwnQuota),
            (Some(own), Some(other)) if self.quotas[own].tree == self.quotas[other].tree => {
                let gives = Self::asked(claimant).any(|(resource, _)| {
                    let limits = self.runtime(own, resource).is_some();
                    let holds = victim.spec.requests.get(resource) > 0;
                    let runtime = self.runtime(other, resource);
                    limits && holds && runtime.is_some_and(|runtime| self.stays(other, resource, gone) > runtime)
                });
                (gives && self.is_within_min(claimant)).then_some(Rule::TreeReclaim)
            }
            _ => None,
        }
    }

    /// Whether the victims can go in some order in which each may be taken.
    fn may_take(&self, claimant: &PodFact, victims: &[&PodFact], gone: &BTreeSet<PodKey>) -> bool {
        victims.is_empty()
            || (0..victims.len()).any(|i| {
                if self.rule(claimant, victims[i], gone).is_none() {
                    return false;
                }
                let rest: Vec<&PodFact> =
                    victims.iter().enumerate().filter(|(j, _)| *j != i).map(|(_, pod)| *pod).collect();
                let gone: BTreeSet<PodKey> = gone.iter().cloned().chain([victims[i].key()]).collect();
                self.may_take(claimant, &rest, &gone)
            })
    }

    /// A set of victims with which a claimant would run.
    fn victims(&self, claimant: &PodFact) -> Option<Vec<PodKey>> {
        let none = BTreeSet::new();
        let possible = self.server.placed().filter(|victim| self.rule(claimant, victim, &none).is_some());
        let possible: Vec<&PodFact> = possible.collect();
        let sets = (1u32..1 << possible.len()).map(|set| {
            possible.iter().enumerate().filter(|(i, _)| set >> i & 1 == 1).map(|(_, pod)| *pod).collect::<Vec<_>>()
        });
        let keys = |set: &[&PodFact]| set.iter().map(|pod| pod.key()).collect::<BTreeSet<_>>();
        let found = sets
            .into_iter()
            .find(|set| self.runs(claimant, &keys(set)) && self.may_take(claimant, set, &BTreeSet::new()));
        found.map(|set| keys(&set).into_iter().collect())
    }

    /// What a quota that takes pods holds more of than its runtime.
    fn excess(&self, quota: &str) -> Vec<&'static str> {
        let over = |resource: &&&str| {
            let runtime = self.runtime(quota, resource);
            runtime.is_some_and(|runtime| self.stays(quota, resource, &BTreeSet::new()) > runtime)
        };
        let resources = if self.quotas[quota].is_parent { &[][..] } else { &RESOURCES[..] };
        resources.iter().filter(over).copied().collect()
    }
}

/// What histories bring about.
#[derive(Debug, Default)]
struct Seen {
    binds: usize,
    evictions: BTreeMap<Rule, usize>,
    compared: usize,
    scaled: usize,
    circles: usize,
}

struct Run {
    server: Server,
    engine: Engine,
    settings: Settings,
    /// Since when quotas hold more than their runtime, as far as cycles saw.
    overused_since: BTreeMap<Name, u64>,
    /// The same by resource: over-use may end and begin anew within one cycle, of another.
    excess_since: BTreeMap<(Name, &'static str), u64>,
}

impl Run {
    fn forest(&self) -> Forest<'_> {
        Forest::new(&self.server, self.settings.tree.scale_min)
    }

    /// One cycle, every decision checked against the state it was taken in.
    fn decide(&mut self, seen: &mut Seen) -> Result<bool, TestCaseError> {
        let decisions = self.engine.decide(self.server.tick(), Budget::default());
        let mut acted = false;
        for act in acts(&decisions) {
            match &act[0] {
                Decision::Bind { pod, node, .. } => {
                    let forest = self.forest();
                    let fact = &self.server.pods[pod];
                    let refusal = forest.refusal(fact, &BTreeSet::new());
                    // What was freed for a claimant is its own, though its runtime fell meanwhile.
                    let is_granted = fact.nominated.is_some();
                    prop_assert!(refusal.is_none() || is_granted, "{pod} was bound: {refusal:?}");
                    let fits = self.server.fits(fact, &self.server.nodes[node], &BTreeSet::new());
                    prop_assert!(fits, "{pod} does not fit {node}");
                    seen.binds += 1;
                    acted = true;
                }
                Decision::Evict { .. } => {
                    self.check_evictions(act, seen)?;
                    acted = true;
                }
                _ => {}
            }
            act.iter().for_each(|decision| self.server.take(decision));
        }
        self.engine.check_invariants().map_err(TestCaseError::fail)?;
        self.check_reports(&self.engine, seen)?;
        self.note_overuse();
        Ok(acted)
    }

    fn note_overuse(&mut self) {
        let forest = self.forest();
        let over = forest.quotas.keys().filter(|quota| !forest.excess(quota).is_empty());
        let over: BTreeSet<Name> = over.map(|quota| name(quota)).collect();
        let now = self.server.now;
        let excess: BTreeSet<(Name, &'static str)> =
            over.iter().flat_map(|quota| forest.excess(quota).into_iter().map(|r| (quota.clone(), r))).collect();
        // An eviction that was only decided may fail, and then it ended nothing.
        let unseen = self.server.evicting.keys().map(|pod| &self.server.pods[pod]);
        let unseen: BTreeSet<Name> =
            unseen.filter(|pod| pod.leaving_since.is_none()).filter_map(|pod| forest.quota_of(pod).map(name)).collect();
        self.overused_since.retain(|quota, _| over.contains(quota) || unseen.contains(quota));
        for quota in over {
            self.overused_since.entry(quota).or_insert(now);
        }
        self.excess_since.retain(|known, _| excess.contains(known));
        for resource in excess {
            self.excess_since.entry(resource).or_insert(now);
        }
    }

    fn check_evictions(&self, act: &[Decision], seen: &mut Seen) -> Result<(), TestCaseError> {
        let forest = self.forest();
        let mut spent: BTreeMap<(Name, Name), u32> = BTreeMap::new();
        let mut victims: Vec<&PodFact> = Vec::new();
        let mut for_whom: Option<&PodFact> = None;
        for decision in act {
            let Decision::Evict { pod, claimant, reason, violates_budget, .. } = decision else { continue };
            let rule = &reason.rule;
            let victim = &self.server.pods[pod];
            *seen.evictions.entry(*rule).or_default() += 1;
            let claims = claimant.as_ref().map(|claimant| &self.server.pods[claimant]);
            prop_assert!(!forest.is_protected(victim, claims), "{pod} is protected");
            prop_assert!(victim.node.is_some() && !self.server.is_leaving(victim), "{pod} is not there to be evicted");
            let Some(claimant) = claimant else {
                prop_assert_eq!(*rule, Rule::TreeOveruse);
                prop_assert!(!violates_budget);
                let quota = forest.quota_of(victim).expect("over-use is of a quota");
                let since = self.overused_since.get(quota).copied().unwrap_or(self.server.now);
                let long = since + self.settings.tree.revoke_after_ms <= self.server.now;
                prop_assert!(long && !forest.excess(quota).is_empty(), "{pod} went for over-use of {quota} at {since}");
                for budget in self.server.budgets_of(victim) {
                    let unseen = self.server.evicting.keys().map(|key| &self.server.pods[key]);
                    let unseen = unseen.filter(|pod| pod.leaving_since.is_none());
                    let unseen = unseen.filter(|pod| self.server.budgets_of(pod).any(|other| other == budget)).count();
                    let spent = spent.entry((budget.namespace.clone(), budget.name.clone())).or_default();
                    *spent += 1;
                    prop_assert!(unseen as u32 + *spent <= budget.allowed, "{pod} went against a budget");
                }
                continue;
            };
            let claimant = &self.server.pods[claimant];
            prop_assert_eq!(
                forest.rule(claimant, victim, &BTreeSet::new()),
                Some(*rule),
                "{} for {}",
                pod,
                claimant.key()
            );
            prop_assert!(!claimant.never_preempts && self.server.is_candidate(claimant));
            victims.push(victim);
            for_whom = Some(claimant);
        }
        if let Some(claimant) = for_whom {
            let may = forest.may_take(claimant, &victims, &BTreeSet::new());
            prop_assert!(may, "{} takes more than it may: {victims:?}", claimant.key());
        }
        Ok(())
    }

    /// What is reported equals a recount of the whole forest.
    fn check_reports(&self, engine: &Engine, seen: &mut Seen) -> Result<(), TestCaseError> {
        let forest = self.forest();
        let none = BTreeSet::new();
        let reports = engine.quotas();
        prop_assert_eq!(reports.len(), forest.quotas.len());
        let of = |list: &[(Name, i128)], r: &str| list.iter().find(|(n, _)| **n == *r).map(|(_, amount)| *amount);
        for QuotaReport { key, parent, runtime, used, requested, child_requested, non_preemptible_used, .. } in &reports
        {
            let quota = &*key.name;
            prop_assert_eq!(parent.as_ref().map(|p| &*p.name), forest.parent(quota), "the parent of {}", quota);
            for r in RESOURCES {
                prop_assert_eq!(of(runtime, r), forest.runtime(quota, r), "the runtime of {} in {}", quota, r);
                prop_assert_eq!(of(used, r).unwrap_or(0), forest.used(quota, r, &none), "used of {} in {}", quota, r);
                let fixed = of(non_preemptible_used, r).unwrap_or(0);
                prop_assert_eq!(fixed, forest.fixed(quota, r), "held for good in {} of {}", quota, r);
                let fact = forest.quotas[quota];
                if fact.root.is_none() && !is_beside(fact) && fact.max.get(r).is_some() {
                    let (asked, below) = (of(requested, r).unwrap_or(0), of(child_requested, r).unwrap_or(0));
                    prop_assert_eq!(asked, forest.request(quota, r), "the request of {} in {}", quota, r);
                    prop_assert_eq!(below, forest.child_request(quota, r), "asked below {} in {}", quota, r);
                }
                seen.compared += 1;
            }
        }
        self.check_sums(&forest, seen)
    }

    /// What the children of a quota may hold does not add up to more than it has to share.
    fn check_sums(&self, forest: &Forest<'_>, seen: &mut Seen) -> Result<(), TestCaseError> {
        let parents = forest.quotas.keys().map(|quota| Some(*quota)).chain([None]);
        for (parent, r) in parents.flat_map(|parent| RESOURCES.map(|r| (parent, r))) {
            let mut children = forest.children(parent);
            children.retain(|child| parent.is_some() || forest.quotas[child].tree.is_empty());
            let (total, sum) =
                (forest.total(parent, "", r), |of: &dyn Fn(&str) -> i128| children.iter().map(|c| of(c)).sum::<i128>());
            let min = sum(&|child| forest.quotas[child].min.get(r).unwrap_or(0).into());
            seen.scaled += usize::from(min > total && total > 0);
            if self.settings.tree.scale_min {
                let runtimes = sum(&|child| forest.runtime(child, r).unwrap_or(0));
                prop_assert!(runtimes <= total, "the children of {parent:?} may hold {runtimes} {r} of {total}");
            }
        }
        let circles =
            forest.quotas.values().filter(|fact| fact.parent.is_some() && fact.root.is_none() && !is_beside(fact));
        let named = circles.filter(|fact| fact.parent.as_deref().is_some_and(|p| forest.quotas.contains_key(p)));
        seen.circles += named.filter(|fact| forest.parent(&fact.key.name).is_none()).count();
        Ok(())
    }

    fn take(&mut self, step: &Step) {
        let facts = match step {
            Step::Common(common) => {
                let Run { server, engine, settings, .. } = self;
                server.apply(common, engine, settings, PODS_MAX);
                if let Common::Restart(_) = common {
                    self.overused_since.clear();
                    self.excess_since.clear();
                }
                vec![]
            }
            Step::Quota(fact) => {
                self.server.trees.insert(fact.key.clone(), fact.clone());
                vec![Fact::from(fact.clone())]
            }
            Step::DropQuota(which) => match server::nth(&self.server.trees, *which) {
                Some(key) => {
                    self.server.trees.remove(&key);
                    self.overused_since.remove(&key.name);
                    self.excess_since.retain(|(quota, _), _| *quota != key.name);
                    vec![Fact::QuotaGone(key)]
                }
                None => vec![],
            },
            Step::Relabel(which, quota) => match server::nth(&self.server.pods, *which) {
                Some(key) => {
                    let pod = self.server.pods.get_mut(&key).expect("it was just found");
                    // What a pod answers to is written down when it is bound, and read from there from then on.
                    if pod.node.is_none() {
                        pod.tree_quota.clone_from(quota);
                    }
                    vec![Fact::Pod(pod.clone())]
                }
                None => vec![],
            },
        };
        self.server.tell(&mut self.engine, facts);
    }

    /// Lets all that is under way go well until nothing more is decided.
    fn settle(&mut self, seen: &mut Seen) -> Result<(), TestCaseError> {
        for round in 0.. {
            prop_assert!(round < 40, "evictions do not end");
            let acted = self.decide(seen)?;
            if !acted && self.server.is_settled() {
                return Ok(());
            }
            self.server.go_on(WELL, &mut self.engine);
        }
        Ok(())
    }

    /// In a settled world nobody waits who could run or claim, and nobody holds too much for too long who could give.
    fn nobody_forgotten(&self) -> Result<(), TestCaseError> {
        let (forest, none) = (self.forest(), BTreeSet::new());
        for pod in self.server.pods.values().filter(|pod| self.server.is_candidate(pod)) {
            if self.server.pods.values().any(|pod| pod.node.is_none() && pod.nominated.is_some()) {
                break; // Room is kept for somebody.
            }
            prop_assert!(!forest.runs(pod, &none), "{} waits though it could run", pod.key());
            let victims = (!pod.never_preempts && !forest.is_lost(pod)).then(|| forest.victims(pod)).flatten();
            prop_assert!(victims.is_none(), "{} waits though it could evict {:?}", pod.key(), victims);
        }
        for ((quota, resource), since) in &self.excess_since {
            let is_due = since + self.settings.tree.revoke_after_ms <= self.server.now;
            if is_due && forest.excess(quota).contains(resource) {
                let could_go = |pod: &&PodFact| {
                    forest.quota_of(pod) == Some(quota)
                        && !forest.is_protected(pod, None)
                        && pod.spec.requests.get(resource) > 0
                        && self.server.budgets_of(pod).all(|budget| budget.allowed > 0)
                };
                let left = self.server.placed().find(could_go).map(PodFact::key);
                prop_assert!(left.is_none(), "{quota} holds too much {resource} since {since}, and {left:?} could go");
            }
        }
        Ok(())
    }

    /// Whoever hears of the same objects in another order finds the same.
    fn same_in_any_order(&self, order: u64) -> Result<(), TestCaseError> {
        let look = |mut engine: Engine| {
            engine.decide(self.server.tick(), Budget { pods_max: 0 });
            engine.quotas()
        };
        let told = look(self.server.engine_anew(&self.settings, order));
        prop_assert_eq!(look(self.engine.fork()), told);
        Ok(())
    }
}

fn run(history: &History, seen: &mut Seen) -> Result<(), TestCaseError> {
    let History { scale_min, returns, steps } = history;
    let tree = TreeSettings {
        revoke_after_ms: REVOKE_AFTER,
        scale_min: *scale_min,
        default_quota: name(DEFAULT),
        system_quota: name(SYSTEM),
    };
    let settings = Settings { tree, reserve_after_ms: 1_000_000_000, ..Settings::default() };
    let (engine, server) =
        (Engine::new(settings.clone()), Server { returns: *returns, now: 1_000, ..Server::default() });
    let mut run = Run { server, engine, settings, overused_since: BTreeMap::new(), excess_since: BTreeMap::new() };
    for (step, how) in steps {
        run.take(step);
        let mut probe = run.engine.fork();
        let given_up = probe.decide(run.server.tick(), Budget { pods_max: 0 });
        given_up
            .list
            .iter()
            .filter(|act| matches!(act, Decision::Nominate { .. }))
            .for_each(|act| run.server.take(act));
        run.check_reports(&probe, seen)?;
        if how % 3 == 0 {
            run.settle(seen)?;
            run.nobody_forgotten()?;
            run.same_in_any_order(*how)?;
        } else {
            run.decide(seen)?;
            run.server.go_on(*how, &mut run.engine);
        }
    }
    run.settle(seen)?;
    run.nobody_forgotten()?;
    run.take(&Step::Common(Common::Advance(2 * REVOKE_AFTER)));
    run.settle(seen)?;
    run.nobody_forgotten()?;
    run.same_in_any_order(7)
}

#[derive(Debug, Clone)]
struct History {
    scale_min: bool,
    returns: bool,
    steps: Vec<(Step, u64)>,
}

fn limits(of: [Option<i64>; 2]) -> Limits {
    RESOURCES.iter().zip(of).filter_map(|(resource, amount)| amount.map(|a| (name(resource), a))).collect()
}

fn bound(most: i64) -> impl Strategy<Value = [Option<i64>; 2]> {
    let one = move || prop_oneof![1 => Just(None), 5 => (0..=most).prop_map(Some)];
    (one(), one()).prop_map(|(cpu, gpu)| [cpu, gpu])
}

fn maybe(text: &'static str) -> Just<Option<Name>> {
    Just(Some(name(text)))
}

fn quota(index: usize) -> impl Strategy<Value = TreeFact> {
    let parent = match index {
        0 | 1 => {
            prop_oneof![6 => Just(None), 2 => maybe("q0"), 2 => maybe("q1"), 1 => maybe("r"), 1 => maybe("q2")].boxed()
        }
        2..6 => {
            let above = prop_oneof![4 => maybe("q0"), 4 => maybe("q1"), 1 => maybe("q2"), 1 => maybe("nowhere")];
            prop_oneof![3 => Just(None), 1 => maybe("r"), 10 => above].boxed()
        }
        _ => prop_oneof![9 => Just(None), 1 => maybe("q0")].boxed(),
    };
    let is_parent = prop::bool::weighted(if index < 2 {
        0.95
    } else if index == 6 {
        0.9
    } else {
        0.03
    });
    let is_root = prop::bool::weighted(if index == 6 { 0.9 } else { 0.01 });
    let in_tree = prop::bool::weighted(if index == 6 { 0.95 } else { 0.05 });
    let sizes = (bound(5), bound(8), prop::option::weighted(0.4, bound(3)), bound(8));
    let listed = prop::option::weighted(0.2, prop_oneof![Just("b"), Just("c")]);
    let flags = (is_parent, is_root, in_tree, prop::bool::weighted(0.7), prop::bool::weighted(0.3));
    (parent, flags, sizes, listed).prop_map(move |(parent, flags, sizes, listed)| {
        let (is_parent, is_root, in_tree, lends, ignores_default_tree) = flags;
        let (min, extra, weight, total) = sizes;
        let max = |r: usize| extra[r].map(|extra| min[r].unwrap_or(0) + extra);
        let min = |r: usize| min[r].filter(|_| extra[r].is_some());
        let in_tree = in_tree || parent.as_deref() == Some("r");
        TreeFact {
            key: key(index),
            tree: if in_tree { name("t") } else { name("") },
            parent,
            root: is_root.then(|| TreeRoot { total: limits(total), ignores_default_tree }),
            is_parent: is_parent && index < 7,
            lends,
            min: limits([min(0), min(1)]),
            max: limits([max(0), max(1)]),
            weight: limits(weight.unwrap_or([None; 2])),
            namespaces: listed.map(name).into_iter().collect(),
            ..TreeFact::default()
        }
    })
}

fn quota_name() -> impl Strategy<Value = Option<Name>> {
    let named = prop_oneof![12 => 2usize..5, 1 => 0usize..9].prop_map(|index| Some(name(NAMES[index])));
    prop_oneof![4 => Just(None), 12 => named, 1 => Just(Some(name("nowhere")))]
}

fn pod() -> impl Strategy<Value = PodFact> {
    let namespace = prop_oneof![Just("a"), Just("b"), Just("c")];
    let size = (0i64..=3, 0i64..=3);
    let seldom = || prop::bool::weighted(0.12);
    let flags = (seldom(), seldom(), seldom(), seldom(), prop::bool::weighted(0.3));
    (namespace, size, 0i32..3, quota_name(), flags).prop_map(|(namespace, (cpu, gpu), priority, tree_quota, flags)| {
        let (non_preemptible, protected, never_preempts, gated, guarded) = flags;
        let requests = [(name(RESOURCES[0]), cpu), (name(RESOURCES[1]), gpu)].into_iter().collect();
        PodFact {
            namespace: name(namespace),
            spec: Arc::new(PodSpec { requests, ..PodSpec::default() }),
            priority,
            never_preempts,
            tree_quota,
            eviction_class: class_of(non_preemptible, protected),
            labels: guarded.then(|| (name("guarded"), name("yes"))).into_iter().collect(),
            gates: (gated && protected).then(|| name("gate")).into_iter().collect(),
            ours: true,
            ..PodFact::default()
        }
    })
}

fn node() -> impl Strategy<Value = NodeFact> {
    (0usize..3, 2i64..9, 2i64..9).prop_map(|(index, cpu, gpu)| {
        let amounts = [(RESOURCES[0], cpu), (RESOURCES[1], gpu), ("pods", 20)];
        let allocatable = amounts.into_iter().map(|(resource, amount)| (name(resource), amount)).collect();
        NodeFact { name: name(&format!("n{index}")), allocatable, ..NodeFact::default() }
    })
}

fn budget() -> impl Strategy<Value = BudgetFact> {
    (prop_oneof![Just("a"), Just("b")], 0u32..2).prop_map(|(namespace, allowed)| {
        let guarded = Requirement { key: name("guarded"), operator: Operator::Exists, values: Vec::new() };
        let selector = Some(Selector { requirements: vec![guarded] });
        BudgetFact { namespace: name(namespace), name: name("budget"), selector, allowed }
    })
}

fn step() -> impl Strategy<Value = Step> {
    let common = prop_oneof![
        18 => pod().prop_map(Common::Pod),
        3 => (0usize..20).prop_map(Common::EndPod),
        1 => (0usize..20).prop_map(Common::Linger),
        2 => node().prop_map(Common::Node),
        1 => (0usize..3).prop_map(Common::DropNode),
        1 => budget().prop_map(Common::Budget),
        2 => (0usize..40).prop_map(Common::Again),
        3 => (100u64..2_000).prop_map(Common::Advance),
        2 => any::<u64>().prop_map(Common::Restart),
    ];
    prop_oneof![
        30 => common.prop_map(Step::Common),
        7 => (0..NAMES.len()).prop_flat_map(quota).prop_map(Step::Quota),
        2 => (0..NAMES.len()).prop_map(Step::DropQuota),
        1 => ((0usize..20), quota_name()).prop_map(|(which, quota)| Step::Relabel(which, quota)),
    ]
}

fn history() -> impl Strategy<Value = History> {
    let quotas = (0usize..6).prop_flat_map(quota).prop_map(Step::Quota);
    let start = (
        prop::collection::vec(node().prop_map(|node| Step::Common(Common::Node(node))), 1..4),
        prop::collection::vec(quotas, 3..8),
        prop::collection::vec((step(), any::<u64>()), 5..35),
    );
    (prop::bool::weighted(0.8), any::<bool>(), start).prop_map(|(scale_min, returns, (nodes, quotas, steps))| {
        let first = nodes.into_iter().chain(quotas).map(|step| (step, 1));
        History { scale_min, returns, steps: first.chain(steps).collect() }
    })
}

proptest! {
    #![proptest_config(cases(400))]

    #[test]
    fn trees_keep_their_promises(history in history()) {
        run(&history, &mut Seen::default())?;
    }
}

/// Histories bring about what they are for: a generator that never evicts anybody proves nothing.
#[test]
fn histories_are_eventful() {
    let mut seen = Seen::default();
    for history in samples(400, history()) {
        run(&history, &mut seen).expect("the promises hold");
    }
    assert!(seen.binds > 300 && seen.scaled > 50 && seen.circles > 20, "{seen:?}");
    for rule in [Rule::Priority, Rule::OwnQuota, Rule::TreeReclaim, Rule::TreeOveruse] {
        assert!(seen.evictions.get(&rule).is_some_and(|count| *count >= 2), "{rule:?} in {seen:?}");
    }
}
