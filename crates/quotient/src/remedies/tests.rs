//! Random small clusters: what is listed as a remedy lets the pod run when its changes are really made, and nothing
//! strictly smaller of the same kind does.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use quotient_api::ObjectKey;
use quotient_engine::quantity::{Quantity, canonical};
use quotient_sim::cluster::{Outcome, is_bound};
use quotient_sim::report::{PodPhase, PodReport};
use quotient_sim::{Cluster, Input, Setup, Simulation};
use serde_json::{Value, json};

use super::{FieldChange, Remedy};
use crate::explanation::Explanation;
use crate::random_cluster::{Dice, cluster, each_seed};
use crate::state::State;

fn state(objects: &[Value]) -> State {
    let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
    let read = quotient_api::read("f", &list.to_string());
    assert_eq!(read.problems, []);
    let input = Input { file: "f".to_owned(), read };
    State::of(Simulation::of(Setup::default(), vec![input], &mut |_| {}).expect("it settles"))
}

/// The steps of a path: names between dots, and what stands in brackets, which may have dots of its own
/// (`metadata.annotations["volcano.sh/card.name"]`).
fn parts(path: &str) -> Vec<String> {
    let mut parts = Vec::new();
    let mut rest = path;
    while !rest.is_empty() {
        let (part, after) = match rest.strip_prefix('[') {
            Some(inside) => inside.split_once(']').expect("a closing bracket"),
            None => rest.split_at(rest.find(['.', '[']).unwrap_or(rest.len())),
        };
        parts.push(part.trim_matches('"').to_owned());
        rest = after.strip_prefix('.').unwrap_or(after);
    }
    parts
}

/// Sets a field of an object by its path, such as `spec.max["cpu"]`.
fn set(object: &mut Value, path: &str, to: Option<&str>) {
    if path == "spec.tolerations" {
        let mut all = object["spec"]["tolerations"].as_array().cloned().unwrap_or_default();
        all.push(serde_json::from_str(to.expect("a toleration")).expect("JSON"));
        object["spec"]["tolerations"] = json!(all);
        return;
    }
    let parts = parts(path);
    let (last, way) = parts.split_last().expect("a path");
    let mut at = object;
    for part in way {
        at = match part.parse::<usize>() {
            Ok(index) => &mut at[index],
            Err(_) => &mut at[part.as_str()],
        };
    }
    match to {
        Some(to) if last == "priority" => at[last.as_str()] = json!(to.parse::<i64>().expect("a number")),
        Some(to) => at[last.as_str()] = json!(to),
        None => {
            at.as_object_mut().expect("a map").shift_remove(last);
        }
    }
}

/// Makes the changes in a copy of the cluster, ends the pods, and says whether the pod runs.
fn runs(state: &State, pod: &ObjectKey, changes: &[FieldChange], ends: &[String]) -> bool {
    let mut cluster: Cluster = state.cluster().clone();
    let mut objects: Vec<&String> = changes.iter().map(|change| &change.object).collect();
    objects.sort_by_key(|object| (!object.ends_with("/top"), *object));
    objects.dedup();
    for object in objects {
        let key = state.keys().find(|key| key.to_string() == *object).expect("it is there").clone();
        let mut value = (**cluster.store().get(&key).expect("it is there")).clone();
        for FieldChange { field, to, .. } in changes.iter().filter(|change| change.object == *object) {
            set(&mut value, field, to.as_deref());
        }
        let done = if key.kind == "Pod" { cluster.replace_pod(&key, value) } else { cluster.apply(value).map(drop) };
        if done.is_err() {
            return false;
        }
    }
    for name in ends {
        let (namespace, name) = name.split_once('/').expect("a pod");
        cluster.end(&ObjectKey::pod(namespace, name), Outcome::Succeeded).expect("it is there");
    }
    cluster.settle().expect("it settles");
    cluster.store().get(pod).is_some_and(|pod| is_bound(pod))
}

/// The same change, a step smaller.
fn smaller(kind: &str, change: &FieldChange) -> Option<FieldChange> {
    let to = change.to.as_deref()?;
    let step = match kind {
        "raise-quota" => -1,
        "smaller-request" => 1,
        "priority" => {
            let lower = to.parse::<i64>().ok()? - 1;
            return Some(FieldChange { to: Some(lower.to_string()), ..change.clone() });
        }
        _ => return None,
    };
    let resource = change.field.rsplit_once("[\"")?.1.trim_end_matches("\"]");
    let amount = to.parse::<Quantity>().ok()?.sum(resource) + step;
    Some(FieldChange { to: Some(canonical(resource, amount)), ..change.clone() })
}

fn check(state: &State, pod: &ObjectKey, remedy: &Remedy, seed: u64) {
    let Remedy { kind, message, changes, ends, .. } = remedy;
    assert!(runs(state, pod, changes, ends), "seed {seed}: {pod}: {message} does not help");
    for change in changes {
        let Some(less) = smaller(kind, change) else { continue };
        // Pods of a gang change together.
        let is_same = |other: &FieldChange| (&other.field, &other.to) == (&change.field, &change.to);
        let is_of_pods = change.object.starts_with("Pod/");
        let lessened = |other: &FieldChange| match other == change || is_of_pods && is_same(other) {
            true => FieldChange { to: less.to.clone(), ..other.clone() },
            false => other.clone(),
        };
        let less: Vec<FieldChange> = changes.iter().map(lessened).collect();
        assert!(!runs(state, pod, &less, ends), "seed {seed}: {pod}: {message}: less than {change:?} would do");
    }
    for at in 0..ends.len() {
        let mut fewer = ends.clone();
        fewer.remove(at);
        assert!(!runs(state, pod, changes, &fewer), "seed {seed}: {pod}: {message}: {} need not end", ends[at]);
    }
}

/// A gang of two to four pods that come last, now and then with a selector.
fn gang(dice: &mut Dice, objects: &mut Vec<Value>) {
    let has_queues = objects.iter().any(|object| object["kind"] == "Queue");
    let (team, members) = (["a", "b"][dice.roll(2) as usize], 2 + dice.roll(3));
    let cpu = canonical("cpu", [500, 1000, 2000][dice.roll(3) as usize]);
    let mut group = json!({"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup",
        "metadata": {"name": "g", "namespace": team}, "spec": {"minMember": members}});
    if has_queues {
        group["spec"]["queue"] = json!(team);
    }
    objects.push(group);
    let (priority, zone) = (dice.roll(3), dice.roll(6));
    for i in 0..members {
        let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": format!("z-{i}"), "namespace": team,
                "annotations": {"scheduling.k8s.io/group-name": "g"}},
            "spec": {"priority": priority, "containers": [{"name": "c", "image": "i",
                "resources": {"requests": {"cpu": cpu}}}]}});
        if zone < 3 {
            pod["spec"]["nodeSelector"] = json!({"zone": format!("z-{zone}")});
        }
        objects.push(pod);
    }
}

#[test]
fn each_remedy_of_a_gang_helps_it_as_a_whole() {
    let kinds = RefCell::new(BTreeMap::new());
    each_seed(80, |seed| {
        let mut dice = Dice::new(seed);
        let mut objects = cluster(&mut dice);
        gang(&mut dice, &mut objects);
        let state = state(&objects);
        let is_meant = |pod: &&PodReport| pod.phase == PodPhase::Pending && pod.name == "z-0";
        for PodReport { namespace, name, .. } in state.pods().iter().filter(is_meant) {
            let explanation = Explanation::of(&state, namespace, name).expect("it is there");
            for remedy in &explanation.remedies {
                *kinds.borrow_mut().entry(remedy.kind).or_insert(0) += 1;
                check(&state, &ObjectKey::pod(namespace, name), remedy, seed);
            }
        }
    });
    let kinds = kinds.into_inner();
    for kind in ["raise-quota", "priority", "pods-end", "smaller-request", "node-selector"] {
        assert!(kinds.contains_key(kind), "no remedy of kind {kind} was tried: {kinds:?}");
    }
}

#[test]
fn each_remedy_helps_by_itself_and_none_is_larger_than_needed() {
    /// A min that could be lower once its max was.
    const FOUND: u64 = 1413;
    let (pending, kinds) = (Cell::new(0), RefCell::new(BTreeMap::new()));
    let try_out = |seed| {
        let mut dice = Dice::new(seed);
        let state = state(&cluster(&mut dice));
        let waiting = state.pods().iter().filter(|pod| pod.phase == PodPhase::Pending);
        for PodReport { namespace, name, .. } in waiting.take(3) {
            pending.set(pending.get() + 1);
            let explanation = Explanation::of(&state, namespace, name).expect("it is there");
            for remedy in &explanation.remedies {
                *kinds.borrow_mut().entry(remedy.kind).or_insert(0) += 1;
                check(&state, &ObjectKey::pod(namespace, name), remedy, seed);
            }
        }
    };
    each_seed(60, try_out);
    try_out(FOUND);
    let (pending, kinds) = (pending.get(), kinds.into_inner());
    assert!(pending > 30, "only {pending} pods waited");
    for kind in ["raise-quota", "priority", "pods-end", "smaller-request", "toleration"] {
        assert!(kinds.contains_key(kind), "no remedy of kind {kind} was tried: {kinds:?}");
    }
}

/// Why one pod waits is found without looking at all others, and neither they nor all quotas' pods are listed for it.
#[test]
fn one_pod_is_explained_without_the_others() {
    for seed in 1u64..=40 {
        let state = state(&cluster(&mut Dice::new(seed)));
        let names: Vec<(String, String)> =
            state.pod_names().map(|(of, name)| (of.to_owned(), name.to_owned())).collect();
        let alone: Vec<_> = names.iter().map(|(of, name)| (state.pod(of, name), state.reason(of, name))).collect();
        for (of, name) in &names {
            Explanation::of(&state, of, name).expect("it is there");
        }
        assert!(!state.has_listed_pods(), "seed {seed}: an explanation lists all pods");
        let all = state.pods();
        for ((pod, reason), ((of, name), report)) in alone.iter().zip(names.iter().zip(all)) {
            assert_eq!(pod.as_ref(), Some(report), "seed {seed}");
            assert_eq!(*reason, state.reason(of, name), "seed {seed}: {of}/{name}");
        }
    }
}
