//! What is written about claims: allocations, reservations, and claims for extended resources.
//!
//! These functions only compute JSON; a simulator and a live cluster both write it.

use quotient_engine::device::{Allocation, ClaimSpec, Count, ExtendedRequest};
use quotient_engine::fact::{NodeTerm, Operator, Requirement};
use quotient_engine::quantity::{Format, Quantity};
use serde_json::{Map, Value, json};

use super::Book;

/// The finalizer of claims with an allocation.
pub const FINALIZER: &str = "resource.kubernetes.io/delete-protection";
/// On claims that the scheduler makes for extended resources.
pub const EXTENDED_ANNOTATION: &str = "resource.kubernetes.io/extended-resource-claim";
/// On claims made from a template: which of its pod's claims it is.
pub const POD_CLAIM_ANNOTATION: &str = "resource.kubernetes.io/pod-claim-name";

/// The id of a share: the same for the same claim and place in its results.
pub fn share_id(claim_uid: &str, index: usize) -> String {
    let mut hash: u128 = 0x6c62272e07bb014262b821756295c58d;
    for byte in claim_uid.bytes().chain([b'/']).chain(index.to_string().bytes()) {
        hash ^= u128::from(byte);
        hash = hash.wrapping_mul(0x0000000001000000000000000000013B);
    }
    let hash = (hash & !(0xf << 76) & !(0x3 << 62)) | (0x8 << 76) | (0x2 << 62);
    let text = format!("{hash:032x}");
    format!("{}-{}-{}-{}-{}", &text[..8], &text[8..12], &text[12..16], &text[16..20], &text[20..])
}

fn requirement(requirement: &Requirement) -> Value {
    let Requirement { key, operator, values } = requirement;
    let operator = match operator {
        Operator::In => "In",
        Operator::NotIn => "NotIn",
        Operator::Exists => "Exists",
        Operator::DoesNotExist => "DoesNotExist",
        Operator::Gt => "Gt",
        Operator::Lt => "Lt",
    };
    let values: Vec<&str> = values.iter().map(|value| &**value).collect();
    if values.is_empty() {
        return json!({"key": &**key, "operator": operator});
    }
    json!({"key": &**key, "operator": operator, "values": values})
}

fn node_selector(terms: &[NodeTerm]) -> Value {
    let term = |term: &NodeTerm| {
        let mut written = Map::new();
        for (field, list) in [("matchExpressions", &term.labels), ("matchFields", &term.fields)] {
            if !list.is_empty() {
                written.insert(field.to_string(), list.iter().map(requirement).collect());
            }
        }
        Value::Object(written)
    };
    json!({"nodeSelectorTerms": terms.iter().map(term).collect::<Vec<_>>()})
}

/// The request, or the alternative, of a claim's spec that has this name.
fn request_of<'c>(spec: &'c Value, name: &str) -> Option<&'c Value> {
    let (request, alternative) = name.split_once('/').unwrap_or((name, ""));
    let named = |list: &'c Value, name: &str| {
        list.as_array()?.iter().find(|entry| entry.get("name").is_some_and(|own| own == name))
    };
    let request = named(spec.pointer("/devices/requests")?, request)?;
    match alternative {
        "" => request.get("exactly"),
        alternative => named(request.get("firstAvailable")?, alternative),
    }
}

/// `status.allocation` of a claim, which is as much of it as its uid and spec; `now` is when it is allocated.
pub(crate) fn allocation(book: &Book, claim: &Value, allocation: &Allocation, now: Option<&str>) -> Value {
    let uid = claim.pointer("/metadata/uid").and_then(Value::as_str).unwrap_or_default();
    let spec = claim.get("spec").cloned().unwrap_or_default();
    let mut results = Vec::new();
    for (i, result) in allocation.results.iter().enumerate() {
        let key = &result.device;
        let mut written = json!({
            "request": &*result.request,
            "driver": &*key.pool.driver,
            "pool": &*key.pool.pool,
            "device": &*key.device,
        });
        if result.admin {
            written["adminAccess"] = Value::Bool(true);
        }
        let asked = request_of(&spec, &result.request);
        if let Some(tolerations) = asked.and_then(|asked| asked.get("tolerations")).filter(|list| **list != json!([])) {
            written["tolerations"] = tolerations.clone();
        }
        if result.share {
            written["shareID"] = Value::from(share_id(uid, i));
            let device = book.device(&key.pool, &key.device);
            let amount = |(name, nanos): &(quotient_engine::fact::Name, i128)| {
                let own = device.and_then(|device| device.capacity.iter().find(|own| own.written == *name));
                let format = own.map_or(Format::DecimalSI, |own| own.format);
                (name.to_string(), Value::from(Quantity::from_nanos(*nanos, format).to_string()))
            };
            if !result.consumed.is_empty() {
                written["consumedCapacity"] = Value::Object(result.consumed.iter().map(amount).collect());
            }
        }
        if let Some(device) = book.device(&key.pool, &key.device).filter(|device| !device.conditions.is_empty()) {
            let names = |names: &[quotient_engine::fact::Name]| Value::from_iter(names.iter().map(|name| &**name));
            written["bindingConditions"] = names(&device.conditions);
            written["bindingFailureConditions"] = names(&device.failure_conditions);
        }
        results.push(written);
    }
    let mut devices = json!({"results": results});
    let config = config(&spec, allocation, book);
    if !config.is_empty() {
        devices["config"] = Value::Array(config);
    }
    let mut written = json!({"devices": devices});
    if let Some(terms) = &allocation.nodes {
        written["nodeSelector"] = node_selector(terms);
    }
    if let Some(now) = now {
        written["allocationTimestamp"] = Value::from(now);
    }
    written
}

/// The parameters for drivers: those of the classes that were used, then the claim's own.
fn config(spec: &Value, allocation: &Allocation, book: &Book) -> Vec<Value> {
    let mut config = Vec::new();
    let mut used: Vec<&str> = allocation.results.iter().map(|result| &*result.request).collect();
    used.dedup();
    let class_of = |request: &str| {
        request_of(spec, request)?.get("deviceClassName").and_then(Value::as_str).map(ToString::to_string)
    };
    for (i, request) in used.iter().enumerate() {
        let Some(name) = class_of(request) else { continue };
        if used[..i].iter().any(|before| class_of(before).as_deref() == Some(&name)) {
            continue;
        }
        let of_class: Vec<&str> =
            used.iter().copied().filter(|request| class_of(request).as_deref() == Some(&name)).collect();
        let class = book.classes.get(name.as_str()).map(|class| &class.config);
        for entry in class.and_then(Value::as_array).into_iter().flatten() {
            let mut written = json!({"source": "FromClass"});
            if of_class.len() != used.len() {
                written["requests"] = of_class.iter().map(|request| Value::from(*request)).collect();
            }
            merge(&mut written, entry);
            config.push(written);
        }
    }
    for entry in spec.pointer("/devices/config").and_then(Value::as_array).into_iter().flatten() {
        let requests: Vec<&str> =
            entry.get("requests").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
        let is_meant = |name: &&str| {
            used.iter().any(|used| used == name || used.split_once('/').is_some_and(|(request, _)| request == *name))
        };
        if requests.is_empty() || requests.iter().any(is_meant) {
            let mut written = json!({"source": "FromClaim"});
            merge(&mut written, entry);
            config.push(written);
        }
    }
    config
}

fn merge(into: &mut Value, from: &Value) {
    for (key, value) in from.as_object().into_iter().flatten() {
        into[key.as_str()] = value.clone();
    }
}

/// An entry of `status.reservedFor`.
pub fn consumer(pod: &str, uid: &str) -> Value {
    json!({"resource": "pods", "name": pod, "uid": uid})
}

/// The name of the claim for the extended resources of a pod: the same for the same pod, so that it is made once.
pub fn extended_name(pod: &str, uid: &str) -> String {
    let stem: String = pod.chars().take(60).collect();
    format!("{stem}-extended-resources-{}", &share_id(uid, 0)[..5])
}

/// The claim for the extended resources of a pod that devices serve.
pub fn extended_claim(namespace: &str, name: &str, uid: &str, spec: &ClaimSpec) -> Value {
    let request = |request: &quotient_engine::device::DeviceRequest| {
        let alternative = &request.alternatives[0];
        let count = match alternative.count {
            Count::Exactly(count) => count,
            Count::All => 1,
        };
        json!({"name": &*request.name, "exactly":
            {"deviceClassName": &*alternative.class, "allocationMode": "ExactCount", "count": count}})
    };
    json!({
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {
            "name": extended_name(name, uid),
            "namespace": namespace,
            "annotations": {EXTENDED_ANNOTATION: "true"},
            "finalizers": [FINALIZER],
            "ownerReferences": [{
                "apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid, "controller": true,
            }],
        },
        "spec": {"devices": {"requests": spec.requests.iter().map(request).collect::<Vec<_>>()}},
    })
}

/// `status.extendedResourceClaimStatus` of a pod.
pub fn extended_status(pod: &Value, claim: &str, served: &[ExtendedRequest]) -> Value {
    let list = |name: &str| pod.pointer(name).and_then(Value::as_array).cloned().unwrap_or_default();
    let containers: Vec<Value> = list("/spec/initContainers").into_iter().chain(list("/spec/containers")).collect();
    let mapping = |request: &ExtendedRequest| {
        let container = containers.get(request.container as usize).and_then(|container| container.get("name"));
        json!({
            "containerName": container.cloned().unwrap_or_default(),
            "resourceName": &*request.resource,
            "requestName": request_name(request),
        })
    };
    json!({"resourceClaimName": claim, "requestMappings": served.iter().map(mapping).collect::<Vec<_>>()})
}

/// How the request of a container is called in the claim that is made for it.
pub fn request_name(request: &ExtendedRequest) -> String {
    format!("container-{}-request-{}", request.container, request.request)
}
