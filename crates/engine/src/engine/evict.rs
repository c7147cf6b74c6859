//! Carrying out a plan, for a pod and for a gang alike: reservations are taken over, nodes are held, victims go.

use std::sync::Arc;

use crate::cards::CardChoices;
use crate::decision::{Decision, Decisions};
use crate::engine::Engine;
use crate::engine::cycle::Turn;
use crate::engine::wake::Change;
use crate::fact::{Name, PodKey};
use crate::nodes::NodeId;
use crate::pods::{Place, PodId};
use crate::preempt::Plan;
use crate::queue::GroupId;
use crate::reason::eviction::EvictionReason;
use crate::relations::Effects;
use crate::reservations::{Reservation, ReservationKind};
use crate::sign::Sign;

/// Why a pod goes.
pub(super) struct Eviction {
    /// Who gets what it held, by name and uid; nobody if the eviction is voluntary.
    pub claimant: Option<(PodKey, Name)>,
    pub violates_budget: bool,
    pub reason: Arc<EvictionReason>,
}

impl Engine {
    /// Carries out a plan: the claimant's pods hold their nodes, the victims go.
    pub(super) fn carry_out(&mut self, plan: Plan, decisions: &mut Decisions) {
        let entitled_after = self.world.entitled_after(&plan);
        let mut evictions: Vec<(PodId, Eviction)> = Vec::new();
        for goes in plan.going.iter().filter(|goes| !goes.is_reservation) {
            for victim in &goes.pods {
                let claimant = self.claimant_of(&plan, *victim);
                let reason = Arc::new(self.world.evicted(goes, claimant, *victim, &plan, &entitled_after));
                let known = self.world.pods.get(claimant);
                let claimant = Some((known.key(), known.uid.clone()));
                let violates_budget = plan.violating.contains(victim);
                evictions.push((*victim, Eviction { claimant, violates_budget, reason }));
            }
        }
        evictions.sort_by_cached_key(|(victim, _)| self.world.pods.get(*victim).key());
        let claimants = self.world.classes(plan.places.iter().map(|(pod, _)| pod));
        let victims = self.world.victims(&plan.going);
        self.world.takings.note(&claimants, &victims);
        let holders = plan.going.iter().filter(|goes| goes.is_reservation).flat_map(|goes| &goes.pods);
        // Who takes over room that is on its way, and evicts nobody, holds what the holder did.
        // Of a reservation that was read after a restart it shows by its victims what it is for, or by its gang's.
        let is_room = |holder: &PodId| {
            let pod = self.world.pods.get(*holder);
            let members = pod.gang.map(|gang| &self.world.gangs.get(gang).members);
            let mut together = members.into_iter().flatten().chain([holder]);
            pod.reservation.is_some_and(|held| held.kind == ReservationKind::Room)
                && together.all(|member| self.victims_still_leaving(self.world.pods.get(*member)).is_empty())
        };
        let kind = match evictions.is_empty() && holders.clone().all(is_room) {
            true => ReservationKind::Room,
            false => ReservationKind::Preemption,
        };
        for holder in holders {
            self.give_up_reservation(*holder, decisions);
        }
        for (pod, _) in &plan.places {
            let granted = self.world.grant(plan.choices.attempt(*pod));
            self.world.pods.get_mut(*pod).granted = granted;
        }
        let mut effects = Effects::default();
        self.hold_places(&plan.places, kind, decisions);
        for (victim, eviction) in evictions {
            self.evict(victim, eviction, &mut effects, decisions);
        }
        self.keep_devices(&plan.places, &plan.choices);
        self.reserved_now.extend(plan.places.iter().map(|(pod, _)| (*pod, self.acts)));
        // What leaves now may be all that kept another pod from claiming. Those for whom pods leave already have a
        // reservation, and another's only takes room from them.
        self.note(Change::Preempted);
        for (pod, _) in &plan.places {
            self.enqueue(*pod);
        }
        self.wake(effects);
    }

    /// Whether a plan counts on what is not seen yet; the claimant waits until it is.
    ///
    /// A victim that was only decided to be where it is cannot be evicted yet, and to evict a dearer one instead would
    /// be wrong. Where a reservation is taken over whose evictions are not seen under way, they would be called off
    /// with it, and there would be no room.
    pub(super) fn counts_on_unseen(&mut self, plan: &Plan) -> bool {
        let mut victims = plan.going.iter().filter(|goes| !goes.is_reservation).flat_map(|goes| &goes.pods);
        if victims.any(|victim| matches!(self.world.pods.get(*victim).place, Place::Assumed(_))) {
            self.awaits_assumed = true;
            return true;
        }
        let holders = plan.going.iter().filter(|goes| goes.is_reservation).flat_map(|goes| &goes.pods);
        let counts_on = |holder: &&PodId| {
            let holder = self.world.pods.get(**holder);
            let victims = self.leaving_for.get(&holder.key()).into_iter().flatten();
            let mut victims = victims.map(|victim| self.world.pods.get(*victim));
            victims.any(|victim| victim.departure.is_unseen_for(&holder.uid))
        };
        let unseen: Vec<PodId> = holders.filter(counts_on).copied().collect();
        self.contested.extend(unseen.iter().map(|holder| (*holder, plan.places[0].0)));
        !unseen.is_empty()
    }

    /// Whose turn it is instead of a pod's whose reservation it is about to take over. Victims may be gone as soon as
    /// they are seen to go: the holder's turn may come first then, and it would be bound to be evicted.
    pub(super) fn contestant(&mut self, holder: PodId) -> Option<(GroupId, PodId)> {
        let other = *self.contested.get(&holder)?;
        let group = self.world.pods.get(other).group.filter(|group| self.queue.is_awake(*group))?;
        self.contested.remove(&holder);
        Some((group, other))
    }

    /// The pod of the claimant's for which a victim goes: the first on its node, or the first of all.
    fn claimant_of(&self, plan: &Plan, victim: PodId) -> PodId {
        let node = self.world.pods.get(victim).node();
        let near = plan.places.iter().find(|(_, place)| Some(*place) == node);
        near.map_or(plan.places[0].0, |(pod, _)| *pod)
    }

    /// Holds room that is on its way for pods that wait for it.
    pub(super) fn hold_room(&mut self, places: &[(PodId, NodeId)], decisions: &mut Decisions) {
        self.hold_places(places, ReservationKind::Room, decisions);
        self.keep_devices(places, &CardChoices::default());
        self.reserved_now.extend(places.iter().map(|(pod, _)| (*pod, self.acts)));
        self.changes += 1;
        for (pod, _) in places {
            self.enqueue(*pod);
        }
    }

    /// A cycle begins.
    pub(super) fn forget_reserved_now(&mut self) {
        self.reserved_now.clear();
        self.misled.clear();
        self.acts = 0;
        self.lent_in_cycle = 0;
    }

    /// A pod gives up its reservation, which came to nothing.
    ///
    /// Why reservations come to rest within a cycle: a plan holds as long as no pod is bound or evicted, which happens
    /// so often only; no reservation takes from another, but for one of a pod outside all trees, which leaves them less
    /// to share, and whose own plan does not depend on what they share. So what is given up was taken over, each time
    /// by a class that comes earlier in the order of `preempt::loops`. A plan that does not hold is a fault: such a pod
    /// makes no more plans in the cycle, and no node is held for it out of patience.
    pub(super) fn note_given_up(&mut self, pod: PodId) {
        let is_misled = self.reserved_now.get(&pod) == Some(&self.acts);
        debug_assert!(!is_misled, "{}: its plan came to nothing", self.world.pods.get(pod).key());
        if is_misled {
            self.misled.insert(pod);
        }
    }

    /// Drops a reservation that does not count at the moment.
    pub(super) fn drop_turn(&mut self, id: PodId, decisions: &mut Decisions) -> Turn {
        // It is put back for the moment it takes to drop it in order.
        self.count_reservation(id, Sign::Add);
        self.note_given_up(id);
        self.give_up_reservation(id, decisions);
        Turn::Dropped
    }

    /// Keeps devices for pods that hold nodes: what pods have that leave, those evicted for them among these, and what
    /// is free.
    fn keep_devices(&mut self, places: &[(PodId, NodeId)], choices: &CardChoices) {
        for (pod, node) in places {
            let way = choices.attempt(*pod).choice.and_then(|choice| choice.devices.as_ref());
            self.world.keep_devices(*pod, *node, way);
        }
    }

    /// Lets pods whose own reservations do not count at the moment hold nodes; devices are kept for them later. They
    /// are not queued after it.
    fn hold_places(&mut self, places: &[(PodId, NodeId)], kind: ReservationKind, decisions: &mut Decisions) {
        for (pod, node) in places {
            self.dequeue(*pod);
            self.claimants.remove(pod);
            self.take_reservation_before_devices(*pod, Reservation { node: *node, kind });
            self.note_moved_pools(*pod);
            self.note_reserved(*pod);
            let (pod, node) = (self.world.pods.get(*pod), self.world.nodes.get(*node).name.clone());
            decisions.list.push(Decision::Nominate { pod: pod.key(), uid: pod.uid.clone(), node: Some(node) });
        }
    }

    /// Something is reserved for a pod: where that leaves less for others, their plans may not hold.
    pub(super) fn note_reserved(&mut self, pod: PodId) {
        self.acts += u64::from(self.world.quotas.takes_from_trees(&self.world.pods.get(pod).quotas));
    }

    /// Evicts a pod: the only place where that is decided.
    pub(super) fn evict(
        &mut self,
        victim: PodId,
        eviction: Eviction,
        effects: &mut Effects,
        decisions: &mut Decisions,
    ) {
        let Eviction { claimant, violates_budget, reason } = eviction;
        self.acts += 1;
        let pod = self.world.pods.get(victim);
        let (key, uid) = (pod.key(), pod.uid.clone());
        let node = pod.node().map(|node| self.world.nodes.get(node).name.clone());
        decisions.list.push(Decision::Evict {
            pod: key.clone(),
            uid: uid.clone(),
            node: node.expect("only pods on nodes are evicted"),
            claimant: claimant.as_ref().map(|(key, _)| key.clone()),
            violates_budget,
            reason,
        });
        self.world.expect_back(victim);
        // One that leaves for nobody leaves for itself, as it were: nobody else has its uid.
        let claimant = claimant.unwrap_or((key, uid));
        self.world.change_leaving(victim, effects, |pod| pod.departure.decide(claimant));
        self.note_leaving_for(victim, Sign::Add);
        self.world.budgets.eviction_decided(victim);
    }
}
