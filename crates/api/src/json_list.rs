//! A long list of objects as JSON, read in parts.
//!
//! A dump of a cluster is one map with one long list under `items`. Where its items begin and end is found without
//! reading them, and several threads read them. A text that is anything else, or that is not JSON, is left to be read
//! as a whole, which also says what is wrong with it.

use std::sync::{Mutex, PoisonError};

use serde::de::DeserializeSeed;
use serde_json::Value;

use crate::json::{Exact, Pruning};
use crate::parallel;
use crate::thin::Kept;

/// The shortest text that is worth more than one thread.
const BYTES_MIN: usize = 1 << 20;

/// How much of the list is read at a time.
const PART_BYTES: usize = 1 << 18;

/// A text around its list.
#[derive(Debug)]
struct Split<'t> {
    before: &'t str,
    /// Some items each, with commas between them.
    parts: Vec<&'t str>,
    after: &'t str,
}

/// The value of a text that is one map with a long list under `items`.
pub(crate) fn read(text: &str) -> Option<Value> {
    read_parts(text, BYTES_MIN, PART_BYTES)
}

fn read_parts(text: &str, bytes_min: usize, part_bytes: usize) -> Option<Value> {
    let (value, parts) = open(text, bytes_min, part_bytes)?;
    complete(value, parallel::of_parts(&parts, |part| items(part, Kept::Comparable)))
}

/// The map around the list, which is empty in it, and the parts of the list.
fn open(text: &str, bytes_min: usize, part_bytes: usize) -> Option<(Value, Vec<&str>)> {
    if text.len() < bytes_min {
        return None;
    }
    let Split { before, parts, after } = split(text, part_bytes)?;
    // A key may be written with escapes, and be the same then.
    if before.contains("\\u") || after.contains("\\u") {
        return None;
    }
    let value = serde_json::from_str::<Exact>(&format!("{before}[]{after}")).ok()?.0;
    Some((value, parts))
}

/// The map with its list, if all parts of it could be read.
fn complete(mut value: Value, read: Vec<Option<Vec<Value>>>) -> Option<Value> {
    let mut all = Vec::with_capacity(read.iter().flatten().map(Vec::len).sum());
    for items in read {
        all.extend(items?);
    }
    *value.get_mut("items")? = Value::Array(all);
    Some(value)
}

/// A text in pieces, each of which is dropped when it was read: values take several times as much memory as their text,
/// and the most of it is needed when the last of them is read.
pub(crate) struct Pieces {
    value: Value,
    parts: Vec<Mutex<String>>,
}

impl Pieces {
    /// The pieces of a text that is one map with a long list under `items`.
    pub fn of(text: &str) -> Option<Self> {
        let (value, parts) = open(text, BYTES_MIN, PART_BYTES)?;
        Some(Pieces { value, parts: parts.into_iter().map(|part| Mutex::new(part.to_string())).collect() })
    }

    /// The value of the text. What is not JSON is for the whole text to say.
    pub fn read(self, kept: Kept) -> Option<Value> {
        let take = |part: &Mutex<String>| std::mem::take(&mut *part.lock().unwrap_or_else(PoisonError::into_inner));
        let read = parallel::of_parts(&self.parts, |part| items(&take(part), kept));
        complete(self.value, read)
    }
}

/// The items of a part; there is at least one.
fn items(part: &str, kept: Kept) -> Option<Vec<Value>> {
    // Two lists, since the list is in a map: how deep values may be is counted from outside.
    let text = format!("[[{part}]]");
    let mut deserializer = serde_json::Deserializer::from_str(&text);
    let value = Pruning { dropped: &[], kept }.deserialize(&mut deserializer).ok()?;
    deserializer.end().ok()?;
    match value {
        Value::Array(mut lists) => match (lists.pop(), lists.len()) {
            (Some(Value::Array(items)), 0) if !items.is_empty() => Some(items),
            _ => None,
        },
        _ => None,
    }
}

/// Finds the list of a text that is one map.
fn split(text: &str, part_bytes: usize) -> Option<Split<'_>> {
    let bytes = text.as_bytes();
    let mut depth = 0_usize;
    let mut parts = Vec::new();
    let (mut first, mut begun, mut end) = (None, 0, None);
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'"' => {
                let close = string_end(bytes, at)?;
                if depth == 1
                    && &bytes[at..close] == b"\"items\""
                    && let Some(list) = list_after(bytes, close)
                {
                    // A list that is given twice is not for here.
                    if first.replace(list + 1).is_some() {
                        return None;
                    }
                    begun = list + 1;
                }
                at = close;
                continue;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' => {
                depth = depth.checked_sub(1)?;
                if depth == 1 && first.is_some() && end.is_none() {
                    parts.push(&text[begun..at]);
                    end = Some(at + 1);
                } else if depth == 0 && !text[at + 1..].trim_ascii().is_empty() {
                    return None;
                }
            }
            b',' if depth == 2 && first.is_some() && end.is_none() && at - begun >= part_bytes => {
                parts.push(&text[begun..at]);
                begun = at + 1;
            }
            _ => {}
        }
        at += 1;
    }
    let (first, end) = (first?, end?);
    (depth == 0).then(|| Split { before: &text[..first - 1], parts, after: &text[end..] })
}

/// The place behind the text that begins here.
fn string_end(bytes: &[u8], at: usize) -> Option<usize> {
    let mut at = at + 1;
    loop {
        match bytes.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

/// The place of the bracket that opens a list, where one follows a key that ends here.
fn list_after(bytes: &[u8], at: usize) -> Option<usize> {
    let next = |at: usize| (at..bytes.len()).find(|at| !bytes[*at].is_ascii_whitespace());
    let colon = next(at).filter(|at| bytes[*at] == b':')?;
    next(colon + 1).filter(|at| bytes[*at] == b'[')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever is read in parts is what is read as a whole, byte for byte; what is not JSON is not read in parts.
    #[test]
    fn parts_come_to_the_whole() {
        let cases = [
            (
                r#"{"kind": "List", "items": [{"a": [1, 2]}, {"b": "],{\"\\"}, [3], "x,y", 4], "z": {"items": [5, 6]}}"#,
                true,
            ),
            (r#" { "items" : [ {"kind": "Pod", "metadata": {"uid": "1"}, "status": {"podIP": "1"}} , 2 ] } "#, true),
            (r#"{"items": [{"items": [1, 2]}, {"items": [3]}]}"#, true),
            (r#"{"kind": "items", "items": [1, 2, 3]}"#, true),
            (r#"{"items": []}"#, false),
            (r#"{"items": [1, 2,]}"#, false),
            (r#"{"items": [1, , 2]}"#, false),
            (r#"{"items": [1, 2], "items": [3]}"#, false),
            (r#"{"items": [{"a": 1], 2}}"#, false),
            (r#"{"items": [1, 2]} {"items": [3]}"#, false),
            (r#"{"items": [1, 2"#, false),
            (r#"{"items": [1, 2], "\u0069tems": []}"#, false),
            (r#"{"items": {"a": 1}}"#, false),
            (r#"[1, 2]"#, false),
            ("", false),
        ];
        for (text, is_read) in cases {
            for part_bytes in [1, 5, 1000] {
                let read = read_parts(text, 0, part_bytes).map(|value| value.to_string());
                assert_eq!(read.is_some(), is_read, "{text} in parts of {part_bytes}");
                let whole = serde_json::from_str::<Exact>(text).map(|exact| exact.0.to_string()).ok();
                assert!(read.is_none() || read == whole, "{text} in parts of {part_bytes}: {read:?}");
            }
        }
    }

    #[test]
    fn values_may_be_as_deep_as_in_a_whole() {
        for depth in [100, 124, 125, 126, 127, 128] {
            let text = format!(r#"{{"items": [1, {}{}]}}"#, "[".repeat(depth), "]".repeat(depth));
            let is_read = read_parts(&text, 0, 1).is_some();
            assert_eq!(is_read, serde_json::from_str::<Exact>(&text).is_ok(), "{depth} deep");
        }
    }
}
