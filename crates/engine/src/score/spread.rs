//! How much a domain weighs that already has some of the pods to be spread.

/// ⌊1024 × ln x⌋ for x ≥ 1, in integers, so that every machine says the same.
pub(crate) fn ln1024(x: u64) -> i64 {
    debug_assert!(x >= 1);
    // log2 by repeated squaring: 32 binary digits behind the point are far more than 10 digits of the result need.
    let whole = x.ilog2();
    let mut mantissa: u128 = (u128::from(x) << 63) >> whole;
    let mut log2: u128 = u128::from(whole) << 32;
    for bit in (0..32).rev() {
        mantissa = (mantissa * mantissa) >> 63;
        if mantissa >> 64 != 0 {
            mantissa >>= 1;
            log2 |= 1 << bit;
        }
    }
    // ln 2 in 1/2^32, rounded down.
    const LN2: u128 = 2_977_044_471;
    ((log2 * LN2 * 1024) >> 64) as i64
}

/// What `count` pods in a domain weigh, where the key has so many values that their number and two more have the
/// logarithm `ln1024`, and a skew of `max_skew` is borne.
pub(crate) fn raw(count: i64, ln1024: i64, max_skew: u32) -> i64 {
    let weighed = i128::from(count) * i128::from(ln1024) * 1000 / 1024;
    weighed as i64 + (i64::from(max_skew) - 1) * 1000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logarithms() {
        for x in 1..5_000u64 {
            let exact = (x as f64).ln() * 1024.0;
            // The guess in floating point is good to far more than the one unit allowed for here.
            assert!((ln1024(x) as f64 - exact.floor()).abs() <= 1.0, "{x}: {} {exact}", ln1024(x));
        }
        assert_eq!((ln1024(1), ln1024(2), ln1024(3), ln1024(5)), (0, 709, 1124, 1648));
    }
}
