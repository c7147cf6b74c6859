//! Jobs of several tasks: what their plans make of them, step by step.

use std::collections::BTreeMap;
use std::time::Duration;

use quotient_api::volcano::job::{JobState, Plan, group_name, plan};
use quotient_api::{ObjectKey, View, key_of};
use serde_json::{Value, json};

/// A job with its group and pods, and whoever lets groups in and runs pods.
struct World {
    job: Value,
    group: Option<Value>,
    pods: BTreeMap<ObjectKey, Value>,
    gone: Vec<Value>,
    events: Vec<String>,
    made_once: Vec<Value>,
    classes: BTreeMap<ObjectKey, Value>,
}

impl View for World {
    fn get(&self, key: &ObjectKey) -> Option<&Value> {
        self.classes.get(key)
    }

    fn list(&self, _: &str, _: &str, _: Option<&str>) -> Vec<&Value> {
        Vec::new()
    }
}

fn container(limits: Value) -> Value {
    json!({"spec": {"containers": [{"name": "c", "image": "i", "resources": {"limits": limits}}]}})
}

impl World {
    fn of(annotations: Value, spec: Value) -> World {
        let job = json!({"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job",
            "metadata": {"name": "j", "namespace": "ml", "uid": "7", "annotations": annotations}, "spec": spec});
        World {
            job,
            group: None,
            pods: BTreeMap::new(),
            gone: Vec::new(),
            events: Vec::new(),
            made_once: Vec::new(),
            classes: BTreeMap::new(),
        }
    }

    /// Two tasks, of one and two pods.
    fn new(policies: Value, more: Value) -> World {
        let task = |name: &str, replicas: u32| json!({"name": name, "replicas": replicas, "template": container(json!({"cpu": 1}))});
        let mut spec = json!({"queue": "q", "tasks": [task("head", 1), task("worker", 2)], "policies": policies});
        more.as_object().into_iter().flatten().for_each(|(key, value)| spec[key] = value.clone());
        World::of(json!({}), spec)
    }

    fn plan(&mut self) -> Plan {
        let gone = std::mem::take(&mut self.gone);
        let known_for = |_: &str| Duration::ZERO;
        let state = JobState {
            known_for: &known_for,
            command: None,
            lacks: false,
            job: &self.job,
            group: self.group.as_ref(),
            pods: &self.pods.values().collect::<Vec<_>>(),
            gone: &gone.iter().collect::<Vec<_>>(),
        };
        plan(&state, self, "2026-01-01T00:00:00Z")
    }

    /// Carries out plans until nothing is left to do.
    fn settle(&mut self) -> &mut Self {
        for _ in 0..20 {
            let plan = self.plan();
            if plan == Plan::default() {
                return self;
            }
            let Plan { delete, delete_group, make_group, group_spec, belongings, make, status, events, .. } = plan;
            self.made_once.extend(belongings.into_iter().map(|mut made| made.object_mut().take()));
            for key in delete {
                assert!(self.pods.remove(&key).is_some(), "{key} is deleted and was not there");
            }
            if delete_group.is_some() {
                assert!(self.group.take().is_some());
            }
            self.group = make_group.or(self.group.take());
            if let (Some(group), Some(spec)) = (&mut self.group, group_spec) {
                group["spec"] = spec;
            }
            for pod in make {
                let known = self.pods.insert(key_of(&pod).expect("a pod"), pod);
                assert_eq!(known, None, "it was there already");
            }
            if let Some(status) = status {
                self.job["status"] = status;
            }
            self.events.extend(events.into_iter().map(|(reason, message)| format!("{reason}: {message}")));
        }
        panic!("it does not settle: {}", self.job["status"]);
    }

    fn admit(&mut self) -> &mut Self {
        self.group.as_mut().expect("a group")["status"] = json!({"phase": "Inqueue"});
        self.settle()
    }

    /// All pods that are there run, or end so.
    fn set(&mut self, names: &[&str], phase: &str) -> &mut Self {
        for (key, pod) in &mut self.pods {
            if names.contains(&&*key.name) || names.is_empty() {
                pod["status"] = json!({"phase": phase});
            }
        }
        self.settle()
    }

    /// A job that was let in and whose pods run.
    fn running(mut self) -> World {
        self.settle().admit().set(&[], "Running");
        assert_eq!(self.phase(), "Running");
        self
    }

    fn evict(&mut self, name: &str) -> &mut Self {
        let pod = self.pods.remove(&ObjectKey::pod("ml", name)).expect("a pod");
        self.gone.push(pod);
        self.settle()
    }

    fn phase(&self) -> &str {
        self.job["status"]["state"]["phase"].as_str().expect("a phase")
    }

    fn names(&self) -> Vec<String> {
        self.pods.keys().map(|key| key.name.to_string()).collect()
    }

    /// The phases that it has been in.
    fn phases(&self) -> Vec<&str> {
        let conditions = self.job["status"]["conditions"].as_array().map_or(&[][..], Vec::as_slice);
        conditions.iter().filter_map(|condition| condition["status"].as_str()).collect()
    }

    fn versions(&self) -> Vec<&str> {
        let annotations = self.pods.values().map(|pod| &pod["metadata"]["annotations"]);
        annotations.map(|annotations| annotations["volcano.sh/job-version"].as_str().expect("a version")).collect()
    }
}

const ALL: [&str; 3] = ["j-head-0", "j-worker-0", "j-worker-1"];

#[test]
fn pods_are_made_when_the_group_is_let_in() {
    let mut world = World::new(json!([]), json!({}));
    world.settle();
    assert_eq!((world.phase(), world.names().len()), ("Pending", 0));
    let group = world.group.as_ref().expect("a group");
    assert_eq!(group["metadata"]["name"], group_name(&world.job).as_str());
    let takes = json!({"cpu": "3", "requests.cpu": "3", "limits.cpu": "3", "pods": "3", "count/pods": "3"});
    let spec = json!({"minMember": 3, "minTaskMember": {"head": 1, "worker": 2}, "queue": "q", "minResources": takes});
    assert_eq!(group["spec"], spec);
    world.admit();
    assert_eq!(world.names(), ALL);
    let pod = &world.pods[&ObjectKey::pod("ml", "j-worker-1")];
    let annotations = &pod["metadata"]["annotations"];
    assert_eq!(annotations["scheduling.k8s.io/group-name"], "j-7");
    assert_eq!(
        (&annotations["volcano.sh/task-spec"], &annotations["scheduling.volcano.sh/queue-name"]),
        (&json!("worker"), &json!("q"))
    );
    assert_eq!(world.job["status"]["pending"], 3);
    world.set(&["j-head-0", "j-worker-0"], "Running");
    assert_eq!(world.phase(), "Pending", "two of three are not enough");
    world.set(&[], "Running");
    assert_eq!((world.phase(), &world.job["status"]["running"]), ("Running", &json!(3)));
    assert_eq!(world.job["status"]["taskStatusCount"]["worker"], json!({"phase": {"Running": 2}}));
}

#[test]
fn annotations_and_classes_are_carried_over() {
    let annotations = json!({"volcano.sh/card.request": "{\"A100\": 1}", "quotient.dev/mixed-cards": "true",
        "volcano.sh/card.name": "A100", "volcano.sh/preemptable": "false", "note": "x"});
    let own = json!({"metadata": {"annotations": {"volcano.sh/card.name": "H100"}, "labels": {"app": "x"}},
        "spec": {"priorityClassName": "low", "containers": []}});
    let spec = json!({"priorityClassName": "high", "schedulerName": "s",
        "tasks": [{"replicas": 1, "template": container(json!({}))}, {"replicas": 1, "template": own}]});
    let mut world = World::of(annotations, spec);
    world.settle().admit();
    let group = &world.group.as_ref().expect("a group");
    let carried = json!({"volcano.sh/card.request": "{\"A100\": 1}", "quotient.dev/mixed-cards": "true", "volcano.sh/preemptable": "false"});
    assert_eq!(group["metadata"]["annotations"], carried);
    assert_eq!(group["spec"]["priorityClassName"], "high");
    let pod = |name: &str| &world.pods[&ObjectKey::pod("ml", name)];
    let (first, second) = (pod("j-default0-0"), pod("j-default1-0"));
    let card = |pod: &Value| pod["metadata"]["annotations"]["volcano.sh/card.name"].clone();
    assert_eq!((card(first), card(second)), (json!("A100"), json!("H100")));
    assert_eq!(
        (&first["spec"]["priorityClassName"], &second["spec"]["priorityClassName"]),
        (&json!("high"), &json!("low"))
    );
    assert_eq!((&first["spec"]["schedulerName"], &second["metadata"]["labels"]["app"]), (&json!("s"), &json!("x")));
    assert_eq!(first["metadata"]["annotations"]["volcano.sh/preemptable"], "false");
}

#[test]
fn what_the_minimum_of_a_job_takes() {
    let task = |name: &str, replicas: u32, cpu: u32, more: Value| {
        let mut task = json!({"name": name, "replicas": replicas, "template": container(json!({"cpu": cpu}))});
        more.as_object().into_iter().flatten().for_each(|(key, value)| task[key] = value.clone());
        task
    };
    let takes = |tasks: Value, min_available: Value| {
        let mut world = World::of(json!({}), json!({"tasks": tasks, "minAvailable": min_available}));
        let class =
            ObjectKey { group: "scheduling.k8s.io", kind: "PriorityClass", namespace: None, name: "high".into() };
        world.classes.insert(class, json!({"value": 100}));
        world.settle();
        let group = world.group.expect("a group");
        (group["spec"]["minMember"].clone(), group["spec"]["minResources"]["cpu"].clone())
    };
    let two = || json!([task("a", 2, 1, json!({})), task("b", 2, 10, json!({}))]);
    assert_eq!(takes(two(), Value::Null), (json!(4), json!("22")));
    assert_eq!(takes(two(), json!(3)), (json!(3), json!("12")), "the first three");
    let with_minimum =
        json!([task("a", 4, 1, json!({"minAvailable": 1})), task("b", 2, 10, json!({"minAvailable": 1}))]);
    assert_eq!(takes(with_minimum.clone(), Value::Null), (json!(2), json!("11")), "one of each");
    assert_eq!(takes(with_minimum, json!(4)), (json!(4), json!("13")), "one of each, and two more of the first");
    let mut high = two();
    high[1]["template"]["spec"]["priorityClassName"] = json!("high");
    assert_eq!(takes(high, json!(1)), (json!(1), json!("10")), "the important ones first");
}

#[test]
fn a_job_ends_when_its_pods_have() {
    let mut world = World::new(json!([]), json!({})).running();
    world.set(&["j-head-0", "j-worker-0"], "Succeeded");
    assert_eq!(world.phase(), "Running");
    world.set(&["j-worker-1"], "Succeeded");
    assert_eq!((world.phase(), world.names().len()), ("Completed", 3));
    assert_eq!(world.group, None, "a job that is done waits for nothing");

    let mut failed = World::new(json!([]), json!({})).running();
    failed.set(&["j-head-0"], "Failed").set(&["j-worker-0", "j-worker-1"], "Succeeded");
    assert_eq!(failed.phase(), "Failed");

    let mut enough = World::new(json!([]), json!({"minAvailable": 2})).running();
    enough.set(&["j-head-0"], "Failed").set(&["j-worker-0", "j-worker-1"], "Succeeded");
    assert_eq!(enough.phase(), "Completed", "two of three are what it needs");

    let mut some = World::new(json!([]), json!({"minSuccess": 1})).running();
    some.set(&["j-worker-0"], "Succeeded");
    assert_eq!((some.phase(), some.names()), ("Completed", vec!["j-worker-0".to_string()]), "the others are let go");
}

#[test]
fn without_a_policy_an_evicted_pod_comes_back_and_a_failed_one_stays() {
    let mut world = World::new(json!([]), json!({})).running();
    world.evict("j-worker-0");
    assert_eq!((world.phase(), world.names().len(), &world.job["status"]["retryCount"]), ("Running", 3, &json!(0)));
    world.set(&["j-head-0"], "Failed");
    assert_eq!((world.phase(), world.names().len()), ("Running", 3));
}

#[test]
fn a_job_is_restarted_until_it_was_tried_often_enough() {
    let policies = json!([{"action": "RestartJob", "event": "PodFailed"}]);
    let mut world = World::new(policies, json!({"maxRetry": 2})).running();
    world.set(&["j-head-0"], "Failed");
    assert_eq!((world.phase(), &world.job["status"]["retryCount"]), ("Pending", &json!(1)));
    assert_eq!(world.names().len(), 0, "its group has to be let in anew");
    assert_eq!(world.events, ["RestartJob: j-head-0 PodFailed: RestartJob"]);
    world.admit().set(&[], "Running");
    assert_eq!((world.phase(), world.versions()), ("Running", vec!["1", "1", "1"]));
    world.set(&["j-worker-1"], "Failed");
    let kept = vec!["j-worker-1".to_string()];
    assert_eq!((world.phase(), world.names(), &world.group), ("Failed", kept, &None), "what failed last is kept");
}

#[test]
fn what_each_action_does() {
    let run = |action: &str, event: &str| World::new(json!([{"action": action, "event": event}]), json!({})).running();
    for (action, phase) in [("AbortJob", "Aborted"), ("TerminateJob", "Terminated"), ("CompleteJob", "Completed")] {
        let mut world = run(action, "PodFailed");
        world.set(&["j-head-0"], "Failed");
        assert_eq!((world.phase(), world.names()), (phase, vec!["j-head-0".to_string()]), "{action}");
        assert_eq!(world.group, None);
    }
    let mut task = run("RestartTask", "PodFailed");
    task.set(&["j-worker-0"], "Failed");
    let shown =
        |world: &World| -> Vec<bool> { world.pods.values().map(|pod| pod["status"]["phase"] == "Running").collect() };
    assert_eq!((task.phase(), shown(&task)), ("Pending", vec![true, false, false]), "its pods are made anew");
    let mut pod = run("RestartPod", "PodFailed");
    pod.set(&["j-worker-0"], "Failed");
    assert_eq!((pod.phase(), shown(&pod)), ("Pending", vec![true, false, true]));
    assert_eq!(pod.job["status"]["retryCount"], 1);
    assert!(pod.group.is_some(), "the group stays in its queue");
    assert_eq!(pod.phases(), ["Pending", "Running", "Restarting", "Pending"]);
    pod.set(&[], "Running").set(&["j-worker-0"], "Failed").set(&[], "Running");
    pod.set(&["j-worker-0"], "Failed");
    assert_eq!(pod.phase(), "Failed", "three times is often enough");
    assert_eq!(pod.phases().last().copied(), Some("Failed"));
    assert_eq!(pod.phases().iter().rev().nth(1).copied(), Some("Restarting"));
    let mut sync = run("SyncJob", "PodFailed");
    sync.set(&["j-head-0"], "Failed");
    assert_eq!(sync.phase(), "Running");
}

#[test]
fn what_policies_look_at() {
    let mut evicted = World::new(json!([{"action": "AbortJob", "event": "PodEvicted"}]), json!({})).running();
    evicted.evict("j-worker-0");
    assert_eq!((evicted.phase(), evicted.names().len()), ("Aborted", 0));
    let mut done = World::new(json!([{"action": "CompleteJob", "event": "TaskCompleted"}]), json!({})).running();
    done.set(&["j-worker-0"], "Succeeded");
    assert_eq!(done.phase(), "Running", "one of the two is not the task");
    done.set(&["j-worker-1"], "Succeeded");
    assert_eq!((done.phase(), done.names()), ("Completed", vec!["j-worker-0".to_string(), "j-worker-1".to_string()]));
    let mut any = World::new(json!([{"action": "TerminateJob", "events": ["*"]}]), json!({})).running();
    any.evict("j-head-0");
    assert_eq!(any.phase(), "Terminated");
    let mut code = World::new(json!([{"action": "AbortJob", "exitCode": 137}]), json!({})).running();
    code.set(&["j-head-0"], "Failed");
    assert_eq!(code.phase(), "Running");
    let head = code.pods.get_mut(&ObjectKey::pod("ml", "j-head-0")).expect("a pod");
    head["status"]["containerStatuses"] = json!([{"state": {"terminated": {"exitCode": 137}}}]);
    assert_eq!(code.settle().phase(), "Aborted");
}

#[test]
fn a_pod_that_is_made_anew_is_waited_for_where_the_minimum_needs_it() {
    let restart = |more: Value| {
        let mut world = World::new(json!([{"action": "RestartPod", "event": "PodFailed"}]), more).running();
        let leaving = world.pods.get_mut(&ObjectKey::pod("ml", "j-worker-0")).expect("a pod");
        leaving["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:30Z");
        world.set(&["j-head-0"], "Failed");
        (world.phase().to_string(), world.names().len())
    };
    assert_eq!(restart(json!({})), ("Restarting".to_string(), 2), "three are needed, and one is still leaving");
    assert_eq!(restart(json!({"minAvailable": 2})), ("Pending".to_string(), 3), "two are enough to go on");
}

#[test]
fn pods_that_wait_and_groups_that_have_lost_pods_have_policies() {
    let mut pending = World::new(json!([{"action": "TerminateJob", "event": "PodPending"}]), json!({}));
    pending.settle().admit();
    assert_eq!(pending.phase(), "Terminated");
    for (event, phase) in
        [("JobUnknown", "Aborted"), ("Unknown", "Aborted"), ("*", "Aborted"), ("PodFailed", "Running")]
    {
        let mut any = World::new(json!([{"action": "AbortJob", "event": event}]), json!({})).running();
        any.group.as_mut().expect("a group")["status"] = json!({"phase": "Unknown"});
        assert_eq!(any.settle().phase(), phase, "{event}");
    }
    let mut later =
        World::new(json!([{"action": "AbortJob", "event": "JobUnknown", "timeout": "1m"}]), json!({})).running();
    later.group.as_mut().expect("a group")["status"] = json!({"phase": "Unknown"});
    assert_eq!(later.plan().awaited.len(), 1, "it may come back");
    assert_eq!(later.phase(), "Running");
}

#[test]
fn the_policy_of_a_task_counts_before_that_of_the_job() {
    let mut world = World::new(json!([{"action": "AbortJob", "event": "PodFailed"}]), json!({}));
    world.job["spec"]["tasks"][1]["policies"] = json!([{"action": "RestartPod", "event": "PodFailed"}]);
    let mut world = world.running();
    world.set(&["j-worker-0"], "Failed");
    assert_eq!(world.phase(), "Pending", "until its pod is back");
    world.set(&[], "Running").set(&["j-head-0"], "Failed");
    assert_eq!(world.phase(), "Aborted");
}

#[test]
fn a_job_grows_and_shrinks() {
    let mut world = World::new(json!([{"action": "AbortJob", "event": "PodEvicted"}]), json!({})).running();
    world.job["spec"]["tasks"][1]["replicas"] = json!(3);
    world.settle();
    assert_eq!((world.names().len(), &world.group.as_ref().expect("a group")["spec"]["minMember"]), (4, &json!(4)));
    world.job["spec"]["tasks"][1]["replicas"] = json!(1);
    world.settle();
    assert_eq!((world.names(), world.phase()), (vec!["j-head-0".to_string(), "j-worker-0".to_string()], "Running"));
}

#[test]
fn pods_that_are_leaving_are_waited_for() {
    let mut world = World::new(json!([{"action": "RestartJob", "event": "PodFailed"}]), json!({})).running();
    let leaving = world.pods.get_mut(&ObjectKey::pod("ml", "j-worker-0")).expect("a pod");
    leaving["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:30Z");
    world.set(&["j-head-0"], "Failed");
    assert_eq!((world.phase(), world.names()), ("Restarting", vec!["j-worker-0".to_string()]));
    world.pods.clear();
    assert_eq!(world.settle().phase(), "Pending");
}

#[test]
fn containers_know_which_pod_of_their_task_they_are_in() {
    let mut world = World::new(json!([]), json!({"plugins": {"env": []}})).running();
    let pod = &world.pods[&ObjectKey::pod("ml", "j-worker-1")];
    let env: Vec<String> = pod["spec"]["containers"][0]["env"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|entry| format!("{}={}", entry["name"].as_str().unwrap_or(""), entry["value"].as_str().unwrap_or("")))
        .collect();
    assert_eq!(env, ["VK_TASK_INDEX=1", "VC_TASK_INDEX=1"]);
    assert_eq!(world.settle().phase(), "Running");
}

#[test]
fn pods_find_each_other_by_name() {
    let mut world = World::new(json!([]), json!({"plugins": {"svc": []}})).running();
    let kinds: Vec<&str> = world.made_once.iter().filter_map(|object| object["kind"].as_str()).collect();
    assert_eq!(kinds, ["Service", "ConfigMap"], "they are made once");
    assert_eq!(world.made_once[1]["data"]["worker.host"], "j-worker-0.j\nj-worker-1.j");
    let pod = &world.pods[&ObjectKey::pod("ml", "j-head-0")]["spec"];
    assert_eq!((&pod["hostname"], &pod["subdomain"]), (&json!("j-head-0"), &json!("j")));
    let env = pod["containers"][0]["env"].as_array().cloned().unwrap_or_default();
    assert!(env.contains(&json!({"name": "VC_WORKER_HOSTS", "value": "j-worker-0.j,j-worker-1.j"})), "{env:?}");
    assert_eq!(world.settle().phase(), "Running");
}

#[test]
fn a_task_has_failed_when_its_containers_were_restarted_often_enough() {
    let run = |max_retry: Value| {
        let mut world = World::new(json!([{"action": "AbortJob", "event": "TaskFailed"}]), json!({}));
        world.job["spec"]["tasks"][1]["maxRetry"] = max_retry;
        let mut world = world.running();
        for (name, count) in [("j-worker-0", 1), ("j-worker-1", 2)] {
            let pod = world.pods.get_mut(&ObjectKey::pod("ml", name)).expect("a pod");
            pod["status"]["containerStatuses"] = json!([{"restartCount": count, "ready": true}]);
        }
        world.settle().phase().to_string()
    };
    let phases = [json!(4), json!(3), Value::Null, json!(-1)].map(run);
    assert_eq!(phases, ["Running", "Aborted", "Aborted", "Running"], "three restarts in all");
}

#[test]
fn a_task_waits_for_all_that_it_depends_on_or_for_any() {
    let run = |iteration: &str| {
        let task = |name: &str, more: Value| {
            let mut task = json!({"name": name, "replicas": 1, "template": container(json!({}))});
            more.as_object().into_iter().flatten().for_each(|(key, value)| task[key] = value.clone());
            task
        };
        let last = json!({"dependsOn": {"name": ["a", "b"], "iteration": iteration}});
        let tasks = json!([task("a", json!({})), task("b", json!({})), task("c", last)]);
        let mut world = World::of(json!({}), json!({"tasks": tasks}));
        world.settle().admit();
        let first = (world.names().len(), world.group.as_ref().expect("a group")["spec"]["minMember"].clone());
        assert_eq!(first, (2, json!(2)), "the gang is that of the tasks that may start");
        world.set(&["j-a-0"], "Running");
        let one = world.names().len();
        world.set(&["j-b-0"], "Running");
        assert_eq!((world.names().len(), &world.group.as_ref().expect("a group")["spec"]["minMember"]), (3, &json!(3)));
        one
    };
    assert_eq!((run("all"), run(""), run("any")), (2, 2, 3));
}
