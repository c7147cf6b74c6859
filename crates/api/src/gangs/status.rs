//! What the status of a group with `minMember` says, as Coscheduling's own controller writes it and people read it.

use std::collections::BTreeSet;

use quotient_engine::GroupReport;
use serde_json::{Map, Value, json};

use crate::volcano::status::Ended;

/// The phases of a group.
const PENDING: &str = "Pending";
const SCHEDULING: &str = "Scheduling";
const RUNNING: &str = "Running";
const FINISHED: &str = "Finished";
const FAILED: &str = "Failed";

/// The status that a group should have. `owners` are what made its pods, as `namespace/name`.
pub fn status(
    group: &Value,
    report: &GroupReport,
    ended: Ended,
    owners: impl Iterator<Item = String>,
    now: &str,
) -> Value {
    let mut status: Map<String, Value> = group.get("status").and_then(Value::as_object).cloned().unwrap_or_default();
    let known = status.get("phase").and_then(Value::as_str).unwrap_or_default();
    if matches!(known, FINISHED | FAILED) {
        return Value::Object(status); // These are final.
    }
    let min = group.pointer("/spec/minMember").and_then(Value::as_u64).unwrap_or(0).max(1);
    let [running, succeeded, failed] = [report.running, ended.succeeded, ended.failed].map(u64::from);
    let phase = match () {
        () if u64::from(report.members) + succeeded + failed < min => PENDING,
        () if succeeded >= min => FINISHED,
        () if failed > 0 && failed + running + succeeded >= min => FAILED,
        () if running + succeeded >= min => RUNNING,
        () => SCHEDULING,
    };
    status.insert("phase".to_string(), json!(phase));
    for (name, count) in [("running", running), ("succeeded", succeeded), ("failed", failed)] {
        status.insert(name.to_string(), json!(count));
    }
    if phase != PENDING && status.get("scheduleStartTime").is_none_or(Value::is_null) {
        status.insert("scheduleStartTime".to_string(), json!(now));
    }
    let is_occupied = status.get("occupiedBy").and_then(Value::as_str).is_some_and(|text| !text.is_empty());
    let owners: BTreeSet<String> = owners.collect();
    if phase != PENDING && !is_occupied && !owners.is_empty() {
        status.insert("occupiedBy".to_string(), json!(owners.into_iter().collect::<Vec<_>>().join(",")));
    }
    Value::Object(status)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_follow_the_pods_and_end_for_good() {
        let cases = [
            (2, 0, (0, 0), "", PENDING),
            (3, 0, (0, 0), "", SCHEDULING),
            (3, 3, (0, 0), SCHEDULING, RUNNING),
            (1, 1, (2, 0), RUNNING, RUNNING),
            (2, 2, (0, 1), RUNNING, FAILED),
            (0, 0, (3, 0), RUNNING, FINISHED),
            (3, 3, (0, 0), FAILED, FAILED),
            (1, 1, (0, 0), RUNNING, PENDING),
        ];
        for (members, running, (succeeded, failed), before, expected) in cases {
            let group = json!({"spec": {"minMember": 3}, "status": {"phase": before}});
            let report = GroupReport { members, running, placed: running, ..GroupReport::default() };
            let owners = ["a/y".to_string(), "a/x".to_string()].into_iter();
            let status = status(&group, &report, Ended { succeeded, failed }, owners, "now");
            assert_eq!(status["phase"], expected, "{members} {running} {succeeded} {failed} {before}");
            if expected == SCHEDULING {
                assert_eq!((&status["occupiedBy"], &status["scheduleStartTime"]), (&json!("a/x,a/y"), &json!("now")));
            }
        }
    }
}
