//! What a pod is taken to ask for: containers, init containers, sidecars, pod-level resources, overhead.

use quotient_api::{Translator, TranslatorSettings};
use quotient_engine::Fact;
use quotient_engine::fact::PodFact;
use serde_json::{Value, json};

fn pod_fact(spec: Value) -> PodFact {
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "a"}, "spec": spec});
    let mut translation = Translator::new(TranslatorSettings::default()).upsert(&pod);
    match translation.facts.pop() {
        Some(Fact::Pod(fact)) => fact,
        other => panic!("{other:?}"),
    }
}

/// Requests as `name=amount …`, then what scoring assumes as `cpu+memory in Mi`.
fn shown(fact: &PodFact) -> String {
    let requests: Vec<String> = fact.spec.requests.iter().map(|(name, amount)| format!("{name}={amount}")).collect();
    let (cpu, memory) = fact.spec.assumed;
    format!("{} | {cpu}+{}Mi", requests.join(" "), memory / 1024 / 1024)
}

fn container(requests: Value) -> Value {
    json!({"name": "c", "resources": {"requests": requests}})
}

fn sidecar(requests: Value) -> Value {
    json!({"name": "s", "restartPolicy": "Always", "resources": {"requests": requests}})
}

#[test]
fn requests_as_kubernetes_counts_them() {
    let cpu = |amount: &str| container(json!({"cpu": amount}));
    let cases = [
        ("nothing", json!({"containers": [{"name": "c"}]}), " | 100+200Mi"),
        ("two that ask for nothing", json!({"containers": [{"name": "c"}, {"name": "d"}]}), " | 200+400Mi"),
        (
            "containers are summed",
            json!({"containers": [container(json!({"cpu": "1", "memory": "1Mi"})), cpu("500m")]}),
            "cpu=1500 memory=1048576 | 1500+201Mi",
        ),
        ("zero is left out, and is not assumed", json!({"containers": [cpu("0")]}), " | 0+200Mi"),
        (
            "numbers",
            json!({"containers": [container(json!({"cpu": 1.5, "memory": 1048576}))]}),
            "cpu=1500 memory=1048576 | 1500+1Mi",
        ),
        (
            "a limit stands for a request",
            json!({"containers": [
            {"name": "c", "resources": {"limits": {"cpu": "2", "nvidia.com/gpu": "1"}, "requests": {"cpu": "1"}}}]}),
            "cpu=1000 nvidia.com/gpu=1 | 1000+200Mi",
        ),
        (
            "the largest init container counts",
            json!({"initContainers": [cpu("3"), cpu("4")], "containers": [cpu("2")]}),
            "cpu=4000 | 4000+200Mi",
        ),
        (
            "or the containers, if they are larger",
            json!({"initContainers": [cpu("3")], "containers": [cpu("2"), cpu("2")]}),
            "cpu=4000 | 4000+400Mi",
        ),
        (
            "a sidecar counts beside the containers",
            json!({"initContainers": [sidecar(json!({"cpu": "1"}))], "containers": [cpu("2")]}),
            "cpu=3000 | 3000+400Mi",
        ),
        (
            "and beside init containers after it, not before it",
            json!({
            "initContainers": [cpu("4"), sidecar(json!({"cpu": "1"})), cpu("4")], "containers": [cpu("2")]}),
            "cpu=5000 | 5000+400Mi",
        ),
        (
            "two sidecars and an init container between",
            json!({
            "initContainers": [sidecar(json!({"cpu": "1"})), cpu("5"), sidecar(json!({"cpu": "2"}))], "containers": [cpu("1")]}),
            "cpu=6000 | 6000+600Mi",
        ),
        (
            "each resource for itself",
            json!({
            "initContainers": [container(json!({"cpu": "4", "memory": "1Mi"}))],
            "containers": [container(json!({"cpu": "1", "memory": "2Mi"}))]}),
            "cpu=4000 memory=2097152 | 4000+2Mi",
        ),
        (
            "the overhead comes on top",
            json!({"containers": [cpu("1")], "overhead": {"cpu": "250m", "memory": "1Mi"}}),
            "cpu=1250 memory=1048576 | 1250+201Mi",
        ),
        (
            "the pod's own requests win",
            json!({"containers": [cpu("1")], "resources": {"requests": {"cpu": "3", "memory": "2Mi"}}}),
            "cpu=3000 memory=2097152 | 3000+2Mi",
        ),
        (
            "even if they are smaller, and the overhead is still added",
            json!({
            "containers": [cpu("4")], "resources": {"requests": {"cpu": "3"}}, "overhead": {"cpu": "1"}}),
            "cpu=4000 | 4000+200Mi",
        ),
        (
            "not for other resources",
            json!({
            "containers": [container(json!({"nvidia.com/gpu": "1"}))], "resources": {"requests": {"nvidia.com/gpu": "3"}}}),
            "nvidia.com/gpu=1 | 100+200Mi",
        ),
        (
            "hugepages at the level of the pod",
            json!({
            "containers": [{"name": "c"}], "resources": {"requests": {"hugepages-2Mi": "4Mi"}}}),
            "hugepages-2Mi=4194304 | 100+200Mi",
        ),
        (
            "a limit of the pod stands in where no container asks",
            json!({
            "containers": [{"name": "c"}], "resources": {"limits": {"cpu": "3"}}}),
            "cpu=3000 | 3000+200Mi",
        ),
        (
            "and not where one does",
            json!({
            "containers": [cpu("1")], "resources": {"limits": {"cpu": "3"}}}),
            "cpu=1000 | 1000+200Mi",
        ),
        ("a pod asks for no pods", json!({"containers": [container(json!({"pods": "1"}))]}), " | 100+200Mi"),
        ("part of a millicore counts as one", json!({"containers": [cpu("0.0001")]}), "cpu=1 | 1+200Mi"),
    ];
    for (name, spec, expected) in cases {
        let fact = pod_fact(spec);
        assert_eq!(fact.problem, None, "{name}");
        assert_eq!(shown(&fact), expected, "{name}");
    }
}

#[test]
fn what_cannot_be_counted_is_a_problem_of_the_pod_and_the_rest_counts() {
    let cases = [
        (
            json!({"cpu": "1.5GB", "memory": "1Mi"}),
            "spec.containers[0].resources.requests.cpu",
            "\"1.5GB\": \"GB\" is not a unit",
        ),
        (
            json!({"cpu": "-1", "memory": "1Mi"}),
            "spec.containers[0].resources.requests.cpu",
            "\"-1\": must not be negative",
        ),
        (json!({"cpu": [], "memory": "1Mi"}), "spec.containers[0].resources.requests.cpu", "[]: expected a quantity"),
        (json!({"cpu": "1e40", "memory": "1Mi"}), "spec.containers[0].resources.requests.cpu", "\"1e40\": too large"),
        (
            json!({"cpu": "1e17", "memory": "1Mi"}),
            "spec.containers[0].resources.requests.cpu",
            "\"1e17\": out of range",
        ),
        (
            json!({"nvidia.com/gpu": true, "memory": "1Mi"}),
            "spec.containers[0].resources.requests[\"nvidia.com/gpu\"]",
            "true: expected a quantity",
        ),
    ];
    for (requests, field, message) in cases {
        let fact = pod_fact(json!({"containers": [container(requests.clone())]}));
        let problem = fact.problem.unwrap_or_else(|| panic!("{requests}"));
        assert_eq!(&*problem.field, field);
        assert!(problem.message.starts_with(message), "{}", problem.message);
        assert_eq!(fact.spec.requests.get("memory"), 1 << 20);
    }
}

#[test]
fn a_sum_beyond_64_bits_is_a_problem_and_no_wrap() {
    let half = container(json!({"memory": "5Ei"}));
    let fact = pod_fact(json!({"containers": [half, half]}));
    let problem = fact.problem.expect("a problem");
    assert_eq!(&*problem.field, "spec");
    assert!(problem.message.contains("11529215046068469760 of memory"), "{}", problem.message);
    assert_eq!(fact.spec.requests.get("memory"), i64::MAX);
}
