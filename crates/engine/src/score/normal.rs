//! Raw values made comparable: a full score for the best of the nodes that pass.

use crate::score::FULL;

/// Fewer is better, and none is full.
pub(crate) fn fewer_is_better(raw: i64, largest: i64) -> i64 {
    if largest == 0 { FULL } else { FULL - scaled(raw, largest) }
}

/// More is better, and the most is full.
pub(crate) fn more_is_better(raw: i64, largest: i64) -> i64 {
    if largest == 0 { 0 } else { scaled(raw, largest) }
}

/// From the least (none) to the most (full).
pub(crate) fn between(raw: i64, least: i64, most: i64) -> i64 {
    if most == least { 0 } else { scaled(raw - least, most - least) }
}

/// The emptier the better; the least is full where it is 0 itself.
pub(crate) fn even(raw: i64, least: i64, most: i64) -> i64 {
    if most == 0 { FULL } else { scaled(most + least - raw, most) }
}

fn scaled(part: i64, whole: i64) -> i64 {
    match part.checked_mul(FULL) {
        Some(product) => product / whole,
        None => (i128::from(part) * i128::from(FULL) / i128::from(whole)) as i64,
    }
}
