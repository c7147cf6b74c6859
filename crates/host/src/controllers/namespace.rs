//! Namespaces whose pods are in a quota of a tree carry a label, by which the API server knows to ask the webhooks.

use quotient_api::{View, key_of, tree};
use serde_json::{Value, json};

use super::{Moment, Wanted};
use crate::asked::Asked;
use crate::objects::Objects;
use crate::write::{Amendment, Write};

/// The label on namespaces that a quota of a tree governs.
pub const MARK: &str = "quotient.dev/quota-tree";

/// The labels that were asked for.
#[derive(Debug, Clone, Default)]
pub struct Namespaces {
    pub asked: Asked,
}

impl Namespaces {
    /// What is to be written so that the namespaces which a quota of a tree governs have the label, and no others.
    pub fn tell(&mut self, objects: &Objects, now: &Moment, wanted: &mut Wanted) {
        let governed = tree::governed_namespaces(objects);
        for namespace in objects.list("", "Namespace", None) {
            let Ok(key) = key_of(namespace) else { continue };
            if namespace.pointer("/metadata/deletionTimestamp").is_some_and(|at| !at.is_null()) {
                continue;
            }
            let label = namespace.pointer("/metadata/labels").and_then(|labels| labels.get(MARK));
            let mark = governed.contains(&*key.name).then(|| json!("true"));
            if label == mark.as_ref() {
                continue;
            }
            let mut marked = namespace.clone();
            if !marked["metadata"]["labels"].is_object() {
                marked["metadata"]["labels"] = json!({});
            }
            marked["metadata"]["labels"][MARK] = mark.unwrap_or(Value::Null);
            let write = Amendment::between(&key, namespace, &marked).map(Write::Amend);
            wanted.writes.extend(write.and_then(|write| self.asked.ask(write, now.tick)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quotient_engine::Tick;

    #[test]
    fn namespaces_with_a_quota_of_a_tree_are_marked_and_others_are_not() {
        let namespace = |name: &str, labels: Value| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}});
        let quota = |name: &str, namespace: &str, annotations: Value| {
            json!({"apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "kind": "ElasticQuota",
                "metadata": {"name": name, "namespace": namespace, "annotations": annotations}})
        };
        let leaving = json!({"apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": "listed-too", "deletionTimestamp": "2026-01-01T00:00:00Z"}});
        let seen = [
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
        let mut objects = Objects::default();
        for object in &seen {
            objects.seen(&key_of(object).expect("it is an object"), object);
        }
        let (mut namespaces, now) = (Namespaces::default(), Moment { tick: Tick(0), text: String::new() });
        let mut tell = || {
            let mut wanted = Wanted::default();
            namespaces.tell(&objects, &now, &mut wanted);
            wanted.writes
        };
        let written: Vec<(String, Value)> = tell()
            .into_iter()
            .map(|write| match write {
                Write::Amend(amendment) => match *amendment {
                    Amendment { object, metadata: Some(metadata), spec: None, status: None, .. } => {
                        (object.name.to_string(), metadata["labels"][MARK].clone())
                    }
                    other => panic!("{other:?}"),
                },
                other => panic!("{other:?}"),
            })
            .collect();
        let expected = [("listed", json!("true")), ("odd", Value::Null), ("own", json!("true"))];
        assert_eq!(written, expected.map(|(name, label)| (name.to_string(), label)));
        assert_eq!(tell(), [], "it is under way");
    }
}
