//! What a job makes beside its group and its pods: what its plugins need, and its volume claims.
//!
//! These objects are not watched. The job's status records what was made for it (`controlledResources`), so that it is
//! made once, and made again when it should say something else.

use serde_json::{Map, Value};

use super::declared::Declared;
use super::{ssh, svc, volumes};

/// Something that a job makes.
#[derive(Debug, Clone, PartialEq)]
pub enum Made {
    /// Made if it is not there.
    Once(Value),
    /// A Secret, made if it is not there. It gets an SSH key pair.
    WithKeys(Value),
    /// Made, or its `data` replaced where the job made it before.
    Current(Value),
}

impl Made {
    /// The object, to be given an owner.
    pub fn object_mut(&mut self) -> &mut Value {
        let (Made::Once(object) | Made::WithKeys(object) | Made::Current(object)) = self;
        object
    }
}

/// An object of a job and how its status records it.
pub(super) struct Belonging {
    pub record: (String, String),
    pub object: Made,
}

/// Everything that a job needs.
fn all(job: &Value, declared: &Declared<'_>) -> Vec<Belonging> {
    let mut all = volumes::claims(job);
    if let Some(arguments) = declared.plugin(svc::PLUGIN) {
        all.extend(svc::objects(job, declared, arguments));
    }
    if let Some(arguments) = declared.plugin(ssh::PLUGIN) {
        all.push(ssh::secret(job, declared, arguments));
    }
    all
}

/// What is still to be made, and what the status records afterwards. `again`: whatever the status says.
pub(super) fn missing(job: &Value, declared: &Declared<'_>, again: bool) -> (Vec<Made>, Map<String, Value>) {
    let recorded = job.pointer("/status/controlledResources").and_then(Value::as_object);
    let mut records = recorded.cloned().unwrap_or_default();
    let mut made = Vec::new();
    for Belonging { record: (key, value), object } in all(job, declared) {
        let value = Value::from(value);
        if again || records.get(&key) != Some(&value) {
            made.push(object);
            records.insert(key, value);
        }
    }
    (made, records)
}
