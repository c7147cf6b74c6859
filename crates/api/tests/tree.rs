//! Quota trees: what the engine is told of them whatever got past admission, what profiles ask for, what lint finds.

use crate::told;
use crate::view;

use std::collections::BTreeMap;

use proptest::prelude::*;
use quotient_api::tree::profile::{Profile, tree_id};
use quotient_api::tree::roots::plan;
use quotient_api::tree::{keys, status, traps};
use quotient_api::{ObjectKey, Operation, Request, Translator, View, admit, key_of};
use quotient_engine::fact::{EvictionClass, PodFact, QuotaFact, QuotaKey, TreeFact};
use quotient_engine::{Fact, QuotaReport};
use serde_json::{Value, json};

use told::Told;
use view::Objects;

fn quota(namespace: &str, name: &str, labels: Value, annotations: Value, spec: Value) -> Value {
    json!({"apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "kind": "ElasticQuota",
        "metadata": {"name": name, "namespace": namespace, "labels": labels, "annotations": annotations},
        "spec": spec})
}

fn profile(name: &str, second: u32, spec: Value) -> Value {
    json!({"apiVersion": "quota.koordinator.sh/v1alpha1", "kind": "ElasticQuotaProfile",
        "metadata": {"name": name, "namespace": "kube-system",
            "creationTimestamp": format!("2026-01-01T00:00:{second:02}Z")},
        "spec": spec})
}

fn node(name: &str, pool: &str, allocatable: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"pool": pool}},
        "status": {"allocatable": allocatable}})
}

impl Objects {
    fn put(&mut self, object: Value) {
        self.0.insert(key_of(&object).expect("an object"), object);
    }
}

impl Told for TreeFact {
    fn of(fact: QuotaFact) -> Option<Self> {
        if let QuotaFact::Tree(fact) = fact { Some(fact) } else { None }
    }

    fn check(quotas: &BTreeMap<QuotaKey, Self>) {
        let mut names: Vec<_> = quotas.keys().map(|key| key.name.clone()).collect();
        names.sort();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "one name counts twice: {names:?}");
    }
}

type Engine = told::Engine<TreeFact>;

#[test]
fn all_labels_and_annotations_are_told() {
    let labels = json!({
        keys::PARENT: "koordinator-root-quota", keys::IS_PARENT: "true", keys::TREE_ID: "7", keys::IS_ROOT: "true",
        keys::ALLOW_LENT: "false", keys::IGNORE_DEFAULT_TREE: "true",
    });
    let annotations = json!({
        keys::SHARED_WEIGHT: r#"{"cpu":"3"}"#, keys::TOTAL_RESOURCE: r#"{"cpu":"10","memory":"1Gi"}"#,
        keys::NAMESPACES: r#"["x","y"]"#,
    });
    let spec = json!({"min": {"cpu": 1}, "max": {"cpu": "10", "memory": "0"}});
    let child = quota("a", "child", json!({keys::PARENT: "top", keys::TREE_ID: "7"}), json!({}), json!({}));
    let told = Engine::told(&[quota("kube-system", "top", labels, annotations, spec), child]);
    assert_eq!(told.lines(), Vec::<&str>::new());
    insta::assert_debug_snapshot!(told.quotas);
}

#[test]
fn what_cannot_be_read_is_said_and_the_rest_counts() {
    let labels = json!({keys::IS_PARENT: "yes", keys::ALLOW_LENT: "no", keys::PARENT: "nowhere", keys::IS_ROOT: ""});
    let annotations = json!({
        keys::SHARED_WEIGHT: "4", keys::TOTAL_RESOURCE: r#"{"cpu":"x"}"#, keys::NAMESPACES: "x,y",
    });
    let spec = json!({"min": {"cpu": "8", "memory": "1Gi"}, "max": {"cpu": "4", "pods": "many"}});
    let told = Engine::told(&[
        quota("a", "broken", labels, annotations, spec),
        quota("b", "root", json!({keys::IS_ROOT: "true"}), json!({}), json!({"max": {"cpu": "4"}})),
        quota("b", "second", json!({}), json!({}), json!({"max": {"cpu": "4"}})),
        quota("a", "second", json!({}), json!({keys::NAMESPACES: r#"["n"]"#}), json!({"max": {"cpu": "2"}})),
        quota("z", "third", json!({}), json!({keys::NAMESPACES: r#"["n","m"]"#}), json!({"max": {"cpu": "2"}})),
        quota("z", "leaf", json!({keys::PARENT: "third"}), json!({}), json!({"max": {"cpu": "2"}})),
        quota("c", "one", json!({keys::PARENT: "two", keys::IS_PARENT: "true"}), json!({}), json!({})),
        quota("c", "two", json!({keys::PARENT: "one", keys::IS_PARENT: "true"}), json!({}), json!({})),
        quota("c", "self", json!({keys::PARENT: "self", keys::IS_PARENT: "true"}), json!({}), json!({})),
        quota("c", "other-tree", json!({keys::PARENT: "one", keys::TREE_ID: "8"}), json!({}), json!({})),
    ]);
    insta::assert_debug_snapshot!((told.lines(), &told.quotas));
}

fn any_quota() -> impl Strategy<Value = Value> {
    let names = prop::sample::select(vec!["p", "q", "r", "s"]);
    let parents = prop::sample::select(vec!["", "p", "q", "r", "s", "nowhere", "koordinator-root-quota"]);
    let listed = prop::sample::subsequence(vec!["x", "y", "z"], 0..3);
    (prop::sample::select(vec!["a", "b"]), names, parents, any::<bool>(), listed, 0..3u32).prop_map(
        |(namespace, name, parent, is_parent, listed, min)| {
            let labels = json!({keys::PARENT: parent, keys::IS_PARENT: is_parent.to_string()});
            let annotations = json!({keys::NAMESPACES: serde_json::to_string(&listed).expect("texts")});
            quota(namespace, name, labels, annotations, json!({"min": {"cpu": min}, "max": {"cpu": "2"}}))
        },
    )
}

proptest! {
    #[test]
    fn what_is_told_depends_on_the_objects_alone(
        history in proptest::collection::vec((any_quota(), any::<bool>()), 1..20),
    ) {
        let mut told = Engine::told(&[]);
        let mut objects: BTreeMap<ObjectKey, Value> = BTreeMap::new();
        for (object, is_there) in history {
            told.change(&mut objects, object, is_there)?;
            // What the engine is told has no quota above itself.
            for fact in told.quotas.values() {
                let by_name = |name: &str| told.quotas.values().find(|fact| &*fact.key.name == name);
                let above = std::iter::successors(Some(fact), |fact| by_name(fact.parent.as_deref()?));
                prop_assert!(above.take(10).count() < 10, "{} is above itself", fact.key);
            }
        }
    }
}

#[test]
fn figures_that_are_written_on_a_quota_change_no_fact() {
    let mut object = quota("a", "q", json!({}), json!({}), json!({"min": {"cpu": "1"}, "max": {"cpu": "4"}}));
    let mut translator = Translator::default();
    assert_eq!(translator.upsert(&object).facts.len(), 1);
    let amounts = vec![("cpu".into(), 3000)];
    let (max, used) = (vec![("cpu".into(), 4000)], amounts.clone());
    let report = QuotaReport { max, used, runtime: amounts.clone(), requested: amounts, ..QuotaReport::default() };
    status::write(&mut object, Some(&report), None, "2026-01-01T00:00:00Z");
    assert_eq!(object["status"]["runtime"], json!({"cpu": "3"}));
    let translation = translator.upsert(&object);
    assert_eq!((translation.facts, translation.problems, translation.elsewhere), (vec![], vec![], vec![]));
}

#[test]
fn pods_name_their_quota_and_whether_they_can_be_evicted() {
    let told = |labels: Value| -> (PodFact, Vec<String>) {
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "a", "labels": labels},
            "spec": {"containers": [{"name": "c", "image": "i"}]}});
        let translation = Translator::default().upsert(&pod);
        let problems = translation.problems.iter().map(ToString::to_string).collect();
        match translation.facts.into_iter().next() {
            Some(Fact::Pod(pod)) => (pod, problems),
            other => panic!("{other:?}"),
        }
    };
    let (pod, problems) = told(json!({keys::QUOTA_NAME: "team", keys::PREEMPTIBLE: "false"}));
    assert_eq!((pod.tree_quota.as_deref(), pod.eviction_class), (Some("team"), EvictionClass::NonPreemptible));
    assert_eq!(problems, Vec::<String>::new());
    let (pod, _) = told(json!({keys::QUOTA_NAME: "", keys::PREEMPTIBLE: "true"}));
    assert_eq!((pod.tree_quota, pod.eviction_class), (None, EvictionClass::Preemptible));
    let (pod, problems) = told(json!({keys::PREEMPTIBLE: "no"}));
    assert_eq!((pod.eviction_class, pod.problem), (EvictionClass::Preemptible, None));
    assert!(problems[0].ends_with(r#""no": counts as "true": expected "true" or "false""#), "{problems:?}");
}

#[test]
fn ids_of_trees() {
    let mut object = profile("profile1", 0, json!({}));
    assert_eq!(tree_id(&object), "9816276314407088615");
    object["metadata"]["namespace"] = json!("");
    assert_eq!(tree_id(&object), "2862972692226656278");
    object["metadata"]["labels"] = json!({keys::TREE_ID: "preset"});
    assert_eq!(tree_id(&object), "preset");
}

#[test]
fn a_root_keeps_what_the_profile_does_not_speak_of() {
    let object = profile(
        "p",
        0,
        json!({"quotaName": "root", "resourceRatio": "0.5", "nodeSelector": {"matchLabels": {"pool": "a"}},
            "quotaLabels": {"new": "1", keys::IS_ROOT: "false"}}),
    );
    let mut existing = quota(
        "kube-system",
        "root",
        json!({"own": "kept", "old": "1"}),
        json!({"note": "kept", keys::LABELS_OF_PROFILE: r#"["old"]"#}),
        json!({"min": {"cpu": "1"}, "other": true}),
    );
    existing["status"] = json!({"used": {"cpu": "1"}});
    let nodes = [node("n", "a", json!({"cpu": "3", "memory": "1025", "nvidia.com/gpu": "0"}))];
    let nodes: Vec<&Value> = nodes.iter().collect();
    let read = Profile::read(&object);
    let root = read.root(&nodes, Some(&existing)).expect("it names a root");
    insta::assert_json_snapshot!(root);
    assert_eq!(read.root(&nodes, Some(&root)), Some(root), "as it should be, it stays as it is");
}

#[test]
fn what_is_wrong_between_profiles() {
    let selector = |pool: &str| json!({"matchLabels": {"pool": pool}});
    let mut preset = profile("same-tree", 4, json!({"quotaName": "r4", "nodeSelector": selector("d")}));
    preset["metadata"]["labels"] = json!({keys::TREE_ID: "13778220790914240367"});
    let mut objects = Objects::of(&[
        profile("second", 2, json!({"quotaName": "r2", "nodeSelector": selector("a")})),
        profile("pool-a", 1, json!({"quotaName": "r1", "nodeSelector": selector("a")})),
        profile("same-root", 3, json!({"quotaName": "r1", "nodeSelector": selector("b")})),
        preset,
        profile("odd", 5, json!({"quotaName": "r5", "nodeSelector": {}, "resourceRatio": "half"})),
        profile("bare", 6, json!({})),
        node("n", "a", json!({"cpu": "3"})),
        node("m", "a", json!({"cpu": "3"})),
    ]);
    let made = plan(&objects);
    let shown: Vec<(String, usize, bool, Vec<String>)> = made
        .profiles
        .iter()
        .map(|wanted| {
            let problems = wanted.problems.iter().map(ToString::to_string).collect();
            (wanted.profile.to_string(), wanted.nodes, wanted.write.is_some(), problems)
        })
        .collect();
    insta::assert_debug_snapshot!(shown);
    for wanted in made.profiles {
        wanted.write.into_iter().for_each(|root| objects.put(root));
    }
    assert!(plan(&objects).profiles.iter().all(|wanted| wanted.write.is_none()), "written once, it is as wanted");
}

#[test]
fn roots_that_nobody_asks_for() {
    let roots = |labels: Value| quota("kube-system", "root", labels, json!({keys::LABELS_OF_PROFILE: "[]"}), json!({}));
    let mut objects = Objects::of(&[
        roots(json!({keys::PROFILE: "gone", keys::IS_PARENT: "true"})),
        quota("a", "child", json!({keys::PARENT: "root"}), json!({}), json!({})),
        quota("a", "by-hand", json!({keys::PROFILE: "gone"}), json!({}), json!({})),
    ]);
    let made = plan(&objects);
    let kept: Vec<String> = made.kept.iter().map(|(_, problem)| problem.to_string()).collect();
    assert_eq!(made.obsolete, []);
    assert_eq!(
        kept,
        ["ElasticQuota/kube-system/root: metadata.labels[\"quota.scheduling.koordinator.sh/profile\"]: \"gone\": \
          ElasticQuotaProfile gone is gone and ElasticQuota/a/child is below it: the root is kept, and its total \
          follows no nodes; expected nothing below it, or the profile"]
    );
    objects.0.retain(|key, _| &*key.name != "child");
    let obsolete: Vec<String> = plan(&objects).obsolete.iter().map(ToString::to_string).collect();
    assert_eq!(obsolete, ["ElasticQuota/kube-system/root"]);
}

#[test]
fn admission_names_all_that_is_wrong() {
    let objects = Objects::of(&[
        quota("a", "top", json!({keys::IS_PARENT: "true"}), json!({}), json!({"min": {"cpu": 4}, "max": {"cpu": 9}})),
        quota("a", "sub", json!({keys::PARENT: "top"}), json!({}), json!({"min": {"cpu": 3}, "max": {"cpu": 9}})),
    ]);
    let refused = |object: Value| {
        let old = objects.get(&key_of(&object).expect("an object"));
        let operation = if old.is_some() { Operation::Update } else { Operation::Create };
        let outcome = admit(Request { operation, object, old }, &objects);
        outcome.map_or_else(|rejection| rejection.message, |_| "fine".to_string())
    };
    let below = |labels: Value, spec: Value| refused(quota("b", "new", labels, json!({}), spec));
    let messages = [
        below(json!({keys::PARENT: "top"}), json!({"min": {"cpu": 2}, "max": {"cpu": 9, "memory": 1}})),
        below(json!({keys::PARENT: "sub", keys::IS_PARENT: "1"}), json!({"max": {"cpu": "x"}})),
        below(json!({keys::PARENT: "new"}), json!({})),
        below(json!({keys::PARENT: "top", keys::IS_ROOT: "true"}), json!({"max": {"cpu": 9}})),
        below(json!({keys::PARENT: "top"}), json!({"min": {"cpu": 1}, "max": {"cpu": 9}})),
        refused(quota("a", "top", json!({keys::PARENT: "sub", keys::IS_PARENT: "true"}), json!({}), json!({}))),
        refused(quota("a", "top", json!({}), json!({}), json!({"min": {"cpu": 2}, "max": {"cpu": 9}}))),
        refused(quota("b", "new", json!({}), json!({keys::NAMESPACES: "[\"A B\"]"}), json!({}))),
        refused(profile("p", 0, json!({"quotaName": "koordinator-root-quota", "nodeSelector": {"matchLabels": 1}}))),
        refused(profile("p", 0, json!({"quotaLabels": {"a b": "c"}}))),
    ];
    insta::assert_debug_snapshot!(messages);
}

#[test]
fn traps_of_trees() {
    let selector = |pool: &str| json!({"quotaName": "r", "nodeSelector": {"matchLabels": {"pool": pool}}});
    let spec = |min: u32, max: u32| json!({"min": {"cpu": min}, "max": {"cpu": max, "memory": "1Gi"}});
    let weight = json!({keys::SHARED_WEIGHT: r#"{"cpu":"0","memory":"1"}"#});
    let total = json!({keys::TOTAL_RESOURCE: r#"{"cpu":"4"}"#});
    let objects = [
        profile("p", 0, selector("nowhere")),
        quota("a", "idle", json!({keys::IS_PARENT: "true"}), json!({}), spec(1, 1)),
        quota("a", "never", json!({}), weight, spec(3, 9)),
        quota("a", "small", json!({keys::IS_PARENT: "true"}), json!({}), spec(2, 2)),
        quota("a", "wants", json!({keys::PARENT: "small"}), json!({}), spec(3, 9)),
        quota("a", "lost", json!({keys::PARENT: "nowhere"}), json!({}), spec(0, 9)),
        quota("a", "tree", json!({keys::IS_ROOT: "true", keys::IS_PARENT: "true"}), total, spec(4, 99)),
        quota("a", "in-tree", json!({keys::PARENT: "tree"}), json!({}), spec(5, 9)),
    ];
    let objects: Vec<&Value> = objects.iter().collect();
    let nodes = [node("n", "a", json!({"cpu": "9"}))];
    let found = traps::traps(&objects, &nodes.iter().collect::<Vec<_>>());
    let lines: Vec<String> = found.iter().map(|(_, problem)| problem.to_string()).collect();
    insta::assert_debug_snapshot!(lines);
    assert!(traps::traps(&objects[4..5], &[]).len() == 1, "without nodes only what is wrong anyway is said");
}
