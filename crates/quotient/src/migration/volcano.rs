//! Queues, groups and jobs of Volcano, and its scheduler's actions and plugins.

use serde_json::{Map, Value};

use super::evidence::Evidence;
use super::peer::Peer;
use super::scheduler_conf::{Plugin, SchedulerConf};
use super::{Remarks, Section, counted, some_of};

const SYSTEM: Peer = Peer::Volcano;

/// Plugins that work as they are.
const WORKING: [(&str, &str); 7] = [
    ("capacity", "is the policy of queues"),
    ("capacity-card", "is the policy of cards; its arguments are in the configuration below"),
    ("crossquota", "is the policy of node caps; its arguments are in the configuration below"),
    ("gang", "the minimum of a group starts whole or not at all"),
    ("priority", "orders pods of one share"),
    ("predicates", "filters of kube-scheduler's default profile"),
    ("pdb", "a disruption budget is violated only where no other set of victims will do"),
];

/// Plugins that differ, with the row that says how.
const DIFFERING: [(&str, &str, Section, &str); 5] = [
    ("proportion", "`weight` has no effect: give each queue `deserved`", Section::Queues, "`weight` of a queue"),
    ("drf", "queues come in the order of their share of what they deserve", Section::Configurations, "`drf`"),
    ("binpack", "nodes are scored by LeastAllocated", Section::Configurations, "`binpack`"),
    (
        "nodeorder",
        "scores of kube-scheduler with its weights; arguments have no effect",
        Section::Configurations,
        "`nodeorder`",
    ),
    ("conformance", "no namespace or priority class is exempt from eviction", Section::Configurations, "`conformance`"),
];

const ACTIONS: [&str; 5] = ["enqueue", "allocate", "backfill", "preempt", "reclaim"];

/// What the scheduler's configuration means here.
pub fn plugins(conf: &SchedulerConf, remarks: &mut Remarks) {
    let SchedulerConf::Volcano { place, actions, plugins } = conf else { return };
    let (done, others): (Vec<&String>, Vec<&String>) =
        actions.iter().partition(|action| ACTIONS.contains(&action.as_str()));
    let joined = |actions: &[&String]| actions.iter().map(|action| action.as_str()).collect::<Vec<_>>().join(", ");
    if !done.is_empty() {
        let message = "are always done: admission to queues, scheduling, preemption and reclaiming";
        remarks.works(SYSTEM, format!("actions {} ({place})", joined(&done)), message);
    }
    let not_done: Vec<&str> =
        ["preempt", "reclaim"].into_iter().filter(|action| !actions.iter().any(|known| known == action)).collect();
    if !actions.is_empty() && !not_done.is_empty() {
        remarks.differs(
            SYSTEM,
            format!("actions without {} ({place})", not_done.join(" and ")),
            "pods are preempted and lent resources reclaimed all the same",
            Section::Configurations,
            "`actions`",
        );
    }
    if !others.is_empty() {
        let what = format!("actions {} ({place})", joined(&others));
        remarks.differs(SYSTEM, what, "have no effect", Section::Configurations, "`actions`");
    }
    for Plugin { name, .. } in plugins {
        let what = format!("plugin {name} ({place})");
        let works = WORKING.iter().find(|(known, _)| known == name);
        let differs = DIFFERING.iter().find(|(known, ..)| known == name);
        match (works, differs) {
            (Some((_, message)), _) => remarks.works(SYSTEM, what, *message),
            (_, Some((_, message, section, row))) => remarks.differs(SYSTEM, what, *message, *section, row),
            _ => remarks.differs(SYSTEM, what, "has no effect", Section::Configurations, "other plugins of Volcano"),
        }
    }
}

/// What is said of queues, groups and jobs.
pub fn remarks(evidence: &Evidence, remarks: &mut Remarks) {
    let queues = evidence.of("scheduling.volcano.sh", "Queue");
    let jobs = evidence.of("batch.volcano.sh", "Job");
    let groups = evidence.of("scheduling.volcano.sh", "PodGroup");
    if !queues.is_empty() {
        let message = "capability, deserved, guarantee, parent, reclaimable and card quotas";
        remarks.works(SYSTEM, counted(queues.len(), "Queue"), message);
    }
    if !groups.is_empty() {
        let message =
            "minMember, minTaskMember, minResources, queue, priorityClassName; phases and conditions are written";
        remarks.works(SYSTEM, counted(groups.len(), "PodGroup"), message);
    }
    if !jobs.is_empty() {
        remarks.works(SYSTEM, counted(jobs.len(), "Job"), "Volcano's controller goes on making their pods");
    }
    of_queues(evidence, queues, remarks);
}

fn of_queues(evidence: &Evidence, queues: &[Value], remarks: &mut Remarks) {
    let weighs = |queue: &&Value| queue["spec"]["weight"].as_u64().is_some_and(|weight| weight > 1);
    let weighted: Vec<String> = queues
        .iter()
        .filter(weighs)
        .filter_map(|queue| queue["metadata"]["name"].as_str().map(str::to_owned))
        .collect();
    if !weighted.is_empty() {
        remarks.differs(
            SYSTEM,
            format!("weight of Queue {}", some_of(&weighted)),
            "has no effect: give the queues `deserved`",
            Section::Queues,
            "`weight` of a queue",
        );
    }
    let has_cards = queues.iter().any(|queue| queue["metadata"]["annotations"]["volcano.sh/card.quota"].is_string());
    if !has_cards {
        return;
    }
    remarks.differs(
        SYSTEM,
        "volcano.sh/card.name",
        "steers pods to nodes with that card, without an affinity",
        Section::Queues,
        "`card.name`",
    );
    if !evidence.nameless_cards.is_empty() {
        remarks.differs(
            SYSTEM,
            format!(
                "{} without card.name: {}",
                counted(evidence.nameless_cards.len(), "GPU pod"),
                some_of(&evidence.nameless_cards)
            ),
            "charged for the card of the node",
            Section::Queues,
            "a GPU pod without `card.name`",
        );
    }
}

/// The settings that keep what plugins' arguments say: keys of a configuration with their values.
pub fn settings(evidence: &Evidence) -> Map<String, Value> {
    let mut settings = Map::new();
    for conf in &evidence.confs {
        let SchedulerConf::Volcano { plugins, .. } = conf else { continue };
        for Plugin { name, arguments } in plugins {
            let key = match name.as_str() {
                "capacity-card" => "cards",
                "crossquota" => "crossQuota",
                _ => continue,
            };
            if arguments.as_object().is_some_and(|arguments| !arguments.is_empty()) {
                settings.insert(key.to_owned(), arguments.clone());
            }
        }
    }
    settings
}
