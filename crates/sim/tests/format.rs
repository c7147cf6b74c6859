//! The scenario format: what is not understood is said in one line that names the place.

use std::path::Path;

use quotient_sim::scenario;

/// Reads a scenario with these steps, and gives the problems as lines.
fn problems(spec: &str) -> Vec<String> {
    let text = format!("apiVersion: quotient.dev/v1alpha1\nkind: Scenario\nmetadata: {{name: s}}\nspec:\n{spec}");
    match scenario::parse("s.yaml", &text, Path::new(".")) {
        Ok(_) => Vec::new(),
        Err(problems) => problems.iter().map(ToString::to_string).collect(),
    }
}

#[test]
fn every_mistake_is_one_line_with_its_place() {
    let cases: &[(&str, &[&str])] = &[
        // An unknown key at every level.
        ("  step: []\n  steps: [{}]", &["s.yaml", "Scenario/s", "spec.step", "config, source, steps"]),
        ("  steps: [{name: one, wiat: 1m}]", &["step \"one\": wiat", "known", "wait"]),
        ("  steps: [{name: one, nodes: [{name: n, labls: {}}]}]", &["step \"one\": nodes[0].labls", "labels"]),
        ("  steps: [{name: one, pods: [{namespace: a, name: p, request: {}}]}]", &["pods[0].request", "requests"]),
        ("  steps: [{name: one, expect: {bounds: {}}}]", &["step \"one\": expect.bounds", "boundCount"]),
        (
            "  steps: [{name: one, expect: {rejected: [{object: Pod/a/p, mesage: x}]}}]",
            &["rejected[0].mesage", "message"],
        ),
        ("  steps: [{name: one, expect: {nodes: {n: {uesd: {}}}}}]", &["expect.nodes[n].uesd", "capUsed"]),
        ("  steps: [{name: one, expect: {quotas: {Queue/q: {uesd: {}}}}}]", &["quotas[Queue/q].uesd", "entitlement"]),
        (
            "  steps: [{name: one, expect: {events: [{object: Pod/a/p, reason: x, type: x}]}}]",
            &["events[0].type", "reason"],
        ),
        ("  config: {reserveAftr: 1m}\n  steps: []", &["spec.config", "reserveAftr"]),
        // Wrong types.
        ("  steps: {}", &["spec.steps", "expected a list"]),
        ("  steps: [{name: one, wait: 5}]", &["step \"one\": wait: 5", "a duration such as 30s"]),
        ("  steps: [{name: one, wait: soon}]", &["\"soon\"", "a duration"]),
        ("  steps: [{name: one, restart: maybe}]", &["restart", "true or false"]),
        ("  steps: [{name: one, nodes: [{name: true}]}]", &["nodes[0].name: true", "quote it"]),
        ("  steps: [{name: one, nodes: [{}]}]", &["nodes[0].name", "missing"]),
        ("  steps: [{name: one, nodes: [{name: n, count: -1}]}]", &["count: -1", "not negative"]),
        ("  steps: [{name: one, nodes: [{name: n, labels: {gpu: true}}]}]", &["labels[gpu]: true", "quote it"]),
        ("  steps: [{name: one, pods: [{name: p}]}]", &["pods[0].namespace", "missing"]),
        ("  steps: [{name: one, pods: [{namespace: a, name: p, priority: high}]}]", &["priority", "32 bits"]),
        ("  steps: [{name: one, finish: [p]}]", &["finish[0]: \"p\"", "namespace/name"]),
        ("  steps: [{name: one, delete: [Pod/p]}]", &["delete[0]", "lacks a namespace"]),
        ("  steps: [{name: one, delete: [Pdo/a/p]}]", &["delete[0]", "unknown kind"]),
        ("  steps: [{name: one, apply: [{kind: Pod, metadata: {name: p}}]}]", &["apply[0].apiVersion", "missing"]),
        ("  steps: [{name: one, applyFiles: [nowhere.yaml]}]", &["nowhere.yaml"]),
        ("  steps: [{name: one, expect: {bound: {a/p: 5}}}]", &["expect.bound[a/p]: 5", "a node's name"]),
        (
            "  steps: [{name: one, expect: {pending: {a/p: NoFitingNode}}}]",
            &["expect.pending[a/p]: \"NoFitingNode\"", "no reason's code", "InvalidRequest, ", ", NoFittingNode"],
        ),
        ("  steps: [{name: one, expect: {pending: {a/p: [NoFittingNode]}}}]", &["pending[a/p]", "a reason's code"]),
        ("  steps: [{name: one, expect: {boundCount: {a: many}}}]", &["boundCount[a]", "a number of pods"]),
        ("  steps: [{name: one, expect: {nodes: {n: {used: {cpu: 4x}}}}}]", &["used[cpu]: \"4x\"", "a quantity"]),
        ("  steps: [3]", &["step \"1\":", "expected a mapping"]),
    ];
    for (spec, expected) in cases {
        let problems = problems(spec);
        assert_eq!(problems.len(), 1, "{spec}\n{problems:?}");
        for part in *expected {
            assert!(problems[0].contains(part), "{spec}\nexpected {part:?} in: {}", problems[0]);
        }
        assert!(!problems[0].contains('\n'), "{}", problems[0]);
    }
}

#[test]
fn all_mistakes_are_said_at_once() {
    let problems = problems("  steps: [{name: one, a: 1}, {name: two, b: 2, wait: x}]");
    assert_eq!(problems.len(), 3, "{problems:?}");
}

#[test]
fn names_that_look_like_booleans_are_names() {
    let spec = "  steps: [{nodes: [{name: n}, {name: y}], pods: [{namespace: y, name: n}], expect: {bound: {y/n: n}}}]";
    assert_eq!(problems(spec), Vec::<String>::new());
}

#[test]
fn a_file_that_holds_something_else_is_refused() {
    let text = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n";
    let problems = scenario::parse("s.yaml", text, Path::new(".")).expect_err("a pod is no scenario");
    assert!(problems[0].to_string().contains("expected apiVersion quotient.dev/v1alpha1"), "{}", problems[0]);
    assert!(scenario::parse("s.yaml", "", Path::new(".")).is_err());
}

#[test]
fn short_forms_become_objects() {
    let text = "
apiVersion: quotient.dev/v1alpha1
kind: Scenario
metadata: {name: s}
spec:
  steps:
  - pods:
    - {namespace: a, name: p, count: 2, priority: 7, node: n, requests: {cpu: '1', nvidia.com/gpu: '2'}, labels: {x: 'y'}, spec: {nodeSelector: {z: a}}}
    nodes:
    - {name: n, allocatable: {cpu: '4'}, taints: [{key: k, effect: NoSchedule}]}
";
    let scenarios = scenario::parse("s.yaml", text, Path::new(".")).expect("it is right");
    let [node, first, second] = &scenarios[0].steps[0].apply[..] else { panic!("nodes come first") };
    assert_eq!(node["status"]["allocatable"]["cpu"], "4");
    assert_eq!(node["spec"]["taints"][0]["key"], "k");
    assert_eq!((&first["metadata"]["name"], &second["metadata"]["name"]), (&"p-0".into(), &"p-1".into()));
    let expected = serde_json::json!({
        "containers": [{"name": "main", "image": "main", "resources": {
            "requests": {"cpu": "1", "nvidia.com/gpu": "2"}, "limits": {"nvidia.com/gpu": "2"}}}],
        "priority": 7, "nodeName": "n", "nodeSelector": {"z": "a"},
    });
    assert_eq!(first["spec"], expected);
    assert_eq!(first["metadata"]["labels"]["x"], "y");
}
