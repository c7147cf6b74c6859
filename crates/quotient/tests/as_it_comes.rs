//! Two replicas with webhooks on a cluster as it comes, for minutes: they are ready and stay so, whatever the API
//! server does not serve, while one takes over from the other and while the API server behind a load balancer is
//! replaced.

use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use quotient_testenv::{ControlPlane, NodeShape, Options};
use serde_json::{Value, json};

use crate::daemon::{Daemon, ask, eventually, quotient};

const NAMESPACE: &str = "quotient-system";

/// What was broken counted as such after a minute.
const LONG: Duration = Duration::from_secs(75);

/// A kind of which nothing is heard is asked for again after three minutes.
const AGE_SECONDS_MAX: f64 = 200.0;

/// Passes connections on to the first of some ports that takes them.
struct Balancer {
    port: u16,
    open: Arc<Mutex<Vec<TcpStream>>>,
}

impl Balancer {
    fn start(targets: Vec<u16>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("it listens").port();
        let open = Arc::new(Mutex::new(Vec::new()));
        let known = open.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let connect = |port: &u16| TcpStream::connect(("127.0.0.1", *port)).ok();
                let Some(server) = targets.iter().find_map(connect) else { continue };
                for (from, to) in [(&stream, &server), (&server, &stream)] {
                    let (from, to) = (from.try_clone().expect("a handle"), to.try_clone().expect("a handle"));
                    let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
                    known.push(from.try_clone().expect("a handle"));
                    thread::spawn(move || pass(from, to));
                }
            }
        });
        Balancer { port, open }
    }

    /// Ends all connections.
    fn cut(&self) {
        for stream in self.open.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream) {
    let _ = std::io::copy(&mut from, &mut to);
    let _ = to.shutdown(std::net::Shutdown::Both);
    let _ = from.shutdown(std::net::Shutdown::Both);
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr()).expect("a port").port()
}

struct Replica {
    daemon: Daemon,
    metrics: u16,
}

impl Replica {
    fn is_ready(&self) -> bool {
        ask(self.metrics, "/readyz").is_some_and(|(status, _)| status == 200)
    }

    fn metrics(&self) -> String {
        ask(self.metrics, "/metrics").map(|(_, text)| text).unwrap_or_default()
    }

    fn leads(&self) -> bool {
        self.metrics().lines().any(|line| line == "quotient_leader 1")
    }

    /// The most seconds that nothing was heard of a kind.
    fn oldest(&self) -> f64 {
        let text = self.metrics();
        let lines = text.lines().filter(|line| line.starts_with("quotient_watch_age_seconds{"));
        lines.filter_map(|line| line.split(' ').next_back()?.parse().ok()).fold(0.0, f64::max)
    }
}

struct Town {
    plane: ControlPlane,
    api: Balancer,
    webhooks: Balancer,
    ports: [u16; 2],
    account: PathBuf,
}

impl Town {
    fn new() -> Self {
        let plane = ControlPlane::start(Options::default()).expect("the control plane starts");
        let ports = [free_port(), free_port()];
        let webhooks = Balancer::start(ports.to_vec());
        let url = format!("https://127.0.0.1:{}", webhooks.port);
        let printed = quotient(&["install", "--systems", "elastic,jobs", "--webhook-url", &url]).output();
        let printed = String::from_utf8(printed.expect("it runs").stdout).expect("it is text");
        let apply = ["apply", "--server-side", "--force-conflicts", "-f", "-"];
        // The CRDs come first, and are not served at once.
        eventually(&plane, "everything is installed", || plane.kubectl_with(&apply, &printed).ok());
        plane.make_nodes("n", 2, &NodeShape::default()).expect("the nodes are made");
        let account = plane.kubeconfig_of_account(NAMESPACE, "quotient").expect("it has a token");
        let text = std::fs::read_to_string(&account).expect("it was written");
        let mut config: Value = serde_json::from_str(&text).expect("it is JSON");
        let server = config["clusters"][0]["cluster"]["server"].as_str().expect("a server").to_string();
        let port: u16 = server.rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port");
        let api = Balancer::start(vec![port]);
        config["clusters"][0]["cluster"]["server"] = json!(format!("https://127.0.0.1:{}", api.port));
        std::fs::write(&account, config.to_string()).expect("it can be written");
        Town { plane, api, webhooks, ports, account }
    }

    fn start(&self, index: usize) -> Replica {
        let (metrics, log) = (free_port(), self.plane.folder().join("quotient.log"));
        let webhook = format!("127.0.0.1:{}", self.ports[index]);
        let daemon = Daemon::start_as(
            &self.account,
            &log,
            &[
                &["--lease", "quotient-system/quotient", "--lease-duration", "4s"][..],
                &["--metrics", &format!("127.0.0.1:{metrics}"), "--webhook", &webhook],
                &["--webhook-url", &format!("https://127.0.0.1:{}", self.webhooks.port)],
            ]
            .concat(),
        );
        let replica = Replica { daemon, metrics };
        eventually(&self.plane, "the replica is ready", || replica.is_ready().then_some(()));
        replica
    }

    /// All replicas are ready all the time, webhooks answer, and pods are bound.
    fn goes_on(&self, replicas: &[Replica], time: Duration, round: &str) {
        let begun = Instant::now();
        let mut index = 0;
        while begun.elapsed() < time {
            for (number, replica) in replicas.iter().enumerate() {
                assert!(replica.is_ready(), "{round}: replica {number} after {} s", begun.elapsed().as_secs());
            }
            let quota = json!({"apiVersion": "nos.nebuly.com/v1alpha1", "kind": "ElasticQuota",
                "metadata": {"name": "quota", "namespace": "work"}, "spec": {"min": {"cpu": 30 + index % 2}}});
            self.plane.apply(&[quota]).unwrap_or_else(|error| panic!("{round}: the webhooks answer: {error}"));
            let name = format!("p-{round}-{index}");
            self.plane.apply(&[pod(&name)]).unwrap_or_else(|error| panic!("{round}: {error}"));
            eventually(&self.plane, "the pod runs", || {
                let phase = ["get", "pod", &name, "-n", "work", "-o", "jsonpath={.status.phase}"];
                (self.plane.kubectl(&phase).ok()? == "Running").then_some(())
            });
            self.plane.kubectl(&["delete", "pod", &name, "-n", "work", "--wait=false"]).expect("it is there");
            index += 1;
            thread::sleep(Duration::from_secs(2));
        }
        for replica in replicas {
            let oldest = replica.oldest();
            assert!(oldest < AGE_SECONDS_MAX, "{round}: nothing was heard of a kind for {oldest} s");
        }
    }
}

fn pod(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "work"},
        "spec": {"schedulerName": "quotient", "terminationGracePeriodSeconds": 0, "containers": [
            {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]}})
}

#[test]
#[ignore = "takes five minutes: `make minutes`"]
fn replicas_are_ready_for_minutes_through_a_handover_and_a_new_api_server() {
    let mut town = Town::new();
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "work"}});
    town.plane.apply(&[namespace]).expect("it is made");
    eventually(&town.plane, "the namespace is ready", || {
        town.plane.kubectl(&["get", "serviceaccount", "default", "-n", "work"]).ok()
    });
    let mut replicas = vec![town.start(0), town.start(1)];
    town.goes_on(&replicas, LONG, "quiet");

    let leader = replicas.iter().position(Replica::leads).expect("one of them leads");
    replicas.remove(leader).daemon.stop();
    town.goes_on(&replicas, Duration::from_secs(5), "alone");
    replicas.push(town.start(leader));
    town.goes_on(&replicas, Duration::from_secs(5), "again");

    town.api.cut();
    town.goes_on(&replicas, LONG, "cut");

    town.plane.restart_api_server().expect("it comes back");
    town.api.cut();
    for replica in &replicas {
        eventually(&town.plane, "it is ready again", || replica.is_ready().then_some(()));
    }
    town.goes_on(&replicas, LONG, "replaced");
}
