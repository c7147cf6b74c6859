//! Who may be evicted for whom: design 1, "Settled since", sentence by sentence.
//!
//! Where the documents leave two readings open, a right is held to exist `Surely` (in both) or `Perhaps` (in one).
//! What the program did is wrong only where it had perhaps no right; what it did not do, only where the right is
//! sure.

use std::collections::BTreeSet;

use crate::amount::Amounts;
use crate::fit::Claimant;
use crate::quota::{Policy, Sure};
use crate::world::{Held, World};

/// By what right a pod goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Base {
    /// The claimant's quota is within its entitlement and takes back.
    Reclaim(usize),
    /// The claimant of a fair pool is beyond min, within its fair share.
    Share(usize),
    /// Lower priority, in the same quota.
    Own(usize),
    /// Lower priority, and neither has a quota.
    NoQuota,
}

/// A claimant with what it asks for, at one moment.
pub struct Rights<'a> {
    pub world: &'a World,
    pub claimant: &'a Claimant,
    /// What it asks for, by all names.
    pub asks: Amounts,
    /// What will be held when all have come and gone, the claimant excepted.
    then: Held,
    /// The same without claims.
    staying: Held,
    /// The same with those that leave.
    high: Held,
}

impl<'a> Rights<'a> {
    pub fn new(world: &'a World, claimant: &'a Claimant, asks: Amounts) -> Rights<'a> {
        let then = world.held_then(&claimant.pods);
        let mut high = world.held_now();
        high.extend(&then);
        Rights { world, claimant, asks, then, staying: world.held_staying(), high }
    }

    /// "Every comparison looks at the resources that the claimant requests, and at no others."
    fn asked(&self) -> impl Iterator<Item = (&str, i128)> {
        self.asks.iter().map(|(resource, amount)| (resource.as_str(), *amount))
    }

    fn of_pod(&self) -> usize {
        self.claimant.pods[0]
    }

    /// Whether the claimant's quota stays within its entitlement: the bases for taking from others.
    pub fn reclaims(&self, sure: Sure) -> Vec<Base> {
        let held = match sure {
            Sure::Surely => &self.high,
            Sure::Perhaps => &self.then,
        };
        let mut bases = Vec::new();
        for quota in self.world.counting_quotas(self.of_pod()) {
            let of = &self.world.quotas[quota];
            let used = |resource: &str| self.world.used(held, quota, resource);
            match of.policy {
                Policy::Elastic | Policy::Fair => {
                    let governed: Vec<(&str, i128)> =
                        self.asked().filter(|(resource, _)| self.world.governed(&of.pool, resource)).collect();
                    let min = |resource: &str| of.min.get(resource).copied().unwrap_or(0);
                    // "A pod that asks for nothing governed stands outside its entitlement."
                    if governed.is_empty() {
                        continue;
                    }
                    let within = |more: &dyn Fn(&str) -> i128| {
                        governed.iter().all(|(name, asks)| used(name) + asks <= min(name) + more(name))
                    };
                    if within(&|_| 0) {
                        bases.push(Base::Reclaim(quota));
                    } else if of.policy == Policy::Fair
                        && within(&|name| self.world.guaranteed_over_quota(&self.then, quota, name))
                    {
                        bases.push(Base::Share(quota));
                    }
                }
                Policy::Tree => {
                    if self.within_min_of_tree(quota, held, sure) {
                        bases.push(Base::Reclaim(quota));
                    }
                }
                Policy::Queue => {
                    if of.open && !self.within_deserved(quota, sure).is_empty() {
                        bases.push(Base::Reclaim(quota));
                    }
                }
            }
        }
        bases
    }

    /// "At once for a claimant within its min."
    fn within_min_of_tree(&self, quota: usize, held: &Held, sure: Sure) -> bool {
        let levels = match sure {
            Sure::Surely => self.world.chain(quota),
            Sure::Perhaps => vec![quota],
        };
        levels.iter().all(|level| {
            let of = &self.world.quotas[*level];
            let named: Vec<(&str, i128)> = self
                .asked()
                .filter(|(name, _)| {
                    of.max.contains_key(*name) || sure == Sure::Surely && self.world.governed(&of.pool, name)
                })
                .collect();
            let min = |name: &str| of.min.get(name).copied().unwrap_or(0);
            !named.is_empty()
                && named.iter().all(|(name, asks)| self.world.used(held, *level, name) + asks <= min(name))
        })
    }

    /// The resources asked for in which the claimant's queue stays within what it deserves: "within deserved on at
    /// least one requested dimension".
    fn within_deserved(&self, quota: usize, sure: Sure) -> Vec<&str> {
        let held = match sure {
            Sure::Surely => &self.high,
            Sure::Perhaps => &self.then,
        };
        let levels = match sure {
            Sure::Surely => self.world.chain(quota),
            Sure::Perhaps => vec![quota],
        };
        let within = |level: usize, name: &str, asks: i128| {
            let deserved = self.world.entitlement(&self.then, level, name);
            let says = level == quota || self.world.quotas[level].deserved.is_some();
            !says || deserved.is_some_and(|deserved| self.world.used(held, level, name) + asks <= deserved)
        };
        self.asked()
            .filter(|(name, asks)| levels.iter().all(|level| within(*level, name, *asks)))
            .map(|(name, _)| name)
            .collect()
    }

    /// The bases on which a pod may go for the claimant, what its quotas protect apart.
    pub fn bases(&self, victim: usize, sure: Sure) -> Vec<Base> {
        let world = self.world;
        let (theirs, ours) = (world.counting_quotas(victim), world.counting_quotas(self.of_pod()));
        let less_important = world.pods[victim].priority < self.claimant.priority(world);
        let same_gang = world.pods[victim].gang.is_some() && world.pods[victim].gang == world.pods[self.of_pod()].gang;
        if same_gang || world.pods[self.of_pod()].never_preempts {
            return Vec::new();
        }
        // "A claimant without a quota may evict only lower-priority pods without one, and pods without a quota are
        // victims for nobody else."
        let theirs: Vec<usize> = theirs.into_iter().chain(self.owing(victim)).collect();
        if ours.is_empty() || theirs.is_empty() {
            let both = ours.is_empty() && theirs.is_empty() && less_important;
            return if both { vec![Base::NoQuota] } else { Vec::new() };
        }
        let mut bases: Vec<Base> = Vec::new();
        for base in self.reclaims(sure) {
            let (Base::Reclaim(own) | Base::Share(own)) = base else { continue };
            let other = theirs.iter().any(|quota| {
                *quota != own && world.quotas[*quota].pool == world.quotas[own].pool && !ours.contains(quota)
            });
            if other {
                bases.push(base);
            }
        }
        let shared = ours.iter().filter(|quota| less_important && theirs.contains(quota));
        bases.extend(shared.map(|quota| Base::Own(*quota)));
        bases
    }

    /// Whether all these pods may go for the claimant, each on one of the bases.
    pub fn permits(&self, victims: &[usize], bases: &BTreeSet<Base>, sure: Sure) -> bool {
        let world = self.world;
        if victims.iter().any(|victim| world.pods[*victim].unmodelled && sure == Sure::Surely) {
            return false;
        }
        let allowed: Vec<Vec<Base>> = victims
            .iter()
            .map(|victim| self.bases(*victim, sure).into_iter().filter(|base| bases.contains(base)).collect())
            .collect();
        if allowed.iter().any(Vec::is_empty)
            || !self.keeps_gangs(victims, sure)
            || !self.keeps_guarantees(victims, sure)
        {
            return false;
        }
        if victims.iter().any(|victim| self.says_no(*victim, sure)) {
            return false;
        }
        let units = self.units(victims);
        let taken = |mask: usize| -> Vec<usize> {
            let chosen = units.iter().enumerate().filter(|(index, _)| mask & (1 << index) != 0);
            chosen.flat_map(|(_, unit)| unit.iter().copied()).collect()
        };
        let may_go = |unit: usize, before: usize| {
            let gone = taken(before);
            units[unit].iter().all(|victim| {
                let place = victims.iter().position(|other| other == victim).unwrap_or(0);
                allowed[place].iter().any(|base| self.in_turn(*victim, &units[unit], &gone, *base, sure))
            })
        };
        let all = (1_usize << units.len()) - 1;
        match sure {
            // In whatever turn they go.
            Sure::Surely => (0..units.len()).all(|unit| may_go(unit, all & !(1 << unit))),
            // In some turn.
            Sure::Perhaps => {
                let mut reached = vec![false; all + 1];
                reached[0] = true;
                for mask in 0..=all {
                    let next = (0..units.len()).filter(|unit| mask & (1 << unit) == 0 && reached[mask]);
                    for unit in next.collect::<Vec<usize>>() {
                        reached[mask | 1 << unit] |= may_go(unit, mask);
                    }
                }
                reached[all]
            }
        }
    }

    /// The queues of a pod that say nothing, and that yet owe the claimant something.
    fn owing(&self, victim: usize) -> Vec<usize> {
        let own = self.world.counting_quotas(self.of_pod()).into_iter();
        let own: Vec<usize> = own.filter(|quota| self.world.quotas[*quota].policy == Policy::Queue).collect();
        let plain = self.world.pods[victim].quotas.iter().filter(|quota| self.world.quotas[**quota].says_nothing());
        let owes = |plain: &&usize| {
            own.iter().any(|own| self.asked().any(|(resource, _)| self.is_owed(**plain, *own, resource)))
        };
        plain.filter(owes).copied().collect()
    }

    fn is_owed(&self, plain: usize, own: usize, resource: &str) -> bool {
        let asks = self.asks.get(resource).copied().unwrap_or(0);
        self.world.owes(plain, own, resource, self.world.used(&self.then, own, resource) + asks)
    }

    /// "The minimum of a gang counts as one pod of that size as victim": members go together as one, others by
    /// themselves.
    fn units(&self, victims: &[usize]) -> Vec<Vec<usize>> {
        let mut units: Vec<Vec<usize>> = Vec::new();
        for victim in victims {
            let gang = self.world.pods[*victim]
                .gang
                .filter(|gang| self.world.running_members(*gang).iter().all(|member| victims.contains(member)));
            let together = units.iter_mut().find(|unit| gang.is_some() && self.world.pods[unit[0]].gang == gang);
            match together {
                Some(unit) => unit.push(*victim),
                None => units.push(vec![*victim]),
            }
        }
        units
    }

    /// "It goes whole …; what it has beyond its minimum goes one by one, first."
    fn keeps_gangs(&self, victims: &[usize], sure: Sure) -> bool {
        let gangs: BTreeSet<usize> = victims.iter().filter_map(|victim| self.world.pods[*victim].gang).collect();
        gangs.iter().all(|gang| {
            let members = self.world.running_members(*gang);
            let minimum = self.world.gangs[*gang].minimum;
            let taken = members.iter().filter(|member| victims.contains(member)).count();
            let incomplete = members.len() < minimum;
            members.len() - taken >= minimum || taken == members.len() || incomplete && sure == Sure::Perhaps
        })
    }

    /// "Never below their guarantee": of every queue that the claimant is not in.
    fn keeps_guarantees(&self, victims: &[usize], sure: Sure) -> bool {
        let world = self.world;
        let held = match sure {
            Sure::Surely => &self.staying,
            Sure::Perhaps => &self.then,
        };
        let mut after = held.clone();
        after.retain(|pod, _| !victims.contains(pod));
        let queues: BTreeSet<usize> = victims
            .iter()
            .flat_map(|victim| world.pods[*victim].quotas.iter())
            .flat_map(|quota| world.chain(*quota))
            .filter(|quota| world.quotas[*quota].policy == Policy::Queue && !world.in_quota(self.of_pod(), *quota))
            .collect();
        queues.iter().all(|queue| {
            self.asked().all(|(name, _)| {
                let guarantee = world.quotas[*queue].guarantee.get(name).copied().unwrap_or(0);
                let left = world.used(&after, *queue, name);
                let touched = left < world.used(held, *queue, name);
                left >= guarantee || sure == Sure::Perhaps && !touched
            })
        })
    }

    /// "A pod that says it must not be evicted is protected only within what its quota is entitled to: of a quota's
    /// such pods the oldest, up to its entitlement."
    fn says_no(&self, victim: usize, sure: Sure) -> bool {
        let world = self.world;
        if !world.pods[victim].not_preemptable {
            return false;
        }
        let quotas = world.counting_quotas(victim);
        let within = |quota: &usize| {
            let older: Held = self
                .staying
                .iter()
                .filter(|(pod, _)| {
                    let pod = &world.pods[**pod];
                    pod.not_preemptable && pod.created <= world.pods[victim].created && pod.quotas.contains(quota)
                })
                .map(|(pod, node)| (*pod, *node))
                .collect();
            let named: Vec<bool> = self
                .asked()
                .filter_map(|(name, _)| {
                    let entitled = world.entitlement(&self.then, *quota, name)?;
                    Some(world.used(&older, *quota, name) <= entitled)
                })
                .collect();
            match sure {
                Sure::Surely => named.is_empty() || named.iter().any(|within| *within),
                Sure::Perhaps => !named.is_empty() && named.iter().all(|within| *within),
            }
        };
        match sure {
            Sure::Surely => {
                let queue = |quota: &usize| {
                    let of = &world.quotas[*quota];
                    of.policy == Policy::Queue && of.deserved.as_ref().is_some_and(|deserved| !deserved.is_empty())
                };
                quotas.len() != 1 || !quotas.iter().all(queue) || quotas.iter().any(within)
            }
            Sure::Perhaps => quotas.iter().any(within),
        }
    }

    /// Whether a pod may go as the next one, those before it gone already.
    fn in_turn(&self, victim: usize, unit: &[usize], gone: &[usize], base: Base, sure: Sure) -> bool {
        let world = self.world;
        let held = match sure {
            Sure::Surely => &self.staying,
            Sure::Perhaps => &self.then,
        };
        let mut left = held.clone();
        left.retain(|pod, _| !gone.contains(pod));
        let ours = world.counting_quotas(self.of_pod());
        let owing = if matches!(base, Base::Reclaim(_)) { self.owing(victim) } else { Vec::new() };
        world.counting_quotas(victim).iter().chain(&owing).all(|quota| {
            let shared = ours.contains(quota);
            match base {
                Base::Own(own) if own == *quota => true,
                Base::NoQuota => true,
                _ if shared && sure == Sure::Perhaps => true,
                Base::Reclaim(own) | Base::Share(own)
                    if world.quotas[own].pool == world.quotas[*quota].pool && !shared =>
                {
                    self.gives_back(unit, *quota, &left, base, sure)
                }
                _ => !self.protects(unit, *quota, &left, sure),
            }
        })
    }

    /// Whether a quota of the claimant's own pool is still above what it is entitled to, so that the pod may be
    /// taken back.
    fn gives_back(&self, unit: &[usize], quota: usize, left: &Held, base: Base, sure: Sure) -> bool {
        let world = self.world;
        let of = &world.quotas[quota];
        match of.policy {
            Policy::Elastic => self.above(unit, quota, left, sure, None, 0),
            Policy::Fair => {
                let share = matches!(base, Base::Share(_));
                self.is_over_quota(unit, quota, sure) && self.above(unit, quota, left, sure, None, usize::from(share))
            }
            Policy::Tree => self.levels(quota, sure).iter().all(|level| self.above(unit, *level, left, sure, None, 0)),
            Policy::Queue => {
                let Base::Reclaim(own) = base else { return false };
                let mut within = self.within_deserved(own, sure);
                if of.says_nothing() {
                    within = self.asked().map(|(name, _)| name).filter(|name| self.is_owed(quota, own, name)).collect();
                }
                let sure_of = if of.says_nothing() { Sure::Surely } else { sure };
                let relevant = (sure_of == Sure::Surely).then_some(&within);
                of.reclaimable
                    && self.levels(quota, sure).iter().all(|level| {
                        let says = *level == quota || world.quotas[*level].deserved.is_some();
                        !says || self.above(unit, *level, left, sure, relevant.map(Vec::as_slice), 0)
                    })
            }
        }
    }

    /// "A victim's other quotas protect by count: each of its quotas must still be above what it is entitled to."
    fn protects(&self, unit: &[usize], quota: usize, left: &Held, sure: Sure) -> bool {
        let of = &self.world.quotas[quota];
        let elastic = matches!(of.policy, Policy::Elastic | Policy::Fair);
        let names = |name: &str| match sure {
            // "A quota that names none of the resources the claimant asks for protects nothing."
            Sure::Perhaps if elastic => of.min.contains_key(name),
            _ => self.world.entitlement(&self.then, quota, name).is_some(),
        };
        if of.is_capability_alone() || !self.asked().any(|(name, _)| names(name)) {
            return false;
        }
        if of.policy == Policy::Queue && !of.reclaimable {
            return true;
        }
        let fair = of.policy == Policy::Fair && sure == Sure::Surely;
        fair && !self.is_over_quota(unit, quota, sure) || !self.above(unit, quota, left, sure, None, usize::from(fair))
    }

    /// The levels at which a victim's quota must be above: surely at all that the claimant is not under.
    fn levels(&self, quota: usize, sure: Sure) -> Vec<usize> {
        let chain = self.world.chain(quota);
        match sure {
            Sure::Surely => chain.into_iter().filter(|level| !self.world.in_quota(self.of_pod(), *level)).collect(),
            Sure::Perhaps => vec![quota],
        }
    }

    /// Whether a quota holds more than it is entitled to of something that the claimant asks for. Surely: of
    /// something that the victim holds, too. `share`: 1 if its guaranteed over-quota is part of what it is entitled
    /// to.
    fn above(&self, unit: &[usize], quota: usize, left: &Held, sure: Sure, of: Option<&[&str]>, share: usize) -> bool {
        let world = self.world;
        self.asked().filter(|(name, _)| of.is_none_or(|names| names.contains(name))).any(|(name, _)| {
            let Some(entitled) = world.entitlement(&self.then, quota, name) else { return false };
            let more = if share > 0 { world.guaranteed_over_quota(&self.then, quota, name) } else { 0 };
            let holds =
                unit.iter().any(|pod| world.pods[*pod].node.is_some_and(|node| world.charged(*pod, node, name) > 0));
            world.used(left, quota, name) > entitled + more && (holds || sure == Sure::Perhaps)
        })
    }

    /// "The minimum of a gang counts as one pod of that size": of which age that one pod is, no document says.
    fn is_over_quota(&self, unit: &[usize], quota: usize, sure: Sure) -> bool {
        let over = |victim: &usize| self.over_quota(*victim, quota, sure);
        match sure {
            Sure::Surely => unit.iter().all(over),
            Sure::Perhaps => unit.iter().any(over),
        }
    }

    /// "Running pods sorted by creation time; cumulative used ≤ min is in-quota, the rest over-quota." Whether all
    /// resources of min count, all that the pool governs ("a quota that leaves it out has min 0 there"), or only those
    /// the claimant asks for can be read in three ways.
    fn over_quota(&self, victim: usize, quota: usize, sure: Sure) -> bool {
        let world = self.world;
        let older: Held = self
            .staying
            .iter()
            .filter(|(pod, _)| world.pods[**pod].created <= world.pods[victim].created)
            .map(|(pod, node)| (*pod, *node))
            .collect();
        let min = &world.quotas[quota].min;
        let over = |name: &str| world.used(&older, quota, name) > min.get(name).copied().unwrap_or(0);
        let by_min = min.keys().any(|name| over(name));
        let pool = &world.quotas[quota].pool;
        let by_asked = self.asked().any(|(name, _)| world.governed(pool, name) && over(name));
        let mins = world.quotas.iter().filter(|other| other.pool == *pool).flat_map(|other| other.min.keys());
        let by_governed = || mins.into_iter().any(|name| over(name));
        match sure {
            Sure::Surely => by_min && by_asked,
            Sure::Perhaps => by_min || by_asked || by_governed(),
        }
    }
}
