//! Fields of raw objects, found by name.
//!
//! Nearly all maps of an object have a few fields. To compare their names one after the other takes less time there
//! than to hash the name that is looked for.

use serde_json::{Map, Value};

/// The most fields that are looked through one after the other.
const FEW: usize = 8;

/// The field of that name.
pub fn get<'a>(map: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    if map.len() > FEW {
        return map.get(name);
    }
    map.iter().find(|(key, _)| *key == name).map(|(_, value)| value)
}

/// The field of that name of an object.
pub fn of<'a>(value: &'a Value, name: &str) -> Option<&'a Value> {
    get(value.as_object()?, name)
}

/// What is at `pointer` (`/spec/nodeName`). The same as [`Value::pointer`], which copies every part of the way.
pub fn at<'a>(object: &'a Value, pointer: &str) -> Option<&'a Value> {
    let Some(mut rest) = pointer.strip_prefix('/') else { return pointer.is_empty().then_some(object) };
    let mut value = object;
    loop {
        let end = rest.bytes().position(|byte| matches!(byte, b'/' | b'~'));
        let (part, further) = match end {
            Some(end) if rest.as_bytes()[end] == b'~' => return object.pointer(pointer),
            Some(end) => (&rest[..end], Some(&rest[end + 1..])),
            None => (rest, None),
        };
        value = match value {
            Value::Object(map) => get(map, part)?,
            Value::Array(list) => list.get(part.parse::<usize>().ok()?)?,
            _ => return None,
        };
        match further {
            Some(further) => rest = further,
            None => return Some(value),
        }
    }
}

/// The text at `pointer`.
pub fn text<'a>(object: &'a Value, pointer: &str) -> Option<&'a str> {
    at(object, pointer).and_then(Value::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn fields_are_found_in_small_maps_and_in_large_ones() {
        let mut object = json!({"a": {"b": [{"c": "d"}]}});
        for count in 0..20 {
            object["a"][format!("x-{count}")] = json!(count);
            for pointer in
                ["", "/a", "/a/b/0/c", "/a/b/1", "/a/x-0", "/a/x-19", "/a/b/0/c/d", "/~0", "a", "/", "/a/", "//a"]
            {
                assert_eq!(at(&object, pointer), object.pointer(pointer), "{pointer} of {object}");
            }
        }
        assert_eq!(text(&object, "/a/b/0/c"), Some("d"));
    }
}
