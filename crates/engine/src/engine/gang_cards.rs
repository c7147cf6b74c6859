//! Which cards the pods of a gang take: one kind for all, where they name several, or any that each accepts.

use crate::cards::{CardChoice, CardChoices};
use crate::engine::Engine;
use crate::gangs::GangId;
use crate::pods::PodId;
use crate::preempt::Outcome;
use crate::resources::ResourceId;
use crate::sign::Sign;

/// The most ways to mix kinds of cards among the pods of a gang that victims are searched for, beside one kind for all:
/// enough for 8 pods that are alike and 3 kinds. Beyond it a gang that needs a mix may wait though there are victims.
const MIXES_MAX: usize = 42;

/// Of the choices of cards for a pod, those in which it takes a card.
fn with_card(mut card_choices: Vec<Option<CardChoice>>, card: Option<ResourceId>) -> Vec<Option<CardChoice>> {
    let Some(card) = card else { return card_choices };
    let has_card = |card_choice: &Option<CardChoice>| {
        let cards = card_choice.as_ref().map(|card_choice| &card_choice.cards).filter(|cards| !cards.is_empty());
        cards.is_none_or(|cards| cards.iter().any(|(c, _)| *c == card))
    };
    card_choices.retain(has_card);
    card_choices
}

/// The ways to give each of so many one of so many kinds, without those that give all the same. Where all are alike
/// only how many get which matters.
fn mixes(kinds: usize, count: usize, are_alike: bool) -> Vec<Vec<usize>> {
    let mut all = Vec::new();
    let mut mix = vec![0; count];
    while all.len() < MIXES_MAX {
        if mix.iter().any(|kind| *kind != mix[0]) {
            all.push(mix.clone());
        }
        let Some(at) = (0..count).rev().find(|at| mix[*at] + 1 < kinds) else { break };
        mix[at] += 1;
        let least = if are_alike { mix[at] } else { 0 };
        mix[at + 1..].fill(least);
    }
    all
}

impl Engine {
    /// The cards that a gang could take: one for all, unless they may differ or one is held already.
    pub(super) fn card_choices(&mut self, id: GangId, members: &[PodId]) -> Vec<Option<ResourceId>> {
        let shapes = members.iter().map(|member| self.world.shapes.get(self.world.pods.get(*member).shape));
        let Some(names) = shapes.map(|shape| &shape.spec().cards).find(|cards| cards.len() > 1).cloned() else {
            return vec![None];
        };
        let (held, mixed) = self.world.gangs.card_of(Some(id), &self.world.pods);
        if mixed || held.is_some() {
            return vec![None];
        }
        names.iter().map(|name| Some(self.world.names.pin(name))).collect()
    }

    pub(super) fn card_choices_with(&mut self, id: PodId, card: Option<ResourceId>) -> Vec<Option<CardChoice>> {
        with_card(self.world.card_choices(id), card)
    }

    /// The cards that a gang could take once others made room, by pod in turn; where there is one it is for all. Where
    /// its pods accept any, each is looked at by itself, since what they are charged decides what they are entitled to.
    pub(super) fn kinds_for_claims(
        &mut self,
        id: GangId,
        choices: Vec<Option<ResourceId>>,
        members: &[PodId],
    ) -> Vec<Vec<Option<ResourceId>>> {
        let (Some(first), [None]) = (members.first(), &choices[..]) else {
            return choices.into_iter().map(|choice| vec![choice]).collect();
        };
        let card_choices = self.world.card_choices_for_reservations(*first);
        let cards = card_choices.iter().map(|card_choice| {
            card_choice.as_ref().and_then(|card_choice| card_choice.cards.first()).map(|(card, _)| *card)
        });
        let kinds: Vec<Option<ResourceId>> = cards.collect();
        let mut all: Vec<Vec<Option<ResourceId>>> = kinds.iter().map(|kind| vec![*kind]).collect();
        if kinds.len() > 1 {
            let group = |member: &PodId| self.world.pods.get(*member).group;
            let are_alike = members.iter().all(|member| group(member).is_some() && group(member) == group(first));
            let gang = self.world.gangs.get(id);
            let needed = gang.min_member().saturating_sub(gang.counted(&gang.tally)) as usize;
            let mixes = mixes(kinds.len(), needed.min(members.len()), are_alike).into_iter();
            all.extend(mixes.map(|mix| mix.into_iter().map(|kind| kinds[kind]).collect()));
        }
        all
    }

    /// In how many ways the pods of a gang may be charged for devices; pods that are alike are charged alike.
    pub(super) fn device_ways(&mut self, members: &[PodId]) -> usize {
        members.iter().map(|member| self.world.device_ways(*member)).max().unwrap_or(1)
    }

    /// Looks for pods that may go so that enough of a gang can run, where they are charged for devices in one of the
    /// ways in which they may be.
    pub(super) fn plan_gang(
        &mut self,
        id: GangId,
        members: &[PodId],
        kinds: &[Option<ResourceId>],
        way: usize,
    ) -> Outcome {
        let mut tally = self.world.gangs.get(id).tally.clone();
        let mut needed: Vec<PodId> = Vec::new();
        let mut choices = CardChoices::default();
        for member in members {
            if self.world.gangs.get(id).is_enough_of(&tally) {
                break;
            }
            if !self.is_needed(id, *member, &tally) {
                continue;
            }
            let card = kinds.get(needed.len()).or(kinds.last()).copied().flatten();
            let choice = with_card(self.world.card_choices_for_reservations(*member), card).into_iter().next();
            let Some(choice) = choice else { continue };
            choices.choose(*member, self.world.with_way(*member, choice, way));
            let question = self.world.question(choices.attempt(*member));
            if self.world.nodes.by_name().any(|node| self.world.could_serve(&question, node)) {
                tally.count(self.world.pods.get(*member), &[], Sign::Add);
                needed.push(*member);
            }
        }
        match self.world.gangs.get(id).is_enough_of(&tally) {
            true => self.world.find_victims_for_gang(&needed, choices),
            false => Outcome::Hopeless,
        }
    }
}
