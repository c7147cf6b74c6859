//! Quota trees of Koordinator, and the arguments of its ElasticQuota plugin.

use serde_json::{Map, Value, json};

use super::evidence::{Evidence, KOORDINATOR_GANG};
use super::peer::Peer;
use super::scheduler_conf::SchedulerConf;
use super::{Remarks, Section, counted, some_of};

const SYSTEM: Peer = Peer::Koordinator;
const SECTION: Section = Section::Trees;

/// Arguments that are checked or done here whatever they say.
const ALWAYS: [(&str, &str, &str); 4] = [
    ("enableRuntimeQuota", "runtime quotas always decide", "runtime"),
    ("enableCheckParentQuota", "parents are always checked", "parents"),
    ("monitorAllQuotas", "over-use is always ended after `tree.revokeAfter`", "lent resources come back"),
    ("disableDefaultQuotaPreemption", "pods of the default quota are preempted like others", "preemption"),
];

/// Arguments that become a setting, or that are read elsewhere.
const SET: [&str; 4] = ["delayEvictTime", "enableMinQuotaScale", "apiVersion", "kind"];

/// The arguments of the plugin, with where they were found.
fn arguments(evidence: &Evidence) -> Option<(&str, &Map<String, Value>)> {
    evidence.confs.iter().find_map(|conf| match conf {
        SchedulerConf::Kube { place, profiles, .. } => {
            let plugin = profiles.iter().find_map(|profile| profile.plugin("ElasticQuota"))?;
            Some((place.as_str(), plugin.arguments.as_object()?))
        }
        SchedulerConf::Volcano { .. } => None,
    })
}

/// What is said of trees.
pub fn remarks(evidence: &Evidence, remarks: &mut Remarks) {
    let quotas = evidence.of("scheduling.sigs.k8s.io", "ElasticQuota");
    let profiles = evidence.of("quota.koordinator.sh", "ElasticQuotaProfile");
    if !quotas.is_empty() {
        let message = "min, max, weights, trees, labels and annotations are read as they are";
        remarks.works(SYSTEM, counted(quotas.len(), "ElasticQuota"), message);
    }
    if !profiles.is_empty() {
        let message = "root quotas follow the nodes that they select";
        remarks.works(SYSTEM, counted(profiles.len(), "ElasticQuotaProfile"), message);
    }
    if let Some((place, arguments)) = arguments(evidence) {
        of_arguments(place, arguments, remarks);
    }
    if !quotas.is_empty() || !profiles.is_empty() {
        of_quotas(evidence, quotas, remarks);
    }
    if let Some(gangs) = evidence.foreign_gangs.get(KOORDINATOR_GANG) {
        let names: Vec<String> = gangs.iter().cloned().collect();
        remarks.differs(
            SYSTEM,
            format!("{} by annotation: {}", counted(names.len(), "gang"), some_of(&names)),
            "their minimum starts in one step; no pod holds a place while it waits for others",
            Section::Configurations,
            "gangs of Koordinator",
        );
    }
}

fn of_arguments(place: &str, arguments: &Map<String, Value>, remarks: &mut Remarks) {
    for (name, value) in arguments {
        let what = format!("{name}: {value} ({place})");
        let always = ALWAYS.iter().find(|(known, ..)| known == name);
        match (name.as_str(), always) {
            ("delayEvictTime" | "enableMinQuotaScale", _) => {
                remarks.works(SYSTEM, what, "is in the configuration below");
            }
            (_, Some((_, message, _))) if *value == Value::Bool(name.starts_with("enable")) => {
                remarks.works(SYSTEM, what, *message);
            }
            (_, Some((_, message, row))) => remarks.differs(SYSTEM, what, *message, SECTION, row),
            ("defaultQuotaGroupMax", _) => remarks.differs(
                SYSTEM,
                what,
                "give the default quota this max in its ElasticQuota: it is enforced",
                SECTION,
                "the default quota's max",
            ),
            (name, _) if SET.contains(&name) => {}
            _ => remarks.differs(
                SYSTEM,
                what,
                "has no effect",
                Section::Configurations,
                "other arguments of Koordinator's ElasticQuota plugin",
            ),
        }
    }
    if !arguments.contains_key("enableMinQuotaScale") {
        let message = "mins that add up to more than there is are scaled down, unless `tree.scaleMin: false`";
        remarks.differs(SYSTEM, "scaled mins", message, SECTION, "scaled min");
    }
}

fn of_quotas(evidence: &Evidence, quotas: &[Value], remarks: &mut Remarks) {
    let exists = |name: &str| quotas.iter().any(|quota| quota["metadata"]["name"] == name);
    let missing: Vec<String> = evidence
        .named_quotas
        .iter()
        .filter(|(quota, _)| !exists(quota))
        .map(|(quota, pod)| format!("{quota} (Pod/{pod})"))
        .collect();
    if !missing.is_empty() {
        remarks.differs(
            SYSTEM,
            format!("quotas that pods name and that do not exist: {}", some_of(&missing)),
            "such pods stay pending with QuotaNotFound",
            SECTION,
            "a pod whose label names no quota",
        );
    }
    for (what, message, row) in [
        ("lending", "a claimant within its min reclaims at once, not after a delay", "lent resources come back"),
        ("preemption", "also between quotas of a tree, by entitlement", "preemption"),
        ("over-use eviction", "violates no disruption budget", "over-use eviction and disruption budgets"),
    ] {
        remarks.differs(SYSTEM, what, message, SECTION, row);
    }
}

/// The settings of trees that keep what the plugin's arguments say.
pub fn settings(evidence: &Evidence) -> Option<Value> {
    let (_, arguments) = arguments(evidence)?;
    let mut tree = Map::new();
    // A duration of Kubernetes' own configurations is written as ours are.
    if let Some(Value::String(delay)) = arguments.get("delayEvictTime") {
        tree.insert("revokeAfter".to_owned(), json!(delay));
    }
    if let Some(scales @ Value::Bool(_)) = arguments.get("enableMinQuotaScale") {
        tree.insert("scaleMin".to_owned(), scales.clone());
    }
    (!tree.is_empty()).then_some(Value::Object(tree))
}
