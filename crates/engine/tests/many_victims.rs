//! A reclaim with 1,000 possible victims on one node: the right ones go, and in a release build within 5 ms.
//! `cargo test --release -p quotient-engine --test it many_victims:: -- --nocapture` prints the times.

use std::sync::Arc;
use std::time::{Duration, Instant};

use quotient_engine::fact::*;
use quotient_engine::{Budget, Decision, Engine, Fact, Settings, Tick};

const VICTIMS: i64 = 1_000;
const WITHIN: Duration = Duration::from_millis(5);
const RUNS: usize = 9;

fn name(text: &str) -> Name {
    Name::from(text)
}

fn quota(namespace: &str, cpu: i64, memory: i64, fair: bool) -> Fact {
    let group = name(if fair { "nos.nebuly.com" } else { "scheduling.x-k8s.io" });
    let key = QuotaKey { kind: name("ElasticQuota"), group, namespace: name(namespace), name: name("eq") };
    let limits = |cpu: i64, memory: i64| [(name("cpu"), cpu), (name("memory"), memory)].into_iter().collect();
    let max = Limits::default();
    Fact::from(ElasticFact { key, namespaces: vec![name(namespace)], min: limits(cpu, memory), max, fair })
}

fn pod(namespace: &str, index: i64, (cpu, memory): (i64, i64), priority: i32) -> PodFact {
    let requests = [(name("cpu"), cpu), (name("memory"), memory)].into_iter().collect();
    let named = name(&format!("{namespace}-{index}"));
    PodFact {
        namespace: name(namespace),
        name: named.clone(),
        uid: named,
        created: Created(index),
        spec: Arc::new(PodSpec { requests, ..PodSpec::default() }),
        priority,
        ours: true,
        ..PodFact::default()
    }
}

/// A node that pods of a quota without a min fill, and how a claimant of another quota sees it.
fn engine(sizes: impl Fn(i64) -> (i64, i64), priority: impl Fn(i64) -> i32, fair: bool) -> Engine {
    let sum = |of: &dyn Fn((i64, i64)) -> i64| (0..VICTIMS).map(|index| of(sizes(index))).sum::<i64>();
    let (cpu, memory) = (sum(&|(cpu, _)| cpu), sum(&|(_, memory)| memory));
    let amounts = [("cpu", cpu), ("memory", memory), ("pods", 2 * VICTIMS)];
    let allocatable = amounts.into_iter().map(|(resource, amount)| (name(resource), amount)).collect();
    let node = NodeFact { name: name("n"), allocatable, ..NodeFact::default() };
    let mut facts = vec![Fact::Node(node), quota("a", cpu, memory, fair), quota("b", 0, 0, fair)];
    facts.extend((0..VICTIMS).map(|index| {
        let pod = pod("b", index, sizes(index), priority(index));
        Fact::Pod(PodFact { node: Some(name("n")), phase: Phase::Running, ..pod })
    }));
    let mut engine = Engine::new(Settings::default());
    facts.into_iter().for_each(|fact| engine.observe(Tick(0), fact));
    engine.decide(Tick(0), Budget::default());
    engine
}

/// Who goes, and the median of the times that it took to decide.
fn reclaim(engine: &Engine, claimant: PodFact) -> (Vec<String>, Duration) {
    let mut times = Vec::new();
    let mut victims: Vec<String> = Vec::new();
    for _ in 0..RUNS {
        let mut engine = engine.fork();
        engine.observe(Tick(1), Fact::Pod(claimant.clone()));
        let begun = Instant::now();
        let decisions = engine.decide(Tick(1), Budget::default());
        times.push(begun.elapsed());
        let evicted = decisions.list.iter().filter_map(|decision| match decision {
            Decision::Evict { pod, .. } => Some(pod.name.to_string()),
            _ => None,
        });
        victims = evicted.collect();
    }
    times.sort_unstable();
    (victims, times[RUNS / 2])
}

fn check(what: &str, engine: &Engine, claimant: PodFact, expected: impl Fn(&[String]) -> bool) {
    let (victims, time) = reclaim(engine, claimant);
    println!("{what}: {} of {VICTIMS} pods go, decided in {time:?}", victims.len());
    assert!(expected(&victims), "{what}: {victims:?}");
    // Debug builds check every invariant after each decision.
    assert!(cfg!(debug_assertions) || time < WITHIN, "{what}: {time:?}");
}

#[test]
fn the_right_ones_of_a_thousand_go() {
    for fair in [false, true] {
        let pool = if fair { "fair" } else { "elastic" };
        let alike = engine(|_| (1, 1), |_| 0, fair);
        check(&format!("{pool}, alike, one"), &alike, pod("a", 5_000, (1, 1), 0), |victims| victims == ["b-999"]);
        let youngest = |victims: &[String]| {
            victims.len() == 100 && (900..VICTIMS).all(|index| victims.contains(&format!("b-{index}")))
        };
        check(&format!("{pool}, alike, a hundred"), &alike, pod("a", 5_000, (100, 100), 0), youngest);
        // Sizes of two resources against each other, and priorities: every pod is unlike its neighbours.
        let mixed = engine(|i| (1 + i % 7, 1 + (i * 5) % 11), |i| (i % 3) as i32, fair);
        let lowest = |victims: &[String]| {
            let index = |name: &String| name.trim_start_matches("b-").parse::<i64>().expect("a number");
            !victims.is_empty() && victims.iter().all(|name| index(name) % 3 == 0)
        };
        check(&format!("{pool}, mixed, small"), &mixed, pod("a", 5_000, (6, 9), 0), lowest);
        check(&format!("{pool}, mixed, large"), &mixed, pod("a", 5_000, (150, 200), 0), lowest);
        // As many priorities as pods, and a disruption budget that allows none of them to go.
        let mut guarded = engine(|_| (1, 1), |i| i as i32, fair);
        let (namespace, selector) = (name("b"), Some(Selector::default()));
        let budget = BudgetFact { namespace, name: name("all"), selector, allowed: 0 };
        guarded.observe(Tick(0), Fact::Budget(budget));
        let least_important =
            |victims: &[String]| victims.len() == 10 && (0..10).all(|index| victims.contains(&format!("b-{index}")));
        check(&format!("{pool}, guarded, ten"), &guarded, pod("a", 5_000, (10, 10), 0), least_important);
    }
}
