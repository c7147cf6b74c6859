//! Cards: which kinds a pod may take now, by what it accepts and by what its quotas have left.
//!
//! A pod is looked at under one assumption at a time: that it takes this card, or any of these. Each *choice* has a
//! shape of its own, so that what is kept of the nodes for one choice is not mixed up with another's.

use std::collections::BTreeMap;

use crate::devices::bills::DeviceCharge;
use crate::fact::{Amount, Name, PodSpec};
use crate::nodes::NodeId;
use crate::pods::PodId;
use crate::policy::Ask;
use crate::resources::{Demand, ResourceId};
use crate::shape::ShapeId;
use crate::world::World;

/// The cards that a pending pod is taken to get.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CardChoice {
    pub shape: ShapeId,
    /// What it will be charged for cards, where the choice decides it.
    pub cards: Vec<(ResourceId, Amount)>,
    /// What it will be charged for devices, where that may be one thing or another.
    pub devices: Option<DeviceCharge>,
}

/// A pending pod with the cards that it is taken to get; without a choice it is the pod as it is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Attempt<'a> {
    pub pod: PodId,
    pub choice: Option<&'a CardChoice>,
}

impl Attempt<'_> {
    /// Whether the choice decides what it is charged for cards.
    pub fn has_cards(&self) -> bool {
        self.choice.is_some_and(|choice| !choice.cards.is_empty())
    }
}

impl From<PodId> for Attempt<'_> {
    fn from(pod: PodId) -> Self {
        Attempt { pod, choice: None }
    }
}

/// The choices of pods that are tried together.
#[derive(Debug, Clone, Default)]
pub(crate) struct CardChoices(BTreeMap<PodId, CardChoice>);

impl CardChoices {
    pub fn choose(&mut self, pod: PodId, choice: Option<CardChoice>) {
        if let Some(choice) = choice {
            self.0.insert(pod, choice);
        }
    }

    pub fn attempt(&self, pod: PodId) -> Attempt<'_> {
        Attempt { pod, choice: self.0.get(&pod) }
    }
}

/// The shape that another has when its pods may take some cards only.
#[derive(Debug, Clone)]
pub(crate) struct Variant {
    cards: Vec<ResourceId>,
    any: bool,
    pub shape: ShapeId,
}

impl World {
    /// The ways in which a pod can be placed, in order of preference; `None` is the pod as it is.
    pub fn card_choices(&mut self, id: PodId) -> Vec<Option<CardChoice>> {
        let pod = self.pods.get(id);
        let shape = self.shapes.get(pod.shape);
        if shape.spec().cards.is_empty() {
            return self.choices_of_any(id);
        }
        let (held, mixed) = self.gangs.card_of(pod.gang, &self.pods);
        let demand = shape.demand.clone();
        let names: Vec<Name> = shape.spec().cards.clone();
        let cards: Vec<ResourceId> = names.iter().map(|name| self.names.pin(name)).collect();
        let amounts = cards.iter().map(|card| (*card, self.card_amount(*card, &demand))).collect::<Vec<_>>();
        if mixed && cards.len() > 1 {
            return self.choices_of_several(id, &amounts, false);
        }
        if let [one] = amounts[..] {
            self.quotas.note_card(one.0);
            return vec![Some(CardChoice { shape: self.pods.get(id).shape, cards: vec![one], devices: None })];
        }
        let same = held.filter(|held| cards.contains(held));
        let wanted = amounts.into_iter().filter(|(card, _)| same.is_none_or(|same| same == *card));
        let wanted: Vec<(ResourceId, Amount)> = wanted.collect();
        wanted.into_iter().map(|(card, amount)| Some(self.single_choice(id, card, amount, false))).collect()
    }

    /// The ways in which a pod can be placed once others made room, in order of preference: one for each card, since
    /// what it is charged decides what it is entitled to.
    pub fn card_choices_for_reservations(&mut self, id: PodId) -> Vec<Option<CardChoice>> {
        let card_choices = self.card_choices(id);
        let pod = self.pods.get(id);
        let shape = self.shapes.get(pod.shape);
        let (demand, names) = (shape.demand.clone(), shape.spec().cards.clone());
        let any = names.is_empty();
        let cards: Vec<(ResourceId, Amount)> = match any {
            true => self.kinds_for(&demand),
            false => {
                let cards: Vec<ResourceId> = names.iter().map(|name| self.names.pin(name)).collect();
                cards.into_iter().map(|card| (card, self.card_amount(card, &demand))).collect()
            }
        };
        let is_open = |card_choice: &Option<CardChoice>| {
            card_choice.as_ref().is_none_or(|card_choice| card_choice.cards.is_empty())
        };
        if cards.is_empty() || self.pods.get(id).quotas.is_empty() || !card_choices.iter().any(is_open) {
            return card_choices;
        }
        // A node may have what it asks for without saying which card that is.
        let resources: Vec<ResourceId> = demand.amounts.iter().map(|(resource, _)| *resource).collect();
        let is_unnamed = |node: NodeId| {
            let named = |r: &ResourceId| self.nodes.get(node).cards.iter().any(|(resource, _)| resource == r);
            let has_kinds = |r: &&ResourceId| self.card_kinds.contains_key(r) && self.nodes.allocatable(**r, node) > 0;
            resources.iter().filter(has_kinds).any(|r| !named(r))
        };
        let unnamed = (any && self.nodes.by_name().any(is_unnamed)).then_some(None);
        let single = cards.into_iter().map(|(card, amount)| Some(self.single_choice(id, card, amount, any)));
        let mut all: Vec<Option<CardChoice>> = single.collect();
        all.extend(unnamed);
        all
    }

    /// The kinds of card that a pod of this size could take, with how many.
    fn kinds_for(&self, demand: &Demand) -> Vec<(ResourceId, Amount)> {
        let kinds = demand.amounts.iter().flat_map(|(resource, amount)| {
            let kinds = self.card_kinds.get(resource).into_iter().flatten();
            kinds.map(|(card, _)| (*card, *amount))
        });
        kinds.collect()
    }

    /// The looks of a pod that accepts any card: where its quotas count cards, those that they have left.
    fn choices_of_any(&mut self, id: PodId) -> Vec<Option<CardChoice>> {
        let pod = self.pods.get(id);
        let demand = &self.shapes.get(pod.shape).demand;
        if self.card_kinds.is_empty() || pod.quotas.is_empty() {
            return vec![None];
        }
        let kinds = self.kinds_for(demand);
        let counted = |(card, _): &(ResourceId, Amount)| self.quotas.counts_card(&pod.quotas, *card);
        if !kinds.iter().any(counted) {
            return vec![None];
        }
        self.choices_of_several(id, &kinds, true)
    }

    /// One choice of all the cards that the quotas have left, and one of each of the others, which are refused as
    /// things are.
    fn choices_of_several(&mut self, id: PodId, cards: &[(ResourceId, Amount)], any: bool) -> Vec<Option<CardChoice>> {
        let pod = self.pods.get(id);
        let charge = &self.shapes.get(pod.shape).charge;
        let admits = |card: &&(ResourceId, Amount)| {
            let charge: Vec<(ResourceId, Amount)> = charge.iter().copied().chain([**card]).collect();
            let ask =
                Ask { charge: &charge, non_preemptible: pod.is_non_preemptible(), has_victims: pod.has_victims() };
            let refusals = self.quotas.refusals(&pod.quotas, &ask, &self.names);
            !refusals.iter().any(|refusal| refusal.numbers.resource == *self.names.name(card.0))
        };
        let (open, full): (Vec<&(ResourceId, Amount)>, Vec<_>) = cards.iter().partition(admits);
        let open: Vec<ResourceId> = open.into_iter().map(|(card, _)| *card).collect();
        let full: Vec<(ResourceId, Amount)> = full.into_iter().copied().collect();
        let mut card_choices = Vec::new();
        if !open.is_empty() {
            let shape = if full.is_empty() && any { self.pods.get(id).shape } else { self.variant(id, &open, any) };
            card_choices.push(Some(CardChoice { shape, cards: Vec::new(), devices: None }));
        }
        for (card, amount) in full {
            card_choices.push(Some(self.single_choice(id, card, amount, any)));
        }
        card_choices
    }

    fn single_choice(&mut self, id: PodId, card: ResourceId, amount: Amount, any: bool) -> CardChoice {
        self.quotas.note_card(card);
        CardChoice { shape: self.variant(id, &[card], any), cards: vec![(card, amount)], devices: None }
    }

    /// How many of a card a pod of this size takes: as many as it asks for of the resource by which it is had.
    fn card_amount(&self, card: ResourceId, demand: &Demand) -> Amount {
        let by_kind = self.card_kinds.iter().filter(|(_, kinds)| kinds.contains_key(&card));
        let known = by_kind.map(|(resource, _)| demand.get(*resource)).max().filter(|amount| *amount > 0);
        // No node has such a card: it is had by one of the extended resources that are asked for.
        known.unwrap_or_else(|| {
            let extended = |(resource, _): &&(ResourceId, Amount)| self.names.name(*resource).contains('/');
            demand.amounts.iter().filter(extended).map(|(_, amount)| *amount).max().unwrap_or(0)
        })
    }

    /// The shape that a pod has when it may take these cards only.
    fn variant(&mut self, id: PodId, cards: &[ResourceId], any: bool) -> ShapeId {
        let base = self.pods.get(id).shape;
        let is_it = |variant: &&Variant| variant.cards == cards && variant.any == any;
        if let Some(known) = self.variants.get(&base).into_iter().flatten().find(is_it) {
            return known.shape;
        }
        let names = cards.iter().map(|card| self.names.name(*card).clone()).collect();
        let spec = PodSpec { cards: names, any_card: any, ..(**self.shapes.get(base).spec()).clone() };
        let namespace = self.pods.get(id).namespace.clone();
        let shape = self.shape_like(base, spec, &namespace);
        self.variants.entry(base).or_default().push(Variant { cards: cards.to_vec(), any, shape });
        shape
    }

    /// What a pod is charged if it is scheduled with the cards that it is taken to get.
    pub fn asked_charge<'a>(&self, attempt: impl Into<Attempt<'a>>) -> Vec<(ResourceId, Amount)> {
        let Attempt { pod: id, choice } = attempt.into();
        let pod = self.pods.get(id);
        let cards = choice.into_iter().flat_map(|choice| &choice.cards);
        let charge = self.shapes.get(pod.shape).charge.iter().chain(cards).copied();
        let devices = match choice.and_then(|choice| choice.devices.as_ref()) {
            Some(way) => self.devices_with(id, way),
            None => self.asked_devices(id),
        };
        with_devices(charge.collect(), devices)
    }

    /// The ways in which a claimant can be served, by cards and by what it is charged for devices: one for each, since
    /// what it is charged decides what it is entitled to.
    pub fn ways_for_claimant(&mut self, id: PodId) -> Vec<Option<CardChoice>> {
        let choices = self.card_choices_for_reservations(id);
        let ways = self.device_ways(id);
        match ways > 1 {
            true => {
                choices.iter().flat_map(|choice| (0..ways).map(|at| self.with_way(id, choice.clone(), at))).collect()
            }
            false => choices,
        }
    }

    /// In how many ways a pod may be charged for devices.
    pub fn device_ways(&mut self, id: PodId) -> usize {
        self.remember_bills(id);
        if self.pods.get(id).quotas.is_empty() { 1 } else { self.device_bills(id).ways.len().max(1) }
    }

    /// A choice with one of the ways in which the pod may be charged for devices.
    pub fn with_way(&self, id: PodId, choice: Option<CardChoice>, at: usize) -> Option<CardChoice> {
        let bills = self.device_bills(id);
        let devices = bills.ways.get(at.min(bills.ways.len().saturating_sub(1))).filter(|_| bills.ways.len() > 1);
        let Some(devices) = devices.cloned() else { return choice };
        let shape = self.pods.get(id).shape;
        let choice = choice.unwrap_or(CardChoice { shape, cards: Vec::new(), devices: None });
        Some(CardChoice { devices: Some(devices), ..choice })
    }
}

/// A charge with what devices add to it, each resource once.
pub(crate) fn with_devices(mut charge: Vec<(ResourceId, Amount)>, devices: DeviceCharge) -> Vec<(ResourceId, Amount)> {
    for (resource, amount) in devices {
        match charge.iter_mut().find(|(known, _)| *known == resource) {
            Some((_, sum)) => *sum = sum.saturating_add(amount),
            None => charge.push((resource, amount)),
        }
    }
    charge
}
