//! What the engine is told about rich objects, as it is told.

use std::sync::Arc;

use quotient_api::{ObjectKey, Translation, Translator, TranslatorSettings, preemption_message, read};
use quotient_engine::Fact;
use quotient_engine::fact::{PodFact, PodKey};
use serde_json::{Value, json};

fn translate(text: &str) -> Translation {
    let read = read("objects.yaml", text);
    assert_eq!(read.problems, []);
    let mut translator = Translator::default();
    let mut all = Translation::default();
    for document in read.documents {
        let Translation { facts, problems, elsewhere: _ } = translator.upsert(&document.value);
        all.facts.extend(facts);
        all.problems.extend(problems);
    }
    all
}

#[test]
fn a_rich_pod() {
    let translation = translate(include_str!("objects/pod.yaml"));
    assert_eq!(translation.problems, []);
    insta::assert_debug_snapshot!(translation.facts);
}

#[test]
fn a_rich_node() {
    let translation = translate(include_str!("objects/node.yaml"));
    assert_eq!(translation.problems, []);
    insta::assert_debug_snapshot!(translation.facts);
}

#[test]
fn volumes_claims_and_classes() {
    let translation = translate(include_str!("objects/storage.yaml"));
    assert_eq!(translation.problems, []);
    insta::assert_debug_snapshot!(translation.facts);
}

#[test]
fn budgets_namespaces_and_selectors() {
    let translation = translate(include_str!("objects/others.yaml"));
    assert_eq!(translation.problems, []);
    insta::assert_debug_snapshot!(translation.facts);
}

#[test]
fn what_is_wrong_is_said_and_the_rest_counts() {
    let translation = translate(include_str!("objects/wrong.yaml"));
    let lines: Vec<String> = translation.problems.iter().map(ToString::to_string).collect();
    insta::assert_debug_snapshot!((lines, translation.facts));
}

fn pod(name: &str, rest: Value) -> Value {
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "a"},
        "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]},
    });
    for (key, value) in rest.as_object().into_iter().flatten() {
        for (field, value) in value.as_object().into_iter().flatten() {
            pod[key][field] = value.clone();
        }
    }
    pod
}

fn fact(translator: &mut Translator, pod: &Value) -> PodFact {
    match translator.upsert(pod).facts.pop() {
        Some(Fact::Pod(fact)) => fact,
        other => panic!("{other:?}"),
    }
}

#[test]
fn pods_of_one_template_share_their_spec() {
    let mut translator = Translator::default();
    let first = fact(&mut translator, &pod("p-0", json!({})));
    let second = fact(&mut translator, &pod("p-1", json!({})));
    assert!(Arc::ptr_eq(&first.spec, &second.spec));
    assert!(Arc::ptr_eq(&first.namespace, &second.namespace));
}

#[test]
fn a_pod_is_ours_by_its_scheduler() {
    let names = |names: &[&str]| Some(names.iter().map(ToString::to_string).collect());
    let default_scheduler = pod("p", json!({}));
    let quotient = pod("p", json!({"spec": {"schedulerName": "quotient"}}));
    for (scheduler_names, of_default, of_quotient) in [
        (None, true, true),
        (names(&["quotient"]), false, true),
        (names(&["default-scheduler"]), true, false),
        (names(&["default-scheduler", "quotient"]), true, true),
    ] {
        let mut translator = Translator::new(TranslatorSettings { scheduler_names, ..Default::default() });
        assert_eq!(fact(&mut translator, &default_scheduler).ours, of_default);
        assert_eq!(fact(&mut translator, &quotient).ours, of_quotient);
    }
}

#[test]
fn a_claimant_is_read_back_from_the_message_that_is_written() {
    let claimant = PodKey { namespace: "team".into(), name: "claims-0".into() };
    let condition = |status: &str, message: &str| {
        json!({"status": {"conditions": [
            {"type": "Ready", "status": "True", "message": "for x/y"},
            {"type": "DisruptionTarget", "status": status, "message": message}]}})
    };
    let written = preemption_message(&claimant);
    assert_eq!(written, "preempted by quotient for team/claims-0");
    for (rest, expected) in [
        (condition("True", &written), Some(claimant)),
        (condition("False", &written), None),
        (condition("True", "Eviction API: evicting"), None),
        (condition("True", "made way for a/b/c"), None),
        (condition("True", "made way for a/"), None),
        (condition("True", "made way for something else/entirely new"), None),
        (json!({}), None),
    ] {
        assert_eq!(fact(&mut Translator::default(), &pod("p", rest)).victim_of, expected);
    }
}

#[test]
fn phases() {
    use quotient_engine::fact::Phase;
    let placed = json!({"nodeName": "n"});
    for (status, spec, expected) in [
        (json!({}), json!({}), Phase::Pending),
        (json!({}), placed.clone(), Phase::Running),
        (json!({"phase": "Pending"}), placed.clone(), Phase::Pending),
        (json!({"phase": "Running"}), placed.clone(), Phase::Running),
        (json!({"phase": "Succeeded"}), placed.clone(), Phase::Succeeded),
        (json!({"phase": "Failed"}), json!({}), Phase::Failed),
        (json!({"phase": "Unknown"}), placed, Phase::Running),
    ] {
        let pod = pod("p", json!({"status": status, "spec": spec}));
        assert_eq!(fact(&mut Translator::default(), &pod).phase, expected, "{pod}");
    }
}

#[test]
fn what_is_gone() {
    let mut translator = Translator::default();
    let cases = [
        ("Pod/a/p", Some("PodGone(PodKey { namespace: \"a\", name: \"p\" })")),
        ("Node/n", Some("NodeGone(\"n\")")),
        ("CSINode/n", Some("AttachLimitsGone(\"n\")")),
        ("Namespace/a", Some("NamespaceGone(\"a\")")),
        ("PodDisruptionBudget/a/b", Some("BudgetGone { namespace: \"a\", name: \"b\" }")),
        ("PersistentVolume/v", Some("VolumeGone(\"v\")")),
        ("PersistentVolumeClaim/a/c", Some("ClaimGone { namespace: \"a\", name: \"c\" }")),
        ("StorageClass/s", Some("StorageClassGone(\"s\")")),
        ("Service/a/s", Some("SelectorGone { namespace: \"a\", object: \"Service/s\" }")),
        ("StatefulSet/a/s", Some("SelectorGone { namespace: \"a\", object: \"StatefulSet/s\" }")),
        ("ConfigMap/a/m", None),
        ("Deployment/a/d", None),
    ];
    for (text, expected) in cases {
        let key = &ObjectKey::parse(text).expect("a key")[0];
        let facts = translator.remove(key).facts;
        assert_eq!(facts.first().map(|fact| format!("{fact:?}")).as_deref(), expected, "{text}");
    }
}

#[test]
fn without_default_topology_nothing_is_told_of_selectors() {
    let settings = TranslatorSettings { default_topology: false, ..TranslatorSettings::default() };
    let mut translator = Translator::new(settings);
    let service =
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"selector": {"a": "b"}}});
    assert_eq!(translator.upsert(&service).facts, []);
    assert_eq!(translator.remove(&ObjectKey::parse("Service/default/s").expect("a key")[0]).facts, []);
}
