//! Which field of a message has which number, and what is in it.

use std::collections::HashMap;
use std::sync::LazyLock;

/// How a value is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Text,
    Int,
    Bool,
    Time,
    MicroTime,
    Quantity,
    IntOrString,
    /// JSON inside of what is binary, or bytes: nobody here reads it.
    Raw,
    /// A message, by its place in the layout.
    Message(usize),
}

/// How often a value is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Count {
    One,
    List,
    /// Values by name.
    Map,
    /// JSON has the fields of the message in its place.
    Inline,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Field {
    pub name: &'static str,
    pub number: u32,
    pub form: Form,
    pub count: Count,
    /// JSON leaves it out where it is empty or 0.
    pub is_left_out: bool,
}

/// All messages with their fields, in the order of the text.
pub(super) struct Layout {
    messages: Vec<Vec<Field>>,
    by_name: HashMap<&'static str, usize>,
}

pub(super) static LAYOUT: LazyLock<Layout> = LazyLock::new(|| Layout::read(include_str!("layout.txt")));

impl Layout {
    fn read(text: &'static str) -> Self {
        let lines = || text.lines().filter(|line| !line.starts_with('#'));
        let names = lines().filter(|line| !line.starts_with(' '));
        let by_name: HashMap<&str, usize> = names.enumerate().map(|(place, name)| (name, place)).collect();
        let mut messages: Vec<Vec<Field>> = Vec::with_capacity(by_name.len());
        for line in lines() {
            match line.strip_prefix("  ") {
                None => messages.push(Vec::new()),
                Some(line) => {
                    let field = field(line, &by_name).expect("layout.txt is made by a program; a test reads all of it");
                    messages.last_mut().expect("a field stands below its message").push(field);
                }
            }
        }
        Layout { messages, by_name }
    }

    /// The place of a message.
    pub(super) fn find(&self, name: &str) -> Option<usize> {
        self.by_name.get(name).copied()
    }

    pub(super) fn fields(&self, message: usize) -> &[Field] {
        &self.messages[message]
    }
}

/// A line such as `labels 11 map string?`.
fn field(line: &'static str, messages: &HashMap<&str, usize>) -> Option<Field> {
    let (line, is_left_out) = line.strip_suffix('?').map_or((line, false), |line| (line, true));
    let mut words = line.splitn(3, ' ');
    let (name, number, kind) = (words.next()?, words.next()?.parse().ok()?, words.next()?);
    let (kind, count) = if let Some(kind) = kind.strip_prefix("[]") {
        (kind, Count::List)
    } else if let Some(kind) = kind.strip_prefix("map ") {
        (kind, Count::Map)
    } else if let Some(kind) = kind.strip_prefix("inline ") {
        (kind, Count::Inline)
    } else {
        (kind, Count::One)
    };
    let form = match kind {
        "string" => Form::Text,
        "int" => Form::Int,
        "bool" => Form::Bool,
        "time" => Form::Time,
        "microtime" => Form::MicroTime,
        "quantity" => Form::Quantity,
        "int-or-string" => Form::IntOrString,
        "raw" | "bytes" => Form::Raw,
        message => Form::Message(*messages.get(message)?),
    };
    Some(Field { name, number, form, count, is_left_out })
}
