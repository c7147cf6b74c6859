//! Patience: a pod that has waited for long holds a node for itself.

use std::collections::BTreeSet;

use crate::cards::Attempt;
use crate::decision::{Decision, Decisions};
use crate::engine::Engine;
use crate::engine::wake::Change;
use crate::fact::Tick;
use crate::filter::{Filter, node_cap, resources_fit};
use crate::gangs::GangId;
use crate::nodes::NodeId;
use crate::place::Question;
use crate::pods::PodId;
use crate::reason::Code;
use crate::reservations::{Reservation, ReservationKind};
use crate::resources::ResourceId;
use crate::sign::Sign;

impl Engine {
    /// Lets the first pod that waited long enough hold a node, if none does. Returns whether one does now.
    pub(super) fn reserve(&mut self, now: Tick, decisions: &mut Decisions) -> bool {
        let overdue = self.patience.first().is_some_and(|(due, _)| *due <= now);
        if !overdue || self.is_patience_used() {
            return false;
        }
        let mut waiting: Vec<PodId> =
            self.patience.iter().take_while(|(due, _)| *due <= now).map(|(_, id)| *id).collect();
        // Pods that no node would serve may wait for weeks, and every node is looked at for each of them.
        let tried = (self.changes, waiting.len());
        let is_in_vain = self.patience_in_vain == Some(tried);
        if is_in_vain && !cfg!(debug_assertions) {
            return false;
        }
        let is_open = self.misled.is_empty() && waiting.iter().all(|id| self.unstarted_gang(*id).is_none());
        waiting.retain(|id| self.world.pods.get(*id).reservation.is_none() && !self.misled.contains(id));
        waiting.sort_by_cached_key(|id| {
            let pod = self.world.pods.get(*id);
            (std::cmp::Reverse(pod.priority), pod.created, pod.key())
        });
        for id in waiting {
            if let Some(gang) = self.unstarted_gang(id) {
                if self.reserve_for_gang(gang, decisions) {
                    return true;
                }
                continue;
            }
            if let Some(node) = self.node_to_reserve(id, None) {
                debug_assert!(!is_in_vain, "nothing changed, and yet {} finds a node", self.world.pods.get(id).key());
                self.hold_patiently(&[(id, node)], decisions);
                return true;
            }
        }
        // What a gang may reserve, and who was misled in this cycle, depends on more than what changes count.
        self.patience_in_vain = is_open.then_some(tried);
        false
    }

    fn hold_patiently(&mut self, places: &[(PodId, NodeId)], decisions: &mut Decisions) {
        for (id, node) in places {
            self.dequeue(*id);
            self.take_reservation(*id, Reservation { node: *node, kind: ReservationKind::Patience });
            self.note_reserved(*id);
            self.reserved_now.insert(*id, self.acts);
            self.enqueue(*id);
            let (pod, node) = (self.world.pods.get(*id), self.world.nodes.get(*node).name.clone());
            decisions.list.push(Decision::Nominate { pod: pod.key(), uid: pod.uid.clone(), node: Some(node) });
        }
        self.note(Change::Reserved);
    }

    /// The node to hold for a pod that takes a card, or any that it accepts. A reservation is against starvation by
    /// others: there is none for a pod that its own ceilings, or a queue that is closed or not there, keep out.
    fn node_to_reserve(&mut self, id: PodId, card: Option<ResourceId>) -> Option<NodeId> {
        if self.world.membership_error(id).is_some() {
            return None;
        }
        for choice in self.card_choices_with(id, card) {
            let attempt = Attempt { pod: id, choice: choice.as_ref() };
            let node = match self.world.refusals(attempt).is_empty() {
                true => self.node_to_reserve_as_chosen(attempt),
                false => None,
            };
            if node.is_some() {
                return node;
            }
        }
        None
    }

    /// Whether a node that is kept out of patience can still serve: room is what is missing there, and nothing else.
    pub(super) fn is_worth_keeping(&self, question: &Question, node: NodeId) -> bool {
        let closed_by = self.world.closed_by(question, node);
        closed_by.is_none_or(|filter| matches!(filter, Filter::NodeResourcesFit | Filter::NodeCap | Filter::Devices))
            && self.world.would_do_empty(question, node)
    }

    pub(super) fn is_patience_used(&self) -> bool {
        let patient =
            |id: &PodId| self.world.pods.get(*id).reservation.is_some_and(|c| c.kind == ReservationKind::Patience);
        self.claimants.iter().any(patient)
    }

    /// The node that would do if it were empty and where the least is missing.
    ///
    /// What is kept for others stays theirs: victims left for it, or will leave. So a node with such a reservation is
    /// passed over until the reservation ends; and pods of a gang share a node only if it fits them together. So is one
    /// that is closed by more than a lack of room: to keep it empty would not open it.
    fn node_to_reserve_as_chosen(&mut self, attempt: Attempt<'_>) -> Option<NodeId> {
        let question = self.world.question(attempt);
        let world = &self.world;
        let shape = world.shapes.get(question.shape);
        let demand = &shape.demand;
        let held = self.claimants.iter().filter_map(|id| world.pods.get(*id).reservation);
        let held_for_others: BTreeSet<NodeId> =
            held.filter(|held| held.kind != ReservationKind::Patience).map(|held| held.node).collect();
        let fits_with_gang = |node: NodeId| {
            demand.amounts.iter().all(|(resource, amount)| {
                let reserved = world.nodes.reserved(*resource, node);
                reserved + i128::from(*amount) <= i128::from(world.nodes.allocatable(*resource, node))
            })
        };
        let would_do = |node: &NodeId| {
            matches!(world.closed_by(&question, *node), Some(Filter::NodeResourcesFit | Filter::NodeCap))
                && world.closed_by_volumes(&question, shape, *node).is_none()
                && world.closed_by_others(&question, shape, *node).is_none()
                && world.would_do_empty(&question, *node)
                && !held_for_others.contains(node)
                && fits_with_gang(*node)
        };
        let lack = |node: &NodeId| {
            let missing: Vec<(ResourceId, i128)> = resources_fit::missing(&world.nodes, *node, demand);
            let capped = node_cap::missing(&world.nodes.get(*node).cap, demand);
            (world.lack(*node, &missing) + world.lack(*node, &capped), world.nodes.rank(*node))
        };
        world.nodes.by_name().filter(would_do).min_by_key(lack)
    }

    /// When time alone lets the next pod hold a node. Those that waited long enough are tried in every cycle.
    pub(super) fn wake_at(&self, now: Tick) -> Option<Tick> {
        if self.is_patience_used() {
            return None;
        }
        let mut later = self.patience.iter().skip_while(|(due, _)| *due <= now);
        later.next().map(|(due, _)| *due)
    }

    pub(super) fn evicts_from(&self, since: Tick) -> Tick {
        Tick(since.0.saturating_add(self.settings.evict_after_ms))
    }

    /// Whether these pods, which only lack room, still wait for nodes before others are evicted for them.
    pub(super) fn await_nodes(&self, pods: &[PodId]) -> bool {
        let since = pods.iter().map(|pod| self.world.pods.get(*pod).first_seen).min();
        since.is_some_and(|since| self.now < self.evicts_from(since))
    }

    /// Lets those take their turn who have waited long enough for nodes.
    pub(super) fn wake_for_evictions(&mut self, now: Tick) {
        self.now = now;
        while let Some((due, id)) = self.evictions_due.first().copied()
            && due <= now
        {
            self.evictions_due.pop_first();
            if let Some(group) = self.world.pods.get(id).group {
                self.queue.wake(group);
                self.changes += 1; // What was hopeless for want of victims was not looked at yet.
            }
        }
    }

    /// When the next has waited long enough for nodes.
    pub(super) fn next_eviction(&self) -> Option<Tick> {
        self.evictions_due.first().map(|(due, _)| *due)
    }

    pub(super) fn patient_until(&self, since: Tick) -> Tick {
        Tick(since.0.saturating_add(self.settings.reserve_after_ms))
    }

    /// Lets a gang that waited for long hold a node for each pod of its minimum. Returns whether it does.
    pub(super) fn reserve_for_gang(&mut self, id: GangId, decisions: &mut Decisions) -> bool {
        let members = self.waiting_members(id);
        if members.iter().any(|member| self.world.pods.get(*member).reservation.is_some()) {
            return false; // Room is kept for it already.
        }
        if self.is_gang_kept_out(id, &members) {
            return false;
        }
        if members.first().is_some_and(|first| self.misled.contains(first)) {
            return false;
        }
        for card in self.card_choices(id, &members) {
            if let Some(places) = self.places_to_reserve(id, &members, card) {
                self.hold_patiently(&places, decisions);
                return true;
            }
        }
        false
    }

    /// Nodes to hold for the minimum of a gang, if there are any for all of it.
    fn places_to_reserve(
        &mut self,
        id: GangId,
        members: &[PodId],
        card: Option<ResourceId>,
    ) -> Option<Vec<(PodId, NodeId)>> {
        let mut places: Vec<(PodId, NodeId)> = Vec::new();
        let mut tally = self.world.gangs.get(id).tally.clone();
        for member in members {
            if self.world.gangs.get(id).is_enough_of(&tally) {
                break;
            }
            if !self.is_needed(id, *member, &tally) {
                continue;
            }
            let open = self.find_place(*member, card).ok();
            let Some(node) = open.or_else(|| self.node_to_reserve(*member, card)) else { continue };
            // What is held for one counts for the next.
            self.world.pods.get_mut(*member).reservation = Some(Reservation { node, kind: ReservationKind::Patience });
            self.world.count_reservation(*member, Sign::Add);
            tally.count(self.world.pods.get(*member), &[], Sign::Add);
            places.push((*member, node));
        }
        for (member, _) in &places {
            self.world.count_reservation(*member, Sign::Take);
            self.world.forget_kept_devices(*member);
            self.world.pods.get_mut(*member).reservation = None;
        }
        self.world.gangs.get(id).is_enough_of(&tally).then_some(places)
    }

    /// Whether nodes that are kept for a gang out of patience can still serve it.
    pub(super) fn are_worth_keeping(&mut self, id: GangId, members: &[PodId], places: &[(PodId, NodeId)]) -> bool {
        if self.is_gang_kept_out(id, members) {
            return false;
        }
        places.iter().all(|(member, node)| {
            let question = self.world.question(*member);
            self.is_worth_keeping(&question, *node)
        })
    }

    /// Whether a gang is held for a reason of its own: it or its pods contradict each other, its own ceilings or a
    /// queue that is closed, missing or not open to it yet keep its minimum out. Room that is kept for it would serve
    /// nobody.
    fn is_gang_kept_out(&self, id: GangId, members: &[PodId]) -> bool {
        let gang = self.world.gangs.get(id);
        gang.is_unreadable()
            || !gang.admitted
            || self.disagreement(id).is_some()
            || self.gang_membership_error(id, members).is_some()
            || self.world.is_refused_together(&self.needed_of(id, members))
    }

    /// Why the minimum of a gang has no place under its quotas, if so.
    pub(super) fn gang_membership_error(&self, id: GangId, members: &[PodId]) -> Option<(Code, String)> {
        let needed = self.needed_of(id, members);
        members.first().into_iter().chain(&needed).find_map(|member| self.world.membership_error(*member))
    }
}
