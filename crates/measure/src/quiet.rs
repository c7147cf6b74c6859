//! The end of writing: the moment after which nobody writes any more.
//!
//! Every write gives the store a new version, and a list of anything tells it. A few versions are those of leases.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use http::Method;
use serde_json::Value;
use tokio::time::sleep;

use crate::api::{Api, JSON};

/// So long without a write is the end.
const QUIET: Duration = Duration::from_secs(4);

/// How often it is looked.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The versions that leases take within [`QUIET`], those of the API server and of one scheduler.
const OF_LEASES: u64 = 8;

/// So long a scheduler may go on writing after its last bind.
const PATIENCE: Duration = Duration::from_secs(180);

async fn version(api: &Api) -> Result<u64> {
    let list = api.ask((Method::GET, "/api/v1/namespaces?limit=1".to_string(), JSON, Value::Null)).await?;
    let list: Value = serde_json::from_str(&list)?;
    let text = list["metadata"]["resourceVersion"].as_str().context("a list has a version")?;
    Ok(text.parse()?)
}

/// Waits until nothing is written; returns the moment of the last write.
pub async fn await_quiet(api: &Api) -> Result<Instant> {
    let begun = Instant::now();
    let mut seen = vec![(begun, version(api).await?)];
    loop {
        sleep(LOOK_EVERY).await;
        seen.push((Instant::now(), version(api).await?));
        if let Some(end) = end_of(&seen) {
            return Ok(end);
        }
        anyhow::ensure!(begun.elapsed() < PATIENCE, "something is written without end");
    }
}

/// The last moment at which more was written than leases, if it is long enough ago.
fn end_of(seen: &[(Instant, u64)]) -> Option<Instant> {
    let (now, last) = *seen.last()?;
    let quiet_since = seen.iter().find(|(_, version)| last - version <= OF_LEASES)?.0;
    (now.duration_since(quiet_since) >= QUIET).then_some(quiet_since)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leases_are_no_writes_and_a_pause_is_no_end() {
        let begun = Instant::now();
        let at = |seconds: u64, version: u64| (begun + Duration::from_secs(seconds), version);
        assert_eq!(end_of(&[at(0, 100), at(1, 1000), at(3, 2000), at(4, 2001)]), None);
        let seen = [at(0, 100), at(1, 1000), at(3, 2000), at(4, 2001), at(7, 2003)];
        assert_eq!(end_of(&seen), Some(begun + Duration::from_secs(3)));
    }
}
