//! What the arguments come to: the cap of a node, and whether a pod is subject to caps.

use std::collections::HashMap;

use quotient_engine::fact::{Amounts, CapStrategy, Labels, Limits};

use super::{CappedResource, CrossQuota, Pattern, percentage};
use crate::cursor::Cursor;
use crate::selector::selects;

/// What an annotation of a node starts with, before the resource's name.
const QUOTA_ANNOTATION: &str = "volcano.sh/crossquota-";
const PERCENTAGE_ANNOTATION: &str = "volcano.sh/crossquota-percentage-";

/// The annotation by which a pod chooses how it is placed among GPU nodes.
const STRATEGY_ANNOTATION: &str = "volcano.sh/crossquota-scoring-strategy";

/// How many names of resources are remembered. A cluster has some dozens.
const NAMES_MAX: usize = 4_096;

/// Reads nodes and pods by the arguments. It remembers which resources are GPUs, since every pod asks.
#[derive(Debug, Clone, Default)]
pub(crate) struct Caps {
    arguments: Option<CrossQuota>,
    gpus: HashMap<String, bool>,
}

impl Caps {
    pub fn new(arguments: Option<CrossQuota>) -> Self {
        Caps { arguments: arguments.filter(|arguments| !arguments.is_inert()), gpus: HashMap::new() }
    }

    /// What pods without GPUs may hold on a node, if it is one with GPUs, and whether its resources say that it is.
    pub fn of_node(&mut self, allocatable: &Amounts, annotations: &Cursor<'_, '_>) -> Option<(Limits, bool)> {
        let has_gpu = self.has_gpu(allocatable);
        let limit = |resource: &CappedResource| {
            let CappedResource { name, quota, percentage, .. } = resource;
            let whole = allocatable.get(name);
            let annotated = || {
                let at = |prefix: &str, read: &dyn Fn(&Cursor<'_, '_>) -> Option<i64>| {
                    annotation_keys(prefix, name).iter().find_map(|key| read(&given(annotations, key)?))
                };
                at(QUOTA_ANNOTATION, &|at| at.amount(name))
                    .or_else(|| at(PERCENTAGE_ANNOTATION, &|at| Some(percentage::read(at)?.of(whole))))
            };
            let limit = annotated().or(*quota).or_else(|| percentage.map(|p| p.of(whole))).unwrap_or(whole);
            (name.clone(), limit)
        };
        Some((self.arguments.as_ref()?.resources.iter().map(limit).collect(), has_gpu))
    }

    /// How a pod is placed among GPU nodes, if it is subject to their caps.
    pub fn of_pod(&mut self, requests: &Amounts, labels: &Labels, annotations: &Cursor<'_, '_>) -> Option<CapStrategy> {
        let selector = self.arguments.as_ref()?.label_selector.as_ref();
        if selector.is_some_and(|selector| !selects(selector, labels)) || self.has_gpu(requests) {
            return None;
        }
        let at = annotations.field(STRATEGY_ANNOTATION);
        Some(match at.str() {
            None | Some("most-allocated") => CapStrategy::MostAllocated,
            Some("least-allocated") => CapStrategy::LeastAllocated,
            Some(_) => {
                at.note("expected most-allocated or least-allocated; most-allocated is taken");
                CapStrategy::MostAllocated
            }
        })
    }

    /// Whether there is more than 0 of a resource that is a GPU.
    fn has_gpu(&mut self, amounts: &Amounts) -> bool {
        amounts.iter().any(|(name, amount)| *amount > 0 && self.is_gpu(name))
    }

    pub fn is_gpu(&mut self, resource: &str) -> bool {
        let Caps { arguments, gpus } = self;
        let Some(arguments) = arguments else { return false };
        if let Some(is_gpu) = gpus.get(resource) {
            return *is_gpu;
        }
        let is_gpu = arguments.gpu_patterns.iter().any(|Pattern(pattern)| pattern.is_match(resource));
        if gpus.len() < NAMES_MAX {
            gpus.insert(resource.to_owned(), is_gpu);
        }
        is_gpu
    }
}

/// The annotations that speak of a resource. A slash in its name is also written `_`, since a key has room for one.
fn annotation_keys(prefix: &str, resource: &str) -> Vec<String> {
    let mut keys = vec![format!("{prefix}{resource}")];
    if resource.contains('/') {
        keys.push(format!("{prefix}{}", resource.replace('/', "_")));
    }
    keys
}

/// The annotation, unless it is blank.
fn given<'v, 's>(annotations: &'s Cursor<'v, '_>, key: &'s str) -> Option<Cursor<'v, 's>> {
    let at = annotations.field(key);
    at.str().is_some_and(|text| !text.trim().is_empty()).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cursor::Notes;
    use quotient_engine::fact::Name;
    use serde_json::{Value, json};

    fn amounts(pairs: &[(&str, i64)]) -> Amounts {
        pairs.iter().map(|(name, amount)| (Name::from(*name), *amount)).collect()
    }

    fn caps(arguments: &Value) -> Caps {
        let (notes, mut idle) = (Notes::default(), Vec::new());
        let arguments = CrossQuota::read(&Cursor::root(arguments, &notes), &mut idle);
        assert!(notes.is_empty());
        Caps::new(Some(arguments))
    }

    /// The cap of a node of 8 cpu, 16 of memory, a GPU and 6 licences as text, and the fields that are wrong.
    fn check(arguments: Value, annotations: Value, expected: &str) {
        let notes = Notes::default();
        let allocatable = amounts(&[("cpu", 8_000), ("memory", 16), ("nvidia.com/gpu", 1), ("example.com/licence", 6)]);
        let limits = caps(&arguments).of_node(&allocatable, &Cursor::root(&annotations, &notes));
        let limits = limits.filter(|(_, has_gpu)| *has_gpu).map(|(limits, _)| limits);
        let mut text = match limits {
            None => "no cap".to_owned(),
            Some(limits) => limits.iter().map(|(name, limit)| format!("{name} {limit}")).collect::<Vec<_>>().join(", "),
        };
        for note in notes.into_vec() {
            text += &format!("; {}", note.field);
        }
        assert_eq!(text, expected, "{arguments} {annotations}");
    }

    #[test]
    fn five_levels() {
        let arguments = json!({
            "gpu-resource-names": "nvidia.com/gpu",
            "quota-resources": "cpu,memory,disk",
            "quota.cpu": "4",
            "quota-percentage.cpu": "25",
            "quota-percentage.memory": "50",
        });
        let both = |cpu: &str, percentage: &str| json!({"volcano.sh/crossquota-cpu": cpu, "volcano.sh/crossquota-percentage-cpu": percentage});
        let field = r#"["volcano.sh/crossquota-cpu"]"#;
        let percentage_field = r#"["volcano.sh/crossquota-percentage-cpu"]"#;
        check(arguments.clone(), json!({}), "cpu 4000, disk 0, memory 8");
        check(arguments.clone(), both("6", "75"), "cpu 6000, disk 0, memory 8");
        check(arguments.clone(), both("0", "75"), "cpu 0, disk 0, memory 8");
        check(arguments.clone(), both("", "75"), "cpu 6000, disk 0, memory 8");
        check(arguments.clone(), both("much", "75"), &format!("cpu 6000, disk 0, memory 8; {field}"));
        check(arguments.clone(), both("-1", "0"), &format!("cpu 4000, disk 0, memory 8; {field}; {percentage_field}"));
        check(json!({"gpu-resource-names": "gpu"}), json!({}), "cpu 8000");
        check(json!({"gpu-resource-names": "amd"}), both("6", "75"), "no cap");
        check(json!({"quota.cpu": 1}), json!({}), "no cap");
    }

    #[test]
    fn a_resource_with_a_slash() {
        let arguments = json!({"gpu-resource-names": "gpu", "quota-resources": "example.com/licence"});
        check(arguments.clone(), json!({}), "example.com/licence 6");
        check(arguments.clone(), json!({"volcano.sh/crossquota-example.com_licence": "2"}), "example.com/licence 2");
        check(
            arguments,
            json!({"volcano.sh/crossquota-percentage-example.com_licence": "50"}),
            "example.com/licence 3",
        );
    }

    #[test]
    fn who_is_capped() {
        let arguments = json!({
            "gpu-resource-names": "nvidia.com/gpu,amd.com/gpu",
            "label-selector": {"matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["service"]}]},
        });
        let mut caps = caps(&arguments);
        let mut strategy = |requests: &[(&str, i64)], tier: &str, annotation: &str| {
            let notes = Notes::default();
            let labels = [(Name::from("tier"), Name::from(tier))].into_iter().collect();
            let annotations = json!({STRATEGY_ANNOTATION: annotation});
            let strategy = caps.of_pod(&amounts(requests), &labels, &Cursor::root(&annotations, &notes));
            (strategy, notes.into_vec().len())
        };
        let (most, least) = (Some(CapStrategy::MostAllocated), Some(CapStrategy::LeastAllocated));
        assert_eq!(strategy(&[("cpu", 1)], "batch", "most-allocated"), (most, 0));
        assert_eq!(strategy(&[("cpu", 1)], "batch", "least-allocated"), (least, 0));
        assert_eq!(strategy(&[("cpu", 1)], "batch", "sideways"), (most, 1));
        assert_eq!(strategy(&[("intel.com/gpu", 1)], "batch", "least-allocated"), (least, 0));
        assert_eq!(strategy(&[("nvidia.com/gpu", 0)], "batch", "least-allocated"), (least, 0));
        assert_eq!(strategy(&[("cpu", 1)], "service", "sideways"), (None, 0));
        assert_eq!(strategy(&[("nvidia.com/gpu", 1)], "batch", "sideways"), (None, 0));
        assert_eq!(strategy(&[("nvidia.com/gpu.shared", 1)], "batch", "sideways"), (None, 0));
        assert_eq!(
            Caps::new(None).of_pod(&amounts(&[]), &Labels::default(), &Cursor::root(&json!({}), &Notes::default())),
            None
        );
    }
}
