//! Ratios rather than figures: what a decision costs at two sizes of cluster, and how a cycle's parts compare.
//! `quotient bench` gives the published figures; this is for looking at a change.

use std::hint::black_box;
use std::sync::Arc;

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use quotient_engine::fact::{
    Amounts, CPU, Created, Fact, Labels, MEMORY, NodeFact, PODS, Phase, PodFact, PodSpec, Tick,
};
use quotient_engine::{Budget, Engine, Settings};

const NOW: Tick = Tick(0);
const GIBIBYTE: i64 = 1 << 30;
const PODS_PER_CYCLE: u32 = 500;

fn node(i: u32) -> NodeFact {
    NodeFact {
        name: format!("node-{i:05}").into(),
        labels: Labels::from_iter([("topology.kubernetes.io/zone".into(), format!("zone-{}", i % 16).into())]),
        ready: true,
        allocatable: Amounts::from_iter([(CPU.into(), 64_000), (MEMORY.into(), 256 * GIBIBYTE), (PODS.into(), 110)]),
        ..NodeFact::default()
    }
}

fn pod(i: u32, cpu: i64) -> PodFact {
    PodFact {
        namespace: "bench".into(),
        name: format!("pod-{i:06}").into(),
        uid: format!("uid-{i:06}").into(),
        created: Created(i64::from(i)),
        spec: Arc::new(PodSpec {
            requests: Amounts::from_iter([(CPU.into(), cpu), (MEMORY.into(), GIBIBYTE)]),
            assumed: (cpu, GIBIBYTE),
            ..PodSpec::default()
        }),
        phase: Phase::Pending,
        ours: true,
        ..PodFact::default()
    }
}

/// An engine that knows `nodes` nodes and has decided for one pod of each of the first shapes.
fn engine(nodes: u32) -> Engine {
    let mut engine = Engine::new(Settings::default());
    for i in 0..nodes {
        engine.observe(NOW, Fact::Node(node(i)));
    }
    for i in 0..8 {
        engine.observe(NOW, Fact::Pod(pod(900_000 + i, 100 + 50 * i64::from(i))));
    }
    engine.decide(NOW, Budget::default());
    engine
}

fn a_cycle(c: &mut Criterion) {
    let mut group = c.benchmark_group("a cycle of 500 pods");
    group.throughput(Throughput::Elements(PODS_PER_CYCLE.into())).sample_size(10);
    for nodes in [500, 5000] {
        let start = engine(nodes);
        for (title, shapes) in [("8 shapes", 8), ("all different", PODS_PER_CYCLE)] {
            group.bench_function(BenchmarkId::new(title, nodes), |b| {
                b.iter_batched(
                    || {
                        let mut engine = start.fork();
                        for i in 0..PODS_PER_CYCLE {
                            engine.observe(NOW, Fact::Pod(pod(i, 100 + 50 * i64::from(i % shapes))));
                        }
                        engine
                    },
                    |mut engine| {
                        black_box(engine.decide(NOW, Budget::default()));
                        engine
                    },
                    BatchSize::LargeInput,
                );
            });
        }
    }
    group.finish();
}

fn a_verdict(c: &mut Criterion) {
    let mut group = c.benchmark_group("a pod that cannot run");
    group.sample_size(10);
    for nodes in [500, 5000] {
        let start = engine(nodes);
        group.bench_function(BenchmarkId::from_parameter(nodes), |b| {
            b.iter_batched(
                || {
                    let mut engine = start.fork();
                    engine.observe(NOW, Fact::Pod(pod(0, 1_000_000)));
                    engine
                },
                |mut engine| {
                    black_box(engine.decide(NOW, Budget::default()));
                    engine
                },
                BatchSize::LargeInput,
            );
        });
    }
    group.finish();
}

fn a_fork(c: &mut Criterion) {
    let start = engine(5000);
    c.bench_function("a fork at 5000 nodes", |b| b.iter(|| black_box(start.fork())));
}

criterion_group!(benches, a_cycle, a_verdict, a_fork);
criterion_main!(benches);
