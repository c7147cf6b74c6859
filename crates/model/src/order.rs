//! Whose turn it is: design 3, "queues by share of entitlement (the least served first), then priority, then age".

use std::cmp::Ordering;

use crate::fit::Claimant;
use crate::quota::Policy;
use crate::world::{Held, World};

/// A share as a fraction; something used of no entitlement is more than any.
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

/// The least and the greatest share of what a pod's quota is entitled to that it holds, as pods that come and go
/// count or not; `None` where it can be read in other ways, too.
fn share(world: &World, pod: usize) -> Option<(Share, Share)> {
    let quotas = world.counting_quotas(pod);
    // "Pods without a quota count as exactly served."
    let Some(quota) = quotas.first().copied() else { return Some((Share(1, 1), Share(1, 1))) };
    let of = &world.quotas[quota];
    if quotas.len() > 1 || of.parent.is_some() || of.is_capability_alone() {
        return None;
    }
    let mut most = world.held_now();
    most.extend(world.held_then(&[]));
    Some((share_of(world, quota, &world.held_staying())?, share_of(world, quota, &most)?))
}

fn share_of(world: &World, quota: usize, held: &Held) -> Option<Share> {
    let of = &world.quotas[quota];
    let names = match (of.policy, &of.deserved) {
        (Policy::Elastic | Policy::Fair, _) => &of.min,
        (Policy::Tree, _) => &of.max,
        (Policy::Queue, Some(deserved)) => deserved,
        (Policy::Queue, None) => &of.guarantee,
    };
    let mut shares: Vec<Share> = Vec::new();
    for name in names.keys() {
        match (world.used(held, quota, name), world.entitlement(held, quota, name)?) {
            // Nothing of nothing: no document says what share that is.
            (_, 0) => return None,
            (used, entitled) => shares.push(Share(used, entitled)),
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
            (Some((_, most)), Some((least, _))) if most.compare(least) == Ordering::Less => Ordering::Less,
            (Some(a), Some(b)) if [a.0, a.1, b.0, b.1].iter().all(|one| one.compare(a.0) == Ordering::Equal) => {
                Ordering::Equal
            }
            _ => return false,
        }
    };
    let key = |index: usize| (-world.pods[index].priority, world.pods[index].created.clone());
    shares.then_with(|| key(a).cmp(&key(b))) == Ordering::Less
}
