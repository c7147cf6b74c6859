//! Devices of a pod that is about to be bound: its claims are allocated and reserved first, as kube-scheduler does it.
//!
//! A claim is protected by a finalizer before it has devices. Every write says which version of the claim it is about:
//! where somebody else wrote meanwhile, the claim is read again.

use quotient_api::device::write::{FINALIZER, consumer, extended_status};
use quotient_api::device::{CLAIM, GROUP};
use quotient_api::time::parse_timestamp;
use quotient_api::{ObjectKey, kinds};
use quotient_engine::fact::Name;
use serde_json::{Value, json};

use super::{Stop, make, patch_pod, pod_key, send};
use crate::call::{Api, Call, CallError, Content, Verb};
use crate::write::{ClaimWrite, DeviceWrites, ExtendedWrite, PodRef};

/// How often a claim is read again because somebody else wrote it.
const ATTEMPTS_MAX: usize = 5;

/// The most pods that a claim can be reserved for.
const RESERVED_MAX: usize = 256;

fn claim_key(pod: &PodRef, name: &str) -> ObjectKey {
    let kind = kinds::find(GROUP, CLAIM).expect("the kind is in the table");
    ObjectKey::new(kind, Some(&pod.key.namespace), name)
}

/// For how long devices may take to be ready for the pod.
const READY_AFTER_US: i64 = 600 * 1_000_000;

/// Allocates and reserves the claims of a pod, and waits for devices that have to be made ready.
pub(super) async fn grant(api: &impl Api, pod: &PodRef, devices: &DeviceWrites, wall_us: i64) -> Result<(), Stop> {
    let mut waits = false;
    for ClaimWrite { claim, uid, allocation } in &devices.claims {
        let key = claim_key(pod, claim);
        let granted = reserve(api, pod, &key, Some(uid), allocation.as_ref()).await?;
        waits |= !is_ready(&key, &granted, wall_us)?;
    }
    if let Some(ExtendedWrite { name, claim, allocation, served }) = devices.extended.as_deref() {
        let key = claim_key(pod, name);
        make(api, &key, claim).await?;
        let granted = reserve(api, pod, &key, None, Some(allocation)).await?;
        waits |= !is_ready(&key, &granted, wall_us)?;
        let found = send(api, Call::get(&pod_key(&pod.key))).await?;
        let status = json!({"extendedResourceClaimStatus": extended_status(&found, name, served)});
        patch_pod(api, pod, Some("status"), json!({}), json!({"status": status})).await?;
    }
    if waits { Err(Stop::Wait) } else { Ok(()) }
}

/// Whether all devices of a claim are ready for its pod: their drivers say so by conditions in the claim's status. One
/// that failed, or takes too long, is given back.
fn is_ready(key: &ObjectKey, claim: &Value, wall_us: i64) -> Result<bool, Stop> {
    let (status, allocation) = (&claim["status"], &claim["status"]["allocation"]);
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let mut pending = None;
    for result in list(&allocation["devices"]["results"]) {
        let is_it = |device: &&Value| ["driver", "pool", "device"].iter().all(|part| device[*part] == result[*part]);
        let devices = list(&status["devices"]);
        let conditions = devices.iter().find(is_it).map(|device| list(&device["conditions"])).unwrap_or_default();
        let holds = |name: &Value| conditions.iter().any(|known| known["type"] == *name && known["status"] == "True");
        let device = result["device"].as_str().unwrap_or_default();
        if let Some(failed) = list(&result["bindingFailureConditions"]).iter().find(|name| holds(name)) {
            let failed = failed.as_str().unwrap_or_default();
            return Err(Stop::Refused(format!("{key}: device {device} has the condition {failed}")));
        }
        let missing = list(&result["bindingConditions"]).into_iter().find(|name| !holds(name));
        pending = pending.or(missing.map(|name| (device.to_string(), name)));
    }
    let Some((device, condition)) = pending else { return Ok(true) };
    let since = allocation["allocationTimestamp"].as_str().and_then(|text| parse_timestamp(text).ok());
    if since.is_some_and(|since| wall_us.saturating_sub(since) > READY_AFTER_US) {
        let condition = condition.as_str().unwrap_or_default();
        return Err(Stop::Refused(format!("{key}: device {device} lacks the condition {condition} after 10 minutes")));
    }
    Ok(false)
}

/// Reserves one claim for a pod, and allocates it if it is not. Gives the claim as it is then.
async fn reserve(
    api: &impl Api,
    pod: &PodRef,
    key: &ObjectKey,
    uid: Option<&str>,
    allocation: Option<&Value>,
) -> Result<Value, Stop> {
    for _ in 0..ATTEMPTS_MAX {
        let claim = send(api, Call::get(key)).await?;
        match step(pod, key, &claim, uid, allocation)? {
            None => return Ok(claim),
            Some(call) => match send(api, call).await {
                Ok(_) | Err(Stop::Error(CallError::Conflict(_))) => {}
                Err(stop) => return Err(stop),
            },
        }
    }
    Err(Stop::Error(CallError::Unavailable(format!("{key} changes too often"))))
}

/// The next request that brings a claim to where it should be; `None` where it is there.
fn step(
    pod: &PodRef,
    key: &ObjectKey,
    claim: &Value,
    uid: Option<&str>,
    allocation: Option<&Value>,
) -> Result<Option<Call>, Stop> {
    let metadata = &claim["metadata"];
    if uid.is_some_and(|uid| metadata["uid"] != uid) || !metadata["deletionTimestamp"].is_null() {
        return Err(Stop::Refused(format!("{key} is another claim by now, or is being deleted")));
    }
    let version = json!({"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]});
    let is_allocated = !claim["status"]["allocation"].is_null();
    if let Some(allocation) = allocation.filter(|_| is_allocated) {
        let same = |part: &str| claim["status"]["allocation"].pointer(part) == allocation.pointer(part);
        if !same("/devices/results") {
            return Err(Stop::Refused(format!("{key} was allocated by somebody else")));
        }
    }
    if !is_allocated && allocation.is_none() {
        return Err(Stop::Refused(format!("{key} has no devices any more")));
    }
    let finalizers = metadata["finalizers"].as_array().cloned().unwrap_or_default();
    if !finalizers.iter().any(|finalizer| finalizer == FINALIZER) {
        let mut body = json!({"metadata": version});
        body["metadata"]["finalizers"] = finalizers.into_iter().chain([json!(FINALIZER)]).collect();
        return Ok(Some(Call::new(Verb::Patch, key, Content::MergePatch, body)));
    }
    let mut reserved = claim["status"]["reservedFor"].as_array().cloned().unwrap_or_default();
    let is_reserved = reserved.iter().any(|user| user["uid"] == *pod.uid);
    if is_reserved && is_allocated {
        return Ok(None);
    }
    if !is_reserved && reserved.len() >= RESERVED_MAX {
        return Err(Stop::Refused(format!("{key} is reserved for {RESERVED_MAX} pods already")));
    }
    if !is_reserved {
        reserved.push(consumer(&pod.key.name, &pod.uid));
    }
    let mut status = json!({"reservedFor": reserved});
    if let Some(allocation) = allocation.filter(|_| !is_allocated) {
        status["allocation"] = allocation.clone();
        give_parameters(&mut status["allocation"], claim);
    }
    let body = json!({"metadata": version, "status": status});
    Ok(Some(Call::new(Verb::Patch, key, Content::MergePatch, body).of_part("status")))
}

/// Copies what the claim tells its drivers into its allocation: it is not kept, and was read just now. The allocation
/// has the entries of the claim in the claim's order, without some of them.
fn give_parameters(allocation: &mut Value, claim: &Value) {
    fn bare(entry: &Value) -> Value {
        let mut bare = entry.clone();
        if let Some(fields) = bare.as_object_mut() {
            fields.remove("source");
        }
        if let Some(opaque) = bare.get_mut("opaque").and_then(Value::as_object_mut) {
            opaque.remove("parameters");
        }
        bare
    }
    let mut told = claim.pointer("/spec/devices/config").and_then(Value::as_array).into_iter().flatten();
    let written = allocation.pointer_mut("/devices/config").and_then(Value::as_array_mut).into_iter().flatten();
    for entry in written.filter(|entry| entry["source"] == "FromClaim") {
        let wanted = bare(entry);
        let parameters = told.find(|told| bare(told) == wanted).and_then(|told| told.pointer("/opaque/parameters"));
        if let Some(parameters) = parameters {
            entry["opaque"]["parameters"] = parameters.clone();
        }
    }
}

/// Leaves a claim to these pods. Where there are none it may be allocated anew, on another node.
async fn leave_to(api: &impl Api, key: &ObjectKey, claim: &Value, users: Vec<Value>) -> Result<(), Stop> {
    let mut status = json!({"reservedFor": if users.is_empty() { Value::Null } else { json!(users) }});
    if users.is_empty() {
        status["allocation"] = Value::Null;
        status["devices"] = Value::Null;
    }
    let metadata = &claim["metadata"];
    let version = json!({"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]});
    let body = json!({"metadata": version, "status": status});
    send(api, Call::new(Verb::Patch, key, Content::MergePatch, body).of_part("status")).await.map(drop)
}

/// Takes the devices from a claim, if it is reserved for nobody but a pod that is not bound.
pub(super) async fn deallocate(api: &impl Api, key: &ObjectKey, uid: &Name, pod: &PodRef) -> Result<(), Stop> {
    let claim = send(api, Call::get(key)).await?;
    let mut reserved = claim["status"]["reservedFor"].as_array().into_iter().flatten();
    let is_used = reserved.any(|user| user["uid"] != *pod.uid);
    if is_used || claim["metadata"]["uid"] != **uid || claim["status"]["allocation"].is_null() {
        return Ok(());
    }
    leave_to(api, key, &claim, Vec::new()).await
}

/// Takes a pod that could not be bound out of its claims. What fails here is put right when the pod ends.
pub(super) async fn give_back(api: &impl Api, pod: &PodRef, devices: &DeviceWrites) {
    for ClaimWrite { claim, uid, .. } in &devices.claims {
        let key = claim_key(pod, claim);
        let Ok(claim) = send(api, Call::get(&key)).await else { continue };
        let reserved = claim["status"]["reservedFor"].as_array().cloned().unwrap_or_default();
        let left: Vec<Value> = reserved.iter().filter(|user| user["uid"] != *pod.uid).cloned().collect();
        if claim["metadata"]["uid"] != **uid || left.len() == reserved.len() {
            continue;
        }
        drop(leave_to(api, &key, &claim, left).await);
    }
    if let Some(extended) = &devices.extended {
        let key = claim_key(pod, &extended.name);
        let body = json!({"metadata": {"finalizers": Value::Null}});
        drop(send(api, Call::new(Verb::Patch, &key, Content::MergePatch, body)).await);
        drop(send(api, Call::new(Verb::Delete, &key, Content::Json, Value::Null)).await);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_allocation_has_the_parameters_of_its_claim() {
        let entry = |requests: Value, parameters: Value| json!({"requests": requests, "opaque": {"driver": "d", "parameters": parameters}});
        let without =
            |source: &str, requests: Value| json!({"source": source, "requests": requests, "opaque": {"driver": "d"}});
        let claim = json!({"spec": {"devices": {"config": [
            entry(json!(["a"]), json!({"n": 1})), entry(json!(["b"]), json!({"n": 2})),
            entry(json!(["c"]), json!({"n": 3})), entry(json!(["c"]), json!({"n": 4}))]}}});
        let mut of_class = without("FromClass", json!(["a"]));
        of_class["opaque"]["parameters"] = json!("of the class");
        let of_claim = |name: &str| without("FromClaim", json!([name]));
        let mut allocation = json!({"devices": {"config": [of_class, of_claim("a"), of_claim("c"), of_claim("c")]}});
        give_parameters(&mut allocation, &claim);
        let config = allocation["devices"]["config"].as_array().expect("a list");
        let parameters: Vec<&Value> = config.iter().map(|entry| &entry["opaque"]["parameters"]).collect();
        assert_eq!(parameters, [&json!("of the class"), &json!({"n": 1}), &json!({"n": 3}), &json!({"n": 4})]);
    }

    #[test]
    fn a_pod_waits_for_its_devices_to_be_ready() {
        let key = ObjectKey::pod("a", "claim");
        let claim = |conditions: Value| {
            json!({"status": {
                "allocation": {"allocationTimestamp": "1970-01-01T00:00:00Z", "devices": {"results": [
                    {"driver": "d", "pool": "p", "device": "plain"},
                    {"driver": "d", "pool": "p", "device": "gpu-0", "bindingConditions": ["attached", "powered"],
                        "bindingFailureConditions": ["broken"]}]}},
                "devices": [{"driver": "d", "pool": "p", "device": "gpu-0", "conditions": conditions}],
            }})
        };
        let holds = |name: &str| json!({"type": name, "status": "True"});
        let look = |conditions: Value, wall_us: i64| match is_ready(&key, &claim(conditions), wall_us) {
            Ok(is_ready) => is_ready.to_string(),
            Err(Stop::Refused(message)) => message,
            Err(_) => "another error".to_string(),
        };
        assert_eq!(look(json!([]), 0), "false");
        assert_eq!(look(json!([holds("attached"), {"type": "powered", "status": "False"}]), READY_AFTER_US), "false");
        assert_eq!(look(json!([holds("attached"), holds("powered")]), READY_AFTER_US + 1), "true");
        let late = look(json!([holds("attached")]), READY_AFTER_US + 1);
        assert_eq!(late, "Pod/a/claim: device gpu-0 lacks the condition powered after 10 minutes");
        let failed = look(json!([holds("attached"), holds("powered"), holds("broken")]), 0);
        assert_eq!(failed, "Pod/a/claim: device gpu-0 has the condition broken");
    }
}
