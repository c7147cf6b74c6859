//! Each row of the table, and each fact: who is awake after it.

use std::sync::Arc;

use super::{Change, Wakes};
use crate::decision::Budget;
use crate::engine::{Engine, Settings};
use crate::fact::{
    Amounts, AttachLimits, BudgetFact, ClaimFact, Created, ElasticFact, Fact, GroupFact, GroupName, Labels, Limits,
    Name, NodeFact, Phase, PodFact, PodKey, PodSpec, QueueFact, QuotaKey, Selector, SelectorFact, StorageClassFact,
    Tick, TreeFact, VolumeFact,
};

const NOW: Tick = Tick(1);

fn name(text: &str) -> Name {
    Name::from(text)
}

fn node(named: &str, cpu: i64) -> NodeFact {
    let allocatable = Amounts::from_iter([(name("cpu"), cpu), (name("pods"), 110)]);
    NodeFact { name: name(named), allocatable, ..NodeFact::default() }
}

fn pod(named: &str, cpu: i64, priority: i32) -> PodFact {
    let requests = Amounts::from_iter([(name("cpu"), cpu)]);
    PodFact {
        namespace: name("a"),
        name: name(named),
        uid: name(named),
        spec: Arc::new(PodSpec { requests, assumed: (cpu, 0), ..PodSpec::default() }),
        priority,
        phase: Phase::Pending,
        ours: true,
        ..PodFact::default()
    }
}

fn on_node(pod: PodFact) -> PodFact {
    PodFact { phase: Phase::Running, node: Some(name("n")), ..pod }
}

fn key(named: &str) -> PodKey {
    PodKey { namespace: name("a"), name: name(named) }
}

/// A cluster in which `huge` fits no node, and `claimant` awaits its victim.
fn engine() -> Engine {
    let mut engine = Engine::new(Settings::default());
    let facts = [
        Fact::Node(node("n", 10)),
        Fact::Node(node("m", 2)),
        Fact::Pod(on_node(pod("victim", 8, 0))),
        Fact::Pod(on_node(pod("small", 1, 100))),
        Fact::Pod(pod("huge", 1_000, 0)),
        Fact::Pod(pod("claimant", 5, 10)),
    ];
    facts.into_iter().for_each(|fact| engine.observe(NOW, fact));
    engine.decide(NOW, Budget::default());
    assert_eq!(awake(&engine), [false, false], "all rest when everything is decided");
    engine
}

/// Whether the pod that fits no node, and the one that awaits its victim, are to be tried again.
fn awake(engine: &Engine) -> [bool; 2] {
    ["huge", "claimant"].map(|named| {
        let pod = engine.world.pods.find(&key(named)).expect("it is there");
        engine.world.pods.get(pod).group.is_some_and(|group| engine.queue.is_awake(group))
    })
}

#[test]
fn each_change_wakes_whom_the_table_says() {
    for change in Change::ALL {
        let mut engine = engine();
        engine.note(change);
        let expected = match change.wakes() {
            Wakes::Everyone => [true, true],
            Wakes::AllButAwaiting => [true, false],
        };
        assert_eq!(awake(&engine), expected, "{change:?}");
    }
    let few: Vec<Change> = Change::ALL.into_iter().filter(|change| change.wakes() == Wakes::AllButAwaiting).collect();
    assert_eq!(few, [Change::EvictionSeen, Change::ReservationUsed, Change::Preempted]);
}

fn quota_key(kind: &str, group: &str, named: &str) -> QuotaKey {
    QuotaKey { kind: name(kind), group: name(group), namespace: name("z"), name: name(named) }
}

/// Facts that say something new of the cluster, and then again what they said.
#[test]
fn a_fact_wakes_once_and_not_when_it_says_nothing_new() {
    let limits = Limits::from_iter([(name("cpu"), 1)]);
    let elastic = quota_key("ElasticQuota", "scheduling.x-k8s.io", "q");
    let tree = quota_key("ElasticQuota", "scheduling.sigs.k8s.io", "t");
    let queue = quota_key("Queue", "scheduling.volcano.sh", "r");
    let selector = Selector { requirements: Vec::new() };
    let (z, volume, claim, class) = (name("z"), name("v"), name("c"), name("s"));
    let of_z = |named: &Name| (name("z"), named.clone());
    let rows: Vec<(Fact, Option<Fact>)> = vec![
        (Fact::Node(node("other", 5)), Some(Fact::NodeGone(name("other")))),
        (Fact::Node(node("n", 11)), None),
        (Fact::Node(NodeFact { unschedulable: true, ..node("n", 10) }), None),
        (
            Fact::AttachLimits(AttachLimits { node: name("n"), limits: vec![(name("driver"), 3)] }),
            Some(Fact::AttachLimitsGone(name("n"))),
        ),
        (
            Fact::from(ElasticFact { key: elastic.clone(), min: limits.clone(), ..ElasticFact::default() }),
            Some(Fact::QuotaGone(elastic)),
        ),
        (
            Fact::from(TreeFact { key: tree.clone(), max: limits.clone(), ..TreeFact::default() }),
            Some(Fact::QuotaGone(tree)),
        ),
        (
            Fact::from(QueueFact { key: queue.clone(), capability: limits, ..QueueFact::default() }),
            Some(Fact::QuotaGone(queue)),
        ),
        (
            Fact::QueueOfNamespace { namespace: z.clone(), queue: Some(name("r")) },
            Some(Fact::QueueOfNamespace { namespace: z.clone(), queue: None }),
        ),
        (
            Fact::Group(GroupFact { namespace: z.clone(), name: name("g"), admitted: true, ..GroupFact::default() }),
            Some(Fact::GroupGone(GroupName::from(name("g")).of(&z))),
        ),
        (
            Fact::Namespace(z.clone(), Labels::from_iter([(name("team"), name("red"))])),
            Some(Fact::NamespaceGone(z.clone())),
        ),
        (
            Fact::Selector(SelectorFact { object: name("Service/s"), namespace: z.clone(), selector }),
            Some(Fact::SelectorGone { namespace: z.clone(), object: name("Service/s") }),
        ),
        (
            Fact::Budget(BudgetFact { namespace: z.clone(), name: name("b"), selector: None, allowed: 1 }),
            Some(Fact::BudgetGone { namespace: z.clone(), name: name("b") }),
        ),
        (Fact::Volume(VolumeFact { name: volume.clone(), ..VolumeFact::default() }), Some(Fact::VolumeGone(volume))),
        (
            Fact::Claim(ClaimFact { namespace: z, name: claim.clone(), ..ClaimFact::default() }),
            Some(Fact::ClaimGone { namespace: of_z(&claim).0, name: claim }),
        ),
        (
            Fact::StorageClass(StorageClassFact { name: class.clone(), ..StorageClassFact::default() }),
            Some(Fact::StorageClassGone(class)),
        ),
    ];
    for (fact, gone) in rows {
        let mut engine = engine();
        for fact in [Some(fact), gone].into_iter().flatten() {
            for is_new in [true, false] {
                engine.observe(NOW, fact.clone());
                assert_eq!(awake(&engine)[0], is_new, "{fact:?}, new: {is_new}");
                engine.decide(NOW, Budget::default());
            }
        }
    }
}

/// What is told of pods.
#[test]
fn pods_that_come_change_and_go_wake_everyone() {
    let running = |named: &str, cpu: i64| Fact::Pod(on_node(pod(named, cpu, 100)));
    let terminating = PodFact { leaving_since: Some(Created(5)), ..on_node(pod("small", 1, 100)) };
    let rows = [
        ("placed", running("new", 1), true),
        ("seen again", running("small", 1), false),
        ("changed", Fact::Pod(on_node(pod("small", 1, 99))), true),
        ("terminates", Fact::Pod(terminating), true),
        ("gone", Fact::PodGone(key("small")), true),
        ("unknown pod gone", Fact::PodGone(key("nobody")), false),
        ("nominated", Fact::Pod(PodFact { nominated: Some(name("n")), ..pod("huge", 1_000, 0) }), true),
        ("eviction failed", Fact::EvictFailed { pod: key("victim"), uid: name("victim") }, true),
        ("eviction of a pod that stays", Fact::EvictFailed { pod: key("small"), uid: name("small") }, false),
        ("bind of a pod that is on its node", Fact::BindFailed { pod: key("small"), uid: name("small") }, false),
        ("another pending pod", Fact::Pod(pod("late", 2_000, 0)), false),
    ];
    for (what, fact, wakes) in rows {
        let mut engine = engine();
        engine.observe(NOW, fact);
        assert_eq!(awake(&engine)[0], wakes, "{what}");
    }
    let mut engine = engine();
    engine.observe(NOW, Fact::Pod(pod("tiny", 1, 0)));
    assert_eq!(awake(&engine), [false, false], "a new pod does not wake others");
    engine.decide(NOW, Budget::default());
    assert_eq!(awake(&engine), [false, false], "nor does its bind");
    engine.observe(NOW, Fact::BindFailed { pod: key("tiny"), uid: name("tiny") });
    assert_eq!(awake(&engine), [true, true], "a bind that failed does");
}
