//! The figures as tables for people.

use std::fmt::Write;

use quotient_replay::tell::grouped;
use serde_json::{Value, json};

/// What the figures depend on.
pub fn machine() -> Value {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let processors = read("/proc/cpuinfo");
    let model = processors.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": ")).map(|(_, m)| m);
    let memory = read("/proc/meminfo");
    let kib = memory.lines().find_map(|line| line.strip_prefix("MemTotal:")?.trim().strip_suffix(" kB")?.parse().ok());
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    json!({"cores": cores, "processor": model, "memory_gib": kib.unwrap_or(0u64) >> 20})
}

/// A number as people read it: what is counted is whole, what is measured has decimals where it is small.
pub fn number(value: &Value) -> String {
    if let Some(values) = value.as_array() {
        return values.iter().map(number).collect::<Vec<_>>().join(" · ");
    }
    let Some(measured) = value.as_f64() else { return "–".to_string() };
    if value.is_f64() && measured < 100.0 { format!("{measured:.2}") } else { count(measured) }
}

/// A whole number as people read it.
fn count(value: f64) -> String {
    grouped(value.round() as u64)
}

/// A column: its head, and the figure.
type Column = (&'static str, &'static str);

const FILL: &[Column] = &[
    ("pods/s, all written", "written_per_s"),
    ("pods/s, binds alone", "pods_per_s"),
    ("CPU-s per 1,000 pods", "cpu_s_per_1000"),
    ("peak memory, MiB", "peak_mib"),
    ("CPU-s of the API server and etcd per 1,000 pods", "server_cpu_s_per_1000"),
    ("start to first bind, s", "first_bind_s"),
    ("pods/s, all written, of all runs", "rates"),
];
const STREAM: &[Column] =
    &[("pods", "pods"), ("p50, ms", "p50_ms"), ("p99, ms", "p99_ms"), ("CPU-s per 1,000 pods", "cpu_s_per_1000")];
const RUSH: &[Column] = &[
    ("pods", "pods"),
    ("pods/s, made", "made_per_s"),
    ("pods/s, bound", "pods_per_s"),
    ("pods/s, all written", "written_per_s"),
    ("p50, ms", "p50_ms"),
    ("p99, ms", "p99_ms"),
    ("CPU-s per 1,000 pods", "cpu_s_per_1000"),
    ("peak memory, MiB", "peak_mib"),
];
const CHURN: &[Column] = &[
    ("pods", "pods"),
    ("% of a core, by fifths of the time", "core_percent"),
    ("p99, ms", "p99_ms"),
    ("memory, MiB", "rss_mib"),
];
const RECLAIM: &[Column] = &[
    ("claimants", "claimants"),
    ("victims", "victims"),
    ("all bound, s", "seconds"),
    ("first, s", "first_bind_s"),
    ("half, s", "median_bind_s"),
    ("all written, s", "written_s"),
    ("CPU-s", "cpu_s"),
    ("log lines", "log_lines"),
];
const START: &[Column] = &[
    ("objects", "objects"),
    ("reading them all, s", "list_s"),
    ("start to first bind, s", "first_bind_s"),
    ("ratio", "ratio"),
    ("peak memory, MiB", "peak_mib"),
];
const SIMULATE: &[Column] = &[
    ("MB of text", "megabytes"),
    ("pods", "pods"),
    ("on nodes", "placed"),
    ("start to end, s", "seconds"),
    ("peak memory, MiB", "peak_mib"),
];
const IDLE: &[Column] = &[("% of a core", "core_percent")];

/// The tables: one for each kind of case, and what each reclaim wrote.
pub fn tables(report: &Value) -> String {
    let mut text = String::new();
    let cases = report["cases"].as_object();
    let of = |start: &[&str]| -> Vec<(&String, &Value)> {
        let all = cases.into_iter().flatten();
        all.filter(|(name, _)| start.iter().any(|start| name.starts_with(start))).collect()
    };
    let kinds: [(&str, &[&str], &[Column]); 9] = [
        ("Pods that wait when the scheduler starts", &["limit", "fill"], FILL),
        ("Pods with a device claim each that wait when the scheduler starts", &["claims"], FILL),
        ("Pods that arrive at a steady rate: creation to bind", &["stream"], STREAM),
        ("Pods that 32 writers make as fast as they can: creation to bind", &["rush"], RUSH),
        ("Pods that are made and ended at a steady rate", &["churn"], CHURN),
        ("Reclaim", &["reclaim"], RECLAIM),
        ("Start-up", &["start-up"], START),
        ("Nothing happens but heartbeats of nodes", &["idle"], IDLE),
        ("Without a cluster: `quotient simulate -o json`", &["simulate"], SIMULATE),
    ];
    for (title, start, columns) in kinds {
        let rows = of(start);
        if rows.is_empty() {
            continue;
        }
        let heads: Vec<&str> = columns.iter().map(|(head, _)| *head).collect();
        let _ = writeln!(text, "## {title}\n\n| case | {} |", heads.join(" | "));
        let _ = writeln!(text, "|---|{}", "---|".repeat(columns.len()));
        for (name, figure) in rows {
            let cells: Vec<String> = match figure["failed"].as_str() {
                Some(_) => columns.iter().map(|_| "failed".to_string()).collect(),
                None => columns.iter().map(|(_, field)| number(&figure[*field])).collect(),
            };
            let _ = writeln!(text, "| {name} | {} |", cells.join(" | "));
        }
        text.push('\n');
    }
    let written =
        of(&["reclaim", "fill"]).into_iter().filter_map(|(name, figure)| Some((name, figure["writes"].as_object()?)));
    let written: Vec<_> = written.collect();
    if !written.is_empty() {
        text.push_str("## What was written\n\n| case | requests |\n|---|---|\n");
        for (name, writes) in written {
            // The API server counts in numbers that may have decimals; requests have none.
            let list = writes.iter().map(|(what, times)| format!("{what}: {}", count(times.as_f64().unwrap_or(0.0))));
            let list: Vec<String> = list.collect();
            let _ = writeln!(text, "| {name} | {} |", list.join(", "));
        }
        text.push('\n');
    }
    text
}

/// The page of the documentation.
pub fn page(report: &Value) -> String {
    let machine = &report["machine"];
    let processor = machine["processor"].as_str().unwrap_or("unknown processor");
    let note = report["note"].as_str().map(|note| format!("\n\n{note}")).unwrap_or_default();
    let quick =
        if report["quick"] == true { " **At a tenth of the size: figures to try the measurement.**" } else { "" };
    format!(
        "# Performance on a real API server\n\n\
         `make bench-cluster` writes this page and `performance.json` beside it. Each case has a fresh control plane: etcd\n\
         and kube-apiserver {KUBERNETES}, no kubelets. The contenders run on the same machine, one after the other.{quick}\n\
         Machine: {} cores, {processor}, {} GiB. Everything shares these cores: etcd, the API server, the scheduler and the\n\
         measuring program.{note}\n\n\
         - *limit* is the API server alone: a program binds every pod by a request, 128 at once, and decides nothing.\n\
         - A rate counts until all is written: binds, events and statuses; 4 s without a write are the end. CPU and memory are those until\n  \
         then. Beside it is the rate of the binds alone.\n\
         - *limit* and *fill* run three times, in turn with each other, and the run whose rate is in the middle is shown.\n\
         - Whoever measures watches pods in Kubernetes' binary format, as kubelets and controllers do: a watch as text, which\n  \
         few ask for, takes the API server a twentieth of its time.\n\
         - Nodes have 32 cores, 256Gi, 8 GPUs and 110 pods; pending pods have 8 shapes of cpu and memory.\n\
         - Quotient runs `quotient run` with its defaults. kube-scheduler runs its default profile with 5,000 requests a second\n  \
         allowed, bursts of 10,000 and no leader election; it knows no quotas, and in *reclaim* its claimants have priority.\n\
         - *fill*: all pods are pending when the scheduler starts; from its first bind to its last write. *rush*: 32 writers make 10,000 pods on 2,000 nodes while\n  \
         the scheduler runs; its limits are those writers alone, and each with a bind and an Event for each of its pods. *reclaim*: 100 nodes with 8 GPUs each,\n  \
         all borrowed in pods of one GPU; the owner submits 400. Victims go as soon as the measuring program, which plays the kubelets, deletes them, or after 1 to 10 s (*slow victims*), or after 30 s, as\n  \
         long as a pod has by default. The time is the owner's: from the first claimant's creation to the last one's bind, with the requests of\n  \
         writers and kubelets, which share the machine: on a busy one it is twice as long.\n  \
         *reclaim, limit* are its requests alone, 128 at once, by a program that decides nothing and tells nobody.\n\
         - *claims*: every node has 8 devices of one class in a ResourceSlice; 2,000 pods have a claim for one each. *reclaim of devices*: 800\n  \
         devices, all borrowed in claims of one; the owner submits 400. kube-scheduler evicts nobody for a device.\n\
         - *idle*: 5,000 nodes renew their status every 10 s, and 500 pods of different shapes cannot run.\n\
         - CPU and memory are those of the processes, as the kernel counts them.\n\n\
         The engine alone is in [Benchmarks](benchmarks.md).\n\n{}{}",
        machine["cores"],
        machine["memory_gib"],
        crate::goals::table(report),
        tables(report)
    )
}

/// The version that `testenv/` builds.
const KUBERNETES: &str = "1.37.1";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_whole_and_small_measures_have_decimals() {
        let cases = [(json!(20), "20"), (json!(1234567), "1,234,567"), (json!(0.284), "0.28"), (json!(926.4), "926")];
        for (value, shown) in cases {
            assert_eq!(number(&value), shown);
        }
        assert_eq!(number(&json!([1234.5, 9.25])), "1,235 · 9.25");
        assert_eq!((number(&json!(null)), count(20.0)), ("–".to_string(), "20".to_string()));
    }
}
