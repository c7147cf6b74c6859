//! The state of a cluster in one file: what bears on scheduling, without secrets and environment.
//!
//! The file is JSON under zstd. Every command that reads manifests reads it.

mod anonymous;
mod thin;

use anyhow::{Context, Result};
use quotient_api::json::Exact;
use quotient_api::{Problem, Read, read};
use ruzstd::decoding::StreamingDecoder;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use serde_json::{Value, json};
use std::io::Read as _;

use crate::live::Seen;

/// What a zstd file starts with.
const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// The most bytes that a snapshot unpacks to: 200,000 pods stay below.
const UNPACKED_MAX: u64 = 8 << 30;

/// The most bytes that each byte of a file stands for: some tens in snapshots of real clusters. A small file that
/// unpacks to much more was made to fill the memory of whoever reads it. Small clusters of many like pods are below the
/// floor.
const BYTES_PER_BYTE_MAX: u64 = 500;
const UNPACKED_FLOOR: u64 = 64 << 20;

const KIND: &str = "Snapshot";

/// Whether these are the bytes of a snapshot.
pub fn is_snapshot(bytes: &[u8]) -> bool {
    bytes.starts_with(&MAGIC)
}

/// What is kept of a cluster.
pub fn of(seen: Seen, anonymize: bool) -> Value {
    let Seen { server, version, mut objects, evictions, unseen } = seen;
    objects.iter_mut().for_each(thin::strip);
    let mut snapshot = json!({
        "apiVersion": "quotient.dev/v1alpha1",
        "kind": KIND,
        "server": if anonymize { "https://cluster" } else { server.as_str() },
        "version": version,
        "unseen": unseen.lines(),
    });
    // json! would copy the items.
    snapshot["items"] = Value::Array(objects);
    snapshot["evictions"] = evictions.iter().map(thin::eviction).collect();
    if anonymize {
        anonymous::anonymize(&mut snapshot);
    }
    snapshot
}

/// The snapshot as a file holds it.
pub fn pack(snapshot: &Value) -> Vec<u8> {
    compress_to_vec(snapshot.to_string().as_bytes(), CompressionLevel::Fastest)
}

/// The snapshot that a file holds.
pub fn unpack(bytes: &[u8]) -> Result<Value> {
    let decoder = StreamingDecoder::new(bytes).context("not a snapshot: the compression cannot be read")?;
    let mut text = Vec::new();
    let unpacked_max = (bytes.len() as u64 * BYTES_PER_BYTE_MAX).clamp(UNPACKED_FLOOR, UNPACKED_MAX);
    decoder.take(unpacked_max + 1).read_to_end(&mut text).context("not a snapshot: the compression is broken")?;
    if text.len() as u64 > unpacked_max {
        anyhow::bail!("not a snapshot: {} bytes unpack to more than {} MiB", bytes.len(), unpacked_max >> 20);
    }
    let text = String::from_utf8(text).context("not a snapshot: expected JSON")?;
    let Exact(value) = Exact::read(&text).context("not a snapshot: expected JSON")?;
    anyhow::ensure!(value["kind"] == KIND, "not a snapshot: expected kind {KIND}");
    Ok(value)
}

/// The objects of a snapshot, as if they were read from a file.
pub fn read_objects(name: &str, mut snapshot: Value) -> Read {
    let mut items = snapshot["items"].take();
    if let (Value::Array(items), Value::Array(evictions)) = (&mut items, snapshot["evictions"].take()) {
        items.extend(evictions);
    }
    // json! would copy the items.
    let mut list = json!({"apiVersion": "v1", "kind": "List"});
    list["items"] = items;
    read::read_value(name, list)
}

/// What whoever made a snapshot could not see.
pub fn unseen(snapshot: &Value) -> Vec<String> {
    let lines = snapshot.get("unseen").and_then(Value::as_array).into_iter().flatten();
    lines.filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Why a file is no snapshot, in one line.
pub fn problem(name: &str, error: &anyhow::Error) -> Problem {
    Problem::new(format!("{error:#}")).in_file(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cluster() -> Seen {
        let pod = json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "db-0", "namespace": "shop", "uid": "1", "managedFields": [{}],
                "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}"},
                "ownerReferences": [{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "controller": true}]},
            "spec": {"nodeName": "gpu-1.example.com", "nodeSelector": {"example.com/pool": "blue"}, "containers": [
                {"name": "c", "image": "secret/image", "env": [{"name": "TOKEN", "value": "hunter2"}],
                 "args": ["--password=hunter2"], "resources": {"requests": {"cpu": "1500m"}}}]}});
        let node = json!({"apiVersion": "v1", "kind": "Node",
            "metadata": {"name": "gpu-1.example.com", "labels": {"example.com/pool": "blue"}},
            "status": {"allocatable": {"cpu": "8", "pods": "110"}}});
        Seen { objects: vec![pod, node], ..Seen::default() }
    }

    #[test]
    fn a_snapshot_comes_back_without_secrets() {
        let packed = pack(&of(cluster(), false));
        assert!(is_snapshot(&packed));
        let snapshot = unpack(&packed).expect("it can be read");
        assert!(!snapshot.to_string().contains("hunter2"), "{snapshot}");
        let read = read_objects("s.qsnap", snapshot);
        assert_eq!(read.problems, []);
        assert_eq!(read.documents.len(), 2);
        assert_eq!(read.documents[0].value["spec"]["containers"][0]["resources"]["requests"]["cpu"], "1500m");
        assert!(unpack(b"\x28\xb5\x2f\xfdnonsense").is_err());
    }

    #[test]
    fn a_small_file_does_not_unpack_to_more_than_its_readers_memory() {
        let bomb = compress_to_vec(&vec![b' '; UNPACKED_FLOOR as usize + 1][..], CompressionLevel::Fastest);
        assert!(bomb.len() < 100_000, "{} bytes", bomb.len());
        let error = unpack(&bomb).expect_err("it is too large").to_string();
        assert_eq!(error, format!("not a snapshot: {} bytes unpack to more than 64 MiB", bomb.len()));
    }

    #[test]
    fn what_decides_of_containers_is_kept() {
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "a", "uid": "1"},
            "spec": {"containers": [
                {"name": "c", "volumeMounts": [{"name": "v", "mountPath": "/v"},
                    {"name": "w", "mountPath": "/w", "bindMountOptions": ["noexec"]}]},
                {"name": "d", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}]},
            "status": {"initContainerStatuses": [{"name": "i", "image": "secret", "allocatedResources": {"cpu": "2"}}]}});
        let snapshot = of(Seen { objects: vec![pod], ..Seen::default() }, false);
        let pod = &snapshot["items"][0];
        assert_eq!(
            pod["spec"]["containers"],
            json!([
            {"name": "c", "volumeMounts": [{"bindMountOptions": ["noexec"]}]}, {"name": "d"}])
        );
        let statuses = json!([{"name": "i", "allocatedResources": {"cpu": "2"}}]);
        assert_eq!(pod["status"]["initContainerStatuses"], statuses);
    }

    #[test]
    fn an_anonymous_snapshot_keeps_what_refers_to_what() {
        let snapshot = of(cluster(), true);
        let text = snapshot.to_string();
        for name in ["shop", "db", "example.com", "blue", "secret", "hunter2"] {
            assert!(!text.contains(&format!("\"{name}")), "{name} in {text}");
        }
        let (pod, node) = (&snapshot["items"][0], &snapshot["items"][1]);
        assert_eq!(pod["spec"]["nodeName"], node["metadata"]["name"]);
        assert_eq!(pod["spec"]["nodeSelector"], node["metadata"]["labels"]);
        let owner = pod["metadata"]["ownerReferences"][0]["name"].as_str().expect("a name");
        assert_eq!(pod["metadata"]["name"], format!("{owner}-0"));
        assert_eq!(pod["spec"]["containers"][0]["resources"]["requests"]["cpu"], "1500m");
        assert_eq!(read_objects("s", snapshot.clone()).problems, []);
    }
}
