//! Jobs of several tasks: carries out what their plan says.

use std::sync::Arc;

use quotient_api::ObjectKey;
use quotient_api::time;
use quotient_api::volcano::job::{JobState, Plan, group_name, plan};
use serde_json::Value;

use super::Controllers;
use crate::field;
use crate::server::Server;

pub(super) fn reconcile(controllers: &mut Controllers, server: &mut Server, key: &ObjectKey, job: &Value) {
    let group_key = ObjectKey::pod_group(key.namespace.as_deref().unwrap_or_default(), &group_name(job));
    let group = server.store().get(&group_key).cloned();
    let pods: Vec<Arc<Value>> = server.store().controlled(key, "Pod").into_iter().map(|(_, pod)| pod.clone()).collect();
    let gone = controllers.gone.remove(key).unwrap_or_default();
    let state = JobState {
        job,
        group: group.as_deref(),
        pods: &pods.iter().map(AsRef::as_ref).collect::<Vec<&Value>>(),
        gone: &gone.iter().map(AsRef::as_ref).collect::<Vec<&Value>>(),
    };
    let now = time::format_timestamp(server.clock.now_us());
    let Plan { delete, delete_group, make_group, group_spec, make, status, events } =
        plan(&state, server.store(), &now);
    for pod in delete {
        let uid = server.store().get(&pod).and_then(|pod| field::text(pod, "/metadata/uid").map(str::to_string));
        controllers.deleted.extend(uid);
        server.remove(&pod);
    }
    if let Some(group) = delete_group {
        server.remove(&group);
    }
    if let Some(group) = make_group {
        controllers.make(server, key, group);
    }
    if let Some(spec) = group_spec {
        server.amend(&group_key, |group| field::put(group, &["spec"], spec));
    }
    for pod in make {
        // Where one is refused the others would be too; they are tried again together.
        if controllers.make(server, key, pod).is_none() {
            break;
        }
    }
    if let Some(status) = status {
        server.amend(key, |job| field::put(job, &["status"], status));
    }
    for (reason, message) in events {
        server.event(key, "Normal", reason, &message);
    }
}
