//! What the status of an elastic quota says.

use std::collections::BTreeMap;

use quotient_engine::QuotaReport;
use quotient_engine::quantity::canonical;
use serde_json::{Map, Value};

use super::is_fair;
use crate::gpu_memory::GPU_MEMORY;
use crate::object::key_of;

/// The fields `used` and `borrowed` that the status of this quota object should have. `report` is how the engine has
/// the quota; a quota that does not count (another one governs its namespace) has none, and uses nothing.
///
/// Every resource that the quota names is shown, with 0 where nothing of it is used. The fair kinds show what running
/// pods use of these; the others show all that their pods hold, whether the quota names it or not, but no GPU memory
/// that the quota does not name: nobody asked for that by its name.
pub fn status(object: &Value, report: Option<&QuotaReport>) -> Vec<(&'static str, Value)> {
    let shows_running = key_of(object).ok().and_then(|key| is_fair(key.group)).unwrap_or(false);
    let mut used: BTreeMap<&str, i128> = BTreeMap::new();
    for part in ["/spec/min", "/spec/max"] {
        let named = object.pointer(part).and_then(Value::as_object).into_iter().flatten();
        used.extend(named.map(|(resource, _)| (resource.as_str(), 0)));
    }
    if let Some(report) = report {
        let held = if shows_running { &report.used_running } else { &report.used };
        for (resource, amount) in held {
            let is_shown = !shows_running && !GPU_MEMORY.contains(&&**resource);
            if is_shown || used.contains_key(&**resource) {
                used.insert(resource, *amount);
            }
        }
    }
    let borrowed = report.map(|report| report.borrowed.as_slice()).unwrap_or_default();
    let borrowed = borrowed.iter().map(|(resource, amount)| (&**resource, *amount)).filter(|(_, amount)| *amount != 0);
    vec![("used", quantities(used)), ("borrowed", quantities(borrowed))]
}

fn quantities<'a>(amounts: impl IntoIterator<Item = (&'a str, i128)>) -> Value {
    let shown =
        amounts.into_iter().map(|(resource, amount)| (resource.to_string(), Value::from(canonical(resource, amount))));
    Value::Object(shown.collect::<Map<String, Value>>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn quota(group: &str) -> Value {
        json!({
            "apiVersion": format!("{group}/v1alpha1"), "kind": "ElasticQuota",
            "metadata": {"name": "q", "namespace": "a"},
            "spec": {"min": {"cpu": 4, "nvidia.com/gpu": 2}, "max": {"memory": "1Gi"}},
        })
    }

    fn report() -> QuotaReport {
        let amounts = |amounts: &[(&str, i128)]| amounts.iter().map(|(name, a)| ((*name).into(), *a)).collect();
        QuotaReport {
            used: amounts(&[("cpu", 5500), ("ephemeral-storage", 1024), ("nos.nebuly.com/gpu-memory", 16)]),
            used_running: amounts(&[("cpu", 500), ("ephemeral-storage", 1024)]),
            borrowed: amounts(&[("cpu", 1500), ("nvidia.com/gpu", 0)]),
            ..QuotaReport::default()
        }
    }

    #[test]
    fn what_each_kind_shows() {
        let shown = |group: &str, report: Option<&QuotaReport>| {
            let fields = status(&quota(group), report);
            Value::Object(fields.into_iter().map(|(name, value)| (name.to_string(), value)).collect())
        };
        let all = json!({
            "used": {"cpu": "5500m", "ephemeral-storage": "1Ki", "memory": "0", "nvidia.com/gpu": "0"},
            "borrowed": {"cpu": "1500m"},
        });
        let running =
            json!({"used": {"cpu": "500m", "memory": "0", "nvidia.com/gpu": "0"}, "borrowed": {"cpu": "1500m"}});
        let none = json!({"used": {"cpu": "0", "memory": "0", "nvidia.com/gpu": "0"}, "borrowed": {}});
        assert_eq!(shown("scheduling.x-k8s.io", Some(&report())), all);
        assert_eq!(shown("nos.nebuly.com", Some(&report())), running);
        assert_eq!(shown("n8s.nebuly.ai", None), none);
    }
}
