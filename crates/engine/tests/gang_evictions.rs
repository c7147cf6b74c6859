//! What evictions make of gangs. Where a group needs one pod of a certain task, the pods of other tasks that run beside
//! it do not stay without it; and gangs do not take turns in evicting each other. Nor is a gang left with a part of its
//! pods because the bind of one was refused.

use std::collections::BTreeSet;
use std::sync::Arc;

use quotient_engine::fact::*;
use quotient_engine::{Budget, Decision, Engine, Fact, Settings, Tick};

fn name(text: &str) -> Name {
    Name::from(text)
}

fn node(cpu: i64) -> Fact {
    let amounts = [("cpu", cpu), ("memory", 10), ("pods", 20)];
    let allocatable = amounts.into_iter().map(|(resource, amount)| (name(resource), amount)).collect();
    Fact::Node(NodeFact { name: name("n"), allocatable, ..NodeFact::default() })
}

/// A group of which one pod is enough, if it is a head.
fn group() -> Fact {
    Fact::Group(GroupFact {
        namespace: name("a"),
        name: name("g"),
        min_member: 1,
        min_task_member: vec![(name("head"), 1)],
        admitted: true,
        ..GroupFact::default()
    })
}

fn waiting(named: &str, created: i64, priority: i32, (cpu, memory): (i64, i64)) -> PodFact {
    let requests = [(name("cpu"), cpu), (name("memory"), memory)].into_iter().collect();
    PodFact {
        namespace: name("a"),
        name: name(named),
        uid: name(named),
        created: Created(created),
        spec: Arc::new(PodSpec { requests, ..PodSpec::default() }),
        priority,
        ours: true,
        ..PodFact::default()
    }
}

fn running(pod: PodFact) -> PodFact {
    PodFact { node: Some(name("n")), phase: Phase::Running, ..pod }
}

fn member(pod: PodFact, task: &str) -> PodFact {
    PodFact { group: Some(name("g").into()), task: Some(name(task)), ..running(pod) }
}

fn engine(facts: impl IntoIterator<Item = Fact>) -> Engine {
    let mut engine = Engine::new(Settings::default());
    facts.into_iter().for_each(|fact| engine.observe(Tick(0), fact));
    engine
}

/// Who is evicted in a cycle.
fn evicted(engine: &mut Engine, now: Tick) -> BTreeSet<String> {
    let decisions = engine.decide(now, Budget::default());
    let victims = decisions.list.iter().filter_map(|decision| match decision {
        Decision::Evict { pod, .. } => Some(pod.name.to_string()),
        _ => None,
    });
    victims.collect()
}

/// Who is evicted for a pod of priority 5 from a node that these pods fill.
fn evicted_from_a_full_node<const N: usize>(pods: [PodFact; N]) -> BTreeSet<String> {
    let claimant = waiting("claimant", 100, 5, (1, 0));
    let pods = pods.into_iter().chain([claimant]).map(Fact::Pod);
    evicted(&mut engine([node(N as i64), group()].into_iter().chain(pods)), Tick(0))
}

fn names<const N: usize>(names: [&str; N]) -> BTreeSet<String> {
    names.into_iter().map(str::to_owned).collect()
}

#[test]
fn the_needed_pod_stays_with_one_that_may_not_go() {
    let head = member(waiting("head", 1, 0, (1, 0)), "head");
    let worker = member(waiting("worker", 2, 9, (1, 0)), "worker");
    assert_eq!(evicted_from_a_full_node([head.clone(), worker.clone()]), names([]));
    let other = running(waiting("other", 3, 4, (1, 0)));
    assert_eq!(evicted_from_a_full_node([head, worker, other]), names(["other"]));
}

#[test]
fn all_go_with_the_needed_pod() {
    // The head is the less important one, so to take it is cheaper, if the group is worth no more than its pods.
    let head = member(waiting("head", 1, 0, (2, 0)), "head");
    let worker = member(waiting("worker", 2, 1, (1, 0)), "worker");
    let claimant = waiting("claimant", 100, 5, (2, 0));
    let pods = [head, worker, claimant].map(Fact::Pod);
    let mut engine = engine([node(3), group()].into_iter().chain(pods));
    assert_eq!(evicted(&mut engine, Tick(0)), names(["head", "worker"]));
}

#[test]
fn those_beyond_the_needed_pod_go_alone() {
    let head = member(waiting("head", 2, 0, (1, 0)), "head");
    let worker = member(waiting("worker", 1, 0, (1, 0)), "worker");
    assert_eq!(evicted_from_a_full_node([head.clone(), worker.clone()]), names(["worker"]));
    let second = member(waiting("second", 3, 0, (1, 0)), "head");
    assert_eq!(evicted_from_a_full_node([head, worker, second]), names(["second"]));
}

#[test]
fn a_group_of_the_needed_pod_alone_is_a_pod_like_others() {
    let head = member(waiting("head", 2, 0, (1, 0)), "head");
    let other = running(waiting("other", 1, 0, (1, 0)));
    assert_eq!(evicted_from_a_full_node([head, other]), names(["head"]));
}

/// What is given back of a quota that holds too much is not the needed pod alone either, in whichever order they go.
#[test]
fn a_quota_gives_back_the_needed_pod_with_the_others() {
    let key = QuotaKey {
        kind: name("ElasticQuota"),
        group: name("scheduling.sigs.k8s.io"),
        namespace: name("a"),
        name: name("q"),
    };
    let max = [(name("cpu"), 2), (name("memory"), 0)].into_iter().collect();
    let quota = TreeFact { key, max, lends: true, namespaces: vec![name("a")], ..TreeFact::default() };
    for (head, worker) in [(0, 1), (1, 0)] {
        let head = member(waiting("head", 1, head, (1, 1)), "head");
        let worker = member(waiting("worker", 2, worker, (1, 0)), "worker");
        let other = running(waiting("other", 3, 2, (1, 0)));
        let pods = [head, worker, other].map(Fact::Pod);
        let mut engine = engine([node(10), group(), Fact::from(quota.clone())].into_iter().chain(pods));
        assert_eq!(evicted(&mut engine, Tick(0)), names([]));
        assert_eq!(evicted(&mut engine, Tick(1_000_000)), names(["head", "worker"]));
    }
}

/// A gang that goes whole leaves more room than its evictors are owed; if they took all of it, it could claim that back
/// as soon as it is made anew, and so could they then, for ever.
#[test]
fn gangs_do_not_evict_each_other_in_turn() {
    let queue = |named: &str, deserved: i64| {
        let (kind, group) = (name("Queue"), name("scheduling.volcano.sh"));
        let key = QuotaKey { kind, group, namespace: name(""), name: name(named) };
        let deserved = Some([(name("cpu"), deserved)].into_iter().collect());
        Fact::from(QueueFact { key, deserved, reclaimable: true, ..QueueFact::default() })
    };
    let gang = |named: &str| {
        let (namespace, queue) = (name("a"), Some(name(named)));
        let name = name(named);
        Fact::Group(GroupFact { namespace, name, queue, min_member: 3, admitted: true, ..GroupFact::default() })
    };
    let of = |group: &str, pod: PodFact| PodFact { group: Some(name(group).into()), ..pod };
    for (deserved, expected) in [(1, names([])), (3, names(["old-0", "old-1", "old-2"]))] {
        let old = (0..3).map(|i| of("old", running(waiting(&format!("old-{i}"), i, 0, (1, 0)))));
        let new = (0..3).map(|i| of("new", waiting(&format!("new-{i}"), 3 + i, 0, (1, 0))));
        let others = [node(3), queue("old", 1), queue("new", deserved), gang("old"), gang("new")];
        let mut engine = engine(others.into_iter().chain(old.chain(new).map(Fact::Pod)));
        assert_eq!(evicted(&mut engine, Tick(0)), expected, "{deserved} deserved");
    }
}

/// Whose bind fails while the others of its gang run is bound again: nobody takes its room meanwhile, though its turn
/// would come first.
#[test]
fn the_room_of_a_member_whose_bind_failed_is_kept() {
    let gang =
        GroupFact { namespace: name("a"), name: name("g"), min_member: 2, admitted: true, ..GroupFact::default() };
    let members = [("g-0", 2, 1), ("g-1", 3, 2)]
        .map(|(named, created, cpu)| PodFact { group: Some(name("g").into()), ..waiting(named, created, 0, (cpu, 0)) });
    let mut engine = engine([node(3), Fact::Group(gang)].into_iter().chain(members.clone().map(Fact::Pod)));
    let bound = |engine: &mut Engine, now: Tick| -> BTreeSet<String> {
        let decisions = engine.decide(now, Budget::default()).list.into_iter();
        let bound = decisions.filter_map(|decision| match decision {
            Decision::Bind { pod, .. } => Some(pod.name.to_string()),
            _ => None,
        });
        bound.collect()
    };
    assert_eq!(bound(&mut engine, Tick(0)), names(["g-0", "g-1"]));
    let [first, second] = members;
    engine.observe(Tick(1), Fact::Pod(running(first)));
    // One is older, and one could evict the gang, but not this pod without the other.
    engine.observe(Tick(2), Fact::Pod(waiting("older", 1, 0, (1, 0))));
    engine.observe(Tick(2), Fact::Pod(waiting("dearer", 4, 1, (2, 0))));
    engine.observe(Tick(3), Fact::BindFailed { pod: second.key(), uid: second.uid });
    assert_eq!(bound(&mut engine, Tick(4)), names(["g-1"]));
}
