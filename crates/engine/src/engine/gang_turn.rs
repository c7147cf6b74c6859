//! The turn of a gang: enough of its pods are placed together, or none; where there is no room, pods go for all of
//! them, or for none.

use std::sync::Arc;

use crate::cards::Look;
use crate::claims::{Claim, ClaimKind};
use crate::decision::{Decision, Decisions, Rule};
use crate::engine::Engine;
use crate::engine::cycle::Turn;
use crate::engine::wake::Change;
use crate::explain;
use crate::fact::{Name, PodKey};
use crate::gangs::{Gang, GangId, Muster};
use crate::nodes::NodeId;
use crate::place::{Answer, ClosedCounts, Question};
use crate::pods::{Place, Pod, PodId};
use crate::policy::{Ask, Refusal};
use crate::preempt::Outcome;
use crate::queue::GroupId;
use crate::reason::{Code, Reason};
use crate::relations::Effects;
use crate::resources::ResourceId;

/// Who goes, for whom, and what is said to it.
struct GangVictim {
    pod: PodId,
    member: PodId,
    rule: Rule,
    violates_budget: bool,
    message: String,
}

/// Where the pods of a gang go, and who goes for them.
struct GangPlan {
    members: Vec<(PodId, NodeId)>,
    victims: Vec<GangVictim>,
}

/// What keeps a pod from being placed.
#[derive(Default)]
struct Unplaced {
    nowhere: Option<(Question, ClosedCounts)>,
    refused: Option<Refusal>,
}

/// Pods that have no place, by what makes them alike: as long as no room is made, those like them have none either.
#[derive(Default)]
struct Failed(Vec<GroupId>);

impl Failed {
    fn note(&mut self, pod: PodId, engine: &Engine) {
        let pod = engine.world.pods.get(pod);
        // The company of others may let the next one in where this one was kept out.
        if !engine.world.shapes.get(pod.shape).is_related() {
            self.0.extend(pod.group);
        }
    }

    fn is_alike(&self, pod: PodId, engine: &Engine) -> bool {
        engine.world.pods.get(pod).group.is_some_and(|group| self.0.contains(&group))
    }
}

/// Why a gang has no plan.
enum NoPlan {
    /// Pods that leave already make room.
    Wait,
    Hopeless,
}

impl Engine {
    /// Whether a pod can only be placed together with others.
    pub(super) fn unstarted_gang(&self, id: PodId) -> Option<GangId> {
        let gang = self.world.pods.get(id).gang?;
        let known = self.world.gangs.get(gang);
        let waits = known.fact.as_ref().is_none_or(|fact| fact.problem.is_some()) || !known.admitted;
        (waits || !known.is_started()).then_some(gang)
    }

    /// The turn of a gang whose minimum does not run.
    pub(super) fn take_gang_turn(&mut self, id: GangId, decisions: &mut Decisions) -> Turn {
        let members = self.waiting_members(id);
        let gang = self.world.gangs.get(id);
        let shown = format!("{}/{}", gang.namespace, gang.name);
        let Some(fact) = &gang.fact else {
            let remedies = vec![format!("make the PodGroup {shown}, or take its name off the pod")];
            let message = format!("the group {shown} does not exist");
            return Turn::Rests(explain::plain(Code::GangIncomplete, message, remedies), Vec::new());
        };
        if let Some(problem) = &fact.problem {
            return Turn::Rests(explain::invalid(problem), Vec::new());
        }
        if !gang.admitted {
            let reason = gang.reason.as_deref().cloned();
            let message = format!("the group {shown} is not let into its queue yet");
            let reason = reason.unwrap_or_else(|| explain::plain(Code::GangIncomplete, message, Vec::new()));
            return Turn::Rests(reason, Vec::new());
        }
        self.take_in_all_quotas();
        for member in &members {
            self.count_claim(*member, false);
        }
        let turn = self.take_gang_turn_unclaimed(id, &members, decisions);
        match &turn {
            Turn::Rests(reason, _) | Turn::AwaitsVictims(reason, _) => {
                let waiting = members.iter().filter(|member| self.world.pods.get(**member).place == Place::Waiting);
                for member in waiting.copied().collect::<Vec<_>>() {
                    self.count_claim(member, true);
                    let pod = self.world.pods.get(member).clone();
                    if self.world.shapes.get(pod.shape).is_related() {
                        let question = self.world.question(member);
                        self.wait_for_company(&pod, &question);
                    }
                }
                self.world.gangs.get_mut(id).reason = Some(Arc::new(reason.clone()));
            }
            _ => self.world.gangs.get_mut(id).reason = None,
        }
        turn
    }

    /// The members that could be placed, the more important and the older first.
    pub(super) fn waiting_members(&self, id: GangId) -> Vec<PodId> {
        let members = self.world.gangs.get(id).members.iter().copied();
        let mut members: Vec<PodId> = members.filter(|member| self.world.pods.get(*member).is_candidate()).collect();
        members.sort_by_cached_key(|member| {
            let pod = self.world.pods.get(*member);
            (std::cmp::Reverse(pod.priority), pod.created, pod.key())
        });
        members
    }

    fn take_gang_turn_unclaimed(&mut self, id: GangId, members: &[PodId], decisions: &mut Decisions) -> Turn {
        let world = &self.world;
        let gang = world.gangs.get(id);
        let mut muster = gang.muster.clone();
        members.iter().for_each(|member| muster.count(world.pods.get(*member), &[], true));
        if !gang.is_enough_of(&muster) {
            let count = muster.len();
            let message = format!(
                "{count} of the {} pods that the group {}/{} needs are there",
                gang.min_member(),
                gang.namespace,
                gang.name
            );
            let remedies = vec!["make the missing pods".to_owned()];
            return Turn::Rests(explain::plain(Code::GangIncomplete, message, remedies), Vec::new());
        }
        if let Some((code, why)) = members.first().and_then(|member| self.world.unruled(*member)) {
            return Turn::Rests(explain::unruled(code, why), Vec::new());
        }
        let choices = self.card_choices(id, members);
        let mut failure = None;
        let passes: &[bool] = if choices.len() > 1 { &[true, false] } else { &[false] };
        for whole in passes {
            for choice in &choices {
                match self.try_gang(id, members, *choice, *whole) {
                    Ok(places) => {
                        // Those that do not start with the others keep what is kept for them.
                        for member in
                            members.iter().filter(|member| !places.iter().any(|(placed, _)| placed == *member))
                        {
                            self.count_claim(*member, true);
                        }
                        for (member, node) in places {
                            self.bind(member, node, decisions);
                        }
                        return Turn::Placed;
                    }
                    Err(reason) => failure = failure.or(reason),
                }
            }
        }
        let placeable = self.world.gangs.get(id).min_member();
        let incomplete = self.incomplete(id, failure, placeable);
        if let Some(turn) = self.await_gang_victims(id, members, decisions) {
            return turn;
        }
        if members.iter().any(|member| self.world.pods.get(*member).never_preempts)
            || self.hopeless_gangs.get(&id) == Some(&self.changes)
        {
            return Turn::Rests(incomplete, Vec::new());
        }
        for choice in &choices {
            match self.plan_gang(id, members, *choice) {
                Ok(plan) => {
                    let is_left_out = |member: &&PodId| !plan.members.iter().any(|(claims, _)| claims == *member);
                    for member in members.iter().filter(is_left_out) {
                        if self.world.pods.get(*member).claim.is_some() {
                            self.count_claim(*member, true);
                            self.give_up_claim(*member, decisions);
                        }
                    }
                    self.claim_for_gang(plan, decisions);
                    return Turn::Claimed;
                }
                Err(NoPlan::Wait) => {
                    self.counts_on_leaving = true;
                    return Turn::Rests(incomplete, Vec::new());
                }
                Err(NoPlan::Hopeless) => {}
            }
        }
        self.looked_past_assumed |= self.world.pods.has_assumed();
        self.hopeless_gangs.insert(id, self.changes);
        Turn::Rests(incomplete, Vec::new())
    }

    /// Where pods leave for the gang it waits for them; a claim that came to nothing is given up.
    fn await_gang_victims(&mut self, id: GangId, members: &[PodId], decisions: &mut Decisions) -> Option<Turn> {
        let claims: Vec<(PodId, Claim)> =
            members.iter().filter_map(|member| Some((*member, self.world.pods.get(*member).claim?))).collect();
        let (_, first) = claims.first()?;
        let mut victims = Vec::new();
        for member in members {
            victims.extend(self.victims_still_leaving(&self.world.pods.get(*member).clone()));
        }
        victims.sort();
        if !victims.is_empty() {
            let node = self.world.nodes.get(first.node).name.clone();
            return Some(Turn::AwaitsVictims(explain::awaiting(&victims, &node), Vec::new()));
        }
        let leaving = self.world.leaving_pods();
        if !leaving.is_empty() {
            let lifted = self.world.lift(&leaving);
            let fits = self.try_gang(id, members, None, false).is_ok();
            self.world.put_back(lifted);
            if fits {
                self.counts_on_leaving = true;
                let others = self.leaving_near(first.node);
                let node = self.world.nodes.get(first.node).name.clone();
                return Some(Turn::Rests(explain::awaiting(&others, &node), Vec::new()));
            }
        }
        if claims.iter().all(|(_, claim)| claim.kind == ClaimKind::Patience) {
            return None;
        }
        // What was claimed counts no more; put it back for the moment it takes to drop it in order.
        for (member, _) in &claims {
            self.count_claim(*member, true);
        }
        for (member, _) in &claims {
            self.give_up_claim(*member, decisions);
        }
        Some(Turn::Dropped)
    }

    /// The cards that a gang could take: one for all, unless they may differ or one is held already.
    fn card_choices(&mut self, id: GangId, members: &[PodId]) -> Vec<Option<ResourceId>> {
        let (held, mixed) = self.world.gangs.card_of(Some(id), &self.world.pods);
        let shapes = members.iter().map(|member| self.world.shapes.get(self.world.pods.get(*member).shape));
        let Some(names) = shapes.map(|shape| shape.spec().cards.clone()).find(|cards| cards.len() > 1) else {
            return vec![None];
        };
        if mixed || held.is_some() {
            return vec![None];
        }
        names.iter().map(|name| Some(self.world.names.intern(name))).collect()
    }

    /// Places enough of a gang's pods for a look, or all of them, and takes them off again. The error is why the first
    /// that had no place has none.
    fn try_gang(
        &mut self,
        id: GangId,
        members: &[PodId],
        card: Option<ResourceId>,
        whole: bool,
    ) -> Result<Vec<(PodId, NodeId)>, Option<Arc<Reason>>> {
        let mut places: Vec<(PodId, NodeId)> = Vec::new();
        let mut failure = None;
        let mut failed = Failed::default();
        let mut effects = Effects::tentative();
        let mut enough = false;
        for member in members {
            // Those that were placed for a look count on their nodes by now.
            let gang = self.world.gangs.get(id);
            enough = !whole && gang.is_started();
            if enough {
                break;
            }
            if failed.is_alike(*member, self) || !whole && !self.is_needed(id, *member, &gang.muster) {
                continue;
            }
            match self.find_place(*member, card) {
                Ok(node) => {
                    self.world.enter(*member, Place::Assumed(node), &mut effects);
                    places.push((*member, node));
                }
                Err(unplaced) => {
                    failure = failure.or_else(|| Some(self.why_unplaced(*member, unplaced)));
                    failed.note(*member, self);
                    if whole {
                        break;
                    }
                }
            }
        }
        enough |= if whole { places.len() == members.len() } else { self.world.gangs.get(id).is_started() };
        for (member, _) in places.iter().rev() {
            self.world.leave(*member, Place::Waiting, &mut effects);
        }
        if enough { Ok(places) } else { Err(failure) }
    }

    /// Whether a pod brings its gang nearer to its minimum.
    fn is_needed(&self, id: GangId, member: PodId, muster: &Muster) -> bool {
        self.world.gangs.get(id).needs(self.world.pods.get(member).task.as_ref(), muster)
    }

    /// The node that takes a pod as things stand, its own claim first.
    fn find_place(&mut self, id: PodId, card: Option<ResourceId>) -> Result<NodeId, Box<Unplaced>> {
        let mut unplaced = Unplaced::default();
        for look in self.looks_with(id, card) {
            self.world.pods.get_mut(id).look = look;
            let question = self.world.question(id);
            let mut refusals = self.world.refusals(id);
            if refusals.is_empty() {
                let claim = self.world.pods.get(id).claim;
                let node = match claim.filter(|claim| self.world.closed_by(&question, claim.node).is_none()) {
                    Some(claim) => Answer::Node(claim.node),
                    None => self.world.answer(&question),
                };
                match node {
                    Answer::Node(node) => {
                        self.world.pods.get_mut(id).look = None;
                        return Ok(node);
                    }
                    // The last look of those that quotas allow is what there is to say.
                    Answer::Nowhere(closed) => unplaced.nowhere = Some((question, closed)),
                }
            } else if unplaced.refused.is_none() {
                unplaced.refused = Some(refusals.swap_remove(0));
            }
        }
        self.world.pods.get_mut(id).look = None;
        Err(Box::new(unplaced))
    }

    /// Why a pod has no place, in words.
    fn why_unplaced(&self, id: PodId, unplaced: Box<Unplaced>) -> Arc<Reason> {
        let reason = match *unplaced {
            Unplaced { nowhere: Some((question, closed)), .. } => {
                self.world.no_fitting_node(self.world.pods.get(id), &question, &closed, false)
            }
            Unplaced { refused: Some(refusal), .. } => self.world.refused(&refusal),
            Unplaced { nowhere: None, refused: None } => {
                explain::plain(Code::CardUnavailable, "the group holds another card".to_owned(), Vec::new())
            }
        };
        Arc::new(reason)
    }

    fn looks_with(&mut self, id: PodId, card: Option<ResourceId>) -> Vec<Option<Look>> {
        let mut looks = self.world.looks(id);
        if let Some(card) = card {
            let has_card = |look: &Option<Look>| {
                look.as_ref().is_none_or(|look| look.cards.is_empty() || look.cards.iter().any(|(c, _)| *c == card))
            };
            looks.retain(has_card);
        }
        looks
    }

    /// What is said of a gang that cannot start: what keeps its first pod without a place out, if a quota does, and
    /// that the others wait for it.
    fn incomplete(&self, id: GangId, failure: Option<Arc<Reason>>, min_member: u32) -> Reason {
        let gang = self.world.gangs.get(id);
        let shown = format!("{}/{}", gang.namespace, gang.name);
        let running = gang.muster.len();
        let why = failure.as_ref().map_or(String::new(), |reason| format!(": {}", reason.message));
        let message =
            format!("the group {shown} needs {min_member} pods at once, {running} run, and there is no room{why}");
        let remedies = failure.as_ref().map(|reason| reason.remedies.clone()).unwrap_or_default();
        let incomplete = explain::plain(Code::GangIncomplete, message, remedies);
        explain::first_of(failure.as_deref().cloned().into_iter().chain([incomplete]).collect())
    }

    /// Looks for pods that may go so that enough of a gang can run.
    fn plan_gang(&mut self, id: GangId, members: &[PodId], card: Option<ResourceId>) -> Result<GangPlan, NoPlan> {
        let mut plan = GangPlan { members: Vec::new(), victims: Vec::new() };
        let mut lifted: Vec<(PodId, Place)> = Vec::new();
        let unseen = self.world.budgets.unseen.len();
        let mut effects = Effects::tentative();
        let mut outcome = Err(NoPlan::Hopeless);
        let mut failed = Failed::default();
        for member in members {
            let gang = self.world.gangs.get(id);
            if gang.is_started() {
                break;
            }
            if failed.is_alike(*member, self) || !self.is_needed(id, *member, &gang.muster) {
                continue;
            }
            let node = match self.find_place(*member, card) {
                Ok(node) => Ok(node),
                Err(_) => {
                    let before = lifted.len();
                    let room = self.make_room(*member, card, &mut plan, &mut lifted);
                    if lifted.len() > before {
                        failed = Failed::default();
                    }
                    room
                }
            };
            match node {
                Ok(node) => {
                    self.world.enter(*member, Place::Assumed(node), &mut effects);
                    plan.members.push((*member, node));
                }
                Err(NoPlan::Wait) => {
                    outcome = Err(NoPlan::Wait);
                    break;
                }
                Err(NoPlan::Hopeless) => failed.note(*member, self),
            }
        }
        if self.world.gangs.get(id).is_started() {
            self.spare_the_needless(&mut plan, &mut lifted);
            if self.take_whole_gangs(&mut plan, &mut lifted) && !self.is_returnable(&plan) {
                outcome = Ok(());
            }
        }
        for (member, _) in plan.members.iter().rev() {
            self.world.leave(*member, Place::Waiting, &mut effects);
        }
        self.world.put_back(lifted);
        self.world.budgets.unseen.truncate(unseen);
        outcome.map(|()| plan)
    }

    /// Finds victims for one pod of a gang and takes them off their nodes for a look.
    fn make_room(
        &mut self,
        member: PodId,
        card: Option<ResourceId>,
        plan: &mut GangPlan,
        lifted: &mut Vec<(PodId, Place)>,
    ) -> Result<NodeId, NoPlan> {
        for look in self.looks_with(member, card) {
            self.world.pods.get_mut(member).look = look;
            let question = self.world.question(member);
            let outcome = self.world.find_victims(member, &question);
            let found = match outcome {
                Outcome::Plan(found) => found,
                Outcome::Wait => {
                    self.world.pods.get_mut(member).look = None;
                    return Err(NoPlan::Wait);
                }
                Outcome::Hopeless => continue,
            };
            let rights = self.world.rights(member, &self.world.asked_charge(member));
            for victim in &found.victims {
                let rule = self.world.right(&rights, *victim).map_or(Rule::OwnQuota, |right| right.rule);
                let message = self.world.evicted(rule, member, *victim, &found);
                let violates_budget = found.violating.contains(victim);
                plan.victims.push(GangVictim { pod: *victim, member, rule, violates_budget, message });
            }
            lifted.extend(self.world.lift(&found.victims));
            self.world.budgets.unseen.extend(&found.victims);
            self.world.pods.get_mut(member).look = None;
            return Ok(found.node);
        }
        self.world.pods.get_mut(member).look = None;
        Err(NoPlan::Hopeless)
    }

    /// Puts back those who need not go after all, the most important first.
    fn spare_the_needless(&mut self, plan: &mut GangPlan, lifted: &mut Vec<(PodId, Place)>) {
        let mut victims: Vec<PodId> = plan.victims.iter().map(|victim| victim.pod).collect();
        victims.sort_by_cached_key(|victim| {
            let pod = self.world.pods.get(*victim);
            (std::cmp::Reverse(pod.priority), pod.created, pod.key())
        });
        for victim in victims {
            let Some(at) = lifted.iter().position(|(pod, _)| *pod == victim) else { continue };
            self.world.put_back(vec![lifted[at]]);
            if self.is_overfull(plan, lifted[at].1) {
                self.world.lift(&[victim]);
            } else {
                lifted.remove(at);
                plan.victims.retain(|v| v.pod != victim);
            }
        }
    }

    /// Whether a node, or a quota of the gang's, holds more than it may with the gang in place.
    fn is_overfull(&self, plan: &GangPlan, place: Place) -> bool {
        let world = &self.world;
        let node = match place {
            Place::Assumed(node) | Place::Placed(node) => node,
            Place::Waiting => return false,
        };
        if world.nodes.is_overfull(node) {
            return true;
        }
        plan.members.iter().any(|(member, _)| {
            let pod = world.pods.get(*member);
            let nothing: Vec<_> = world.charge_of(*member).iter().map(|(resource, _)| (*resource, 0)).collect();
            let ask = Ask { charge: &nothing, non_preemptible: false };
            !world.quotas.refusals(&pod.quotas, &ask, &world.names).is_empty()
        })
    }

    /// A gang that falls below its minimum goes whole. Returns whether all of them may.
    fn take_whole_gangs(&mut self, plan: &mut GangPlan, lifted: &mut Vec<(PodId, Place)>) -> bool {
        let victims: Vec<PodId> = plan.victims.iter().map(|victim| victim.pod).collect();
        let Some(more) = self.world.rest_of_gangs(&victims) else { return false };
        let rest: Vec<PodId> = more.iter().map(|(pod, _)| *pod).collect();
        for (pod, with) in more {
            let Some(at) = plan.victims.iter().position(|victim| victim.pod == with) else { continue };
            let (member, rule) = (plan.victims[at].member, plan.victims[at].rule);
            let may_go = self.world.pods.get(pod).quotas == self.world.pods.get(with).quotas
                && match rule {
                    Rule::OwnQuota | Rule::Priority => {
                        self.world.pods.get(pod).priority < self.world.pods.get(member).priority
                    }
                    _ => self.world.spares_guarantees(member, &rest),
                };
            if !may_go {
                return false;
            }
            let message = format!("{}, with the rest of its group", plan.victims[at].message);
            let budgets = &self.world.budgets;
            let violates_budget =
                budgets.of(self.world.pods.get(pod)).any(|key| budgets.allows(key, &self.world.pods) == 0);
            plan.victims.push(GangVictim { pod, member, rule, violates_budget, message });
            self.world.budgets.unseen.push(pod);
        }
        lifted.extend(self.world.lift(&rest));
        true
    }

    /// Whether one of those who go for a gang could evict one of its pods in turn, with all of them in place as they
    /// are now: a gang that gives way whole leaves room for more than its evictor is owed, and could claim it back for
    /// ever.
    fn is_returnable(&mut self, plan: &GangPlan) -> bool {
        let members: Vec<PodId> = plan.members.iter().map(|(member, _)| *member).collect();
        if !members.iter().any(|member| self.world.has_queue(*member)) {
            return false;
        }
        let victims: Vec<PodId> = plan.victims.iter().map(|victim| victim.pod).collect();
        let leaving = self.world.leaving_pods();
        let left = self.world.lift(&leaving);
        let returns = self.world.is_any_owed_back(&victims, &members);
        self.world.put_back(left);
        returns
    }

    /// Carries out a plan for a gang: its pods hold their nodes, the victims go.
    fn claim_for_gang(&mut self, plan: GangPlan, decisions: &mut Decisions) {
        let GangPlan { members, mut victims } = plan;
        for (member, node) in &members {
            self.dequeue(*member);
            self.claimants.remove(member);
            self.take_claim(*member, Claim { node: *node, kind: ClaimKind::Preemption });
            self.note_moved_pools(*member);
            let (pod, node) = (self.world.pods.get(*member), self.world.nodes.get(*node).name.clone());
            decisions.list.push(Decision::Nominate { pod: pod.key(), uid: pod.uid.clone(), node: Some(node) });
        }
        victims.sort_by_cached_key(|victim| self.world.pods.get(victim.pod).key());
        let mut effects = Effects::default();
        for GangVictim { pod: victim, member, rule, violates_budget, message } in victims {
            let claimant: (PodKey, Name) = {
                let pod = self.world.pods.get(member);
                (pod.key(), pod.uid.clone())
            };
            let pod = self.world.pods.get(victim);
            let from = pod.node().map(|node| self.world.nodes.get(node).name.clone());
            decisions.list.push(Decision::Evict {
                pod: pod.key(),
                uid: pod.uid.clone(),
                node: from.expect("a victim is on a node"),
                claimant: Some(claimant.0.clone()),
                rule,
                violates_budget,
                message,
            });
            self.world.change_leaving(victim, &mut effects, |pod| pod.evicted_for = Some(claimant));
            self.note_leaving_for(victim, true);
            self.world.budgets.unseen.push(victim);
        }
        self.note(Change::Preempted);
        for (member, _) in members {
            self.enqueue(member);
        }
        self.wake(effects);
    }

    /// Lets a gang that waited for long hold a node for each pod of its minimum. Returns whether it does.
    pub(super) fn reserve_for_gang(&mut self, id: GangId, decisions: &mut Decisions) -> bool {
        if self.world.gangs.get(id).fact.is_none() || !self.world.gangs.get(id).admitted {
            return false;
        }
        let members = self.waiting_members(id);
        if members.iter().any(|member| self.world.pods.get(*member).claim.is_some()) {
            return false; // Room is kept for it already.
        }
        let card = self.card_choices(id, &members).first().copied().flatten();
        let mut held: Vec<(PodId, NodeId)> = Vec::new();
        let mut muster = self.world.gangs.get(id).muster.clone();
        for member in members {
            if self.world.gangs.get(id).is_enough_of(&muster) {
                break;
            }
            if !self.is_needed(id, member, &muster) {
                continue;
            }
            let open = self.find_place(member, card).ok();
            let Some(node) = open.or_else(|| self.node_to_reserve(member)) else { continue };
            self.dequeue(member);
            self.take_claim(member, Claim { node, kind: ClaimKind::Patience });
            muster.count(self.world.pods.get(member), &[], true);
            held.push((member, node));
        }
        let enough = self.world.gangs.get(id).is_enough_of(&muster);
        for (member, node) in held {
            if !enough {
                self.drop_claim(member);
            }
            self.enqueue(member);
            if enough {
                let (pod, node) = (self.world.pods.get(member), self.world.nodes.get(node).name.clone());
                decisions.list.push(Decision::Nominate { pod: pod.key(), uid: pod.uid.clone(), node: Some(node) });
            }
        }
        if enough {
            self.note(Change::Reserved);
        }
        enough
    }

    /// A gang as it stands.
    pub(super) fn group_report(&self, gang: &Gang) -> crate::engine::GroupReport {
        let pods = || gang.members.iter().map(|id| self.world.pods.get(*id));
        let placed = |pod: &&Pod| pod.node().is_some();
        crate::engine::GroupReport {
            namespace: gang.namespace.clone(),
            name: gang.name.clone(),
            admitted: gang.admitted,
            members: gang.members.len() as u32,
            placed: pods().filter(placed).count() as u32,
            running: pods().filter(placed).filter(|pod| pod.running).count() as u32,
            min_member: gang.min_member(),
            reason: gang.reason.clone(),
        }
    }
}
