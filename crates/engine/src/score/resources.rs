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
    /// Held and claimed, by true requests; never more than there is.
    used: [Amount; 2],
}

/// The size of a pod as these scores see it, (cpu, memory) each; never below 0.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Size {
    pub request: [Amount; 2],
    pub assumed: [Amount; 2],
}

impl Load {
    /// Takes in what a node has, what is held and claimed of it, and the same with a little for each container
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
