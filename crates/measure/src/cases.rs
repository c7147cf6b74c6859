//! What is measured, each on a control plane of its own.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use http::Method;
use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{sleep, timeout};

use crate::api::{JSON, STRATEGIC, written};
use crate::contender::{Contender, Scheduler};
use crate::quiet::await_quiet;
use crate::town::{PODS, Quotas, Town, namespace_name, node_name, pod};

/// If nothing is bound for so long, the case failed.
const PATIENCE: Duration = Duration::from_secs(120);

/// Pods that leave their nodes wait for this much, by which of them they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leaving {
    AtOnce,
    /// From 1 to 10 seconds.
    Slowly,
    /// 30 seconds, as long as a pod has by default.
    Late,
}

/// Pods that are bound, as the API server tells: when, and namespace/name.
type Binds = UnboundedReceiver<(Instant, String)>;

pub async fn binds(town: &Town) -> Result<Binds> {
    let bound = |event: &Value| {
        let name = |field: &str| event["object"]["metadata"][field].as_str().unwrap_or_default().to_string();
        (event["type"] == "ADDED").then(|| format!("{}/{}", name("namespace"), name("name")))
    };
    town.api.watch_pods("fieldSelector=spec.nodeName%21%3D", bound).await
}

/// Waits for so many binds; returns when each came.
pub async fn await_binds(binds: &mut Binds, count: usize, who: Option<&Contender>) -> Result<Vec<(Instant, String)>> {
    let mut seen = Vec::with_capacity(count);
    while seen.len() < count {
        match timeout(PATIENCE, binds.recv()).await {
            Ok(Some(bind)) => seen.push(bind),
            _ => {
                let log = who.map(Contender::log_end).unwrap_or_default();
                bail!("{} of {count} pods were bound, then none for {} s\n{log}", seen.len(), PATIENCE.as_secs())
            }
        }
    }
    Ok(seen)
}

/// The API server alone: every pod is bound by a request, and nobody decides. With `events`, an Event follows each.
pub async fn limit(nodes: usize, pods: usize, events: bool) -> Result<Value> {
    let town = Town::start().await?;
    town.make_nodes(nodes).await?;
    town.make_quotas(Quotas::None).await?;
    town.make_pods(pods, Quotas::None, Scheduler::Kube).await?;
    let mut binds = binds(&town).await?;
    let cpu = town.server_cpu_seconds();
    let begun = Instant::now();
    let bind = |index: usize| {
        let (namespace, name) = (namespace_name(index % Quotas::None.count()), format!("pod-{index}"));
        let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"namespace": namespace, "name": name},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node_name(index % nodes)}});
        let path = format!("/api/v1/namespaces/{namespace}/pods/{name}/binding");
        let event = events.then(|| {
            let event = json!({"apiVersion": "v1", "kind": "Event", "type": "Normal", "reason": "Scheduled",
                "metadata": {"namespace": namespace, "name": format!("{name}.scheduled")}, "message": "bound",
                "involvedObject": {"apiVersion": "v1", "kind": "Pod", "namespace": namespace, "name": name}});
            (Method::POST, format!("/api/v1/namespaces/{namespace}/events"), JSON, event)
        });
        [Some((Method::POST, path, JSON, binding)), event].into_iter().flatten()
    };
    town.api.ask_all((0..pods).flat_map(bind)).await?;
    let seconds = begun.elapsed().as_secs_f64();
    await_binds(&mut binds, pods, None).await?;
    let server = (town.server_cpu_seconds() - cpu) / pods as f64 * 1000.0;
    let rate = pods as f64 / seconds;
    Ok(json!({"written_per_s": rate, "pods_per_s": rate, "server_cpu_s_per_1000": server}))
}

/// Pods that wait when the scheduler starts: from its first bind to its last, and until all is written.
pub async fn fill(who: Scheduler, nodes: usize, pods: usize, quotas: Quotas, quotient: &Path) -> Result<Value> {
    let town = Town::start().await?;
    town.make_nodes(nodes).await?;
    town.make_quotas(quotas).await?;
    town.make_pods(pods, quotas, who).await?;
    filled(&town, who, pods, quotient).await
}

/// Starts a scheduler where pods wait: from its first bind to its last, and until all is written.
pub async fn filled(town: &Town, who: Scheduler, pods: usize, quotient: &Path) -> Result<Value> {
    let mut binds = binds(town).await?;
    let (writes, server) = (town.api.writes().await?, town.server_cpu_seconds());
    let begun = Instant::now();
    let contender = Contender::start(who, &town.plane, quotient)?;
    let seen = await_binds(&mut binds, pods, Some(&contender)).await?;
    let (first, last) = (seen[0].0, seen[pods - 1].0);
    // Events and statuses are part of the work.
    let written_at = await_quiet(&town.api).await?.max(last);
    let cpu = contender.cpu_seconds();
    let server = (town.server_cpu_seconds() - server) / pods as f64 * 1000.0;
    Ok(json!({
        "written_per_s": (pods - 1) as f64 / (written_at - first).as_secs_f64(),
        "pods_per_s": (pods - 1) as f64 / (last - first).as_secs_f64(),
        "first_bind_s": (first - begun).as_secs_f64(),
        "cpu_s_per_1000": cpu / pods as f64 * 1000.0,
        "server_cpu_s_per_1000": server,
        "peak_mib": contender.peak_mib(),
        "log_lines": contender.log_lines(),
        "writes": written(&writes, &town.api.writes().await?),
    }))
}

/// Pods that arrive at a steady rate: how long from the answer to their creation to their bind being seen.
pub async fn stream(who: Scheduler, nodes: usize, rate: usize, seconds: usize, quotient: &Path) -> Result<Value> {
    let (town, quotas) = (Town::start().await?, Quotas::Elastic(20));
    town.make_nodes(nodes).await?;
    town.make_quotas(quotas).await?;
    let mut binds = binds(&town).await?;
    let contender = Contender::start(who, &town.plane, quotient)?;
    await_ready(&town, &mut binds, who, &contender).await?;
    let cpu = contender.cpu_seconds();
    let (mut ticks, mut made) = (tokio::time::interval(Duration::from_millis(50)), BTreeMap::new());
    let a_tick = (rate / 20).max(1);
    for tick in 0..seconds * 20 {
        ticks.tick().await;
        let new = tick * a_tick..(tick + 1) * a_tick;
        let requests = json!({"cpu": "100m", "memory": "128Mi"});
        let one = |index: usize| pod(&namespace_name(index % 20), &format!("pod-{index}"), &requests, who);
        town.api.create_all(PODS, new.clone().map(one)).await?;
        let now = Instant::now();
        made.extend(new.map(|index| (format!("{}/pod-{index}", namespace_name(index % 20)), now)));
    }
    let seen = await_binds(&mut binds, made.len(), Some(&contender)).await?;
    let mut took: Vec<f64> =
        seen.iter().map(|(at, name)| at.saturating_duration_since(made[name]).as_secs_f64()).collect();
    took.sort_by(f64::total_cmp);
    let at = |share: f64| took[((took.len() - 1) as f64 * share) as usize] * 1000.0;
    let cpu = (contender.cpu_seconds() - cpu) / made.len() as f64 * 1000.0;
    Ok(json!({"pods": made.len(), "p50_ms": at(0.5), "p99_ms": at(0.99), "cpu_s_per_1000": cpu}))
}

/// A pod that fits anywhere is bound: the scheduler has begun.
pub async fn await_ready(town: &Town, binds: &mut Binds, who: Scheduler, contender: &Contender) -> Result<()> {
    let probe = pod(&namespace_name(0), "probe", &json!({"cpu": "1m"}), who);
    town.api.create_all(PODS, [probe]).await?;
    await_binds(binds, 1, Some(contender)).await.map(drop)
}

/// A town whose cards are all lent: those of the second namespace to pods of the first.
async fn lent_town(who: Scheduler, nodes: usize) -> Result<Town> {
    let (town, cards) = (Town::start().await?, nodes * 8);
    town.make_nodes(nodes).await?;
    town.make_quotas(Quotas::None).await?;
    let (a, b) = (namespace_name(0), namespace_name(1));
    let (half, all) = (json!({"nvidia.com/gpu": cards / 2}), json!({"nvidia.com/gpu": cards}));
    if who == Scheduler::Quotient {
        town.make_elastic([(a.as_str(), &half, &all), (b.as_str(), &half, &all)].into_iter()).await?;
    }
    let class = json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "owner"},
        "value": 1000});
    town.api.create_all("/apis/scheduling.k8s.io/v1/priorityclasses", [class]).await?;
    let borrower = |index: usize| {
        let mut pod = pod(&a, &format!("a-{index}"), &json!({"nvidia.com/gpu": "1"}), who);
        pod["spec"]["nodeName"] = json!(node_name(index % nodes));
        pod
    };
    town.api.create_all(PODS, (0..cards).map(borrower)).await?;
    Ok(town)
}

/// A pod of those whose cards are lent.
fn owner(who: Scheduler, index: usize) -> Value {
    let mut pod = pod(&namespace_name(1), &format!("b-{index}"), &json!({"nvidia.com/gpu": "1"}), who);
    if who == Scheduler::Kube {
        pod["spec"]["priorityClassName"] = json!("owner");
    }
    pod
}

/// The requests of a reclaim alone: nobody decides, each step is asked for all pods at once, and nobody is told.
pub async fn reclaim_limit(nodes: usize) -> Result<Value> {
    let (town, cards) = (lent_town(Scheduler::Kube, nodes).await?, nodes * 8);
    let mut binds = binds(&town).await?;
    let deleted = |event: &Value| (event["type"] == "DELETED").then_some(());
    let mut deleted = town.api.watch_pods("", deleted).await?;
    let gone = play_kubelets(&town, Leaving::AtOnce).await?;
    let begun = Instant::now();
    let of = |namespace: usize, name: String| format!("/api/v1/namespaces/{}/pods/{name}", namespace_name(namespace));
    town.api.create_all(PODS, (0..cards / 2).map(|index| owner(Scheduler::Kube, index))).await?;
    let nominate = |index: usize| {
        let status = json!({"status": {"nominatedNodeName": node_name(index % nodes)}});
        (Method::PATCH, format!("{}/status", of(1, format!("b-{index}"))), STRATEGIC, status)
    };
    town.api.ask_all((0..cards / 2).map(nominate)).await?;
    let condemn = |index: usize| {
        let condition = json!({"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler",
            "message": format!("preempted for {}/b-{index}", namespace_name(1))});
        let status = json!({"status": {"conditions": [condition]}});
        (Method::PATCH, format!("{}/status", of(0, format!("a-{index}"))), STRATEGIC, status)
    };
    town.api.ask_all((0..cards / 2).map(condemn)).await?;
    let delete = |index: usize| (Method::DELETE, of(0, format!("a-{index}")), JSON, Value::Null);
    town.api.ask_all((0..cards / 2).map(delete)).await?;
    let bind = |index: usize| {
        let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": format!("b-{index}")},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node_name(index % nodes)}});
        (Method::POST, format!("{}/binding", of(1, format!("b-{index}"))), JSON, binding)
    };
    town.api.ask_all((0..cards / 2).map(bind)).await?;
    await_binds(&mut binds, cards / 2, None).await?;
    for _ in 0..cards / 2 {
        timeout(PATIENCE, deleted.recv()).await?;
    }
    Ok(json!({"claimants": cards / 2, "seconds": begun.elapsed().as_secs_f64(),
        "victims": gone.load(std::sync::atomic::Ordering::Acquire)}))
}

/// Every GPU is borrowed by A in pods of one; B asks for its half: from its first pod being created to its last being
/// bound. kube-scheduler knows no quotas: there the pods of B have priority.
pub async fn reclaim(who: Scheduler, nodes: usize, leaving: Leaving, quotient: &Path) -> Result<Value> {
    let (town, cards) = (lent_town(who, nodes).await?, nodes * 8);
    let mut binds = binds(&town).await?;
    let gone = play_kubelets(&town, leaving).await?;
    let contender = Contender::start(who, &town.plane, quotient)?;
    await_ready(&town, &mut binds, who, &contender).await?;
    let (writes, cpu, lines) = (town.api.writes().await?, contender.cpu_seconds(), contender.log_lines());
    let begun = Instant::now();
    town.api.create_all(PODS, (0..cards / 2).map(|index| owner(who, index))).await?;
    let seen = await_binds(&mut binds, cards / 2, Some(&contender)).await?;
    let after = |at: usize| (seen[at].0 - begun).as_secs_f64();
    let written_at = await_quiet(&town.api).await?;
    Ok(json!({
        "claimants": cards / 2,
        "seconds": after(seen.len() - 1),
        "written_s": written_at.saturating_duration_since(begun).as_secs_f64().max(after(seen.len() - 1)),
        "first_bind_s": after(0),
        "median_bind_s": after(seen.len() / 2),
        "victims": gone.load(std::sync::atomic::Ordering::Acquire),
        "cpu_s": contender.cpu_seconds() - cpu,
        "peak_mib": contender.peak_mib(),
        "log_lines": contender.log_lines() - lines,
        "writes": written(&writes, &town.api.writes().await?),
    }))
}

/// Lets pods that are to leave be gone, as kubelets do; counts them.
pub async fn play_kubelets(town: &Town, leaving: Leaving) -> Result<std::sync::Arc<std::sync::atomic::AtomicUsize>> {
    let leaves = |event: &Value| {
        let metadata = &event["object"]["metadata"];
        let text = |field: &str| metadata[field].as_str().unwrap_or_default().to_string();
        let is_first = event["type"] == "MODIFIED" && metadata["deletionTimestamp"].is_string();
        is_first.then(|| (text("namespace"), text("name")))
    };
    let mut events = town.api.watch_pods("", leaves).await?;
    let (api, count) = (town.api.clone(), std::sync::Arc::<std::sync::atomic::AtomicUsize>::default());
    let gone = count.clone();
    tokio::spawn(async move {
        let mut known = std::collections::BTreeSet::new();
        while let Some((_, (namespace, name))) = events.recv().await {
            // A pod that leaves may be changed once more.
            if !known.insert((namespace.clone(), name.clone())) {
                continue;
            }
            let number = gone.fetch_add(1, std::sync::atomic::Ordering::AcqRel);
            let api = api.clone();
            tokio::spawn(async move {
                sleep(match leaving {
                    Leaving::AtOnce => Duration::ZERO,
                    Leaving::Slowly => Duration::from_millis(1000 + (number as u64 * 997) % 9000),
                    Leaving::Late => Duration::from_secs(30),
                })
                .await;
                // It may be gone by itself.
                let _ = api.ask(Town::delete_now(&namespace, &name)).await;
            });
        }
    });
    Ok(count)
}

/// A scheduler that starts on a cluster full of pods: until it binds one more, beside how long reading it all takes.
pub async fn start_up(who: Scheduler, nodes: usize, running: usize, quotient: &Path) -> Result<Value> {
    let (town, quotas) = (Town::start().await?, Quotas::Elastic(20));
    town.make_nodes(nodes).await?;
    town.make_quotas(quotas).await?;
    let placed = |index: usize| {
        let requests = json!({"cpu": "100m", "memory": "128Mi"});
        let mut pod = pod(&namespace_name(index % 20), &format!("pod-{index}"), &requests, who);
        pod["spec"]["nodeName"] = json!(node_name(index % nodes));
        pod
    };
    town.api.create_all(PODS, (0..running).map(placed)).await?;
    let waiting = pod(&namespace_name(0), "waiting", &json!({"cpu": "100m"}), who);
    town.api.create_all(PODS, [waiting]).await?;
    let begun = Instant::now();
    let listed = town.api.list("/api/v1/pods").await? + town.api.list("/api/v1/nodes").await?;
    let list_s = begun.elapsed().as_secs_f64();
    let mut binds = binds(&town).await?;
    let begun = Instant::now();
    let contender = Contender::start(who, &town.plane, quotient)?;
    let seen = await_binds(&mut binds, 1, Some(&contender)).await?;
    let first = (seen[0].0 - begun).as_secs_f64();
    Ok(json!({"objects": listed, "list_s": list_s, "first_bind_s": first, "ratio": first / list_s,
        "cpu_s": contender.cpu_seconds(), "peak_mib": contender.peak_mib()}))
}

/// Nodes renew their status, pods wait that cannot run, and nothing else happens.
pub async fn idle(who: Scheduler, nodes: usize, shapes: usize, seconds: u64, quotient: &Path) -> Result<Value> {
    let town = Town::start().await?;
    town.make_nodes(nodes).await?;
    town.make_quotas(Quotas::Elastic(20)).await?;
    let too_large = |index: usize| {
        let requests = json!({"cpu": (1000 + index).to_string()});
        pod(&namespace_name(index % 20), &format!("waits-{index}"), &requests, who)
    };
    town.api.create_all(PODS, (0..shapes).map(too_large)).await?;
    let mut binds = binds(&town).await?;
    let contender = Contender::start(who, &town.plane, quotient)?;
    await_ready(&town, &mut binds, who, &contender).await?;
    sleep(Duration::from_secs(10)).await;
    let (cpu, writes, begun) = (contender.cpu_seconds(), town.api.writes().await?, Instant::now());
    let a_second = nodes.div_ceil(10);
    let mut ticks = tokio::time::interval(Duration::from_secs(1));
    for second in 0..seconds as usize {
        ticks.tick().await;
        let from = second % 10 * a_second;
        let time = format!("2026-01-02T00:{:02}:{:02}Z", second / 60, second % 60);
        town.beat(from.min(nodes)..(from + a_second).min(nodes), &time).await?;
    }
    let share = (contender.cpu_seconds() - cpu) / begun.elapsed().as_secs_f64();
    Ok(json!({"core_percent": share * 100.0, "writes": written(&writes, &town.api.writes().await?)}))
}
