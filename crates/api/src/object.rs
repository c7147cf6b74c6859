//! What tells one object from another.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use quotient_engine::fact::{GroupKey, Name};
use serde_json::Value;

use crate::field::at;
use crate::gangs;
use crate::kinds::{self, Kind};
use crate::problem::Problem;

/// The namespace of objects that name none.
pub const DEFAULT_NAMESPACE: &str = "default";

/// Which object: its kind, its namespace where it has one, its name. Versions do not tell objects apart.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ObjectKey {
    /// The API group, `""` for the core group. Groups and kinds are those of [`kinds::KINDS`].
    pub group: &'static str,
    pub kind: &'static str,
    pub namespace: Option<Name>,
    pub name: Name,
}

impl Ord for ObjectKey {
    /// By group, kind, namespace and name. Most keys that are compared have all but the name in common.
    fn cmp(&self, other: &Self) -> Ordering {
        let ObjectKey { group, kind, namespace, name } = self;
        by_text(group, other.group)
            .then_with(|| by_text(kind, other.kind))
            .then_with(|| match (namespace, &other.namespace) {
                (Some(one), Some(another)) => by_text(one, another),
                (one, another) => one.is_some().cmp(&another.is_some()),
            })
            .then_with(|| by_text(name, &other.name))
    }
}

impl PartialOrd for ObjectKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Texts that are the same in memory need not be read.
pub(crate) fn by_text(one: &str, another: &str) -> Ordering {
    if std::ptr::eq(one, another) { Ordering::Equal } else { one.cmp(another) }
}

impl ObjectKey {
    /// The key of an object of a known kind. A namespace is ignored where the kind has none, and is
    /// `default` where the kind has one and none is given.
    pub fn new(kind: &'static Kind, namespace: Option<&str>, name: &str) -> Self {
        let namespace = kind.namespaced.then(|| Arc::from(namespace.unwrap_or(DEFAULT_NAMESPACE)));
        ObjectKey { group: kind.group, kind: kind.kind, namespace, name: Arc::from(name) }
    }

    /// The key of a pod.
    pub fn pod(namespace: &str, name: &str) -> Self {
        ObjectKey { group: "", kind: "Pod", namespace: Some(Arc::from(namespace)), name: Arc::from(name) }
    }

    /// The key of a node.
    pub fn node(name: &str) -> Self {
        ObjectKey { group: "", kind: "Node", namespace: None, name: Arc::from(name) }
    }

    /// The key of a group of pods.
    pub fn pod_group(namespace: &str, name: &str) -> Self {
        let (group, kind) = ("scheduling.volcano.sh", "PodGroup");
        ObjectKey { group, kind, namespace: Some(Arc::from(namespace)), name: Arc::from(name) }
    }

    /// The key of a group of pods, of any API group that has them.
    pub fn of_group(key: &GroupKey) -> Self {
        let own = ObjectKey::pod_group(&key.namespace, &key.name);
        ObjectKey { group: gangs::static_group(&key.api_group).unwrap_or(own.group), ..own }
    }

    /// The kind's entry in the table of kinds.
    pub fn kind_entry(&self) -> Option<&'static Kind> {
        kinds::find(self.group, self.kind)
    }

    /// `Kind.group/namespace/name`: unambiguous where two groups have a kind of one name. A core kind
    /// has no group to write, and is written as it is displayed.
    pub fn qualified(&self) -> String {
        match self.group {
            "" => self.to_string(),
            group => format!("{}.{group}{}", self.kind, self.path()),
        }
    }

    /// `/namespace/name` or `/name`.
    fn path(&self) -> String {
        match &self.namespace {
            Some(namespace) => format!("/{namespace}/{}", self.name),
            None => format!("/{}", self.name),
        }
    }

    /// The objects that `text` may mean: `Kind/namespace/name` or `Kind/name`, where the kind may be
    /// followed by its group (`ElasticQuota.scheduling.x-k8s.io/a/eq`). Without a group there is one
    /// answer for each group that has a kind of that name, in the order of the table of kinds.
    /// A namespaced kind needs its namespace, a cluster-scoped one must not have one.
    pub fn parse(text: &str) -> Result<Vec<ObjectKey>, Problem> {
        let wrong = |message: String| Problem::new(format!("{text:?} {message}"));
        let parts: Vec<&str> = text.split('/').collect();
        let (kind_text, namespace, name) = match parts[..] {
            [kind, name] => (kind, None, name),
            [kind, namespace, name] => (kind, Some(namespace), name),
            _ => return Err(wrong("is not an object: expected Kind/namespace/name or Kind/name".into())),
        };
        if name.is_empty() || namespace == Some("") {
            return Err(wrong("has an empty part: expected Kind/namespace/name or Kind/name".into()));
        }
        let (kind, group) = match kind_text.split_once('.') {
            Some((kind, group)) => (kind, Some(group)),
            None => (kind_text, None),
        };
        let known: Vec<&'static Kind> = kinds::named(kind).filter(|k| group.is_none_or(|g| g == k.group)).collect();
        if known.is_empty() {
            return Err(wrong(format!("is of an unknown kind {kind_text:?}")));
        }
        let keys: Vec<ObjectKey> = known
            .iter()
            .filter(|k| k.namespaced == namespace.is_some())
            .map(|k| ObjectKey::new(k, namespace, name))
            .collect();
        match (keys.is_empty(), namespace) {
            (false, _) => Ok(keys),
            (true, None) => Err(wrong(format!("lacks a namespace: expected {kind_text}/namespace/name"))),
            (true, Some(_)) => Err(wrong(format!("has a namespace: expected {kind_text}/name"))),
        }
    }
}

impl fmt::Display for ObjectKey {
    /// `Kind/namespace/name`, or `Kind/name` where the kind is cluster-scoped.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{}/{namespace}/{}", self.kind, self.name),
            None => write!(f, "{}/{}", self.kind, self.name),
        }
    }
}

/// Which object a value is. A namespaced object that names no namespace is in `default`.
pub fn key_of(value: &Value) -> Result<ObjectKey, Problem> {
    let text = |pointer: &str, field: &str| -> Result<&str, Problem> {
        match at(value, pointer) {
            None | Some(Value::Null) => Err(Problem::new("missing: an object needs it").at_field(field)),
            Some(Value::String(text)) if !text.is_empty() => Ok(text),
            Some(other) => Err(Problem::new("expected a text that is not empty").at_field(field).with_value(other)),
        }
    };
    if !value.is_object() {
        // It may be any file at all, and what is in it is not for everyone who sees this line.
        let form = match value {
            Value::Null => "nothing",
            Value::Bool(_) => "a boolean",
            Value::Number(_) => "a number",
            Value::String(_) => "plain text",
            Value::Array(_) | Value::Object(_) => "a list",
        };
        return Err(Problem::new(format!("is {form}: expected an object with apiVersion, kind and metadata")));
    }
    let kind_text = text("/kind", "kind")?;
    let api_version = text("/apiVersion", "apiVersion")?;
    let named = |problem: Problem| match at(value, "/metadata/name") {
        Some(Value::String(name)) => problem.of_object(format!("{kind_text}/{name}")),
        _ => problem.of_object(kind_text),
    };
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let Some(kind) = kinds::find(group, kind_text) else {
        let groups: Vec<String> = kinds::named(kind_text).map(Kind::api_version).collect();
        let expected = match groups.is_empty() {
            true => "is not a kind that is known".to_string(),
            false => format!("has no kind {kind_text} that is known: expected {}", groups.join(" or ")),
        };
        let problem = match groups.is_empty() {
            true => Problem::new(expected).at_field("kind").with_value(&value["kind"]),
            false => Problem::new(expected).at_field("apiVersion").with_value(&value["apiVersion"]),
        };
        return Err(named(problem));
    };
    if !kind.versions.contains(&version) {
        let problem = Problem::new(format!("is not a version that is read: expected {}", kind.api_version()));
        return Err(named(problem.at_field("apiVersion").with_value(&value["apiVersion"])));
    }
    let namespace = match at(value, "/metadata/namespace") {
        None | Some(Value::Null) => None,
        Some(Value::String(namespace)) => Some(namespace.as_str()).filter(|n| !n.is_empty()),
        Some(other) => {
            return Err(named(Problem::new("expected a text").at_field("metadata.namespace").with_value(other)));
        }
    };
    // The configuration is one file and needs no name.
    let name = match kind.kind {
        "QuotientConfiguration" if at(value, "/metadata/name").is_none() => "configuration",
        _ => text("/metadata/name", "metadata.name").map_err(|p| p.of_object(kind_text))?,
    };
    // A name with a slash would be read as another object's path.
    for (field, part) in [("metadata.name", Some(name)), ("metadata.namespace", namespace)] {
        if part.is_some_and(|part| part.contains('/')) {
            return Err(named(Problem::new("must not contain a slash").at_field(field)));
        }
    }
    Ok(ObjectKey::new(kind, namespace, name))
}
