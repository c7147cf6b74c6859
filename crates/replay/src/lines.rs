//! Our own format: JSON lines, one event a line, in order of time.
//!
//! ```text
//! {"at": 0, "apply": {"apiVersion": "v1", "kind": "Node", …}}
//! {"at": 12.5, "apply": {"apiVersion": "v1", "kind": "Pod", …}, "runs": 300}
//! {"at": 90, "ended": "Pod/vision/train-0", "ran": 77.5}
//! {"at": 95, "delete": "Pod/vision/wait-0"}
//! ```
//!
//! `at` is seconds since the trace began. `runs` is how long a pod runs once it is bound; where it is not known when
//! the
//! pod is submitted, an `ended` line says later how long it ran. A pod with neither runs until it is deleted. What is
//! applied at 0 exists before the trace begins. A QuotientConfiguration is what the scheduler was configured with.

use std::collections::BTreeMap;
use std::io::{self, Write};

use quotient_api::{ObjectKey, key_of};
use serde_json::{Value, json};

use crate::trace::{Event, Life, Trace, TraceError, is_pod};

/// The kind of the object that says how the scheduler was configured.
const CONFIGURATION: &str = "QuotientConfiguration";

/// The longest time that a trace may name, in seconds: a hundred years.
const SECONDS_MAX: f64 = 100.0 * 365.0 * 86_400.0;

/// Reads a trace. The name is for messages.
pub fn read(name: &str, text: &str) -> Result<Trace, TraceError> {
    let mut trace = Trace { name: name.to_string(), ..Trace::default() };
    // Where each pod was applied last, so that its `ended` line finds it.
    let mut applied: BTreeMap<ObjectKey, usize> = BTreeMap::new();
    let mut last_ms = 0;
    for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let wrong = |message: String| TraceError::new(format!("{name}:{}", index + 1), message);
        let value: Value = serde_json::from_str(line).map_err(|error| wrong(format!("not JSON: {error}")))?;
        let at_ms = milliseconds(&value["at"]).ok_or_else(|| wrong("at: expected seconds, from 0 on".into()))?;
        if at_ms < last_ms {
            return Err(wrong(format!("at: {} is before the line above", value["at"])));
        }
        last_ms = at_ms;
        if let Some(object) = value.get("apply") {
            if object["kind"] == CONFIGURATION {
                trace.configuration = Some(object.clone());
                continue;
            }
            let key = key_of(object).map_err(|problem| wrong(problem.to_string()))?;
            let life = match value.get("runs") {
                None => Life::Open,
                Some(runs) => Life::Runs {
                    ms: milliseconds(runs)
                        .ok_or_else(|| wrong(format!("runs: {runs}: expected seconds, from 0 on")))?,
                },
            };
            if at_ms == 0 && !is_pod(object) {
                trace.objects.push(object.clone());
            } else {
                applied.insert(key, trace.events.len());
                trace.events.push((at_ms, Event::Apply { object: object.clone(), life }));
            }
        } else if let Some(of) = value.get("ended").and_then(Value::as_str) {
            let key = one_key(of).map_err(&wrong)?;
            let ran = milliseconds(&value["ran"]).ok_or_else(|| wrong("ran: expected seconds, from 0 on".into()))?;
            if let Some((_, Event::Apply { life, .. })) = applied.get(&key).and_then(|at| trace.events.get_mut(*at)) {
                *life = Life::Runs { ms: ran };
            }
        } else if let Some(of) = value.get("delete").and_then(Value::as_str) {
            trace.events.push((at_ms, Event::Delete(one_key(of).map_err(&wrong)?)));
        } else {
            return Err(wrong("expected one of apply, ended and delete".into()));
        }
    }
    Ok(trace)
}

fn milliseconds(value: &Value) -> Option<u64> {
    let seconds = value.as_f64().filter(|seconds| (0.0..=SECONDS_MAX).contains(seconds))?;
    Some((seconds * 1000.0).round() as u64)
}

fn one_key(text: &str) -> Result<ObjectKey, String> {
    let keys = ObjectKey::parse(text).map_err(|problem| problem.to_string())?;
    keys.into_iter().next().ok_or_else(|| format!("{text:?} is of an unknown kind"))
}

/// Writes the format, a line at a time.
pub struct Recorder<W: Write> {
    out: W,
}

impl<W: Write> Recorder<W> {
    pub fn new(out: W) -> Self {
        Recorder { out }
    }

    /// The scheduler has this configuration: the body of a QuotientConfiguration.
    pub fn configured(&mut self, body: &Value) -> io::Result<()> {
        let mut object = json!({"apiVersion": "quotient.dev/v1alpha1", "kind": CONFIGURATION});
        if let (Some(fields), Some(body)) = (object.as_object_mut(), body.as_object()) {
            fields.extend(body.iter().map(|(name, value)| (name.clone(), value.clone())));
        }
        self.line(&json!({"at": 0, "apply": object}))
    }

    /// An object is applied. What a cluster itself wrote about it is left out.
    pub fn applied(&mut self, at_ms: u64, object: &Value, runs_ms: Option<u64>) -> io::Result<()> {
        let mut object = object.clone();
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            for assigned in ["uid", "resourceVersion", "generation", "creationTimestamp", "managedFields"] {
                metadata.remove(assigned);
            }
        }
        if is_pod(&object)
            && let Some(pod) = object.as_object_mut()
        {
            pod.remove("status");
        }
        let mut line = json!({"at": seconds(at_ms), "apply": object});
        if let Some(runs) = runs_ms {
            line["runs"] = seconds(runs);
        }
        self.line(&line)
    }

    /// A pod ended after it ran for this long.
    pub fn ended(&mut self, at_ms: u64, pod: &ObjectKey, ran_ms: u64) -> io::Result<()> {
        self.line(&json!({"at": seconds(at_ms), "ended": pod.qualified(), "ran": seconds(ran_ms)}))
    }

    /// An object is deleted.
    pub fn deleted(&mut self, at_ms: u64, key: &ObjectKey) -> io::Result<()> {
        self.line(&json!({"at": seconds(at_ms), "delete": key.qualified()}))
    }

    /// Makes sure that everything is out.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    fn line(&mut self, line: &Value) -> io::Result<()> {
        serde_json::to_writer(&mut self.out, line)?;
        self.out.write_all(b"\n")
    }
}

fn seconds(ms: u64) -> Value {
    if ms.is_multiple_of(1000) { json!(ms / 1000) } else { json!(ms as f64 / 1000.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(name: &str) -> Value {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "a", "uid": "7"},
            "status": {"phase": "Running"}})
    }

    #[test]
    fn what_was_recorded_is_read_again() {
        let mut out = Vec::new();
        let mut recorder = Recorder::new(&mut out);
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}});
        recorder.configured(&json!({"reserveAfter": "1m"})).expect("memory");
        recorder.applied(0, &node, None).expect("memory");
        recorder.applied(1500, &pod("p"), Some(2000)).expect("memory");
        recorder.applied(2000, &pod("q"), None).expect("memory");
        recorder.ended(5000, &ObjectKey::pod("a", "q"), 2500).expect("memory");
        recorder.deleted(6000, &ObjectKey::pod("a", "p")).expect("memory");
        let trace = read("t", &String::from_utf8(out).expect("text")).expect("it is a trace");
        assert_eq!(trace.objects, [node]);
        assert_eq!(trace.configuration.expect("it is recorded")["reserveAfter"], "1m");
        let lives: Vec<Life> = trace
            .events
            .iter()
            .filter_map(|(_, e)| if let Event::Apply { life, .. } = e { Some(*life) } else { None })
            .collect();
        assert_eq!(lives, [Life::Runs { ms: 2000 }, Life::Runs { ms: 2500 }]);
        let Event::Apply { object, .. } = &trace.events[0].1 else { panic!("a pod comes first") };
        assert_eq!(object.get("status"), None);
        assert_eq!(trace.events[2], (6000, Event::Delete(ObjectKey::pod("a", "p"))));
    }

    #[test]
    fn what_cannot_be_read_is_named_with_its_line() {
        for (line, message) in [
            ("{", "t:2: not JSON"),
            (r#"{"at": -1, "delete": "Pod/a/p"}"#, "t:2: at: expected seconds"),
            (r#"{"at": 0, "delete": "Pod/a/p"}"#, "t:2: at: 0 is before the line above"),
            (r#"{"at": 2, "delete": "Nonsense/p"}"#, "unknown kind"),
            (r#"{"at": 2}"#, "t:2: expected one of apply, ended and delete"),
            (
                r#"{"at": 2, "apply": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}, "runs": "long"}"#,
                "t:2: runs",
            ),
        ] {
            let error =
                read("t", &format!("{}\n{line}\n", r#"{"at": 1, "delete": "Pod/a/p"}"#)).expect_err("it is wrong");
            assert!(error.to_string().contains(message), "{error}");
        }
    }
}
