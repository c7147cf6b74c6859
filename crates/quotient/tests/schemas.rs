//! What commands print with `-o json` is what `docs/reference/output.schema.json` says, field by field.

use crate::schema;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The event that tells of an eviction on a live cluster.
const EVENT: &str = r#"
{apiVersion: v1, kind: Node, metadata: {name: n}, status: {allocatable: {cpu: "4", pods: "10"}}}
---
{apiVersion: v1, kind: Event, metadata: {name: e, namespace: b}, reason: Preempted, lastTimestamp: "2026-10-01T00:00:00Z",
 involvedObject: {kind: Pod, namespace: b, name: victim},
 message: "Preempted by a/p (quota.preempt): evicted to make room on n for a/p"}
"#;

/// One node, and pods of one core that run one after another.
const TRACE: &str = r#"{"at": 0, "apply": {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "1", "pods": "10"}}}}
{"at": 1, "apply": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "a"}, "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]}}, "runs": 300}
{"at": 2, "apply": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "q", "namespace": "a"}, "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]}}, "runs": 300}
"#;

fn written(name: &str, text: &str) -> String {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("schemas-{name}"));
    std::fs::write(&path, text).expect("a file can be written");
    path.display().to_string()
}

#[test]
fn what_is_printed_is_what_the_schema_says() {
    let teams = "examples/two-teams";
    let event = written("event.yaml", EVENT);
    let trace = written("trace.jsonl", TRACE);
    let cases: [(&str, Vec<&str>); 20] = [
        ("simulate", vec!["simulate", "examples/first-steps"]),
        ("simulate", vec!["simulate", teams]),
        ("explain", vec!["explain", "vision/evaluate", "-f", teams]),
        ("explain", vec!["explain", "vision/train", "-f", teams]),
        (
            "explain --try",
            vec![
                "explain",
                "--try",
                "examples/two-teams/2-research-borrows.yaml",
                "-f",
                "examples/two-teams/1-cluster.yaml",
            ],
        ),
        ("explain KIND", vec!["explain", "deployment/research/sweep", "-f", teams]),
        (
            "explain eviction",
            vec!["explain", "eviction", "research/training-mt5dswjr9v-xwwf5", "-f", "examples/first-steps"],
        ),
        ("tree", vec!["tree", "-f", teams]),
        ("top", vec!["top", "-f", teams]),
        ("plan", vec!["plan", "-f", "examples/two-teams/change/quotas.yaml", "--on", teams]),
        ("lint", vec!["lint", teams]),
        ("explain eviction", vec!["explain", "eviction", "b/victim", "-f", &event]),
        ("test", vec!["test", "scenarios/kubernetes/host-ports.yaml"]),
        ("version", vec!["version"]),
        ("migrate", vec!["migrate", "-f", "examples/migration/scheduler-plugins.yaml"]),
        ("migrate", vec!["migrate", "-f", "examples/migration/nos.yaml"]),
        ("migrate", vec!["migrate", "-f", "examples/migration/koordinator.yaml"]),
        ("migrate", vec!["migrate", "-f", "examples/migration/volcano.yaml"]),
        ("replay", vec!["replay", &trace, "--forecasts", "20"]),
        ("bench", vec!["bench", "--nodes", "10", "--nodes", "20", "--pods", "50", "--rounds", "1"]),
    ];
    for (command, arguments) in cases {
        let output = Command::new(env!("CARGO_BIN_EXE_quotient"))
            .args(&arguments)
            .args(["-o", "json"])
            .current_dir(root())
            .stdin(Stdio::null())
            .output()
            .expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr);
        let value: Value =
            serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{arguments:?}: {e}: {said}"));
        schema::check(&format!("command {command}"), &value, &format!("{arguments:?}"));
    }
}

#[test]
fn faults_are_found() {
    let schema: Value = serde_json::from_str(
        r##"{"$defs": {"s": {"type": "string"}}, "type": "object", "additionalProperties": false, "required": ["a"],
            "properties": {"a": {"$ref": "#/$defs/s"}, "b": {"anyOf": [{"type": "null"}, {"type": "array", "items": {"enum": [1]}}]}}}"##,
    )
    .expect("JSON");
    for (text, count) in [(r#"{"a": "x"}"#, 0), (r#"{"a": 1}"#, 1), (r#"{"c": 1}"#, 2), (r#"{"a": "", "b": [2]}"#, 1)] {
        let mut found = Vec::new();
        schema::faults(&serde_json::from_str(text).expect("JSON"), &schema, &schema, "x", &mut found);
        assert_eq!(found.len(), count, "{text}: {found:?}");
    }
}
