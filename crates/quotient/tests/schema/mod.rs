//! Whether what a command prints is what `docs/reference/output.schema.json` says.

use std::path::Path;

use serde_json::Value;

/// Panics unless the value is what the schema says under a name, such as `command tree`.
pub fn check(name: &str, value: &Value, told: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/output.schema.json");
    let text = std::fs::read_to_string(path).expect("it is there");
    let all: Value = serde_json::from_str(&text).expect("it is JSON");
    let schema = &all["$defs"][name];
    assert!(schema.is_object(), "no schema of {name}");
    let mut found = Vec::new();
    faults(value, schema, &all, name, &mut found);
    assert!(found.is_empty(), "{told}:\n{}", found.join("\n"));
}

/// What is wrong with a value by a schema: types, enums, references, alternatives, properties and items.
pub fn faults(value: &Value, schema: &Value, all: &Value, at: &str, found: &mut Vec<String>) {
    if let Some(name) = schema.get("$ref").and_then(Value::as_str) {
        let pointer = name.strip_prefix('#').expect("a reference within the file");
        let schema = all.pointer(pointer).unwrap_or_else(|| panic!("no {name}"));
        return faults(value, schema, all, at, found);
    }
    if let Some(choices) = schema.get("anyOf").and_then(Value::as_array) {
        let mut of_choices = choices.iter().map(|choice| {
            let mut found = Vec::new();
            faults(value, choice, all, at, &mut found);
            found
        });
        let least = of_choices.by_ref().min_by_key(Vec::len).unwrap_or_default();
        return found.extend(least);
    }
    if let Some(choices) = schema.get("enum").and_then(Value::as_array)
        && !choices.contains(value)
    {
        found.push(format!("{at}: {value} is none of {choices:?}"));
    }
    let is_of = |name: &str| match name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        other => panic!("the type {other} is not known"),
    };
    let types: Vec<&str> = match schema.get("type") {
        Some(Value::String(name)) => vec![name],
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    if !types.is_empty() && !types.iter().any(|name| is_of(name)) {
        return found.push(format!("{at}: {value} is not of type {types:?}"));
    }
    if let (Some(items), Some(element)) = (value.as_array(), schema.get("items")) {
        for (index, item) in items.iter().enumerate() {
            faults(item, element, all, &format!("{at}[{index}]"), found);
        }
    }
    let Some(map) = value.as_object() else { return };
    let none = serde_json::Map::new();
    let properties = schema.get("properties").and_then(Value::as_object).unwrap_or(&none);
    for name in schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str) {
        if !map.contains_key(name) {
            found.push(format!("{at}.{name} is missing"));
        }
    }
    for (name, value) in map {
        match (properties.get(name), schema.get("additionalProperties")) {
            (Some(schema), _) => faults(value, schema, all, &format!("{at}.{name}"), found),
            (None, Some(Value::Bool(false))) => found.push(format!("{at}.{name} is not described")),
            (None, Some(schema)) => faults(value, schema, all, &format!("{at}.{name}"), found),
            (None, None) => {}
        }
    }
}
