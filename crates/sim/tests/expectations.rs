//! Expectations can fail: each says what was expected, what was found and why.

use std::path::Path;

use quotient_sim::{ScenarioResult, run, scenario};

/// Runs one step on a node of two cpus with two pods, a third that waits, and a fourth that is refused.
fn failures(expect: &str) -> Vec<String> {
    let result = result(expect);
    assert_eq!(result.error, None);
    result.steps[0].failures.iter().map(ToString::to_string).collect()
}

fn result(expect: &str) -> ScenarioResult {
    let text = format!(
        "
apiVersion: quotient.dev/v1alpha1
kind: Scenario
metadata: {{name: s}}
spec:
  steps:
  - name: one
    nodes: [{{name: n, allocatable: {{cpu: '2', memory: 1Gi, pods: '10'}}}}]
    pods:
    - {{namespace: a, name: low, priority: 0, requests: {{cpu: '1'}}, node: n}}
    - {{namespace: a, name: p, count: 2, priority: 5, requests: {{cpu: '1'}}}}
    - {{namespace: a, name: q, priority: 0, requests: {{cpu: '1'}}}}
    - {{namespace: a, name: refused, spec: {{priorityClassName: nothing}}}}
    finish: []
    expect: {expect}
"
    );
    let scenarios = scenario::parse("s.yaml", &text, Path::new(".")).unwrap_or_else(|problems| panic!("{problems:?}"));
    run(&scenarios[0], &mut |_| {})
}

#[test]
fn what_is_so_passes() {
    let so = [
        "{bound: {a/p-0: n, a/p-1: '*'}}",
        "{pending: {a/q: NoFittingNode}}",
        "{pending: {a/q: '*'}}",
        "{evicted: [a/low]}",
        "{boundCount: {a: 2, b: 0}, pendingCount: {a: 1, b: 0}, evictedCount: {a: 1, b: 0}}",
        "{rejected: [{object: Pod/a/refused, message: NOTHING}]}",
        "{rejected: [{object: Pod/a/refused}]}",
        "{nodes: {n: {used: {cpu: '2', memory: '0', nvidia.com/gpu: '0'}, allocatable: {cpu: 2000m, memory: 1024Mi}}}}",
        "{objects: {Pod/a/nobody: null, Pod/a/q: {spec: {nodeName: null}}}}",
        "{events: [{object: Pod/a/q, reason: FailedScheduling}, {object: Pod/a/p-0, reason: Scheduled}]}",
    ];
    for expect in so {
        assert_eq!(failures(expect), Vec::<String>::new(), "{expect}");
    }
}

#[test]
fn what_is_not_so_is_said() {
    let cases: &[(&str, &[&str])] = &[
        ("{bound: {a/q: n}}", &["bound a/q: expected it on n, found it waits with NoFittingNode", "("]),
        ("{bound: {a/p-0: m}}", &["bound a/p-0: expected it on m, found it is on n"]),
        ("{bound: {a/nobody: '*'}}", &["expected it on a node, found no such pod"]),
        (
            "{pending: {a/q: PoolExhausted}}",
            &["expected it to wait with PoolExhausted, found it waits with NoFittingNode", "("],
        ),
        ("{pending: {a/p-0: '*'}}", &["expected it to wait, found it is on n"]),
        ("{evicted: []}", &["evicted: expected none, found a/low", "("]),
        ("{evicted: [a/low, a/q]}", &["expected a/low, a/q, found a/low"]),
        ("{boundCount: {a: 3}}", &["boundCount a: expected 3, found 2"]),
        ("{pendingCount: {a: 0}}", &["pendingCount a: expected 0, found 1"]),
        ("{evictedCount: {a: 0}}", &["evictedCount a: expected 0, found 1"]),
        ("{rejected: []}", &["rejected: expected none, found Pod/a/refused: "]),
        ("{rejected: [{object: Pod/a/q}]}", &["rejected Pod/a/q: expected a rejection, found Pod/a/refused: "]),
        ("{rejected: [{object: Pod/a/refused, message: xyz}]}", &["expected a rejection with \"xyz\""]),
        ("{nodes: {n: {used: {cpu: '1'}}}}", &["nodes n used cpu: expected 1, found 2"]),
        ("{nodes: {n: {cap: {cpu: '1'}}}}", &["nodes n cap cpu: expected 1, found 0"]),
        ("{nodes: {m: {used: {cpu: '1'}}}}", &["nodes m: expected a node, found no node of that name"]),
        ("{quotas: {Queue/q: {used: {cpu: '1'}}}}", &["quotas Queue/q: expected a quota that is known"]),
        (
            "{objects: {Pod/a/p-0: {spec: {nodeName: m}}}}",
            &["objects Pod/a/p-0 spec.nodeName: expected \"m\", found \"n\""],
        ),
        ("{objects: {Pod/a/q: {spec: {nodeName: n}}}}", &["spec.nodeName: expected \"n\", found nothing"]),
        (
            "{objects: {Pod/a/p-0: {spec: {containers: [{name: main}]}}}}",
            &["spec.containers: expected [{\"name\":\"main\"}]"],
        ),
        ("{objects: {Pod/a/p-0: null}}", &["expected no object, found an object"]),
        (
            "{events: [{object: Pod/a/q, reason: Scheduled}]}",
            &["events Pod/a/q: expected Scheduled, found FailedScheduling"],
        ),
    ];
    for (expect, expected) in cases {
        let failures = failures(expect);
        assert_eq!(failures.len(), 1, "{expect}\n{failures:?}");
        for part in *expected {
            assert!(failures[0].contains(part), "{expect}\nexpected {part:?} in: {}", failures[0]);
        }
    }
}

#[test]
fn a_step_that_names_what_is_not_there_fails() {
    let text = "
apiVersion: quotient.dev/v1alpha1
kind: Scenario
metadata: {name: s}
spec:
  steps:
  - {name: one, delete: [Pod/a/p], finish: [a/q], fail: [a/r]}
  - {name: two}
";
    let scenarios = scenario::parse("s.yaml", text, Path::new(".")).expect("it is right");
    let result = run(&scenarios[0], &mut |_| {});
    assert!(!result.passed());
    let failures: Vec<String> = result.steps[0].failures.iter().map(ToString::to_string).collect();
    assert_eq!(
        failures,
        [
            "delete Pod/a/p: expected an object to delete, found no such object",
            "finish a/q: expected a pod to end, found Pod/a/q does not exist",
            "fail a/r: expected a pod to end, found Pod/a/r does not exist",
        ]
    );
    assert!(result.steps[1].passed());
}

#[test]
fn results_are_json_and_notes_say_what_was_refused() {
    let result = result("{boundCount: {a: 3}}");
    let json = serde_json::to_value(&result).expect("a result is JSON");
    assert_eq!(json["name"], "s");
    assert_eq!(json["steps"][0]["failures"][0]["expected"], "3");
    assert!(result.steps[0].notes.iter().any(|note| note.starts_with("Pod/a/refused was rejected: ")));
}
