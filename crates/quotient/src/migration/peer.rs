//! The systems that a cluster moves from: how each is recognised, and what plugins of kube-scheduler's framework mean.

use std::collections::BTreeSet;
use std::fmt;

use serde::Serialize;
use serde_json::Value;

use super::evidence::Evidence;
use super::scheduler_conf::{Plugin, Profile, SchedulerConf};
use super::{Incumbent, Remarks, Section, counted};

/// A system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Peer {
    #[serde(rename = "scheduler-plugins")]
    SchedulerPlugins,
    #[serde(rename = "nos")]
    Nos,
    Koordinator,
    Volcano,
    #[serde(rename = "kube-scheduler")]
    KubeScheduler,
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Peer::SchedulerPlugins => "scheduler-plugins",
            Peer::Nos => "nos",
            Peer::Koordinator => "Koordinator",
            Peer::Volcano => "Volcano",
            Peer::KubeScheduler => "kube-scheduler",
        })
    }
}

impl Peer {
    const QUOTA_SYSTEMS: [Peer; 4] = [Peer::SchedulerPlugins, Peer::Nos, Peer::Koordinator, Peer::Volcano];

    /// The kinds of its objects, as group and kind.
    pub fn kinds(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Peer::SchedulerPlugins => &[("scheduling.x-k8s.io", "ElasticQuota")],
            Peer::Nos => &[
                ("nos.nebuly.com", "ElasticQuota"),
                ("nos.nebuly.com", "CompositeElasticQuota"),
                ("n8s.nebuly.ai", "ElasticQuota"),
                ("n8s.nebuly.ai", "CompositeElasticQuota"),
            ],
            Peer::Koordinator => {
                &[("scheduling.sigs.k8s.io", "ElasticQuota"), ("quota.koordinator.sh", "ElasticQuotaProfile")]
            }
            Peer::Volcano => &[
                ("scheduling.volcano.sh", "Queue"),
                ("scheduling.volcano.sh", "PodGroup"),
                ("batch.volcano.sh", "Job"),
            ],
            Peer::KubeScheduler => &[],
        }
    }

    /// The names of its scheduler where nothing else is configured.
    fn default_names(self) -> &'static [&'static str] {
        match self {
            Peer::SchedulerPlugins => &["scheduler-plugins-scheduler"],
            Peer::Nos => &["nos-scheduler", "n8s-scheduler"],
            Peer::Koordinator => &["koord-scheduler"],
            Peer::Volcano => &["volcano"],
            Peer::KubeScheduler => &["default-scheduler"],
        }
    }

    /// What `--systems` has to name.
    pub fn systems(self) -> &'static str {
        match self {
            Peer::SchedulerPlugins | Peer::Nos | Peer::KubeScheduler => "elastic",
            Peer::Koordinator => "tree",
            Peer::Volcano => "queues",
        }
    }
}

/// What a program of a system does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    Scheduler,
    Controller,
    Webhooks,
}

/// A program of a system that runs in the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    pub system: Peer,
    pub role: Role,
    /// As `Deployment/namespace/name`.
    pub object: String,
    pub replicas: u64,
    /// The names that it is given as `--scheduler-name`.
    pub scheduler_names: Vec<String>,
}

/// Programs by a part of their image's name.
const IMAGES: [(&str, Peer, Role); 11] = [
    ("vc-scheduler", Peer::Volcano, Role::Scheduler),
    ("vc-controller-manager", Peer::Volcano, Role::Controller),
    ("vc-webhook-manager", Peer::Volcano, Role::Webhooks),
    ("koord-scheduler", Peer::Koordinator, Role::Scheduler),
    ("koord-manager", Peer::Koordinator, Role::Controller),
    ("scheduler-plugins/kube-scheduler", Peer::SchedulerPlugins, Role::Scheduler),
    ("scheduler-plugins/controller", Peer::SchedulerPlugins, Role::Controller),
    ("nos-scheduler", Peer::Nos, Role::Scheduler),
    ("n8s-scheduler", Peer::Nos, Role::Scheduler),
    ("nos-operator", Peer::Nos, Role::Controller),
    ("n8s-operator", Peer::Nos, Role::Controller),
];

impl Program {
    /// The program that a workload runs, if it is one of a system's.
    pub fn of(workload: &Value, object: &str, scheduler_names: Vec<String>) -> Option<Program> {
        let containers = workload.pointer("/spec/template/spec/containers").and_then(Value::as_array)?;
        let mut images = containers.iter().filter_map(|container| container["image"].as_str());
        let known = |image: &str| IMAGES.iter().find(|(part, ..)| image.contains(part));
        let (_, system, role) = images.find_map(known)?;
        let replicas = workload.pointer("/spec/replicas").and_then(Value::as_u64).unwrap_or(1);
        let object = object.to_owned();
        Some(Program { system: *system, role: *role, object, replicas, scheduler_names })
    }
}

/// Plugins that only Koordinator's scheduler has.
const KOORDINATOR_PLUGINS: [&str; 5] =
    ["ElasticQuota", "LoadAwareScheduling", "NodeNUMAResource", "DeviceShare", "Reservation"];

/// The system whose scheduler a profile configures.
pub fn of_profile(evidence: &Evidence, profile: &Profile) -> Peer {
    if KOORDINATOR_PLUGINS.iter().any(|name| profile.plugin(name).is_some()) {
        return Peer::Koordinator;
    }
    let Some(capacity) = profile.plugin("CapacityScheduling") else {
        let is_gang = profile.plugin("Coscheduling").is_some();
        return if is_gang { Peer::SchedulerPlugins } else { Peer::KubeScheduler };
    };
    let has = |peer: Peer| peer.kinds().iter().any(|(group, kind)| !evidence.of(group, kind).is_empty());
    let is_nos = gpu_memory(capacity).is_some() || (has(Peer::Nos) && !has(Peer::SchedulerPlugins));
    if is_nos { Peer::Nos } else { Peer::SchedulerPlugins }
}

/// What a whole GPU counts in GB, by the arguments of the CapacityScheduling plugin of nos.
pub fn gpu_memory(plugin: &Plugin) -> Option<u64> {
    let arguments = plugin.arguments.as_object()?;
    let is_it = |name: &str| name.eq_ignore_ascii_case("nvidiaGpuResourceMemoryGB");
    arguments.iter().find(|(name, _)| is_it(name)).and_then(|(_, value)| value.as_u64())
}

/// The systems that a cluster runs or has objects of; kube-scheduler where there is none of the others.
pub fn incumbents(evidence: &Evidence) -> Vec<Incumbent> {
    let all = Peer::QUOTA_SYSTEMS.into_iter().filter_map(|system| incumbent(evidence, system));
    let found: Vec<Incumbent> = all.collect();
    if !found.is_empty() {
        return found;
    }
    incumbent(evidence, Peer::KubeScheduler).into_iter().collect()
}

fn incumbent(evidence: &Evidence, system: Peer) -> Option<Incumbent> {
    let mut names: BTreeSet<String> = BTreeSet::new();
    let mut found = Vec::new();
    for conf in &evidence.confs {
        let of_conf: Vec<&str> = match conf {
            SchedulerConf::Kube { profiles, .. } => {
                let ours = profiles.iter().filter(|profile| of_profile(evidence, profile) == system);
                ours.map(|profile| profile.name.as_str()).collect()
            }
            SchedulerConf::Volcano { .. } if system == Peer::Volcano => Vec::new(),
            SchedulerConf::Volcano { .. } => continue,
        };
        if !of_conf.is_empty() || system == Peer::Volcano && matches!(conf, SchedulerConf::Volcano { .. }) {
            names.extend(of_conf.into_iter().map(str::to_owned));
            found.push(conf.place().to_owned());
        }
    }
    for program in evidence.programs.iter().filter(|program| program.system == system) {
        names.extend(program.scheduler_names.iter().cloned());
        found.push(program.object.clone());
    }
    for (group, kind) in system.kinds() {
        let count = evidence.of(group, kind).len();
        if count > 0 {
            found.push(format!("{} ({group})", counted(count, kind)));
        }
    }
    let defaults = system.default_names().iter().map(|name| (*name).to_owned());
    let (named, unnamed): (Vec<String>, Vec<String>) =
        defaults.partition(|name| evidence.pods.contains_key(name) || evidence.workloads.contains_key(name));
    if names.is_empty() {
        names.extend(if named.is_empty() { unnamed } else { named.clone() });
    }
    // Pods that name it show that it is there, though nothing else was seen of it.
    if found.is_empty() && named.is_empty() {
        return None;
    }
    let scheduler_names: Vec<String> = names.into_iter().collect();
    Some(Incumbent {
        system,
        found,
        pods: evidence.pods_of(&scheduler_names),
        workloads: evidence.workloads_of(&scheduler_names),
        scheduler_names,
    })
}

/// Plugins of kube-scheduler's default profile.
const DEFAULT_PLUGINS: [&str; 23] = [
    "DefaultBinder",
    "DefaultPreemption",
    "DynamicResources",
    "ImageLocality",
    "InterPodAffinity",
    "NodeAffinity",
    "NodeDeclaredFeatures",
    "NodeName",
    "NodePorts",
    "NodeResourcesBalancedAllocation",
    "NodeResourcesFit",
    "NodeUnschedulable",
    "NodeVolumeLimits",
    "PodTopologySpread",
    "PrioritySort",
    "SchedulingGates",
    "TaintToleration",
    "VolumeBinding",
    "VolumeRestrictions",
    "VolumeZone",
    "GangScheduling",
    "DefaultPodTopologySpread",
    "SelectorSpread",
];

/// What a plugin of a profile means here.
pub(super) fn plugin(system: Peer, place: &str, profile: &Profile, plugin: &Plugin, remarks: &mut Remarks) {
    let Plugin { name, arguments } = plugin;
    let what = format!("plugin {name} ({place}, profile {})", profile.name);
    let section = Section::Configurations;
    let strategy = arguments.pointer("/scoringStrategy/type").and_then(Value::as_str);
    match name.as_str() {
        "CapacityScheduling" => remarks.works(system, what, "is the policy of elastic quotas"),
        // What its arguments mean is told apart.
        "ElasticQuota" => remarks.works(system, what, "is the policy of tree quotas"),
        "Coscheduling" => remarks.differs(
            system,
            what,
            "its PodGroups are gangs; its arguments have no effect",
            section,
            "PodGroups of Coscheduling",
        ),
        "NodeResourcesFit" if strategy.is_some_and(|strategy| strategy != "LeastAllocated") => remarks.differs(
            system,
            what,
            format!("nodes are scored by LeastAllocated, not {}", strategy.unwrap_or_default()),
            section,
            "`NodeResourcesFit`",
        ),
        name if DEFAULT_PLUGINS.contains(&name) => {
            let has_arguments =
                arguments.as_object().is_some_and(|all| all.keys().any(|key| key != "kind" && key != "apiVersion"));
            match has_arguments && strategy.is_none() {
                true => remarks.differs(
                    system,
                    what,
                    "works with its default arguments; those that are given have no effect",
                    section,
                    "arguments of default plugins",
                ),
                false => remarks.works(system, what, "works as in kube-scheduler's default profile"),
            }
        }
        _ => remarks.differs(system, what, "has no effect", section, "other plugins of a KubeSchedulerConfiguration"),
    }
}
