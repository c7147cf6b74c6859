//! Groups without an object, which their pods declare, and groups that start in one step with others.
//!
//! Where a group has no object, its oldest pod speaks for it, and pods that say something else wait. Groups that name
//! each other as partners are one gang, a *bundle*: each of them is a part of it with a minimum of its own, as
//! the tasks of one group are.

use std::collections::BTreeSet;

use crate::decision::Decisions;
use crate::engine::Engine;
use crate::engine::cycle::Turn;
use crate::engine::wake::Change;
use crate::fact::{Counting, GroupFact, GroupKey, Name, RequestProblem};
use crate::gangs::GangId;
use crate::pods::PodId;

/// How a group stands to those that it is to start with.
enum Partnership {
    /// It starts by itself.
    Alone,
    /// All are there, and say the same.
    Together,
    /// This one does not exist.
    Missing(GroupKey),
    /// This one says something else.
    AtOdds(GroupKey),
}

impl Engine {
    /// The turn of a gang. Where only members that wait count, those that run are set aside for it.
    pub(super) fn take_turn_of_gang(&mut self, id: GangId, decisions: &mut Decisions) -> Turn {
        let gang = self.world.gangs.get_mut(id);
        if gang.counting() == Counting::WaitingOnly {
            gang.set_aside = Some(gang.tally.clone());
        }
        let turn = self.take_gang_turn(id, decisions);
        self.world.gangs.get_mut(id).set_aside = None;
        turn
    }

    /// Brings up to date what pods say of their groups, and which groups start together.
    pub(super) fn settle_terms(&mut self) {
        let due = self.world.gangs.take_unsettled();
        if due.is_empty() {
            return;
        }
        due.iter().for_each(|key| self.settle_declaration(key));
        let concerned: BTreeSet<GroupKey> = due.into_iter().chain(self.world.gangs.take_unsettled()).collect();
        let mut bundles: BTreeSet<GangId> = BTreeSet::new();
        for key in &concerned {
            self.settle_partners(key, &mut bundles);
        }
        for bundle in bundles {
            self.settle_bundle(bundle);
        }
        // What was noted meanwhile is what was done here.
        self.world.gangs.take_unsettled();
        self.note(Change::Group);
    }

    /// Lets hold of a group what its object says, or else its oldest pod.
    fn settle_declaration(&mut self, key: &GroupKey) {
        let Some(id) = self.world.gangs.find(key) else { return };
        let gang = self.world.gangs.get(id);
        let (declared, members) = (gang.declared.clone(), gang.named_by.clone());
        let world = &self.world;
        let terms = |pod: &PodId| world.pods.get(*pod).group_terms.clone();
        let is_readable = |pod: &&PodId| terms(pod).is_some_and(|terms| terms.problem.is_none());
        let age = |pod: &&PodId| (world.pods.get(**pod).created, world.pods.get(**pod).key());
        let speaker = members.iter().filter(is_readable).min_by_key(age).filter(|_| declared.is_none());
        let spoken = speaker.and_then(terms);
        let mut misfits: Vec<(PodId, Option<RequestProblem>)> = Vec::new();
        for pod in &members {
            let misfit = terms(pod).filter(|_| declared.is_none()).and_then(|own| match &spoken {
                _ if own.problem.is_some() => own.problem.clone(),
                Some(spoken) if *spoken != own => {
                    let (min, other) = (own.min_member, spoken.min_member);
                    let older = speaker.map(|pod| world.pods.get(*pod).key().to_string()).unwrap_or_default();
                    let message = match min == other {
                        true => format!("differs from what the older pod {older} says: expected the same of all pods"),
                        false => format!("{min}: the older pod {older} of the group says {other}: expected the same"),
                    };
                    Some(RequestProblem { field: own.field.clone(), message: message.into() })
                }
                _ => None,
            });
            misfits.push((*pod, misfit));
        }
        let created = speaker.map(|pod| world.pods.get(*pod).created).unwrap_or_default();
        for (pod, misfit) in misfits {
            if self.world.pods.get(pod).misfit != misfit {
                self.change_pod(pod, |engine| engine.world.pods.get_mut(pod).misfit = misfit);
            }
        }
        match (declared, spoken) {
            (Some(declared), _) => self.set_group_fact(id, declared),
            (None, Some(terms)) => {
                let fact = GroupFact {
                    api_group: key.api_group.clone(),
                    namespace: key.namespace.clone(),
                    name: key.name.clone(),
                    created,
                    min_member: terms.min_member,
                    counting: terms.counting,
                    partners: terms.partners.clone(),
                    admitted: true,
                    ..GroupFact::default()
                };
                self.set_group_fact(id, fact);
            }
            (None, None) if self.world.gangs.get(id).fact.is_some() => self.drop_group_fact(id),
            (None, None) => {}
        }
    }

    /// Lets a group start with its partners, or by itself. Notes the bundles that this changes.
    fn settle_partners(&mut self, key: &GroupKey, bundles: &mut BTreeSet<GangId>) {
        let Some(id) = self.world.gangs.find(key) else { return };
        let partnership = self.partnership(key, id);
        let mut bundle = None;
        let gang = self.world.gangs.get_mut(id);
        (gang.at_odds, gang.missing_partner) = (None, None);
        match partnership {
            Partnership::Alone => {}
            Partnership::Together => {
                let partners = gang.fact.as_ref().map_or_else(Vec::new, |fact| fact.partners.clone());
                let names: Vec<String> = partners.iter().map(ToString::to_string).collect();
                let (api_group, name) = (key.api_group.clone(), Name::from(names.join(" and ")));
                let number = self.world.gangs.number(&GroupKey { api_group, namespace: Name::default(), name });
                self.world.gangs.get_mut(number).parts = partners;
                bundle = Some(number);
            }
            Partnership::Missing(partner) => gang.missing_partner = Some(partner),
            Partnership::AtOdds(partner) => {
                let message =
                    format!("{key} and {partner} do not name the same groups: expected one list in all of them");
                gang.at_odds = Some(RequestProblem { field: "groups".into(), message: message.into() });
            }
        }
        let gang = self.world.gangs.get_mut(id);
        let before = std::mem::replace(&mut gang.bundle, bundle);
        bundles.extend(before.into_iter().chain(bundle));
        if before != bundle {
            for pod in gang.named_by.clone() {
                // The old bundle is no longer found by way of its part.
                let moves = |engine: &mut Engine| {
                    let old = engine.world.pods.get(pod).gang;
                    engine.world.join_gang(pod);
                    old.into_iter().for_each(|old| engine.world.gangs.note_changed(old));
                };
                self.change_pod(pod, moves);
            }
        }
    }

    /// How a group stands to those that it names. One of another namespace that it does not name cannot hold it up,
    /// whatever that one says.
    fn partnership(&self, key: &GroupKey, id: GangId) -> Partnership {
        let gangs = &self.world.gangs;
        let named_by = |key: &GroupKey| {
            let fact = gangs.find(key).and_then(|id| gangs.get(id).fact.as_ref());
            fact.map(|fact| fact.partners.as_slice())
        };
        let mine = gangs.get(id).fact.as_ref().map_or(&[][..], |fact| &fact.partners);
        let claims = gangs.naming(key).filter(|other| other.namespace == key.namespace || mine.contains(other));
        let mut others = claims.chain(mine).filter(|other| *other != key);
        if let Some(other) = others.find(|other| named_by(other).is_some_and(|theirs| theirs != mine)) {
            return Partnership::AtOdds(other.clone());
        }
        match mine.iter().find(|other| named_by(other).is_none()) {
            Some(missing) => Partnership::Missing(missing.clone()),
            None if mine.len() > 1 => Partnership::Together,
            None => Partnership::Alone,
        }
    }

    /// Works out what a bundle needs, by its parts.
    fn settle_bundle(&mut self, id: GangId) {
        let bundle = self.world.gangs.get(id);
        let key = bundle.key.clone();
        let numbers = bundle.parts.iter().filter_map(|part| self.world.gangs.find(part));
        let parts: Vec<GangId> = numbers.filter(|part| self.world.gangs.get(*part).bundle == Some(id)).collect();
        if parts.is_empty() {
            self.world.gangs.get_mut(id).parts = Vec::new();
            return self.drop_group_fact(id);
        }
        let parts: Vec<_> = parts.into_iter().map(|part| self.world.gangs.get(part)).collect();
        let facts = || parts.iter().filter_map(|part| part.fact.as_ref());
        // Where all of a part's pods have succeeded, it needs none.
        let min = |part: &crate::gangs::Gang| if part.is_over() { 0 } else { part.min_member() };
        let minima: Vec<(Name, u32)> = parts.iter().map(|part| (Name::from(part.key.to_string()), min(part))).collect();
        let fact = GroupFact {
            api_group: key.api_group,
            name: key.name,
            created: facts().map(|fact| fact.created).min().unwrap_or_default(),
            min_member: minima.iter().fold(0, |sum, (_, min)| sum.saturating_add(*min)),
            min_task_member: minima,
            // The strictest of them.
            counting: facts().map(|fact| fact.counting).max().unwrap_or_default(),
            has_started: parts.iter().any(|part| part.has_started) || facts().any(|fact| fact.has_started),
            admitted: true,
            problem: facts().find_map(|fact| fact.problem.clone()),
            ..GroupFact::default()
        };
        self.set_group_fact(id, fact);
    }
}
