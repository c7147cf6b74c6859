//! Elastic quotas of scheduler-plugins and of nos.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::evidence::{COSCHEDULING, Evidence};
use super::peer::Peer;
use super::{Remarks, Section, counted, some_of};

/// What is said of the quotas of scheduler-plugins.
pub fn scheduler_plugins(evidence: &Evidence, remarks: &mut Remarks) {
    let (system, section) = (Peer::SchedulerPlugins, Section::Elastic);
    let quotas = evidence.of("scheduling.x-k8s.io", "ElasticQuota");
    if !quotas.is_empty() {
        remarks.works(
            system,
            counted(quotas.len(), "ElasticQuota"),
            "min, max and status are read and written as they are",
        );
        let pool = Pool::of(quotas);
        let unnamed = pool.leaving_out("max", &pool.named());
        if !unnamed.is_empty() {
            remarks.differs(
                system,
                some_of(&unnamed),
                "what max does not name is 0 there and unlimited here",
                section,
                "a resource that max does not name",
            );
        }
        let ungoverned: Vec<String> =
            pool.resources("max").difference(&pool.resources("min")).map(|name| (*name).to_owned()).collect();
        if !ungoverned.is_empty() {
            remarks.differs(
                system,
                format!("{}, which only max names", some_of(&ungoverned)),
                "limited by max and governed by no min",
                section,
                "a resource that min does not name",
            );
        }
        let twice = pool.namespaces_with_several();
        if !twice.is_empty() {
            remarks.differs(
                system,
                format!("namespace {}", some_of(&twice)),
                "the older quota counts, and the other is reported",
                section,
                "two quotas in a namespace",
            );
        }
        for (what, message, row) in [
            ("preemption", "the cheapest set of victims anywhere in the cluster", "victims on several nodes"),
            (
                "order of pending pods",
                "the least served quota comes first, then priority, then age",
                "order of pending pods",
            ),
            ("status.used", "counts pods that are assigned to a node, not only running ones", "`status.used`"),
        ] {
            remarks.differs(system, what, message, section, row);
        }
    }
    let gangs: BTreeSet<&String> =
        COSCHEDULING.iter().filter_map(|key| evidence.foreign_gangs.get(key)).flatten().collect();
    if !gangs.is_empty() {
        let names: Vec<String> = gangs.into_iter().cloned().collect();
        remarks.differs(
            system,
            format!("{} of Coscheduling: {}", counted(names.len(), "gang"), some_of(&names)),
            "their minimum starts in one step; no pod holds a place while it waits for others",
            Section::Configurations,
            "PodGroups of Coscheduling",
        );
    }
}

/// What is said of the quotas of nos.
pub fn nos(evidence: &Evidence, remarks: &mut Remarks) {
    let (system, section) = (Peer::Nos, Section::Nos);
    let of = |kind: &str| -> Vec<&Value> {
        ["nos.nebuly.com", "n8s.nebuly.ai"].into_iter().flat_map(|group| evidence.of(group, kind)).collect()
    };
    let (quotas, composites) = (of("ElasticQuota"), of("CompositeElasticQuota"));
    if quotas.is_empty() && composites.is_empty() {
        return;
    }
    if !quotas.is_empty() {
        remarks.works(system, counted(quotas.len(), "ElasticQuota"), "min, max, GPU memory and the capacity label");
    }
    if !composites.is_empty() {
        remarks.works(
            system,
            counted(composites.len(), "CompositeElasticQuota"),
            "one quota over its namespaces, whose own quotas it replaces",
        );
        remarks.differs(
            system,
            counted(composites.len(), "CompositeElasticQuota"),
            "counts once in the pool, not once for each namespace",
            section,
            "a composite in the sums",
        );
    }
    let groups =
        ["nos.nebuly.com", "n8s.nebuly.ai"].into_iter().filter(|group| !evidence.of(group, "ElasticQuota").is_empty());
    if groups.count() > 1 {
        remarks.differs(
            system,
            "nos.nebuly.com and n8s.nebuly.ai",
            "form two pools that do not lend to each other",
            section,
            "`nos` and `n8s` objects in one cluster",
        );
    }
    for (what, message, row) in [
        (
            "preemption",
            "whether a pod is over quota is decided by its quota's ledger, not by its label",
            "over-quota pods",
        ),
        ("capacity label", "of pods of one age, those with higher priority are in quota first", "order for the label"),
        ("fair sharing", "a claimant within min reclaims from all that is above min", "min or fair share first"),
    ] {
        remarks.differs(system, what, message, section, row);
    }
}

/// The quotas of one API group.
struct Pool<'a>(Vec<(String, &'a Value)>);

impl<'a> Pool<'a> {
    fn of(quotas: &'a [Value]) -> Self {
        let text = |quota: &Value, field: &str| quota["metadata"][field].as_str().unwrap_or("default").to_owned();
        let name = |quota: &Value| format!("ElasticQuota/{}/{}", text(quota, "namespace"), text(quota, "name"));
        Pool(quotas.iter().map(|quota| (name(quota), quota)).collect())
    }

    /// The resources that any quota names in a field.
    fn resources(&self, field: &str) -> BTreeSet<&'a str> {
        let maps = self.0.iter().filter_map(|(_, quota)| quota["spec"][field].as_object());
        maps.flat_map(|amounts| amounts.keys().map(String::as_str)).collect()
    }

    fn named(&self) -> BTreeSet<&'a str> {
        &self.resources("min") | &self.resources("max")
    }

    /// The quotas whose field names some resources, but not all of these.
    fn leaving_out(&self, field: &str, resources: &BTreeSet<&str>) -> Vec<String> {
        let leaves_out = |quota: &Value| {
            let amounts = quota["spec"][field].as_object();
            amounts.is_some_and(|amounts| resources.iter().any(|resource| !amounts.contains_key(*resource)))
        };
        self.0.iter().filter(|(_, quota)| leaves_out(quota)).map(|(name, _)| name.clone()).collect()
    }

    fn namespaces_with_several(&self) -> Vec<String> {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for (_, quota) in &self.0 {
            *counts.entry(quota["metadata"]["namespace"].as_str().unwrap_or("default")).or_default() += 1;
        }
        counts.into_iter().filter(|(_, count)| *count > 1).map(|(name, _)| name.to_owned()).collect()
    }
}
