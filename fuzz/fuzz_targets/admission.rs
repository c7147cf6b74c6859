//! Whatever JSON is reviewed, as whichever kind: it is admitted or rejected with a message of one line, and never stops
//! the program.
//!
//! The first byte chooses the kind and the operation; the rest is the object, or the object and the one before it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use quotient_api::{ObjectKey, Operation, Request, View, guarded_kinds, mutate, validate};
use serde_json::{Value, json};

/// A cluster in which some objects are there to be referred to.
struct Cluster(Vec<Value>);

impl View for Cluster {
    fn get(&self, key: &ObjectKey) -> Option<&Value> {
        self.0.iter().find(|object| quotient_api::key_of(object).ok().as_ref() == Some(key))
    }

    fn list(&self, group: &str, kind: &str, namespace: Option<&str>) -> Vec<&Value> {
        let is_asked = |object: &&Value| {
            quotient_api::key_of(object).is_ok_and(|key| {
                let is_there = namespace.is_none_or(|namespace| key.namespace.as_deref() == Some(namespace));
                key.group == group && key.kind == kind && is_there
            })
        };
        self.0.iter().filter(is_asked).collect()
    }
}

fuzz_target!(|bytes: &[u8]| {
    let Some((choice, text)) = bytes.split_first() else { return };
    let kinds: Vec<_> = guarded_kinds().collect();
    let kind = kinds[usize::from(*choice) % kinds.len()].kind;
    let mut values = serde_json::Deserializer::from_slice(text).into_iter::<Value>().filter_map(Result::ok);
    let Some(mut object) = values.next() else { return };
    let old = values.next();
    // The API server names what it sends; everything else may be anything.
    if let Some(fields) = object.as_object_mut() {
        fields.insert("kind".to_string(), json!(kind.kind));
        fields.insert("apiVersion".to_string(), json!(kind.api_version()));
    }
    let view = Cluster(old.iter().cloned().collect());
    let operation = match choice / 64 {
        0 | 1 => Operation::Create,
        2 => Operation::Update,
        _ => Operation::Delete,
    };
    let request = |object: Value| Request { operation, object, old: old.as_ref() };
    if let Ok(filled) = mutate(request(object.clone()), &view) {
        // What is filled in once is not filled in again.
        if operation == Operation::Create
            && let Ok(again) = mutate(request(filled.clone()), &view)
        {
            assert_eq!(again, filled, "defaults come to rest");
        }
    }
    if let Err(rejection) = validate(request(object), &view) {
        assert!(!rejection.message.contains('\n'), "a message is one line: {}", rejection.message);
    }
});
