//! A page of a list, whose objects are read one by one: the list of a large cluster takes much more room than its
//! bytes, and what cannot be read of one object says nothing about the others.

use std::ops::Range;

use hyper::body::Bytes;
use quotient_api::field;
use quotient_host::watched::Event;
use serde_json::{Value, json};

use super::spans::{fields, find, items};
use super::{Form, plan_of};
use crate::thin::Thin;
use crate::wire::{Reading, Wire, WireError};

/// Objects of a page that were not told of yet.
pub(super) enum Items {
    Binary { bytes: Bytes, read: usize },
    Text { text: String, spans: std::vec::IntoIter<Range<usize>> },
}

impl Items {
    /// The next object, or what is known of one that cannot be read.
    pub(super) fn next(&mut self, form: &Form) -> Result<Option<Event>, WireError> {
        const ITEM: u64 = 2;
        match (self, form) {
            (Items::Text { text, spans }, _) => Ok(spans.next().map(|span| match read(&text[span]) {
                Ok(object) => Event::Item(object),
                Err(Unreadable { known, why }) => Event::Unreadable(known, why),
            })),
            (Items::Binary { bytes, read }, Form::Binary(plan)) => {
                let mut reading = Reading::of_message(&bytes[*read..]);
                while let Some((number, part)) = reading.next()? {
                    *read = bytes.len() - reading.rest().len();
                    if let (ITEM, Wire::Bytes(item)) = (number, part) {
                        return plan.read_bare(item).map(|object| Some(Event::Item(object)));
                    }
                }
                Ok(None)
            }
            // It was asked for as text since: the list begins anew.
            (Items::Binary { .. }, Form::Text) => Ok(None),
        }
    }
}

/// An object that cannot be read.
pub(super) struct Unreadable {
    /// Its name, and the version that it is of.
    pub known: Value,
    pub why: String,
}

/// Reads an object by itself.
pub(super) fn read(text: &str) -> Result<Value, Unreadable> {
    let error = match serde_json::from_str::<Thin>(text) {
        Ok(Thin(object)) => return Ok(object),
        Err(error) => error,
    };
    let of_object = fields(text).unwrap_or_default();
    let metadata = find(&of_object, "metadata").and_then(fields).unwrap_or_default();
    let mut known = json!({});
    for key in ["namespace", "name", "resourceVersion"] {
        if let Some(value) = find(&metadata, key).and_then(|value| serde_json::from_str::<String>(value).ok()) {
            known[key] = Value::String(value);
        }
    }
    Err(Unreadable { known: json!({"metadata": known}), why: error.to_string() })
}

/// The objects of a page, its version, and how to ask for the next one.
pub(super) type Page = (Items, String, String);

pub(super) fn binary(bytes: &Bytes) -> Result<Page, WireError> {
    const METADATA: u64 = 1;
    let list = bytes.slice_ref(Reading::of_answer(bytes)?.rest());
    let (mut reading, mut metadata) = (Reading::of_message(&list), Value::Null);
    while let Some((number, part)) = reading.next()? {
        if let (METADATA, Wire::Bytes(part)) = (number, part) {
            metadata = plan_of("ListMeta").read_bare(part)?;
        }
    }
    let (version, token) = position(&metadata);
    Ok((Items::Binary { bytes: list.clone(), read: 0 }, version, token))
}

/// A page as text; the error is what is wrong with it.
pub(super) fn text(bytes: Bytes) -> Result<Page, String> {
    // What a server keeps as it came may be no UTF-8.
    let text =
        String::from_utf8(bytes.into()).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
    let found = fields(&text).ok_or_else(|| beginning(&text))?;
    let metadata = find(&found, "metadata").map(serde_json::from_str::<Value>).transpose();
    let (version, token) = position(&metadata.map_err(|error| error.to_string())?.unwrap_or_default());
    // A list without items has none, or null.
    let list = match find(&found, "items") {
        None | Some("null") => Vec::new(),
        Some(list) => items(list).ok_or("its items are no list")?,
    };
    let begins = text.as_ptr() as usize;
    let span = |item: &str| {
        let begin = item.as_ptr() as usize - begins;
        begin..begin + item.len()
    };
    let spans: Vec<Range<usize>> = list.into_iter().map(span).collect();
    Ok((Items::Text { text, spans: spans.into_iter() }, version, token))
}

fn position(metadata: &Value) -> (String, String) {
    let text = |field: &str| field::text(metadata, field).unwrap_or_default().to_owned();
    (text("/resourceVersion"), text("/continue"))
}

/// How a text that is not what it should be begins.
pub(super) fn beginning(text: &str) -> String {
    const SHOWN: usize = 40;
    let begins: String = text.chars().take(SHOWN).map(|c| if c.is_control() { ' ' } else { c }).collect();
    format!("it is no JSON object, and begins {begins:?}")
}
