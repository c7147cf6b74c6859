//! Scenarios that do not come as expected on a real API server, and why.

use std::collections::BTreeMap;
use std::path::Path;

use quotient_api::Problem;
use serde_json::Value;

/// Names of scenarios with the reason of each.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Exceptions(BTreeMap<String, String>);

impl Exceptions {
    /// Reads a mapping of names to reasons.
    pub fn read(path: &Path) -> Result<Exceptions, Vec<Problem>> {
        let file = path.display().to_string();
        let wrong = |message: String| vec![Problem::new(message).in_file(file.clone())];
        let text = std::fs::read_to_string(path).map_err(|error| wrong(format!("cannot be read: {error}")))?;
        let value: Value = serde_saphyr::from_str(&text).map_err(|error| wrong(error.to_string()))?;
        let Value::Object(entries) = value else {
            return Err(wrong("expected a mapping of scenarios' names to reasons".to_string()));
        };
        let mut exceptions = BTreeMap::new();
        for (name, reason) in entries {
            match reason.as_str().map(str::trim) {
                Some(reason) if !reason.is_empty() => exceptions.insert(name, reason.to_string()),
                _ => return Err(wrong(format!("{name}: expected the reason, in words"))),
            };
        }
        Ok(Exceptions(exceptions))
    }

    /// Why the scenario is an exception, if it is one.
    pub fn reason(&self, scenario: &str) -> Option<&str> {
        self.0.get(scenario).map(String::as_str)
    }
}
