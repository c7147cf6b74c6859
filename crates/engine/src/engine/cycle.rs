//! The cycle: each waiting pod in turn, until nothing more can be decided.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::cards::{Attempt, CardChoice};
use crate::decision::{Budget, Decision, Decisions};
use crate::engine::Engine;
use crate::engine::turns::Turns;
use crate::engine::wake::Change;
use crate::explain;
use crate::fact::{Created, PodKey, Tick};
use crate::filter::volume_binding;
use crate::gangs::GangId;
use crate::nodes::NodeId;
use crate::place::{Answer, ClosedCounts, Question};
use crate::pods::{Place, Pod, PodId};
use crate::policy::{Moved, QuotaId, Refusal};
use crate::preempt::{Outcome, Plan};
use crate::queue::GroupId;
use crate::reason::Reason;
use crate::relations::Effects;
use crate::reservations::{Reservation, ReservationKind};
use crate::sign::Sign;

/// A way to place a pod that was tried, and what was in the way: quotas that refuse it, or else nodes that are closed.
struct Tried {
    choice: Option<CardChoice>,
    question: Question,
    refusals: Vec<Refusal>,
    closed: Option<ClosedCounts>,
}

/// What became of a pod's turn, or a gang's.
pub(super) enum Turn {
    Placed,
    Reserved,
    /// Its reservation is dropped; it is an ordinary candidate again.
    Dropped,
    /// Until something changes in its favour, as when one of these quotas may hold more.
    Rests(Reason, Vec<QuotaId>),
    /// Pods leave for it.
    AwaitsVictims(Reason, Vec<QuotaId>),
}

impl Turn {
    /// The same, waiting for other quotas.
    pub(super) fn gated_by(self, gates: Vec<QuotaId>) -> Turn {
        match self {
            Turn::Rests(reason, _) => Turn::Rests(reason, gates),
            Turn::AwaitsVictims(reason, _) => Turn::AwaitsVictims(reason, gates),
            other => other,
        }
    }
}

/// If the turn is that of pods of no more lines than this, what quotas may hold is worked out for them first, and for
/// all others later.
const FEW_LINES: usize = 16;

impl Engine {
    /// Decides what can be decided now.
    pub fn decide(&mut self, now: Tick, budget: Budget) -> Decisions {
        let mut decisions = Decisions::default();
        if self.world.renew_gpu_nodes() {
            self.note(Change::Node);
        }
        self.world.renew_device_totals();
        self.settle_terms();
        self.wake_for_evictions(now);
        self.forget_reserved_now();
        self.turns.go_on();
        self.regroup();
        self.drop_reservations_on_absent_nodes(&mut decisions);
        self.drop_baseless_reservations(&mut decisions);
        self.world.nodes.forget_idle();
        self.world.forget_ended_classes();
        let mut looked_at = 0;
        if self.queue.has_resting() {
            // Who rests until a quota may hold more, or others hold too much, stands in line as soon as that is so.
            self.take_in_all_quotas();
            self.wake_claimants();
        }
        loop {
            self.take_in_quotas();
            self.admit_gangs(&mut decisions);
            if !std::mem::replace(&mut self.has_begun, true) {
                self.recall_claims();
                self.complete_gangs(&mut decisions);
            }
            let Some(first) = self.queue.first() else {
                if looked_at >= budget.pods_max && self.world.quotas.is_stale() {
                    decisions.more = true;
                    break;
                }
                self.take_in_all_quotas();
                if self.wake_claimants()
                    || self.revoke_overuse(now, &mut decisions)
                    || self.reserve(now, &mut decisions)
                {
                    continue;
                }
                break;
            };
            if looked_at >= budget.pods_max {
                decisions.more = true;
                break;
            }
            looked_at += 1;
            let (group, pod) = self.contestant(first.1).unwrap_or(first);
            let gang = self.unstarted_gang(pod);
            match self.take_next_turn(pod, gang, &mut decisions) {
                Turn::Placed | Turn::Reserved | Turn::Dropped => {}
                Turn::Rests(reason, gates) => {
                    let reason = Arc::new(reason);
                    for group in self.groups_at_rest(gang, group) {
                        self.queue.rest(group, reason.clone(), gates.clone());
                    }
                }
                Turn::AwaitsVictims(reason, gates) => {
                    let reason = Arc::new(reason);
                    for group in self.groups_at_rest(gang, group) {
                        self.queue.await_victims(group, reason.clone(), gates.clone());
                    }
                }
            }
        }
        self.mark(&mut decisions);
        self.tell(&mut decisions);
        if !decisions.more {
            self.turns = Turns::default();
        }
        self.settle_beyond();
        decisions.wake_at =
            [self.wake_at(now), self.next_revocation(now), self.next_eviction()].into_iter().flatten().min();
        debug_assert_eq!(self.check_invariants(), Ok(()));
        decisions
    }

    /// Where those stand in the queue that rest together: the pods of a class, or the waiting pods of a gang.
    fn groups_at_rest(&self, gang: Option<GangId>, first: GroupId) -> BTreeSet<GroupId> {
        let Some(gang) = gang else { return BTreeSet::from([first]) };
        let members = self.waiting_members(gang).into_iter();
        members.filter_map(|member| self.world.pods.get(member).group).chain([first]).collect()
    }

    /// Brings what those may hold up to date whose turn may be next, and the order of those who wait with it.
    fn take_in_quotas(&mut self) {
        self.settle_gangs();
        if self.world.quotas.is_stale() {
            match self.queue.next_quotas(FEW_LINES) {
                Some(quotas) => self.world.quotas.refresh_of(&quotas),
                None => self.world.quotas.refresh(),
            }
        }
        self.take_in_moved();
    }

    /// Brings what all quotas may hold up to date.
    pub(super) fn take_in_all_quotas(&mut self) {
        if self.world.quotas.is_stale() {
            self.world.quotas.refresh();
            self.take_in_moved();
        }
    }

    fn take_in_moved(&mut self) {
        if !self.world.quotas.has_moved() {
            return;
        }
        let Moved { shares, limits, gates, drawn_on } = self.world.quotas.take_moved();
        self.changes += u64::from(limits);
        for quota in gates {
            self.queue.wake_gated(quota);
        }
        self.moved_pools.extend(drawn_on);
        for quota in shares {
            let quotas = &self.world.quotas;
            if !quotas.is_listed(quota) {
                continue;
            }
            let may_be_over = quotas.ends_overuse(quota) && !quotas.get(quota).pods.is_empty();
            if may_be_over || self.overused_since.contains_key(&quota) {
                self.recheck_overuse.insert(quota);
            }
            self.queue.quota_changed(quota, |of| quotas.share(of));
        }
    }

    /// Selectors look at labels that they did not look at before: pods that were alike may differ now.
    fn regroup(&mut self) {
        if self.keys_epoch == self.world.relations.keys_epoch {
            return;
        }
        self.keys_epoch = self.world.relations.keys_epoch;
        for id in self.queue.members() {
            self.dequeue(id);
            self.enqueue(id);
        }
    }

    fn drop_reservations_on_absent_nodes(&mut self, decisions: &mut Decisions) {
        let absent = |id: &PodId| {
            let reservation = self.world.pods.get(*id).reservation;
            reservation.is_some_and(|reservation| !self.world.nodes.is_present(reservation.node))
        };
        let mut lost: Vec<PodId> = self.claimants.iter().copied().filter(absent).collect();
        lost.sort_by_cached_key(|id| {
            let pod = self.world.pods.get(*id);
            (std::cmp::Reverse(pod.priority), pod.created, pod.key())
        });
        for id in lost {
            self.give_up_reservation(id, decisions);
        }
    }

    /// Drops a reservation and says so.
    pub(super) fn give_up_reservation(&mut self, id: PodId, decisions: &mut Decisions) {
        self.dequeue(id);
        self.drop_reservation(id);
        self.enqueue(id);
        let pod = self.world.pods.get(id);
        decisions.list.push(Decision::Nominate { pod: pod.key(), uid: pod.uid.clone(), node: None });
    }

    /// One pod's turn: bind it, reserve room for it, or say why not.
    pub(super) fn take_turn(&mut self, id: PodId, decisions: &mut Decisions) -> Turn {
        let reservation = self.world.pods.get(id).reservation;
        self.note_awaited(id);
        self.count_reservation(id, Sign::Take);
        let turn = self.take_turn_unreserved(id, reservation, decisions);
        if matches!(turn, Turn::Rests(..) | Turn::AwaitsVictims(..)) {
            self.count_reservation(id, Sign::Add);
        }
        turn
    }

    /// The turn of a pod whose own reservation does not count at the moment.
    fn take_turn_unreserved(&mut self, id: PodId, reservation: Option<Reservation>, decisions: &mut Decisions) -> Turn {
        if let Some((code, message)) = self.world.membership_error(id) {
            // A closed or missing queue or quota gets no reservation, and keeps none.
            if reservation.is_some() {
                return self.drop_turn(id, decisions);
            }
            return Turn::Rests(explain::membership_error(code, message), Vec::new());
        }
        let mut tried: Vec<Tried> = Vec::new();
        for choice in self.world.card_choices(id) {
            let attempt = Attempt { pod: id, choice: choice.as_ref() };
            let question = self.world.question(attempt);
            let refusals = self.world.refusals(attempt);
            let mut closed = None;
            if refusals.is_empty() {
                if let Some(reservation) = reservation
                    && self.world.takes_claimant(id, &question)
                {
                    return self.bind(id, reservation.node, decisions);
                }
                match self.world.answer(&question) {
                    Answer::Node(node) => return self.bind(id, node, decisions),
                    Answer::Nowhere(counts) => closed = Some(counts),
                }
            }
            tried.push(Tried { choice, question, refusals, closed });
        }
        // One within what its quota keeps does not wait beside what others claim of that quota.
        if reservation.is_none_or(|reservation| reservation.kind == ReservationKind::Room)
            && !self.world.reservations.is_empty()
            && self.world.is_owed_beside_claims(id)
        {
            for Tried { choice, question, .. } in &tried {
                let attempt = Attempt { pod: id, choice: choice.as_ref() };
                if let Some(node) = self.world.node_beside_claims(attempt, question) {
                    return self.bind(id, node, decisions);
                }
            }
        }
        self.take_turn_without_room(id, reservation, &tried, decisions)
    }

    /// The turn of a pod for which there is no room as things are.
    fn take_turn_without_room(
        &mut self,
        id: PodId,
        reservation: Option<Reservation>,
        tried: &[Tried],
        decisions: &mut Decisions,
    ) -> Turn {
        self.world.stopped_by = None;
        for Tried { question, .. } in tried {
            self.wait_for_company(id, question);
        }
        if let Some(turn) = self.await_devices(id, tried.iter().map(|tried| &tried.question)) {
            return turn;
        }
        if let Some(reservation) = reservation {
            let victims = self.victims_still_leaving(self.world.pods.get(id));
            if !victims.is_empty() {
                let reason = self.awaiting(id, &victims, reservation.node);
                return Turn::AwaitsVictims(reason, self.moving_levels(id));
            }
            let mut attempts = tried.iter().map(|tried| Attempt { pod: id, choice: tried.choice.as_ref() });
            if attempts.any(|attempt| self.world.takes_once_left(attempt, reservation.node)) {
                self.counts_on_leaving = true;
                let others = self.leaving_near(reservation.node);
                let reason = self.awaiting(id, &others, reservation.node);
                return Turn::Rests(reason, self.moving_levels(id));
            }
            // Who is kept out by its own ceiling has no use for room.
            let is_worth_keeping =
                |tried: &Tried| tried.refusals.is_empty() && self.is_worth_keeping(&tried.question, reservation.node);
            if reservation.kind != ReservationKind::Patience || !tried.iter().any(is_worth_keeping) {
                return self.drop_turn(id, decisions);
            }
        }
        if self.world.pods.get(id).never_preempts
            || tried.iter().any(|tried| self.world.has_device_fault(&tried.question))
        {
            return self.rests(id, tried, false);
        }
        if tried.iter().any(|tried| tried.refusals.is_empty()) && self.await_nodes(&[id]) {
            return self.rests(id, tried, false);
        }
        match self.cheapest_way(id, reservation, tried) {
            Some(Outcome::Plan(plan)) if self.counts_on_unseen(&plan) => self.rests(id, tried, true),
            Some(Outcome::Plan(plan)) => {
                self.carry_out(*plan, decisions);
                Turn::Reserved
            }
            Some(Outcome::Wait(places)) => {
                self.counts_on_leaving = true;
                // What is on its way to it is its own from now on; what it held out of patience it needs no more.
                self.hold_room(&places, decisions);
                Turn::Reserved
            }
            Some(Outcome::Hopeless) | None => self.rests(id, tried, false),
        }
    }

    /// The cheapest way to make room, over all cards that the pod accepts; its preference decides between equals.
    fn cheapest_way(&mut self, id: PodId, reservation: Option<Reservation>, tried: &[Tried]) -> Option<Outcome> {
        let pod = self.world.pods.get(id);
        let is_beyond_help = |tried: &Tried| self.world.quotas.is_beyond_help(&pod.quotas, &tried.refusals);
        if tried.iter().all(is_beyond_help) || self.misled.contains(&id) {
            return None;
        }
        // Who may be evicted depends on what all others may hold.
        self.take_in_all_quotas();
        let mut best: Option<Box<Plan>> = None;
        for choice in self.world.ways_for_claimant(id) {
            let question = self.world.question(Attempt { pod: id, choice: choice.as_ref() });
            let pod = self.world.pods.get(id);
            let way = choice.as_ref().and_then(|choice| choice.devices.clone());
            let known = (question.shape, pod.priority, pod.is_non_preemptible(), pod.quotas.clone(), pod.gang, way);
            // Who holds a reservation has more room than others of its kind, for whom all may be hopeless.
            let is_known = reservation.is_none() && !question.has_objections();
            if is_known
                && let Some((changes, stopped_by)) = self.hopeless.get(&known)
                && *changes == self.changes
            {
                self.world.stopped_by = *stopped_by;
                continue;
            }
            match self.world.find_victims(id, choice, &question) {
                Outcome::Plan(plan) if best.as_ref().is_none_or(|best| plan.cost < best.cost) => best = Some(plan),
                Outcome::Plan(_) => {}
                Outcome::Wait(places) => return Some(Outcome::Wait(places)),
                Outcome::Hopeless => {
                    if !question.has_objections() {
                        self.hopeless.insert(known, (self.changes, self.world.stopped_by));
                    }
                }
            }
        }
        best.map(Outcome::Plan)
    }

    /// Notes whether a pod's own victims are still there: until they are gone it takes no room that others' victims
    /// left.
    pub(super) fn note_awaited(&mut self, id: PodId) {
        let pod = self.world.pods.get(id);
        let awaits = pod.reservation.is_some() && !self.victims_still_leaving(pod).is_empty();
        // What a reservation that was told of is for is known once pods are seen to leave for it.
        let is_told = |held: Reservation| awaits && held.kind == ReservationKind::Room;
        let is_told = pod.reservation.is_some_and(is_told);
        if pod.awaits_victims != awaits || is_told {
            let pod = self.world.pods.get_mut(id);
            pod.awaits_victims = awaits;
            if let Some(reservation) = pod.reservation.as_mut().filter(|_| is_told) {
                reservation.kind = ReservationKind::Preemption;
            }
        }
    }

    pub(super) fn victims_still_leaving(&self, claimant: &Pod) -> Vec<(PodKey, Option<Created>)> {
        let key = claimant.key();
        let on_known_node = |pod: &&Pod| pod.node().is_some_and(|node| self.world.nodes.is_present(node));
        let for_this_one = |pod: &&Pod| pod.departure.is_for(&key, &claimant.uid);
        let pods = self.leaving_for.get(&key).into_iter().flatten().map(|id| self.world.pods.get(*id));
        let pods = pods.filter(on_known_node).filter(for_this_one);
        let mut victims: Vec<_> = pods.map(|pod| (pod.key(), pod.departure.since())).collect();
        victims.sort();
        victims
    }

    /// The pods that are leaving a node, or, where none is, those that leave others: what keeps a pod out may be
    /// elsewhere.
    pub(super) fn leaving_near(&self, node: NodeId) -> Vec<(PodKey, Option<Created>)> {
        let leaving = self.world.leaving_pods().into_iter().map(|id| self.world.pods.get(id));
        let (here, elsewhere): (Vec<&Pod>, Vec<&Pod>) = leaving.partition(|pod| pod.node() == Some(node));
        let nearest = if here.is_empty() { elsewhere } else { here };
        let mut nearest: Vec<_> = nearest.into_iter().map(|pod| (pod.key(), pod.departure.since())).collect();
        nearest.sort();
        nearest
    }

    fn rests(&self, id: PodId, tried: &[Tried], leaving: bool) -> Turn {
        let pod = self.world.pods.get(id);
        let admitted = tried.iter().any(|tried| tried.refusals.is_empty());
        let mut reasons: Vec<Reason> = Vec::new();
        for Tried { question, refusals, closed, .. } in tried {
            if !admitted {
                reasons.extend(refusals.iter().map(|refusal| self.world.refused(refusal)));
            }
            reasons.extend(closed.as_ref().map(|closed| self.world.no_fitting_node(pod, question, closed, leaving)));
        }
        let gates = tried.iter().flat_map(|tried| self.world.quotas.gates(&tried.refusals));
        // A quota that rises may have room for devices that it has none for now.
        let lacks_devices = |tried: &Tried| tried.closed.is_some() && tried.question.devices.is_some();
        let is_gated = pod.reservation.is_some() || tried.iter().any(lacks_devices);
        let gates = if is_gated { self.moving_levels(id) } else { gates.collect() };
        let mut reason = explain::first_of(reasons);
        self.world.say_who_stops(&mut reason);
        Turn::Rests(reason, gates)
    }

    /// A pod that other pods keep out is woken when one of their kind comes.
    pub(super) fn wait_for_company(&mut self, id: PodId, question: &Question) {
        let Some(group) = self.world.pods.get(id).group else { return };
        let shape = self.world.shapes.get(question.shape);
        let spread = shape.spread.iter().map(|spread| spread.relation);
        let spread = spread.chain(question.crowds.iter().map(|crowd| crowd.relation));
        let kinds: BTreeSet<_> = spread.chain(shape.affinity.iter().map(|(relation, _)| *relation)).collect();
        for kind in kinds {
            self.world.relations.wait(kind, group);
        }
    }

    pub(super) fn bind(&mut self, id: PodId, node: NodeId, decisions: &mut Decisions) -> Turn {
        let pod = self.world.pods.get(id);
        let shape = self.world.shapes.get(pod.shape);
        let claims = volume_binding::bindings(&self.world.nodes, node, shape, &self.world.volumes).unwrap_or_default();
        let (key, uid) = (pod.key(), pod.uid.clone());
        self.acts += 1;
        self.dequeue(id);
        self.contested.remove(&id);
        // The end of a claim frees room unless that is where the pod is now, a decided volume may attach where the
        // undecided claim could not, and who rests because leaving pods make room for it may find that room taken: from
        // the top again.
        let was_claimant = self.claimants.remove(&id);
        let is_elsewhere = self.world.pods.get(id).reservation.is_none_or(|reservation| reservation.node != node);
        if was_claimant && is_elsewhere || !claims.is_empty() || std::mem::take(&mut self.counts_on_leaving) {
            self.note(Change::BoundWithEffect);
        } else if was_claimant {
            self.note(Change::ReservationUsed);
        }
        let name = self.world.nodes.get(node).name.clone();
        let sharing = claims.iter().flat_map(|binding| {
            self.world.volumes.users(&(key.namespace.clone(), binding.claim().clone())).iter().copied()
        });
        let sharing: Vec<PodId> = sharing.collect();
        self.world.change_volumes(sharing, |volumes| volumes.decide(&key.namespace, &claims, &name, &uid));
        let mut effects = Effects::default();
        self.world.enter(id, Place::Assumed(node), &mut effects);
        self.settle_devices(id);
        let devices = self.grants(id);
        // Others that share a claim with it have to follow it, and devices that were free are not.
        if !devices.is_empty() {
            self.changes += 1;
        }
        for grant in &devices.claims {
            let key = crate::device::ClaimKey { namespace: key.namespace.clone(), name: grant.claim.clone() };
            self.renew_needs(Some(&key));
        }
        let reservation = self.world.take_reservation_for_bind(id);
        let pod = self.world.pods.get_mut(id);
        pod.granted.clear();
        pod.reservation_if_bind_fails = reservation;
        pod.reason = None;
        self.note_moved_pools(id);
        self.changes += 1;
        self.wake(effects);
        let node = self.world.nodes.get(node).name.clone();
        decisions.list.push(Decision::Bind { pod: key, uid, node, claims, devices });
        Turn::Placed
    }
}
