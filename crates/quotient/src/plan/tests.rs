//! What a plan says.

use super::*;
use quotient_sim::{Input, Setup, Simulation};
use serde_json::{Value, json};

fn input(objects: &[Value]) -> Input {
    let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
    Input { file: "f".to_owned(), read: quotient_api::read("f", &list.to_string()) }
}

fn quota(team: &str, min: u64, max: u64) -> Value {
    json!({"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "ElasticQuota",
            "metadata": {"name": "q", "namespace": team},
            "spec": {"min": {"cpu": min.to_string()}, "max": {"cpu": max.to_string()}}})
}

/// What a plan says happens is what happens when the change is really applied.
#[test]
fn a_plan_says_what_happens() {
    let mut number = 7_u64;
    let mut roll = |sides: u64| {
        number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (number >> 33) % sides
    };
    let (mut starts, mut evictions) = (0, 0);
    for round in 0..60 {
        let mut objects: Vec<Value> = (0..2)
            .map(|i| {
                json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": format!("n-{i}")},
                        "status": {"allocatable": {"cpu": "6", "pods": "20"}}})
            })
            .collect();
        objects.extend(["a", "b"].map(|team| quota(team, 1 + roll(6), 6 + roll(7))));
        for i in 0..14 {
            let team = ["a", "b"][roll(2) as usize];
            objects.push(json!({"apiVersion": "v1", "kind": "Pod",
                    "metadata": {"name": format!("p-{i}"), "namespace": team},
                    "spec": {"priority": roll(2), "containers": [{"name": "c", "image": "i",
                        "resources": {"requests": {"cpu": (1 + roll(2)).to_string()}}}]}}));
        }
        let change = [quota("a", 1 + roll(12), 12), quota("b", 1 + roll(12), 12)];
        let base = Simulation::of(Setup::default(), vec![input(&objects)], &mut |_| {}).expect("it settles");
        let state = State::of(base);
        let unchanged = state.with(Vec::new(), None).expect("it settles");
        let changed = state.with(vec![input(&change)], None).expect("it settles");
        let plan = Plan::of((&unchanged.0, unchanged.1), (&changed.0, changed.1));
        let inputs = vec![input(&objects), input(&change)];
        let real = Simulation::of(Setup::default(), inputs, &mut |_| {}).expect("it settles");
        let happened = &real.steps()[1];
        assert_eq!(plan.evicted, happened.evicted, "round {round}");
        assert_eq!(plan.bound, happened.bound, "round {round}");
        assert_eq!(plan.verdict.evictions, happened.evicted.len());
        assert_eq!(plan.verdict.starts, happened.bound.len());
        starts += happened.bound.len();
        evictions += happened.evicted.len();
    }
    assert!(starts > 20 && evictions > 10, "{starts} starts and {evictions} evictions prove little");
}

#[test]
fn a_quota_below_what_it_uses_is_over_quota_and_a_change_of_nothing_shows_nothing() {
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"},
            "status": {"allocatable": {"cpu": "200", "pods": "20"}}});
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "a"},
            "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "120"}}}]}});
    let plan = |min: u64, max: u64| {
        let objects = [node.clone(), quota("a", 120, 120), quota("b", 10, 10), pod.clone()];
        let base = Simulation::of(Setup::default(), vec![input(&objects)], &mut |_| {}).expect("it settles");
        let state = State::of(base);
        let unchanged = state.with(Vec::new(), None).expect("it settles");
        let changed = state.with(vec![input(&[quota("a", min, max)])], None).expect("it settles");
        Plan::of((&unchanged.0, unchanged.1), (&changed.0, changed.1))
    };
    let lowered = plan(60, 60);
    assert_eq!(lowered.over_quota[0].beyond_max.as_deref(), Some("60"), "{:?}", lowered.over_quota);
    assert_eq!(lowered.verdict.newly_over_quota, 1);
    assert!(plan(120, 120).quotas.is_empty());
    assert_eq!(plan(500, 500).unkept.len(), 1);
}
