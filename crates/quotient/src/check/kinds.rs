//! Whether the kinds that the program reads are defined, served and established.

use std::collections::BTreeSet;

use anyhow::Result;
use quotient_api::{crd, kinds};
use quotient_cluster::system::System;
use serde_json::Value;

use super::asking::Answer;
use super::{Asking, Section};

/// The findings, and the systems that the cluster has.
pub async fn check(asking: &Asking) -> Result<(Section, Vec<System>)> {
    let mut section = Section::new("kinds");
    let mut systems = BTreeSet::new();
    let mut absent: Vec<String> = Vec::new();
    for definition in crd::definitions() {
        let text = |pointer: &str| definition.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let (name, version) = (text("/metadata/name"), text("/spec/versions/0/name"));
        let answer = asking.get(&format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}")).await?;
        match answer {
            Answer::Object(found) => {
                let system = kinds::find(text("/spec/group"), text("/spec/names/kind")).and_then(System::of);
                systems.extend(system);
                judge(&mut section, name, version, &found);
            }
            Answer::NotFound => absent.push(name.to_string()),
            Answer::Forbidden => section.warn(
                format!("{name}: this user may not read CustomResourceDefinitions"),
                "run `quotient check` as an administrator",
            ),
            Answer::Refused(message) => section.fail(format!("{name}: {message}"), "see the API server's log"),
        }
    }
    if systems.is_empty() {
        section.fail("no kind of any quota system is defined", "apply what `quotient install` prints");
    } else if !absent.is_empty() {
        section.ok(format!("not defined, and not read: {}", absent.join(", ")));
    }
    Ok((section, systems.into_iter().collect()))
}

fn judge(section: &mut Section, name: &str, version: &str, found: &Value) {
    let conditions = found.pointer("/status/conditions").and_then(Value::as_array);
    let is_established = conditions.into_iter().flatten().any(|c| c["type"] == "Established" && c["status"] == "True");
    let versions = found.pointer("/spec/versions").and_then(Value::as_array);
    let is_served = versions.into_iter().flatten().any(|v| v["name"] == version && v["served"] == true);
    if !is_established {
        section.fail(format!("{name}: is not established"), "`kubectl describe crd` says why");
    } else if !is_served {
        section.fail(
            format!("{name}: version {version} is not served"),
            "apply the CRDs that `quotient install` prints, or upgrade the system that owns this CRD",
        );
    } else {
        section.ok(format!("{name} {version}"));
    }
}

#[cfg(test)]
mod tests {
    use super::super::Verdict;
    use super::*;
    use serde_json::json;

    #[test]
    fn a_definition_must_be_established_and_serve_the_version() {
        let crd = |established: &str, version: &str, served: bool| {
            json!({"spec": {"versions": [{"name": version, "served": served}]},
                "status": {"conditions": [{"type": "Established", "status": established}]}})
        };
        for (found, expected) in [
            (crd("True", "v1", true), Verdict::Ok),
            (crd("False", "v1", true), Verdict::Failed),
            (crd("True", "v1", false), Verdict::Failed),
            (crd("True", "v2", true), Verdict::Failed),
            (json!({}), Verdict::Failed),
        ] {
            let mut section = Section::new("kinds");
            judge(&mut section, "x.example", "v1", &found);
            assert_eq!(section.findings[0].verdict, expected, "{found}");
        }
    }
}
