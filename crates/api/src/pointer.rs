//! Values within values, by JSON pointers.

use serde_json::Value;

/// What is at `pointer` (`/spec/nodeName`). The same as [`Value::pointer`], which copies every part of the way twice:
/// where a cluster is read, that is a tenth of the time.
pub fn at<'a>(value: &'a Value, pointer: &str) -> Option<&'a Value> {
    if pointer.contains('~') || !pointer.starts_with('/') {
        return value.pointer(pointer);
    }
    pointer[1..].split('/').try_fold(value, |value, part| match value {
        Value::Object(map) => map.get(part),
        Value::Array(list) => list.get(part.parse::<usize>().ok()?),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn it_finds_what_a_pointer_finds() {
        let value = json!({"a": {"b": [1, {"c/d": 2, "": 3}]}, "": 4});
        for pointer in ["", "/", "/a", "/a/b/0", "/a/b/1/c~1d", "/a/b/1/", "/a/b/2", "/a/x", "/a/b/x", "a"] {
            assert_eq!(at(&value, pointer), value.pointer(pointer), "{pointer:?}");
        }
    }
}
