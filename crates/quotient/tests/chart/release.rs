//! A release of the chart on a real API server, from installation to uninstallation, with both versions of Helm.

use std::path::{Path, PathBuf};
use std::process::Command;

use quotient_testenv::{ControlPlane, NodeShape, Options};
use serde_json::{Value, json};

use super::daemon::{Daemon, ask, eventually, quotient};
use super::{HELMS, chart, helm};

const NAMESPACE: &str = "quotient-system";

fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port").port()
}

fn get(plane: &ControlPlane, arguments: &[&str]) -> Option<Value> {
    let answer = plane.kubectl(&[&["get", "-o", "json"], arguments].concat()).ok()?;
    serde_json::from_str(&answer).ok()
}

fn pod(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"},
        "spec": {"schedulerName": "quotient", "containers": [
            {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]},
    })
}

/// A control plane on which a release lives.
struct Site {
    plane: ControlPlane,
    program: &'static str,
    webhook: u16,
    metrics: u16,
}

impl Site {
    /// Runs Helm on this cluster; it must succeed.
    fn helm(&self, arguments: &[&str]) {
        let kubeconfig = self.plane.kubeconfig().display().to_string();
        let fixed = ["--kubeconfig", &kubeconfig, "-n", NAMESPACE];
        let output = helm(self.program, &[arguments, &fixed].concat()).output().expect("Helm runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{} {}: {said}", self.program, arguments.join(" "));
    }

    /// Installs or upgrades with these values on top of what this site needs.
    fn set(&self, chart: &Path, verb: &[&str], values: &str) {
        let chart = chart.display().to_string();
        let fixed = format!(
            "webhooks.separate=false,webhooks.url=https://127.0.0.1:{},configuration.schedulerNames={{quotient,default-scheduler}}",
            self.webhook
        );
        self.helm(&[verb, &["quotient", &chart, "--set", &fixed, "--set", values]].concat());
    }

    /// Starts the program under the account and with the flags of the Deployment, but for addresses and files.
    fn start(&self) -> Daemon {
        let deployment = get(&self.plane, &["deployment", "quotient", "-n", NAMESPACE]).expect("it is there");
        let given = deployment.pointer("/spec/template/spec/containers/0/args").expect("it has flags");
        let map = get(&self.plane, &["configmap", "quotient", "-n", NAMESPACE]).expect("it is there");
        let text = map.pointer("/data/quotient.yaml").and_then(Value::as_str).expect("it has the configuration");
        let file = self.plane.folder().join("quotient.yaml");
        std::fs::write(&file, text).expect("it can be written");
        let flags: Vec<String> = given
            .as_array()
            .expect("a list")
            .iter()
            .filter_map(Value::as_str)
            .filter(|flag| *flag != "run")
            .map(|flag| match flag.split_once('=').map(|(name, _)| name) {
                Some("--probes") => "--probes=127.0.0.1:0".to_string(),
                Some("--metrics") => format!("--metrics=127.0.0.1:{}", self.metrics),
                Some("--webhook") => format!("--webhook=127.0.0.1:{}", self.webhook),
                Some("--config") => format!("--config={}", file.display()),
                _ => flag.to_string(),
            })
            .collect();
        let account: PathBuf = self.plane.kubeconfig_of_account(NAMESPACE, "quotient").expect("it has a token");
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        let daemon = Daemon::start_as(&account, &self.plane.folder().join("quotient.log"), &flags);
        eventually(&self.plane, "it is ready", || ask(self.metrics, "/readyz").filter(|(status, _)| *status == 200));
        daemon
    }

    fn runs(&self, name: &str) {
        eventually(&self.plane, &format!("{name} runs"), || {
            let pod = get(&self.plane, &["pod", name, "-n", "default"])?;
            (pod["status"]["phase"] == "Running").then_some(())
        });
    }

    /// Whether the API server trusts the webhooks: the program wrote the CA, and nothing took it away.
    fn is_trusted(&self) -> bool {
        let found = get(&self.plane, &["validatingwebhookconfiguration", "quotient"]).unwrap_or_default();
        let webhooks = found["webhooks"].as_array().cloned().unwrap_or_default();
        !webhooks.is_empty() && webhooks.iter().all(|webhook| webhook["clientConfig"]["caBundle"].is_string())
    }

    /// What `quotient check` ends with, and what it prints.
    fn check(&self) -> (Option<i32>, String) {
        let kubeconfig = self.plane.kubeconfig().display().to_string();
        let output = quotient(&["check", "--kubeconfig", &kubeconfig]).output().expect("the program runs");
        let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        assert!(!said.contains("\\n"), "a line is broken by an escaped newline: {said}");
        (output.status.code(), said)
    }

    fn has(&self, what: &[&str]) -> bool {
        get(&self.plane, what).is_some()
    }
}

/// A definition that an upgrade changes, and what of it.
const CRD: &str = "elasticquotas.scheduling.x-k8s.io";
const SPEC: &str = "/spec/versions/0/schema/openAPIV3Schema/properties/spec";

/// A copy of the chart as an older version could have been: one definition knows less.
fn older_chart(folder: &Path) -> PathBuf {
    let copied = Command::new("cp").arg("-r").arg(chart()).arg(folder).status().expect("cp runs");
    assert!(copied.success());
    let copy = folder.join("quotient");
    let file = copy.join(format!("files/crds/elastic/{CRD}.yaml"));
    let text = std::fs::read_to_string(&file).expect("the definition is there");
    let mut definition = super::render::documents(&text).remove(0);
    let (parent, field) = SPEC.rsplit_once('/').expect("it has a parent");
    let parent = definition.pointer_mut(parent).and_then(Value::as_object_mut).expect("it is there");
    parent.remove(field).expect("it is there");
    std::fs::write(&file, definition.to_string()).expect("it can be written");
    copy
}

fn a_release_lives(program: &'static str) {
    let plane = ControlPlane::start(Options::default()).expect("the control plane starts");
    plane.make_nodes("node", 2, &NodeShape::default()).expect("the nodes are made");
    let site = Site { plane, program, webhook: free_port(), metrics: free_port() };
    let plane = &site.plane;

    site.set(&older_chart(plane.folder()), &["install", "--create-namespace"], "systems={elastic}");
    let installed = get(plane, &["crd", CRD]).expect("it is there");
    assert!(installed.pointer(SPEC).is_none(), "{program}: the older definition has no spec");
    assert!(!site.has(&["crd", "queues.scheduling.volcano.sh"]), "{program}: what is left out has no CRD");
    let daemon = site.start();
    plane.apply(&[pod("before")]).expect("it is made");
    site.runs("before");
    eventually(plane, "the pods of the Deployment run, scheduled by the one beside it", || {
        let deployment = get(plane, &["deployment", "quotient", "-n", NAMESPACE])?;
        (deployment["status"]["readyReplicas"] == 2).then_some(())
    });
    eventually(plane, "the webhooks are trusted", || site.is_trusted().then_some(()));

    site.set(&chart(), &["upgrade"], "replicas=3,systems={elastic,tree,queues}");
    let upgraded = get(plane, &["crd", CRD]).expect("it is there");
    assert!(upgraded.pointer(SPEC).is_some(), "{program}: definitions are upgraded");
    assert!(site.has(&["crd", "queues.scheduling.volcano.sh"]), "{program}: what is added has its CRD");
    eventually(plane, "the new webhooks are trusted too", || site.is_trusted().then_some(()));
    let quota = json!({"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "ElasticQuota",
        "metadata": {"name": "q", "namespace": "default"}, "spec": {"min": {"cpu": "-1"}}});
    eventually(plane, "the webhooks answer, and reject a negative amount", || {
        plane.apply(std::slice::from_ref(&quota)).err().filter(|said| said.to_string().contains("-1"))
    });

    let (code, said) = site.check();
    assert_eq!(code, Some(0), "{program}: all is well:\n{said}");
    for expected in ["has all", "leads; it renewed", "reaches the webhooks", "more days", "no other scheduler"] {
        assert!(said.contains(expected), "{program}: {expected}:\n{said}");
    }
    assert!(said.contains("0 warnings, 0 failed"), "{said}");

    site.helm(&["rollback", "quotient", "1"]);
    let deployment = get(plane, &["deployment", "quotient", "-n", NAMESPACE]).expect("it is there");
    assert_eq!(deployment["spec"]["replicas"], 2, "{program}");
    plane.apply(&[pod("after")]).expect("it is made");
    site.runs("after");

    daemon.stop();
    site.helm(&["uninstall", "quotient"]);
    assert!(!site.has(&["clusterrole", "quotient"]) && !site.has(&["validatingwebhookconfiguration", "quotient"]));
    for name in ["before", "after"] {
        site.runs(name);
    }
    assert!(site.has(&["crd", CRD]) && site.has(&["crd", "queues.scheduling.volcano.sh"]), "{program}: CRDs stay");
    // A Lease that could not be given back in time is held until it runs out.
    let said = eventually(plane, "no replica leads any more", || {
        let (code, said) = site.check();
        (code == Some(1)).then_some(said)
    });
    for expected in ["there is no Deployment", "not told of the webhooks", "quotient: no replica holds it"] {
        assert!(said.contains(expected), "{program}: {expected}:\n{said}");
    }
    // Nothing is in the way of a later installation: it takes over the CRDs that stayed.
    site.set(&chart(), &["install"], "replicas=1");
}

#[test]
fn it_is_installed_upgraded_rolled_back_and_uninstalled() {
    for program in HELMS {
        a_release_lives(program);
    }
}
