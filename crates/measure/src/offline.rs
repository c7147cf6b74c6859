//! `quotient simulate` on files, without a cluster: how long it takes and how much memory.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use quotient_replay::openb;
use quotient_replay::trace::Event;
use serde_json::{Value, json};

use crate::contender::peak_mib;
use crate::town::{namespace_name, node_name};

/// What is simulated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Input {
    /// 1,523 nodes and 8,152 pods of the openb trace, all pending at once.
    Openb,
    /// As much text of running pods, as an API server shows them.
    RunningPods { bytes: usize },
    /// One Deployment with as many replicas.
    Deployment { replicas: usize },
}

/// How objects are written down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    Json,
    Yaml,
}

/// How often memory is read while the program runs. The kernel keeps the peak, so only what is allocated in the last
/// moment can be missed.
const READ_EVERY: Duration = Duration::from_millis(2);

/// A folder that goes with the value.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Runs `quotient simulate` once on what is written to a file before.
pub fn simulate(input: Input, format: Format, openb: Option<&Path>, quotient: &Path) -> Result<Value> {
    let folder = Folder(std::env::temp_dir().join(format!("quotient-measure-{}", std::process::id())));
    fs::create_dir_all(&folder.0)?;
    let file = folder.0.join(match format {
        Format::Json => "objects.json",
        Format::Yaml => "objects.yaml",
    });
    let objects = match input {
        Input::Openb => openb_objects(openb)?,
        Input::RunningPods { bytes } => running_pods(bytes),
        Input::Deployment { replicas } => deployment(replicas),
    };
    write(&file, format, &objects)?;
    let answer = folder.0.join("answer.json");
    let begun = Instant::now();
    let mut child = Command::new(quotient)
        .args(["simulate", "-o", "json"])
        .arg(&file)
        .stdin(Stdio::null())
        .stdout(File::create(&answer)?)
        .stderr(Stdio::null())
        .spawn()
        .with_context(|| format!("{} cannot be started", quotient.display()))?;
    let mut peak = 0.0f64;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        peak = peak.max(peak_mib(child.id()));
        std::thread::sleep(READ_EVERY);
    };
    let seconds = begun.elapsed().as_secs_f64();
    ensure!(status.success(), "quotient simulate ended with {status}");
    let answer: Value = serde_json::from_slice(&fs::read(&answer)?)?;
    let pods = answer["pods"].as_array().map_or(&[][..], Vec::as_slice);
    let placed = pods.iter().filter(|pod| pod["node"].is_string()).count();
    Ok(json!({"seconds": seconds, "peak_mib": peak, "megabytes": fs::metadata(&file)?.len() as f64 / 1e6,
        "pods": pods.len(), "placed": placed}))
}

fn write(file: &Path, format: Format, objects: &[Value]) -> Result<()> {
    let mut file = BufWriter::new(File::create(file)?);
    match format {
        Format::Json => write!(file, "{}", json!({"apiVersion": "v1", "kind": "List", "items": objects}))?,
        Format::Yaml => {
            for object in objects {
                writeln!(file, "---\n{}", serde_saphyr::to_string(object)?)?;
            }
        }
    }
    Ok(file.flush()?)
}

fn openb_objects(folder: Option<&Path>) -> Result<Vec<Value>> {
    let folder = folder.context("expected --openb FOLDER with the CSV files of the trace")?;
    let read = |name: &str| {
        let path = folder.join(name);
        fs::read_to_string(&path).with_context(|| format!("{} cannot be read", path.display()))
    };
    let (nodes, pods) = ("openb_node_list_all_node.csv", "openb_pod_list_default.csv");
    let trace = openb::read((nodes, &read(nodes)?), (pods, &read(pods)?))?;
    let applied = trace.events.into_iter().filter_map(|(_, event)| match event {
        Event::Apply { object, .. } => Some(object),
        _ => None,
    });
    Ok(trace.objects.into_iter().chain(applied).collect())
}

fn nodes(count: usize) -> impl Iterator<Item = Value> {
    let amounts = json!({"cpu": "64", "memory": "256Gi", "pods": "110"});
    (0..count).map(move |index| {
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": node_name(index)},
            "status": {"allocatable": amounts, "capacity": amounts, "conditions": [{"type": "Ready", "status": "True"}]}})
    })
}

fn deployment(replicas: usize) -> Vec<Value> {
    let container = json!({"name": "main", "image": "none",
        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}}});
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "team"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container]}}}});
    nodes(replicas.div_ceil(40)).chain([deployment]).collect()
}

/// Pods with all that an API server and a kubelet add to them.
fn running_pods(bytes: usize) -> Vec<Value> {
    const NODES: usize = 1000;
    let size = running_pod(0, 0).to_string().len();
    nodes(NODES).chain((0..bytes / size).map(|index| running_pod(index, index % NODES))).collect()
}

fn running_pod(index: usize, node: usize) -> Value {
    let time = "2026-01-01T00:00:00Z";
    let toleration =
        |key: &str| json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300});
    let condition = |name: &str| json!({"type": name, "status": "True", "lastTransitionTime": time});
    let conditions = ["PodScheduled", "Initialized", "ContainersReady", "Ready"].map(condition);
    let image = "registry.example.com/app:1.2.3";
    json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": format!("pod-{index}"), "namespace": namespace_name(index % 20),
            "uid": format!("00000000-0000-0000-0000-{index:012}"), "resourceVersion": (1000 + index).to_string(),
            "creationTimestamp": time,
            "labels": {"app": format!("app-{}", index % 500), "pod-template-hash": "5d4f8c7b9"}},
        "spec": {"nodeName": node_name(node), "schedulerName": "quotient", "serviceAccountName": "default",
            "restartPolicy": "Always", "terminationGracePeriodSeconds": 30, "dnsPolicy": "ClusterFirst", "priority": 0,
            "tolerations": [toleration("node.kubernetes.io/not-ready"), toleration("node.kubernetes.io/unreachable")],
            "containers": [{"name": "main", "image": image, "imagePullPolicy": "IfNotPresent",
                "env": [{"name": "NAME", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}}],
                "ports": [{"containerPort": 8080, "protocol": "TCP"}],
                "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "128Mi"}},
                "volumeMounts": [{"name": "token", "mountPath": "/var/run/secrets/token", "readOnly": true}]}],
            "volumes": [{"name": "token", "projected": {"defaultMode": 420,
                "sources": [{"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}}]}}]},
        "status": {"phase": "Running", "podIP": "10.0.0.1", "startTime": time, "qosClass": "Burstable",
            "conditions": conditions,
            "containerStatuses": [{"name": "main", "ready": true, "restartCount": 0, "image": image,
                "imageID": "sha256:0", "containerID": "containerd://0", "state": {"running": {"startedAt": time}}}]}})
}
