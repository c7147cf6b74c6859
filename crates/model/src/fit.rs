//! Whether pods fit: nodes and ceilings, tried by placing them.

use crate::amount::Amounts;
use crate::quota::{Policy, Sure};
use crate::world::{GPU, Held, World};

/// Pods and the nodes that they are put on.
pub type Placed = Vec<(usize, usize)>;

impl World {
    /// Whether the node may take the pod at all, its room apart.
    pub fn node_suits(&self, pod: usize, node: usize) -> bool {
        let (of, on) = (&self.pods[pod], &self.nodes[node]);
        let labels = of.selector.iter().all(|(key, value)| match key.as_str() {
            "kubernetes.io/hostname" => on.labels.get(key).unwrap_or(&on.name) == value,
            _ => on.labels.get(key) == Some(value),
        });
        let named = of.cards.is_empty() || on.card.as_ref().is_some_and(|card| of.cards.contains(card));
        labels && named && !on.unmodelled
    }

    /// Whether the nodes have room for the pods beside what is held.
    pub fn nodes_admit(&self, held: &Held, placed: &[(usize, usize)]) -> bool {
        placed.iter().all(|(pod, node)| {
            let on_node = || held.iter().map(|(pod, node)| (*pod, *node)).chain(placed.iter().copied());
            let there: Vec<usize> = on_node().filter(|(_, at)| at == node).map(|(pod, _)| pod).collect();
            let room = |resource: &str| self.nodes[*node].allocatable.get(resource).copied().unwrap_or(0);
            let taken = |resource: &str| -> i128 {
                there.iter().filter_map(|pod| self.pods[*pod].requests.get(resource)).sum()
            };
            self.node_suits(*pod, *node)
                && there.len() as i128 <= room("pods")
                && self.pods[*pod].requests.keys().all(|resource| taken(resource) <= room(resource))
        })
    }

    /// The first ceiling that the pods pass beside what is held: "used + request > max" and so on, in words.
    pub fn passed_ceiling(&self, held: &Held, gone: &[usize], placed: &[(usize, usize)], sure: Sure) -> Option<String> {
        let mut then = held.clone();
        then.extend(placed.iter().copied());
        for (pod, node) in placed {
            for leaf in &self.pods[*pod].quotas {
                for quota in self.chain(*leaf) {
                    let why = self.passed_at(&then, gone, (*pod, *node), quota, sure);
                    if why.is_some() {
                        return why;
                    }
                }
                if self.quotas[*leaf].policy == Policy::Queue {
                    let charge = self.charge(*pod, *node);
                    let why = charge.keys().find_map(|resource| self.taken_guarantee(held, &then, *leaf, resource));
                    if why.is_some() {
                        return why;
                    }
                }
                let why = self.passed_non_preemptible(&then, *pod, *leaf);
                if why.is_some() {
                    return why;
                }
            }
        }
        self.passed_default_queue(&then, placed, sure)
    }

    fn passed_at(
        &self,
        then: &Held,
        gone: &[usize],
        (pod, node): (usize, usize),
        quota: usize,
        sure: Sure,
    ) -> Option<String> {
        let of = &self.quotas[quota];
        for resource in self.charge(pod, node).keys() {
            let used = self.used(then, quota, resource);
            let limit = self.ceiling(then, gone, quota, resource, sure);
            if let Some(limit) = limit.filter(|limit| used > *limit) {
                return Some(format!("{} would hold {used} of {resource}, its ceiling is {limit}", of.name));
            }
            if !matches!(of.policy, Policy::Elastic | Policy::Fair) {
                continue;
            }
            let pool = (0..self.quotas.len()).filter(|index| self.quotas[*index].pool == of.pool);
            let used: i128 = pool.map(|index| self.used(then, index, resource)).sum();
            if let Some(limit) = self.pool_limit(&of.pool, resource).filter(|limit| used > *limit) {
                return Some(format!("the pool {} would hold {used} of {resource} of {limit}", of.pool));
            }
        }
        None
    }

    /// "A pod labelled `preemptible: "false"`: non-preemptible used + request ≤ min" (a tree refuses them at
    /// admission).
    fn passed_non_preemptible(&self, then: &Held, pod: usize, quota: usize) -> Option<String> {
        let of = &self.quotas[quota];
        if of.policy != Policy::Tree || !self.pods[pod].held_to_min {
            return None;
        }
        for resource in self.pods[pod].requests.keys() {
            let such =
                then.keys().filter(|pod| self.pods[**pod].held_to_min && self.pods[**pod].quotas.contains(&quota));
            let used: i128 = such.filter_map(|pod| self.pods[*pod].requests.get(resource)).sum();
            if let Some(min) = of.min.get(resource).filter(|min| used > **min) {
                return Some(format!(
                    "non-preemptible pods of {} would hold {used} of {resource}, its min is {min}",
                    of.name
                ));
            }
        }
        None
    }

    /// The queue `default` exists always. Whether guarantees of queues are kept free from pods that name no queue is
    /// not said, so it is only never taken for sure that they are not.
    fn passed_default_queue(&self, then: &Held, placed: &[(usize, usize)], sure: Sure) -> Option<String> {
        if sure == Sure::Perhaps {
            return None;
        }
        let queued = |pod: usize| self.pods[pod].quotas.iter().any(|quota| self.quotas[*quota].policy == Policy::Queue);
        for (pod, node) in placed.iter().filter(|(pod, _)| !queued(*pod)) {
            for resource in self.charge(*pod, *node).keys() {
                let tops = self.quotas.iter().filter(|quota| quota.policy == Policy::Queue && quota.parent.is_none());
                let guaranteed: i128 = tops.filter_map(|quota| quota.guarantee.get(resource)).sum();
                let others = then.iter().filter(|(pod, _)| !queued(**pod));
                let used: i128 = others.map(|(pod, node)| self.charged(*pod, *node, resource)).sum();
                if guaranteed > 0 && used > self.total(resource) - guaranteed {
                    return Some(format!("{guaranteed} of {resource} are guaranteed to queues"));
                }
            }
        }
        None
    }

    /// Whether the pods can be put where they are put: nodes and every ceiling.
    pub fn admits(&self, held: &Held, gone: &[usize], placed: &[(usize, usize)], sure: Sure) -> bool {
        self.nodes_admit(held, placed) && self.passed_ceiling(held, gone, placed, sure).is_none()
    }

    /// Every way to place a claimant: a pod on each node, a gang's minimum on all combinations.
    pub fn ways(&self, claimant: &Claimant) -> Vec<Placed> {
        let mut ways: Vec<Placed> = Vec::new();
        for members in combinations(&claimant.pods, claimant.needed) {
            let mut partial: Vec<Placed> = vec![Vec::new()];
            for member in members {
                partial = partial
                    .iter()
                    .flat_map(|placed| {
                        let nodes = (0..self.nodes.len()).filter(|node| self.node_suits(member, *node));
                        nodes
                            .map(|node| placed.iter().copied().chain([(member, node)]).collect())
                            .collect::<Vec<Placed>>()
                    })
                    // On a node that is too small even when it is empty nobody needs to be tried.
                    .filter(|placed: &Placed| self.nodes_admit(&Held::new(), placed))
                    .collect();
            }
            ways.extend(partial);
        }
        ways.retain(|placed| self.same_card(placed));
        ways
    }

    /// "All tasks of a job take the same card", where they name cards: those that are placed together, and those that
    /// run already if theirs is a card that the pod accepts.
    fn same_card(&self, placed: &[(usize, usize)]) -> bool {
        let names = |pod: usize| self.pods[pod].requests.contains_key(GPU) && !self.pods[pod].cards.is_empty();
        let card = |node: usize| self.nodes[node].card.as_deref();
        let cards: Vec<Option<&str>> =
            placed.iter().filter(|(pod, _)| names(*pod)).map(|(_, node)| card(*node)).collect();
        let is_as_held = |(pod, node): &(usize, usize)| {
            let Some(gang) = self.pods[*pod].gang.filter(|_| names(*pod)) else { return true };
            let running = self.running_members(gang).into_iter().filter(|member| names(*member));
            let mut held = running.filter_map(|member| card(self.pods[member].node?));
            held.next()
                .is_none_or(|held| !self.pods[*pod].cards.iter().any(|own| own == held) || card(*node) == Some(held))
        };
        cards.windows(2).all(|pair| pair[0] == pair[1]) && placed.iter().all(is_as_held)
    }
}

/// Who asks for room: a pod, or as many pods as a gang still needs to reach its minimum.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Claimant {
    /// The pods of which `needed` must be placed, by priority, age and name.
    pub pods: Vec<usize>,
    pub needed: usize,
}

impl Claimant {
    /// The claimant that a pending pod belongs to; `None` if its gang has too few pods.
    pub fn of(world: &World, pod: usize) -> Option<Claimant> {
        let Some(gang) = world.pods[pod].gang else {
            return Some(Claimant { pods: vec![pod], needed: 1 });
        };
        let missing = world.gangs[gang].minimum.saturating_sub(world.running_members(gang).len());
        if missing == 0 {
            return Some(Claimant { pods: vec![pod], needed: 1 });
        }
        let mut pods: Vec<usize> = (0..world.pods.len())
            .filter(|index| world.pods[*index].gang == Some(gang) && world.pods[*index].pending())
            .collect();
        pods.sort_by_key(|index| {
            let pod = &world.pods[*index];
            (-pod.priority, pod.created.clone(), pod.key())
        });
        (pods.len() >= missing).then_some(Claimant { pods, needed: missing })
    }

    pub fn priority(&self, world: &World) -> i64 {
        self.pods.iter().map(|pod| world.pods[*pod].priority).min().unwrap_or(0)
    }

    pub fn name(&self, world: &World) -> String {
        let names: Vec<String> = self.pods.iter().map(|pod| world.pods[*pod].key()).collect();
        names.join(" + ")
    }

    /// Whether the model knows all about it.
    pub fn modelled(&self, world: &World) -> bool {
        self.pods.iter().all(|pod| !world.pods[*pod].unmodelled)
    }

    /// What the resources that it asks for are, by all names.
    pub fn asks(&self, world: &World, placed: &[(usize, usize)]) -> Amounts {
        world.charge_of(placed)
    }
}

/// All ways to choose `count` of `items`, in order.
pub fn combinations(items: &[usize], count: usize) -> Vec<Vec<usize>> {
    if count == 0 {
        return vec![Vec::new()];
    }
    if items.len() < count {
        return Vec::new();
    }
    let mut chosen: Vec<Vec<usize>> = combinations(&items[1..], count - 1);
    for set in &mut chosen {
        set.insert(0, items[0]);
    }
    chosen.extend(combinations(&items[1..], count));
    chosen
}
