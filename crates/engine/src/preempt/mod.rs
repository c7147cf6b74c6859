//! Preemption: the cheapest pods, anywhere, whose going lets a claimant run.

pub(crate) mod cost;
pub(crate) mod cover;
pub(crate) mod missing;
pub(crate) mod right;

use crate::fact::Created;
use crate::filter::{Filter, resources_fit};
use crate::nodes::NodeId;
use crate::place::Question;
use crate::pods::{Place, PodId, Resident};
use crate::policy::{Ask, Shortage};
use crate::preempt::cost::Cost;
use crate::preempt::cover::{Allowances, Victim};
use crate::preempt::missing::Short;
use crate::preempt::right::Rights;
use crate::relations::Effects;
use crate::world::World;

/// What a search for victims comes to.
#[derive(Debug, Clone)]
pub(crate) enum Outcome {
    /// These go, and the claimant gets the node.
    Plan(Plan),
    /// Pods that leave already make room: nobody need go.
    Wait,
    /// No set of victims would do.
    Hopeless,
}

#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub node: NodeId,
    /// By namespace and name.
    pub victims: Vec<PodId>,
    /// The victims that pass over a disruption budget.
    pub violating: Vec<PodId>,
}

/// Up to so many possible victims in the whole cluster every set of them is tried, where more than amounts are short.
const EXACT_MAX: usize = 12;

/// Beyond that, at most so many nodes are looked at closely.
const NODES_MAX: usize = 64;

/// Up to so many victims are put into one exact search on a node; beyond that those elsewhere are taken one by one.
const TOGETHER_MAX: usize = 24;

/// What ledgers are short of, and the victims that would help there, wherever they are.
struct LedgerNeed {
    shortages: Vec<Shortage>,
    /// The cheapest first; `None` while those on a node are looked at alone.
    helpers: Option<Vec<Victim>>,
}

impl World {
    /// Looks for the cheapest victims for a claimant that no node takes, or that its quotas refuse.
    pub fn find_victims(&mut self, claimant: PodId, question: &Question) -> Outcome {
        let mut rights = self.rights(claimant, &self.asked_charge(claimant));
        let cheapest = match self.search(&rights, question) {
            Outcome::Plan(plan) if self.breaks_a_gang(&plan.victims) => plan,
            // Who spares gangs finds nothing cheaper.
            other => return self.without_return(other, claimant),
        };
        // A gang goes whole where that is cheaper than to spare it, or where nothing else will do.
        let whole = self.with_whole_gangs(&rights, cheapest);
        rights.spares_gangs = true;
        let sparing = self.search(&rights, question);
        let outcome = match (sparing, whole) {
            (Outcome::Plan(sparing), Some(whole)) => {
                let cheaper = self.cost_of(&rights, &whole) < self.cost_of(&rights, &sparing);
                Outcome::Plan(if cheaper { whole } else { sparing })
            }
            (Outcome::Hopeless, Some(whole)) => Outcome::Plan(whole),
            (sparing, _) => sparing,
        };
        self.without_return(outcome, claimant)
    }

    pub fn breaks_a_gang(&self, victims: &[PodId]) -> bool {
        let mut gangs = victims.iter().filter_map(|pod| self.pods.get(*pod).gang);
        gangs.any(|gang| self.breaks(gang, victims))
    }

    /// A pod that was evicted must not be able to evict its evictor: where queues compare several resources a victim
    /// may be owed one of them while the claimant is owed another, and then nobody goes.
    fn without_return(&mut self, outcome: Outcome, claimant: PodId) -> Outcome {
        match outcome {
            Outcome::Plan(plan) if self.has_queue(claimant) => {
                let returns = self.could_evict_back(&plan.victims, claimant, plan.node);
                if returns { Outcome::Hopeless } else { Outcome::Plan(plan) }
            }
            other => other,
        }
    }

    pub fn has_queue(&self, pod: PodId) -> bool {
        self.pods.get(pod).quotas.iter().any(|quota| self.quotas.entitles_in_part(*quota))
    }

    /// The pods that go with these, since their gangs fall below their minimum, each with the one that it goes with.
    /// `None` if one of them may not go.
    pub fn rest_of_gangs(&self, victims: &[PodId]) -> Option<Vec<(PodId, PodId)>> {
        let mut rest = Vec::new();
        let mut seen = Vec::new();
        for victim in victims {
            let Some(gang) = self.pods.get(*victim).gang.filter(|gang| !seen.contains(gang)) else { continue };
            seen.push(gang);
            let known = self.gangs.get(gang);
            let stays: Vec<PodId> =
                known.settled(&self.pods).map(|(id, _)| id).filter(|id| !victims.contains(id)).collect();
            if !known.is_gang() || known.is_enough(stays.iter().map(|id| self.pods.get(*id))) {
                continue;
            }
            for pod in stays {
                let placed = matches!(self.pods.get(pod).place, Place::Placed(_));
                if self.pods.get(pod).is_kept() || !placed {
                    return None;
                }
                rest.push((pod, *victim));
            }
        }
        Some(rest)
    }

    /// A plan with the rest of the gangs that it breaks, if they may go.
    fn with_whole_gangs(&mut self, rights: &Rights, mut plan: Plan) -> Option<Plan> {
        let rest = self.rest_of_gangs(&plan.victims)?;
        if rest.is_empty() {
            return Some(plan);
        }
        if rest.iter().any(|(pod, _)| self.right(rights, *pod).is_none()) {
            return None;
        }
        plan.victims.extend(rest.iter().map(|(pod, _)| *pod));
        let reclaims =
            plan.victims.iter().any(|pod| self.right(rights, *pod).is_some_and(|right| right.from.is_some()));
        if reclaims && !self.spares_guarantees(rights.claimant, &plan.victims) {
            return None;
        }
        let mut allowances = Allowances::default();
        let victims = plan.victims.iter().map(|pod| self.victim(rights, *pod, &[], &[], &mut allowances)).collect();
        Some(self.plan(plan.node, victims, &allowances))
    }

    fn cost_of(&self, rights: &Rights, plan: &Plan) -> Cost {
        let mut allowances = Allowances::default();
        let victims: Vec<Victim> =
            plan.victims.iter().map(|pod| self.victim(rights, *pod, &[], &[], &mut allowances)).collect();
        let mut cost = cover::cost(victims.iter(), &allowances);
        let gangs = plan.victims.iter().filter_map(|pod| self.pods.get(*pod).gang);
        let gangs: std::collections::BTreeSet<_> = gangs.filter(|gang| self.breaks(*gang, &plan.victims)).collect();
        cost.gangs = gangs.len() as u32;
        cost
    }

    /// Whether a gang falls below its minimum when these go.
    pub fn breaks(&self, gang: crate::gangs::GangId, victims: &[PodId]) -> bool {
        let known = self.gangs.get(gang);
        let stays = known.settled(&self.pods).filter(|(id, _)| !victims.contains(id)).map(|(_, pod)| pod);
        known.is_gang() && known.is_started() && !known.is_enough(stays)
    }

    fn search(&mut self, rights: &Rights, question: &Question) -> Outcome {
        let shape = self.shapes.get(question.shape);
        let amounts_only = shape.spec().ports.is_empty()
            && shape.spec().volumes.is_empty()
            && !shape.is_bound_to_others()
            && !question.has_objections();
        if amounts_only { self.cover_amounts(rights, question) } else { self.try_sets(rights) }
    }

    /// Whether a pod can be a victim of the claimant's at all.
    fn is_victim(&self, rights: &Rights, victim: PodId) -> bool {
        let pod = self.pods.get(victim);
        matches!(pod.place, Place::Placed(node) if self.nodes.is_present(node))
            && !pod.is_leaving()
            && self.right(rights, victim).is_some()
    }

    /// A pod as a victim. `missing` is what is short on its node, if it is on the node in question.
    fn victim(
        &self,
        rights: &Rights,
        id: PodId,
        missing: &[(Short, i128)],
        shortages: &[Shortage],
        allowances: &mut Allowances,
    ) -> Victim {
        let pod = self.pods.get(id);
        let shape = self.shapes.get(pod.shape);
        let mut budgets = Vec::new();
        if !self.budgets.is_empty() {
            for key in self.budgets.of(pod) {
                let at = allowances.keys.iter().position(|k| k == key).unwrap_or_else(|| {
                    allowances.keys.push(key.clone());
                    allowances.allowed.push(self.budgets.allows(key, &self.pods));
                    allowances.keys.len() - 1
                });
                budgets.push(at);
            }
        }
        let on_node = missing.iter().map(|(short, _)| short.given_by(&shape.demand));
        let in_ledgers = shortages.iter().map(|short| match self.quotas.is_charged(short.ledger, &pod.quotas) {
            true => self.charged(id, short.resource),
            false => 0,
        });
        Victim {
            id,
            key: pod.key(),
            priority: pod.priority,
            created: pod.created,
            gives: on_node.chain(in_ledgers).collect(),
            budgets,
            from: self.right(rights, id).and_then(|right| right.from),
            // A queue that says nothing protects nobody.
            entitled: (pod.quotas.iter())
                .filter(|quota| !self.quotas.is_plain(**quota))
                .any(|quota| self.is_within(rights, id, *quota)),
        }
    }

    fn plan(&self, node: NodeId, mut victims: Vec<Victim>, allowances: &Allowances) -> Plan {
        victims.sort_by(|a, b| a.key.cmp(&b.key));
        let mut taken = vec![0u32; allowances.allowed.len()];
        for budget in victims.iter().flat_map(|v| &v.budgets) {
            taken[*budget] += 1;
        }
        let violates = |v: &&Victim| v.budgets.iter().any(|b| taken[*b] > allowances.allowed[*b]);
        let violating = victims.iter().filter(violates).map(|v| v.id).collect();
        Plan { node, violating, victims: victims.into_iter().map(|v| v.id).collect() }
    }

    /// Where amounts alone are short, each node is a question of its own, and what ledgers miss is the same for all.
    fn cover_amounts(&mut self, rights: &Rights, question: &Question) -> Outcome {
        if !rights.could_reclaim()
            && self.pods.least_priority().is_none_or(|least| least >= rights.priority)
            && self.pods.leaving().next().is_none()
        {
            return Outcome::Hopeless; // There is nobody who may go, and nobody who leaves.
        }
        let mut allowances = Allowances::default();
        let mut need = self.ledger_need(rights, &mut allowances);
        let room_without_victims = self.has_room_once_left(question, need.shortages.is_empty());
        if room_without_victims && need.shortages.is_empty() {
            return Outcome::Wait;
        }
        let nodes = self.promising_nodes(rights, question);
        let mut best = self.best_on_nodes(rights, question, &nodes, &need, &mut allowances);
        if best.is_none() && need.helpers.is_none() {
            need.helpers = Some(self.helpers(rights, &need.shortages, &mut allowances));
            best = self.best_on_nodes(rights, question, &nodes, &need, &mut allowances);
        }
        if room_without_victims {
            if need.helpers.is_none() {
                need.helpers = Some(self.helpers(rights, &need.shortages, &mut allowances));
            }
            if let Some(victims) = self.cheapest_for(rights, None, &[], &need, &mut allowances) {
                let cost = cover::cost(victims.iter(), &allowances);
                if best.as_ref().is_none_or(|(least, ..)| cost < *least) {
                    best = Some((cost, None, victims));
                }
            }
        }
        let Some((_, node, victims)) = best else { return Outcome::Hopeless };
        let node = node.or_else(|| self.best_node_without(rights.claimant, &victims));
        node.map_or(Outcome::Hopeless, |node| Outcome::Plan(self.plan(node, victims, &allowances)))
    }

    /// Whether a node takes the claimant once all who leave are gone, as far as the node is concerned. Where the
    /// claimant's
    /// quotas admit it only nodes that somebody leaves can be such, since no node took it as things are.
    fn has_room_once_left(&self, question: &Question, admitted: bool) -> bool {
        let demand = &self.shapes.get(question.shape).demand;
        let open = |node: NodeId| {
            let opens = |resident: &Resident| resident.leaving;
            // Where something is short and nobody leaves, it stays short.
            (!resources_fit::closes(&self.nodes, node, demand) || self.pods.on_node(node).iter().any(opens))
                && self.could_serve(question, node)
                && self.missing_once_left(question, node).is_empty()
        };
        if admitted {
            self.pods.leaving().filter_map(|pod| self.pods.get(pod).node()).any(open)
        } else {
            (0..self.nodes.limit()).map(|i| NodeId(i as u32)).any(open)
        }
    }

    /// The nodes where victims could be, those with the cheapest single pods first.
    fn promising_nodes(&self, rights: &Rights, question: &Question) -> Vec<(i32, std::cmp::Reverse<Created>, NodeId)> {
        let mut nodes = Vec::new();
        for i in 0..self.nodes.limit() {
            let node = NodeId(i as u32);
            let residents = self.pods.on_node(node).iter().filter(|resident| rights.might_take(resident));
            let cheapest = residents.map(|resident| (resident.priority, std::cmp::Reverse(resident.created))).min();
            if let Some((priority, created)) = cheapest
                && self.could_serve(question, node)
            {
                nodes.push((priority, created, node));
            }
        }
        nodes.sort_unstable();
        nodes
    }

    /// The cheapest victims on some node.
    fn best_on_nodes(
        &self,
        rights: &Rights,
        question: &Question,
        nodes: &[(i32, std::cmp::Reverse<Created>, NodeId)],
        need: &LedgerNeed,
        allowances: &mut Allowances,
    ) -> Option<(Cost, Option<NodeId>, Vec<Victim>)> {
        let mut best: Option<(Cost, Option<NodeId>, Vec<Victim>)> = None;
        for (priority, created, node) in nodes {
            if let Some((least, ..)) = &best
                && (least.violations, least.entitled) == (0, 0)
            {
                // A set with a victim on this node costs at least what its cheapest pod does.
                let known = (least.priority, least.count, std::cmp::Reverse(least.created[0]));
                if (*priority, 1, *created) > known {
                    if least.count == 1 {
                        break;
                    }
                    continue;
                }
                let older = *priority == least.priority && created.0 < least.created[0];
                if older && !self.could_do_with_fewer(question, *node, least.count) {
                    continue;
                }
            }
            let missing = self.missing_once_left(question, *node);
            if missing.is_empty() {
                continue;
            }
            if let Some((least, ..)) = &best
                && !self.could_be_cheaper(rights, *node, &missing, least)
            {
                continue;
            }
            let Some(victims) = self.cheapest_for(rights, Some(*node), &missing, need, allowances) else { continue };
            let cost = cover::cost(victims.iter(), allowances);
            if best.as_ref().is_none_or(|(least, ..)| cost < *least) {
                best = Some((cost, Some(*node), victims));
            }
        }
        best
    }

    /// Whether the node could take the claimant if it were empty.
    fn could_serve(&self, question: &Question, node: NodeId) -> bool {
        self.nodes.is_present(node)
            && self.statics.get(question.rule).closed_by(node).is_none()
            && self.would_do_empty(question, node)
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
    /// they
    /// are.
    fn could_be_cheaper(&self, rights: &Rights, node: NodeId, missing: &[(Short, i128)], least: &Cost) -> bool {
        if least.violations > 0 || least.entitled > 0 {
            return true;
        }
        let residents = self.pods.on_node(node).iter();
        let mut eligible: Vec<&Resident> =
            residents.filter(|r| r.priority <= least.priority && rights.might_take(r)).collect();
        let (mut count_min, mut lower_will_do) = (1, true);
        let mut gifts: Vec<i128> = Vec::new();
        for (short, amount) in missing {
            let gives = |resident: &Resident| short.given_by(&self.shapes.get(resident.shape).demand);
            let lower = eligible.iter().filter(|r| r.priority < least.priority);
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
        if lower_will_do || count_min < least.count {
            return true;
        }
        if count_min > least.count {
            return false;
        }
        eligible.sort_unstable_by_key(|resident| std::cmp::Reverse(resident.created));
        let youngest = eligible.iter().take(least.count).map(|resident| resident.created);
        youngest.cmp(least.created.iter().copied()).is_ge()
    }

    /// What is missing on a node once the pods that leave it are gone.
    fn missing_once_left(&self, question: &Question, node: NodeId) -> Vec<(Short, i128)> {
        let demand = &self.shapes.get(question.shape).demand;
        let mut missing = self.missing(node, demand);
        if missing.is_empty() {
            return missing;
        }
        for resident in self.pods.on_node(node).iter().filter(|resident| resident.leaving) {
            let leaving = &self.shapes.get(self.pods.get(resident.id).shape).demand;
            missing.iter_mut().for_each(|(short, amount)| *amount -= short.given_by(leaving));
        }
        missing.retain(|(_, amount)| *amount > 0);
        missing
    }

    fn ledger_need(&self, rights: &Rights, allowances: &mut Allowances) -> LedgerNeed {
        let pod = self.pods.get(rights.claimant);
        let ask = Ask { charge: &rights.charge, non_preemptible: pod.non_preemptible };
        let shortages = self.quotas.shortages(&pod.quotas, &ask);
        // Where few could help they are put together with those on a node, so that the cheapest set is found. Where
        // many
        // could, those on a node mostly do, and the others are gathered only if they do not.
        let quotas = pod.quotas.iter().chain(&rights.drawable);
        let pods: usize = quotas.map(|quota| self.quotas.get(*quota).pods.len()).sum();
        let helpers =
            (shortages.is_empty() || pods <= TOGETHER_MAX).then(|| self.helpers(rights, &shortages, allowances));
        LedgerNeed { shortages, helpers }
    }

    /// The victims that would help in ledgers, wherever they are, the cheapest first.
    fn helpers(&self, rights: &Rights, shortages: &[Shortage], allowances: &mut Allowances) -> Vec<Victim> {
        if shortages.is_empty() {
            return Vec::new();
        }
        let own = self.pods.get(rights.claimant).quotas.iter();
        let mut pods: Vec<PodId> = own
            .chain(&rights.drawable)
            .flat_map(|quota| &self.quotas.get(*quota).pods)
            .map(|senior| senior.pod)
            .collect();
        pods.sort_unstable();
        pods.dedup();
        pods.retain(|pod| self.is_victim(rights, *pod));
        let mut helpers: Vec<Victim> =
            pods.iter().map(|pod| self.victim(rights, *pod, &[], shortages, allowances)).collect();
        helpers.retain(|victim| victim.gives.iter().any(|gives| *gives > 0));
        helpers.sort_by(|a, b| {
            let order = |v: &Victim| (v.priority, v.entitled, std::cmp::Reverse(v.created));
            order(a).cmp(&order(b)).then_with(|| a.key.cmp(&b.key))
        });
        helpers
    }

    /// The cheapest victims that free what is missing on a node and what ledgers are short of.
    fn cheapest_for(
        &self,
        rights: &Rights,
        node: Option<NodeId>,
        missing: &[(Short, i128)],
        need: &LedgerNeed,
        allowances: &mut Allowances,
    ) -> Option<Vec<Victim>> {
        let residents = node.map_or(&[][..], |node| self.pods.on_node(node));
        let here: Vec<PodId> = residents
            .iter()
            .filter(|resident| rights.might_take(resident))
            .map(|resident| resident.id)
            .filter(|id| self.is_victim(rights, *id))
            .collect();
        let mut victims: Vec<Victim> =
            here.iter().map(|id| self.victim(rights, *id, missing, &need.shortages, allowances)).collect();
        let helpers = need.helpers.as_deref().unwrap_or_default();
        let elsewhere = || helpers.iter().filter(|helper| !here.contains(&helper.id));
        let from_afar = |helper: &Victim| {
            let nothing = std::iter::repeat_n(0, missing.len());
            Victim { gives: nothing.chain(helper.gives.iter().copied()).collect(), ..helper.clone() }
        };
        let mut amounts: Vec<i128> = missing.iter().map(|(_, amount)| *amount).collect();
        amounts.extend(need.shortages.iter().map(|short| short.amount));
        let may_take = |all: &[Victim], set: &[usize]| {
            let set: Vec<_> = set.iter().map(|i| (all[*i].id, all[*i].from)).collect();
            self.may_take(rights, &set)
        };
        if need.helpers.is_none() || victims.len() + helpers.len() <= TOGETHER_MAX {
            victims.extend(elsewhere().map(from_afar));
            let chosen = cover::cheapest(&victims, &amounts, allowances, &|set| may_take(&victims, set))?;
            return Some(chosen.into_iter().map(|i| victims[i].clone()).collect());
        }
        // Many could help in the ledgers: first the node's own shortage, then one by one the cheapest elsewhere.
        let on_node = &amounts[..missing.len()];
        let mut chosen: Vec<Victim> = if missing.is_empty() {
            Vec::new()
        } else {
            let of_node: Vec<Victim> =
                victims.iter().map(|v| Victim { gives: v.gives[..missing.len()].to_vec(), ..v.clone() }).collect();
            let chosen = cover::cheapest(&of_node, on_node, allowances, &|set| may_take(&victims, set))?;
            chosen.into_iter().map(|i| victims[i].clone()).collect()
        };
        let is_short = |chosen: &[Victim]| {
            let given = |at: usize| chosen.iter().map(|v| v.gives[at]).sum::<i128>();
            (0..amounts.len()).any(|at| given(at) < amounts[at])
        };
        let permits = |chosen: &[Victim]| {
            let set: Vec<_> = chosen.iter().map(|v| (v.id, v.from)).collect();
            self.may_take(rights, &set)
        };
        for helper in elsewhere() {
            if !is_short(&chosen) {
                break;
            }
            chosen.push(from_afar(helper));
            if !permits(&chosen) {
                chosen.pop();
            }
        }
        if is_short(&chosen) {
            return None;
        }
        // What became unnecessary comes back, the last taken first to be looked at last.
        for at in (0..chosen.len()).rev() {
            let without: Vec<Victim> =
                chosen.iter().enumerate().filter(|(i, _)| *i != at).map(|(_, v)| v.clone()).collect();
            if !is_short(&without) {
                chosen = without;
            }
        }
        Some(chosen)
    }

    /// The best node for the claimant once these and all who leave are gone.
    fn best_node_without(&mut self, claimant: PodId, victims: &[Victim]) -> Option<NodeId> {
        let mut ids: Vec<PodId> = victims.iter().map(|v| v.id).collect();
        ids.extend(self.leaving_pods());
        let lifted = self.lift(&ids);
        let node = self.open_node(claimant);
        self.put_back(lifted);
        node
    }

    pub fn leaving_pods(&self) -> Vec<PodId> {
        let on_known_node = |id: &PodId| self.pods.get(*id).node().is_some_and(|node| self.nodes.is_present(node));
        self.pods.leaving().filter(on_known_node).collect()
    }

    /// Where pods are in each other's way for other reasons than amounts, sets of victims are tried for real: taken off
    /// their nodes, looked at, put back.
    fn try_sets(&mut self, rights: &Rights) -> Outcome {
        let leaving = self.leaving_pods();
        let lifted_leaving = self.lift(&leaving);
        let outcome = self.try_sets_without_leaving(rights);
        self.put_back(lifted_leaving);
        outcome
    }

    fn try_sets_without_leaving(&mut self, rights: &Rights) -> Outcome {
        if self.open_node(rights.claimant).is_some() {
            return Outcome::Wait;
        }
        let possible: Vec<PodId> =
            self.pods.placed().map(|(id, _)| id).filter(|id| self.is_victim(rights, *id)).collect();
        let mut allowances = Allowances::default();
        let victims: Vec<Victim> =
            possible.iter().map(|id| self.victim(rights, *id, &[], &[], &mut allowances)).collect();
        if victims.len() <= EXACT_MAX {
            self.try_all_sets(rights, &victims, &allowances)
        } else {
            self.try_nodes(rights, victims, &allowances)
        }
    }

    fn try_all_sets(&mut self, rights: &Rights, victims: &[Victim], allowances: &Allowances) -> Outcome {
        let chosen = |set: u32| victims.iter().enumerate().filter(move |(i, _)| set >> i & 1 == 1).map(|(_, v)| v);
        let may_take = |set: &u32| {
            let set: Vec<_> = chosen(*set).map(|v| (v.id, v.from)).collect();
            self.may_take(rights, &set)
        };
        let mut sets: Vec<(Cost, u32)> = (1u32..1 << victims.len())
            .filter(may_take)
            .map(|set| (cover::cost(chosen(set), allowances), set))
            .collect();
        sets.sort();
        for (_, set) in sets {
            let ids: Vec<PodId> = chosen(set).map(|v| v.id).collect();
            let lifted = self.lift(&ids);
            let open = self.open_node(rights.claimant);
            self.put_back(lifted);
            if let Some(node) = open {
                return Outcome::Plan(self.plan(node, chosen(set).cloned().collect(), allowances));
            }
        }
        Outcome::Hopeless
    }

    /// With many possible victims: node by node, all that are in the way go, and come back one by one, the most
    /// expensive first, while the claimant still fits.
    fn try_nodes(&mut self, rights: &Rights, mut victims: Vec<Victim>, allowances: &Allowances) -> Outcome {
        let claimant = rights.claimant;
        // The most expensive first: those with a budget to pass over, then by priority, then the older.
        victims.sort_by(|a, b| {
            let spent = |v: &Victim| v.budgets.iter().any(|budget| allowances.allowed[*budget] == 0);
            spent(b)
                .cmp(&spent(a))
                .then(b.priority.cmp(&a.priority))
                .then(a.created.cmp(&b.created))
                .then_with(|| b.key.cmp(&a.key))
        });
        let question = self.question(claimant);
        let nodes: Vec<NodeId> = self
            .nodes
            .by_name()
            .filter(|node| self.closed_by(&question, *node).is_some_and(Filter::opens_by_eviction))
            .take(NODES_MAX)
            .collect();
        let mut best: Option<(Cost, NodeId, Vec<Victim>)> = None;
        for node in nodes {
            let elsewhere = self.in_the_way_elsewhere(&question, node);
            let here: Vec<Victim> = victims
                .iter()
                .filter(|v| self.pods.get(v.id).node() == Some(node) || elsewhere.contains(&v.id))
                .cloned()
                .collect();
            let ids: Vec<PodId> = here.iter().map(|v| v.id).collect();
            let lifted = self.lift(&ids);
            let mut gone = here.clone();
            if self.is_open(claimant, node) {
                for victim in &here {
                    self.put_back_one(&lifted, victim.id);
                    if self.is_open(claimant, node) {
                        gone.retain(|v| v.id != victim.id);
                    } else {
                        self.lift(&[victim.id]);
                    }
                }
                let cost = cover::cost(gone.iter(), allowances);
                let set: Vec<_> = gone.iter().map(|v| (v.id, v.from)).collect();
                if best.as_ref().is_none_or(|(least, ..)| cost < *least) && self.may_take(rights, &set) {
                    best = Some((cost, node, gone));
                }
            }
            self.put_back(lifted);
        }
        match best {
            Some((_, node, victims)) => Outcome::Plan(self.plan(node, victims, allowances)),
            None => Outcome::Hopeless,
        }
    }

    /// Pods on other nodes whose going may open this one: those in its domains that spreading or anti-affinity counts.
    fn in_the_way_elsewhere(&self, question: &Question, node: NodeId) -> Vec<PodId> {
        let shape = self.shapes.get(question.shape);
        let rules = shape.spread.iter().map(|s| (s.relation, s.topology));
        let rules = rules.chain(shape.anti_affinity.iter().map(|t| (t.relation, t.topology)));
        let mut found = Vec::new();
        for (relation, topology) in rules {
            let domain = self.topologies.domain(topology, node);
            let near =
                |pod: &PodId| self.pods.get(*pod).node().is_some_and(|n| self.topologies.domain(topology, n) == domain);
            found.extend(self.relations.placed_ids(relation, &self.pods).into_iter().filter(near));
        }
        for (topology, marks) in question.objecting() {
            let domain = self.topologies.domain(topology, node);
            if domain != crate::topology::NO_DOMAIN && marks[domain as usize] {
                for near in self.topologies.members(topology, domain) {
                    let objects = |pod: &PodId| !self.shapes.get(self.pods.get(*pod).shape).holds.is_empty();
                    found.extend(self.pods.on_node(*near).iter().map(|resident| resident.id).filter(objects));
                }
            }
        }
        if crate::filter::volume_restrictions::claim_in_use(shape, &self.volumes) {
            let uses = |pod: &crate::pods::Pod| {
                let other = self.shapes.get(pod.shape);
                other.namespace() == shape.namespace() && other.claims().any(|c| shape.claims().any(|d| c == d))
            };
            found.extend(self.pods.placed().filter(|(_, pod)| uses(pod)).map(|(id, _)| id));
        }
        found
    }

    fn is_open(&mut self, claimant: PodId, node: NodeId) -> bool {
        let question = self.question(claimant);
        self.closed_by(&question, node).is_none() && !self.is_refused(claimant)
    }

    /// Whether a quota of the pod's refuses it.
    fn is_refused(&self, id: PodId) -> bool {
        !self.refusals(id).is_empty()
    }

    /// Whether the node takes the pod once all who leave are gone.
    pub fn takes_once_left(&mut self, id: PodId, node: NodeId) -> bool {
        let leaving = self.leaving_pods();
        if leaving.is_empty() {
            return false;
        }
        let lifted = self.lift(&leaving);
        let open = self.is_open(id, node);
        self.put_back(lifted);
        open
    }

    /// The best node that takes the claimant as things stand.
    fn open_node(&mut self, claimant: PodId) -> Option<NodeId> {
        if self.is_refused(claimant) {
            return None;
        }
        let question = self.question(claimant);
        match self.scan(&question) {
            crate::place::Answer::Node(node) => Some(node),
            crate::place::Answer::Nowhere(_) => None,
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

    fn put_back_one(&mut self, lifted: &[(PodId, Place)], id: PodId) {
        if let Some(entry) = lifted.iter().find(|(lifted, _)| *lifted == id) {
            self.put_back(vec![*entry]);
        }
    }
}
