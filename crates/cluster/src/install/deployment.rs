//! What runs: the Deployments, the Service that the API server asks the webhooks through, the budgets that keep one
//! replica of each going, and who may reach their ports.

use serde_json::{Value, json};

use super::{InstallSettings, NAME, metadata};
use crate::permission::{AUTHORITY_SECRET, LEASE};

const METRICS_PORT: u16 = 8080;
const PROBES_PORT: u16 = 8082;
const WEBHOOK_PORT: u16 = 9443;

/// The Deployment of webhooks that run apart from the scheduler, and the Service by which its metrics are read then.
const WEBHOOKS: &str = "quotient-webhooks";
const SCHEDULER_SERVICE: &str = "quotient-scheduler";

/// Where the configuration is found.
const CONFIGURATION_FOLDER: &str = "/etc/quotient";
const CONFIGURATION_FILE: &str = "quotient.yaml";

/// The user that images for programs without a user of their own have by convention.
const USER: u32 = 65532;

/// One of the Deployments, which is also the name by which its pods are selected.
struct Part {
    name: &'static str,
    /// What it runs; `None`: everything.
    only: Option<&'static str>,
    leads: bool,
    answers: bool,
}

/// What runs in one Deployment, or in two.
fn parts(settings: &InstallSettings) -> Vec<Part> {
    if !settings.separate_webhooks {
        return vec![Part { name: NAME, only: None, leads: true, answers: true }];
    }
    vec![
        Part { name: NAME, only: Some("scheduler,controllers"), leads: true, answers: false },
        Part { name: WEBHOOKS, only: Some("webhooks"), leads: false, answers: true },
    ]
}

pub fn objects(settings: &InstallSettings) -> Vec<Value> {
    let InstallSettings { namespace, replicas, configuration, .. } = settings;
    let place = Some(&**namespace);
    let mut all = Vec::new();
    if let Some(text) = configuration {
        all.push(json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata(NAME, place),
            "data": {CONFIGURATION_FILE: text},
        }));
    }
    let service = |name: &str, part: &Part| {
        let webhook = json!({"name": "webhook", "port": 443, "targetPort": "webhook"});
        let metrics = json!({"name": "metrics", "port": METRICS_PORT, "targetPort": "metrics"});
        let ports: Vec<Value> = part.answers.then_some(webhook).into_iter().chain([metrics]).collect();
        json!({
            "apiVersion": "v1", "kind": "Service", "metadata": metadata(name, place),
            "spec": {"selector": selector(part), "ports": ports},
        })
    };
    let parts = parts(settings);
    // The API server asks the one by which the webhooks are known.
    all.extend(parts.iter().map(|part| service(if part.answers { NAME } else { SCHEDULER_SERVICE }, part)));
    all.extend(parts.iter().map(|part| {
        json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata(part.name, place),
            "spec": {"maxUnavailable": 1, "selector": {"matchLabels": selector(part)}},
        })
    }));
    all.extend(parts.iter().map(|part| {
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata(part.name, place),
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": selector(part)},
                // A configuration that changes is read again by the pods that run: they need not be others.
                "template": {"metadata": {"labels": selector(part)}, "spec": pod(settings, part)},
            },
        })
    }));
    all.extend(settings.network_policy.then(|| network_policy(namespace, &parts)));
    all
}

/// Nobody reaches a port but for webhooks and metrics. Kubelets reach those for probes from their own nodes.
fn network_policy(namespace: &str, parts: &[Part]) -> Value {
    let port = |name: &str| json!({"ports": [{"port": name}]});
    let names: Vec<&str> = parts.iter().map(|part| part.name).collect();
    json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": metadata(NAME, Some(namespace)),
        "spec": {
            "podSelector": {"matchExpressions": [
                {"key": "app.kubernetes.io/name", "operator": "In", "values": names},
            ]},
            "policyTypes": ["Ingress"],
            "ingress": [port("webhook"), port("metrics")],
        },
    })
}

fn selector(part: &Part) -> Value {
    json!({"app.kubernetes.io/name": part.name})
}

fn arguments(settings: &InstallSettings, part: &Part) -> Vec<String> {
    let InstallSettings { namespace, systems, configuration, .. } = settings;
    let systems: Vec<&str> = systems.iter().map(|system| system.name()).collect();
    let mut arguments = vec!["run".to_string(), "--log=json".to_string(), format!("--systems={}", systems.join(","))];
    arguments.extend(part.only.map(|only| format!("--only={only}")));
    if part.leads {
        arguments.push(format!("--lease={namespace}/{LEASE}"));
    }
    arguments.push(format!("--metrics=0.0.0.0:{METRICS_PORT}"));
    arguments.push(format!("--probes=0.0.0.0:{PROBES_PORT}"));
    if part.answers {
        arguments.extend([
            format!("--webhook=0.0.0.0:{WEBHOOK_PORT}"),
            format!("--webhook-service={namespace}/{NAME}"),
            format!("--webhook-secret={namespace}/{AUTHORITY_SECRET}"),
        ]);
    }
    if configuration.is_some() {
        arguments.push(format!("--config={CONFIGURATION_FOLDER}/{CONFIGURATION_FILE}"));
    }
    arguments
}

fn pod(settings: &InstallSettings, part: &Part) -> Value {
    let InstallSettings { image, configuration, .. } = settings;
    let probe = |path: &str| json!({"httpGet": {"path": path, "port": "probes"}, "periodSeconds": 10});
    let webhook = part.answers.then(|| json!({"name": "webhook", "containerPort": WEBHOOK_PORT}));
    let metrics = json!({"name": "metrics", "containerPort": METRICS_PORT});
    let probes = json!({"name": "probes", "containerPort": PROBES_PORT});
    let ports: Vec<Value> = webhook.into_iter().chain([metrics, probes]).collect();
    let mut container = json!({
        "name": NAME,
        "image": image,
        "args": arguments(settings, part),
        "ports": ports,
        "livenessProbe": probe("/livez"),
        "readinessProbe": probe("/readyz"),
        // What is kept in memory grows with the cluster; docs/benchmarks.md says how much it takes.
        "resources": {"requests": {"cpu": "200m", "memory": "256Mi"}, "limits": {"memory": "4Gi"}},
        "securityContext": {
            "allowPrivilegeEscalation": false,
            "readOnlyRootFilesystem": true,
            "capabilities": {"drop": ["ALL"]},
        },
    });
    let mut spec = json!({
        "serviceAccountName": NAME,
        "priorityClassName": "system-cluster-critical",
        "securityContext": {
            "runAsNonRoot": true,
            "runAsUser": USER,
            "runAsGroup": USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "topologySpreadConstraints": [{
            "maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": selector(part)},
        }],
    });
    if configuration.is_some() {
        container["volumeMounts"] =
            json!([{"name": "configuration", "mountPath": CONFIGURATION_FOLDER, "readOnly": true}]);
        spec["volumes"] = json!([{"name": "configuration", "configMap": {"name": NAME}}]);
    }
    spec["containers"] = json!([container]);
    spec
}
