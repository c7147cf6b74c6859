//! A live cluster as a trace: what comes and goes is written as the JSON lines that `quotient replay` reads.
//!
//! A pod is recorded without its node, so that a replay schedules it anew; when it is gone, a line says how long it
//! ran. A replay recreates evicted pods by itself: the pod that a controller creates in place of an evicted one is
//! therefore not recorded, and how long it ran counts for the pod that it replaces.

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs::File;
use std::hash::{Hash, Hasher};
use std::io::{self, BufWriter};
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result};
use quotient_api::{ObjectKey, key_of, read};
use quotient_cluster::onlook::{Onlooker, whole};
use quotient_engine::Engine;
use quotient_host::scheduler::{Happened, Now, Seen};
use quotient_host::subject::Subject;
use quotient_replay::lines::Recorder;
use serde_json::{Map, Value};

/// Lines that wait for the disk. At the start every object is one line: 200,000 pods and what is beside them.
const LINES_MAX: usize = 250_000;

/// Groups whose objects make pods: a trace has the pods themselves.
const MAKERS: [&str; 3] = ["apps", "batch", "batch.volcano.sh"];

#[derive(Debug, PartialEq)]
enum Line {
    Applied(u64, Value),
    Ended(u64, ObjectKey, u64),
    Deleted(u64, ObjectKey),
}

/// A pod that is there now.
#[derive(Debug)]
struct Life {
    uid: String,
    /// The pod that it stands for in the trace: itself, or an evicted one that it replaces.
    recorded: ObjectKey,
    owner: Option<String>,
    /// When it was bound.
    bound_ms: Option<u64>,
    is_evicted: bool,
}

/// What is known, and what follows from what is seen.
#[derive(Debug, Default)]
struct Books {
    /// Fingerprints of what was recorded of each object that is no pod.
    known: BTreeMap<ObjectKey, u64>,
    pods: BTreeMap<ObjectKey, Life>,
    /// Evicted pods that their owner has not replaced yet, by the owner's UID.
    owed: BTreeMap<String, VecDeque<ObjectKey>>,
    /// Objects that were not seen again since the session began.
    unseen: BTreeSet<ObjectKey>,
}

impl Books {
    fn sees(&mut self, at_ms: u64, seen: &Seen) -> Option<Line> {
        match seen {
            Seen::Object(Subject::Kind(kind), object) if !MAKERS.contains(&kind.group) => {
                let object = &whole(kind, object);
                let key = key_of(object).ok()?;
                self.unseen.remove(&key);
                match (kind.group, kind.kind) {
                    ("", "ReplicationController") => None,
                    ("", "Pod") => self.pod(at_ms, key, object),
                    _ => self.object(at_ms, key, object),
                }
            }
            Seen::Gone(Subject::Kind(_), key) => self.gone(at_ms, key),
            _ => None,
        }
    }

    /// Objects of a kind that were not listed again are gone.
    fn missing(&self, seen: &Seen) -> Vec<ObjectKey> {
        let Seen::Listed(Subject::Kind(kind)) = seen else { return Vec::new() };
        let is_of_kind = |key: &&ObjectKey| (key.group, key.kind) == (kind.group, kind.kind);
        self.unseen.iter().filter(is_of_kind).cloned().collect()
    }

    fn object(&mut self, at_ms: u64, key: ObjectKey, object: &Value) -> Option<Line> {
        let lasting = lasting(object);
        let mut hasher = DefaultHasher::new();
        lasting.to_string().hash(&mut hasher);
        let fingerprint = hasher.finish();
        let is_news = self.known.insert(key, fingerprint) != Some(fingerprint);
        is_news.then_some(Line::Applied(at_ms, lasting))
    }

    fn pod(&mut self, at_ms: u64, key: ObjectKey, object: &Value) -> Option<Line> {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
        let uid = text("/metadata/uid").unwrap_or_default();
        let is_bound = text("/spec/nodeName").is_some();
        if let Some(life) = self.pods.get_mut(&key).filter(|life| life.uid == uid) {
            life.bound_ms = life.bound_ms.or(is_bound.then_some(at_ms));
            return None;
        }
        let owner = object.pointer("/metadata/ownerReferences/0/uid").and_then(Value::as_str).map(str::to_owned);
        let replaced = owner.as_ref().and_then(|owner| self.owed.get_mut(owner)?.pop_front());
        let is_new = replaced.is_none();
        let life = Life {
            uid: uid.to_owned(),
            recorded: replaced.unwrap_or_else(|| key.clone()),
            owner,
            bound_ms: is_bound.then_some(at_ms),
            is_evicted: false,
        };
        self.pods.insert(key, life);
        is_new.then(|| Line::Applied(at_ms, lasting(object)))
    }

    fn gone(&mut self, at_ms: u64, key: &ObjectKey) -> Option<Line> {
        self.unseen.remove(key);
        if self.known.remove(key).is_some() {
            return Some(Line::Deleted(at_ms, key.clone()));
        }
        let Life { recorded, owner, bound_ms, is_evicted, .. } = self.pods.remove(key)?;
        match (bound_ms, owner) {
            (Some(_), Some(owner)) if is_evicted => {
                self.owed.entry(owner).or_default().push_back(recorded);
                None
            }
            (Some(bound_ms), _) => Some(Line::Ended(at_ms, recorded, at_ms - bound_ms)),
            (None, _) => Some(Line::Deleted(at_ms, recorded)),
        }
    }
}

/// What of an object a replay needs: neither what a cluster wrote about it, nor where a pod runs.
fn lasting(object: &Value) -> Value {
    let mut object = object.clone();
    let of_status: &[&str] = match object["kind"].as_str() {
        Some("Node") => &["allocatable", "capacity"],
        Some("Queue") => &["state"],
        Some("PersistentVolume" | "PersistentVolumeClaim") => &["phase", "capacity"],
        _ => &[],
    };
    let field = |name: &&str| Some(((*name).to_owned(), object["status"].get(*name)?.clone()));
    let status: Map<String, Value> = of_status.iter().filter_map(field).collect();
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        let assigned = ["uid", "resourceVersion", "generation", "creationTimestamp", "managedFields"];
        for field in assigned.into_iter().chain(["ownerReferences", "finalizers", "deletionTimestamp"]) {
            metadata.remove(field);
        }
    }
    if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) {
        spec.remove("nodeName");
    }
    if let Some(fields) = object.as_object_mut() {
        fields.remove("status");
        if !status.is_empty() {
            fields.insert("status".to_owned(), Value::Object(status));
        }
    }
    object
}

/// Records as an observer of the scheduler. A thread of its own writes, so that the disk never delays a decision.
pub struct LiveRecording {
    books: Mutex<Books>,
    lines: SyncSender<Line>,
    /// When everything had been seen: the beginning of the trace. What comes before it is at 0.
    begun: Mutex<Option<Instant>>,
    has_failed: Mutex<bool>,
}

impl LiveRecording {
    /// Starts a recording in a new file.
    pub fn begin(path: &Path, config: Option<&Path>) -> Result<Arc<Self>> {
        let file = File::create(path).with_context(|| format!("--record {}: cannot be written", path.display()))?;
        let (lines, receiver) = sync_channel(LINES_MAX);
        let mut recorder = Recorder::new(BufWriter::new(file));
        if let Some(body) = config.and_then(configuration) {
            recorder.configured(&body)?;
        }
        let name = path.display().to_string();
        thread::spawn(move || {
            if let Err(error) = write(recorder, &receiver) {
                tracing::error!("{name}: the recording ends: {error}");
            }
        });
        let (books, begun, has_failed) = (Mutex::default(), Mutex::new(None), Mutex::new(false));
        Ok(Arc::new(LiveRecording { books, lines, begun, has_failed }))
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn at_ms(&self) -> u64 {
        let begun = *self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        begun.map_or(0, |begun| u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX))
    }

    fn write(&self, line: Option<Line>) {
        let Some(line) = line else { return };
        let mut has_failed = self.has_failed.lock().unwrap_or_else(PoisonError::into_inner);
        // A trace with a gap would be wrong without saying so: it ends here.
        if !*has_failed && self.lines.try_send(line).is_err() {
            *has_failed = true;
            tracing::error!("the recording ends: the disk is too slow, or full");
        }
    }
}

/// The QuotientConfiguration of a file; the configuration of another scheduler is not part of a trace.
fn configuration(path: &Path) -> Option<Value> {
    let read = read(&path.display().to_string(), &std::fs::read_to_string(path).ok()?);
    read.documents.into_iter().map(|document| document.value).find(|value| value["kind"] == "QuotientConfiguration")
}

fn write(mut recorder: Recorder<BufWriter<File>>, lines: &Receiver<Line>) -> io::Result<()> {
    while let Ok(first) = lines.recv() {
        // Whatever ends the program, the file has everything up to the last quiet moment.
        for line in std::iter::once(first).chain(lines.try_iter()) {
            match line {
                Line::Applied(at_ms, object) => recorder.applied(at_ms, &object, None)?,
                Line::Ended(at_ms, key, ran_ms) => recorder.ended(at_ms, &key, ran_ms)?,
                Line::Deleted(at_ms, key) => recorder.deleted(at_ms, &key)?,
            }
        }
        recorder.flush()?;
    }
    Ok(())
}

impl Onlooker for LiveRecording {
    fn begins(&self) {
        let mut books = self.books();
        books.unseen = books.known.keys().chain(books.pods.keys()).cloned().collect();
    }

    fn sees(&self, seen: &Seen, _: &Engine) {
        let at_ms = self.at_ms();
        let mut books = self.books();
        for key in books.missing(seen) {
            self.write(books.gone(at_ms, &key));
        }
        self.write(books.sees(at_ms, seen));
    }

    fn hears(&self, _: Now, happened: &[Happened]) {
        let mut books = self.books();
        for happened in happened {
            if let Happened::Evicted { pod, .. } = happened
                && let Some(life) = books.pods.get_mut(&ObjectKey::pod(&pod.namespace, &pod.name))
            {
                life.is_evicted = true;
            }
        }
    }

    fn looks(&self, _: Now, _: &Engine) {
        self.begun.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(Instant::now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod(name: &str, uid: &str, node: Option<&str>) -> Value {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "a", "uid": uid,
            "ownerReferences": [{"uid": "set"}]}, "spec": {"nodeName": node}, "status": {"phase": "Pending"}})
    }

    fn key(name: &str) -> ObjectKey {
        ObjectKey::pod("a", name)
    }

    #[test]
    fn the_pod_that_replaces_an_evicted_one_is_the_same_in_the_trace() {
        let mut books = Books::default();
        let applied = books.pod(0, key("one"), &pod("one", "1", None));
        let Some(Line::Applied(0, object)) = applied else { panic!("{applied:?}") };
        assert_eq!((object.pointer("/spec/nodeName"), object.get("status")), (None, None));
        assert_eq!(books.pod(1000, key("one"), &pod("one", "1", Some("n"))), None);
        books.pods.get_mut(&key("one")).expect("it is there").is_evicted = true;
        assert_eq!(books.gone(2000, &key("one")), None);
        assert_eq!(books.pod(2500, key("two"), &pod("two", "2", None)), None);
        assert_eq!(books.pod(3000, key("two"), &pod("two", "2", Some("n"))), None);
        assert_eq!(books.gone(9000, &key("two")), Some(Line::Ended(9000, key("one"), 6000)));
    }

    #[test]
    fn a_pod_that_never_ran_is_deleted_and_a_heartbeat_is_no_news() {
        let mut books = Books::default();
        books.pod(0, key("one"), &pod("one", "1", None));
        assert_eq!(books.gone(500, &key("one")), Some(Line::Deleted(500, key("one"))));
        let node = |beat: u32| {
            json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "resourceVersion": beat.to_string()},
                "status": {"allocatable": {"cpu": "8"}, "conditions": [{"lastHeartbeatTime": beat}]}})
        };
        let name = key_of(&node(1)).expect("it is a node");
        assert!(books.object(0, name.clone(), &node(1)).is_some());
        assert_eq!(books.object(10, name.clone(), &node(2)), None);
        assert_eq!(books.gone(20, &name), Some(Line::Deleted(20, name)));
    }
}
