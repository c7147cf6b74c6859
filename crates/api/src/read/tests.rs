//! What is read of files, and what is a problem.

use super::*;

fn lines(problems: &[Problem]) -> Vec<String> {
    problems.iter().map(ToString::to_string).collect()
}

fn keys(read: &Read) -> Vec<String> {
    read.documents.iter().map(|d| format!("{} {}", d.key, d.place)).collect()
}

#[test]
fn what_can_be_read_is_read() {
    let text = "\
apiVersion: v1
kind: Pod
metadata: {name: p, namespace: a}
---
kind: Pod
metadata: {name: q}
---
apiVersion: v1
kind: Podd
metadata: {name: q}
---
apiVersion: apps/v1
kind: Pod
metadata: {name: q}
---
apiVersion: v2
kind: Pod
metadata: {name: q}
---
apiVersion: v1
kind: Node
metadata: {namespace: a}
---
apiVersion: v1
kind: Pod
metadata: {name: p, namespace: a}
---
just text
---
a: [1
---
apiVersion: v1
kind: Node
metadata: {name: n}
";
    let read = read("cluster.yaml", text);
    assert_eq!(keys(&read), ["Pod/a/p cluster.yaml:1", "Node/n cluster.yaml:32"]);
    let expected = [
        "cluster.yaml:30:4: not YAML: ",
        "cluster.yaml:5: apiVersion: missing: an object needs it",
        "cluster.yaml:8: Podd/q: kind: \"Podd\": is not a kind that is known",
        "cluster.yaml:12: Pod/q: apiVersion: \"apps/v1\": has no kind Pod that is known: expected v1",
        "cluster.yaml:16: Pod/q: apiVersion: \"v2\": is not a version that is read: expected v1",
        "cluster.yaml:20: Node: metadata.name: missing: an object needs it",
        "cluster.yaml:24: Pod/a/p: is given twice: first on line 1",
        "cluster.yaml:28: is plain text: expected an object with apiVersion, kind and metadata",
    ];
    let got = lines(&read.problems);
    assert_eq!(got.len(), expected.len(), "{got:#?}");
    for (got, expected) in got.iter().zip(expected) {
        assert!(got.starts_with(expected), "{got}\n{expected}");
    }
}

#[test]
fn lists_are_flattened() {
    let text = "\
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Node, metadata: {name: a}}
- apiVersion: v1
  kind: PodList
  items:
  - {metadata: {name: p}}
";
    let read = read("f.yaml", text);
    assert_eq!(read.problems, []);
    assert_eq!(keys(&read), ["Node/a f.yaml:4", "Pod/default/p f.yaml:5"]);
    assert_eq!(read.documents[1].value["kind"], "Pod");
}

#[test]
fn kinds_without_bearing_are_counted_and_misspelt_ones_are_problems() {
    let mut text = String::from("{apiVersion: v1, kind: Podd, metadata: {name: p}}\n");
    for i in 0..3 {
        text += &format!("---\n{{apiVersion: kueue.x-k8s.io/v1beta1, kind: Workload, metadata: {{name: w-{i}}}}}\n");
    }
    text += "---\n{apiVersion: v1, kind: Endpoints, metadata: {name: e}}\n";
    text += "---\n{apiVersion: apps/v1, kind: Pod, metadata: {name: p}}\n";
    let read = read("f.yaml", &text);
    let ignored: Vec<String> = read.ignored.iter().map(ToString::to_string).collect();
    assert_eq!(ignored, ["ignored 1 Endpoints (v1)", "ignored 3 Workload (kueue.x-k8s.io)"]);
    assert_eq!(read.problems.len(), 2, "{:?}", read.problems);
}

#[test]
fn objects_without_a_name_are_named_after_their_stem() {
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {generateName: train-}\n";
    let names = |file: &str| keys(&read(file, &format!("{pod}---\n{pod}")));
    let first = names("f.yaml");
    assert_eq!(first.len(), 2, "two objects, two names: {first:?}");
    assert!(first.iter().all(|key| key.starts_with("Pod/default/train-")), "{first:?}");
    assert_ne!(first[0].split(' ').next(), first[1].split(' ').next());
    assert_eq!(first, names("f.yaml"));
}

#[test]
fn joined_documents_are_named() {
    let node = "apiVersion: v1\nkind: Node\nmetadata: {name: a}\n";
    let read = read("f.yaml", &format!("{node}{node}"));
    let expected = "f.yaml:4:1: the key \"apiVersion\" is given twice: two documents are joined without a line of \"---\" between them";
    assert_eq!(lines(&read.joined), [expected]);
    assert_eq!(read.problems, read.joined);
}

#[test]
fn json_is_read_with_its_escapes_and_lines() {
    let text = "{\"apiVersion\": \"v1\", \"kind\": \"Node\",\n \"metadata\": {\"name\": \"\\ud83d\\ude00\"}}\n\n{\"apiVersion\": \"v1\", \"kind\": \"Node\", \"metadata\": {\"name\": \"b\"}}\n";
    assert_eq!(keys(&read("f.json", text)), ["Node/\u{1f600} f.json:1", "Node/b f.json:4"]);
    assert_eq!(lines(&read("f.json", "{\"a\": }").problems), ["f.json:1:7: not JSON: expected value"]);
}

#[test]
fn a_flow_map_is_yaml_all_the_same() {
    let read = read("f.yaml", "{apiVersion: v1, kind: Node, metadata: {name: a}}");
    assert_eq!(keys(&read), ["Node/a f.yaml:1"]);
}

#[test]
fn quantities_come_through_as_written() {
    let text = "{apiVersion: v1, kind: Node, metadata: {name: a}, status: {allocatable: {cpu: 1, x: 0.1, y: 64Gi}}}";
    let read = read("f.yaml", text);
    assert_eq!(read.documents[0].value["status"]["allocatable"].to_string(), r#"{"cpu":1,"x":0.1,"y":"64Gi"}"#);
}

#[test]
fn a_path_that_is_not_there_is_a_problem() {
    let read = read_path(Path::new("no-such-file.yaml"));
    assert!(lines(&read.problems)[0].starts_with("no-such-file.yaml: cannot be read: "));
}
