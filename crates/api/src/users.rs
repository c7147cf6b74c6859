//! Which namespaces may use a quota, as its annotations say.

use quotient_engine::fact::{Name, Operator, Requirement, Users};

use crate::cursor::Cursor;
use crate::intern::Interner;
use crate::selector;

/// Names of namespaces, separated by commas; `*` is all of them.
pub const ALLOWED_NAMESPACES: &str = "quotient.dev/allowed-namespaces";
/// A label selector of namespaces, as kubectl takes it: `team=red,tier in (a,b),!shared`.
pub const ALLOWED_NAMESPACE_SELECTOR: &str = "quotient.dev/allowed-namespace-selector";

/// Reads both annotations. What cannot be read lets nobody in: a limit must not become the absence of one.
pub(crate) fn users(annotations: &Cursor<'_, '_>, interner: &mut Interner) -> Users {
    let (listed, selected) = (annotations.field(ALLOWED_NAMESPACES), annotations.field(ALLOWED_NAMESPACE_SELECTOR));
    if !listed.exists() && !selected.exists() {
        return Users::Unsaid;
    }
    let names = listed.str().unwrap_or_default().split(',').map(str::trim).filter(|name| !name.is_empty());
    let namespaces: Vec<Name> = names.map(|name| interner.name(name)).collect();
    if namespaces.iter().any(|name| &**name == "*") {
        return Users::Everyone;
    }
    let selector = selected.str().and_then(|text| match requirements(text, interner) {
        Ok(requirements) => Some(selector::selector(requirements)),
        Err(message) => {
            selected.note(format!("{message}; until then it selects no namespace"));
            None
        }
    });
    Users::Listed { namespaces, selector }
}

/// The conditions of a selector that is written as one line.
fn requirements(text: &str, interner: &mut Interner) -> Result<Vec<Requirement>, String> {
    let terms = terms(text);
    if terms.iter().all(|term| term.is_empty()) {
        return Err("expected a label selector such as team=red, which selects something".to_string());
    }
    terms.into_iter().map(|term| requirement(term, interner)).collect()
}

/// The parts between commas that are not inside brackets.
fn terms(text: &str) -> Vec<&str> {
    let (mut terms, mut start, mut depth) = (Vec::new(), 0, 0u32);
    for (at, letter) in text.char_indices() {
        match letter {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                terms.push(text[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    terms.push(text[start..].trim());
    terms
}

fn requirement(term: &str, interner: &mut Interner) -> Result<Requirement, String> {
    let bad =
        || format!("cannot read {term:?}: expected key=value, key!=value, key in (a,b), key notin (a,b), key or !key");
    let mut made = |key: &str, operator: Operator, values: &[&str]| {
        let is_name = |text: &str| {
            let mut letters = text.chars();
            letters.all(|letter| letter.is_ascii_alphanumeric() || "-_./".contains(letter))
        };
        if key.is_empty() || !is_name(key) || !values.iter().all(|value| is_name(value)) {
            return Err(bad());
        }
        let mut values: Vec<Name> = values.iter().map(|value| interner.name(value)).collect();
        values.sort();
        Ok(Requirement { key: interner.name(key), operator, values })
    };
    if let Some((key, value)) = term.split_once("!=") {
        return made(key.trim(), Operator::NotIn, &[value.trim()]);
    }
    if let Some((key, value)) = term.split_once("==").or_else(|| term.split_once('=')) {
        return made(key.trim(), Operator::In, &[value.trim()]);
    }
    if let Some(key) = term.strip_prefix('!') {
        return made(key.trim(), Operator::DoesNotExist, &[]);
    }
    let Some((key, rest)) = term.split_once(char::is_whitespace) else {
        return made(term, Operator::Exists, &[]);
    };
    let (word, list) = rest.trim().split_once('(').ok_or_else(bad)?;
    let list = list.strip_suffix(')').ok_or_else(bad)?;
    let values: Vec<&str> = list.split(',').map(str::trim).collect();
    match word.trim() {
        "in" => made(key, Operator::In, &values),
        "notin" => made(key, Operator::NotIn, &values),
        _ => Err(bad()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::cursor::Notes;

    fn read(annotations: serde_json::Value) -> (Users, Vec<String>) {
        let notes = Notes::default();
        let users = users(&Cursor::root(&annotations, &notes), &mut Interner::default());
        (users, notes.into_vec().into_iter().map(|note| crate::problem::Problem::from(note).to_string()).collect())
    }

    #[test]
    fn names_stars_and_selectors() {
        assert_eq!(read(json!({})).0, Users::Unsaid);
        assert_eq!(read(json!({ALLOWED_NAMESPACES: "a, *"})).0, Users::Everyone);
        let listed = Users::Listed { namespaces: vec!["a".into(), "b".into()], selector: None };
        assert_eq!(read(json!({ALLOWED_NAMESPACES: "a, b,"})).0, listed);
        let nobody = Users::Listed { namespaces: Vec::new(), selector: None };
        assert_eq!(read(json!({ALLOWED_NAMESPACES: ""})).0, nobody);
        let text = "team=red, tier in (a,b), zone notin (x), gpu, !shared, env!=dev";
        let (users, notes) = read(json!({ALLOWED_NAMESPACE_SELECTOR: text}));
        let Users::Listed { selector: Some(selector), .. } = users else { panic!("{users:?}") };
        assert_eq!(selector.requirements.len(), 6, "{selector:?}");
        assert_eq!(notes, [""; 0]);
        for bad in ["", "team in a", "=red", "a b c", "team in (a"] {
            let (users, notes) = read(json!({ALLOWED_NAMESPACE_SELECTOR: bad}));
            assert_eq!((users, notes.len()), (nobody.clone(), 1), "{bad:?}");
        }
    }
}
