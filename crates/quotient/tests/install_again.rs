//! What `quotient install` prints, applied where something is there already: itself, with more systems or fewer, or a
//! Volcano and a Koordinator that own the kinds.

use crate::daemon;

use quotient_testenv::{ControlPlane, NodeShape, Options};
use serde_json::{Value, json};

use daemon::{Daemon, ask, eventually, quotient};

const NAMESPACE: &str = "quotient-system";
const QUEUES: &str = "queues.scheduling.volcano.sh";
const TREE_QUOTAS: &str = "elasticquotas.scheduling.sigs.k8s.io";

fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port").port()
}

/// A cluster in which the program is installed, to run outside of it.
struct Site {
    plane: ControlPlane,
    metrics: u16,
    webhook: u16,
}

impl Site {
    fn new() -> Self {
        let plane = ControlPlane::start(Options::default()).expect("the control plane starts");
        plane.make_nodes("n", 1, &NodeShape::default()).expect("the node is made");
        Site { plane, metrics: free_port(), webhook: free_port() }
    }

    /// Applies what `install` prints, as people do: without taking anything from others.
    fn install(&self, arguments: &[&str]) -> Result<String, String> {
        let url = format!("https://127.0.0.1:{}", self.webhook);
        let output = quotient(&[&["install", "--webhook-url", &url], arguments].concat()).output();
        let output = output.expect("the program runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let manifest = String::from_utf8(output.stdout).expect("it is text");
        let apply = ["apply", "--server-side", "-f", "-"];
        let applied = self.plane.kubectl_with(&apply, &manifest).map_err(|error| error.to_string());
        self.kinds_are_served();
        applied
    }

    fn kinds_are_served(&self) {
        eventually(&self.plane, "all kinds are served", || {
            let definitions = self.get(&["crd"])["items"].as_array()?.clone();
            let is_served = |definition: &Value| {
                let conditions = definition["status"]["conditions"].as_array().cloned().unwrap_or_default();
                conditions.iter().any(|it| it["type"] == "Established" && it["status"] == "True")
            };
            definitions.iter().all(is_served).then_some(())
        });
    }

    /// Starts it for these systems under the account that was installed, and waits until it is ready.
    fn start(&self, systems: &str) -> Daemon {
        let account = self.plane.kubeconfig_of_account(NAMESPACE, "quotient").expect("it has a token");
        let (metrics, webhook) = (format!("127.0.0.1:{}", self.metrics), format!("127.0.0.1:{}", self.webhook));
        let url = format!("https://{webhook}");
        let lease = ["--systems", systems, "--lease", "quotient-system/quotient", "--lease-duration", "4s"];
        let webhooks = ["--metrics", &metrics, "--webhook", &webhook, "--webhook-url", &url];
        let log = self.plane.folder().join("quotient.log");
        let daemon = Daemon::start_as(&account, &log, &[&lease[..], &webhooks].concat());
        eventually(&self.plane, "it is ready", || ask(self.metrics, "/readyz").filter(|(status, _)| *status == 200));
        daemon
    }

    fn get(&self, arguments: &[&str]) -> Value {
        let answer = self.plane.kubectl(&[&["get", "-o", "json"], arguments].concat()).unwrap_or_default();
        serde_json::from_str(&answer).unwrap_or_default()
    }

    /// The webhooks that the API server asks, all of which it trusts.
    fn webhooks(&self) -> Vec<String> {
        let found = eventually(&self.plane, "the API server trusts all webhooks", || {
            let found = self.get(&["validatingwebhookconfiguration", "quotient"])["webhooks"].as_array()?.clone();
            found.iter().all(|webhook| webhook["clientConfig"]["caBundle"].is_string()).then_some(found)
        });
        found.iter().filter_map(|webhook| webhook["name"].as_str()).map(str::to_string).collect()
    }

    fn runs(&self, name: &str) {
        eventually(&self.plane, &format!("{name} runs"), || {
            (self.get(&["pod", name, "-n", "default"])["status"]["phase"] == "Running").then_some(())
        });
    }

    fn apply(&self, objects: &[Value]) {
        eventually(&self.plane, "the objects are taken", || self.plane.apply(objects).ok());
    }
}

fn pod(name: &str, queue: Option<&str>) -> Value {
    let annotations = queue.map(|queue| json!({"scheduling.volcano.sh/queue-name": queue})).unwrap_or_default();
    json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "annotations": annotations},
        "spec": {"schedulerName": "quotient", "containers": [
            {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]}})
}

fn queue(name: &str) -> Value {
    json!({"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": name},
        "spec": {"capability": {"cpu": "1"}}})
}

fn elastic_quota(name: &str) -> Value {
    json!({"apiVersion": "nos.nebuly.com/v1alpha1", "kind": "ElasticQuota",
        "metadata": {"name": name, "namespace": "default"}, "spec": {"min": {"cpu": "4"}}})
}

#[test]
fn twice_and_with_fewer_systems() {
    let site = Site::new();
    let all = "elastic,tree,queues";
    site.install(&["--systems", all]).expect("it applies");
    let daemon = site.start(all);
    let asked = site.webhooks();
    site.apply(&[queue("kept"), elastic_quota("quota"), pod("first", None)]);
    site.runs("first");
    // Meanwhile the program wrote into the webhooks whom to trust: to apply again takes nothing of that away.
    site.install(&["--systems", all]).expect("it applies again");
    assert_eq!(site.webhooks(), asked);
    let refused = site.plane.apply(&[elastic_quota("second")]).expect_err("the webhooks answer").to_string();
    assert!(refused.contains("is governed by ElasticQuota/default/quota already"), "{refused}");

    site.install(&["--systems", "elastic"]).expect("it applies with fewer systems");
    let left = site.webhooks();
    assert!(!left.is_empty() && left.len() < asked.len(), "{left:?}");
    let is_elastic =
        |name: &String| ["nos.nebuly", "n8s.nebuly", "scheduling.x-k8s"].iter().any(|of| name.contains(of));
    assert!(left.iter().all(is_elastic), "{left:?}");
    // As the Deployment does: its flags have changed. What the account may not read any more it does not wait for.
    daemon.stop();
    let begun = std::time::Instant::now();
    let daemon = site.start("elastic");
    site.apply(&[pod("second", None)]);
    site.runs("second");
    assert!(begun.elapsed().as_secs() < 25, "it waited {:?} for kinds that are not its own", begun.elapsed());
    assert_eq!(site.get(&[QUEUES, "kept"])["spec"]["capability"]["cpu"], "1", "objects of others stay");

    site.install(&["--systems", all]).expect("it applies with more systems");
    daemon.stop();
    let _daemon = site.start(all);
    assert_eq!(site.webhooks(), asked);
    site.apply(&[pod("third", Some("kept")), pod("fourth", Some("kept"))]);
    site.runs("third");
    eventually(&site.plane, "the queue counts", || {
        (site.get(&[QUEUES, "kept"])["status"]["allocated"]["cpu"] == "1").then_some(())
    });
}

/// The definitions that another installation brought: in two versions, the one that we do not know first and stored,
/// and with a field of their own.
fn theirs() -> Vec<Value> {
    let names = [QUEUES, "podgroups.scheduling.volcano.sh", TREE_QUOTAS];
    let ours = quotient_api::crd::definitions().into_iter();
    let kept = ours.filter(|ours| ours["metadata"]["name"].as_str().is_some_and(|name| names.contains(&name)));
    kept.map(|mut definition| {
        definition["metadata"]["labels"] = json!({"app.kubernetes.io/managed-by": "Helm"});
        let own = "/schema/openAPIV3Schema/properties/spec/properties";
        let mut known = definition["spec"]["versions"][0].clone();
        known.pointer_mut(own).expect("it has a spec")["theirs"] = json!({"type": "string"});
        let mut newer = known.clone();
        newer["name"] = json!("v2");
        known["storage"] = json!(false);
        definition["spec"]["versions"] = json!([newer, known]);
        definition
    })
    .collect()
}

#[test]
fn beside_a_volcano_and_a_koordinator_that_own_the_kinds() {
    let site = Site::new();
    let definitions = json!({"apiVersion": "v1", "kind": "List", "items": theirs()});
    let as_helm = ["apply", "--server-side", "--field-manager=helm", "-f", "-"];
    site.plane.kubectl_with(&as_helm, &definitions.to_string()).expect("they are made");
    site.kinds_are_served();
    let mut theirs_too = queue("theirs");
    theirs_too["apiVersion"] = json!("scheduling.volcano.sh/v2");
    theirs_too["spec"]["theirs"] = json!("kept");
    let tree = json!({"apiVersion": "scheduling.sigs.k8s.io/v2", "kind": "ElasticQuota",
        "metadata": {"name": "default", "namespace": "default"},
        "spec": {"min": {"cpu": "2"}, "max": {"cpu": "2"}, "theirs": "kept"}});
    for object in [theirs_too, tree] {
        site.plane.kubectl_with(&as_helm, &object.to_string()).expect("it is made");
    }
    let specs = || -> Vec<Value> {
        theirs()
            .iter()
            .map(|it| site.get(&["crd", it["metadata"]["name"].as_str().unwrap_or("?")])["spec"].clone())
            .collect()
    };
    let before = specs();
    // What would overwrite something of theirs is refused, by name; `--no-crds` does not try.
    let refused = site.install(&[]).expect_err("the definitions are another's");
    assert!(refused.contains("conflict") && refused.contains("helm"), "{refused}");
    assert_eq!(specs(), before);
    site.install(&["--no-crds"]).expect("the rest applies");
    assert_eq!(specs(), before);

    let _daemon = site.start("elastic,tree,queues");
    site.apply(&[pod("first", Some("theirs")), pod("second", Some("theirs"))]);
    site.runs("first");
    for (kind, path, used) in [(QUEUES, "/status/allocated/cpu", "1"), (TREE_QUOTAS, "/status/used/cpu", "1")] {
        let name = if kind == QUEUES { "theirs" } else { "default" };
        let found = eventually(&site.plane, "its status says what is used", || {
            let found = site.get(&[&format!("{kind}/{name}"), "-n", "default"]);
            (found.pointer(path).and_then(Value::as_str) == Some(used)).then_some(found)
        });
        assert_eq!(found["spec"]["theirs"], "kept", "{found}");
        assert!(found["apiVersion"].as_str().is_some_and(|version| version.ends_with("/v2")), "{found}");
    }
    let second = site.get(&["pod", "second", "-n", "default"]);
    assert!(second["spec"]["nodeName"].is_null(), "the queue has one core: {second}");
    assert_eq!(specs(), before);
}
