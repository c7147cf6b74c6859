//! Fields of raw objects, found by name.
//!
//! Nearly all maps of an object have a few fields. To compare their names one after the other takes less time there
//! than to hash the name that is looked for.

use serde_json::{Map, Value};

/// The most fields that are looked through one after the other: as many as metadata and specs of pods have.
const FEW: usize = 16;

/// The field of that name.
pub fn get<'a>(map: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    if map.len() > FEW {
        return map.get(name);
    }
    map.iter().find(|(key, _)| is(key, name)).map(|(_, value)| value)
}

/// Whether a key is that name. Names of up to 16 bytes, as nearly all are, are compared by their two ends, which may
/// overlap: that takes less time than to compare byte by byte.
fn is(key: &str, name: &str) -> bool {
    let (key, name) = (key.as_bytes(), name.as_bytes());
    match key.len() {
        length if length != name.len() => false,
        8..=16 => key.first_chunk::<8>() == name.first_chunk() && key.last_chunk::<8>() == name.last_chunk(),
        4..8 => key.first_chunk::<4>() == name.first_chunk() && key.last_chunk::<4>() == name.last_chunk(),
        _ => key == name,
    }
}

/// The field of that name, to be changed.
pub fn get_mut<'a>(map: &'a mut Map<String, Value>, name: &str) -> Option<&'a mut Value> {
    if map.len() > FEW {
        return map.get_mut(name);
    }
    map.iter_mut().find(|(key, _)| is(key, name)).map(|(_, value)| value)
}

/// The field of that name of an object, to be changed.
pub fn of_mut<'a>(value: &'a mut Value, name: &str) -> Option<&'a mut Value> {
    get_mut(value.as_object_mut()?, name)
}

/// The field of that name of an object.
pub fn of<'a>(value: &'a Value, name: &str) -> Option<&'a Value> {
    get(value.as_object()?, name)
}

/// Makes room for so many more fields and none besides. A map that grows by itself has room for as many again.
pub fn make_room(map: &mut Map<String, Value>, more: usize) {
    let fields = std::mem::take(map);
    *map = Map::with_capacity(fields.len() + more);
    map.extend(fields);
}

/// What is at `pointer` (`/spec/nodeName`). The same as [`Value::pointer`], which copies every part of the way, but
/// that names with `~` in them are not found.
pub fn at<'a>(object: &'a Value, pointer: &str) -> Option<&'a Value> {
    let Some(mut rest) = pointer.strip_prefix('/') else { return pointer.is_empty().then_some(object) };
    let mut value = object;
    loop {
        let part;
        (value, part) = match value {
            Value::Object(map) => first_of(map, rest)?,
            Value::Array(list) => {
                let part = first_part(rest);
                (list.get(part.parse::<usize>().ok()?)?, part.len())
            }
            _ => return None,
        };
        if part == rest.len() {
            return Some(value);
        }
        rest = &rest[part + 1..];
    }
}

/// The field that a way begins with, and how long its name is. Where the name ends is found by the fields: that takes
/// less time than to look for it.
fn first_of<'a>(map: &'a Map<String, Value>, way: &str) -> Option<(&'a Value, usize)> {
    if map.len() > FEW {
        let part = first_part(way);
        return map.get(part).map(|value| (value, part.len()));
    }
    let is_first = |name: &str| {
        let ends = way.as_bytes().get(name.len()).map_or(way.len() == name.len(), |next| *next == b'/');
        ends && is(name, &way[..name.len()]) && !name.contains('/')
    };
    map.iter().find(|(name, _)| is_first(name)).map(|(name, value)| (value, name.len()))
}

fn first_part(way: &str) -> &str {
    way.split_once('/').map_or(way, |(part, _)| part)
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
        let mut object = json!({"a": {"b/0/c": 1, "b": [{"c": "d"}], "": {"a": 2}}});
        for count in 0..40 {
            object["a"][format!("x-{count}")] = json!(count);
            for pointer in
                ["", "/a", "/a/b/0/c", "/a/b/1", "/a/x-0", "/a/x-39", "/a/b/0/c/d", "a", "/", "/a/", "//a", "/a//a"]
            {
                assert_eq!(at(&object, pointer), object.pointer(pointer), "{pointer} of {object}");
            }
        }
        assert_eq!(text(&object, "/a/b/0/c"), Some("d"));
    }
}
