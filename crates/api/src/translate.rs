//! From objects to facts: what the engine is told when an object is seen or gone.

use quotient_engine::Fact;
use serde_json::Value;

use crate::object::ObjectKey;
use crate::problem::Problem;

/// What can be set about the translation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TranslatorSettings {
    /// The values of `spec.schedulerName` that make a pod ours. `None`: every pod is.
    pub scheduler_names: Option<Vec<String>>,
    /// Whether pods without spread constraints are spread by the Services and controllers that select
    /// them, as Kubernetes does by default.
    pub default_topology: bool,
}

impl Default for TranslatorSettings {
    fn default() -> Self {
        TranslatorSettings { scheduler_names: None, default_topology: true }
    }
}

/// What an object means for the engine, and what in it could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Translation {
    pub facts: Vec<Fact>,
    pub problems: Vec<Problem>,
}

/// Turns objects into facts. It remembers nothing about objects but equal parts it can share.
#[derive(Debug, Default)]
pub struct Translator {
    settings: TranslatorSettings,
}

impl Translator {
    /// A translator with these settings.
    pub fn new(settings: TranslatorSettings) -> Self {
        Translator { settings }
    }

    /// What there is to tell about an object that was seen, new or changed.
    pub fn upsert(&mut self, object: &Value) -> Translation {
        let _ = (object, &self.settings);
        Translation::default()
    }

    /// What there is to tell about an object that is gone.
    pub fn remove(&mut self, key: &ObjectKey) -> Translation {
        let _ = key;
        Translation::default()
    }
}
