//! The provenance: from which sources and with which compiler the files were built, as an in-toto statement.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// What a build was made from.
#[derive(Debug, Clone)]
pub struct Build {
    pub version: String,
    pub commit: String,
    pub lock_sha256: String,
    /// What `rustc --version` prints.
    pub compiler: String,
    pub targets: Vec<String>,
}

/// The statement about files, by their names and digests.
pub fn statement(build: &Build, subjects: &BTreeMap<String, String>) -> Value {
    let Build { version, commit, lock_sha256, compiler, targets } = build;
    let subject: Vec<Value> =
        subjects.iter().map(|(name, digest)| json!({"name": name, "digest": {"sha256": digest}})).collect();
    json!({
        "_type": "https://in-toto.io/Statement/v1",
        "subject": subject,
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": "https://quotient.dev/build/make-release/v1",
                "externalParameters": {"version": version, "targets": targets},
                "resolvedDependencies": [
                    {"name": "source", "digest": {"gitCommit": commit}},
                    {"name": "Cargo.lock", "digest": {"sha256": lock_sha256}},
                    {"name": compiler},
                ],
            },
            "runDetails": {"builder": {"id": "https://quotient.dev/build/make-release/v1"}},
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_names_what_was_built_from_what() {
        let build = Build {
            version: "1".into(),
            commit: "c".into(),
            lock_sha256: "l".into(),
            compiler: "rustc 1".into(),
            targets: vec!["t".into()],
        };
        let made = statement(&build, &BTreeMap::from([("image".to_string(), "d".to_string())]));
        assert_eq!(made["subject"][0]["digest"]["sha256"], "d");
        let sources = &made["predicate"]["buildDefinition"]["resolvedDependencies"];
        assert_eq!(sources[0]["digest"]["gitCommit"], "c");
    }
}
