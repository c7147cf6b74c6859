//! Patience: a pod that has waited for long holds a node for itself.

use crate::cards::Attempt;
use crate::decision::{Decision, Decisions};
use crate::engine::Engine;
use crate::engine::wake::Change;
use crate::fact::Tick;
use crate::filter::{Filter, node_cap, resources_fit};
use crate::gangs::GangId;
use crate::nodes::NodeId;
use crate::pods::PodId;
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
        waiting.retain(|id| self.world.pods.get(*id).reservation.is_none());
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
            if self.is_kept_out(id) {
                continue;
            }
            let Some(node) = self.node_to_reserve(id) else { continue };
            self.dequeue(id);
            self.take_reservation(id, Reservation { node, kind: ReservationKind::Patience });
            self.note(Change::Reserved);
            self.enqueue(id);
            let pod = self.world.pods.get(id);
            let node = Some(self.world.nodes.get(node).name.clone());
            decisions.list.push(Decision::Nominate { pod: pod.key(), uid: pod.uid.clone(), node });
            return true;
        }
        false
    }

    /// Whether a pod's own ceilings, or a queue that is closed or not there, keep it out: a reservation is against
    /// starvation by others, and would only keep a node empty.
    fn is_kept_out(&mut self, id: PodId) -> bool {
        if self.world.membership_error(id).is_some() {
            return true;
        }
        let choices = self.world.card_choices(id);
        let mut attempts = choices.iter().map(|choice| Attempt { pod: id, choice: choice.as_ref() });
        !attempts.any(|attempt| self.world.refusals(attempt).is_empty())
    }

    pub(super) fn is_patience_used(&self) -> bool {
        let patient =
            |id: &PodId| self.world.pods.get(*id).reservation.is_some_and(|c| c.kind == ReservationKind::Patience);
        self.claimants.iter().any(patient)
    }

    /// The node that would do if it were empty and where the least is missing.
    pub(super) fn node_to_reserve(&mut self, id: PodId) -> Option<NodeId> {
        let pod = self.world.pods.get(id).clone();
        let question = self.world.question(id);
        let world = &self.world;
        let demand = &world.shapes.get(pod.shape).demand;
        let would_do = |node: &NodeId| {
            matches!(world.closed_by(&question, *node), Some(Filter::NodeResourcesFit | Filter::NodeCap))
                && world.would_do_empty(&question, *node)
        };
        let lack = |node: &NodeId| {
            let missing: Vec<(ResourceId, i128)> = resources_fit::missing(&world.nodes, *node, demand);
            let capped = node_cap::missing(&world.nodes.get(*node).cap, demand);
            (world.lack(*node, &missing) + world.lack(*node, &capped), world.nodes.rank(*node))
        };
        world.nodes.by_name().filter(would_do).min_by_key(lack)
    }

    pub(super) fn wake_at(&self) -> Option<Tick> {
        if self.is_patience_used() { None } else { self.patience.first().map(|(due, _)| *due) }
    }

    pub(super) fn patient_until(&self, since: Tick) -> Tick {
        Tick(since.0.saturating_add(self.settings.reserve_after_ms))
    }

    /// Lets a gang that waited for long hold a node for each pod of its minimum. Returns whether it does.
    pub(super) fn reserve_for_gang(&mut self, id: GangId, decisions: &mut Decisions) -> bool {
        if self.world.gangs.get(id).fact.is_none() || !self.world.gangs.get(id).admitted {
            return false;
        }
        let members = self.waiting_members(id);
        if members.iter().any(|member| self.world.pods.get(*member).reservation.is_some()) {
            return false; // Room is kept for it already.
        }
        if self.is_gang_kept_out(id, &members) {
            return false;
        }
        let card = self.card_choices(id, &members).first().copied().flatten();
        let mut held: Vec<(PodId, NodeId)> = Vec::new();
        let mut tally = self.world.gangs.get(id).tally.clone();
        for member in members {
            if self.world.gangs.get(id).is_enough_of(&tally) {
                break;
            }
            if !self.is_needed(id, member, &tally) {
                continue;
            }
            let open = self.find_place(member, card).ok();
            let Some(node) = open.or_else(|| self.node_to_reserve(member)) else { continue };
            self.dequeue(member);
            self.take_reservation(member, Reservation { node, kind: ReservationKind::Patience });
            tally.count(self.world.pods.get(member), &[], Sign::Add);
            held.push((member, node));
        }
        let enough = self.world.gangs.get(id).is_enough_of(&tally);
        for (member, node) in held {
            if !enough {
                self.drop_reservation(member);
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

    /// Whether a gang's own ceilings, or a queue that is closed or not there, keep its minimum out: then room that is
    /// kept for it serves nobody.
    fn is_gang_kept_out(&self, id: GangId, members: &[PodId]) -> bool {
        let mut tally = self.world.gangs.get(id).tally.clone();
        let mut needed: Vec<PodId> = Vec::new();
        for member in members {
            if self.is_needed(id, *member, &tally) {
                tally.count(self.world.pods.get(*member), &[], Sign::Add);
                needed.push(*member);
            }
        }
        needed.iter().any(|member| self.world.membership_error(*member).is_some())
            || self.world.is_refused_together(&needed)
    }
}
