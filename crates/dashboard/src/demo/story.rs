//! The guided story: what happens when, what to look at, and what came of it.
//!
//! A chapter acts on the cluster and later says what came of it, from the cluster itself. `as_told` is whether that is
//! what the chapter promises; a test holds the story to it.

use quotient_engine::fact::PodKey;
use serde::Serialize;

use crate::demo::core::{Core, MINUTE_MS};
use crate::demo::objects::{self, PodPlan, gpus};
use crate::what_if::what_if;

/// When speech gives up nodes, so that the gang can start.
pub const RELEASE_MS: i64 = 26 * MINUTE_MS;

/// When the story is over and everyday load begins.
pub const END_MS: i64 = 62 * MINUTE_MS;

/// Pods of this team run for longer than the story.
const LONG_MS: i64 = 300 * MINUTE_MS;

/// A part of the story.
pub struct Chapter {
    pub at_ms: i64,
    pub outcome_at_ms: i64,
    pub title: &'static str,
    pub text: &'static str,
    /// The page to look at.
    pub look: &'static str,
    pub act: fn(&mut Core),
    /// What came of it, and whether that is what was promised.
    pub outcome: fn(&Core) -> (bool, String),
}

/// How far a chapter has come.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Telling {
    pub at_ms: i64,
    pub title: &'static str,
    pub text: &'static str,
    pub look: &'static str,
    pub begun: bool,
    pub outcome: Option<String>,
    pub as_told: bool,
}

/// The story before it begins.
pub fn begin() -> Vec<Telling> {
    let telling = |chapter: &Chapter| Telling {
        at_ms: chapter.at_ms,
        title: chapter.title,
        text: chapter.text,
        look: chapter.look,
        begun: false,
        outcome: None,
        as_told: true,
    };
    CHAPTERS.iter().map(telling).collect()
}

/// The story.
pub const CHAPTERS: [Chapter; 9] = [
    Chapter {
        at_ms: MINUTE_MS,
        outcome_at_ms: 2 * MINUTE_MS,
        title: "A cluster and its teams",
        text: "Eight teams share A100, H100, MIG and MPS cards and CPU nodes. Four quota systems are at work at once: elastic quotas, Volcano queues, nos quotas in GPU memory, and a Koordinator tree.",
        look: "#/overview",
        act: |_| {},
        outcome: |core| {
            let running = core.view().pods.iter().filter(|pod| pod.node.is_some()).count();
            (running > 0, format!("{running} pods run on {} nodes.", core.view().nodes.len()))
        },
    },
    Chapter {
        at_ms: 4 * MINUTE_MS,
        outcome_at_ms: 6 * MINUTE_MS,
        title: "Research borrows",
        text: "Vision uses about half of its guarantee. Research submits more than it is guaranteed, and borrows what vision leaves idle.",
        look: "#/quotas",
        act: research_borrows,
        outcome: |core| {
            let borrowed = gpus_of(core, "research").1;
            (borrowed > 0, format!("Research borrows {borrowed} GPUs that vision is guaranteed."))
        },
    },
    Chapter {
        at_ms: 11 * MINUTE_MS,
        outcome_at_ms: 14 * MINUTE_MS,
        title: "Vision reclaims, across nodes",
        text: "Vision submits a gang of four 8-GPU pods. It is entitled to the room. Two nodes are free, but the guarantees are lent out in full: borrowers on other nodes must go before the gang may use them.",
        look: "#/overview",
        act: vision_reclaims,
        outcome: vision_reclaimed,
    },
    Chapter {
        at_ms: 19 * MINUTE_MS,
        outcome_at_ms: 22 * MINUTE_MS,
        title: "A gang waits",
        text: "LLM submits a training gang on H100. Not all of its pods fit, so none starts: half a gang would hold cards and do nothing.",
        look: "#/waiting",
        act: gang_waits,
        outcome: |core| {
            let waiting = waiting(core, "llm", "pretrain");
            let (bound, code) = (bound(core, "llm", "pretrain"), code(core, "llm", "pretrain-00"));
            let text = format!("{waiting} pods are pending with {code}; {bound} of the gang hold a card.");
            (bound == 0 && code == "GangIncomplete", text)
        },
    },
    Chapter {
        at_ms: RELEASE_MS,
        outcome_at_ms: 28 * MINUTE_MS,
        title: "The gang starts whole",
        text: "Jobs of the speech team end. Now the whole gang fits, and all of its pods start together.",
        look: "#/nodes",
        act: |_| {},
        outcome: |core| {
            let bound = bound(core, "llm", "pretrain");
            (bound == core.layout.gang(), format!("All {bound} pods of the gang run."))
        },
    },
    Chapter {
        at_ms: 32 * MINUTE_MS,
        outcome_at_ms: 34 * MINUTE_MS,
        title: "A card fallback",
        text: "LLM has used up its quota of H100. Its next pod accepts H100 or A100, prefers H100, and runs on A100 at once.",
        look: "#/pod/llm/evaluate",
        act: |core| {
            let card = format!("{}|{}", objects::H100, objects::A100);
            let (queue, card) = (Some("llm"), Some(card.as_str()));
            core.submit(PodPlan { queue, card, ..PodPlan::new("llm", "evaluate", gpus(4)) }, LONG_MS);
        },
        outcome: |core| {
            let node = node_of(core, "llm", "evaluate").unwrap_or_default();
            (node.starts_with("a100"), format!("llm/evaluate runs on {node}, with A100."))
        },
    },
    Chapter {
        at_ms: 38 * MINUTE_MS,
        outcome_at_ms: 40 * MINUTE_MS,
        title: "A node cap",
        text: "CPU nodes are full. Pods without GPUs may hold 16 cores of each GPU node and no more, so that they cannot strand its GPUs. Small reports fit under the cap; a job of 24 cores does not.",
        look: "#/waiting",
        act: node_cap,
        outcome: |core| {
            let (small, code) = (bound(core, "reports", "report"), code(core, "reports", "join"));
            let text = format!("{small} reports run on GPU nodes under the cap; reports/join is pending with {code}.");
            (small == 4 && code == "NodeCapExceeded", text)
        },
    },
    Chapter {
        at_ms: 44 * MINUTE_MS,
        outcome_at_ms: 52 * MINUTE_MS,
        title: "A quota change, previewed and applied",
        text: "Vision claims its whole guarantee and wants four pods more. Before guarantees are moved from research to vision, the change is tried on a copy of the cluster; four minutes later it is applied.",
        look: "#/what-if",
        act: vision_grows,
        outcome: quota_changed,
    },
    Chapter {
        at_ms: 56 * MINUTE_MS,
        outcome_at_ms: 59 * MINUTE_MS,
        title: "A tenant tries to cheat",
        text: "Research sets a priority of one billion to get past vision. LLM leaves out the name of the card, hoping not to be charged for it.",
        look: "#/waiting",
        act: |core| {
            let urgent =
                PodPlan { pool: Some("a100"), priority: 1_000_000_000, ..PodPlan::new("research", "urgent", gpus(8)) };
            core.submit(urgent, 30 * MINUTE_MS);
            core.submit(
                PodPlan { queue: Some("llm"), ..PodPlan::new("llm", "no-card-named", gpus(4)) },
                30 * MINUTE_MS,
            );
        },
        outcome: cheated,
    },
];

fn research_borrows(core: &mut Core) {
    for i in 0..core.layout.borrowers() {
        let plan = PodPlan { pool: Some("a100"), ..PodPlan::new("research", format!("sweep-{i:03}"), gpus(4)) };
        core.submit(plan, LONG_MS);
    }
}

fn vision_reclaims(core: &mut Core) {
    let _ = core.apply(objects::pod_group("vision", "pretrain", None, 4));
    for i in 0..4 {
        let (pool, group) = (Some("a100"), Some("pretrain"));
        core.submit(PodPlan { pool, group, ..PodPlan::new("vision", format!("pretrain-{i}"), gpus(8)) }, LONG_MS);
    }
}

fn vision_reclaimed(core: &Core) -> (bool, String) {
    let victims: Vec<_> = core.evicted.iter().filter(|evicted| &*evicted.namespace == "research").collect();
    let nodes: std::collections::BTreeSet<String> = core
        .view()
        .pods
        .iter()
        .filter(|pod| &*pod.namespace == "vision" && pod.name.starts_with("pretrain"))
        .filter_map(|pod| pod.node.as_ref().map(ToString::to_string))
        .collect();
    let bound = bound(core, "vision", "pretrain");
    let text = format!(
        "{} borrowed pods of research were evicted; {bound} of 4 pods of vision's gang run, on {} nodes.",
        victims.len(),
        nodes.len()
    );
    (bound == 4 && !victims.is_empty() && nodes.len() == 4, text)
}

fn gang_waits(core: &mut Core) {
    let members = core.layout.gang();
    let _ = core.apply(objects::pod_group("llm", "pretrain", Some("llm"), members));
    for i in 0..members {
        let (queue, card, group) = (Some("llm"), Some(objects::H100), Some("pretrain"));
        let plan = PodPlan { queue, card, group, ..PodPlan::new("llm", format!("pretrain-{i:02}"), gpus(8)) };
        core.submit(plan, LONG_MS);
    }
}

fn node_cap(core: &mut Core) {
    for i in 0..4 {
        let requests = serde_json::json!({"cpu": "8", "memory": "16Gi"});
        core.submit(PodPlan::new("reports", format!("report-{i}"), requests), 20 * MINUTE_MS);
    }
    let requests = serde_json::json!({"cpu": "24", "memory": "16Gi"});
    core.submit(PodPlan::new("reports", "join", requests), 20 * MINUTE_MS);
}

/// GPUs that the change moves from research to vision: four pods of eight.
const MOVED: i64 = 32;

/// How long after its preview the change is applied.
pub const APPLY_AFTER_MS: i64 = 4 * MINUTE_MS;

fn vision_grows(core: &mut Core) {
    let used = gpus_of(core, "vision").0;
    let wanted = (core.layout.guarantee() + MOVED - used) / 8;
    for i in 0..wanted {
        let plan = PodPlan { pool: Some("a100"), ..PodPlan::new("vision", format!("label-{i:03}"), gpus(8)) };
        core.submit(plan, LONG_MS);
    }
    core.apply_later(APPLY_AFTER_MS);
}

/// The change that the story previews and applies.
pub fn change(core: &Core) -> Vec<serde_json::Value> {
    let guarantee = core.layout.guarantee();
    vec![
        objects::elastic_quota("research", guarantee - MOVED, 2 * guarantee),
        objects::elastic_quota("vision", guarantee + MOVED, 2 * guarantee),
    ]
}

/// What the change would do, in a sentence.
pub fn preview(core: &Core) -> String {
    let text = change(core).iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
    match what_if(&core.cluster, &text) {
        Ok(answer) => answer.verdict,
        Err(error) => error,
    }
}

fn quota_changed(core: &Core) -> (bool, String) {
    let (used, _) = gpus_of(core, "vision");
    let preview = core.preview.clone().unwrap_or_default();
    let text = format!("The preview said: {preview} Applied, vision uses {used} GPUs.");
    let as_told = used == core.layout.guarantee() + MOVED && preview.starts_with("Accepted. 4 pods would start");
    (as_told, text)
}

fn cheated(core: &Core) -> (bool, String) {
    let of_vision = core.evicted.iter().filter(|evicted| &*evicted.namespace == "vision").count();
    let code = code(core, "llm", "no-card-named");
    let urgent = node_of(core, "research", "urgent").is_some();
    let text = format!(
        "The urgent pod {} from research's own pods; {of_vision} pods of vision were evicted. llm/no-card-named is pending with {code}.",
        if urgent { "took its room" } else { "gets room only" }
    );
    (of_vision == 0 && code == "CardQuotaExceeded", text)
}

/// GPUs that the quota of a team's namespace uses, and borrows.
fn gpus_of(core: &Core, team: &str) -> (i64, i64) {
    let view = core.view();
    let quota = view.quotas.iter().find(|quota| quota.namespace.as_deref() == Some(team));
    let amounts = quota.and_then(|quota| quota.resources.get("nvidia.com/gpu")).copied().unwrap_or_default();
    (amounts.used, amounts.borrowed)
}

fn count(core: &Core, team: &str, prefix: &str, on_node: bool) -> i64 {
    let pods = core.view().pods;
    let is_one = |pod: &&crate::view::PodRow| {
        &*pod.namespace == team && pod.name.starts_with(prefix) && pod.node.is_some() == on_node
    };
    pods.iter().filter(is_one).count() as i64
}

fn bound(core: &Core, team: &str, prefix: &str) -> i64 {
    count(core, team, prefix, true)
}

fn waiting(core: &Core, team: &str, prefix: &str) -> i64 {
    count(core, team, prefix, false)
}

fn code(core: &Core, team: &str, name: &str) -> &'static str {
    let key = PodKey { namespace: team.into(), name: name.into() };
    core.cluster.engine().reasons_now().get(&key).map_or("no reason", |reason| reason.code.name())
}

fn node_of(core: &Core, team: &str, name: &str) -> Option<String> {
    let view = core.view();
    let pod = view.pods.iter().find(|pod| &*pod.namespace == team && &*pod.name == name)?;
    pod.node.as_ref().map(ToString::to_string)
}
