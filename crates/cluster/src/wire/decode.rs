//! From the binary format to JSON values.

use quotient_api::json::{Dropped, Part};
use quotient_api::time::format_timestamp;
use serde_json::{Map, Value};

use super::MAGIC;
use super::layout::{Count, Form, LAYOUT};

/// What is wrong with bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("it cannot be read: {0}")]
pub struct WireError(pub(super) &'static str);

const ENDS_TOO_SOON: WireError = WireError("it ends too soon");

/// What is read of a message: some of its fields, by their numbers.
#[derive(Debug)]
pub struct Plan(Vec<Option<Field>>);

#[derive(Debug)]
struct Field {
    name: &'static str,
    form: Form,
    count: Count,
    is_left_out: bool,
    /// What is read of the message that it is.
    inner: Plan,
}

impl Plan {
    /// All of a kind of object but what is dropped; `None` where its layout is not known.
    pub fn of(kind: &str, dropped: &'static [Dropped]) -> Option<Self> {
        LAYOUT.find(kind).map(|message| Plan::of_message(message, dropped))
    }

    fn of_message(message: usize, dropped: &'static [Dropped]) -> Self {
        let mut plan = Plan(Vec::new());
        for field in LAYOUT.fields(message) {
            let part = dropped.iter().find(|dropped| dropped.key == field.name).map(|dropped| dropped.part);
            let inside = match part {
                Some(Part::All) => continue,
                Some(Part::Inside(inside)) => inside,
                // What stands inline is dropped by the same names.
                None if field.count == Count::Inline => dropped,
                None | Some(Part::If(_) | Part::Items(_)) => &[],
            };
            let inner = match field.form {
                Form::Raw => continue,
                Form::Message(message) => Plan::of_message(message, inside),
                _ => Plan(Vec::new()),
            };
            let number = field.number as usize;
            plan.0.resize_with(plan.0.len().max(number + 1), || None);
            let (name, form, count, is_left_out) = (field.name, field.form, field.count, field.is_left_out);
            plan.0[number] = Some(Field { name, form, count, is_left_out, inner });
        }
        plan
    }

    fn field(&self, number: u64) -> Option<&Field> {
        self.0.get(usize::try_from(number).ok()?)?.as_ref()
    }

    /// Reads an object that stands by itself.
    pub fn read(&self, bytes: &[u8]) -> Result<Value, WireError> {
        self.read_bare(unwrapped(bytes)?)
    }

    /// Reads an object in a list, which does not say of itself what it is.
    pub fn read_bare(&self, bytes: &[u8]) -> Result<Value, WireError> {
        Unfinished(Vec::new()).message(self, bytes)
    }
}

/// The message inside of what begins with the magic bytes.
pub(super) fn unwrapped(bytes: &[u8]) -> Result<&[u8], WireError> {
    const RAW: u64 = 2;
    let bytes = bytes.strip_prefix(MAGIC).ok_or(WireError("it does not begin as Kubernetes' binary format does"))?;
    let mut reading = Reading(bytes);
    while let Some((number, part)) = reading.next()? {
        if let (RAW, Wire::Bytes(raw)) = (number, part) {
            return Ok(raw);
        }
    }
    Ok(&[])
}

/// What stands behind a number.
#[derive(Debug, Clone, Copy)]
pub enum Wire<'a> {
    Number(u64),
    Bytes(&'a [u8]),
    /// Of a form that Kubernetes does not use.
    Other,
}

/// The fields of a message, one after the other.
#[derive(Debug, Clone, Copy)]
pub struct Reading<'a>(&'a [u8]);

impl<'a> Reading<'a> {
    /// The message inside of an answer.
    pub fn of_answer(bytes: &'a [u8]) -> Result<Self, WireError> {
        unwrapped(bytes).map(Reading)
    }

    /// A message that is part of something.
    pub fn of_message(bytes: &'a [u8]) -> Self {
        Reading(bytes)
    }

    /// What was not read yet.
    pub fn rest(&self) -> &'a [u8] {
        self.0
    }

    fn byte(&mut self) -> Result<u8, WireError> {
        let (first, rest) = self.0.split_first().ok_or(ENDS_TOO_SOON)?;
        self.0 = rest;
        Ok(*first)
    }

    fn number(&mut self) -> Result<u64, WireError> {
        let mut number = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(WireError("a number has more than 64 bits"))
    }

    fn bytes(&mut self, length: u64) -> Result<&'a [u8], WireError> {
        let length = usize::try_from(length).map_err(|_| ENDS_TOO_SOON)?;
        let (bytes, rest) = self.0.split_at_checked(length).ok_or(ENDS_TOO_SOON)?;
        self.0 = rest;
        Ok(bytes)
    }

    /// The next field: its number, and what is there.
    #[expect(clippy::should_implement_trait, reason = "it may fail, and is no iterator")]
    pub fn next(&mut self) -> Result<Option<(u64, Wire<'a>)>, WireError> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let tag = self.number()?;
        let wire = match tag & 7 {
            0 => Wire::Number(self.number()?),
            1 => self.bytes(8).map(|_| Wire::Other)?,
            2 => {
                let length = self.number()?;
                Wire::Bytes(self.bytes(length)?)
            }
            5 => self.bytes(4).map(|_| Wire::Other)?,
            _ => return Err(WireError("a field is of no known form")),
        };
        Ok(Some((tag >> 3, wire)))
    }
}

/// The fields of messages whose ends were not reached yet, the innermost last: a map is made once all of its are known.
struct Unfinished(Vec<(&'static str, Value)>);

impl Unfinished {
    fn message(&mut self, plan: &Plan, bytes: &[u8]) -> Result<Value, WireError> {
        let first = self.0.len();
        self.fields(plan, bytes, first)?;
        let mut map = Map::with_capacity(self.0.len() - first);
        for (name, mut value) in self.0.drain(first..) {
            // Lists grew item by item, and have up to three times the room that they need.
            if let Value::Array(items) = &mut value {
                items.shrink_to_fit();
            }
            map.insert(name.to_owned(), value);
        }
        Ok(Value::Object(map))
    }

    /// Adds the fields of a message to those of the map that began at `first`.
    fn fields(&mut self, plan: &Plan, bytes: &[u8], first: usize) -> Result<(), WireError> {
        let mut reading = Reading(bytes);
        while let Some((number, wire)) = reading.next()? {
            let Some(field) = plan.field(number) else { continue };
            match (field.count, wire) {
                (Count::Inline, Wire::Bytes(bytes)) => self.fields(&field.inner, bytes, first)?,
                (Count::Map, Wire::Bytes(bytes)) => {
                    let (key, value) = self.entry(field, bytes)?;
                    let Value::Object(map) = self.slot(first, field.name, Value::Object(Map::new())) else { continue };
                    map.insert(key, value);
                }
                (Count::List, wire) => {
                    let value = self.value(field, wire)?;
                    let Value::Array(items) = self.slot(first, field.name, Value::Array(Vec::new())) else { continue };
                    items.push(value);
                }
                (_, wire) => {
                    let value = self.value(field, wire)?;
                    if !(value.is_null() || field.is_left_out && is_empty(&value)) {
                        self.0.push((field.name, value));
                    }
                }
            }
        }
        Ok(())
    }

    /// The list or map of a field of the map that began at `first`; one that is not there yet is made.
    fn slot(&mut self, first: usize, name: &'static str, empty: Value) -> &mut Value {
        let found = self.0[first..].iter().rposition(|(known, _)| *known == name);
        let place = found.map_or(self.0.len(), |place| first + place);
        if found.is_none() {
            self.0.push((name, empty));
        }
        &mut self.0[place].1
    }

    /// A key with its value, which are a message of two fields.
    fn entry(&mut self, field: &Field, bytes: &[u8]) -> Result<(String, Value), WireError> {
        let (mut key, mut value) = (String::new(), Value::String(String::new()));
        let mut reading = Reading(bytes);
        while let Some((number, wire)) = reading.next()? {
            match (number, wire) {
                (1, Wire::Bytes(bytes)) => key = text(bytes),
                (2, wire) => value = self.value(field, wire)?,
                _ => {}
            }
        }
        Ok((key, value))
    }

    fn value(&mut self, field: &Field, wire: Wire<'_>) -> Result<Value, WireError> {
        Ok(match (field.form, wire) {
            (Form::Text, Wire::Bytes(bytes)) => Value::String(text(bytes)),
            (Form::Int, Wire::Number(number)) => Value::Number(number.cast_signed().into()),
            (Form::Bool, Wire::Number(number)) => Value::Bool(number != 0),
            (Form::Message(_), Wire::Bytes(bytes)) => self.message(&field.inner, bytes)?,
            (Form::Quantity, Wire::Bytes(bytes)) => quantity(bytes)?,
            (Form::Time, Wire::Bytes(bytes)) => time(bytes, false)?,
            (Form::MicroTime, Wire::Bytes(bytes)) => time(bytes, true)?,
            (Form::IntOrString, Wire::Bytes(bytes)) => int_or_string(bytes)?,
            _ => return Err(WireError("a field is of another form than it should be")),
        })
    }
}

/// Whether JSON leaves a value out that may be.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(is) => !is,
        Value::Number(number) => number.as_i64() == Some(0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn quantity(bytes: &[u8]) -> Result<Value, WireError> {
    let mut reading = Reading(bytes);
    let mut amount = String::new();
    while let Some((number, wire)) = reading.next()? {
        if let (1, Wire::Bytes(bytes)) = (number, wire) {
            amount = text(bytes);
        }
    }
    Ok(Value::String(amount))
}

/// A time; one that was never set is nothing.
fn time(bytes: &[u8], has_micros: bool) -> Result<Value, WireError> {
    let (mut seconds, mut nanos) = (0i64, 0i64);
    let mut reading = Reading(bytes);
    while let Some((number, wire)) = reading.next()? {
        match (number, wire) {
            (1, Wire::Number(number)) => seconds = number.cast_signed(),
            (2, Wire::Number(number)) => nanos = number.cast_signed(),
            _ => {}
        }
    }
    if (seconds, nanos) == (0, 0) {
        return Ok(Value::Null);
    }
    if !has_micros {
        return Ok(Value::String(format_timestamp(seconds.saturating_mul(1_000_000))));
    }
    let micros = (nanos / 1000).clamp(0, 999_999);
    let whole = format_timestamp(seconds.saturating_mul(1_000_000));
    Ok(Value::String(format!("{}.{micros:06}Z", whole.trim_end_matches('Z'))))
}

fn int_or_string(bytes: &[u8]) -> Result<Value, WireError> {
    let (mut is_text, mut int, mut string) = (false, 0, String::new());
    let mut reading = Reading(bytes);
    while let Some((number, wire)) = reading.next()? {
        match (number, wire) {
            (1, Wire::Number(number)) => is_text = number == 1,
            (2, Wire::Number(number)) => int = number.cast_signed(),
            (3, Wire::Bytes(bytes)) => string = text(bytes),
            _ => {}
        }
    }
    Ok(if is_text { Value::String(string) } else { Value::Number(int.into()) })
}
