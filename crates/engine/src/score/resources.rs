//! Least allocated and balanced: spread the load, and use cpu and memory alike.

use crate::fact::Amount;
use crate::score::FULL;
use crate::score::points::{Whole, divided};

/// The load of a node as these scores see it, (cpu, memory) each.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Load {
    whole: [Whole; 2],
    allocatable: [Amount; 2],
    /// What is free where a container without a request counts a little; never below 0.
    spare: [Amount; 2],
    /// Held and reserved, by true requests; never more than there is.
    used: [Amount; 2],
}

/// The size of a pod as these scores see it, (cpu, memory) each; never below 0.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Size {
    pub request: [Amount; 2],
    pub assumed: [Amount; 2],
}

/// How many figures tell how alike the loads of two nodes are.
pub(crate) const COORDINATES: usize = 4;
pub(crate) type Coordinates = [i64; COORDINATES];

/// What the loads of some nodes have in common: bounds of all that their points are made of.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Bounds {
    /// The least and the most that a node has, (cpu, memory).
    least: [(Amount, Whole); 2],
    most: [(Amount, Whole); 2],
    /// The largest share that is spare.
    spare: [i64; 2],
    /// How much larger the used share of cpu is than that of memory: at least, and at most.
    gap: (i64, i64),
    has_some: bool,
    /// A node is among them that has neither cpu nor memory, or whose amounts are unusual.
    has_bare: bool,
    has_unusual: bool,
}

impl Bounds {
    /// Takes in one more node.
    pub fn include(&mut self, load: &Load) {
        if !(load.whole[0].has_shares() && load.whole[1].has_shares()) {
            self.has_bare |= load.allocatable == [0; 2];
            self.has_unusual |= load.allocatable != [0; 2];
            return;
        }
        let [_, _, _, gap] = load.coordinates();
        let spare = [0, 1].map(|r| load.whole[r].share(load.spare[r]));
        let whole = [0, 1].map(|r| (load.allocatable[r], load.whole[r]));
        if !self.has_some {
            *self = Bounds { least: whole, most: whole, spare, gap: (gap, gap), has_some: true, ..*self };
            return;
        }
        for r in 0..2 {
            self.spare[r] = self.spare[r].max(spare[r]);
            if whole[r].0 < self.least[r].0 {
                self.least[r] = whole[r];
            }
            if whole[r].0 > self.most[r].0 {
                self.most[r] = whole[r];
            }
        }
        self.gap = (self.gap.0.min(gap), self.gap.1.max(gap));
    }

    /// No node among them on which a pod of this size fits has more points for it.
    pub fn most(&self, size: &Size) -> i64 {
        if self.has_unusual {
            return i64::MAX;
        }
        // Where there is neither cpu nor memory, nothing is spare and both are used alike.
        let of_bare = if self.has_bare { FULL } else { 0 };
        if !self.has_some {
            return of_bare;
        }
        // A part is at least this share of any node here, and at most that share of one that it fits on.
        let share = |(all, whole): (Amount, Whole), part: Amount| whole.share(part.clamp(0, all));
        // Rounding down takes less than one point from every share.
        let spare = |r: usize| (self.spare[r] - share(self.most[r], size.assumed[r]) + 1).max(0);
        let added = |r: usize| (share(self.most[r], size.request[r]), share(self.least[r], size.request[r]) + 1);
        let (cpu, memory) = (added(0), added(1));
        let (low, high) = (self.gap.0 + cpu.0 - memory.1, self.gap.1 + cpu.1 - memory.0);
        ((spare(0) + spare(1)) / 2 + FULL - low.max(-high).max(0) / 2).max(of_bare)
    }
}

impl Load {
    /// What the load is like: nodes that are near to each other by these are near in their points for any pod.
    pub fn coordinates(&self) -> Coordinates {
        let share = |r: usize, part: Amount| if self.whole[r].has_shares() { self.whole[r].share(part) } else { 0 };
        let spare = share(0, self.spare[0]) + share(1, self.spare[1]);
        // Sizes matter by their logarithm: twice as much is as far from it as half as much.
        let size = |r: usize| i64::from(self.allocatable[r].max(1).ilog2()) * FULL;
        [size(0), size(1), spare, share(0, self.used[0]) - share(1, self.used[1])]
    }

    /// Takes in what a node has, what is held and reserved of it, and the same with a little for each container
    /// without a request.
    pub fn set(&mut self, allocatable: [Amount; 2], used: [i128; 2], assumed: [i128; 2]) {
        // What a node has seldom changes, and a new whole costs a division.
        if self.allocatable != allocatable {
            self.allocatable = allocatable;
            self.whole = allocatable.map(Whole::new);
        }
        for r in 0..2 {
            let all = i128::from(allocatable[r].max(0));
            self.spare[r] = (all - assumed[r]).clamp(0, all) as Amount;
            self.used[r] = used[r].clamp(0, all) as Amount;
        }
    }

    /// The points of both scores for a pod that fits.
    // It runs once for each node that fits each pod. Whether the compiler inlines it by itself changes with code far
    // away, and is worth 4 % of all instructions of a cycle.
    #[inline(always)]
    pub fn points(&self, size: &Size) -> i64 {
        if !(self.whole[0].has_shares() && self.whole[1].has_shares()) {
            return self.points_by_division(size);
        }
        let spare = |r: usize| self.whole[r].share((self.spare[r] - size.assumed[r]).max(0));
        // Since it fits there is no more used than there is; where it asks for nothing, nothing is added.
        let used = |r: usize| self.whole[r].share(self.used[r] + size.request[r]);
        (spare(0) + spare(1)) / 2 + FULL - (used(0) - used(1)).abs() / 2
    }

    fn points_by_division(&self, size: &Size) -> i64 {
        let share = |r: usize, part: Amount| match self.allocatable[r] {
            all if all > 0 => divided(part.clamp(0, all), all),
            _ => 0,
        };
        let spare = |r: usize| share(r, self.spare[r] - size.assumed[r]);
        let used = |r: usize| share(r, self.used[r].saturating_add(size.request[r]));
        let balanced = match self.allocatable.iter().all(|all| *all > 0) {
            true => FULL - (used(0) - used(1)).abs() / 2,
            false => FULL,
        };
        (spare(0) + spare(1)) / 2 + balanced
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn load() -> impl Strategy<Value = Load> {
        let amount = || prop_oneof![4 => 2i64..1 << 38, 2 => 1000i64..130_000, 1 => 0i64..3];
        ((amount(), amount()), (0.0..1.1f64, 0.0..1.1f64), (0.0..1.2f64, 0.0..1.2f64)).prop_map(
            |(all, used, assumed)| {
                let part = |all: i64, share: f64| (all as f64 * share) as i128;
                let mut load = Load::default();
                let (cpu, memory) = all;
                load.set(
                    [cpu, memory],
                    [part(cpu, used.0), part(memory, used.1)],
                    [part(cpu, assumed.0), part(memory, assumed.1)],
                );
                load
            },
        )
    }

    proptest! {
        /// No node on which a pod fits has more points than the bounds of its block say.
        #[test]
        fn bounds_hold(
            loads in proptest::collection::vec(load(), 1..8),
            request in (0i64..1 << 37, 0i64..1 << 37, 0u32..38),
            little in (0i64..200, 0i64..1 << 28),
        ) {
            let (cpu, memory, shift) = request;
            let request = [cpu >> shift, memory >> shift];
            let size = Size { request, assumed: [request[0].max(little.0), request[1].max(little.1)] };
            let mut bounds = Bounds::default();
            loads.iter().for_each(|load| bounds.include(load));
            let has_room = |load: &Load, r: usize| request[r] == 0 || load.used[r] + request[r] <= load.allocatable[r];
            let fits = |load: &&Load| (0..2).all(|r| has_room(load, r));
            for load in loads.iter().filter(fits) {
                prop_assert!(bounds.most(&size) >= load.points(&size), "{bounds:?} {load:?} {size:?}");
            }
        }
    }
}
