//! A gang whose pods differ is placed wherever some placement of its minimum exists: compared with trying them all.

use proptest::prelude::*;
use quotient_engine::fact::{Amounts, Created, Fact, GroupFact, Labels, Name, NodeFact, PodFact, PodSpec};
use quotient_engine::{Budget, Decision, Engine, Settings, Tick};

fn name(text: &str) -> Name {
    Name::from(text)
}

fn amounts(cpu: i64, memory: i64) -> Amounts {
    [(name("cpu"), cpu), (name("memory"), memory)].into_iter().collect()
}

/// A pod: what it needs, and the only node that it may go to, if it is particular.
#[derive(Debug, Clone)]
struct Wish {
    cpu: i64,
    memory: i64,
    only: Option<usize>,
}

/// Whether so many of these pods can be on these nodes at once.
fn can_place(nodes: &mut [(i64, i64)], wishes: &[Wish], needed: usize) -> bool {
    if needed == 0 {
        return true;
    }
    let Some((wish, rest)) = wishes.split_first() else { return false };
    if rest.len() >= needed && can_place(nodes, rest, needed) {
        return true;
    }
    (0..nodes.len()).any(|at| {
        let (cpu, memory) = nodes[at];
        if wish.only.is_some_and(|only| only != at) || cpu < wish.cpu || memory < wish.memory {
            return false;
        }
        nodes[at] = (cpu - wish.cpu, memory - wish.memory);
        let placed = can_place(nodes, rest, needed - 1);
        nodes[at] = (cpu, memory);
        placed
    })
}

fn bound_by_engine(nodes: &[(i64, i64)], wishes: &[Wish], needed: usize) -> usize {
    let mut engine = Engine::new(Settings::default());
    for (at, (cpu, memory)) in nodes.iter().enumerate() {
        let mut allocatable = amounts(*cpu, *memory);
        allocatable = allocatable.iter().cloned().chain([(name("pods"), 110)]).collect();
        let labels = Labels::from_iter([(name("node"), name(&at.to_string()))]);
        let node = NodeFact { name: name(&format!("n-{at}")), labels, allocatable, ..NodeFact::default() };
        engine.observe(Tick(0), Fact::Node(node));
    }
    let min_member = needed as u32;
    let group = GroupFact { namespace: name("a"), name: name("g"), min_member, admitted: true, ..GroupFact::default() };
    engine.observe(Tick(0), Fact::Group(group));
    for (at, wish) in wishes.iter().enumerate() {
        let only = wish.only.map(|only| (name("node"), name(&only.to_string())));
        let spec = PodSpec {
            requests: amounts(wish.cpu, wish.memory),
            node_selector: Labels::from_iter(only),
            ..PodSpec::default()
        };
        let pod = PodFact {
            namespace: name("a"),
            name: name(&format!("p-{at}")),
            uid: name(&format!("u-{at}")),
            created: Created(at as i64),
            spec: spec.into(),
            ours: true,
            group: Some(name("g").into()),
            ..PodFact::default()
        };
        engine.observe(Tick(0), Fact::Pod(pod));
    }
    let decisions = engine.decide(Tick(0), Budget::default());
    decisions.list.iter().filter(|decision| matches!(decision, Decision::Bind { .. })).count()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, ..ProptestConfig::default() })]

    #[test]
    fn a_mixed_gang_that_can_be_placed_is(
        nodes in prop::collection::vec((1i64..8, 1i64..8), 1..4),
        wishes in prop::collection::vec((1i64..6, 1i64..6, prop::option::weighted(0.3, 0usize..4)), 2..=8),
        needed in 2usize..=8,
    ) {
        let wishes: Vec<Wish> = wishes.into_iter().map(|(cpu, memory, only)| Wish { cpu, memory, only }).collect();
        let needed = needed.min(wishes.len());
        let possible = can_place(&mut nodes.clone(), &wishes, needed);
        let bound = bound_by_engine(&nodes, &wishes, needed);
        prop_assert_eq!(bound >= needed, possible, "{} of {} are bound", bound, needed);
        prop_assert!(possible || bound == 0, "a gang is bound in part");
    }
}
