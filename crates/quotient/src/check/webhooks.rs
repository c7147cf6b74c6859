//! Whether the API server asks the webhooks, trusts them, and gets an answer.

use anyhow::Result;
use jiff::Timestamp;
use quotient_api::time;
use quotient_cluster::permission::AUTHORITY_SECRET;
use quotient_cluster::system::System;
use quotient_cluster::webhook::configuration::{KINDS, NAME};
use serde_json::{Value, json};

use super::asking::Answer;
use super::{Asking, Section};

/// The annotation of the Secret that says until when the CA is valid.
const VALID_UNTIL: &str = "quotient.dev/ca-valid-until";

pub async fn check(asking: &Asking, namespace: &str, systems: &[System]) -> Result<Section> {
    let mut section = Section::new("webhooks");
    let mut registered = 0;
    for (kind, plural, _) in KINDS {
        let found = asking.get(&format!("/apis/admissionregistration.k8s.io/v1/{plural}/{NAME}")).await?;
        let Answer::Object(found) = found else { continue };
        let webhooks = found["webhooks"].as_array().cloned().unwrap_or_default();
        let untrusted = webhooks.iter().filter(|webhook| webhook["clientConfig"]["caBundle"].is_null()).count();
        registered += webhooks.len();
        if untrusted > 0 {
            section.fail(
                format!("{kind} {NAME}: {untrusted} of {} webhooks have no caBundle", webhooks.len()),
                "the program writes it: see its log, or write it yourself with --webhook-certificate",
            );
        } else {
            section.ok(format!("{kind} {NAME}: {} webhooks", webhooks.len()));
        }
    }
    if registered == 0 {
        section.warn(
            "the API server is not told of the webhooks: mistakes in quotas are reported and not rejected",
            "apply what `quotient install` prints",
        );
        return Ok(section);
    }
    certificate(asking, namespace, &mut section).await?;
    if let Some(system) = systems.first() {
        probe(asking, *system, &mut section).await?;
    }
    Ok(section)
}

async fn certificate(asking: &Asking, namespace: &str, section: &mut Section) -> Result<()> {
    let answer = asking.get(&format!("/api/v1/namespaces/{namespace}/secrets/{AUTHORITY_SECRET}")).await?;
    // Without it the certificates are somebody else's, such as cert-manager's.
    let Answer::Object(secret) = answer else { return Ok(()) };
    let until = secret.pointer("/metadata/annotations").and_then(|annotations| annotations.get(VALID_UNTIL));
    let until = until.and_then(Value::as_str).and_then(|text| time::parse_timestamp(text).ok());
    let days = until.map(|until| (until - Timestamp::now().as_microsecond()).div_euclid(86_400_000_000));
    match days {
        Some(days) if days >= 0 => section.ok(format!("the CA of the webhooks is valid for {days} more days")),
        Some(days) => section.fail(
            format!("the CA of the webhooks expired {} days ago", -days),
            "a running replica replaces it: see its log",
        ),
        None => section.fail(
            format!("Secret {namespace}/{AUTHORITY_SECRET} does not say until when the CA is valid"),
            "delete it: a running replica makes another one",
        ),
    }
    Ok(())
}

/// An object that only a webhook of ours rejects, and where it would go.
fn bad_object(system: System) -> (&'static str, Value) {
    let metadata = json!({"name": "quotient-check", "namespace": "default"});
    let spec = json!({"min": {"not a resource": "1"}, "max": {"not a resource": "1"}});
    match system {
        System::Elastic => (
            "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/default/elasticquotas",
            json!({"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "ElasticQuota", "metadata": metadata,
                "spec": spec}),
        ),
        System::Tree => (
            "/apis/scheduling.sigs.k8s.io/v1alpha1/namespaces/default/elasticquotas",
            json!({"apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "kind": "ElasticQuota", "metadata": metadata,
                "spec": spec}),
        ),
        System::Queues | System::Jobs => (
            "/apis/scheduling.volcano.sh/v1beta1/queues",
            json!({"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue",
                "metadata": {"name": "quotient-check"}, "spec": {"parent": "quotient-check-nowhere"}}),
        ),
    }
}

/// Sends a dry run that only the webhooks reject, so that their answer shows that they are reached.
async fn probe(asking: &Asking, system: System, section: &mut Section) -> Result<()> {
    let (path, object) = bad_object(system);
    let answer = asking.post(&format!("{path}?dryRun=All"), &object).await?;
    match answer {
        Answer::Refused(said) if said.contains("denied the request") => {
            section.ok("the API server reaches the webhooks: a dry run with a mistake was rejected");
        }
        Answer::Refused(said) if said.contains("failed calling webhook") => section.fail(
            said,
            "is a replica ready, does its Service have endpoints, and does a NetworkPolicy let the API server through?",
        ),
        Answer::Refused(said) => {
            section.warn(format!("a dry run was refused before the webhooks: {said}"), "see the message")
        }
        Answer::Object(_) => section.fail(
            "a dry run with a mistake was accepted: the API server does not ask the webhooks about quotas",
            "apply the webhook configurations that `quotient install` prints",
        ),
        Answer::Forbidden | Answer::NotFound => section.warn(
            "this user may not create quotas, so that the webhooks were not tried",
            "run `quotient check` as an administrator",
        ),
    }
    Ok(())
}
