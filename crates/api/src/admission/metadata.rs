//! Names, namespaces and labels: what every object has.

use serde_json::Value;

use super::{Context, Rejection, object_in};
use crate::cursor::Cursor;
use crate::field::get;
use crate::object::ObjectKey;

/// The label by which namespaces can be selected by name.
const NAME_LABEL: &str = "kubernetes.io/metadata.name";

/// Writes the namespace into an object that leaves it out, and takes it from one that cannot have one.
pub(super) fn set_namespace(object: &mut Value, key: &ObjectKey) {
    let Some(metadata) = object_in(object, "metadata") else { return };
    match &key.namespace {
        Some(namespace) => {
            if get(metadata, "namespace").is_none_or(|known| *known != **namespace) {
                metadata.insert("namespace".to_string(), Value::from(&**namespace));
            }
        }
        None => {
            metadata.remove("namespace");
        }
    }
}

/// A namespace has a label with its name.
pub(super) fn label_with_name(object: &mut Value, context: &Context<'_>) -> Result<(), Rejection> {
    if let Some(labels) = object.get_mut("metadata").and_then(|metadata| object_in(metadata, "labels")) {
        labels.insert(NAME_LABEL.to_string(), Value::from(&*context.key.name));
    }
    Ok(())
}

/// Checks the name, the labels and the annotations.
pub(super) fn check(root: &Cursor<'_, '_>) {
    let metadata = root.field("metadata");
    for name in ["name", "namespace"] {
        let at = metadata.field(name);
        if at.non_empty_str().is_some_and(|text| !is_subdomain(text)) {
            at.note("expected at most 253 lower-case letters, digits, '-' and '.', each part starting and ending with a letter or digit");
        }
    }
    check_labels(&metadata.field("labels"));
    metadata.field("annotations").entries().for_each(|(_, value)| {
        value.str();
    });
}

/// Checks keys and values of labels.
pub(super) fn check_labels(labels: &Cursor<'_, '_>) {
    for (key, value) in labels.entries() {
        if !is_label_key(key) {
            value.note(format!("{key:?} is no key of a label: expected name or prefix/name"));
        }
        if value.str().is_some_and(|text| !is_label_value(text)) {
            value.note(
                "expected at most 63 letters, digits, '-', '_' and '.', starting and ending with a letter or digit",
            );
        }
    }
}

pub(super) fn is_subdomain(text: &str) -> bool {
    let is_part = |part: &str| {
        let inner = part.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
        inner && !part.is_empty() && !part.starts_with('-') && !part.ends_with('-')
    };
    text.len() <= 253 && text.split('.').all(is_part)
}

fn is_label_value(text: &str) -> bool {
    text.is_empty() || is_qualified_name(text)
}

fn is_qualified_name(text: &str) -> bool {
    let inner = text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'));
    let is_end = |c: char| c.is_ascii_alphanumeric();
    inner && text.len() <= 63 && text.starts_with(is_end) && text.ends_with(is_end)
}

/// Whether `key` can be a label's key, or a resource's name: a name, with a prefix or not.
pub(super) fn is_label_key(key: &str) -> bool {
    match key.split_once('/') {
        Some((prefix, name)) => is_subdomain(prefix) && is_qualified_name(name),
        None => is_qualified_name(key),
    }
}
