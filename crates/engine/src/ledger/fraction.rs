//! Products divided, without losing a bit.

/// ⌊a × b / c⌋ for a, b ≥ 0 and c > 0, whatever the size of the product. The result must fit.
pub(crate) fn mul_div(a: i128, b: i128, c: i128) -> i128 {
    debug_assert!(a >= 0 && b >= 0 && c > 0);
    if let Some(product) = a.checked_mul(b) {
        return product / c;
    }
    // Long multiplication with the division done bit by bit: what is carried stays below 2c + a, far within 128 bits
    // for amounts that are sums of 64-bit ones.
    let (mut quotient, mut rest) = (0i128, 0i128);
    for bit in (0..127 - b.leading_zeros().saturating_sub(1)).rev() {
        quotient <<= 1;
        rest <<= 1;
        if b >> bit & 1 == 1 {
            rest += a;
        }
        quotient += rest / c;
        rest %= c;
    }
    quotient
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn divides_exactly(a in 0i128..1 << 80, b in 0i128..1 << 80, c in 1i128..1 << 80) {
            let quotient = mul_div(a, b, c);
            // Checked against the definition modulo 2^127: quotient·c ≤ a·b < (quotient + 1)·c, the difference being
            // below c.
            let difference = a.wrapping_mul(b).wrapping_sub(quotient.wrapping_mul(c));
            prop_assert!((0..c).contains(&difference));
        }
    }
}
