//! All sets of victims of a claimant: is there a permitted one, and is there one that is cheaper than what was taken?

use std::collections::{BTreeMap, BTreeSet};

use crate::amount::Amounts;
use crate::cost::Cost;
use crate::fit::{Claimant, Placed, combinations};
use crate::quota::Sure;
use crate::rights::{Base, Rights};
use crate::world::World;

/// Of more candidates than this not all sets are tried.
const CANDIDATES_MAX: usize = 12;

/// A set of victims and where the claimant goes then.
#[derive(Debug, Clone)]
pub struct Found {
    pub victims: Vec<usize>,
    pub placed: Placed,
}

/// The ways to place a claimant, by what it asks for there.
pub fn ways_by_request(world: &World, claimant: &Claimant) -> BTreeMap<Amounts, Vec<Placed>> {
    let mut ways: BTreeMap<Amounts, Vec<Placed>> = BTreeMap::new();
    for placed in world.ways(claimant) {
        ways.entry(world.charge_of(&placed)).or_default().push(placed);
    }
    ways
}

/// Whether the claimant may surely be placed once all who leave are gone, without another eviction.
pub fn room_then(world: &World, claimant: &Claimant) -> Option<Placed> {
    let then = world.held_then(&claimant.pods);
    let leaving = leaving(world);
    world.ways(claimant).into_iter().find(|placed| world.admits(&then, &leaving, placed, Sure::Surely))
}

/// Whether it may surely be placed now, and nobody who has a claim is kept out by it. "From the decision to evict
/// until the claimant binds, what it freed is its own: nobody else takes it", so what leaves and what is claimed are
/// added up; only "a claimant binds when its own victims are gone", which is looked at apart.
///
/// Each on its own would let in pods that keep claimants out. Of 10, 8 are held: 2 leave for a claimant of 4, and 2 for
/// one of 0.5. A pod of 1.5 fits now (9.5) and then (10); but once the first 2 are gone the claimant of 4 does not fit
/// (11.5), and waits for the victims of another.
pub fn room_now(world: &World, claimant: &Claimant) -> Option<Placed> {
    let (now, then) = (world.held_now(), world.held_then(&claimant.pods));
    let mut both = now.clone();
    both.extend(&then);
    let leaving = leaving(world);
    world
        .ways(claimant)
        .into_iter()
        .find(|placed| [&both, &now, &then].into_iter().all(|held| world.admits(held, &leaving, placed, Sure::Surely)))
}

pub fn leaving(world: &World) -> Vec<usize> {
    (0..world.pods.len()).filter(|index| world.pods[*index].leaving).collect()
}

/// A set that surely may go, after which the claimant surely runs, and that is better than `taken`.
pub fn better_set(world: &World, claimant: &Claimant, taken: Option<&[usize]>) -> Option<Found> {
    if let Some(taken) = taken
        && !taken.is_empty()
        && let Some(placed) = room_then(world, claimant)
    {
        return Some(Found { victims: Vec::new(), placed });
    }
    for (asks, ways) in ways_by_request(world, claimant) {
        let rights = Rights::new(world, claimant, asks);
        let rank = taken.map(|taken| rank_of_taken(&rights, taken));
        let cost = taken.map(|taken| Cost::of(world, &rights.asks, taken));
        let staying: Vec<usize> = world.held_staying().into_keys().collect();
        let mut bases: BTreeMap<Base, Vec<usize>> = BTreeMap::new();
        for victim in staying {
            for base in rights.bases(victim, Sure::Surely) {
                bases.entry(base).or_default().push(victim);
            }
        }
        for (base, candidates) in bases {
            // "A claimant within its entitlement takes from others first."
            let own = usize::from(matches!(base, Base::Own(_) | Base::NoQuota));
            if rank.is_some_and(|rank| own > rank) {
                continue;
            }
            let cheaper = |victims: &[usize]| match (rank, &cost) {
                (Some(rank), Some(cost)) if own == rank => Cost::of(world, &rights.asks, victims).surely_less(cost),
                _ => true,
            };
            let sets = sets_of(&candidates, taken.unwrap_or_default());
            if let Some(found) = first_set(&rights, &ways, base, &sets, &cheaper) {
                return Some(found);
            }
        }
    }
    None
}

/// 0 if all that was taken can be taken from others, 1 if some of it is the claimant's own.
fn rank_of_taken(rights: &Rights<'_>, taken: &[usize]) -> usize {
    let from_others: BTreeSet<Base> = rights.reclaims(Sure::Perhaps).into_iter().chain([Base::NoQuota]).collect();
    let no_choice = rights.reclaims(Sure::Perhaps).is_empty();
    usize::from(no_choice || !rights.permits(taken, &from_others, Sure::Perhaps))
}

/// All sets of candidates. Where they are too many, those of one and of two, and those that are nearly what was
/// taken.
fn sets_of(candidates: &[usize], taken: &[usize]) -> Vec<Vec<usize>> {
    if candidates.len() <= CANDIDATES_MAX {
        let chosen = |mask: usize| {
            let of_mask = candidates.iter().enumerate().filter(|(bit, _)| mask & (1 << bit) != 0);
            of_mask.map(|(_, pod)| *pod).collect()
        };
        return (1_usize..1 << candidates.len()).map(chosen).collect();
    }
    let mut sets: Vec<Vec<usize>> = combinations(candidates, 1);
    sets.extend(combinations(candidates, 2));
    for spared in taken {
        let rest: Vec<usize> = taken.iter().copied().filter(|pod| pod != spared).collect();
        let others = candidates.iter().filter(|pod| !taken.contains(pod));
        sets.extend(others.map(|other| rest.iter().copied().chain([*other]).collect()));
        sets.push(rest);
    }
    sets.retain(|set| !set.is_empty());
    sets
}

fn first_set(
    rights: &Rights<'_>,
    ways: &[Placed],
    base: Base,
    sets: &[Vec<usize>],
    cheaper: &dyn Fn(&[usize]) -> bool,
) -> Option<Found> {
    let world = rights.world;
    let bases: BTreeSet<Base> = [base].into();
    let mut leaving = leaving(world);
    let already = leaving.len();
    for victims in sets {
        if !cheaper(victims) || !rights.permits(victims, &bases, Sure::Surely) {
            continue;
        }
        let mut after = world.held_then(&rights.claimant.pods);
        after.retain(|pod, _| !victims.contains(pod));
        leaving.truncate(already);
        leaving.extend(victims);
        let placed = ways.iter().find(|placed| world.admits(&after, &leaving, placed, Sure::Surely));
        if let Some(placed) = placed
            && !may_come_back(world, rights.claimant, placed, victims)
        {
            return Some(Found { victims: victims.clone(), placed: placed.clone() });
        }
    }
    None
}

/// Whether a victim, made anew, could perhaps take the claimant's place in turn, itself or by way of others: "Where
/// the cheapest set could come back, the next set is tried."
pub fn may_come_back(world: &World, claimant: &Claimant, placed: &[(usize, usize)], victims: &[usize]) -> bool {
    let mut after = world.clone();
    for victim in victims {
        after.pods[*victim].node = None;
    }
    for (pod, node) in placed {
        after.pods[*pod].node = Some(*node);
    }
    let mut reached: Vec<usize> = victims.to_vec();
    let mut next = 0;
    while next < reached.len() {
        let from = reached[next];
        next += 1;
        for pod in 0..after.pods.len() {
            if reached.contains(&pod) || !after.pods[pod].holds() || !may_take(&after, from, pod) {
                continue;
            }
            if claimant.pods.contains(&pod) {
                return true;
            }
            reached.push(pod);
        }
    }
    false
}

/// Whether a pod, were it pending, would perhaps have a right to take another, with the rest of its gang.
pub fn may_take(world: &World, claimant: usize, victim: usize) -> bool {
    let whole: Vec<usize> = match world.pods[victim].gang {
        Some(gang) => world.running_members(gang),
        None => vec![victim],
    };
    may_take_one_of(world, claimant, &[vec![victim], whole])
}

/// Whether a pod, were it pending, would perhaps have a right to take one of these sets.
fn may_take_one_of(world: &World, claimant: usize, sets: &[Vec<usize>]) -> bool {
    let mut world = world.clone();
    world.pods[claimant].node = None;
    let Some(claimant) = Claimant::of(&world, claimant) else { return false };
    let ways = ways_by_request(&world, &claimant);
    ways.keys().any(|asks| {
        let rights = Rights::new(&world, &claimant, asks.clone());
        sets.iter().any(|victims| {
            let bases: BTreeSet<Base> =
                victims.iter().flat_map(|victim| rights.bases(*victim, Sure::Perhaps)).collect();
            rights.permits(victims, &bases, Sure::Perhaps)
        })
    })
}

/// Pods that leave already, where the claimant cannot run until they too are gone.
pub fn relies_on(world: &World, claimant: &Claimant, victims: &[usize]) -> Vec<usize> {
    let gone = leaving(world);
    let mut after = world.held_now();
    after.retain(|pod, _| !victims.contains(pod));
    let runs = world.ways(claimant).iter().any(|placed| world.admits(&after, &gone, placed, Sure::Perhaps));
    if runs { Vec::new() } else { gone }
}

/// "Who is kept out by its own ceiling, a closed or missing queue or quota gets none": a claim that will be admitted.
pub fn real_claim(world: &World, holder: usize) -> bool {
    let (Some(node), false) = (world.pods[holder].claim, world.pods[holder].unmodelled) else { return false };
    let then = world.held_then(&[holder]);
    world.passed_ceiling(&then, &leaving(world), &[(holder, node)], Sure::Perhaps).is_none()
}

/// "Only one who may evict its holder once it runs takes it over", and "the minimum of a gang counts as one pod": what
/// is kept for a gang that does not run is taken over whole.
pub fn may_take_claim(world: &World, pod: usize, holder: usize) -> bool {
    let mut then = world.clone();
    then.pods[holder].node = then.pods[holder].claim.or(Some(0));
    let gang = world.pods[holder].gang.filter(|gang| world.running_members(*gang).is_empty());
    let Some(gang) = gang else { return may_take(&then, pod, holder) };
    let is_kept = |other: &usize| {
        let pod = &world.pods[*other];
        pod.gang == Some(gang) && pod.pending() && (pod.claim.is_some() || *other == holder)
    };
    let together: Vec<usize> = (0..world.pods.len()).filter(is_kept).collect();
    for member in &together {
        then.pods[*member].node = then.pods[*member].claim.or(Some(0));
    }
    may_take_one_of(&then, pod, &[together])
}
