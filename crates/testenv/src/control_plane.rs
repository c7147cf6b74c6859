//! A control plane: started, asked, disturbed, stopped.

use std::fs;
use std::io::Write;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::TestenvError;
use crate::certificates::{Authority, Identity, signing_key};
use crate::program::{Program, watch};
use crate::programs;

/// Switches Kubernetes' own groups of pods on. The kind is off where nobody says otherwise, and older servers lack it.
const POD_GROUPS: &str = "--feature-gates=GenericWorkload=true";
const POD_GROUPS_SERVED: &str = "--runtime-config=scheduling.k8s.io/v1beta1=true";

/// How long a program may take to be ready. It takes seconds; the rest is for machines that do much else.
const READY_SECONDS: u64 = 180;

/// What a control plane has beyond etcd and the API server. Features of Kubernetes are as most clusters have them.
#[derive(Debug, Clone)]
pub struct Options {
    /// Kubernetes' own groups of pods are served, which are off as it comes.
    pub pod_groups: bool,
    /// Makes pods for Deployments and Jobs, keeps disruption budgets, gives namespaces their service account.
    pub controller_manager: bool,
    /// Each controller has an account of its own, as in a cluster, and none may do everything.
    pub controller_accounts: bool,
    /// Plays the nodes and lets bound pods run.
    pub kwok: bool,
    /// Every request goes to a log, see [`ControlPlane::audit_log`].
    pub audit: bool,
    /// More arguments of the API server.
    pub api_server: Vec<String>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            pod_groups: false,
            controller_manager: true,
            controller_accounts: false,
            kwok: true,
            audit: false,
            api_server: Vec::new(),
        }
    }
}

impl Options {
    /// All that this program uses is switched on, as far as the version of Kubernetes has it.
    pub fn with_all_features() -> Self {
        Options { pod_groups: programs::older().is_none(), ..Options::default() }
    }
}

/// What a node that kwok plays offers.
#[derive(Debug, Clone)]
pub struct NodeShape {
    pub allocatable: Value,
    pub labels: Value,
}

impl Default for NodeShape {
    fn default() -> Self {
        let allocatable = json!({"cpu": "32", "memory": "256Gi", "nvidia.com/gpu": "8", "pods": "110"});
        NodeShape { allocatable, labels: json!({}) }
    }
}

/// A running control plane.
#[derive(Debug)]
pub struct ControlPlane {
    programs: PathBuf,
    folder: PathBuf,
    port: u16,
    authority: Authority,
    options: Options,
    api_server_arguments: Vec<String>,
    // In the order in which they are dropped: users before servers.
    kwok: Option<Program>,
    controller_manager: Option<Program>,
    api_server: Option<Program>,
    etcd: Option<Program>,
    /// Removes the folder when we are gone without a word.
    _cleaner: Child,
}

static STARTED: AtomicU32 = AtomicU32::new(0);

impl ControlPlane {
    /// Starts one and waits until it is ready.
    pub fn start(options: Options) -> Result<Self, TestenvError> {
        let programs = programs::folder()?;
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("quotient-testenv-{}-{number}", std::process::id()));
        fs::create_dir_all(&folder).map_err(|error| file_error(&folder, error))?;
        let cleaner = watch(&format!("sleep 1; rm -rf '{}'", folder.display())).map_err(|e| file_error(&folder, e))?;
        let mut plane = ControlPlane {
            programs,
            folder,
            port: free_port()?,
            authority: Authority::new()?,
            options,
            api_server_arguments: Vec::new(),
            kwok: None,
            controller_manager: None,
            api_server: None,
            etcd: None,
            _cleaner: cleaner,
        };
        plane.prepare()?;
        plane.start_all()?;
        Ok(plane)
    }

    /// The configuration of a user who may do everything.
    pub fn kubeconfig(&self) -> PathBuf {
        self.folder.join("kubeconfig")
    }

    /// The configuration of a user who may do what RBAC allows.
    pub fn kubeconfig_of(&self, user: &str, groups: &[&str]) -> Result<PathBuf, TestenvError> {
        let identity = self.authority.user(user, groups)?;
        let file = format!("kubeconfig-{}", user.replace([':', '/'], "-"));
        self.write(&file, &self.kubeconfig_text(by_certificate(&identity)))
    }

    /// The configuration of a service account, with a token that lasts for an hour.
    pub fn kubeconfig_of_account(&self, namespace: &str, account: &str) -> Result<PathBuf, TestenvError> {
        let token = self.kubectl(&["create", "token", account, "-n", namespace, "--duration=1h"])?;
        let user = json!({"token": token.trim()});
        self.write(&format!("kubeconfig-{namespace}-{account}"), &self.kubeconfig_text(user))
    }

    /// The certificate of the authority that the control plane trusts, as PEM.
    pub fn authority(&self) -> &str {
        &self.authority.certificate
    }

    /// A certificate for a server with these names and addresses, signed by that authority.
    pub fn certificate(&self, names: &[&str]) -> Result<Identity, TestenvError> {
        self.authority.server(names)
    }

    /// The log of all requests, one JSON object a line, where it was asked for.
    pub fn audit_log(&self) -> PathBuf {
        self.folder.join("audit.log")
    }

    /// A folder that goes with the control plane.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The processes of etcd and the API server, for those who measure.
    pub fn server_processes(&self) -> Vec<u32> {
        self.etcd.iter().chain(&self.api_server).map(Program::id).collect()
    }

    /// Where the programs are, for those who run one by themselves.
    pub fn programs(&self) -> &Path {
        &self.programs
    }

    /// Runs kubectl as the user who may do everything; returns what it prints.
    pub fn kubectl(&self, arguments: &[&str]) -> Result<String, TestenvError> {
        self.kubectl_with(arguments, "")
    }

    /// The same, with something to read from its input.
    pub fn kubectl_with(&self, arguments: &[&str], input: &str) -> Result<String, TestenvError> {
        let failed = |message: String| TestenvError::Kubectl { arguments: arguments.join(" "), message };
        let mut child = Command::new(self.programs.join("kubectl"))
            .arg("--kubeconfig")
            .arg(self.kubeconfig())
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| failed(error.to_string()))?;
        let mut stdin = child.stdin.take().expect("its input is a pipe, as asked for above");
        let input = input.to_string();
        let writer = thread::spawn(move || stdin.write_all(input.as_bytes()));
        let output = child.wait_with_output().map_err(|error| failed(error.to_string()))?;
        // It may stop reading before all is written; what it says of that is in its output.
        let _ = writer.join();
        match output.status.success() {
            true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
            false => Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_string())),
        }
    }

    /// Applies objects, in order, as one request each.
    pub fn apply(&self, objects: &[Value]) -> Result<(), TestenvError> {
        let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
        self.kubectl_with(&["apply", "--server-side", "--force-conflicts", "-f", "-"], &list.to_string()).map(drop)
    }

    /// Installs definitions of kinds, and waits until they are served.
    pub fn install(&self, definitions: &[Value]) -> Result<(), TestenvError> {
        self.apply(definitions)?;
        let mut arguments = vec!["wait", "--for=condition=Established", "--timeout=60s"];
        let names: Vec<String> = definitions
            .iter()
            .filter_map(|definition| definition.pointer("/metadata/name").and_then(Value::as_str))
            .map(|name| format!("crd/{name}"))
            .collect();
        arguments.extend(names.iter().map(String::as_str));
        self.kubectl(&arguments).map(drop)
    }

    /// Makes nodes `prefix-0` … and waits until they are ready.
    pub fn make_nodes(&self, prefix: &str, count: usize, shape: &NodeShape) -> Result<(), TestenvError> {
        if count == 0 {
            return Ok(());
        }
        self.make_named_nodes(&(0..count).map(|index| format!("{prefix}-{index}")).collect::<Vec<_>>(), shape)
    }

    /// Makes nodes with these names, and waits until they are ready if kwok plays them.
    pub fn make_named_nodes(&self, names: &[String], shape: &NodeShape) -> Result<(), TestenvError> {
        let node = |name: &String| {
            let mut labels = shape.labels.clone();
            labels["kubernetes.io/hostname"] = json!(name);
            json!({
                "apiVersion": "v1", "kind": "Node",
                "metadata": {"name": name, "labels": labels, "annotations": {"kwok.x-k8s.io/node": "fake"}},
                "status": {"allocatable": shape.allocatable, "capacity": shape.allocatable},
            })
        };
        let nodes: Vec<Value> = names.iter().map(node).collect();
        let list = json!({"apiVersion": "v1", "kind": "List", "items": nodes});
        self.kubectl_with(&["create", "-f", "-"], &list.to_string())?;
        if self.options.kwok {
            let names: Vec<String> = names.iter().map(|name| format!("node/{name}")).collect();
            let mut arguments = vec!["wait", "--for=condition=Ready", "--timeout=120s"];
            arguments.extend(names.iter().map(String::as_str));
            self.kubectl(&arguments)?;
        }
        Ok(())
    }

    /// Ends the API server as a crash does, and starts it again on the same port.
    pub fn restart_api_server(&mut self) -> Result<(), TestenvError> {
        self.stop_api_server();
        self.start_api_server()
    }

    /// Lets the storage stand still for a while: nothing is read or written meanwhile, and nothing is lost.
    pub fn pause_storage(&self, pause: Duration) {
        let Some(etcd) = &self.etcd else { return };
        let signal = |name: &str| Command::new("kill").args([name, &etcd.id().to_string()]).status();
        if signal("-STOP").is_ok_and(|status| status.success()) {
            thread::sleep(pause);
            let _ = signal("-CONT");
        }
    }

    /// Ends the API server as a crash does.
    pub fn stop_api_server(&mut self) {
        self.api_server = None;
    }

    /// Starts the API server again, and waits until it is ready.
    pub fn start_api_server(&mut self) -> Result<(), TestenvError> {
        let program = Program::start(&self.programs, "kube-apiserver", &self.api_server_arguments, &self.folder)?;
        self.api_server = Some(program);
        self.await_api_server()
    }

    /// Certificates, keys, configurations and arguments, before anything runs.
    fn prepare(&mut self) -> Result<(), TestenvError> {
        let server = self.authority.server(&["127.0.0.1", "localhost", "kubernetes.default.svc"])?;
        let authority = self.write("ca.crt", &self.authority.certificate)?;
        let certificate = self.write("server.crt", &server.certificate)?;
        let key = self.write("server.key", &server.key)?;
        let (signing, checking) = signing_key()?;
        let signing = self.write("service-accounts.key", &signing)?;
        let checking = self.write("service-accounts.pub", &checking)?;
        let admin = self.authority.user("admin", &["system:masters"])?;
        self.write("kubeconfig", &self.kubeconfig_text(by_certificate(&admin)))?;
        let etcd_port = free_port()?;
        let mut arguments = vec![
            format!("--etcd-servers=http://127.0.0.1:{etcd_port}"),
            "--bind-address=127.0.0.1".to_string(),
            "--advertise-address=127.0.0.1".to_string(),
            // Endpoints may not be loopback addresses, and nothing here asks for those of the API server.
            "--endpoint-reconciler-type=none".to_string(),
            format!("--secure-port={}", self.port),
            format!("--cert-dir={}", self.folder.display()),
            format!("--tls-cert-file={}", certificate.display()),
            format!("--tls-private-key-file={}", key.display()),
            format!("--client-ca-file={}", authority.display()),
            "--service-account-issuer=https://kubernetes.default.svc".to_string(),
            format!("--service-account-key-file={}", checking.display()),
            format!("--service-account-signing-key-file={}", signing.display()),
            "--service-cluster-ip-range=10.0.0.0/24".to_string(),
            "--authorization-mode=Node,RBAC".to_string(),
        ];
        if self.options.pod_groups {
            arguments.extend([POD_GROUPS.to_string(), POD_GROUPS_SERVED.to_string()]);
        }
        if self.options.audit {
            let policy = json!({"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [{"level": "Metadata"}],
                "omitStages": ["RequestReceived", "ResponseStarted"]});
            let policy = self.write("audit-policy.yaml", &policy.to_string())?;
            arguments.push(format!("--audit-policy-file={}", policy.display()));
            arguments.push(format!("--audit-log-path={}", self.audit_log().display()));
        }
        arguments.extend(self.options.api_server.iter().cloned());
        self.api_server_arguments = arguments;
        let peer_port = free_port()?;
        let etcd_arguments = [
            format!("--data-dir={}", self.folder.join("etcd").display()),
            format!("--listen-client-urls=http://127.0.0.1:{etcd_port}"),
            format!("--advertise-client-urls=http://127.0.0.1:{etcd_port}"),
            format!("--listen-peer-urls=http://127.0.0.1:{peer_port}"),
            format!("--initial-advertise-peer-urls=http://127.0.0.1:{peer_port}"),
            format!("--initial-cluster=default=http://127.0.0.1:{peer_port}"),
            // What it keeps is thrown away with it.
            "--unsafe-no-fsync".to_string(),
        ];
        self.etcd = Some(Program::start(&self.programs, "etcd", &etcd_arguments, &self.folder)?);
        Ok(())
    }

    fn start_all(&mut self) -> Result<(), TestenvError> {
        self.start_api_server()?;
        let kubeconfig = self.kubeconfig().display().to_string();
        if self.options.controller_manager {
            let mut arguments = vec![
                format!("--kubeconfig={kubeconfig}"),
                format!("--service-account-private-key-file={}", self.folder.join("service-accounts.key").display()),
                format!("--root-ca-file={}", self.folder.join("ca.crt").display()),
                "--leader-elect=false".to_string(),
                // The defaults are for clusters in which it must not be in the way of others.
                "--kube-api-qps=500".to_string(),
                "--kube-api-burst=1000".to_string(),
                // How long a claim may wait for a volume that comes after it.
                "--pvclaimbinder-sync-period=1s".to_string(),
                "--secure-port=0".to_string(),
            ];
            if self.options.pod_groups {
                arguments.push(POD_GROUPS.to_string());
            }
            if self.options.controller_accounts {
                let own = self.kubeconfig_of("system:kube-controller-manager", &[])?;
                arguments[0] = format!("--kubeconfig={}", own.display());
                arguments.push("--use-service-account-credentials=true".to_string());
            }
            let program = Program::start(&self.programs, "kube-controller-manager", &arguments, &self.folder)?;
            self.controller_manager = Some(program);
        }
        if self.options.kwok {
            let stages = self.stages()?;
            let arguments = [
                format!("--kubeconfig={kubeconfig}"),
                format!("--config={}", stages.display()),
                "--manage-all-nodes=true".to_string(),
                // Nodes live by their leases, as real ones do.
                "--node-lease-duration-seconds=40".to_string(),
                format!("--server-address=127.0.0.1:{}", free_port()?),
            ];
            self.kwok = Some(Program::start(&self.programs, "kwok", &arguments, &self.folder)?);
        }
        if self.options.controller_manager {
            // A pod needs its namespace's service account, which is the controller manager's to make.
            self.await_that(&["get", "serviceaccount", "default"], |plane| plane.controller_manager.as_mut())?;
        }
        Ok(())
    }

    /// How kwok plays nodes and pods, as it comes with it, but for two things: pods of Jobs run until they are ended,
    /// and a node that somebody says is not ready is not.
    fn stages(&self) -> Result<PathBuf, TestenvError> {
        let path = self.programs.join("stages.yaml");
        let text = fs::read_to_string(&path).map_err(|error| file_error(&path, error))?;
        let completes = |stage: &&str| !stage.lines().any(|line| line.trim() == "name: pod-complete");
        let kept: Vec<&str> = text.split("\n---\n").filter(completes).collect();
        let unready = "      operator: 'NotIn'\n      values:\n      - 'True'\n  next:\n    statusTemplate: |\n      {{ $now := Now }}\n      {{ $last";
        let unknown =
            "      operator: 'DoesNotExist'\n  next:\n    statusTemplate: |\n      {{ $now := Now }}\n      {{ $last";
        self.write("stages.yaml", &kept.join("\n---\n").replace(unready, unknown))
    }

    fn await_api_server(&mut self) -> Result<(), TestenvError> {
        self.await_that(&["get", "--raw", "/readyz"], |plane| plane.api_server.as_mut())
    }

    /// Waits until kubectl says yes, while the program runs that this depends on.
    fn await_that(
        &mut self,
        arguments: &[&str],
        program: fn(&mut Self) -> Option<&mut Program>,
    ) -> Result<(), TestenvError> {
        let begun = Instant::now();
        loop {
            if self.kubectl(arguments).is_ok() {
                return Ok(());
            }
            if let Some(etcd) = self.etcd.as_mut()
                && !etcd.is_running()
            {
                return Err(TestenvError::Ended { program: etcd.name().to_string(), log: etcd.log_end() });
            }
            if let Some(program) = program(self) {
                let (name, log) = (program.name().to_string(), program.log_end());
                if !program.is_running() {
                    return Err(TestenvError::Ended { program: name, log });
                }
                if begun.elapsed() > Duration::from_secs(READY_SECONDS) {
                    return Err(TestenvError::Late { program: name, seconds: READY_SECONDS, log });
                }
            }
            thread::sleep(Duration::from_millis(100));
        }
    }

    fn kubeconfig_text(&self, user: Value) -> String {
        json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "testenv",
            "contexts": [{"name": "testenv", "context": {"cluster": "testenv", "user": "user"}}],
            "clusters": [{"name": "testenv", "cluster": {
                "server": format!("https://127.0.0.1:{}", self.port),
                "certificate-authority-data": base64(self.authority.certificate.as_bytes()),
            }}],
            "users": [{"name": "user", "user": user}],
        })
        .to_string()
    }

    fn write(&self, name: &str, text: &str) -> Result<PathBuf, TestenvError> {
        let path = self.folder.join(name);
        fs::write(&path, text).map_err(|error| file_error(&path, error))?;
        Ok(path)
    }
}

impl Drop for ControlPlane {
    fn drop(&mut self) {
        self.kwok = None;
        self.controller_manager = None;
        self.api_server = None;
        self.etcd = None;
        let _ = fs::remove_dir_all(&self.folder);
        // Its pipe is closed by now or soon, and there is nothing left for it to remove.
        let _ = self._cleaner.kill();
        let _ = self._cleaner.wait();
    }
}

/// A user of a kubeconfig who is known by a certificate. It goes in as it is, and the files beside it are not needed.
fn by_certificate(identity: &Identity) -> Value {
    let encode = |pem: &str| base64(pem.as_bytes());
    json!({"client-certificate-data": encode(&identity.certificate), "client-key-data": encode(&identity.key)})
}

fn file_error(path: &Path, error: std::io::Error) -> TestenvError {
    TestenvError::File { path: path.display().to_string(), error }
}

/// A port that nobody listens on.
fn free_port() -> Result<u16, TestenvError> {
    let listener = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    listener.map(|address| address.port()).map_err(|error| file_error(Path::new("127.0.0.1:0"), error))
}

/// Bytes as a kubeconfig has them.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let word = chunk.iter().fold(0u32, |word, byte| word << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for place in 0..4 {
            let digit = DIGITS[(word >> (18 - 6 * place) & 63) as usize];
            text.push(if place <= chunk.len() { char::from(digit) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_pads() {
        for (bytes, text) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")] {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
    }
}
