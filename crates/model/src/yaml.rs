//! A scenario as YAML for people: one line for each object.

use std::fmt::Write;

use serde_json::Value;

/// A value in one line. Texts that could be read as something else are quoted.
fn flow(value: &Value) -> String {
    match value {
        Value::Object(map) => {
            let parts: Vec<String> =
                map.iter().map(|(key, value)| format!("{}: {}", plain(key), flow(value))).collect();
            format!("{{{}}}", parts.join(", "))
        }
        Value::Array(list) => format!("[{}]", list.iter().map(flow).collect::<Vec<_>>().join(", ")),
        Value::String(text) => plain(text),
        other => other.to_string(),
    }
}

fn plain(text: &str) -> String {
    let safe = |c: char| c.is_ascii_alphanumeric() || "-./".contains(c);
    let word = text.starts_with(|c: char| c.is_ascii_alphabetic()) && text.chars().all(safe);
    let reserved = ["true", "false", "null", "yes", "no", "on", "off", "y", "n", "Y", "N"];
    let quantity = text.ends_with("Gi") && text.trim_end_matches("Gi").parse::<u32>().is_ok();
    if word && !reserved.contains(&text) || quantity {
        text.to_string()
    } else {
        Value::String(text.to_string()).to_string()
    }
}

/// The scenario as a file, with comments above it.
pub fn to_yaml(scenario: &Value, comments: &[String]) -> String {
    let mut out = String::new();
    let mut line = |text: String| {
        let _ = writeln!(out, "{text}");
    };
    for comment in comments {
        line(format!("# {comment}"));
    }
    line("apiVersion: quotient.dev/v1alpha1".to_string());
    line("kind: Scenario".to_string());
    line(format!("metadata: {}", flow(&scenario["metadata"])));
    line("spec:".to_string());
    for (key, value) in scenario["spec"].as_object().into_iter().flatten() {
        if key != "steps" {
            line(format!("  {key}: {}", flow(value)));
        }
    }
    line("  steps:".to_string());
    for step in scenario["spec"]["steps"].as_array().into_iter().flatten() {
        let mut first = true;
        for (key, value) in step.as_object().into_iter().flatten() {
            let lead = if first { "  - " } else { "    " };
            first = false;
            match value {
                Value::Array(list) if matches!(key.as_str(), "nodes" | "apply" | "pods") => {
                    line(format!("{lead}{key}:"));
                    for item in list {
                        line(format!("    - {}", flow(item)));
                    }
                }
                value => line(format!("{lead}{key}: {}", flow(value))),
            }
        }
    }
    out
}
