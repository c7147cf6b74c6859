//! Until when whoever had the lease saw every pod, as the lease says.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use quotient_api::time::parse_timestamp;
use serde_json::Value;

use super::micro_time;

/// The annotation of the lease that says until when whoever had it saw every pod.
pub(super) const WATCHED_UNTIL: &str = "quotient.dev/watched-until";

/// What was seen this long before a scheduler decided something is what it decided by: watches may lag.
const LAG_US: i64 = 60_000_000;

/// Until when schedulers saw every pod: what one of them left without a record was bound without ties.
#[derive(Debug, Clone, Default)]
pub struct Watched(Arc<WatchedTimes>);

#[derive(Debug, Default)]
struct WatchedTimes {
    /// When this one last decided something, in microseconds; 0: never.
    decided_us: AtomicI64,
    /// What the lease says; 0: nothing.
    told_us: AtomicI64,
}

impl Watched {
    /// Something was decided, by all that there is.
    pub fn note(&self, now_us: i64) {
        self.0.decided_us.fetch_max(now_us, Ordering::AcqRel);
    }

    /// What the lease says, if anything.
    pub fn until_us(&self) -> Option<i64> {
        Some(self.0.told_us.load(Ordering::Acquire)).filter(|us| *us > 0)
    }

    pub(super) fn learn(&self, lease: &Value) {
        let text =
            lease.pointer("/metadata/annotations").and_then(|all| all.get(WATCHED_UNTIL)).and_then(Value::as_str);
        if let Some(us) = text.and_then(|text| parse_timestamp(text).ok()) {
            self.0.told_us.fetch_max(us, Ordering::AcqRel);
        }
    }

    /// What the lease is to say.
    pub(super) fn to_tell(&self) -> Option<String> {
        let decided = self.0.decided_us.load(Ordering::Acquire).saturating_sub(LAG_US);
        Some(decided.max(self.0.told_us.load(Ordering::Acquire))).filter(|us| *us > 0).map(micro_time)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_lease_says_until_when_pods_were_watched_and_never_less_than_before() {
        let at = |us: i64| json!({"metadata": {"annotations": {WATCHED_UNTIL: micro_time(us)}}});
        let watched = Watched::default();
        assert_eq!((watched.until_us(), watched.to_tell()), (None, None));
        watched.learn(&json!({}));
        watched.learn(&at(2_000_000_000));
        assert_eq!((watched.until_us(), watched.to_tell()), (Some(2_000_000_000), Some(micro_time(2_000_000_000))));
        watched.note(2_001_000_000);
        assert_eq!(watched.to_tell(), Some(micro_time(2_000_000_000)), "watches may lag");
        watched.note(2_100_000_000);
        assert_eq!(watched.to_tell(), Some(micro_time(2_040_000_000)));
        watched.learn(&at(1_000_000_000));
        assert_eq!(watched.until_us(), Some(2_000_000_000));
    }
}
