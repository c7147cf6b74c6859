//! What is asked of a set of victims beside amounts: that they may go together, that the claimant has its place then,
//! and that none of them could come back for it.

use std::collections::BTreeSet;

use crate::cards::CardChoices;
use crate::nodes::NodeId;
use crate::pods::{Place, Pod, PodId};
use crate::policy::{QuotaId, Quotas, Strength};
use crate::preempt::cost::Cost;
use crate::preempt::loops::{Class, Victims};
use crate::preempt::missing::{Missing, Short};
use crate::preempt::rights::{Going, Rights};
use crate::preempt::search::{Found, Rules, cheapest};
use crate::preempt::{Best, Hunt};
use crate::relations::Effects;
use crate::shape::Shapes;
use crate::sign::Sign;
use crate::world::World;

/// What the claimant's place depends on.
#[derive(Debug, Clone)]
pub(crate) enum Placing {
    /// Amounts alone; and nothing speaks against a set, since it is a bound and not a plan.
    Untried,
    /// Amounts alone.
    Open,
    /// The filters of one node.
    Node(NodeId),
    /// The filters of some node.
    Anywhere,
    /// All pods of a gang, each on its node.
    Gang(Vec<(PodId, NodeId)>),
}

/// What was lifted for a look.
pub(crate) struct Lifted {
    pods: Vec<(PodId, Place)>,
    reservations: Vec<PodId>,
    /// The quotas before what they may hold was worked out for the look.
    quotas: Option<Box<Quotas>>,
}

struct SetRules<'a> {
    world: &'a mut World,
    rights: &'a Rights,
    choices: &'a CardChoices,
    going: &'a [Going],
    node: Option<NodeId>,
    placing: &'a Placing,
}

impl SetRules<'_> {
    fn chosen(&self, set: &[usize]) -> Vec<Going> {
        set.iter().map(|at| self.going[*at].clone()).collect()
    }
}

impl Rules for SetRules<'_> {
    fn permits(&mut self, set: &[usize]) -> bool {
        let chosen: Vec<&Going> = set.iter().map(|at| &self.going[*at]).collect();
        self.world.permits(self.rights, &chosen)
    }

    fn fits(&mut self, set: &[usize]) -> bool {
        let (claimant, attempt) = (self.rights.claimant, self.choices.attempt(self.rights.claimant));
        match self.placing {
            Placing::Untried | Placing::Open => true,
            Placing::Node(node) => {
                let (node, chosen) = (*node, self.chosen(set));
                let lifted = self.world.lift_going(claimant, &chosen);
                let open = self.world.is_open(attempt, node);
                self.world.put_back_going(lifted);
                open
            }
            Placing::Anywhere => self.world.best_node_without(attempt, &self.chosen(set)).is_some(),
            Placing::Gang(places) => {
                let lifted = self.world.lift_going(claimant, &self.chosen(set));
                let open = self.world.takes_all(places, self.choices);
                self.world.put_back_going(lifted);
                open
            }
        }
    }

    fn is_vetoed(&mut self, set: &[usize]) -> bool {
        let chosen = self.chosen(set);
        let places = match self.placing {
            Placing::Untried => return false,
            Placing::Gang(places) => places.clone(),
            _ => self.node.map(|node| vec![(self.rights.claimant, node)]).unwrap_or_default(),
        };
        let claimants = match places.is_empty() {
            true => vec![self.rights.claimant],
            false => places.iter().map(|(pod, _)| *pod).collect(),
        };
        let keeps = self.world.keeps_from(&claimants, &chosen);
        let keeps = keeps.or_else(|| self.world.evicts_back(&claimants, self.choices, places, &chosen));
        // What stands against a set of a guarantee is another guarantee: that is said.
        let is_guaranteed = chosen.iter().all(|goes| goes.right.strength == Strength::Guarantee);
        let stops = keeps.as_ref().filter(|_| is_guaranteed).and_then(|quotas| quotas.first());
        self.world.stopped_by = self.world.stopped_by.or(stops.copied());
        keeps.is_some()
    }
}

impl World {
    /// The cheapest of those who may go that give what is missing, if it is cheaper than `below`.
    pub(super) fn solve(
        &mut self,
        hunt: &Hunt<'_>,
        node: Option<NodeId>,
        going: &[Going],
        missing: &Missing,
        placing: &Placing,
        below: Option<&Cost>,
    ) -> Option<(Found, Vec<Going>)> {
        if going.is_empty() {
            return None;
        }
        let alone = |pod: PodId| match placing {
            Placing::Untried | Placing::Open => false,
            Placing::Gang(_) => hunt.is_related,
            _ => self.bears_on(&hunt.question, pod),
        };
        let problem = self.problem(&hunt.rights, going, missing, &alone);
        let mut rules = SetRules { world: self, rights: &hunt.rights, choices: &hunt.choices, going, node, placing };
        let found = cheapest(&problem, &mut rules, below)?;
        let chosen = rules.chosen(&found.set);
        Some((found, chosen))
    }

    /// Whether what was found for a node without regard to ledgers and other pods will do with regard to them. Then it
    /// is the cheapest with regard to them, too.
    pub(super) fn suffices(&mut self, hunt: &Hunt<'_>, node: NodeId, found: &Best, placing: &Placing) -> bool {
        let given = |short: &Short| found.going.iter().map(|goes| self.given(short, goes)).sum::<i128>();
        if found.at_least.is_some() || hunt.shortages.iter().any(|(short, amount)| given(short) < *amount) {
            return false;
        }
        let set: Vec<usize> = (0..found.going.len()).collect();
        let Hunt { rights, choices, .. } = hunt;
        let mut rules = SetRules { world: self, rights, choices, going: &found.going, node: Some(node), placing };
        rules.fits(&set) && !rules.is_vetoed(&set)
    }

    /// What makes pods alike in who may evict whom.
    pub fn class(&self, pod: PodId) -> Class {
        class_of(self.pods.get(pod), &self.shapes)
    }

    pub fn classes<'a>(&self, pods: impl Iterator<Item = &'a PodId>) -> BTreeSet<Class> {
        pods.map(|pod| self.class(*pod)).collect()
    }

    /// A pod was evicted, and may come back.
    pub fn expect_back(&mut self, victim: PodId) {
        let World { takings, pods, shapes, .. } = self;
        takings.expect(pods.get(victim), || class_of(pods.get(victim), shapes));
    }

    /// A pod goes that was not evicted.
    pub fn note_goes(&mut self, pod: PodId) {
        let World { takings, pods, shapes, .. } = self;
        takings.pod_goes(pods.get(pod), || class_of(pods.get(pod), shapes));
    }

    /// Who took from whom is no longer of interest where all pods of a class are gone for good.
    pub fn forget_ended_classes(&mut self) {
        let mut ended = self.takings.doubtful();
        if ended.is_empty() {
            return;
        }
        for (_, pod) in self.pods.iter() {
            if ended.iter().any(|class| class.priority == pod.priority && class.quotas == pod.quotas) {
                ended.remove(&class_of(pod, &self.shapes));
            }
        }
        ended.iter().for_each(|class| self.takings.forget(class));
    }

    /// The classes of those who go, each with the weakest right by which one of it goes.
    pub fn victims(&self, going: &[Going]) -> Victims {
        let mut victims = Victims::new();
        for goes in going {
            for pod in &goes.pods {
                let strength = victims.entry(self.class(*pod)).or_insert(goes.right.strength);
                *strength = goes.right.strength.min(*strength);
            }
        }
        victims
    }

    /// The quotas of those who keep the claimants from taking so, because it would close a circle.
    fn keeps_from(&self, claimants: &[PodId], going: &[Going]) -> Option<Vec<QuotaId>> {
        let (claimants, victims) = (self.classes(claimants.iter()), self.victims(going));
        self.takings.keeps_from(&claimants, &victims).map(|class| self.saying(&class.quotas))
    }

    fn saying(&self, quotas: &[QuotaId]) -> Vec<QuotaId> {
        quotas.iter().copied().filter(|quota| !self.quotas.is_plain(*quota)).collect()
    }

    /// The quotas of a victim that, if it came back as it is once all is done, could evict the claimant that it went
    /// for, by a right that is not weaker than that by which it goes.
    fn evicts_back(
        &mut self,
        claimants: &[PodId],
        choices: &CardChoices,
        mut places: Vec<(PodId, NodeId)>,
        going: &[Going],
    ) -> Option<Vec<QuotaId>> {
        // Who is less important under the same quota, or without one, cannot, unless another quota entitles it to.
        let could_return = |goes: &&Going| goes.right.from.is_some() || goes.quotas.len() > 1;
        let reclaimed: Vec<&Going> = going.iter().filter(could_return).collect();
        if reclaimed.is_empty() {
            return None;
        }
        if places.is_empty() {
            let node = self.best_node_without(choices.attempt(claimants[0]), going);
            places.extend(node.map(|node| (claimants[0], node)));
        }
        // Those who leave stay where they are: who may evict whom goes by what will be held when they are gone.
        let lifted = self.lift_going(claimants[0], going);
        let mut effects = Effects::tentative();
        for (claimant, node) in &places {
            // No devices are looked for: those of pods that leave are theirs yet.
            let way = choices.attempt(*claimant).choice.and_then(|choice| choice.devices.as_ref());
            let open = way.cloned().unwrap_or_else(|| self.device_bills(*claimant).least.clone());
            if !open.is_empty() {
                self.device_claims.supposed.insert(*claimant, open);
            }
            self.enter(*claimant, Place::Placed(*node), &mut effects);
        }
        let mut harmless: BTreeSet<(Class, bool, Strength)> = BTreeSet::new();
        let mut could = None;
        for goes in &reclaimed {
            let first = goes.pods[0];
            let class = (self.class(first), self.pods.get(first).never_preempts, goes.right.strength);
            if harmless.contains(&class) && !goes.is_whole_gang {
                continue;
            }
            if !places.iter().any(|(claimant, _)| self.could_evict(goes, *claimant)) {
                harmless.insert(class);
            } else if self.could_run_again(first) {
                could = Some(self.saying(&self.pods.get(first).quotas));
                break;
            }
        }
        for (claimant, _) in places.iter().rev() {
            self.leave(*claimant, Place::Waiting, &mut effects);
            self.device_claims.supposed.remove(claimant);
        }
        self.put_back_going(lifted);
        could
    }

    /// Whether some node would fit a pod if it were empty.
    fn could_run_again(&mut self, pod: PodId) -> bool {
        let question = self.question(pod);
        self.nodes.by_name().any(|node| self.could_serve(&question, node))
    }

    /// Whether what is gone, if it came back, could evict a pod that is in place by now, by a right that is not weaker
    /// than that by which it goes.
    fn could_evict(&self, gone: &Going, placed: PodId) -> bool {
        if gone.pods.iter().any(|pod| self.pods.get(*pod).never_preempts) {
            return false;
        }
        let priority = gone.pods.iter().map(|pod| self.pods.get(*pod).priority).min().unwrap_or(i32::MIN);
        let rights = self.rights(gone.pods[0], priority, gone.charge.clone());
        let gang = self.pods.get(placed).gang.filter(|gang| self.is_running_gang(*gang));
        let goes = self.going(&rights, placed).or_else(|| self.going_gang(&rights, gang?));
        goes.is_some_and(|goes| goes.right.strength >= gone.right.strength && self.permits(&rights, &[&goes]))
    }

    /// Takes what goes away for a look: pods off their nodes, and reservations. Where pods outside a tree go for one of
    /// its own, what the tree shares out is worked out anew.
    pub(super) fn lift_going(&mut self, claimant: PodId, going: &[Going]) -> Lifted {
        let pods: Vec<PodId> =
            going.iter().filter(|goes| !goes.is_reservation).flat_map(|goes| goes.pods.clone()).collect();
        let reservations: Vec<PodId> =
            going.iter().filter(|goes| goes.is_reservation).flat_map(|goes| goes.pods.clone()).collect();
        for claimant in &reservations {
            self.count_reservation(*claimant, Sign::Take);
        }
        let pods = self.lift(&pods);
        let is_in_tree = |pod: PodId| self.quotas.is_any_shared_out(&self.pods.get(pod).quotas);
        let grows = is_in_tree(claimant) && pods.iter().any(|(pod, _)| !is_in_tree(*pod));
        let quotas = grows.then(|| Box::new(Quotas::clone(&self.quotas)));
        if grows {
            self.quotas.refresh();
        }
        Lifted { pods, reservations, quotas }
    }

    pub(super) fn put_back_going(&mut self, lifted: Lifted) {
        if let Some(quotas) = lifted.quotas {
            *self.quotas = *quotas;
        }
        self.put_back(lifted.pods);
        for claimant in lifted.reservations {
            self.count_reservation(claimant, Sign::Add);
        }
    }

    /// Whether pods can be placed one after the other, each on its node.
    pub fn takes_all(&mut self, places: &[(PodId, NodeId)], choices: &CardChoices) -> bool {
        let mut effects = Effects::tentative();
        let mut placed = 0;
        for (pod, node) in places {
            if !self.is_open(choices.attempt(*pod), *node) {
                break;
            }
            self.enter(*pod, Place::Assumed(*node), &mut effects);
            placed += 1;
        }
        for (pod, _) in places[..placed].iter().rev() {
            self.leave(*pod, Place::Waiting, &mut effects);
        }
        placed == places.len()
    }
}

fn class_of(pod: &Pod, shapes: &Shapes) -> Class {
    Class { quotas: pod.quotas.clone(), priority: pod.priority, charge: shapes.get(pod.shape).class_charge() }
}
