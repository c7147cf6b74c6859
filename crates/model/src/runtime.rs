//! The runtime quota of a tree, as the numbers of Koordinator's tests have it. Only the default tree is modelled.

use crate::quota::{Policy, Quota};
use crate::world::{Held, World};

/// What a quota may hold of a resource now; `None` where its max does not name it. `gone`: pods that ask for nothing.
pub fn runtime(world: &World, held: &Held, gone: &[usize], quota: usize, resource: &str) -> Option<i128> {
    world.quotas[quota].max.get(resource)?;
    let parent = world.quotas[quota].parent;
    let total = match parent {
        None => total(world, held, resource),
        Some(parent) => runtime(world, held, gone, parent, resource)?,
    };
    let children: Vec<usize> = (0..world.quotas.len())
        .filter(|index| {
            let child = &world.quotas[*index];
            child.policy == Policy::Tree && child.parent == parent && child.max.contains_key(resource)
        })
        .collect();
    let wishes: Vec<Wish> = children
        .iter()
        .map(|child| {
            let of = &world.quotas[*child];
            let amount = |amounts: &crate::amount::Amounts| amounts.get(resource).copied().unwrap_or(0);
            let request = request(world, gone, *child, resource).min(amount(&of.max));
            Wish { request, min: amount(&of.min), weight: amount(&of.weight), lends: of.lends, name: of.name.clone() }
        })
        .collect();
    let place = children.iter().position(|child| *child == quota)?;
    share(total, &wishes).get(place).copied()
}

/// "A tree's total is Σ allocatable of its nodes, less what the system and default quotas use."
fn total(world: &World, held: &Held, resource: &str) -> i128 {
    let in_tree = |pod: usize| world.pods[pod].quotas.iter().any(|quota| world.quotas[*quota].policy == Policy::Tree);
    let outside = held.iter().filter(|(pod, _)| !in_tree(**pod));
    let used: i128 = outside.map(|(pod, node)| world.charged(*pod, *node, resource)).sum();
    (world.total(resource) - used).max(0)
}

/// "Request goes up: child-request adds up; request = child-request if it lends, else max(child-request, min)."
fn request(world: &World, gone: &[usize], quota: usize, resource: &str) -> i128 {
    let of: &Quota = &world.quotas[quota];
    let amount = |amounts: &crate::amount::Amounts| amounts.get(resource).copied().unwrap_or(0);
    let pods = world.pods.iter().enumerate();
    let own: i128 = pods
        .filter(|(index, pod)| !pod.ended && !gone.contains(index) && pod.quotas.contains(&quota))
        .map(|(_, pod)| amount(&pod.requests))
        .sum();
    let below: i128 = (0..world.quotas.len())
        .filter(|child| world.quotas[*child].policy == Policy::Tree && world.quotas[*child].parent == Some(quota))
        .filter(|child| world.quotas[*child].max.contains_key(resource))
        .map(|child| request(world, gone, child, resource).min(amount(&world.quotas[child].max)))
        .sum();
    if of.lends { own + below } else { (own + below).max(amount(&of.min)) }
}

/// What a child asks of its parent.
#[derive(Debug, Clone)]
pub struct Wish {
    pub request: i128,
    pub min: i128,
    pub weight: i128,
    pub lends: bool,
    pub name: String,
}

/// The parent's total, shared among its children.
pub fn share(total: i128, wishes: &[Wish]) -> Vec<i128> {
    let all: i128 = wishes.iter().map(|wish| wish.min).sum();
    // "If Σ children's min > the parent's runtime the scalable mins shrink in proportion, truncated."
    let min = |wish: &Wish| if all > total { wish.min * total / all } else { wish.min };
    // "If its request > min it gets min and stays hungry; else it gets its request if it lends, or min if it does
    // not."
    let mut got: Vec<i128> = wishes
        .iter()
        .map(|wish| if wish.request > min(wish) || !wish.lends { min(wish) } else { wish.request })
        .collect();
    let mut left = total - got.iter().sum::<i128>();
    let mut hungry: Vec<usize> =
        (0..wishes.len()).filter(|index| wishes[*index].request > got[*index] && wishes[*index].weight > 0).collect();
    while left > 0 && !hungry.is_empty() {
        let weights: i128 = hungry.iter().map(|index| wishes[*index].weight).sum();
        let mut parts: Vec<(usize, i128, i128)> = hungry
            .iter()
            .map(|index| {
                let product = wishes[*index].weight * left;
                (*index, product / weights, product % weights)
            })
            .collect();
        // "The residue one unit each by largest remainder, ties by name."
        let mut residue = left - parts.iter().map(|(_, part, _)| part).sum::<i128>();
        parts.sort_by(|a, b| b.2.cmp(&a.2).then_with(|| wishes[a.0].name.cmp(&wishes[b.0].name)));
        left = 0;
        for (index, part, _) in parts {
            let unit = residue.min(1);
            residue -= unit;
            got[index] += part + unit;
            // "A child that passes its request gives back the surplus."
            let surplus = (got[index] - wishes[index].request).max(0);
            got[index] -= surplus;
            left += surplus;
        }
        hungry.retain(|index| got[*index] < wishes[*index].request);
    }
    got
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wish(name: &str, weight: i128, request: i128, min: i128) -> Wish {
        Wish { request, min, weight, lends: true, name: name.to_string() }
    }

    #[test]
    fn the_numbers_of_the_peer() {
        let four =
            |last: i128| [wish("a", 40, 5, 10), wish("b", 60, 20, 15), wish("c", 50, 40, 20), wish("d", last, 70, 15)];
        assert_eq!(share(100, &four(80)), [5, 20, 35, 40]);
        assert_eq!(share(100, &four(0)), [5, 20, 40, 15]);
        let milli = four(80).map(|w| Wish { request: w.request * 1000, min: w.min * 1000, ..w });
        assert_eq!(share(100_000, &milli), [5000, 20000, 35385, 39615]);
        assert_eq!(share(100, &[wish("a", 1, 60, 60), wish("b", 1, 90, 50)]), [54 + 1, 45]);
        assert_eq!(share(50, &[wish("a", 40, 30, 10), wish("b", 40, 30, 0)]), [30, 20]);
        let kept = Wish { lends: false, ..wish("b", 96, 0, 40) };
        assert_eq!(share(100, &[wish("a", 96, 96, 60), kept]), [60, 40]);
        let three =
            [wish("a", 100, 200_000, 100_000), wish("b", 100, 200_000, 100_000), wish("c", 100, 200_000, 100_000)];
        assert_eq!(share(200_000, &three), [66_667, 66_667, 66_666]);
    }
}
