//! What ten named cases cost, in instructions: numbers that no other work on the machine can move.
//!
//! `make counts` runs each case under valgrind, counts only what happens inside [`measured`], and compares with the
//! numbers in `counts.tsv` beside this file. Without an argument the cases run once each, so that they can be tried.

use std::hint::black_box;
use std::sync::Arc;

use quotient_engine::device::{
    Allocation, Alternative, ClaimKey, ClaimSpec, Count, DeviceClaimFact, DeviceClassFact, DeviceFact, DeviceKey,
    DeviceRequest, DeviceResult, PodClaim, PoolFact, PoolKey, PoolState, Reach, Verdict, VerdictsFact,
};
use quotient_engine::fact::{
    Amounts, CPU, Created, ElasticFact, Fact, GroupFact, Labels, Limits, MEMORY, Name, NodeFact, NodeTerm, Operator,
    PODS, Phase, PodFact, PodKey, PodSpec, PodTerm, QuotaKey, Requirement, Selector, SpreadConstraint, Tick, TreeFact,
    WhenUnsatisfiable,
};
use quotient_engine::{Budget, Decision, Engine, Settings};

const NOW: Tick = Tick(0);
const GIBIBYTE: i64 = 1 << 30;
const GPU: &str = "nvidia.com/gpu";
const ZONE: &str = "topology.kubernetes.io/zone";
const HOSTNAME: &str = "kubernetes.io/hostname";
const NODE_GPUS: u32 = 8;
const CLASS: &str = "gpu.example.com";
/// How a quota counts devices of the class.
const DEVICES: &str = "gpu.example.com.deviceclass.resource.k8s.io/devices";

/// The cases, by the name that `counts.tsv` has.
const CASES: [(&str, fn()); 10] = [
    ("plain-fill", plain_fill),
    ("all-different-fill", all_different_fill),
    ("verdict", verdict),
    ("reclaim", reclaim),
    ("reclaim-all", reclaim_all),
    ("reclaim-all-fair", reclaim_all_fairly),
    ("reclaim-devices", reclaim_devices),
    ("tree-devices", tree_devices),
    ("gang", gang),
    ("fork", fork),
];

fn main() {
    let wanted = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    for (name, case) in CASES {
        if wanted.as_deref().is_none_or(|wanted| wanted == name) {
            case();
        }
    }
}

/// Instructions are counted here, and in `measured_fork`.
#[inline(never)]
fn measured(engine: &mut Engine, facts: Vec<Fact>) -> Vec<Decision> {
    for fact in facts {
        engine.observe(NOW, fact);
    }
    black_box(engine.decide(NOW, Budget::default()).list)
}

/// The same on a copy of the engine, which is thrown away: what-if, plan and explain do that.
#[inline(never)]
fn measured_fork(engine: &Engine, fact: Fact) -> Vec<Decision> {
    // Not by `measured`: callgrind would stop counting there.
    let mut copy = engine.fork();
    copy.observe(NOW, fact);
    black_box(copy.decide(NOW, Budget::default()).list)
}

/// A copy of a cluster with 4,000 pods takes in one pod more and decides, ten times.
fn fork() {
    let mut engine = cluster(500);
    let pods: Vec<PodFact> = (0..4000).map(|i| pod(i, asks(100 + 50 * i64::from(i % 8), GIBIBYTE, 0))).collect();
    let decisions: Vec<Decision> = {
        pods.iter().cloned().for_each(|pod| engine.observe(NOW, Fact::Pod(pod)));
        engine.decide(NOW, Budget::default()).list
    };
    confirmed(&decisions, &pods).into_iter().for_each(|fact| engine.observe(NOW, fact));
    engine.decide(NOW, Budget::default());
    for i in 0..10 {
        let decisions = measured_fork(&engine, Fact::Pod(pod(5000 + i, asks(100, GIBIBYTE, 0))));
        assert_eq!(decisions.len(), 1, "the pod is bound in the copy");
    }
}

/// Eight shapes fill a cluster, a thousand pods a cycle.
fn plain_fill() {
    let mut engine = cluster(1000);
    for cycle in 0..5 {
        let pods = (cycle * 1000..(cycle + 1) * 1000).map(|i| pod(i, asks(100 + 50 * i64::from(i % 8), GIBIBYTE, 0)));
        let pods: Vec<PodFact> = pods.collect();
        let decisions = measured(&mut engine, pods.iter().cloned().map(Fact::Pod).collect());
        assert_eq!(decisions.len(), 1000, "every pod is bound");
        measured(&mut engine, confirmed(&decisions, &pods));
    }
}

/// Pods that are all different, with node affinity, spread and anti-affinity.
fn all_different_fill() {
    let mut engine = cluster(500);
    for cycle in 0..2 {
        let pods: Vec<PodFact> = (cycle * 200..(cycle + 1) * 200).map(different).collect();
        let decisions = measured(&mut engine, pods.iter().cloned().map(Fact::Pod).collect());
        assert_eq!(decisions.len(), 200, "every pod is bound");
        measured(&mut engine, confirmed(&decisions, &pods));
    }
}

/// Pods that no node is large enough for, one a cycle.
fn verdict() {
    let mut engine = cluster(2000);
    for i in 0..50 {
        let decisions = measured(&mut engine, vec![Fact::Pod(pod(i, asks(1_000_000 + i64::from(i), GIBIBYTE, 0)))]);
        assert!(matches!(decisions[..], [Decision::Hold { .. }]), "{decisions:?}");
    }
}

/// One team borrowed all GPUs, the other claims its own back, one pod a cycle.
fn reclaim() {
    let nodes = 100;
    let mut engine = cluster(nodes);
    for (team, min) in [("lender", nodes * NODE_GPUS), ("borrower", 0)] {
        engine.observe(NOW, Fact::from(quota(team, min)));
    }
    for i in 0..nodes * NODE_GPUS {
        let pod = PodFact { namespace: "borrower".into(), ..pod(i, asks(1000, GIBIBYTE, 1)) };
        engine.observe(NOW, Fact::Pod(running(pod, node_name(i % nodes))));
    }
    engine.decide(NOW, Budget::default());
    for i in 0..100 {
        let claimant = PodFact { namespace: "lender".into(), ..pod(100_000 + i, asks(1000, GIBIBYTE, 1)) };
        let decisions = measured(&mut engine, vec![Fact::Pod(claimant.clone())]);
        let gone: Vec<Fact> = decisions.iter().filter_map(evicted).map(Fact::PodGone).collect();
        assert_eq!(gone.len(), 1, "one victim is enough");
        let decisions = measured(&mut engine, gone);
        measured(&mut engine, confirmed(&decisions, &[claimant]));
    }
}

/// All GPUs are borrowed, and 400 pods reclaim half of them at once; victims go 20 at a time.
fn reclaim_all() {
    reclaim_half(false);
}

/// The same with fair quotas, whose entitlement moves with what others hold.
fn reclaim_all_fairly() {
    reclaim_half(true);
}

fn reclaim_half(fair: bool) {
    let nodes = 100;
    let mut engine = cluster(nodes);
    for team in ["owner", "borrower"] {
        engine.observe(NOW, Fact::from(ElasticFact { fair, ..quota(team, nodes * NODE_GPUS / 2) }));
    }
    for i in 0..nodes * NODE_GPUS {
        let pod = PodFact { namespace: "borrower".into(), ..pod(i, asks(1000, GIBIBYTE, 1)) };
        engine.observe(NOW, Fact::Pod(running(pod, node_name(i % nodes))));
    }
    engine.decide(NOW, Budget::default());
    let claim = |i: u32| PodFact { namespace: "owner".into(), ..pod(100_000 + i, asks(1000, GIBIBYTE, 1)) };
    let claimants: Vec<PodFact> = (0..400u32).map(claim).collect();
    let decisions = measured(&mut engine, claimants.iter().cloned().map(Fact::Pod).collect());
    let gone: Vec<PodKey> = decisions.iter().filter_map(evicted).collect();
    assert_eq!(gone.len(), 400, "each has a victim of its own");
    let mut bound = 0;
    for some in gone.chunks(20) {
        let decisions = measured(&mut engine, some.iter().cloned().map(Fact::PodGone).collect());
        bound += decisions.iter().filter(|decision| matches!(decision, Decision::Bind { .. })).count();
        measured(&mut engine, confirmed(&decisions, &claimants));
    }
    assert_eq!(bound, 400, "each binds when its victim is gone");
}

/// The same with a device claim for each pod, on a quarter of the nodes.
fn reclaim_devices() {
    let nodes = 25;
    let mut engine = cluster(nodes);
    engine.observe(NOW, Fact::DeviceClass(DeviceClassFact { name: CLASS.into(), ..DeviceClassFact::default() }));
    for fact in (0..nodes).flat_map(device_pool) {
        engine.observe(NOW, fact);
    }
    for team in ["owner", "borrower"] {
        engine.observe(NOW, Fact::from(quota_of(team, DEVICES, nodes * NODE_GPUS / 2)));
    }
    for i in 0..nodes * NODE_GPUS {
        let pod = with_device("borrower", i);
        engine.observe(NOW, Fact::DeviceClaim(device_claim(&pod, Some((i % nodes, i / nodes)))));
        engine.observe(NOW, Fact::Pod(running(pod, node_name(i % nodes))));
    }
    engine.decide(NOW, Budget::default());
    let claimants: Vec<PodFact> = (0..100).map(|i| with_device("owner", 100_000 + i)).collect();
    let claims = claimants.iter().map(|pod| Fact::DeviceClaim(device_claim(pod, None)));
    let decisions = measured(&mut engine, claims.chain(claimants.iter().cloned().map(Fact::Pod)).collect());
    let gone: Vec<PodKey> = decisions.iter().filter_map(evicted).collect();
    assert_eq!(gone.len(), 100, "each has a victim of its own");
    let mut bound = 0;
    for some in gone.chunks(20) {
        // A claim gives its device back once its pod is gone.
        let given_back = |key: &PodKey| {
            let pod = PodFact { namespace: key.namespace.clone(), name: key.name.clone(), ..PodFact::default() };
            [Fact::PodGone(key.clone()), Fact::DeviceClaim(device_claim(&pod, None))]
        };
        let decisions = measured(&mut engine, some.iter().flat_map(given_back).collect());
        bound += decisions.iter().filter(|decision| matches!(decision, Decision::Bind { .. })).count();
        measured(&mut engine, confirmed(&decisions, &claimants));
    }
    assert_eq!(bound, 100, "each binds when its victim is gone");
}

/// A tree shares out devices: 400 pods with a claim each come in four cycles, and half of them are bound.
fn tree_devices() {
    let nodes = 25;
    let mut engine = cluster(nodes);
    engine.observe(NOW, Fact::DeviceClass(DeviceClassFact { name: CLASS.into(), ..DeviceClassFact::default() }));
    for fact in (0..nodes).flat_map(device_pool) {
        engine.observe(NOW, fact);
    }
    for team in ["owner", "borrower"] {
        let key = QuotaKey { group: "scheduling.sigs.k8s.io".into(), name: team.into(), ..quota(team, 0).key };
        let limit = |count: u32| Limits::from_iter([(DEVICES.into(), i64::from(count))]);
        let (min, max) = (limit(nodes * NODE_GPUS / 4), limit(nodes * NODE_GPUS));
        let namespaces = vec![team.into()];
        engine.observe(NOW, Fact::from(TreeFact { key, lends: true, min, max, namespaces, ..TreeFact::default() }));
    }
    engine.decide(NOW, Budget::default());
    let mut bound = 0;
    for cycle in 0..4 {
        let team = ["owner", "borrower"][cycle as usize % 2];
        let pods: Vec<PodFact> = (cycle * 100..(cycle + 1) * 100).map(|i| with_device(team, i)).collect();
        let claims = pods.iter().map(|pod| Fact::DeviceClaim(device_claim(pod, None)));
        let decisions = measured(&mut engine, claims.chain(pods.iter().cloned().map(Fact::Pod)).collect());
        bound += decisions.iter().filter(|decision| matches!(decision, Decision::Bind { .. })).count();
        measured(&mut engine, confirmed(&decisions, &pods));
    }
    assert_eq!(bound, 200, "all devices are shared out");
}

/// Gangs of 32 pods fill half of a cluster, one a cycle; then one comes that cannot run.
fn gang() {
    let mut engine = cluster(100);
    for group in 0..12 {
        let members: Vec<PodFact> = (group * 32..(group + 1) * 32).map(|i| member(i, group, 1)).collect();
        engine.observe(NOW, Fact::Group(group_fact(group)));
        let decisions = measured(&mut engine, members.iter().cloned().map(Fact::Pod).collect());
        assert_eq!(decisions.len(), 32, "the gang starts whole");
        measured(&mut engine, confirmed(&decisions, &members));
    }
    engine.observe(NOW, Fact::Group(group_fact(12)));
    let members = (384..416).map(|i| Fact::Pod(member(i, 12, 8))).collect();
    let decisions = measured(&mut engine, members);
    assert!(decisions.iter().all(|decision| matches!(decision, Decision::Hold { .. })), "a gang too large waits");
}

fn cluster(nodes: u32) -> Engine {
    let mut engine = Engine::new(Settings::default());
    for i in 0..nodes {
        engine.observe(NOW, Fact::Node(node(i)));
    }
    // Nothing is measured on an engine that has not decided anything yet.
    engine.observe(NOW, Fact::Pod(pod(900_000, asks(50, GIBIBYTE, 0))));
    engine.decide(NOW, Budget::default());
    engine
}

fn node_name(i: u32) -> Name {
    format!("node-{i:05}").into()
}

fn node(i: u32) -> NodeFact {
    let zone: Name = format!("zone-{}", i % 16).into();
    NodeFact {
        name: node_name(i),
        labels: Labels::from_iter([(ZONE.into(), zone), (HOSTNAME.into(), node_name(i))]),
        allocatable: Amounts::from_iter([
            (CPU.into(), 64_000),
            (MEMORY.into(), 256 * GIBIBYTE),
            (PODS.into(), 110),
            (GPU.into(), i64::from(NODE_GPUS)),
        ]),
        ..NodeFact::default()
    }
}

fn asks(cpu: i64, memory: i64, gpus: i64) -> PodSpec {
    let amounts = [(CPU.into(), cpu), (MEMORY.into(), memory), (GPU.into(), gpus)];
    let requests = Amounts::from_iter(amounts.into_iter().filter(|(_, amount)| *amount > 0));
    PodSpec { requests, assumed: (cpu, memory), ..PodSpec::default() }
}

fn pod(i: u32, spec: PodSpec) -> PodFact {
    let application: Name = format!("app-{}", i / 20).into();
    PodFact {
        namespace: "bench".into(),
        name: format!("pod-{i:06}").into(),
        uid: format!("uid-{i:06}").into(),
        created: Created(i64::from(i)),
        labels: Labels::from_iter([("app".into(), application)]),
        spec: Arc::new(spec),
        phase: Phase::Pending,
        ours: true,
        ..PodFact::default()
    }
}

/// A pod like no other, spread with those of its application over zones, and alone on its node among them.
fn different(i: u32) -> PodFact {
    let of = |key: &str, values: Vec<Name>| Requirement { key: key.into(), operator: Operator::In, values };
    let selector = Selector { requirements: vec![of("app", vec![format!("app-{}", i / 20).into()])] };
    let zones = (0..12).map(|n| format!("zone-{}", (i + n) % 16).into()).collect();
    let spec = PodSpec {
        required_nodes: Some(vec![NodeTerm { labels: vec![of(ZONE, zones)], fields: Vec::new() }]),
        spread: vec![SpreadConstraint {
            topology_key: ZONE.into(),
            max_skew: 1,
            when: WhenUnsatisfiable::DoNotSchedule,
            selector: Some(selector.clone()),
            min_domains: None,
            honor_affinity: true,
            honor_taints: false,
        }],
        anti_affinity: vec![PodTerm {
            topology_key: HOSTNAME.into(),
            selector: Some(selector),
            namespaces: vec!["bench".into()],
            namespace_selector: None,
        }],
        ..asks(100 + i64::from(i), GIBIBYTE + 4096 * i64::from(i), 0)
    };
    pod(i, spec)
}

fn quota(team: &str, min: u32) -> ElasticFact {
    quota_of(team, GPU, min)
}

fn quota_of(team: &str, resource: &str, min: u32) -> ElasticFact {
    ElasticFact {
        key: QuotaKey {
            kind: "ElasticQuota".into(),
            group: "scheduling.x-k8s.io".into(),
            namespace: team.into(),
            name: "quota".into(),
        },
        namespaces: vec![team.into()],
        min: Limits::from_iter([(resource.into(), i64::from(min))]),
        ..ElasticFact::default()
    }
}

fn pool_key(node: u32) -> PoolKey {
    PoolKey { driver: CLASS.into(), pool: node_name(node) }
}

/// A node's devices, which all match the class.
fn device_pool(node: u32) -> [Fact; 2] {
    let device = |i: u32| DeviceFact {
        name: format!("gpu-{i}").into(),
        reach: Reach::Node(node_name(node)),
        attributes: Vec::new(),
        taints: Vec::new(),
        draws: Vec::new(),
        capacity: Vec::new(),
        shared: false,
        binds_to_node: false,
        binds_late: false,
        card: None,
        gigabytes: None,
    };
    let (devices, state) = ((0..NODE_GPUS).map(device).collect(), PoolState::Ready);
    let pool = PoolFact { key: pool_key(node), state, devices, ..PoolFact::default() };
    let verdicts = (0..NODE_GPUS).map(|_| Verdict::Yes).collect();
    let verdicts = VerdictsFact { matcher: CLASS.into(), pool: pool_key(node), verdicts };
    [Fact::DevicePool(pool), Fact::DeviceVerdicts(verdicts)]
}

/// A pod with a claim of its own, which has its name.
fn with_device(namespace: &str, i: u32) -> PodFact {
    let pod = pod(i, asks(100, GIBIBYTE, 0));
    PodFact { namespace: namespace.into(), device_claims: vec![PodClaim::Named(pod.name.clone())], ..pod }
}

/// The claim of a pod for one device, with the device of a node that it has.
fn device_claim(pod: &PodFact, has: Option<(u32, u32)>) -> DeviceClaimFact {
    let alternative = Alternative {
        name: "gpu".into(),
        class: CLASS.into(),
        matcher: CLASS.into(),
        count: Count::Exactly(1),
        admin: false,
        tolerations: Vec::new(),
        capacity: Vec::new(),
    };
    let request = DeviceRequest { name: "gpu".into(), alternatives: vec![alternative], listed: false };
    let allocation = has.map(|(node, device)| {
        let device = DeviceKey { pool: pool_key(node), device: format!("gpu-{device}").into() };
        let result = DeviceResult { request: "gpu".into(), device, admin: false, share: false, consumed: Vec::new() };
        Arc::new(Allocation { results: vec![result], nodes: None })
    });
    DeviceClaimFact {
        key: ClaimKey { namespace: pod.namespace.clone(), name: pod.name.clone() },
        uid: format!("claim-{}", pod.name).into(),
        spec: Arc::new(ClaimSpec { requests: vec![request], constraints: Vec::new() }),
        reserved_for: allocation.iter().map(|_| pod.uid.clone()).collect(),
        allocation,
        ..DeviceClaimFact::default()
    }
}

fn group_fact(i: u32) -> GroupFact {
    let name = format!("gang-{i}").into();
    GroupFact { namespace: "bench".into(), name, min_member: 32, admitted: true, ..GroupFact::default() }
}

fn member(i: u32, group: u32, gpus: i64) -> PodFact {
    PodFact { group: Some(Name::from(format!("gang-{group}")).into()), ..pod(i, asks(1000, GIBIBYTE, gpus)) }
}

fn running(pod: PodFact, node: Name) -> PodFact {
    PodFact { phase: Phase::Running, node: Some(node), ..pod }
}

/// What the API server shows of the pods that were bound.
fn confirmed(decisions: &[Decision], pods: &[PodFact]) -> Vec<Fact> {
    let bound = decisions.iter().filter_map(|decision| match decision {
        Decision::Bind { pod, node, .. } => Some((pod, node)),
        _ => None,
    });
    let find = |key: &PodKey| pods.iter().find(|pod| pod.key() == *key).cloned();
    bound.filter_map(|(key, node)| Some(Fact::Pod(running(find(key)?, node.clone())))).collect()
}

fn evicted(decision: &Decision) -> Option<PodKey> {
    match decision {
        Decision::Evict { pod, .. } => Some(pod.clone()),
        _ => None,
    }
}
