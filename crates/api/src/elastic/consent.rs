//! Whether a namespace agrees to be governed by a composite quota.
//!
//! A composite lists namespaces of its own choice, and takes the place of the quotas there. Where tenants do not trust
//! each other (`tenancy: {use: listed}`) a namespace says itself which composites may; the namespace that a composite
//! is made in has agreed, since whoever makes it has rights there.

use std::collections::BTreeMap;

use quotient_engine::fact::Name;
use serde_json::Value;

use crate::admission::View;
use crate::kinds;
use crate::object::ObjectKey;

/// On a namespace: the composites that may govern it, as `NAMESPACE/NAME` separated by commas; `*` is all of them.
pub const ALLOWED_COMPOSITES: &str = "quotient.dev/allowed-composite-quotas";

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

    /// Whether a quota may govern a namespace.
    pub fn allow(&self, quota: &ObjectKey, namespace: &str) -> bool {
        let is_own = quota.namespace.as_deref() == Some(namespace);
        !self.is_needed || is_own || self.given.get(namespace).is_some_and(|listed| names(listed, quota))
    }
}

/// Whether a composite may govern a namespace, as the objects say.
pub(crate) fn is_given(composite: &ObjectKey, namespace: &str, view: &dyn View) -> bool {
    if !view.needs_consent() || composite.namespace.as_deref() == Some(namespace) {
        return true;
    }
    let kind = kinds::find("", "Namespace").expect("the kind is in the table");
    let listed = view.get(&ObjectKey::new(kind, None, namespace));
    let listed = listed.and_then(|object| object["metadata"]["annotations"].get(ALLOWED_COMPOSITES));
    listed.and_then(Value::as_str).is_some_and(|listed| names(listed, composite))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_says_which_composites_may_govern_it() {
        let kind = kinds::find("nos.nebuly.com", super::super::COMPOSITE).expect("it is known");
        let composite = ObjectKey::new(kind, Some("admin"), "c");
        let mut consents = Consents::new(true);
        assert!(consents.allow(&composite, "admin") && !consents.allow(&composite, "a"));
        for (listed, is_allowed) in [("admin/c", true), ("x/y, admin/c", true), ("*", true), ("c", false), ("", false)]
        {
            consents.set(&"a".into(), Some(listed));
            assert_eq!(consents.allow(&composite, "a"), is_allowed, "{listed:?}");
        }
        assert!(consents.set(&"a".into(), None) && !consents.set(&"a".into(), None), "news is said once");
        assert!(Consents::default().allow(&composite, "a"), "nobody is asked");
    }
}
