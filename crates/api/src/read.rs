//! Objects from files: YAML or JSON, many documents a file, lists flattened.

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;

use crate::object::{ObjectKey, key_of};
use crate::problem::Problem;
use crate::yaml;

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

/// One object of a file. Items of a list are documents of their own, at the place of the list.
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
}

/// A JSON value of a text, with the line on which it starts.
pub type Parsed = (usize, Value);

/// Reads the values of a text, whatever they are; for files that do not hold objects. Numbers of YAML
/// that a 64-bit floating-point number cannot hold exactly come as texts; JSON's are as near as one can be.
pub fn parse(source_name: &str, text: &str) -> (Vec<Parsed>, Vec<Problem>) {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    // JSON is almost YAML: only its escapes differ, so that what starts like JSON is tried as such first.
    if text.trim_start().starts_with(['{', '[']) {
        match parse_json(text) {
            Ok(values) => return (values, Vec::new()),
            Err(error) if source_name.ends_with(".json") => {
                let file = format!("{source_name}:{}:{}", error.line(), error.column());
                let message = error.to_string();
                let message = message.split(" at line ").next().unwrap_or_default();
                return (Vec::new(), vec![Problem::new(format!("not JSON: {message}")).in_file(file)]);
            }
            Err(_) => {}
        }
    }
    let mut values = Vec::new();
    let mut problems = Vec::new();
    for document in yaml::parse(text) {
        match document {
            Ok(parsed) => values.push(parsed),
            Err(yaml::Fault { position, message }) => {
                let file = format!("{source_name}:{}:{}", position.line, position.column);
                problems.push(Problem::new(message).in_file(file));
            }
        }
    }
    (values, problems)
}

/// Reads a text of JSON values one after another.
fn parse_json(text: &str) -> Result<Vec<Parsed>, serde_json::Error> {
    let mut stream = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    let mut values = Vec::new();
    let (mut line, mut counted_to) = (1, 0);
    loop {
        let before = stream.byte_offset();
        let start = before + (text[before..].len() - text[before..].trim_start().len());
        let Some(value) = stream.next() else { return Ok(values) };
        line += text[counted_to..start].matches('\n').count();
        counted_to = start;
        values.push((line, value?));
    }
}

/// Reads the objects of one text. `source_name` is what problems call it.
pub fn read(source_name: &str, text: &str) -> Read {
    let (values, problems) = parse(source_name, text);
    let mut reader = Reader { read: Read { documents: Vec::new(), problems }, seen: HashMap::new() };
    let file: Arc<str> = Arc::from(source_name);
    for (line, value) in values {
        reader.take(value, &Place { file: Arc::clone(&file), line }, None);
    }
    reader.read
}

/// The objects of a file as they come in.
struct Reader {
    read: Read,
    /// Where each object was first seen.
    seen: HashMap<ObjectKey, Place>,
}

impl Reader {
    /// Takes in an object or a list of objects. `api_version` and kind of an item are implied by a list
    /// such as `PodList`, where the API server leaves them out.
    fn take(&mut self, value: Value, place: &Place, implied: Option<(&str, &str)>) {
        let mut value = value;
        if let (Value::Object(map), Some((api_version, kind))) = (&mut value, implied)
            && !map.contains_key("kind")
            && !map.contains_key("apiVersion")
        {
            map.insert("apiVersion".to_string(), Value::from(api_version));
            map.insert("kind".to_string(), Value::from(kind));
        }
        if let Some(element) = list_element(&value) {
            return self.take_list(value, element, place);
        }
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

    fn take_list(&mut self, value: Value, element: Option<String>, place: &Place) {
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
        for item in items {
            self.take(item, place, implied);
        }
    }
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
        Err(problem) => return Read { documents: Vec::new(), problems: vec![problem] },
    };
    for file in files {
        match read_text(&file) {
            Ok(text) => {
                let Read { documents, problems } = read(&file.display().to_string(), &text);
                all.documents.extend(documents);
                all.problems.extend(problems);
            }
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
    if let Some(folder) = folders.iter().min() {
        message = format!("{message}: expected a folder that does, such as {}", folder.display());
    }
    Err(Problem::new(message).in_file(path.display().to_string()))
}

/// The text of a file.
pub fn read_text(path: &Path) -> Result<String, Problem> {
    let problem = |message: String| Problem::new(message).in_file(path.display().to_string());
    let bytes = std::fs::read(path).map_err(|error| problem(format!("cannot be read: {error}")))?;
    String::from_utf8(bytes).map_err(|error| problem(format!("is not UTF-8 text: {}", error.utf8_error())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(problems: &[Problem]) -> Vec<String> {
        problems.iter().map(ToString::to_string).collect()
    }

    fn keys(read: &Read) -> Vec<String> {
        read.documents.iter().map(|d| format!("{} {}", d.key, d.place)).collect()
    }

    #[test]
    fn what_can_be_read_is_read() {
        let text = "\
apiVersion: v1
kind: Pod
metadata: {name: p, namespace: a}
---
kind: Pod
metadata: {name: q}
---
apiVersion: v1
kind: Podd
metadata: {name: q}
---
apiVersion: apps/v1
kind: Pod
metadata: {name: q}
---
apiVersion: v2
kind: Pod
metadata: {name: q}
---
apiVersion: v1
kind: Node
metadata: {namespace: a}
---
apiVersion: v1
kind: Pod
metadata: {name: p, namespace: a}
---
just text
---
a: [1
---
apiVersion: v1
kind: Node
metadata: {name: n}
";
        let read = read("cluster.yaml", text);
        assert_eq!(keys(&read), ["Pod/a/p cluster.yaml:1", "Node/n cluster.yaml:32"]);
        let expected = [
            "cluster.yaml:30:4: not YAML: ",
            "cluster.yaml:5: apiVersion: missing: an object needs it",
            "cluster.yaml:8: Podd/q: kind: \"Podd\": is not a kind that is known",
            "cluster.yaml:12: Pod/q: apiVersion: \"apps/v1\": has no kind Pod that is known: expected v1",
            "cluster.yaml:16: Pod/q: apiVersion: \"v2\": is not a version that is read: expected v1",
            "cluster.yaml:20: Node: metadata.name: missing: an object needs it",
            "cluster.yaml:24: Pod/a/p: is given twice: first on line 1",
            "cluster.yaml:28: \"just text\": expected an object with apiVersion, kind and metadata",
        ];
        let got = lines(&read.problems);
        assert_eq!(got.len(), expected.len(), "{got:#?}");
        for (got, expected) in got.iter().zip(expected) {
            assert!(got.starts_with(expected), "{got}\n{expected}");
        }
    }

    #[test]
    fn lists_are_flattened() {
        let text = "\
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Node, metadata: {name: a}}
- apiVersion: v1
  kind: PodList
  items:
  - {metadata: {name: p}}
";
        let read = read("f.yaml", text);
        assert_eq!(read.problems, []);
        assert_eq!(keys(&read), ["Node/a f.yaml:1", "Pod/default/p f.yaml:1"]);
        assert_eq!(read.documents[1].value["kind"], "Pod");
    }

    #[test]
    fn json_is_read_with_its_escapes_and_lines() {
        let text = "{\"apiVersion\": \"v1\", \"kind\": \"Node\",\n \"metadata\": {\"name\": \"\\ud83d\\ude00\"}}\n\n{\"apiVersion\": \"v1\", \"kind\": \"Node\", \"metadata\": {\"name\": \"b\"}}\n";
        assert_eq!(keys(&read("f.json", text)), ["Node/\u{1f600} f.json:1", "Node/b f.json:4"]);
        assert_eq!(lines(&read("f.json", "{\"a\": }").problems), ["f.json:1:7: not JSON: expected value"]);
    }

    #[test]
    fn a_flow_map_is_yaml_all_the_same() {
        let read = read("f.yaml", "{apiVersion: v1, kind: Node, metadata: {name: a}}");
        assert_eq!(keys(&read), ["Node/a f.yaml:1"]);
    }

    #[test]
    fn quantities_come_through_as_written() {
        let text =
            "{apiVersion: v1, kind: Node, metadata: {name: a}, status: {allocatable: {cpu: 1, x: 0.1, y: 64Gi}}}";
        let read = read("f.yaml", text);
        assert_eq!(read.documents[0].value["status"]["allocatable"].to_string(), r#"{"cpu":1,"x":0.1,"y":"64Gi"}"#);
    }

    #[test]
    fn a_path_that_is_not_there_is_a_problem() {
        let read = read_path(Path::new("no-such-file.yaml"));
        assert!(lines(&read.problems)[0].starts_with("no-such-file.yaml: cannot be read: "));
    }
}
