//! Small clusters that are drawn at random, the same each time, for property tests.

use quotient_engine::quantity::canonical;
use serde_json::{Value, json};

/// Numbers that are the same each time (xorshift).
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    pub fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }
}

/// Tries so many seeds, or as many as `PROPTEST_CASES` says, and names all that fail.
pub fn each_seed(count: u64, test: impl Fn(u64)) {
    let count = std::env::var("PROPTEST_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(count);
    let fails = |seed: &u64| std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| test(*seed))).is_err();
    let failing: Vec<u64> = (1..=count).filter(fails).collect();
    assert!(failing.is_empty(), "of {count} seeds these fail: {failing:?}");
}

/// A cluster with elastic quotas, or with queues below a queue, and pods of several priorities; one node has a taint,
/// one is cordoned.
pub fn cluster(dice: &mut Dice) -> Vec<Value> {
    let mut objects = Vec::new();
    for i in 0..3 {
        let mut node = json!({"apiVersion": "v1", "kind": "Node",
            "metadata": {"name": format!("n-{i}"), "labels": {"zone": format!("z-{}", i % 2)}}, "spec": {},
            "status": {"allocatable": {"cpu": (4 + dice.roll(5)).to_string(), "memory": "64Gi", "pods": "20"}}});
        match (i, dice.roll(3)) {
            (1, 0) => node["spec"]["taints"] = json!([{"key": "spot", "value": "true", "effect": "NoSchedule"}]),
            (2, 0) => node["spec"]["unschedulable"] = json!(true),
            _ => {}
        }
        objects.push(node);
    }
    let queues = dice.roll(2) == 0;
    for team in ["a", "b"] {
        let (min, max) = (1 + dice.roll(5), 4 + dice.roll(6));
        objects.push(match queues {
            true => json!({"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue",
                "metadata": {"name": team}, "spec": {"parent": "top", "capability": {"cpu": max.to_string()}}}),
            false => json!({"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "ElasticQuota",
                "metadata": {"name": "q", "namespace": team},
                "spec": {"min": {"cpu": min.to_string()}, "max": {"cpu": max.max(min).to_string()}}}),
        });
    }
    if queues {
        objects.push(json!({"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue",
            "metadata": {"name": "top"}, "spec": {"capability": {"cpu": (6 + dice.roll(8)).to_string()}}}));
    }
    for i in 0..8 + dice.roll(6) {
        let team = ["a", "b"][dice.roll(2) as usize];
        let cpu = [500, 1000, 1500, 2000, 3000][dice.roll(5) as usize];
        let mut pod = json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": format!("p-{i}"), "namespace": team, "annotations": {}},
            "spec": {"priority": dice.roll(3), "containers": [{"name": "c", "image": "i",
                "resources": {"requests": {"cpu": canonical("cpu", cpu)}}}]}});
        if queues {
            pod["metadata"]["annotations"]["scheduling.volcano.sh/queue-name"] = json!(team);
        }
        if dice.roll(6) == 0 {
            pod["spec"]["nodeSelector"] = json!({"zone": format!("z-{}", dice.roll(3))});
        }
        objects.push(pod);
    }
    objects
}
