//! Letting groups into their queues: a group whose minimum its queue has room for may have its pods made, and what it
//! needs is held for it until they run.

use std::sync::Arc;

use crate::decision::{Decision, Decisions};
use crate::engine::Engine;
use crate::engine::wake::Change;
use crate::explain;
use crate::fact::{Amount, GroupFact, GroupKey, RequestProblem};
use crate::gangs::GangId;
use crate::pods::{Place, PodId};
use crate::policy::QuotaId;
use crate::reason::{Code, Reason};
use crate::resources::{CPU_ID, MEMORY_ID, ResourceId};
use crate::sign::Sign;
use crate::world::World;

impl Engine {
    /// Takes in a group. Returns whether the fact says something new.
    pub(super) fn observe_group(&mut self, mut fact: GroupFact) -> bool {
        self.bound_cards(&mut fact);
        let id = self.world.gangs.number(&fact.key());
        let gang = self.world.gangs.get_mut(id);
        if gang.declared.as_ref() == Some(&fact) {
            return false;
        }
        gang.declared = Some(fact.clone());
        let named_by = gang.named_by.clone();
        if named_by.iter().any(|pod| self.world.pods.get(*pod).group_terms.is_some()) {
            self.world.gangs.note_unsettled(id);
        }
        self.set_group_fact(id, fact);
        true
    }

    /// Lets this hold of a group.
    pub(super) fn set_group_fact(&mut self, id: GangId, fact: GroupFact) {
        let gang = self.world.gangs.get(id);
        if gang.fact.as_ref() == Some(&fact) {
            return;
        }
        let old_partners = gang.fact.as_ref().map_or_else(Vec::new, |fact| fact.partners.clone());
        let key = gang.key.clone();
        self.world.gangs.note_partners(&key, &old_partners, &fact.partners);
        let gang = self.world.gangs.get_mut(id);
        let queue_changed = gang.fact.as_ref().is_none_or(|old| old.queue != fact.queue);
        gang.admitted |= fact.admitted;
        let admitted = gang.admitted;
        gang.fact = Some(fact);
        if !admitted {
            self.world.gangs.set_outside(id, true);
        }
        self.world.gangs.note_changed(id);
        let members: Vec<PodId> = self.world.gangs.get(id).members.iter().copied().collect();
        self.prioritize_pods(&members);
        if queue_changed {
            self.reassign_pods(members);
        }
    }

    /// Why a group says nothing that could be acted on: it does not exist, or its pods or fields contradict each other.
    pub(super) fn why_unreadable(&mut self, id: GangId) -> Option<Reason> {
        let gang = self.world.gangs.get(id);
        let Some(fact) = &gang.fact else {
            let shown = &gang.key;
            let remedies = vec![format!("create the group {shown}, or take its name off the pod")];
            let message = format!("the group {shown} does not exist");
            return Some(explain::plain(Code::GangIncomplete, message, remedies));
        };
        if let Some(partner) = gang.missing_partner.clone() {
            let message = format!("the group {} starts together with {partner}, which does not exist", gang.key);
            let reason = explain::plain(Code::GangIncomplete, message, vec![format!("create the group {partner}")]);
            self.world.gangs.get_mut(id).reason = Some(Arc::new(reason.clone()));
            return Some(reason);
        }
        let problem = fact.problem.clone().or_else(|| gang.at_odds.clone()).or_else(|| self.disagreement(id))?;
        let reason = explain::invalid(&problem);
        self.world.gangs.get_mut(id).reason = Some(Arc::new(reason.clone()));
        Some(reason)
    }

    /// What the pending pods of a group do not have in common, where they must.
    pub(super) fn disagreement(&self, id: GangId) -> Option<RequestProblem> {
        let gang = self.world.gangs.get(id);
        let priority = gang.fact.as_ref()?.priority?;
        let pending = || {
            let members = gang.members.iter().map(|member| self.world.pods.get(*member));
            members.filter(|pod| pod.place == Place::Waiting && !pod.is_leaving())
        };
        let problem =
            |field: &str, message: String| Some(RequestProblem { field: field.into(), message: message.into() });
        if let Some(other) = pending().find(|pod| pod.priority != priority) {
            let (pod, has, shown) = (other.key(), other.priority, &gang.key);
            let message =
                format!("pod {pod} has priority {has}, its PodGroup {shown} has {priority}: expected the same");
            return problem("spec.priority", message);
        }
        let first = pending().next()?;
        if let Some(other) = pending().find(|pod| pod.never_preempts != first.never_preempts) {
            let (a, b) = (first.key(), other.key());
            let message = format!("pods {a} and {b} of PodGroup {} differ: expected one policy for all", gang.key);
            return problem("spec.preemptionPolicy", message);
        }
        let other = pending().find(|pod| pod.ours != first.ours)?;
        let (a, b) = (first.key(), other.key());
        let message = format!("pods {a} and {b} of PodGroup {} differ: expected one scheduler for all", gang.key);
        problem("spec.schedulerName", message)
    }

    pub(super) fn group_gone(&mut self, key: &GroupKey) -> bool {
        let Some(id) = self.world.gangs.find(key) else { return false };
        self.world.gangs.get_mut(id).declared = None;
        self.drop_group_fact(id);
        true
    }

    /// Nothing is known of a group any more but who names it.
    pub(super) fn drop_group_fact(&mut self, id: GangId) {
        let gang = self.world.gangs.get(id);
        let key = gang.key.clone();
        let partners = gang.fact.as_ref().map_or_else(Vec::new, |fact| fact.partners.clone());
        let named_by = gang.named_by.clone();
        self.world.gangs.note_partners(&key, &partners, &[]);
        if named_by.iter().any(|pod| self.world.pods.get(*pod).group_terms.is_some()) {
            self.world.gangs.note_unsettled(id);
        }
        let gang = self.world.gangs.get_mut(id);
        gang.fact = None;
        gang.has_started = false;
        gang.admitted = false;
        gang.reason = None;
        gang.cards = Vec::new();
        let members: Vec<PodId> = gang.members.iter().copied().collect();
        self.world.gangs.set_outside(id, false);
        self.prioritize_pods(&members);
        self.reassign_pods(members);
        self.settle_gang(id);
        self.world.gangs.forget_if_empty(id);
    }

    /// Brings what queues hold for gangs up to date.
    pub(super) fn settle_gangs(&mut self) {
        for id in self.world.gangs.take_changed() {
            if self.world.gangs.is_listed(id) {
                self.settle_gang(id);
                self.world.gangs.forget_if_empty(id);
            }
        }
    }

    fn settle_gang(&mut self, id: GangId) {
        self.recall_cards(id);
        if self.world.gangs.get(id).fact.is_some() && self.world.gangs.get(id).is_started() {
            self.world.gangs.get_mut(id).has_started = true;
        }
        let (queue, reserved, elastic) = self.reserved_for_gang(id);
        let gang = self.world.gangs.get(id);
        if (gang.queue, &gang.reserved, &gang.elastic) == (queue, &reserved, &elastic) {
            return;
        }
        let (old_queue, old_reserved, old_elastic) = (gang.queue, gang.reserved.clone(), gang.elastic.clone());
        self.world.quotas.count_gang(old_queue, &old_reserved, &old_elastic, Sign::Take);
        self.world.quotas.count_gang(queue, &reserved, &elastic, Sign::Add);
        let gang = self.world.gangs.get_mut(id);
        (gang.queue, gang.reserved, gang.elastic) = (queue, reserved, elastic);
        self.admission_due = true;
    }

    /// The cards that a group was let in with, where only its object says that it was: those that its pods hold, or
    /// else those that it would be let in with now. One that asks for none any more has none.
    fn recall_cards(&mut self, id: GangId) {
        let gang = self.world.gangs.get(id);
        let Some(fact) = gang.fact.clone().filter(|_| gang.admitted) else { return };
        if fact.card_request.is_empty() || gang.cards.is_empty() {
            let (held, _) = self.world.gangs.card_of(Some(id), &self.world.pods);
            let queue = self.queue_of_gang(id);
            let mut cards = Vec::new();
            for (kinds, amount) in &fact.card_request {
                let kinds: Vec<ResourceId> = kinds.iter().map(|name| self.world.names.pin(name)).collect();
                kinds.iter().for_each(|kind| self.world.quotas.note_card(*kind));
                let has_room =
                    |kind: &&ResourceId| queue.is_none_or(|queue| self.has_room(queue, (**kind, *amount)).is_ok());
                let kept = kinds.iter().find(|kind| held == Some(**kind)).or_else(|| kinds.iter().find(has_room));
                cards.extend(kept.or(kinds.first()).map(|kind| (*kind, *amount)));
            }
            self.world.gangs.get_mut(id).cards = cards;
        }
    }

    /// A gang's queue, what is held for it there, and what its pods hold beyond what it takes to start.
    #[allow(clippy::type_complexity, reason = "two lists of amounts")]
    fn reserved_for_gang(
        &mut self,
        id: GangId,
    ) -> (Option<QuotaId>, Vec<(ResourceId, Amount)>, Vec<(ResourceId, Amount)>) {
        let queue = self.queue_of_gang(id);
        let least = self.min_resources(id);
        let world = &self.world;
        let gang = world.gangs.get(id);
        if gang.fact.is_none() || !gang.admitted {
            return (None, Vec::new(), Vec::new());
        }
        let rest = |(resource, amount): &(ResourceId, Amount), sign: i128| {
            let rest = (i128::from(*amount) - gang.tally.held(*resource)) * sign;
            (*resource, Amount::try_from(rest.max(0)).unwrap_or(Amount::MAX))
        };
        // Nothing is kept for pods that may not be scheduled yet.
        let gated: Vec<(ResourceId, Amount)> = gang
            .members
            .iter()
            .filter(|member| !world.pods.get(**member).gates.is_empty())
            .flat_map(|member| world.charge_of(*member).to_vec())
            .collect();
        let ungated = |(resource, amount): (ResourceId, Amount)| {
            let of_gated = gated.iter().filter(|(r, _)| *r == resource).map(|(_, amount)| *amount);
            (resource, of_gated.fold(amount, |left, gated| left.saturating_sub(gated).max(0)))
        };
        let some = |amounts: Vec<(ResourceId, Amount)>| amounts.into_iter().filter(|(_, a)| *a > 0).collect();
        // From its start on, what it names beyond its minimum is kept for the pods yet to come. Where fewer than
        // its minimum run since others are done, none comes in their place.
        let declared = gang.fact.as_ref().map_or(0, |fact| fact.min_member);
        let reserved = match gang.is_started() {
            true if gang.tally.len() < declared => Vec::new(),
            true => least.iter().map(|amount| ungated(rest(amount, 1))).collect(),
            false => least.iter().chain(&gang.cards).map(|amount| ungated(rest(amount, 1))).collect(),
        };
        let elastic = least.iter().map(|amount| rest(amount, -1)).collect();
        (queue, some(reserved), some(elastic))
    }

    fn min_resources(&mut self, id: GangId) -> Vec<(ResourceId, Amount)> {
        let Some(fact) = self.world.gangs.get(id).fact.clone() else { return Vec::new() };
        // What nobody else has named is limited by no queue.
        let known = |(name, amount): &(crate::fact::Name, Amount)| Some((self.world.names.find(name)?, *amount));
        fact.min_resources.iter().filter_map(known).collect()
    }

    fn queue_of_gang(&self, id: GangId) -> Option<QuotaId> {
        self.world.admitting_quota(id).ok().flatten()
    }

    /// Lets in those groups for which there is room, the most important and then the oldest first. Returns whether one
    /// came in.
    pub(super) fn admit_gangs(&mut self, decisions: &mut Decisions) -> bool {
        if !std::mem::take(&mut self.admission_due) || self.world.gangs.outside().is_empty() {
            return false;
        }
        let mut waiting: Vec<GangId> = self.world.gangs.outside().iter().copied().collect();
        waiting.sort_by_cached_key(|id| {
            let gang = self.world.gangs.get(*id);
            let of_members = || gang.members.iter().map(|member| self.world.pods.get(*member).priority).max();
            let priority = gang.fact.as_ref().and_then(|fact| fact.members_priority).or_else(of_members).unwrap_or(0);
            let created = gang.fact.as_ref().map(|fact| fact.created);
            (std::cmp::Reverse(priority), created, gang.key.clone())
        });
        let mut any = false;
        for id in waiting {
            match self.admission(id) {
                Ok(cards) => {
                    let gang = self.world.gangs.get_mut(id);
                    gang.admitted = true;
                    gang.reason = None;
                    gang.cards = cards;
                    decisions.list.push(Decision::Admit(gang.key.clone()));
                    self.world.gangs.set_outside(id, false);
                    self.settle_gang(id);
                    any = true;
                }
                Err(reason) => self.world.gangs.get_mut(id).reason = Some(reason),
            }
        }
        if any {
            self.note(Change::GroupAdmitted);
        }
        any
    }

    /// The cards that a group is let in with, or why it is not.
    fn admission(&mut self, id: GangId) -> Result<Vec<(ResourceId, Amount)>, Arc<Reason>> {
        let least = self.min_resources(id);
        let fact = self.world.gangs.get(id).fact.clone().unwrap_or_default();
        if let Some(problem) = &fact.problem {
            return Err(Arc::new(explain::invalid(problem)));
        }
        let refused = |(code, why)| Arc::new(explain::membership_error(code, why));
        let Some(queue) = self.world.admitting_quota(id).map_err(refused)? else { return Ok(Vec::new()) };
        if let Some(why) = self.world.quotas.closed(queue) {
            return Err(refused(why));
        }
        let free = self.settings.cards.unlimited_cpu_memory && !fact.card_request.is_empty();
        let held_to = least.iter().filter(|(r, _)| !(free && (*r == CPU_ID || *r == MEMORY_ID)));
        for (resource, amount) in held_to {
            self.has_room(queue, (*resource, *amount))?;
        }
        let mut cards = Vec::new();
        for (kinds, amount) in &fact.card_request {
            let kinds: Vec<ResourceId> = kinds.iter().map(|name| self.world.names.pin(name)).collect();
            for kind in &kinds {
                self.world.quotas.note_card(*kind);
            }
            let tried: Vec<Result<(), Arc<Reason>>> =
                kinds.iter().map(|kind| self.has_room(queue, (*kind, *amount))).collect();
            match tried.iter().position(Result::is_ok) {
                Some(at) => cards.push((kinds[at], *amount)),
                None => {
                    return Err(tried.into_iter().find_map(Result::err).unwrap_or_else(|| {
                        let why = "the card request names no card".to_owned();
                        Arc::new(explain::membership_error(Code::InvalidRequest, why))
                    }));
                }
            }
        }
        Ok(cards)
    }

    /// Whether a quota has room for so much more beside what is held and reserved in it.
    fn has_room(&self, quota: QuotaId, asked: (ResourceId, Amount)) -> Result<(), Arc<Reason>> {
        let World { quotas, names, .. } = &self.world;
        quotas.room_for(quota, asked, names).map_err(|refusal| Arc::new(self.world.refused(&refusal)))
    }
}
