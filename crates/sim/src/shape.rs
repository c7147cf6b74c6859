//! Our own file formats, read key by key: what nobody asked for is unknown, and is said to be.

use std::time::Duration;

use quotient_api::read::Lines;
use quotient_api::{Problem, time};
use serde_json::{Map, Value};

/// What is wrong with a file, gathered on the way through it.
#[derive(Debug, Default)]
pub struct Problems {
    /// What the file is called.
    pub file: String,
    /// What the problems are of, as `Kind/name`.
    pub object: Option<String>,
    /// The lines of the parts of the object, by path.
    pub lines: Lines,
    /// How the present step is called in paths, and where it stands.
    pub step: Option<(String, String)>,
    pub list: Vec<Problem>,
}

impl Problems {
    /// The file, with the line of the field, or of the nearest part that has it.
    pub fn place(&self, field: &str) -> String {
        let mut path = match &self.step {
            Some((called, stands)) => match field.strip_prefix(called.as_str()) {
                Some(rest) => format!("{stands}.{}", rest.trim_start()),
                None => field.to_owned(),
            },
            None => field.to_owned(),
        };
        loop {
            let trimmed = path.trim_end_matches('.');
            if let Some(line) = self.lines.get(trimmed) {
                return format!("{}:{line}", self.file);
            }
            match trimmed.rfind(['.', '[']) {
                Some(end) => path.truncate(end),
                None => return self.file.clone(),
            }
        }
    }

    /// Notes that what stands at `field` is not what was expected.
    pub fn add(&mut self, field: &str, value: Option<&Value>, message: impl Into<String>) {
        let mut problem = Problem::new(message).in_file(self.place(field)).at_field(field);
        if let Some(object) = &self.object {
            problem = problem.of_object(object);
        }
        if let Some(value) = value {
            problem = problem.with_value(value);
        }
        self.list.push(problem);
    }
}

/// One mapping. Every key that is asked for counts as known; [`Fields::finish`] complains of the others.
#[derive(Debug)]
pub struct Fields<'v, 'p> {
    path: String,
    map: Option<&'v Map<String, Value>>,
    known: Vec<&'static str>,
    pub problems: &'p mut Problems,
}

impl<'v, 'p> Fields<'v, 'p> {
    /// The mapping at `path`. What is none has no keys, and is a problem.
    pub fn of(value: &'v Value, path: impl Into<String>, problems: &'p mut Problems) -> Self {
        let path = path.into();
        let map = value.as_object();
        if map.is_none() {
            problems.add(&path, Some(value), "expected a mapping");
        }
        Fields { path, map, known: Vec::new(), problems }
    }

    /// Where the value under `key` stands.
    pub fn path_of(&self, key: &str) -> String {
        match self.path.as_str() {
            "" => key.to_string(),
            path if path.ends_with(':') => format!("{path} {key}"),
            path => format!("{path}.{key}"),
        }
    }

    /// The value under `key`; `null` is none.
    pub fn value(&mut self, key: &'static str) -> Option<&'v Value> {
        self.known.push(key);
        self.map?.get(key).filter(|value| !value.is_null())
    }

    fn wrong<T>(&mut self, key: &str, value: &Value, expected: &str) -> Option<T> {
        let path = self.path_of(key);
        self.problems.add(&path, Some(value), format!("expected {expected}"));
        None
    }

    /// A text.
    pub fn text(&mut self, key: &'static str) -> Option<&'v str> {
        match self.value(key)? {
            Value::String(text) if !text.is_empty() => Some(text),
            value @ Value::Bool(_) => self.wrong(key, value, "a text: quote it"),
            other => self.wrong(key, other, "a text"),
        }
    }

    /// A text that must be there.
    pub fn needed_text(&mut self, key: &'static str) -> Option<&'v str> {
        if self.map.is_some() && self.value(key).is_none() {
            let path = self.path_of(key);
            self.problems.add(&path, None, "is missing: expected a text");
        }
        self.text(key)
    }

    /// `true` or `false`; absent is `false`.
    pub fn flag(&mut self, key: &'static str) -> bool {
        match self.value(key) {
            None => false,
            Some(Value::Bool(flag)) => *flag,
            Some(other) => self.wrong(key, other, "true or false").unwrap_or(false),
        }
    }

    /// A whole number that is not negative.
    pub fn count(&mut self, key: &'static str) -> Option<usize> {
        let value = self.value(key)?;
        match as_count(value) {
            Some(count) => Some(count),
            None => self.wrong(key, value, "a whole number that is not negative"),
        }
    }

    /// A whole number of 32 bits.
    pub fn integer(&mut self, key: &'static str) -> Option<i32> {
        let value = self.value(key)?;
        match value.as_i64().and_then(|number| i32::try_from(number).ok()) {
            Some(number) => Some(number),
            None => self.wrong(key, value, "a whole number of 32 bits"),
        }
    }

    /// A duration such as `30s`.
    pub fn duration(&mut self, key: &'static str) -> Option<Duration> {
        let value = self.value(key)?;
        match value.as_str().map(time::parse_duration) {
            Some(Ok(duration)) => Some(duration),
            Some(Err(_)) | None => self.wrong(key, value, "a duration such as 30s, 5m or 1h30m"),
        }
    }

    /// The items of a list, with their places; absent is empty.
    pub fn items(&mut self, key: &'static str) -> Vec<(String, &'v Value)> {
        self.given_items(key).unwrap_or_default()
    }

    /// The items of a list, with their places, where one is given.
    pub fn given_items(&mut self, key: &'static str) -> Option<Vec<(String, &'v Value)>> {
        match self.value(key)? {
            Value::Array(items) => {
                let path = self.path_of(key);
                Some(items.iter().enumerate().map(|(index, item)| (format!("{path}[{index}]"), item)).collect())
            }
            other => self.wrong(key, other, "a list"),
        }
    }

    /// The entries of a mapping whose keys are names of the user's own, with their places.
    pub fn entries(&mut self, key: &'static str) -> Vec<(String, &'v str, &'v Value)> {
        match self.value(key) {
            None => Vec::new(),
            Some(Value::Object(map)) => {
                let path = self.path_of(key);
                map.iter().map(|(name, value)| (format!("{path}[{name}]"), name.as_str(), value)).collect()
            }
            Some(other) => self.wrong(key, other, "a mapping").unwrap_or_default(),
        }
    }

    /// A mapping that is passed on as it is.
    pub fn mapping(&mut self, key: &'static str) -> Option<&'v Value> {
        match self.value(key)? {
            value @ Value::Object(_) => Some(value),
            other => self.wrong(key, other, "a mapping"),
        }
    }

    /// A mapping of texts to texts that is passed on as it is.
    pub fn text_mapping(&mut self, key: &'static str) -> Option<&'v Value> {
        for (path, _, value) in self.entries(key) {
            if !value.is_string() {
                self.problems.add(&path, Some(value), "expected a text: quote it");
            }
        }
        self.value(key).filter(|value| value.is_object())
    }

    /// Complains of every key that nobody asked for.
    pub fn finish(mut self) {
        self.known.sort_unstable();
        self.known.dedup();
        let unknown = self.map.into_iter().flatten().filter(|(key, _)| !self.known.contains(&key.as_str()));
        for (key, _) in unknown {
            let path = self.path_of(key);
            let message = format!("is not a key that is known here: expected one of {}", self.known.join(", "));
            self.problems.add(&path, None, message);
        }
    }
}

/// A whole number that is not negative.
pub fn as_count(value: &Value) -> Option<usize> {
    value.as_u64().and_then(|number| usize::try_from(number).ok())
}
