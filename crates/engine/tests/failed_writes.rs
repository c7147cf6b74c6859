//! What is reserved in the expectation of an eviction ends with it where the eviction does not happen; and what a pod
//! keeps whose bind failed ends with its queue.

use std::sync::Arc;

use quotient_engine::fact::{
    CPU, Created, Fact, GroupFact, GroupName, Limits, Name, NodeFact, PODS, Phase, PodFact, PodKey, PodSpec, QueueFact,
    QuotaKey, Tick,
};
use quotient_engine::{Budget, Decision, Engine, Settings};

const NOW: Tick = Tick(1_000);

fn name(text: &str) -> Name {
    Name::from(text)
}

fn queue(named: &str, deserved: i64) -> Fact {
    let key =
        QuotaKey { kind: name("Queue"), group: name("scheduling.volcano.sh"), namespace: name(""), name: name(named) };
    let deserved = Some(Limits::from_iter([(name(CPU), deserved)]));
    Fact::from(QueueFact { key, deserved, reclaimable: true, ..QueueFact::default() })
}

fn pod(named: &str, created: i64, queue: &str, cpu: i64) -> PodFact {
    PodFact {
        namespace: name("a"),
        name: name(named),
        uid: name(named),
        created: Created(created),
        spec: Arc::new(PodSpec { requests: [(name(CPU), cpu)].into_iter().collect(), ..PodSpec::default() }),
        queue: Some(name(queue)),
        ours: true,
        ..PodFact::default()
    }
}

fn running(pod: PodFact) -> Fact {
    Fact::Pod(PodFact { node: Some(name("node")), phase: Phase::Running, ..pod })
}

/// Which pods are bound, and which evicted.
fn decided(engine: &mut Engine) -> (Vec<PodKey>, Vec<PodKey>) {
    let (mut bound, mut evicted) = (Vec::new(), Vec::new());
    for decision in engine.decide(NOW, Budget::default()).list {
        match decision {
            Decision::Bind { pod, .. } => bound.push(pod),
            Decision::Evict { pod, .. } => evicted.push(pod),
            _ => {}
        }
    }
    (bound, evicted)
}

/// `owner` evicts `large`, and `other` of q2 waits for what that leaves. `large` is not evicted after all, so that
/// `other` gets nothing: q2 holds `own` alone, which it deserves, and `owner` evicts `large` again.
#[test]
fn a_reservation_without_basis_exposes_no_pod_of_its_quota() {
    let mut engine = Engine::new(Settings::default());
    let allocatable = [(name(CPU), 4), (name(PODS), 20)].into_iter().collect();
    let node = NodeFact { name: name("node"), allocatable, ..NodeFact::default() };
    let large = PodFact { priority: 1, ..pod("large", 1, "q1", 3) };
    let facts = [
        Fact::Node(node),
        queue("q1", 0),
        queue("q2", 1),
        queue("q3", 1),
        running(large.clone()),
        running(pod("own", 2, "q2", 1)),
        Fact::Pod(pod("other", 3, "q2", 2)),
        Fact::Pod(pod("owner", 4, "q3", 1)),
    ];
    facts.into_iter().for_each(|fact| engine.observe(NOW, fact));
    assert_eq!(decided(&mut engine), (vec![], vec![large.key()]));
    engine.observe(NOW, Fact::EvictFailed { pod: large.key(), uid: large.uid.clone() });
    assert_eq!(decided(&mut engine), (vec![], vec![large.key()]));
}

/// Two pods of a gang are bound, and one bind fails: it keeps its room. Then the group is made anew in a queue that
/// does not exist, and another pod gets the room.
#[test]
fn a_group_without_a_queue_keeps_no_room_of_a_bind_that_failed() {
    let mut engine = Engine::new(Settings::default());
    let allocatable = [(name(CPU), 4), (name(PODS), 20)].into_iter().collect();
    let node = NodeFact { name: name("node"), allocatable, ..NodeFact::default() };
    let group = |queue: &str| GroupFact {
        namespace: name("a"),
        name: name("g"),
        queue: Some(name(queue)),
        min_member: 2,
        ..GroupFact::default()
    };
    let member = |named: &str| PodFact {
        group: Some(GroupName { api_group: name(""), name: name("g") }),
        ..pod(named, 1, "q", 2)
    };
    let facts = [Fact::Node(node), queue("q", 4), Fact::Group(group("q"))];
    facts.into_iter().for_each(|fact| engine.observe(NOW, fact));
    ["first", "second"].into_iter().for_each(|named| engine.observe(NOW, Fact::Pod(member(named))));
    assert_eq!(decided(&mut engine), (vec![member("first").key(), member("second").key()], vec![]));
    engine.observe(NOW, Fact::BindFailed { pod: member("first").key(), uid: name("first") });
    engine.observe(NOW, running(member("second")));
    engine.observe(NOW, Fact::GroupGone(group("q").key()));
    engine.observe(NOW, Fact::Group(group("gone")));
    let third = PodFact { queue: None, ..pod("third", 9, "", 2) };
    engine.observe(NOW, Fact::Pod(third.clone()));
    assert_eq!(decided(&mut engine), (vec![third.key()], vec![]));
}
