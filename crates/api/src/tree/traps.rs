//! Trees that are let in and still do not do what they say.

use std::collections::BTreeMap;

use quotient_engine::quantity::canonical;
use serde_json::Value;

use super::profile::Profile;
use super::{BUILT_IN, ROOT, annotation, is_parent, is_profile, is_root, is_tree, keys, name, parent};
use crate::elastic::capacity::Sums;
use crate::object::{ObjectKey, key_of};
use crate::problem::Problem;

/// What is wrong with these quotas and profiles on these nodes, object by object in the order given. Where there are no
/// nodes, what they hold is not looked at.
pub fn traps(objects: &[&Value], nodes: &[&Value]) -> Vec<(ObjectKey, Problem)> {
    let keyed = objects.iter().filter_map(|object| Some((key_of(object).ok()?, *object)));
    let (mut quotas, mut found) = (Vec::new(), Vec::new());
    for (key, object) in keyed {
        if is_profile(&key) {
            found.extend(of_profile(object, nodes).into_iter().map(|problem| (key.clone(), problem.of_object(&key))));
        } else if is_tree(&key) && !BUILT_IN.contains(&&*key.name) {
            quotas.push((key, object));
        }
    }
    let forest = Forest::of(&quotas);
    for (key, quota) in &quotas {
        let problems = [forest.idle_parent(quota), forest.unknown_parent(quota)].into_iter().flatten();
        let problems = problems.chain(never_borrows(quota)).chain(forest.out_of_reach(quota));
        found.extend(problems.map(|problem| (key.clone(), problem.of_object(key))));
    }
    found.extend(forest.beyond_total(nodes));
    found
}

/// A profile whose tree has no nodes, or into whose root nothing can go.
fn of_profile(object: &Value, nodes: &[&Value]) -> Vec<Problem> {
    let mut problems = Vec::new();
    let profile = Profile::read(object);
    if !nodes.is_empty() && !nodes.iter().any(|node| profile.selects(node)) {
        let message = "selects none of the nodes: the tree has nothing to share, expected the labels of nodes";
        problems.push(Problem::new(message).at_field("spec.nodeSelector"));
    }
    let labels = object.pointer("/spec/quotaLabels");
    if labels.and_then(|labels| labels.get(keys::IS_PARENT)).and_then(Value::as_str) != Some("true") {
        let message = format!("no quota can be below the root of the tree: expected {}: \"true\"", keys::IS_PARENT);
        problems.push(Problem::new(message).at_field("spec.quotaLabels"));
    }
    problems
}

fn label_problem(quota: &Value, key: &str, message: String) -> Problem {
    let value = quota.get("metadata").and_then(|metadata| metadata.get("labels")?.get(key));
    let problem = Problem::new(message).at_field(format!("metadata.labels[{key:?}]"));
    value.map_or(problem.clone(), |value| problem.with_value(value))
}

/// Resources that a quota may hold more of than its min, and for which it has no weight.
fn never_borrows(quota: &Value) -> Vec<Problem> {
    let weights = annotation(quota, keys::SHARED_WEIGHT).and_then(|text| serde_json::from_str::<Value>(text).ok());
    let weights = Sums::of(weights.as_ref());
    if weights.iter().all(|(_, weight)| weight == 0) {
        return Vec::new();
    }
    let (min, max) = (Sums::of(quota.pointer("/spec/min")), Sums::of(quota.pointer("/spec/max")));
    let trapped = weights.iter().filter(|(resource, weight)| *weight == 0 && max.get(resource) > min.get(resource));
    let problem = |(resource, _): (&str, i128)| {
        let message = format!("with a weight of 0 it never borrows {resource}, and its max of {} cannot be reached", {
            canonical(resource, max.get(resource))
        });
        Problem::new(message).at_field(format!("metadata.annotations[{:?}]", keys::SHARED_WEIGHT))
    };
    trapped.map(problem).collect()
}

/// The quotas by name, and who is below whom.
struct Forest<'a> {
    by_name: BTreeMap<&'a str, &'a Value>,
    children: BTreeMap<&'a str, Vec<(&'a ObjectKey, &'a Value)>>,
}

impl<'a> Forest<'a> {
    fn of(quotas: &'a [(ObjectKey, &'a Value)]) -> Self {
        let mut forest = Forest { by_name: BTreeMap::new(), children: BTreeMap::new() };
        for (key, quota) in quotas {
            forest.by_name.entry(name(quota)).or_insert(quota);
            if !is_root(quota) {
                forest.children.entry(parent(quota)).or_default().push((key, quota));
            }
        }
        forest
    }

    /// A parent that nothing is below: no pod can use what it holds.
    fn idle_parent(&self, quota: &Value) -> Option<Problem> {
        let is_idle = is_parent(quota) && !self.children.contains_key(name(quota));
        let message = "no quota is below it, and pods cannot be in a parent: nobody can use it";
        is_idle.then(|| label_problem(quota, keys::IS_PARENT, message.to_string()))
    }

    fn unknown_parent(&self, quota: &Value) -> Option<Problem> {
        let is_known = parent(quota) == ROOT || self.by_name.contains_key(parent(quota));
        (!is_known).then(|| label_problem(quota, keys::PARENT, "no quota of that name exists".to_string()))
    }

    /// The quotas above one, from below.
    fn above(&self, quota: &'a Value) -> impl Iterator<Item = &'a Value> {
        let above = std::iter::successors(self.by_name.get(parent(quota)), |above| self.by_name.get(parent(above)));
        // No chain is longer than there are quotas.
        above.take(self.by_name.len()).copied()
    }

    /// A min that is more than a quota above may hold.
    fn out_of_reach(&self, quota: &'a Value) -> Vec<Problem> {
        let min = Sums::of(quota.pointer("/spec/min"));
        let mut problems = Vec::new();
        for (resource, amount) in min.iter() {
            let limit = self.above(quota).find_map(|above| {
                let max = above.pointer("/spec/max").filter(|max| max.get(resource).is_some())?;
                let max = Sums::of(Some(max)).get(resource);
                (max < amount).then(|| (name(above), max))
            });
            if let Some((above, max)) = limit {
                let message = format!(
                    "{above}, which is above it, may hold {} of {resource}: this min can never be had",
                    canonical(resource, max)
                );
                problems.push(min_problem(resource, amount, message));
            }
        }
        problems
    }

    /// The quotas with which the mins at the top of a tree become more than the tree has.
    fn beyond_total(&self, nodes: &[&Value]) -> Vec<(ObjectKey, Problem)> {
        let mut found = Vec::new();
        let roots = || self.by_name.values().filter(|quota| is_root(quota));
        if !nodes.is_empty() {
            let mut total = Sums::default();
            for node in nodes {
                let allocatable = node.pointer("/status/allocatable").filter(|value| !value.is_null());
                total.add(allocatable.or_else(|| node.pointer("/status/capacity")));
            }
            let apart = roots().filter(|root| super::label(root, keys::IGNORE_DEFAULT_TREE) != Some("true"));
            let apart: Vec<Sums> = apart.map(|root| total_of(root)).collect();
            let left = |resource: &str| total.get(resource) - apart.iter().map(|t| t.get(resource)).sum::<i128>();
            found.extend(self.beyond(ROOT, "the default tree", &left));
        }
        for root in roots() {
            let total = total_of(root);
            let what = format!("the tree of {}", name(root));
            found.extend(self.beyond(name(root), &what, &|resource| total.get(resource)));
        }
        found
    }

    fn beyond(&self, top: &str, tree: &str, total: &dyn Fn(&str) -> i128) -> Vec<(ObjectKey, Problem)> {
        let mut sums: BTreeMap<String, i128> = BTreeMap::new();
        let mut found = Vec::new();
        for (key, quota) in self.children.get(top).into_iter().flatten() {
            for (resource, amount) in Sums::of(quota.pointer("/spec/min")).iter() {
                let sum = sums.entry(resource.to_string()).or_default();
                let (before, total) = (*sum, total(resource).max(0));
                *sum += amount;
                if before <= total && *sum > total {
                    let message = format!(
                        "with it the mins at the top of {tree} are {} of {resource}, and it has {}: they shrink in proportion",
                        canonical(resource, *sum),
                        canonical(resource, total)
                    );
                    found.push(((*key).clone(), min_problem(resource, amount, message).of_object(key)));
                }
            }
        }
        found
    }
}

fn total_of(root: &Value) -> Sums {
    let total = annotation(root, keys::TOTAL_RESOURCE).and_then(|text| serde_json::from_str::<Value>(text).ok());
    Sums::of(total.as_ref())
}

fn min_problem(resource: &str, amount: i128, message: String) -> Problem {
    let field = match resource.contains(['.', '/']) {
        true => format!("spec.min[{resource:?}]"),
        false => format!("spec.min.{resource}"),
    };
    Problem::new(message).at_field(field).with_value(&Value::from(canonical(resource, amount)))
}
