//! What the API server is told of the webhooks: which objects it asks about, and whom it trusts.
//!
//! A webhook that is down stops what it must guard and nothing else. Quotas, queues and jobs are always asked about.
//! Pods are, where they are in a quota of a tree: those with the label that names one, wherever they are, and those of
//! namespaces that a quota of a tree governs, which our controller marks with a label. All other pods come in without
//! us, and those of `kube-system` and of our own namespace always do.

use k8s_openapi::ByteString;
use quotient_api::elastic::COMPOSITE;
use quotient_api::elastic::consent::AGREED;
use quotient_api::tree::keys;
use quotient_api::{Guarded, guarded_kinds, ties};
use serde_json::{Value, json};

use super::review::Endpoint;
use crate::system::System;
use quotient_host::controllers::MARK;

/// The name of both configurations.
pub const NAME: &str = "quotient";

/// The kinds of the configurations, and their plurals.
pub const KINDS: [(&str, &str, Endpoint); 2] = [
    ("MutatingWebhookConfiguration", "mutatingwebhookconfigurations", Endpoint::Mutate),
    ("ValidatingWebhookConfiguration", "validatingwebhookconfigurations", Endpoint::Validate),
];

/// How long the API server waits for an answer, which takes milliseconds.
const TIMEOUT_S: u32 = 10;

/// Where the API server finds the webhooks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    Service {
        namespace: String,
        name: String,
    },
    /// `https://host:port`, for a process outside of the cluster.
    Url(String),
}

impl Target {
    /// The names by which the API server expects to be answered.
    pub fn names(&self) -> Vec<String> {
        match self {
            Target::Service { namespace, name } => {
                vec![format!("{name}.{namespace}.svc"), format!("{name}.{namespace}.svc.cluster.local")]
            }
            Target::Url(url) => {
                let uri = url.parse::<http::Uri>().ok();
                uri.iter().filter_map(http::Uri::host).map(|host| host.trim_matches(['[', ']']).to_string()).collect()
            }
        }
    }

    fn client_config(&self, endpoint: Endpoint) -> Value {
        match self {
            Target::Service { namespace, name } => {
                json!({"service": {"namespace": namespace, "name": name, "port": 443, "path": endpoint.path()}})
            }
            Target::Url(url) => json!({"url": format!("{}{}", url.trim_end_matches('/'), endpoint.path())}),
        }
    }
}

/// Both configurations, without whom to trust: that is written by those who have the certificates. `namespace` is
/// our own.
pub fn configurations(target: &Target, namespace: &str, systems: &[System]) -> Vec<Value> {
    let configuration = |(kind, _, endpoint): (&str, &str, Endpoint)| {
        let webhooks: Vec<Value> = guarded_kinds()
            .filter(|guarded| System::of(guarded.kind).is_none_or(|system| systems.contains(&system)))
            .flat_map(|guarded| match guarded.kind.group {
                "" if systems.contains(&System::Tree) => pod_webhooks(guarded, endpoint, namespace),
                "" => Vec::new(),
                _ => webhook(guarded, endpoint).into_iter().collect(),
            })
            .map(|mut webhook| {
                webhook["clientConfig"] = target.client_config(endpoint);
                webhook
            })
            .collect();
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": NAME},
            "webhooks": webhooks,
        })
    };
    let all = KINDS.into_iter().map(configuration);
    all.filter(|configuration| configuration["webhooks"].as_array().is_some_and(|list| !list.is_empty())).collect()
}

/// What the API server asks about objects of a kind of ours, if there is something to ask.
fn webhook(guarded: Guarded, endpoint: Endpoint) -> Option<Value> {
    let Guarded { kind, fills_in, guards_delete } = guarded;
    let operations = match endpoint {
        Endpoint::Mutate if !fills_in => return None,
        Endpoint::Validate if guards_delete => json!(["CREATE", "UPDATE", "DELETE"]),
        _ => json!(["CREATE", "UPDATE"]),
    };
    let mut parts = vec!["object.?spec".to_string(), "object.metadata.?labels".to_string()];
    if System::of(kind) == Some(System::Tree) {
        let read = [keys::SHARED_WEIGHT, keys::TOTAL_RESOURCE, keys::NAMESPACES, keys::RESOURCE_KEYS];
        parts.extend(read.map(|key| format!("object.metadata.?annotations[?'{key}']")));
    }
    if kind.kind == COMPOSITE {
        parts.push(format!("object.metadata.?annotations[?'{AGREED}']"));
    }
    let name = format!("{}.{}.quotient.dev", kind.plural, kind.group);
    let rule = json!({"apiGroups": [kind.group], "apiVersions": kind.versions, "resources": [kind.plural],
        "operations": operations, "scope": if kind.namespaced { "Namespaced" } else { "Cluster" }});
    Some(asked(&name, rule, &parts))
}

/// What the API server asks about pods: those that name a quota, and those of namespaces that have one.
fn pod_webhooks(guarded: Guarded, endpoint: Endpoint, namespace: &str) -> Vec<Value> {
    if endpoint == Endpoint::Mutate && !guarded.fills_in {
        return Vec::new();
    }
    let rule = json!({"apiGroups": [""], "apiVersions": guarded.kind.versions, "resources": [guarded.kind.plural],
        "operations": ["CREATE", "UPDATE"], "scope": "Namespaced"});
    let label = format!("object.metadata.?labels[?'{}']", keys::QUOTA_NAME);
    let record = format!("object.metadata.?annotations[?'{}']", ties::BOUND_AS);
    let parts = [label, record.clone(), "object.spec.?affinity".to_string()];
    let elsewhere =
        json!({"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system", namespace]});
    let named = |operator: &str| json!({"matchExpressions": [{"key": keys::QUOTA_NAME, "operator": operator}]});
    // Schedulers write records, and take none away: a manifest without one that is applied again is asked about.
    let writes = format!(
        "request.operation != 'UPDATE' || !{record}.hasValue() || {record} == {} || \
         !authorizer.group('').resource('pods').subresource('binding').check('create').allowed()",
        record.replacen("object", "oldObject", 1)
    );
    let asked = |name: &str, rule: Value| {
        let mut webhook = asked(name, rule, &parts);
        let condition = json!({"name": "not-a-record-of-a-scheduler", "expression": writes});
        webhook["matchConditions"].as_array_mut().into_iter().for_each(|all| all.push(condition.clone()));
        webhook
    };
    let mut by_label = asked("pods.quotient.dev", rule.clone());
    by_label["objectSelector"] = named("Exists");
    by_label["namespaceSelector"] = json!({"matchExpressions": [elsewhere]});
    let mut by_namespace = asked("namespaced-pods.quotient.dev", rule);
    by_namespace["objectSelector"] = named("DoesNotExist");
    by_namespace["namespaceSelector"] = json!({"matchExpressions": [elsewhere, {"key": MARK, "operator": "Exists"}]});
    vec![by_label, by_namespace]
}

/// A webhook that is asked about updates only where they change one of the parts, which are all that our rules read.
fn asked(name: &str, rule: Value, parts: &[String]) -> Value {
    let differs = |part: &String| format!("{part} != {}", part.replacen("object", "oldObject", 1));
    let differences: Vec<String> = parts.iter().map(differs).collect();
    let condition = format!("request.operation != 'UPDATE' || {}", differences.join(" || "));
    json!({
        "name": name,
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": "Fail",
        "matchPolicy": "Equivalent",
        "timeoutSeconds": TIMEOUT_S,
        "rules": [rule],
        "matchConditions": [{"name": "what-is-guarded-changes", "expression": condition}],
    })
}

/// Whether every webhook of the configuration trusts all of these certificates.
pub fn trusts(configuration: &Value, certificates: &[&str]) -> bool {
    webhooks(configuration).all(|webhook| {
        let bundle = webhook.pointer("/clientConfig/caBundle").cloned().unwrap_or_default();
        let bundle = serde_json::from_value(bundle).map(|ByteString(bytes)| bytes).unwrap_or_default();
        let bundle = String::from_utf8_lossy(&bundle);
        certificates.iter().all(|certificate| bundle.contains(certificate.trim()))
    })
}

/// What makes every webhook of the configuration trust these certificates and no others, as a strategic patch of the
/// version that was read.
pub fn trust(configuration: &Value, certificates: &[&str]) -> Value {
    let lines: Vec<&str> = certificates.iter().map(|certificate| certificate.trim()).collect();
    let bundle = ByteString(format!("{}\n", lines.join("\n")).into_bytes());
    let patched: Vec<Value> = webhooks(configuration)
        .map(|webhook| json!({"name": webhook["name"], "clientConfig": {"caBundle": bundle}}))
        .collect();
    json!({
        "metadata": {"resourceVersion": configuration.pointer("/metadata/resourceVersion")},
        "webhooks": patched,
    })
}

fn webhooks(configuration: &Value) -> impl Iterator<Item = &Value> {
    configuration.get("webhooks").and_then(Value::as_array).into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::SYSTEMS;

    fn names(configuration: &Value) -> Vec<&str> {
        webhooks(configuration).filter_map(|webhook| webhook["name"].as_str()).collect()
    }

    #[test]
    fn systems_that_are_left_out_are_not_asked_about() {
        let target = Target::Service { namespace: "n".into(), name: "s".into() };
        let all = configurations(&target, "n", &SYSTEMS);
        assert_eq!(all.len(), 2);
        assert_eq!(
            names(&all[0]),
            [
                "pods.quotient.dev",
                "namespaced-pods.quotient.dev",
                "compositeelasticquotas.nos.nebuly.com.quotient.dev",
                "compositeelasticquotas.n8s.nebuly.ai.quotient.dev",
                "elasticquotas.scheduling.sigs.k8s.io.quotient.dev",
                "podgroups.scheduling.volcano.sh.quotient.dev",
                "jobs.batch.volcano.sh.quotient.dev"
            ]
        );
        let elastic = configurations(&target, "n", &[System::Elastic]);
        let [mutating, validating] = &elastic[..] else { panic!("{elastic:?}") };
        // Who agrees to a composite quota is written down.
        assert!(names(mutating).iter().all(|name| name.starts_with("compositeelasticquotas.")), "{mutating}");
        let of_others = ["pods.quotient.dev", "scheduling.sigs.k8s.io", "koordinator.sh", "volcano.sh"];
        let is_left_out = |name: &&str| !of_others.iter().any(|other| name.contains(other));
        assert!(names(validating).len() >= 5 && names(validating).iter().all(is_left_out), "{validating}");
    }

    #[test]
    fn a_bundle_is_written_where_one_is_missing() {
        let target = Target::Url("https://127.0.0.1:9443/".into());
        let mut configuration = configurations(&target, "n", &[System::Tree]).remove(0);
        assert_eq!(configuration["webhooks"][0]["clientConfig"]["url"], "https://127.0.0.1:9443/mutate");
        configuration["metadata"]["resourceVersion"] = json!("7");
        assert!(!trusts(&configuration, &["one\n"]) && trusts(&configuration, &[]));
        let patch = trust(&configuration, &["one\n", "two\n"]);
        assert_eq!(patch["metadata"]["resourceVersion"], "7");
        for (index, webhook) in patch["webhooks"].as_array().expect("a list").iter().enumerate() {
            configuration["webhooks"][index]["clientConfig"]["caBundle"] = webhook["clientConfig"]["caBundle"].clone();
        }
        assert!(trusts(&configuration, &["two", "one"]) && !trusts(&configuration, &["three"]));
    }

    #[test]
    fn certificates_are_for_the_names_that_are_asked_for() {
        let target = Target::Service { namespace: "n".into(), name: "s".into() };
        assert_eq!(target.names(), ["s.n.svc", "s.n.svc.cluster.local"]);
        for (url, host) in [("https://127.0.0.1:9443", "127.0.0.1"), ("https://[::1]:1", "::1"), ("https://h/x", "h")] {
            assert_eq!(Target::Url(url.into()).names(), [host]);
        }
    }
}
