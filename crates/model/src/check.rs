//! What the program decided, compared with the model: each decision from what the objects said when it was made, and
//! what is left undone when the cluster has come to rest.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use quotient_sim::cluster::{Decided, Round};
use serde_json::Value;

use crate::cost::Cost;
pub use crate::difference::{Difference, Kind};
use crate::fit::{Claimant, Placed};
use crate::order::surely_before;
use crate::quota::{Policy, Sure};
use crate::rights::{Base, Rights};
use crate::search::{better_set, leaving, may_take_claim, real_claim, relies_on, room_now, room_then, ways_by_request};
use crate::world::World;

/// An eviction for a claimant that has not been bound yet.
#[derive(Debug, Clone)]
struct Pledge {
    /// UIDs of the claimant's pods, and how many of them must run.
    claimant: Vec<String>,
    victims: Vec<String>,
    /// How many pods had been bound when it was made.
    bound: usize,
}

/// What is known of a run so far.
#[derive(Debug, Clone, Default)]
pub struct Checker {
    pub differences: Vec<Difference>,
    pledges: Vec<Pledge>,
    /// Who was bound, in order.
    bound: Vec<String>,
    /// Classes that took from others: quotas and priority of the claimant, of the victim.
    took: BTreeSet<(String, String)>,
    evicted: usize,
    /// Claimants, by the UIDs of their pods, that were passed over in this step, and in whose favour.
    passed_over: Vec<(Vec<String>, Difference)>,
    /// UIDs of pods for which others were evicted in this step.
    evicted_for: Vec<String>,
    /// How many pods had been bound when the step began.
    bound_before: usize,
}

/// Quotas and priority of a pod.
fn class(world: &World, pod: usize) -> String {
    // The same quota has the same index as long as quotas do not come and go.
    format!("{:?}:{}", world.pods[pod].quotas, world.pods[pod].priority)
}

/// The policies of a claimant, and whether it is a gang.
fn about(world: &World, claimant: &Claimant) -> String {
    let policies: BTreeSet<&str> = world
        .counting_quotas(claimant.pods[0])
        .iter()
        .map(|quota| match world.quotas[*quota].policy {
            Policy::Elastic => "elastic",
            Policy::Fair => "fair",
            Policy::Tree => "tree",
            Policy::Queue if world.quotas[*quota].cards.is_some() => "cards",
            Policy::Queue => "queue",
        })
        .collect();
    let mut parts: Vec<&str> = policies.into_iter().collect();
    if parts.is_empty() {
        parts.push("no quota");
    }
    if claimant.needed > 1 {
        parts.push("gang");
    }
    parts.join("+")
}

fn keys(world: &World, pods: &[usize]) -> String {
    let names: Vec<String> = pods.iter().map(|pod| world.pods[*pod].key()).collect();
    if names.is_empty() { "nobody".to_string() } else { names.join(", ") }
}

impl Checker {
    fn differ(&mut self, kind: Kind, about: String, why: String) {
        self.differences.push(Difference { kind, about, why });
    }

    /// A step begins in which quotas or nodes change: what was promised under others is not held against anybody.
    pub fn rules_change(&mut self) {
        self.pledges.clear();
    }

    /// A step begins: evictions are counted anew.
    pub fn step_begins(&mut self) {
        self.evicted = 0;
        self.passed_over.clear();
        self.evicted_for.clear();
        self.bound_before = self.bound.len();
    }

    /// One round of decisions.
    pub fn round(&mut self, round: &Round) {
        let mut world = World::read(&round.objects);
        let mut last_bound_gang = None;
        let mut given_up: Vec<(usize, usize)> = Vec::new();
        let mut next = 0;
        while next < round.decided.len() {
            match &round.decided[next] {
                Decided::Nominate { namespace, name, node } => {
                    if let Some(pod) = world.find(&format!("{namespace}/{name}")) {
                        let node =
                            node.as_ref().and_then(|node| world.nodes.iter().position(|other| other.name == *node));
                        let before = std::mem::replace(&mut world.pods[pod].claim, node);
                        match node {
                            Some(_) => self.take_over(&world, pod, &given_up),
                            None => given_up.extend(before.map(|before| (pod, before))),
                        }
                    }
                    next += 1;
                }
                Decided::Bind { namespace, name, node } => {
                    let pod = world.find(&format!("{namespace}/{name}"));
                    let node = world.nodes.iter().position(|other| other.name == *node);
                    if let (Some(pod), Some(node)) = (pod, node) {
                        let gang = world.pods[pod].gang;
                        self.bind(&mut world, pod, node, gang.is_some() && gang == last_bound_gang);
                        last_bound_gang = gang;
                    }
                    next += 1;
                }
                Decided::Evict { namespace, name, claimant: None } => {
                    if let Some(pod) = world.find(&format!("{namespace}/{name}")) {
                        self.overuse(&mut world, pod);
                    }
                    next += 1;
                }
                Decided::Evict { claimant: Some(claimant), .. } => {
                    next = self.eviction(&mut world, claimant, &round.decided, next);
                }
            }
        }
    }

    /// A pod claims a node: of those that lost their claims just now it took from those that it may evict. "Only one
    /// who may evict its holder once it runs takes it over", so this is a taking like any other.
    fn take_over(&mut self, world: &World, pod: usize, given_up: &[(usize, usize)]) {
        for (holder, node) in given_up.iter().filter(|(holder, _)| world.pods[*holder].claim.is_none()) {
            let mut then = world.clone();
            then.pods[*holder].claim = Some(*node);
            if may_take_claim(&then, pod, *holder) {
                self.took.insert((class(world, pod), class(world, *holder)));
                // "The holder waits again": who was evicted for it was evicted for this one.
                self.pledges.retain(|pledge| !pledge.claimant.contains(&world.pods[*holder].uid));
            }
        }
    }

    /// Collects all victims of one claim, checks them and lets them go; says where the next decision is.
    fn eviction(&mut self, world: &mut World, claimant: &str, decided: &[Decided], from: usize) -> usize {
        let Some(claimant) = world.find(claimant).and_then(|pod| Claimant::of(world, pod)) else { return from + 1 };
        let mut victims: Vec<usize> = Vec::new();
        let mut next = from;
        while let Some(Decided::Evict { namespace, name, claimant: Some(for_whom) }) = decided.get(next) {
            if !world.find(for_whom).is_some_and(|pod| claimant.pods.contains(&pod)) {
                break;
            }
            victims.extend(world.find(&format!("{namespace}/{name}")));
            next += 1;
        }
        if claimant.modelled(world) && !victims.is_empty() {
            self.check_eviction(world, &claimant, &victims);
        }
        let relied = relies_on(world, &claimant, &victims);
        self.check_claim(world, &claimant, &victims);
        for victim in &victims {
            self.took.insert((class(world, claimant.pods[0]), class(world, *victim)));
            world.pods[*victim].leaving = true;
            let pod = world.pods[*victim].clone();
            for budget in world.budgets.iter_mut().filter(|budget| budget.selects(&pod)) {
                budget.allowed = (budget.allowed - 1).max(0);
            }
        }
        self.evicted += victims.len();
        let uids = |pods: &[usize]| pods.iter().map(|pod| world.pods[*pod].uid.clone()).collect();
        let awaited: Vec<usize> = victims.iter().chain(&relied).copied().collect();
        let pledge = Pledge { claimant: uids(&claimant.pods), victims: uids(&awaited), bound: self.bound.len() };
        self.evicted_for.extend(pledge.claimant.iter().cloned());
        self.pledges.push(pledge);
        next
    }

    fn check_eviction(&mut self, world: &World, claimant: &Claimant, victims: &[usize]) {
        let right = ways_by_request(world, claimant).into_keys().any(|asks| {
            let rights = Rights::new(world, claimant, asks);
            let bases: BTreeSet<Base> =
                victims.iter().flat_map(|victim| rights.bases(*victim, Sure::Perhaps)).collect();
            rights.permits(victims, &bases, Sure::Perhaps)
        });
        if !right {
            let why = format!("{} may not evict {}", claimant.name(world), keys(world, victims));
            self.differ(Kind::Right, about(world, claimant), why);
            return;
        }
        if let Some(found) = better_set(world, claimant, Some(victims)) {
            let why = format!(
                "{} evicts {}; cheaper: {}",
                claimant.name(world),
                keys(world, victims),
                keys(world, &found.victims)
            );
            self.differ(Kind::Dearer, about(world, claimant), why);
            return;
        }
        self.check_room_on_its_way(world, claimant, victims);
    }

    /// Once all who leave are gone, the claimant runs within every ceiling.
    fn check_claim(&mut self, world: &World, claimant: &Claimant, victims: &[usize]) {
        let (mut then, mut gone) = (world.held_then(&claimant.pods), leaving(world));
        then.retain(|pod, _| !victims.contains(pod));
        gone.extend(victims);
        let mut ways = world.ways(claimant).into_iter();
        if claimant.modelled(world) && !ways.any(|placed| world.admits(&then, &gone, &placed, Sure::Perhaps)) {
            let why = format!("{} evicts {}, and has no room then", claimant.name(world), keys(world, victims));
            self.differ(Kind::Ceiling, about(world, claimant), why);
        }
    }

    /// "Over-use eviction is voluntary: it never violates a budget", and ends over-use only.
    fn overuse(&mut self, world: &mut World, pod: usize) {
        let held = world.held_staying();
        let over =
            world.pods[pod].quotas.iter().filter(|quota| world.quotas[**quota].policy == Policy::Tree).any(|quota| {
                let node = world.pods[pod].node.unwrap_or(0);
                world.charge(pod, node).keys().any(|name| {
                    let limit = world.ceiling(&held, &leaving(world), *quota, name, Sure::Surely);
                    limit.is_some_and(|limit| world.used(&held, *quota, name) > limit)
                })
            });
        let whole_gang = world.pods[pod].gang.is_some();
        if !over && !whole_gang && !world.pods[pod].unmodelled {
            let why = format!(
                "{} is evicted to end over-use, and its quota holds no more than its runtime",
                world.pods[pod].key()
            );
            self.differ(Kind::Overuse, "tree".to_string(), why);
        }
        if Cost::of(world, &world.pods[pod].requests, &[pod]).violations() > 0 {
            let why = format!("{} is evicted to end over-use against a disruption budget", world.pods[pod].key());
            self.differ(Kind::Overuse, "tree".to_string(), why);
        }
        world.pods[pod].leaving = true;
        self.evicted += 1;
    }

    /// Whether pods were evicted for a pod that has not been bound since.
    fn is_pledged(&self, uid: &String) -> bool {
        self.pledges.iter().any(|pledge| pledge.claimant.contains(uid))
    }

    /// A pod is bound: nodes, ceilings, reservations of others and the order are looked at.
    fn bind(&mut self, world: &mut World, pod: usize, node: usize, follows_its_gang: bool) {
        let claimant = Claimant { pods: vec![pod], needed: 1 };
        if claimant.modelled(world) && !world.nodes[node].unmodelled {
            self.check_bind(world, pod, node, follows_its_gang);
        }
        world.pods[pod].node = Some(node);
        world.pods[pod].claim = None;
        self.bound.push(world.pods[pod].uid.clone());
    }

    fn check_bind(&mut self, world: &World, pod: usize, node: usize, follows_its_gang: bool) {
        let claimant = Claimant { pods: vec![pod], needed: 1 };
        let place = [(pod, node)];
        let (now, gone) = (world.held_now(), leaving(world));
        let who = || format!("{} is bound to {}", world.pods[pod].key(), world.nodes[node].name);
        // "From the decision to evict until the claimant binds, what it freed is its own": it counted as used since
        // then, and a runtime quota that falls meanwhile makes it over-used, as it does a pod that runs.
        let mut counted = world.clone();
        if world.pods[pod].claim.is_some() && self.is_pledged(&world.pods[pod].uid) {
            counted.pods[pod].quotas.retain(|quota| world.quotas[*quota].policy != Policy::Tree);
        }
        if let Some(why) = counted.passed_ceiling(&now, &gone, &place, Sure::Perhaps) {
            self.differ(Kind::Ceiling, about(world, &claimant), format!("{}: {why}", who()));
        } else if !counted.admits(&now, &gone, &place, Sure::Perhaps) {
            self.differ(Kind::Ceiling, about(world, &claimant), format!("{}, which has no room", who()));
        }
        if world.pods[pod].claim.is_some() {
            self.check_taken_over(world, pod, node);
        }
        if world.pods[pod].claim.is_some() || follows_its_gang {
            return;
        }
        let then = world.held_then(&[pod]);
        if !world.admits(&then, &gone, &place, Sure::Perhaps) {
            let holders: Vec<usize> = (0..world.pods.len())
                .filter(|other| world.pods[*other].pending() && world.pods[*other].claim.is_some())
                .collect();
            // A claim whose holder is kept out by its own ceiling is not one.
            let real: Vec<usize> = holders.into_iter().filter(|holder| real_claim(world, *holder)).collect();
            if !real.is_empty() && !real.iter().any(|holder| may_take_claim(world, pod, *holder)) {
                let why = format!("{} and takes what is reserved for {}", who(), keys(world, &real));
                self.differ(Kind::Reservation, about(world, &claimant), why);
            }
        }
        let Some(claimant) = Claimant::of(world, pod) else { return };
        for other in pending_claimants(world) {
            let same = other.pods.iter().any(|member| claimant.pods.contains(member));
            let claims = other.pods.iter().any(|member| world.pods[*member].claim.is_some());
            if same || claims || !other.modelled(world) || !surely_before(world, &other, &claimant) {
                continue;
            }
            if let Some(placed) = room_now(world, &other) {
                let nodes: Vec<&str> = placed.iter().map(|(_, node)| world.nodes[*node].name.as_str()).collect();
                let why = format!("{} before {}, which fits {}", who(), other.name(world), nodes.join(", "));
                let uids = other.pods.iter().map(|pod| world.pods[*pod].uid.clone()).collect();
                self.passed_over.push((uids, Difference { kind: Kind::Order, about: about(world, &other), why }));
                return;
            }
        }
    }

    /// "Only one who may evict its holder once it runs takes it over, at once and without another eviction": nobody
    /// who surely may waits when the holder is bound.
    fn check_taken_over(&mut self, world: &World, pod: usize, node: usize) {
        if world.pods[pod].gang.is_some() {
            return;
        }
        let mut then = world.clone();
        then.pods[pod].node = Some(node);
        then.pods[pod].claim = None;
        for other in pending_claimants(&then) {
            let claims = other.pods.iter().any(|member| then.pods[*member].claim.is_some());
            if claims || !other.modelled(&then) || room_then(&then, &other).is_some() {
                continue;
            }
            // What is kept for another costs as little, and may be taken over instead.
            let takes_another = (0..then.pods.len()).any(|holder| {
                then.pods[holder].pending()
                    && then.pods[holder].claim.is_some()
                    && other.pods.iter().any(|member| may_take_claim(&then, *member, holder))
            });
            if !takes_another
                && let Some(found) = better_set(&then, &other, None)
                && found.victims == [pod]
                && !self.closes_a_cycle(&then, &other, &[pod])
            {
                let why = format!("{} is bound, and {} may evict it at once", world.pods[pod].key(), other.name(world));
                self.differ(Kind::Reservation, about(world, &other), why);
            }
        }
    }

    /// "Room that is on its way to a waiting pod is its own before a later pod claims it."
    fn check_room_on_its_way(&mut self, world: &World, claimant: &Claimant, victims: &[usize]) {
        let mut gone = leaving(world);
        gone.extend(victims);
        for other in pending_claimants(world) {
            let same = other.pods.iter().any(|member| claimant.pods.contains(member));
            let claims = other.pods.iter().any(|member| world.pods[*member].claim.is_some());
            if same || claims || !other.modelled(world) || !surely_before(world, &other, claimant) {
                continue;
            }
            let both_out: Vec<usize> = other.pods.iter().chain(&claimant.pods).copied().collect();
            let then = world.held_then(&both_out);
            let coming: Vec<Placed> = world
                .ways(&other)
                .into_iter()
                .filter(|placed| world.admits(&then, &leaving(world), placed, Sure::Surely))
                .collect();
            let both = coming.iter().any(|placed| {
                let mut after = then.clone();
                after.retain(|pod, _| !victims.contains(pod));
                after.extend(placed.iter().copied());
                world.ways(claimant).iter().any(|own| world.admits(&after, &gone, own, Sure::Perhaps))
            });
            if !coming.is_empty() && !both {
                let why = format!(
                    "{} evicts {} and claims the room that is on its way to {}",
                    claimant.name(world),
                    keys(world, victims),
                    other.name(world)
                );
                self.differ(Kind::Reservation, about(world, claimant), why);
                return;
            }
        }
    }

    /// The cluster has come to rest.
    pub fn rest(&mut self, objects: &[Arc<Value>]) {
        let mut world = World::read(objects);
        if self.evicted > 4 * world.pods.len().max(6) {
            let why = format!("{} evictions in one step, {} pods", self.evicted, world.pods.len());
            self.differ(Kind::Loop, String::new(), why);
            return;
        }
        // Two that both run may have been bound in any order.
        for (pods, difference) in std::mem::take(&mut self.passed_over) {
            let runs = pods.iter().any(|uid| self.bound[self.bound_before..].contains(uid));
            if !runs || pods.iter().any(|uid| self.evicted_for.contains(uid)) {
                self.differences.push(difference);
            }
        }
        self.check_pledges(&world);
        // One with a claim waits as long as pods leave, whatever changed since they were evicted.
        let (before, is_leaving) = (world.clone(), !leaving(&world).is_empty());
        for pod in 0..world.pods.len() {
            // What was freed for a claimant is its own, whatever others make of its ceiling meanwhile.
            let is_pledged = self.is_pledged(&world.pods[pod].uid);
            if world.pods[pod].claim.is_some() && world.pods[pod].pending() && !is_pledged && !real_claim(&world, pod) {
                world.pods[pod].claim = None;
            }
        }
        let world = world;
        for claimant in pending_claimants(&world) {
            let awaits = self
                .pledges
                .iter()
                .any(|pledge| claimant.pods.iter().any(|pod| pledge.claimant.contains(&world.pods[*pod].uid)));
            let claims = claimant.pods.iter().any(|pod| before.pods[*pod].claim.is_some());
            if !claimant.modelled(&world) || awaits || claims && is_leaving {
                continue;
            }
            if let Some(placed) = room_now(&world, &claimant) {
                let nodes: Vec<&str> = placed.iter().map(|(_, node)| world.nodes[*node].name.as_str()).collect();
                let why = format!("{} waits, and fits {}", claimant.name(&world), nodes.join(", "));
                self.differ(Kind::Room, about(&world, &claimant), why);
            } else if room_then(&world, &claimant).is_none()
                && let Some(found) = better_set(&world, &claimant, None)
                && !self.closes_a_cycle(&world, &claimant, &found.victims)
            {
                let why = format!("{} waits, and may evict {}", claimant.name(&world), keys(&world, &found.victims));
                self.differ(Kind::NoClaim, about(&world, &claimant), why);
            }
        }
    }

    /// "A claimant binds when its own victims are gone."
    fn check_pledges(&mut self, world: &World) {
        let exists = |uid: &String| world.pods.iter().any(|pod| pod.uid == *uid);
        let bound = self.bound.clone();
        let mut waiting: Vec<String> = Vec::new();
        self.pledges.retain(|pledge| {
            let waits = |pod: &usize| !world.pods[*pod].ended && pledge.claimant.contains(&world.pods[*pod].uid);
            let members: Vec<usize> = (0..world.pods.len()).filter(waits).collect();
            let since = &bound[pledge.bound..];
            let served = pledge.claimant.iter().any(|uid| since.contains(uid)) || members.is_empty();
            if served || pledge.victims.iter().any(exists) {
                return !served;
            }
            let taken_over = (0..world.pods.len()).any(|other| {
                let pod = &world.pods[other];
                pod.holds()
                    && since.contains(&pod.uid)
                    && members.iter().any(|member| may_take_claim(world, other, *member))
            });
            if !taken_over {
                waiting.push(keys(world, &members));
            }
            false
        });
        for names in waiting {
            self.differ(
                Kind::ForNothing,
                String::new(),
                format!("{names} waits, and the pods that were evicted for it are gone"),
            );
        }
    }

    /// Whether classes that took from each other before would do so in a circle.
    fn closes_a_cycle(&self, world: &World, claimant: &Claimant, victims: &[usize]) -> bool {
        let goal = class(world, claimant.pods[0]);
        let mut reached: Vec<String> = victims.iter().map(|victim| class(world, *victim)).collect();
        let mut next = 0;
        while next < reached.len() {
            let from = reached[next].clone();
            next += 1;
            for (taker, taken) in &self.took {
                if *taker == from && !reached.contains(taken) {
                    reached.push(taken.clone());
                }
            }
        }
        reached.contains(&goal)
    }
}

/// All pending claimants: pods, and gangs once.
pub fn pending_claimants(world: &World) -> Vec<Claimant> {
    let mut seen: BTreeMap<Vec<usize>, Claimant> = BTreeMap::new();
    for pod in (0..world.pods.len()).filter(|pod| world.pods[*pod].pending()) {
        if let Some(claimant) = Claimant::of(world, pod) {
            seen.entry(claimant.pods.clone()).or_insert(claimant);
        }
    }
    seen.into_values().collect()
}
