//! What of pods that an API server has made nobody here reads.
//!
//! Most of the text of a cluster's dump is such pods, and most of a pod is what its containers run and how they fare.
//! What is dropped is dropped while it is read. Manifests that people write are kept as they are: they have no uid.
//!
//! A manifest may be applied over such a pod, and admission compares the two. Of containers it compares names and
//! resources, so that the rest may go; all else of the spec stays. Where it is known that nothing is applied over it,
//! more of the spec goes.

use serde_json::Value;

use crate::json::{self, Dropped, Part, all, inside, prune};

const CONTAINER: &[Dropped] = &json::joined::<15>(
    json::CONTAINER,
    &[
        inside("ports", &[all("name"), Dropped { key: "protocol", part: Part::If(is_usual_protocol) }]),
        Dropped { key: "volumeMounts", part: Part::If(are_plain) },
    ],
);

const STATUS: Dropped = inside(
    "status",
    &[
        Dropped { key: "conditions", part: Part::Items(says_nothing) },
        Dropped { key: "containerStatuses", part: Part::If(run_as_asked) },
        all("ephemeralContainerStatuses"),
        all("hostIP"),
        all("hostIPs"),
        Dropped { key: "initContainerStatuses", part: Part::If(run_as_asked) },
        all("podIP"),
        all("podIPs"),
        all("qosClass"),
    ],
);

/// What is dropped of pods over which something may be applied.
const COMPARABLE: &[Dropped] =
    &[inside("spec", &[inside("containers", CONTAINER), inside("initContainers", CONTAINER)]), STATUS];

const ALONE_SPEC: &[Dropped] = &json::joined::<9>(
    json::POD_SPEC,
    &[inside("containers", CONTAINER), inside("initContainers", CONTAINER), all("terminationGracePeriodSeconds")],
);

/// What is dropped of pods over which nothing is applied.
const ALONE: &[Dropped] = &[inside("spec", ALONE_SPEC), STATUS];

/// How much is kept of pods that an API server has made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kept {
    /// What manifests that are applied over them are compared with, too.
    Comparable,
    /// What is read of them where nothing is applied over them.
    Alone,
}

impl Kept {
    /// What is dropped.
    pub(crate) const fn dropped(self) -> &'static [Dropped] {
        match self {
            Kept::Comparable => COMPARABLE,
            Kept::Alone => ALONE,
        }
    }
}

/// Whether an object of this kind and metadata is a pod that an API server has made.
pub(crate) fn is_made_pod(kind: Option<&Value>, metadata: Option<&Value>) -> bool {
    let has_uid = || metadata.and_then(|metadata| metadata.get("uid")).and_then(Value::as_str);
    kind.is_some_and(|kind| kind == "Pod") && has_uid().is_some_and(|uid| !uid.is_empty())
}

/// The value without what is dropped, where it is such a pod.
pub(crate) fn thin(value: Value, kept: Kept) -> Value {
    let is_pod = is_made_pod(value.get("kind"), value.get("metadata"));
    if is_pod { prune(value, kept.dropped()) } else { value }
}

/// Whether mounts have no options: not every node has those.
fn are_plain(mounts: &Value) -> bool {
    let is_plain = |mount: &Value| mount.as_object().is_some_and(|mount| !mount.contains_key("bindMountOptions"));
    mounts.as_array().is_some_and(|mounts| mounts.iter().all(is_plain))
}

/// Whether a port's protocol is that of a port which names none.
fn is_usual_protocol(protocol: &Value) -> bool {
    protocol == "TCP"
}

/// Whether a condition says only that a pod has come as far as it should.
fn says_nothing(condition: &Value) -> bool {
    let names = ["PodScheduled", "PodReadyToStartContainers", "Initialized", "ContainersReady"];
    condition["status"] == "True" && names.iter().any(|name| condition["type"] == *name)
}

/// Whether all containers run, have never ended, and have what their spec says.
fn run_as_asked(statuses: &Value) -> bool {
    let runs_as_asked = |status: &Value| {
        let is_absent = |name: &str| status.get(name).is_none_or(Value::is_null);
        status["ready"] == true
            && status["restartCount"] == 0
            && status["state"].get("terminated").is_none()
            && is_absent("allocatedResources")
            && is_absent("resources")
    };
    statuses.as_array().is_some_and(|statuses| statuses.iter().all(runs_as_asked))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::Exact;
    use serde_json::json;

    fn pod(uid: &str) -> Value {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "uid": uid},
            "spec": {"dnsPolicy": "ClusterFirst", "volumes": [{"name": "v", "emptyDir": {}}],
                "containers": [{"name": "c", "image": "i", "env": [{"name": "A"}], "resources": {"limits": {"cpu": "1"}},
                    "ports": [{"name": "http", "containerPort": 1, "protocol": "TCP"}],
                    "volumeMounts": [{"name": "v", "mountPath": "/v"}]},
                    {"name": "d", "image": "i",
                    "ports": [{"containerPort": 1, "protocol": "UDP"}, {"hostPort": 2, "containerPort": 2}],
                    "volumeMounts": [{"name": "v", "bindMountOptions": ["noexec"]}]}]},
            "status": {"phase": "Running", "podIP": "10.0.0.1",
                "conditions": [{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "True"},
                    {"type": "ContainersReady", "status": "False"}, "odd"],
                "containerStatuses": [{"name": "c", "ready": true, "restartCount": 0, "state": {"running": {}}}],
                "initContainerStatuses": [{"name": "i", "ready": true, "restartCount": 1}]}})
    }

    #[test]
    fn of_a_pod_that_an_api_server_has_made_what_nobody_reads_is_dropped() {
        let kept = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "uid": "1"},
            "spec": {"dnsPolicy": "ClusterFirst", "volumes": [{"name": "v", "emptyDir": {}}],
                "containers": [{"name": "c", "image": "i", "resources": {"limits": {"cpu": "1"}}, "ports": [{"containerPort": 1}]},
                    {"name": "d", "image": "i",
                    "ports": [{"containerPort": 1, "protocol": "UDP"}, {"hostPort": 2, "containerPort": 2}],
                    "volumeMounts": [{"name": "v", "bindMountOptions": ["noexec"]}]}]},
            "status": {"phase": "Running",
                "conditions": [{"type": "Ready", "status": "True"}, {"type": "ContainersReady", "status": "False"}, "odd"],
                "initContainerStatuses": [{"name": "i", "ready": true, "restartCount": 1}]}});
        assert_eq!(thin(pod("1"), Kept::Comparable).to_string(), kept.to_string());
        let list = json!({"kind": "List", "items": [pod("1"), pod("")]});
        let read: Exact = serde_json::from_str(&list.to_string()).expect("it is JSON");
        assert_eq!(read.0.to_string(), json!({"kind": "List", "items": [kept, pod("")]}).to_string());
    }

    #[test]
    fn more_is_dropped_of_a_pod_over_which_nothing_is_applied() {
        let mut alone = thin(pod("1"), Kept::Comparable);
        alone["spec"]["volumes"] = json!([{"name": "v"}]);
        let dropped = alone["spec"].as_object_mut().and_then(|spec| spec.shift_remove("dnsPolicy"));
        assert_eq!(dropped, Some(json!("ClusterFirst")));
        assert_eq!(thin(pod("1"), Kept::Alone).to_string(), alone.to_string());
    }

    #[test]
    fn what_people_write_is_kept_and_so_is_what_has_another_shape() {
        let mut deployment = pod("1");
        deployment["kind"] = json!("Deployment");
        let odd = json!({"kind": "Pod", "metadata": {"uid": "1"}, "spec": {"containers": 1}, "status": [2]});
        for value in [pod(""), deployment, odd] {
            for kept in [Kept::Comparable, Kept::Alone] {
                assert_eq!(thin(value.clone(), kept), value);
            }
            let read: Exact = serde_json::from_str(&value.to_string()).expect("it is JSON");
            assert_eq!(read.0, value);
        }
    }
}
