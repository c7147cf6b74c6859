//! Caps on what pods without GPUs hold on GPU nodes: the arguments of the `crossquota` plugin, by its own names.
//!
//! This reads them, from wherever they stand, and refuses what cannot be meant. What they come to for a node and
//! for a pod is in [`caps`].

pub(crate) mod caps;
mod percentage;

use std::fmt;

use quotient_engine::CapSettings;
use quotient_engine::fact::{Amount, CPU, MEMORY, Name, Selector};
use regex_lite::Regex;

use crate::cursor::Cursor;
use crate::intern::Interner;
use crate::problem::Problem;
use crate::selector::label_selector;
use percentage::Percentage;
use serde_json::Value;

/// The arguments. Without patterns for GPUs they do nothing.
#[derive(Debug, Clone, PartialEq)]
pub struct CrossQuota {
    /// What a resource's name matches anywhere if it is a GPU.
    gpu_patterns: Vec<Pattern>,
    /// The resources that are capped, in the order they were named in.
    resources: Vec<CappedResource>,
    /// The weight of the score.
    weight: i64,
    /// Which pods are capped, of those without GPUs. `None`: all.
    label_selector: Option<Selector>,
    /// Whether pods without GPUs go to nodes without GPUs first.
    prefer_cpu_nodes: bool,
}

/// A resource that is capped, and the two lower levels of what its cap may come from.
#[derive(Debug, Clone, PartialEq)]
struct CappedResource {
    name: Name,
    quota: Option<Amount>,
    percentage: Option<Percentage>,
    weight: i64,
}

/// A regular expression. Two are equal if they are written alike.
#[derive(Clone)]
struct Pattern(Regex);

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.0.as_str() == other.0.as_str()
    }
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.as_str().fmt(f)
    }
}

const GPU_RESOURCE_NAMES: &str = "gpu-resource-names";
const QUOTA_RESOURCES: &str = "quota-resources";
const QUOTA: &str = "quota.";
const QUOTA_PERCENTAGE: &str = "quota-percentage.";
const WEIGHT: &str = "weight.";
const CROSS_QUOTA_WEIGHT: &str = "crossQuotaWeight";
const LABEL_SELECTOR: &str = "label-selector";
const PREFER_CPU_NODES: &str = "prefer-cpu-nodes";

/// What the score weighs unless it is said.
const DEFAULT_WEIGHT: i64 = 10;

/// More than this is no weight but a mistake, and would not fit the sum of scores.
const WEIGHT_MAX: i64 = 1_000_000;

impl CrossQuota {
    /// Reads the arguments at `at`. What is wrong is noted there; what is right and has no effect is added to `idle`.
    pub(crate) fn read(at: &Cursor<'_, '_>, idle: &mut Vec<Problem>) -> CrossQuota {
        let mut gpu_patterns = Vec::new();
        let mut names: Vec<Name> = Vec::new();
        let mut weight = DEFAULT_WEIGHT;
        let mut selector = None;
        let mut prefer_cpu_nodes = true;
        for (key, value) in at.entries() {
            match key {
                GPU_RESOURCE_NAMES => gpu_patterns = patterns(&value),
                QUOTA_RESOURCES => names = list(&value).map(Name::from).collect(),
                CROSS_QUOTA_WEIGHT => weight = read_weight(&value).unwrap_or(weight),
                LABEL_SELECTOR => selector = read_selector(&value),
                PREFER_CPU_NODES => prefer_cpu_nodes = truth(&value).unwrap_or(prefer_cpu_nodes),
                _ if of_resource(key).is_some() => {}
                _ => value.note(format!(
                    "is not an argument that is known: expected {GPU_RESOURCE_NAMES}, {QUOTA_RESOURCES}, {QUOTA}<resource>, \
                     {QUOTA_PERCENTAGE}<resource>, {WEIGHT}<resource>, {CROSS_QUOTA_WEIGHT}, {LABEL_SELECTOR} or {PREFER_CPU_NODES}"
                )),
            }
        }
        if names.is_empty() {
            names.push(CPU.into());
        }
        let mut resources: Vec<CappedResource> = Vec::new();
        for name in names {
            if resources.iter().all(|resource| resource.name != name) {
                let weight = default_weight(&name);
                resources.push(CappedResource { name, quota: None, percentage: None, weight });
            }
        }
        for (key, value) in at.entries() {
            let Some((prefix, name)) = of_resource(key) else { continue };
            // It is read in any case: a bad argument is one, wherever it would count.
            let mut unused = CappedResource { name: name.into(), quota: None, percentage: None, weight: 0 };
            let listed = resources.iter_mut().find(|resource| *resource.name == *name);
            if listed.is_none() {
                idle.push(Problem::new(format!("{key} has no effect: {name} is not one of {QUOTA_RESOURCES}")));
            }
            let resource = listed.unwrap_or(&mut unused);
            match prefix {
                QUOTA => resource.quota = value.amount(name),
                QUOTA_PERCENTAGE => resource.percentage = percentage::read(&value),
                _ => resource.weight = read_weight(&value).unwrap_or(resource.weight),
            }
        }
        if gpu_patterns.is_empty() && at.entries().next().is_some() {
            idle.push(Problem::new(format!("crossquota has no effect without {GPU_RESOURCE_NAMES}")));
        }
        CrossQuota { gpu_patterns, resources, weight, label_selector: selector, prefer_cpu_nodes }
    }

    /// Whether nothing is capped: no resource is known to be a GPU.
    pub fn is_inert(&self) -> bool {
        self.gpu_patterns.is_empty()
    }

    /// What the engine is told of it once and for all.
    pub fn settings(&self) -> CapSettings {
        CapSettings {
            weight: self.weight,
            resource_weights: self.resources.iter().map(|r| (r.name.clone(), r.weight)).collect(),
            prefer_cpu_nodes: self.prefer_cpu_nodes,
        }
    }
}

/// The prefix and the resource of an argument that is about one.
fn of_resource(key: &str) -> Option<(&'static str, &str)> {
    [QUOTA, QUOTA_PERCENTAGE, WEIGHT]
        .into_iter()
        .find_map(|prefix| key.strip_prefix(prefix).map(|name| (prefix, name)))
        .filter(|(_, name)| !name.is_empty())
}

fn default_weight(resource: &str) -> i64 {
    match resource {
        CPU => 10,
        MEMORY => 1,
        _ => 1,
    }
}

/// The parts of a text between commas.
fn list<'v>(at: &Cursor<'v, '_>) -> impl Iterator<Item = &'v str> {
    at.str().unwrap_or_default().split(',').map(str::trim).filter(|part| !part.is_empty())
}

fn patterns(at: &Cursor<'_, '_>) -> Vec<Pattern> {
    let read = |text: &str| match Regex::new(text) {
        Ok(pattern) => Some(Pattern(pattern)),
        Err(error) => {
            at.note(format!("expected regular expressions, and {text:?} is none: {error}"));
            None
        }
    };
    list(at).filter_map(read).collect()
}

/// A whole number, in quotes or not.
fn read_weight(at: &Cursor<'_, '_>) -> Option<i64> {
    let number = match at.value()? {
        Value::String(text) => text.trim().parse().ok(),
        value => value.as_i64(),
    };
    let number = number.filter(|number| (0..=WEIGHT_MAX).contains(number));
    if number.is_none() {
        at.note(format!("expected a whole number from 0 to {WEIGHT_MAX}"));
    }
    number
}

/// True or false, in quotes or not.
fn truth(at: &Cursor<'_, '_>) -> Option<bool> {
    match at.value()? {
        Value::String(text) if text == "true" => Some(true),
        Value::String(text) if text == "false" => Some(false),
        _ => at.bool(),
    }
}

fn read_selector(at: &Cursor<'_, '_>) -> Option<Selector> {
    for (key, value) in at.entries() {
        if !["matchLabels", "matchExpressions"].contains(&key) {
            value.note("is not a key that is known: expected matchLabels or matchExpressions");
        }
    }
    label_selector(at, &mut Interner::default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cursor::Notes;
    use serde_json::json;

    /// The arguments as they are read, with what is wrong and what has no effect.
    fn read(arguments: &Value) -> (CrossQuota, Vec<String>, Vec<String>) {
        let (notes, mut idle) = (Notes::default(), Vec::new());
        let read = CrossQuota::read(&Cursor::root(arguments, &notes), &mut idle);
        let wrong = notes.into_vec().iter().map(ToString::to_string).collect();
        (read, wrong, idle.iter().map(ToString::to_string).collect())
    }

    fn resource(name: &str, quota: Option<Amount>, percentage: Option<&str>, weight: i64) -> CappedResource {
        let percentage = percentage.map(|text| text.parse().expect("a percentage"));
        CappedResource { name: name.into(), quota, percentage, weight }
    }

    #[test]
    fn the_example_of_the_plugin_quoted_or_not() {
        let quoted = json!({
            "gpu-resource-names": "nvidia.com/gpu,amd.com/gpu",
            "quota-resources": "cpu,memory",
            "quota.cpu": "32",
            "quota-percentage.memory": "50",
            "crossQuotaWeight": 10,
            "weight.cpu": 10,
            "weight.memory": 1,
        });
        let plain = json!({
            "gpu-resource-names": "nvidia.com/gpu, amd.com/gpu,",
            "quota-resources": " cpu, memory,cpu",
            "quota.cpu": 32,
            "quota-percentage.memory": 50,
            "crossQuotaWeight": "10",
            "weight.cpu": "10",
            "weight.memory": "1",
            "prefer-cpu-nodes": "true",
        });
        let (read_quoted, wrong, idle) = read(&quoted);
        assert_eq!((wrong, idle), (vec![], vec![]));
        assert_eq!(
            read_quoted.resources,
            [resource("cpu", Some(32_000), None, 10), resource("memory", None, Some("50"), 1)]
        );
        assert_eq!(read(&plain), (read_quoted.clone(), vec![], vec![]));
        let expected = CapSettings {
            weight: 10,
            resource_weights: vec![("cpu".into(), 10), ("memory".into(), 1)],
            prefer_cpu_nodes: true,
        };
        assert_eq!(read_quoted.settings(), expected);
    }

    #[test]
    fn defaults() {
        let (read, wrong, idle) = read(&json!({"gpu-resource-names": "gpu", "quota-resources": ""}));
        assert_eq!((wrong, idle), (vec![], vec![]));
        assert_eq!(read.resources, [resource("cpu", None, None, 10)]);
        assert_eq!((read.weight, read.label_selector, read.prefer_cpu_nodes), (10, None, true));
        assert_eq!((default_weight("memory"), default_weight("hugepages-2Mi")), (1, 1));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let cases = [
            (json!({"quota.cpu": "lots"}), r#"["quota.cpu"]: "lots": "#),
            (json!({"quota.cpu": -1}), r#"["quota.cpu"]: -1: must not be negative"#),
            (json!({"quota.memory": [1]}), r#"["quota.memory"]: [1]: expected a quantity"#),
            (
                json!({"quota-percentage.cpu": 0}),
                r#"["quota-percentage.cpu"]: 0: expected a percentage above 0 and at most 100, such as 50 or 12.5"#,
            ),
            (
                json!({"quota-percentage.memory": "101"}),
                r#"["quota-percentage.memory"]: "101": expected a percentage above 0 and at most 100, such as 50 or 12.5"#,
            ),
            (json!({"crossQuotaWeight": -1}), "crossQuotaWeight: -1: expected a whole number from 0 to 1000000"),
            (json!({"crossQuotaWeight": 1.5}), "crossQuotaWeight: 1.5: expected a whole number from 0 to 1000000"),
            (json!({"weight.cpu": "much"}), r#"["weight.cpu"]: "much": expected a whole number from 0 to 1000000"#),
            (
                json!({"gpu-resource-names": "nvidia.com/gpu,("}),
                r#"gpu-resource-names: "nvidia.com/gpu,(": expected regular expressions, and "(" is none: "#,
            ),
            (json!({"gpu-resource-names": ["gpu"]}), r#"gpu-resource-names: ["gpu"]: expected a text"#),
            (json!({"quota-resources": 1}), "quota-resources: 1: expected a text"),
            (json!({"prefer-cpu-nodes": "yes"}), r#"prefer-cpu-nodes: "yes": expected true or false"#),
            (json!({"label-selector": "tier=batch"}), r#"label-selector: "tier=batch": expected a map"#),
            (
                json!({"label-selector": {"tier": "batch"}}),
                r#"label-selector.tier: "batch": is not a key that is known: expected matchLabels or matchExpressions"#,
            ),
            (
                json!({"label-selector": {"matchExpressions": [{"key": "a", "operator": "Is"}]}}),
                "label-selector.matchExpressions[0].operator: \"Is\": expected In, NotIn, Exists or DoesNotExist",
            ),
            (json!({"quota.": 1}), r#"["quota."]: 1: is not an argument that is known: expected gpu-resource-names, "#),
            (
                json!({"qouta.cpu": 1}),
                r#"["qouta.cpu"]: 1: is not an argument that is known: expected gpu-resource-names, "#,
            ),
        ];
        for (arguments, expected) in cases {
            let (_, wrong, _) = read(&arguments);
            assert_eq!(wrong.len(), 1, "{arguments}: {wrong:?}");
            assert!(wrong[0].starts_with(expected), "{arguments}: {}", wrong[0]);
        }
    }

    #[test]
    fn what_has_no_effect_is_said() {
        let (_, wrong, idle) = read(&json!({"quota.memory": "1Gi", "weight.memory": 3}));
        assert_eq!(wrong, Vec::<String>::new());
        assert_eq!(
            idle,
            [
                "quota.memory has no effect: memory is not one of quota-resources",
                "weight.memory has no effect: memory is not one of quota-resources",
                "crossquota has no effect without gpu-resource-names",
            ]
        );
        let (_, wrong, _) = read(&json!({"gpu-resource-names": "gpu", "quota.memory": "1Gb"}));
        assert_eq!(wrong.len(), 1, "a bad argument is one, even where it would have no effect");
    }
}
