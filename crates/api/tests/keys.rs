//! How objects are named in scenarios and reports.

use quotient_api::{ObjectKey, kinds};

fn parsed(text: &str) -> Result<Vec<String>, String> {
    ObjectKey::parse(text)
        .map(|keys| keys.iter().map(ObjectKey::qualified).collect())
        .map_err(|problem| problem.to_string())
}

#[test]
fn keys_are_read() {
    let ok = |keys: &[&str]| Ok(keys.iter().map(ToString::to_string).collect::<Vec<_>>());
    let err = |message: &str| Err(message.to_string());
    let cases = [
        ("Pod/a/p-0", ok(&["Pod/a/p-0"])),
        ("Node/n", ok(&["Node/n"])),
        ("Queue/q", ok(&["Queue.scheduling.volcano.sh/q"])),
        ("Job/a/j", ok(&["Job.batch/a/j", "Job.batch.volcano.sh/a/j"])),
        (
            "ElasticQuota/a/eq",
            ok(&[
                "ElasticQuota.scheduling.x-k8s.io/a/eq",
                "ElasticQuota.nos.nebuly.com/a/eq",
                "ElasticQuota.n8s.nebuly.ai/a/eq",
                "ElasticQuota.scheduling.sigs.k8s.io/a/eq",
            ]),
        ),
        ("ElasticQuota.scheduling.x-k8s.io/a/eq", ok(&["ElasticQuota.scheduling.x-k8s.io/a/eq"])),
        ("Job.batch/a/j", ok(&["Job.batch/a/j"])),
        ("Pod/p", err("\"Pod/p\" lacks a namespace: expected Pod/namespace/name")),
        ("Node/a/n", err("\"Node/a/n\" has a namespace: expected Node/name")),
        ("Pods/a/p", err("\"Pods/a/p\" is of an unknown kind \"Pods\"")),
        ("Pod.apps/a/p", err("\"Pod.apps/a/p\" is of an unknown kind \"Pod.apps\"")),
        ("Pod", err("\"Pod\" is not an object: expected Kind/namespace/name or Kind/name")),
        ("Pod/a/p/q", err("\"Pod/a/p/q\" is not an object: expected Kind/namespace/name or Kind/name")),
        ("Pod//p", err("\"Pod//p\" has an empty part: expected Kind/namespace/name or Kind/name")),
    ];
    for (text, expected) in cases {
        assert_eq!(parsed(text), expected, "{text}");
    }
}

#[test]
fn every_kind_comes_back_from_its_qualified_form() {
    for kind in kinds::KINDS {
        let key = ObjectKey::new(kind, Some("a"), "o");
        assert_eq!(ObjectKey::parse(&key.qualified()), Ok(vec![key.clone()]));
        assert!(ObjectKey::parse(&key.to_string()).is_ok_and(|keys| keys.contains(&key)));
    }
}
