//! From JSON values to the binary format.

use quotient_api::time::parse_timestamp;
use serde_json::Value;

use super::MAGIC;
use super::layout::{Count, Field, Form, LAYOUT};

/// An object that says what it is, in the binary format. `None`: something about it is not in the layout, or not of the
/// form that it should be; then it goes as text, and the API server says what is wrong with it.
pub fn encode(object: &Value) -> Option<Vec<u8>> {
    let text = |field: &str| object.get(field).and_then(Value::as_str);
    let (api_version, kind) = (text("apiVersion")?, text("kind")?);
    // The layout is that of the core group, where names are not taken twice.
    if api_version != "v1" {
        return None;
    }
    let content = message(LAYOUT.find(kind)?, object, &["apiVersion", "kind"])?;
    let mut what = Vec::new();
    part(&mut what, 1, api_version.as_bytes());
    part(&mut what, 2, kind.as_bytes());
    let mut bytes = Vec::with_capacity(MAGIC.len() + what.len() + content.len() + 16);
    bytes.extend_from_slice(MAGIC);
    part(&mut bytes, 1, &what);
    part(&mut bytes, 2, &content);
    Some(bytes)
}

/// The fields of a message, but for those that are said elsewhere.
fn message(message: usize, object: &Value, besides: &[&str]) -> Option<Vec<u8>> {
    let fields = object.as_object()?;
    let mut bytes = Vec::with_capacity(128);
    let mut written = 0;
    for field in LAYOUT.fields(message) {
        // Of what stands inline nobody here writes anything.
        let Some(found) = fields.get(field.name) else { continue };
        written += 1;
        if !found.is_null() {
            write(&mut bytes, field, found)?;
        }
    }
    let said_elsewhere = besides.iter().filter(|name| fields.contains_key(**name)).count();
    (written + said_elsewhere == fields.len()).then_some(bytes)
}

fn write(bytes: &mut Vec<u8>, field: &Field, found: &Value) -> Option<()> {
    match field.count {
        Count::One => value(bytes, field.number, field.form, found),
        Count::List => found.as_array()?.iter().try_for_each(|item| value(bytes, field.number, field.form, item)),
        Count::Map => found.as_object()?.iter().try_for_each(|(key, found)| {
            let mut entry = Vec::new();
            part(&mut entry, 1, key.as_bytes());
            value(&mut entry, 2, field.form, found)?;
            part(bytes, field.number, &entry);
            Some(())
        }),
        Count::Inline => None,
    }
}

fn value(bytes: &mut Vec<u8>, at: u32, form: Form, found: &Value) -> Option<()> {
    match form {
        Form::Text => part(bytes, at, found.as_str()?.as_bytes()),
        Form::Int => number(bytes, at, found.as_i64()?),
        Form::Bool => number(bytes, at, found.as_bool()?.into()),
        Form::Message(inner) => part(bytes, at, &message(inner, found, &[])?),
        Form::Time | Form::MicroTime => {
            let micros = parse_timestamp(found.as_str()?).ok()?;
            let mut time = Vec::new();
            number(&mut time, 1, micros.div_euclid(1_000_000));
            number(&mut time, 2, micros.rem_euclid(1_000_000) * 1000);
            part(bytes, at, &time);
        }
        Form::Quantity | Form::IntOrString | Form::Raw => return None,
    }
    Some(())
}

fn part(bytes: &mut Vec<u8>, at: u32, content: &[u8]) {
    varint(bytes, u64::from(at) << 3 | 2);
    varint(bytes, content.len() as u64);
    bytes.extend_from_slice(content);
}

fn number(bytes: &mut Vec<u8>, at: u32, number: i64) {
    varint(bytes, u64::from(at) << 3);
    varint(bytes, number.cast_unsigned());
}

fn varint(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}
