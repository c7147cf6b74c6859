//! Groups for pods that say by annotation, or whose owners say, how many of them must be able to run.

use quotient_api::ObjectKey;
use quotient_api::volcano::{GROUP_NAMES, gang};
use serde_json::{Value, json};

use super::Controllers;
use super::template::active;
use crate::field;
use crate::server::{Server, is_leaving, is_over};

/// Sees to it that the pod's group is there, and that the pod knows it.
pub(super) fn reconcile(controllers: &mut Controllers, server: &mut Server, key: &ObjectKey, pod: &Value) {
    if is_over(pod) || is_leaving(pod) {
        return;
    }
    let owner = field::controller(pod).and_then(|owner| server.store().get(&owner).cloned());
    let above = owner.as_deref().and_then(field::controller).and_then(|owner| server.store().get(&owner).cloned());
    let owners: Vec<&Value> = owner.as_deref().into_iter().chain(above.as_deref()).collect();
    let Some(gang) = gang::gang(pod, &owners) else { return };
    let group = ObjectKey::pod_group(key.namespace.as_deref().unwrap_or_default(), &gang.name);
    if !server.store().contains(&group) {
        if let Err(refusal) = server.create(gang.group) {
            server.event(key, "Warning", "FailedCreate", &refusal.to_string());
            controllers.refused.insert(key.clone());
        }
    } else if gang.is_of_owner {
        server.amend(&group, |group| {
            gang::renew(group, &gang.group);
        });
    }
    if gang.is_unnamed {
        server.amend(key, |pod| field::put(pod, &["metadata", "annotations", GROUP_NAMES[0]], json!(gang.name)));
    }
}

/// An owner changed, and may say something else about its group.
pub(super) fn reconcile_owner(controllers: &mut Controllers, server: &mut Server, key: &ObjectKey) {
    let first = active(server.store(), key).first().map(|(key, pod)| ((*key).clone(), (*pod).clone()));
    if let Some((key, pod)) = first {
        reconcile(controllers, server, &key, &pod);
    }
}
