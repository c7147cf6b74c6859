//! Claims on devices: made from templates for pods, and given back when no pod uses them any more.

use quotient_api::device::write::POD_CLAIM_ANNOTATION;
use quotient_api::device::{CLAIM, GROUP, TEMPLATE};
use quotient_api::{ObjectKey, kinds};
use serde_json::{Value, json};

use super::Controllers;
use crate::field;
use crate::naming;
use crate::server::{Server, is_leaving, is_over};

fn key_of(kind: &'static str, namespace: Option<&str>, name: &str) -> ObjectKey {
    let kind = kinds::find(GROUP, kind).expect("claims and templates are known kinds");
    ObjectKey::new(kind, namespace, name)
}

/// Makes the claims of a pod that it names a template for.
pub(super) fn reconcile_pod(controllers: &mut Controllers, server: &mut Server, key: &ObjectKey, pod: &Value) {
    let claims = field::list(pod, "/spec/resourceClaims");
    if claims.is_empty() || is_over(pod) || is_leaving(pod) {
        return;
    }
    let statuses = field::list(pod, "/status/resourceClaimStatuses").to_vec();
    let mut made = statuses.clone();
    for claim in claims {
        let Some(name) = field::text(claim, "/name") else { continue };
        let Some(template) = field::text(claim, "/resourceClaimTemplateName") else { continue };
        if statuses.iter().any(|status| status["name"] == name) {
            continue;
        }
        let namespace = key.namespace.as_deref();
        let Some(template) = server.store().get(&key_of(TEMPLATE, namespace, template)).cloned() else { continue };
        let own = naming::generated(&format!("{}-{name}", key.name), &key.qualified(), made.len() as u64);
        let mut object = json!({
            "apiVersion": "resource.k8s.io/v1", "kind": CLAIM,
            "metadata": template["spec"].get("metadata").cloned().unwrap_or_else(|| json!({})),
            "spec": template["spec"]["spec"],
        });
        field::put(&mut object, &["metadata", "name"], json!(own));
        field::put(&mut object, &["metadata", "annotations", POD_CLAIM_ANNOTATION], json!(name));
        if controllers.make(server, key, object).is_some() {
            made.push(json!({"name": name, "resourceClaimName": own}));
        }
    }
    if made.len() > statuses.len() {
        server.amend(key, |pod| field::put(pod, &["status", "resourceClaimStatuses"], Value::Array(made)));
    }
}

/// Takes pods that ended or are gone out of a claim's reservations; with the last of them the claim gives its devices
/// back, and goes if it was made for a pod that needs it no more.
pub(super) fn reconcile(server: &mut Server, key: &ObjectKey, claim: &Value) {
    let store = server.store();
    let pod = |name: &str, uid: &Value| {
        let pod = store.get(&ObjectKey::pod(key.namespace.as_deref().unwrap_or_default(), name))?;
        (pod["metadata"]["uid"] == *uid && !is_over(pod)).then_some(())
    };
    let uses = |user: &&Value| {
        user["resource"] != "pods" || field::text(user, "/name").is_some_and(|name| pod(name, &user["uid"]).is_some())
    };
    let reserved = field::list(claim, "/status/reservedFor");
    let left: Vec<Value> = reserved.iter().filter(uses).cloned().collect();
    let owner = field::list(claim, "/metadata/ownerReferences").iter().find(|owner| owner["kind"] == "Pod");
    let is_orphan =
        owner.is_some_and(|owner| field::text(owner, "/name").is_none_or(|name| pod(name, &owner["uid"]).is_none()));
    let is_freed = left.is_empty() && !reserved.is_empty();
    if is_orphan && left.is_empty() {
        server.remove(key);
    } else if is_freed {
        server.amend(key, |claim| {
            for part in ["allocation", "reservedFor", "devices"] {
                field::remove(claim, &["status", part]);
            }
            field::remove(claim, &["metadata", "finalizers"]);
        });
    } else if left.len() < reserved.len() {
        server.amend(key, |claim| field::put(claim, &["status", "reservedFor"], Value::Array(left)));
    }
}
