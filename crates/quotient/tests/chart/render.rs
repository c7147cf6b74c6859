//! What the chart renders is what `quotient install` prints, object by object.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::daemon::quotient;
use super::{HELMS, chart, helm, helm_output};

type Objects = BTreeMap<(String, String, String), Value>;

/// Labels and annotations that Helm's own conventions ask for.
const OF_HELM: [&str; 5] = [
    "app.kubernetes.io/instance",
    "app.kubernetes.io/managed-by",
    "app.kubernetes.io/version",
    "helm.sh/chart",
    "helm.sh/resource-policy",
];

fn by_key(objects: impl IntoIterator<Item = Value>) -> Objects {
    objects
        .into_iter()
        .map(|mut object| {
            let metadata = &mut object["metadata"];
            for part in ["labels", "annotations"] {
                let Some(map) = metadata[part].as_object_mut() else {
                    metadata.as_object_mut().map(|metadata| metadata.remove(part));
                    continue;
                };
                map.retain(|key, _| !OF_HELM.contains(&key.as_str()));
                if map.is_empty() {
                    metadata.as_object_mut().map(|metadata| metadata.remove(part));
                }
            }
            // Definitions have no labels of ours where `install` prints them.
            if object["kind"] == "CustomResourceDefinition" {
                object["metadata"].as_object_mut().map(|metadata| metadata.remove("labels"));
            }
            let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_string();
            ((text("/kind"), text("/metadata/namespace"), text("/metadata/name")), object.clone())
        })
        .collect()
}

/// What `install` prints, without the Namespace, which Helm makes itself (`--create-namespace`).
fn installed(arguments: &[&str]) -> Objects {
    let output = quotient(&[&["install", "-o", "json"], arguments].concat()).output().expect("the program runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let list: Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
    let mut objects = by_key(list["items"].as_array().expect("a list").clone());
    objects.retain(|(kind, ..), _| kind != "Namespace");
    objects
}

pub fn documents(text: &str) -> Vec<Value> {
    let (values, problems) = quotient_api::read::parse("helm", text);
    assert!(problems.is_empty(), "{problems:?}\n{text}");
    values.into_iter().map(|(_, value)| value).collect()
}

/// What the chart renders.
fn rendered(program: &str, namespace: &str, arguments: &[&str]) -> Objects {
    let chart = chart().display().to_string();
    let fixed = ["template", "quotient", &chart, "-n", namespace, "--kube-version", "1.29.0"];
    by_key(documents(&helm_output(program, &[&fixed[..], arguments].concat())))
}

/// The first place at which two values differ, and what is there.
fn difference(place: &str, left: &Value, right: &Value) -> Option<String> {
    let pairs: Vec<(String, &Value, &Value)> = match (left, right) {
        (Value::Object(these), Value::Object(those)) => {
            let keys = these.keys().chain(those.keys().filter(|key| !these.contains_key(*key)));
            keys.map(|key| (format!("{place}.{key}"), &left[key], &right[key])).collect()
        }
        (Value::Array(these), Value::Array(those)) if these.len() == those.len() => {
            these.iter().zip(those).enumerate().map(|(at, (a, b))| (format!("{place}[{at}]"), a, b)).collect()
        }
        _ => return (left != right).then(|| format!("{place}: {left} and {right}")),
    };
    pairs.into_iter().find_map(|(place, left, right)| difference(&place, left, right))
}

#[test]
fn it_renders_what_install_prints() {
    let folder = std::env::temp_dir().join(format!("quotient-chart-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder can be made");
    let config = folder.join("quotient.yaml");
    std::fs::write(&config, "reserveAfter: 1m\nschedulerNames: [a, b]\n").expect("a file can be written");
    let config = config.display().to_string();
    let from_file = format!("configuration={config}");
    let system = |name: &str| format!("systems={{{name}}}");
    let url = "https://127.0.0.1:9443";
    let with_policy = format!("{},tenantPolicy.enabled=true", system("tree,queues"));
    let cases: [(&str, Vec<&str>, Vec<&str>); 12] = [
        ("quotient-system", vec!["--tenant-policy"], vec!["--set", "tenantPolicy.enabled=true"]),
        ("quotient-system", vec!["--tenant-policy", "--systems", "tree,queues"], vec!["--set", &with_policy]),
        (
            "elsewhere",
            vec!["--tenant-policy", "--namespace", "elsewhere", "--config", &config],
            vec!["--set", "tenantPolicy.enabled=true", "--set-file", &from_file],
        ),
        (
            "quotient-system",
            vec!["--separate-webhooks=false", "--network-policy=false", "--no-crds", "--config", &config],
            vec![
                "--set",
                "webhooks.separate=false,networkPolicy.enabled=false,crds.install=false",
                "--set-file",
                &from_file,
            ],
        ),
        ("quotient-system", vec!["--systems", "queues,jobs"], vec!["--set", &*system("queues,jobs").leak()]),
        ("quotient-system", vec![], vec![]),
        (
            "elsewhere",
            vec!["--namespace", "elsewhere", "--replicas", "3"],
            vec!["--set", "replicas=3,webhooks.replicas=3"],
        ),
        (
            "quotient-system",
            vec!["--image", "registry.example/q:v1"],
            vec!["--set", "image.repository=registry.example/q,image.tag=v1"],
        ),
        ("quotient-system", vec!["--systems", "elastic"], vec!["--set", &*system("elastic").leak()]),
        ("quotient-system", vec!["--systems", "tree,queues"], vec!["--set", &*system("tree,queues").leak()]),
        ("quotient-system", vec!["--config", &config], vec!["--set-file", &from_file]),
        (
            "quotient-system",
            vec!["--webhook-url", url],
            vec!["--set", "deployment.enabled=false,webhooks.url=https://127.0.0.1:9443"],
        ),
    ];
    for program in HELMS {
        for (namespace, flags, values) in &cases {
            let (expected, found) = (installed(flags), rendered(program, namespace, values));
            let keys = |objects: &Objects| objects.keys().cloned().collect::<Vec<_>>();
            assert_eq!(keys(&found), keys(&expected), "{program}: {values:?}");
            for (key, object) in &expected {
                let differs = difference("", &found[key], object);
                assert_eq!(differs, None, "{program}: {values:?}: {key:?}: rendered, and as install prints it");
            }
        }
    }
    std::fs::remove_dir_all(&folder).expect("it is ours");
}

/// Each switch, and the objects that it adds or takes away.
#[test]
fn each_switch_does_what_it_says() {
    const ALL: &str = "serviceMonitor.enabled=true,prometheusRule.enabled=true,\
        grafanaDashboard.enabled=true,configuration.reserveAfter=1m,\
        webhooks.certificateSecret=own,prometheusRule.runbooks=https://docs.example/alerts,\
        dashboard.enabled=true,dashboard.ingress.enabled=true,dashboard.ingress.host=q.example.com,\
        dashboard.ingress.tlsSecret=q-tls,dashboard.ingress.className=nginx";
    const NONE: &str = "crds.install=false,flowControl.enabled=false,podDisruptionBudget.enabled=false,\
        webhooks.enabled=false,networkPolicy.enabled=false";
    let place = || "quotient-system".to_string();
    let key = |kind: &str, name: &str| (kind.to_string(), place(), name.to_string());
    for program in HELMS {
        let plain = rendered(program, &place(), &[]);
        let all = rendered(program, &place(), &["--set", ALL]);
        let added: Vec<_> = all.keys().filter(|key| !plain.contains_key(key)).cloned().collect();
        let expected = [
            key("ConfigMap", "quotient"),
            key("ConfigMap", "quotient-grafana-dashboard"),
            key("Ingress", "quotient-dashboard"),
            key("PrometheusRule", "quotient"),
            key("Service", "quotient-dashboard"),
            key("ServiceMonitor", "quotient"),
        ];
        assert_eq!(added, expected, "{program}");
        let arguments =
            |name: &str| all[&key("Deployment", name)]["spec"]["template"]["spec"]["containers"][0]["args"].clone();
        assert!(arguments("quotient").to_string().contains("--only=scheduler,controllers"));
        assert!(!arguments("quotient").to_string().contains("--webhook="));
        assert!(arguments("quotient-webhooks").to_string().contains("--only=webhooks"));
        assert!(arguments("quotient-webhooks").to_string().contains("--webhook-certificate=/etc/quotient-certificate"));
        let ports = |name: &str| {
            let container = &all[&key("Deployment", name)]["spec"]["template"]["spec"]["containers"][0];
            container["ports"].to_string()
        };
        assert!(arguments("quotient").to_string().contains("--dashboard=0.0.0.0:8081"));
        assert!(ports("quotient").contains("dashboard") && !ports("quotient-webhooks").contains("dashboard"));
        let ingress = &all[&key("Ingress", "quotient-dashboard")]["spec"];
        let rule = &ingress["rules"][0];
        assert_eq!((&rule["host"], &ingress["ingressClassName"]), (&json!("q.example.com"), &json!("nginx")));
        assert_eq!(ingress["tls"][0], json!({"hosts": ["q.example.com"], "secretName": "q-tls"}));
        let backend = &rule["http"]["paths"][0]["backend"]["service"];
        assert_eq!(*backend, json!({"name": "quotient-dashboard", "port": {"name": "dashboard"}}));
        let service = &all[&key("Service", "quotient")]["spec"]["selector"];
        assert_eq!(*service, json!({"app.kubernetes.io/name": "quotient-webhooks"}));
        let rule = &all[&key("PrometheusRule", "quotient")]["spec"]["groups"][0]["rules"][0];
        let alert = rule["alert"].as_str().expect("it has a name").to_lowercase();
        assert_eq!(rule["annotations"]["runbook_url"], format!("https://docs.example/alerts#{alert}"));
        let map = all[&key("ConfigMap", "quotient")]["data"]["quotient.yaml"].as_str().expect("it is text").to_string();
        assert!(map.contains("kind: QuotientConfiguration") && map.contains("reserveAfter: 1m"), "{map}");

        let few = rendered(program, &place(), &["--set", NONE]);
        let mut kinds: Vec<&str> = few.keys().map(|(kind, ..)| kind.as_str()).collect();
        kinds.dedup();
        let roles =
            ["ClusterRole", "ClusterRoleBinding", "Deployment", "Role", "RoleBinding", "Service", "ServiceAccount"];
        // The policy that guards records is no choice: without it a tenant could write its own.
        let expected = [&roles[..], &["ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"]].concat();
        assert_eq!(kinds, expected, "{program}");
    }
}

#[test]
fn lint_finds_nothing_and_the_schema_finds_mistakes() {
    let chart = chart().display().to_string();
    for program in HELMS {
        let said = helm_output(program, &["lint", "--strict", &chart, "--kube-version", "1.37.0"]);
        assert!(said.contains("0 chart(s) failed"), "{said}");
        for (value, expected) in [
            ("replicas=0", "replicas"),
            ("replica=1", "replica"),
            ("systems={elastic,kueue}", "systems"),
            ("webhooks.url=http://x", "url"),
            ("dashboard.ingress.enabled=true", "dashboard.enabled=true"),
            ("dashboard.enabled=true,dashboard.ingress.enabled=true", "dashboard.ingress.host"),
        ] {
            let output = helm(program, &["template", "q", &chart, "--set", value]).output().expect("Helm runs");
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(!output.status.success() && said.contains(expected), "{program} {value}: {said}");
        }
    }
}
