//! Preemption: the cheapest pods, anywhere, whose going lets a claimant run.
//!
//! ```text
//! rights.rs    who may evict whom
//! together.rs  which may go together
//! within.rs    which pods are within what their quota is entitled to
//! missing.rs   what is short at a place, as things that victims can give
//! problem.rs   both as a problem for the search
//! search.rs    the cheapest set, exactly; reach.rs is its bound
//! sharers.rs   pods that hold claims on devices together
//! sets.rs      what is asked of a set beside amounts
//! gang.rs      the same for all pods of a gang together
//! loops.rs     why evictions end
//! afterwards.rs  what quotas are entitled to once a plan is carried out
//! ```

mod afterwards;
pub(crate) mod cost;
mod gang;
pub(crate) mod loops;
mod missing;
mod problem;
mod reach;
pub(crate) mod rights;
mod search;
mod sets;
mod sharers;
mod together;
mod within;

use std::borrow::Cow;
use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use crate::cards::{Attempt, CardChoice, CardChoices};
use crate::fact::Created;
use crate::filter::Filter;
use crate::gangs::GangId;
use crate::nodes::NodeId;
use crate::place::{Answer, Question};
use crate::pods::{Place, PodId, QuotaOf, Resident};
use crate::policy::{Ask, QuotaId};
pub(crate) use crate::preempt::afterwards::EntitledAfter;
use crate::preempt::cost::{Cost, Counts};
use crate::preempt::missing::{Missing, Short};
use crate::preempt::rights::{Going, Rights};
use crate::preempt::sets::Placing;
use crate::relations::Effects;
use crate::world::World;

/// What a search for victims comes to.
#[derive(Debug, Clone)]
pub(crate) enum Outcome {
    /// These go, and the claimant gets the nodes.
    Plan(Box<Plan>),
    /// Pods that leave already make room there: nobody need go.
    Wait(Vec<(PodId, NodeId)>),
    /// No set of victims would do.
    Hopeless,
}

/// Who goes, and where the claimant's pods come to be.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub places: Vec<(PodId, NodeId)>,
    pub going: Vec<Going>,
    /// The pods that pass over a disruption budget.
    pub violating: BTreeSet<PodId>,
    pub rights: Rights,
    /// The cards that the claimant's pods are taken to get, and what they are charged for devices.
    pub choices: CardChoices,
    pub cost: Cost,
    /// Where the search was cut short: what the cheapest set costs at least.
    pub at_least: Option<Counts>,
}

/// A node by its cheapest single pod: that pod's priority and age, the node's place by name, and the node.
type Promising = (i32, Reverse<Created>, u64, NodeId);

/// The cheapest so far: at a node, or anywhere.
pub(crate) struct Best {
    pub cost: Cost,
    pub node: Option<NodeId>,
    pub going: Vec<Going>,
    pub at_least: Option<Counts>,
}

/// A claimant's search, with what is found out on the way.
pub(crate) struct Hunt<'a> {
    pub rights: Rights,
    /// The cards that the claimant's pods are taken to get.
    choices: CardChoices,
    question: Cow<'a, Question>,
    /// What ledgers are short of.
    shortages: Missing,
    /// Those who would help there, wherever they are, of whom the search looks at now; gathered when first needed.
    helpers: Option<Vec<Going>>,
    /// Where its place depends on other pods by more than amounts.
    is_related: bool,
    /// Where it does so by devices alone, and on each node by those of its own pods.
    local: Option<Local>,
    /// The pending pods whose reservations it could take over, by what is known of them at a glance.
    takeable: Vec<PodId>,
    /// Only reservations of waiting pods are taken.
    reservations_only: bool,
    /// Its quotas admit it as things are.
    is_admitted: bool,
    /// It is looked at as one without cards: where it would be charged for some it cannot be.
    is_without_cards: bool,
}

/// What is known of a claimant whose place depends on others by devices alone, each node's by its own pods.
struct Local {
    /// A node had room for it as things were.
    has_open_node: bool,
    /// The nodes that pods leave.
    left: BTreeSet<NodeId>,
}

impl<'a> Hunt<'a> {
    fn new(
        rights: Rights,
        choices: CardChoices,
        question: Cow<'a, Question>,
        shortages: Missing,
        takeable: Vec<PodId>,
        is_related: bool,
    ) -> Self {
        Hunt {
            rights,
            choices,
            question,
            shortages,
            helpers: None,
            is_related,
            local: None,
            takeable,
            reservations_only: false,
            is_admitted: false,
            is_without_cards: false,
        }
    }
}

impl World {
    /// Looks for the cheapest victims for a claimant that no node takes, or that its quotas refuse.
    pub fn find_victims(&mut self, claimant: PodId, choice: Option<CardChoice>, question: &Question) -> Outcome {
        let mut choices = CardChoices::default();
        choices.choose(claimant, choice);
        let attempt = choices.attempt(claimant);
        let pod = self.pods.get(claimant);
        let (priority, charge) = (pod.priority, self.asked_charge(attempt));
        let ask = Ask { charge: &charge, non_preemptible: pod.is_non_preemptible(), has_victims: false };
        let shortages = self.quotas.shortages(&pod.quotas, &ask);
        let shortages = shortages.into_iter().map(|short| (Short::Ledger(short), short.amount)).collect();
        let mut rights = self.rights(claimant, priority, charge);
        self.find_drawable(&mut rights);
        let takeable = self.takeable(&rights);
        if takeable.is_empty() && !self.could_anybody_go(&rights) && self.pods.leaving().next().is_none() {
            return Outcome::Hopeless;
        }
        let raises_ceilings = self.may_raise_ceilings(claimant, &shortages);
        let is_related = self.is_related(question) || raises_ceilings;
        let leaving = if is_related { self.leaving_pods() } else { Vec::new() };
        let is_local = is_related && !raises_ceilings && self.is_related_locally(question);
        let local = is_local.then(|| {
            // Where its quotas admit it, no node took it as things are.
            let is_refused = !self.refusals(attempt).is_empty();
            let has_open_node = is_refused && matches!(self.answer(question), Answer::Node(_));
            Local { has_open_node, left: leaving.iter().filter_map(|pod| self.pods.get(*pod).node()).collect() }
        });
        let lifted = self.lift(&leaving);
        // Without those who leave, others object.
        let question = if is_related { Cow::Owned(self.question(attempt)) } else { Cow::Borrowed(question) };
        let is_admitted = self.refusals(attempt).is_empty();
        let is_without_cards = !self.pods.get(claimant).quotas.is_empty() && !attempt.has_cards();
        let hunt = Hunt {
            is_admitted,
            is_without_cards,
            local,
            ..Hunt::new(rights, choices, question, shortages, takeable, is_related)
        };
        let outcome = self.hunt(hunt);
        self.put_back(lifted);
        outcome
    }

    /// Whether there is anybody who could have to go.
    fn could_anybody_go(&self, rights: &Rights) -> bool {
        let has_lower = self.pods.least_priority().is_some_and(|least| least < rights.priority);
        rights.could_reclaim() || has_lower
    }

    /// The pods whose reservations a claimant could take over, by what is known of them at a glance. Where many claim
    /// the same, none may take another's, and nothing that holds a reservation is looked at again.
    pub(crate) fn takeable(&self, rights: &Rights) -> Vec<PodId> {
        let might_take = |pod: &PodId| {
            let pod = self.pods.get(*pod);
            i64::from(pod.priority) < rights.might_take_below(pod.quota)
        };
        self.reservations.iter().copied().filter(might_take).collect()
    }

    fn is_related(&self, question: &Question) -> bool {
        question.devices.is_some() || self.is_related_beside_devices(question)
    }

    fn is_related_beside_devices(&self, question: &Question) -> bool {
        let shape = self.shapes.get(question.shape);
        !shape.spec().ports.is_empty()
            || !shape.spec().volumes.is_empty()
            || shape.is_bound_to_others()
            || question.has_objections()
    }

    /// Whether a claimant's place depends on others by devices alone, and on each node by those of its own pods.
    fn is_related_locally(&self, question: &Question) -> bool {
        question.devices.as_ref().is_some_and(|ask| self.asks_locally(ask)) && !self.is_related_beside_devices(question)
    }

    /// Whether victims may raise the ceiling that refuses a claimant, so that it takes a trial to know: those outside a
    /// tree leave more to share, and another quota of the claimant may entitle it to evict them.
    fn may_raise_ceilings(&self, claimant: PodId, shortages: &Missing) -> bool {
        let moves = |short: &Short| match short {
            Short::Ledger(shortage) => self.quotas.is_moving(shortage.ledger),
            _ => false,
        };
        let is_other = |quota: &QuotaId| !self.quotas.is_shared_out(*quota) && !self.quotas.is_plain(*quota);
        shortages.iter().any(|(short, _)| moves(short)) && self.pods.get(claimant).quotas.iter().any(is_other)
    }

    fn hunt(&mut self, mut hunt: Hunt<'_>) -> Outcome {
        let claimant = hunt.rights.claimant;
        let has_room = self.has_room_once_left(&hunt);
        if has_room && hunt.shortages.is_empty() {
            let node = self.best_node_without(hunt.choices.attempt(claimant), &[]);
            return node.map_or(Outcome::Hopeless, |node| Outcome::Wait(vec![(claimant, node)]));
        }
        let mut best = None;
        // What is kept for one that the claimant may evict once it runs is taken over, and nobody goes for it.
        if !hunt.takeable.is_empty() {
            hunt.reservations_only = true;
            best = self.best_anywhere(&mut hunt, has_room);
            (hunt.reservations_only, hunt.helpers) = (false, None);
        }
        // Others go first; where no set of them will do, those of the claimant's own quotas may.
        if best.is_none() && hunt.rights.is_entitled() {
            hunt.rights.spares_own = true;
            best = self.best_anywhere(&mut hunt, has_room);
            hunt.rights.spares_own = false;
            hunt.helpers = None;
        }
        if best.is_none() {
            best = self.best_anywhere(&mut hunt, has_room);
        }
        let Some(best) = best else { return Outcome::Hopeless };
        // Where others are in the way, or where they are on several nodes, their going may open several: the best of
        // these is taken, and not the one that was looked at first.
        let is_one = |node: &NodeId| {
            best.going.iter().flat_map(|goes| &goes.pods).all(|pod| self.stands_on(*pod) == Some(*node))
        };
        let node = best.node.filter(|node| (!hunt.is_related || hunt.local.is_some()) && is_one(node));
        let node = node.or_else(|| self.best_node_without(hunt.choices.attempt(claimant), &best.going));
        let Some(node) = node else { return Outcome::Hopeless };
        Outcome::Plan(Box::new(self.plan(vec![(claimant, node)], hunt.rights, hunt.choices, best)))
    }

    pub(crate) fn plan(&self, places: Vec<(PodId, NodeId)>, rights: Rights, choices: CardChoices, best: Best) -> Plan {
        let Best { cost, mut going, at_least, .. } = best;
        going.sort_by_cached_key(|goes| self.pods.get(goes.pods[0]).key());
        let pods = || going.iter().filter(|goes| !goes.is_reservation).flat_map(|goes| &goes.pods);
        let mut taken: BTreeMap<&crate::budgets::BudgetKey, u32> = BTreeMap::new();
        if !self.budgets.is_empty() {
            for key in pods().flat_map(|pod| self.budgets.of(self.pods.get(*pod))) {
                *taken.entry(key).or_default() += 1;
            }
        }
        taken.retain(|key, count| *count > self.budgets.allows(key, &self.pods));
        let violates = |pod: &&PodId| self.budgets.of(self.pods.get(**pod)).any(|key| taken.contains_key(key));
        let violating = if taken.is_empty() { BTreeSet::new() } else { pods().filter(violates).copied().collect() };
        Plan { places, going, violating, rights, choices, cost, at_least }
    }

    /// Whether a node could take the claimant, as it is looked at, if it were empty.
    fn serves(&self, hunt: &Hunt<'_>, node: NodeId) -> bool {
        let demand = &self.shapes.get(hunt.question.shape).demand;
        self.could_serve(&hunt.question, node)
            && (!hunt.is_without_cards || self.nodes.cards_for(node, demand).is_empty())
    }

    /// Whether a node takes the claimant once all who leave are gone, as far as the node is concerned.
    fn has_room_once_left(&mut self, hunt: &Hunt<'_>) -> bool {
        if let Some(Local { has_open_node, left }) = &hunt.local {
            return *has_open_node || left.iter().any(|node| self.closed_by(&hunt.question, *node).is_none());
        }
        if hunt.is_related {
            return matches!(self.scan(&hunt.question), Answer::Node(_));
        }
        let demand = &self.shapes.get(hunt.question.shape).demand;
        let left: BTreeSet<NodeId> = self.pods.leaving().filter_map(|pod| self.pods.get(pod).node()).collect();
        let open = |node: NodeId| {
            // Where something is short and nobody leaves, it stays short.
            let is_short = crate::filter::resources_fit::closes(&self.nodes, node, demand);
            (!is_short || left.contains(&node)) && self.serves(hunt, node) && self.missing(node, demand).is_empty()
        };
        // Where its quotas admit it only nodes that somebody leaves can be such, since no node took it as things are.
        match hunt.is_admitted {
            true => left.iter().copied().any(open),
            false => (0..self.nodes.limit()).map(|i| NodeId(i as u32)).any(open),
        }
    }

    /// The cheapest set with which some node takes the claimant.
    fn best_anywhere(&mut self, hunt: &mut Hunt<'_>, has_room: bool) -> Option<Best> {
        let mut best = self.best_on_nodes(hunt);
        if has_room {
            self.gather_helpers(hunt);
            let going = hunt.helpers.take().unwrap_or_default();
            let placing = if hunt.is_related { Placing::Anywhere } else { Placing::Open };
            self.improve(hunt, &mut best, None, &going, &hunt.shortages, &placing);
            hunt.helpers = Some(going);
        }
        best
    }

    /// The nodes where victims could be, those with the cheapest single pods first. Whether a node serves at all is
    /// asked when it is its turn: most searches end long before the last.
    fn promising_nodes(&self, hunt: &Hunt<'_>) -> BinaryHeap<Reverse<Promising>> {
        let mut nodes = Vec::new();
        let mut known = (QuotaOf::None, hunt.rights.might_take_below(QuotaOf::None));
        let reserved: BTreeSet<NodeId> = hunt.takeable.iter().filter_map(|pod| self.stands_on(*pod)).collect();
        for i in 0..self.nodes.limit() {
            let node = NodeId(i as u32);
            let residents = self.pods.on_node(node).iter().filter(|resident| {
                if resident.quota != known.0 {
                    known = (resident.quota, hunt.rights.might_take_below(resident.quota));
                }
                !resident.leaving && i64::from(resident.priority) < known.1
            });
            let cheapest = residents.map(|resident| (resident.priority, Reverse(resident.created))).min();
            // Where its place depends on others those may be anywhere; and reservations cost nothing.
            let first = (i32::MIN, Reverse(Created(i64::MAX)));
            let least = match hunt.is_related && hunt.local.is_none() || reserved.contains(&node) {
                true => Some(first),
                false => cheapest.filter(|_| !hunt.reservations_only),
            };
            nodes.extend(least.map(|(priority, created)| Reverse((priority, created, self.nodes.rank(node), node))));
        }
        BinaryHeap::from(nodes)
    }

    /// The cheapest set on some node.
    fn best_on_nodes(&mut self, hunt: &mut Hunt<'_>) -> Option<Best> {
        let mut best: Option<Best> = None;
        let mut nodes = self.promising_nodes(hunt);
        while let Some(Reverse((priority, created, _, node))) = nodes.pop() {
            if let Some(Best { cost: least, .. }) = &best
                && (least.counts.violations, least.counts.entitled, least.counts.gangs) == (0, 0, 0)
            {
                // A set with a victim on this node costs at least what its cheapest pod does.
                let known = (least.counts.priority, least.counts.count, Reverse(least.created[0]));
                if (priority, 1, created) > known {
                    if least.counts.count == 1 {
                        break;
                    }
                    continue;
                }
                let older = priority == least.counts.priority && created.0 < least.created[0];
                if older && !self.could_do_with_fewer(&hunt.question, node, least.counts.count as usize) {
                    continue;
                }
            }
            if self.serves(hunt, node) {
                self.improve_on_node(hunt, &mut best, node);
            }
        }
        best
    }

    fn improve_on_node(&mut self, hunt: &mut Hunt<'_>, best: &mut Option<Best>, node: NodeId) {
        let demand = &self.shapes.get(hunt.question.shape).demand;
        let missing = self.missing(node, demand);
        if !hunt.is_related {
            self.improve_by(hunt, best, node, missing);
            return;
        }
        if !self.closed_by(&hunt.question, node).is_some_and(Filter::opens_by_eviction) {
            return;
        }
        for company in self.missing_company(hunt.rights.claimant, &hunt.question, node) {
            self.improve_by(hunt, best, node, missing.iter().cloned().chain(company).collect());
        }
    }

    /// Looks for victims who give what is missing on a node, and what ledgers are short of.
    fn improve_by(&mut self, hunt: &mut Hunt<'_>, best: &mut Option<Best>, node: NodeId, missing: Missing) {
        if missing.is_empty() {
            return;
        }
        let placing = if hunt.is_related { Placing::Node(node) } else { Placing::Open };
        if let Some(Best { cost, .. }) = &best
            && !hunt.is_related
            && !self.could_be_cheaper(hunt, node, &missing, cost)
        {
            return;
        }
        let local = self.going_for(hunt, node, &missing);
        if hunt.shortages.is_empty() {
            self.improve(hunt, best, Some(node), &local, &missing, &placing);
            return;
        }
        // What the node alone costs is the least. Where those on it cover the ledgers at no more than that, nobody
        // elsewhere makes it cheaper.
        let mut alone: Option<Best> = None;
        self.improve(hunt, &mut alone, Some(node), &local, &missing, &Placing::Untried);
        let Some(alone) = alone else { return };
        if best.as_ref().is_some_and(|best| best.cost.counts < alone.cost.counts) {
            return;
        }
        let here = match self.suffices(hunt, node, &alone, &placing) {
            true => Some(alone),
            false => self.best_with_ledgers(hunt, node, local, missing, alone.cost.counts, &placing),
        };
        if let Some(here) = here
            && best.as_ref().is_none_or(|best| here.cost < best.cost)
        {
            *best = Some(here);
        }
    }

    /// The cheapest set that gives what is missing on a node and in ledgers, of those on the node if it costs no more
    /// than `least`, and else of all.
    fn best_with_ledgers(
        &mut self,
        hunt: &mut Hunt<'_>,
        node: NodeId,
        mut going: Vec<Going>,
        mut missing: Missing,
        least: Counts,
        placing: &Placing,
    ) -> Option<Best> {
        missing.extend(hunt.shortages.iter().cloned());
        let mut here: Option<Best> = None;
        self.improve(hunt, &mut here, Some(node), &going, &missing, placing);
        if here.as_ref().is_none_or(|here| here.cost.counts > least) {
            self.gather_helpers(hunt);
            let known: BTreeSet<_> = going.iter().map(Going::number).collect();
            let helpers = hunt.helpers.iter().flatten();
            going.extend(helpers.filter(|goes| !known.contains(&goes.number())).cloned());
            self.improve(hunt, &mut here, Some(node), &going, &missing, placing);
        }
        here
    }

    /// Keeps what is cheaper than the best so far, if these can give what is missing.
    fn improve(
        &mut self,
        hunt: &Hunt<'_>,
        best: &mut Option<Best>,
        node: Option<NodeId>,
        going: &[Going],
        missing: &Missing,
        placing: &Placing,
    ) {
        let found = self.solve(hunt, node, going, missing, placing, best.as_ref().map(|best| &best.cost));
        if let Some((found, going)) = found {
            *best = Some(Best { cost: found.cost, node, going, at_least: found.at_least });
        }
    }

    /// Those on a node, and those elsewhere who are in the way there, that may go.
    fn going_for(&self, hunt: &Hunt<'_>, node: NodeId, missing: &Missing) -> Vec<Going> {
        let residents = self.pods.on_node(node).iter().filter(|resident| hunt.rights.might_take(resident));
        let mut pods: Vec<PodId> = residents.map(|resident| resident.id).collect();
        for (short, _) in missing {
            if let Short::Pods(elsewhere) = short {
                pods.extend(elsewhere.iter().copied().filter(|pod| self.pods.get(*pod).node().is_some()));
            }
        }
        let is_in_the_way =
            |pod: PodId| missing.iter().any(|(short, _)| matches!(short, Short::Pods(pods) if pods.contains(&pod)));
        self.all_going(hunt, pods, |claimant| self.stands_on(claimant) == Some(node) || is_in_the_way(claimant))
    }

    /// The victims that would help in ledgers, wherever they are.
    fn gather_helpers(&self, hunt: &mut Hunt<'_>) {
        if hunt.helpers.is_some() {
            return;
        }
        let own = self.pods.get(hunt.rights.claimant).quotas.iter();
        let quotas = own.chain(&hunt.rights.drawable);
        let pods = match hunt.rights.has_quota() {
            true => quotas.flat_map(|quota| self.quotas.get(*quota).pods.iter().map(|senior| senior.pod)).collect(),
            // Its victims have no quota either, and yet some queue above that says something may be above both.
            false => {
                let below = hunt.rights.might_take_below(QuotaOf::None);
                let lower = self.pods.placed().filter(|(_, pod)| i64::from(pod.priority) < below);
                lower
                    .filter(|(_, pod)| matches!(pod.quota, QuotaOf::None | QuotaOf::Plain(_)))
                    .map(|(id, _)| id)
                    .collect()
            }
        };
        let mut helpers = self.all_going(hunt, pods, |_| true);
        helpers.retain(|goes| hunt.shortages.iter().any(|(short, _)| self.given(short, goes) > 0));
        hunt.helpers = Some(helpers);
    }

    /// Of these pods those that may go, each alone or with its gang, and of the reservations those that may be taken
    /// over, those of a gang that is to start together.
    fn all_going(&self, hunt: &Hunt<'_>, mut pods: Vec<PodId>, is_near: impl Fn(PodId) -> bool) -> Vec<Going> {
        pods.sort_unstable();
        pods.dedup();
        let mut going = Vec::new();
        let mut gangs: BTreeSet<GangId> = BTreeSet::new();
        if !hunt.reservations_only {
            // One on a node that does not exist gives back what it holds in ledgers like any other.
            let is_there = |pod: &PodId| {
                let pod = self.pods.get(*pod);
                !pod.is_leaving() && pod.node().is_some()
            };
            let mut parties: BTreeSet<BTreeSet<PodId>> = BTreeSet::new();
            for pod in pods.into_iter().filter(is_there) {
                going.extend(self.going(&hunt.rights, pod));
                parties.extend(self.sharers(pod));
                gangs.extend(self.pods.get(pod).gang.filter(|gang| self.is_running_gang(*gang)));
            }
            going.extend(parties.iter().filter_map(|party| self.going_sharers(&hunt.rights, party)));
        }
        going.extend(gangs.into_iter().filter_map(|gang| self.going_gang(&hunt.rights, gang)));
        let mut to_start: BTreeSet<GangId> = BTreeSet::new();
        for claimant in hunt.takeable.iter().copied().filter(|claimant| is_near(*claimant)) {
            match self.pods.get(claimant).gang.filter(|_| self.is_of_gang_to_start(claimant)) {
                Some(gang) => _ = to_start.insert(gang),
                None => going.extend(self.going(&hunt.rights, claimant)),
            }
        }
        going.extend(to_start.into_iter().filter_map(|gang| self.going_reserved_gang(&hunt.rights, gang)));
        self.keep_permitted(&hunt.rights, &mut going);
        going
    }

    /// Keeps those who may go, each by itself. It is asked once of those who are alike, of whom there may be hundreds.
    fn keep_permitted(&self, rights: &Rights, going: &mut Vec<Going>) {
        const KINDS_MAX: usize = 8;
        let mut kinds: Vec<(Going, bool)> = Vec::new();
        going.retain(|goes| {
            // What a gang or a mark says is said of a pod.
            if goes.gang.is_some() || goes.is_party || goes.quotas.iter().any(|quota| self.quotas.marks_pods(*quota)) {
                return self.permits(rights, &[goes]);
            }
            if let Some((_, is_permitted)) = kinds.iter().find(|(kind, _)| kind.is_alike(goes)) {
                return *is_permitted;
            }
            let is_permitted = self.permits(rights, &[goes]);
            if kinds.len() < KINDS_MAX {
                kinds.push((goes.clone(), is_permitted));
            }
            is_permitted
        });
    }

    /// Whether fewer than so many victims could do on the node, by the largest pod there alone.
    fn could_do_with_fewer(&self, question: &Question, node: NodeId, count: usize) -> bool {
        let residents = self.pods.on_node(node);
        if residents.iter().any(|resident| resident.leaving) {
            return true;
        }
        let demand = &self.shapes.get(question.shape).demand;
        demand.amounts.iter().all(|(resource, amount)| {
            let missing = i128::from(*amount) - i128::from(self.nodes.free(*resource, node));
            let gift = |resident: &Resident| self.shapes.get(resident.shape).demand.get(*resource);
            let largest = i128::from(residents.iter().map(gift).max().unwrap_or(0));
            missing <= 0 || largest * (count as i128 - 1) >= missing
        })
    }

    /// Whether victims on the node could be cheaper than a set that is known, by a look at who is there and how large
    /// they are.
    fn could_be_cheaper(&self, hunt: &Hunt<'_>, node: NodeId, missing: &Missing, least: &Cost) -> bool {
        let (known, rights) = (&least.counts, &hunt.rights);
        if known.violations > 0 || known.entitled > 0 || known.gangs > 0 || !hunt.takeable.is_empty() {
            return true;
        }
        let residents = self.pods.on_node(node).iter();
        let mut eligible: Vec<&Resident> =
            residents.filter(|r| r.priority <= known.priority && rights.might_take(r)).collect();
        let (mut count_min, mut lower_will_do) = (1, true);
        let mut gifts: Vec<i128> = Vec::new();
        for (short, amount) in missing {
            let gives = |resident: &Resident| {
                let demand = &self.shapes.get(resident.shape).demand;
                match short {
                    Short::Cap(..) if !demand.capped => 0,
                    _ => short.resource().map_or(0, |resource| i128::from(demand.get(resource))),
                }
            };
            let lower = eligible.iter().filter(|r| r.priority < known.priority);
            lower_will_do &= lower.map(|r| gives(r)).sum::<i128>() >= *amount;
            gifts.clear();
            gifts.extend(eligible.iter().map(|resident| gives(resident)));
            gifts.sort_unstable_by(|a, b| b.cmp(a));
            let (mut sum, mut count) = (0, 0);
            while sum < *amount {
                let Some(gift) = gifts.get(count) else { return false };
                sum += gift;
                count += 1;
            }
            count_min = count_min.max(count);
        }
        if lower_will_do || count_min < known.count as usize {
            return true;
        }
        if count_min > known.count as usize {
            return false;
        }
        eligible.sort_unstable_by_key(|resident| Reverse(resident.created));
        let youngest = eligible.iter().take(known.count as usize).map(|resident| resident.created);
        match youngest.cmp(least.created.iter().copied()) {
            Ordering::Greater => true,
            Ordering::Less => false,
            // Pods that were made at the same time go by their names: no set has a lower one than the lowest here.
            Ordering::Equal => {
                let (oldest, lowest) = (least.created.last(), least.names.first());
                let mut alike = eligible.iter().filter(|resident| Some(&resident.created) >= oldest);
                alike.any(|resident| {
                    let pod = self.pods.get(resident.id);
                    lowest.is_none_or(|lowest| (&pod.namespace, &pod.name) <= (&lowest.namespace, &lowest.name))
                })
            }
        }
    }

    /// The best node for the claimant once these and all who leave are gone.
    pub(crate) fn best_node_without(&mut self, claimant: Attempt<'_>, going: &[Going]) -> Option<NodeId> {
        let leaving = self.leaving_pods();
        let lifted = self.lift(&leaving);
        let gone = self.lift_going(claimant.pod, going);
        let node = self.open_node(claimant);
        self.put_back_going(gone);
        self.put_back(lifted);
        node
    }

    /// All who leave, those on nodes that are gone too: they count in their quotas until they are gone themselves.
    pub fn leaving_pods(&self) -> Vec<PodId> {
        self.pods.leaving().filter(|id| self.pods.get(*id).node().is_some()).collect()
    }

    pub(crate) fn is_open<'a>(&mut self, attempt: impl Into<Attempt<'a>>, node: NodeId) -> bool {
        let attempt = attempt.into();
        let question = self.question(attempt);
        self.closed_by(&question, node).is_none() && self.refusals_on(attempt, node).is_empty()
    }

    /// Whether the node takes the pod once all who leave are gone.
    pub fn takes_once_left(&mut self, attempt: Attempt<'_>, node: NodeId) -> bool {
        let leaving = self.leaving_pods();
        if leaving.is_empty() {
            return false;
        }
        let lifted = self.lift(&leaving);
        let open = self.is_open(attempt, node);
        self.put_back(lifted);
        open
    }

    /// The best node that takes the claimant as things stand.
    fn open_node(&mut self, claimant: Attempt<'_>) -> Option<NodeId> {
        if !self.refusals(claimant).is_empty() {
            return None;
        }
        let question = self.question(claimant);
        match self.scan(&question) {
            Answer::Node(node) => Some(node),
            Answer::Nowhere(_) => None,
        }
    }

    /// Takes pods off their nodes for a look at what would be.
    pub fn lift(&mut self, ids: &[PodId]) -> Vec<(PodId, Place)> {
        let mut effects = Effects::tentative();
        let mut lifted = Vec::new();
        for id in ids {
            let place = self.pods.get(*id).place;
            if place != Place::Waiting {
                self.leave(*id, Place::Waiting, &mut effects);
                lifted.push((*id, place));
            }
        }
        lifted
    }

    pub fn put_back(&mut self, lifted: Vec<(PodId, Place)>) {
        let mut effects = Effects::tentative();
        for (id, place) in lifted {
            if self.pods.get(id).place == Place::Waiting {
                self.enter(id, place, &mut effects);
            }
        }
    }
}
