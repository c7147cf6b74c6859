//! Scenarios: tests of a quota policy, as data.
//!
//! A scenario is read in full before it runs, and everything that is wrong with the file is said at
//! once. Short forms (`nodes`, `pods`) become the objects they stand for here, so that whoever runs a
//! scenario, on a virtual cluster or on a real one, sees objects only.

use std::path::Path;
use std::time::Duration;

use quotient_api::{Configuration, Document, ObjectKey, Problem, key_of, read_path};
use serde_json::{Value, json};

use crate::bounds;
use crate::expect::Expect;
use crate::field;
use crate::shape::{Fields, Problems};

const HOSTNAME: &str = "kubernetes.io/hostname";

/// A test of a policy.
#[derive(Debug, Clone, PartialEq)]
pub struct Scenario {
    pub name: String,
    /// The file it is from.
    pub file: String,
    /// Free text: where the rule is from.
    pub source: Option<String>,
    pub configuration: Configuration,
    pub steps: Vec<Step>,
}

/// One step: what is done, in the order of the fields, and what is expected of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    pub name: String,
    /// From this step on, evicted pods take this long to go.
    pub eviction_takes: Option<Duration>,
    /// Objects in the order in which they are applied: nodes, `apply`, `applyFiles`, pods.
    pub apply: Vec<Value>,
    pub delete: Vec<Target>,
    /// Pods that end as `Succeeded`.
    pub finish: Vec<ObjectKey>,
    /// Pods that end as `Failed`.
    pub fail: Vec<ObjectKey>,
    /// The scheduler starts anew, knowing only what the objects say.
    pub restart: bool,
    /// Virtual time that passes.
    pub wait: Option<Duration>,
    pub expect: Expect,
}

/// An object that is named in a scenario. Without its group a name may mean several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// As it is written.
    pub text: String,
    /// What it may mean, never empty.
    pub keys: Vec<ObjectKey>,
}

impl Target {
    pub(crate) fn read(path: &str, value: &Value, problems: &mut Problems) -> Option<Target> {
        let Some(text) = value.as_str() else {
            problems.add(path, Some(value), "expected a text: Kind/namespace/name or Kind/name");
            return None;
        };
        match ObjectKey::parse(text) {
            Ok(keys) => Some(Target { text: text.to_string(), keys }),
            Err(problem) => {
                problems.add(path, None, problem.message);
                None
            }
        }
    }
}

/// Reads the scenarios of a file.
pub fn load(path: &Path) -> Result<Vec<Scenario>, Vec<Problem>> {
    let file = path.display().to_string();
    let text = std::fs::read_to_string(path)
        .map_err(|error| vec![Problem::new(format!("cannot be read: {error}")).in_file(file.clone())])?;
    parse(&file, &text, path.parent().unwrap_or(Path::new("")))
}

/// Reads the scenarios of a text. Files that it names are relative to `folder`.
pub fn parse(file: &str, text: &str, folder: &Path) -> Result<Vec<Scenario>, Vec<Problem>> {
    let (read, lines) = quotient_api::read::read_with_lines(file, text);
    let mut problems = read.problems;
    let not_scenario = |ignored: &quotient_api::Ignored| {
        Problem::new(format!("holds no scenario but a {}: expected kind Scenario", ignored.kind)).in_file(file)
    };
    problems.extend(read.ignored.iter().map(not_scenario));
    let mut scenarios = Vec::new();
    for (Document { key, value, place }, lines) in read.documents.into_iter().zip(lines) {
        if (key.group, key.kind) != ("quotient.dev", "Scenario") {
            let message = "is not a scenario: expected apiVersion quotient.dev/v1alpha1 and kind Scenario";
            problems.push(Problem::new(message).in_file(place.to_string()).of_object(&key));
            continue;
        }
        let mut found =
            Problems { file: file.to_string(), object: Some(key.to_string()), lines, ..Problems::default() };
        scenarios.push(scenario(&value, folder, &mut found));
        problems.append(&mut found.list);
    }
    if scenarios.is_empty() && problems.is_empty() {
        problems.push(Problem::new("holds no scenario").in_file(file));
    }
    if problems.is_empty() { Ok(scenarios) } else { Err(problems) }
}

fn scenario(value: &Value, folder: &Path, problems: &mut Problems) -> Scenario {
    let file = problems.file.clone();
    let mut top = Fields::of(value, "", problems);
    top.value("apiVersion");
    top.value("kind");
    let metadata = top.value("metadata").unwrap_or(&Value::Null);
    let spec = top.value("spec");
    if spec.is_none() {
        top.problems.add("spec", None, "is missing: expected a mapping with steps");
    }
    top.finish();

    let mut metadata = Fields::of(metadata, "metadata", problems);
    let name = metadata.needed_text("name").unwrap_or_default().to_string();
    // What any object may have besides its name means nothing here.
    for key in ["namespace", "labels", "annotations"] {
        metadata.value(key);
    }
    metadata.finish();

    let empty = json!({});
    let mut spec = Fields::of(spec.unwrap_or(&empty), "spec", problems);
    let source = spec.text("source").map(str::to_string);
    let configuration = spec.mapping("config").map(Configuration::from_value);
    let step_values = spec.items("steps");
    spec.finish();
    let configuration = match configuration {
        None => Configuration::default(),
        Some(Ok(configuration)) => configuration,
        Some(Err(found)) => {
            for problem in found {
                let field =
                    problem.field.map_or_else(|| "spec.config".to_string(), |field| format!("spec.config.{field}"));
                let (file, object) = (Some(problems.place(&field)), problems.object.clone());
                problems.list.push(Problem { file, object, field: Some(field), ..problem });
            }
            Configuration::default()
        }
    };
    let steps =
        step_values.into_iter().enumerate().map(|(index, (_, value))| step(index, value, folder, problems)).collect();
    Scenario { name, file, source, configuration, steps }
}

fn step(index: usize, value: &Value, folder: &Path, problems: &mut Problems) -> Step {
    // People know a step by its name; one without is known by its number.
    let name = field::text(value, "/name").map_or_else(|| format!("{}", index + 1), str::to_string);
    let place = format!("step {name:?}:");
    problems.step = Some((place.clone(), format!("spec.steps[{index}]")));
    let mut fields = Fields::of(value, place.clone(), problems);
    fields.text("name");
    let eviction_takes = fields.duration("evictionTakes");
    let nodes = fields.items("nodes");
    let apply = fields.items("apply");
    let files = fields.items("applyFiles");
    let pods = fields.items("pods");
    let delete = fields.items("delete");
    let finish = fields.items("finish");
    let fail = fields.items("fail");
    let restart = fields.flag("restart");
    let wait = fields.duration("wait");
    let expect_path = fields.path_of("expect");
    let expect = fields.value("expect");
    fields.finish();

    let mut objects = Vec::new();
    for (path, value) in nodes {
        objects.extend(node_objects(value, &path, problems));
    }
    for (path, value) in apply {
        match key_of(value) {
            Ok(_) => objects.push(value.clone()),
            Err(problem) => {
                let field = problem.field.map_or_else(|| path.clone(), |field| format!("{path}.{field}"));
                let (file, object) = (Some(problems.place(&field)), problems.object.clone());
                problems.list.push(Problem { file, object, field: Some(field), ..problem });
            }
        }
    }
    for (path, value) in files {
        objects.extend(file_objects(value, &path, folder, problems));
    }
    for (path, value) in pods {
        objects.extend(pod_objects(value, &path, problems));
    }
    let mut pod_keys = |items: Vec<(String, &Value)>| -> Vec<ObjectKey> {
        items.into_iter().filter_map(|(path, value)| pod_ref(&path, value.as_str(), problems)).collect()
    };
    let finish = pod_keys(finish);
    let fail = pod_keys(fail);
    let delete = delete.into_iter().filter_map(|(path, value)| Target::read(&path, value, problems)).collect();
    let expect = expect.map_or_else(Expect::default, |value| Expect::read(value, &expect_path, problems));
    Step { name, eviction_takes, apply: objects, delete, finish, fail, restart, wait, expect }
}

/// A pod as `namespace/name`.
pub(crate) fn pod_ref(path: &str, text: Option<&str>, problems: &mut Problems) -> Option<ObjectKey> {
    match text.and_then(|text| text.split_once('/')) {
        Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() && !name.contains('/') => {
            Some(ObjectKey::pod(namespace, name))
        }
        _ => {
            let value = text.map(Value::from);
            problems.add(path, value.as_ref(), "expected a pod as namespace/name");
            None
        }
    }
}

/// The count at `path`, if it is one that can be simulated.
fn bounded(count: Option<usize>, path: &str, problems: &mut Problems) -> Option<usize> {
    if let Some(count) = count.filter(|count| *count > bounds::PODS_OF_ONE_MAX) {
        let message = format!("expected at most {}", bounds::PODS_OF_ONE_MAX);
        problems.add(&format!("{path}.count"), Some(&json!(count)), message);
        return Some(0);
    }
    count
}

/// The names of `count` objects; without a count the one name.
fn names(name: &str, count: Option<usize>) -> Vec<String> {
    match count {
        None => vec![name.to_string()],
        Some(count) => (0..count).map(|index| format!("{name}-{index}")).collect(),
    }
}

/// Nodes from their short form.
fn node_objects(value: &Value, path: &str, problems: &mut Problems) -> Vec<Value> {
    let mut fields = Fields::of(value, path, problems);
    let name = fields.needed_text("name");
    let count = fields.count("count");
    let allocatable = fields.mapping("allocatable").cloned().unwrap_or_else(|| json!({}));
    let labels = fields.text_mapping("labels");
    let annotations = fields.text_mapping("annotations");
    let taints =
        fields.given_items("taints").map(|taints| taints.into_iter().map(|(_, taint)| taint.clone()).collect());
    fields.finish();
    let count = bounded(count, path, problems);
    let Some(name) = name else { return Vec::new() };
    let node = |name: String| {
        let mut node = json!({
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": {},
            "status": {
                "capacity": allocatable, "allocatable": allocatable,
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        });
        put_metadata(&mut node, labels, annotations);
        // Every kubelet labels its node so.
        if node.pointer("/metadata/labels").is_none_or(|labels| labels.get(HOSTNAME).is_none()) {
            field::put(&mut node, &["metadata", "labels", HOSTNAME], json!(name));
        }
        if let Some(taints) = &taints {
            field::put(&mut node, &["spec", "taints"], Value::Array(Vec::clone(taints)));
        }
        node
    };
    names(name, count).into_iter().map(node).collect()
}

/// Pods from their short form.
fn pod_objects(value: &Value, path: &str, problems: &mut Problems) -> Vec<Value> {
    let mut fields = Fields::of(value, path, problems);
    let namespace = fields.needed_text("namespace");
    let name = fields.needed_text("name");
    let count = fields.count("count");
    let requests = fields.mapping("requests");
    let priority = fields.integer("priority");
    let labels = fields.text_mapping("labels");
    let annotations = fields.text_mapping("annotations");
    let node = fields.text("node");
    let spec = fields.mapping("spec");
    fields.finish();
    let count = bounded(count, path, problems);
    let (Some(namespace), Some(name)) = (namespace, name) else { return Vec::new() };
    let pod = |name: String| {
        let mut pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": namespace, "name": name},
            "spec": {"containers": [{"name": "main", "image": "main"}]},
        });
        put_metadata(&mut pod, labels, annotations);
        if let Some(requests) = requests {
            let mut resources = json!({"requests": requests});
            // Extended resources cannot be overcommitted: their limit is their request.
            let extended = requests.as_object().into_iter().flatten().filter(|(resource, _)| resource.contains('/'));
            for (resource, amount) in extended {
                field::put(&mut resources, &["limits", resource], amount.clone());
            }
            pod["spec"]["containers"][0]["resources"] = resources;
        }
        if let Some(priority) = priority {
            field::put(&mut pod, &["spec", "priority"], json!(priority));
        }
        if let Some(node) = node {
            field::put(&mut pod, &["spec", "nodeName"], json!(node));
        }
        if let Some(spec) = spec {
            field::merge(&mut pod["spec"], spec);
        }
        pod
    };
    names(name, count).into_iter().map(pod).collect()
}

fn put_metadata(object: &mut Value, labels: Option<&Value>, annotations: Option<&Value>) {
    for (part, value) in [("labels", labels), ("annotations", annotations)] {
        if let Some(value) = value {
            field::put(object, &["metadata", part], value.clone());
        }
    }
}

/// The objects of a file that a scenario names.
fn file_objects(value: &Value, path: &str, folder: &Path, problems: &mut Problems) -> Vec<Value> {
    let Some(name) = value.as_str() else {
        problems.add(path, Some(value), "expected the name of a file, relative to the scenario's");
        return Vec::new();
    };
    let read = read_path(&folder.join(name));
    problems.list.extend(read.problems);
    read.documents.into_iter().map(|document| document.value).collect()
}
