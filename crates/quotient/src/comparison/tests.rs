//! What is counted for what the incumbent does.

use quotient_api::Configuration;
use quotient_engine::Budget;
use quotient_host::{Parts, Session, SharedObjects};
use serde_json::json;

use super::*;
use quotient_host::subject::Subject;

/// A shadow and its comparison, fed by hand.
struct Bench {
    session: Session,
    comparison: Arc<Comparison>,
    tick: u64,
}

impl Bench {
    fn new() -> Self {
        let names = vec!["other".to_string()];
        let parts = Parts { shadow: true, ..Parts::default() };
        let mut session = Session::new(&Configuration::default(), Some(names.clone()), parts, SharedObjects::default());
        session.lead(Bench::at(0));
        let comparison = Comparison::new(names, Duration::from_secs(3600), Metrics::default(), 0);
        let mut bench = Bench { session, comparison, tick: 0 };
        let subjects: Vec<Subject> = bench.session.first_subjects().collect();
        for subject in subjects {
            bench.session.see(Bench::at(0), Seen::Listed(subject));
        }
        for name in ["n-0", "n-1"] {
            bench
                .see("Node", json!({"metadata": {"name": name}, "status": {"allocatable": {"cpu": "2", "pods": "9"}}}));
        }
        bench
    }

    fn at(tick: u64) -> Now {
        Now { tick: Tick(tick), wall_us: tick as i64 * 1000 }
    }

    /// Shows an object to both, as the live session does, and decides.
    fn see(&mut self, kind: &str, object: Value) {
        self.tick += 10;
        let kind = quotient_api::kinds::find("", kind).expect("it is known");
        let seen = Seen::Object(Subject::Kind(kind), object);
        self.comparison.sees(&seen, self.session.scheduler().engine());
        self.session.see(Bench::at(self.tick), seen);
        self.turn();
    }

    fn turn(&mut self) {
        let turn = self.session.turn(Bench::at(self.tick), false, Budget { pods_max: 100 });
        assert!(turn.writes.is_empty() && turn.held.is_none(), "{turn:?}");
        self.comparison.hears(Bench::at(self.tick), &turn.happened);
    }

    fn pod(&mut self, name: &str, cpu: &str, node: Option<&str>) {
        self.see(
            "Pod",
            json!({"metadata": {"name": name, "namespace": "a", "uid": name},
                "spec": {"schedulerName": "other", "nodeName": node, "containers": [
                    {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}]}}),
        );
    }

    fn report(&self) -> Value {
        serde_json::from_str(&self.comparison.json()).expect("JSON")
    }

    fn binds(&self, outcome: &str) -> u64 {
        self.report()["binds"]["outcomes"][outcome].as_u64().expect("a count")
    }
}

#[test]
fn binds_are_compared_with_what_was_decided_just_before() {
    let mut bench = Bench::new();
    bench.pod("same", "1", None);
    bench.pod("same", "1", Some("n-0"));
    bench.pod("other", "1", None);
    bench.pod("other", "1", Some("n-0"));
    assert_eq!((bench.binds("same_node"), bench.binds("other_node")), (1, 1), "{}", bench.report());
    // n-0 is full by now.
    bench.pod("unfit", "1", None);
    bench.pod("unfit", "1", Some("n-0"));
    bench.pod("held", "8", None);
    bench.pod("held", "8", Some("n-1"));
    let report = bench.report();
    assert_eq!((bench.binds("unfit_node"), bench.binds("held")), (1, 1), "{report}");
    assert_eq!(report["binds"]["heldByReason"], json!({"NoFittingNode": 1}));
    assert_eq!((&report["binds"]["theirs"], &report["binds"]["agreed"]), (&json!(4), &json!(2)));
    let unfit = report["binds"]["examples"]["unfit_node"][0]["ours"].as_str().expect("a text");
    assert!(unfit.starts_with("bound to n-1; n-0 does not fit:"), "{unfit}");
    // What was there before, and pods of others, are not compared.
    bench.pod("there", "1", Some("n-1"));
    assert_eq!(bench.report()["binds"]["theirs"], 4);
}

#[test]
fn what_the_incumbent_leaves_undone_counts_once_and_fills_nothing() {
    let mut bench = Bench::new();
    bench.pod("left", "2", None);
    bench.tick += 61_000;
    bench.turn();
    bench.comparison.looks(Bench::at(bench.tick), bench.session.scheduler().engine());
    bench.comparison.looks(Bench::at(bench.tick), bench.session.scheduler().engine());
    assert_eq!(bench.binds("only_ours"), 1, "{}", bench.report());
    let used: i64 = bench
        .session
        .scheduler()
        .engine()
        .nodes()
        .iter()
        .flat_map(|node| node.used.iter())
        .filter(|(name, _)| **name == *"cpu")
        .map(|(_, amount)| *amount as i64)
        .sum();
    assert_eq!(used, 0, "it holds nothing any more");
    bench.pod("left", "2", Some("n-0"));
    assert_eq!((bench.binds("same_node"), bench.binds("only_ours")), (1, 1), "{}", bench.report());
}

#[test]
fn evictions_are_compared() {
    let mut bench = Bench::new();
    let victim = |name: &str, more: Value| {
        json!({"metadata": {"name": name, "namespace": "a", "uid": name, "deletionTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"schedulerName": "other", "nodeName": "n-0", "containers": []}, "status": {"conditions": [more]}})
    };
    bench.pod("preempted", "1", Some("n-0"));
    let condition = json!({"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler",
        "message": "for a/p"});
    bench.see("Pod", victim("preempted", condition));
    bench.pod("deleted", "1", Some("n-0"));
    bench.see("Pod", victim("deleted", Value::Null));
    let report = bench.report();
    assert_eq!(report["evictions"]["outcomes"], json!({"both": 0, "only_theirs": 1, "only_ours": 0}), "{report}");
    assert_eq!(report["evictions"]["examples"]["only_theirs"][0]["theirs"], "preempted: for a/p");
}
