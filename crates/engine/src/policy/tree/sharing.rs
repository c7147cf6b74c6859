//! Runtime quota: what the quotas below one parent may hold of one resource now.
//!
//! Each has its min first, as far as it asks for it (or keeps it, if it does not lend). What is left goes to those who
//! ask for more, by weight, in rounds: who gets more than it asks for gives back, until nothing is left or nobody asks.
//! All in whole units, so that nothing is lost to rounding: the residue of a round goes, a unit each, to the largest
//! remainders, and among equals to the first by name.

use crate::ledger::fraction::mul_div;

/// What one quota brings to the sharing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sharer {
    pub min: i128,
    /// What it asks for, within its max.
    pub request: i128,
    pub weight: i128,
    /// What it does not ask for of its min, others may have.
    pub lends: bool,
}

/// What each may hold of `total`, in the order in which they are given, which decides among equals. With `scale_min`
/// mins that add up to more than there is shrink in proportion.
pub(crate) fn share_out(total: i128, sharers: &[Sharer], scale_min: bool) -> Vec<i128> {
    let total = total.max(0);
    let mins: i128 = sharers.iter().map(|s| s.min).sum();
    let scaled = |min: i128| if scale_min && mins > total { mul_div(min, total, mins) } else { min };
    let mut got: Vec<i128> = sharers
        .iter()
        .map(|s| match (scaled(s.min), s.lends) {
            (min, true) => min.min(s.request),
            (min, false) => min,
        })
        .collect();
    let mut left = total - got.iter().sum::<i128>();
    let mut hungry: Vec<usize> =
        (0..sharers.len()).filter(|i| sharers[*i].request > got[*i] && sharers[*i].weight > 0).collect();
    while left > 0 && !hungry.is_empty() {
        let weights: i128 = hungry.iter().map(|i| sharers[*i].weight).sum();
        let shares = apportion(left, weights, hungry.iter().map(|i| sharers[*i].weight));
        for (i, share) in hungry.iter().zip(shares) {
            let taken = share.min(sharers[*i].request - got[*i]);
            got[*i] += taken;
            left -= taken;
        }
        hungry.retain(|i| sharers[*i].request > got[*i]);
    }
    got
}

/// Whole parts of `left` in proportion to the weights, which add up to it.
fn apportion(left: i128, weights: i128, each: impl Iterator<Item = i128>) -> Vec<i128> {
    let mut remainders = Vec::new();
    let mut shares: Vec<i128> = Vec::new();
    for (at, weight) in each.enumerate() {
        let share = mul_div(weight, left, weights);
        shares.push(share);
        // weight·left − share·weights, which is below `weights`, whatever the size of the products.
        let remainder = weight.wrapping_mul(left).wrapping_sub(share.wrapping_mul(weights));
        remainders.push((std::cmp::Reverse(remainder), at));
    }
    remainders.sort_unstable();
    let residue = left - shares.iter().sum::<i128>();
    // There are fewer units than sharers, since each lost less than one.
    for (_, at) in remainders.into_iter().take(usize::try_from(residue).unwrap_or(0)) {
        shares[at] += 1;
    }
    shares
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sharer((weight, request, min): (i128, i128, i128)) -> Sharer {
        Sharer { min, request, weight, lends: true }
    }

    fn shared(total: i128, sharers: &[(i128, i128, i128)]) -> Vec<i128> {
        share_out(total, &sharers.iter().copied().map(sharer).collect::<Vec<_>>(), true)
    }

    #[test]
    fn by_weight() {
        assert_eq!(shared(100, &[(40, 5, 10), (60, 20, 15), (50, 40, 20), (80, 70, 15)]), [5, 20, 35, 40]);
        let milli = [(40, 5_000, 10_000), (60, 20_000, 15_000), (50, 40_000, 20_000), (80, 70_000, 15_000)];
        assert_eq!(shared(100_000, &milli), [5_000, 20_000, 35_385, 39_615]);
    }

    #[test]
    fn weight_zero_never_borrows() {
        assert_eq!(shared(100, &[(40, 5, 10), (60, 20, 15), (50, 40, 20), (0, 70, 15)]), [5, 20, 40, 15]);
    }

    #[test]
    fn lending() {
        let t1 = |request| (1, request, 60);
        assert_eq!(shared(100, &[t1(0), (1, 90, 50)]), [0, 90]);
        assert_eq!(shared(100, &[t1(30), (1, 90, 50)]), [30, 70]);
        let both = [sharer((1, 60_000, 60_000)), sharer((1, 90_000, 50_000))];
        assert_eq!(share_out(100_000, &both, true), [54_546, 45_454]);
        assert_eq!(share_out(100_000, &both, false), [60_000, 50_000]);
        let keeps = Sharer { min: 40, request: 0, weight: 96, lends: false };
        assert_eq!(share_out(100, &[sharer((96, 96, 60)), keeps], true), [60, 40]);
    }

    #[test]
    fn scaled_mins() {
        let each = (200_000, 200_000, 100_000);
        assert_eq!(shared(200_000, &[each, each, each]), [66_667, 66_667, 66_666]);
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            rng_seed: proptest::test_runner::RngSeed::Fixed(1),
            ..ProptestConfig::default()
        })]

        /// Nothing is given twice, nobody gets more than it may have, and nothing lies idle that somebody could have.
        #[test]
        fn shares_fairly(
            total in 0i128..1_000,
            all in prop::collection::vec((0i128..300, 0i128..300, 0i128..50, any::<bool>()), 0..8),
        ) {
            let sharers: Vec<Sharer> = all
                .iter()
                .map(|(request, min, weight, lends)| (*request, *min, *weight, *lends))
                .map(|(request, min, weight, lends)| Sharer { min, request, weight, lends })
                .collect();
            let got = share_out(total, &sharers, true);
            prop_assert!(got.iter().sum::<i128>() <= total);
            let idle = total - got.iter().sum::<i128>();
            for (s, got) in sharers.iter().zip(&got) {
                let most = if s.lends { s.request } else { s.request.max(s.min) };
                prop_assert!(*got <= most);
                prop_assert!(idle == 0 || s.weight == 0 || *got >= s.request, "{s:?} got {got} while {idle} lie idle");
            }
        }
    }
}
