//! Labels, and conditions on them.
//!
//! A condition that cannot be read must not widen what a selector selects: the whole selector then
//! selects nothing, and the note says why.

use quotient_engine::fact::{Labels, Name, NodeTerm, Operator, Requirement, Selector};

use crate::cursor::Cursor;
use crate::intern::Interner;

/// The map of texts that stands at `at`.
pub(crate) fn labels(at: &Cursor<'_, '_>, interner: &mut Interner) -> Labels {
    at.entries().filter_map(|(key, value)| Some((interner.name(key), interner.name(value.str()?)))).collect()
}

/// The texts of the list at `at`, as names.
pub(crate) fn names(at: &Cursor<'_, '_>, interner: &mut Interner) -> Vec<Name> {
    at.strs().into_iter().map(|text| interner.name(text)).collect()
}

/// A label selector (`matchLabels`, `matchExpressions`). Absent, it is `None` and selects nothing;
/// empty, it selects everything.
pub(crate) fn label_selector(at: &Cursor<'_, '_>, interner: &mut Interner) -> Option<Selector> {
    if !at.value()?.is_object() {
        at.note("expected a map");
        return None;
    }
    let mut requirements = equalities(&at.field("matchLabels"), interner);
    match (requirement_list(&at.field("matchExpressions"), On::Pods, interner), &mut requirements) {
        (Some(expressions), Some(requirements)) => requirements.extend(expressions),
        _ => requirements = None,
    }
    requirements.map(selector)
}

/// Whether the selector selects what has these labels.
pub(crate) fn selects(selector: &Selector, labels: &Labels) -> bool {
    selector.requirements.iter().all(|requirement| {
        let value = labels.get(&requirement.key);
        match requirement.operator {
            Operator::In => value.is_some_and(|value| requirement.values.contains(value)),
            Operator::NotIn => value.is_none_or(|value| !requirement.values.contains(value)),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
            // Not read from label selectors.
            Operator::Gt | Operator::Lt => false,
        }
    })
}

/// A selector that is a plain map of labels. Absent or empty, it is `None`.
pub(crate) fn map_selector(at: &Cursor<'_, '_>, interner: &mut Interner) -> Option<Selector> {
    equalities(at, interner).filter(|requirements| !requirements.is_empty()).map(selector)
}

/// A selector of these conditions, in an order that makes equal ones equal.
pub(crate) fn selector(mut requirements: Vec<Requirement>) -> Selector {
    requirements.sort();
    requirements.dedup();
    Selector { requirements }
}

/// A condition for each label of a map; `None` if one cannot be read.
fn equalities(at: &Cursor<'_, '_>, interner: &mut Interner) -> Option<Vec<Requirement>> {
    let labels = labels(at, interner);
    let is_whole = at.value().is_none_or(|value| value.is_object()) && labels.iter().count() == at.entries().count();
    is_whole.then(|| labels.iter().map(|(key, value)| equality(key, Operator::In, value)).collect())
}

/// The conditions of a list; `None` if one cannot be read.
fn requirement_list(at: &Cursor<'_, '_>, on: On, interner: &mut Interner) -> Option<Vec<Requirement>> {
    let mut requirements: Vec<Requirement> = Vec::new();
    let mut is_whole = at.value().is_none_or(|value| value.is_array());
    for item in at.items() {
        match requirement(&item, on, interner) {
            Some(requirement) => requirements.push(requirement),
            None => is_whole = false,
        }
    }
    requirements.sort();
    requirements.dedup();
    is_whole.then_some(requirements)
}

/// `key In [value]` or `key NotIn [value]`.
pub(crate) fn equality(key: &Name, operator: Operator, value: &Name) -> Requirement {
    Requirement { key: key.clone(), operator, values: vec![value.clone()] }
}

/// The list of node selector terms at `at`.
pub(crate) fn node_terms(at: &Cursor<'_, '_>, interner: &mut Interner) -> Vec<NodeTerm> {
    at.items().map(|term| node_term(&term, interner)).collect()
}

/// One term of a node selector.
pub(crate) fn node_term(at: &Cursor<'_, '_>, interner: &mut Interner) -> NodeTerm {
    let labels = requirement_list(&at.field("matchExpressions"), On::Nodes, interner);
    let fields = requirement_list(&at.field("matchFields"), On::NodeFields, interner);
    match (labels, fields) {
        (Some(labels), Some(fields)) => NodeTerm { labels, fields },
        _ => NodeTerm::default(),
    }
}

/// What a condition is about, which decides what it may say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum On {
    Pods,
    Nodes,
    NodeFields,
}

fn requirement(at: &Cursor<'_, '_>, on: On, interner: &mut Interner) -> Option<Requirement> {
    let key_at = at.field("key");
    let Some(key) = key_at.non_empty_str() else {
        key_at.note("expected a label's key");
        return None;
    };
    if on == On::NodeFields && key != "metadata.name" {
        key_at.note("expected metadata.name, the one field that can be selected by");
        return None;
    }
    let (operator_at, values_at) = (at.field("operator"), at.field("values"));
    let operator = match (operator_at.str(), on) {
        (Some("In"), _) => Operator::In,
        (Some("NotIn"), _) => Operator::NotIn,
        (Some("Exists"), On::Pods | On::Nodes) => Operator::Exists,
        (Some("DoesNotExist"), On::Pods | On::Nodes) => Operator::DoesNotExist,
        (Some("Gt"), On::Nodes) => Operator::Gt,
        (Some("Lt"), On::Nodes) => Operator::Lt,
        (_, on) => {
            operator_at.note(match on {
                On::Pods => "expected In, NotIn, Exists or DoesNotExist",
                On::Nodes => "expected In, NotIn, Exists, DoesNotExist, Gt or Lt",
                On::NodeFields => "expected In or NotIn",
            });
            return None;
        }
    };
    let mut values = names(&values_at, interner);
    values.sort();
    values.dedup();
    let wrong = match operator {
        Operator::In | Operator::NotIn if values.is_empty() => Some("expected at least one value"),
        Operator::Exists | Operator::DoesNotExist if !values.is_empty() => Some("expected no values"),
        Operator::Gt | Operator::Lt if values.len() != 1 || values[0].parse::<i64>().is_err() => {
            Some("expected one whole number, in quotes")
        }
        _ => None,
    };
    if let Some(message) = wrong {
        values_at.note(message);
        return None;
    }
    Some(Requirement { key: interner.name(key), operator, values })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cursor::Notes;
    use serde_json::{Value, json};

    /// A selector as text: `a In [x] & b Exists []`, `everything`, or `nothing`, with the notes after it.
    fn check(value: Value, expected: &str) {
        let notes = Notes::default();
        let mut interner = Interner::default();
        let selector = label_selector(&Cursor::root(&json!({"s": value}), &notes).field("s"), &mut interner);
        let mut text = match selector {
            None => "nothing".to_string(),
            Some(selector) if selector.requirements.is_empty() => "everything".to_string(),
            Some(selector) => {
                let parts: Vec<String> = selector
                    .requirements
                    .iter()
                    .map(|r| format!("{} {:?} {:?}", r.key, r.operator, r.values))
                    .collect();
                parts.join(" & ")
            }
        };
        for note in notes.into_vec() {
            text.push_str(&format!("; {}: {}", note.field, note.message));
        }
        assert_eq!(text, expected, "{value}");
    }

    #[test]
    fn label_selectors() {
        check(json!(null), "nothing");
        check(json!({}), "everything");
        check(json!({"matchLabels": {"b": "2", "a": "1"}}), r#"a In ["1"] & b In ["2"]"#);
        check(
            json!({"matchLabels": {"a": "1"}, "matchExpressions": [
                {"key": "a", "operator": "In", "values": ["1"]},
                {"key": "z", "operator": "NotIn", "values": ["y", "x", "y"]},
                {"key": "e", "operator": "Exists"},
                {"key": "d", "operator": "DoesNotExist", "values": []},
            ]}),
            r#"a In ["1"] & d DoesNotExist [] & e Exists [] & z NotIn ["x", "y"]"#,
        );
        check(
            json!({"matchExpressions": [{"key": "a", "operator": "Is", "values": ["1"]}]}),
            "nothing; s.matchExpressions[0].operator: expected In, NotIn, Exists or DoesNotExist",
        );
        check(
            json!({"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1"]}]}),
            "nothing; s.matchExpressions[0].operator: expected In, NotIn, Exists or DoesNotExist",
        );
        check(
            json!({"matchExpressions": [{"key": "a", "operator": "In"}]}),
            "nothing; s.matchExpressions[0].values: expected at least one value",
        );
        check(
            json!({"matchExpressions": [{"operator": "Exists"}]}),
            "nothing; s.matchExpressions[0].key: expected a label's key",
        );
        check(
            json!({"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["1"]}]}),
            "nothing; s.matchExpressions[0].values: expected no values",
        );
        check(
            json!({"matchLabels": {"a": 1}}),
            "nothing; s.matchLabels.a: expected a text (in quotes, if it looks like something else)",
        );
    }

    #[test]
    fn what_is_no_selector_selects_nothing() {
        check(json!("app"), "nothing; s: expected a map");
        check(json!({"matchLabels": ["app"]}), "nothing; s.matchLabels: expected a map");
        check(json!({"matchExpressions": {"app": "x"}}), "nothing; s.matchExpressions: expected a list");
        check(
            json!({"matchExpressions": ["app"]}),
            "nothing; s.matchExpressions[0]: expected a map; s.matchExpressions[0].key: expected a label's key",
        );
    }

    #[test]
    fn a_term_that_cannot_be_read_selects_nothing() {
        let notes = Notes::default();
        let mut interner = Interner::default();
        let value = json!([
            {"matchExpressions": [{"key": "a", "operator": "Exists"}, {"key": "a", "operator": "Gt", "values": ["x"]}]},
            {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]},
            {"matchFields": [{"key": "metadata.uid", "operator": "In", "values": ["n"]}]},
        ]);
        let terms = node_terms(&Cursor::root(&value, &notes), &mut interner);
        assert_eq!(terms[0], NodeTerm::default());
        assert_eq!(terms[1].fields[0].values, [Name::from("n")]);
        assert_eq!(terms[2], NodeTerm::default());
        let fields: Vec<String> = notes.into_vec().into_iter().map(|note| note.field).collect();
        assert_eq!(fields, ["[0].matchExpressions[1].values", "[2].matchFields[0].key"]);
    }
}
