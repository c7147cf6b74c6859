//! Elastic quotas over random histories: no decision passes a ceiling, nobody is evicted without a right to it, the
//! victims are the cheapest there are, evictions end, and usage is always what a recount gives.
//!
//! The rules are written here once more, naively, over plain maps.

use crate::cases;
use crate::samples;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use cases::cases;
use proptest::prelude::*;
use quotient_engine::fact::{
    Amounts, Created, ElasticFact, Limits, Name, NodeFact, Phase, PodFact, PodKey, PodSpec, QuotaKey,
};
use quotient_engine::{Budget, Decision, Engine, Fact, Rule, Settings, Tick};
use samples::samples;

const RESOURCES: [&str; 2] = ["cpu", "example.com/gpu"];
const NAMESPACES: [&str; 4] = ["a", "b", "c", "free"];
const NOW: Tick = Tick(1_000);

type Vector = [i64; 2];

#[derive(Debug, Clone)]
enum Step {
    AddPod {
        namespace: usize,
        size: Vector,
        priority: i32,
        never: bool,
    },
    EndPod(usize),
    Quota {
        namespace: usize,
        min: [Option<i64>; 2],
        max: [Option<i64>; 2],
    },
    DropQuota(usize),
    Node {
        name: usize,
        size: Vector,
    },
    DropNode(usize),
    /// The engine starts anew, knowing only what the objects say.
    Restart,
}

#[derive(Debug, Clone)]
struct Pod {
    fact: PodFact,
    size: Vector,
}

#[derive(Debug, Clone)]
struct Quota {
    min: [Option<i64>; 2],
    max: [Option<i64>; 2],
}

#[derive(Debug, Clone, Default)]
struct Model {
    fair: bool,
    pods: BTreeMap<PodKey, Pod>,
    quotas: BTreeMap<usize, Quota>,
    nodes: BTreeMap<usize, Vector>,
    made: i64,
}

fn name(text: &str) -> Name {
    Name::from(text)
}

fn amounts(size: Vector) -> Amounts {
    RESOURCES.iter().zip(size).map(|(resource, amount)| (name(resource), amount)).collect()
}

fn limits(of: &[Option<i64>; 2]) -> Limits {
    RESOURCES.iter().zip(of).filter_map(|(resource, amount)| amount.map(|a| (name(resource), a))).collect()
}

fn node_fact(index: usize, size: Vector) -> Fact {
    let pods = (name("pods"), 20);
    let allocatable = RESOURCES.iter().zip(size).map(|(r, a)| (name(r), a)).chain([pods]).collect();
    Fact::Node(NodeFact { name: name(&format!("n{index}")), allocatable, ..NodeFact::default() })
}

impl Model {
    fn key(&self, namespace: usize) -> QuotaKey {
        let group = if self.fair { "nos.nebuly.com" } else { "scheduling.x-k8s.io" };
        QuotaKey {
            kind: name("ElasticQuota"),
            group: name(group),
            namespace: name(NAMESPACES[namespace]),
            name: name("quota"),
        }
    }

    fn quota_fact(&self, namespace: usize) -> Fact {
        let Quota { min, max } = &self.quotas[&namespace];
        Fact::from(ElasticFact {
            key: self.key(namespace),
            namespaces: vec![name(NAMESPACES[namespace])],
            min: limits(min),
            max: limits(max),
            fair: self.fair,
        })
    }

    fn facts(&self) -> Vec<Fact> {
        let nodes = self.nodes.iter().map(|(index, size)| node_fact(*index, *size));
        let quotas = self.quotas.keys().map(|namespace| self.quota_fact(*namespace));
        nodes.chain(quotas).chain(self.pods.values().map(|pod| Fact::Pod(pod.fact.clone()))).collect()
    }

    fn quota_of(&self, pod: &Pod) -> Option<usize> {
        let at = NAMESPACES.iter().position(|namespace| *namespace == &*pod.fact.namespace)?;
        self.quotas.contains_key(&at).then_some(at)
    }

    fn held_by<'a, 'b: 'a>(&'b self, gone: &'a BTreeSet<PodKey>) -> impl Iterator<Item = &'b Pod> + 'a {
        self.pods.values().filter(|pod| pod.fact.node.is_some() && !gone.contains(&pod.fact.key()))
    }

    fn used(&self, quota: usize, resource: usize, gone: &BTreeSet<PodKey>) -> i64 {
        self.held_by(gone).filter(|pod| self.quota_of(pod) == Some(quota)).map(|pod| pod.size[resource]).sum()
    }

    /// What is reserved for pending pods.
    fn reserved(&self, quota: usize, resource: usize) -> i64 {
        let claims = |pod: &&Pod| pod.fact.node.is_none() && pod.fact.nominated.is_some();
        let of_quota = self.pods.values().filter(claims).filter(|pod| self.quota_of(pod) == Some(quota));
        of_quota.map(|pod| pod.size[resource]).sum()
    }

    fn governed(&self, resource: usize) -> bool {
        self.quotas.values().any(|quota| quota.min[resource].is_some())
    }

    fn min(&self, quota: usize, resource: usize) -> i64 {
        self.quotas[&quota].min[resource].unwrap_or(0)
    }

    fn pool_min(&self, resource: usize) -> i64 {
        self.quotas.keys().map(|quota| self.min(*quota, resource)).sum()
    }

    fn fair_share(&self, quota: usize, resource: usize) -> i64 {
        let none = BTreeSet::new();
        let total = self.pool_min(resource);
        if !self.fair || total == 0 {
            return 0;
        }
        let unused: i64 = self
            .quotas
            .keys()
            .filter(|q| self.quotas[q].min[resource].is_some())
            .map(|q| (self.min(*q, resource) - self.used(*q, resource, &none) - self.reserved(*q, resource)).max(0))
            .sum();
        unused * self.min(quota, resource) / total
    }

    /// Whether a ceiling is passed by what the pod would bring.
    fn passes_ceiling(&self, pod: &Pod, gone: &BTreeSet<PodKey>) -> bool {
        let Some(quota) = self.quota_of(pod) else { return false };
        (0..2).filter(|r| pod.size[*r] > 0).any(|r| {
            let over_max = self.quotas[&quota].max[r].is_some_and(|max| self.used(quota, r, gone) + pod.size[r] > max);
            let pool: i64 = self.quotas.keys().map(|q| self.used(*q, r, gone)).sum();
            over_max || (self.governed(r) && pool + pod.size[r] > self.pool_min(r))
        })
    }

    fn fits(&self, pod: &Pod, node: usize, gone: &BTreeSet<PodKey>) -> bool {
        let on_node = name(&format!("n{node}"));
        let here: Vec<&Pod> = self.held_by(gone).filter(|p| p.fact.node.as_ref() == Some(&on_node)).collect();
        here.len() < 20
            && (0..2).all(|r| {
                pod.size[r] == 0 || here.iter().map(|p| p.size[r]).sum::<i64>() + pod.size[r] <= self.nodes[&node][r]
            })
    }

    fn runs(&self, pod: &Pod, gone: &BTreeSet<PodKey>) -> bool {
        !self.passes_ceiling(pod, gone) && self.nodes.keys().any(|node| self.fits(pod, *node, gone))
    }

    /// The pods of a quota in the order of their seniority.
    fn seniors(&self, quota: usize) -> Vec<&Pod> {
        let none = BTreeSet::new();
        let mut pods: Vec<&Pod> = self.held_by(&none).filter(|pod| self.quota_of(pod) == Some(quota)).collect();
        pods.sort_by_key(|pod| pod.fact.created);
        pods
    }

    /// Whether a pod is within its quota's min by seniority, as far as these resources are concerned.
    fn is_within(&self, quota: usize, victim: &PodKey, compared: impl Fn(usize) -> bool) -> bool {
        let mut sums = [0, 0];
        for pod in self.seniors(quota) {
            (0..2).for_each(|r| sums[r] += pod.size[r]);
            if (0..2).any(|r| self.governed(r) && compared(r) && sums[r] > self.min(quota, r)) {
                return false;
            }
            if pod.fact.key() == *victim {
                return true;
            }
        }
        false
    }

    /// Whether the claimant asks for something governed and stays within a bound in all of it.
    fn within(&self, pod: &Pod, quota: usize, bound: impl Fn(usize) -> i64) -> bool {
        let none = BTreeSet::new();
        let mut asked = (0..2).filter(|r| pod.size[*r] > 0 && self.governed(*r)).peekable();
        asked.peek().is_some() && asked.all(|r| self.used(quota, r, &none) + pod.size[r] <= bound(r))
    }

    /// Whether the claimant is entitled to take from others, within min and within its fair share.
    fn entitled(&self, claimant: &Pod, own: usize) -> (bool, bool) {
        let in_min = self.within(claimant, own, |r| self.min(own, r));
        let in_share = self.fair && self.within(claimant, own, |r| self.min(own, r) + self.fair_share(own, r));
        (in_min, in_min || in_share)
    }

    /// Whether the claimant may take the victims, in some order: each finds its quota above what it keeps in something
    /// that the claimant asks for and the victim holds. Pods of its own quota stay if others are to go first.
    fn may_take(&self, claimant: &Pod, victims: &[&Pod], spares_own: bool) -> bool {
        let Some(own) = self.quota_of(claimant) else {
            let free = |victim: &&Pod| self.quota_of(victim).is_none();
            return victims.iter().all(|v| free(v) && v.fact.priority < claimant.fact.priority);
        };
        let (in_min, entitled) = self.entitled(claimant, own);
        let mut by_quota: BTreeMap<usize, Vec<&Pod>> = BTreeMap::new();
        for victim in victims {
            match self.quota_of(victim) {
                None => return false,
                Some(quota) if quota == own => {
                    if spares_own || victim.fact.priority >= claimant.fact.priority {
                        return false;
                    }
                }
                Some(quota) => {
                    if !entitled || (self.fair && self.is_within(quota, &victim.fact.key(), |_| true)) {
                        return false;
                    }
                    by_quota.entry(quota).or_default().push(victim);
                }
            }
        }
        by_quota.into_iter().all(|(quota, pods)| {
            let bound = |r: usize| self.min(quota, r) + if in_min { 0 } else { self.fair_share(quota, r) };
            some_order(&pods, &mut |taken, next| {
                (0..2).any(|r| {
                    let gone: BTreeSet<PodKey> = taken.iter().map(|pod: &&Pod| pod.fact.key()).collect();
                    claimant.size[r] > 0
                        && self.governed(r)
                        && next.size[r] > 0
                        && self.used(quota, r, &gone) > bound(r)
                })
            })
        })
    }

    /// Whether a victim from another quota, if it came back once all is done, could evict the claimant.
    fn could_evict_back(&self, claimant: &Pod, victims: &[&Pod]) -> bool {
        let mut then = self.clone();
        victims.iter().for_each(|victim| drop(then.pods.remove(&victim.fact.key())));
        let runs = {
            let pod = then.pods.get_mut(&claimant.fact.key()).expect("claimants exist");
            pod.fact.node = Some(name("n0"));
            pod.clone()
        };
        let own = self.quota_of(claimant);
        let is_other = |victim: &&&Pod| self.quota_of(victim) != own && !victim.fact.never_preempts;
        victims.iter().filter(is_other).any(|victim| then.may_take(victim, &[&runs], false))
    }

    /// The cost of a set of victims; no budgets here, and no two pods are of one age.
    fn cost(&self, claimant: &Pod, victims: &[&Pod]) -> (i32, usize, usize, Vec<std::cmp::Reverse<Created>>) {
        let asked = |r: usize| claimant.size[r] > 0;
        let entitled = |v: &&&Pod| self.quota_of(v).is_some_and(|quota| self.is_within(quota, &v.fact.key(), asked));
        let mut created: Vec<_> = victims.iter().map(|v| std::cmp::Reverse(v.fact.created)).collect();
        created.sort();
        let priority = victims.iter().map(|v| v.fact.priority).max().unwrap_or(i32::MIN);
        (priority, victims.iter().filter(entitled).count(), victims.len(), created)
    }

    /// The cheapest set of victims after which the claimant runs, by trying all.
    fn cheapest(&self, claimant: &Pod) -> Option<BTreeSet<PodKey>> {
        let none = BTreeSet::new();
        let pods: Vec<&Pod> = self
            .held_by(&none)
            .filter(|pod| pod.fact.node.as_ref().is_some_and(|n| self.nodes.keys().any(|i| **n == *format!("n{i}"))))
            .collect();
        let sets = || {
            (1u32..1 << pods.len()).map(|set| {
                pods.iter().enumerate().filter(|(i, _)| set >> i & 1 == 1).map(|(_, pod)| *pod).collect::<Vec<_>>()
            })
        };
        let keys = |set: &[&Pod]| set.iter().map(|pod| pod.fact.key()).collect::<BTreeSet<_>>();
        let entitled = self.quota_of(claimant).is_some_and(|own| self.entitled(claimant, own).1);
        let passes: &[bool] = if entitled { &[true, false] } else { &[false] };
        // Others go first; where no set of them will do, those of the claimant's own quota may. A set with somebody who
        // need not go is none.
        let will_do = |set: &[&Pod]| self.runs(claimant, &keys(set));
        let is_needless = |set: &[&Pod]| {
            (0..set.len()).any(|i| {
                let rest: Vec<&Pod> = set.iter().enumerate().filter(|(j, _)| *j != i).map(|(_, pod)| *pod).collect();
                will_do(&rest)
            })
        };
        passes.iter().find_map(|spares_own| {
            sets()
                .filter(|set| will_do(set) && self.may_take(claimant, set, *spares_own))
                .filter(|set| !is_needless(set) && !self.could_evict_back(claimant, set))
                .min_by_key(|set| self.cost(claimant, set))
                .map(|set| keys(&set))
        })
    }
}

/// Whether the pods can be taken in some order in which each may be.
fn some_order<'a>(pods: &[&'a Pod], may: &mut dyn FnMut(&[&'a Pod], &'a Pod) -> bool) -> bool {
    fn go<'a>(left: &[&'a Pod], taken: &mut Vec<&'a Pod>, may: &mut dyn FnMut(&[&'a Pod], &'a Pod) -> bool) -> bool {
        left.is_empty()
            || (0..left.len()).any(|i| {
                if !may(taken, left[i]) {
                    return false;
                }
                let rest: Vec<&Pod> = left.iter().enumerate().filter(|(j, _)| *j != i).map(|(_, p)| *p).collect();
                taken.push(left[i]);
                let found = go(&rest, taken, may);
                taken.pop();
                found
            })
    }
    go(pods, &mut Vec::new(), may)
}

/// What histories bring about.
#[derive(Debug, Default)]
struct Seen {
    binds: usize,
    evictions: BTreeMap<Rule, usize>,
    compared: usize,
}

/// Carries out what the engine decides until it decides nothing more, checking every decision.
fn settle(engine: &mut Engine, model: &mut Model, seen: &mut Seen) -> Result<(), TestCaseError> {
    for round in 0.. {
        prop_assert!(round < 40, "evictions do not end");
        let decisions = engine.decide(NOW, Budget::default());
        let before = model.clone();
        let mut acted = false;
        let mut bound: Vec<(PodKey, Name)> = Vec::new();
        let mut evicted: BTreeMap<PodKey, BTreeSet<PodKey>> = BTreeMap::new();
        for decision in decisions.list {
            match decision {
                Decision::Bind { pod, node, .. } => {
                    acted = true;
                    seen.binds += 1;
                    let node_index: usize = node[1..].parse().expect("nodes are numbered");
                    let none = BTreeSet::new();
                    let fact = model.pods[&pod].clone();
                    prop_assert!(!model.passes_ceiling(&fact, &none), "{pod} was bound past a ceiling");
                    prop_assert!(model.fits(&fact, node_index, &none), "{pod} does not fit {node}");
                    let pod_mut = model.pods.get_mut(&pod).expect("the engine binds pods that exist");
                    pod_mut.fact.node = Some(node.clone());
                    pod_mut.fact.phase = Phase::Running;
                    bound.push((pod, node));
                }
                Decision::Evict { pod, claimant, reason, .. } => {
                    let rule = reason.rule;
                    acted = true;
                    let claimant = claimant.expect("elastic evictions have a claimant");
                    let own = model.quota_of(&model.pods[&claimant]);
                    let same = own.is_some() && own == model.quota_of(&model.pods[&pod]);
                    let expected = match (own, same) {
                        (None, _) => rule == Rule::Priority,
                        (Some(_), true) => rule == Rule::OwnQuota,
                        (Some(_), false) => matches!(rule, Rule::ElasticReclaim | Rule::ElasticFairShare),
                    };
                    *seen.evictions.entry(rule).or_default() += 1;
                    prop_assert!(expected, "{pod} was evicted for {claimant} by {rule:?}");
                    evicted.entry(claimant).or_default().insert(pod);
                }
                Decision::Nominate { pod, node, .. } => {
                    model.pods.get_mut(&pod).expect("the engine nominates pods that exist").fact.nominated = node;
                }
                Decision::Hold { .. } | Decision::Mark { .. } | Decision::Admit { .. } => {}
            }
        }
        // With one claimant in a cycle, and nothing bound in it, the state it was decided in is the one from before.
        if evicted.len() == 1 && bound.is_empty() && before.pods.values().all(|pod| pod.fact.nominated.is_none()) {
            seen.compared += 1;
            let (claimant, victims) = evicted.first_key_value().expect("there is one");
            let expected = before.cheapest(&before.pods[claimant]);
            prop_assert_eq!(Some(victims), expected.as_ref(), "victims for {}", claimant);
        }
        for victim in evicted.values().flatten() {
            model.pods.remove(victim);
            engine.observe(NOW, Fact::PodGone(victim.clone()));
        }
        for (pod, _) in &bound {
            engine.observe(NOW, Fact::Pod(model.pods[pod].fact.clone()));
        }
        engine.check_invariants().map_err(TestCaseError::fail)?;
        check_reports(engine, model)?;
        if !acted {
            return Ok(());
        }
    }
    Ok(())
}

fn check_reports(engine: &Engine, model: &Model) -> Result<(), TestCaseError> {
    let none = BTreeSet::new();
    for report in engine.quotas() {
        let quota =
            NAMESPACES.iter().position(|n| **n == *report.key.namespace).expect("quotas are of these namespaces");
        for (r, resource) in RESOURCES.iter().enumerate() {
            let of = |list: &[(Name, i128)]| list.iter().find(|(n, _)| **n == **resource).map_or(0, |(_, a)| *a);
            prop_assert_eq!(of(&report.used), i128::from(model.used(quota, r, &none)));
            if model.governed(r) {
                let owed = model.min(quota, r) + model.fair_share(quota, r);
                prop_assert_eq!(of(&report.entitlement), i128::from(owed));
            }
        }
    }
    Ok(())
}

/// Waiting pods that could run or claim would have done so: nobody is forgotten.
fn nobody_forgotten(engine: &Engine, model: &Model) -> Result<(), TestCaseError> {
    let none = BTreeSet::new();
    for pod in model.pods.values().filter(|pod| pod.fact.node.is_none()) {
        let key = pod.fact.key();
        let said = || engine.reason(&key).map(|reason| reason.message.clone());
        prop_assert!(!model.runs(pod, &none), "{} waits though it could run: {:?}", key, said());
        if !pod.fact.never_preempts {
            let victims = model.cheapest(pod);
            prop_assert!(victims.is_none(), "{} waits though it could evict {:?}", pod.fact.key(), victims);
        }
    }
    Ok(())
}

fn take(model: &mut Model, engine: &mut Engine, step: &Step) {
    match step {
        Step::AddPod { namespace, size, priority, never } => {
            if model.pods.len() >= 9 {
                return; // All sets of victims are tried; more pods would take too long.
            }
            model.made += 1;
            let fact = PodFact {
                namespace: name(NAMESPACES[*namespace]),
                name: name(&format!("p{}", model.made)),
                uid: name(&format!("u{}", model.made)),
                created: Created(model.made),
                spec: Arc::new(PodSpec { requests: amounts(*size), ..PodSpec::default() }),
                priority: *priority,
                never_preempts: *never,
                ours: true,
                ..PodFact::default()
            };
            engine.observe(NOW, Fact::Pod(fact.clone()));
            model.pods.insert(fact.key(), Pod { fact, size: *size });
        }
        Step::EndPod(index) => {
            if let Some(key) = model.pods.keys().nth(*index).cloned() {
                model.pods.remove(&key);
                engine.observe(NOW, Fact::PodGone(key));
            }
        }
        Step::Quota { namespace, min, max } => {
            model.quotas.insert(*namespace, Quota { min: *min, max: *max });
            engine.observe(NOW, model.quota_fact(*namespace));
        }
        Step::DropQuota(namespace) => {
            if model.quotas.remove(namespace).is_some() {
                engine.observe(NOW, Fact::QuotaGone(model.key(*namespace)));
            }
        }
        Step::Node { name, size } => {
            model.nodes.insert(*name, *size);
            engine.observe(NOW, node_fact(*name, *size));
        }
        Step::DropNode(index) => {
            if model.nodes.remove(index).is_some() {
                let node = name(&format!("n{index}"));
                let lost: Vec<PodKey> = model
                    .pods
                    .values()
                    .filter(|pod| pod.fact.node.as_ref() == Some(&node))
                    .map(|pod| pod.fact.key())
                    .collect();
                engine.observe(NOW, Fact::NodeGone(node));
                for key in lost {
                    model.pods.remove(&key);
                    engine.observe(NOW, Fact::PodGone(key));
                }
            }
        }
        Step::Restart => {
            *engine = Engine::new(Settings::default());
            for fact in model.facts() {
                engine.observe(NOW, fact);
            }
        }
    }
}

fn size() -> impl Strategy<Value = Vector> {
    (0i64..=3, 0i64..=3).prop_map(|(cpu, gpu)| [cpu, gpu])
}

/// A min, and a max that is not below it.
fn quota() -> impl Strategy<Value = ([Option<i64>; 2], [Option<i64>; 2])> {
    (bound(6), bound(6)).prop_map(|(min, extra)| {
        let max = |r: usize| extra[r].map(|extra| min[r].unwrap_or(0) + extra);
        (min, [max(0), max(1)])
    })
}

fn bound(most: i64) -> impl Strategy<Value = [Option<i64>; 2]> {
    let one = move || prop_oneof![1 => Just(None), 3 => (0..=most).prop_map(Some)];
    (one(), one()).prop_map(|(cpu, gpu)| [cpu, gpu])
}

fn step() -> impl Strategy<Value = Step> {
    let namespace = prop_oneof![3 => Just(0usize), 3 => Just(1usize), 3 => Just(2usize), 1 => Just(3usize)];
    let pod = (namespace, size(), 0i32..3, prop::bool::weighted(0.1));
    prop_oneof![
        8 => pod.prop_map(|(namespace, size, priority, never)| Step::AddPod { namespace, size, priority, never }),
        3 => (0usize..9).prop_map(Step::EndPod),
        2 => (0usize..3, quota()).prop_map(|(namespace, (min, max))| Step::Quota { namespace, min, max }),
        1 => (0usize..3).prop_map(Step::DropQuota),
        1 => (0usize..3, (2i64..8, 2i64..8)).prop_map(|(name, (cpu, gpu))| Step::Node { name, size: [cpu, gpu] }),
        1 => (0usize..3).prop_map(Step::DropNode),
        1 => Just(Step::Restart),
    ]
}

fn history() -> impl Strategy<Value = (bool, Vec<Step>)> {
    let quotas =
        (0usize..3).prop_flat_map(|namespace| quota().prop_map(move |(min, max)| Step::Quota { namespace, min, max }));
    let nodes = (0usize..3, (3i64..8, 3i64..8)).prop_map(|(name, (cpu, gpu))| Step::Node { name, size: [cpu, gpu] });
    let start = (prop::collection::vec(nodes, 1..4), prop::collection::vec(quotas, 2..6));
    (any::<bool>(), start, prop::collection::vec(step(), 1..25))
        .prop_map(|(fair, (nodes, quotas), steps)| (fair, nodes.into_iter().chain(quotas).chain(steps).collect()))
}

proptest! {
    #![proptest_config(cases(1_000))]

    #[test]
    fn elastic_quotas_keep_their_promises((fair, steps) in history()) {
        run(fair, &steps, &mut Seen::default())?;
    }
}

fn run(fair: bool, steps: &[Step], seen: &mut Seen) -> Result<(), TestCaseError> {
    let mut model = Model { fair, ..Model::default() };
    let mut engine = Engine::new(Settings::default());
    for step in steps {
        take(&mut model, &mut engine, step);
        settle(&mut engine, &mut model, seen)?;
    }
    nobody_forgotten(&engine, &model)
}

/// Of two victims that hold different things, one may have to go before the other: the quota is above its due in what
/// the last one gives only if the order is right.
#[test]
fn victims_go_in_an_order_in_which_each_may() {
    let quota = |namespace, min| Step::Quota { namespace, min, max: [None, None] };
    let pod = |namespace, size| Step::AddPod { namespace, size, priority: 0, never: false };
    let steps = [
        Step::Node { name: 0, size: [3, 6] },
        quota(0, [None, Some(5)]),
        quota(1, [Some(3), Some(3)]),
        quota(2, [Some(2), Some(1)]),
        pod(2, [1, 1]),
        pod(2, [2, 0]),
        pod(2, [0, 1]),
        pod(1, [3, 3]),
    ];
    let mut seen = Seen::default();
    run(false, &steps, &mut seen).expect("the promises hold");
    assert_eq!(seen.evictions.get(&Rule::ElasticReclaim), Some(&2));
}

/// A node that goes has its number given to the next, which may be as full and as large, and of another name: pods of
/// a kind that nobody asked for meanwhile find it all the same.
#[test]
fn a_node_in_the_place_of_another_is_found() {
    let quota = |namespace, max| Step::Quota { namespace, min: [None, None], max };
    let pod = |namespace, size, priority| Step::AddPod { namespace, size, priority, never: false };
    let steps = [
        Step::Node { name: 2, size: [4, 6] },
        quota(0, [None, None]),
        quota(1, [Some(0), None]),
        pod(3, [2, 3], 0),
        Step::Node { name: 0, size: [7, 6] },
        pod(2, [2, 3], 2),
        pod(1, [2, 3], 2),
        pod(2, [2, 3], 0),
        Step::DropNode(2),
        Step::Node { name: 0, size: [5, 7] },
        pod(2, [3, 2], 1),
        Step::Node { name: 1, size: [5, 7] },
        Step::DropQuota(0),
        Step::EndPod(1),
        Step::DropNode(0),
        Step::EndPod(1),
        pod(1, [1, 0], 2),
        Step::EndPod(2),
        Step::DropQuota(1),
        pod(1, [1, 3], 0),
    ];
    run(false, &steps, &mut Seen::default()).expect("the promises hold");
}

/// Histories bring about what they are for: a generator that never evicts anybody proves nothing.
#[test]
fn histories_are_eventful() {
    let mut seen = Seen::default();
    for (fair, steps) in samples(2_000, history()) {
        run(fair, &steps, &mut seen).expect("the promises hold");
    }
    assert!(seen.binds > 2_000 && seen.compared > 400, "{seen:?}");
    for rule in [Rule::Priority, Rule::OwnQuota, Rule::ElasticReclaim, Rule::ElasticFairShare] {
        assert!(seen.evictions.get(&rule).is_some_and(|count| *count >= 5), "{rule:?} in {seen:?}");
    }
}
