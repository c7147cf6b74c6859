//! Who made what, through any number of levels and whatever the kinds: a pod of a Job of a JobSet of a TrainJob is one
//! of the TrainJob's.

use std::collections::{BTreeMap, BTreeSet};

use quotient_api::field::{at, of, text};
use quotient_sim::Input;
use serde_json::Value;

/// The most levels that are followed: a circle of references has an end.
const LEVELS_MAX: usize = 16;

/// An object by API group, kind, namespace and name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Made {
    pub group: String,
    pub kind: String,
    pub namespace: String,
    pub name: String,
}

impl Made {
    /// What an object is.
    pub fn of(object: &Value) -> Option<Made> {
        let name = text(object, "/metadata/name")?.to_owned();
        let namespace = text(object, "/metadata/namespace").unwrap_or_default().to_owned();
        let (group, kind) = group_and_kind(object)?;
        Some(Made { group, kind, namespace, name })
    }

    /// Whether it is called so; the kind in any case.
    pub fn is_called(&self, kind: &str, namespace: Option<&str>, name: &str) -> bool {
        self.kind.eq_ignore_ascii_case(kind) && self.name == name && namespace.is_none_or(|of| of == self.namespace)
    }
}

impl std::fmt::Display for Made {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}/{}", self.kind, self.namespace, self.name)
    }
}

fn group_and_kind(object: &Value) -> Option<(String, String)> {
    let api_version = of(object, "apiVersion")?.as_str()?;
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    Some((group.to_owned(), of(object, "kind")?.as_str()?.to_owned()))
}

/// The objects that an object says it was made by, of its namespace.
pub fn makers(object: &Value) -> Vec<Made> {
    let namespace = text(object, "/metadata/namespace").unwrap_or_default();
    let references = at(object, "/metadata/ownerReferences").and_then(Value::as_array).into_iter().flatten();
    let maker = |reference: &Value| {
        let (group, kind) = group_and_kind(reference)?;
        let name = of(reference, "name")?.as_str()?.to_owned();
        Some(Made { group, kind, namespace: namespace.to_owned(), name })
    };
    references.filter_map(maker).collect()
}

/// The makers of objects of kinds that have no bearing on scheduling.
#[derive(Debug, Clone, Default)]
pub struct Lineage(BTreeMap<Made, Vec<Made>>);

impl Lineage {
    /// Of all objects that inputs have.
    pub fn of(inputs: &[Input]) -> Self {
        let objects = inputs.iter().flat_map(|input| &input.read.others);
        Lineage(objects.filter_map(|object| Some((Made::of(object)?, makers(object)))).collect())
    }

    /// Takes in another.
    pub fn extend(&mut self, other: Lineage) {
        self.0.extend(other.0);
    }

    /// Everything that made an object, the nearest first; `known` gives the makers of objects of other kinds.
    pub fn above(&self, object: &Value, known: impl Fn(&Made) -> Option<Vec<Made>>) -> Vec<Made> {
        let mut above: Vec<Made> = Vec::new();
        let mut seen: BTreeSet<Made> = BTreeSet::new();
        let mut level = makers(object);
        for _ in 0..LEVELS_MAX {
            let mut next = Vec::new();
            for maker in level {
                if seen.insert(maker.clone()) {
                    next.extend(self.0.get(&maker).cloned().or_else(|| known(&maker)).unwrap_or_default());
                    above.push(maker);
                }
            }
            level = next;
        }
        above
    }

    /// Everything that is known by itself.
    pub fn objects(&self) -> impl Iterator<Item = &Made> {
        self.0.keys()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn makers_are_followed_through_all_levels_and_around_no_circle() {
        let made = |kind: &str, name: &str| Made {
            group: "x.io".into(),
            kind: kind.into(),
            namespace: "a".into(),
            name: name.into(),
        };
        let lineage = Lineage(BTreeMap::from([
            (made("JobSet", "s"), vec![made("TrainJob", "t")]),
            (made("TrainJob", "t"), vec![made("JobSet", "s")]),
        ]));
        let pod = json!({"metadata": {"namespace": "a", "ownerReferences": [
            {"apiVersion": "batch/v1", "kind": "Job", "name": "j"}]}});
        let known = |maker: &Made| (maker.kind == "Job").then(|| vec![made("JobSet", "s")]);
        let names: Vec<String> = lineage.above(&pod, known).iter().map(ToString::to_string).collect();
        assert_eq!(names, ["Job/a/j", "JobSet/a/s", "TrainJob/a/t"]);
        assert!(made("TrainJob", "t").is_called("trainjob", None, "t"));
    }
}
