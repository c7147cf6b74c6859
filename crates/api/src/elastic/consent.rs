//! Whether a namespace agrees to be governed by a composite quota.
//!
//! A composite lists namespaces of its own choice, and takes the place of the quotas there. Where tenants do not trust
//! each other (`tenancy: {use: listed}`) a namespace agrees by an annotation of its own, or by who makes the composite:
//! a user who may create and delete the quotas of a namespace could do without the composite what it does. The API
//! server is asked about that when the composite is admitted, and the answer is kept on the composite. The namespace
//! that a composite is made in has agreed, since whoever makes it has rights there.

use std::collections::BTreeMap;

use quotient_engine::fact::Name;
use serde_json::{Map, Value};

use super::takeover::namespaces;
use super::{COMPOSITE, is_elastic};
use crate::admission::View;
use crate::kinds;
use crate::object::{ObjectKey, key_of};

/// On a namespace: the composites that may govern it, as `NAMESPACE/NAME` separated by commas; `*` is all of them.
pub const ALLOWED_COMPOSITES: &str = "quotient.dev/allowed-composite-quotas";

/// On a composite: the namespaces that agreed by the rights of its maker, separated by commas. The webhook writes it,
/// whatever a manifest says.
pub const AGREED: &str = "quotient.dev/agreed-namespaces";

/// What a user must be able to do with the quotas of a namespace to agree for it.
pub const VERBS: [&str; 2] = ["create", "delete"];

/// The namespaces of such a list.
pub(crate) fn listed(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|name| !name.is_empty())
}

/// The namespaces that agreed to a composite by the rights of its maker.
fn agreed(composite: &Value) -> impl Iterator<Item = &str> {
    let text = composite.pointer("/metadata/annotations").and_then(|annotations| annotations.get(AGREED)?.as_str());
    text.into_iter().flat_map(listed)
}

/// The namespaces that a composite lists and that agree only if whoever makes or changes it has rights there.
pub fn unagreed(composite: &Value, old: Option<&Value>, view: &dyn View) -> Vec<String> {
    let Ok(key) = key_of(composite) else { return Vec::new() };
    if key.kind != COMPOSITE || !is_elastic(&key) {
        return Vec::new();
    }
    let is_open = |namespace: &&str| {
        !is_given(&Value::Null, &key, namespace, view)
            && !old.into_iter().flat_map(agreed).any(|name| name == *namespace)
    };
    namespaces(composite).filter(is_open).map(str::to_string).collect()
}

/// Writes down which of the namespaces that a composite lists agreed by the rights of its maker: those that did before,
/// and those that do now.
pub fn record(composite: &mut Value, old: Option<&Value>, granted: &[String]) {
    let agreed: Vec<&str> = old.into_iter().flat_map(agreed).chain(granted.iter().map(String::as_str)).collect();
    let names: Vec<&str> = namespaces(composite).filter(|namespace| agreed.contains(namespace)).collect();
    let text = names.join(",");
    let Some(metadata) = composite.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    if text.is_empty() {
        metadata.get_mut("annotations").and_then(Value::as_object_mut).map(|annotations| annotations.remove(AGREED));
    } else {
        let annotations = metadata.entry("annotations").or_insert_with(|| Value::Object(Map::new()));
        if let Some(annotations) = annotations.as_object_mut() {
            annotations.insert(AGREED.to_string(), Value::from(text));
        }
    }
}

/// Whether a list of composites, as a namespace has it, names this one.
fn names(listed: &str, composite: &ObjectKey) -> bool {
    let own = composite.namespace.as_deref().unwrap_or_default();
    listed.split(',').map(str::trim).any(|entry| {
        entry == "*" || entry.split_once('/').is_some_and(|(at, name)| at == own && name == &*composite.name)
    })
}

/// What namespaces say, where they are asked.
#[derive(Debug, Clone, Default)]
pub(crate) struct Consents {
    /// Whether they are.
    is_needed: bool,
    given: BTreeMap<Name, String>,
}

impl Consents {
    pub fn new(is_needed: bool) -> Self {
        Consents { is_needed, given: BTreeMap::new() }
    }

    /// Takes in what a namespace says. Returns whether that is something else than before.
    pub fn set(&mut self, namespace: &Name, listed: Option<&str>) -> bool {
        let before = match listed {
            Some(listed) => self.given.insert(namespace.clone(), listed.to_string()),
            None => self.given.remove(namespace),
        };
        self.is_needed && before.as_deref() != listed
    }

    /// Whether a quota may govern a namespace; `agreed` are those that agreed by the rights of its maker.
    pub fn allow(&self, quota: &ObjectKey, agreed: &[Name], namespace: &str) -> bool {
        let is_own = quota.namespace.as_deref() == Some(namespace);
        let is_agreed = agreed.iter().any(|name| **name == *namespace);
        !self.is_needed || is_own || is_agreed || self.given.get(namespace).is_some_and(|listed| names(listed, quota))
    }
}

/// Whether a composite may govern a namespace, as the objects say.
pub(crate) fn is_given(composite: &Value, key: &ObjectKey, namespace: &str, view: &dyn View) -> bool {
    let is_own = key.namespace.as_deref() == Some(namespace);
    if !view.needs_consent() || is_own || agreed(composite).any(|name| name == namespace) {
        return true;
    }
    let kind = kinds::find("", "Namespace").expect("the kind is in the table");
    let listed = view.get(&ObjectKey::new(kind, None, namespace));
    let listed = listed.and_then(|object| object["metadata"]["annotations"].get(ALLOWED_COMPOSITES));
    listed.and_then(Value::as_str).is_some_and(|listed| names(listed, key))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_namespace_says_which_composites_may_govern_it() {
        let kind = kinds::find("nos.nebuly.com", super::super::COMPOSITE).expect("it is known");
        let composite = ObjectKey::new(kind, Some("admin"), "c");
        let mut consents = Consents::new(true);
        assert!(consents.allow(&composite, &[], "admin") && !consents.allow(&composite, &[], "a"));
        assert!(consents.allow(&composite, &["a".into()], "a") && !consents.allow(&composite, &["a".into()], "b"));
        for (listed, is_allowed) in [("admin/c", true), ("x/y, admin/c", true), ("*", true), ("c", false), ("", false)]
        {
            consents.set(&"a".into(), Some(listed));
            assert_eq!(consents.allow(&composite, &[], "a"), is_allowed, "{listed:?}");
        }
        assert!(consents.set(&"a".into(), None) && !consents.set(&"a".into(), None), "news is said once");
        assert!(Consents::default().allow(&composite, &[], "a"), "nobody is asked");
    }

    #[test]
    fn what_a_manifest_says_of_who_agreed_does_not_count() {
        let made = |agreed: Option<&str>, listed: &[&str]| {
            let mut composite = json!({"metadata": {"name": "c"}, "spec": {"namespaces": listed}});
            if let Some(agreed) = agreed {
                composite["metadata"]["annotations"] = json!({AGREED: agreed});
            }
            composite
        };
        let recorded = |mut composite: Value, old: Option<&Value>, granted: &[&str]| {
            record(&mut composite, old, &granted.iter().map(ToString::to_string).collect::<Vec<_>>());
            composite["metadata"]["annotations"].get(AGREED).and_then(Value::as_str).map(str::to_string)
        };
        let old = made(Some("a,b"), &["a", "b"]);
        assert_eq!(recorded(made(Some("a"), &["a"]), None, &[]), None, "it is made up");
        assert_eq!(recorded(made(None, &["a", "c"]), None, &["c", "x"]).as_deref(), Some("c"));
        assert_eq!(recorded(made(None, &["b", "c"]), Some(&old), &["c"]).as_deref(), Some("b,c"), "what agreed stays");
    }
}
