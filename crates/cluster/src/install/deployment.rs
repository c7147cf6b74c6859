//! What runs: the Deployment, the Service that the API server asks the webhooks through, and the budget that keeps one
//! replica going.

use serde_json::{Value, json};

use super::{InstallSettings, NAME, labels, metadata};
use crate::permission::{AUTHORITY_SECRET, LEASE};

const METRICS_PORT: u16 = 8080;
const WEBHOOK_PORT: u16 = 9443;

/// Where the configuration is found.
const CONFIGURATION_FOLDER: &str = "/etc/quotient";
const CONFIGURATION_FILE: &str = "quotient.yaml";

/// The user that images for programs without a user of their own have by convention.
const USER: u32 = 65532;

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
    all.push(json!({
        "apiVersion": "v1", "kind": "Service", "metadata": metadata(NAME, place),
        "spec": {"selector": labels(), "ports": [
            {"name": "webhook", "port": 443, "targetPort": "webhook"},
            {"name": "metrics", "port": METRICS_PORT, "targetPort": "metrics"},
        ]},
    }));
    all.push(json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata(NAME, place),
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": labels()}},
    }));
    all.push(json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata(NAME, place),
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels()},
            // A configuration that changes is read again by the pods that run: they need not be others.
            "template": {"metadata": {"labels": labels()}, "spec": pod(settings)},
        },
    }));
    all
}

fn pod(settings: &InstallSettings) -> Value {
    let InstallSettings { namespace, image, configuration, .. } = settings;
    let mut arguments = vec![
        "run".to_string(),
        "--log=json".to_string(),
        format!("--lease={namespace}/{LEASE}"),
        format!("--metrics=0.0.0.0:{METRICS_PORT}"),
        format!("--webhook=0.0.0.0:{WEBHOOK_PORT}"),
        format!("--webhook-service={namespace}/{NAME}"),
        format!("--webhook-secret={namespace}/{AUTHORITY_SECRET}"),
    ];
    let probe = |path: &str| json!({"httpGet": {"path": path, "port": "metrics"}, "periodSeconds": 10});
    let mut container = json!({
        "name": NAME,
        "image": image,
        "ports": [
            {"name": "webhook", "containerPort": WEBHOOK_PORT},
            {"name": "metrics", "containerPort": METRICS_PORT},
        ],
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
            "labelSelector": {"matchLabels": labels()},
        }],
    });
    if configuration.is_some() {
        arguments.push(format!("--config={CONFIGURATION_FOLDER}/{CONFIGURATION_FILE}"));
        container["volumeMounts"] =
            json!([{"name": "configuration", "mountPath": CONFIGURATION_FOLDER, "readOnly": true}]);
        spec["volumes"] = json!([{"name": "configuration", "configMap": {"name": NAME}}]);
    }
    container["args"] = json!(arguments);
    spec["containers"] = json!([container]);
    spec
}
