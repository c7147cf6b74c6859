//! Least allocated and balanced: spread the load, and use cpu and memory alike.

use crate::fact::Amount;
use crate::nodes::Load;
use crate::score::FULL;
use crate::score::points::share;

/// The points of both scores for a pod of this size on a node with this load.
pub(crate) fn points(load: &Load, request: [Amount; 2], assumed: [Amount; 2]) -> i64 {
    least_allocated(load, assumed) + balanced(load, request)
}

fn least_allocated(load: &Load, assumed: [Amount; 2]) -> i64 {
    let free = |r: usize| {
        let allocatable = load.allocatable[r];
        if allocatable <= 0 {
            return 0;
        }
        let free = allocatable.saturating_sub(load.assumed[r]).saturating_sub(assumed[r]);
        share(free.max(0), allocatable)
    };
    (free(0) + free(1)) / 2
}

fn balanced(load: &Load, request: [Amount; 2]) -> i64 {
    if load.allocatable.iter().any(|allocatable| *allocatable <= 0) {
        return FULL;
    }
    let used = |r: usize| {
        let used = load.used[r].saturating_add(request[r]);
        share(used.clamp(0, load.allocatable[r]), load.allocatable[r])
    };
    FULL - (used(0) - used(1)).abs() / 2
}
