//! What one tenant gets never names another: random clusters, every answer that the server gives, as text.
//!
//! Every name of a tenant contains a word of its own, so that a leak is found by searching for the words of the others.

use std::sync::Arc;

use quotient_dashboard::answers::{self, WaitQuery};
use quotient_dashboard::history::History;
use quotient_dashboard::journal::{Eviction, Journal};
use quotient_dashboard::shared::Name;
use quotient_dashboard::view::{Amounts, NodeRow, Phase, PodRow, QuotaRow, View, Why};
use quotient_dashboard::viewer::Sight;
use quotient_dashboard::{Viewer, what_if};

const TENANTS: [&str; 4] = ["amber", "birch", "cedar", "dahlia"];
const ROUNDS: u64 = 300;

/// SplitMix64.
struct Draw(u64);

impl Draw {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }

    fn tenant(&mut self) -> &'static str {
        TENANTS[self.below(4) as usize]
    }
}

/// A node that a tenant owns carries its word too: names of nodes are hidden where nodes are.
fn node_name(draw: &mut Draw) -> String {
    format!("node-{}-{}", draw.tenant(), draw.below(3))
}

/// A sentence of the engine's that names whoever is in the way.
fn sentence(draw: &mut Draw) -> String {
    format!("10 used + 2 requested: {}/pod and Queue/{} on {}", draw.tenant(), draw.tenant(), node_name(draw))
}

fn pod(draw: &mut Draw, number: usize) -> PodRow {
    let tenant = draw.tenant();
    let pending = draw.below(2) == 0;
    let why = Why {
        code: ["PoolExhausted", "AwaitingVictims", "CardQuotaExceeded", "NoFittingNode"][draw.below(4) as usize],
        message: sentence(draw),
        quota: Some(format!("Queue/{}", draw.tenant())),
        resource: Some("nvidia.com/gpu".to_string()),
        used: Some(10),
        requested: Some(2),
        limit: Some(10),
        remedies: vec![sentence(draw)],
    };
    PodRow {
        namespace: Name::from(tenant),
        name: Name::from(format!("{tenant}-{number}")),
        uid: number.to_string(),
        phase: if pending { Phase::Pending } else { [Phase::Running, Phase::Terminating][draw.below(2) as usize] },
        node: (!pending).then(|| Name::from(node_name(draw))),
        card: Some("A100".to_string()),
        gpus: draw.below(9) as i64,
        requests: vec![(Name::from("nvidia.com/gpu"), 2)],
        priority: 0,
        group: None,
        quotas: vec![Name::from(format!("Queue/{}", draw.tenant()))],
        capacity: None,
        created_ms: draw.below(1000) as i64,
        started_ms: (!pending).then_some(5),
        why: pending.then(|| why.into()),
    }
}

fn view(draw: &mut Draw, at_ms: i64) -> View {
    let quota = |tenant: &str, draw: &mut Draw| {
        let amounts = Amounts {
            used: 4,
            entitled: 3,
            borrowed: draw.below(3) as i64,
            lent: draw.below(3) as i64,
            ..Amounts::default()
        };
        QuotaRow {
            object: Name::from(format!("Queue/{tenant}")),
            kind: "Queue",
            group: "scheduling.volcano.sh",
            namespace: None,
            name: Name::from(tenant),
            policy: "queue",
            parent: Some(Name::from(format!("Queue/{}", draw.tenant()))),
            tree: None,
            resources: [(Name::from("nvidia.com/gpu"), amounts)].into(),
            waiting: 3,
        }
    };
    let node = |index: u64| NodeRow {
        name: Name::from(format!("node-{}-{index}", TENANTS[index as usize % 4])),
        pool: "pool".to_string(),
        rack: String::new(),
        ready: true,
        cordoned: false,
        allocatable: vec![(Name::from("nvidia.com/gpu"), 8)],
        used: vec![(Name::from("nvidia.com/gpu"), 7)],
        cards: vec![(Name::from("A100"), 8)],
        cap: Vec::new(),
        cap_used: Vec::new(),
    };
    View {
        at_ms,
        pods: (0..draw.below(40) as usize).map(|number| pod(draw, number)).collect(),
        quotas: TENANTS.iter().map(|tenant| quota(tenant, draw)).collect(),
        nodes: (0..8).map(node).collect(),
        whole: true,
    }
}

fn eviction(draw: &mut Draw, at_ms: i64) -> Eviction {
    let tenant = draw.tenant();
    Eviction {
        at_ms,
        namespace: Name::from(tenant),
        name: Name::from(format!("{tenant}-{}", draw.below(40))),
        claimant: Some(format!("{}/claimant", draw.tenant())),
        rule: "queue.reclaim".to_string(),
        message: sentence(draw),
    }
}

/// Everything that a viewer can be answered with, as one text.
fn all_answers(draw: &mut Draw, whole: &Arc<View>, journal: &Journal, history: &History, viewer: &Viewer) -> String {
    let view = viewer.of(whole);
    let mut text = String::new();
    let mut add = |value: serde_json::Result<String>| text.push_str(&value.expect("answers are JSON"));
    add(serde_json::to_string(&answers::overview(&view, journal, viewer)));
    add(serde_json::to_string(&answers::quotas(whole, &view, viewer)));
    add(serde_json::to_string(&answers::waiting(&view, &WaitQuery { limit: 200, ..WaitQuery::default() })));
    add(serde_json::to_string(&answers::node_map(&view)));
    add(serde_json::to_string(&answers::find(&view, "-")));
    add(serde_json::to_string(&journal.since(0, viewer, 1000)));
    add(serde_json::to_string(&history.series(viewer)));
    add(serde_json::to_string(&history.at(draw.below(5000) as i64, viewer)));
    add(serde_json::to_string(&history.hours(0, i64::MAX, viewer)));
    for tenant in TENANTS {
        add(serde_json::to_string(&history.quota(&format!("Queue/{tenant}"), viewer)));
        for number in 0..40 {
            let name = format!("{tenant}-{number}");
            add(serde_json::to_string(&answers::pod(&view, journal, viewer, tenant, &name)));
        }
        add(serde_json::to_string(&answers::node(&view, &format!("node-{tenant}-0"))));
    }
    let answer = what_if::Answer {
        rejected: vec![sentence(draw)],
        evicted: vec![what_if::EvictedRow {
            pod: format!("{}/p", draw.tenant()),
            node: node_name(draw),
            by: Some(format!("{}/q", draw.tenant())),
            rule: "queue.reclaim".into(),
            message: sentence(draw),
        }],
        bound: vec![what_if::BoundRow { pod: format!("{}/p", draw.tenant()), node: node_name(draw) }],
        waiting: vec![what_if::WaitRow {
            pod: format!("{}/p", draw.tenant()),
            before: None,
            after: "PoolExhausted",
            message: sentence(draw),
            remedies: vec![sentence(draw)],
        }],
        quotas: vec![what_if::QuotaRow {
            object: Name::from(format!("Queue/{}", draw.tenant())),
            resource: Name::from("nvidia.com/gpu"),
            before: None,
            after: None,
        }],
        ..what_if::Answer::default()
    };
    add(serde_json::to_string(&answer.for_viewer(viewer)));
    text
}

#[test]
fn a_tenant_never_sees_the_name_of_another() {
    let mut seen = 0;
    for round in 0..ROUNDS {
        let mut draw = Draw(round);
        let (mut journal, mut history) = (Journal::default(), History::new(1000));
        let mut before = View { whole: true, ..View::default() };
        for step in 1..5 {
            let next = view(&mut draw, step * 700);
            let evictions: Vec<Eviction> = (0..draw.below(4)).map(|_| eviction(&mut draw, step * 700)).collect();
            journal.note(&before, &next, &evictions);
            history.observe(&next, &evictions);
            before = next;
        }
        let whole = Arc::new(before);
        let tenant = draw.tenant();
        let viewer = Viewer::Some(Sight {
            namespaces: [Name::from(tenant)].into(),
            quotas: [Name::from(format!("Queue/{tenant}"))].into(),
            nodes: false,
        });
        let text = all_answers(&mut draw, &whole, &journal, &history, &viewer);
        for other in TENANTS.iter().filter(|other| **other != tenant) {
            let at = text.find(other);
            assert!(
                at.is_none(),
                "round {round}: {tenant} sees {other}: …{}…",
                &text[at.unwrap_or(0).saturating_sub(80)..][..160]
            );
        }
        seen += usize::from(text.contains(&format!("{tenant}-")));
        // The check can fail: whoever may see everything sees the others.
        let all = all_answers(&mut draw, &whole, &journal, &history, &Viewer::All);
        assert!(TENANTS.iter().all(|tenant| all.contains(tenant)), "round {round}");
    }
    assert!(seen > 200, "tenants see their own pods, in {seen} of {ROUNDS} rounds");
}

#[test]
fn totals_are_sums_of_what_is_seen() {
    let mut draw = Draw(42);
    let whole = Arc::new(view(&mut draw, 10));
    let viewer = Viewer::Some(Sight { namespaces: [Name::from("amber")].into(), nodes: true, ..Sight::default() });
    let seen = viewer.of(&whole);
    let overview = answers::overview(&seen, &Journal::default(), &viewer);
    let held = |pod: &&PodRow| &*pod.namespace == "amber" && pod.phase != Phase::Pending;
    let own: i64 = whole.pods.iter().filter(held).map(|pod| pod.gpus).sum();
    assert_eq!(overview.cards.iter().map(|card| card.used).sum::<i64>(), own);
    assert!(overview.teams.iter().all(|team| &*team.team == "amber"));
    let on_nodes: i64 = seen.nodes.iter().flat_map(|node| &node.used).map(|(_, used)| used).sum();
    let asked =
        whole.pods.iter().filter(held).filter(|pod| seen.nodes.iter().any(|n| Some(&n.name) == pod.node.as_ref()));
    assert_eq!(on_nodes, asked.flat_map(|pod| &pod.requests).map(|(_, amount)| *amount).sum::<i64>());
}
