//! Objects from files: YAML or JSON, many documents a file, lists flattened.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustc_hash::FxHashMap;
use serde_json::Value;

use crate::json::Exact;
use crate::json_list::{self, Pieces};
use crate::kinds;
use crate::object::{ObjectKey, key_of};
use crate::problem::Problem;
pub use crate::thin::Kept;
pub use crate::yaml::Lines;
use crate::yaml::{self, Locate};

/// Where in a file a document starts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    pub file: Arc<str>,
    /// Counted from 1.
    pub line: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// One object of a file. Items of a list are documents of their own.
#[derive(Debug, Clone, PartialEq)]
pub struct Document {
    pub key: ObjectKey,
    pub value: Value,
    pub place: Place,
}

/// What a file holds: every object that could be read, and what could not.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Read {
    pub documents: Vec<Document>,
    pub problems: Vec<Problem>,
    /// Kinds that have no bearing on scheduling, and how many objects of each were left out.
    pub ignored: Vec<Ignored>,
    /// Of these objects those that others made, or may have made others: what they are and by whom, and no more.
    pub others: Vec<Value>,
    /// Events that tell of evictions: they bear on no decision, and say what was decided.
    pub evictions: Vec<Value>,
    /// Of the problems, documents that are two joined without a separator: what is lost with them is no one object.
    pub joined: Vec<Problem>,
}

impl Read {
    /// Takes in what another file holds.
    pub fn extend(&mut self, other: Read) {
        let Read { documents, problems, ignored, others, evictions, joined } = other;
        self.documents.extend(documents);
        self.problems.extend(problems);
        self.ignored = Ignored::sum(self.ignored.drain(..).chain(ignored));
        self.others.extend(others);
        self.evictions.extend(evictions);
        self.joined.extend(joined);
    }
}

/// Objects of a kind that has no bearing on scheduling.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ignored {
    pub kind: String,
    /// The API group, `""` for the core group.
    pub group: String,
    pub count: usize,
}

impl Ignored {
    /// Each kind once, by kind and group.
    pub fn sum(all: impl Iterator<Item = Ignored>) -> Vec<Ignored> {
        let mut counts: BTreeMap<(String, String), usize> = BTreeMap::new();
        for Ignored { kind, group, count } in all {
            *counts.entry((kind, group)).or_default() += count;
        }
        counts.into_iter().map(|((kind, group), count)| Ignored { kind, group, count }).collect()
    }
}

impl fmt::Display for Ignored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Ignored { kind, group, count } = self;
        write!(f, "ignored {count} {kind} ({})", if group.is_empty() { "v1" } else { group })
    }
}

/// A JSON value of a text, with the line on which it starts.
pub type Parsed = (usize, Value);

/// A value of a text, and where its parts stand.
#[derive(Debug, Clone, PartialEq)]
pub struct Located {
    /// The line on which it starts.
    pub line: usize,
    pub value: Value,
    /// The lines of its parts by path (`spec.steps[0].name`), as far as they are known.
    pub lines: Lines,
}

impl From<yaml::Located> for Located {
    fn from(located: yaml::Located) -> Self {
        let yaml::Located { line, value, lines } = located;
        Located { line, value, lines }
    }
}

/// What is wrong with a text, and what it holds.
struct Text {
    values: Vec<Located>,
    problems: Vec<Problem>,
    joined: Vec<Problem>,
}

/// Reads the values of a text, whatever they are; for files that do not hold objects. Numbers of YAML
/// that a 64-bit floating-point number cannot hold exactly come as texts; JSON's are as near as one can be.
pub fn parse(source_name: &str, text: &str) -> (Vec<Parsed>, Vec<Problem>) {
    let Text { values, problems, .. } = parse_text(source_name, text, Locate::Items);
    (values.into_iter().map(|located| (located.line, located.value)).collect(), problems)
}

fn parse_text(source_name: &str, text: &str, locate: Locate) -> Text {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    // JSON is almost YAML: only its escapes differ, so that what starts like JSON is tried as such first.
    if text.trim_start().starts_with(['{', '[']) {
        match parse_json(text) {
            Ok(values) => {
                let located = |(line, value)| Located { line, value, lines: Lines::new() };
                let values = values.into_iter().map(located).collect();
                return Text { values, problems: Vec::new(), joined: Vec::new() };
            }
            Err(error) if source_name.ends_with(".json") => {
                let file = format!("{source_name}:{}:{}", error.line(), error.column());
                let message = error.to_string();
                let message = message.split(" at line ").next().unwrap_or_default();
                let problem = Problem::new(format!("not JSON: {message}")).in_file(file);
                return Text { values: Vec::new(), problems: vec![problem], joined: Vec::new() };
            }
            Err(_) => {}
        }
    }
    let mut read = Text { values: Vec::new(), problems: Vec::new(), joined: Vec::new() };
    for document in yaml::parse(text, locate) {
        match document {
            Ok(located) => read.values.push(located.into()),
            Err(yaml::Fault { position, message, joined }) => {
                let file = format!("{source_name}:{}:{}", position.line, position.column);
                let problem = Problem::new(message).in_file(file);
                if joined {
                    read.joined.push(problem.clone());
                }
                read.problems.push(problem);
            }
        }
    }
    read
}

/// The line on which a text begins that may have empty lines before.
fn first_line(text: &str) -> usize {
    1 + text[..text.len() - text.trim_start().len()].matches('\n').count()
}

/// Reads a text of JSON values one after another.
fn parse_json(text: &str) -> Result<Vec<Parsed>, serde_json::Error> {
    if let Some(value) = json_list::read(text) {
        return Ok(vec![(first_line(text), value)]);
    }
    let mut stream = serde_json::Deserializer::from_str(text).into_iter::<Exact>();
    let mut values = Vec::new();
    let (mut line, mut counted_to) = (1, 0);
    loop {
        let before = stream.byte_offset();
        let start = before + (text[before..].len() - text[before..].trim_start().len());
        let Some(value) = stream.next() else { return Ok(values) };
        line += text[counted_to..start].matches('\n').count();
        counted_to = start;
        values.push((line, value?.0));
    }
}

/// Reads the objects of one text. `source_name` is what problems call it.
pub fn read(source_name: &str, text: &str) -> Read {
    read_located(source_name, text, Locate::Items).0
}

/// Takes the objects of a value as if it had been read from a file.
pub fn read_value(source_name: &str, value: Value) -> Read {
    let mut reader = Reader { read: Read::default(), seen: FxHashMap::default(), named: HashMap::new() };
    reader.take(value, &Place { file: Arc::from(source_name), line: 1 }, &Lines::new(), None);
    reader.read.ignored = Ignored::sum(reader.read.ignored.drain(..));
    reader.read
}

/// Reads the objects of one text, with the lines of all parts of each; for small files of our own.
pub fn read_with_lines(source_name: &str, text: &str) -> (Read, Vec<Lines>) {
    read_located(source_name, text, Locate::All)
}

/// The same of a text that nobody needs any more. Of a long one, what was read is dropped while the rest is read; where
/// that fails, the text is read again from its file, to say what is wrong. `kept` is the least that is kept of pods
/// that an API server has made: of a short text more is.
pub fn read_owned(source_name: &str, text: String, file: Option<&Path>, kept: Kept) -> Result<Read, Problem> {
    let Some(file) = file.filter(|file| file.is_file()) else { return Ok(read(source_name, &text)) };
    let begun = text.trim_start();
    let values = if begun.starts_with('{') {
        let Some(pieces) = Pieces::of(&text) else { return Ok(read(source_name, &text)) };
        let line = first_line(&text);
        drop(text);
        pieces.read(kept).map(|value| vec![Located { line, value, lines: Lines::new() }])
    } else {
        // What starts like JSON may be that.
        let pieces = if begun.starts_with(['[', '\u{feff}']) { None } else { yaml::Pieces::of(&text) };
        let Some(pieces) = pieces else { return Ok(read(source_name, &text)) };
        drop(text);
        let documents = pieces.read(kept);
        documents.map(|documents| documents.into_iter().flatten().map(Located::from).collect())
    };
    match values {
        Some(values) => Ok(objects_of(source_name, Text { values, problems: Vec::new(), joined: Vec::new() }).0),
        None => Ok(read(source_name, &read_text(file)?)),
    }
}

fn read_located(source_name: &str, text: &str, locate: Locate) -> (Read, Vec<Lines>) {
    objects_of(source_name, parse_text(source_name, text, locate))
}

fn objects_of(source_name: &str, text: Text) -> (Read, Vec<Lines>) {
    let Text { values, problems, joined } = text;
    let read = Read { problems, joined, ..Read::default() };
    let mut reader = Reader { read, seen: FxHashMap::default(), named: HashMap::new() };
    let file: Arc<str> = Arc::from(source_name);
    let mut lines = Vec::new();
    for Located { line, value, lines: of_value } in values {
        let known = reader.read.documents.len();
        reader.take(value, &Place { file: Arc::clone(&file), line }, &of_value, None);
        lines.resize(reader.read.documents.len(), Lines::new());
        if reader.read.documents.len() == known + 1 {
            lines[known] = of_value;
        }
    }
    reader.read.ignored = Ignored::sum(reader.read.ignored.drain(..));
    (reader.read, lines)
}

/// The objects of a file as they come in.
struct Reader {
    read: Read,
    /// Where each object was first seen.
    seen: FxHashMap<ObjectKey, Place>,
    /// How many objects were named after each `generateName`.
    named: HashMap<String, usize>,
}

impl Reader {
    /// Takes in an object or a list of objects. `api_version` and kind of an item are implied by a list
    /// such as `PodList`, where the API server leaves them out.
    fn take(&mut self, value: Value, place: &Place, lines: &Lines, implied: Option<(&str, &str)>) {
        let mut value = value;
        if let (Value::Object(map), Some((api_version, kind))) = (&mut value, implied)
            && !map.contains_key("kind")
            && !map.contains_key("apiVersion")
        {
            map.insert("apiVersion".to_string(), Value::from(api_version));
            map.insert("kind".to_string(), Value::from(kind));
        }
        if let Some(element) = list_element(&value) {
            return self.take_list(value, element, place, lines);
        }
        if tells_of_eviction(&value) {
            return self.read.evictions.push(value);
        }
        if let Some(ignored) = of_no_bearing(&value) {
            self.read.others.push(identity(&value));
            return self.read.ignored.push(ignored);
        }
        self.name(&mut value, place);
        let key = match key_of(&value) {
            Ok(key) => key,
            Err(problem) => return self.read.problems.push(problem.in_file(place.to_string())),
        };
        if let Some(first) = self.seen.get(&key) {
            let problem = Problem::new(format!("is given twice: first on line {}", first.line));
            return self.read.problems.push(problem.in_file(place.to_string()).of_object(&key));
        }
        self.seen.insert(key.clone(), place.clone());
        self.read.documents.push(Document { key, value, place: place.clone() });
    }

    /// Names an object that leaves that to the API server. The same file gives the same names.
    fn name(&mut self, value: &mut Value, place: &Place) {
        let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) else { return };
        let is_named = metadata.get("name").is_some_and(|name| !name.is_null() && name != "");
        let Some(stem) = metadata.get("generateName").and_then(Value::as_str).filter(|stem| !stem.is_empty()) else {
            return;
        };
        if is_named {
            return;
        }
        let count = self.named.entry(stem.to_owned()).or_default();
        *count += 1;
        let suffix = name_suffix(&format!("{}#{stem}#{count}", place.file));
        let name = format!("{stem}{suffix}");
        metadata.insert("name".to_string(), Value::from(name));
    }

    fn take_list(&mut self, value: Value, element: Option<String>, place: &Place, lines: &Lines) {
        let Value::Object(mut map) = value else { return };
        let api_version = map.get("apiVersion").and_then(Value::as_str).unwrap_or_default().to_string();
        let items = match map.remove("items") {
            None | Some(Value::Null) => return,
            Some(Value::Array(items)) => items,
            Some(other) => {
                let problem = Problem::new("expected a list").at_field("items").with_value(&other);
                return self.read.problems.push(problem.in_file(place.to_string()));
            }
        };
        let implied = element.as_deref().map(|kind| (api_version.as_str(), kind));
        // Lists in lists are rare enough to stand where the outer item does.
        let inner = Lines::new();
        for (index, item) in items.into_iter().enumerate() {
            let line = lines.get(&format!("items[{index}]")).copied().unwrap_or(place.line);
            self.take(item, &Place { file: Arc::clone(&place.file), line }, &inner, implied);
        }
    }
}

/// Whether an object is the event of an eviction, as a scheduler writes it about its victim.
fn tells_of_eviction(value: &Value) -> bool {
    value["kind"] == "Event" && value["reason"] == "Preempted" && value["involvedObject"]["kind"] == "Pod"
}

/// What an object is, and what made it.
fn identity(object: &Value) -> Value {
    let metadata = ["name", "namespace", "ownerReferences"];
    let metadata =
        metadata.into_iter().filter_map(|field| Some((field.to_string(), object["metadata"].get(field)?.clone())));
    let metadata: serde_json::Map<String, Value> = metadata.collect();
    serde_json::json!({"apiVersion": object["apiVersion"], "kind": object["kind"], "metadata": metadata})
}

/// The kind of an object that has no bearing on scheduling, and is not a misspelt one that has.
fn of_no_bearing(value: &Value) -> Option<Ignored> {
    let (kind, api_version) = (value.get("kind")?.as_str()?, value.get("apiVersion")?.as_str()?);
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    let is_known = kinds::find(group, kind).is_some() || kinds::is_misspelt(group, kind);
    let is_object = value.get("metadata").is_some_and(Value::is_object) && !kind.is_empty() && !api_version.is_empty();
    (!is_known && is_object).then(|| Ignored { kind: kind.to_owned(), group: group.to_owned(), count: 1 })
}

/// Five characters that stand for a text, as an API server ends the names that it makes up.
fn name_suffix(text: &str) -> String {
    const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
    let hash = text
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    let letter = |place: u32| char::from(ALPHABET[(hash / 27_u64.pow(place) % 27) as usize]);
    (0..5).map(letter).collect()
}

/// Whether the value is a list of objects, and of which kind if its name says so (`PodList`).
fn list_element(value: &Value) -> Option<Option<String>> {
    let element = value.get("kind")?.as_str()?.strip_suffix("List")?;
    match element {
        "" => Some(None),
        _ => value.get("items").map(|_| Some(element.to_string())),
    }
}

/// Reads a file, or the `.yaml`, `.yml` and `.json` files of a directory in name order (not those of
/// directories in it). What cannot be read is a problem.
pub fn read_path(path: &Path) -> Read {
    let mut all = Read::default();
    let files = match files_of(path) {
        Ok(files) => files,
        Err(problem) => return Read { problems: vec![problem], ..Read::default() },
    };
    for file in files {
        match read_text(&file)
            .and_then(|text| read_owned(&file.display().to_string(), text, Some(&file), Kept::Comparable))
        {
            Ok(read) => all.extend(read),
            Err(problem) => all.problems.push(problem),
        }
    }
    all
}

/// The files that a path means: itself, or what a directory holds, in name order.
pub fn files_of(path: &Path) -> Result<Vec<PathBuf>, Problem> {
    if !path.is_dir() {
        return Ok(vec![path.to_path_buf()]);
    }
    let unreadable =
        |error: std::io::Error| Problem::new(format!("cannot be read: {error}")).in_file(path.display().to_string());
    let (mut files, mut folders) = (Vec::new(), Vec::new());
    for entry in std::fs::read_dir(path).map_err(unreadable)? {
        let file = entry.map_err(unreadable)?.path();
        if file.is_dir() {
            folders.push(file);
            continue;
        }
        let known = file.extension().is_some_and(|e| e == "yaml" || e == "yml" || e == "json");
        if known {
            files.push(file);
        }
    }
    files.sort();
    if !files.is_empty() {
        return Ok(files);
    }
    let mut message = "holds no .yaml, .yml or .json file".to_string();
    if let Some(folder) = first_with_files(&folders, FOLDERS_DEEP_MAX) {
        message = format!("{message}: expected a folder that does, such as {}", folder.display());
    }
    Err(Problem::new(message).in_file(path.display().to_string()))
}

/// How far below a folder without files one with files is looked for.
const FOLDERS_DEEP_MAX: usize = 3;

/// The first of some folders that holds files to read, or of those below them.
fn first_with_files(folders: &[PathBuf], deep_max: usize) -> Option<PathBuf> {
    let mut folders = folders.to_vec();
    folders.sort();
    folders.iter().find(|folder| files_of(folder).is_ok()).cloned().or_else(|| {
        let below = folders.iter().filter_map(|folder| std::fs::read_dir(folder).ok()).flatten();
        let below: Vec<PathBuf> = below.filter_map(|entry| Some(entry.ok()?.path())).filter(|p| p.is_dir()).collect();
        (deep_max > 1 && !below.is_empty()).then(|| first_with_files(&below, deep_max - 1)).flatten()
    })
}

/// The text of a file.
pub fn read_text(path: &Path) -> Result<String, Problem> {
    let problem = |message: String| Problem::new(message).in_file(path.display().to_string());
    let bytes = std::fs::read(path).map_err(|error| problem(format!("cannot be read: {error}")))?;
    String::from_utf8(bytes).map_err(|error| problem(format!("is not UTF-8 text: {}", error.utf8_error())))
}

#[cfg(test)]
mod tests;
