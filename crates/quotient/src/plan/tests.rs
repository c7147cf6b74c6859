//! What a plan says happens is what happens when the change is really applied.

use std::cell::Cell;

use quotient_sim::report::PodPhase;
use quotient_sim::{Input, Setup, Simulation};
use serde_json::{Value, json};

use super::Plan;
use crate::random_cluster::{Dice, cluster, each_seed};
use crate::state::State;

fn input(objects: &[Value]) -> Input {
    let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
    let read = quotient_api::read("f", &list.to_string());
    assert_eq!(read.problems, []);
    Input { file: "f".to_owned(), read }
}

fn settled(objects: &[Value]) -> Simulation {
    Simulation::of(Setup::default(), vec![input(objects)], &mut |_| {}).expect("it settles")
}

fn quota(team: &str, min: u64, max: u64) -> Value {
    json!({"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "ElasticQuota",
        "metadata": {"name": "q", "namespace": team},
        "spec": {"min": {"cpu": min.to_string()}, "max": {"cpu": max.to_string()}}})
}

/// A change of a quota, of a queue, of the nodes, or of what is to run.
fn change(objects: &[Value], dice: &mut Dice) -> Vec<Value> {
    let of_kind = |kind: &str| objects.iter().filter(|object| object["kind"] == kind).cloned().collect::<Vec<_>>();
    match dice.roll(4) {
        0 => {
            let mut node = of_kind("Node")[0].clone();
            node["metadata"]["name"] = json!("n-new");
            vec![node]
        }
        1 => {
            let mut pod = of_kind("Pod")[0].clone();
            pod["metadata"]["name"] = json!("p-new");
            pod["spec"]["priority"] = json!(dice.roll(5));
            vec![pod]
        }
        _ => {
            let mut quotas = of_kind("ElasticQuota");
            quotas.extend(of_kind("Queue").into_iter().filter(|queue| queue["metadata"]["name"] != "top"));
            for quota in &mut quotas {
                let most = json!((4 + dice.roll(9)).to_string());
                match quota["kind"] == "Queue" {
                    true => quota["spec"]["capability"]["cpu"] = most,
                    false => {
                        quota["spec"]["min"]["cpu"] = json!((1 + dice.roll(4)).to_string());
                        quota["spec"]["max"]["cpu"] = most;
                    }
                }
            }
            quotas
        }
    }
}

/// The plan is made on what a dump of the cluster says; the change is applied to the cluster itself.
#[test]
fn a_plan_says_what_happens() {
    let (starts, evictions, waits) = (Cell::new(0), Cell::new(0), Cell::new(0));
    each_seed(400, |seed| {
        let mut dice = Dice::new(seed);
        let objects = cluster(&mut dice);
        let mut real = settled(&objects);
        let dump: Vec<Value> = real.cluster().store().iter().map(|(_, o)| (**o).clone()).collect();
        let change = change(&objects, &mut dice);
        let state = State::of(settled(&dump));
        let again: Vec<_> = state.evictions().map(|happened| happened.evicted).collect();
        assert!(again.is_empty(), "seed {seed}: a dump stays as it is: {again:#?}");
        let plan = Plan::make(&state, vec![input(&change)], None).expect("it settles");
        let happened = real.apply(input(&change)).expect("it settles").clone();
        assert_eq!(plan.evicted, happened.evicted, "seed {seed}: {change:?}");
        assert_eq!(plan.bound, happened.bound, "seed {seed}: {change:?}");
        assert_eq!(plan.rejected, happened.rejected, "seed {seed}: {change:?}");
        assert_eq!((plan.verdict.starts, plan.verdict.evictions), (happened.bound.len(), happened.evicted.len()));
        let pending = real.cluster().pods().iter().filter(|pod| pod.phase == PodPhase::Pending).count();
        assert_eq!(plan.waiting_count, pending, "seed {seed}: {change:?}");
        starts.set(starts.get() + happened.bound.len());
        evictions.set(evictions.get() + happened.evicted.len());
        waits.set(waits.get() + pending);
    });
    let (starts, evictions, waits) = (starts.get(), evictions.get(), waits.get());
    assert!(starts > 80 && evictions > 30 && waits > 500, "{starts}, {evictions} and {waits} prove little");
}

#[test]
fn a_quota_below_what_it_uses_is_over_quota_and_a_change_of_nothing_shows_nothing() {
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"},
        "status": {"allocatable": {"cpu": "200", "pods": "20"}}});
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "a"},
        "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "120"}}}]}});
    let plan = |min: u64, max: u64| {
        let objects = [node.clone(), quota("a", 120, 120), quota("b", 10, 10), pod.clone()];
        let change = vec![input(&[quota("a", min, max)])];
        Plan::make(&State::of(settled(&objects)), change, None).expect("it settles")
    };
    let lowered = plan(60, 60);
    assert_eq!(lowered.over_quota[0].beyond_max.as_deref(), Some("60"), "{:?}", lowered.over_quota);
    assert_eq!(lowered.verdict.newly_over_quota, 1);
    assert!(plan(120, 120).quotas.is_empty());
    assert_eq!(plan(500, 500).unkept.len(), 1);
}

#[test]
fn problems_are_those_of_the_final_state_when_documents_come_in_any_order() {
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"},
        "status": {"allocatable": {"cpu": "24", "pods": "20"}}});
    let plan = |change: &[Value]| {
        let objects = [node.clone(), quota("a", 12, 24), quota("b", 12, 24)];
        Plan::make(&State::of(settled(&objects)), vec![input(change)], None).expect("it settles")
    };
    let raised_first = plan(&[quota("a", 16, 24), quota("b", 8, 24)]);
    assert!(raised_first.problems.is_empty(), "{:?}", raised_first.problems);
    let lowered_first = plan(&[quota("b", 8, 24), quota("a", 16, 24)]);
    assert!(lowered_first.problems.is_empty(), "{:?}", lowered_first.problems);
    for beyond in [plan(&[quota("a", 20, 24), quota("b", 8, 24)]), plan(&[quota("b", 8, 24), quota("a", 20, 24)])] {
        assert!(beyond.problems.iter().any(|problem| problem.message.contains("28")), "{:?}", beyond.problems);
        assert_eq!(beyond.verdict.unkept_guarantees, 1);
    }
}
