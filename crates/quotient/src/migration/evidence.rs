//! What a cluster has of other schedulers: their configurations, programs and objects, and who names them.

use std::collections::{BTreeMap, BTreeSet};

use quotient_api::key_of;
use serde_json::Value;

use super::peer::Program;
use super::scheduler_conf::SchedulerConf;
use crate::check::scheduler_name_flags;

/// What is known of a cluster.
#[derive(Debug, Default)]
pub struct Evidence {
    pub confs: Vec<SchedulerConf>,
    pub programs: Vec<Program>,
    /// Pods that have not ended, by the scheduler that they name.
    pub pods: BTreeMap<String, usize>,
    /// What makes pods, by the scheduler that its template names, as `Kind/namespace/name`.
    pub workloads: BTreeMap<String, Vec<String>>,
    /// Quotas, queues, groups and jobs of the peers, by API group and kind.
    pub objects: BTreeMap<(String, String), Vec<Value>>,
    /// Gangs that pods name in a way that is not read here, by that way.
    pub foreign_gangs: BTreeMap<&'static str, BTreeSet<String>>,
    /// The quotas that pods name by Koordinator's label, each with one of the pods.
    pub named_quotas: BTreeMap<String, String>,
    /// Pods that ask for a GPU and name no card, as `namespace/name`.
    pub nameless_cards: Vec<String>,
}

/// The groups whose objects are the peers' own.
const GROUPS: [&str; 7] = [
    "scheduling.x-k8s.io",
    "nos.nebuly.com",
    "n8s.nebuly.ai",
    "scheduling.sigs.k8s.io",
    "quota.koordinator.sh",
    "scheduling.volcano.sh",
    "batch.volcano.sh",
];

/// How pods name a gang of Coscheduling and of Koordinator.
pub const COSCHEDULING: [&str; 2] = ["scheduling.x-k8s.io/pod-group", "pod-group.scheduling.sigs.k8s.io"];
pub const KOORDINATOR_GANG: &str = "gang.scheduling.koordinator.sh/name";

const QUOTA_NAME: &str = "quota.scheduling.koordinator.sh/name";
const CARD_NAME: &str = "volcano.sh/card.name";

fn text<'a>(value: &'a Value, pointer: &str) -> Option<&'a str> {
    value.pointer(pointer).and_then(Value::as_str)
}

impl Evidence {
    /// Takes in an object, whole or as a snapshot keeps it.
    pub fn take(&mut self, object: &Value) {
        let Ok(key) = key_of(object) else { return };
        match (key.group, key.kind) {
            ("", "ConfigMap") => self.confs.extend(SchedulerConf::all("", object)),
            ("", "Pod") => self.take_pod(object),
            (group, kind) if GROUPS.contains(&group) => {
                self.objects.entry((group.to_owned(), kind.to_owned())).or_default().push(object.clone());
                if (group, kind) == ("batch.volcano.sh", "Job") {
                    let name = text(object, "/spec/schedulerName").unwrap_or("volcano");
                    self.workloads.entry(name.to_owned()).or_default().push(key.to_string());
                }
            }
            (_, kind) => {
                let template = if kind == "CronJob" { "/spec/jobTemplate/spec/template" } else { "/spec/template" };
                let Some(template) = object.pointer(template) else { return };
                // What another object made follows that one.
                if object.pointer("/metadata/ownerReferences/0").is_none() {
                    let name = text(template, "/spec/schedulerName").unwrap_or("default-scheduler");
                    self.workloads.entry(name.to_owned()).or_default().push(key.to_string());
                }
                self.programs.extend(Program::of(object, &key.to_string(), scheduler_name_flags(object)));
            }
        }
    }

    /// Takes in a configuration from a file of its own.
    pub fn take_conf(&mut self, place: &str, value: &Value) -> bool {
        let found = SchedulerConf::all(place, value);
        let is_one = !found.is_empty();
        self.confs.extend(found);
        is_one
    }

    fn take_pod(&mut self, pod: &Value) {
        if matches!(text(pod, "/status/phase"), Some("Succeeded" | "Failed")) {
            return;
        }
        let scheduler = text(pod, "/spec/schedulerName").unwrap_or("default-scheduler");
        *self.pods.entry(scheduler.to_owned()).or_default() += 1;
        let namespace = text(pod, "/metadata/namespace").unwrap_or("default");
        let name = text(pod, "/metadata/name").unwrap_or_default();
        let meta = |part: &str, key: &str| pod["metadata"][part][key].as_str();
        let gangs = COSCHEDULING.into_iter().map(|key| (key, meta("labels", key)));
        let koordinator = meta("annotations", KOORDINATOR_GANG).or_else(|| meta("labels", KOORDINATOR_GANG));
        for (key, gang) in gangs.chain([(KOORDINATOR_GANG, koordinator)]) {
            if let Some(gang) = gang {
                self.foreign_gangs.entry(key).or_default().insert(format!("{namespace}/{gang}"));
            }
        }
        if let Some(quota) = meta("labels", QUOTA_NAME) {
            self.named_quotas.entry(quota.to_owned()).or_insert_with(|| format!("{namespace}/{name}"));
        }
        if asks_for_gpu(pod) && meta("annotations", CARD_NAME).is_none() {
            self.nameless_cards.push(format!("{namespace}/{name}"));
        }
    }

    /// The objects of a kind.
    pub fn of(&self, group: &str, kind: &str) -> &[Value] {
        self.objects.get(&(group.to_owned(), kind.to_owned())).map_or(&[], Vec::as_slice)
    }

    /// How many pods name one of these schedulers.
    pub fn pods_of(&self, names: &[String]) -> usize {
        names.iter().filter_map(|name| self.pods.get(name)).sum()
    }

    /// What makes pods that name one of these schedulers.
    pub fn workloads_of(&self, names: &[String]) -> Vec<String> {
        names.iter().filter_map(|name| self.workloads.get(name)).flatten().cloned().collect()
    }
}

fn asks_for_gpu(pod: &Value) -> bool {
    let containers = pod.pointer("/spec/containers").and_then(Value::as_array).into_iter().flatten();
    let mut requests = containers.flat_map(|container| {
        ["requests", "limits"].into_iter().filter_map(|part| container["resources"][part].as_object())
    });
    requests.any(|amounts| amounts.keys().any(|name| name.ends_with("/gpu") || name.contains("/mig-")))
}
