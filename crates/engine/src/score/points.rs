//! Exact fractions of a full score, fast enough to be taken of every node.

use crate::score::FULL;

/// ⌊part × 100,000 / whole⌋ for 0 ≤ part ≤ whole and whole > 0.
///
/// Division of integers is the slowest thing a scan does. So the quotient is guessed in floating point,
/// which is off by at most one here, and then made exact in integers: the answer never depends on rounding.
pub(crate) fn share(part: i64, whole: i64) -> i64 {
    debug_assert!(0 <= part && part <= whole && whole > 0);
    let guess = (part as f64 * FULL as f64 / whole as f64) as i64;
    if let Some(scaled) = part.checked_mul(FULL) {
        // The common case: amounts below 92 T, whose products fit. The guess is off by one at most.
        let rest = scaled - guess * whole;
        return guess - i64::from(rest < 0) + i64::from(rest >= whole);
    }
    let scaled = i128::from(part) * i128::from(FULL);
    let mut exact = guess;
    while i128::from(exact) * i128::from(whole) > scaled {
        exact -= 1;
    }
    while (i128::from(exact) + 1) * i128::from(whole) <= scaled {
        exact += 1;
    }
    exact
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn equals_integer_division(whole in 1i64..=i64::MAX, fraction in 0u64..=u64::MAX) {
            let part = ((i128::from(whole) * i128::from(fraction)) >> 64) as i64;
            let exact = (i128::from(part) * i128::from(FULL) / i128::from(whole)) as i64;
            prop_assert_eq!(share(part, whole), exact);
        }

        #[test]
        fn equals_integer_division_of_small_numbers(whole in 1i64..2_000, part in 0i64..2_000) {
            prop_assume!(part <= whole);
            prop_assert_eq!(share(part, whole), part * FULL / whole);
        }
    }
}
