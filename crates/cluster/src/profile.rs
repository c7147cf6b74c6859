//! Where a process spends its time: the phases of the scheduler's own task, CPU time by thread, and memory. What is
//! counted costs two clock readings a phase, so that it is always counted, and served only where that is asked for.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// What the scheduler's task does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Objects that were seen become facts.
    TakeIn,
    /// Controllers and the engine decide.
    Decide,
    /// Quotas, statuses and gauges.
    Status,
    /// The dashboard, a recording or a comparison gets what was seen and decided.
    Observers,
}

impl Phase {
    const ALL: [Phase; 4] = [Phase::TakeIn, Phase::Decide, Phase::Status, Phase::Observers];

    fn name(self) -> &'static str {
        match self {
            Phase::TakeIn => "take-in",
            Phase::Decide => "decide",
            Phase::Status => "status",
            Phase::Observers => "observers",
        }
    }
}

#[derive(Debug, Default)]
struct Spent {
    calls: AtomicU64,
    nanos: AtomicU64,
    longest: AtomicU64,
}

/// Time by phase. Clones count the same.
#[derive(Debug, Clone, Default)]
pub struct Phases(Arc<[Spent; 4]>);

impl Phases {
    /// Does the work, and counts how long it took.
    pub fn time<T>(&self, phase: Phase, work: impl FnOnce() -> T) -> T {
        let begun = Instant::now();
        let done = work();
        let nanos = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let Spent { calls, nanos: sum, longest } = &self.0[phase as usize];
        calls.fetch_add(1, Ordering::Relaxed);
        sum.fetch_add(nanos, Ordering::Relaxed);
        longest.fetch_max(nanos, Ordering::Relaxed);
        done
    }

    /// Calls and nanoseconds so far.
    fn read(&self) -> [(u64, u64); 4] {
        Phase::ALL.map(|phase| {
            let spent = &self.0[phase as usize];
            (spent.calls.load(Ordering::Relaxed), spent.nanos.load(Ordering::Relaxed))
        })
    }

    /// The longest of each phase within the time since this was last asked, in nanoseconds.
    fn take_longest(&self) -> [u64; 4] {
        Phase::ALL.map(|phase| self.0[phase as usize].longest.swap(0, Ordering::Relaxed))
    }
}

/// How a profile is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    Json,
    /// Lines of `stack microseconds`, which flame graph tools draw.
    Folded,
}

/// What is asked for: `seconds=1..60` and `format=json|folded`, in any order.
pub fn asked(query: &str) -> Result<(Duration, Form), String> {
    let (mut seconds, mut form) = (5, Form::Json);
    for part in query.split('&').filter(|part| !part.is_empty()) {
        match part.split_once('=') {
            Some(("seconds", text)) => {
                let valid = text.parse().ok().filter(|seconds| (1..=60).contains(seconds));
                seconds = valid.ok_or_else(|| format!("seconds={text}: expected 1 to 60"))?;
            }
            Some(("format", "json")) => form = Form::Json,
            Some(("format", "folded")) => form = Form::Folded,
            _ => return Err(format!("{part}: expected seconds=N or format=json|folded")),
        }
    }
    Ok((Duration::from_secs(seconds), form))
}

/// Watches the process for some time, and says where it went.
pub async fn profile(phases: Phases, time: Duration, form: Form) -> String {
    let (begun, before, threads) = (Instant::now(), phases.read(), threads());
    phases.take_longest();
    tokio::time::sleep(time).await;
    let (after, longest) = (phases.read(), phases.take_longest());
    let wall = begun.elapsed();
    let cpu = spent(&threads, &self::threads());
    let rows: Vec<(Phase, u64, u64, u64)> = Phase::ALL
        .into_iter()
        .enumerate()
        .map(|(i, phase)| {
            let (calls, nanos) = (after[i].0 - before[i].0, after[i].1 - before[i].1);
            (phase, calls, nanos / 1000, longest[i] / 1000)
        })
        .collect();
    match form {
        Form::Folded => {
            let mut text = String::new();
            for (phase, _, micros, _) in &rows {
                let _ = writeln!(text, "scheduler;{} {micros}", phase.name());
            }
            let busy: u64 = rows.iter().map(|(_, _, micros, _)| micros).sum();
            let idle = u64::try_from(wall.as_micros()).unwrap_or(u64::MAX).saturating_sub(busy);
            let _ = writeln!(text, "scheduler;waits {idle}");
            text
        }
        Form::Json => {
            let phase = |row: &(Phase, u64, u64, u64)| {
                let (phase, calls, micros, longest) = row;
                json!({"phase": phase.name(), "calls": calls, "microseconds": micros, "longestMicroseconds": longest})
            };
            let thread = |(name, micros): (&String, &u64)| json!({"thread": name, "cpuMicroseconds": micros});
            let text = json!({
                "seconds": wall.as_secs_f64(),
                "phases": rows.iter().map(phase).collect::<Vec<Value>>(),
                "threads": cpu.iter().map(thread).collect::<Vec<Value>>(),
                "memory": memory(),
            });
            format!("{text:#}\n")
        }
    }
}

/// CPU time of each thread so far in nanoseconds, by number, with its name. None where the system does not say.
fn threads() -> BTreeMap<u64, (String, u64)> {
    let entries = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let read = |path: std::path::PathBuf| {
        let number: u64 = path.file_name()?.to_str()?.parse().ok()?;
        let name = std::fs::read_to_string(path.join("comm")).ok()?.trim().to_string();
        let spent = std::fs::read_to_string(path.join("schedstat")).ok()?;
        Some((number, (name, spent.split(' ').next()?.parse().ok()?)))
    };
    entries.filter_map(|entry| read(entry.path())).collect()
}

/// Microseconds by name of the thread; those of one name together.
fn spent(before: &BTreeMap<u64, (String, u64)>, after: &BTreeMap<u64, (String, u64)>) -> BTreeMap<String, u64> {
    let mut by_name = BTreeMap::new();
    for (number, (name, nanos)) in after {
        let known = before.get(number).map_or(0, |(_, nanos)| *nanos);
        *by_name.entry(name.clone()).or_default() += nanos.saturating_sub(known) / 1000;
    }
    by_name
}

/// What the process holds, in bytes, by the system's own names.
fn memory() -> BTreeMap<String, u64> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let wanted = ["VmRSS", "VmHWM", "RssAnon", "RssFile", "VmSize"];
    let bytes = |line: &str| {
        let (name, value) = line.split_once(':')?;
        let kib: u64 = value.trim().strip_suffix(" kB")?.parse().ok()?;
        wanted.contains(&name).then(|| (name.to_string(), kib * 1024))
    };
    status.lines().filter_map(bytes).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_is_read() {
        assert_eq!(asked(""), Ok((Duration::from_secs(5), Form::Json)));
        assert_eq!(asked("seconds=2&format=folded"), Ok((Duration::from_secs(2), Form::Folded)));
        assert!(asked("seconds=0").is_err() && asked("seconds=61").is_err() && asked("minutes=1").is_err());
    }

    #[tokio::test]
    async fn time_is_found_where_it_was_spent() {
        let phases = Phases::default();
        let busy = phases.clone();
        let work = std::thread::Builder::new().name("worker".to_string()).spawn(move || {
            let until = Instant::now() + Duration::from_millis(1200);
            while Instant::now() < until {
                busy.time(Phase::Decide, || std::hint::black_box((0..100_000_u64).sum::<u64>()));
            }
        });
        let text = profile(phases, Duration::from_secs(1), Form::Json).await;
        work.expect("a thread").join().expect("it ends");
        let value: Value = serde_json::from_str(&text).expect("JSON");
        let of = |name: &str| {
            let rows = value["phases"].as_array().expect("a list");
            rows.iter().find(|row| row["phase"] == name).expect("it is there").clone()
        };
        assert!(of("decide")["calls"].as_u64() > Some(0), "{text}");
        assert!(of("decide")["longestMicroseconds"].as_u64() > Some(0), "{text}");
        assert_eq!(of("status")["calls"], 0, "{text}");
        let threads = value["threads"].as_array().expect("a list");
        let worker = threads.iter().find(|thread| thread["thread"] == "worker").expect("it is there");
        assert!(worker["cpuMicroseconds"].as_u64() > Some(10_000), "{text}");
        assert!(value["memory"]["VmRSS"].as_u64() > Some(1 << 20), "{text}");
    }
}
