//! How each write is done: which requests, in which order, and what their answers mean for it.
//!
//! Everything here can be done twice: a request that was not answered may have happened.

mod devices;

use std::time::Duration;

use quotient_api::ties::BOUND_AS;
use quotient_api::volcano::POD_GROUP;
use quotient_api::volcano::job::ssh::{PRIVATE_KEY, PUBLIC_KEY};
use quotient_api::{ObjectKey, kinds, preemption_message};
use quotient_engine::ClaimBinding;
use quotient_engine::fact::{Name, PodKey};
use serde_json::{Value, json};

use crate::call::{Api, Call, CallError, Content, Target, Verb};
use crate::event::{EventNote, whole_seconds};
use crate::queue::Outcome;
use crate::ssh_key::KeyPair;
use crate::write::{Amendment, DeviceWrites, PodRef, Write};

/// How often a bind looks whether the volumes of its pod have come.
const VOLUMES_EVERY: Duration = Duration::from_secs(1);

/// The annotation by which a volume is made near a node.
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

/// The annotation that says that a volume was not chosen by its owner.
const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";

/// Does a write at a time of day. The error, if any, comes with it, for whoever watches how the server does.
pub async fn carry_out(api: &impl Api, write: &Write, wall_us: i64) -> (Outcome, Option<CallError>) {
    let result = match write {
        Write::Bind { pod, node, claims, devices, bound_as, .. } => {
            bind(api, (pod, node, bound_as.as_deref()), claims, devices, wall_us).await
        }
        Write::Evict { pod, claimant: Some(claimant), .. } => preempt(api, pod, claimant, wall_us).await,
        Write::Evict { pod, claimant: None, .. } => evict(api, pod).await,
        Write::Nominate { pod, node } => {
            let status = json!({"nominatedNodeName": node.as_deref()});
            patch_pod(api, pod, Some("status"), json!({}), json!({"status": status})).await
        }
        Write::Record { pod, record } => {
            let annotations = json!({"annotations": {BOUND_AS: record}});
            patch_pod(api, pod, None, annotations, json!({})).await
        }
        Write::Label { pod, labels } => patch_pod(api, pod, None, json!({"labels": labels}), json!({})).await,
        Write::Condition { pod, reason, message, since } => {
            let mut condition =
                json!({"type": "PodScheduled", "status": "False", "reason": reason, "message": message});
            if let Some(since) = since {
                condition["lastTransitionTime"] = json!(since);
            }
            let status = json!({"status": {"conditions": [condition]}});
            patch_pod(api, pod, Some("status"), json!({}), status).await
        }
        Write::Event(note) => tell(api, note).await,
        Write::Amend(amendment) => amend(api, amendment).await,
        Write::Make { key, object } => make(api, key, object).await,
        Write::MakeWithKeys { key, object } => make_with_keys(api, key, object).await,
        Write::Renew { key, object } => renew(api, key, object).await,
        Write::Admit { group } => patch_status(api, group, json!({"status": {"phase": "Inqueue"}})).await,
        Write::Deallocate { claim, uid, pod } => devices::deallocate(api, claim, uid, pod).await,
        Write::Delete { object, uid } => {
            let body = match uid {
                Some(uid) => json!({"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": **uid}}),
                None => Value::Null,
            };
            match send(api, Call::new(Verb::Delete, object, Content::Json, body)).await {
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

/// Touches a pod that waits, as a new leader does, and gives the version it has then. Watches tell of pods in the order
/// of their versions: who sees this one has seen everything that the last leader wrote about pods.
pub async fn probe(api: &impl Api, pod: &PodRef, wall_us: i64) -> Result<u64, CallError> {
    // The time says when the condition was looked at last, and nothing else changes.
    let condition = json!({"type": "PodScheduled", "status": "False", "lastProbeTime": whole_seconds(wall_us)});
    let body = json!({"metadata": {"uid": *pod.uid}, "status": {"conditions": [condition]}});
    let patch = Call::new(Verb::Patch, &pod_key(&pod.key), Content::StrategicPatch, body).of_part("status");
    let answer = api.call(Call { reads_answer: true, ..patch }).await?;
    let version = answer["metadata"]["resourceVersion"].as_str().and_then(|version| version.parse().ok());
    version.ok_or_else(|| CallError::Broken("the answer has no version".to_string()))
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
        CallError::Throttled { message, .. } | CallError::Broken(message) | CallError::Unavailable(message) => {
            Outcome::Failed(message.clone())
        }
        // The object is gone or another: what to do about it is decided anew when that is seen.
        CallError::NotFound(message) | CallError::Conflict(message) | CallError::Refused { message, .. } => {
            Outcome::Refused(message.clone())
        }
    }
}

async fn send(api: &impl Api, call: Call) -> Result<Value, Stop> {
    api.call(call).await.map_err(Stop::Error)
}

/// Tells people. An event has a name that follows from what it is about: told again, it is the same object.
async fn tell(api: &impl Api, note: &EventNote) -> Result<(), Stop> {
    let target = Target::Event { namespace: note.namespace().to_string(), name: note.name() };
    let call =
        |verb, content, body| Call { verb, target: target.clone(), part: None, content, body, reads_answer: false };
    let create = || call(Verb::Create, Content::Json, note.object());
    let renew = || call(Verb::Patch, Content::MergePatch, note.renewal());
    let is_new = note.count <= 1;
    let first = send(api, if is_new { create() } else { renew() }).await;
    match first {
        Err(Stop::Error(CallError::Conflict(_))) if is_new => send(api, renew()).await.map(drop),
        // The server forgets events after a while.
        Err(Stop::Error(CallError::NotFound(_))) if !is_new => send(api, create()).await.map(drop),
        other => other.map(drop),
    }
}

fn pod_key(pod: &PodKey) -> ObjectKey {
    ObjectKey::pod(&pod.namespace, &pod.name)
}

/// Patches a pod, if it is still the one that was decided about. Nothing is wrong with one that is gone.
async fn patch_pod(
    api: &impl Api,
    pod: &PodRef,
    part: Option<&'static str>,
    metadata: Value,
    mut body: Value,
) -> Result<(), Stop> {
    body["metadata"] = metadata;
    body["metadata"]["uid"] = json!(*pod.uid);
    let call = Call { part, ..Call::new(Verb::Patch, &pod_key(&pod.key), Content::StrategicPatch, body) };
    send(api, call).await.map(drop)
}

/// Patches an object, and its status, if it is still the one that this was decided about.
async fn amend(api: &impl Api, amendment: &Amendment) -> Result<(), Stop> {
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
        send(api, Call::new(Verb::Patch, object, Content::MergePatch, with_uid(body))).await?;
    }
    if let Some(status) = status {
        patch_status(api, object, with_uid(json!({"status": status}))).await?;
    }
    Ok(())
}

/// Patches the status of an object: in a request of its own where the kind has that, else with the object. Groups are
/// installed either way.
async fn patch_status(api: &impl Api, object: &ObjectKey, body: Value) -> Result<(), Stop> {
    let call = || Call::new(Verb::Patch, object, Content::MergePatch, body.clone());
    match send(api, call().of_part("status")).await {
        // The same is said of an object that is gone: then this finds nothing either.
        Err(Stop::Error(CallError::NotFound(_))) if object.kind == POD_GROUP => send(api, call()).await.map(drop),
        other => other.map(drop),
    }
}

/// Makes an object; nothing is wrong with one that is there.
async fn make(api: &impl Api, key: &ObjectKey, object: &Value) -> Result<(), Stop> {
    match send(api, Call::new(Verb::Create, key, Content::Json, object.clone())).await {
        Ok(_) | Err(Stop::Error(CallError::Conflict(_))) => Ok(()),
        Err(stop) => Err(stop),
    }
}

/// Makes a Secret with a new SSH key pair.
async fn make_with_keys(api: &impl Api, key: &ObjectKey, object: &Value) -> Result<(), Stop> {
    let seed = api.secret_bytes().map_err(Stop::Error)?;
    let KeyPair { private, public } = KeyPair::from_seed(&seed, &format!("{key}"));
    let mut object = object.clone();
    object["stringData"][PRIVATE_KEY] = json!(private);
    object["stringData"][PUBLIC_KEY] = json!(public);
    make(api, key, &object).await
}

/// Makes an object, or replaces its data. One that others made, or that an earlier owner of the same name did, stays.
async fn renew(api: &impl Api, key: &ObjectKey, object: &Value) -> Result<(), Stop> {
    match send(api, Call::new(Verb::Create, key, Content::Json, object.clone())).await {
        Err(Stop::Error(CallError::Conflict(_))) => {}
        other => return other.map(drop),
    }
    let found = send(api, Call::get(key)).await?;
    let owner = |object: &Value| object.pointer("/metadata/ownerReferences/0/uid").cloned();
    if owner(&found) != owner(object) {
        return Err(Stop::Refused(format!("{key} exists and was made by another")));
    }
    let mut data = object["data"].clone();
    for name in found["data"].as_object().into_iter().flatten().map(|(name, _)| name) {
        if data.get(name).is_none() {
            data[name] = Value::Null;
        }
    }
    let body = json!({"metadata": {"uid": found["metadata"]["uid"]}, "data": data});
    send(api, Call::new(Verb::Patch, key, Content::MergePatch, body)).await.map(drop)
}

/// Binds a pod: its claims first, then, when they are bound, the pod itself.
async fn bind(
    api: &impl Api,
    (pod, node, bound_as): (&PodRef, &Name, Option<&str>),
    claims: &[ClaimBinding],
    devices: &DeviceWrites,
    wall_us: i64,
) -> Result<(), Stop> {
    let mut waits = false;
    for claim in claims {
        waits |= !bind_claim(api, pod, node, claim).await?;
    }
    if waits {
        return Err(Stop::Wait);
    }
    let bound = match devices::grant(api, pod, devices, wall_us).await {
        Ok(()) => bind_pod(api, pod, node, bound_as).await,
        Err(stop) => Err(stop),
    };
    if let Err(Stop::Refused(_) | Stop::Error(CallError::Refused { .. } | CallError::NotFound(_))) = &bound {
        devices::give_back(api, pod, devices).await;
    }
    bound
}

/// Binds the pod itself. The annotations of a Binding become those of its pod, in the same write.
async fn bind_pod(api: &impl Api, pod: &PodRef, node: &Name, bound_as: Option<&str>) -> Result<(), Stop> {
    let key = pod_key(&pod.key);
    let mut metadata = json!({"name": *pod.key.name, "namespace": *pod.key.namespace, "uid": *pod.uid});
    if let Some(bound_as) = bound_as {
        metadata["annotations"] = json!({BOUND_AS: bound_as});
    }
    let target = json!({"apiVersion": "v1", "kind": "Node", "name": **node});
    let body = json!({"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target});
    match send(api, Call::new(Verb::Create, &key, Content::Json, body).of_part("binding")).await {
        Ok(_) => Ok(()),
        // It may be our own bind that was not answered the first time.
        Err(Stop::Error(CallError::Conflict(message))) => match send(api, Call::get(&key)).await? {
            found if found["metadata"]["uid"] == *pod.uid && found["spec"]["nodeName"] == **node => Ok(()),
            _ => Err(Stop::Refused(message)),
        },
        Err(stop) => Err(stop),
    }
}

/// Brings a claim a step nearer to being bound; says whether it is.
async fn bind_claim(api: &impl Api, pod: &PodRef, node: &Name, binding: &ClaimBinding) -> Result<bool, Stop> {
    let kind = kinds::find("", "PersistentVolumeClaim").expect("the kind is in the table");
    let key = ObjectKey::new(kind, Some(&pod.key.namespace), binding.claim());
    let claim = send(api, Call::get(&key)).await?;
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
            send(api, Call::new(Verb::Patch, &key, Content::MergePatch, body)).await?;
        }
        ClaimBinding::Volume { volume, .. } => {
            let kind = kinds::find("", "PersistentVolume").expect("the kind is in the table");
            let volume_key = ObjectKey::new(kind, None, volume);
            let found = send(api, Call::get(&volume_key)).await?;
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
            send(api, Call::new(Verb::Patch, &volume_key, Content::MergePatch, body)).await?;
        }
    }
    Ok(false)
}

/// Sends a pod away for a claimant: it is told why, then deleted. A pod that is gone has gone.
async fn preempt(api: &impl Api, pod: &PodRef, claimant: &PodKey, wall_us: i64) -> Result<(), Stop> {
    let condition = json!({
        "type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler",
        "message": preemption_message(claimant), "lastTransitionTime": whole_seconds(wall_us),
    });
    let status = json!({"status": {"conditions": [condition]}});
    match patch_pod(api, pod, Some("status"), json!({}), status).await {
        Err(stop) if may_be_gone(&stop) => return gone_or_again(api, pod, stop).await,
        other => other?,
    }
    let body = json!({"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": *pod.uid}});
    match send(api, Call::new(Verb::Delete, &pod_key(&pod.key), Content::Json, body)).await {
        Err(stop) if may_be_gone(&stop) => gone_or_again(api, pod, stop).await,
        other => other.map(drop),
    }
}

fn may_be_gone(stop: &Stop) -> bool {
    matches!(stop, Stop::Error(CallError::NotFound(_) | CallError::Conflict(_)))
}

/// A conflict says that another has the victim's name, or that the server gave up on a pod that many write to: then
/// nobody has deleted it, and it is tried again.
async fn gone_or_again(api: &impl Api, pod: &PodRef, stop: Stop) -> Result<(), Stop> {
    let Stop::Error(CallError::Conflict(message)) = stop else { return Ok(()) };
    match send(api, Call::get(&pod_key(&pod.key))).await {
        Ok(found) if found["metadata"]["uid"] == *pod.uid && found["metadata"]["deletionTimestamp"].is_null() => {
            Err(Stop::Error(CallError::Broken(message)))
        }
        Ok(_) | Err(Stop::Error(CallError::NotFound(_))) => Ok(()),
        Err(stop) => Err(stop),
    }
}

/// Asks the eviction API to send a pod away, which it does not where a disruption budget forbids it.
async fn evict(api: &impl Api, pod: &PodRef) -> Result<(), Stop> {
    let body = json!({
        "apiVersion": "policy/v1", "kind": "Eviction",
        "metadata": {"name": *pod.key.name, "namespace": *pod.key.namespace},
        "deleteOptions": {"preconditions": {"uid": *pod.uid}},
    });
    match send(api, Call::new(Verb::Create, &pod_key(&pod.key), Content::Json, body).of_part("eviction")).await {
        Ok(_) => Ok(()),
        Err(stop) if may_be_gone(&stop) => gone_or_again(api, pod, stop).await,
        // This is how a budget says no; the server is not busy.
        Err(Stop::Error(CallError::Throttled { message, .. })) if message.contains("disruption budget") => {
            Err(Stop::Refused(message))
        }
        Err(stop) => Err(stop),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;
    use std::task::{Context, Poll, Waker};

    /// A server that gives the answers it was given, and keeps what it was asked.
    struct Script(Mutex<(Vec<Answer>, Vec<String>)>);

    type Answer = Result<Value, CallError>;

    impl Api for Script {
        fn call(&self, call: Call) -> impl Future<Output = Result<Value, CallError>> + Send {
            let mut script = self.0.lock().expect("nobody panicked");
            script.1.push([call.verb.name(), call.part.unwrap_or_default()].join(" ").trim().to_string());
            let answer = script.0.remove(0);
            std::future::ready(answer)
        }

        fn secret_bytes(&self) -> Result<[u8; 32], CallError> {
            Ok([7; 32])
        }
    }

    fn carried(write: &Write, answers: Vec<Answer>) -> (Outcome, String) {
        let script = Script(Mutex::new((answers, Vec::new())));
        let mut carried = std::pin::pin!(carry_out(&script, write, 0));
        let Poll::Ready((outcome, _)) = carried.as_mut().poll(&mut Context::from_waker(Waker::noop())) else {
            panic!("every answer is there")
        };
        let asked = script.0.lock().expect("nobody panicked").1.join(", ");
        (outcome, asked)
    }

    fn conflict() -> Answer {
        Err(CallError::Conflict("the object has been modified".to_string()))
    }

    #[test]
    fn a_conflict_on_a_victim_that_is_still_there_is_no_eviction() {
        let pod = PodRef { key: PodKey { namespace: "a".into(), name: "v".into() }, uid: "1".into() };
        let claimant = Some(PodKey { namespace: "a".into(), name: "c".into() });
        let evict = Write::Evict { pod: pod.clone(), claimant, message: String::new() };
        let found = |uid: &str, leaves: Value| Ok(json!({"metadata": {"uid": uid, "deletionTimestamp": leaves}}));
        let gone = || Err(CallError::NotFound(String::new()));
        let (outcome, asked) = carried(&evict, vec![conflict(), found("1", Value::Null)]);
        assert!(matches!(outcome, Outcome::Failed(_)), "{outcome:?}");
        assert_eq!(asked, "patch status, get");
        for answer in [found("2", Value::Null), found("1", json!("2026-01-01T00:00:00Z")), gone()] {
            assert_eq!(carried(&evict, vec![conflict(), answer]).0, Outcome::Done);
        }
        let (outcome, asked) = carried(&evict, vec![Ok(Value::Null), conflict(), found("1", Value::Null)]);
        assert!(matches!(outcome, Outcome::Failed(_)), "{outcome:?}");
        assert_eq!(asked, "patch status, delete, get");
        assert_eq!(carried(&evict, vec![gone()]).0, Outcome::Done);
        let voluntary = Write::Evict { pod, claimant: None, message: String::new() };
        assert!(matches!(carried(&voluntary, vec![conflict(), found("1", Value::Null)]).0, Outcome::Failed(_)));
    }

    #[test]
    fn an_event_is_made_once_and_renewed_after() {
        let note = |count: u32| {
            Write::Event(EventNote {
                about: ObjectKey::pod("a", "p"),
                uid: "1".into(),
                is_warning: true,
                reason: "FailedScheduling",
                message: "m".to_string(),
                count,
                first_us: 0,
                last_us: 0,
            })
        };
        let done = || Ok(Value::Null);
        assert_eq!(carried(&note(1), vec![done()]), (Outcome::Done, "create".to_string()));
        assert_eq!(carried(&note(1), vec![conflict(), done()]), (Outcome::Done, "create, patch".to_string()));
        assert_eq!(carried(&note(2), vec![done()]), (Outcome::Done, "patch".to_string()));
        let forgotten = vec![Err(CallError::NotFound(String::new())), done()];
        assert_eq!(carried(&note(2), forgotten), (Outcome::Done, "patch, create".to_string()));
    }

    #[test]
    fn data_is_renewed_only_of_what_the_same_owner_made() {
        let map = |owner: &str, data: Value| json!({"metadata": {"uid": "m", "ownerReferences": [{"uid": owner}]}, "data": data});
        let key = ObjectKey::new(kinds::find("", "ConfigMap").expect("it is known"), Some("a"), "j-svc");
        let write = Write::Renew { key, object: map("1", json!({"a": "1"})) };
        let done = || Ok(Value::Null);
        assert_eq!(carried(&write, vec![done()]), (Outcome::Done, "create".to_string()));
        let known = || Ok(map("1", json!({"a": "0", "b": "0"})));
        assert_eq!(
            carried(&write, vec![conflict(), known(), done()]),
            (Outcome::Done, "create, get, patch".to_string())
        );
        let others = vec![conflict(), Ok(map("2", json!({"a": "0"})))];
        assert!(matches!(carried(&write, others).0, Outcome::Refused(_)));
    }
}
