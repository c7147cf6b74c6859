//! How kinds of card are written in annotations: counts as JSON, and alternatives as `A|B`.

use quotient_engine::fact::{Amount, Limits, Name};
use serde_json::Value;

use crate::intern::Interner;
use crate::limits::POD_CARDS_MAX;

/// What a count must be.
const COUNT: &str = "expected a whole number of cards, not below 0";

/// The alternatives of `A|B`, the preferred first, each once.
pub(crate) fn alternatives(text: &str, interner: &mut Interner) -> Result<Vec<Name>, String> {
    let mut names: Vec<Name> = Vec::new();
    for part in text.split('|') {
        let part = part.trim();
        if part.is_empty() {
            return Err("expected the name of a card, or several with | between them".to_string());
        }
        if !names.iter().any(|name| **name == *part) {
            if names.len() >= POD_CARDS_MAX {
                return Err(format!("expected at most {POD_CARDS_MAX} kinds of card"));
            }
            names.push(interner.name(part));
        }
    }
    Ok(names)
}

/// The counts of a JSON object, in its order.
fn counts(text: &str) -> Result<Vec<(String, Amount)>, String> {
    let expected = "expected JSON such as {\"NVIDIA-A100-80GB\": 8}";
    let value: Value = serde_json::from_str(text).map_err(|error| {
        // The parser says where it stopped, over the lines of the annotation; the annotation is short.
        format!("is not JSON ({error}): {expected}").replace('\n', " ")
    })?;
    let Value::Object(map) = value else { return Err(expected.to_string()) };
    let count = |(name, value): (String, Value)| match value.as_i64() {
        _ if name.trim().is_empty() => Err("expected the name of each card".to_string()),
        Some(count) if count >= 0 => Ok((name, count)),
        _ => Err(format!("{name:?}: {value}: {COUNT}")),
    };
    map.into_iter().map(count).collect()
}

/// How many of each kind of card a queue may hold.
pub(crate) fn quota(text: &str, interner: &mut Interner) -> Result<Limits, String> {
    Ok(counts(text)?.into_iter().map(|(name, count)| (interner.name(name.trim()), count)).collect())
}

/// How many cards are asked for, each with the kinds that will do, in the order given.
pub(crate) fn request(text: &str, interner: &mut Interner) -> Result<Vec<(Vec<Name>, Amount)>, String> {
    let counted = counts(text)?.into_iter();
    counted.map(|(names, count)| Ok((alternatives(&names, interner)?, count))).collect()
}

/// The counts of a card quota that can be read, by name; what cannot is a problem that others tell.
pub(crate) fn readable_quota(text: &str) -> Vec<(String, Amount)> {
    counts(text).unwrap_or_default().into_iter().map(|(name, count)| (name.trim().to_string(), count)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Result<Vec<String>, String> {
        let names = alternatives(text, &mut Interner::default())?;
        Ok(names.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn alternatives_keep_their_order() {
        assert_eq!(names("H100|A100").expect("read"), ["H100", "A100"]);
        assert_eq!(names(" A100 | H100 |A100").expect("read"), ["A100", "H100"]);
        assert_eq!(names("A100/mps-80g*1/8").expect("read"), ["A100/mps-80g*1/8"]);
        for wrong in ["|", "A100|", " ", "A100||H100"] {
            assert!(names(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn counts_are_whole_numbers() {
        let read = |text: &str| quota(text, &mut Interner::default());
        let limits = read("{\"A100\": 5, \"A100/mps-80g*1/8\": 0}\n").expect("read");
        assert_eq!((limits.get("A100"), limits.get("A100/mps-80g*1/8"), limits.get("H100")), (Some(5), Some(0), None));
        assert!(read("{}").expect("read").is_empty());
        for wrong in
            ["", "five A100", "[1]", "{\"A100\": -1}", "{\"A100\": 1.5}", "{\"A100\": \"5\"}", "{\"\": 1}", "{"]
        {
            assert!(read(wrong).is_err_and(|message| !message.contains('\n')), "{wrong}");
        }
    }

    #[test]
    fn requests_name_alternatives() {
        let request = request("{\"A100|H100\": 4, \"T4\": 1}", &mut Interner::default()).expect("read");
        let shown: Vec<(usize, Amount)> = request.iter().map(|(names, count)| (names.len(), *count)).collect();
        assert_eq!(shown, [(2, 4), (1, 1)]);
    }
}
