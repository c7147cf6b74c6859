//! Histories on which the engine and the rule once differed.

use std::sync::Arc;

use quotient_engine::fact::*;
use quotient_engine::{Decision, Engine};

use crate::history::{self, History, How, Step};

fn name(text: &str) -> Name {
    Name::from(text)
}

fn node() -> Step {
    let allocatable = [(name(CPU), 4), (name(PODS), 9)].into_iter().collect();
    Step::Node(NodeFact { name: name("n"), allocatable, ..NodeFact::default() })
}

fn pod(of: &str, cpu: i64, volumes: Vec<PodVolume>) -> PodFact {
    let requests = [(name(CPU), cpu)].into_iter().collect();
    PodFact {
        namespace: name("a"),
        name: name(of),
        spec: Arc::new(PodSpec { requests, volumes, ..PodSpec::default() }),
        ours: true,
        ..PodFact::default()
    }
}

fn running(pod: PodFact) -> Step {
    Step::Pod(PodFact { node: Some(name("n")), phase: Phase::Running, ..pod })
}

/// A driver that attaches one volume to the node, its class, a volume, and a claim that names it.
fn storage(bound: bool) -> Vec<Step> {
    let limits = AttachLimits { node: name("n"), limits: vec![(name("driver"), 1)] };
    let class = StorageClassFact {
        name: name("class"),
        waits_for_consumer: true,
        provisions: true,
        provisioner: name("driver"),
        ..StorageClassFact::default()
    };
    let volume = VolumeFact {
        name: name("volume"),
        class: name("class"),
        driver: Some(name("driver")),
        handle: name("handle"),
        ..VolumeFact::default()
    };
    let claim = ClaimFact {
        namespace: name("a"),
        name: name("claim"),
        class: name("class"),
        volume: Some(name("volume")),
        bound,
        ..ClaimFact::default()
    };
    vec![Step::Limits(limits), Step::Class(class), Step::Volume(volume), Step::Claim(claim)]
}

/// Tells a history to the engine and to the rule; what the engine did, without nominations and holds.
fn decided(cluster: Vec<Step>, steps: Vec<Step>) -> Vec<String> {
    let history = History { reserve_after_ms: 1_000_000_000, cluster, shuffle: 0, steps };
    let decided = history::run::<Engine>(&history).expect("the engine decides as the rule says");
    let say = |decision: &Decision| match decision {
        Decision::Bind { pod, .. } => Some(format!("bind {}", pod.name)),
        Decision::Evict { pod, violates_budget: true, .. } => Some(format!("evict {} over budget", pod.name)),
        Decision::Evict { pod, .. } => Some(format!("evict {}", pod.name)),
        _ => None,
    };
    decided.iter().flat_map(|decisions| &decisions.list).filter_map(say).collect()
}

/// A pod that ends by itself before its eviction is seen takes nothing of what a disruption budget allows.
#[test]
fn an_eviction_that_an_end_forestalls_spends_no_disruption() {
    let budget = BudgetFact { namespace: name("a"), name: name("b"), selector: Some(Selector::default()), allowed: 1 };
    let claimant = |of: &str| Step::Pod(PodFact { priority: 1, ..pod(of, 2, vec![]) });
    let low = |of: &str| running(pod(of, 2, vec![]));
    let cluster = vec![node(), Step::Budget(budget), low("p0"), low("p1"), claimant("p2")];
    let steps = vec![Step::End(0, Phase::Succeeded), Step::Decide, claimant("p3")];
    assert_eq!(decided(cluster, steps), ["evict p0", "bind p2", "evict p1"]);
}

/// What a pod attaches changes with its volume, and all of it goes with the pod.
#[test]
fn a_volume_that_goes_before_its_pod_stays_attached_nowhere() {
    let user = running(pod("p0", 1, vec![PodVolume::Claim(name("claim"))]));
    let next = Step::Pod(pod("p1", 1, vec![PodVolume::Inline { driver: name("driver") }]));
    let cluster = [storage(true), vec![node(), user, next]].concat();
    let volume = 1; // After the limits, in the order of kinds.
    let steps = vec![Step::Gone(volume), Step::Delete(0), Step::Delete(0)];
    assert_eq!(decided(cluster, steps), ["bind p1"]);
}

/// A claim that names a volume attaches it, though it is not bound yet: a driver without a volume to spare is not
/// asked.
#[test]
fn a_claim_attaches_the_volume_that_it_names() {
    let mut cluster = storage(false);
    for step in &mut cluster {
        if let Step::Volume(volume) = step {
            volume.driver = None;
        }
    }
    let other = running(pod("p0", 1, vec![PodVolume::Claim(name("claim"))]));
    let next = Step::Pod(pod("p1", 1, vec![PodVolume::Inline { driver: name("driver") }]));
    cluster.extend([node(), other, next]);
    assert_eq!(decided(cluster, vec![]), ["bind p1"]);
}

/// A pod that comes with a nomination takes room that a claimant at rest counted on: that one is looked at first. The
/// one whose own victim is gone does not wait for the other's.
#[test]
fn a_claim_that_is_told_is_noticed_by_those_who_rest() {
    let node = Step::Node(NodeFact {
        name: name("n"),
        allocatable: [(name(PODS), 2)].into_iter().collect(),

        ..NodeFact::default()
    });
    let low = |of: &str| running(pod(of, 0, vec![]));
    let claimant = |of: &str| Step::Pod(PodFact { priority: 1, ..pod(of, 0, vec![]) });
    let nominated = |of: &str| Step::Pod(PodFact { nominated: Some(name("n")), ..pod(of, 0, vec![]) });
    let cluster = vec![node, low("p0"), low("p4"), claimant("p1"), claimant("p5")];
    let first_victim_goes = Step::Resolve(1, How::Well);
    let steps = vec![first_victim_goes, Step::Decide, nominated("p0"), nominated("p2")];
    assert_eq!(decided(cluster, steps), ["evict p0", "evict p4", "bind p1"]);
}
