//! How each write is done: which requests, in which order, and what their answers mean for it.
//!
//! Everything here can be done twice: a request that was not answered may have happened.

use std::time::Duration;

use http::Method;
use kube::Client;
use quotient_api::volcano::POD_GROUP;
use quotient_api::{ObjectKey, kinds, preemption_message, time};
use quotient_engine::ClaimBinding;
use quotient_engine::fact::{Name, PodKey};
use serde_json::{Value, json};

use crate::call::{Call, CallError, Content, kind_path};
use crate::lease::Fence;
use crate::queue::Outcome;
use crate::write::{Amendment, PodRef, Write};

/// How often a bind looks whether the volumes of its pod have come.
const VOLUMES_EVERY: Duration = Duration::from_secs(1);

/// The annotation by which a volume is made near a node.
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

/// The annotation that says that a volume was not chosen by its owner.
const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";

/// Does a write. The error, if any, comes with it, for whoever watches how the server does.
pub async fn carry_out(client: &Client, fence: &Fence, write: &Write) -> (Outcome, Option<CallError>) {
    let result = match write {
        Write::Bind { pod, node, claims, .. } => bind(client, fence, pod, node, claims).await,
        Write::Evict { pod, claimant: Some(claimant), .. } => preempt(client, fence, pod, claimant).await,
        Write::Evict { pod, claimant: None, .. } => evict(client, fence, pod).await,
        Write::Nominate { pod, node } => {
            let status = json!({"nominatedNodeName": node.as_deref()});
            patch_pod(client, fence, pod, Some("status"), json!({}), json!({"status": status})).await
        }
        Write::Label { pod, labels } => patch_pod(client, fence, pod, None, json!({"labels": labels}), json!({})).await,
        Write::Condition { pod, reason, message, since } => {
            let mut condition =
                json!({"type": "PodScheduled", "status": "False", "reason": reason, "message": message});
            if let Some(since) = since {
                condition["lastTransitionTime"] = json!(since);
            }
            let status = json!({"status": {"conditions": [condition]}});
            patch_pod(client, fence, pod, Some("status"), json!({}), status).await
        }
        Write::Event(note) => {
            let path = format!("/api/v1/namespaces/{}/events/{}", note.namespace(), note.name());
            send(client, fence, &Call::at(Method::PATCH, path, Content::Apply, note.object())).await.map(drop)
        }
        Write::Amend(amendment) => amend(client, fence, amendment).await,
        Write::Make { key, object } => make(client, fence, key, object).await,
        Write::Admit { group } => patch_status(client, fence, group, json!({"status": {"phase": "Inqueue"}})).await,
        Write::Delete { object, uid } => {
            let body = match uid {
                Some(uid) => json!({"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": **uid}}),
                None => Value::Null,
            };
            let call = Call::new(Method::DELETE, object, None, Content::Json, body);
            match send(client, fence, &call).await {
                // It is gone, or another took its place.
                Ok(_) | Err(Stop::Error(CallError::NotFound(_) | CallError::Conflict(_))) => Ok(()),
                Err(stop) => Err(stop),
            }
        }
    };
    match result {
        Ok(()) => (Outcome::Done, None),
        Err(Stop::Wait) => (Outcome::Later(VOLUMES_EVERY), None),
        Err(Stop::Refused(message)) => (Outcome::Refused(message), None),
        Err(Stop::Error(error)) => (outcome_of(&error), Some(error)),
    }
}

/// Why a write is not done.
enum Stop {
    Error(CallError),
    /// Something that must come first is under way.
    Wait,
    Refused(String),
}

fn outcome_of(error: &CallError) -> Outcome {
    match error {
        CallError::Fenced => Outcome::Fenced,
        CallError::Throttled { message, .. } | CallError::Unavailable(message) => Outcome::Failed(message.clone()),
        // The object is gone or another: what to do about it is decided anew when that is seen.
        CallError::NotFound(message) | CallError::Conflict(message) | CallError::Refused { message, .. } => {
            Outcome::Refused(message.clone())
        }
    }
}

async fn send(client: &Client, fence: &Fence, call: &Call) -> Result<Value, Stop> {
    call.send(client, fence).await.map_err(Stop::Error)
}

fn pod_key(pod: &PodKey) -> ObjectKey {
    ObjectKey::pod(&pod.namespace, &pod.name)
}

/// Patches a pod, if it is still the one that was decided about. Nothing is wrong with one that is gone.
async fn patch_pod(
    client: &Client,
    fence: &Fence,
    pod: &PodRef,
    part: Option<&str>,
    metadata: Value,
    mut body: Value,
) -> Result<(), Stop> {
    body["metadata"] = metadata;
    body["metadata"]["uid"] = json!(*pod.uid);
    let call = Call::new(Method::PATCH, &pod_key(&pod.key), part, Content::StrategicPatch, body);
    send(client, fence, &call).await.map(drop)
}

/// Patches an object, and its status, if it is still the one that this was decided about.
async fn amend(client: &Client, fence: &Fence, amendment: &Amendment) -> Result<(), Stop> {
    let Amendment { object, uid, metadata, spec, status } = amendment;
    let with_uid = |mut body: Value| {
        if let Some(uid) = uid {
            body["metadata"]["uid"] = json!(**uid);
        }
        body
    };
    if metadata.is_some() || spec.is_some() {
        let mut body = json!({});
        for (field, patch) in [("metadata", metadata), ("spec", spec)] {
            if let Some(patch) = patch {
                body[field] = patch.clone();
            }
        }
        let call = Call::new(Method::PATCH, object, None, Content::MergePatch, with_uid(body));
        send(client, fence, &call).await?;
    }
    if let Some(status) = status {
        patch_status(client, fence, object, with_uid(json!({"status": status}))).await?;
    }
    Ok(())
}

/// Patches the status of an object: in a request of its own where the kind has that, else with the object. Groups are
/// installed either way.
async fn patch_status(client: &Client, fence: &Fence, object: &ObjectKey, body: Value) -> Result<(), Stop> {
    let call = |part| Call::new(Method::PATCH, object, part, Content::MergePatch, body.clone());
    match send(client, fence, &call(Some("status"))).await {
        // The same is said of an object that is gone: then this finds nothing either.
        Err(Stop::Error(CallError::NotFound(_))) if object.kind == POD_GROUP => {
            send(client, fence, &call(None)).await.map(drop)
        }
        other => other.map(drop),
    }
}

/// Makes an object; nothing is wrong with one that is there.
async fn make(client: &Client, fence: &Fence, key: &ObjectKey, object: &Value) -> Result<(), Stop> {
    let kind = key.kind_entry().ok_or_else(|| Stop::Refused(format!("{key} is of an unknown kind")))?;
    let path = kind_path(kind, key.namespace.as_deref());
    match send(client, fence, &Call::at(Method::POST, path, Content::Json, object.clone())).await {
        Ok(_) | Err(Stop::Error(CallError::Conflict(_))) => Ok(()),
        Err(stop) => Err(stop),
    }
}

/// Binds a pod: its claims first, then, when they are bound, the pod itself.
async fn bind(client: &Client, fence: &Fence, pod: &PodRef, node: &Name, claims: &[ClaimBinding]) -> Result<(), Stop> {
    let mut waits = false;
    for claim in claims {
        waits |= !bind_claim(client, fence, pod, node, claim).await?;
    }
    if waits {
        return Err(Stop::Wait);
    }
    let key = pod_key(&pod.key);
    let body = json!({
        "apiVersion": "v1", "kind": "Binding",
        "metadata": {"name": *pod.key.name, "namespace": *pod.key.namespace, "uid": *pod.uid},
        "target": {"apiVersion": "v1", "kind": "Node", "name": **node},
    });
    let call = Call::new(Method::POST, &key, Some("binding"), Content::Json, body);
    match send(client, fence, &call).await {
        Ok(_) => Ok(()),
        // It may be our own bind that was not answered the first time.
        Err(Stop::Error(CallError::Conflict(message))) => match send(client, fence, &Call::get(&key)).await? {
            found if found["metadata"]["uid"] == *pod.uid && found["spec"]["nodeName"] == **node => Ok(()),
            _ => Err(Stop::Refused(message)),
        },
        Err(stop) => Err(stop),
    }
}

/// Brings a claim a step nearer to being bound; says whether it is.
async fn bind_claim(
    client: &Client,
    fence: &Fence,
    pod: &PodRef,
    node: &Name,
    binding: &ClaimBinding,
) -> Result<bool, Stop> {
    let kind = kinds::find("", "PersistentVolumeClaim").expect("the kind is in the table");
    let key = ObjectKey::new(kind, Some(&pod.key.namespace), binding.claim());
    let claim = send(client, fence, &Call::get(&key)).await?;
    if claim["status"]["phase"] == "Bound" {
        return Ok(true);
    }
    match binding {
        ClaimBinding::Provision { .. } => {
            if claim["metadata"]["annotations"][SELECTED_NODE] == **node {
                return Ok(false);
            }
            let metadata = json!({
                "uid": claim["metadata"]["uid"], "resourceVersion": claim["metadata"]["resourceVersion"],
                "annotations": {SELECTED_NODE: **node},
            });
            let body = json!({"metadata": metadata});
            send(client, fence, &Call::new(Method::PATCH, &key, None, Content::MergePatch, body)).await?;
        }
        ClaimBinding::Volume { volume, .. } => {
            let kind = kinds::find("", "PersistentVolume").expect("the kind is in the table");
            let volume_key = ObjectKey::new(kind, None, volume);
            let found = send(client, fence, &Call::get(&volume_key)).await?;
            let holder = &found["spec"]["claimRef"];
            if !holder.is_null() {
                let ours = holder["namespace"] == *pod.key.namespace && holder["name"] == **binding.claim();
                let same = holder["uid"].is_null() || holder["uid"] == claim["metadata"]["uid"];
                if !ours || !same {
                    return Err(Stop::Refused(format!("the volume {volume} was taken by another claim")));
                }
                if holder["uid"] == claim["metadata"]["uid"] {
                    return Ok(false);
                }
            }
            let body = json!({
                "metadata": {"resourceVersion": found["metadata"]["resourceVersion"],
                    "annotations": {BOUND_BY_CONTROLLER: "yes"}},
                "spec": {"claimRef": {
                    "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": *pod.key.namespace,
                    "name": **binding.claim(), "uid": claim["metadata"]["uid"],
                    "resourceVersion": claim["metadata"]["resourceVersion"],
                }},
            });
            send(client, fence, &Call::new(Method::PATCH, &volume_key, None, Content::MergePatch, body)).await?;
        }
    }
    Ok(false)
}

/// Sends a pod away for a claimant: it is told why, then deleted. A pod that is gone has gone.
async fn preempt(client: &Client, fence: &Fence, pod: &PodRef, claimant: &PodKey) -> Result<(), Stop> {
    let condition = json!({
        "type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler",
        "message": preemption_message(claimant), "lastTransitionTime": now(),
    });
    let status = json!({"status": {"conditions": [condition]}});
    let marked = patch_pod(client, fence, pod, Some("status"), json!({}), status).await;
    let gone = |stop: &Stop| matches!(stop, Stop::Error(CallError::NotFound(_) | CallError::Conflict(_)));
    match marked {
        Err(stop) if gone(&stop) => return Ok(()),
        other => other?,
    }
    let body = json!({"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": *pod.uid}});
    let call = Call::new(Method::DELETE, &pod_key(&pod.key), None, Content::Json, body);
    match send(client, fence, &call).await {
        Err(stop) if gone(&stop) => Ok(()),
        other => other.map(drop),
    }
}

/// Asks the eviction API to send a pod away, which it does not where a disruption budget forbids it.
async fn evict(client: &Client, fence: &Fence, pod: &PodRef) -> Result<(), Stop> {
    let body = json!({
        "apiVersion": "policy/v1", "kind": "Eviction",
        "metadata": {"name": *pod.key.name, "namespace": *pod.key.namespace},
        "deleteOptions": {"preconditions": {"uid": *pod.uid}},
    });
    let call = Call::new(Method::POST, &pod_key(&pod.key), Some("eviction"), Content::Json, body);
    match send(client, fence, &call).await {
        Ok(_) | Err(Stop::Error(CallError::NotFound(_) | CallError::Conflict(_))) => Ok(()),
        // This is how a budget says no; the server is not busy.
        Err(Stop::Error(CallError::Throttled { message, .. })) if message.contains("disruption budget") => {
            Err(Stop::Refused(message))
        }
        Err(stop) => Err(stop),
    }
}

fn now() -> String {
    time::format_timestamp(crate::live::wall_us().div_euclid(1_000_000) * 1_000_000)
}
