//! Queues, cards and gangs over random histories: what queues hold, by card too, is what a recount gives; no bind
//! passes a limit at any level; gangs start together and are not broken; nobody loses what it is guaranteed;
//! evictions end; whoever is let in has room, and whoever has room is let in.  The rules are written here once
//! more, naively, over the objects themselves.

use crate::cases;
use crate::samples;
use crate::server;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use cases::cases;
use proptest::prelude::*;
use quotient_engine::fact::*;
use quotient_engine::{Budget, CardSettings, Decision, Engine, Fact, Rule, Settings};
use samples::samples;
use server::{Common, Server, WELL, acts, class_of};

const GPU: &str = "nvidia.com/gpu";
const CARDS: [&str; 2] = ["A", "B"];
/// All that is counted, cards by name.
const COUNTED: [&str; 4] = ["cpu", GPU, "A", "B"];
const QUEUES: [&str; 5] = ["q0", "q1", "q2", "q3", "default"];
const GROUPS: [&str; 4] = ["g0", "g1", "g2", "g3"];
const PODS_MAX: usize = 14;

type GroupKey = (Name, Name);

#[derive(Debug, Clone)]
enum Step {
    Common(Common),
    Queue(QueueFact),
    DropQueue(usize),
    Group(GroupFact),
    DropGroup(usize),
    /// Pods of a group are made.
    Members(usize, Vec<usize>),
}

fn name(text: &str) -> Name {
    Name::from(text)
}

fn key(index: usize) -> QuotaKey {
    let group = name("scheduling.volcano.sh");
    QuotaKey { kind: name("Queue"), group, namespace: name(""), name: name(QUEUES[index]) }
}

/// The queues as the objects have them, worked out from nothing.
struct View<'a> {
    server: &'a Server,
    free_cpu: bool,
}

impl<'a> View<'a> {
    fn queue(&self, named: &str) -> Option<&'a QueueFact> {
        self.server.queues.values().find(|fact| *fact.key.name == *named)
    }

    fn group_of(&self, pod: &PodFact) -> Option<&'a GroupFact> {
        self.server.groups.get(&(pod.namespace.clone(), pod.group.clone()?.name))
    }

    fn named_queue(&self, group: Option<&GroupFact>, pod: Option<&PodFact>) -> Option<Name> {
        let own = group.and_then(|group| group.queue.clone()).or_else(|| pod?.queue.clone());
        own.or_else(|| self.queue("default").map(|fact| fact.key.name.clone()))
    }

    /// The queue of a pod, if it exists.
    fn queue_of(&self, pod: &PodFact) -> Option<&'a QueueFact> {
        self.queue(&self.named_queue(self.group_of(pod), Some(pod))?)
    }

    fn parent(&self, of: &QueueFact) -> Option<&'a QueueFact> {
        let named = |of: &QueueFact| self.queue(of.parent.as_ref()?);
        let parent = named(of)?;
        let mut at = parent;
        for _ in 0..=QUEUES.len() {
            if at.key == of.key {
                return None;
            }
            match named(at) {
                Some(above) => at = above,
                None => break,
            }
        }
        Some(parent)
    }

    fn path(&self, from: &'a QueueFact) -> Vec<&'a QueueFact> {
        std::iter::successors(Some(from), |at| self.parent(at)).collect()
    }

    /// Whether a queue starts nothing: it is closed, or one above it is, or there are queues below it.
    fn is_shut(&self, queue: &'a QueueFact) -> bool {
        let is_parent = self.server.queues.values().any(|other| self.parent(other).is_some_and(|p| p.key == queue.key));
        is_parent || self.path(queue).iter().any(|level| level.closed)
    }

    /// What a queue says it deserves. One that names nothing says nothing.
    fn says_deserved(queue: &QueueFact) -> Option<&Limits> {
        queue.deserved.as_ref().filter(|deserved| !deserved.is_empty())
    }

    fn is_plain(queue: &QueueFact) -> bool {
        queue.capability.is_empty()
            && Self::says_deserved(queue).is_none()
            && queue.guarantee.is_empty()
            && queue.card_quota.is_none()
    }

    /// The card that a pod takes on a node.
    fn card(pod: &PodFact, node: &NodeFact) -> Option<Name> {
        node.cards.first().filter(|card| pod.spec.requests.get(&card.resource) > 0).map(|card| card.name.clone())
    }

    fn card_held(&self, pod: &PodFact) -> Option<Name> {
        Self::card(pod, self.server.nodes.get(self.server.node_of(pod)?)?)
    }

    /// What a pod is charged on a node.
    fn charge(pod: &PodFact, node: &NodeFact) -> Vec<(Name, i128)> {
        let card = Self::card(pod, node).map(|card| (card, pod.spec.requests.get(GPU)));
        pod.spec.requests.iter().cloned().chain(card).map(|(r, amount)| (r, i128::from(amount))).collect()
    }

    fn charged(&self, pod: &PodFact, resource: &str) -> i128 {
        let node = self.server.node_of(pod).and_then(|node| self.server.nodes.get(node));
        let charge = node.map(|node| Self::charge(pod, node)).unwrap_or_default();
        charge.iter().find(|(r, _)| **r == *resource).map_or(0, |(_, amount)| *amount)
    }

    fn is_below(&self, pod: &PodFact, queue: &QueueFact) -> bool {
        self.queue_of(pod).is_some_and(|own| self.path(own).iter().any(|level| level.key == queue.key))
    }

    fn used(&self, queue: &QueueFact, resource: &str, gone: &dyn Fn(&PodFact) -> bool) -> i128 {
        let held = self.server.placed().filter(|pod| self.is_below(pod, queue) && !gone(pod));
        held.map(|pod| self.charged(pod, resource)).sum()
    }

    fn guarantee(queue: &QueueFact, resource: &str) -> i128 {
        i128::from(queue.guarantee.get(resource).unwrap_or(0))
    }

    /// What a queue may hold: its capability, and what the guarantees of those beside it leave of what is above.
    fn most(&self, queue: &'a QueueFact, resource: &str) -> Option<i128> {
        let cards = queue.card_quota.as_ref().filter(|_| CARDS.contains(&resource));
        let named = cards.map(|cards| cards.get(resource).unwrap_or(0));
        let own = [named, queue.capability.get(resource)].into_iter().flatten().min().map(i128::from);
        let parent = self.parent(queue);
        let beside = self
            .server
            .queues
            .values()
            .filter(|other| other.key != queue.key && self.parent(other).map(|p| &p.key) == parent.map(|p| &p.key));
        let others: i128 = beside.map(|other| Self::guarantee(other, resource)).sum();
        if others == 0 {
            return own;
        }
        let total: i128 = self.server.nodes.values().map(|node| Self::on_node(node, resource)).sum();
        let above = parent.and_then(|parent| self.most(parent, resource)).unwrap_or(total);
        let mine = Self::guarantee(queue, resource);
        let left = (above - others - mine).max(0) + mine;
        Some(own.map_or(left, |own| own.min(left)))
    }

    /// The most that a queue says it may hold.
    fn capability(queue: &QueueFact, resource: &str) -> Option<i128> {
        let cards = queue.card_quota.as_ref().filter(|_| CARDS.contains(&resource));
        let named = cards.map(|cards| cards.get(resource).unwrap_or(0));
        [named, queue.capability.get(resource)].into_iter().flatten().min().map(i128::from)
    }

    /// What is held below a queue, or of everything, and what queues there are guaranteed beyond what they hold, if
    /// `by` holds so much more.
    fn held_or_kept(&self, above: Option<&QueueFact>, resource: &str, by: (&QueueFact, i128)) -> i128 {
        let children = self
            .server
            .queues
            .values()
            .filter(|queue| self.parent(queue).map(|parent| &parent.key) == above.map(|above| &above.key));
        let of_child = |child: &QueueFact| {
            let below = self.held_or_kept(Some(child), resource, by);
            below.max(Self::guarantee(child, resource))
        };
        let own = self.server.placed().filter(|pod| self.queue_of(pod).map(|own| &own.key) == above.map(|at| &at.key));
        let own: i128 = own.map(|pod| self.charged(pod, resource)).sum();
        let more = if above.is_some_and(|above| above.key == by.0.key) { by.1 } else { 0 };
        children.map(of_child).sum::<i128>() + own + more
    }

    /// Whether so much more for a queue takes what others are guaranteed, wherever there is only so much: what is
    /// guaranteed is kept from all others together.
    fn takes_guaranteed(&self, queue: &'a QueueFact, resource: &str, more: i128) -> bool {
        let total: i128 = self.server.nodes.values().map(|node| Self::on_node(node, resource)).sum();
        let above = self.path(queue).into_iter().skip(1);
        let levels = above.filter_map(|level| Some((Some(level), Self::capability(level, resource)?)));
        levels.chain([(None, total)]).any(|(level, limit)| {
            let (before, after) =
                (self.held_or_kept(level, resource, (queue, 0)), self.held_or_kept(level, resource, (queue, more)));
            let held: i128 = match level {
                Some(level) => self.used(level, resource, &|_| false),
                None => self.server.placed().map(|pod| self.charged(pod, resource)).sum(),
            };
            after > limit && after > before && after > held + more
        })
    }

    /// Whether a queue that says nothing owes what another is within, of a resource: the other is guaranteed it, or a
    /// queue above says what it is entitled to.
    fn owes(&self, plain: &'a QueueFact, own: &QueueFact, resource: &str, then: i128) -> bool {
        let says = |level: &&QueueFact| {
            Self::says_deserved(level).is_some_and(|deserved| deserved.get(resource).is_some())
                || level.guarantee.get(resource).is_some()
        };
        then <= Self::guarantee(own, resource) || self.path(plain).iter().skip(1).any(says)
    }

    fn on_node(node: &NodeFact, resource: &str) -> i128 {
        let card = node.cards.iter().find(|card| *card.name == *resource);
        i128::from(node.allocatable.get(card.map_or(resource, |card| &*card.resource)))
    }

    fn deserved(&self, queue: &'a QueueFact, resource: &str) -> Option<i128> {
        let guarantee = Self::guarantee(queue, resource);
        let base = match Self::says_deserved(queue) {
            Some(deserved) => i128::from(deserved.get(resource).or(queue.guarantee.get(resource))?),
            None => guarantee,
        };
        Some(base.min(self.most(queue, resource).unwrap_or(i128::MAX)).max(guarantee))
    }

    /// Whether a pod says that it must not be evicted and is one of the oldest such pods that its queue is entitled to,
    /// of what the claimant asks for.
    fn is_protected(&self, victim: &PodFact, claimants: &[&PodFact]) -> bool {
        let is_kept = |pod: &PodFact| pod.eviction_class != EvictionClass::Preemptible;
        if !is_kept(victim) {
            return false;
        }
        let Some(queue) = self.queue_of(victim).filter(|queue| !Self::is_plain(queue)) else { return true };
        let named =
            |r: &str| queue.deserved.as_ref().is_some_and(|d| d.get(r).is_some()) || queue.guarantee.get(r).is_some();
        let asked = COUNTED.iter().filter(|r| named(r) && claimants.iter().any(|pod| self.claimed(pod, r) > 0));
        let limits: Vec<(&str, i128)> = asked.filter_map(|r| Some((*r, self.deserved(queue, r)?))).collect();
        let mut kept: Vec<&PodFact> = self.server.placed().filter(|pod| is_kept(pod)).collect();
        kept.retain(|pod| self.queue_of(pod).is_some_and(|own| own.key == queue.key));
        kept.retain(|pod| pod.created <= victim.created && !self.server.is_leaving(pod));
        let held = |r: &str| kept.iter().map(|pod| self.charged(pod, r)).sum::<i128>();
        !limits.is_empty() && limits.iter().all(|(r, limit)| held(r) <= *limit)
    }

    /// What a waiting pod will be charged on a node; without one, no card.
    fn claimed_on(&self, pod: &PodFact, node: Option<&Name>, resource: &str) -> i128 {
        if !CARDS.contains(&resource) {
            return i128::from(pod.spec.requests.get(resource));
        }
        let charge = node.and_then(|node| self.server.nodes.get(node)).map(|node| Self::charge(pod, node));
        charge.into_iter().flatten().find(|(r, _)| **r == *resource).map_or(0, |(_, amount)| amount)
    }

    /// What a waiting pod will be charged on the node that it is nominated for.
    fn claimed(&self, pod: &PodFact, resource: &str) -> i128 {
        self.claimed_on(pod, pod.nominated.as_ref(), resource)
    }

    /// Whether a pod's group is there and let in, and its queue is there and open.
    fn may_start(&self, pod: &PodFact) -> bool {
        let group = self.group_of(pod);
        let is_let_in = pod.group.is_none() || group.is_some_and(|group| group.admitted);
        let queue = self.named_queue(group, Some(pod));
        is_let_in && queue.is_none_or(|named| self.queue(&named).is_some_and(|queue| !self.is_shut(queue)))
    }

    /// Of a charge, what it is held to.
    fn held_to(&self, charge: Vec<(Name, i128)>) -> Vec<(Name, i128)> {
        let has_cards = self.server.nodes.values().any(|node| !node.cards.is_empty());
        let is_of_cards = |r: &Name| CARDS.contains(&&**r) || (has_cards && **r == *GPU);
        let is_free = self.free_cpu && charge.iter().any(|(r, _)| is_of_cards(r));
        charge.into_iter().filter(|(r, _)| !(is_free && **r == *"cpu")).collect()
    }

    /// Why a pod may not run on a node as far as its queue goes, for so many of its kind.
    fn refusal(&self, pod: &PodFact, node: &NodeFact, count: i128) -> Option<String> {
        let named = self.named_queue(self.group_of(pod), Some(pod))?;
        let Some(queue) = self.queue(&named) else { return Some(format!("{named} does not exist")) };
        if self.is_shut(queue) {
            return Some(format!("{named} starts nothing"));
        }
        for level in self.path(queue) {
            for (resource, asked) in self.held_to(Self::charge(pod, node)) {
                let (used, most) = (self.used(level, &resource, &|_| false), self.most(level, &resource));
                if most.is_some_and(|most| used + asked * count > most) {
                    return Some(format!("{used} + {asked} {resource} pass {most:?} of {}", level.key.name));
                }
            }
        }
        for (resource, asked) in self.held_to(Self::charge(pod, node)) {
            if self.takes_guaranteed(queue, &resource, asked * count) {
                return Some(format!("{asked} {resource} are guaranteed to others"));
            }
        }
        None
    }

    /// Whether a node has a card that a pod accepts.
    fn accepts(&self, pod: &PodFact, node: &NodeFact) -> bool {
        let card = Self::card(pod, node);
        pod.spec.cards.is_empty() || card.is_some_and(|card| pod.spec.cards.contains(&card))
    }

    fn members(&self, group: &GroupFact) -> impl Iterator<Item = &'a PodFact> {
        let (namespace, name) = (group.namespace.clone(), GroupName::from(group.name.clone()));
        self.server.pods.values().filter(move |pod| pod.namespace == namespace && pod.group.as_ref() == Some(&name))
    }

    /// The members on nodes that stay.
    fn settled(&self, group: &GroupFact) -> Vec<&'a PodFact> {
        let stays = |pod: &&PodFact| self.server.node_of(pod).is_some() && !self.server.is_leaving(pod);
        self.members(group).filter(stays).collect()
    }

    fn is_enough(group: &GroupFact, pods: &[&PodFact]) -> bool {
        let of_task = |task: &Name| pods.iter().filter(|pod| pod.task.as_ref() == Some(task)).count() as u32;
        pods.len() as u32 >= group.min_member && group.min_task_member.iter().all(|(task, min)| of_task(task) >= *min)
    }

    /// Whether the pods of a group depend on each other: those of other tasks may not stay without one of a task that
    /// must run.
    fn is_gang(&self, group: &GroupFact) -> bool {
        let settled = self.settled(group);
        let is_other = |task: &Name| settled.iter().any(|pod| pod.task.as_ref() != Some(task));
        let has_dependants = group.min_task_member.iter().any(|(task, min)| *min > 0 && is_other(task));
        let of_tasks: u32 = group.min_task_member.iter().map(|(_, min)| min).sum();
        group.min_member > 1 || of_tasks > 1 || has_dependants
    }

    fn is_started(&self, group: &GroupFact) -> bool {
        Self::is_enough(group, &self.settled(group))
    }

    /// What is kept in a queue for groups that were let in, less what groups hold beyond their need.
    fn kept(&self, queue: &QueueFact, resource: &str, cards: &BTreeMap<GroupKey, Vec<(Name, i128)>>) -> i128 {
        let admitted = self.server.groups.iter().filter(|(_, group)| group.admitted);
        let below = admitted.filter(|(_, group)| {
            let own = self.named_queue(Some(group), None).and_then(|named| self.queue(&named));
            own.is_some_and(|own| self.path(own).iter().any(|level| level.key == queue.key))
        });
        let kept = below.map(|(key, group)| {
            let held: i128 = self.settled(group).iter().map(|pod| self.charged(pod, resource)).sum();
            let least = i128::from(group.min_resources.get(resource));
            let asked = cards.get(key).into_iter().flatten().filter(|(card, _)| **card == *resource);
            let asked: Vec<i128> = asked.map(|(_, amount)| *amount).chain((least > 0).then_some(least)).collect();
            let elastic = if least > 0 { (held - least).max(0) } else { 0 };
            let waits: i128 = asked.iter().map(|amount| (amount - held).max(0)).sum();
            if self.is_started(group) { -elastic } else { waits - elastic }
        });
        kept.sum()
    }

    /// Whether a group's queue has room for so much more.
    fn has_room(
        &self,
        queue: &'a QueueFact,
        resource: &str,
        amount: i128,
        cards: &BTreeMap<GroupKey, Vec<(Name, i128)>>,
    ) -> bool {
        self.path(queue).into_iter().all(|level| {
            let used = self.used(level, resource, &|_| false) + self.kept(level, resource, cards);
            self.most(level, resource).is_none_or(|most| used + amount <= most)
        })
    }

    /// The cards that a group can be let in with, if it can.
    fn admission(&self, group: &GroupFact, cards: &BTreeMap<GroupKey, Vec<(Name, i128)>>) -> Option<Vec<(Name, i128)>> {
        let Some(named) = self.named_queue(Some(group), None) else {
            // Without a queue nothing is counted; if it gets one, the cards that it prefers are.
            let preferred = |(kinds, amount): &(Vec<Name>, i64)| Some((kinds.first()?.clone(), i128::from(*amount)));
            return group.card_request.iter().map(preferred).collect();
        };
        let queue = self.queue(&named).filter(|queue| !self.is_shut(queue))?;
        let is_free = self.free_cpu && !group.card_request.is_empty();
        for (resource, amount) in group.min_resources.iter().filter(|(r, _)| !(is_free && **r == *"cpu")) {
            if !self.has_room(queue, resource, i128::from(*amount), cards) {
                return None;
            }
        }
        let choose = |(kinds, amount): &(Vec<Name>, i64)| {
            let amount = i128::from(*amount);
            let kind = kinds.iter().find(|kind| self.has_room(queue, kind, amount, cards))?;
            Some((kind.clone(), amount))
        };
        group.card_request.iter().map(choose).collect()
    }
}

/// What histories bring about.
#[derive(Debug, Default)]
struct Seen {
    binds: usize,
    gangs: usize,
    admitted: usize,
    kept_out: usize,
    broken_whole: usize,
    gang_claims: usize,
    evictions: BTreeMap<Rule, usize>,
}

struct Run {
    server: Server,
    engine: Engine,
    settings: Settings,
    /// The cards that groups were let in with.
    cards: BTreeMap<GroupKey, Vec<(Name, i128)>>,
    /// The engine started anew since, and has chosen cards again.
    restarted: bool,
    /// The pods whose claims the plan at hand takes over.
    given_up: Vec<PodKey>,
}

impl Run {
    fn view(&self) -> View<'_> {
        View { server: &self.server, free_cpu: self.settings.cards.unlimited_cpu_memory }
    }

    fn decide(&mut self, seen: &mut Seen) -> Result<bool, TestCaseError> {
        let mut awaiting = self.awaiting();
        let mixed = self.groups_of_several_cards();
        let decisions = self.engine.decide(self.server.tick(), Budget::default());
        let mut acted = false;
        let mut started: BTreeSet<GroupKey> = BTreeSet::new();
        let acts = acts(&decisions);
        for (at, act) in acts.iter().enumerate() {
            self.note_given_up(&acts[..=at]);
            match &act[0] {
                Decision::Bind { pod, node, .. } => {
                    acted = true;
                    seen.binds += 1;
                    self.check_bind(&self.server.pods[pod], &self.server.nodes[node], &mut started)?;
                }
                Decision::Evict { .. } => {
                    acted = true;
                    self.check_evictions(act, &awaiting, seen)?;
                }
                Decision::Nominate { pod, node: None, .. } if awaiting.contains(pod) => {
                    // They wait for nobody any more, and may claim again.
                    let given_up = self.check_taken_over(&self.server.pods[pod], &acts[at..])?;
                    awaiting.retain(|pod| !given_up.contains(pod));
                }
                Decision::Admit(group) => {
                    acted = true;
                    seen.admitted += 1;
                    self.check_admission((group.namespace.clone(), group.name.clone()))?;
                }
                _ => {}
            }
            act.iter().for_each(|decision| self.server.take(decision));
        }
        self.engine.check_invariants().map_err(TestCaseError::fail)?;
        self.check_reports()?;
        self.check_gangs(&started, &mixed, seen)?;
        Ok(acted)
    }

    /// Notes whose claims are taken over: they give them up just before the claimant is nominated.
    fn note_given_up(&mut self, acts: &[&[Decision]]) {
        let gives_up = |act: &&[Decision]| matches!(&act[0], Decision::Nominate { node: None, .. });
        let goes_on = |act: &&[Decision]| matches!(&act[0], Decision::Nominate { .. } | Decision::Evict { .. });
        let Some((last, before)) = acts.split_last() else { return };
        if !goes_on(last) || gives_up(last) && !before.last().is_some_and(gives_up) {
            self.given_up.clear();
        }
        if let Decision::Nominate { pod, node: None, .. } = &last[0] {
            self.given_up.push(pod.clone());
        }
    }

    fn has_victims_leaving(&self, claimant: &PodFact) -> bool {
        let mut leaving = self.server.pods.values().filter(|pod| pod.leaving_since.is_some() && pod.node.is_some());
        leaving.any(|pod| pod.victim_of == Some(claimant.key()))
    }

    /// Waiting pods that hold a claim for which pods leave, with the others of their gangs.
    fn awaiting(&self) -> BTreeSet<PodKey> {
        let view = self.view();
        let waits = |pod: &&PodFact| {
            let known = pod.nominated.as_ref().is_some_and(|node| self.server.nodes.contains_key(node));
            // Who can start nothing any more keeps no reservation.
            known && view.may_start(pod) && self.server.is_candidate(pod) && self.has_victims_leaving(pod)
        };
        let mut awaiting = BTreeSet::new();
        for pod in self.server.pods.values().filter(waits) {
            let gang = view.group_of(pod).filter(|group| !view.is_started(group));
            let others: Vec<&PodFact> = gang.into_iter().flat_map(|group| view.members(group)).collect();
            let lost =
                |pod: &&PodFact| pod.nominated.as_ref().is_some_and(|node| !self.server.nodes.contains_key(node));
            if others.iter().any(lost) {
                continue;
            }
            awaiting.insert(pod.key());
            awaiting.extend(others.into_iter().filter(|pod| self.server.node_of(pod).is_none()).map(PodFact::key));
        }
        awaiting
    }

    fn check_bind(
        &self,
        pod: &PodFact,
        node: &NodeFact,
        started: &mut BTreeSet<GroupKey>,
    ) -> Result<(), TestCaseError> {
        let view = self.view();
        let refusal = view.refusal(pod, node, 1);
        prop_assert!(refusal.is_none(), "{} was bound: {refusal:?}", pod.key());
        prop_assert!(self.server.fits(pod, node, &BTreeSet::new()), "{} does not fit {}", pod.key(), node.name);
        prop_assert!(view.accepts(pod, node), "{} does not take the cards of {}", pod.key(), node.name);
        if let Some(named) = &pod.group {
            let group = view.group_of(pod);
            prop_assert!(
                group.is_some_and(|group| group.admitted),
                "{} is bound before its group is let in",
                pod.key()
            );
            started.insert((pod.namespace.clone(), named.name.clone()));
        }
        Ok(())
    }

    fn check_evictions(
        &self,
        act: &[Decision],
        awaiting: &BTreeSet<PodKey>,
        seen: &mut Seen,
    ) -> Result<(), TestCaseError> {
        let view = self.view();
        let mut victims: BTreeMap<PodKey, (PodKey, Rule)> = BTreeMap::new();
        for decision in act {
            let Decision::Evict { pod, claimant, reason, .. } = decision else { continue };
            let claimant = claimant.clone().expect("queues evict for a claimant");
            victims.insert(pod.clone(), (claimant, reason.rule));
        }
        let gone = |pod: &PodFact| self.server.is_leaving(pod) || victims.contains_key(&pod.key());
        let mut gang_claims = false;
        for (pod, (claimant, rule)) in &victims {
            let (victim, claimant) = (&self.server.pods[pod], &self.server.pods[claimant]);
            *seen.evictions.entry(*rule).or_default() += 1;
            gang_claims |= view.group_of(claimant).is_some_and(|group| view.is_gang(group));
            // A gang claims as one, and its right is judged whole.
            let gang = view.group_of(claimant).filter(|group| !view.is_started(group));
            let members = gang.into_iter().flat_map(|group| view.members(group));
            let members = members.filter(|pod| self.server.is_candidate(pod) && pod.nominated.is_some());
            let claimants: Vec<&PodFact> = if gang.is_some() { members.collect() } else { vec![claimant] };
            prop_assert!(victim.node.is_some() && !self.server.is_leaving(victim), "{pod} is not there to be evicted");
            prop_assert!(!claimant.never_preempts && self.server.is_candidate(claimant));
            // The others of its gang wait for the victims of one only until the gang has started.
            let is_joined = gang.is_none() && !self.has_victims_leaving(claimant);
            let awaits = awaiting.contains(&claimant.key()) && !is_joined;
            prop_assert!(!awaits, "pods leave for {} already", claimant.key());
            let own = view.queue_of(claimant).filter(|queue| !View::is_plain(queue));
            let owes = |queue: &&QueueFact| own.is_some() || !View::is_plain(queue);
            let other = view.queue_of(victim).filter(owes);
            let is_borrowed = other.is_some_and(View::is_plain);
            prop_assert!(is_borrowed || !view.is_protected(victim, &claimants), "{pod} is protected");
            let lower = victim.priority < claimant.priority;
            match (own, other) {
                (None, None) => prop_assert!(*rule == Rule::Priority && lower, "{pod} for {}", claimant.key()),
                (Some(own), Some(other)) if own.key == other.key => {
                    prop_assert!(*rule == Rule::OwnQuota && lower, "{pod} for {}", claimant.key());
                }
                (Some(own), Some(other)) => {
                    prop_assert_eq!(*rule, Rule::QueueReclaim);
                    let evicted = |pod: &PodFact| victims.contains_key(&pod.key());
                    self.check_reclaim(&claimants, (claimant, own), (victim, other), &evicted)?;
                }
                _ => prop_assert!(false, "{pod} for {} by {rule:?}", claimant.key()),
            }
        }
        seen.gang_claims += usize::from(gang_claims);
        for group in self.server.groups.values().filter(|group| view.is_started(group)) {
            let before = view.settled(group);
            let after: Vec<&PodFact> = before.iter().copied().filter(|pod| !gone(pod)).collect();
            let whole = after.is_empty() || View::is_enough(group, &after);
            prop_assert!(whole, "{} falls below its minimum: {after:?} stay", group.name);
            seen.broken_whole += usize::from(view.is_gang(group) && after.is_empty());
        }
        Ok(())
    }

    fn check_reclaim(
        &self,
        claimants: &[&PodFact],
        (claimant, own): (&PodFact, &QueueFact),
        (victim, other): (&PodFact, &QueueFact),
        evicted: &dyn Fn(&PodFact) -> bool,
    ) -> Result<(), TestCaseError> {
        let view = self.view();
        let gone = |pod: &PodFact| self.server.is_leaving(pod) || evicted(pod);
        let (own, other) =
            (view.queue(&own.key.name).expect("it is there"), view.queue(&other.key.name).expect("it is there"));
        prop_assert!(other.reclaimable, "{} gives nothing back", other.key.name);
        prop_assert!(!view.is_shut(own), "{} starts nothing", own.key.name);
        let within = |resource: &&&str| {
            let asked: i128 = claimants.iter().map(|pod| view.claimed(pod, resource)).sum();
            let stays = view.used(own, resource, &|pod| self.server.is_leaving(pod));
            asked > 0
                && view.deserved(own, resource).is_some_and(|d| stays + asked <= d)
                && (!View::is_plain(other) || view.owes(other, own, resource, stays + asked))
        };
        let compared: Vec<&str> = COUNTED.iter().filter(within).copied().collect();
        // A gang that goes whole counts as one pod.
        let gang = view.group_of(victim).filter(|group| view.is_gang(group) && view.is_started(group));
        let with: Vec<&PodFact> = gang.map_or(vec![victim], |group| view.settled(group));
        let over = |resource: &&str| {
            let deserved = view.deserved(other, resource);
            let stays = view.used(other, resource, &|pod| self.server.is_leaving(pod));
            // What is kept for a pod and taken over with the victims counted as its queue's until now.
            let is_kept = |pod: &PodFact| pod.nominated.is_some() || self.given_up.contains(&pod.key());
            let claims = self.server.pods.values().filter(|pod| self.server.is_candidate(pod) && is_kept(pod));
            let claims =
                claims.filter(|pod| view.is_below(pod, other) && !claimants.iter().any(|c| c.key() == pod.key()));
            let claimed: i128 = claims.map(|pod| view.claimed(pod, resource)).sum();
            // A gang of which some were bound and others not keeps what the others were to have, and goes whole.
            let half = view.group_of(victim).filter(|group| group.min_member > 1 && !view.is_started(group));
            let kept = half.into_iter().flat_map(|group| view.members(group));
            let kept = kept.filter(|pod| self.server.is_candidate(pod) && pod.nominated.is_none());
            let kept: i128 = kept.map(|pod| view.claimed_on(pod, victim.node.as_ref(), resource)).sum();
            deserved.is_some_and(|d| stays + claimed + kept > d)
                && with.iter().any(|pod| view.charged(pod, resource) > 0)
        };
        let may = compared.iter().any(over);
        prop_assert!(may, "{} of {} for {}: {compared:?}", victim.key(), other.key.name, claimant.key());
        let shared: Vec<&QuotaKey> = view.path(own).iter().map(|level| &level.key).collect();
        for level in view.path(other).into_iter().filter(|level| !shared.contains(&&level.key)) {
            let asked = |r: &Name| claimants.iter().any(|pod| view.claimed(pod, r) > 0);
            let lost = |r: &Name| view.charged(victim, r) > 0 && asked(r);
            for (resource, guarantee) in level.guarantee.iter().filter(|(r, _)| lost(r)) {
                let stays = view.used(level, resource, &gone);
                prop_assert!(stays >= i128::from(*guarantee), "{} keeps {stays} {resource}", level.key.name);
            }
        }
        Ok(())
    }

    /// Who gives up a claim for which pods leave gives it to the next that is nominated: for the same node, or under a
    /// limit of both, and with a right to evict it once it runs. What is kept for a gang that is to start is given up
    /// whole. A member that has no part in its gang's plan gives up what was kept for it, too.
    fn check_taken_over(&self, holder: &PodFact, acts: &[&[Decision]]) -> Result<Vec<PodKey>, TestCaseError> {
        let view = self.view();
        let to_start = view.group_of(holder).filter(|group| !view.is_started(group) && view.is_gang(group));
        let members = to_start.map_or(vec![holder], |group| view.members(group).collect());
        let holders: Vec<&PodFact> =
            members.into_iter().filter(|pod| pod.nominated.is_some() && self.server.is_candidate(pod)).collect();
        let nominations = acts.iter().filter_map(|act| match &act[0] {
            Decision::Nominate { pod, node, .. } => Some((pod, node.as_ref())),
            _ => None,
        });
        let taking: Vec<(&PodFact, &Name)> = nominations
            .clone()
            .skip_while(|(_, node)| node.is_none())
            .map_while(|(pod, node)| Some((&self.server.pods[pod], node?)))
            .collect();
        let Some((first, _)) = taking.first() else {
            prop_assert!(false, "{} gives up a claim for which pods leave", holder.key());
            return Ok(Vec::new());
        };
        if first.group.is_some() && first.group == holder.group {
            return Ok(vec![holder.key()]);
        }
        let given_up: Vec<PodKey> =
            nominations.take_while(|(_, node)| node.is_none()).map(|(pod, _)| pod.clone()).collect();
        let stays = holders.iter().find(|pod| !given_up.contains(&pod.key()));
        prop_assert!(stays.is_none(), "{} gives way, and another of its gang does not", holder.key());
        let gang = view.group_of(first).filter(|group| !view.is_started(group));
        let is_one = |pod: &PodFact| gang.is_some() && pod.group == first.group || pod.key() == first.key();
        let taking: Vec<(&PodFact, &Name)> = taking.iter().copied().take_while(|(pod, _)| is_one(pod)).collect();
        let (own, other) = (view.queue_of(first), view.queue_of(holder));
        let path = |queue: Option<_>| -> BTreeSet<QuotaKey> {
            queue.into_iter().flat_map(|queue| view.path(queue)).map(|level| level.key.clone()).collect()
        };
        let is_near =
            taking.iter().any(|(_, node)| holders.iter().any(|holder| Some(*node) == holder.nominated.as_ref()));
        let is_limited_alike = !path(own).is_disjoint(&path(other));
        prop_assert!(is_near || is_limited_alike, "{} gives way to {} elsewhere", holder.key(), first.key());
        let binds = |queue: &&QueueFact| !View::is_plain(queue);
        let is_below_all = |holder: &&PodFact| taking.iter().all(|(pod, _)| holder.priority < pod.priority);
        let lower = holders.iter().all(is_below_all);
        let own = own.filter(binds);
        let may = match (own, other.filter(|other| own.is_some() || binds(other))) {
            (None, None) => lower,
            (Some(own), Some(other)) if own.key == other.key => lower,
            (Some(own), Some(other)) => {
                let stays = |queue: &QueueFact, r: &str| view.used(queue, r, &|pod| self.server.is_leaving(pod));
                let claims = |r: &str| -> i128 {
                    let nominated = self.server.pods.values().filter(|pod| pod.nominated.is_some());
                    let waiting = nominated.filter(|pod| self.server.is_candidate(pod) && view.is_below(pod, other));
                    waiting.filter(|pod| !is_one(pod)).map(|pod| view.claimed(pod, r)).sum()
                };
                let asked =
                    |r: &str| -> i128 { taking.iter().map(|(pod, node)| view.claimed_on(pod, Some(node), r)).sum() };
                let compares = |r: &&str| {
                    asked(r) > 0
                        && holders.iter().any(|holder| view.claimed(holder, r) > 0)
                        && view.deserved(own, r).is_some_and(|d| stays(own, r) + asked(r) <= d)
                        && (!View::is_plain(other) || view.owes(other, own, r, stays(own, r) + asked(r)))
                        && view.deserved(other, r).is_some_and(|d| stays(other, r) + claims(r) > d)
                };
                other.reclaimable && COUNTED.iter().any(compares)
            }
            _ => false,
        };
        prop_assert!(may, "{} gives way to {}, which may not evict it", holder.key(), first.key());
        Ok(holders.iter().map(|holder| holder.key()).collect())
    }

    fn check_admission(&mut self, key: GroupKey) -> Result<(), TestCaseError> {
        let group = self.server.groups[&key].clone();
        let view = self.view();
        let chosen = view.admission(&group, &self.cards);
        prop_assert!(chosen.is_some() || self.restarted, "{} is let in without room", group.name);
        self.cards.insert(key, chosen.unwrap_or_default());
        Ok(())
    }

    fn check_reports(&self) -> Result<(), TestCaseError> {
        let view = self.view();
        for report in self.engine.quotas() {
            let queue = view.queue(&report.key.name).expect("there are no other quotas");
            for resource in COUNTED {
                let used = report.used.iter().find(|(r, _)| **r == *resource).map_or(0, |(_, amount)| *amount);
                prop_assert_eq!(used, view.used(queue, resource, &|_| false), "{} of {}", resource, queue.key.name);
            }
            prop_assert_eq!(report.parent.map(|parent| parent.name), view.parent(queue).map(|p| p.key.name.clone()));
        }
        for report in self.engine.groups() {
            let group = &self.server.groups[&(report.key.namespace, report.key.name)];
            prop_assert_eq!(report.admitted, group.admitted, "{} is let in", group.name);
        }
        Ok(())
    }

    /// The kinds of card that pods of a group hold which accept several.
    fn kinds_of(&self, group: &GroupFact) -> BTreeSet<Name> {
        let view = self.view();
        let settled = view.settled(group).into_iter();
        settled.filter(|pod| pod.spec.cards.len() > 1).filter_map(|pod| view.card_held(pod)).collect()
    }

    /// The groups that hold several kinds of card: one whose pods were evicted takes another kind, and evictions fail.
    fn groups_of_several_cards(&self) -> BTreeSet<GroupKey> {
        let groups = self.server.groups.iter();
        groups.filter(|(_, group)| self.kinds_of(group).len() > 1).map(|(key, _)| key.clone()).collect()
    }

    /// No gang is half placed by a decision, and no decision gives its pods several kinds of card.
    fn check_gangs(
        &self,
        started: &BTreeSet<GroupKey>,
        mixed: &BTreeSet<GroupKey>,
        seen: &mut Seen,
    ) -> Result<(), TestCaseError> {
        let view = self.view();
        for (key, group) in &self.server.groups {
            let settled = view.settled(group);
            if started.contains(key) {
                prop_assert!(View::is_enough(group, &settled), "{} is half placed: {settled:?}", group.name);
                seen.gangs += usize::from(view.is_gang(group));
            }
            let kinds = self.kinds_of(group);
            let is_one = kinds.len() <= 1 || mixed.contains(key);
            prop_assert!(group.mixed_cards || is_one, "{} holds {kinds:?}", group.name);
        }
        Ok(())
    }

    fn take(&mut self, step: &Step) {
        let facts = match step {
            Step::Common(common) => {
                let Run { server, engine, settings, .. } = self;
                server.apply(common, engine, settings, PODS_MAX);
                self.restarted |= matches!(common, Common::Restart(_));
                vec![]
            }
            Step::Queue(fact) => {
                self.server.queues.insert(fact.key.clone(), fact.clone());
                vec![Fact::from(fact.clone())]
            }
            Step::DropQueue(which) => match server::nth(&self.server.queues, *which) {
                Some(key) => {
                    self.server.queues.remove(&key);
                    vec![Fact::QuotaGone(key)]
                }
                None => vec![],
            },
            Step::Group(fact) => {
                let key = (fact.namespace.clone(), fact.name.clone());
                let known = self.server.groups.get(&key);
                // What a group asks for does not change once it is let in, nor whether its cards may differ.
                let group = match known {
                    Some(known) if known.admitted => GroupFact { queue: fact.queue.clone(), ..known.clone() },
                    _ => fact.clone(),
                };
                self.server.groups.insert(key, group.clone());
                vec![Fact::Group(group)]
            }
            Step::DropGroup(which) => match server::nth(&self.server.groups, *which) {
                Some(key) => {
                    self.server.groups.remove(&key);
                    self.cards.remove(&key);
                    vec![Fact::GroupGone(GroupName::from(key.1).of(&key.0))]
                }
                None => vec![],
            },
            Step::Members(group, priorities) => {
                for (i, priority) in priorities.iter().enumerate() {
                    let pod = member(*group, *priority as i32, i);
                    let Run { server, engine, settings, .. } = self;
                    server.apply(&Common::Pod(pod), engine, settings, PODS_MAX);
                }
                vec![]
            }
        };
        self.server.tell(&mut self.engine, facts);
    }

    fn settle(&mut self, seen: &mut Seen) -> Result<(), TestCaseError> {
        for round in 0.. {
            prop_assert!(round < 40, "evictions do not end");
            let acted = self.decide(seen)?;
            if !acted && self.server.is_settled() {
                return Ok(());
            }
            self.server.go_on(WELL, &mut self.engine);
        }
        Ok(())
    }

    /// In a settled world, where no room is kept for anybody, nobody waits who could run or be let in.
    fn nobody_forgotten(&self, seen: &mut Seen) -> Result<(), TestCaseError> {
        let view = self.view();
        if self.server.pods.values().any(|pod| pod.node.is_none() && pod.nominated.is_some()) {
            return Ok(());
        }
        for group in self.server.groups.values().filter(|group| !group.admitted) {
            seen.kept_out += 1;
            let could = view.admission(group, &self.cards).is_some();
            prop_assert!(!could || self.restarted, "{} has room in its queue and is not let in", group.name);
        }
        for pod in self.server.pods.values().filter(|pod| self.server.is_candidate(pod)) {
            let group = view.group_of(pod);
            if pod.group.is_some() && group.is_none_or(|group| !group.admitted) {
                continue;
            }
            let unstarted = group.filter(|group| !view.is_started(group));
            let held: Vec<Name> =
                group.into_iter().flat_map(|group| view.settled(group)).filter_map(|pod| view.card_held(pod)).collect();
            let mixed = group.is_some_and(|group| group.mixed_cards) || pod.spec.cards.len() < 2;
            for kind in [None, Some("A"), Some("B")] {
                let is_kind = |node: &&NodeFact| View::card(pod, node).as_deref() == kind;
                if held.iter().any(|held| Some(&**held) != kind) && !mixed {
                    continue;
                }
                let nodes: Vec<&NodeFact> =
                    self.server.nodes.values().filter(is_kind).filter(|node| view.accepts(pod, node)).collect();
                let count = match unstarted {
                    Some(group) => {
                        let waiting: Vec<&PodFact> =
                            view.members(group).filter(|pod| self.server.is_candidate(pod)).collect();
                        let all: Vec<&PodFact> =
                            view.settled(group).into_iter().chain(waiting.iter().copied()).collect();
                        let alike = waiting.iter().all(|other| other.spec == pod.spec);
                        if !View::is_enough(group, &all) || !alike || (!held.is_empty() && !mixed) {
                            break;
                        }
                        waiting.len()
                    }
                    None => 1,
                };
                let Some(first) = nodes.first() else { continue };
                let room: usize = nodes.iter().map(|node| self.places(pod, node)).sum();
                let could = room >= count && view.refusal(pod, first, count as i128).is_none();
                prop_assert!(!could, "{} waits though {count} like it could run with {kind:?}", pod.key());
            }
        }
        Ok(())
    }

    /// How many pods like this one a node has room for.
    fn places(&self, pod: &PodFact, node: &NodeFact) -> usize {
        let here = || self.server.placed().filter(|other| self.server.node_of(other) == Some(&node.name));
        let free = |(resource, asked): &(Name, i64)| {
            let held: i64 = here().map(|other| other.spec.requests.get(resource)).sum();
            ((node.allocatable.get(resource) - held).max(0) / asked) as usize
        };
        let by_pods = node.allocatable.get(PODS) as usize - here().count();
        pod.spec.requests.iter().map(free).min().unwrap_or(by_pods).min(by_pods)
    }
}

fn run(history: &History, seen: &mut Seen) -> Result<(), TestCaseError> {
    let History { unlimited_cpu_memory, returns, steps } = history;
    let cards = CardSettings { unlimited_cpu_memory: *unlimited_cpu_memory, ..CardSettings::default() };
    let settings = Settings { cards, reserve_after_ms: 20_000, ..Settings::default() };
    let (engine, server) =
        (Engine::new(settings.clone()), Server { returns: *returns, now: 1_000, ..Server::default() });
    let mut run = Run { server, engine, settings, cards: BTreeMap::new(), restarted: false, given_up: Vec::new() };
    for (step, how) in steps {
        run.take(step);
        if how % 3 == 0 {
            run.settle(seen)?;
            run.nobody_forgotten(seen)?;
        } else {
            run.decide(seen)?;
            run.server.go_on(*how, &mut run.engine);
        }
    }
    run.settle(seen)?;
    run.nobody_forgotten(seen)
}

#[derive(Debug, Clone)]
struct History {
    unlimited_cpu_memory: bool,
    returns: bool,
    steps: Vec<(Step, u64)>,
}

/// A pod of a group: those of one group are alike but for priority and task.
fn member(group: usize, priority: i32, task: usize) -> PodFact {
    let (cpu, gpu, cards): (i64, i64, &[&str]) =
        [(1, 1, &["A", "B"][..]), (1, 2, &["B", "A"]), (2, 1, &[]), (1, 1, &["A"])][group];
    let fact = pod_of(cpu, gpu, cards, priority);
    PodFact { group: Some(name(GROUPS[group]).into()), task: Some(name(["x", "y"][task % 2])), ..fact }
}

fn pod_of(cpu: i64, gpu: i64, cards: &[&str], priority: i32) -> PodFact {
    let requests = [(name("cpu"), cpu), (name(GPU), gpu)].into_iter().collect();
    let cards = cards.iter().filter(|_| gpu > 0).map(|card| name(card)).collect();
    let spec = Arc::new(PodSpec { requests, cards, ..PodSpec::default() });
    PodFact { namespace: name("a"), spec, priority, ours: true, ..PodFact::default() }
}

fn pod() -> impl Strategy<Value = PodFact> {
    let cards =
        prop_oneof![4 => Just(&[][..]), 2 => Just(&["A"][..]), 2 => Just(&["B"][..]), 3 => Just(&["B", "A"][..])];
    let queue = prop_oneof![1 => Just(None), 8 => (0usize..4).prop_map(Some), 1 => Just(Some(9))];
    let seldom = || prop::bool::weighted(0.12);
    ((0i64..=3, 0i64..=2), cards, 0i32..3, queue, (seldom(), seldom(), seldom())).prop_map(
        |((cpu, gpu), cards, priority, queue, (protected, never_preempts, non_preemptible))| PodFact {
            queue: queue.map(|at| name(QUEUES.get(at).unwrap_or(&"nowhere"))),
            eviction_class: class_of(non_preemptible, protected),
            never_preempts,
            ..pod_of(cpu, gpu, cards, priority)
        },
    )
}

fn node() -> impl Strategy<Value = NodeFact> {
    (0usize..4, 2i64..7, 1i64..5).prop_map(|(index, cpu, gpu)| {
        let gpu = if index == 3 { 0 } else { gpu };
        let amounts = [("cpu", cpu), (GPU, gpu), ("pods", 20)];
        let allocatable = amounts.into_iter().map(|(resource, amount)| (name(resource), amount)).collect();
        let card = ["A", "B", "A"].get(index).map(|card| NodeCard { name: name(card), resource: name(GPU) });
        let cards = card.into_iter().collect();
        NodeFact { name: name(&format!("n{index}")), allocatable, cards, ..NodeFact::default() }
    })
}

fn budget() -> impl Strategy<Value = BudgetFact> {
    (0u32..3).prop_map(|allowed| {
        let selector = Some(Selector { requirements: Vec::new() });
        BudgetFact { namespace: name("a"), name: name("budget"), selector, allowed }
    })
}

fn limits(resources: &'static [&'static str], most: i64, often: f64) -> impl Strategy<Value = Limits> {
    prop::collection::vec(prop::option::weighted(often, 0..=most), resources.len()).prop_map(move |amounts| {
        let named = resources.iter().zip(amounts);
        named.filter_map(|(resource, amount)| amount.map(|amount| (name(resource), amount))).collect()
    })
}

fn queue(index: usize) -> impl Strategy<Value = QueueFact> {
    let parent = match index {
        0 => prop_oneof![8 => Just(None), 1 => Just(Some(1usize)), 1 => Just(Some(0))].boxed(),
        4 => Just(None).boxed(),
        _ => prop_oneof![8 => Just(None), 3 => Just(Some(0usize)), 1 => Just(Some(1)), 1 => Just(Some(2))].boxed(),
    };
    let flags = (prop::bool::weighted(0.05), prop::bool::weighted(0.85), prop_oneof![6 => Just(0), 1 => Just(1)]);
    let amounts = (
        prop_oneof![1 => Just(Limits::default()).boxed(), 1 => limits(&COUNTED, 9, 0.2).boxed()],
        prop::option::weighted(0.8, limits(&COUNTED, 4, 0.6)),
        prop_oneof![3 => Just(Limits::default()).boxed(), 1 => limits(&COUNTED, 2, 0.4).boxed()],
        prop::option::weighted(0.2, limits(&CARDS, 6, 0.9)),
    );
    (parent, flags, amounts).prop_map(move |(parent, (closed, reclaimable, priority), amounts)| {
        let (capability, deserved, guarantee, card_quota) = amounts;
        let parent = parent.map(|at| name(QUEUES[at]));
        let key = key(index);
        let users = quotient_engine::fact::Users::default();
        QueueFact { key, parent, closed, capability, deserved, guarantee, card_quota, reclaimable, priority, users }
    })
}

fn group(index: usize) -> impl Strategy<Value = GroupFact> {
    let queue = prop_oneof![1 => Just(None), 9 => (0usize..4).prop_map(Some)];
    let tasks = prop::option::weighted(0.25, (0u32..3, 0u32..2));
    let least = prop_oneof![1 => Just(Limits::default()).boxed(), 2 => limits(&["cpu", GPU], 5, 0.6).boxed()];
    let card = prop::option::weighted(0.4, 1i64..4);
    (queue, 1u32..4, tasks, least, card).prop_map(move |(queue, min_member, tasks, least, card)| {
        let kinds: &[&str] = [&["A", "B"][..], &["B", "A"], &["A", "B"], &["A"]][index];
        GroupFact {
            namespace: name("a"),
            name: name(GROUPS[index]),
            created: Created(index as i64),
            queue: queue.map(|at| name(QUEUES[at])),
            min_member,
            min_task_member: tasks.into_iter().flat_map(|(x, y)| [(name("x"), x), (name("y"), y)]).collect(),
            min_resources: least.iter().cloned().collect(),
            card_request: card.map(|amount| (kinds.iter().map(|k| name(k)).collect(), amount)).into_iter().collect(),
            mixed_cards: index == 1,
            ..GroupFact::default()
        }
    })
}

fn step() -> impl Strategy<Value = Step> {
    let common = prop_oneof![
        12 => pod().prop_map(Common::Pod),
        4 => (0usize..20).prop_map(Common::EndPod),
        1 => (0usize..20).prop_map(Common::Linger),
        2 => node().prop_map(Common::Node),
        1 => budget().prop_map(Common::Budget),
        1 => (0usize..3).prop_map(Common::DropNode),
        2 => (0usize..40).prop_map(Common::Again),
        1 => (100u64..12_000).prop_map(Common::Advance),
        2 => any::<u64>().prop_map(Common::Restart),
    ];
    prop_oneof![
        20 => common.prop_map(Step::Common),
        3 => (0..QUEUES.len()).prop_flat_map(queue).prop_map(Step::Queue),
        1 => (0..QUEUES.len()).prop_map(Step::DropQueue),
        5 => (0..GROUPS.len()).prop_flat_map(group).prop_map(Step::Group),
        1 => (0..GROUPS.len()).prop_map(Step::DropGroup),
        11 => (0..GROUPS.len(), prop::collection::vec(0usize..3, 1..4)).prop_map(|(group, p)| Step::Members(group, p)),
    ]
}

fn history() -> impl Strategy<Value = History> {
    let queues = (queue(0), queue(1), queue(2), queue(3));
    let start = (
        prop::collection::vec(node().prop_map(|node| Step::Common(Common::Node(node))), 2..6),
        queues.prop_map(|(a, b, c, d)| [a, b, c, d].map(Step::Queue)),
        prop::collection::vec((step(), any::<u64>()), 10..45),
    );
    (prop::bool::weighted(0.2), any::<bool>(), start).prop_map(|(unlimited, returns, (nodes, queues, steps))| {
        let first = nodes.into_iter().chain(queues).map(|step| (step, 1));
        History { unlimited_cpu_memory: unlimited, returns, steps: first.chain(steps).collect() }
    })
}

proptest! {
    #![proptest_config(cases(1_500))]

    #[test]
    fn queues_keep_their_promises(history in history()) {
        run(&history, &mut Seen::default())?;
    }
}

/// Histories bring about what they are for: a generator that never starts a gang proves nothing.
#[test]
fn histories_are_eventful() {
    let mut seen = Seen::default();
    for history in samples(600, history()) {
        run(&history, &mut seen).expect("the promises hold");
    }
    let Seen { binds, gangs, admitted, kept_out, broken_whole, gang_claims, .. } = seen;
    let enough = binds > 500 && gangs > 50 && admitted > 100 && kept_out > 20 && broken_whole > 2 && gang_claims > 5;
    assert!(enough, "{seen:?}");
    for rule in [Rule::Priority, Rule::OwnQuota, Rule::QueueReclaim] {
        assert!(seen.evictions.get(&rule).is_some_and(|count| *count >= 5), "{rule:?} in {seen:?}");
    }
}
