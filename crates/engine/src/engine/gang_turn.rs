//! The turn of a gang: enough of its pods are placed together, or none; where there is no room, pods go for all of
//! them, or for none.

use std::sync::Arc;

use crate::cards::{Attempt, CardChoices};
use crate::decision::Decisions;
use crate::engine::Engine;
use crate::engine::cycle::Turn;
use crate::explain;
use crate::fact::Counting;
use crate::gangs::{Gang, GangId, GangTally};
use crate::nodes::NodeId;
use crate::place::{Answer, ClosedCounts, Question};
use crate::pods::{Place, PodId};
use crate::policy::Refusal;
use crate::preempt::{Outcome, Plan};
use crate::queue::GroupId;
use crate::reason::{Code, Reason};
use crate::relations::Effects;
use crate::reservations::{Reservation, ReservationKind};
use crate::resources::ResourceId;
use crate::sign::Sign;

/// What keeps a pod from being placed.
#[derive(Default)]
pub(super) struct Unplaced {
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
        if !engine.world.may_depend_on_company(pod.shape) {
            self.0.extend(pod.group);
        }
    }

    fn is_alike(&self, pod: PodId, engine: &Engine) -> bool {
        engine.world.pods.get(pod).group.is_some_and(|group| self.0.contains(&group))
    }
}

impl Engine {
    /// Whether a pod can only be placed together with others.
    pub(super) fn unstarted_gang(&self, id: PodId) -> Option<GangId> {
        let gang = self.world.pods.get(id).gang.filter(|gang| !self.world.gangs.is_unserved(*gang))?;
        let known = self.world.gangs.get(gang);
        let waits = known.is_unreadable() || !known.admitted;
        (waits || !known.is_released() || self.disagreement(gang).is_some()).then_some(gang)
    }

    /// The turn of a gang whose minimum does not run.
    pub(super) fn take_gang_turn(&mut self, id: GangId, decisions: &mut Decisions) -> Turn {
        let members = self.waiting_members(id);
        if let Some(reason) = self.why_unreadable(id) {
            let is_any = self.give_up_reservations(&members, decisions);
            return if is_any { Turn::Dropped } else { Turn::Rests(reason, Vec::new()) };
        }
        if !self.world.gangs.get(id).admitted {
            // A closed or missing queue keeps none.
            let is_kept_out = members.iter().any(|member| self.world.membership_error(*member).is_some());
            if is_kept_out && self.give_up_reservations(&members, decisions) {
                return Turn::Dropped;
            }
            let gang = self.world.gangs.get(id);
            let reason = gang.reason.as_deref().cloned();
            let message = format!("the group {} is not let into its queue yet", gang.key);
            let reason = reason.unwrap_or_else(|| explain::plain(Code::GangIncomplete, message, Vec::new()));
            return Turn::Rests(reason, Vec::new());
        }
        self.take_in_all_quotas();
        for member in &members {
            self.note_awaited(*member);
        }
        // A gang waits for all its victims.
        if members.iter().any(|member| self.world.pods.get(*member).awaits_victims) {
            members.iter().for_each(|member| self.world.pods.get_mut(*member).awaits_victims = true);
        }
        for member in &members {
            self.count_reservation(*member, Sign::Take);
        }
        let turn = self.take_gang_turn_unreserved(id, &members, decisions);
        match &turn {
            Turn::Rests(reason, _) | Turn::AwaitsVictims(reason, _) => {
                let waiting = members.iter().filter(|member| self.world.pods.get(**member).place == Place::Waiting);
                for member in waiting.copied().collect::<Vec<_>>() {
                    self.count_reservation(member, Sign::Add);
                    if self.world.may_depend_on_company(self.world.pods.get(member).shape) {
                        let question = self.world.question(member);
                        self.wait_for_company(member, &question);
                    }
                }
                self.world.gangs.get_mut(id).reason = Some(Arc::new(reason.clone()));
            }
            _ => self.world.gangs.get_mut(id).reason = None,
        }
        turn
    }

    /// Gives up what is reserved for these pods. Returns whether anything was.
    fn give_up_reservations(&mut self, members: &[PodId], decisions: &mut Decisions) -> bool {
        let holders = self.holders_among(members);
        for holder in &holders {
            self.note_given_up(*holder);
            self.give_up_reservation(*holder, decisions);
        }
        !holders.is_empty()
    }

    /// The members that could be placed, the more important and the older first.
    pub(super) fn waiting_members(&self, id: GangId) -> Vec<PodId> {
        let members = self.world.gangs.get(id).members.iter().copied();
        let mut members: Vec<PodId> = members.filter(|member| self.world.pods.get(*member).is_candidate()).collect();
        members.sort_by_cached_key(|member| {
            let pod = self.world.pods.get(*member);
            (std::cmp::Reverse(pod.own_priority), pod.created, pod.key())
        });
        members
    }

    fn take_gang_turn_unreserved(&mut self, id: GangId, members: &[PodId], decisions: &mut Decisions) -> Turn {
        let world = &self.world;
        let gang = world.gangs.get(id);
        let mut tally = gang.tally.clone();
        members.iter().for_each(|member| tally.count(world.pods.get(*member), &[], Sign::Add));
        if !gang.is_enough_of(&tally) {
            let count = gang.counted(&tally);
            let message =
                format!("{count} of the {} pods that the group {} needs are there", gang.min_member(), gang.key);
            let remedies = vec!["make the missing pods".to_owned()];
            let reason = explain::plain(Code::GangIncomplete, message, remedies);
            // Once its victims are gone, room that is kept for it would serve nobody.
            let awaits_victims = members.iter().any(|member| self.world.pods.get(*member).awaits_victims);
            let dropped = if awaits_victims { None } else { self.drop_reservations_of(members, decisions) };
            return dropped.unwrap_or_else(|| Turn::Rests(reason, Vec::new()));
        }
        if let Some((code, why)) = self.gang_membership_error(id, members) {
            let dropped = self.drop_reservations_of(members, decisions);
            return dropped.unwrap_or_else(|| Turn::Rests(explain::membership_error(code, why), Vec::new()));
        }
        let choices = self.card_choices(id, members);
        let failure = match self.room_for_gang(id, members, &choices) {
            Ok(places) => return self.bind_gang(members, places, decisions),
            Err(failure) => failure,
        };
        let failure = self.refused_together(id, members).map(Arc::new).or(failure);
        let placeable = self.world.gangs.get(id).min_member();
        let incomplete = self.incomplete(id, failure, placeable);
        if let Some(turn) = self.await_gang_victims(id, members, decisions) {
            return turn;
        }
        if members.iter().any(|member| self.world.pods.get(*member).never_preempts)
            || self.hopeless_gangs.get(&id) == Some(&self.changes)
            || members.first().is_some_and(|first| self.misled.contains(first))
            || incomplete.lacks_room() && self.await_nodes(members)
        {
            return Turn::Rests(incomplete, Vec::new());
        }
        let mut best: Option<Box<Plan>> = None;
        let ways = self.device_ways(members);
        let kinds = self.kinds_for_claims(id, choices, members);
        for (kinds, way) in kinds.iter().flat_map(|kinds| (0..ways).map(move |way| (kinds, way))) {
            match self.plan_gang(id, members, kinds, way) {
                Outcome::Plan(plan) if best.as_ref().is_none_or(|best| plan.cost < best.cost) => best = Some(plan),
                Outcome::Plan(_) | Outcome::Hopeless => {}
                Outcome::Wait(places) => return self.wait_together(members, &places, incomplete, decisions),
            }
        }
        if let Some(plan) = best {
            if self.counts_on_unseen(&plan) {
                return Turn::Rests(incomplete, Vec::new());
            }
            self.leave_out(members, &plan.places, decisions);
            self.carry_out(*plan, decisions);
            return Turn::Reserved;
        }
        self.hopeless_gangs.insert(id, self.changes);
        Turn::Rests(incomplete, Vec::new())
    }

    /// Nodes for enough pods of a gang, if there are any as things stand. The error is why the first that has none has
    /// none.
    fn room_for_gang(
        &mut self,
        id: GangId,
        members: &[PodId],
        choices: &[Option<ResourceId>],
    ) -> Result<Vec<(PodId, NodeId)>, Option<Arc<Reason>>> {
        let mut failure = None;
        let passes: &[bool] = if choices.len() > 1 { &[true, false] } else { &[false] };
        for whole in passes {
            for choice in choices {
                match self.try_gang(id, members, *choice, *whole) {
                    Ok(places) => return Ok(places),
                    Err(reason) => failure = failure.or(reason),
                }
            }
        }
        let is_hopeless = self.hopeless_gangs.get(&id) == Some(&self.changes);
        let mixed = if is_hopeless || choices.len() > 1 { None } else { self.places_for_mixed(id, members) };
        mixed.ok_or(failure)
    }

    /// What quotas have against all that a gang needs together, which is what it is told: while one pod after the other
    /// is tried, those before count as if they ran.
    fn refused_together(&self, id: GangId, members: &[PodId]) -> Option<Reason> {
        let names_cards =
            |member: &PodId| self.world.shapes.get(self.world.pods.get(*member).shape).spec().cards.len() > 1;
        if members.iter().any(names_cards) {
            return None; // Which cards they would be charged for is decided kind by kind.
        }
        let refusal = self.world.refusal_together(&self.needed_of(id, members))?;
        Some(self.world.refused(&refusal))
    }

    /// Of these members those that a gang needs beside what runs.
    pub(super) fn needed_of(&self, id: GangId, members: &[PodId]) -> Vec<PodId> {
        let mut tally = self.world.gangs.get(id).tally.clone();
        let mut needed: Vec<PodId> = Vec::new();
        for member in members {
            if self.is_needed(id, *member, &tally) {
                tally.count(self.world.pods.get(*member), &[], Sign::Add);
                needed.push(*member);
            }
        }
        needed
    }

    /// The first cycle completes the gangs of which some pods are on nodes and too few to start, before anybody takes
    /// the room that the others are to have: an earlier scheduler may have been cut off between two of their binds.
    pub(super) fn complete_gangs(&mut self, decisions: &mut Decisions) {
        let is_begun = |(_, gang): &(GangId, &Gang)| {
            let counts_running = gang.counting() != Counting::WaitingOnly;
            gang.is_gang() && !gang.is_started() && gang.tally.len() > 0 && counts_running
        };
        let begun: Vec<GangId> = self.world.gangs.iter().filter(is_begun).map(|(id, _)| id).collect();
        for id in begun {
            let members = self.waiting_members(id);
            let is_kept_out = members.iter().any(|member| self.world.membership_error(*member).is_some());
            if !self.world.gangs.get(id).admitted || self.why_unreadable(id).is_some() || is_kept_out {
                continue;
            }
            self.take_in_all_quotas();
            members.iter().for_each(|member| self.count_reservation(*member, Sign::Take));
            let choices = self.card_choices(id, &members);
            match self.room_for_gang(id, &members, &choices) {
                Ok(places) => _ = self.bind_gang(&members, places, decisions),
                Err(_) => members.iter().for_each(|member| self.count_reservation(*member, Sign::Add)),
            }
        }
    }

    /// Binds pods of a gang. Those that do not start with the others keep what is reserved for them.
    fn bind_gang(&mut self, members: &[PodId], places: Vec<(PodId, NodeId)>, decisions: &mut Decisions) -> Turn {
        for member in members.iter().filter(|member| !places.iter().any(|(placed, _)| placed == *member)) {
            self.count_reservation(*member, Sign::Add);
        }
        for (member, node) in places {
            self.bind(member, node, decisions);
        }
        Turn::Placed
    }

    /// Where pods leave for the gang it waits for them; a reservation that came to nothing is given up.
    fn await_gang_victims(&mut self, id: GangId, members: &[PodId], decisions: &mut Decisions) -> Option<Turn> {
        let reservations: Vec<(PodId, Reservation)> =
            members.iter().filter_map(|member| Some((*member, self.world.pods.get(*member).reservation?))).collect();
        let (_, first) = reservations.first()?;
        let mut victims = Vec::new();
        for member in members {
            victims.extend(self.victims_still_leaving(self.world.pods.get(*member)));
        }
        victims.sort();
        if !victims.is_empty() {
            return Some(Turn::AwaitsVictims(self.awaiting(reservations[0].0, &victims, first.node), Vec::new()));
        }
        let places: Vec<(PodId, NodeId)> =
            reservations.iter().map(|(member, reservation)| (*member, reservation.node)).collect();
        // Its pods find their places one by one, and may take each other's; as they were planned all have one.
        if self.is_enough_with(id, &places) && self.world.takes_all(&places, &CardChoices::default()) {
            return Some(self.bind_gang(members, places, decisions));
        }
        let is_patient = reservations.iter().all(|(_, reservation)| reservation.kind == ReservationKind::Patience);
        let leaving = self.world.leaving_pods();
        if !leaving.is_empty() {
            let lifted = self.world.lift(&leaving);
            // Room elsewhere that it holds out of patience only is not its own yet, which it is to become below.
            let fits = self.world.takes_all(&places, &CardChoices::default())
                || !is_patient && self.try_gang(id, members, None, false).is_ok();
            self.world.put_back(lifted);
            if fits {
                self.counts_on_leaving = true;
                let others = self.leaving_near(first.node);
                return Some(Turn::Rests(self.awaiting(reservations[0].0, &others, first.node), Vec::new()));
            }
        }
        if is_patient && self.are_worth_keeping(id, members, &places) {
            return None;
        }
        self.drop_reservations_of(members, decisions)
    }

    /// The members for whom something is reserved.
    fn holders_among(&self, members: &[PodId]) -> Vec<PodId> {
        let has_reservation = |member: &&PodId| self.world.pods.get(**member).reservation.is_some();
        members.iter().filter(has_reservation).copied().collect()
    }

    /// Drops what is reserved for members and does not count at the moment, if anything is.
    fn drop_reservations_of(&mut self, members: &[PodId], decisions: &mut Decisions) -> Option<Turn> {
        let holders = self.holders_among(members);
        // All are put back for the moment it takes to drop them in order.
        for holder in &holders {
            self.count_reservation(*holder, Sign::Add);
        }
        for holder in &holders {
            self.note_given_up(*holder);
            self.give_up_reservation(*holder, decisions);
        }
        (!holders.is_empty()).then_some(Turn::Dropped)
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
            if failed.is_alike(*member, self) || !whole && !self.is_needed(id, *member, &gang.tally) {
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
    pub(super) fn is_needed(&self, id: GangId, member: PodId, tally: &GangTally) -> bool {
        self.world.gangs.get(id).needs(self.world.pods.get(member).role.as_ref(), tally)
    }

    /// The node that takes a pod as things stand, its own reservation first.
    pub(super) fn find_place(&mut self, id: PodId, card: Option<ResourceId>) -> Result<NodeId, Box<Unplaced>> {
        let mut unplaced = Unplaced::default();
        for choice in self.card_choices_with(id, card) {
            let attempt = Attempt { pod: id, choice: choice.as_ref() };
            let question = self.world.question(attempt);
            let mut refusals = self.world.refusals(attempt);
            if refusals.is_empty() {
                let reservation = self.world.pods.get(id).reservation;
                let node = match reservation.filter(|_| self.world.takes_claimant(id, &question)) {
                    Some(reservation) => Answer::Node(reservation.node),
                    None => self.world.answer(&question),
                };
                match node {
                    Answer::Node(node) => return Ok(node),
                    // The last choice of those that quotas allow is what there is to say.
                    Answer::Nowhere(closed) => unplaced.nowhere = Some((question, closed)),
                }
            } else if unplaced.refused.is_none() {
                unplaced.refused = Some(refusals.swap_remove(0));
            }
        }
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

    /// What is said of a gang that cannot start: what keeps its first pod without a place out, if a quota does, and
    /// that the others wait for it.
    fn incomplete(&self, id: GangId, failure: Option<Arc<Reason>>, min_member: u32) -> Reason {
        let gang = self.world.gangs.get(id);
        let shown = &gang.key;
        let running = gang.tally.len();
        let why = failure.as_ref().map_or(String::new(), |reason| format!(": {}", reason.message));
        let message =
            format!("the group {shown} needs {min_member} pods at once, {running} run, and there is no room{why}");
        let remedies = failure.as_ref().map(|reason| reason.remedies.clone()).unwrap_or_default();
        let incomplete = explain::plain(Code::GangIncomplete, message, remedies);
        explain::first_of(failure.as_deref().cloned().into_iter().chain([incomplete]).collect())
    }

    /// Members that have no part in a plan give up what is kept for them.
    fn leave_out(&mut self, members: &[PodId], places: &[(PodId, NodeId)], decisions: &mut Decisions) {
        for member in members.iter().filter(|member| !places.iter().any(|(pod, _)| pod == *member)) {
            if self.world.pods.get(*member).reservation.is_some() {
                self.count_reservation(*member, Sign::Add);
                self.give_up_reservation(*member, decisions);
            }
        }
    }

    /// There is room for a gang, now or when those who leave are gone, if its pods are placed with regard to each
    /// other.
    fn wait_together(
        &mut self,
        members: &[PodId],
        places: &[(PodId, NodeId)],
        incomplete: Reason,
        decisions: &mut Decisions,
    ) -> Turn {
        if self.world.leaving_pods().is_empty() {
            if !self.world.takes_all(places, &CardChoices::default()) {
                return Turn::Rests(incomplete, Vec::new());
            }
            return self.bind_gang(members, places.to_vec(), decisions);
        }
        self.counts_on_leaving = true;
        // What is on its way to it is its own from now on; what it held out of patience it needs no more.
        self.leave_out(members, places, decisions);
        self.hold_room(places, decisions);
        Turn::Reserved
    }

    /// Whether enough of a gang runs once these do.
    fn is_enough_with(&self, id: GangId, places: &[(PodId, NodeId)]) -> bool {
        let gang = self.world.gangs.get(id);
        let mut tally = gang.tally.clone();
        places.iter().for_each(|(pod, _)| tally.count(self.world.pods.get(*pod), &[], Sign::Add));
        gang.is_enough_of(&tally)
    }
}
