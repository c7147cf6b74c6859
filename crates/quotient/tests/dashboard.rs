//! The dashboard of `quotient run` on a real API server: which tokens sign in, what each viewer gets, what a change
//! would do, which viewers may apply it, and what a recording holds. With `--ignored` its pages are clicked through in
//! a browser.

use crate::daemon;

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use quotient_testenv::{ControlPlane, NodeShape, Options};
use serde_json::{Value, json};

use daemon::{Daemon, eventually, items, quotient};

/// Every name of a tenant contains its word, so that a leak is found by searching for the words of the others.
const TENANTS: [&str; 3] = ["amber", "birch", "cedar"];
const NODES: usize = 3;
const GPUS: usize = 4;
const FUZZED_REQUESTS: usize = 400;

struct Live {
    plane: ControlPlane,
    daemon: Option<Daemon>,
    port: u16,
    recording: PathBuf,
}

/// Objects that let an account list pods and get its own quota and queue.
fn tenant(name: &str) -> Vec<Value> {
    let account = json!([{"kind": "ServiceAccount", "name": "viewer", "namespace": name}]);
    let rbac = "rbac.authorization.k8s.io";
    let own = json!([
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "get"]},
        {"apiGroups": ["scheduling.x-k8s.io"], "resources": ["elasticquotas"], "verbs": ["get"]},
    ]);
    let queue = json!([{"apiGroups": ["scheduling.volcano.sh"], "resources": ["queues"], "verbs": ["get"], "resourceNames": [name]}]);
    vec![
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}),
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "viewer", "namespace": name}}),
        json!({"apiVersion": format!("{rbac}/v1"), "kind": "Role", "metadata": {"name": "viewer", "namespace": name},
            "rules": own}),
        json!({"apiVersion": format!("{rbac}/v1"), "kind": "RoleBinding",
            "metadata": {"name": "viewer", "namespace": name}, "subjects": account,
            "roleRef": {"apiGroup": rbac, "kind": "Role", "name": "viewer"}}),
        json!({"apiVersion": format!("{rbac}/v1"), "kind": "ClusterRole", "metadata": {"name": name}, "rules": queue}),
        json!({"apiVersion": format!("{rbac}/v1"), "kind": "ClusterRoleBinding", "metadata": {"name": name},
            "subjects": account, "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": name}}),
        json!({"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "ElasticQuota",
            "metadata": {"name": format!("{name}-quota"), "namespace": name},
            "spec": {"min": {"nvidia.com/gpu": GPUS}, "max": {"nvidia.com/gpu": NODES * GPUS}}}),
        json!({"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": name},
            "spec": {"capability": {"nvidia.com/gpu": NODES * GPUS}}}),
    ]
}

fn pod(tenant: &str, number: usize) -> Value {
    let gpu = json!({"nvidia.com/gpu": "1"});
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": format!("{tenant}-job-{number}"), "namespace": tenant,
            "annotations": {"scheduling.volcano.sh/queue-name": tenant}},
        "spec": {"schedulerName": "quotient", "terminationGracePeriodSeconds": 0, "containers": [
            {"name": "c", "image": "i", "resources": {"requests": gpu, "limits": gpu}}]},
    })
}

fn running(plane: &ControlPlane, tenant: &str) -> usize {
    let runs = |pod: &&Value| pod["metadata"]["namespace"] == tenant && pod["status"]["phase"] == "Running";
    items(plane, "pods").iter().filter(runs).count()
}

impl Live {
    /// Amber borrows everything, birch reclaims its own, and cedar wants more than there is left.
    fn start() -> Live {
        let plane = ControlPlane::start(Options::default()).expect("the control plane starts");
        plane.install(&quotient_api::crd::definitions()).expect("the kinds are installed");
        let allocatable = json!({"cpu": "64", "memory": "256Gi", "nvidia.com/gpu": GPUS.to_string(), "pods": "110"});
        plane.make_nodes("n", NODES, &NodeShape { allocatable, labels: json!({}) }).expect("the nodes are made");
        for name in TENANTS {
            plane.apply(&tenant(name)).expect("the tenant is made");
        }
        let admin = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
            "metadata": {"name": "dashboard-admin"},
            "subjects": [{"kind": "ServiceAccount", "name": "dashboard-admin", "namespace": "default"}],
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}});
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": {"name": "dashboard-admin", "namespace": "default"}});
        plane.apply(&[account, admin]).expect("the administrator is made");
        let port = std::net::TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).expect("a port").port();
        let (log, recording) = (plane.folder().join("quotient.log"), plane.folder().join("trace.jsonl"));
        let (address, file) = (format!("127.0.0.1:{port}"), recording.display().to_string());
        let arguments = ["--dashboard", &address, "--dashboard-apply", "--record", &file];
        let daemon = Daemon::start(&plane.kubeconfig(), &log, &arguments);
        let live = Live { plane, daemon: Some(daemon), port, recording };
        for (name, pods, run) in [("amber", 12, 12), ("birch", 4, 4), ("cedar", 6, 4)] {
            let objects: Vec<Value> = (0..pods).map(|number| pod(name, number)).collect();
            eventually(&live.plane, "the pods are made", || live.plane.apply(&objects).ok());
            eventually(&live.plane, "its pods run", || (running(&live.plane, name) == run).then_some(()));
        }
        live
    }

    fn token(&self, namespace: &str, account: &str) -> String {
        let token = self.plane.kubectl(&["create", "token", account, "-n", namespace]).expect("a token is made");
        token.trim().to_owned()
    }

    /// Asks for a path, and gives the status and the body.
    fn ask(&self, token: &str, method: &str, path: &str, body: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).expect("the dashboard answers");
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout can be set");
        let authorization = if token.is_empty() { String::new() } else { format!("Authorization: Bearer {token}\r\n") };
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\n{authorization}X-Quotient: 1\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        )
        .expect("the request is sent");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).expect("the answer comes");
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let (head, body) = answer.split_once("\r\n\r\n").expect("it is HTTP");
        (head.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a status"), body.to_owned())
    }

    fn get(&self, token: &str, path: &str) -> Value {
        let (status, body) = self.ask(token, "GET", path, "");
        assert_eq!(status, 200, "{path}: {body}");
        serde_json::from_str(&body).expect("it is JSON")
    }

    /// What a page hears on its stream in the first moment.
    fn stream(&self, token: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).expect("the dashboard answers");
        write!(
            stream,
            "GET /api/events HTTP/1.1\r\nHost: localhost\r\nLast-Event-ID: 0\r\nAuthorization: Bearer {token}\r\n\r\n"
        )
        .expect("the request is sent");
        stream.set_read_timeout(Some(Duration::from_millis(500))).expect("a timeout can be set");
        let (mut text, begun) = (Vec::new(), Instant::now());
        let mut part = [0; 4096];
        while begun.elapsed() < Duration::from_secs(3) {
            match stream.read(&mut part) {
                Ok(0) => break,
                Ok(read) => text.extend_from_slice(&part[..read]),
                Err(_) => {}
            }
        }
        String::from_utf8_lossy(&text).into_owned()
    }
}

#[test]
fn the_dashboard_of_a_live_cluster() {
    let mut live = Live::start();
    let admin = live.token("default", "dashboard-admin");
    only_tokens_of_the_cluster_sign_in(&live, &admin);
    a_tenant_gets_no_name_of_another(&live);
    what_takes_too_much_ends_neither_the_pages_nor_the_scheduler(&live, &admin);
    a_change_is_tried_and_applied_with_the_viewers_rights(&live, &admin);
    drop(live.daemon.take());
    a_recording_is_replayed(&live.recording);
}

fn only_tokens_of_the_cluster_sign_in(live: &Live, admin: &str) {
    for path in ["/api/about", "/api/overview", "/api/quotas", "/api/events", "/api/object?name=Queue/amber"] {
        assert_eq!(live.ask("", "GET", path, "").0, 401, "{path}");
        assert_eq!(live.ask("not-a-token", "GET", path, "").0, 401, "{path}");
    }
    assert_eq!(live.ask("", "GET", "/", "").0, 200, "the page itself asks for a token");
    let overview = eventually(&live.plane, "the dashboard shows everything", || {
        let overview = live.get(admin, "/api/overview");
        (overview["running"] == 12 && overview["pending"] == 2).then_some(overview)
    });
    assert_eq!((&overview["whole"], &overview["nodes"]), (&json!(true), &json!(NODES)), "{overview}");
    let teams = overview["teams"].to_string();
    assert!(TENANTS.iter().all(|tenant| teams.contains(tenant)), "{teams}");
    assert_eq!(overview["evictionsLastHour"], 8, "{overview}");
}

/// SplitMix64.
struct Draw(u64);

impl Draw {
    fn of<'a, T: ?Sized>(&mut self, all: &[&'a T]) -> &'a T {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        all[((z ^ (z >> 31)) % all.len() as u64) as usize]
    }
}

/// A request with random parameters, most of which are names of some tenant.
fn request(draw: &mut Draw) -> (&'static str, String, String) {
    let name = draw.of(&TENANTS);
    let number = draw.of(&["0", "1", "5", "11", "-1", "999999999999", "x", ""]);
    let quota = draw.of(&["Queue/", "ElasticQuota/"]);
    let object =
        format!("{quota}{name}/{name}-quota").replace(&format!("Queue/{name}/{name}-quota"), &format!("Queue/{name}"));
    let path = match draw.of(&[
        "about", "overview", "quotas", "waiting", "nodes", "node", "pod", "find", "history", "at", "quota", "hours",
        "csv", "object", "what-if",
    ]) {
        "waiting" => {
            let sort = draw.of(&["name", "gpus", "position", "reason", "age"]);
            format!("/api/waiting?search={name}&team={name}&quota={object}&sort={sort}&offset={number}&limit={number}")
        }
        "node" => format!("/api/node?name=n-{number}"),
        "pod" => format!("/api/pod?namespace={name}&name={name}-job-{number}"),
        "find" => format!("/api/find?text={}", draw.of(&["job", name, "-", "%2F", ""])),
        "at" => format!("/api/history/at?at={number}"),
        "quota" => format!("/api/history/quota?object={object}"),
        "csv" => "/api/hours.csv".to_owned(),
        "object" => format!("/api/object?name={object}"),
        "what-if" => {
            let mut quota = tenant(name).swap_remove(6);
            quota["spec"]["min"]["nvidia.com/gpu"] = json!(draw.of(&["0", "8", "12", "-4", "64"]));
            return ("POST", "/api/what-if".to_owned(), json!({"change": quota.to_string()}).to_string());
        }
        other => format!("/api/{other}"),
    };
    ("GET", path, String::new())
}

fn a_tenant_gets_no_name_of_another(live: &Live) {
    let mut draw = Draw(19);
    let mut answered = 0;
    for own in TENANTS {
        let token = live.token(own, "viewer");
        let overview = live.get(&token, "/api/overview");
        assert_eq!(overview["whole"], false);
        assert_eq!(overview["nodes"], 0, "nodes may not be listed");
        let pods = items(&live.plane, "pods").iter().filter(|pod| pod["metadata"]["namespace"] == own).count() as u64;
        assert_eq!(overview["running"].as_u64().zip(overview["pending"].as_u64()).map(|(a, b)| a + b), Some(pods));
        let quotas = live.get(&token, "/api/quotas").to_string();
        assert!(quotas.contains(&format!("{own}-quota")) && quotas.contains(&format!("Queue/{own}")), "{quotas}");
        let mut texts = vec![("the stream".to_owned(), live.stream(&token))];
        for _ in 0..FUZZED_REQUESTS / TENANTS.len() {
            let (method, path, body) = request(&mut draw);
            let (status, text) = live.ask(&token, method, &path, &body);
            answered += usize::from(status == 200);
            texts.push((format!("{method} {path} {body}"), text));
        }
        for (asked, text) in texts {
            for other in TENANTS.iter().filter(|other| **other != own) {
                assert!(!text.contains(*other), "{own} asks {asked} and sees {other}: {text}");
            }
        }
    }
    assert!(answered > FUZZED_REQUESTS / 3, "{answered} requests were answered");
}

/// A tenant without rights on anything but its own pods asks for what no process can do.
fn what_takes_too_much_ends_neither_the_pages_nor_the_scheduler(live: &Live, admin: &str) {
    let tenant = live.token("amber", "viewer");
    let try_out = |objects: &[Value]| {
        let change = objects.iter().map(Value::to_string).collect::<Vec<_>>().join("\n---\n");
        live.ask(&tenant, "POST", "/api/what-if", &json!({"change": change}).to_string())
    };
    let template = json!({"metadata": {"labels": {"app": "a"}}, "spec": pod("amber", 0)["spec"]});
    let deployment = |index: usize| {
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": format!("d-{index}"), "namespace": "amber"},
            "spec": {"replicas": 100_000, "selector": {"matchLabels": {"app": "a"}}, "template": template}})
    };
    let many: Vec<Value> = (0..400).map(deployment).collect();
    let (status, refused) = try_out(&many);
    assert_eq!(status, 400, "{refused}");
    assert!(refused.contains("40000000 pods"), "{refused}");
    let device = "resource.k8s.io/v1";
    let deep = format!("device{} == 1", ".a".repeat(1500));
    let claim = json!({"apiVersion": device, "kind": "ResourceClaim", "metadata": {"name": "deep", "namespace": "amber"},
        "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "c", "selectors": [{"cel": {"expression": deep}}]}}]}}});
    let class = json!({"apiVersion": device, "kind": "DeviceClass", "metadata": {"name": "c"},
        "spec": {"selectors": [{"cel": {"expression": deep}}]}});
    let slice = json!({"apiVersion": device, "kind": "ResourceSlice", "metadata": {"name": "s"},
        "spec": {"driver": "d", "nodeName": "n-0", "pool": {"name": "n-0", "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": "x"}]}});
    let mut asks = pod("amber", 99);
    asks["spec"]["resourceClaims"] = json!([{"name": "r", "resourceClaimName": "deep"}]);
    let (status, answer) = try_out(&[class, slice, claim, asks]);
    assert!(status == 200 || answer.contains("nested too deep"), "{status} {answer}");
    // History is kept by the process of the pages, and pods are bound by the scheduler.
    assert_eq!(live.get(admin, "/api/overview")["evictionsLastHour"], 8);
}

fn a_change_is_tried_and_applied_with_the_viewers_rights(live: &Live, admin: &str) {
    let manifest = live.get(admin, "/api/object?name=ElasticQuota/cedar/cedar-quota");
    let manifest = manifest.as_str().expect("YAML").to_owned();
    assert!(manifest.contains("kind: ElasticQuota") && !manifest.contains("status:"), "{manifest}");
    let grown = manifest.replace("min:\n    nvidia.com/gpu: 4", "min:\n    nvidia.com/gpu: 6");
    assert_ne!(grown, manifest, "{manifest}");
    let shrunk = live.get(admin, "/api/object?name=ElasticQuota/birch/birch-quota").as_str().expect("YAML").to_owned();
    let shrunk = shrunk.replace("min:\n    nvidia.com/gpu: 4", "min:\n    nvidia.com/gpu: 2");
    let change = json!({"change": format!("{grown}\n---\n{shrunk}")}).to_string();
    let (status, answer) = live.ask(admin, "POST", "/api/what-if", &change);
    assert_eq!(status, 200, "{answer}");
    let answer: Value = serde_json::from_str(&answer).expect("it is JSON");
    assert_eq!((&answer["boundCount"], &answer["evictedCount"]), (&json!(2), &json!(2)), "{answer}");
    assert!(answer["evicted"].to_string().contains("birch/birch-job-"), "{answer}");
    assert_eq!(running(&live.plane, "cedar"), 4, "nothing happened to the cluster");
    let tenant = live.token("cedar", "viewer");
    let (status, refused) = live.ask(&tenant, "POST", "/api/apply", &change);
    assert_eq!(status, 403, "{refused}");
    assert!(refused.contains("system:serviceaccount:cedar:viewer"), "the API server names the viewer: {refused}");
    let (status, applied) = live.ask(admin, "POST", "/api/apply", &change);
    assert_eq!(status, 200, "{applied}");
    eventually(&live.plane, "cedar has six", || (running(&live.plane, "cedar") == 6).then_some(()));
    assert_eq!(running(&live.plane, "birch"), 2);
}

fn a_recording_is_replayed(path: &Path) {
    let output = quotient(&["replay", &path.display().to_string(), "-o", "json"]).output().expect("the program runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    let figures: Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
    let mut figures = figures[0].clone();
    figures["series"] = Value::Null;
    assert_eq!(figures["pods"]["submitted"], 22, "{figures}");
    assert_eq!(figures["pods"]["rejected"], 0, "{figures}");
    assert_eq!(figures["pods"]["started"], 22, "{figures}");
    // How many depends on milliseconds: an evicted pod ends in the trace about when a replay evicts it.
    assert!(figures["evictions"].as_u64() > Some(0), "{figures}");
    assert_eq!(figures["cards"][0]["count"], NODES * GPUS, "{figures}");
}

/// Playwright with Chromium; `make test-web` runs it.
#[test]
#[ignore = "needs Node.js and Chromium: `make test-web`"]
fn the_pages_of_a_live_cluster_in_a_browser() {
    let live = Live::start();
    let web = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../web");
    let status = Command::new("npm")
        .args(["run", "--silent", "test", "--", "--config", "playwright.live.config.ts"])
        .current_dir(web)
        .env("LIVE", format!("http://127.0.0.1:{}", live.port))
        .env("ADMIN_TOKEN", live.token("default", "dashboard-admin"))
        .env("TENANT_TOKEN", live.token("amber", "viewer"))
        .status()
        .expect("npm is there");
    assert!(status.success(), "the browser tests fail");
}
