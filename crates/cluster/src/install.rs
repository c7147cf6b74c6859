//! Everything that a cluster has to be told so that the program runs in it, as objects to apply.
//!
//! Pure: settings in, objects out, in an order in which they can be applied.

mod deployment;
mod flow;
mod roles;
pub mod tenants;

use quotient_api::{crd, kinds};
use serde_json::{Value, json};

use crate::system::System;
use crate::webhook::configuration::{Target, configurations};

/// The name of everything that is installed.
pub const NAME: &str = "quotient";

/// What is to be installed.
#[derive(Debug, Clone)]
pub struct InstallSettings {
    pub namespace: String,
    pub image: String,
    pub replicas: u32,
    /// The systems whose objects the cluster has.
    pub systems: Vec<System>,
    /// Whether the definitions of their kinds are made; not where another installation owns them.
    pub definitions: bool,
    /// A QuotientConfiguration, as text.
    pub configuration: Option<String>,
    /// Where the API server finds the webhooks, if the program runs outside of the cluster; then no Deployment is made.
    pub webhook_url: Option<String>,
    /// Whether webhooks run in a Deployment of their own.
    pub separate_webhooks: bool,
    /// Whether a NetworkPolicy closes all ports but those of webhooks and metrics.
    pub network_policy: bool,
    /// The names of the scheduler that pods of tenants must name, where the policies for tenants are wanted.
    pub tenant_policy: Option<Vec<String>>,
}

/// The objects, in an order in which they can be applied.
pub fn objects(settings: &InstallSettings) -> Vec<Value> {
    let InstallSettings { namespace, systems, webhook_url, .. } = settings;
    let mut own = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata(namespace, None)});
    own["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] = json!("restricted");
    let mut all = vec![own];
    if settings.definitions {
        all.extend(definitions(systems));
    }
    all.extend(roles::objects(namespace, systems));
    all.extend(flow::objects(namespace));
    all.extend(tenants::records());
    if let Some(scheduler_names) = &settings.tenant_policy {
        all.extend(tenants::objects(namespace, scheduler_names, systems));
    }
    let target = match webhook_url {
        Some(url) => Target::Url(url.clone()),
        None => {
            all.extend(deployment::objects(settings));
            Target::Service { namespace: namespace.clone(), name: NAME.to_string() }
        }
    };
    // Last: from here on the API server asks.
    all.extend(configurations(&target, namespace, systems).into_iter().map(|mut configuration| {
        configuration["metadata"]["labels"] = labels();
        configuration
    }));
    all
}

/// The definitions of the kinds of these systems.
fn definitions(systems: &[System]) -> impl Iterator<Item = Value> {
    crd::definitions().into_iter().filter(|definition| {
        let text = |pointer: &str| definition.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let kind = kinds::find(text("/spec/group"), text("/spec/names/kind"));
        kind.and_then(System::of).is_some_and(|system| systems.contains(&system))
    })
}

fn labels() -> Value {
    json!({"app.kubernetes.io/name": NAME})
}

/// The metadata of an object of ours; one without a namespace is the cluster's.
fn metadata(name: &str, namespace: Option<&str>) -> Value {
    let mut metadata = json!({"name": name});
    if let Some(namespace) = namespace {
        metadata["namespace"] = json!(namespace);
    }
    metadata["labels"] = labels();
    metadata
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::SYSTEMS;

    fn settings(systems: &[System]) -> InstallSettings {
        InstallSettings {
            namespace: "quotient-system".to_string(),
            image: "quotient:test".to_string(),
            replicas: 2,
            systems: systems.to_vec(),
            definitions: true,
            configuration: None,
            webhook_url: None,
            separate_webhooks: true,
            network_policy: true,
            tenant_policy: None,
        }
    }

    #[test]
    fn what_is_left_out_is_named_nowhere() {
        let groups = |system: System| match system {
            System::Elastic => ["nos.nebuly.com", "n8s.nebuly.ai", "scheduling.x-k8s.io"].as_slice(),
            System::Tree => &["scheduling.sigs.k8s.io", "quota.koordinator.sh", "quotient.dev/quota-tree"],
            System::Queues => &["scheduling.volcano.sh"],
            System::Jobs => &[],
        };
        for left_out in SYSTEMS {
            let kept: Vec<System> = SYSTEMS.into_iter().filter(|system| *system != left_out).collect();
            // The policy that guards records names what ties a pod in any system, so that none is open later.
            let mut objects = objects(&settings(&kept));
            objects.retain(|object| object["metadata"]["name"] != "quotient-records");
            let text = json!(objects).to_string();
            for group in groups(left_out) {
                assert!(!text.contains(group), "{left_out:?}: {group}");
            }
            for group in kept.iter().flat_map(|system| groups(*system)) {
                assert!(text.contains(group), "without {left_out:?}: {group}");
            }
        }
    }

    #[test]
    fn nobody_but_the_program_is_granted_quotas() {
        let all = objects(&settings(&SYSTEMS));
        let roles = all.iter().filter(|object| object["kind"] == "ClusterRole" || object["kind"] == "Role");
        for role in roles.filter(|role| role["metadata"]["name"] != NAME) {
            let rules = role["rules"].as_array().expect("a list of rules");
            assert!(rules.iter().all(|rule| rule["verbs"] == json!(["get", "list", "watch"])), "{role}");
            let labels = role["metadata"]["labels"].to_string();
            assert!(!labels.contains("aggregate-to-edit") && !labels.contains("aggregate-to-admin"), "{labels}");
        }
        let subjects = |object: &&Value| object["kind"].as_str().is_some_and(|kind| kind.ends_with("RoleBinding"));
        for binding in all.iter().filter(subjects) {
            assert_eq!(
                binding["subjects"],
                json!([{"kind": "ServiceAccount", "name": NAME, "namespace": "quotient-system"}])
            );
        }
    }

    #[test]
    fn pods_are_created_only_where_the_controller_of_jobs_is_asked_for() {
        let may_create = |systems: &[System]| {
            let all = objects(&settings(systems));
            let rules = all
                .iter()
                .filter(|object| object["kind"] == "ClusterRole")
                .flat_map(|role| role["rules"].as_array().cloned().unwrap_or_default());
            rules
                .into_iter()
                .any(|rule| rule["resources"] == json!(["pods"]) && rule["verbs"].to_string().contains("create"))
        };
        assert!(!may_create(&[System::Elastic, System::Tree, System::Queues]));
        assert!(may_create(&[System::Queues, System::Jobs]));
    }

    #[test]
    fn a_process_elsewhere_has_no_deployment() {
        let kinds = |settings: &InstallSettings| {
            objects(settings)
                .iter()
                .map(|object| object["kind"].as_str().unwrap_or("?").to_string())
                .collect::<Vec<_>>()
        };
        let inside = settings(&SYSTEMS);
        let outside = InstallSettings { webhook_url: Some("https://127.0.0.1:1".into()), ..inside.clone() };
        assert!(kinds(&inside).contains(&"Deployment".to_string()));
        assert!(!kinds(&outside).contains(&"Deployment".to_string()));
        assert_eq!(kinds(&inside).last().map(String::as_str), Some("ValidatingWebhookConfiguration"));
    }
}
