//! JSON within annotations: amounts by resource, and lists of names.

use std::collections::{BTreeMap, BTreeSet};

use quotient_engine::fact::{Amount, Limits};
use quotient_engine::quantity::canonical;
use serde_json::Value;

use crate::cursor::{Cursor, Notes};
use crate::intern::Interner;

const AMOUNTS_EXPECTED: &str = r#"expected amounts by resource as JSON, such as {"cpu":"10"}"#;
const LIST_EXPECTED: &str = r#"expected a list of names as JSON, such as ["a","b"]"#;

/// The amounts in the annotation at `at`. What of it cannot be read is noted, and the rest counts.
pub(crate) fn amounts<'v>(at: &Cursor<'v, '_>) -> BTreeMap<String, Amount> {
    let Some(text) = at.non_empty_str() else { return BTreeMap::new() };
    let Some(value) = serde_json::from_str::<Value>(text).ok().filter(Value::is_object) else {
        at.note(AMOUNTS_EXPECTED);
        return BTreeMap::new();
    };
    let notes = Notes::default();
    let read = Cursor::root(&value, &notes)
        .entries()
        .filter_map(|(resource, value)| Some((resource.to_string(), value.amount(resource)?)))
        .collect();
    if !notes.is_empty() {
        let wrong: Vec<String> = notes.into_vec().iter().map(ToString::to_string).collect();
        at.note(format!("{}; {AMOUNTS_EXPECTED}", wrong.join("; ")));
    }
    read
}

/// The same, as the engine is told them.
pub(crate) fn limits(at: &Cursor<'_, '_>, interner: &mut Interner) -> Limits {
    amounts(at).into_iter().map(|(resource, amount)| (interner.name(&resource), amount)).collect()
}

/// The names in the annotation at `at`, in order, each once; `None` where there is no such annotation or it cannot be
/// read, which is noted.
pub(crate) fn names(at: &Cursor<'_, '_>) -> Option<Vec<String>> {
    let text = at.non_empty_str()?;
    match parsed_names(text) {
        Some(names) => {
            let mut seen = BTreeSet::new();
            Some(names.into_iter().filter(|name| seen.insert(name.clone())).collect())
        }
        None => {
            at.note(LIST_EXPECTED);
            None
        }
    }
}

/// A list of names that are not empty, as JSON.
pub(crate) fn parsed_names(text: &str) -> Option<Vec<String>> {
    serde_json::from_str::<Vec<String>>(text).ok().filter(|names| names.iter().all(|name| !name.is_empty()))
}

/// Amounts as compact JSON: keys in order, canonical quantities.
pub(crate) fn written<'a>(amounts: impl IntoIterator<Item = (&'a str, i128)>) -> String {
    let quantities: BTreeMap<&str, String> =
        amounts.into_iter().map(|(resource, amount)| (resource, canonical(resource, amount))).collect();
    // A map of texts has nothing in it that JSON could not say.
    serde_json::to_string(&quantities).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(text: &str) -> (String, Vec<String>) {
        let value = json!({"a": text});
        let notes = Notes::default();
        let read = amounts(&Cursor::root(&value, &notes).field("a"));
        let shown = written(read.iter().map(|(resource, amount)| (resource.as_str(), i128::from(*amount))));
        (shown, notes.into_vec().into_iter().map(|note| note.message).collect())
    }

    #[test]
    fn amounts_are_read_and_written() {
        let fine = |shown: &str| (shown.to_string(), Vec::<String>::new());
        assert_eq!(read(r#"{"memory": "1024Mi", "cpu": 1.5}"#), fine(r#"{"cpu":"1500m","memory":"1Gi"}"#));
        assert_eq!(read(""), fine("{}"));
        assert_eq!(read("{}"), fine("{}"));
        for text in ["cpu=4", "[]", "4", "{\"cpu\":"] {
            assert_eq!(read(text), ("{}".to_string(), vec![AMOUNTS_EXPECTED.to_string()]), "{text}");
        }
        let (shown, notes) = read(r#"{"cpu":"x","memory":"-1","pods":"5"}"#);
        assert_eq!(shown, r#"{"pods":"5"}"#);
        assert!(notes[0].starts_with(r#"cpu: "x": "#) && notes[0].contains(r#"memory: "-1": must not"#), "{notes:?}");
    }

    #[test]
    fn lists_are_read() {
        let names = |text: &str| {
            let value = json!({"a": text});
            let notes = Notes::default();
            (names(&Cursor::root(&value, &notes).field("a")), notes.into_vec().len())
        };
        assert_eq!(names(r#"["b", "a", "b"]"#), (Some(vec!["b".to_string(), "a".to_string()]), 0));
        assert_eq!(names("[]"), (Some(vec![]), 0));
        for text in ["a,b", r#"["a", 1]"#, r#"[""]"#, r#"{"a": "b"}"#] {
            assert_eq!(names(text), (None, 1), "{text}");
        }
        assert_eq!(names(""), (None, 0));
    }
}
