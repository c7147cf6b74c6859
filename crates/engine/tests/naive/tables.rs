//! Small cases worked out by hand, so that the reference can be trusted before it judges.

use std::collections::BTreeSet;
use std::sync::Arc;

use quotient_engine::fact::*;
use quotient_engine::{ClaimBinding, Fact, Filter, Tick};

use super::cycle::{Act, Cycle};
use super::filters::closed_by;
use super::{World, labels, scores};

const MI: i64 = 1024 * 1024;
const ZONE: &str = "topology.kubernetes.io/zone";

fn labelled(pairs: &[(&str, &str)]) -> Labels {
    pairs.iter().map(|(k, v)| (Name::from(*k), Name::from(*v))).collect()
}

fn amounts(pairs: &[(&str, i64)]) -> Amounts {
    pairs.iter().map(|(k, v)| (Name::from(*k), *v)).collect()
}

fn node(name: &str, cpu: i64) -> NodeFact {
    NodeFact {
        name: name.into(),
        allocatable: amounts(&[(CPU, cpu), (MEMORY, 1000), (PODS, 10)]),
        labels: labelled(&[("kubernetes.io/hostname", name)]),
        ..NodeFact::default()
    }
}

fn in_zone(name: &str, zone: &str) -> NodeFact {
    NodeFact { labels: labelled(&[("kubernetes.io/hostname", name), (ZONE, zone)]), ..node(name, 10) }
}

fn spec(cpu: i64) -> PodSpec {
    PodSpec { requests: amounts(&[(CPU, cpu)]), assumed: (cpu, 0), ..PodSpec::default() }
}

fn pod(name: &str, spec: PodSpec) -> PodFact {
    PodFact {
        namespace: "a".into(),
        name: name.into(),
        uid: format!("uid-{name}").into(),
        spec: Arc::new(spec),
        ours: true,
        ..PodFact::default()
    }
}

fn on(name: &str, node: &str, spec: PodSpec) -> PodFact {
    PodFact { node: Some(node.into()), phase: Phase::Running, ..pod(name, spec) }
}

fn world(facts: impl IntoIterator<Item = Fact>) -> World {
    let mut world = World::new(300_000);
    facts.into_iter().for_each(|fact| world.observe(Tick(0), fact));
    world
}

fn requirement(key: &str, operator: Operator, values: &[&str]) -> Requirement {
    Requirement { key: key.into(), operator, values: values.iter().map(|v| Name::from(*v)).collect() }
}

fn app(value: &str) -> Option<Selector> {
    Some(Selector { requirements: vec![requirement("app", Operator::In, &[value])] })
}

fn term(key: &str, app_value: &str) -> PodTerm {
    PodTerm {
        topology_key: key.into(),
        selector: app(app_value),
        namespaces: vec!["a".into()],
        namespace_selector: None,
    }
}

/// Which filter closes node `n` to pod `p` in this world.
fn closes(facts: Vec<Fact>) -> Option<Filter> {
    let world = world(facts);
    let pod = &world.pods[&PodKey { namespace: "a".into(), name: "p".into() }];
    closed_by(&world.view(pod, &BTreeSet::new()), &world.nodes["n"])
}

fn pairs(cycle: &Cycle) -> Vec<String> {
    let say = |act: &Act| match act {
        Act::Bind { pod, node, claims, .. } if claims.is_empty() => format!("bind {} {node}", pod.name),
        Act::Bind { pod, node, claims, .. } => format!("bind {} {node} {claims:?}", pod.name),
        Act::Evict { pod, violates_budget: true, .. } => format!("evict {} over budget", pod.name),
        Act::Evict { pod, .. } => format!("evict {}", pod.name),
        Act::Nominate { pod, node: Some(node), .. } => format!("nominate {} {node}", pod.name),
        Act::Nominate { pod, node: None, .. } => format!("denominate {}", pod.name),
    };
    let holds = cycle.holds.iter().map(|(pod, code)| format!("hold {} {}", pod.name, code.name()));
    cycle.acts.iter().map(say).chain(holds).collect()
}

#[test]
fn conditions_on_labels() {
    let labels = labelled(&[("app", "x"), ("n", "5"), ("t", "five")]);
    let table = [
        ("app", Operator::In, vec!["x", "y"], true),
        ("app", Operator::In, vec!["y"], false),
        ("none", Operator::In, vec!["y"], false),
        ("app", Operator::NotIn, vec!["x"], false),
        ("app", Operator::NotIn, vec!["y"], true),
        ("none", Operator::NotIn, vec!["x"], true),
        ("app", Operator::Exists, vec![], true),
        ("none", Operator::Exists, vec![], false),
        ("app", Operator::DoesNotExist, vec![], false),
        ("none", Operator::DoesNotExist, vec![], true),
        ("n", Operator::Gt, vec!["4"], true),
        ("n", Operator::Gt, vec!["5"], false),
        ("n", Operator::Lt, vec!["6"], true),
        ("n", Operator::Lt, vec!["-6"], false),
        ("n", Operator::Lt, vec!["x"], false),
        ("t", Operator::Gt, vec!["1"], false),
        ("none", Operator::Gt, vec!["1"], false),
    ];
    for (key, operator, values, expected) in table {
        let selector = Selector { requirements: vec![requirement(key, operator, &values)] };
        assert_eq!(labels::selects(&selector, &labels), expected, "{key} {operator:?} {values:?}");
    }
    assert!(labels::selects(&Selector::default(), &labels), "an empty selector selects everything");
    assert!(!labels::selects_some(&None, &labels), "no selector selects nothing");
    assert!(!labels::term_selects(&NodeTerm::default(), &node("n", 1)), "an empty term selects nothing");
    let named = NodeTerm { fields: vec![requirement("metadata.name", Operator::In, &["n"])], labels: vec![] };
    assert!(labels::term_selects(&named, &node("n", 1)) && !labels::term_selects(&named, &node("m", 1)));
}

#[test]
fn tolerations() {
    use TolerationOperator::{Equal, Exists, Gt, Lt};
    let taint = |value: &str| Taint { key: "k".into(), value: value.into(), effect: Effect::NoExecute };
    let table = [
        (None, Exists, "", None, "v", true),
        (None, Exists, "", Some(Effect::NoSchedule), "v", false),
        (Some("k"), Exists, "", None, "v", true),
        (Some("j"), Exists, "", None, "v", false),
        (Some("k"), Equal, "v", None, "v", true),
        (Some("k"), Equal, "w", None, "v", false),
        (Some("k"), Equal, "v", Some(Effect::NoExecute), "v", true),
        (Some("k"), Gt, "4", None, "5", true),
        (Some("k"), Gt, "5", None, "5", false),
        (Some("k"), Lt, "6", None, "5", true),
        (Some("k"), Lt, "6", None, "v", false),
    ];
    for (key, operator, value, effect, taint_value, expected) in table {
        let toleration = Toleration { key: key.map(Name::from), operator, value: value.into(), effect };
        assert_eq!(labels::tolerates(&toleration, &taint(taint_value)), expected, "{toleration:?} {taint_value}");
    }
}

#[test]
fn filters_on_the_node_itself() {
    let p = || Fact::Pod(pod("p", spec(1)));
    let cordoned = Fact::Node(NodeFact { unschedulable: true, ..node("n", 10) });
    assert_eq!(closes(vec![cordoned.clone(), p()]), Some(Filter::NodeUnschedulable));
    let all = Toleration { key: None, operator: TolerationOperator::Exists, value: "".into(), effect: None };
    let tolerant = PodSpec { tolerations: vec![all], ..spec(1) };
    assert_eq!(closes(vec![cordoned, Fact::Pod(pod("p", tolerant.clone()))]), None);

    let tainted = |effect| {
        let taints = vec![Taint { key: "k".into(), value: "".into(), effect }];
        Fact::Node(NodeFact { taints, ..node("n", 10) })
    };
    assert_eq!(closes(vec![tainted(Effect::NoSchedule), p()]), Some(Filter::TaintToleration));
    assert_eq!(closes(vec![tainted(Effect::NoExecute), p()]), Some(Filter::TaintToleration));
    assert_eq!(closes(vec![tainted(Effect::PreferNoSchedule), p()]), None);
    assert_eq!(closes(vec![tainted(Effect::NoExecute), Fact::Pod(pod("p", tolerant))]), None);

    let selector = PodSpec { node_selector: labelled(&[(ZONE, "z")]), ..spec(1) };
    assert_eq!(
        closes(vec![Fact::Node(node("n", 10)), Fact::Pod(pod("p", selector.clone()))]),
        Some(Filter::NodeAffinity)
    );
    assert_eq!(closes(vec![Fact::Node(in_zone("n", "z")), Fact::Pod(pod("p", selector))]), None);
    let nothing = PodSpec { required_nodes: Some(vec![]), ..spec(1) };
    assert_eq!(closes(vec![Fact::Node(node("n", 10)), Fact::Pod(pod("p", nothing))]), Some(Filter::NodeAffinity));

    assert_eq!(closes(vec![Fact::Node(node("n", 10)), Fact::Pod(pod("p", spec(10)))]), None);
    assert_eq!(closes(vec![Fact::Node(node("n", 10)), Fact::Pod(pod("p", spec(11)))]), Some(Filter::NodeResourcesFit));
    let full = || vec![Fact::Node(node("n", 10)), Fact::Pod(on("q", "n", spec(10)))];
    assert_eq!(closes([full(), vec![p()]].concat()), Some(Filter::NodeResourcesFit));
    let nothing = || Fact::Pod(pod("p", spec(0)));
    assert_eq!(closes([full(), vec![nothing()]].concat()), None, "what is not asked for need not suffice");
    let ended = Fact::Pod(PodFact { phase: Phase::Succeeded, ..on("q", "n", spec(10)) });
    assert_eq!(closes([full(), vec![ended, p()]].concat()), None, "an ended pod holds nothing");
    let leaving = Fact::Pod(PodFact { leaving_since: Some(Created(1)), ..on("q", "n", spec(10)) });
    assert_eq!(closes([full(), vec![leaving, p()]].concat()), Some(Filter::NodeResourcesFit));
    let claimed = Fact::Pod(PodFact { nominated: Some("n".into()), ..pod("c", spec(10)) });
    assert_eq!(closes(vec![Fact::Node(node("n", 10)), claimed, p()]), Some(Filter::NodeResourcesFit));
    let no_pods = NodeFact { allocatable: amounts(&[(CPU, 10)]), ..node("n", 10) };
    assert_eq!(closes(vec![Fact::Node(no_pods), nothing()]), Some(Filter::NodeResourcesFit));
}

#[test]
fn ports() {
    let port = |ip: &str, protocol: &str, port| HostPort { ip: ip.into(), protocol: protocol.into(), port };
    let with = |port| PodSpec { ports: vec![port], ..spec(0) };
    let table = [
        (port("0.0.0.0", "TCP", 80), port("10.0.0.1", "TCP", 80), true),
        (port("10.0.0.1", "TCP", 80), port("0.0.0.0", "TCP", 80), true),
        (port("10.0.0.1", "TCP", 80), port("10.0.0.1", "TCP", 80), true),
        (port("10.0.0.1", "TCP", 80), port("10.0.0.2", "TCP", 80), false),
        (port("0.0.0.0", "TCP", 80), port("0.0.0.0", "UDP", 80), false),
        (port("0.0.0.0", "TCP", 80), port("0.0.0.0", "TCP", 81), false),
    ];
    for (mine, theirs, closed) in table {
        let facts = vec![
            Fact::Node(node("n", 10)),
            Fact::Pod(pod("p", with(mine.clone()))),
            Fact::Pod(on("q", "n", with(theirs.clone()))),
        ];
        assert_eq!(closes(facts), closed.then_some(Filter::NodePorts), "{mine:?} {theirs:?}");
    }
}

#[test]
fn volumes() {
    let claims = |name: &str| PodSpec { volumes: vec![PodVolume::Claim(name.into())], ..spec(0) };
    let claim =
        || ClaimFact { namespace: "a".into(), name: "c".into(), class: "s".into(), request: 5, ..ClaimFact::default() };
    let bound = |modes: &[&str]| ClaimFact {
        volume: Some("v".into()),
        bound: true,
        access_modes: modes.iter().map(|m| Name::from(*m)).collect(),
        ..claim()
    };
    let volume = |name: &str| VolumeFact {
        name: name.into(),
        class: "s".into(),
        capacity: 5,
        available: true,
        handle: name.into(),
        driver: Some("d".into()),
        ..VolumeFact::default()
    };
    let class = |waits_for_consumer, provisions| {
        let provisioner = "d".into();
        Fact::StorageClass(StorageClassFact {
            name: "s".into(),
            waits_for_consumer,
            provisions,
            provisioner,
            topologies: vec![],
        })
    };
    let base = || vec![Fact::Node(in_zone("n", "z")), Fact::Pod(pod("p", claims("c")))];
    let elsewhere = || Some(vec![NodeTerm { labels: vec![requirement(ZONE, Operator::In, &["y"])], fields: vec![] }]);
    let zoned = |zones: &str| VolumeFact { labels: labelled(&[(ZONE, zones)]), ..volume("v") };
    let limit = |n| Fact::AttachLimits(AttachLimits { node: "n".into(), limits: vec![("d".into(), n)] });
    let other = |name: &str| Fact::Pod(on("q", "n", claims(name)));
    let disk = |read_only| PodSpec { volumes: vec![PodVolume::Disk { id: "x".into(), read_only }], ..spec(0) };
    let inline = || PodSpec { volumes: vec![PodVolume::Inline { driver: "d".into() }], ..spec(0) };

    let table: Vec<(&str, Vec<Fact>, Option<Filter>)> = vec![
        ("no such claim", vec![], Some(Filter::VolumeBinding)),
        ("bound", vec![Fact::Claim(bound(&[])), Fact::Volume(volume("v"))], None),
        ("its volume is not known", vec![Fact::Claim(bound(&[]))], Some(Filter::VolumeBinding)),
        (
            "the volume is elsewhere",
            vec![Fact::Claim(bound(&[])), Fact::Volume(VolumeFact { nodes: elsewhere(), ..volume("v") })],
            Some(Filter::VolumeBinding),
        ),
        ("another zone", vec![Fact::Claim(bound(&[])), Fact::Volume(zoned("x__y"))], Some(Filter::VolumeZone)),
        ("one of its zones", vec![Fact::Claim(bound(&[])), Fact::Volume(zoned("y__z"))], None),
        ("immediate, unbound", vec![Fact::Claim(claim()), class(false, true)], Some(Filter::VolumeBinding)),
        ("waits, can be made", vec![Fact::Claim(claim()), class(true, true)], None),
        ("waits, cannot be made", vec![Fact::Claim(claim()), class(true, false)], Some(Filter::VolumeBinding)),
        ("waits, one fits", vec![Fact::Claim(claim()), class(true, false), Fact::Volume(volume("v"))], None),
        (
            "waits, the one is too small",
            vec![Fact::Claim(claim()), class(true, false), Fact::Volume(VolumeFact { capacity: 4, ..volume("v") })],
            Some(Filter::VolumeBinding),
        ),
        (
            "being made elsewhere",
            vec![Fact::Claim(ClaimFact { selected_node: Some("m".into()), ..claim() }), class(true, true)],
            Some(Filter::VolumeBinding),
        ),
        (
            "for one pod, which has it",
            vec![Fact::Claim(bound(&["ReadWriteOncePod"])), Fact::Volume(volume("v")), other("c")],
            Some(Filter::VolumeRestrictions),
        ),
        ("for many", vec![Fact::Claim(bound(&["ReadWriteOnce"])), Fact::Volume(volume("v")), other("c")], None),
        ("attached already", vec![Fact::Claim(bound(&[])), Fact::Volume(volume("v")), other("c"), limit(1)], None),
        (
            "one too many",
            vec![Fact::Claim(bound(&[])), Fact::Volume(volume("v")), limit(1), Fact::Pod(on("q", "n", inline()))],
            Some(Filter::NodeVolumeLimits),
        ),
        ("disk read by both", vec![Fact::Pod(pod("p", disk(true))), Fact::Pod(on("q", "n", disk(true)))], None),
        (
            "disk written by one",
            vec![Fact::Pod(pod("p", disk(true))), Fact::Pod(on("q", "n", disk(false)))],
            Some(Filter::VolumeRestrictions),
        ),
    ];
    for (name, facts, expected) in table {
        assert_eq!(closes([base(), facts].concat()), expected, "{name}");
    }

    // The smallest volume is taken, and is then nobody else's; then one has to be made.
    let second = ClaimFact { name: "c2".into(), ..claim() };
    let third = ClaimFact { name: "c3".into(), request: 1, ..claim() };
    let facts = vec![
        Fact::Node(node("n", 10)),
        class(true, true),
        Fact::Claim(claim()),
        Fact::Claim(second),
        Fact::Claim(third),
        Fact::Volume(VolumeFact { capacity: 9, ..volume("v-big") }),
        Fact::Volume(volume("v-small")),
        Fact::Pod(pod(
            "p",
            PodSpec { volumes: vec![PodVolume::Claim("c2".into()), PodVolume::Claim("c".into())], ..spec(0) },
        )),
        Fact::Pod(pod("q", claims("c3"))),
    ];
    let mut world = world(facts);
    let binds: Vec<Vec<ClaimBinding>> = world
        .decide(Tick(0))
        .acts
        .into_iter()
        .filter_map(|act| match act {
            Act::Bind { claims, .. } => Some(claims),
            Act::Evict { .. } | Act::Nominate { .. } => None,
        })
        .collect();
    let volume = |claim: &str, volume: &str| ClaimBinding::Volume { claim: claim.into(), volume: volume.into() };
    assert_eq!(
        binds,
        [vec![volume("c", "v-small"), volume("c2", "v-big")], vec![ClaimBinding::Provision { claim: "c3".into() }]]
    );
}

#[test]
fn spread() {
    let constraint = |max_skew, min_domains| SpreadConstraint {
        topology_key: ZONE.into(),
        max_skew,
        when: WhenUnsatisfiable::DoNotSchedule,
        selector: app("x"),
        min_domains,
        honor_affinity: true,
        honor_taints: false,
    };
    let p = |constraint| {
        let spread = PodSpec { spread: vec![constraint], ..spec(0) };
        Fact::Pod(PodFact { labels: labelled(&[("app", "x")]), ..pod("p", spread) })
    };
    let x =
        |name: &str, node: &str| Fact::Pod(PodFact { labels: labelled(&[("app", "x")]), ..on(name, node, spec(0)) });
    let two = || vec![Fact::Node(in_zone("n", "z")), Fact::Node(in_zone("m", "y"))];
    let closed = Some(Filter::PodTopologySpread);
    let table = [
        ("empty", two(), constraint(1, None), None),
        ("1 + 1 - 0 > 1", [two(), vec![x("q", "n")]].concat(), constraint(1, None), closed),
        ("1 + 1 - 0 = 2", [two(), vec![x("q", "n")]].concat(), constraint(2, None), None),
        ("1 + 1 - 1 = 1", [two(), vec![x("q", "n"), x("r", "m")]].concat(), constraint(1, None), None),
        ("too few domains", [two(), vec![x("q", "n"), x("r", "m")]].concat(), constraint(1, Some(3)), closed),
        ("no label", vec![Fact::Node(node("n", 10))], constraint(9, None), closed),
    ];
    for (name, facts, constraint, expected) in table {
        assert_eq!(closes([facts, vec![p(constraint)]].concat()), expected, "{name}");
    }
    let leaving = {
        let Fact::Pod(q) = x("q", "n") else { unreachable!() };
        Fact::Pod(PodFact { leaving_since: Some(Created(1)), ..q })
    };
    assert_eq!(closes([two(), vec![leaving, p(constraint(1, None))]].concat()), None, "leaving pods do not count");
    // Zone y is cut off by a taint: it counts unless taints are honoured.
    let taints = vec![Taint { key: "k".into(), value: "".into(), effect: Effect::NoSchedule }];
    let tainted = || {
        vec![
            Fact::Node(in_zone("n", "z")),
            Fact::Node(NodeFact { taints: taints.clone(), ..in_zone("m", "y") }),
            x("q", "n"),
        ]
    };
    assert_eq!(closes([tainted(), vec![p(constraint(1, None))]].concat()), closed);
    let honoring = SpreadConstraint { honor_taints: true, ..constraint(1, None) };
    assert_eq!(closes([tainted(), vec![p(honoring)]].concat()), None);
}

#[test]
fn affinity_between_pods() {
    let two = || vec![Fact::Node(in_zone("n", "z")), Fact::Node(in_zone("m", "z")), Fact::Node(in_zone("o", "y"))];
    let p = |spec| Fact::Pod(PodFact { labels: labelled(&[("app", "p")]), ..pod("p", spec) });
    let x = |node: &str, spec| Fact::Pod(PodFact { labels: labelled(&[("app", "x")]), ..on("q", node, spec) });
    let wants = |app| PodSpec { affinity: vec![term(ZONE, app)], ..spec(0) };
    let shuns = |app| PodSpec { anti_affinity: vec![term(ZONE, app)], ..spec(0) };
    let closed = Some(Filter::InterPodAffinity);
    let table = [
        ("company in the zone", vec![p(wants("x")), x("m", spec(0))], None),
        ("company elsewhere", vec![p(wants("x")), x("o", spec(0))], closed),
        ("no company", vec![p(wants("x"))], closed),
        ("it is its own company", vec![p(wants("p"))], None),
        ("shunned company", vec![p(shuns("x")), x("m", spec(0))], closed),
        ("shunned company elsewhere", vec![p(shuns("x")), x("o", spec(0))], None),
        ("it is shunned", vec![p(spec(0)), x("m", shuns("p"))], closed),
        ("it is shunned elsewhere", vec![p(spec(0)), x("o", shuns("p"))], None),
    ];
    for (name, facts, expected) in table {
        assert_eq!(closes([two(), facts].concat()), expected, "{name}");
    }
    // Namespaces: by name, or by labels.
    let by_labels = PodTerm {
        namespaces: vec![],
        namespace_selector: Some(Selector { requirements: vec![requirement("team", Operator::In, &["t"])] }),
        ..term(ZONE, "x")
    };
    let shuns_team = PodSpec { anti_affinity: vec![by_labels], ..spec(0) };
    let facts = |team| {
        [two(), vec![Fact::Namespace("a".into(), labelled(&[("team", team)])), p(shuns_team.clone()), x("n", spec(0))]]
            .concat()
    };
    assert_eq!(closes(facts("t")), closed);
    assert_eq!(closes(facts("u")), None);
}

#[test]
fn scores_by_hand() {
    // Half of the cpu is used with the pod there, a fifth of the memory: 50,000 and 80,000; 100,000 - 30,000 / 2.
    let mut q = spec(3);
    q.requests = amounts(&[(CPU, 3), (MEMORY, 200)]);
    q.assumed = (3, 200);
    let w = world(vec![Fact::Node(node("n", 10)), Fact::Pod(on("q", "n", q)), Fact::Pod(pod("p", spec(2)))]);
    let p = &w.pods[&PodKey { namespace: "a".into(), name: "p".into() }];
    let view = w.view(p, &BTreeSet::new());
    assert_eq!(scores::least_allocated(&view, &w.nodes["n"]), (50_000 + 80_000) / 2);
    assert_eq!(scores::balanced(&view, &w.nodes["n"]), 100_000 - 15_000);
    // No image: 0. Taints: all tolerated. The rest: 0.
    assert_eq!(scores::totals(&view, &[&w.nodes["n"]]), [65_000 + 85_000 + 300_000]);

    // Two images of 511.5 MiB and of 0: on one node of two. (511.5 / 2 - 23) / (2000 - 23).
    let images = vec![(vec!["i".into(), "i:latest".into()], 1023 * MI as u64 / 2)];
    let n = NodeFact { images, ..node("n", 10) };
    let p = pod("p", PodSpec { images: vec!["i:latest".into(), "j".into()], ..spec(0) });
    let w = world(vec![Fact::Node(n), Fact::Node(node("m", 10)), Fact::Pod(p)]);
    let view = w.view(w.pods.values().next().expect("one pod"), &BTreeSet::new());
    let expected = i128::from((1023 * MI / 4 - 23 * MI) * 100_000 / (1977 * MI));
    assert_eq!(scores::image_locality(&view, &w.nodes["n"]), expected);
    assert_eq!(scores::image_locality(&view, &w.nodes["m"]), 0);

    assert_eq!([1, 2, 3, 10].map(scores::ln1024), [0, 709, 1124, 2357]);
}

#[test]
fn preferences() {
    // m has a taint that is not tolerated (-300,000), n the label (+200,000 x 1/4 of the weight of o), q draws to zone
    // z.
    let taints = vec![Taint { key: "k".into(), value: "".into(), effect: Effect::PreferNoSchedule }];
    let prefer = |value: &str| NodeTerm {
        labels: vec![requirement("kubernetes.io/hostname", Operator::In, &[value])],
        fields: vec![],
    };
    let p = PodSpec {
        preferred_nodes: vec![(1, prefer("n")), (4, prefer("o"))],
        preferred_affinity: vec![(3, term(ZONE, "x"))],
        preferred_anti_affinity: vec![(5, term("kubernetes.io/hostname", "x"))],
        ..PodSpec::default()
    };
    let q = PodFact { labels: labelled(&[("app", "x")]), ..on("q", "n", PodSpec::default()) };
    let w = world(vec![
        Fact::Node(NodeFact { taints, ..in_zone("m", "z") }),
        Fact::Node(in_zone("n", "z")),
        Fact::Node(in_zone("o", "y")),
        Fact::Pod(q),
        Fact::Pod(pod("p", p)),
    ]);
    let p = &w.pods[&PodKey { namespace: "a".into(), name: "p".into() }];
    let view = w.view(p, &BTreeSet::new());
    let open: Vec<&NodeFact> = w.nodes.values().collect();
    // All are empty: 100,000 + 100,000. Raw affinity: m 3, n 3 - 5 = -2, o 0; so 5/5, 0 and 2/5.
    let even = 200_000;
    let expected = [even + 200_000, even + 300_000 + 50_000, even + 300_000 + 200_000 + 80_000];
    assert_eq!(scores::totals(&view, &open), expected);
}

#[test]
fn soft_spread() {
    // A Service selects p: by zone (skew 3) and by host (skew 5). Zone z has 2 pods of it on n, zone y none.
    let service =
        SelectorFact { object: "Service/s".into(), namespace: "a".into(), selector: app("x").expect("given") };
    let x = |name: &str| Fact::Pod(PodFact { labels: labelled(&[("app", "x")]), ..on(name, "n", PodSpec::default()) });
    let w = world(vec![
        Fact::Node(in_zone("m", "z")),
        Fact::Node(in_zone("n", "z")),
        Fact::Node(in_zone("o", "y")),
        Fact::Selector(service),
        x("q"),
        x("r"),
        Fact::Pod(PodFact { labels: labelled(&[("app", "x")]), ..pod("p", PodSpec::default()) }),
    ]);
    let p = &w.pods[&PodKey { namespace: "a".into(), name: "p".into() }];
    let view = w.view(p, &BTreeSet::new());
    let open: Vec<&NodeFact> = w.nodes.values().collect();
    // ln 4 is 1419/1024, ln 5 is 1648/1024: of 2 pods 2 x 1419 x 1000 / 1024 = 2771 and 2 x 1648 x 1000 / 1024 = 3218.
    // m: 2771 + 2000 + 0 + 4000 = 8771; n: 2771 + 2000 + 3218 + 4000 = 11989; o: 6000.
    let points = |raw: i128| 2 * (100_000 * (11_989 + 6_000 - raw) / 11_989);
    let even: i128 = 200_000 + 300_000;
    assert_eq!(scores::totals(&view, &open), [even + points(8_771), even + points(11_989), even + points(6_000)]);
}

#[test]
fn order_and_cycle() {
    // High goes first though it is the youngest; then the older; a pod that does not fit stops nobody.
    let with = |name: &str, priority, created, cpu| {
        Fact::Pod(PodFact { priority, created: Created(created), ..pod(name, spec(cpu)) })
    };
    let gated = PodFact { gates: vec!["g".into()], ..pod("gated", spec(0)) };
    let problem = RequestProblem { field: "f".into(), message: "m".into() };
    let invalid = PodFact { gates: vec!["g".into()], problem: Some(problem), ..pod("invalid", spec(0)) };
    let mut w = world(vec![
        Fact::Node(node("n", 10)),
        with("young", 0, 9, 3),
        with("old", 0, 1, 3),
        with("high", 5, 10, 3),
        with("large", 3, 2, 11),
        with("late", 0, 10, 3),
        Fact::Pod(gated),
        Fact::Pod(invalid),
    ]);
    let expected = [
        "bind high n",
        "bind old n",
        "bind young n",
        "hold gated SchedulingGated",
        "hold invalid InvalidRequest",
        "hold large NoFittingNode",
        "hold late NoFittingNode",
    ];
    assert_eq!(pairs(&w.decide(Tick(0))), expected);
    assert_eq!(pairs(&w.decide(Tick(0))), expected[3..], "what is decided is taken in");
}

#[test]
fn preemption_takes_the_cheapest() {
    let running = |name: &str, node: &str, priority, created, cpu, label: &str| {
        let labels = labelled(&[("app", label)]);
        Fact::Pod(PodFact { priority, created: Created(created), labels, ..on(name, node, spec(cpu)) })
    };
    let claimant = |cpu| Fact::Pod(PodFact { priority: 10, ..pod("p", spec(cpu)) });
    let nodes = || vec![Fact::Node(node("m", 10)), Fact::Node(node("n", 10))];
    let budget =
        |allowed| Fact::Budget(BudgetFact { namespace: "a".into(), name: "b".into(), selector: app("kept"), allowed });
    let table: Vec<(&str, Vec<Fact>, i64, Vec<&str>)> = vec![
        (
            "the lower priority goes, though two must go",
            vec![running("a", "m", 5, 0, 10, ""), running("b", "n", 1, 0, 5, ""), running("c", "n", 1, 0, 5, "")],
            10,
            vec!["nominate p n", "evict b", "evict c", "hold p AwaitingVictims"],
        ),
        (
            "of one priority the fewer go",
            vec![running("a", "m", 1, 0, 10, ""), running("b", "n", 1, 0, 5, ""), running("c", "n", 1, 0, 5, "")],
            10,
            vec!["nominate p m", "evict a", "hold p AwaitingVictims"],
        ),
        (
            "of one number the youngest go",
            vec![running("a", "m", 1, 3, 10, ""), running("b", "n", 1, 4, 10, "")],
            10,
            vec!["nominate p n", "evict b", "hold p AwaitingVictims"],
        ),
        (
            "of one age the first by name",
            vec![running("a", "n", 1, 3, 10, ""), running("b", "m", 1, 3, 10, "")],
            10,
            vec!["nominate p n", "evict a", "hold p AwaitingVictims"],
        ),
        (
            "a budget counts before all else",
            vec![budget(0), running("a", "m", 1, 0, 10, "kept"), running("b", "n", 5, 0, 10, "")],
            10,
            vec!["nominate p n", "evict b", "hold p AwaitingVictims"],
        ),
        (
            "a budget is passed over when nothing else will do",
            vec![budget(0), running("a", "m", 1, 0, 10, "kept"), running("b", "n", 10, 0, 10, "")],
            10,
            vec!["nominate p m", "evict a over budget", "hold p AwaitingVictims"],
        ),
        (
            "no victim has the claimant's priority",
            vec![running("a", "m", 10, 0, 10, ""), running("b", "n", 11, 0, 10, "")],
            10,
            vec!["hold p NoFittingNode"],
        ),
        (
            "nobody goes in vain",
            vec![running("a", "m", 1, 0, 10, ""), running("b", "n", 1, 0, 10, "")],
            11,
            vec!["hold p NoFittingNode"],
        ),
    ];
    for (name, facts, cpu, expected) in table {
        let mut w = world([nodes(), facts, vec![claimant(cpu)]].concat());
        assert_eq!(pairs(&w.decide(Tick(0))), expected, "{name}");
    }
}

#[test]
fn a_claim_lasts_until_the_claimant_binds() {
    let victim = || PodFact { priority: 1, ..on("v", "n", spec(10)) };
    let claimant = || PodFact { priority: 10, ..pod("p", spec(6)) };
    let mut w = world(vec![Fact::Node(node("n", 10)), Fact::Pod(victim()), Fact::Pod(claimant())]);
    assert_eq!(pairs(&w.decide(Tick(0))), ["nominate p n", "evict v", "hold p AwaitingVictims"]);
    assert_eq!(pairs(&w.decide(Tick(0))), ["hold p AwaitingVictims"]);

    // The eviction is refused: the claim has nothing to wait for, and is made anew.
    let mut refused = w.clone();
    refused.observe(Tick(0), Fact::EvictFailed { pod: victim().key(), uid: victim().uid });
    let again = ["denominate p", "nominate p n", "evict v", "hold p AwaitingVictims"];
    assert_eq!(pairs(&refused.decide(Tick(0))), again);

    // A fresh world learns it all from the objects.
    let nominated = PodFact { nominated: Some("n".into()), ..claimant() };
    let leaving = PodFact { leaving_since: Some(Created(0)), victim_of: Some(nominated.key()), ..victim() };
    let mut fresh = world(vec![Fact::Pod(nominated), Fact::Pod(leaving), Fact::Node(node("n", 10))]);
    assert_eq!(pairs(&fresh.decide(Tick(0))), ["hold p AwaitingVictims"]);

    // The victim goes; a pod of higher priority, which could evict the claimant as soon as it runs, takes the claim
    // over, and a small one can take the rest.
    let high = PodFact { priority: 20, ..pod("high", spec(5)) };
    let small = PodFact { priority: 0, ..pod("small", spec(4)) };
    for w in [&mut w, &mut fresh] {
        for fact in [Fact::PodGone(victim().key()), Fact::Pod(high.clone()), Fact::Pod(small.clone())] {
            w.observe(Tick(0), fact);
        }
        assert_eq!(
            pairs(&w.decide(Tick(0))),
            ["denominate p", "nominate high n", "bind high n", "bind small n", "hold p NoFittingNode"]
        );
    }

    // The node goes: so does the claim.
    let nominated = || Fact::Pod(PodFact { nominated: Some("n".into()), ..claimant() });
    let leaving = PodFact { leaving_since: Some(Created(0)), victim_of: Some(claimant().key()), ..victim() };
    let mut w = world(vec![Fact::Node(node("n", 10)), Fact::Pod(leaving), nominated()]);
    w.observe(Tick(0), Fact::NodeGone("n".into()));
    assert_eq!(pairs(&w.decide(Tick(0))), ["denominate p", "hold p NoFittingNode"]);

    // One that is not there yet is claimed when it comes: others say which pod they make it for.
    let older = PodFact { priority: 10, created: Created(-1), ..pod("o", spec(5)) };
    let mut w = world(vec![nominated(), Fact::Pod(older)]);
    assert_eq!(pairs(&w.decide(Tick(0))), ["hold o NoFittingNode", "hold p NoFittingNode"]);
    w.observe(Tick(0), Fact::Node(node("n", 10)));
    assert_eq!(pairs(&w.decide(Tick(0))), ["bind p n", "hold o NoFittingNode"]);
}

#[test]
fn who_waits_for_long_reserves() {
    let facts = vec![
        Fact::Node(node("m", 10)),
        Fact::Node(node("n", 10)),
        Fact::Pod(on("a", "m", spec(5))),
        Fact::Pod(on("b", "n", spec(4))),
        Fact::Pod(pod("p", spec(8))),
        Fact::Pod(PodFact { created: Created(1), ..pod("q", spec(8)) }),
        Fact::Pod(pod("impossible", spec(11))),
    ];
    let mut w = world(facts);
    let holds = ["hold impossible NoFittingNode", "hold p NoFittingNode", "hold q NoFittingNode"];
    assert_eq!(pairs(&w.decide(Tick(299_999))), holds);
    let expected = [&["nominate p n"], &holds[..]].concat();
    assert_eq!(pairs(&w.decide(Tick(300_000))), expected, "less is missing on n, and there is one such claim");
    assert_eq!(pairs(&w.decide(Tick(300_000))), holds);
    w.observe(Tick(300_000), Fact::Pod(PodFact { created: Created(2), ..pod("small", spec(4)) }));
    assert_eq!(pairs(&w.decide(Tick(300_000)))[0], "bind small m", "n is held");
    w.observe(Tick(300_000), Fact::PodGone(on("b", "n", spec(0)).key()));
    assert_eq!(pairs(&w.decide(Tick(300_000)))[..2], ["bind p n", "nominate q n"], "then it is q's turn");
}
