//! Every limit of a pod holds at the number that the table says: as many are read, and one more holds the pod.

use quotient_api::limits::{
    LIMITS, POD_CARDS_MAX, POD_NODE_TERMS_MAX, POD_RESOURCES_MAX, POD_TERMS_MAX, POD_TOLERATIONS_MAX,
};
use quotient_api::{Translator, TranslatorSettings};
use quotient_engine::fact::{Fact, PodFact};
use serde_json::{Value, json};

fn read(change: impl Fn(&mut Value)) -> PodFact {
    let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "a", "annotations": {}},
        "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"nvidia.com/gpu": "1"}}}]}});
    change(&mut pod);
    let facts = Translator::new(TranslatorSettings::default()).upsert(&pod).facts;
    let pods = facts.into_iter().filter_map(|fact| match fact {
        Fact::Pod(pod) => Some(pod),
        _ => None,
    });
    pods.last().expect("it is a pod")
}

fn repeated(count: usize, one: impl Fn(usize) -> Value) -> Value {
    (0..count).map(one).collect()
}

/// A limit, and a pod with so many.
type Case = (&'static str, usize, fn(&mut Value, usize));

const CASES: [Case; 6] = [
    ("POD_RESOURCES_MAX", POD_RESOURCES_MAX, |pod, count| {
        let requests = (0..count).map(|i| (format!("example.com/r{i}"), json!("1"))).collect();
        pod["spec"]["containers"][0]["resources"]["requests"] = Value::Object(requests);
    }),
    ("POD_TERMS_MAX", POD_TERMS_MAX, |pod, count| {
        let term = |i: usize| json!({"topologyKey": format!("k{i}"), "labelSelector": {}});
        let terms = repeated(count, term);
        pod["spec"]["affinity"] = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}});
    }),
    ("POD_TERMS_MAX", POD_TERMS_MAX, |pod, count| {
        let rule = |i: usize| {
            json!({"topologyKey": format!("k{i}"), "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {}})
        };
        pod["spec"]["topologySpreadConstraints"] = repeated(count, rule);
    }),
    ("POD_NODE_TERMS_MAX", POD_NODE_TERMS_MAX, |pod, count| {
        let term = |i: usize| json!({"matchExpressions": [{"key": format!("k{i}"), "operator": "Exists"}]});
        let terms = json!({"nodeSelectorTerms": repeated(count, term)});
        pod["spec"]["affinity"] = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}});
    }),
    ("POD_TOLERATIONS_MAX", POD_TOLERATIONS_MAX, |pod, count| {
        pod["spec"]["tolerations"] = repeated(count, |i| json!({"key": format!("k{i}"), "operator": "Exists"}));
    }),
    ("POD_CARDS_MAX", POD_CARDS_MAX, |pod, count| {
        let cards: Vec<String> = (0..count).map(|i| format!("card{i}")).collect();
        pod["metadata"]["annotations"]["volcano.sh/card.name"] = json!(cards.join("|"));
    }),
];

#[test]
fn a_pod_is_read_up_to_each_limit_and_held_beyond_it() {
    for (limit, most, with) in CASES {
        let row = LIMITS.iter().find(|row| row.name == limit).expect("it is in the table");
        assert_eq!(row.most, most as u64, "{limit}");
        let problem = |count: usize| read(|pod| with(pod, count)).problem;
        assert_eq!(problem(most), None, "{limit}: {most}");
        let beyond = problem(most + 1).unwrap_or_else(|| panic!("{limit}: {} are not held", most + 1));
        assert!(beyond.message.contains(&format!("expected at most {most}")), "{limit}: {beyond:?}");
    }
}

#[test]
fn what_is_beyond_a_limit_takes_no_room() {
    let term = |i: usize| json!({"topologyKey": format!("k{i}"), "labelSelector": {}});
    let pod = read(|pod| {
        pod["spec"]["affinity"] =
            json!({"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": repeated(8_000, term)}});
    });
    assert!(pod.problem.is_some() && pod.spec.affinity.is_empty());
}
