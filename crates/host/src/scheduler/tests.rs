//! What is written because of what was seen.

use super::*;
use quotient_api::kinds;

const NOW: Now = Now { tick: Tick(1_000), wall_us: 1_767_225_600_000_000 };

fn pod(name: &str, cpu: &str) -> Value {
    json!({
        "metadata": {"name": name, "namespace": "a", "uid": name},
        "spec": {"schedulerName": "quotient", "containers": [
            {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}]},
    })
}

fn seeing(objects: &[(&str, Value)]) -> Scheduler {
    let mut scheduler = Scheduler::new(&Configuration::default(), None, SharedObjects::default());
    for (kind, object) in objects {
        let kind = kinds::find("", kind).expect("it is known");
        scheduler.see(NOW, Seen::Object(Subject::Kind(kind), object.clone()));
    }
    scheduler
}

fn node() -> (&'static str, Value) {
    ("Node", json!({"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "1", "pods": "10"}}}))
}

#[test]
fn objects_of_a_list_are_read_though_they_do_not_say_what_they_are() {
    let round = seeing(&[node(), ("Pod", pod("p", "1"))]).decide(NOW, Budget::default());
    let [Write::Bind { pod, node, .. }] = &round.writes[..] else { panic!("{:?}", round.writes) };
    assert_eq!((pod.key.to_string().as_str(), &**node), ("a/p", "n"));
}

#[test]
fn why_a_pod_waits_is_not_written_again_by_the_next_scheduler() {
    let written = seeing(&[node(), ("Pod", pod("p", "2"))]).decide(NOW, Budget::default()).writes;
    let [Write::Event(_), Write::Condition { reason, message, since, .. }] = &written[..] else {
        panic!("{written:?}")
    };
    assert_eq!(since.as_deref(), Some("2026-01-01T00:00:00Z"));
    let mut told = pod("p", "2");
    let condition = json!({"type": "PodScheduled", "status": "False", "reason": reason, "message": message});
    told["status"] = json!({"conditions": [condition]});
    assert_eq!(seeing(&[node(), ("Pod", told.clone())]).decide(NOW, Budget::default()).writes, []);
    told["status"]["conditions"][0]["message"] = json!("something else");
    let written = seeing(&[node(), ("Pod", told)]).decide(NOW, Budget::default()).writes;
    let [Write::Event(_), Write::Condition { since, .. }] = &written[..] else { panic!("{written:?}") };
    assert_eq!(*since, None, "it waits since it said so");
}

#[test]
fn numbers_that_change_are_written_every_half_a_minute_and_a_new_code_at_once() {
    let at = |ms: u64| Now { tick: Tick(NOW.tick.0 + ms), ..NOW };
    let mut scheduler = seeing(&[node(), ("Pod", pod("p", "2"))]);
    let mut change = |ms: u64, capacity: &str, unschedulable: bool| {
        let kind = kinds::find("", "Node").expect("it is known");
        let node = json!({"metadata": {"name": "n"}, "spec": {"unschedulable": unschedulable},
            "status": {"allocatable": {"cpu": capacity, "pods": "10"}}});
        scheduler.see(at(ms), Seen::Object(Subject::Kind(kind), node));
        let round = scheduler.decide(at(ms), Budget::default());
        let condition = |write: &Write| matches!(write, Write::Condition { .. });
        (round.writes.iter().filter(|write| condition(write)).count(), round.wake_at)
    };
    assert_eq!(change(0, "1", false).0, 1);
    for step in 1..20 {
        let (written, wake_at) = change(step * 100, &format!("{}m", 1000 + step), false);
        assert_eq!(written, 0, "the code is the same");
        assert_eq!(wake_at, Some(at(30_000).tick));
    }
    assert_eq!(change(30_000, "1900m", false).0, 1, "what changed meanwhile, once");
    assert_eq!(change(30_001, "1800m", false).0, 0);
}

#[test]
fn a_claim_that_is_missing_is_said_if_it_stays_so() {
    let at = |ms: u64| Now { tick: Tick(NOW.tick.0 + ms), ..NOW };
    let mut claimant = pod("p", "1");
    claimant["spec"]["resourceClaims"] = json!([{"name": "gpu", "resourceClaimName": "missing"}]);
    let mut scheduler = seeing(&[node(), ("Pod", claimant)]);
    let first = scheduler.decide(at(0), Budget::default());
    assert_eq!((&first.writes[..], first.wake_at), (&[] as &[Write], Some(at(1_000).tick)));
    assert_eq!(scheduler.decide(at(999), Budget::default()).writes, []);
    let written = scheduler.decide(at(1_000), Budget::default()).writes;
    assert!(matches!(&written[..], [Write::Event(_), Write::Condition { .. }]), "{written:?}");
}

#[test]
fn an_object_that_cannot_be_read_is_said_once() {
    let mut scheduler = seeing(&[]);
    let broken = json!({"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "lots"}}});
    let kind = kinds::find("", "Node").expect("it is known");
    for _ in 0..3 {
        scheduler.see(NOW, Seen::Object(Subject::Kind(kind), broken.clone()));
    }
    scheduler.see(NOW, Seen::Object(Subject::Kind(kind), json!({"metadata": {"name": 3}})));
    let problems: Vec<String> = scheduler
        .take_happened()
        .into_iter()
        .map(|happened| match happened {
            Happened::Problem(problem) => problem.to_string(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(problems.len(), 2, "{problems:?}");
    assert!(problems[0].starts_with("Node/n: status.allocatable.cpu: \"lots\": "), "{problems:?}");
}

#[test]
fn a_pod_waits_for_its_group_where_groups_are_served() {
    let mut grouped = pod("p", "1");
    grouped["spec"]["schedulingGroup"] = json!({"podGroupName": "g"});
    let mut scheduler = seeing(&[node(), ("Pod", grouped)]);
    let group = Subject::Kind(
        kinds::find(quotient_api::pod_group::SCHEDULING, quotient_api::pod_group::POD_GROUP).expect("it is known"),
    );
    let is_bound = |round: Round| round.writes.iter().any(|write| matches!(write, Write::Bind { .. }));
    assert!(!is_bound(scheduler.decide(NOW, Budget::default())));
    scheduler.see(NOW, Seen::Listed(group));
    assert!(!is_bound(scheduler.decide(NOW, Budget::default())));
    scheduler.see(NOW, Seen::Unavailable(group));
    assert!(is_bound(scheduler.decide(NOW, Budget::default())), "there can be no such group");
}

#[test]
fn a_pod_that_is_bound_without_ties_gets_their_record_when_it_has_some() {
    let written = |scheduler: &mut Scheduler, pod: &Value| {
        let kind = kinds::find("", "Pod").expect("it is known");
        scheduler.see(NOW, Seen::Object(Subject::Kind(kind), pod.clone()));
        scheduler.decide(NOW, Budget::default()).writes
    };
    let ties = json!({"volcano.sh/preemptable": "false"});
    let (mut waiting, mut running) = (pod("p", "1"), pod("p", "1"));
    running["spec"]["nodeName"] = json!("n");
    let untied = running.clone();
    running["metadata"]["annotations"] = ties.clone();
    let key = PodKey { namespace: "a".into(), name: "p".into() };
    let recorded = [Write::Record { pod: PodRef { key: key.clone(), uid: "p".into() }, record: "{}".into() }];

    let mut scheduler = seeing(&[node(), ("Pod", untied)]);
    assert_eq!(written(&mut scheduler, &running), recorded, "it ran without any");
    running["metadata"]["annotations"]["quotient.dev/bound-as"] = json!("{}");
    assert_eq!(written(&mut scheduler, &running), [], "it has the record");

    running["metadata"]["annotations"] = ties.clone();
    let mut scheduler = seeing(&[node(), ("Pod", waiting.clone())]);
    let binds = scheduler.decide(NOW, Budget::default()).writes;
    assert!(matches!(&binds[..], [Write::Bind { bound_as: None, .. }]), "{binds:?}");
    assert_eq!(written(&mut scheduler, &running), recorded, "it was given some while it was bound");

    let mut scheduler = seeing(&[node(), ("Pod", waiting.clone())]);
    scheduler.decide(NOW, Budget::default());
    scheduler.take_fact(NOW, Fact::BindFailed { pod: key.clone(), uid: "p".into() });
    let tied = [Write::Record {
        pod: PodRef { key: key.clone(), uid: "p".into() },
        record: json!({"annotations": ties}).to_string().into(),
    }];
    assert_eq!(written(&mut scheduler, &running), tied, "another scheduler bound it, with what it had then");

    waiting["metadata"]["annotations"] = ties;
    let binds = seeing(&[node(), ("Pod", waiting)]).decide(NOW, Budget::default()).writes;
    assert!(matches!(&binds[..], [Write::Bind { bound_as: Some(_), .. }]), "{binds:?}");
    let ties = r#"{"annotations":{"volcano.sh/preemptable":"false"}}"#;
    let recorded = |record: &str| {
        let pod = PodRef { key: PodKey { namespace: "a".into(), name: "p".into() }, uid: "p".into() };
        vec![Write::Record { pod, record: record.into() }]
    };
    running["status"]["conditions"] = json!([{"type": "PodScheduled", "lastTransitionTime": "2026-01-01T00:00:00Z"}]);
    let mut first = seeing(&[node(), ("Pod", running.clone())]);
    assert_eq!(first.decide(NOW, Budget::default()).writes, recorded(ties), "it had them when the first one came");
    for (until, record) in [("2025-12-31T23:59:59Z", ties), ("2026-01-01T00:00:00Z", "{}")] {
        let mut next = seeing(&[node()]);
        next.was_watched_until(quotient_api::time::parse_timestamp(until).expect("it is a time"));
        assert_eq!(written(&mut next, &running), recorded(record), "the last one saw everything until {until}");
    }
}

#[test]
fn a_record_counts_only_where_the_program_wrote_it() {
    let (key, record) = (PodKey { namespace: "a".into(), name: "p".into() }, "quotient.dev/bound-as");
    let kind = Subject::Kind(kinds::find("", "Pod").expect("it is known"));
    let forged = json!({"labels": {"quota.scheduling.koordinator.sh/name": "owner"}}).to_string();
    let written = |scheduler: &mut Scheduler, pod: &Value| {
        scheduler.see(NOW, Seen::Object(kind, pod.clone()));
        scheduler.decide(NOW, Budget::default()).writes
    };
    let repaired =
        |record: &str| vec![Write::Record { pod: PodRef { key: key.clone(), uid: "p".into() }, record: record.into() }];
    let mut waiting = pod("p", "1");
    let mut running = waiting.clone();
    running["spec"]["nodeName"] = json!("n");
    running["metadata"]["annotations"][record] = json!(forged);

    waiting["metadata"]["annotations"][record] = json!(forged);
    let mut scheduler = seeing(&[node(), ("Pod", waiting.clone())]);
    let binds = scheduler.decide(NOW, Budget::default()).writes;
    let [Write::Bind { bound_as, .. }] = &binds[..] else { panic!("{binds:?}") };
    assert_eq!(bound_as.as_deref(), Some("{}"), "its Binding writes over what it says");

    waiting["metadata"]["annotations"] = json!({});
    let mut scheduler = seeing(&[node(), ("Pod", waiting)]);
    scheduler.decide(NOW, Budget::default());
    assert_eq!(written(&mut scheduler, &running), repaired("{}"), "it was given one while it was bound");

    let mut scheduler = seeing(&[node()]);
    scheduler.decide(NOW, Budget::default());
    assert_eq!(written(&mut scheduler, &running), repaired("{}"), "it came with its node");

    let mut scheduler = seeing(&[node(), ("Pod", running)]);
    assert_eq!(scheduler.decide(NOW, Budget::default()).writes, [], "another scheduler bound it before this one came");
}
