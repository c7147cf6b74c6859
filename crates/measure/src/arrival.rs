//! Pods that arrive while a scheduler runs: as fast as writers can make them, and for long at a steady rate.

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::Result;
use futures::{StreamExt, TryStreamExt, stream};
use http::Method;
use serde_json::{Value, json};

use crate::api::{Api, Ask, JSON};
use crate::cases::{await_binds, await_ready, binds};
use crate::contender::{Contender, Scheduler};
use crate::quiet::await_quiet;
use crate::town::{Quotas, Town, namespace_name, node_name, pod};

/// How many make pods at once.
const WRITERS: usize = 32;

const TEAMS: usize = 20;

fn name(index: usize) -> (String, String) {
    (namespace_name(index % TEAMS), format!("pod-{index}"))
}

fn make(index: usize, who: Scheduler) -> Ask {
    let (namespace, name) = name(index);
    let pod = pod(&namespace, &name, &json!({"cpu": "100m", "memory": "128Mi"}), who);
    (Method::POST, format!("/api/v1/namespaces/{namespace}/pods"), JSON, pod)
}

/// A bind and an Event, as whoever decides would write them.
fn place(index: usize, nodes: usize) -> [Ask; 2] {
    let (namespace, name) = name(index);
    let node = json!({"apiVersion": "v1", "kind": "Node", "name": node_name(index % nodes)});
    let metadata = json!({"namespace": namespace, "name": name});
    let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": node});
    let event = json!({"apiVersion": "v1", "kind": "Event", "type": "Normal", "reason": "Scheduled",
        "metadata": {"namespace": namespace, "name": format!("{name}.scheduled")}, "message": "bound",
        "involvedObject": {"apiVersion": "v1", "kind": "Pod", "namespace": namespace, "name": name}});
    [
        (Method::POST, format!("/api/v1/namespaces/{namespace}/pods/{name}/binding"), JSON, binding),
        (Method::POST, format!("/api/v1/namespaces/{namespace}/events"), JSON, event),
    ]
}

/// The API server alone: pods are made by 32 writers, and with `placed` each binds what it made and tells of it.
pub async fn limit(nodes: usize, pods: usize, placed: bool) -> Result<Value> {
    let town = Town::start().await?;
    town.make_nodes(nodes).await?;
    town.make_quotas(Quotas::Elastic(TEAMS)).await?;
    let begun = Instant::now();
    let api = &town.api;
    let each = |index: usize| async move {
        api.ask(make(index, Scheduler::Kube)).await?;
        if placed {
            for ask in place(index, nodes) {
                api.ask(ask).await?;
            }
        }
        anyhow::Ok(())
    };
    stream::iter(0..pods).map(each).buffer_unordered(WRITERS).try_collect::<Vec<()>>().await?;
    let rate = pods as f64 / begun.elapsed().as_secs_f64();
    Ok(json!({"pods": pods, "made_per_s": rate, "written_per_s": rate}))
}

/// How long pods took from the answer to their creation to their bind being seen, in ms: at a share of them.
fn quantile(took: &[f64], share: f64) -> f64 {
    took.get((took.len().saturating_sub(1) as f64 * share) as usize).copied().unwrap_or(0.0) * 1000.0
}

/// Pods made by 32 writers, as fast as they can, while a scheduler runs.
pub async fn rush(who: Scheduler, nodes: usize, pods: usize, quotient: &Path) -> Result<Value> {
    let town = Town::start().await?;
    town.make_nodes(nodes).await?;
    town.make_quotas(Quotas::Elastic(TEAMS)).await?;
    let mut binds = binds(&town).await?;
    let contender = Contender::start(who, &town.plane, quotient)?;
    await_ready(&town, &mut binds, who, &contender).await?;
    let cpu = contender.cpu_seconds();
    let made = Arc::new(Mutex::new(BTreeMap::new()));
    let (api, begun): (Api, _) = (town.api.clone(), Instant::now());
    let noted = made.clone();
    let writers = tokio::spawn(async move {
        let each = |index: usize| {
            let (api, noted) = (api.clone(), noted.clone());
            async move {
                api.ask(make(index, who)).await?;
                let (namespace, name) = name(index);
                if let Ok(mut made) = noted.lock() {
                    made.insert(format!("{namespace}/{name}"), Instant::now());
                }
                anyhow::Ok(())
            }
        };
        stream::iter(0..pods).map(each).buffer_unordered(WRITERS).try_collect::<Vec<()>>().await?;
        anyhow::Ok(Instant::now())
    });
    let seen = await_binds(&mut binds, pods, Some(&contender)).await?;
    let all_made = writers.await??;
    let quiet = await_quiet(&town.api).await?;
    let rate = |end: Instant| pods as f64 / (end - begun).as_secs_f64();
    let last = seen.last().map_or(begun, |(at, _)| *at);
    let mut took: Vec<f64> = {
        let made = made.lock().map_err(|_| anyhow::anyhow!("a writer failed"))?;
        let wait = |(at, name): &(Instant, String)| Some(at.saturating_duration_since(*made.get(name)?).as_secs_f64());
        seen.iter().filter_map(wait).collect()
    };
    took.sort_by(f64::total_cmp);
    Ok(json!({
        "pods": pods,
        "made_per_s": rate(all_made),
        "pods_per_s": rate(last),
        "written_per_s": rate(quiet.max(last)),
        "p50_ms": quantile(&took, 0.5),
        "p99_ms": quantile(&took, 0.99),
        "cpu_s_per_1000": (contender.cpu_seconds() - cpu) / pods as f64 * 1000.0,
        "peak_mib": contender.peak_mib(),
    }))
}

/// Pods that are made and ended at a steady rate beside many that run: the first part of the time beside the last.
pub async fn churn(
    who: Scheduler,
    nodes: usize,
    running: usize,
    rate: usize,
    seconds: usize,
    quotient: &Path,
) -> Result<Value> {
    const PARTS: usize = 5;
    let town = Town::start().await?;
    town.make_nodes(nodes).await?;
    town.make_quotas(Quotas::Elastic(TEAMS)).await?;
    let runs = |index: usize| {
        let (method, path, content, mut pod) = make(1_000_000 + index, who);
        pod["spec"]["nodeName"] = json!(node_name(index % nodes));
        (method, path, content, pod)
    };
    town.api.ask_all((0..running).map(runs)).await?;
    let mut binds = binds(&town).await?;
    // Those that run are told of first.
    await_binds(&mut binds, running, None).await?;
    let contender = Contender::start(who, &town.plane, quotient)?;
    await_ready(&town, &mut binds, who, &contender).await?;
    let mut ticks = tokio::time::interval(Duration::from_millis(100));
    let (a_tick, mut next, mut alive) = ((rate / 10).max(1), 0, VecDeque::new());
    let (mut cpu_percent, mut p99, mut memory) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..PARTS {
        let (cpu, begun, mut made) = (contender.cpu_seconds(), Instant::now(), BTreeMap::new());
        for _ in 0..seconds * 10 / PARTS {
            ticks.tick().await;
            town.api.ask_all((next..next + a_tick).map(|index| make(index, who))).await?;
            for index in next..next + a_tick {
                let (namespace, name) = name(index);
                made.insert(format!("{namespace}/{name}"), Instant::now());
                alive.push_back((namespace, name));
            }
            next += a_tick;
            // They end after 10 s.
            while alive.len() > rate * 10 {
                let ended: Vec<_> = alive.drain(..a_tick).collect();
                town.api.ask_all(ended.iter().map(|(namespace, name)| Town::delete_now(namespace, name))).await?;
            }
        }
        let seen = await_binds(&mut binds, made.len(), Some(&contender)).await?;
        let wait = |(at, name): &(Instant, String)| Some(at.saturating_duration_since(*made.get(name)?).as_secs_f64());
        let mut took: Vec<f64> = seen.iter().filter_map(wait).collect();
        took.sort_by(f64::total_cmp);
        p99.push(quantile(&took, 0.99));
        cpu_percent.push((contender.cpu_seconds() - cpu) / begun.elapsed().as_secs_f64() * 100.0);
        memory.push(contender.rss_mib());
    }
    Ok(json!({"pods": next, "core_percent": cpu_percent, "p99_ms": p99, "rss_mib": memory}))
}
