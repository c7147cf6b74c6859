//! Exact fractions of a full score, fast enough to be taken of every node.

use crate::score::FULL;

/// Something of which shares are taken again and again.
///
/// Division is the slowest thing that a look at many nodes does, so it is done once: a share is then a multiplication
/// and a shift, and exact all the same.
///
/// With d the amount, of b bits, let k ≥ 2b + 17 and m = ⌊2^k / d⌋ + 1, so that m × d = 2^k + e with 0 < e ≤ d. For
/// n = part × FULL ≤ d × FULL we have n × m / 2^k = n / d + n × e / (d × 2^k), and n × e ≤ d² × FULL < 2^k, so that
/// the second term is less than 1 / d and rounding down gives ⌊n / d⌋. With k ≥ 64 and b from 2 to 45, m fits into 64
/// bits and n into 63.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Whole {
    /// m, or 0 for an amount that is not of 2 to 45 bits.
    factor: u64,
    /// k - 64.
    shift: u8,
}

impl Whole {
    pub fn new(amount: i64) -> Self {
        let bits = if amount > 0 { amount.ilog2() + 1 } else { 0 };
        if !(2..=45).contains(&bits) {
            return Whole::default();
        }
        let k = (2 * bits + 17).max(64);
        Whole { factor: ((1u128 << k) / amount as u128 + 1) as u64, shift: (k - 64) as u8 }
    }

    /// Whether [`Whole::share`] can be asked.
    #[inline]
    pub fn has_shares(self) -> bool {
        self.factor != 0
    }

    /// ⌊part × 100,000 / whole⌋ for 0 ≤ part ≤ whole.
    #[inline]
    pub fn share(self, part: i64) -> i64 {
        let product = u128::from((part * FULL) as u64) * u128::from(self.factor);
        ((product >> 64) as u64 >> self.shift) as i64
    }
}

/// ⌊part × 100,000 / whole⌋ for 0 ≤ part ≤ whole and whole > 0, by division.
pub(crate) fn divided(part: i64, whole: i64) -> i64 {
    (i128::from(part) * i128::from(FULL) / i128::from(whole)) as i64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(whole: i64, part: i64) -> Result<(), TestCaseError> {
        prop_assert!(Whole::new(whole).has_shares());
        prop_assert_eq!(Whole::new(whole).share(part), divided(part, whole), "{} of {}", part, whole);
        Ok(())
    }

    proptest! {
        #[test]
        fn shares_are_exact(whole in 2i64..1 << 45, shift in 0u32..44, fraction in 0u64..=u64::MAX) {
            let whole = (whole >> shift).max(2);
            check(whole, ((i128::from(whole) * i128::from(fraction)) >> 64) as i64)?;
            check(whole, whole)?;
        }

        /// Where the fraction is a whole number, or just below one, rounding would show first.
        #[test]
        fn shares_are_exact_where_it_is_close(whole in 2i64..1 << 45, shift in 0u32..44, points in 0i64..=FULL) {
            let whole = (whole >> shift).max(2);
            let part = (i128::from(whole) * i128::from(points) / i128::from(FULL)) as i64;
            check(whole, part)?;
            check(whole, (part + 1).min(whole))?;
        }
    }

    #[test]
    fn only_usual_amounts_have_shares() {
        for amount in [i64::MIN, -1, 0, 1, 1 << 45, i64::MAX] {
            assert!(!Whole::new(amount).has_shares(), "{amount}");
        }
        for amount in [2, 3, (1 << 45) - 1] {
            for part in [0, 1, amount / 2, amount - 1, amount] {
                check(amount, part).expect("a share is exact");
            }
        }
    }
}
