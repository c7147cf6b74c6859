//! Jobs of several tasks, seen and carried out step by step.

use super::*;
use crate::patch::followed_by;
use crate::subject::Subject;
use quotient_api::volcano::group::GroupPhase;

/// A job of two pods, and what was written about it. What is made is seen when the test says so.
struct World {
    jobs: Jobs,
    objects: Objects,
    key: ObjectKey,
    now: u64,
}

impl World {
    fn new() -> Self {
        let job = json!({
            "apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job",
            "metadata": {"name": "j", "namespace": "a", "uid": "1"},
            "spec": {"tasks": [{"name": "t", "replicas": 2, "template": {"spec": {"containers": []}}}],
                "policies": [{"event": "PodEvicted", "action": "RestartJob"}]},
        });
        let key = key_of(&job).expect("it is an object");
        let mut objects = Objects::default();
        objects.serves(Subject::JobPods, true);
        objects.seen(&key, &job);
        let mut jobs = Jobs::default();
        jobs.due(key.clone());
        World { jobs, objects, key, now: 0 }
    }

    fn look(&mut self) -> Wanted {
        let settings = Settings {
            profiles: true,
            pod_groups: true,
            volcano_jobs: true,
            scheduler_names: Some(vec!["quotient".to_string()]),
        };
        let mut wanted = Wanted::default();
        let now = Moment { tick: Tick(self.now), text: "2026-01-01T00:00:00Z".to_string() };
        self.jobs.look_again();
        self.jobs.follow(&settings, &self.objects, &now, &mut wanted);
        wanted
    }

    /// Lets everything that was written come true, and gives what was made and deleted.
    fn carry_out(&mut self, writes: Vec<Write>) -> Vec<String> {
        let mut shown = Vec::new();
        for write in writes {
            match write {
                Write::Make { key, mut object } => {
                    shown.push(format!("make {key}"));
                    object["metadata"]["uid"] = json!(format!("{}-{}", key.name, self.now));
                    if key.kind == "Pod" {
                        self.objects.job_pod_seen(&key, &object);
                    } else {
                        object["status"] = json!({"phase": GroupPhase::Inqueue.name()});
                        self.objects.seen(&key, &object);
                    }
                }
                Write::Delete { object, .. } => {
                    shown.push(format!("delete {object}"));
                    if let Some((job, pod)) = self.objects.job_pod_gone(&object) {
                        self.jobs.pod_gone(job, pod, &self.objects);
                    }
                    self.objects.gone(&object);
                }
                Write::Amend(amendment) => {
                    let Amendment { object, status, .. } = *amendment;
                    assert!(status.is_some(), "only the status of a job is changed: {object}");
                    let mut job = self.objects.get(&object).expect("it is there").clone();
                    job["status"] = followed_by(job.get("status").cloned(), status).unwrap_or_default();
                    self.objects.seen(&object, &job);
                }
                other => panic!("{other:?}"),
            }
        }
        self.jobs.due(self.key.clone());
        shown
    }

    fn status(&self, pointer: &str) -> Value {
        let job = self.objects.get(&self.key).expect("it is there");
        job.pointer(&format!("/status{pointer}")).cloned().unwrap_or_default()
    }
}

#[test]
fn nothing_is_asked_for_twice_and_what_went_restarts_the_job_once() {
    let mut world = World::new();
    let first = world.look().writes;
    assert_eq!(world.look().writes, [], "nothing of it was seen yet");
    assert_eq!(world.carry_out(first), ["make PodGroup/a/j-1"]);
    let pods = world.look().writes;
    assert!(world.look().writes.is_empty());
    let schedulers: Vec<&Value> = pods
        .iter()
        .filter_map(|write| match write {
            Write::Make { object, .. } => Some(&object["spec"]["schedulerName"]),
            _ => None,
        })
        .collect();
    assert_eq!(schedulers, ["quotient", "quotient"], "nobody else is to place them");
    assert_eq!(world.carry_out(pods), ["make Pod/a/j-t-0", "make Pod/a/j-t-1"]);
    let counts = world.look().writes;
    assert_eq!(world.carry_out(counts), Vec::<String>::new());
    // One goes by itself.
    let (job, pod) = world.objects.job_pod_gone(&ObjectKey::pod("a", "j-t-0")).expect("it was there");
    world.jobs.pod_gone(job, pod, &world.objects);
    let restart = world.look();
    assert_eq!(restart.remarks.len(), 1, "{restart:?}");
    assert_eq!(world.carry_out(restart.writes), ["delete Pod/a/j-t-1"]);
    assert_eq!((world.status("/retryCount"), world.status("/state/phase")), (json!(1), json!("Restarting")));
    world.now += 1;
    for _ in 0..6 {
        let writes = world.look().writes;
        world.carry_out(writes);
    }
    assert_eq!((world.status("/retryCount"), world.status("/version")), (json!(1), json!(1)));
    assert_eq!(world.objects.pods_of_job(&world.key, world.objects.get(&world.key).expect("it is there")).len(), 2);
}

#[test]
fn what_is_refused_is_told_and_tried_again_after_a_while() {
    let mut world = World::new();
    let first = world.look().writes;
    let slot = first.iter().map(Write::slot).find(|slot| matches!(slot, Slot::Make(_))).expect("a group is made");
    world.jobs.refused(&slot, "no", Tick(0));
    let told = world.look();
    assert_eq!((told.writes.len(), told.remarks[0].2.reason), (0, "FailedCreate"));
    world.now = PAUSE_MIN_MS;
    assert_eq!(world.look().writes, first);
    world.now += SEEN_AFTER_MS;
    assert_eq!(world.look().writes, first, "what is not seen for long is asked for again");
}
