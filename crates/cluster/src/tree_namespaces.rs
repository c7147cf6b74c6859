//! Namespaces whose pods are in a quota of a tree carry a label, by which the API server knows to ask the webhooks.

use std::collections::BTreeMap;

use quotient_api::{ObjectKey, View, key_of, tree};
use serde_json::{Value, json};

use crate::write::{Amendment, Write};

/// The label on namespaces that a quota of a tree governs.
pub const MARK: &str = "quotient.dev/quota-tree";

/// The labels that were asked for.
#[derive(Debug, Default)]
pub struct NamespaceMarks {
    /// What was asked for and not seen yet, so that it is not asked for again.
    asked: BTreeMap<ObjectKey, Option<Value>>,
}

impl NamespaceMarks {
    /// Takes in that an object was seen, or is gone: what was asked of it is history.
    pub fn seen(&mut self, key: &ObjectKey) {
        self.asked.remove(key);
    }

    /// What is to be written so that the namespaces which a quota of a tree governs have the label, and no others.
    pub fn writes(&mut self, view: &dyn View) -> Vec<Write> {
        let governed = tree::governed_namespaces(view);
        let mut writes = Vec::new();
        for namespace in view.list("", "Namespace", None) {
            let Ok(key) = key_of(namespace) else { continue };
            let label = namespace.pointer("/metadata/labels").and_then(|labels| labels.get(MARK));
            let wanted = governed.contains(&*key.name).then(|| json!("true"));
            if label == wanted.as_ref() || is_leaving(namespace) || self.asked.get(&key) == Some(&wanted) {
                continue;
            }
            let metadata = Some(json!({"labels": {MARK: wanted}}));
            let amendment = Amendment { object: key.clone(), uid: None, metadata, spec: None, status: None };
            writes.push(Write::Amend(amendment));
            self.asked.insert(key, wanted);
        }
        writes
    }
}

fn is_leaving(object: &Value) -> bool {
    object.pointer("/metadata/deletionTimestamp").is_some_and(|at| !at.is_null())
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Objects(BTreeMap<ObjectKey, Value>);

    impl View for Objects {
        fn get(&self, key: &ObjectKey) -> Option<&Value> {
            self.0.get(key)
        }

        fn list(&self, group: &str, kind: &str, _: Option<&str>) -> Vec<&Value> {
            self.0.iter().filter(|(key, _)| key.group == group && key.kind == kind).map(|(_, object)| object).collect()
        }
    }

    #[test]
    fn namespaces_with_a_quota_of_a_tree_are_marked_and_others_are_not() {
        let namespace = |name: &str, labels: Value| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}});
        let quota = |name: &str, namespace: &str, annotations: Value| {
            json!({"apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "kind": "ElasticQuota",
                "metadata": {"name": name, "namespace": namespace, "annotations": annotations}})
        };
        let leaving = json!({"apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": "listed-too", "deletionTimestamp": "2026-01-01T00:00:00Z"}});
        let objects = [
            namespace("own", json!({})),
            namespace("listed", json!(null)),
            namespace("known", json!({MARK: "true"})),
            namespace("odd", json!({MARK: "yes"})),
            namespace("plain", json!({"a": "b"})),
            leaving,
            quota("own", "own", json!({})),
            quota("known", "known", json!({})),
            quota("far", "plain", json!({"quota.scheduling.koordinator.sh/namespaces": r#"["listed", "listed-too"]"#})),
        ];
        let objects = objects.into_iter().map(|object| (key_of(&object).expect("it is an object"), object));
        let objects = Objects(objects.collect());
        let mut marks = NamespaceMarks::default();
        let written: Vec<(String, Value)> = marks
            .writes(&objects)
            .into_iter()
            .map(|write| match write {
                Write::Amend(Amendment { object, metadata: Some(metadata), .. }) => {
                    (object.name.to_string(), metadata["labels"][MARK].clone())
                }
                other => panic!("{other:?}"),
            })
            .collect();
        let expected = [("listed", json!("true")), ("odd", Value::Null), ("own", json!("true"))];
        assert_eq!(written, expected.clone().map(|(name, label)| (name.to_string(), label)));
        assert_eq!(marks.writes(&objects), [], "it is under way");
        for key in objects.0.keys() {
            marks.seen(key);
        }
        assert_eq!(marks.writes(&objects).len(), expected.len(), "somebody else wrote it");
    }
}
