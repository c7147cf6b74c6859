//! A history of a cluster, told to the engine and to the reference; both must decide alike after every step.

mod api_server;
mod subject;

use std::collections::BTreeMap;
use std::sync::Arc;

use quotient_engine::fact::*;
use quotient_engine::{ClaimBinding, Code, Decision, Decisions, Reason};

use crate::naive::World;
use crate::naive::cycle::{Act, Cycle};
use api_server::{ApiServer, Effect};

pub use subject::{Reference, Subject, Used};

/// One thing that happens.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    Node(NodeFact),
    NodeGone(usize),
    Limits(AttachLimits),
    /// Created, if there is none of its name and there are not too many.
    Pod(PodFact),
    /// So many pods alike.
    Replicas(PodFact, usize),
    Namespace(Name, Labels),
    Budget(BudgetFact),
    Volume(VolumeFact),
    Claim(ClaimFact),
    Class(StorageClassFact),
    Selector(SelectorFact),
    /// Any object but a pod or a node goes.
    Gone(usize),
    Relabel(usize, Labels),
    End(usize, Phase),
    /// A pod on a node starts to leave, and one that leaves is gone; one without a node is gone at once.
    Delete(usize),
    /// A pod's deletion was asked for, wherever it is, and something holds it up.
    Linger(usize),
    /// Somebody else writes which node is kept for a pod.
    Nominate(usize, Option<Name>),
    Ungate(usize),
    /// Something that was decided is carried out, or fails.
    Resolve(usize, How),
    /// All that was decided is carried out.
    Settle,
    Advance(u64),
    /// Both start anew. What was under way is carried out or lost before.
    Restart(u64),
    /// An object is told again, to the engine alone.
    Again(usize),
    Decide,
}

/// How something that was decided ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    Well,
    /// An eviction first shows, and ends later; a bind first asks for its volumes.
    Slowly,
    Badly,
}

#[derive(Debug, Clone)]
pub struct History {
    pub reserve_after_ms: u64,
    pub cluster: Vec<Step>,
    /// In which order the engine hears of the cluster at first.
    pub shuffle: u64,
    pub steps: Vec<Step>,
}

/// What the subject decided, cycle by cycle; or where it went wrong.
pub fn run<S: Subject>(history: &History) -> Result<Vec<Decisions>, String> {
    let mut run: Run<S> = Run::new(history.reserve_after_ms);
    for step in &history.cluster {
        run.api.apply(step);
    }
    run.restart(history.shuffle);
    run.decide()?;
    for (number, step) in history.steps.iter().enumerate() {
        run.step(step).map_err(|error| format!("after step {number}, {step:?}:\n{error}"))?;
    }
    run.decide().map_err(|error| format!("at the end:\n{error}"))?;
    Ok(run.decided)
}

struct Run<S> {
    reserve_after_ms: u64,
    now: Tick,
    api: ApiServer,
    engine: S,
    world: World,
    /// The reason last given for each pod that waits.
    said: BTreeMap<PodKey, Arc<Reason>>,
    decided: Vec<Decisions>,
    /// Nothing was decided since both started.
    fresh: bool,
}

impl<S: Subject> Run<S> {
    fn new(reserve_after_ms: u64) -> Self {
        Run {
            reserve_after_ms,
            now: Tick(1_000),
            api: ApiServer::default(),
            engine: S::new(reserve_after_ms),
            world: World::new(reserve_after_ms),
            said: BTreeMap::new(),
            decided: Vec::new(),
            fresh: true,
        }
    }

    fn step(&mut self, step: &Step) -> Result<(), String> {
        match step {
            Step::Decide => self.decide()?,
            Step::Advance(ms) => self.now.0 += ms,
            Step::Restart(shuffle) => {
                self.api.lose_or_finish(*shuffle);
                self.restart(*shuffle);
            }
            Step::Again(which) => {
                let facts = self.world.told();
                if !facts.is_empty() {
                    self.engine.observe(self.now, facts[which % facts.len()].clone());
                }
            }
            _ => self.tell(step),
        }
        self.check_state()
    }

    fn tell(&mut self, step: &Step) {
        for fact in self.api.apply(step) {
            if let Fact::PodGone(key) = &fact {
                self.said.remove(key);
            }
            self.engine.observe(self.now, fact.clone());
            self.world.observe(self.now, fact);
        }
    }

    /// A fresh engine hears of all objects, in whatever order; the reference in that of their names.
    fn restart(&mut self, shuffle: u64) {
        self.engine = S::new(self.reserve_after_ms);
        self.world = World::new(self.reserve_after_ms);
        self.said.clear();
        self.fresh = true;
        let mut facts = self.api.objects();
        for fact in &facts {
            self.world.observe(self.now, fact.clone());
        }
        // By what a fact is and not by where it stood, so that a history with less in it keeps its order.
        let place = |fact: &Fact| {
            let text = format!("{fact:?}");
            text.bytes().fold(shuffle, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
        };
        if shuffle != 0 {
            facts.sort_by_cached_key(place);
        }
        for fact in facts {
            self.engine.observe(self.now, fact);
        }
    }

    fn decide(&mut self) -> Result<(), String> {
        let before = self.world.clone();
        let caps_before = self.engine.caps();
        let (mut fork, mut sliced) = (self.engine.fork(), self.engine.fork());
        let of_fork = fork.decide(self.now);
        let of_engine = self.engine.decide(self.now);
        if of_fork != of_engine {
            return Err(format!("the fork decides {of_fork:#?}\nbut the engine {of_engine:#?}"));
        }
        let in_slices: Vec<Act> = sliced.decide_in_slices(self.now).iter().filter_map(act).collect();
        let at_once: Vec<Act> = of_engine.list.iter().filter_map(act).collect();
        if in_slices != at_once {
            return Err(format!("in slices it decides {in_slices:#?}\nbut at once {at_once:#?}"));
        }
        let expected = self.world.decide(self.now);
        self.compare(&before, &expected, &of_engine)?;
        self.check_said(&of_engine)?;
        self.api.take(&of_engine.list);
        self.decided.push(of_engine);
        self.fresh = false;
        self.check_caps(&caps_before)?;
        self.check_state()
    }

    /// No decision makes pods pass a cap; where they are beyond it already, none adds to that.
    fn check_caps(&self, before: &[(Name, Used, Used)]) -> Result<(), String> {
        for ((node, limits, after), (_, _, before)) in self.engine.caps().iter().zip(before) {
            let of = |amounts: &Used, name: &Name| amounts.iter().find(|(n, _)| n == name).map_or(0, |(_, a)| *a);
            for (resource, limit) in limits {
                let (before, after) = (of(before, resource), of(after, resource));
                if after > before.max(*limit) {
                    return Err(format!("{node}: {after} {resource} with a cap of {limit}, and {before} before"));
                }
            }
        }
        Ok(())
    }

    /// The same is done, in the same order, and everybody who waits does so for the same reason.
    fn compare(&self, before: &World, expected: &Cycle, decisions: &Decisions) -> Result<(), String> {
        let acts: Vec<Act> = decisions.list.iter().filter_map(act).collect();
        let holds: BTreeMap<PodKey, Code> =
            self.world.pods.keys().filter_map(|key| Some((key.clone(), self.engine.reason(key)?.code))).collect();
        if acts == expected.acts && self.alike(&holds, expected) {
            return self.compare_closed(before, expected);
        }
        let list = |acts: &[Act]| acts.iter().map(|a| format!("  {a:?}\n")).collect::<String>();
        Err(format!(
            "at {:?} the rule says\n{}{:?}\nthe engine does\n{}{:?}\nin this world: {before:#?}",
            self.now,
            list(&expected.acts),
            expected.holds,
            list(&acts),
            holds
        ))
    }

    /// A cap is the reason where it alone keeps the pod out. A pod that rests is not looked at again only because there
    /// is
    /// less room now, so that the cap is no longer alone: that is compared where every pod had one turn.
    fn alike(&self, holds: &BTreeMap<PodKey, Code>, expected: &Cycle) -> bool {
        let at_rest = |(key, code): (&PodKey, &Code)| match code {
            Code::NodeCapExceeded if !self.fresh || !expected.acts.is_empty() => (key.clone(), Code::NoFittingNode),
            code => (key.clone(), *code),
        };
        holds.iter().map(at_rest).eq(expected.holds.iter().map(at_rest))
    }

    /// Each filter closes as many nodes as it is said to. A pod that rests is not looked at again only because there is
    /// less room now, so the numbers are those of its last turn, and compare where every pod had one turn.
    fn compare_closed(&self, before: &World, expected: &Cycle) -> Result<(), String> {
        if !self.fresh || !expected.acts.is_empty() {
            return Ok(());
        }
        for (pod, closed) in &expected.closed {
            let reason = self.engine.reason(pod);
            if reason.as_ref().map(|r| &r.closed) != Some(closed) {
                return Err(format!("{pod}: nodes closed are {closed:?}\nthe engine says {reason:?}\nin {before:#?}"));
            }
        }
        Ok(())
    }

    /// A reason is said when it is new, and only then.
    fn check_said(&mut self, decisions: &Decisions) -> Result<(), String> {
        for decision in &decisions.list {
            match decision {
                Decision::Hold { pod, reason, .. } => {
                    if self.said.insert(pod.clone(), reason.clone()).as_ref() == Some(reason) {
                        return Err(format!("the reason for {pod} was said before: {reason:?}"));
                    }
                }
                Decision::Bind { pod, .. } => drop(self.said.remove(pod)),
                Decision::Evict { .. } | Decision::Nominate { .. } | Decision::Mark { .. } | Decision::Admit { .. } => {
                }
            }
        }
        for key in self.world.pods.keys() {
            let reason = self.engine.reason(key);
            if reason.is_some() && reason.as_ref() != self.said.get(key) {
                let said = self.said.get(key);
                return Err(format!("{key} waits for {reason:?}, but what was said is {said:?}"));
            }
        }
        Ok(())
    }

    fn check_state(&self) -> Result<(), String> {
        self.engine.check_invariants().map_err(|error| format!("an invariant does not hold: {error}"))?;
        let nodes = self.engine.used();
        let expected: Vec<_> = self.world.nodes.keys().map(|name| (name.clone(), self.world.used(name))).collect();
        if nodes != expected {
            return Err(format!("the engine counts {nodes:?}, on the nodes there is {expected:?}"));
        }
        let (caps, expected) = (self.engine.caps(), self.world.caps());
        if caps != expected {
            return Err(format!("the engine counts {caps:?} under caps, and there is {expected:?}"));
        }
        Ok(())
    }
}

/// A decision without its words; claims in the order of their names.
fn act(decision: &Decision) -> Option<Act> {
    match decision.clone() {
        Decision::Bind { pod, uid, node, mut claims, devices: _ } => {
            claims.sort_by_key(|c| match c {
                ClaimBinding::Volume { claim, .. } | ClaimBinding::Provision { claim } => claim.clone(),
            });
            Some(Act::Bind { pod, uid, node, claims })
        }
        Decision::Evict { pod, uid, node, claimant, violates_budget, .. } => {
            Some(Act::Evict { pod, uid, node, claimant: claimant?, violates_budget })
        }
        Decision::Nominate { pod, uid, node } => Some(Act::Nominate { pod, uid, node }),
        Decision::Hold { .. } | Decision::Mark { .. } | Decision::Admit { .. } => None,
    }
}

/// What kind of decision it is, for counting.
pub fn kind(decision: &Decision) -> &'static str {
    match decision {
        Decision::Bind { claims, .. } if claims.is_empty() => "bind",
        Decision::Bind { .. } => "bind with claims",
        Decision::Evict { violates_budget: true, .. } => "evict over budget",
        Decision::Evict { .. } => "evict",
        Decision::Nominate { node: Some(_), .. } => "nominate",
        Decision::Nominate { node: None, .. } => "denominate",
        Decision::Hold { .. } => "hold",
        Decision::Mark { .. } => "mark",
        Decision::Admit { .. } => "admit",
    }
}

impl Effect {
    /// What has to be carried out of a decision.
    fn of(decision: &Decision) -> Option<Effect> {
        match decision.clone() {
            Decision::Bind { pod, uid, node, claims, devices: _ } => Some(Effect::Bind { pod, uid, node, claims }),
            Decision::Evict { pod, uid, claimant, .. } => Some(Effect::Evict { pod, uid, claimant }),
            Decision::Nominate { pod, uid, .. } => Some(Effect::Tell { pod, uid }),
            Decision::Hold { .. } | Decision::Mark { .. } | Decision::Admit { .. } => None,
        }
    }
}
