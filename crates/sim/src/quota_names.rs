//! What quotas are called in reports, and what they speak of.

use std::collections::BTreeSet;

use quotient_api::gpu_memory::GPU_MEMORY;
use quotient_api::{ObjectKey, elastic};
use quotient_engine::fact::{Name, QuotaKey};

use crate::report::QuotaReport;

/// All quotas with their keys, by namespace and name.
pub fn keyed_quotas(reports: &[quotient_engine::QuotaReport]) -> Vec<(ObjectKey, QuotaReport)> {
    let names = QuotaNames::of(reports);
    let mut quotas: Vec<(ObjectKey, QuotaReport)> = reports
        .iter()
        .filter_map(|report| {
            let key = elastic::object_key(&report.key)?;
            let parent = report.parent.as_ref().and_then(elastic::object_key).map(|parent| names.shown(&parent));
            let mut shown = QuotaReport { object: names.shown(&key), parent, ..QuotaReport::from(report) };
            shown.used.retain(|resource, _| names.is_worth_showing(&report.key.group, resource));
            Some((key, shown))
        })
        .collect();
    quotas.sort_by(|(a, _), (b, _)| {
        (&a.namespace, &a.name, a.kind, a.group).cmp(&(&b.namespace, &b.name, b.kind, b.group))
    });
    quotas
}

/// What quotas are called in reports, and what they speak of.
pub struct QuotaNames {
    /// Names that two quotas have: they are shown with their group.
    ambiguous: BTreeSet<String>,
    /// GPU memory by the API groups whose quotas name it.
    gpu_memory: BTreeSet<(Name, Name)>,
}

impl QuotaNames {
    /// What they are called; what they speak of is not asked.
    pub fn of_keys<'a>(keys: impl Iterator<Item = &'a QuotaKey>) -> Self {
        let mut seen = BTreeSet::new();
        let ambiguous = keys.map(ToString::to_string).filter(|name| !seen.insert(name.clone())).collect();
        QuotaNames { ambiguous, gpu_memory: BTreeSet::new() }
    }

    pub fn of(quotas: &[quotient_engine::QuotaReport]) -> Self {
        let gpu_memory = quotas.iter().flat_map(|quota| {
            let named = quota.min.iter().chain(&quota.max).map(|(resource, _)| resource);
            named.filter(|resource| is_gpu_memory(resource)).map(|resource| (quota.key.group.clone(), resource.clone()))
        });
        QuotaNames { gpu_memory: gpu_memory.collect(), ..Self::of_keys(quotas.iter().map(|quota| &quota.key)) }
    }

    /// GPU memory follows from other requests; where no quota of a group speaks of it, it is not worth a word.
    fn is_worth_showing(&self, group: &Name, resource: &str) -> bool {
        !is_gpu_memory(resource) || self.gpu_memory.contains(&(group.clone(), resource.into()))
    }

    pub fn shown(&self, key: &ObjectKey) -> String {
        let name = key.to_string();
        if self.ambiguous.contains(&name) { key.qualified() } else { name }
    }
}

fn is_gpu_memory(resource: &str) -> bool {
    GPU_MEMORY.contains(&resource)
}
