//! What is written about queues and groups: their statuses and events.

use std::collections::BTreeMap;

use quotient_api::volcano::status::{Ended, group_status, queue_status};
use quotient_api::volcano::{DEFAULT_QUEUE, GROUP_NAMES, POD_GROUP, QUEUE, QUEUE_NAME, SCHEDULING, group::GroupPhase};
use quotient_api::{ObjectKey, elastic, time};
use quotient_engine::QuotaReport;
use serde_json::Value;

use super::Cluster;
use crate::field;

impl Cluster {
    /// Writes how each group and each queue stands into its status, where that changed, and says whether it did.
    pub(super) fn write_queue_status(&mut self, reports: &[QuotaReport]) -> bool {
        let has = |kind: &'static str| self.store().of_kind(SCHEDULING, kind, None).next().is_some();
        if !has(QUEUE) && !has(POD_GROUP) {
            return false;
        }
        let changed = self.write_groups();
        changed | self.write_queues(reports)
    }

    fn write_groups(&mut self) -> bool {
        let reports = self.engine.groups();
        if reports.is_empty() || !self.setup.configuration.runs_pod_groups {
            return false;
        }
        let ended = self.ended_by_group();
        let now = time::format_timestamp(self.now_us());
        let mut changed = false;
        for report in reports {
            let key = ObjectKey::pod_group(&report.namespace, &report.name);
            let Some(group) = self.store().get(&key) else { continue };
            let ended = ended.get(&key).copied().unwrap_or_default();
            let (status, told) = group_status(group, &report, ended, &now);
            changed |= self.server.amend(&key, |group| field::put(group, &["status"], status));
            if let Some(told) = told {
                self.server.event(&key, told.kind, told.reason, &told.message);
            }
        }
        changed
    }

    /// The pods of each group that have ended.
    fn ended_by_group(&self) -> BTreeMap<ObjectKey, Ended> {
        let mut all: BTreeMap<ObjectKey, Ended> = BTreeMap::new();
        for (key, pod) in self.store().pods() {
            let phase = field::text(pod, "/status/phase");
            if !matches!(phase, Some("Succeeded" | "Failed")) {
                continue;
            }
            let annotations = &pod["metadata"]["annotations"];
            let Some(group) = GROUP_NAMES.iter().find_map(|name| annotations[*name].as_str()) else { continue };
            let ended =
                all.entry(ObjectKey::pod_group(key.namespace.as_deref().unwrap_or_default(), group)).or_default();
            match phase {
                Some("Succeeded") => ended.succeeded += 1,
                _ => ended.failed += 1,
            }
        }
        all
    }

    fn write_queues(&mut self, reports: &[QuotaReport]) -> bool {
        let reports: BTreeMap<ObjectKey, &QuotaReport> =
            reports.iter().filter_map(|report| Some((elastic::object_key(&report.key)?, report))).collect();
        let mut groups: BTreeMap<String, BTreeMap<&'static str, u32>> = BTreeMap::new();
        for (key, group) in self.store().of_kind(SCHEDULING, POD_GROUP, None) {
            let phase = GroupPhase::of(field::text(group, "/status/phase")).name();
            *groups.entry(self.queue_of(key, group)).or_default().entry(phase).or_default() += 1;
        }
        let none = BTreeMap::new();
        let statuses: Vec<_> = self
            .store()
            .of_kind(SCHEDULING, QUEUE, None)
            .map(|(key, queue)| {
                let groups = groups.get(&*key.name).unwrap_or(&none);
                (key.clone(), queue_status(queue, reports.get(key).copied(), groups))
            })
            .collect();
        let mut changed = false;
        for (key, fields) in statuses {
            changed |= self.server.amend(&key, |queue| {
                for (name, value) in fields {
                    field::put(queue, &["status", name], value);
                }
            });
        }
        changed
    }

    /// The queue of a group: its own, its namespace's, or the default.
    fn queue_of(&self, key: &ObjectKey, group: &Value) -> String {
        let namespace = ObjectKey {
            group: "",
            kind: "Namespace",
            namespace: None,
            name: key.namespace.clone().unwrap_or_default(),
        };
        let namespace = self.store().get(&namespace);
        let of_namespace = namespace.and_then(|namespace| namespace["metadata"]["annotations"][QUEUE_NAME].as_str());
        field::text(group, "/spec/queue").or(of_namespace).unwrap_or(DEFAULT_QUEUE).to_string()
    }
}
