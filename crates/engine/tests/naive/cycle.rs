//! A cycle: turn after turn, from the top after each that changed something, until none does.

use std::collections::{BTreeMap, BTreeSet};

use quotient_engine::fact::{Name, PodFact, PodKey, Tick};
use quotient_engine::{ClaimBinding, Code, Filter};

use super::preemption::Outcome;
use super::world::{Bound, Claim, ClaimKind, Evicting, Promise, World};
use super::{claims, filters, order, preemption, reserve, scores, volumes};

/// What was decided, without the words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Act {
    Bind { pod: PodKey, uid: Name, node: Name, claims: Vec<ClaimBinding> },
    Evict { pod: PodKey, uid: Name, node: Name, claimant: PodKey, violates_budget: bool },
    Nominate { pod: PodKey, uid: Name, node: Option<Name> },
}

/// What a cycle comes to: what to do, in order, and why each of the others waits.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Cycle {
    pub acts: Vec<Act>,
    pub holds: BTreeMap<PodKey, Code>,
    /// For those that no node takes: how many nodes each filter closes.
    pub closed: BTreeMap<PodKey, Vec<(Filter, u32)>>,
}

/// How a turn ends.
enum Turn {
    /// Something changed.
    Acted,
    Held(Code),
}

impl World {
    pub fn decide(&mut self, now: Tick) -> Cycle {
        let mut cycle = Cycle::default();
        for key in claims::homeless(self) {
            self.drop_claim(&key, &mut cycle.acts);
        }
        if std::mem::take(&mut self.evict_failed) {
            for key in claims::baseless(self) {
                self.drop_claim(&key, &mut cycle.acts);
            }
        }
        if !std::mem::replace(&mut self.has_begun, true) {
            claims::recall(self);
        }
        'again: loop {
            cycle.holds.clear();
            for key in order::candidates(self) {
                match self.turn(&key, &mut cycle.acts) {
                    Turn::Acted => continue 'again,
                    Turn::Held(code) => drop(cycle.holds.insert(key, code)),
                }
            }
            // Nothing else can be done: who has waited for long may hold a node.
            let Some((key, node)) = reserve::reserve(self, now) else { break };
            self.claim(&self.pods[&key].clone(), node, ClaimKind::Reserve, &mut cycle.acts);
        }
        for pod in order::waiting(self) {
            if pod.problem.is_some() {
                cycle.holds.insert(pod.key(), Code::InvalidRequest);
            } else if !pod.gates.is_empty() {
                cycle.holds.insert(pod.key(), Code::SchedulingGated);
            }
        }
        for (key, _) in
            cycle.holds.iter().filter(|(_, code)| matches!(code, Code::NoFittingNode | Code::NodeCapExceeded))
        {
            cycle.closed.insert(key.clone(), filters::counts(self, &self.pods[key]));
        }
        cycle
    }

    fn turn(&mut self, key: &PodKey, acts: &mut Vec<Act>) -> Turn {
        let pod = &self.pods[key].clone();
        if claims::awaits_victims(self, pod)
            && let Some(claim) = self.claims.get_mut(key).filter(|claim| claim.kind == ClaimKind::Room)
        {
            claim.kind = ClaimKind::Preemption;
        }
        let claim = self.claims.get(key).cloned();
        if let Some(node) = self.place(pod, claim.as_ref()) {
            self.bind(pod, node, acts);
            return Turn::Acted;
        }
        if let Some(claim) = &claim
            && (claims::awaits_victims(self, pod) || claims::opens_once_left(self, pod, &self.nodes[&claim.node]))
        {
            return Turn::Held(Code::AwaitingVictims);
        }
        // What is held out of patience is held for as long as the node would do.
        let is_kept = |claim: &Claim| {
            claim.kind == ClaimKind::Reserve && reserve::still_does(self, pod, &self.nodes[&claim.node])
        };
        if claim.as_ref().is_some_and(|claim| !is_kept(claim)) {
            self.drop_claim(key, acts);
            return Turn::Acted;
        }
        let outcome = preemption::preempt(self, pod);
        // What is on its way to it is its own; a claim out of patience was dropped for it.
        if let Outcome::Wait { node } = &outcome {
            self.claim(pod, node.clone(), ClaimKind::Room, acts);
            return Turn::Acted;
        }
        // A victim that is not seen on its node cannot be evicted yet.
        if let Outcome::Evict { victims, holders, .. } = &outcome
            && (victims.iter().any(|(victim, _)| self.pods[victim].node.is_none())
                || holders.iter().any(|holder| claims::awaits_unseen(self, &self.pods[holder])))
        {
            return Turn::Held(filters::code(self, pod));
        }
        if let Outcome::Evict { node, victims, holders } = outcome {
            let is_room = |holder: &PodKey| self.claims[holder].kind == ClaimKind::Room;
            let kind = match victims.is_empty() && holders.iter().all(is_room) {
                true => ClaimKind::Room,
                false => ClaimKind::Preemption,
            };
            for holder in holders {
                self.drop_claim(&holder, acts);
            }
            self.claim(pod, node, kind, acts);
            self.evict(pod, victims, acts);
            return Turn::Acted;
        }
        Turn::Held(filters::code(self, pod))
    }

    /// The node that takes the pod: the one it claims if that does, otherwise the best.
    fn place(&self, pod: &PodFact, claim: Option<&Claim>) -> Option<Name> {
        let view = self.view(pod, &BTreeSet::new());
        let open = filters::open(&view);
        let claimed = claim.and_then(|claim| {
            let node = self.nodes.get(&claim.node)?;
            let has_victims = claim.kind == ClaimKind::Preemption && !claims::awaits_victims(self, pod);
            filters::takes_claimant(self, pod, node, has_victims).then_some(node)
        });
        claimed.or_else(|| scores::best(&view, &open)).map(|node| node.name.clone())
    }

    fn bind(&mut self, pod: &PodFact, node: Name, acts: &mut Vec<Act>) {
        let claims = volumes::bindings(self, pod, &self.nodes[&node]).expect("the node took the pod");
        for binding in &claims {
            let (ClaimBinding::Volume { claim, .. } | ClaimBinding::Provision { claim }) = binding;
            let claim = (pod.namespace.clone(), claim.clone());
            self.promises.push(Promise { claim, pod: pod.key(), node: node.clone(), binding: binding.clone() });
        }
        self.bound.insert(pod.key(), Bound { uid: pod.uid.clone(), node: node.clone() });
        acts.push(Act::Bind { pod: pod.key(), uid: pod.uid.clone(), node, claims });
    }

    fn claim(&mut self, pod: &PodFact, node: Name, kind: ClaimKind, acts: &mut Vec<Act>) {
        self.claims.insert(pod.key(), Claim { node: node.clone(), kind });
        acts.push(Act::Nominate { pod: pod.key(), uid: pod.uid.clone(), node: Some(node) });
    }

    fn drop_claim(&mut self, key: &PodKey, acts: &mut Vec<Act>) {
        self.claims.remove(key);
        acts.push(Act::Nominate { pod: key.clone(), uid: self.pods[key].uid.clone(), node: None });
    }

    fn evict(&mut self, claimant: &PodFact, victims: Vec<(PodKey, bool)>, acts: &mut Vec<Act>) {
        for (key, violates_budget) in victims {
            let pod = &self.pods[&key];
            let (uid, node) = (pod.uid.clone(), pod.node.clone().expect("victims are on a node"));
            let evicting = Evicting { uid: uid.clone(), claimant: claimant.key(), claimant_uid: claimant.uid.clone() };
            self.evicting.insert(key.clone(), evicting);
            acts.push(Act::Evict { pod: key, uid, node, claimant: claimant.key(), violates_budget });
        }
    }
}
