//! Device claims: pods that ask for a device each, and owners that get their devices back.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Instant;

use anyhow::Result;
use serde_json::{Value, json};

use crate::cases::{Leaving, await_binds, binds, filled, play_kubelets};
use crate::contender::{Contender, Scheduler};
use crate::town::{PODS, Quotas, Town, namespace_name, node_name, pod};

const CLASS: &str = "gpu.example.com";
const DEVICES_PER_NODE: usize = 8;
/// As ResourceQuota spells the devices of the class.
const DEVICES: &str = "gpu.example.com.deviceclass.resource.k8s.io/devices";

/// A class, and a slice with its devices for every node.
async fn make_devices(town: &Town, nodes: usize) -> Result<()> {
    let driver = format!("device.driver == '{CLASS}'");
    let class = json!({"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": CLASS},
        "spec": {"selectors": [{"cel": {"expression": driver}}]}});
    town.api.create_all("/apis/resource.k8s.io/v1/deviceclasses", [class]).await?;
    let slice = |index: usize| {
        let node = node_name(index);
        let device = |number: usize| json!({"name": format!("gpu-{number}")});
        json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": node},
            "spec": {"driver": CLASS, "nodeName": node, "devices": (0..DEVICES_PER_NODE).map(device).collect::<Vec<_>>(),
                "pool": {"name": node, "generation": 1, "resourceSliceCount": 1}}})
    };
    town.api.create_all("/apis/resource.k8s.io/v1/resourceslices", (0..nodes).map(slice)).await
}

/// Pods of a namespace by their names, each with a claim of its own for one device.
async fn make_claimants(town: &Town, names: &[(String, String)], who: Scheduler) -> Result<()> {
    let claim = |(namespace, name): &(String, String)| {
        json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
            "metadata": {"namespace": namespace, "name": name},
            "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": CLASS}}]}}})
    };
    let path = "/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims";
    town.api.create_all(path, names.iter().map(claim)).await?;
    let claimant = |(namespace, name): &(String, String)| {
        let mut pod = pod(namespace, name, &json!({"cpu": "100m"}), who);
        pod["spec"]["resourceClaims"] = json!([{"name": "gpu", "resourceClaimName": name}]);
        pod["spec"]["containers"][0]["resources"]["claims"] = json!([{"name": "gpu"}]);
        pod
    };
    town.api.create_all(PODS, names.iter().map(claimant)).await
}

/// Pods with a claim each that wait when the scheduler starts: from its first bind to its last.
pub async fn fill(who: Scheduler, nodes: usize, pods: usize, quotient: &Path) -> Result<Value> {
    let town = Town::start().await?;
    town.make_nodes(nodes).await?;
    town.make_quotas(Quotas::None).await?;
    make_devices(&town, nodes).await?;
    let name = |index: usize| (namespace_name(index % Quotas::None.count()), format!("pod-{index}"));
    make_claimants(&town, &(0..pods).map(name).collect::<Vec<_>>(), who).await?;
    filled(&town, who, pods, quotient).await
}

/// Every device is borrowed by A; B asks for its half: from its first pod being created to its last being bound.
/// Controllers run here: one of them gives back the devices of pods that are gone.
pub async fn reclaim(nodes: usize, quotient: &Path) -> Result<Value> {
    let (town, devices, who) = (Town::start_with_controllers().await?, nodes * DEVICES_PER_NODE, Scheduler::Quotient);
    town.make_nodes(nodes).await?;
    town.make_quotas(Quotas::None).await?;
    make_devices(&town, nodes).await?;
    let (a, b) = (namespace_name(0), namespace_name(1));
    let (half, all) = (json!({DEVICES: devices / 2}), json!({DEVICES: devices}));
    town.make_elastic([(a.as_str(), &half, &all), (b.as_str(), &half, &all)].into_iter()).await?;
    let mut binds = binds(&town).await?;
    let gone = play_kubelets(&town, Leaving::AtOnce).await?;
    let contender = Contender::start(who, &town.plane, quotient)?;
    let names = |namespace: &str, count: usize| -> Vec<(String, String)> {
        (0..count).map(|index| (namespace.to_string(), format!("pod-{index}"))).collect()
    };
    make_claimants(&town, &names(&a, devices), who).await?;
    await_binds(&mut binds, devices, Some(&contender)).await?;
    let (cpu, lines) = (contender.cpu_seconds(), contender.log_lines());
    let begun = Instant::now();
    make_claimants(&town, &names(&b, devices / 2), who).await?;
    let seen = await_binds(&mut binds, devices / 2, Some(&contender)).await?;
    let after = |at: usize| (seen[at].0 - begun).as_secs_f64();
    Ok(json!({
        "claimants": devices / 2,
        "seconds": after(seen.len() - 1),
        "first_bind_s": after(0),
        "median_bind_s": after(seen.len() / 2),
        "victims": gone.load(Ordering::Acquire),
        "cpu_s": contender.cpu_seconds() - cpu,
        "peak_mib": contender.peak_mib(),
        "log_lines": contender.log_lines() - lines,
    }))
}
