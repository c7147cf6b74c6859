//! What a history is told to: the engine, or the reference itself.

use std::collections::BTreeMap;
use std::sync::Arc;

use quotient_engine::fact::{Fact, Name, PodKey, Tick};
use quotient_engine::{
    Budget, Decision, Decisions, Engine, EvictionCause, EvictionReason, Preemption, Reason, Rule, Settings,
};

use crate::naive::World;
use crate::naive::cycle::Act;
use crate::naive::node_cap;

/// Amounts by resource, nothing that is 0.
pub type Used = Vec<(Name, i128)>;

/// What the tests ask of the engine.
pub trait Subject {
    fn new(reserve_after_ms: u64) -> Self;
    fn observe(&mut self, now: Tick, fact: Fact);
    fn decide(&mut self, now: Tick) -> Decisions;
    /// Decides the same in the smallest slices there are.
    fn decide_in_slices(&mut self, now: Tick) -> Vec<Decision>;
    fn fork(&self) -> Self;
    fn reason(&self, pod: &PodKey) -> Option<Arc<Reason>>;
    /// What is held on each node.
    fn used(&self) -> Vec<(Name, Used)>;
    /// What is capped on each node, and held under the cap.
    fn caps(&self) -> Vec<(Name, Used, Used)>;
    fn check_invariants(&self) -> Result<(), String>;
}

impl Subject for Engine {
    fn new(reserve_after_ms: u64) -> Self {
        Engine::new(Settings { reserve_after_ms, caps: node_cap::settings(), ..Settings::default() })
    }

    fn observe(&mut self, now: Tick, fact: Fact) {
        self.observe(now, fact);
    }

    fn decide(&mut self, now: Tick) -> Decisions {
        self.decide(now, Budget::default())
    }

    fn decide_in_slices(&mut self, now: Tick) -> Vec<Decision> {
        let mut list = Vec::new();
        loop {
            let slice = self.decide(now, Budget { pods_max: 1 });
            list.extend(slice.list);
            if !slice.more {
                return list;
            }
        }
    }

    fn fork(&self) -> Self {
        self.fork()
    }

    fn reason(&self, pod: &PodKey) -> Option<Arc<Reason>> {
        self.reason(pod)
    }

    fn used(&self) -> Vec<(Name, Used)> {
        self.nodes().into_iter().map(|node| (node.name, node.used)).collect()
    }

    fn caps(&self) -> Vec<(Name, Used, Used)> {
        self.nodes().into_iter().map(|node| (node.name, node.cap, node.cap_used)).collect()
    }

    fn check_invariants(&self) -> Result<(), String> {
        self.check_invariants()
    }
}

/// The reference in the engine's place: what holds of every engine must hold of it, and the tests can be tested.
#[derive(Debug, Clone)]
pub struct Reference {
    world: World,
    reasons: BTreeMap<PodKey, Arc<Reason>>,
}

impl Subject for Reference {
    fn new(reserve_after_ms: u64) -> Self {
        Reference { world: World::new(reserve_after_ms), reasons: BTreeMap::new() }
    }

    fn observe(&mut self, now: Tick, fact: Fact) {
        self.world.observe(now, fact);
        let Self { world, reasons } = self;
        reasons.retain(|key, _| world.pods.get(key).is_some_and(|pod| world.waits(pod)));
    }

    fn decide(&mut self, now: Tick) -> Decisions {
        let cycle = self.world.decide(now);
        let mut list: Vec<Decision> = cycle.acts.into_iter().map(decision).collect();
        let mut reasons = BTreeMap::new();
        for (pod, code) in cycle.holds {
            let message = String::new();
            let closed = cycle.closed.get(&pod).cloned().unwrap_or_default();
            let reason =
                Reason { code, message, quota: None, numbers: None, closed, remedies: vec![], details: vec![] };
            let reason = Arc::new(reason);
            if self.reasons.get(&pod) != Some(&reason) {
                let uid = self.world.pods[&pod].uid.clone();
                list.push(Decision::Hold { pod: pod.clone(), uid, reason: reason.clone() });
            }
            reasons.insert(pod, reason);
        }
        self.reasons = reasons;
        Decisions { list, ..Decisions::default() }
    }

    fn decide_in_slices(&mut self, now: Tick) -> Vec<Decision> {
        self.decide(now).list
    }

    fn fork(&self) -> Self {
        self.clone()
    }

    fn reason(&self, pod: &PodKey) -> Option<Arc<Reason>> {
        self.reasons.get(pod).cloned()
    }

    fn used(&self) -> Vec<(Name, Used)> {
        self.world.nodes.keys().map(|name| (name.clone(), self.world.used(name))).collect()
    }

    fn caps(&self) -> Vec<(Name, Used, Used)> {
        self.world.caps()
    }

    fn check_invariants(&self) -> Result<(), String> {
        Ok(())
    }
}

fn decision(act: Act) -> Decision {
    match act {
        Act::Bind { pod, uid, node, claims } => Decision::Bind { pod, uid, node, claims, devices: Default::default() },
        Act::Nominate { pod, uid, node } => Decision::Nominate { pod, uid, node },
        Act::Evict { pod, uid, node, claimant, violates_budget } => {
            // The reference says nothing of why.
            let preemption = Preemption {
                claimant: claimant.clone(),
                claimant_priority: 0,
                node: node.clone(),
                victim_priority: 0,
                whole_gang: false,
                claimant_quotas: Vec::new(),
                victim_quotas: Vec::new(),
                pods_at_least: None,
            };
            let reason = EvictionReason { rule: Rule::Priority, cause: EvictionCause::Preempted(preemption) };
            Decision::Evict { pod, uid, node, claimant: Some(claimant), violates_budget, reason: Arc::new(reason) }
        }
    }
}
