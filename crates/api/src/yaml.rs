//! YAML as JSON values, document by document.
//!
//! Values are built from the parser's events instead of through serde, for three reasons: a document
//! that is broken does not cost the ones after it, every document has its line, and numbers keep their
//! text where a binary floating-point number could not (quantities must come through exactly).
//!
//! Scalars are read by the core schema of YAML 1.2: `yes`, `on` and `n` are texts, `true` is not. A
//! whole number with leading zeroes is a text, because parsers do not agree what it is.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

use rustc_hash::FxHashSet;
use serde_json::{Map, Number, Value};
use serde_saphyr::granit_parser::{Event, Parser, ScalarStyle, Span};

use crate::thin::{self, Kept};

/// A place in a text, both counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Position {
    pub line: usize,
    pub column: usize,
}

impl From<Span> for Position {
    fn from(span: Span) -> Self {
        Position { line: span.start.line(), column: span.start.col() + 1 }
    }
}

/// What is wrong with a text, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    pub position: Position,
    pub message: String,
    /// The document is two that were joined without a line of `---` between them.
    pub joined: bool,
}

/// The lines on which the parts of a document stand, by path (`spec.steps[0].name`).
pub type Lines = BTreeMap<String, usize>;

/// How much of a document is located.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Locate {
    /// The items of a list of objects.
    Items,
    /// Every key and item; for small files of our own.
    All,
}

/// A document.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Located {
    /// Its first line.
    pub line: usize,
    pub value: Value,
    pub lines: Lines,
}

/// One document, or what is wrong with it.
pub(crate) type Parsed = Result<Located, Fault>;

/// The most values that aliases may stand for in one text. Real manifests stay far below; a text made
/// of aliases to aliases does not get to fill the memory.
const ALIASED_VALUES_MAX: usize = 100_000;

/// Reads all documents of a text. Empty ones are left out.
pub(crate) fn parse(text: &str, locate: Locate) -> Vec<Parsed> {
    parts::parse(text, locate).unwrap_or_else(|| parse_whole(text, locate, Kept::Comparable, &mut 0))
}

fn parse_whole(text: &str, locate: Locate, kept: Kept, aliased_values: &mut usize) -> Vec<Parsed> {
    let mut parser = Parser::new_from_str(text);
    let mut documents = Vec::new();
    let mut builder = Builder::new(aliased_values, locate, kept);
    loop {
        let fault = match parser.next_event() {
            None => break,
            Some(Err(error)) => {
                let marker = error.marker();
                let position = Position { line: marker.line(), column: marker.col() + 1 };
                Fault { position, message: format!("not YAML: {}", error.info()), joined: false }
            }
            Some(Ok((event, span))) => match builder.take(event, span.into()) {
                Err(fault) => fault,
                Ok(None) => continue,
                Ok(Some(Located { value: Value::Null, .. })) => continue,
                Ok(Some(document)) => {
                    documents.push(Ok(document));
                    continue;
                }
            },
        };
        documents.push(Err(fault));
        builder.abandon();
        if !parser.proceed_next_document().unwrap_or(false) {
            break;
        }
    }
    documents
}

/// A list or map whose end has not been seen.
#[derive(Debug)]
struct Open {
    anchor: usize,
    values: OpenValues,
}

#[derive(Debug)]
enum OpenValues {
    List(Vec<Value>),
    /// `merged` are the maps under `<<`, whose fields count where the map itself has none.
    Map {
        fields: Fields,
        key: Option<String>,
        merged: Vec<Map<String, Value>>,
    },
}

/// The fields of a map whose end has not been seen: a map is made once, with as much room as it needs.
#[derive(Debug, Default)]
struct Fields {
    list: Vec<(String, Value)>,
    /// Their names, once they are many.
    names: FxHashSet<String>,
}

/// The most fields that are looked through one after the other.
const FEW: usize = 32;

impl Fields {
    fn contains(&self, name: &str) -> bool {
        match self.names.is_empty() {
            true => self.list.iter().any(|(known, _)| known == name),
            false => self.names.contains(name),
        }
    }

    fn push(&mut self, name: String, value: Value) {
        if self.list.len() == FEW {
            self.names.extend(self.list.iter().map(|(known, _)| known.clone()));
        }
        if self.list.len() >= FEW {
            self.names.insert(name.clone());
        }
        self.list.push((name, value));
    }

    fn close(self) -> Map<String, Value> {
        let mut map = Map::with_capacity(self.list.len());
        map.extend(self.list);
        map
    }
}

/// A document under construction.
#[derive(Debug)]
struct Builder<'a> {
    open: Vec<Open>,
    root: Option<Value>,
    line: usize,
    /// Values that have an anchor, with how many values they consist of.
    anchors: HashMap<usize, (Value, usize)>,
    aliased_values: &'a mut usize,
    locate: Locate,
    /// How much is kept of pods that an API server has made.
    kept: Kept,
    lines: Lines,
    /// The key that was given twice is one that every object has once.
    joined: bool,
}

/// Fields that an object has once. One that is given twice at the top of a document starts another object.
const TOP_FIELDS: [&str; 4] = ["apiVersion", "kind", "metadata", "spec"];

impl<'a> Builder<'a> {
    fn new(aliased_values: &'a mut usize, locate: Locate, kept: Kept) -> Self {
        let (anchors, lines) = (HashMap::new(), Lines::new());
        Builder { open: Vec::new(), root: None, line: 1, anchors, aliased_values, locate, kept, lines, joined: false }
    }

    /// Forgets the document.
    fn abandon(&mut self) {
        self.open.clear();
        self.root = None;
        self.anchors.clear();
        self.lines.clear();
        self.joined = false;
    }

    /// The path of the value that comes next.
    fn path(&self) -> String {
        let mut path = String::new();
        for Open { values, .. } in &self.open {
            match values {
                OpenValues::List(items) => path += &format!("[{}]", items.len()),
                OpenValues::Map { key, .. } => {
                    let key = key.as_deref().unwrap_or_default();
                    path += if path.is_empty() { "" } else { "." };
                    path += key;
                }
            }
        }
        path
    }

    /// Whether the value that comes next is an item of a list of objects.
    fn is_item_next(&self) -> bool {
        match &self.open[..] {
            [Open { values: OpenValues::Map { key, .. }, .. }, Open { values: OpenValues::List(_), .. }] => {
                key.as_deref() == Some("items")
            }
            _ => false,
        }
    }

    /// Notes where a value or a key stands. Of a list of objects only its items are located: a dump has millions of
    /// keys.
    fn locate(&mut self, position: Position) {
        if self.locate == Locate::All || self.is_item_next() {
            let path = self.path();
            self.lines.entry(path).or_insert(position.line);
        }
    }

    /// Takes in an event. At the end of a document, gives it.
    fn take(&mut self, event: Event<'_>, position: Position) -> Result<Option<Located>, Fault> {
        self.build(event, position).map_err(|message| Fault { position, message, joined: self.joined })
    }

    fn build(&mut self, event: Event<'_>, position: Position) -> Result<Option<Located>, String> {
        if self.root.is_none() && self.open.is_empty() && event.is_node() {
            self.line = position.line;
        }
        if event.is_node() && !self.expects_key() {
            self.locate(position);
        }
        match event {
            Event::DocumentEnd => {
                let (value, lines) = (self.root.take(), std::mem::take(&mut self.lines));
                self.abandon();
                return Ok(value.map(|value| Located { line: self.line, value, lines }));
            }
            Event::Scalar(text, style, anchor, tag) => {
                let tag = tag.as_deref().and_then(|tag| tag.core_suffix().map(str::to_string));
                let plain = style == ScalarStyle::Plain && tag.is_none();
                if self.expects_key() {
                    let key = exact(text);
                    if anchor != 0 {
                        self.anchors.insert(anchor, (Value::String(key.clone()), 1));
                    }
                    self.key(key, style == ScalarStyle::Plain)?;
                    // A key is found on its own line, though its value may start on the next.
                    if self.locate == Locate::All {
                        self.locate(position);
                    }
                    return Ok(None);
                }
                let value = match (plain, tag.as_deref()) {
                    (true, _) | (_, Some("int" | "float" | "bool" | "null")) => scalar(&text),
                    _ => Value::String(exact(text)),
                };
                self.value(value, anchor)?;
            }
            Event::SequenceStart(_, anchor, _) => {
                self.refuse_key()?;
                self.open.push(Open { anchor, values: OpenValues::List(Vec::new()) });
            }
            Event::MappingStart(_, anchor, _) => {
                self.refuse_key()?;
                let values = OpenValues::Map { fields: Fields::default(), key: None, merged: Vec::new() };
                self.open.push(Open { anchor, values });
            }
            Event::SequenceEnd | Event::MappingEnd => {
                if let Some(Open { anchor, values }) = self.open.pop() {
                    self.value(values.close(), anchor)?;
                }
            }
            Event::Alias(anchor) => {
                // An alias within the value it stands for finds no value yet.
                let Some((value, count)) = self.anchors.get(&anchor).cloned() else {
                    return Err("an alias stands for a value that contains it".into());
                };
                *self.aliased_values += count;
                if *self.aliased_values > ALIASED_VALUES_MAX {
                    return Err(format!("aliases stand for more than {ALIASED_VALUES_MAX} values"));
                }
                match (self.expects_key(), value) {
                    (true, Value::String(key)) => self.key(key, false)?,
                    (true, _) => return Err("a key must be a text".into()),
                    (false, value) => self.value(value, 0)?,
                }
            }
            _ => {}
        }
        Ok(None)
    }

    fn expects_key(&self) -> bool {
        matches!(self.open.last(), Some(Open { values: OpenValues::Map { key: None, .. }, .. }))
    }

    fn refuse_key(&self) -> Result<(), String> {
        if self.expects_key() { Err("a key must be a text, not a list or a map".into()) } else { Ok(()) }
    }

    fn key(&mut self, text: String, plain: bool) -> Result<(), String> {
        let is_top = self.open.len() == 1;
        if let Some(Open { values: OpenValues::Map { fields, key, .. }, .. }) = self.open.last_mut() {
            // Templating leaves `<<` only where a merge is meant; in quotes it is a key like any other.
            if fields.contains(&text) && !(plain && text == "<<") {
                self.joined = is_top && TOP_FIELDS.contains(&text.as_str());
                let why =
                    if self.joined { ": two documents are joined without a line of \"---\" between them" } else { "" };
                return Err(format!("the key {text:?} is given twice{why}"));
            }
            *key = Some(text);
        }
        Ok(())
    }

    fn value(&mut self, value: Value, anchor: usize) -> Result<(), String> {
        if anchor != 0 {
            let count = count(&value);
            self.anchors.insert(anchor, (value.clone(), count));
        }
        let value = if self.open.is_empty() || self.is_item_next() { thin::thin(value, self.kept) } else { value };
        match self.open.last_mut().map(|open| &mut open.values) {
            None => self.root = Some(value),
            Some(OpenValues::List(items)) => items.push(value),
            Some(OpenValues::Map { fields, key, merged }) => match (key.take().unwrap_or_default(), value) {
                (key, Value::Object(other)) if key == "<<" => merged.push(other),
                (key, Value::Array(items)) if key == "<<" => {
                    for item in items {
                        let Value::Object(other) = item else {
                            return Err("\"<<\" takes a map or a list of maps".into());
                        };
                        merged.push(other);
                    }
                }
                (key, _) if key == "<<" => return Err("\"<<\" takes a map or a list of maps".into()),
                (key, value) => fields.push(key, value),
            },
        }
        Ok(())
    }
}

impl OpenValues {
    fn close(self) -> Value {
        match self {
            OpenValues::List(mut items) => {
                items.shrink_to_fit();
                Value::Array(items)
            }
            OpenValues::Map { fields, merged, .. } => {
                let mut map = fields.close();
                for (key, value) in merged.into_iter().flatten() {
                    map.entry(key).or_insert(value);
                }
                Value::Object(map)
            }
        }
    }
}

/// A text without room to spare: the parser makes some of them character by character.
fn exact(text: Cow<'_, str>) -> String {
    let mut text = text.into_owned();
    text.shrink_to_fit();
    text
}

/// How many values a value consists of, itself included.
fn count(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(count).sum(),
        Value::Object(map) => map.values().map(count).sum(),
        _ => 0,
    }
}

/// The value of a plain scalar, by YAML's core schema.
fn scalar(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" => Value::Bool(true),
        "false" | "False" | "FALSE" => Value::Bool(false),
        _ => number(text).map_or_else(|| Value::String(text.to_string()), Value::Number),
    }
}

/// Decimal digits up to which every number survives a binary floating-point number of 64 bits.
const FLOAT_DIGITS_MAX: usize = 15;

/// The number that a plain scalar is, if it is one that JSON's numbers hold exactly. Others stay texts.
fn number(text: &str) -> Option<Number> {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    if let Some(hex) = text.strip_prefix("0x") {
        return u64::from_str_radix(hex, 16).ok().filter(|_| !hex.starts_with('+')).map(Number::from);
    }
    if let Some(octal) = text.strip_prefix("0o") {
        return u64::from_str_radix(octal, 8).ok().filter(|_| !octal.starts_with('+')).map(Number::from);
    }
    if !unsigned.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        return None;
    }
    if unsigned.bytes().all(|b| b.is_ascii_digit()) {
        if unsigned.len() > 1 && unsigned.starts_with('0') {
            return None;
        }
        let text = text.strip_prefix('+').unwrap_or(text);
        return text.parse::<i64>().map(Number::from).or_else(|_| text.parse::<u64>().map(Number::from)).ok();
    }
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()?),
        None => (unsigned, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = whole.len() + fraction.len();
    let only_digits = whole.bytes().chain(fraction.bytes()).all(|b| b.is_ascii_digit());
    if !only_digits || digits == 0 || digits > FLOAT_DIGITS_MAX || exponent.abs() > 200 {
        return None;
    }
    text.parse::<f64>().ok().and_then(Number::from_f64)
}

mod parts;
pub(crate) use parts::Pieces;
#[cfg(test)]
mod tests;
