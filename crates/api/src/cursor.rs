//! Looking into an object, field by field, and noting what cannot be read.
//!
//! A cursor is a place in a JSON value that knows its path. Reading never fails: what is absent is
//! `None`, what is there but of the wrong kind is `None` and a note, so that one bad field costs that
//! field and nothing else.

use std::cell::RefCell;
use std::fmt;

use quotient_engine::fact::Amount;
use quotient_engine::quantity::{Quantity, QuantityError};
use serde_json::Value;

use crate::field;

/// One field that could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Note {
    pub field: String,
    pub value: Option<String>,
    pub message: String,
}

impl Note {
    fn is_of_spec(&self) -> bool {
        self.field == "spec" || self.field.starts_with("spec.") || self.field.starts_with("spec[")
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        crate::problem::Problem::from(self.clone()).fmt(f)
    }
}

/// What could not be read so far, each field once.
#[derive(Debug, Default)]
pub(crate) struct Notes(RefCell<Vec<Note>>);

/// The most notes kept for one object: enough to mend it, and a bound on what a hostile one costs.
const NOTES_MAX: usize = 32;

/// The longest value that a note shows.
const VALUE_BYTES_MAX: usize = 200;

impl Notes {
    fn push(&self, note: Note) {
        let mut notes = self.0.borrow_mut();
        // The first about the spec is kept in any case: a pod must not run by a spec that was not read.
        let has_room = notes.len() < NOTES_MAX || (note.is_of_spec() && !notes.iter().any(Note::is_of_spec));
        if has_room && notes.iter().all(|n| n.field != note.field) {
            notes.push(note);
        }
    }

    pub fn is_empty(&self) -> bool {
        self.0.borrow().is_empty()
    }

    pub fn into_vec(self) -> Vec<Note> {
        self.0.into_inner()
    }

    /// The first note about a field of the spec, if any.
    pub fn first_of_spec(&self) -> Option<Note> {
        self.0.borrow().iter().find(|note| note.is_of_spec()).cloned()
    }
}

/// The way from the object to a place in it.
#[derive(Debug, Clone, Copy)]
enum Path<'p> {
    Root,
    Field(&'p Path<'p>, &'p str),
    Item(&'p Path<'p>, usize),
}

impl fmt::Display for Path<'_> {
    /// `spec.containers[0].image`; keys that are no plain names stand in brackets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Path::Root => Ok(()),
            Path::Item(parent, index) => write!(f, "{parent}[{index}]"),
            Path::Field(parent, name) if name.contains(['.', '/', '[', ' ']) => write!(f, "{parent}[{name:?}]"),
            Path::Field(Path::Root, name) => f.write_str(name),
            Path::Field(parent, name) => write!(f, "{parent}.{name}"),
        }
    }
}

/// A place in an object. `null` counts as absent, as it does for Kubernetes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cursor<'v, 'p> {
    value: Option<&'v Value>,
    path: Path<'p>,
    notes: &'p Notes,
}

impl<'v, 'p> Cursor<'v, 'p> {
    /// The object itself.
    pub fn root(value: &'v Value, notes: &'p Notes) -> Self {
        Cursor { value: Some(value), path: Path::Root, notes }
    }

    /// What stands here.
    pub fn value(&self) -> Option<&'v Value> {
        self.value
    }

    /// Whether anything stands here.
    pub fn exists(&self) -> bool {
        self.value.is_some()
    }

    /// Whether something was noted, here or elsewhere.
    pub fn has_notes(&self) -> bool {
        !self.notes.is_empty()
    }

    /// Notes that what stands here cannot be used.
    pub fn note(&self, message: impl Into<String>) {
        // A whole object says less about where the mistake is than its path does.
        let value = self.value.map(ToString::to_string).filter(|text| text.len() <= VALUE_BYTES_MAX);
        self.notes.push(Note { field: self.path.to_string(), value, message: message.into() });
    }

    /// Notes that something is missing in what stands here.
    pub fn note_missing(&self, name: &str, message: &str) {
        let path = Path::Field(&self.path, name);
        self.notes.push(Note { field: path.to_string(), value: None, message: format!("missing: {message}") });
    }

    /// Notes something about the field `name` of what stands here, whether it is there or not.
    pub fn note_at(&self, name: &str, message: String) {
        let path = Path::Field(&self.path, name);
        self.notes.push(Note { field: path.to_string(), value: None, message });
    }

    /// The field `name` of the map that stands here.
    pub fn field<'s>(&'s self, name: &'s str) -> Cursor<'v, 's> {
        let value = match self.value {
            Some(Value::Object(map)) => field::get(map, name).filter(|v| !v.is_null()),
            Some(_) => {
                self.note("expected a map");
                None
            }
            None => None,
        };
        Cursor { value, path: Path::Field(&self.path, name), notes: self.notes }
    }

    /// The elements of the list that stands here.
    pub fn items<'s>(&'s self) -> impl Iterator<Item = Cursor<'v, 's>> {
        let items: &'v [Value] = match self.value {
            Some(Value::Array(items)) => items,
            Some(_) => {
                self.note("expected a list");
                &[]
            }
            None => &[],
        };
        items.iter().enumerate().map(|(i, value)| Cursor {
            value: Some(value).filter(|v| !v.is_null()),
            path: Path::Item(&self.path, i),
            notes: self.notes,
        })
    }

    /// The fields of the map that stands here, with their names, `null` ones left out.
    pub fn entries<'s>(&'s self) -> impl Iterator<Item = (&'v str, Cursor<'v, 's>)>
    where
        'v: 's,
    {
        let map = match self.value {
            Some(Value::Object(map)) => Some(map),
            Some(_) => {
                self.note("expected a map");
                None
            }
            None => None,
        };
        map.into_iter().flatten().filter(|(_, value)| !value.is_null()).map(|(name, value)| {
            let path = Path::Field(&self.path, name);
            (name.as_str(), Cursor { value: Some(value), path, notes: self.notes })
        })
    }

    /// The text that stands here.
    pub fn str(&self) -> Option<&'v str> {
        match self.value? {
            Value::String(text) => Some(text),
            _ => {
                self.note("expected a text (in quotes, if it looks like something else)");
                None
            }
        }
    }

    /// The text that stands here, unless it is empty: empty and absent are one to Kubernetes.
    pub fn non_empty_str(&self) -> Option<&'v str> {
        self.str().filter(|text| !text.is_empty())
    }

    /// The texts of the list that stands here.
    pub fn strs(&self) -> Vec<&'v str> {
        self.items().filter_map(|item| item.str()).collect()
    }

    /// The truth value that stands here.
    pub fn bool(&self) -> Option<bool> {
        match self.value? {
            Value::Bool(value) => Some(*value),
            _ => {
                self.note("expected true or false");
                None
            }
        }
    }

    /// The whole number that stands here, if it is in the range of `T`.
    pub fn int<T: TryFrom<i64>>(&self) -> Option<T> {
        let Some(number) = self.value?.as_i64() else {
            self.note("expected a whole number");
            return None;
        };
        let converted = T::try_from(number).ok();
        if converted.is_none() {
            self.note("is out of range");
        }
        converted
    }

    /// The quantity that stands here, if it is one. What is too large for any quantity is noted too.
    fn parsed_quantity(&self) -> Option<Result<Quantity, QuantityError>> {
        match self.value? {
            Value::String(text) => Some(text.parse()),
            Value::Number(number) => Some(number.to_string().parse()),
            _ => {
                self.note("expected a quantity");
                None
            }
        }
    }

    /// The quantity that stands here. What does not read as one is noted; what reads as one and is
    /// larger than any quantity can be is not, because an API server takes it.
    pub fn quantity(&self) -> Option<Quantity> {
        match self.parsed_quantity()? {
            Ok(quantity) => Some(quantity),
            Err(QuantityError::TooLarge { .. }) => None,
            Err(error) => {
                self.note_of_value(&error.to_string());
                None
            }
        }
    }

    /// The quantity that stands here, as an amount of `resource`. Not below 0.
    pub fn amount(&self, resource: &str) -> Option<Amount> {
        let amount = match self.parsed_quantity()? {
            Ok(quantity) => quantity.amount(resource).map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        match amount {
            Ok(amount) if amount < 0 => {
                self.note("must not be negative");
                None
            }
            Ok(amount) => Some(amount),
            Err(message) => {
                self.note_of_value(&message);
                None
            }
        }
    }

    /// Notes a message that starts with the value, which a note has already.
    fn note_of_value(&self, message: &str) {
        self.note(message.split_once(": ").map_or(message, |(_, rest)| rest));
    }
}
