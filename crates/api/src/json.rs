//! JSON as values that take no more memory than they must.
//!
//! A map that grows field by field ends with room for up to twice as many, and is hashed anew each time it grows. A
//! dump of a cluster has millions of small maps: here each is made once, when all of its fields are known.

use std::fmt;

use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// A value without room to spare.
pub(crate) struct Exact(pub Value);

impl<'de> Deserialize<'de> for Exact {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut unfinished = Unfinished::default();
        Builder(&mut unfinished).deserialize(deserializer).map(Exact)
    }
}

/// The fields and items of maps and lists whose ends were not seen yet, the innermost last.
#[derive(Default)]
struct Unfinished {
    fields: Vec<(String, Value)>,
    items: Vec<Value>,
}

struct Builder<'a>(&'a mut Unfinished);

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

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let first = self.0.fields.len();
        while let Some(key) = entries.next_key()? {
            let value = entries.next_value_seed(Builder(self.0))?;
            self.0.fields.push((key, value));
        }
        let mut map = Map::with_capacity(self.0.fields.len() - first);
        map.extend(self.0.fields.drain(first..));
        Ok(Value::Object(map))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let first = self.0.items.len();
        while let Some(item) = items.next_element_seed(Builder(self.0))? {
            self.0.items.push(item);
        }
        Ok(Value::Array(self.0.items.drain(first..).collect()))
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
