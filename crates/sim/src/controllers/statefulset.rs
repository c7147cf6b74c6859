//! StatefulSets: pods with numbers, which come and go in order and keep their claims.

use std::collections::BTreeMap;

use quotient_api::{ObjectKey, kinds};
use serde_json::{Value, json};

use super::template::pod;
use super::{Controllers, observed, write_status};
use crate::field;
use crate::naming;
use crate::server::{Server, is_leaving, is_over, is_ready};

const REVISION_LABEL: &str = "controller-revision-hash";

/// How a pod of the set stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Standing {
    ready: bool,
    leaving: bool,
    over: bool,
    current: bool,
}

pub(super) fn reconcile(controllers: &mut Controllers, server: &mut Server, key: &ObjectKey, set: &Value) {
    let revision = naming::template_hash(&set["spec"]["template"]);
    controllers.adoption.note_revision(key, &revision);
    move_pods(controllers, server, key, set, &revision);
    let standing = standing(controllers, server, key, &revision);
    let count = |which: fn(&Standing) -> bool| standing.values().filter(|s| which(s)).count();
    let status = [
        ("replicas", json!(standing.len())),
        ("readyReplicas", json!(count(|s| s.ready))),
        ("availableReplicas", json!(count(|s| s.ready))),
        ("updatedReplicas", json!(count(|s| s.current))),
        observed(set),
    ];
    write_status(server, key, &status);
}

/// Takes the next steps. In order (`OrderedReady`) one pod moves at a time, and only when all before
/// it are ready; in parallel all do.
fn move_pods(controllers: &mut Controllers, server: &mut Server, key: &ObjectKey, set: &Value, revision: &str) {
    let wanted = field::integer(set, "/spec/replicas").unwrap_or(1).max(0);
    let start = field::integer(set, "/spec/ordinals/start").unwrap_or(0).max(0);
    let in_order = field::text(set, "/spec/podManagementPolicy") != Some("Parallel");
    let pods = standing(controllers, server, key, revision);

    for ordinal in start..start + wanted {
        match pods.get(&ordinal) {
            // A pod that ended makes place for its successor of the same name.
            Some(pod) if pod.over && !pod.leaving => {
                server.remove(&pod_key(key, ordinal));
                make(controllers, server, key, set, ordinal, revision);
                if in_order {
                    return;
                }
            }
            Some(pod) if in_order && (!pod.ready || pod.leaving) => return,
            Some(_) => {}
            None => {
                make(controllers, server, key, set, ordinal, revision);
                if in_order {
                    return;
                }
            }
        }
    }

    // The highest number goes first; in order, one at a time.
    let mut surplus = pods.iter().rev().filter(|(ordinal, _)| !(start..start + wanted).contains(*ordinal));
    if in_order {
        if let Some((ordinal, pod)) = surplus.next() {
            if !pod.leaving {
                server.remove(&pod_key(key, *ordinal));
            }
            return;
        }
    } else {
        for (ordinal, _) in surplus.filter(|(_, pod)| !pod.leaving) {
            server.remove(&pod_key(key, *ordinal));
        }
    }

    if field::text(set, "/spec/updateStrategy/type") == Some("OnDelete") {
        return;
    }
    let partition = field::integer(set, "/spec/updateStrategy/rollingUpdate/partition").unwrap_or(0);
    for ordinal in (start.max(partition)..start + wanted).rev() {
        match pods.get(&ordinal) {
            Some(pod) if !pod.current && !pod.leaving => {
                server.remove(&pod_key(key, ordinal));
                return;
            }
            // An updated pod must be ready before the next one is touched.
            Some(pod) if pod.ready && !pod.leaving => {}
            _ => return,
        }
    }
}

/// The set's pods by number.
fn standing(controllers: &Controllers, server: &Server, key: &ObjectKey, revision: &str) -> BTreeMap<i64, Standing> {
    let prefix = format!("{}-", key.name);
    server
        .store()
        .controlled(key, "Pod")
        .into_iter()
        .filter_map(|(pod_key, pod)| {
            let ordinal = pod_key.name.strip_prefix(&prefix)?.parse().ok()?;
            let standing = Standing {
                ready: is_ready(pod),
                leaving: is_leaving(pod),
                over: is_over(pod),
                current: controllers.adoption.is_current(key, revision, &pod["metadata"]["labels"][REVISION_LABEL]),
            };
            Some((ordinal, standing))
        })
        .collect()
}

fn pod_key(set: &ObjectKey, ordinal: i64) -> ObjectKey {
    ObjectKey::pod(set.namespace.as_deref().unwrap_or_default(), &format!("{}-{ordinal}", set.name))
}

fn make(
    controllers: &mut Controllers,
    server: &mut Server,
    key: &ObjectKey,
    set: &Value,
    ordinal: i64,
    revision: &str,
) {
    let name = format!("{}-{ordinal}", key.name);
    let mut pod = pod(&set["spec"]["template"], &name);
    for (label, value) in [
        ("statefulset.kubernetes.io/pod-name", name.as_str()),
        ("apps.kubernetes.io/pod-index", &ordinal.to_string()),
        (REVISION_LABEL, revision),
    ] {
        field::put(&mut pod, &["metadata", "labels", label], json!(value));
    }
    let mut volumes = field::list(&pod, "/spec/volumes").to_vec();
    for template in field::list(set, "/spec/volumeClaimTemplates") {
        let Some(volume) = field::text(template, "/metadata/name") else { continue };
        let claim = format!("{volume}-{name}");
        ensure_claim(server, key, template, &claim);
        volumes.retain(|known| known["name"] != volume);
        volumes.push(json!({"name": volume, "persistentVolumeClaim": {"claimName": claim}}));
    }
    if !volumes.is_empty() {
        field::put(&mut pod, &["spec", "volumes"], Value::Array(volumes));
    }
    controllers.make(server, key, pod);
}

/// A claim is made once and outlives its pod.
fn ensure_claim(server: &mut Server, set: &ObjectKey, template: &Value, name: &str) {
    let kind = kinds::find("", "PersistentVolumeClaim").expect("claims are a known kind");
    if server.store().contains(&ObjectKey::new(kind, set.namespace.as_deref(), name)) {
        return;
    }
    let mut claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim"});
    field::put(&mut claim, &["metadata"], template["metadata"].clone());
    field::put(&mut claim, &["metadata", "name"], json!(name));
    field::put(&mut claim, &["metadata", "namespace"], json!(set.namespace.as_deref()));
    field::put(&mut claim, &["spec"], template["spec"].clone());
    // A refused claim leaves its pod waiting for a claim that does not exist, which the pod's reason says.
    if let Err(refusal) = server.create(claim) {
        server.event(set, "FailedCreate", &refusal.to_string());
    }
}
