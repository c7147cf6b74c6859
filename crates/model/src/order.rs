//! Whose turn it is: design 3, "queues by share of entitlement (the least served first), then priority, then age".

use std::cmp::Ordering;

use crate::fit::Claimant;
use crate::quota::Policy;
use crate::world::World;

/// A share as a fraction; nothing owed and something held is more than any.
#[derive(Debug, Clone, Copy)]
struct Share(i128, i128);

impl Share {
    fn compare(self, other: Share) -> Ordering {
        match (self.1, other.1) {
            (0, 0) => Ordering::Equal,
            (0, _) => Ordering::Greater,
            (_, 0) => Ordering::Less,
            _ => (self.0 * other.1).cmp(&(other.0 * self.1)),
        }
    }
}

/// The share of what a pod's quota is entitled to that it holds; `None` where that can be read in several ways.
fn share(world: &World, pod: usize) -> Option<Share> {
    let quotas = world.counting_quotas(pod);
    // "Pods without a quota count as exactly served."
    let Some(quota) = quotas.first().copied() else { return Some(Share(1, 1)) };
    let of = &world.quotas[quota];
    if quotas.len() > 1 || of.parent.is_some() || of.is_capability_alone() {
        return None;
    }
    // While pods come and go, it is not said which of them count.
    let moving = (0..world.pods.len()).any(|other| {
        let pod = &world.pods[other];
        world.in_quota(other, quota) && (pod.leaving || pod.node.is_none() && pod.claim.is_some())
    });
    if moving {
        return None;
    }
    let held = world.held_now();
    let names = match (of.policy, &of.deserved) {
        (Policy::Elastic | Policy::Fair, _) => &of.min,
        (Policy::Tree, _) => &of.max,
        (Policy::Queue, Some(deserved)) => deserved,
        (Policy::Queue, None) => &of.guarantee,
    };
    let mut shares: Vec<Share> = Vec::new();
    for name in names.keys() {
        let (used, entitled) = (world.used(&held, quota, name), world.entitlement(&held, quota, name)?);
        match (used, entitled) {
            // Nothing of nothing: no document says what share that is.
            (_, 0) => return None,
            _ => shares.push(Share(used, entitled)),
        }
    }
    shares.into_iter().reduce(|a, b| if a.compare(b) == Ordering::Less { b } else { a })
}

/// Whether one claimant surely has its turn before another.
pub fn surely_before(world: &World, first: &Claimant, second: &Claimant) -> bool {
    let (a, b) = (first.pods[0], second.pods[0]);
    let shares = if world.pods[a].quotas == world.pods[b].quotas {
        Ordering::Equal
    } else {
        match (share(world, a), share(world, b)) {
            (Some(a), Some(b)) => a.compare(b),
            _ => return false,
        }
    };
    let key = |index: usize| (-world.pods[index].priority, world.pods[index].created.clone());
    shares.then_with(|| key(a).cmp(&key(b))) == Ordering::Less
}
