//! Queues, groups and cards: what the engine is told of them, and what admission says.

use crate::view;

use quotient_api::volcano::gang::{gang, renew};
use quotient_api::volcano::status::{Ended, group_status, queue_status};
use quotient_api::volcano::traps::traps;
use quotient_api::volcano::{events, queue};
use quotient_api::{ObjectKey, Operation, Request, Translator, View, admit, key_of};
use quotient_engine::fact::{EvictionClass, GroupFact, PodFact, QueueFact, QuotaFact};
use quotient_engine::{Code, Fact, GroupReport, Numbers, PolicyKind, QuotaPath, QuotaReport, Reason};
use serde_json::{Value, json};

use view::Objects;

fn object(api_version: &str, kind: &str, metadata: Value, rest: Value) -> Value {
    let mut object = json!({"apiVersion": api_version, "kind": kind, "metadata": metadata});
    for (key, value) in rest.as_object().into_iter().flatten() {
        object[key] = value.clone();
    }
    object
}

fn queue_of(name: &str, spec: Value) -> Value {
    object("scheduling.volcano.sh/v1beta1", "Queue", json!({"name": name}), json!({"spec": spec}))
}

fn with_quota(name: &str, quota: &str) -> Value {
    let metadata = json!({"name": name, "annotations": {"volcano.sh/card.quota": quota}});
    object("scheduling.volcano.sh/v1beta1", "Queue", metadata, json!({"spec": {}}))
}

fn group(annotations: Value, spec: Value, status: Value) -> Value {
    let metadata = json!({"name": "g", "namespace": "ml", "annotations": annotations});
    object("scheduling.volcano.sh/v1beta1", "PodGroup", metadata, json!({"spec": spec, "status": status}))
}

fn pod(annotations: Value, limits: Value) -> Value {
    let metadata = json!({"name": "p", "namespace": "ml", "annotations": annotations});
    let spec = json!({"containers": [{"name": "c", "image": "i", "resources": {"limits": limits}}]});
    object("v1", "Pod", metadata, json!({"spec": spec}))
}

fn told(object: &Value) -> (Vec<Fact>, Vec<String>) {
    let translation = Translator::default().upsert(object);
    (translation.facts, translation.problems.iter().map(ToString::to_string).collect())
}

fn queue_told(object: &Value) -> (QueueFact, Vec<String>) {
    let (facts, problems) = told(object);
    match &facts[..] {
        [Fact::Quota(QuotaFact::Queue(fact))] => (fact.clone(), problems),
        other => panic!("{other:?}"),
    }
}

fn group_told(object: &Value) -> (GroupFact, Vec<String>) {
    let (facts, problems) = told(object);
    match &facts[..] {
        [Fact::Group(fact)] => (fact.clone(), problems),
        other => panic!("{other:?}"),
    }
}

fn pod_told(object: &Value) -> (PodFact, Vec<String>) {
    let (facts, problems) = told(object);
    match &facts[..] {
        [Fact::Pod(fact)] => (fact.clone(), problems),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_queue_is_told_with_its_limits() {
    let (fact, problems) = queue_told(&queue_of(
        "a",
        json!({"parent": "lab", "capability": {"cpu": "100"}, "deserved": {}, "guarantee": {"resource": {"cpu": "50"}},
            "reclaimable": false, "priority": 7, "weight": 3}),
    ));
    assert_eq!(problems, Vec::<String>::new());
    assert_eq!(fact.key.to_string(), "Queue/a");
    assert_eq!((fact.parent.as_deref(), fact.closed, fact.reclaimable, fact.priority), (Some("lab"), false, false, 7));
    assert_eq!((fact.capability.get("cpu"), fact.guarantee.get("cpu")), (Some(100_000), Some(50_000)));
    assert!(fact.deserved.is_some_and(|deserved| deserved.is_empty()));
    assert_eq!(fact.card_quota, None);
}

#[test]
fn what_a_queue_leaves_out() {
    let (fact, _) = queue_told(&queue_of("a", json!({"parent": "root"})));
    assert_eq!((fact.parent, fact.deserved, fact.reclaimable), (None, None, true));
    for (state, closed) in [("", false), ("Open", false), ("Unknown", false), ("Closed", true), ("Closing", true)] {
        let mut queue = queue_of("a", json!({}));
        queue["status"] = json!({"state": state});
        assert_eq!(queue_told(&queue).0.closed, closed, "{state}");
        assert_eq!(queue::is_closed(&queue), closed, "{state}");
    }
    assert_eq!(queue_told(&queue_of("root", json!({"capability": {"cpu": 9}}))).0.parent, None);
}

#[test]
fn a_card_quota_that_cannot_be_read_is_one_of_no_cards() {
    let (fact, problems) = queue_told(&with_quota("a", "{\"A100\": 5}"));
    assert_eq!((fact.card_quota.and_then(|quota| quota.get("A100")), problems.len()), (Some(5), 0));
    for wrong in ["five A100", "", "[]", "{\"A100\": -1}", "{\"A100\": 5, \"H100\": \"x\"}"] {
        let (fact, problems) = queue_told(&with_quota("a", wrong));
        assert!(fact.card_quota.is_some_and(|quota| quota.is_empty()), "{wrong}");
        assert!(problems.len() == 1 && problems[0].contains("volcano.sh/card.quota"), "{problems:?}");
    }
}

#[test]
fn a_group_is_told_with_what_it_takes() {
    let annotations =
        json!({"volcano.sh/card.request": "{\"A100|H100\": 4, \"T4\": 0}", "quotient.dev/mixed-cards": "true"});
    let spec = json!({"queue": "q", "minMember": 4, "minTaskMember": {"head": 1, "worker": 3},
        "minResources": {"cpu": "8", "count/pods": "4", "limits.cpu": "8", "requests.cpu": "8", "pods": "4"}});
    let (fact, problems) = group_told(&group(annotations.clone(), spec.clone(), json!({})));
    assert_eq!(problems, Vec::<String>::new());
    assert_eq!((fact.queue.as_deref(), fact.min_member, fact.min_task_member.len()), (Some("q"), 4, 2));
    let resources: Vec<(&str, i64)> = fact.min_resources.iter().map(|(name, amount)| (&**name, *amount)).collect();
    assert_eq!(resources, [("cpu", 8000)]);
    assert_eq!((fact.card_request.len(), fact.mixed_cards, fact.admitted, &fact.problem), (1, true, false, &None));
    for (phase, admitted) in [("Pending", false), ("Inqueue", true), ("Running", true), ("Unknown", true)] {
        let (fact, _) = group_told(&group(annotations.clone(), spec.clone(), json!({"phase": phase})));
        assert_eq!((fact.admitted, fact.min_resources.is_empty()), (admitted, false), "{phase}");
    }
    let (done, _) = group_told(&group(annotations, spec, json!({"phase": "Completed"})));
    assert!(done.min_resources.is_empty() && done.card_request.is_empty(), "one that is done takes nothing");
}

#[test]
fn tasks_of_a_group_that_takes_fewer_do_not_count() {
    let (fact, _) = group_told(&group(json!({}), json!({"minMember": 1, "minTaskMember": {"w": 4}}), json!({})));
    assert_eq!((fact.min_member, fact.min_task_member), (1, vec![]));
    let (fact, _) = group_told(&group(json!({}), json!({}), json!({})));
    assert_eq!((fact.min_member, fact.queue), (1, None));
}

#[test]
fn a_group_that_cannot_be_read_says_why() {
    let cases = [
        (
            json!({"volcano.sh/card.request": "one A100"}),
            json!({}),
            "metadata.annotations[\"volcano.sh/card.request\"]",
        ),
        (
            json!({"volcano.sh/card.request": "{\"A100|\": 1}"}),
            json!({}),
            "metadata.annotations[\"volcano.sh/card.request\"]",
        ),
        (json!({}), json!({"minMember": -1}), "spec.minMember"),
        (json!({}), json!({"minResources": {"cpu": "lots"}}), "spec.minResources.cpu"),
        (
            json!({"scheduling.volcano.sh/group-min-member": "two"}),
            json!({}),
            "metadata.annotations[\"scheduling.volcano.sh/group-min-member\"]",
        ),
    ];
    for (annotations, spec, field) in cases {
        let (fact, problems) = group_told(&group(annotations, spec, json!({})));
        assert_eq!(fact.problem.map(|problem| problem.field.to_string()).as_deref(), Some(field));
        assert_eq!(problems.len(), 1, "{problems:?}");
    }
}

#[test]
fn a_pod_says_its_queue_group_task_and_cards() {
    let annotations = json!({"scheduling.volcano.sh/queue-name": "q", "scheduling.volcano.sh/group-name": "g",
        "volcano.sh/task-spec": "worker", "volcano.sh/preemptable": "false", "volcano.sh/card.name": "A100 | H100"});
    let (fact, problems) = pod_told(&pod(annotations, json!({"nvidia.com/gpu": 1})));
    assert_eq!(problems, Vec::<String>::new());
    let shown = (
        fact.queue.as_deref(),
        fact.group.as_ref().map(|group| &*group.name),
        fact.task.as_deref(),
        fact.eviction_class == EvictionClass::Protected,
    );
    assert_eq!(shown, (Some("q"), Some("g"), Some("worker"), true));
    assert_eq!(fact.spec.cards.iter().map(|card| &**card).collect::<Vec<_>>(), ["A100", "H100"]);
    assert_eq!(fact.problem, None);
    let mut labelled = pod(json!({}), json!({}));
    labelled["metadata"]["labels"] = json!({"volcano.sh/preemptable": "false"});
    assert_eq!(pod_told(&labelled).0.eviction_class, EvictionClass::Protected);
    let preemptable = pod(json!({"volcano.sh/preemptable": "true"}), json!({}));
    assert_eq!(pod_told(&preemptable).0.eviction_class, EvictionClass::Preemptible);
}

#[test]
fn a_card_that_is_named_must_be_asked_for() {
    let cases = [
        ("A100", json!({"cpu": 1})),
        ("A100", json!({})),
        ("|", json!({"nvidia.com/gpu": 1})),
        ("A100||", json!({"x.com/y": 1})),
    ];
    for (name, limits) in cases {
        let (fact, problems) = pod_told(&pod(json!({"volcano.sh/card.name": name}), limits.clone()));
        let problem = fact.problem.unwrap_or_else(|| panic!("{name} with {limits} cannot be read"));
        assert_eq!(&*problem.field, "metadata.annotations[\"volcano.sh/card.name\"]");
        assert_eq!((problems.len(), fact.spec.cards.len()), (1, 0), "{problems:?}");
    }
}

#[test]
fn the_queue_of_a_namespace() {
    let queue_of = |annotations: Value| {
        let namespace = object("v1", "Namespace", json!({"name": "team", "annotations": annotations}), json!({}));
        let facts = told(&namespace).0;
        facts.into_iter().find_map(|fact| match fact {
            Fact::QueueOfNamespace { queue, .. } => Some(queue.map(|queue| queue.to_string())),
            _ => None,
        })
    };
    assert_eq!(queue_of(json!({"scheduling.volcano.sh/queue-name": "q"})), Some(Some("q".to_string())));
    assert_eq!(queue_of(json!({})), Some(None));
    let key = ObjectKey { group: "", kind: "Namespace", namespace: None, name: "team".into() };
    let gone = Translator::default().remove(&key).facts;
    assert!(gone.contains(&Fact::QueueOfNamespace { namespace: "team".into(), queue: None }));
}

/// What admission says of an object that is applied.
fn said(object: &Value, view: &Objects) -> Result<Value, String> {
    let old = view.get(&key_of(object).expect("an object"));
    let operation = if old.is_some() { Operation::Update } else { Operation::Create };
    let admitted = admit(Request { operation, object: object.clone(), old }, view);
    admitted.map(|admitted| admitted.object).map_err(|rejection| rejection.message)
}

fn refused(object: &Value, view: &Objects, message: &str) {
    match said(object, view) {
        Err(found) => assert!(found.contains(message), "{object}: {found}"),
        Ok(_) => panic!("{object} was let in: expected {message:?}"),
    }
}

fn let_in(object: &Value, view: &Objects) -> Value {
    said(object, view).unwrap_or_else(|message| panic!("{object}: {message}"))
}

#[test]
fn what_a_queue_may_not_be() {
    let view = Objects::of(&[
        queue_of(
            "parent",
            json!({"capability": {"cpu": 4}, "deserved": {"cpu": 3}, "guarantee": {"resource": {"cpu": 2}}}),
        ),
        queue_of("child", json!({"parent": "parent", "guarantee": {"resource": {"cpu": 1}}, "deserved": {"cpu": 2}})),
        queue_of("plain", json!({})),
    ]);
    let cases = [
        (queue_of("q", json!({"capability": {"cpu": "-1"}})), "spec.capability.cpu"),
        (queue_of("q", json!({"deserved": {"cpu": "x"}})), "spec.deserved.cpu"),
        (queue_of("q", json!({"guarantee": {"resource": {"a b": 1}}})), "no name of a resource"),
        (
            queue_of("q", json!({"capability": {"cpu": 2}, "deserved": {"cpu": 4}})),
            "deserved must not be more than capability",
        ),
        (
            queue_of("q", json!({"deserved": {"cpu": 2}, "guarantee": {"resource": {"cpu": 3}}})),
            "guarantee must not be more",
        ),
        (
            queue_of("q", json!({"capability": {"cpu": 2}, "guarantee": {"resource": {"cpu": 3}}})),
            "guarantee must not be more",
        ),
        (queue_of("q", json!({"parent": "q"})), "its own parent"),
        (queue_of("q", json!({"parent": "nobody"})), "no such queue"),
        (queue_of("parent", json!({"parent": "child"})), "below parent itself"),
        (queue_of("root", json!({"parent": "plain"})), "no queue above it"),
        (
            queue_of("q", json!({"parent": "parent", "capability": {"cpu": 5}})),
            "capability must not be more than that of parent",
        ),
        (
            queue_of("q", json!({"parent": "parent", "guarantee": {"resource": {"cpu": 2}}})),
            "guarantee of all queues below parent",
        ),
        (queue_of("q", json!({"parent": "parent", "deserved": {"cpu": 2}})), "deserved of all queues below parent"),
        (
            queue_of("q", json!({"parent": "plain", "guarantee": {"resource": {"cpu": 1}}})),
            "guarantee of all queues below plain",
        ),
        (queue_of("parent", json!({"capability": {"cpu": 4}})), "spec.guarantee"),
        (queue_of("q", json!({"weight": 0})), "from 1 to 65535"),
        (queue_of("q", json!({"weight": 65536})), "from 1 to 65535"),
        (queue_of("q", json!({"priority": -1})), "spec.priority"),
        (queue_of("q", json!({"reclaimable": "yes"})), "spec.reclaimable"),
    ];
    for (queue, message) in cases {
        refused(&queue, &view, message);
    }
    let fine = [
        queue_of("q", json!({"capability": {"cpu": "100"}, "guarantee": {"resource": {"cpu": "50"}}})),
        queue_of("q", json!({"capability": {"cpu": 4}, "deserved": {"cpu": 4}, "guarantee": {"resource": {"cpu": 4}}})),
        queue_of("q", json!({"parent": "parent", "guarantee": {"resource": {"cpu": 1}}, "deserved": {"cpu": 1}})),
        queue_of("q", json!({"parent": "plain", "deserved": {"cpu": 1}, "capability": {"cpu": 1000}})),
        queue_of("q", json!({"parent": "root", "weight": 1, "priority": 0, "reclaimable": true, "type": "x"})),
    ];
    fine.iter().for_each(|queue| assert_eq!(let_in(queue, &view), *queue));
}

#[test]
fn a_tree_is_five_levels_deep() {
    let level =
        |n: u32| queue_of(&format!("d{n}"), if n == 1 { json!({}) } else { json!({"parent": format!("d{}", n - 1)}) });
    let view = Objects::of(&[level(1), level(2), level(3), level(4), level(5)]);
    refused(&level(6), &view, "6 levels deep");
    // To put a tree of two levels under the fourth is as wrong as to add a sixth.
    let apart = Objects::of(&[
        level(1),
        level(2),
        level(3),
        level(4),
        queue_of("x", json!({})),
        queue_of("y", json!({"parent": "x"})),
    ]);
    refused(&queue_of("x", json!({"parent": "d4"})), &apart, "6 levels deep");
    let_in(&queue_of("x", json!({"parent": "d3"})), &apart);
}

#[test]
fn a_queue_with_pods_gets_no_children() {
    let in_queue = |annotations: Value| pod(annotations, json!({}));
    let child = |parent: &str| queue_of("child", json!({"parent": parent}));
    let queues = [queue_of("q", json!({})), queue_of("default", json!({}))];
    let with = |pod: Value, more: &[Value]| {
        Objects::of(&queues.iter().cloned().chain([pod]).chain(more.iter().cloned()).collect::<Vec<_>>())
    };
    let own = with(in_queue(json!({"scheduling.volcano.sh/queue-name": "q"})), &[]);
    refused(&child("q"), &own, "q has pods of its own (Pod/ml/p)");
    let_in(&child("default"), &own);
    let mut ended = in_queue(json!({"scheduling.volcano.sh/queue-name": "q"}));
    ended["status"] = json!({"phase": "Succeeded"});
    let_in(&child("q"), &with(ended, &[]));
    let by_group = with(
        in_queue(json!({"scheduling.k8s.io/group-name": "g", "scheduling.volcano.sh/queue-name": "default"})),
        &[group(json!({}), json!({"queue": "q"}), json!({}))],
    );
    refused(&child("q"), &by_group, "pods of its own");
    let team = object(
        "v1",
        "Namespace",
        json!({"name": "ml", "annotations": {"scheduling.volcano.sh/queue-name": "q"}}),
        json!({}),
    );
    refused(&child("q"), &with(in_queue(json!({})), &[team]), "pods of its own");
    refused(&child("default"), &with(in_queue(json!({})), &[]), "pods of its own");
}

#[test]
fn which_queues_may_go() {
    let view = Objects::of(&[queue_of("parent", json!({})), queue_of("child", json!({"parent": "parent"}))]);
    let delete = |name: &str| {
        let object = queue_of(name, json!({}));
        admit(Request { operation: Operation::Delete, object: object.clone(), old: Some(&object) }, &view)
    };
    assert!(delete("child").is_ok());
    for (name, message) in
        [("parent", "queues are below it (child)"), ("root", "exists always"), ("default", "exists always")]
    {
        let found = delete(name).expect_err("it stays").message;
        assert!(found.contains(message), "{found}");
    }
}

#[test]
fn a_bad_queue_can_be_mended_and_left_as_it_is() {
    let bad = queue_of("bad", json!({"parent": "nobody", "capability": {"cpu": 1}}));
    let view = Objects::of(std::slice::from_ref(&bad));
    let mut closed = bad;
    closed["status"] = json!({"state": "Closed"});
    let_in(&closed, &view);
    let_in(&queue_of("bad", json!({"capability": {"cpu": 1}})), &view);
}

#[test]
fn a_group_goes_into_an_open_queue() {
    let mut closed = queue_of("closed", json!({}));
    closed["status"] = json!({"state": "Closed"});
    let before = group(json!({}), json!({"queue": "closed", "minMember": 1}), json!({}));
    let view = Objects::of(&[queue_of("open", json!({})), closed.clone()]);
    let of = |queue: &str| group(json!({}), json!({"queue": queue}), json!({}));
    let_in(&of("open"), &view);
    let_in(&of(""), &view);
    let_in(&of("default"), &view);
    refused(&of("closed"), &view, "closed is closed");
    refused(&of("nowhere"), &view, "no such queue");
    let_in(&group(json!({}), json!({"queue": "closed", "minMember": 2}), json!({})), &Objects::of(&[closed, before]));
    refused(&group(json!({}), json!({"minResources": {"cpu": "-1"}}), json!({})), &view, "spec.minResources.cpu");
    refused(&group(json!({}), json!({"minMember": "2"}), json!({})), &view, "spec.minMember");
}

fn job(spec: Value) -> Value {
    object("batch.volcano.sh/v1alpha1", "Job", json!({"name": "j", "namespace": "ml"}), json!({"spec": spec}))
}

fn template() -> Value {
    json!({"spec": {"containers": [{"name": "c", "image": "i"}]}})
}

#[test]
fn what_a_job_leaves_out() {
    let view = Objects::default();
    let two = json!([{"replicas": 2, "template": template()}, {"name": "w", "minAvailable": 1, "replicas": 3, "template": template()}]);
    let admitted = let_in(&job(json!({"tasks": two})), &view);
    let spec = &admitted["spec"];
    assert_eq!((&spec["queue"], &spec["minAvailable"], &spec["maxRetry"]), (&json!("default"), &json!(3), &json!(3)));
    assert_eq!((&spec["tasks"][0]["name"], &spec["tasks"][1]["name"]), (&json!("default0"), &json!("w")));
    assert_eq!(let_in(&admitted, &view), admitted);
}

#[test]
fn what_a_job_may_not_say() {
    let view = Objects::of(&[queue_of("q", json!({}))]);
    let task = |more: Value| {
        let mut task = json!({"name": "w", "replicas": 2, "template": template()});
        more.as_object().into_iter().flatten().for_each(|(key, value)| task[key] = value.clone());
        task
    };
    let cases = [
        (json!({}), "spec.tasks"),
        (json!({"tasks": [task(json!({})), task(json!({}))]}), "the name of two tasks"),
        (json!({"tasks": [task(json!({"name": "W"}))]}), "spec.tasks[0].name"),
        (json!({"tasks": [task(json!({"replicas": -1}))]}), "spec.tasks[0].replicas"),
        (json!({"tasks": [task(json!({"minAvailable": 3}))]}), "more than the task has pods, which is 2"),
        (json!({"tasks": [task(json!({}))], "minAvailable": 3}), "more than the tasks have pods, which is 2"),
        (json!({"tasks": [task(json!({"template": null}))]}), "spec.tasks[0].template"),
        (json!({"tasks": [task(json!({}))], "queue": "nowhere"}), "no such queue"),
        (json!({"tasks": [task(json!({}))], "policies": [{"event": "PodFailed"}]}), "spec.policies[0].action"),
        (
            json!({"tasks": [task(json!({}))], "policies": [{"action": "Restart", "event": "PodFailed"}]}),
            "expected one of AbortJob",
        ),
        (
            json!({"tasks": [task(json!({}))], "policies": [{"action": "AbortJob", "event": "PodFalied"}]}),
            "expected one of *",
        ),
        (
            json!({"tasks": [task(json!({}))], "policies": [{"action": "AbortJob"}]}),
            "expected event, events or exitCode",
        ),
        (
            json!({"tasks": [task(json!({}))], "policies": [{"action": "AbortJob", "event": "PodFailed"},
                {"action": "RestartJob", "events": ["PodEvicted", "PodFailed"]}]}),
            "two policies",
        ),
        (
            json!({"tasks": [task(json!({}))], "policies": [{"action": "AbortJob", "events": ["*", "PodFailed"]}]}),
            "stands for every event",
        ),
        (json!({"tasks": [task(json!({"policies": [{"action": "AbortJob", "exitCode": 0}]}))]}), "0 is no failure"),
    ];
    for (spec, message) in cases {
        refused(&job(spec), &view, message);
    }
    let fine = job(
        json!({"queue": "q", "schedulerName": "volcano", "tasks": [task(json!({}))], "plugins": {"ssh": []},
        "policies": [{"action": "RestartJob", "events": ["PodEvicted", "PodFailed"]}, {"action": "CompleteJob", "event": "TaskCompleted"}]}),
    );
    let_in(&fine, &view);
}

#[test]
fn a_gang_by_annotation() {
    const MIN: &str = "scheduling.volcano.sh/group-min-member";
    let owned = |annotations: Value| {
        let mut pod = pod(annotations, json!({"cpu": "2", "nvidia.com/gpu": "1"}));
        pod["metadata"]["ownerReferences"] =
            json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "7", "controller": true}]);
        pod
    };
    let owner = |annotations: Value| {
        object("apps/v1", "ReplicaSet", json!({"name": "web", "annotations": annotations}), json!({}))
    };
    assert_eq!(gang(&owned(json!({})), &[&owner(json!({}))]), None);

    let of_owner = gang(
        &owned(json!({"scheduling.volcano.sh/queue-name": "q"})),
        &[&owner(json!({MIN: "3", "volcano.sh/card.request": "{\"A100\": 3}"}))],
    )
    .expect("a gang");
    assert_eq!((of_owner.name.as_str(), of_owner.is_unnamed, of_owner.is_of_owner), ("podgroup-7", true, true));
    let takes = json!({"cpu": "6", "nvidia.com/gpu": "3", "requests.cpu": "6", "requests.nvidia.com/gpu": "3",
        "limits.cpu": "6", "pods": "3", "count/pods": "3"});
    let spec = json!({"minMember": 3, "minResources": takes, "queue": "q"});
    assert_eq!(of_owner.group["spec"], spec);
    assert_eq!(of_owner.group["metadata"]["annotations"]["volcano.sh/card.request"], "{\"A100\": 3}");
    assert_eq!(of_owner.group["metadata"]["ownerReferences"][0]["name"], "web");

    let above = object("apps/v1", "Deployment", json!({"name": "web", "annotations": {MIN: "2"}}), json!({}));
    let by_deployment = gang(&owned(json!({})), &[&owner(json!({})), &above]).expect("a gang");
    assert_eq!(by_deployment.group["spec"]["minMember"], 2);

    let named = pod(json!({MIN: "4", "scheduling.k8s.io/group-name": "set"}), json!({}));
    let named = gang(&named, &[]).expect("a gang");
    assert_eq!((named.name.as_str(), named.is_unnamed, named.is_of_owner), ("set", false, false));
    let alone = pod(json!({MIN: "4"}), json!({}));
    assert_eq!(gang(&alone, &[]), None);
    assert_eq!(pod_told(&alone).1.len(), 1, "that it has no effect is said");
    let group = pod_told(&owned(json!({MIN: "4"}))).0.group.expect("it has a group");
    assert_eq!((&*group.api_group, &*group.name), ("scheduling.volcano.sh", "podgroup-7"));
    let chosen = owned(json!({"scheduling.k8s.io/group-name": "other"}));
    assert_eq!(gang(&chosen, &[&owner(json!({MIN: "3"}))]), None, "it joined a group of its own choice");

    let mut group = of_owner.group.clone();
    assert!(!renew(&mut group, &of_owner.group));
    let more = gang(&owned(json!({})), &[&owner(json!({MIN: "5"}))]).expect("a gang");
    assert!(renew(&mut group, &more.group));
    assert_eq!((&group["spec"]["minMember"], group["spec"].get("queue")), (&json!(5), None));
    assert!(!renew(&mut group, &more.group));
}

fn reason(code: Code, policy: PolicyKind, resource: &str) -> Reason {
    Reason {
        code,
        message: "there is no room".to_string(),
        quota: Some(QuotaPath { policy, path: vec!["Queue/root".into(), "Queue/q".into()] }),
        numbers: Some(Numbers { resource: resource.into(), used: 1, requested: 1, limit: 1 }),
        closed: Vec::new(),
        remedies: Vec::new(),
        details: Vec::new(),
    }
}

#[test]
fn events_of_pods() {
    let cases = [
        (Code::QuotaMaxExceeded, PolicyKind::Queue, "cpu", Some("InsufficientCPUQuota")),
        (Code::QuotaMaxExceeded, PolicyKind::Queue, "memory", Some("InsufficientMemoryQuota")),
        (Code::QuotaMaxExceeded, PolicyKind::Queue, "nvidia.com/gpu", Some("InsufficientScalarQuota")),
        (Code::CardQuotaExceeded, PolicyKind::Queue, "NVIDIA-A100-80GB", Some("InsufficientScalarQuota")),
        (Code::QuotaMaxExceeded, PolicyKind::Elastic, "cpu", None),
        (Code::NoFittingNode, PolicyKind::Queue, "cpu", None),
        (Code::InvalidRequest, PolicyKind::Queue, "cpu", Some("GetTaskRequestResourceFailed")),
    ];
    let queued = pod(json!({"volcano.sh/card.name": "A100"}), json!({}));
    for (code, policy, resource, event) in cases {
        assert_eq!(events::of_pod(&queued, &reason(code, policy, resource)), event, "{code:?} {policy} {resource}");
    }
    let unreadable = reason(Code::InvalidRequest, PolicyKind::Queue, "cpu");
    assert_eq!(events::of_pod(&pod(json!({}), json!({})), &unreadable), None);
}

#[test]
fn a_queue_that_limits_nothing_is_warned_of() {
    assert!(events::of_queue(&queue_of("q", json!({"deserved": {"cpu": 1}}))).is_some());
    assert!(events::of_queue(&queue_of("q", json!({"capability": {}}))).is_some());
    for fine in
        [queue_of("q", json!({"capability": {"cpu": 1}})), with_quota("q", "{}"), queue_of("default", json!({}))]
    {
        assert_eq!(events::of_queue(&fine), None);
    }
}

#[test]
fn the_phases_of_a_group() {
    let report = |admitted: bool, members: u32, placed: u32| GroupReport {
        admitted,
        members,
        placed,
        running: placed,
        min_member: 2,
        ..GroupReport::default()
    };
    let ended = |succeeded: u32, failed: u32| Ended { succeeded, failed };
    let cases = [
        (report(false, 2, 0), ended(0, 0), "Pending"),
        (report(true, 0, 0), ended(0, 0), "Inqueue"),
        (report(true, 2, 0), ended(0, 0), "Inqueue"),
        (report(true, 2, 1), ended(0, 0), "Unknown"),
        (report(true, 2, 2), ended(0, 0), "Running"),
        (report(true, 3, 2), ended(0, 0), "Running"),
        (report(true, 1, 1), ended(1, 0), "Running"),
        (report(true, 1, 1), ended(0, 1), "Unknown"),
        (report(true, 0, 0), ended(2, 0), "Completed"),
        (report(true, 0, 0), ended(1, 1), "Inqueue"),
    ];
    for (report, ended, phase) in cases {
        let (status, _) = group_status(&group(json!({}), json!({}), json!({})), &report, ended, "now");
        assert_eq!(status["phase"], phase, "{report:?} {ended:?}");
    }
}

#[test]
fn the_conditions_of_a_group() {
    let waits = GroupReport {
        admitted: true,
        members: 4,
        placed: 2,
        running: 2,
        min_member: 4,
        reason: Some(std::sync::Arc::new(reason(Code::GangIncomplete, PolicyKind::Queue, "cpu"))),
        ..GroupReport::default()
    };
    let mut group = group(json!({}), json!({}), json!({}));
    let (status, told) = group_status(&group, &waits, Ended::default(), "1");
    let message = "2/4 tasks in gang unschedulable: there is no room";
    let condition = json!({"type": "Unschedulable", "status": "True", "reason": "NotEnoughResources", "message": message,
        "lastTransitionTime": "1"});
    assert_eq!(status["conditions"], json!([condition]));
    let told = told.expect("it is worth an event");
    assert_eq!((told.kind, told.reason, told.message.as_str()), ("Warning", "Unschedulable", message));
    group["status"] = status.clone();
    let (again, told) = group_status(&group, &waits, Ended::default(), "2");
    assert_eq!((again, told), (status, None), "the same is not said twice");
    let runs = GroupReport { placed: 4, running: 4, reason: None, ..waits };
    let (status, told) = group_status(&group, &runs, Ended::default(), "3");
    assert_eq!(told.map(|told| (told.kind, told.reason)), Some(("Normal", "Scheduled")));
    let conditions = status["conditions"].as_array().expect("conditions");
    let shown: Vec<(&Value, &Value)> = conditions.iter().map(|c| (&c["type"], &c["status"])).collect();
    assert_eq!(shown, [(&json!("Unschedulable"), &json!("False")), (&json!("Scheduled"), &json!("True"))]);
}

#[test]
fn the_status_of_a_queue() {
    let report = QuotaReport {
        used: vec![("cpu".into(), 1500), ("A100".into(), 2), ("nos.nebuly.com/gpu-memory".into(), 32), ("x".into(), 0)],
        ..QuotaReport::default()
    };
    let fields = |queue: &Value, report: Option<&QuotaReport>, groups: &[(&'static str, u32)]| {
        let fields = queue_status(queue, report, &groups.iter().copied().collect(), None);
        Value::Object(fields.into_iter().map(|(name, value)| (name.to_string(), value)).collect())
    };
    let status = fields(&queue_of("q", json!({})), Some(&report), &[("Running", 2), ("Pending", 1)]);
    let expected = json!({"state": "Open", "allocated": {"A100": "2", "cpu": "1500m"}, "pending": 1, "inqueue": 0, "running": 2,
        "unknown": 0, "completed": 0});
    assert_eq!(status, expected);
    let mut closing = queue_of("q", json!({}));
    closing["status"] = json!({"state": "Closing"});
    assert_eq!(fields(&closing, Some(&report), &[])["state"], "Closing");
    assert_eq!(fields(&closing, None, &[("Pending", 1)])["state"], "Closing");
    assert_eq!(fields(&closing, None, &[("Completed", 1)])["state"], "Closed");
}

#[test]
fn traps_of_queues_and_cards() {
    let node = object(
        "v1",
        "Node",
        json!({"name": "n", "labels": {"nvidia.com/gpu.product": "NVIDIA-A100-80GB"}}),
        json!({"status": {"allocatable": {"cpu": "16", "nvidia.com/gpu": "8"}}}),
    );
    let limited = |name: &str, spec: Value| {
        let mut all = json!({"capability": {"cpu": 16}});
        spec.as_object().into_iter().flatten().for_each(|(key, value)| all[key] = value.clone());
        queue_of(name, all)
    };
    let lines = |objects: &[Value]| -> Vec<String> {
        let objects: Vec<&Value> = objects.iter().collect();
        traps(&objects, &[&node]).iter().map(|(_, problem)| problem.to_string()).collect()
    };
    assert_eq!(
        lines(&[limited("a", json!({"guarantee": {"resource": {"cpu": 16}}})), limited("b", json!({}))]),
        Vec::<String>::new()
    );
    let both = [
        limited("a", json!({"guarantee": {"resource": {"cpu": 10}}})),
        limited("b", json!({"guarantee": {"resource": {"cpu": 10}}})),
    ];
    assert_eq!(
        lines(&both),
        [
            r#"Queue/a: spec.guarantee.resource.cpu: "10": the guarantees of all queues below root sum up to 20 of cpu, and the nodes hold 16: not all of them can be kept"#
        ]
    );
    let unreachable = lines(&[
        limited("a", json!({"guarantee": {"resource": {"cpu": 17}}, "deserved": {"x.com/y": 1}})),
        limited("b", json!({})),
    ]);
    assert!(unreachable[0].ends_with("all nodes together hold 16: this guarantee can never be had"), "{unreachable:?}");
    assert!(unreachable[1].ends_with("no node has x.com/y: this deserved can never be had"), "{unreachable:?}");
    let cards = lines(&[with_quota("a", "{\"NVIDIA-A100-80G\": 5, \"Tesla-T4\": 1, \"H100\": 0}")]);
    assert_eq!(cards.len(), 2, "{cards:?}");
    assert!(
        cards[0].ends_with(r#"no node has a card "NVIDIA-A100-80G": did you mean "NVIDIA-A100-80GB"?"#),
        "{cards:?}"
    );
    assert!(cards[1].ends_with(r#"no node has a card "Tesla-T4""#), "{cards:?}");
    let pods = lines(&[
        pod(json!({"volcano.sh/card.name": "NVIDIA-A100-80GB|nvidia-a100-80gb"}), json!({})),
        job(json!({"tasks": [{"template": {"metadata": {"annotations": {"volcano.sh/card.name": "L4"}}}}]})),
    ]);
    assert!(pods[0].contains("did you mean") && pods[1].contains("spec.tasks[0].template.metadata"), "{pods:?}");
    let kept = lines(&[limited("a", json!({"deserved": {"cpu": 4}})), limited("b", json!({"reclaimable": false}))]);
    assert!(kept.len() == 1 && kept[0].contains("no other queue is reclaimable"), "{kept:?}");
    let unlimited =
        lines(&[queue_of("a", json!({})), limited("p", json!({"weight": 4})), queue_of("c", json!({"parent": "p"}))]);
    assert!(unlimited[0].starts_with("Queue/a: spec.capability: missing"), "{unlimited:?}");
    assert!(unlimited.len() == 2 && unlimited[1].contains("spec.weight: 4: has no effect"), "{unlimited:?}");
    assert_eq!(
        traps(&[&queue_of("a", json!({"capability": {"cpu": 999}, "guarantee": {"resource": {"cpu": 99}}}))], &[]),
        []
    );
}
