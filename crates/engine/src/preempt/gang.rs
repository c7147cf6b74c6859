//! The cheapest victims for all pods of a gang together.
//!
//! Where the pods go is searched as well: each takes a node, pods that are alike in order of the nodes, and for every
//! way to place them the victims are found in one search over all these nodes and ledgers. What victims on one node
//! cost at least for the pods that it takes is a bound: a way whose nodes together cost more than the best is left.
//!
//! *The bound.* After [`WAYS_MAX`] ways the best so far is taken, and the plan says what the cheapest costs at least.
//! Nodes are tried in order of what one pod costs there, so the first way is a good one.

use std::collections::BTreeMap;

use crate::cards::CardChoices;
use crate::nodes::NodeId;
use crate::place::Question;
use crate::pods::PodId;
use crate::policy::{Ask, Refusal};
use crate::preempt::cost::{Cost, Counts};
use crate::preempt::missing::{Missing, Short, widened};
use crate::preempt::rights::{Going, add_charges};
use crate::preempt::sets::Placing;
use crate::preempt::{Best, Hunt, Outcome};
use crate::resources::ResourceId;
use crate::world::World;

/// The most ways to place a gang that victims are found for.
const WAYS_MAX: u32 = 400;
/// The most nodes that are tried for its pods in all.
const TRIES_MAX: u32 = 40_000;

/// A pod of the gang.
struct Member {
    pod: PodId,
    question: Question,
    /// Where it could go if all who may go went, the cheapest first.
    nodes: Vec<NodeId>,
    is_like_last: bool,
}

/// A way to place the gang, as far as it goes.
struct Ways<'h, 'q> {
    hunt: &'h mut Hunt<'q>,
    places: Vec<(PodId, NodeId)>,
    best: Option<(Best, Vec<(PodId, NodeId)>)>,
    /// What pods of a gang cost at least on a node, by how many of which kind it takes.
    local: BTreeMap<(NodeId, Vec<u32>), Option<Cost>>,
    ways: u32,
    tries: u32,
}

impl Ways<'_, '_> {
    fn is_used_up(&self) -> bool {
        self.ways >= WAYS_MAX || self.tries >= TRIES_MAX
    }
}

impl World {
    /// Looks for the cheapest victims for pods that are to run together.
    pub fn find_victims_for_gang(&mut self, pods: &[PodId], choices: CardChoices) -> Outcome {
        let Some(first) = pods.first().copied() else { return Outcome::Hopeless };
        let leaving = self.leaving_pods();
        let lifted = self.lift(&leaving);
        let questions: Vec<Question> = pods.iter().map(|pod| self.question(choices.attempt(*pod))).collect();
        let charges: Vec<_> = pods.iter().flat_map(|pod| self.asked_charge(choices.attempt(*pod))).collect();
        let priority = pods.iter().map(|pod| self.pods.get(*pod).priority).min().unwrap_or(i32::MIN);
        let mut rights = self.rights(first, priority, add_charges(charges.iter()));
        self.find_drawable(&mut rights);
        let takeable = self.takeable(&rights);
        let is_related = questions.iter().any(|question| self.is_related(question));
        let question = std::borrow::Cow::Owned(questions[0].clone());
        let shortages = self.shortages_of_gang(pods, &choices);
        let mut hunt = Hunt::new(rights, choices, question, shortages, takeable, is_related);
        let best = self.best_way(&mut hunt, pods, questions);
        self.put_back(lifted);
        match best {
            Some((best, places)) if best.going.is_empty() => Outcome::Wait(places),
            Some((best, places)) => Outcome::Plan(Box::new(self.plan(places, hunt.rights, hunt.choices, best))),
            None => Outcome::Hopeless,
        }
    }

    /// What ledgers are short of for all of them.
    fn shortages_of_gang(&self, pods: &[PodId], choices: &CardChoices) -> Missing {
        let mut by_quotas: BTreeMap<_, Vec<PodId>> = BTreeMap::new();
        for pod in pods {
            let known = self.pods.get(*pod);
            by_quotas.entry((known.quotas.clone(), known.is_non_preemptible())).or_default().push(*pod);
        }
        let mut missing = Missing::new();
        for ((quotas, non_preemptible), pods) in by_quotas {
            let charges: Vec<_> = pods.iter().flat_map(|pod| self.asked_charge(choices.attempt(*pod))).collect();
            let charge = add_charges(charges.iter());
            let shortages =
                self.quotas.shortages(&quotas, &Ask { charge: &charge, non_preemptible, has_victims: false });
            missing.extend(shortages.into_iter().map(|short| (Short::Ledger(short), short.amount)));
        }
        missing
    }

    /// Why quotas refuse these pods if all of them come at once; the first that counts.
    pub fn refusal_together(&self, pods: &[PodId]) -> Option<Refusal> {
        let mut by_quotas: BTreeMap<_, Vec<PodId>> = BTreeMap::new();
        for pod in pods {
            let known = self.pods.get(*pod);
            by_quotas.entry((known.quotas.clone(), known.is_non_preemptible())).or_default().push(*pod);
        }
        let refusals = by_quotas.into_iter().flat_map(|((quotas, non_preemptible), pods)| {
            let charges: Vec<_> = pods.iter().flat_map(|pod| self.asked_charge(*pod)).collect();
            let charge = add_charges(charges.iter());
            self.quotas.refusals(&quotas, &Ask { charge: &charge, non_preemptible, has_victims: false }, &self.names)
        });
        refusals.min_by_key(|refusal| refusal.code)
    }

    /// Whether ceilings refuse these pods if all of them come.
    pub fn is_refused_together(&self, pods: &[PodId]) -> bool {
        !self.shortages_of_gang(pods, &CardChoices::default()).is_empty()
    }

    fn best_way(
        &mut self,
        hunt: &mut Hunt<'_>,
        pods: &[PodId],
        questions: Vec<Question>,
    ) -> Option<(Best, Vec<(PodId, NodeId)>)> {
        // Reservations first, then others, then the gang's own quota, as for a pod.
        let passes: &[(bool, bool)] = match hunt.rights.is_entitled() {
            true => &[(true, false), (false, true), (false, false)],
            false => &[(true, false), (false, false)],
        };
        let is_anybody_left = self.could_anybody_go(&hunt.rights);
        let passes = if is_anybody_left { passes } else { &passes[..1] };
        for (reservations_only, spares_own) in passes {
            (hunt.reservations_only, hunt.rights.spares_own, hunt.helpers) = (*reservations_only, *spares_own, None);
            let members = self.members_of_gang(hunt, pods, &questions);
            let mut ways =
                Ways { hunt: &mut *hunt, places: Vec::new(), best: None, local: BTreeMap::new(), ways: 0, tries: 0 };
            self.place_members(&mut ways, &members, 0);
            let is_used_up = ways.is_used_up();
            if let Some((mut best, places)) = ways.best {
                if is_used_up {
                    best.at_least = Some(Cost::NOTHING.counts);
                }
                (hunt.reservations_only, hunt.rights.spares_own) = (false, false);
                return Some((best, places));
            }
        }
        None
    }

    /// The pods with the nodes where each could go, the node where it costs least first.
    fn members_of_gang(&mut self, hunt: &mut Hunt<'_>, pods: &[PodId], questions: &[Question]) -> Vec<Member> {
        let mut members: Vec<Member> = Vec::new();
        for (pod, question) in pods.iter().zip(questions) {
            let is_like_last = members.last().is_some_and(|last| {
                last.question.shape == question.shape && self.pods.get(last.pod).quotas == self.pods.get(*pod).quotas
            });
            let nodes = match members.last().filter(|_| is_like_last) {
                Some(last) => last.nodes.clone(),
                None => {
                    let nodes: Vec<NodeId> =
                        self.nodes.by_name().filter(|node| self.could_serve(question, *node)).collect();
                    let cost = |world: &mut World, node: NodeId| world.local_cost(hunt, node, &[question]);
                    let mut known: Vec<(Cost, u64, NodeId)> = Vec::new();
                    for node in nodes {
                        let rank = self.nodes.rank(node);
                        known.extend(cost(self, node).map(|cost| (cost, rank, node)));
                    }
                    known.sort();
                    known.into_iter().map(|(_, _, node)| node).collect()
                }
            };
            members.push(Member { pod: *pod, question: question.clone(), nodes, is_like_last });
        }
        members
    }

    /// What pods cost on a node at least, as far as its amounts are concerned; `None` where they cannot be there.
    fn local_cost(&mut self, hunt: &Hunt<'_>, node: NodeId, pods: &[&Question]) -> Option<Cost> {
        let missing = self.missing_for(node, pods);
        if missing.is_empty() {
            return Some(Cost::NOTHING);
        }
        let going = self.going_for(hunt, node, &missing);
        let (found, _) = self.solve(hunt, Some(node), &going, &missing, &Placing::Untried, None)?;
        Some(found.cost)
    }

    /// What a node is short of for all these pods.
    fn missing_for(&self, node: NodeId, pods: &[&Question]) -> Missing {
        let mut amounts: Vec<(ResourceId, i128)> = Vec::new();
        let mut capped: Vec<(ResourceId, i128)> = Vec::new();
        let add = |sums: &mut Vec<(ResourceId, i128)>, more: Vec<(ResourceId, i128)>| {
            for (resource, amount) in more {
                match sums.iter_mut().find(|(r, _)| *r == resource) {
                    Some((_, sum)) => *sum += amount,
                    None => sums.push((resource, amount)),
                }
            }
        };
        for question in pods {
            let demand = &self.shapes.get(question.shape).demand;
            add(&mut amounts, widened(&demand.amounts));
            if demand.capped {
                add(&mut capped, widened(&demand.amounts));
            }
        }
        self.missing_amounts(node, &amounts, &capped)
    }

    fn place_members(&mut self, ways: &mut Ways<'_, '_>, members: &[Member], at: usize) {
        if at == members.len() {
            self.try_way(ways, members);
            return;
        }
        let member = &members[at];
        let last = ways.places.last().filter(|_| member.is_like_last).map(|(_, node)| *node);
        let from = last.and_then(|last| member.nodes.iter().position(|node| *node == last)).unwrap_or(0);
        for node in &member.nodes[from..] {
            if ways.is_used_up() {
                return;
            }
            ways.tries += 1;
            ways.places.push((member.pod, *node));
            let bound = self.bound(ways, members);
            let is_worth_it = bound.is_some_and(|bound| {
                let best = ways.best.as_ref().map(|(best, _)| &best.cost);
                best.is_none_or(|best| !is_beaten(&bound, best, at + 1 == members.len()))
            });
            if is_worth_it {
                self.place_members(ways, members, at + 1);
            }
            ways.places.pop();
            // Nobody need go: no way is cheaper.
            if ways.best.as_ref().is_some_and(|(best, _)| best.going.is_empty()) {
                return;
            }
        }
    }

    /// What the nodes of a way cost at least, each for itself; `None` where one cannot take its pods.
    fn bound(&mut self, ways: &mut Ways<'_, '_>, members: &[Member]) -> Option<Cost> {
        let mut by_node: BTreeMap<NodeId, Vec<usize>> = BTreeMap::new();
        for (at, (_, node)) in ways.places.iter().enumerate() {
            by_node.entry(*node).or_default().push(at);
        }
        let mut sum = Cost::NOTHING;
        for (node, of_node) in by_node {
            let key = (node, of_node.iter().map(|at| members[*at].question.shape.0).collect::<Vec<u32>>());
            if !ways.local.contains_key(&key) {
                let pods: Vec<&Question> = of_node.iter().map(|at| &members[*at].question).collect();
                let cost = self.local_cost(ways.hunt, node, &pods);
                ways.local.insert(key.clone(), cost);
            }
            let cost = ways.local[&key].as_ref()?;
            // Gangs that go may stand on several of these nodes, and count once.
            let least =
                (cost.counts.violations, cost.counts.priority).max((sum.counts.violations, sum.counts.priority));
            (sum.counts.violations, sum.counts.priority) = least;
            sum.counts.entitled += cost.counts.entitled;
            sum.counts.gangs += cost.counts.gangs;
            sum.counts.count += cost.counts.count;
            sum.created.extend(&cost.created);
        }
        sum.created.sort_unstable_by(|a, b| b.cmp(a));
        Some(sum)
    }

    /// Finds the victims for a way.
    fn try_way(&mut self, ways: &mut Ways<'_, '_>, members: &[Member]) {
        ways.ways += 1;
        let places = ways.places.clone();
        let mut by_node: BTreeMap<NodeId, Vec<&Question>> = BTreeMap::new();
        for ((_, node), member) in places.iter().zip(members) {
            by_node.entry(*node).or_default().push(&member.question);
        }
        let mut missing = Missing::new();
        let mut going = Vec::new();
        for (node, pods) in &by_node {
            let mut here = self.missing_for(*node, pods);
            if ways.hunt.is_related {
                for member in members.iter().zip(&places).filter(|(_, (_, at))| at == node).map(|(member, _)| member) {
                    // Of several ways the first: members stay near those that they must be near.
                    let ways_there = self.missing_company(member.pod, &member.question, *node);
                    let Some(company) = ways_there.into_iter().next() else { return };
                    here.extend(company);
                }
            }
            going.extend(self.going_for(ways.hunt, *node, &here));
            missing.extend(here);
        }
        missing.extend(ways.hunt.shortages.iter().cloned());
        if !ways.hunt.shortages.is_empty() {
            self.gather_helpers(ways.hunt);
            going.extend(ways.hunt.helpers.iter().flatten().cloned());
        }
        going.sort_by_key(Going::number);
        going.dedup_by_key(|goes| goes.number());
        let nobody = Best { cost: Cost::NOTHING, node: None, going: Vec::new(), at_least: None };
        if missing.is_empty() {
            if !ways.hunt.is_related || self.takes_all(&places, &ways.hunt.choices) {
                ways.best = Some((nobody, places));
            }
            return;
        }
        let placing = Placing::Gang(places.clone());
        let below = ways.best.as_ref().map(|(best, _)| best.cost.clone());
        let found = self.solve(ways.hunt, None, &going, &missing, &placing, below.as_ref());
        if let Some((found, going)) = found {
            let best = Best { cost: found.cost, node: None, going, at_least: found.at_least };
            ways.best = Some((best, places));
        }
    }
}

/// Whether a way that costs at least so much cannot be better than the best. The ages of a bound count where it is
/// whole, and its victims are no more important than they need be.
fn is_beaten(bound: &Cost, best: &Cost, is_whole: bool) -> bool {
    let (Counts { violations, priority, count, .. }, known) = (bound.counts, best.counts);
    if (violations, priority) != (known.violations, known.priority) {
        return (violations, priority) > (known.violations, known.priority);
    }
    let is_plain = known.entitled == 0 && known.gangs == 0 && violations == 0;
    is_plain && (count > known.count || is_whole && count == known.count && bound.created < best.created)
}
