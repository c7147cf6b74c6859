//! JSON as values that take no more memory than they must.
//!
//! A map that grows field by field ends with room for up to twice as many, and is hashed anew each time it grows. A
//! dump of a cluster has millions of small maps: here each is made once, when all of its fields are known. What nobody
//! reads of pods that an API server has made is not even kept until then.

use std::cell::Cell;
use std::fmt;

use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use crate::json_list;
use crate::thin::{self, Kept};

/// What is dropped of a map. Lists are looked through.
#[derive(Debug, Clone, Copy)]
pub struct Dropped {
    pub key: &'static str,
    pub part: Part,
}

/// How much is dropped of what is under a key.
#[derive(Debug, Clone, Copy)]
pub enum Part {
    All,
    /// Some of what is in it.
    Inside(&'static [Dropped]),
    /// All of it where it is like that.
    If(fn(&Value) -> bool),
    /// The items of the list that are like that.
    Items(fn(&Value) -> bool),
}

/// All of what is under a key.
pub const fn all(key: &'static str) -> Dropped {
    Dropped { key, part: Part::All }
}

/// Some of what is under a key.
pub const fn inside(key: &'static str, dropped: &'static [Dropped]) -> Dropped {
    Dropped { key, part: Part::Inside(dropped) }
}

/// Some, and more.
pub const fn joined<const COUNT: usize>(some: &[Dropped], more: &[Dropped]) -> [Dropped; COUNT] {
    assert!(some.len() + more.len() == COUNT);
    let mut joined = [all(""); COUNT];
    let mut index = 0;
    while index < COUNT {
        joined[index] = if index < some.len() { some[index] } else { more[index - some.len()] };
        index += 1;
    }
    joined
}

/// What nobody reads of a container, wherever it is read.
pub const CONTAINER: &[Dropped] = &[
    all("args"),
    all("command"),
    all("env"),
    all("envFrom"),
    all("imagePullPolicy"),
    all("lifecycle"),
    all("livenessProbe"),
    all("readinessProbe"),
    all("securityContext"),
    all("startupProbe"),
    all("terminationMessagePath"),
    all("terminationMessagePolicy"),
    all("volumeDevices"),
];

/// What nobody reads of a pod's spec beside its containers, unless something is applied over the pod.
pub const POD_SPEC: &[Dropped] = &[
    all("dnsPolicy"),
    all("enableServiceLinks"),
    all("ephemeralContainers"),
    all("securityContext"),
    all("serviceAccount"),
    // Volumes that every node can mount.
    inside(
        "volumes",
        &[all("configMap"), all("downwardAPI"), all("emptyDir"), all("hostPath"), all("projected"), all("secret")],
    ),
];

/// A value without room to spare, and without what nobody reads of pods that an API server has made.
pub struct Exact(pub Value);

impl<'de> Deserialize<'de> for Exact {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Pruned(&[]).deserialize(deserializer).map(Exact)
    }
}

impl Exact {
    /// The value of a text.
    pub fn read(text: &str) -> Result<Self, serde_json::Error> {
        json_list::read(text).map_or_else(|| serde_json::from_str(text), |value| Ok(Exact(value)))
    }
}

/// Reads a value without room to spare, and without what is dropped.
#[derive(Debug, Clone, Copy)]
pub struct Pruned(pub &'static [Dropped]);

impl<'de> DeserializeSeed<'de> for Pruned {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        Pruning { dropped: self.0, kept: Kept::Comparable }.deserialize(deserializer)
    }
}

/// Reads a value without room to spare, and without what is dropped: of all, or of pods that an API server has made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pruning {
    pub dropped: &'static [Dropped],
    pub kept: Kept,
}

impl<'de> DeserializeSeed<'de> for Pruning {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        let mut unfinished = UNFINISHED.take();
        let Pruning { dropped, kept } = self;
        let value = Builder { unfinished: &mut unfinished, dropped, kept, items: None }.deserialize(deserializer);
        // A text that ends too soon leaves some behind.
        unfinished.fields.clear();
        unfinished.items.clear();
        if unfinished.items.capacity() <= KEPT_MAX && unfinished.fields.capacity() <= KEPT_MAX {
            UNFINISHED.set(unfinished);
        }
        value
    }
}

/// How much room is kept for the next value: more than any object but a very long list needs.
const KEPT_MAX: usize = 1024;

thread_local! {
    /// What the last value needed: thousands of small ones are read each second, and each needs as much again.
    static UNFINISHED: Cell<Unfinished> = Cell::default();
}

/// The fields and items of maps and lists whose ends were not seen yet, the innermost last.
#[derive(Default)]
struct Unfinished {
    fields: Vec<(String, Value)>,
    items: Vec<Value>,
}

struct Builder<'a> {
    unfinished: &'a mut Unfinished,
    dropped: &'static [Dropped],
    /// How much is kept of pods that an API server has made.
    kept: Kept,
    /// Items of the list that are dropped.
    items: Option<fn(&Value) -> bool>,
}

impl Builder<'_> {
    /// What is dropped of the value under a key of the map that starts with these fields.
    fn part(&self, first: usize, key: &str) -> Option<Part> {
        let dropped = match key {
            "spec" | "status" if self.dropped.is_empty() && is_made_pod(&self.unfinished.fields[first..]) => {
                self.kept.dropped()
            }
            _ => self.dropped,
        };
        dropped.iter().find(|dropped| dropped.key == key).map(|dropped| dropped.part)
    }

    fn below(&mut self, dropped: &'static [Dropped], items: Option<fn(&Value) -> bool>) -> Builder<'_> {
        Builder { unfinished: self.unfinished, dropped, kept: self.kept, items }
    }
}

/// Whether a map that starts with these fields is a pod that an API server has made.
fn is_made_pod(fields: &[(String, Value)]) -> bool {
    let of = |name: &str| fields.iter().find(|(key, _)| key == name).map(|(_, value)| value);
    thin::is_made_pod(of("kind"), of("metadata"))
}

impl<'de> DeserializeSeed<'de> for Builder<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Builder<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any valid JSON value")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut entries: A) -> Result<Value, A::Error> {
        let first = self.unfinished.fields.len();
        while let Some(key) = entries.next_key::<String>()? {
            let value = match self.part(first, &key) {
                Some(Part::All) => {
                    entries.next_value::<IgnoredAny>()?;
                    continue;
                }
                Some(Part::Inside(dropped)) => entries.next_value_seed(self.below(dropped, None))?,
                Some(Part::Items(items)) => entries.next_value_seed(self.below(&[], Some(items)))?,
                Some(Part::If(is_dropped)) => match entries.next_value_seed(self.below(&[], None))? {
                    value if is_dropped(&value) => continue,
                    value => value,
                },
                None => entries.next_value_seed(self.below(&[], None))?,
            };
            self.unfinished.fields.push((key, value));
        }
        let fields = &self.unfinished.fields[first..];
        let has = |name: &str| fields.iter().any(|(key, _)| key == name);
        // What an API server has stored without a generation gets one here.
        let room = usize::from(has("resourceVersion") && !has("generation"));
        let mut map = Map::with_capacity(fields.len() + room);
        map.extend(self.unfinished.fields.drain(first..));
        Ok(Value::Object(map))
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> Result<Value, A::Error> {
        let first = self.unfinished.items.len();
        let (dropped, is_dropped) = (self.dropped, self.items);
        while let Some(item) = items.next_element_seed(self.below(dropped, None))? {
            if is_dropped.is_none_or(|is_dropped| !is_dropped(&item)) {
                self.unfinished.items.push(item);
            }
        }
        Ok(Value::Array(self.unfinished.items.drain(first..).collect()))
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E: Error>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }
}

/// The same of a value that is there already, and has no room to spare.
pub(crate) fn prune(value: Value, dropped: &'static [Dropped]) -> Value {
    match value {
        Value::Object(map) => {
            let mut fields: Vec<(String, Value)> = Vec::with_capacity(map.len());
            for (key, value) in map {
                let value = match dropped.iter().find(|dropped| dropped.key == key).map(|dropped| dropped.part) {
                    Some(Part::All) => continue,
                    Some(Part::Inside(dropped)) => prune(value, dropped),
                    Some(Part::If(is_dropped)) if is_dropped(&value) => continue,
                    Some(Part::Items(is_dropped)) => match value {
                        Value::Array(mut items) => {
                            items.retain(|item| !is_dropped(item));
                            items.shrink_to_fit();
                            Value::Array(items)
                        }
                        other => other,
                    },
                    Some(Part::If(_)) | None => value,
                };
                fields.push((key, value));
            }
            let mut map = Map::with_capacity(fields.len());
            map.extend(fields);
            Value::Object(map)
        }
        Value::Array(items) => Value::Array(items.into_iter().map(|item| prune(item, dropped)).collect()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_those_that_serde_reads() {
        let texts = [
            r#"{"b": [1, -2, 0.5, 1e400, 18446744073709551615], "a": {"x": null, "y": [[], {}], "z": "\u00e9\n"}}"#,
            r#"{"twice": 1, "once": true, "twice": {"twice": 2}}"#,
            r#"[{"a": 1}, [2, [3, {"b": [4]}]], "c"]"#,
            r#"{"a": [1, {"b": }]}"#,
            r#"{"a": 1"#,
            "12",
            "",
        ];
        for text in texts {
            let exact = serde_json::from_str::<Exact>(text).map(|exact| exact.0.to_string());
            let plain = serde_json::from_str::<Value>(text).map(|plain| plain.to_string());
            assert_eq!(exact.map_err(|e| e.to_string()), plain.map_err(|e| e.to_string()), "{text}");
        }
    }
}
