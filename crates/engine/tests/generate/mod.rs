//! Random clusters and histories: small numbers and tiny alphabets, so that things collide.

use std::sync::Arc;

use proptest::collection::vec;
use proptest::option::weighted;
use proptest::prelude::*;
use proptest::sample::select;
use quotient_engine::fact::*;

use crate::history::{History, How, Step};

const ZONE: &str = "topology.kubernetes.io/zone";
const HOSTNAME: &str = "kubernetes.io/hostname";

fn name(names: &'static [&'static str]) -> impl Strategy<Value = Name> {
    select(names).prop_map(Name::from)
}

fn namespace() -> impl Strategy<Value = Name> {
    name(&["a", "a", "a", "b"])
}

fn amounts(pairs: impl IntoIterator<Item = (&'static str, i64)>) -> Amounts {
    pairs.into_iter().map(|(k, v)| (Name::from(k), v)).collect()
}

fn pod_labels() -> impl Strategy<Value = Labels> {
    let app = weighted(0.8, select(&["x", "y"][..]));
    let tier = weighted(0.4, select(&["1", "2"][..]));
    (app, tier).prop_map(|(app, tier)| {
        let pairs = [("app", app), ("tier", tier)];
        pairs.into_iter().filter_map(|(k, v)| Some((Name::from(k), Name::from(v?)))).collect()
    })
}

fn namespace_labels() -> impl Strategy<Value = Labels> {
    weighted(0.7, select(&["t", "u"][..]))
        .prop_map(|team| team.into_iter().map(|t| (Name::from("team"), Name::from(t))).collect())
}

fn requirement(
    keys: &'static [&'static str],
    values: &'static [&'static str],
    operators: &'static [Operator],
) -> impl Strategy<Value = Requirement> {
    (name(keys), select(operators), vec(name(values), 1..=2)).prop_map(|(key, operator, mut values)| {
        match operator {
            Operator::In | Operator::NotIn => {}
            Operator::Exists | Operator::DoesNotExist => values.clear(),
            Operator::Gt | Operator::Lt => values.truncate(1),
        }
        Requirement { key, operator, values }
    })
}

const ON_LABELS: &[Operator] = &[Operator::In, Operator::In, Operator::NotIn, Operator::Exists, Operator::DoesNotExist];
const ON_NODES: &[Operator] = &[
    Operator::In,
    Operator::In,
    Operator::NotIn,
    Operator::Exists,
    Operator::DoesNotExist,
    Operator::Gt,
    Operator::Lt,
];

fn pod_selector() -> impl Strategy<Value = Selector> {
    let one = prop_oneof![
        4 => requirement(&["app"], &["x", "y"], ON_LABELS),
        1 => requirement(&["tier"], &["1", "2"], ON_LABELS),
    ];
    vec(one, 0..=2).prop_map(|requirements| Selector { requirements })
}

/// A selector that may be missing, and then selects nothing.
fn maybe_selector() -> impl Strategy<Value = Option<Selector>> {
    weighted(0.95, pod_selector())
}

fn node_term() -> impl Strategy<Value = NodeTerm> {
    let label = prop_oneof![
        requirement(&[ZONE], &["z0", "z1"], ON_NODES),
        requirement(&["size"], &["1", "3", "x"], ON_NODES),
        requirement(&[HOSTNAME], &["n0", "n1", "n2"], ON_LABELS),
    ];
    let field = requirement(&["metadata.name"], &["n0", "n1", "n2"], &[Operator::In, Operator::NotIn]);
    (vec(label, 0..=2), vec(field, 0..=1)).prop_map(|(labels, fields)| NodeTerm { labels, fields })
}

fn effect() -> impl Strategy<Value = Effect> {
    select(&[Effect::PreferNoSchedule, Effect::NoSchedule, Effect::PreferNoSchedule, Effect::NoExecute][..])
}

fn taint() -> impl Strategy<Value = Taint> {
    (name(&["k", "l"]), name(&["", "1", "3"]), effect()).prop_map(|(key, value, effect)| Taint { key, value, effect })
}

fn toleration() -> impl Strategy<Value = Toleration> {
    use TolerationOperator::{Equal, Exists, Gt, Lt};
    let operator = select(&[Equal, Exists, Exists, Gt, Lt][..]);
    let key = weighted(0.8, name(&["k", "l", "node.kubernetes.io/unschedulable"]));
    (key, operator, name(&["", "1", "2"]), weighted(0.4, effect())).prop_map(|(key, operator, value, effect)| {
        let operator = if key.is_none() { Exists } else { operator };
        Toleration { key, operator, value, effect }
    })
}

fn node_name() -> impl Strategy<Value = Name> {
    name(&["n0", "n0", "n1", "n1", "n2", "n2", "n3", "n4", "n5"])
}

fn node_named(name: impl Strategy<Value = Name>) -> impl Strategy<Value = NodeFact> {
    let labels = (
        any::<prop::sample::Index>().prop_map(|i| i.index(10) > 0),
        weighted(0.85, select(&["z0", "z1", "z2"][..])),
        weighted(0.5, select(&["0", "2", "5", "x"][..])),
    );
    let room = (2i64..=10, 0i64..=10, 0i64..=2, 1i64..=5);
    const IMAGES: [&[&str]; 4] = [&["i0"], &["i0", "i1"], &["i1"], &["i2"]];
    let images = vec((select(&IMAGES[..]), 0u64..=6), 0..=2);
    let taints = prop_oneof![4 => Just(Vec::new()), 2 => vec(taint(), 1..=2)];
    let unschedulable = prop::bool::weighted(0.07);
    (name, labels, taints, unschedulable, room, images).prop_map(
        |(name, (host, zone, size), taints, unschedulable, (cpu, memory, gpu, pods), images)| {
            let host = host.then(|| name.clone());
            let pairs = [(HOSTNAME, host), (ZONE, zone.map(Name::from)), ("size", size.map(Name::from))];
            let labels = pairs.into_iter().filter_map(|(k, v)| Some((Name::from(k), v?))).collect();
            let images = images
                .into_iter()
                .map(|(names, size)| (names.iter().map(|n| Name::from(*n)).collect(), size * 150 * 1024 * 1024));
            NodeFact {
                labels,
                taints,
                unschedulable,
                allocatable: amounts([(CPU, cpu), (MEMORY, memory), ("gpu", gpu), (PODS, pods)]),
                images: images.collect(),
                name,
                ..NodeFact::default()
            }
        },
    )
}

fn node() -> impl Strategy<Value = NodeFact> {
    node_named(node_name())
}

fn topology_key() -> impl Strategy<Value = Name> {
    name(&[ZONE, ZONE, HOSTNAME, HOSTNAME, "size"])
}

fn pod_term() -> impl Strategy<Value = PodTerm> {
    let namespace_selector = vec(requirement(&["team"], &["t", "u"], ON_LABELS), 0..=1);
    let namespace_selector = weighted(0.3, namespace_selector.prop_map(|requirements| Selector { requirements }));
    (topology_key(), maybe_selector(), vec(namespace(), 0..=2), namespace_selector).prop_map(
        |(topology_key, selector, mut namespaces, namespace_selector)| {
            namespaces.sort();
            namespaces.dedup();
            PodTerm { topology_key, selector, namespaces, namespace_selector }
        },
    )
}

fn spread() -> impl Strategy<Value = SpreadConstraint> {
    let when = select(&[WhenUnsatisfiable::DoNotSchedule, WhenUnsatisfiable::ScheduleAnyway][..]);
    let policies = (any::<bool>(), any::<bool>());
    (topology_key(), 1u32..=3, when, maybe_selector(), weighted(0.3, 1u32..=3), policies).prop_map(
        |(topology_key, max_skew, when, selector, min_domains, (honor_affinity, honor_taints))| SpreadConstraint {
            topology_key,
            max_skew,
            when,
            selector,
            min_domains: min_domains.filter(|_| when == WhenUnsatisfiable::DoNotSchedule),
            honor_affinity,
            honor_taints,
        },
    )
}

fn port() -> impl Strategy<Value = HostPort> {
    (name(&["0.0.0.0", "10.0.0.1", "10.0.0.2"]), name(&["TCP", "TCP", "UDP"]), 80u16..=81)
        .prop_map(|(ip, protocol, port)| HostPort { ip, protocol, port })
}

fn pod_volume() -> impl Strategy<Value = PodVolume> {
    prop_oneof![
        5 => claim_name().prop_map(PodVolume::Claim),
        1 => driver().prop_map(|driver| PodVolume::Inline { driver }),
        1 => (name(&["e0", "e1"]), any::<bool>()).prop_map(|(id, read_only)| PodVolume::Disk { id, read_only }),
    ]
}

fn claim_name() -> impl Strategy<Value = Name> {
    name(&["c0", "c0", "c1"])
}

fn driver() -> impl Strategy<Value = Name> {
    name(&["d0", "d1"])
}

/// Mostly nothing, sometimes one or two.
fn few<S: Strategy + 'static>(one: S) -> impl Strategy<Value = Vec<S::Value>>
where
    S::Value: Clone,
{
    let one = one.boxed();
    prop_oneof![14 => Just(Vec::new()), 2 => vec(one.clone(), 1), 1 => vec(one, 2)]
}

fn requests() -> impl Strategy<Value = (i64, i64, i64)> {
    (0i64..=5, 0i64..=5, prop_oneof![4 => Just(0i64), 1 => 1i64..=2])
}

/// A pod that asks for room and nothing else.
fn plain_spec() -> impl Strategy<Value = Arc<PodSpec>> {
    requests().prop_map(|(cpu, memory, gpu)| {
        let requests = amounts([(CPU, cpu), (MEMORY, memory), ("gpu", gpu)]);
        Arc::new(PodSpec { requests, assumed: (cpu.max(1), memory.max(2)), ..PodSpec::default() })
    })
}

fn spec() -> impl Strategy<Value = Arc<PodSpec>> {
    prop_oneof![1 => plain_spec(), 2 => demanding_spec()]
}

fn demanding_spec() -> impl Strategy<Value = Arc<PodSpec>> {
    let requests = requests();
    let selector = weighted(0.1, select(&["z0", "z1"][..]));
    let nodes = (
        selector.prop_map(|zone| zone.into_iter().map(|z| (Name::from(ZONE), Name::from(z))).collect::<Labels>()),
        weighted(0.12, vec(node_term(), 0..=2)),
        few((1i32..=3, node_term())),
        prop_oneof![2 => Just(Vec::new()), 2 => vec(toleration(), 1..=3)],
    );
    let pods =
        (few(spread()), few(pod_term()), few(pod_term()), few((1i32..=3, pod_term())), few((1i32..=3, pod_term())));
    let rest = (
        few(port()),
        prop_oneof![2 => Just(Vec::new()), 1 => vec(pod_volume(), 1..=2)],
        few(name(&["i0", "i1", "i2"])),
    );
    (requests, nodes, pods, rest).prop_map(
        |(
            (cpu, memory, gpu),
            (node_selector, required_nodes, preferred_nodes, tolerations),
            (spread, affinity, anti_affinity, preferred_affinity, preferred_anti_affinity),
            (ports, volumes, images),
        )| {
            Arc::new(PodSpec {
                requests: amounts([(CPU, cpu), (MEMORY, memory), ("gpu", gpu)]),
                assumed: (cpu.max(1), memory.max(2)),
                node_selector,
                required_nodes,
                preferred_nodes,
                tolerations,
                spread,
                affinity,
                anti_affinity,
                preferred_affinity,
                preferred_anti_affinity,
                ports,
                volumes,
                images,
                ..PodSpec::default()
            })
        },
    )
}

/// A pod; its uid is given when it is created. One in three runs from the start, on a node that may not exist.
fn pod() -> impl Strategy<Value = PodFact> {
    let identity = (namespace(), 0u8..=9, 0i64..=3, pod_labels());
    let standing = (0i32..=3, prop::bool::weighted(0.1), prop::bool::weighted(0.93));
    let place = (weighted(0.5, node_name()), weighted(0.04, node_name()));
    let gates = prop_oneof![15 => Just(Vec::new()), 1 => Just(vec![Name::from("g")])];
    let problem = weighted(0.04, Just(RequestProblem { field: "f".into(), message: "m".into() }));
    let owner = weighted(0.2, name(&["ReplicaSet/r0", "StatefulSet/r1", "Job/j"]));
    (identity, spec(), standing, place, gates, problem, owner).prop_map(
        |(
            (namespace, number, created, labels),
            spec,
            (priority, never_preempts, ours),
            (node, nominated),
            gates,
            problem,
            owner,
        )| PodFact {
            namespace,
            name: format!("p{number}").into(),
            uid: "".into(),
            created: Created(created),
            labels,
            spec,
            // Those who run are lower, so that there are victims.
            priority: if node.is_some() { priority / 2 } else { priority },
            never_preempts,
            phase: if node.is_some() { Phase::Running } else { Phase::Pending },
            nominated: nominated.filter(|_| node.is_none()),
            gates: if node.is_some() { Vec::new() } else { gates },
            problem: problem.filter(|_| node.is_none()),
            node,
            ours,
            owner,
            ..PodFact::default()
        },
    )
}

fn budget() -> impl Strategy<Value = BudgetFact> {
    (namespace(), name(&["b0", "b1"]), maybe_selector(), select(&[0u32, 0, 1, 2][..]))
        .prop_map(|(namespace, name, selector, allowed)| BudgetFact { namespace, name, selector, allowed })
}

fn modes() -> impl Strategy<Value = Vec<Name>> {
    const MODES: [&[&str]; 4] =
        [&["ReadWriteOnce"], &["ReadWriteOnce"], &["ReadWriteOnce", "ReadOnlyMany"], &["ReadWriteOncePod"]];
    select(&MODES[..]).prop_map(|modes| modes.iter().map(|m| Name::from(*m)).collect())
}

fn volume() -> impl Strategy<Value = VolumeFact> {
    let labels = (weighted(0.4, select(&["z0", "z1", "z0__z1"][..])), weighted(0.3, select(&["x", "y"][..])));
    let kind = (
        name(&["wait", "wait", "wait", "dyn", "imm"]),
        name(&["Filesystem", "Filesystem", "Filesystem", "Filesystem", "Block"]),
        modes(),
    );
    let nodes = weighted(0.4, vec(node_term(), 0..=2));
    let attach = (weighted(0.7, driver()), name(&["h0", "h1", "h2"]));
    (name(&["v0", "v1", "v2", "v3"]), labels, kind, 1i64..=4, nodes, prop::bool::weighted(0.9), attach).prop_map(
        |(name, (zone, app), (class, volume_mode, access_modes), capacity, nodes, available, (driver, handle))| {
            let pairs = [(ZONE, zone), ("app", app)];
            let labels = pairs.into_iter().filter_map(|(k, v)| Some((Name::from(k), Name::from(v?)))).collect();
            VolumeFact {
                name,
                labels,
                class,
                capacity,
                access_modes,
                volume_mode,
                nodes,
                claim: None,
                available,
                driver,
                handle,
            }
        },
    )
}

/// A claim; one that names a volume is bound to it where that is free.
fn claim() -> impl Strategy<Value = ClaimFact> {
    let kind = (
        name(&["dyn", "wait", "wait", "dyn", "dyn", "imm"]),
        name(&["Filesystem", "Filesystem", "Filesystem", "Filesystem", "Block"]),
        modes(),
    );
    let binding =
        (weighted(0.3, name(&["v0", "v1", "v2", "v3"])), prop::bool::weighted(0.9), weighted(0.1, node_name()));
    (namespace(), claim_name(), kind, 1i64..=4, weighted(0.15, pod_selector()), binding).prop_map(
        |(namespace, name, (class, volume_mode, access_modes), request, selector, (volume, bound, selected_node))| {
            ClaimFact {
                namespace,
                name,
                class,
                request,
                access_modes,
                volume_mode,
                selector,
                bound: bound && volume.is_some(),
                selected_node: selected_node.filter(|_| volume.is_none()),
                volume,
            }
        },
    )
}

fn class() -> impl Strategy<Value = StorageClassFact> {
    class_named(name(&["imm", "wait", "dyn"]))
}

fn class_named(name: impl Strategy<Value = Name>) -> impl Strategy<Value = StorageClassFact> {
    let topologies = prop_oneof![3 => Just(Vec::new()), 1 => vec(node_term(), 1..=2)];
    (name, driver(), topologies).prop_map(|(name, provisioner, topologies)| StorageClassFact {
        waits_for_consumer: &*name != "imm",
        provisions: &*name != "wait",
        provisioner: if &*name == "wait" { "kubernetes.io/no-provisioner".into() } else { provisioner },
        topologies,
        name,
    })
}

fn selector_fact() -> impl Strategy<Value = SelectorFact> {
    (name(&["Service/s0", "Service/s1", "ReplicaSet/r0", "StatefulSet/r1"]), namespace(), pod_selector())
        .prop_map(|(object, namespace, selector)| SelectorFact { object, namespace, selector })
}

fn limits() -> impl Strategy<Value = AttachLimits> {
    (node_name(), vec((driver(), 0u32..=2), 1..=2)).prop_map(|(node, mut limits)| {
        limits.sort();
        limits.dedup_by(|a, b| a.0 == b.0);
        AttachLimits { node, limits }
    })
}

/// What may be there from the start, or come later.
fn object() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => node().prop_map(Step::Node),
        10 => pod().prop_map(Step::Pod),
        2 => (pod(), 2usize..=4).prop_map(|(pod, count)| Step::Replicas(pod, count)),
        2 => (namespace(), namespace_labels()).prop_map(|(name, labels)| Step::Namespace(name, labels)),
        3 => budget().prop_map(Step::Budget),
        2 => volume().prop_map(Step::Volume),
        2 => claim().prop_map(Step::Claim),
        1 => class().prop_map(Step::Class),
        2 => selector_fact().prop_map(Step::Selector),
        1 => limits().prop_map(Step::Limits),
    ]
}

/// What happens to what is there.
fn event(time_ms: u64) -> impl Strategy<Value = Step> {
    let which = || 0usize..16;
    let how = select(&[How::Well, How::Well, How::Well, How::Slowly, How::Badly][..]);
    prop_oneof![
        10 => Just(Step::Decide),
        10 => (which(), how).prop_map(|(which, how)| Step::Resolve(which, how)),
        4 => Just(Step::Settle),
        5 => object(),
        2 => (which(), pod_labels()).prop_map(|(which, labels)| Step::Relabel(which, labels)),
        1 => (which(), select(&[Phase::Succeeded, Phase::Failed][..]))
            .prop_map(|(which, phase)| Step::End(which, phase)),
        2 => which().prop_map(Step::Delete),
        1 => which().prop_map(Step::Linger),
        1 => (which(), weighted(0.7, node_name())).prop_map(|(which, node)| Step::Nominate(which, node)),
        1 => which().prop_map(Step::Ungate),
        1 => which().prop_map(Step::NodeGone),
        1 => which().prop_map(Step::Gone),
        2 => which().prop_map(Step::Again),
        2 => (0..=time_ms).prop_map(Step::Advance),
        1 => any::<u64>().prop_map(Step::Restart),
    ]
}

/// Pods that look at each other, host by host.
fn related_spec() -> impl Strategy<Value = Arc<PodSpec>> {
    fn by_host(mut term: PodTerm) -> PodTerm {
        term.topology_key = HOSTNAME.into();
        term
    }
    let rules = vec(spread(), 0..=2);
    let terms = || vec(pod_term().prop_map(by_host), 0..=1);
    let preferred = || vec((1i32..=3, pod_term().prop_map(by_host)), 0..=1);
    (requests(), rules, terms(), terms(), preferred(), preferred()).prop_map(
        |((cpu, memory, _), spread, affinity, anti_affinity, preferred_affinity, preferred_anti_affinity)| {
            let by_host = |c: SpreadConstraint| SpreadConstraint { topology_key: HOSTNAME.into(), ..c };
            Arc::new(PodSpec {
                requests: amounts([(CPU, cpu), (MEMORY, memory)]),
                assumed: (cpu.max(1), memory.max(2)),
                spread: spread.into_iter().map(by_host).collect(),
                affinity,
                anti_affinity,
                preferred_affinity,
                preferred_anti_affinity,
                ..PodSpec::default()
            })
        },
    )
}

/// More nodes than a coarse key has domains, each a domain of its own, most of them too small to take much.
pub fn wide_history() -> impl Strategy<Value = History> {
    const NODES: usize = 70;
    fn number(i: usize) -> Name {
        format!("n{i:02}").into()
    }
    let node = |(i, (cpu, memory, pods)): (usize, (i64, i64, i64))| {
        let pairs = [(HOSTNAME, number(i)), (ZONE, format!("z{}", i % 3).into())];
        Step::Node(NodeFact {
            name: number(i),
            labels: pairs.into_iter().map(|(k, v)| (Name::from(k), v)).collect(),
            allocatable: amounts([(CPU, cpu), (MEMORY, memory), (PODS, pods)]),
            ..NodeFact::default()
        })
    };
    let nodes = vec((0i64..=5, 0i64..=5, 0i64..=2), NODES);
    let nodes = nodes.prop_map(move |rooms| rooms.into_iter().enumerate().map(node).collect::<Vec<_>>());
    let pod = || {
        let place = (any::<bool>(), 0..NODES);
        (pod(), related_spec(), place).prop_map(|(pod, spec, (runs, at))| {
            let node = runs.then(|| number(at));
            PodFact { spec, phase: if runs { Phase::Running } else { Phase::Pending }, nominated: None, node, ..pod }
        })
    };
    let pods = vec(
        prop_oneof![
            3 => pod().prop_map(Step::Pod),
            1 => (pod(), 2usize..=4).prop_map(|(pod, count)| Step::Replicas(pod, count)),
        ],
        2..=6,
    );
    let steps = vec(prop_oneof![3 => event(1_000), 1 => pod().prop_map(Step::Pod)], 0..=12);
    (nodes, pods, any::<u64>(), steps).prop_map(|(nodes, pods, shuffle, steps)| History {
        reserve_after_ms: 1_000_000_000,
        cluster: [nodes, pods].concat(),
        shuffle,
        steps,
    })
}

/// A cluster as it is found, and what happens then. Time passes by up to `time_ms` at once.
pub fn history(reserve_after_ms: u64, time_ms: u64) -> impl Strategy<Value = History> {
    let nodes = vec(node(), 1..=5).prop_map(|nodes| nodes.into_iter().map(Step::Node).collect::<Vec<_>>());
    let classes = ["imm", "wait", "dyn"].map(|name| class_named(Just(Name::from(name))).prop_map(Step::Class));
    let classes = classes.prop_map(Vec::from);
    let storage = prop_oneof![volume().prop_map(Step::Volume), claim().prop_map(Step::Claim)];
    let cluster = (nodes, classes, vec(storage, 0..=12), vec(object(), 0..=8), vec(pod().prop_map(Step::Pod), 3..=12));
    let cluster =
        cluster.prop_map(|(nodes, classes, storage, objects, pods)| [nodes, classes, storage, objects, pods].concat());
    (cluster, any::<u64>(), vec(event(time_ms), 0..=30)).prop_map(move |(cluster, shuffle, steps)| History {
        reserve_after_ms,
        cluster,
        shuffle,
        steps,
    })
}
