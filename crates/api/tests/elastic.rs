//! Elastic quotas: what the engine is told of them whatever got past admission, and what admission says.

use crate::told;
use crate::view;

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use quotient_api::elastic::takeover::takeover;
use quotient_api::{Admitted, ObjectKey, Operation, Request, Translator, TranslatorSettings, admit, key_of};
use quotient_engine::Fact;
use quotient_engine::fact::{ElasticFact, QuotaFact, QuotaKey};
use serde_json::{Value, json};

use told::Told;
use view::Objects;

const NOS: &str = "nos.nebuly.com";
const KEP: &str = "scheduling.x-k8s.io";

fn plain(group: &str, namespace: &str, name: &str, spec: Value) -> Value {
    json!({"apiVersion": format!("{group}/v1alpha1"), "kind": "ElasticQuota",
        "metadata": {"name": name, "namespace": namespace}, "spec": spec})
}

fn composite(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "nos.nebuly.com/v1alpha1", "kind": "CompositeElasticQuota",
        "metadata": {"name": name, "namespace": "default"}, "spec": spec})
}

fn made(mut object: Value, second: u32) -> Value {
    object["metadata"]["creationTimestamp"] = json!(format!("2026-01-01T00:00:{second:02}Z"));
    object
}

impl Told for ElasticFact {
    fn of(fact: QuotaFact) -> Option<Self> {
        if let QuotaFact::Elastic(fact) = fact { Some(fact) } else { None }
    }

    /// At no moment is a namespace governed twice in one group.
    fn check(quotas: &BTreeMap<QuotaKey, Self>) {
        let mut seen = BTreeSet::new();
        for (key, fact) in quotas {
            assert!(!fact.namespaces.is_empty(), "{key} governs nothing");
            for namespace in &fact.namespaces {
                assert!(seen.insert((key.group.clone(), namespace.clone())), "{namespace} is governed twice");
            }
        }
    }
}

type Engine = told::Engine<ElasticFact>;

impl Engine {
    /// `Kind/namespace/name: namespaces`, for each quota that counts.
    fn governed(&self) -> Vec<String> {
        self.quotas.iter().map(|(key, fact)| format!("{key}: {}", fact.namespaces.join(" "))).collect()
    }
}

#[test]
fn a_quota_is_told_with_its_amounts() {
    let spec = json!({"min": {"cpu": "500m", "memory": "1Gi", "nvidia.com/gpu": 0}, "max": {"cpu": 2}});
    let told = Engine::told(&[plain(KEP, "a", "q", spec.clone()), plain(NOS, "a", "q", spec)]);
    let facts: Vec<&ElasticFact> = told.quotas.values().collect();
    let amounts = |fact: &ElasticFact| format!("{:?} {:?} {:?}", fact.min, fact.max, fact.namespaces);
    let expected =
        r#"Limits([("cpu", 500), ("memory", 1073741824), ("nvidia.com/gpu", 0)]) Limits([("cpu", 2000)]) ["a"]"#;
    assert_eq!(facts.iter().map(|fact| amounts(fact)).collect::<Vec<_>>(), [expected, expected]);
    assert_eq!(facts.iter().map(|fact| (&*fact.key.group, fact.fair)).collect::<Vec<_>>(), [(NOS, true), (KEP, false)]);
}

#[test]
fn what_cannot_be_read_is_said_and_the_rest_counts() {
    let spec = json!({
        "min": {"cpu": "x", "memory": "9999999999Ei", "nvidia.com/gpu": -1, "pods": 4, "example.com/a": 3},
        "max": {"cpu": 2, "example.com/a": 1},
    });
    let told = Engine::told(&[plain(KEP, "a", "q", spec)]);
    let fact = told.quotas.values().next().expect("it counts");
    assert_eq!(format!("{:?}", fact.min), r#"Limits([("example.com/a", 1), ("pods", 4)])"#);
    insta::assert_debug_snapshot!(told.lines());
}

#[test]
fn a_composite_without_namespaces_does_not_count() {
    for namespaces in [json!(null), json!([]), json!([""]), json!([7])] {
        let told = Engine::told(&[composite("c", json!({"namespaces": namespaces, "min": {"cpu": 1}}))]);
        assert_eq!(told.governed(), Vec::<String>::new());
        let lines = told.lines().join("\n");
        assert!(lines.contains("without a namespace the quota does not count"), "{lines}");
    }
}

#[test]
fn where_several_claim_a_namespace_one_counts() {
    let quota = |namespace: &str, name: &str, second| made(plain(NOS, namespace, name, json!({})), second);
    let over = |name: &str, namespaces: Value, second| made(composite(name, json!({"namespaces": namespaces})), second);
    let mut young = quota("a", "no-time", 0);
    young["metadata"].as_object_mut().expect("a map").remove("creationTimestamp");
    let cases: &[(&str, &[Value], &[&str], usize)] = &[
        ("the older", &[quota("a", "y", 1), quota("a", "x", 2)], &["ElasticQuota/a/y: a"], 1),
        ("then by name", &[quota("a", "y", 1), quota("a", "x", 1)], &["ElasticQuota/a/x: a"], 1),
        ("without a time it is the youngest", &[young, quota("a", "old", 9)], &["ElasticQuota/a/old: a"], 1),
        (
            "a composite before a plain one, whatever their age",
            &[quota("a", "q", 1), over("c", json!(["a", "b"]), 2)],
            &["CompositeElasticQuota/default/c: a b"],
            1,
        ),
        (
            "a composite keeps what is left to it",
            &[over("c", json!(["a", "b"]), 1), over("d", json!(["b", "d"]), 2)],
            &["CompositeElasticQuota/default/c: a b", "CompositeElasticQuota/default/d: d"],
            1,
        ),
        (
            "or counts for nothing",
            &[over("c", json!(["a", "b"]), 1), over("d", json!(["b"]), 2)],
            &["CompositeElasticQuota/default/c: a b"],
            2,
        ),
        (
            "a namespace that is listed twice is one",
            &[over("c", json!(["a", "a"]), 1)],
            &["CompositeElasticQuota/default/c: a"],
            1,
        ),
        (
            "other groups are other pools",
            &[quota("a", "q", 1), plain(KEP, "a", "q", json!({}))],
            &["ElasticQuota/a/q: a", "ElasticQuota/a/q: a"],
            0,
        ),
    ];
    for (name, objects, expected, problems) in cases {
        for reversed in [false, true] {
            let mut objects = objects.to_vec();
            if reversed {
                objects.reverse();
            }
            let told = Engine::told(&objects);
            assert_eq!(
                (told.governed(), told.lines().len()),
                (expected.iter().map(ToString::to_string).collect(), *problems),
                "{name}"
            );
        }
    }
}

#[test]
fn problems_with_others_are_said_and_taken_back() {
    let mut told = Engine::told(&[made(plain(NOS, "a", "q", json!({})), 2)]);
    assert_eq!(told.lines(), Vec::<&str>::new());
    let older = made(plain(NOS, "a", "older", json!({})), 1);
    told.seen(&older);
    let line = r#"ElasticQuota/a/q: metadata.namespace: "a": is governed by the older ElasticQuota/a/older: this quota does not count"#;
    assert_eq!(told.lines(), [line]);
    told.gone(&key_of(&older).expect("an object"));
    assert_eq!((told.lines(), told.governed()), (vec![], vec!["ElasticQuota/a/q: a".to_string()]));
}

#[test]
fn the_same_again_is_not_told_again() {
    let mut object = plain(NOS, "a", "q", json!({"min": {"cpu": 1}}));
    let mut translator = Translator::default();
    assert_eq!(translator.upsert(&object).facts.len(), 1);
    object["status"] = json!({"used": {"cpu": "1"}});
    assert_eq!(translator.upsert(&object).facts, []);
    object["spec"]["min"]["cpu"] = json!(2);
    assert_eq!(translator.upsert(&object).facts.len(), 1);
}

/// A quota of few names, so that they meet.
fn quota() -> impl Strategy<Value = Value> {
    let namespace = || proptest::sample::select(&["a", "b", "c"][..]);
    let name = proptest::sample::select(&["x", "y"][..]);
    let group = proptest::sample::select(&[NOS, NOS, KEP][..]);
    let list = proptest::collection::vec(namespace(), 0..4);
    (any::<bool>(), namespace(), name, group, list, 0..3u32, 0..3i64).prop_map(
        |(is_composite, namespace, name, group, list, second, min)| {
            let min = json!({"cpu": min});
            made(
                match is_composite {
                    true => composite(name, json!({"namespaces": list, "min": min})),
                    false => plain(group, namespace, name, json!({"min": min})),
                },
                second,
            )
        },
    )
}

proptest! {
    #[test]
    fn what_is_told_depends_on_the_objects_alone(
        history in proptest::collection::vec((quota(), any::<bool>()), 1..20),
    ) {
        let mut told = Engine::told(&[]);
        let mut objects: BTreeMap<ObjectKey, Value> = BTreeMap::new();
        for (object, is_there) in history {
            told.change(&mut objects, object, is_there)?;
        }
    }
}

/// What quotas charge a pod beyond its requests.
fn derived(spec: Value, whole_gpu_gb: u32) -> Vec<(String, i64)> {
    let settings = TranslatorSettings { whole_gpu_gb, ..TranslatorSettings::default() };
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec});
    match Translator::new(settings).upsert(&pod).facts.pop() {
        Some(Fact::Pod(fact)) => fact.spec.derived.iter().map(|(name, amount)| (name.to_string(), *amount)).collect(),
        other => panic!("{other:?}"),
    }
}

fn container(limits: Value) -> Value {
    json!({"name": "c", "resources": {"limits": limits}})
}

#[test]
fn gpu_memory_follows_from_what_a_pod_holds() {
    let cases = [
        (
            "the example of the document",
            json!({"containers": [container(json!({"nvidia.com/mig-1g.10gb": 1, "nvidia.com/gpu": 2}))]}),
            42,
        ),
        ("no GPU", json!({"containers": [container(json!({"cpu": 1}))]}), 0),
        (
            "containers add up",
            json!({"containers": [container(json!({"nvidia.com/gpu": 1})), container(json!({"nvidia.com/gpu-10gb": 3}))]}),
            46,
        ),
        (
            "the larger of init containers and containers",
            json!({"initContainers": [container(json!({"nvidia.com/gpu": 3}))], "containers": [container(json!({"nvidia.com/gpu": 2}))]}),
            48,
        ),
        (
            "a device of another kind is held beside",
            json!({"initContainers": [container(json!({"nvidia.com/gpu": 1}))], "containers": [container(json!({"nvidia.com/mig-1g.10gb": 1}))]}),
            26,
        ),
    ];
    for (name, spec, expected) in cases {
        let expected: Vec<(String, i64)> = ["n8s.nebuly.ai/gpu-memory", "nos.nebuly.com/gpu-memory"]
            .iter()
            .filter(|_| expected > 0)
            .map(|resource| (resource.to_string(), expected))
            .collect();
        assert_eq!(derived(spec, 16), expected, "{name}");
    }
    assert_eq!(derived(json!({"containers": [container(json!({"nvidia.com/gpu": 2}))]}), 80)[0].1, 160);
}

fn said(object: &Value, view: &Objects) -> Result<Vec<String>, String> {
    let old = view.0.get(&key_of(object).expect("an object"));
    let operation = if old.is_some() { Operation::Update } else { Operation::Create };
    let Admitted { warnings, .. } =
        admit(Request { operation, object: object.clone(), old }, view).map_err(|rejection| rejection.message)?;
    Ok(warnings)
}

#[test]
fn what_admission_refuses() {
    let there = Objects::of(&[
        plain(NOS, "a", "first", json!({"min": {"cpu": 2}})),
        plain(KEP, "a", "first", json!({})),
        composite("pair", json!({"namespaces": ["b", "c"]})),
    ]);
    let cases = [
        (
            plain(NOS, "a", "second", json!({})),
            r#"metadata.namespace: "a": is governed by ElasticQuota/a/first already: expected one quota for a namespace"#,
        ),
        (
            plain(KEP, "a", "second", json!({})),
            r#"metadata.namespace: "a": is governed by ElasticQuota/a/first already: expected one quota for a namespace"#,
        ),
        (
            plain(NOS, "b", "own", json!({})),
            r#"metadata.namespace: "b": is governed by CompositeElasticQuota/default/pair already: expected one quota for a namespace"#,
        ),
        (
            composite("other", json!({"namespaces": ["c", "d"]})),
            r#"spec.namespaces[0]: "c": is governed by CompositeElasticQuota/default/pair already: expected one quota for a namespace"#,
        ),
        (composite("other", json!({})), "spec.namespaces: missing: expected at least one namespace"),
        (composite("other", json!({"namespaces": []})), "spec.namespaces: missing: expected at least one namespace"),
        (
            composite("other", json!({"namespaces": ["d", "d"]})),
            r#"spec.namespaces[1]: "d": is listed twice: expected each namespace once"#,
        ),
        (
            composite("other", json!({"namespaces": ["D_"]})),
            r#"spec.namespaces[0]: "D_": expected the name of a namespace"#,
        ),
        (composite("other", json!({"namespaces": [null]})), "spec.namespaces[0]: expected the name of a namespace"),
        (
            plain(NOS, "e", "q", json!({"min": {"cpu": 4}, "max": {"cpu": "3999m"}})),
            r#"spec.max.cpu: "3999m": max must not be below min, which is 4"#,
        ),
        (plain(NOS, "e", "q", json!({"min": {"cpu": "-1"}})), r#"spec.min.cpu: "-1": must not be negative"#),
        (plain(NOS, "e", "q", json!({"max": {"cpu": "many"}})), r#"spec.max.cpu: "many": "many" is not a number"#),
        (plain(NOS, "e", "q", json!({"max": {"memory": "8Ei"}})), r#"spec.max.memory: "8Ei": out of range"#),
        (plain(NOS, "e", "q", json!({"max": {"no name": 1}})), r#""no name" is no name of a resource"#),
        (
            plain(NOS, "e", "q", json!({"min": [], "max": 1})),
            "spec.min: []: expected a map; spec.max: 1: expected a map",
        ),
    ];
    for (object, expected) in cases {
        let message = said(&object, &there).expect_err("it is refused");
        assert!(message.contains(expected), "{message}\nis not\n{expected}");
    }
}

#[test]
fn what_admission_lets_in() {
    let conflicting = [
        plain(NOS, "a", "first", json!({"min": {"cpu": 2}})),
        plain(NOS, "a", "second", json!({"min": {"cpu": 2}})),
        composite("pair", json!({"namespaces": ["b", "c"]})),
        composite("again", json!({"namespaces": ["c"]})),
    ];
    let there = Objects::of(&conflicting);
    let cases = [
        (
            "min and max of other resources do not meet",
            plain(NOS, "e", "q", json!({"min": {"cpu": 4}, "max": {"memory": 1}})),
        ),
        ("equal is enough", plain(NOS, "e", "q", json!({"min": {"cpu": 4}, "max": {"cpu": "4000m"}}))),
        ("nothing is said", plain(NOS, "e", "q", json!({}))),
        ("another group is another pool", plain(KEP, "a", "q", json!({}))),
        ("a composite takes over", composite("over", json!({"namespaces": ["a", "d"]}))),
        ("what got in can be mended", plain(NOS, "a", "second", json!({"min": {"cpu": 1}}))),
        ("of composites too", composite("again", json!({"namespaces": ["c", "d"]}))),
    ];
    for (name, object) in cases {
        assert_eq!(said(&object, &there), Ok(vec![]), "{name}");
    }
}

#[test]
fn admission_warns_of_mins_beyond_the_nodes() {
    let node = |name: &str, allocatable: Value| json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": {"allocatable": allocatable}});
    let nodes = [
        node("n-0", json!({"cpu": "4", "nvidia.com/gpu": 1})),
        node("n-1", json!({"cpu": "4", "nvidia.com/mig-1g.10gb": 2})),
    ];
    let own = plain(NOS, "a", "own", json!({"min": {"cpu": 5}}));
    let with = |more: &[Value]| Objects::of(&[&nodes[..], more].concat());
    let quota = |min: Value| plain(NOS, "b", "q", json!({"min": min}));
    let warning = |sum: &str, resource: &str, held: &str| {
        format!(
            "spec.min: the mins of all quotas of nos.nebuly.com sum up to {sum} of {resource}, and the nodes hold {held}: not all of them can be had at once"
        )
    };
    let cases = [
        ("as much as there is", quota(json!({"cpu": 3})), with(std::slice::from_ref(&own)), vec![]),
        (
            "one more",
            quota(json!({"cpu": "3001m"})),
            with(std::slice::from_ref(&own)),
            vec![warning("8001m", "cpu", "8")],
        ),
        ("what no node has", quota(json!({"memory": "1Gi"})), with(&[]), vec![warning("1Gi", "memory", "0")]),
        ("GPU memory of the nodes", quota(json!({"nos.nebuly.com/gpu-memory": 36})), with(&[]), vec![]),
        (
            "and beyond",
            quota(json!({"nos.nebuly.com/gpu-memory": 37})),
            with(&[]),
            vec![warning("37", "nos.nebuly.com/gpu-memory", "36")],
        ),
        ("no nodes are known yet", quota(json!({"cpu": 100})), Objects::default(), vec![]),
        ("another pool", plain(KEP, "b", "q", json!({"min": {"cpu": 8}})), with(std::slice::from_ref(&own)), vec![]),
        (
            "its own former min does not count",
            plain(NOS, "a", "own", json!({"min": {"cpu": 8}})),
            with(std::slice::from_ref(&own)),
            vec![],
        ),
        (
            "nor does the quota it takes over",
            composite("c", json!({"namespaces": ["a", "b"], "min": {"cpu": 8}})),
            with(std::slice::from_ref(&own)),
            vec![],
        ),
    ];
    for (name, object, view, expected) in cases {
        assert_eq!(said(&object, &view), Ok(expected), "{name}");
    }
}

#[test]
fn a_composite_takes_over_the_quotas_of_its_namespaces_in_its_group() {
    let view = Objects::of(&[
        plain(NOS, "a", "x", json!({})),
        plain(NOS, "b", "y", json!({})),
        plain(NOS, "d", "z", json!({})),
        plain(KEP, "a", "x", json!({})),
        plain("n8s.nebuly.ai", "a", "x", json!({})),
    ]);
    let taken = |object: &Value| takeover(object, &view).iter().map(ObjectKey::qualified).collect::<Vec<_>>();
    let expected = ["ElasticQuota.nos.nebuly.com/a/x", "ElasticQuota.nos.nebuly.com/b/y"];
    assert_eq!(taken(&composite("c", json!({"namespaces": ["b", "a", "c", "a"]}))), expected);
    assert_eq!(taken(&plain(NOS, "a", "q", json!({"namespaces": ["a"]}))), Vec::<String>::new());
    assert_eq!(taken(&composite("c", json!({"namespaces": 7}))), Vec::<String>::new());
}
